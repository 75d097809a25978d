//! Which attempt a cluster is in: settling a record that lags behind its works, new revisions of the spec, retries
//! (`reference/mcu.md` §4 "Spec edits", §3.1 "Retry").

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::fleet::{Cluster, Reading, Selection, Work};
use crate::phase::{Phase, Step};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::record::{Attempt, Outcome, Record, Stage, StepRecord};

/// The work of a step that serves the record's attempt.
///
/// A work of another revision is current too when it is the very one the record speaks of (same clock) and would be
/// rendered the same today: then an edit of the spec did not concern its step.
pub(crate) fn current<'a>(
    cluster: &'a Cluster,
    record: &Record,
    policy: &Policy,
    step: Step,
) -> Option<&'a Work> {
    let crate::fleet::Slot::Ours(work) = cluster.slot(step) else {
        return None;
    };
    let live = !work.terminating && (!work.vanished || work.reading == Reading::Succeeded);
    let same_attempt = work.attempt == record.attempt;
    let untouched = record
        .stage(step.into())
        .is_some_and(|stage| stage.started == work.started)
        && policy.steps[step.index()].as_ref() == Some(&work.hash);
    (live && (same_attempt || untouched)).then_some(work)
}

/// The record to start from: the latest one, or one made from the works, brought up to what the works prove.
pub(crate) fn settle(cluster: &Cluster, policy: &Policy, now: DateTime<Utc>) -> Record {
    let mut record = cluster
        .record
        .as_deref()
        .cloned()
        .unwrap_or_else(|| fresh(cluster, policy, now));
    let latest = Step::ALL.into_iter().rev().find(|step| {
        let open = record
            .stage((*step).into())
            .is_none_or(|stage| stage.finished.is_none());
        open && cluster
            .slot(*step)
            .ours()
            .is_some_and(|work| work.attempt == record.attempt)
    });
    let Some(latest) = latest else { return record };
    let behind = matches!(
        record.phase,
        Phase::Pending
            | Phase::Blocked
            | Phase::PreAction
            | Phase::Initialized
            | Phase::Partial
            | Phase::Operators
    );
    if !behind {
        return record;
    }
    prove_earlier_steps(cluster, &mut record, latest, now);
    let phase = match (latest, cluster.slot(latest).ours().map(|work| &work.reading)) {
        (Step::PreAction, _) => Phase::PreAction,
        (Step::Platform, Some(Reading::Running | Reading::Succeeded)) => Phase::Partial,
        (Step::Platform, _) if record.phase == Phase::Partial => Phase::Partial,
        (Step::Platform, _) => Phase::Initialized,
        (Step::Operators, _) => Phase::Operators,
        (Step::PostAction, _) => Phase::PostAction,
    };
    if phase != record.phase {
        record.phase = phase;
        record.since = now;
    }
    record
}

/// A later work exists only because the earlier steps had succeeded.
fn prove_earlier_steps(cluster: &Cluster, record: &mut Record, latest: Step, now: DateTime<Utc>) {
    for step in Step::ALL {
        let Some(work) = cluster
            .slot(step)
            .ours()
            .filter(|work| work.attempt == record.attempt)
        else {
            continue;
        };
        let stage = record.stages[Stage::from(step).index()].get_or_insert(StepRecord::started(work.started));
        if step < latest && stage.finished.is_none() {
            stage.finished = Some(now);
            stage.outcome = Some(Outcome::Succeeded);
        }
    }
}

fn fresh(cluster: &Cluster, policy: &Policy, now: DateTime<Utc>) -> Record {
    let work = Step::ALL
        .into_iter()
        .rev()
        .find_map(|step| cluster.slot(step).ours());
    let attempt = work.map_or_else(
        || Attempt {
            revision: Arc::clone(&policy.revision),
            retry: Arc::from(""),
        },
        |work| work.attempt.clone(),
    );
    Record {
        attempt,
        phase: Phase::Pending,
        reason: Reason::None,
        message: Arc::from(""),
        since: now,
        stages: [None; 5],
        from_version: Arc::from(""),
    }
}

/// Moves the record to the attempt that the policy asks for, where the cluster's phase allows it.
pub(crate) fn requeue(cluster: &Cluster, record: Record, policy: &Policy, now: DateTime<Utc>) -> Record {
    let selected = cluster.selection == Selection::In;
    if record.attempt.revision != policy.revision {
        return revise(cluster, record, policy, selected, now);
    }
    let failed = matches!(record.phase, Phase::Failed | Phase::PreActionDegraded);
    match &policy.retry {
        Some(token) if failed && selected && record.attempt.retry != *token => retry(record, token, now),
        _ => record,
    }
}

fn revise(cluster: &Cluster, record: Record, policy: &Policy, selected: bool, now: DateTime<Utc>) -> Record {
    let same = |step: Step| {
        let wanted = policy.steps[step.index()].as_ref();
        wanted.is_some()
            && cluster
                .slot(step)
                .ours()
                .is_some_and(|work| Some(&work.hash) == wanted)
    };
    match record.phase {
        Phase::PreAction if same(Step::PreAction) => on_new_revision(record, policy),
        Phase::Initialized if same(Step::Platform) => on_new_revision(record, policy),
        Phase::Initialized if policy.wants(Step::Platform) => {
            let mut record = on_new_revision(record, policy);
            record.stages[Stage::Platform.index()] = None;
            record
        }
        Phase::Partial if same(Step::Platform) => on_new_revision(record, policy),
        Phase::Operators if same(Step::Operators) && same(Step::Platform) == policy.wants(Step::Platform) => {
            on_new_revision(record, policy)
        }
        Phase::Operators if same(Step::Platform) || !policy.wants(Step::Platform) => {
            let mut record = on_new_revision(record, policy);
            record.stages[Stage::Operators.index()] = None;
            record
        }
        // What is past its start finishes the step it is in; only then is it queued again.
        Phase::Initialized | Phase::Partial | Phase::Operators => record,
        Phase::Complete | Phase::Failed if !selected => record,
        Phase::Soaking | Phase::PostAction if !selected => on_new_revision(record, policy),
        Phase::Pending
        | Phase::Blocked
        | Phase::PreAction
        | Phase::PreActionDegraded
        | Phase::Soaking
        | Phase::Complete
        | Phase::PostAction
        | Phase::Failed => queued_again(record, policy, now),
    }
}

fn on_new_revision(mut record: Record, policy: &Policy) -> Record {
    record.attempt.revision = Arc::clone(&policy.revision);
    record
}

/// Back to Pending on the policy's revision, everything to be done anew.
pub(crate) fn queued_again(mut record: Record, policy: &Policy, now: DateTime<Utc>) -> Record {
    if record.phase != Phase::Pending {
        record.since = now;
    }
    record.phase = Phase::Pending;
    record.reason = Reason::None;
    record.message = Arc::from("");
    record.stages = [None; 5];
    record.from_version = Arc::from("");
    on_new_revision(record, policy)
}

/// What failed is done again, what succeeded is not.
fn retry(mut record: Record, token: &Arc<str>, now: DateTime<Utc>) -> Record {
    record.attempt.retry = Arc::clone(token);
    let redo_platform = record.reason == Reason::RegressedInSoak;
    for stage in Stage::ALL {
        let keep = record.succeeded(stage) && !(redo_platform && stage == Stage::Platform);
        if !keep {
            record.stages[stage.index()] = None;
        }
    }
    record.phase = Phase::Pending;
    record.reason = Reason::None;
    record.message = Arc::from("");
    record.since = now;
    record
}
