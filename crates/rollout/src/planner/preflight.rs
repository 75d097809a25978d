//! Whether a cluster begins its update, by what it says to it (`docs/design/preflight.md`).

use crate::model::{Phase, Preflight, Reason, Selection, Step};
use crate::planner::cluster::ClusterEvaluator;
use crate::planner::windows::{ASKED_AHEAD, WindowState};
use crate::planner::wording::ASKED_AGAIN;

/// What the answers of a cluster mean for a step.
enum AnswerToUpdate<'a> {
    /// It may begin.
    Enough,
    /// The cluster must be asked again.
    TooOld,
    /// It is not known whether the cluster would take the update.
    Unknown(Reason, &'a str),
    /// The cluster would not take it.
    Refusal(Reason, &'a str),
}

impl<'a> ClusterEvaluator<'a> {
    /// True when the update is about to be requested for the first time, after the pre-action. What the cluster said before that may
    /// have changed meanwhile.
    pub(super) fn is_first_request(&self, step: Step) -> bool {
        step == Step::Platform && self.follows_pre_action(step) && !self.cluster.is_in_doubt()
    }

    /// True when the update after the pre-action waits for what the cluster says to it. How long that may take is bounded where clusters
    /// are asked. One that another upgrade holds, or that has left the selection, is not asked, so the time of its update bounds how long
    /// it keeps its slot.
    pub(super) fn is_kept_by_preflight(&self, step: Step) -> bool {
        self.is_first_request(step)
            && self.cluster.selection == Selection::In
            && !self.cluster.is_held_by_another()
            && !matches!(self.answer(step), AnswerToUpdate::Enough)
    }

    /// False when the cluster would not take the update, or when that is not known, or must be asked again first. The reason is set
    /// then, except for a start: a cluster that is to be asked again must first have a slot.
    pub(super) fn passes_preflight(&mut self, step: Step) -> bool {
        match self.answer(step) {
            AnswerToUpdate::Enough => return true,
            AnswerToUpdate::TooOld => {
                self.out.stale = true;
                if self.holds {
                    self.wait(Reason::PreflightPending, ASKED_AGAIN);
                }
                return !self.holds;
            }
            // What blocks the step stays the cause until a try has succeeded.
            AnswerToUpdate::Unknown(..) if self.out.record.phase == Phase::Blocked => {}
            AnswerToUpdate::Unknown(reason, message) => self.wait(reason, message),
            AnswerToUpdate::Refusal(reason, message) => self.block(reason, message),
        }
        false
    }

    fn answer(&self, step: Step) -> AnswerToUpdate<'a> {
        let (cluster, policy) = (self.cluster, self.policy);
        let leads_to_update = policy.wants(Step::Platform) && step <= Step::Platform;
        if !leads_to_update || cluster.is_asked_for(policy) {
            return AnswerToUpdate::Enough;
        }
        let answer = &cluster.preflight;
        let is_untold = answer.is_pending() || (*answer == Preflight::Stale && !policy.clock_trusted);
        let is_required = policy.requires_preflight(step, is_untold);
        match answer {
            Preflight::Ready => AnswerToUpdate::Enough,
            // Before the pre-action it need not be known by which image the update will be requested.
            Preflight::Stale if step == Step::PreAction => AnswerToUpdate::Enough,
            Preflight::Stale if policy.clock_trusted => AnswerToUpdate::TooOld,
            _ if !is_required => {
                let asks = cluster.has_stale_image && policy.clock_trusted && step != Step::PreAction;
                if asks {
                    AnswerToUpdate::TooOld
                } else {
                    AnswerToUpdate::Enough
                }
            }
            Preflight::Stale => AnswerToUpdate::Unknown(
                Reason::PreflightPending,
                "It is not known how old the answers of the cluster are until the clocks agree",
            ),
            Preflight::NotAsked => AnswerToUpdate::Unknown(
                Reason::PreflightPending,
                "The cluster is asked whether it would take the update",
            ),
            Preflight::Unknown { reason, message } => AnswerToUpdate::Unknown(*reason, message),
            Preflight::Blocked { reason, message } => AnswerToUpdate::Refusal(*reason, message),
        }
    }

    /// Has a cluster whose windows are closed asked again if it must be, but only shortly before they open. Until then nobody needs to
    /// know what it says to the update.
    pub(super) fn prepare_for_opening(&mut self) {
        let opens = match self.window {
            Some(WindowState::Closed(closed)) => closed.opens,
            _ => None,
        };
        let asked = opens.map(|opens| opens - ASKED_AHEAD);
        self.out.opens_soon = asked.is_some_and(|asked| asked <= self.now);
        if let Some(asked) = asked.filter(|_| self.out.stale) {
            self.wake_at(asked);
        }
        self.out.stale &= self.out.opens_soon;
    }
}
