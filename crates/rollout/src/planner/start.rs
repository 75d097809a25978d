//! The beginning of a step: whether its work may be created now, and what blocks it.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::model::{
    Eligibility, Outcome, Phase, Reason, RivalHold, Selection, Stage, Step, StepStatus, StepWork,
};
use crate::planner::attempts;
use crate::planner::cluster::{ClusterEvaluator, NextStep, running_step};
use crate::planner::downgrade::is_refused;
use crate::planner::evidence;
use crate::planner::is_free;
use crate::planner::windows::WindowState;
use crate::planner::wording::{LEAVING_OUT, UNREAD, duration};

/// What was sent this long ago has been answered, if the hub is in reach.
const ANSWERED_WITHIN: TimeDelta = TimeDelta::seconds(90);

impl ClusterEvaluator<'_> {
    /// Begins a step whose work does not exist: the work is to be created once nothing blocks it.
    pub(crate) fn enter(&mut self, step: Step) {
        let done = matches!(self.before, Phase::Soaking | Phase::Complete | Phase::PostAction);
        let goes_on = self.holds || (step == Step::PostAction && done);
        if !goes_on {
            self.forget(step.into());
            // Most clusters of a large fleet wait here in most plans, for the same reason as in the previous plan.
            if self.out.record.phase != Phase::Pending {
                self.phase(Phase::Pending, Reason::None, "");
            }
            self.out.reason_is_current = false;
            self.ask_to_start(step);
            return;
        }
        let is_updating = step == Step::Platform && self.is_in_earlier_update();
        if is_updating || self.is_aborted_before_request(step) {
            return;
        }
        let Some(started) = self.clock_without_work(step) else {
            // While that is read, the cluster may still wait for its windows.
            self.wake_at_opening();
            return;
        };
        let phase = match step {
            Step::PostAction => Phase::PostAction,
            Step::Platform
                if self.before == Phase::Partial && self.cluster.step_work(step).ours().is_some() =>
            {
                Phase::Initialized
            }
            _ => self.before,
        };
        self.phase(phase, Reason::Running, "");
        if self.leaving {
            // Nothing is asked of it, so nothing blocks it. If it is back before it is dropped, it goes on with this start.
            return;
        }
        if self.cluster.step_work(step).is_unreadable() {
            // The work may be upgrading the cluster, so the slot is kept until the time limit has passed.
            let text = self.blocker(step).map(|(_, text)| text);
            self.wait(Reason::UnreadableWork, &text.unwrap_or_default());
        } else if self.is_being_removed(step) {
            // Until the hub has taken the deletion, nothing that blocks the step gives its slot back.
            self.way_is_free(step);
        } else if step <= Step::Platform
            && let Eligibility::Blocked { reason, message } = &self.cluster.eligibility
        {
            self.block_in_flight(*reason, message);
        } else if let Some(text) = self.downgrade(step) {
            self.block_in_flight(Reason::NewerThanTarget, &text);
        } else if self.is_asked_anew(step) && self.waits_for_window() {
            if self.out.record.phase.is_queued() {
                // It has given its slot back. What keeps any queued cluster from starting comes first.
                self.holds = false;
                self.phase(Phase::Pending, Reason::None, "");
                self.ask_to_start(step);
            }
        } else if self.is_first_request(step) && !self.passes_preflight(step) {
            // The reason is set. A cluster that is asked again keeps its slot.
        } else if self.way_is_free(step) {
            self.out.next = NextStep::Advance(step, started);
            if step == Step::PostAction {
                self.keep_blocker(step);
            }
        }
        if self.out.record.phase == Phase::Blocked {
            // The cluster released its slot and will start again with a fresh clock.
            self.forget(step.into());
        }
    }

    /// The start of a step whose work does not exist. The time limit applies, because a permanent blocker must not
    /// hold a slot forever. Returns `None` when the limit seems to have passed.
    ///
    /// The clock of a step begins only when its attempt is announced. Before that nothing is asked of the cluster,
    /// however long the hub rejects the row. Nor does the clock of any step begin while nothing is asked of the cluster
    /// because it is leaving: it may come back minutes later, when another leader finds its row. The same holds while an
    /// earlier write keeps the step's own from being sent, the maintenance windows are closed, or the cluster is asked what it
    /// says to the update.
    pub(crate) fn clock_without_work(&mut self, step: Step) -> Option<DateTime<Utc>> {
        let now = self.now;
        if self.was_never_asked_for(step) {
            self.forget(step.into());
        }
        let has_begun = self.out.record.stage(step.into()).is_some();
        let is_announced = attempts::is_announced(self.cluster, &self.out.record);
        let is_kept = self.is_kept_by_window(step) || self.is_kept_by_preflight(step);
        let is_asked_for = !self.leaving && is_announced && self.may_be_sent(step) && !is_kept;
        if !has_begun && !is_asked_for {
            return Some(now);
        }
        let begins = evidence::fresh_start(self.cluster, &self.out.record, step, now);
        let started = self.stage(step.into(), begins).started;
        let waits_for_pools = self.waits_for_pools(step);
        let deadline = if waits_for_pools {
            self.workers_deadline()
        } else {
            started + self.policy.timeout(step)
        };
        // It may not have been asked for its pools yet, whether the work was there or not.
        let is_unheard = waits_for_pools && self.cluster.pools_unheard;
        if self.now >= deadline && !is_unheard {
            if self.is_missed(deadline, step) {
                self.time_out_without_work(step);
            }
            return None;
        }
        self.wake_at(deadline);
        Some(started)
    }

    /// True when the version of the cluster is updated, and only the time of its worker pools counts.
    fn waits_for_pools(&self, step: Step) -> bool {
        let is_behind = self.before == Phase::Workers && self.out.record.phase == Phase::Workers;
        step == Step::Platform && is_behind && self.policy.worker_pools_timeout.is_some()
    }

    /// True when a step was to begin, but its request did not get out before the hub was out of reach: no work is there or may come, and
    /// no row tells of its start. Its time runs from when it is asked for.
    fn was_never_asked_for(&self, step: Step) -> bool {
        let stage = self.out.record.stage(step.into());
        let started = stage.map(|stage| stage.started);
        // An edit leaves a start as it is, so the row of an earlier attempt tells of it as well.
        let is_told = self.cluster.written.as_deref().is_some_and(|written| {
            let told = written.stage(step.into());
            let is_same = written.attempt == self.out.record.attempt;
            told.is_some_and(|told| is_same || Some(told.started) == started)
        });
        // Its work was there, and somebody has deleted it. The phases of later steps may come before their works.
        let was_there = step <= Step::Platform && running_step(self.before) == Some(step);
        // A row that tells of it may be on its way. A clock that is not trusted does not tell for how long.
        let is_long_ago =
            |started: DateTime<Utc>| self.policy.clock_trusted && started + ANSWERED_WITHIN <= self.now;
        stage.is_some_and(|stage| stage.outcome.is_none() && is_long_ago(stage.started))
            && !is_told
            && !was_there
            && matches!(self.cluster.step_work(step), StepWork::Absent)
            && is_free(self.cluster, self.now)
            && !self.cluster.is_in_doubt()
    }

    /// True when the step would begin after the pre-action, or would ask a cluster in flight for another update than before.
    fn is_asked_anew(&self, step: Step) -> bool {
        self.follows_pre_action(step) || self.repoints(step) || self.has_lost_request(step)
    }

    /// True when the step after the pre-action, or after the update of an earlier spec, waits for the maintenance windows.
    fn is_kept_by_window(&self, step: Step) -> bool {
        let is_ended = self.has_ended_earlier_update() || self.has_lost_request(step);
        let follows_update = step == Step::Platform && is_ended;
        let is_closed = matches!(self.window, Some(WindowState::Closed(_)));
        is_closed && (follows_update || self.follows_pre_action(step))
    }

    /// False while another write for the cluster is in progress, has just failed, or has an outcome that must be known first.
    fn may_be_sent(&self, step: Step) -> bool {
        is_free(self.cluster, self.now) && self.cluster.unsettled.is_none_or(|open| open == step)
    }

    /// True while the deletion of a step's work is on its way. If the hub does not take it, the step goes on.
    fn is_being_removed(&self, step: Step) -> bool {
        let work = self.cluster.step_work(step);
        self.cluster.busy.is_some() && matches!(work, StepWork::Ours(work) if work.terminating)
    }

    /// Keeps a cluster in flight whose work cannot be read, or is still to be read, as it is. It fails when the time limit has
    /// passed. No time runs any more for a step whose end is on record.
    pub(crate) fn wait_for_unreadable(&mut self, step: Step) {
        let has_ended = self.out.record.succeeded(step.into());
        if !has_ended && self.clock_without_work(step).is_none() {
            return;
        }
        if let Some((reason, text)) = self.blocker(step) {
            self.wait(reason, &text);
        } else if matches!(self.cluster.step_work(step), StepWork::Unconfirmed) {
            self.wait_for_reading(step);
        }
    }

    /// Keeps a cluster whose pre-action is over, or gone, in that phase until the work of the next step was read: the step may have
    /// begun. The time limit of the pre-action bounds that unless it has succeeded.
    pub(crate) fn wait_after_pre_action(&mut self) {
        let work = evidence::work_with_evidence(self.cluster, &self.out.record, Step::PreAction);
        if let Some(work) = work.filter(|work| work.status == StepStatus::Succeeded) {
            self.note_work(Step::PreAction, work);
            self.finish(Stage::PreAction, Outcome::Succeeded);
        }
        let is_over = self.out.record.succeeded(Stage::PreAction);
        if !(is_over || self.clock_without_work(Step::PreAction).is_some()) {
            return;
        }
        // Nothing is to be read if somebody has changed the annotations of the pre-action.
        let is_unreadable = self.cluster.step_work(Step::PreAction).is_unreadable();
        let is_spoiled = is_unreadable && self.cluster.unread_work().is_none();
        match self.blocker(Step::PreAction).filter(|_| is_spoiled) {
            Some((reason, text)) => self.wait(reason, &text),
            None => self.wait(Reason::WaitingForCleanup, UNREAD),
        }
    }

    fn wait_for_reading(&mut self, step: Step) {
        self.out.read = Some(step);
        self.wait(Reason::WaitingForCleanup, UNREAD);
    }

    fn time_out_without_work(&mut self, step: Step) {
        let waits_for_pools = self.waits_for_pools(step);
        let pools = self.policy.worker_pools_timeout.filter(|_| waits_for_pools);
        let limit = duration(pools.unwrap_or_else(|| self.policy.timeout(step)));
        let failed_write = self.cluster.backoff.as_ref();
        let failed_write = failed_write.map(|backoff| (Reason::WriteFailed, backoff.error.to_string()));
        let message = match self.blocker(step).or(failed_write) {
            Some((reason, text)) => format!("The step was not done within {limit}: {reason}: {text}"),
            None => {
                format!("The step was not done within {limit}, because its ManifestWork does not exist")
            }
        };
        match step {
            Step::PreAction => self.phase(Phase::PreActionDegraded, Reason::PreActionTimeout, &message),
            Step::Platform if waits_for_pools => {
                self.fail(Stage::Platform, Reason::WorkerPoolsTimeout, &message);
            }
            Step::Platform => self.fail(Stage::Platform, Reason::ClusterUpgradeTimeout, &message),
            Step::Operators => self.fail(Stage::Operators, Reason::OperatorsUpgradeTimeout, &message),
            Step::PostAction => self.phase(Phase::Failed, Reason::PostActionTimeout, &message),
        }
    }

    /// Requests a start, unless something keeps the cluster from starting. The most important cause is checked first.
    pub(crate) fn ask_to_start(&mut self, step: Step) {
        if let Some((unreadable, _)) = self.cluster.unreadable_work()
            && let Some((reason, text)) = self.blocker(unreadable)
        {
            self.block_step(step, reason, &text);
            return;
        }
        // It is left out once it is certain that nothing of it is under way. Until then nothing begins.
        if self.cluster.left_out.is_some() {
            if self.cluster.is_in_doubt() {
                self.wait_for_answer();
            } else if self.is_left_out() {
                self.leave_out();
            } else {
                self.wait(Reason::WaitingForCleanup, LEAVING_OUT);
            }
            return;
        }
        let under_way = attempts::is_under_way(self.cluster, &self.out.record);
        if self.cluster.selection != Selection::In && !under_way {
            self.wait(Reason::LeftSelection, "The cluster is no longer selected");
            return;
        }
        if let Eligibility::Blocked { reason, message } = &self.cluster.eligibility {
            self.block(*reason, message);
            return;
        }
        if let Some(text) = self.downgrade(step) {
            self.block(Reason::NewerThanTarget, &text);
            return;
        }
        if let Some(rival) = &self.cluster.rival {
            let text = match rival.hold {
                RivalHold::Yielding => None,
                RivalHold::Active => Some(format!(
                    "Upgrade {} holds this cluster. It starts when that upgrade is done with it.",
                    rival.upgrade
                )),
                RivalHold::Stuck => Some(format!(
                    "Upgrade {} holds this cluster and is stuck on it. Resume, retry, approve, edit or delete that upgrade.",
                    rival.upgrade
                )),
                RivalHold::Undeletable => Some(format!(
                    "Upgrade {} holds this cluster. It is being deleted, and the hub forbids the deletion of its ManifestWorks here. Permit that; condition Stalled of that upgrade says what is refused.",
                    rival.upgrade
                )),
            };
            if let Some(text) = text {
                self.block(Reason::Conflict, &text);
                return;
            }
        }
        if self.is_barred_later(step) {
            return;
        }
        // A cluster that waited for the slot that it holds by such a work would wait for ever.
        let unread = self.cluster.unread_step().or_else(|| self.cluster.former_step());
        if !self.way_is_free(unread.unwrap_or(step)) {
            return;
        }
        let kept = self.keep_blocker(step);
        if let Eligibility::Unavailable { reason, message } = &self.cluster.eligibility {
            if !kept {
                self.wait(*reason, message);
            }
            return;
        }
        if !self.passes_preflight(step) {
            return;
        }
        if self.waits_for_window() {
            self.prepare_for_opening();
        } else {
            self.out.next = NextStep::Start(step);
        }
    }

    /// True when the step would begin after the pre-action, which is a start as far as windows are concerned: a work that is left of an
    /// earlier attempt or of another upgrade is changed for it. A creation that is tried again after an obstacle from before the
    /// pre-action requests it as well. Before that try, the obstacle blocks the cluster.
    pub(crate) fn follows_pre_action(&self, step: Step) -> bool {
        let is_open = match self.cluster.step_work(step) {
            StepWork::Absent | StepWork::Rival { .. } => true,
            StepWork::Foreign { retry_at }
            | StepWork::ForeignTerminating { retry_at }
            | StepWork::Refused { retry_at, .. } => *retry_at <= self.now,
            StepWork::Ours(work) => {
                let record = &self.out.record;
                let is_gone = work.vanished && work.attempt == record.attempt;
                !is_gone && attempts::work_of_attempt(self.cluster, record, self.policy, step).is_none()
            }
            _ => false,
        };
        step > Step::PreAction
            && matches!(self.before, Phase::PreAction | Phase::PreActionDegraded)
            && is_open
            && self.cluster.busy.is_none()
    }

    /// True when the cluster may still begin the update that an earlier spec asked for: its work asks for that until it is changed.
    fn may_begin_earlier_update(&self) -> bool {
        self.repoints(Step::Platform) && !self.has_ended_earlier_update()
    }

    /// Blocks a cluster in flight. One that may still begin the update of an earlier spec keeps its slot until its time is over.
    fn block_in_flight(&mut self, reason: Reason, message: &str) {
        if self.holds && self.may_begin_earlier_update() {
            self.wait(reason, message);
        } else {
            self.block(reason, message);
        }
    }

    /// True when the maintenance windows are closed for the cluster. The reason is set then. A cluster whose pre-action is over, or
    /// whose update by an earlier spec, gives its slot back and asks for one when they open, unless its next step may have begun: that is
    /// read first.
    fn waits_for_window(&mut self) -> bool {
        let closed = match self.window {
            None => return false,
            Some(WindowState::Open(closes)) => {
                // Then it waits for the next one.
                if let Some(closes) = *closes {
                    self.wake_at(closes);
                }
                return false;
            }
            Some(WindowState::Closed(closed)) => closed,
        };
        self.wake_at_opening();
        if self.holds && (self.cluster.is_in_doubt() || self.may_begin_earlier_update()) {
            self.wait(closed.reason, &closed.message);
            return true;
        }
        self.phase(closed.phase, closed.reason, &closed.message);
        if self.holds {
            self.forget(Step::Platform.into());
            self.forget(Step::Operators.into());
        }
        true
    }

    /// True when a work of somebody else is in the way of a later step. The cluster would be blocked in the middle of its upgrade, and
    /// that work may be an update that is running.
    fn is_barred_later(&mut self, step: Step) -> bool {
        let mut later = [Step::Platform, Step::Operators].into_iter();
        let barred = later.find(|later| {
            let work = self.cluster.step_work(*later);
            let is_in_the_way = matches!(work, StepWork::Foreign { retry_at } if self.now < *retry_at);
            is_in_the_way && *later > step && self.policy.wants(*later)
        });
        let Some(later) = barred else { return false };
        if let StepWork::Foreign { retry_at } = self.cluster.step_work(later) {
            self.wake_at(*retry_at);
        }
        self.keep_blocker(later);
        true
    }

    /// False when a work of the same name must be removed first; the reason is set then.
    fn way_is_free(&mut self, step: Step) -> bool {
        let rival = self.cluster.rival.as_ref();
        let yielding = rival.is_some_and(|rival| rival.hold == RivalHold::Yielding);
        match self.cluster.step_work(step) {
            StepWork::Foreign { retry_at } | StepWork::Refused { retry_at, .. } if self.now < *retry_at => {
                self.wake_at(*retry_at);
                self.keep_blocker(step);
                false
            }
            StepWork::ForeignTerminating { retry_at } => {
                self.wake_at(*retry_at);
                self.wait(
                    Reason::WaitingForCleanup,
                    "A ManifestWork with this name that no upgrade manages is being deleted. The step starts when it is gone.",
                );
                self.now >= *retry_at
            }
            StepWork::Rival { terminating: false } if !yielding => {
                self.conflict(step, "Another upgrade still uses a ManifestWork with this name");
                false
            }
            StepWork::Unreadable { .. } => {
                self.keep_blocker(step);
                false
            }
            StepWork::Unconfirmed => {
                self.wait_for_reading(step);
                false
            }
            StepWork::Former(_) if self.cluster.written.is_some() => {
                self.wait_for_reading(step);
                false
            }
            StepWork::Rival { terminating: true } => {
                self.wait(
                    Reason::WaitingForCleanup,
                    "The ManifestWork of another upgrade is being deleted. The step starts when it is gone.",
                );
                false
            }
            StepWork::Ours(work) if work.terminating => {
                self.wait(
                    Reason::WaitingForCleanup,
                    "The step's ManifestWork is being deleted. The controller creates a new one when it is gone.",
                );
                false
            }
            StepWork::Ours(work) if !work.vanished && step != Step::Platform => {
                self.wait(
                    Reason::WaitingForCleanup,
                    "The controller deletes the ManifestWork of an earlier attempt first",
                );
                false
            }
            _ => true,
        }
    }

    /// A blocker of a step that only a human can remove.
    fn blocker(&self, step: Step) -> Option<(Reason, String)> {
        match self.cluster.step_work(step) {
            StepWork::Foreign { .. } => Some((
                Reason::Conflict,
                format!(
                    "Step {step:?}: A ManifestWork with this name already exists, and no upgrade manages it. Delete it."
                ),
            )),
            StepWork::Refused { message, .. } => Some((
                Reason::WorkRefused,
                format!("Step {step:?}: The hub rejects the ManifestWork: {message}"),
            )),
            StepWork::Unreadable { what, .. } => Some((
                Reason::UnreadableWork,
                format!(
                    "Step {step:?}: Somebody changed the annotations of the ManifestWork: {what}. Restore them, or delete the ManifestWork."
                ),
            )),
            StepWork::Absent => self.remembered_refusal(step),
            StepWork::Ours(_)
            | StepWork::Rival { .. }
            | StepWork::Unconfirmed
            | StepWork::Former(_)
            | StepWork::ForeignTerminating { .. } => None,
        }
    }

    /// The rejection of a step's work as the record has it, because a restarted controller does not know it from
    /// anywhere else. It counts until a try succeeds.
    fn remembered_refusal(&self, step: Step) -> Option<(Reason, String)> {
        let before = self.cluster.record.as_deref()?;
        let refused = before.reason == Reason::WorkRefused
            && before.attempt == self.out.record.attempt
            && before.refused_step == Some(step);
        refused.then(|| (Reason::WorkRefused, before.message.to_string()))
    }

    /// Keeps the blocker as the reason, even while its step is tried again, because nothing has changed until a try
    /// succeeds.
    fn keep_blocker(&mut self, step: Step) -> bool {
        let Some((reason, text)) = self.blocker(step) else {
            return false;
        };
        self.block_step(step, reason, &text);
        true
    }

    fn conflict(&mut self, step: Step, what: &str) {
        self.block_step(step, Reason::Conflict, &format!("Step {step:?}: {what}"));
    }

    /// Blocks the cluster until a human acts. A cluster whose post-action has not started keeps its phase, because it
    /// is upgraded.
    fn block_step(&mut self, step: Step, reason: Reason, text: &str) {
        if step == Step::PostAction && self.out.record.phase == Phase::PostAction {
            self.wait(reason, text);
        } else {
            self.block(reason, text);
        }
        let refused_step = (reason == Reason::WorkRefused).then_some(step);
        if self.out.record.refused_step != refused_step {
            Arc::make_mut(&mut self.out.record).refused_step = refused_step;
        }
    }

    /// Why a step must not begin: it leads to an older version than the cluster runs. Steps after the platform do not
    /// change the version.
    pub(crate) fn downgrade(&self, step: Step) -> Option<String> {
        let version = &self.cluster.newest_version;
        (step <= Step::Platform && is_refused(self.policy, version)).then(|| {
            format!(
                "The cluster runs {version}, which is newer than {}. Set spec.clusterVersion.allowDowngrade, or take the cluster out of the selection.",
                self.policy.target
            )
        })
    }
}
