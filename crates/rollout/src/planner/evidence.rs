//! What the works of a cluster tell, and how far their times are believed.

use chrono::{DateTime, TimeDelta, Utc};

use crate::model::{Cluster, Policy, Record, Stage, Step, StepStatus, StepWork, Work};

/// How far in the future the start of a step may be without being changed or told. The clocks of two leaders that are
/// trusted differ by less, and so do two readings of one that is not.
pub const TOLERATED_LEAD: TimeDelta = TimeDelta::minutes(1);

/// The work of a step, if it exists or had succeeded before it was deleted.
pub(super) fn telling(cluster: &Cluster, step: Step) -> Option<&Work> {
    match cluster.step_work(step) {
        StepWork::Ours(work) if work.status == StepStatus::Succeeded => Some(work),
        slot => slot.ours(),
    }
}

/// True when a work is of the attempt that a record is about, or its step began when the record says.
pub(super) fn is_of(work: &Work, record: &Record, step: Step) -> bool {
    let same_clock = || {
        record
            .stage(step.into())
            .is_some_and(|stage| stage.started == work.started)
    };
    work.attempt == record.attempt || same_clock()
}

/// The work of a step that the record is about, whatever it was rendered from.
pub(crate) fn work_with_evidence<'a>(cluster: &'a Cluster, record: &Record, step: Step) -> Option<&'a Work> {
    telling(cluster, step).filter(|work| is_of(work, record, step))
}

/// True when the last step that takes a slot has ended and its work does not show that, because it is gone or being deleted, or because
/// the worker pools were waited for, although the row or an earlier work may say that the cluster is under way. A restarted controller
/// might not find that end, unless the work of the post-action shows it. `is_shown`: a work shows a start that no row tells of.
pub(super) fn has_lost_end(cluster: &Cluster, record: &Record, policy: &Policy, is_shown: bool) -> bool {
    let written = cluster.written.as_deref();
    let is_told = written.is_some_and(|written| written.phase.holds_slot());
    let may_hold = cluster.slot_in_doubt || is_told || is_shown;
    let mut steps = [Step::Operators, Step::Platform].into_iter();
    let last = steps.find(|step| record.succeeded((*step).into()));
    let is_lost = last.is_some_and(|step| cluster.step_work(step).ours().is_none());
    let awaited_pools = last == Some(Step::Platform) && policy.worker_pools_timeout.is_some();
    let is_unshown = (may_hold && is_lost) || (awaited_pools && !tells_update(written, record));
    let post_action = cluster.step_work(Step::PostAction).ours();
    is_unshown && post_action.is_none_or(|work| work.attempt != record.attempt)
}

/// True when a written record tells the end of the same update.
fn tells_update(written: Option<&Record>, record: &Record) -> bool {
    let ended = |record: &Record| {
        let stage = record.stage(Stage::Platform).filter(|stage| stage.succeeded());
        stage.map(|stage| stage.started)
    };
    written.and_then(ended) == ended(record)
}

/// Start of a step's clock. It is that of the record if there is one, because only the controller writes records, while an
/// agent can edit the work. That also holds for a work of the attempt before: a retry keeps the steps that had succeeded.
pub(crate) fn clock(work: &Work, record: &Record, step: Step) -> DateTime<Utc> {
    let recorded = record.stage(step.into());
    recorded.map_or(work.started, |stage| stage.started)
}

/// The start that is recorded for the step of a work: that of the work, because a record whose start differs is not about
/// this work any more after an edit. A start that is far in the future counts as now, because agents can edit their works.
pub(crate) fn recorded_start(work: &Work, now: DateTime<Utc>) -> DateTime<Utc> {
    if work.started > now + TOLERATED_LEAD {
        now
    } else {
        work.started
    }
}

/// The start of a step that begins now. It is another one than that of the work of an earlier attempt, which would count as the work
/// of this step otherwise.
pub(crate) fn fresh_start(
    cluster: &Cluster,
    record: &Record,
    step: Step,
    now: DateTime<Utc>,
) -> DateTime<Utc> {
    let is_taken = |work: &Work| work.started == now && work.attempt != record.attempt;
    let work = cluster.step_work(step).ours();
    now + TimeDelta::milliseconds(i64::from(work.is_some_and(is_taken)))
}
