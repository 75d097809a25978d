//! What may happen to the rows of an upgrade.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;

use super::hub::{NAMES, PHASES};

/// What happens in a world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// Somebody edits and deletes reports.
    pub(super) edits: bool,
    /// The hub rejects rows and reports.
    pub(super) rejects: bool,
    /// Writes of an earlier term may be carried out in the next one.
    pub(super) late_terms: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Same,
    On,
    Again,
}

/// What becomes of a write.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    Answered,
    Lost,
    Unanswered,
    Late,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Edit {
    Delete,
    AddUnreadable(usize),
    RemoveRow(usize),
    NoList,
    Row(usize, usize),
    Unreadable(usize),
    Rows([bool; 5], bool),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Change(usize, Step, bool, bool),
    Drop(usize),
    Write,
    Finish(usize, Outcome),
    CarryOut(usize),
    Watch(usize, usize),
    List(usize),
    Edit(usize, Edit, bool),
    RejectRows(bool),
    NameRows(bool),
    RejectReport(Option<usize>, bool),
    Forbid(bool),
    Term(bool),
    Wait(u64),
}

#[derive(Clone, Debug)]
pub(super) struct Sequence {
    /// By cluster: the report that has its row at first, and the phase.
    pub(super) rows: Vec<Option<(usize, usize)>>,
    /// Reports that have a row that cannot be read at first, and the cluster.
    pub(super) unreadable: Vec<(usize, usize)>,
    pub(super) events: Vec<Event>,
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        Just(Edit::Delete),
        (0..=NAMES.len()).prop_map(Edit::AddUnreadable),
        (0..6_usize).prop_map(Edit::RemoveRow),
        Just(Edit::NoList),
        (0..6_usize, 0..PHASES.len()).prop_map(|(at, phase)| Edit::Row(at, phase)),
        (0..6_usize).prop_map(Edit::Unreadable),
        any::<([bool; 5], bool)>().prop_map(|(which, more)| Edit::Rows(which, more)),
    ]
}

fn event(kind: Kind) -> impl Strategy<Value = Event> {
    let step = prop::sample::select(vec![Step::Same, Step::On, Step::On, Step::Again]);
    let outcome = prop_oneof![
        6 => Just(Outcome::Answered),
        1 => Just(Outcome::Lost),
        1 => Just(Outcome::Unanswered),
        1 => Just(Outcome::Late),
    ];
    let bad = (0..6_u8).prop_map(move |drawn| kind.rejects && drawn == 0);
    let mut events: Vec<(u32, BoxedStrategy<Event>)> = vec![
        (
            10,
            (0..NAMES.len(), step, any::<bool>(), bad)
                .prop_map(|(cluster, step, urgent, bad)| Event::Change(cluster, step, urgent, bad))
                .boxed(),
        ),
        (1, (0..NAMES.len()).prop_map(Event::Drop).boxed()),
        (7, Just(Event::Write).boxed()),
        (
            7,
            (0..4_usize, outcome)
                .prop_map(|(at, outcome)| Event::Finish(at, outcome))
                .boxed(),
        ),
        (2, (0..4_usize).prop_map(Event::CarryOut).boxed()),
        (
            6,
            (0..2_usize, 0..3_usize)
                .prop_map(|(replica, at)| Event::Watch(replica, at))
                .boxed(),
        ),
        (1, (0..2_usize).prop_map(Event::List).boxed()),
        (1, any::<bool>().prop_map(Event::Term).boxed()),
        (
            6,
            prop::sample::select(vec![100_u64, 300, 2500, 10_000, 70_000, 310_000])
                .prop_map(Event::Wait)
                .boxed(),
        ),
    ];
    if kind.edits {
        let edits = (0..3_usize, edit(), any::<bool>());
        events.push((
            3,
            edits
                .prop_map(|(shard, edit, told)| Event::Edit(shard, edit, told))
                .boxed(),
        ));
    }
    if kind.rejects {
        let report = (prop::option::of(0..3_usize), any::<bool>());
        events.push((1, any::<bool>().prop_map(Event::RejectRows).boxed()));
        events.push((1, any::<bool>().prop_map(Event::NameRows).boxed()));
        events.push((
            1,
            report
                .prop_map(|(shard, rows)| Event::RejectReport(shard, rows))
                .boxed(),
        ));
        events.push((1, any::<bool>().prop_map(Event::Forbid).boxed()));
    }
    Union::new_weighted(events)
}

pub(super) fn sequence(kind: Kind) -> impl Strategy<Value = Sequence> {
    let row = prop::option::of((0..3_usize, 0..PHASES.len()));
    (
        vec(row, NAMES.len()),
        vec((0..3_usize, 0..=NAMES.len()), 0..2),
        vec(event(kind), 0..60),
    )
        .prop_map(|(rows, unreadable, events)| Sequence {
            rows,
            unreadable,
            events,
        })
}
