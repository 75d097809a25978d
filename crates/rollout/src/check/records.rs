//! Rules about records: what a plan may say about a cluster.

use chrono::{DateTime, TimeDelta, Utc};

use super::asked::{counts_not, is_asked_for, is_taken_up, may_be_left_out};
use super::proven::{has_succeeded, is_proven, may_be_behind, own, speaks_for};
use super::{Case, Checker, LEFT_FOR, ViolationKind};
use crate::model::{
    Busy, Cluster, ClusterState, Operation, Outcome, Phase, Policy, Reason, Record, Selection, Stage, Step,
    StepRecord, StepStatus, StepWork, Withdrawal, Work,
};

/// The step that a phase belongs to, if the step has a time limit.
const fn timed_step(phase: Phase) -> Option<Step> {
    match phase {
        Phase::PreAction => Some(Step::PreAction),
        Phase::Initialized | Phase::Partial | Phase::Workers => Some(Step::Platform),
        Phase::Operators => Some(Step::Operators),
        Phase::PostAction => Some(Step::PostAction),
        _ => None,
    }
}

/// True when nobody was told of the start of a step and nothing of it is on its way, so its clock may begin later. A cluster that is in
/// its pre-action or its update has had the work of that step.
fn is_untold(cluster: &Cluster, record: &Record, stage: Stage, was: StepRecord) -> bool {
    let is_told = cluster.written.as_deref().is_some_and(|written| {
        let told = written.stages[stage.index()];
        told.is_some_and(|told| written.attempt == record.attempt || told.started == was.started)
    });
    let is_absent = |step: Step| matches!(cluster.works[step.index()], StepWork::Absent);
    let is_quiet = cluster.busy.is_none() && cluster.unsettled.is_none() && cluster.late.is_none();
    let phase = cluster.record.as_deref().map(|before| before.phase);
    let was_there = stage <= Stage::Platform && phase.and_then(timed_step) == stage.step();
    let is_unknown = was.outcome.is_none() && !is_told && !was_there;
    is_unknown && is_quiet && stage.step().is_some_and(is_absent)
}

/// True when an earlier attempt ended because the cluster regressed, which takes back its update and all that followed.
fn is_taken_back(cluster: &Cluster, record: &Record, stage: Stage) -> bool {
    cluster.record.as_deref().is_some_and(|before| {
        let has_regressed = before.phase == Phase::Failed && before.reason == Reason::RegressedInSoak;
        has_regressed && before.attempt != record.attempt && stage >= Stage::Platform
    })
}

/// True when a written record is about what a record says now: of the same attempt, and of no step that has begun anew since,
/// as when the cluster was registered anew.
pub(super) fn tells_of(written: &Record, record: &Record) -> bool {
    let is_another = |stage: Stage| match (written.stage(stage), record.stage(stage)) {
        (Some(before), Some(now)) => before.started != now.started,
        _ => false,
    };
    written.attempt == record.attempt && !Stage::ALL.into_iter().any(is_another)
}

/// True when a work is of a step of a written record that this record does not tell the end of.
fn leaves_open(written: &Record, work: &Work, step: Step) -> bool {
    let stage = written.stage(step.into());
    let is_over = stage.is_some_and(|stage| stage.finished.is_some() && stage.started == work.started);
    speaks_for(work, written, step) && !is_over
}

/// True when a written record says that a cluster is queued, and does not tell how far the cluster had come by then in this attempt, or
/// when it says that a cluster is left out that is not any more.
fn lacks_an_end(written: &Record, record: &Record) -> bool {
    let outcomes = |record: &Record| record.stages.map(|stage| stage.and_then(|stage| stage.outcome));
    let was_out = written.phase.is_left_out() && !record.phase.is_left_out();
    was_out || (written.phase.is_queued() && outcomes(written) != outcomes(record))
}

/// True when a pre-action that is there proves no slot by a record: it is degraded, or the cluster is left out. A record that leaves the
/// cluster out and tells of no step is from before every work of its attempt.
pub(super) fn gives_up_pre_action(record: &Record) -> bool {
    let tells_nothing = record.stages.iter().all(Option::is_none);
    record.phase == Phase::PreActionDegraded || (record.phase.is_left_out() && !tells_nothing)
}

/// True when a cluster is queued and a restarted controller would find it in flight by a work: no row is written, or the row says
/// that it is queued, for another attempt or from before the end of a step, has a degraded pre-action in another attempt or is left
/// out there, and the work began since.
fn may_be_found_started(cluster: &Cluster, record: &Record) -> bool {
    let mut works = Step::ALL
        .into_iter()
        .filter(|step| *step != Step::PostAction)
        .filter_map(|step| Some((step, cluster.works[step.index()].ours()?)));
    let mut has_work = || match cluster.written.as_deref() {
        None => works.next().is_some(),
        Some(written) if written.attempt == record.attempt && !lacks_an_end(written, record) => false,
        Some(written) if written.phase == Phase::PreActionDegraded || written.phase.is_left_out() => works
            .any(|(step, work)| {
                let is_over = step == Step::PreAction && gives_up_pre_action(written);
                !is_over && work.withdrawal == Withdrawal::None && leaves_open(written, work, step)
            }),
        Some(written) if !written.phase.is_queued() => false,
        Some(written) => works.any(|(step, work)| leaves_open(written, work, step)),
    };
    record.phase.is_queued() && !record.unreadable && has_work()
}

/// True when a written record is of another attempt than the record, and the cluster has no slot in that attempt: neither does
/// the row hold one, nor is there a work of a step that it does not tell the end of. A pre-action that is degraded by that row, or
/// whose cluster it leaves out after it had begun, holds none.
fn tells_of_no_start(cluster: &Cluster, written: &Record, record: &Record) -> bool {
    let mut works = Step::ALL
        .into_iter()
        .filter_map(|step| Some((step, cluster.works[step.index()].ours()?)));
    let is_given_up = gives_up_pre_action(written);
    let has_started = works
        .any(|(step, work)| !(is_given_up && step == Step::PreAction) && leaves_open(written, work, step));
    let holds = cluster.slot_in_doubt || written.phase.holds_slot();
    written.attempt != record.attempt && !holds && !has_started
}

/// True when an edit ended the step by which a cluster held a slot, and its row or works still tell of the attempt before.
fn is_edit_unwritten(cluster: &Cluster, record: &Record) -> bool {
    let works = &cluster.works[..Step::PostAction.index()];
    let mut works = works.iter().filter_map(StepWork::ours);
    let may_be_held = match cluster.written.as_deref() {
        None => works.any(|work| work.attempt != record.attempt),
        Some(written) if written.attempt == record.attempt => false,
        Some(written) => cluster.slot_in_doubt || written.phase.holds_slot(),
    };
    may_be_held && !record.phase.holds_slot() && !record.unreadable
}

/// True when no written record says that the update of a record has succeeded.
fn is_update_untold(written: Option<&Record>, record: &Record) -> bool {
    let platform = Stage::Platform;
    let starts = |record: &Record| record.stage(platform).map(|stage| stage.started);
    written.is_none_or(|written| !has_succeeded(written, platform) || starts(written) != starts(record))
}

/// True when no row tells of a start that a work shows.
fn is_start_untold(cluster: &Cluster) -> bool {
    let mut works = Step::ALL
        .into_iter()
        .filter(|step| *step != Step::PostAction)
        .filter_map(|step| Some((step, cluster.works[step.index()].ours()?)));
    match cluster.written.as_deref() {
        None => works.next().is_some(),
        Some(written) => {
            matches!(written.phase, Phase::Pending | Phase::Blocked)
                && works.any(|(step, work)| leaves_open(written, work, step))
        }
    }
}

/// True when the last step that takes a slot has ended and its work is gone or being deleted, although the row or an earlier work may
/// say that the cluster is under way, or when that step is an update whose worker pools were waited for and the row does not tell its
/// end: its work says nothing of them. The work of a post-action of the same attempt proves that end, too.
fn is_end_unproven(policy: &Policy, cluster: &Cluster, record: &Record) -> bool {
    let written = cluster.written.as_deref();
    let is_told = written.is_some_and(|written| written.phase.holds_slot());
    let may_be_held = cluster.slot_in_doubt || is_told || is_start_untold(cluster);
    let last = if has_succeeded(record, Stage::Operators) {
        Step::Operators
    } else {
        Step::Platform
    };
    let is_lost = has_succeeded(record, last.into()) && cluster.works[last.index()].ours().is_none();
    let post_action = cluster.works[Step::PostAction.index()].ours();
    let is_followed = post_action.is_some_and(|work| work.attempt == record.attempt);
    let were_pools_awaited = last == Step::Platform
        && has_succeeded(record, Stage::Platform)
        && policy.worker_pools_timeout.is_some();
    let is_unproven = may_be_held && is_lost || were_pools_awaited && is_update_untold(written, record);
    is_unproven && !is_followed
}

/// True when a failure, an edit or an end that no work shows released a slot and no written record says so. A restarted controller might
/// find the cluster in flight.
pub(super) fn is_release_unwritten(policy: &Policy, cluster: &Cluster, record: &Record) -> bool {
    let out_of_flight = match record.phase {
        Phase::PreActionDegraded => true,
        Phase::Failed => {
            let ends_step = [
                Reason::ClusterUpgradeTimeout,
                Reason::WorkerPoolsTimeout,
                Reason::OperatorsUpgradeTimeout,
                Reason::OperatorsJobFailed,
                Reason::LeftSelection,
            ];
            ends_step.contains(&record.reason) || is_end_unproven(policy, cluster, record)
        }
        Phase::Soaking | Phase::PostAction | Phase::Complete => is_end_unproven(policy, cluster, record),
        _ => false,
    };
    let written = cluster.written.as_deref();
    let queued = record.phase.is_queued()
        && (cluster.slot_in_doubt || written.is_some_and(|written| written.phase.holds_slot()));
    queued
        || may_be_found_started(cluster, record)
        || is_edit_unwritten(cluster, record)
        || out_of_flight
            && written.is_none_or(|written| {
                (written.phase != record.phase || !tells_of(written, record))
                    && !tells_of_no_start(cluster, written, record)
            })
}

/// True when a cluster is under way although its row says that its pre-action is degraded: the work of a later step shows it. A retry
/// does not concern it, unless it is found to have failed.
pub(super) fn is_past_pre_action(cluster: &Cluster, before: &Record, record: &Record) -> bool {
    let is_shown = |step: Step| own(cluster, step).is_some_and(|work| speaks_for(work, record, step));
    before.phase == Phase::PreActionDegraded
        && !matches!(record.phase, Phase::PreActionDegraded | Phase::Failed)
        && [Step::Platform, Step::Operators, Step::PostAction]
            .into_iter()
            .any(is_shown)
}

/// True when a cluster is left out by its row, and no work of a step after the pre-action shows that it is under way. What it had
/// begun must not begin again in the same attempt, when it is back in the selection or not left out any more.
fn tells_what_had_begun(cluster: &Cluster, before: &Record) -> bool {
    let is_asked = |step: Step| {
        own(cluster, step)
            .is_some_and(|work| work.withdrawal == Withdrawal::None && speaks_for(work, before, step))
    };
    let mut later = [Step::Platform, Step::Operators, Step::PostAction].into_iter();
    before.phase.is_left_out() && !later.any(is_asked)
}

/// True when a cluster was queued while the work of its update was being deleted: that gave its slot back, and its operators take
/// another one.
fn proves_no_slot(cluster: &Cluster, record: &Record, step: Step) -> bool {
    let before = cluster.record.as_deref();
    let was_queued = before.is_some_and(|before| matches!(before.phase, Phase::Pending | Phase::Blocked));
    let is_removed = own(cluster, step).is_some_and(|work| work.terminating || work.vanished);
    let may_hold = cluster.busy == Some(Busy::Starting)
        || cluster.unsettled.is_some()
        || cluster.late.is_some()
        || cluster.slot_in_doubt;
    let is_next = step == Step::Platform && record.phase == Phase::Operators;
    is_next && was_queued && is_removed && !may_hold
}

impl Checker<'_> {
    pub(super) fn check_record(&mut self, case: &Case<'_>) {
        let Some(state) = case.state else {
            self.check_dropped(case.cluster);
            return;
        };
        let (cluster, record) = (case.cluster, &*state.record);
        self.check_attempt(cluster, record);
        self.check_stages(cluster, record);
        self.check_slot(cluster, record);
        self.check_deadlines(case, record);
        self.check_confirmed(cluster, record);
        self.check_urgency(cluster, state);
        let silent = record.reason == Reason::None
            && matches!(
                record.phase,
                Phase::Pending | Phase::Blocked | Phase::Failed | Phase::PreActionDegraded
            );
        let excused = state.starting || state.urgent || cluster.busy.is_some() || !case.operations.is_empty();
        if silent && !excused {
            self.report(
                ViolationKind::NoReason,
                Some(cluster),
                format!("{:?} without a reason", record.phase),
            );
        }
    }

    /// A cluster whose record cannot be read is left alone: no write, no other record, no removal of the row.
    pub(super) fn check_unreadable(&mut self, case: &Case<'_>) {
        let Some(before) = case.cluster.record.as_deref().filter(|before| before.unreadable) else {
            return;
        };
        let kept = case.state.is_some_and(|state| *state.record == *before);
        // A work may be read, to find out whether a write without a response was carried out.
        let is_read = |operation: &&Operation| matches!(operation, Operation::Read { .. });
        if !kept || !case.operations.iter().all(is_read) {
            let text = format!("{:?}, listed: {}", case.operations, case.state.is_some());
            self.report(ViolationKind::UnreadableTouched, Some(case.cluster), text);
        }
    }

    fn check_dropped(&mut self, cluster: &Cluster) {
        let started = cluster
            .record
            .as_deref()
            .is_some_and(|record| record.phase.is_started());
        let left = matches!(cluster.selection, Selection::Left(since)
            if since + LEFT_FOR <= self.now);
        // A work that is to be read may be running.
        let unread = cluster.works.contains(&StepWork::Unconfirmed);
        let doubt = cluster.unsettled.is_some() || cluster.late.is_some() || unread;
        if !cluster.gone && (!left || started || doubt) {
            let text = format!(
                "dropped from {:?}",
                cluster.record.as_deref().map(|record| record.phase)
            );
            self.report(ViolationKind::LostCluster, Some(cluster), text);
        }
    }

    /// A record that is made anew while a start is in doubt is of the attempt of that start, unless works say of which it is.
    fn check_first_attempt(&mut self, cluster: &Cluster, record: &Record) {
        let Some(awaited) = cluster
            .awaited_attempt
            .as_ref()
            .filter(|awaited| **awaited != record.attempt)
        else {
            return;
        };
        let tells = |step: Step| match cluster.step_work(step) {
            StepWork::Former(work) => work.attempt == *awaited,
            _ => own(cluster, step).is_some(),
        };
        if !Step::ALL.into_iter().any(tells) {
            let text = format!("{:?} and not {awaited:?}", record.attempt);
            self.report(ViolationKind::UnsettledPassed, Some(cluster), text);
        }
    }

    fn check_attempt(&mut self, cluster: &Cluster, record: &Record) {
        let Some(before) = cluster.record.as_deref() else {
            self.check_first_attempt(cluster, record);
            return;
        };
        if before.attempt == record.attempt {
            let recovers = matches!(
                before.reason,
                Reason::PostActionFailed | Reason::PostActionTimeout
            ) && record.phase == Phase::Complete;
            let is_left_out = record.phase.is_left_out() && may_be_left_out(cluster, before, record);
            if before.phase.is_terminal() && before.phase != record.phase && !recovers && !is_left_out {
                let text = format!("{:?} became {:?}", before.phase, record.phase);
                self.report(ViolationKind::TerminalReversed, Some(cluster), text);
            }
            return;
        }
        // If its start exists, the cluster is in flight, and an edit may change it like any other.
        let told = |step: Step| own(cluster, step).filter(|work| speaks_for(work, before, step));
        let begun = || Step::ALL.into_iter().any(|step| told(step).is_some());
        // Its work may be seen before the response to its creation. The doubt is then about an earlier creation, or about a later
        // step of a cluster in flight.
        let is_there = |step: Step| told(step).is_some_and(|work| !work.vanished);
        let unsettled = cluster.unsettled.is_some() && !Step::ALL.into_iter().any(is_there);
        let unread = cluster.works.contains(&StepWork::Unconfirmed);
        let waits = unsettled || ((cluster.late.is_some() || unread) && !begun());
        if waits && before.phase.is_queued() {
            let text = format!("{:?} became {:?}", before.attempt, record.attempt);
            self.report(ViolationKind::UnsettledPassed, Some(cluster), text);
        }
        let revised = before.attempt.revision != self.policy.revision
            && record.attempt.revision == self.policy.revision;
        let retried =
            self.policy.retry.as_ref().is_some_and(|retry| {
                retry.token == record.attempt.retry && is_asked_for(retry, cluster, before)
            }) && !counts_not(cluster)
                && before.phase.has_failed()
                && before.attempt.revision == record.attempt.revision;
        let selected = cluster.selection == Selection::In;
        let fell_back = !selected
            && record.phase.is_terminal()
            && Step::ALL
                .into_iter()
                .any(|step| own(cluster, step).is_some_and(|work| work.attempt == record.attempt));
        if fell_back && record.phase == Phase::Complete && may_be_behind(self.policy, cluster, record) {
            let text = "it falls back to Complete, and its worker pools may be behind";
            self.report(ViolationKind::UnprovenSuccess, Some(cluster), text);
        }
        let given = is_taken_up(cluster, before, record)
            || (revised && (selected || !before.phase.is_started()))
            || (retried && selected);
        if !given && !fell_back {
            let text = format!("{:?} became {:?}", before.attempt, record.attempt);
            self.report(ViolationKind::AttemptUnfounded, Some(cluster), text);
        }
    }

    fn check_stages(&mut self, cluster: &Cluster, record: &Record) {
        let before = cluster
            .record
            .as_deref()
            .filter(|before| before.attempt == record.attempt);
        for stage in Stage::ALL {
            let now = record.stages[stage.index()];
            let unproven = has_succeeded(record, stage)
                && stage != Stage::Soak
                && !is_proven(self.policy, cluster, record, stage, self.now)
                && !cluster
                    .record
                    .as_deref()
                    .is_some_and(|before| has_succeeded(before, stage));
            if unproven {
                let text = format!("{stage:?} counts as succeeded without proof");
                self.report(ViolationKind::UnprovenSuccess, Some(cluster), text);
            }
            if has_succeeded(record, stage) && is_taken_back(cluster, record, stage) {
                let text = format!("{stage:?} counts as succeeded although the cluster has regressed since");
                self.report(ViolationKind::UnprovenSuccess, Some(cluster), text);
            }
            let Some(was) = before.and_then(|before| before.stages[stage.index()]) else {
                continue;
            };
            // A report may end a soak at any time, and so may a spec that does not ask for it any more. A post-action is
            // created only after the soak, perhaps by a leader whose clock was trusted.
            let passed = |stage: StepRecord| stage.outcome == Some(Outcome::Succeeded);
            let may_not_fail = matches!(stage, Stage::Platform | Stage::Operators) && passed(was);
            if may_not_fail && now.is_some_and(|now| now.started == was.started && !passed(now)) {
                let text = format!("{stage:?} had succeeded: {was:?} became {now:?}");
                self.report(ViolationKind::TerminalReversed, Some(cluster), text);
            }
            let post_action = own(cluster, Step::PostAction);
            let is_followed = post_action.is_some_and(|work| work.attempt == record.attempt);
            let by_time = stage == Stage::Soak && self.policy.soak().is_some() && !is_followed;
            if by_time && !self.policy.clock_trusted && now.is_some_and(passed) && !passed(was) {
                let text = "the soak ended although the clock is not trusted";
                self.report(ViolationKind::ClockDistrusted, Some(cluster), text);
            }
            let must_tell = || before.is_some_and(|before| tells_what_had_begun(cluster, before));
            let kept = now.map_or_else(
                || record.phase.is_queued() && !must_tell(),
                |now| now.started == was.started,
            );
            let is_long_ago = self.policy.clock_trusted && was.started + TimeDelta::seconds(90) <= self.now;
            let is_untold = is_long_ago && is_untold(cluster, record, stage, was);
            if !kept && !is_untold {
                let text = format!("{stage:?}: {was:?} became {now:?}");
                self.report(ViolationKind::ClockReset, Some(cluster), text);
            }
        }
    }

    /// A cluster holds a slot only if an earlier record or a work proves it.
    fn check_slot(&mut self, cluster: &Cluster, record: &Record) {
        let recorded = [&cluster.record, &cluster.written]
            .into_iter()
            .flatten()
            .any(|before| before.phase.holds_slot());
        let worked = [Step::PreAction, Step::Platform, Step::Operators]
            .into_iter()
            .any(|step| own(cluster, step).is_some() && !proves_no_slot(cluster, record, step));
        if record.phase.holds_slot() && !recorded && !worked {
            let text = format!("{:?} although no record or work proves a start", record.phase);
            self.report(ViolationKind::UnfoundedSlot, Some(cluster), text);
        }
    }

    fn check_deadlines(&mut self, case: &Case<'_>, record: &Record) {
        let cluster = case.cluster;
        let mut deadlines = self.deadlines(cluster, record);
        if cluster.gone && !deadlines.is_empty() {
            // It fails by no time. Its start is noted for the moment until its row is removed.
            deadlines = vec![self.now + TimeDelta::seconds(1)];
        }
        for deadline in deadlines {
            let due = deadline <= self.now && self.policy.clock_trusted;
            if due && !self.is_being_read(case, record, deadline) {
                let text = format!("still {:?} after its deadline {deadline}", record.phase);
                self.report(ViolationKind::DeadlinePassed, Some(cluster), text);
            } else if deadline > self.now && self.plan.wake_at.is_none_or(|wake| wake > deadline) {
                let text = format!("no wake-up for {:?} at its deadline {deadline}", record.phase);
                self.report(ViolationKind::WakeMissed, Some(cluster), text);
            }
        }
        let backoff = cluster.backoff.as_ref().map(|backoff| backoff.until);
        if let Some(until) = backoff.filter(|until| *until > self.now)
            && self.plan.wake_at.is_none_or(|wake| wake > until)
        {
            self.report(
                ViolationKind::WakeMissed,
                Some(cluster),
                format!("no wake-up at the end of the backoff, {until}"),
            );
        }
    }

    /// After a deadline the plan waits until the step's work was read from the hub. Another write, or the backoff
    /// after a failed one, may delay this.
    fn is_being_read(&self, case: &Case<'_>, record: &Record, deadline: DateTime<Utc>) -> bool {
        let Some(step) = timed_step(record.phase) else {
            return false;
        };
        let confirmed = matches!(case.cluster.read, Some((read, at)) if read == step && at >= deadline);
        let asked = case
            .operations
            .iter()
            .any(|operation| matches!(operation, Operation::Read { step: read, .. } if *read == step));
        let held_up = case.cluster.busy.is_some()
            || case
                .cluster
                .backoff
                .as_ref()
                .is_some_and(|backoff| backoff.until > self.now);
        case.cluster.unsettled.is_some() || (!confirmed && (asked || held_up))
    }

    /// A cluster must not time out only because of what the watches reported.
    fn check_confirmed(&mut self, cluster: &Cluster, record: &Record) {
        let step = match record.reason {
            Reason::PreActionTimeout => Step::PreAction,
            Reason::ClusterUpgradeTimeout | Reason::WorkerPoolsTimeout => Step::Platform,
            Reason::OperatorsUpgradeTimeout => Step::Operators,
            Reason::PostActionTimeout => Step::PostAction,
            _ => return,
        };
        let old = cluster.record.as_deref().is_some_and(|before| {
            before.reason == record.reason && before.phase == record.phase && before.attempt == record.attempt
        });
        if old || !record.phase.has_failed() {
            return;
        }
        if !self.policy.clock_trusted {
            let text = format!("{} although the clock is not trusted", record.reason);
            self.report(ViolationKind::ClockDistrusted, Some(cluster), text);
        }
        if record.reason == Reason::WorkerPoolsTimeout && cluster.pools_unheard {
            let text = "the cluster may not have been asked for its worker pools since the term began or the clocks agree";
            self.report(ViolationKind::ClockDistrusted, Some(cluster), text);
        }
        let deadline = if record.reason == Reason::WorkerPoolsTimeout {
            let before = cluster
                .record
                .as_deref()
                .filter(|before| before.phase == Phase::Workers);
            before
                .zip(self.policy.worker_pools_timeout)
                .map(|(before, length)| before.since + length)
        } else {
            let stage = record.stages[Stage::from(step).index()];
            stage.map(|stage| stage.started + self.length(step))
        };
        let read = cluster.read.filter(|(read, _)| *read == step);
        let confirmed = deadline
            .zip(read)
            .is_some_and(|(deadline, (_, at))| at >= deadline && deadline <= self.now);
        if !confirmed {
            let text = format!("{} at {deadline:?}, last read: {:?}", record.reason, cluster.read);
            self.report(ViolationKind::FailedUnread, Some(cluster), text);
        }
    }

    /// How long a step may take.
    pub(super) fn length(&self, step: Step) -> TimeDelta {
        match (step, self.policy.action_timeout) {
            (Step::Operators, _) => self.policy.operators_timeout,
            (Step::PreAction | Step::PostAction, Some(length)) => length,
            _ => self.policy.cluster_timeout,
        }
    }

    /// When the phase must end at the latest.
    fn deadlines(&self, cluster: &Cluster, record: &Record) -> Vec<DateTime<Utc>> {
        if record.phase == Phase::Soaking {
            let began = record.stages[Stage::Soak.index()].map(|stage| stage.started);
            let length = self.policy.min_success_time.unwrap_or_default();
            return began.map(|began| began + length).into_iter().collect();
        }
        if record.phase == Phase::Workers {
            // Once the pools have followed, the phase stays until the work of the next step is there.
            let length = self.policy.worker_pools_timeout;
            let length = length.filter(|_| !record.succeeded(Stage::Platform) && !cluster.pools_unheard);
            return length.map(|length| record.since + length).into_iter().collect();
        }
        let Some(step) = timed_step(record.phase) else {
            return Vec::new();
        };
        let length = self.length(step);
        let stage = record.stages[Stage::from(step).index()];
        let mut deadlines: Vec<_> = stage
            .filter(|stage| stage.outcome.is_none())
            .map(|stage| stage.started + length)
            .into_iter()
            .collect();
        if let Some(Work {
            status: StepStatus::MaybeFailed(since),
            ..
        }) = own(cluster, step)
            && step == Step::Operators
            && own(cluster, step).is_some_and(|work| speaks_for(work, record, step) && !work.terminating)
        {
            deadlines.push(*since + TimeDelta::seconds(15));
        }
        deadlines
    }

    /// A new attempt, and a failure that releases a slot, must be written at once.
    fn check_urgency(&mut self, cluster: &Cluster, state: &ClusterState) {
        let record = &state.record;
        let written = cluster.written.as_deref();
        let new_attempt = written.is_some_and(|written| written.attempt != record.attempt);
        if (new_attempt || is_release_unwritten(self.policy, cluster, record)) && !state.urgent {
            self.report(
                ViolationKind::NotUrgent,
                Some(cluster),
                format!("{:?} {:?}", record.attempt, record.phase),
            );
        }
    }
}
