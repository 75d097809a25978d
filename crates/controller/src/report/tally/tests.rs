use std::sync::Arc;
use std::time::Instant;

use rollout::testing::{at, policy, record};
use rollout::{Plan, Record};

use super::*;
use crate::fixture::state;

/// A record of this phase and reason that has had its phase since then.
fn since(seconds: i64, phase: Phase, reason: Reason) -> Record {
    let mut record = Record::from(record(phase).reason(reason));
    record.since = at(seconds);
    record
}

fn rows() -> Rows {
    let plan = Plan {
        clusters: vec![
            state("c1", since(90, Phase::Blocked, Reason::NotOpenShift)),
            state("c2", since(60, Phase::Partial, Reason::Failing)),
            state("c3", since(30, Phase::Partial, Reason::Progressing)),
            state("c4", since(20, Phase::Failed, Reason::OperatorsJobFailed)),
            state("c5", since(10, Phase::Complete, Reason::None)),
            state("canary", since(20, Phase::Failed, Reason::OperatorsJobFailed)),
        ],
        ..Plan::default()
    };
    let mut rows = Rows::new(&Arc::from("up"));
    rows.commit(&plan, &policy().build(), Instant::now(), |name| {
        (&**name == "canary", false)
    });
    rows
}

#[test]
fn rows_are_counted_by_phase_and_reason() {
    let tally = Tally::of(&rows());
    assert_eq!(tally.phases.iter().sum::<usize>(), 6);
    assert_eq!(tally.phases[Phase::Partial as usize], 2);
    let waiting: Vec<_> = tally.waiting().collect();
    assert_eq!(waiting, [(Reason::NotOpenShift, 1), (Reason::Failing, 1)]);
}

#[test]
fn a_failed_canary_does_not_count_against_max_failures() {
    assert_eq!(Tally::of(&rows()).failures, 1);
}

#[test]
fn the_last_progress_is_that_of_a_cluster_that_has_started() {
    assert_eq!(Tally::of(&rows()).last_progress, Some(at(60)));
    assert_eq!(Tally::default().last_progress, None);
}
