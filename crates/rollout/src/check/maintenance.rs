//! Rules about maintenance windows (`docs/design/rules.md#maintenance-windows`).

use super::left_out::asks_anew;
use super::operations::{follows_pre_action, is_start, repoints};
use super::{Case, Checker, ViolationKind};
use crate::maintenance::{Calendar, Opening};
use crate::model::{Cluster, Phase, Reason, Record, Selection, Step};

impl Checker<'_> {
    /// Nothing starts outside of a window, and the plan wakes up when one opens for a cluster that waits for it.
    pub(super) fn check_windows(&mut self, cases: &[Case<'_>], calendars: &[Calendar]) {
        let openings: Vec<Opening> = calendars.iter().map(|calendar| calendar.at(self.now)).collect();
        for case in cases {
            let (Some(state), Some(position)) = (case.state, case.cluster.calendar) else {
                continue;
            };
            let Some(opening) = openings.get(position) else {
                let text = format!("there is no calendar {position}");
                self.report(ViolationKind::StartedOutsideWindow, Some(case.cluster), text);
                continue;
            };
            let is_open = matches!(opening, Opening::Open { .. }) && self.policy.clock_trusted;
            let mut operations = case.operations.iter();
            let starts = operations.any(|operation| {
                is_start(operation, state)
                    || follows_pre_action(case.cluster, operation)
                    || repoints(operation, case.cluster, state)
                    || asks_anew(operation, case.cluster)
            });
            if starts && !is_open {
                let text = format!("{:?} while {opening:?}", case.operations);
                self.report(ViolationKind::StartedOutsideWindow, Some(case.cluster), text);
            }
            let Opening::Closed { opens: Some(opens) } = opening else {
                continue;
            };
            // Whoever edits a row may write anything into it.
            let is_before = matches!(state.record.phase, Phase::Pending | Phase::PreAction);
            let waits_to_start = is_before && state.record.reason == Reason::WaitingForWindow;
            let waits = self.policy.clock_trusted
                && (waits_to_start || self.waits_for_edit(case.cluster, &state.record));
            if waits && self.plan.wake_at.is_none_or(|wake| wake > *opens) {
                let text = format!("wakes at {:?}, opens at {opens}", self.plan.wake_at);
                self.report(ViolationKind::WakeMissed, Some(case.cluster), text);
            }
        }
    }

    /// True when a cluster in flight that has not begun the update of an earlier spec is to be asked for another one.
    fn waits_for_edit(&self, cluster: &Cluster, record: &Record) -> bool {
        record.phase == Phase::Initialized
            && record.attempt.revision != self.policy.revision
            && self.policy.steps[Step::Platform.index()].is_some()
            && self.policy.checkpoints.is_empty()
            && cluster.selection == Selection::In
            && cluster.left_out.is_none()
            && !record.unreadable
    }
}
