//! The note on a work that its cluster's soak has begun. It survives a restart before the row is written.

use chrono::{DateTime, Utc};

use crate::model::{Cluster, Policy, Record, Stage, Step, StepRecord, Work};
use crate::planner::evidence::{TOLERATED_LEAD, clock, work_with_evidence};

/// The work that has the note of the record's soak, and when it began. A note from before its operators step is of an
/// earlier attempt.
pub(super) fn noted_soak<'a>(
    cluster: &'a Cluster,
    record: &Record,
    policy: &Policy,
    now: DateTime<Utc>,
) -> Option<(&'a Work, DateTime<Utc>)> {
    let carrier = soak_carrier(policy)?;
    let work = work_with_evidence(cluster, record, carrier)?;
    let began = soak_note(work, record, carrier, now)?;
    let operators = record.stage(Stage::Operators);
    let is_later = operators.is_none_or(|stage| stage.started < began);
    is_later.then_some((work, began))
}

/// Marks platform and operators as succeeded, because the note of a soak is written only after they did.
pub(super) fn prove_soak(record: &mut Record, (work, began): (&Work, DateTime<Utc>), policy: &Policy) {
    for step in [Step::Platform, Step::Operators] {
        if policy.wants(step) {
            let stage =
                record.stages[Stage::from(step).index()].get_or_insert(StepRecord::started(work.started));
            stage.succeed(began);
        }
    }
    record.stages[Stage::Soak.index()].get_or_insert(StepRecord::started(began));
}

/// The step whose work gets the note of the soak.
pub(crate) fn soak_carrier(policy: &Policy) -> Option<Step> {
    [Step::Platform, Step::Operators]
        .into_iter()
        .find(|step| policy.wants(*step))
}

/// The start of the soak as noted on the work of a step. A note older than the step's clock belongs to an earlier
/// attempt. A note that is far in the future counts as none, because agents can edit their works, and a soak from then
/// on would hardly end; but the recorded clock of the step may be ahead, and then the note is later still.
pub(crate) fn soak_note(
    work: &Work,
    record: &Record,
    step: Step,
    now: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    let clock = clock(work, record, step);
    let recorded = record.stage(step.into()).map(|stage| stage.started);
    let latest = recorded.map_or(now, |recorded| recorded.max(now));
    work.soak_started
        .filter(|began| *began > clock && *began - TOLERATED_LEAD <= latest)
}

/// True when a work notes that its soak began then, whenever that is. A note has milliseconds. The start that is to be
/// noted may be finer, because it may follow from a time that somebody else has written.
pub(crate) fn is_noted(work: &Work, began: DateTime<Utc>) -> bool {
    work.soak_started
        .is_some_and(|noted| noted.timestamp_millis() == began.timestamp_millis())
}
