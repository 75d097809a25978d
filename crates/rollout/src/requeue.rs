//! Which attempt a cluster is in: a record that lags behind its works is brought up to them
//! (`docs/design/rules.md#restart`), new revisions of the spec (`docs/design/rules.md#spec-edits`), retries (`docs/design/rules.md#retry`).

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::cluster::LEAVE_DEBOUNCE;
use crate::downgrade;
use crate::fleet::{Cluster, Reading, Selection, Slot, Work};
use crate::phase::{Phase, Step};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::record::{AGAIN, Attempt, LONGEST_RETRY, Outcome, Record, Stage, StepRecord};
use crate::wording::{cut, start_of};

/// True when actions may rely on the record's attempt: it is written, or nothing but first works could contradict it.
pub(crate) fn is_announced(cluster: &Cluster, record: &Record) -> bool {
    match cluster.written.as_deref() {
        Some(written) => written.attempt == record.attempt,
        None => {
            record.attempt.retry.is_empty()
                && Step::ALL.into_iter().all(|step| {
                    cluster
                        .slot(step)
                        .ours()
                        .is_none_or(|work| work.attempt == record.attempt)
                })
        }
    }
}

/// A work that still tells of its step: it exists, or it had succeeded before it went.
fn telling(cluster: &Cluster, step: Step) -> Option<&Work> {
    match cluster.slot(step) {
        Slot::Ours(work) if work.reading == Reading::Succeeded => Some(work),
        slot => slot.ours(),
    }
}

fn is_of(work: &Work, record: &Record, step: Step) -> bool {
    let same_clock = || {
        record
            .stage(step.into())
            .is_some_and(|stage| stage.started == work.started)
    };
    work.attempt == record.attempt || same_clock()
}

/// The work of a step that the record speaks of, whatever it was rendered from.
pub(crate) fn served<'a>(cluster: &'a Cluster, record: &Record, step: Step) -> Option<&'a Work> {
    telling(cluster, step).filter(|work| is_of(work, record, step))
}

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
    served(cluster, record, step).filter(|work| {
        work.attempt == record.attempt || policy.steps[step.index()].as_ref() == Some(&work.hash)
    })
}

/// The record to start from: the latest one, or one made from the works, brought up to what the works prove.
pub(crate) fn settle(cluster: &Cluster, policy: &Policy, now: DateTime<Utc>) -> Arc<Record> {
    let mut settled = cluster
        .record
        .clone()
        .unwrap_or_else(|| Arc::new(fresh(cluster, policy, now)));
    let record = &*settled;
    let latest = Step::ALL.into_iter().rev().find_map(|step| {
        let open = record
            .stage(step.into())
            .is_none_or(|stage| stage.finished.is_none());
        // A pre-action on its way out may be a leaver's that came back: it proves no slot.
        let work = match step {
            Step::PreAction => cluster.slot(step).ours(),
            _ => telling(cluster, step),
        };
        let work = work.filter(|_| open)?;
        is_of(work, record, step).then_some((step, work))
    });
    let Some((latest, work)) = latest else {
        return settled;
    };
    let behind = match record.phase {
        Phase::Pending | Phase::Blocked => true,
        phase if phase.holds_slot() => true,
        Phase::PreActionDegraded => latest > Step::PreAction,
        Phase::Soaking => latest == Step::PostAction,
        _ => false,
    };
    if !behind {
        return settled;
    }
    let record = Arc::make_mut(&mut settled);
    prove_earlier_steps(cluster, record, latest, now);
    let mut phase = match (latest, &work.reading) {
        (Step::PreAction, _) => Phase::PreAction,
        (Step::Platform, Reading::Running | Reading::Succeeded) => Phase::Partial,
        (Step::Platform, Reading::OtherVersion) => Phase::Initialized,
        (Step::Platform, _) if record.phase == Phase::Partial => Phase::Partial,
        (Step::Platform, _) => Phase::Initialized,
        (Step::Operators, _) => Phase::Operators,
        (Step::PostAction, _) => Phase::PostAction,
    };
    if latest != Step::PostAction && prove_soak(cluster, record, policy) {
        phase = Phase::Soaking;
    }
    if phase != record.phase {
        record.phase = phase;
        record.since = now;
    }
    settled
}

/// A later work exists only because the earlier steps had succeeded.
fn prove_earlier_steps(cluster: &Cluster, record: &mut Record, latest: Step, now: DateTime<Utc>) {
    for step in Step::ALL {
        let work = served(cluster, record, step);
        let slot = &mut record.stages[Stage::from(step).index()];
        if let Some(work) = work {
            slot.get_or_insert(StepRecord::started(work.started.min(now)));
        }
        if step < latest
            && let Some(stage) = slot
        {
            succeed(stage, now);
        }
    }
    if latest == Step::PostAction
        && let Some(soak) = &mut record.stages[Stage::Soak.index()]
    {
        succeed(soak, now);
    }
}

/// The note of the soak on a work is made only when platform and operators had succeeded.
fn prove_soak(cluster: &Cluster, record: &mut Record, policy: &Policy) -> bool {
    let carrier = soak_carrier(policy).and_then(|step| Some((step, served(cluster, record, step)?)));
    let Some((work, began)) = carrier.and_then(|(step, work)| Some((work, soak_note(work, record, step)?)))
    else {
        return false;
    };
    for step in [Step::Platform, Step::Operators] {
        if policy.wants(step) {
            let stage =
                record.stages[Stage::from(step).index()].get_or_insert(StepRecord::started(work.started));
            succeed(stage, began);
        }
    }
    record.stages[Stage::Soak.index()].get_or_insert(StepRecord::started(began));
    true
}

fn succeed(stage: &mut StepRecord, at: DateTime<Utc>) {
    if stage.outcome.is_none() {
        stage.finished = Some(at);
        stage.outcome = Some(Outcome::Succeeded);
    }
}

/// The step whose work carries the note of the soak.
pub(crate) fn soak_carrier(policy: &Policy) -> Option<Step> {
    [Step::Platform, Step::Operators]
        .into_iter()
        .find(|step| policy.wants(*step))
}

/// Start of the clock of a step: within an attempt the one that is on record. Nobody but the controller writes records,
/// while an agent can edit the work.
pub(crate) fn clock(work: &Work, record: &Record, step: Step) -> DateTime<Utc> {
    let recorded = record
        .stage(step.into())
        .filter(|_| work.attempt == record.attempt);
    recorded.map_or(work.started, |stage| stage.started)
}

/// The start of the soak as noted on the work of a step; a note older than the step's clock is of an earlier attempt.
pub(crate) fn soak_note(work: &Work, record: &Record, step: Step) -> Option<DateTime<Utc>> {
    let clock = clock(work, record, step);
    work.soak_started.filter(|began| *began > clock)
}

fn fresh(cluster: &Cluster, policy: &Policy, now: DateTime<Utc>) -> Record {
    let work = Step::ALL
        .into_iter()
        .rev()
        .find_map(|step| telling(cluster, step));
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
        other_reason: None,
        message: Arc::from(""),
        since: now,
        stages: [None; 5],
        from_version: Arc::from(""),
    }
}

/// Moves the record to the attempt that the policy asks for, where the cluster's phase allows it.
pub(crate) fn requeue(
    cluster: &Cluster,
    record: Arc<Record>,
    policy: &Policy,
    now: DateTime<Utc>,
) -> Arc<Record> {
    if is_frozen(cluster, &record) {
        return record;
    }
    if let Selection::Left(since) = cluster.selection
        && now >= since + LEAVE_DEBOUNCE
        && let Some(earlier) = earlier_attempt(cluster, &record)
    {
        let attempt = earlier.attempt.clone();
        return Arc::new(fall_back(
            cluster,
            Arc::unwrap_or_clone(record),
            attempt,
            policy,
            now,
        ));
    }
    let selected = cluster.selection == Selection::In;
    if record.attempt.revision != policy.revision {
        return revise(cluster, record, policy, selected, now);
    }
    let failed = matches!(record.phase, Phase::Failed | Phase::PreActionDegraded);
    match &policy.retry {
        Some(token) if failed && selected && !record.attempt.is_of_retry(token) => {
            Arc::new(retry(Arc::unwrap_or_clone(record), token, now))
        }
        _ => record,
    }
}

/// True while it is not known whether the cluster has started, or what was sent earlier may be carried out yet: a new attempt
/// would take what shows up later for the work of an earlier one, which holds no slot, or, where an edit is taken back, the work
/// of an earlier one for its own.
pub(crate) fn is_frozen(cluster: &Cluster, record: &Record) -> bool {
    (cluster.awaits_start() || cluster.is_in_doubt())
        && matches!(record.phase, Phase::Pending | Phase::Blocked)
}

/// The kept work of an earlier attempt of a cluster that was queued again and has not started.
fn earlier_attempt<'a>(cluster: &'a Cluster, record: &Record) -> Option<&'a Work> {
    let queued = !record.phase.is_started() && cluster.busy.is_none();
    [Step::Platform, Step::Operators, Step::PostAction]
        .into_iter()
        .filter(|_| queued)
        .find_map(|step| Some((step, cluster.slot(step).ours()?)))
        .filter(|(step, work)| !is_of(work, record, *step))
        .map(|(_, work)| work)
}

/// True when a work of the upgrade proper serves the record's attempt: the cluster is under way even if it is blocked.
pub(crate) fn is_under_way(cluster: &Cluster, record: &Record) -> bool {
    [Step::Platform, Step::Operators, Step::PostAction]
        .into_iter()
        .any(|step| served(cluster, record, step).is_some())
}

/// A cluster that was queued again and left the selection before it started: its kept work must not be deleted, so it
/// cannot be dropped; it stands where the earlier attempt had ended.
fn fall_back(
    cluster: &Cluster,
    mut record: Record,
    attempt: Attempt,
    policy: &Policy,
    now: DateTime<Utc>,
) -> Record {
    let succeeded = |step: Step| {
        cluster
            .slot(step)
            .ours()
            .map_or(!policy.wants(step), |work| work.reading == Reading::Succeeded)
    };
    let revised = attempt.revision != record.attempt.revision;
    let complete = revised && succeeded(Step::Platform) && succeeded(Step::Operators);
    record.attempt = attempt;
    record.stages = [None; 5];
    record.since = now;
    if complete {
        record.phase = Phase::Complete;
        record.reason = Reason::None;
        record.message = Arc::from("");
    } else {
        record.phase = Phase::Failed;
        record.reason = Reason::LeftSelection;
        record.message = Arc::from(cut(
            "the cluster left the selection while it was queued again; the ManifestWork of its earlier attempt is kept",
        ));
    }
    record
}

fn revise(
    cluster: &Cluster,
    record: Arc<Record>,
    policy: &Policy,
    selected: bool,
    now: DateTime<Utc>,
) -> Arc<Record> {
    let same = |step: Step| {
        let wanted = policy.steps[step.index()].as_ref();
        wanted.is_some() && served(cluster, &record, step).is_some_and(|work| Some(&work.hash) == wanted)
    };
    let own = || Record::clone(&record);
    Arc::new(match record.phase {
        // A cluster that is not selected any more ends what it was given while it was.
        Phase::Initialized
        | Phase::Partial
        | Phase::Operators
        | Phase::Soaking
        | Phase::PostAction
        | Phase::Complete
        | Phase::Failed
            if !selected =>
        {
            return record;
        }
        Phase::PreAction if same(Step::PreAction) => on_new_revision(cluster, own(), policy),
        Phase::Initialized | Phase::Partial if same(Step::Platform) => {
            on_new_revision(cluster, own(), policy)
        }
        // One that runs a newer version than the new target ends what it was asked for before.
        Phase::Initialized
            if policy.wants(Step::Platform) && !downgrade::is_refused(policy, &cluster.version) =>
        {
            let mut record = on_new_revision(cluster, own(), policy);
            record.stages[Stage::Platform.index()] = None;
            record
        }
        Phase::Operators if same(Step::Operators) && same(Step::Platform) == policy.wants(Step::Platform) => {
            on_new_revision(cluster, own(), policy)
        }
        Phase::Operators if same(Step::Platform) || !policy.wants(Step::Platform) => {
            let mut record = on_new_revision(cluster, own(), policy);
            record.stages[Stage::Operators.index()] = None;
            record
        }
        // What is past its start finishes the step it is in; only then is it queued again.
        Phase::Initialized | Phase::Partial | Phase::Operators => return record,
        // Nor is one that is under way and has an obstacle before its next step: its work is kept, so it cannot be dropped.
        Phase::Blocked if !selected && is_under_way(cluster, &record) => return record,
        Phase::Pending
        | Phase::Blocked
        | Phase::PreAction
        | Phase::PreActionDegraded
        | Phase::Soaking
        | Phase::Complete
        | Phase::PostAction
        | Phase::Failed => queued_again(cluster, own(), policy, now),
    })
}

/// The attempt at the policy's revision: one that no work has which the record does not speak of, nor the written record,
/// which would count as its announcement.
fn on_new_revision(cluster: &Cluster, mut record: Record, policy: &Policy) -> Record {
    record.attempt.revision = Arc::clone(&policy.revision);
    let written = cluster.written.as_deref().map(|written| &written.attempt);
    let is_taken = |record: &Record| {
        let of_a_work = Step::ALL.into_iter().any(|step| {
            let clock = record.stage(step.into()).map(|stage| stage.started);
            matches!(cluster.slot(step), Slot::Ours(work)
                if work.attempt == record.attempt && clock != Some(work.started))
        });
        of_a_work || written == Some(&record.attempt)
    };
    while is_taken(&record) {
        record.attempt.retry = Arc::from(again(&record.attempt.retry));
    }
    record
}

/// The next token after one that is taken. At most five are, so the first one is free again long before the longest is reached.
fn again(retry: &str) -> String {
    // Only what somebody else wrote is so long.
    let first = start_of(retry.trim_end_matches(AGAIN), LONGEST_RETRY * 3 / 4);
    let before = if retry.len() < LONGEST_RETRY { retry } else { first };
    format!("{before}{AGAIN}")
}

/// Back to Pending on the policy's revision, everything to be done anew.
pub(crate) fn queued_again(
    cluster: &Cluster,
    mut record: Record,
    policy: &Policy,
    now: DateTime<Utc>,
) -> Record {
    if record.phase != Phase::Pending {
        record.since = now;
    }
    record.phase = Phase::Pending;
    record.reason = Reason::None;
    record.message = Arc::from("");
    record.stages = [None; 5];
    record.from_version = Arc::from("");
    on_new_revision(cluster, record, policy)
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
