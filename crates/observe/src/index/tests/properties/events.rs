//! What happens on the hub, and what the replica hears of it.

use super::hub::Told;
use super::*;

#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A cluster is registered: which, what it runs, and its ID.
    Register(usize, usize, usize),
    /// A cluster is deleted, and its namespace stays, is being deleted, or is deleted.
    Detach(usize, usize),
    Claim(usize, usize),
    Update(usize),
    /// A work is created by the replica or by an earlier leader.
    Create(Place, usize, bool),
    Report(Place, Told),
    TakeOver(Place),
    Spoil(Place),
    /// A work is deleted by somebody, or waits for its agent to let go of it.
    End(Place, bool),
    /// The replica deletes a work, which waits for its agent or does not. The answer is lost or not.
    Delete(Place, bool, bool),
    Read(Place),
    Answer(usize),
    Hear(usize, usize),
    ListClusters,
    BeginList,
    EndList,
    /// The hub says that a cluster has no namespace.
    NoNamespace(usize),
    /// An upgrade drops a cluster.
    Drop(usize, usize),
    Row(usize),
    Restart(i64),
    Wait(i64),
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    let at = || prop_oneof![5 => Just(0_usize), 1 => Just(1)];
    let place = || (at(), prop_oneof![4 => Just(1_usize), 1 => 0..5_usize]);
    let told = prop_oneof![
        1 => Just(Told::Nothing),
        2 => Just(Told::Running),
        1 => Just(Told::Failing),
        4 => Just(Told::Done),
        1 => Just(Told::Stale),
    ];
    prop_oneof![
        2 => (at(), 0..5_usize, 0..3_usize).prop_map(|(at, runs, id)| Event::Register(at, runs, id)),
        1 => (at(), 0..3_usize).prop_map(|(at, how)| Event::Detach(at, how)),
        3 => (at(), 0..5_usize).prop_map(|(at, how)| Event::Claim(at, how)),
        3 => at().prop_map(Event::Update),
        4 => (place(), 0..2_usize, any::<bool>()).prop_map(|(place, of, own)| Event::Create(place, of, own)),
        5 => (place(), told).prop_map(|(place, told)| Event::Report(place, told)),
        1 => place().prop_map(Event::TakeOver),
        1 => place().prop_map(Event::Spoil),
        2 => (place(), any::<bool>()).prop_map(|(place, waits)| Event::End(place, waits)),
        2 => (place(), any::<bool>(), any::<bool>()).prop_map(|(place, waits, lost)| Event::Delete(place, waits, lost)),
        2 => place().prop_map(Event::Read),
        3 => at().prop_map(Event::Answer),
        8 => (0..2_usize, prop_oneof![2 => Just(1_usize), 1 => 2..9_usize]).prop_map(|(kind, count)| Event::Hear(kind, count)),
        1 => Just(Event::ListClusters),
        1 => Just(Event::BeginList),
        2 => Just(Event::EndList),
        1 => at().prop_map(Event::NoNamespace),
        1 => (at(), 0..2_usize).prop_map(|(at, of)| Event::Drop(at, of)),
        2 => at().prop_map(Event::Row),
        1 => (-20..20_i64).prop_map(Event::Restart),
        3 => prop_oneof![Just(1_i64), Just(30), Just(200), Just(1200)].prop_map(Event::Wait),
    ]
}

impl World {
    pub(super) fn apply(&mut self, event: &Event) {
        // Two things do not happen in the same second.
        self.hub.now += TimeDelta::seconds(1);
        match *event {
            Event::Register(at, runs, id) => self.hub.register(at, runs, id),
            Event::Detach(at, how) => self.hub.detach(at, how),
            Event::Claim(at, how) => self.hub.claim(at, how),
            Event::Update(at) => self.hub.update(at),
            Event::Create(place, upgrade, is_own) => {
                if self.hub.create(place, upgrade) && is_own {
                    self.answered(place);
                }
            }
            Event::Report(place, told) => self.hub.report(place, told),
            Event::TakeOver(place) => {
                // Such a change names the version at which the work is known, and the hub refuses it at any other. What an earlier
                // leader has sent names one that every list since then has shown.
                let work = self.hub.works.get(&place);
                let is_known = work.is_some_and(|work| self.index.version_of(work) == version_of(work));
                if is_known && self.hub.take_over(place) {
                    self.answered(place);
                }
            }
            Event::Spoil(place) => self.hub.spoil(place),
            Event::End(place, waits) => self.hub.end(place, waits),
            Event::Delete(place, waits, is_lost) => self.delete(place, waits, is_lost),
            Event::Read(place) => self.read(place),
            Event::Answer(at) => self.answer(at),
            Event::Hear(kind, count) => self.hear(kind, count),
            Event::ListClusters => self.list_clusters(),
            Event::BeginList => self.begin_list(),
            Event::EndList => self.end_list(),
            Event::NoNamespace(at) => {
                if self.hub.has_no_namespace(at) {
                    self.forget(at);
                    self.index.lose_namespace(NAMES[at]);
                }
            }
            Event::Drop(at, of) => self.index.forget_vanished(NAMES[at], UPGRADES[of]),
            Event::Row(at) => self.note_row(at),
            Event::Restart(ahead) => self.restart(ahead),
            Event::Wait(seconds) => self.hub.now += TimeDelta::seconds(seconds),
        }
    }
}
