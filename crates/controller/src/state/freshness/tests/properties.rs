//! Random terms, lists and outages of watches.

use proptest::prelude::*;

use super::*;

const WATCHED: [WatchKind; 4] = [Cluster, Work, WatchKind::Upgrade, Approval];

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A list is requested or, if it was, has arrived and is being watched.
    Step(usize),
    /// A list or watch fails.
    Lost(usize, bool),
    BeginTerm,
    EndTerm,
    /// The loop looks whether the view is open.
    Look,
    Discard,
}

/// Where the watch of a kind is.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    generation: u64,
    /// When its list was requested.
    requested: Option<usize>,
    /// Since when it is watched from that list on.
    watched: Option<usize>,
}

struct World {
    freshness: Freshness,
    sources: [Source; 4],
    now: usize,
    leads: bool,
    began: usize,
    /// When a watch has broken last that shows an outage.
    outage: usize,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (0..4_usize).prop_map(Event::Step),
        2 => (0..4_usize, any::<bool>()).prop_map(|(kind, outage)| Event::Lost(kind, outage)),
        1 => Just(Event::BeginTerm),
        1 => Just(Event::EndTerm),
        4 => Just(Event::Look),
        1 => Just(Event::Discard),
    ]
}

impl World {
    fn new() -> World {
        World {
            freshness: Freshness::new(&WATCHED[..3]),
            sources: Default::default(),
            now: 1,
            leads: false,
            began: 0,
            outage: 0,
        }
    }

    /// Whoever lists or watches for another view begins anew.
    fn see(&mut self) {
        let wanted = self.freshness.wanted().get();
        for source in &mut self.sources {
            if source.generation != wanted {
                *source = Source {
                    generation: wanted,
                    ..Source::default()
                };
            }
        }
    }

    fn step(&mut self, kind: usize) {
        let source = &mut self.sources[kind];
        if source.requested.is_none() {
            self.freshness.requested(WATCHED[kind]);
            source.requested = Some(self.now);
        } else {
            source.watched.get_or_insert(self.now);
            self.freshness.refreshed(WATCHED[kind], source.generation);
        }
    }

    fn happen(&mut self, event: Event) {
        self.now += 1;
        match event {
            Event::Step(kind) => self.step(kind),
            Event::Lost(kind, outage) => {
                let source = &mut self.sources[kind];
                if outage && source.watched.is_some() && WATCHED[kind] != Approval {
                    self.outage = self.now;
                }
                source.requested = None;
                source.watched = None;
                self.freshness.lost(WATCHED[kind], outage);
            }
            Event::BeginTerm if !self.leads => {
                (self.leads, self.began) = (true, self.now);
                self.freshness.begin_term();
            }
            Event::EndTerm if self.leads => {
                self.leads = false;
                self.freshness.end_term();
            }
            Event::Look => {
                self.freshness.open();
            }
            Event::Discard => {
                self.began = self.now;
                self.freshness.discard_all();
            }
            Event::BeginTerm | Event::EndTerm => {}
        }
        self.see();
    }

    fn check(&self) -> Result<(), TestCaseError> {
        if self.freshness.is_open() {
            prop_assert!(self.leads, "only a leader plans");
            for (kind, source) in WATCHED.iter().zip(&self.sources).take(3) {
                prop_assert!(source.watched.is_some(), "{kind:?} is not watched");
                let requested = source.requested.unwrap();
                prop_assert!(requested > self.began, "{kind:?} was listed before the term");
                prop_assert!(requested > self.outage, "{kind:?} was listed before an outage");
            }
        }
        prop_assert!(self.leads || !self.freshness.owns_records());
        let approvals = &self.sources[3];
        if self.freshness.approvals() == KnownApprovals::Current {
            prop_assert!(
                approvals.requested.unwrap() > self.began,
                "approvals were listed before the term"
            );
            // A list that arrives after an outage is watched by a connection that is alive.
            let is_old = approvals.watched.unwrap() < self.outage;
            prop_assert!(
                !(is_old && self.freshness.is_open()),
                "approvals are watched from before an outage"
            );
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn a_view_is_open_only_by_lists_since_the_term_began_and_since_the_last_outage(
        events in proptest::collection::vec(event(), 0..80),
    ) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
            world.check()?;
        }
        world.happen(Event::BeginTerm);
        for _ in 0..4 {
            for kind in 0..4 {
                if world.sources[kind].watched.is_none() {
                    world.happen(Event::Step(kind));
                }
            }
            world.happen(Event::Look);
            world.check()?;
        }
        for kind in 0..4 {
            if world.sources[kind].watched.is_none() {
                world.happen(Event::Step(kind));
                world.happen(Event::Step(kind));
            }
        }
        world.happen(Event::Look);
        prop_assert!(world.freshness.is_open(), "without faults it opens");
        prop_assert_eq!(world.freshness.approvals(), KnownApprovals::Current);
    }
}
