//! Which attempt a cluster is in. A record that is older than its works is updated from them
//! (`docs/design/rules.md#restart`). New revisions of the spec (`docs/design/rules.md#spec-edits`) and retries
//! (`docs/design/rules.md#retry`) begin new attempts.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::model::{
    AGAIN, Attempt, Cluster, MAX_RETRY_BYTES, Phase, Policy, Reason, Record, Selection, Stage, Step,
    StepRecord, StepStatus, StepWork, Withdrawal, Work,
};
use crate::planner::evidence::{is_of, recorded_start, telling, work_with_evidence};
use crate::planner::fall_back::fall_back;
use crate::planner::soak_notes::{noted_soak, prove_soak};
use crate::planner::windows::WindowState;
use crate::planner::wording::start_of;
use crate::planner::{downgrade, withdrawal};

/// How long a cluster must be missing from the selection before it counts as gone. OCM rewrites PlacementDecisions
/// non-atomically, so it can be missing for a moment (`docs/design/rules.md#leave-debounce`).
pub const LEAVE_DEBOUNCE: TimeDelta = TimeDelta::seconds(5);

/// True when operations may rely on the record's attempt: it is written, or there are at most works of a first attempt. Works
/// from before the cluster was registered anew are leftovers as soon as a row says of which attempt they are not.
pub(crate) fn is_announced(cluster: &Cluster, record: &Record) -> bool {
    match cluster.written.as_deref() {
        Some(written) => written.attempt == record.attempt,
        None => {
            record.attempt.retry.is_empty()
                && Step::ALL.into_iter().all(|step| match cluster.step_work(step) {
                    StepWork::Former(_) => false,
                    slot => slot.ours().is_none_or(|work| work.attempt == record.attempt),
                })
        }
    }
}

/// The work of a step that belongs to the record's attempt.
///
/// A work of another revision belongs to it as well if it has the start that the record has and would be rendered the
/// same today. Example: an edit of the operators does not change the platform work.
pub(crate) fn work_of_attempt<'a>(
    cluster: &'a Cluster,
    record: &Record,
    policy: &Policy,
    step: Step,
) -> Option<&'a Work> {
    work_with_evidence(cluster, record, step).filter(|work| {
        work.attempt == record.attempt || policy.steps[step.index()].as_ref() == Some(&work.hash)
    })
}

/// The record to start from: the latest one, or one built from the works, updated by what the works prove.
pub(crate) fn catch_up(cluster: &Cluster, policy: &Policy, now: DateTime<Utc>) -> Arc<Record> {
    let mut settled = cluster
        .record
        .clone()
        .unwrap_or_else(|| Arc::new(fresh(cluster, policy, now)));
    let record = &*settled;
    let latest = Step::ALL.into_iter().rev().find_map(|step| {
        let open = record
            .stage(step.into())
            .is_none_or(|stage| stage.finished.is_none());
        // A pre-action that is being deleted may be that of a leaver that came back, so it does not prove a slot.
        let work = match step {
            Step::PreAction => cluster.step_work(step).ours(),
            _ => telling(cluster, step),
        };
        // What is left of a work that somebody deleted tells of a start, but not whether it was the last one.
        let is_last = |work: &&Work| !work.vanished || cluster.unsettled.is_none();
        let work = work.filter(|_| open).filter(is_last)?;
        is_of(work, record, step).then_some((step, work))
    });
    let Some((latest, work)) = latest else {
        // The operators work is gone, but the note of the soak says that it succeeded.
        if record.phase.holds_slot()
            && let Some(noted) = noted_soak(cluster, record, policy, now)
        {
            let record = Arc::make_mut(&mut settled);
            prove_soak(record, noted, policy);
            record.phase = Phase::Soaking;
            record.since = now;
        }
        return settled;
    };
    let behind = match record.phase {
        Phase::Pending | Phase::Blocked => true,
        phase if phase.holds_slot() => true,
        Phase::PreActionDegraded | Phase::Skipped | Phase::Aborted => {
            // A post-action that failed and is skipped is told of, and may go on.
            let is_told = latest == Step::PostAction && record.stage(Stage::PostAction).is_some();
            may_take_slot(latest, record) && !is_told && work.withdrawal == Withdrawal::None
        }
        Phase::Soaking => latest == Step::PostAction,
        _ => false,
    };
    if !behind {
        return settled;
    }
    let record = Arc::make_mut(&mut settled);
    prove_earlier_steps(cluster, record, latest, now);
    if latest == Step::Platform && queues_for_operators(cluster, record, policy, work) {
        prove_end(record, Stage::Platform, now);
        return settled;
    }
    let mut phase = match (latest, &work.status) {
        (Step::PreAction, _) => Phase::PreAction,
        (Step::Platform, status)
            if record.phase == Phase::Workers
                && !matches!(status, StepStatus::Running | StepStatus::OtherVersion) =>
        {
            Phase::Workers
        }
        (Step::Platform, StepStatus::Running | StepStatus::Succeeded) => Phase::Partial,
        (Step::Platform, StepStatus::OtherVersion) => Phase::Initialized,
        (Step::Platform, _) if record.phase == Phase::Partial => Phase::Partial,
        (Step::Platform, _) => Phase::Initialized,
        (Step::Operators, _) => Phase::Operators,
        (Step::PostAction, _) => Phase::PostAction,
    };
    if latest != Step::PostAction
        && let Some(noted) = noted_soak(cluster, record, policy, now)
    {
        prove_soak(record, noted, policy);
        phase = Phase::Soaking;
    }
    if phase != record.phase {
        record.phase = phase;
        record.since = now;
    }
    settled
}

/// False for a pre-action that may be there although its record says that the cluster holds no slot: it is degraded, or the cluster is
/// left out. If nothing had begun by then, a pre-action of this attempt has begun since: the cluster was not left out meanwhile.
fn may_take_slot(step: Step, record: &Record) -> bool {
    let is_given_up =
        record.phase == Phase::PreActionDegraded || (record.phase.is_left_out() && record.tells_a_step());
    step > Step::PreAction || !is_given_up
}

/// True when a queued cluster has no slot, and the update that it was asked for before has ended although its work was being deleted. What
/// follows takes a slot.
fn queues_for_operators(cluster: &Cluster, record: &Record, policy: &Policy, work: &Work) -> bool {
    let is_removed = work.terminating || work.vanished;
    let is_queued = cluster.record.is_some() && matches!(record.phase, Phase::Pending | Phase::Blocked);
    let may_hold = cluster.awaits_start() || cluster.is_in_doubt() || cluster.slot_in_doubt;
    let follows = policy.wants(Step::Operators) && !cluster.awaits_pools(policy);
    is_removed && is_queued && follows && !may_hold
}

/// Marks a step that is on record as succeeded.
fn prove_end(record: &mut Record, stage: Stage, now: DateTime<Utc>) {
    if let Some(stage) = &mut record.stages[stage.index()] {
        stage.succeed(now);
    }
}

/// Marks the earlier steps as succeeded, because a later work is created only after they did.
fn prove_earlier_steps(cluster: &Cluster, record: &mut Record, latest: Step, now: DateTime<Utc>) {
    for step in Step::ALL {
        let work = work_with_evidence(cluster, record, step);
        let slot = &mut record.stages[Stage::from(step).index()];
        if let Some(work) = work {
            slot.get_or_insert(StepRecord::started(recorded_start(work, now)));
        }
        if step < latest
            && let Some(stage) = slot
        {
            stage.succeed(now);
        }
    }
    if latest == Step::PostAction {
        prove_end(record, Stage::Soak, now);
    }
}

/// The record of a cluster that has none: of the attempt of its works, or of the start that is in progress or in doubt, or else of a
/// new one.
fn fresh(cluster: &Cluster, policy: &Policy, now: DateTime<Utc>) -> Record {
    let work = Step::ALL
        .into_iter()
        .rev()
        .find_map(|step| telling(cluster, step));
    let is_former = |attempt: &Attempt| {
        let mut works = cluster.works.iter();
        works.any(|slot| matches!(slot, StepWork::Former(work) if work.attempt == *attempt))
    };
    let awaited = cluster.awaited_attempt.as_ref();
    let awaited = awaited.filter(|attempt| work.is_none() && !is_former(attempt));
    let attempt = work.map(|work| &work.attempt).or(awaited);
    let attempt = attempt.cloned().unwrap_or_else(|| Attempt {
        revision: Arc::clone(&policy.revision),
        retry: Arc::from(""),
    });
    let record = Record {
        attempt,
        phase: Phase::Pending,
        reason: Reason::None,
        other_reason: None,
        refused_step: None,
        message: Arc::from(""),
        since: now,
        stages: [None; 5],
        from_version: Arc::from(""),
        unreadable: false,
    };
    // What is left of its earlier life must not be taken for works of this attempt.
    let is_back = work.is_none()
        && awaited.is_none()
        && cluster
            .works
            .iter()
            .any(|slot| matches!(slot, StepWork::Former(_)));
    if is_back {
        on_new_revision(cluster, record, policy)
    } else {
        record
    }
}

/// Moves the record to the attempt that the policy requests, if the cluster's phase allows it.
pub(crate) fn requeue(
    cluster: &Cluster,
    record: Arc<Record>,
    policy: &Policy,
    window: Option<&WindowState>,
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
    let has_ended = !cluster.is_aborted() && withdrawal::has_ended(cluster, &record);
    if record.attempt.revision != policy.revision {
        // What it was asked for is withdrawn first.
        let is_aborting =
            cluster.is_aborted() && matches!(record.phase, Phase::PreAction | Phase::Initialized);
        if is_aborting || (withdrawal::withdrawn(cluster, &record).is_some() && !has_ended) {
            return record;
        }
        return revise(cluster, record, policy, window, now);
    }
    // A leaver is queued as well before it is dropped: it may be back before that.
    let may_be_queued = selected || !is_under_way(cluster, &record);
    if has_ended || (record.phase.is_left_out() && cluster.left_out.is_none() && may_be_queued) {
        return Arc::new(taken_up(cluster, Arc::unwrap_or_clone(record), policy, now));
    }
    let failed = record.phase.has_failed();
    match &policy.retry {
        Some(asked)
            if failed
                && selected
                && cluster.left_out.is_none()
                && !asked.has_caused(&record.attempt)
                && asked.concerns(&cluster.name, &record) =>
        {
            Arc::new(retry(Arc::unwrap_or_clone(record), &asked.token, now))
        }
        _ => record,
    }
}

/// True while it is not known whether the cluster has started, because of a work that is to be read, too, or while an earlier
/// creation may still be carried out. If a new attempt began now, a work that appears later would count as a leftover, which
/// holds no slot. If the new attempt reverted an edit, it could even take such a work for its own.
pub(crate) fn is_frozen(cluster: &Cluster, record: &Record) -> bool {
    (cluster.awaits_start() || cluster.is_in_doubt() || cluster.unread_work().is_some())
        && record.phase.is_queued()
}

/// The work that is left from an earlier attempt of a cluster that was queued again and has not started.
fn earlier_attempt<'a>(cluster: &'a Cluster, record: &Record) -> Option<&'a Work> {
    let queued = !record.phase.is_started() && cluster.busy.is_none();
    [Step::Platform, Step::Operators, Step::PostAction]
        .into_iter()
        .filter(|_| queued)
        .find_map(|step| Some((step, cluster.step_work(step).ours()?)))
        .filter(|(step, work)| !is_of(work, record, *step) && work.withdrawal != Withdrawal::Confirmed)
        .map(|(_, work)| work)
}

/// The steps after the pre-action of which a work of the upgrade itself belongs to the record's attempt.
fn steps_under_way(cluster: &Cluster, record: &Record) -> impl Iterator<Item = Step> {
    let is_asked = |work: &Work| !record.phase.is_left_out() || work.withdrawal == Withdrawal::None;
    [Step::Platform, Step::Operators, Step::PostAction]
        .into_iter()
        .filter(move |step| work_with_evidence(cluster, record, *step).is_some_and(is_asked))
}

/// True when there is such a step. The cluster has started then, even if it is blocked.
pub(crate) fn is_under_way(cluster: &Cluster, record: &Record) -> bool {
    steps_under_way(cluster, record).next().is_some()
}

/// True when there is such a step, and the record does not tell its end.
pub(crate) fn has_open_step(cluster: &Cluster, record: &Record) -> bool {
    let is_open = |step: Step| {
        let stage = record.stage(step.into());
        stage.is_none_or(|stage| stage.finished.is_none())
    };
    steps_under_way(cluster, record).any(is_open)
}

/// True when a record tells the end of a step, as the work shows its start.
fn tells_end(record: &Record, work: &Work, step: Step) -> bool {
    let stage = record.stage(step.into());
    stage.is_some_and(|stage| stage.finished.is_some() && stage.started == work.started)
}

/// True when a controller that knew only what is written would find from a work that the cluster has started and holds a slot: from
/// any work where no row is written, else from one of the attempt for which the row says that it is queued, that it is left out, or
/// that its pre-action is degraded.
pub(crate) fn shows_a_start(cluster: &Cluster) -> bool {
    let written = cluster.written.as_deref();
    let counts = |work: &Work, step: Step| {
        written.is_none_or(|written| {
            let has_no_slot = match written.phase {
                Phase::Pending | Phase::Blocked => true,
                Phase::PreActionDegraded | Phase::Skipped | Phase::Aborted => {
                    may_take_slot(step, written) && work.withdrawal == Withdrawal::None
                }
                _ => false,
            };
            has_no_slot && is_of(work, written, step) && !tells_end(written, work, step)
        })
    };
    let shows = |step: Step| {
        let work = cluster.step_work(step).ours();
        work.is_some_and(|work| counts(work, step))
    };
    [Step::PreAction, Step::Platform, Step::Operators]
        .into_iter()
        .any(shows)
}

/// True when a controller that knew only this record would find the cluster in flight, by the record itself or by the work
/// of a step that the record does not tell the end of. A work that cannot be read now may be such a work. Where the pre-action is
/// degraded, or the cluster is left out after it had begun, only a later step shows that it is in flight.
pub(crate) fn may_be_found_in_flight(cluster: &Cluster, record: &Record) -> bool {
    let is_open = |step: Step| {
        may_take_slot(step, record)
            && telling(cluster, step)
                .is_some_and(|work| is_of(work, record, step) && !tells_end(record, work, step))
    };
    record.phase.holds_slot() || cluster.unreadable_work().is_some() || Step::ALL.into_iter().any(is_open)
}

/// True when the next step of a cluster that is in its pre-action may be on its way, or a pre-action in place of one that
/// somebody deleted. A pre-action that is still to be read is one of which nobody knows where it is, either. So is the work of
/// the next step, unless the pre-action goes on: that work is of an earlier attempt then.
fn may_be_on_its_way(cluster: &Cluster, record: &Record) -> bool {
    let pre_action = cluster.step_work(Step::PreAction);
    let work = pre_action
        .ours()
        .filter(|work| is_of(work, record, Step::PreAction));
    let awaits = record.succeeded(Stage::PreAction) || work.is_none();
    let is_over = awaits || work.is_some_and(|work| work.status == StepStatus::Succeeded);
    (cluster.awaits_start() && awaits)
        || (cluster.unread_step().is_some() && is_over)
        || *pre_action == StepWork::Unconfirmed
}

fn revise(
    cluster: &Cluster,
    record: Arc<Record>,
    policy: &Policy,
    window: Option<&WindowState>,
    now: DateTime<Utc>,
) -> Arc<Record> {
    let selected = cluster.selection == Selection::In;
    // Nobody has approved yet what the new spec asks for: what is under way ends by the earlier one.
    let is_unapproved = !policy.checkpoints.is_empty();
    let is_closed = matches!(window, Some(WindowState::Closed(_)));
    let same = |step: Step| is_same(cluster, &record, policy, step);
    // No record tells of this end yet. An earlier leader may have known of it, and have given the slot to another cluster.
    let has_just_ended = |step: Step| {
        let work = work_with_evidence(cluster, &record, step);
        !record.succeeded(step.into()) && work.is_some_and(|work| work.status == StepStatus::Succeeded)
    };
    let in_platform = matches!(record.phase, Phase::Initialized | Phase::Partial | Phase::Workers);
    // So it is while nobody knows yet whether its next step is on its way, although the end is on record by now.
    let awaits_next = |stage: Stage| cluster.awaits_start() && record.succeeded(stage);
    let is_over =
        || awaits_next(Stage::Platform) || (policy.wants(Step::Operators) && has_just_ended(Step::Platform));
    let own = || Record::clone(&record);
    let goes_on = |step: Step| on_new_revision(cluster, with_end(cluster, own(), policy, step, now), policy);
    Arc::new(match record.phase {
        // A cluster that has left the selection finishes what it was given before.
        phase if phase.is_started() && !selected => return record,
        // In a new attempt the work that is on its way would count as a leftover, which holds no slot.
        Phase::PreAction if may_be_on_its_way(cluster, &record) => return record,
        Phase::PreAction if same(Step::PreAction) && !is_unapproved => goes_on(Step::PreAction),
        // What the cluster was given before may be over. It is queued again for the operators, which take a slot.
        _ if in_platform && is_over() => return record,
        Phase::Initialized if withdrawal::has_ended(cluster, &record) => {
            queued_again(cluster, own(), policy, now)
        }
        _ if is_unapproved && (in_platform || record.phase == Phase::Operators) => return record,
        _ if in_platform && same(Step::Platform) => goes_on(Step::Platform),
        // A cluster that may not start now, or runs a newer version than the new target, finishes the earlier request first.
        Phase::Initialized
            if policy.wants(Step::Platform)
                && !is_closed
                && !downgrade::is_refused(policy, &cluster.newest_version) =>
        {
            let mut record = on_new_revision(cluster, own(), policy);
            record.stages[Stage::Platform.index()] = None;
            // Until the new update begins, this bounds how long an earlier one may still run.
            record.since = now;
            record
        }
        Phase::Operators if same(Step::Operators) && same(Step::Platform) == policy.wants(Step::Platform) => {
            goes_on(Step::Operators)
        }
        Phase::Operators
            if policy.wants(Step::Operators)
                && (has_just_ended(Step::Operators) || awaits_next(Stage::Operators)) =>
        {
            return record;
        }
        Phase::Operators if same(Step::Platform) || !policy.wants(Step::Platform) => {
            let mut record = on_new_revision(cluster, own(), policy);
            record.stages[Stage::Operators.index()] = None;
            record
        }
        // A cluster that has started finishes its step before it is queued again.
        Phase::Initialized | Phase::Partial | Phase::Workers | Phase::Operators => return record,
        // So does one that has started and waits before its next step. Its work is kept, so it cannot be dropped.
        phase if phase.is_queued() && !selected && is_under_way(cluster, &record) => return record,
        Phase::Pending
        | Phase::Blocked
        | Phase::Skipped
        | Phase::Aborted
        | Phase::PreAction
        | Phase::PreActionDegraded
        | Phase::Soaking
        | Phase::Complete
        | Phase::PostAction
        | Phase::Failed => queued_again(cluster, own(), policy, now),
    })
}

/// True when the policy asks the same of a step as the work that the record is about.
fn is_same(cluster: &Cluster, record: &Record, policy: &Policy, step: Step) -> bool {
    let wanted = policy.steps[step.index()].as_ref();
    wanted.is_some()
        && work_with_evidence(cluster, record, step).is_some_and(|work| Some(&work.hash) == wanted)
}

/// The record of a cluster that goes on with a step in a new attempt. It tells the end of the step if its work names another start:
/// that work would not be of the step any more. A later step begins anew with all that follows it, unless it has ended and its work
/// shows that it was asked for the same: otherwise an update to an earlier target would count.
fn with_end(
    cluster: &Cluster,
    mut record: Record,
    policy: &Policy,
    step: Step,
    now: DateTime<Utc>,
) -> Record {
    let work = work_with_evidence(cluster, &record, step);
    let awaits_pools = step == Step::Platform && cluster.awaits_pools(policy);
    let ended = work.filter(|work| work.status == StepStatus::Succeeded && !awaits_pools);
    if let (Some(work), Some(stage)) = (ended, &mut record.stages[Stage::from(step).index()])
        && work.started != stage.started
    {
        stage.succeed(now);
    }
    let later = Stage::ALL.into_iter().filter(|stage| *stage > step.into());
    let stays = |stage: &Stage| {
        let has_ended = record.stage(*stage).is_some_and(|stage| stage.outcome.is_some());
        has_ended
            && stage
                .step()
                .is_some_and(|step| is_same(cluster, &record, policy, step))
    };
    let anew: Vec<Stage> = later.skip_while(stays).collect();
    for stage in anew {
        record.stages[stage.index()] = None;
    }
    record
}

/// Moves the record to an attempt at the policy's revision. The attempt must be new: no work that the record is not
/// about may have it, and neither may the written record, which would count as its announcement.
fn on_new_revision(cluster: &Cluster, mut record: Record, policy: &Policy) -> Record {
    record.attempt.revision = Arc::clone(&policy.revision);
    let written = cluster.written.as_deref().map(|written| &written.attempt);
    let is_taken = |record: &Record| {
        let of_a_work = Step::ALL.into_iter().any(|step| {
            let clock = record.stage(step.into()).map(|stage| stage.started);
            match cluster.step_work(step) {
                StepWork::Ours(work) => work.attempt == record.attempt && clock != Some(work.started),
                StepWork::Former(work) => work.attempt == record.attempt,
                _ => false,
            }
        });
        of_a_work || written == Some(&record.attempt)
    };
    while is_taken(&record) {
        record.attempt.retry = Arc::from(again(&record.attempt.retry));
    }
    record
}

/// The next retry token when this one is taken. At most five are taken, so a shortened token is free again long
/// before the longest one is reached.
fn again(retry: &str) -> String {
    // Only somebody else can have written a token of this length.
    let first = start_of(retry.trim_end_matches(AGAIN), MAX_RETRY_BYTES * 3 / 4);
    let before = if retry.len() < MAX_RETRY_BYTES {
        retry
    } else {
        first
    };
    format!("{before}{AGAIN}")
}

/// Moves the record back to Pending at the policy's revision, with no stage done.
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

/// Queues a cluster that is not left out any more: in another attempt if it had begun anything, so that nothing is done twice in one
/// attempt, and works that are left are leftovers.
fn taken_up(cluster: &Cluster, record: Record, policy: &Policy, now: DateTime<Utc>) -> Record {
    let has_begun = record.stages.iter().any(Option::is_some);
    let mut record = queued_keeping(record, now, |_| true);
    let mut steps = Step::ALL.into_iter();
    if has_begun || steps.any(|step| cluster.step_work(step).is_kept()) {
        // Nothing on the hub may tell of the attempt: its works are gone, and its row may not have been written.
        record.attempt.retry = Arc::from(again(&record.attempt.retry));
        on_new_revision(cluster, record, policy)
    } else {
        record
    }
}

/// Begins a retry: stages that succeeded are kept, all others are repeated. A cluster that regressed repeats its update with all
/// that follows. If its operators counted as done, the update would count as passed, and the cluster would soak at once.
fn retry(mut record: Record, token: &Arc<str>, now: DateTime<Utc>) -> Record {
    record.attempt.retry = Arc::clone(token);
    let has_regressed = record.reason == Reason::RegressedInSoak;
    queued_keeping(record, now, |stage| !has_regressed || stage < Stage::Platform)
}

/// Moves a record back to Pending. Of the stages that succeeded it keeps those that it may, and forgets all others.
fn queued_keeping(mut record: Record, now: DateTime<Utc>, may_keep: impl Fn(Stage) -> bool) -> Record {
    for stage in Stage::ALL {
        if !record.succeeded(stage) || !may_keep(stage) {
            record.stages[stage.index()] = None;
        }
    }
    record.phase = Phase::Pending;
    record.reason = Reason::None;
    record.message = Arc::from("");
    record.since = now;
    record
}
