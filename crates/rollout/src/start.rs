//! The beginning of a step: whether its work may be created now, and what stands in the way.

use chrono::{DateTime, Utc};

use crate::cluster::{Machine, Told, Wish};
use crate::fleet::{Reading, RivalHold, Selection, Slot, Standing};
use crate::phase::{Phase, Step};
use crate::reason::Reason;
use crate::record::Stage;
use crate::requeue;
use crate::wording::duration;

impl Machine<'_> {
    /// The step's work does not exist: it is to be created, once nothing stands in its way.
    pub(crate) fn enter(&mut self, step: Step) {
        let done = matches!(self.before, Phase::Soaking | Phase::Complete | Phase::PostAction);
        let goes_on = self.holds || (step == Step::PostAction && done);
        if !goes_on {
            self.forget(step.into());
            // Most clusters of a large fleet stand here in most plans, and for the reason they stood here before.
            if self.out.record.phase != Phase::Pending {
                self.phase(Phase::Pending, Reason::None, "");
            }
            self.out.told = Told::Before;
            self.ask_to_start(step);
            return;
        }
        if step == Step::Platform && self.is_updating_elsewhere() {
            return;
        }
        let Some(started) = self.clock_without_work(step) else {
            return;
        };
        let phase = match step {
            Step::PostAction => Phase::PostAction,
            Step::Platform if self.before == Phase::Partial && self.cluster.slot(step).ours().is_some() => {
                Phase::Initialized
            }
            _ => self.before,
        };
        self.phase(phase, Reason::Running, "");
        if self.cluster.slot(step).is_unreadable() {
            // It may be upgrading the cluster, so the slot stays held until the clock runs out.
            let text = self.obstacle(step).map(|(_, text)| text);
            self.wait(Reason::UnreadableWork, &text.unwrap_or_default());
        } else if step <= Step::Platform
            && let Standing::Blocked { reason, message } = &self.cluster.standing
        {
            self.block(*reason, message);
        } else if let Some(text) = self.downgrade(step) {
            self.block(Reason::NewerThanTarget, &text);
        } else if self.way_is_free(step) {
            self.out.wish = Wish::Advance(step, started);
            if step == Step::PostAction {
                self.keep_obstacle(step);
            }
        }
        if self.out.record.phase == Phase::Blocked {
            // It gave its slot back and starts anew, with a fresh clock.
            self.forget(step.into());
        }
    }

    /// The start of a step whose work is not there: what stands in the way for ever must not hold a slot for ever. `None` when
    /// its time seems to be over.
    fn clock_without_work(&mut self, step: Step) -> Option<DateTime<Utc>> {
        let now = self.now;
        let started = self.stage(step.into(), now).started;
        let deadline = started + self.policy.timeout(step);
        if self.now >= deadline {
            if self.expired(started, step) {
                self.time_out_without_work(step);
            }
            return None;
        }
        self.wake_at(deadline);
        Some(started)
    }

    /// A cluster in flight whose work cannot be read stays as it is, and fails when its time is over.
    pub(crate) fn wait_for_unreadable(&mut self, step: Step) {
        if self.clock_without_work(step).is_some()
            && let Some((reason, text)) = self.obstacle(step)
        {
            self.wait(reason, &text);
        }
    }

    /// A cluster that took the old target just before its work could be changed finishes that update first.
    fn is_updating_elsewhere(&mut self) -> bool {
        let Some(work) = self.cluster.slot(Step::Platform).ours() else {
            return false;
        };
        // An earlier change that was carried out late may have a later clock than the attempt itself.
        let stage = self.out.record.stage(Stage::Platform);
        let started = stage.map_or(work.started, |stage| stage.started.min(work.started));
        let until = started + self.policy.timeout(Step::Platform);
        let updating = work.attempt.revision != self.out.record.attempt.revision
            && work.reading == Reading::Running
            && self.now < until;
        if updating {
            self.wake_at(until);
            self.phase(
                Phase::Partial,
                Reason::Running,
                "the update to the earlier target is finished first",
            );
        }
        updating
    }

    fn time_out_without_work(&mut self, step: Step) {
        let limit = duration(self.policy.timeout(step));
        let failed_write = self.cluster.backoff.as_ref();
        let failed_write = failed_write.map(|backoff| (Reason::WriteFailed, backoff.error.to_string()));
        let message = match self.obstacle(step).or(failed_write) {
            Some((reason, text)) => format!("not done within {limit}: {reason}: {text}"),
            None => format!("the step's ManifestWork does not exist and its time ({limit}) is over"),
        };
        match step {
            Step::PreAction => self.phase(Phase::PreActionDegraded, Reason::PreActionTimeout, &message),
            Step::Platform => self.fail(Stage::Platform, Reason::ClusterUpgradeTimeout, &message),
            Step::Operators => self.fail(Stage::Operators, Reason::OperatorsUpgradeTimeout, &message),
            Step::PostAction => self.phase(Phase::Failed, Reason::PostActionTimeout, &message),
        }
    }

    /// Not started: everything that can keep a cluster from starting, the strongest first.
    fn ask_to_start(&mut self, step: Step) {
        if let Some((unreadable, _)) = self.cluster.unreadable_work()
            && let Some((reason, text)) = self.obstacle(unreadable)
        {
            self.obstruct(step, reason, &text);
            return;
        }
        let under_way = requeue::is_under_way(self.cluster, &self.out.record);
        if self.cluster.selection != Selection::In && !under_way {
            self.wait(Reason::LeftSelection, "the cluster is not selected any more");
            return;
        }
        if let Standing::Blocked { reason, message } = &self.cluster.standing {
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
                    "upgrade {} holds the cluster; it starts when that one is done",
                    rival.upgrade
                )),
                RivalHold::Stuck => Some(format!(
                    "upgrade {} holds the cluster and is stuck there; retry, edit or delete that upgrade",
                    rival.upgrade
                )),
            };
            if let Some(text) = text {
                self.block(Reason::Conflict, &text);
                return;
            }
        }
        if !self.way_is_free(step) {
            return;
        }
        let kept = self.keep_obstacle(step);
        if let Standing::Unavailable { reason, message } = &self.cluster.standing {
            if !kept {
                self.wait(*reason, message);
            }
            return;
        }
        self.out.wish = Wish::Start(step);
    }

    /// False, with the reason, when something under the work's name must go first.
    fn way_is_free(&mut self, step: Step) -> bool {
        let yielding = self
            .cluster
            .rival
            .as_ref()
            .is_some_and(|rival| rival.hold == RivalHold::Yielding);
        match self.cluster.slot(step) {
            Slot::Foreign { retry_at } | Slot::Refused { retry_at, .. } if self.now < *retry_at => {
                self.wake_at(*retry_at);
                self.keep_obstacle(step);
                false
            }
            Slot::ForeignTerminating { retry_at } => {
                self.wake_at(*retry_at);
                self.wait(
                    Reason::WaitingForCleanup,
                    "a ManifestWork of the same name that belongs to no upgrade is being deleted",
                );
                self.now >= *retry_at
            }
            Slot::Rival { terminating: false } if !yielding => {
                self.conflict(
                    step,
                    "the ManifestWork of another upgrade, which has not given way, stands in the way",
                );
                false
            }
            Slot::Unreadable { .. } => {
                self.keep_obstacle(step);
                false
            }
            Slot::Rival { terminating: true } => {
                self.wait(
                    Reason::WaitingForCleanup,
                    "the ManifestWork of another upgrade is being deleted",
                );
                false
            }
            Slot::Ours(work) if work.terminating => {
                self.wait(
                    Reason::WaitingForCleanup,
                    "the step's ManifestWork is being deleted; it is created again when that one is gone",
                );
                false
            }
            Slot::Ours(work) if !work.vanished && step != Step::Platform => {
                self.wait(
                    Reason::WaitingForCleanup,
                    "the ManifestWork of an earlier attempt is to be deleted first",
                );
                false
            }
            _ => true,
        }
    }

    /// What only a human can take out of the way of a step.
    fn obstacle(&self, step: Step) -> Option<(Reason, String)> {
        match self.cluster.slot(step) {
            Slot::Foreign { .. } => Some((
                Reason::Conflict,
                format!(
                    "step {step:?}: a ManifestWork of the same name that belongs to no upgrade stands in the way; delete or rename it"
                ),
            )),
            Slot::Refused { message, .. } => Some((
                Reason::WorkRefused,
                format!("step {step:?}: the hub refuses its ManifestWork: {message}"),
            )),
            Slot::Unreadable { what, .. } => Some((
                Reason::UnreadableWork,
                format!(
                    "step {step:?}: the annotations of its ManifestWork are not what the controller writes: {what}; restore them, or delete the ManifestWork"
                ),
            )),
            Slot::Absent => self.remembered_refusal(step),
            Slot::Ours(_) | Slot::Rival { .. } | Slot::ForeignTerminating { .. } => None,
        }
    }

    /// A restarted controller knows of a refusal only what the record says. Nothing has changed until a try has worked.
    fn remembered_refusal(&self, step: Step) -> Option<(Reason, String)> {
        let before = self.cluster.record.as_deref()?;
        let refused = before.reason == Reason::WorkRefused
            && before.attempt == self.out.record.attempt
            && before.message.starts_with(&format!("step {step:?}: "));
        refused.then(|| (Reason::WorkRefused, before.message.to_string()))
    }

    /// While an obstacle is tried again, too, it is what the cluster waits for: nothing has changed until that has worked.
    fn keep_obstacle(&mut self, step: Step) -> bool {
        let Some((reason, text)) = self.obstacle(step) else {
            return false;
        };
        self.obstruct(step, reason, &text);
        true
    }

    fn conflict(&mut self, step: Step, what: &str) {
        self.obstruct(step, Reason::Conflict, &format!("step {step:?}: {what}"));
    }

    /// Only a human can clear the way. A cluster whose post-action is not started yet keeps its phase: it is upgraded.
    fn obstruct(&mut self, step: Step, reason: Reason, text: &str) {
        if step == Step::PostAction && self.out.record.phase == Phase::PostAction {
            self.wait(reason, text);
        } else {
            self.block(reason, text);
        }
    }
}
