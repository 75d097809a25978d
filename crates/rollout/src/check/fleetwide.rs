//! Rules about the whole plan: slots, gates and counters.

use super::asked::{counts_not, is_asked_for};
use super::operations::is_start;
use super::records::{is_past_pre_action, is_release_unwritten};
use super::{Case, Checker, LEFT_FOR, ViolationKind};
use crate::model::{
    Busy, Cluster, ClusterState, Counts, DeleteReason, Limit, Operation, Phase, Record, Selection, Stage,
    Step, StepStatus, StepWork,
};

/// True when a write that takes a slot is in progress, or when an earlier one may have been carried out or may still
/// be.
fn may_have_started(cluster: &Cluster) -> bool {
    let takes_slot = |step| matches!(step, Some(Step::PreAction | Step::Platform | Step::Operators));
    cluster.busy == Some(Busy::Starting) || takes_slot(cluster.unsettled) || takes_slot(cluster.late)
}

/// True when a work may still be running. If the record of a cluster cannot be read, this is all that is known about
/// it.
fn may_run(slot: &StepWork) -> bool {
    match slot {
        StepWork::Ours(work) => !work.vanished && !matches!(work.status, StepStatus::Failed(_)),
        slot => matches!(slot, StepWork::Unreadable { .. }),
    }
}

impl Checker<'_> {
    pub(super) fn check_fleet(&mut self, cases: &[Case<'_>]) {
        self.check_counters(cases);
        self.check_retry(cases);
        self.check_clean_up(cases);
        let starts: Vec<&Case<'_>> = cases
            .iter()
            .filter(|case| {
                let state = case.state;
                state.is_some_and(|state| case.operations.iter().any(|operation| is_start(operation, state)))
            })
            .collect();
        if !starts.is_empty() {
            // Clusters that may have started already are counted among the slots held.
            let takes_slot = |case: &&&Case<'_>| {
                // The retry of a post-action takes none, whatever is removed beside it.
                let takes = |operation: &&Operation| {
                    let begins = case.state.is_some_and(|state| is_start(operation, state));
                    begins && operation.step() != Step::PostAction
                };
                !may_have_started(case.cluster) && case.operations.iter().any(takes)
            };
            self.check_slots(cases, starts.iter().filter(takes_slot).count());
            self.check_gates(cases, &starts);
        }
    }

    pub(super) fn limit(&self, limit: Limit) -> usize {
        let total = self.plan.clusters.len();
        match limit {
            Limit::Count(count) => count as usize,
            Limit::Percent(percent) => (total * percent as usize).div_ceil(100),
        }
    }

    /// `docs/design/rules.md#max-concurrency`. Starts that may have happened and slots whose release is not written
    /// yet count as held.
    fn check_slots(&mut self, cases: &[Case<'_>], starts: usize) {
        let held = cases
            .iter()
            .filter(|case| {
                let Some(state) = case.state else {
                    let rows = [&case.cluster.written, &case.cluster.record];
                    let mut rows = rows.into_iter().flatten();
                    return case.cluster.slot_in_doubt
                        || may_have_started(case.cluster)
                        || rows.any(|row| row.phase.holds_slot());
                };
                let unwritten = is_release_unwritten(self.policy, case.cluster, &state.record);
                let works = &case.cluster.works[..Step::PostAction.index()];
                let unknown = state.record.unreadable
                    && (works.iter().any(may_run) || is_open_by_row(works, &state.record));
                let unreleased = case.cluster.record.is_none() && case.cluster.slot_in_doubt;
                let unread = state.record.phase.is_queued()
                    && case.cluster.works[..Step::PostAction.index()].contains(&StepWork::Unconfirmed);
                unknown
                    || unread
                    || state.record.phase.holds_slot()
                    || unwritten
                    || unreleased
                    || may_have_started(case.cluster)
            })
            .count();
        let held = held + self.unreleased;
        let size = self.limit(self.policy.max_concurrency).max(1);
        if starts > 0 && held + starts > size {
            self.report(
                ViolationKind::TooManySlots,
                None,
                format!("{held} slots held, {starts} starts, {size} allowed"),
            );
        }
    }

    fn check_gates(&mut self, cases: &[Case<'_>], starts: &[&Case<'_>]) {
        let states = || cases.iter().filter_map(|case| Some((case.cluster, case.state?)));
        let count = |record: &Record| record.attempt.revision == self.policy.revision;
        let canaries: Vec<&ClusterState> = states()
            .filter(|(cluster, state)| {
                cluster.canary
                    && !counts_not(cluster)
                    && (cluster.selection == Selection::In || count(&state.record))
            })
            .map(|(_, state)| state)
            .collect();
        let complete = |state: &&ClusterState| state.record.phase == Phase::Complete && count(&state.record);
        let failures = states()
            .filter(|(cluster, state)| {
                !cluster.canary && !counts_not(cluster) && state.record.phase.has_failed()
            })
            .count();
        let breach = self
            .policy
            .max_failures
            .is_some_and(|limit| failures > self.limit(limit));
        let failed = canaries.iter().any(|state| state.record.phase == Phase::Failed);
        let any_canary =
            !canaries.is_empty() || states().any(|(cluster, _)| cluster.canary && counts_not(cluster));
        let asked = self.policy.canaries;
        let gates = [
            (self.policy.hold.is_some(), ViolationKind::StartedWhilePaused),
            (asked && !any_canary, ViolationKind::StartedWithoutCanary),
            (asked && failed, ViolationKind::StartedAfterCanaryFailure),
            (breach, ViolationKind::StartedPastMaxFailures),
        ];
        let unfinished = asked && !canaries.iter().all(complete);
        for case in starts {
            for (shut, kind) in gates {
                if shut {
                    self.report(kind, Some(case.cluster), "the cluster starts");
                }
            }
            if unfinished && !case.cluster.canary {
                self.report(
                    ViolationKind::StartedBeforeCanaries,
                    Some(case.cluster),
                    "the cluster starts",
                );
            }
        }
    }

    /// Checks that `total = initialized + pending` and that every counter agrees with the listed phases.
    fn check_counters(&mut self, cases: &[Case<'_>]) {
        let counts = |only_canaries: bool| {
            let mut counts = Counts::default();
            let listed = cases
                .iter()
                .filter(|case| !only_canaries || case.cluster.canary)
                .filter_map(|case| case.state);
            for state in listed {
                counts.total += 1;
                match state.record.phase {
                    Phase::Pending
                    | Phase::Blocked
                    | Phase::Skipped
                    | Phase::Aborted
                    | Phase::PreAction
                    | Phase::PreActionDegraded => {
                        counts.pending += 1;
                        continue;
                    }
                    Phase::Partial | Phase::Workers | Phase::Operators => counts.partial += 1,
                    Phase::Complete | Phase::PostAction => counts.complete += 1,
                    Phase::Failed => counts.failed += 1,
                    Phase::Initialized | Phase::Soaking => {}
                }
                counts.initialized += 1;
            }
            counts
        };
        let summary = &self.plan.summary;
        for (name, reported, counted) in [
            ("clusters", summary.clusters, counts(false)),
            ("canaries", summary.canaries, counts(true)),
        ] {
            if reported != counted {
                self.report(
                    ViolationKind::Counters,
                    None,
                    format!("{name}: {reported:?} instead of {counted:?}"),
                );
            }
        }
    }

    /// No action is removed as one of a complete upgrade while a cluster is selected and not left out any more whose row still says that
    /// it is: that cluster is to be upgraded.
    fn check_clean_up(&mut self, cases: &[Case<'_>]) {
        let is_to_be_upgraded = |case: &&Case<'_>| {
            let state = case.state;
            let is_out =
                state.is_some_and(|state| state.record.phase.is_left_out() && !state.record.unreadable);
            is_out && !counts_not(case.cluster) && case.cluster.selection == Selection::In
        };
        let is_clean_up = |operation: &&Operation| {
            matches!(
                operation,
                Operation::Delete {
                    why: DeleteReason::AllComplete,
                    ..
                }
            )
        };
        let mut operations = cases.iter().flat_map(|case| case.operations.iter().copied());
        if let Some(open) = cases.iter().find(is_to_be_upgraded)
            && let Some(operation) = operations.find(is_clean_up)
        {
            let text = format!("{operation:?} although this cluster is not left out any more");
            self.report(ViolationKind::DeletedUnfinished, Some(open.cluster), text);
        }
    }

    /// The status may only say that the retry is done when no crash can lose it.
    fn check_retry(&mut self, cases: &[Case<'_>]) {
        let Some(retry) = self.policy.retry.as_ref().filter(|_| self.plan.retry_done) else {
            return;
        };
        for case in cases {
            let Some(state) = case.state else { continue };
            let record = &state.record;
            let written = case
                .cluster
                .written
                .as_deref()
                .is_some_and(|written| written.attempt == record.attempt);
            let token = &retry.token;
            let lost = record.attempt.retry == *token && !written;
            // One that is missing for a moment may be back at once.
            let may_be_in = match case.cluster.selection {
                Selection::In => true,
                Selection::Left(since) => self.now < since + LEFT_FOR,
            };
            let open = may_be_in
                && matches!(case.cluster.record.as_deref(), Some(before)
                    if before.attempt == record.attempt
                        && before.attempt.retry.trim_end_matches('~') != &**token
                        && before.attempt.retry != *token
                        && before.phase.has_failed()
                        && !counts_not(case.cluster)
                        && is_asked_for(retry, case.cluster, failed(before, record))
                        && before.attempt.revision == self.policy.revision
                        && !is_past_pre_action(case.cluster, before, record));
            if lost || open {
                self.report(
                    ViolationKind::RetryForgotten,
                    Some(case.cluster),
                    format!("{:?} is not written", record.attempt),
                );
            }
        }
    }
}

/// The record that tells why a cluster failed: the new one if it was shown as degraded and a later step is found to have failed.
fn failed<'a>(before: &'a Record, record: &'a Record) -> &'a Record {
    let has_failed_since = before.phase == Phase::PreActionDegraded && record.phase == Phase::Failed;
    if has_failed_since { record } else { before }
}

/// True when the row of a cluster without works, though unreadable, says that a step is open that holds a slot.
fn is_open_by_row(works: &[StepWork], record: &Record) -> bool {
    let mut stages = [Stage::PreAction, Stage::Platform, Stage::Operators].into_iter();
    works.iter().all(|work| *work == StepWork::Absent)
        && stages.any(|stage| record.stage(stage).is_some_and(|open| open.finished.is_none()))
}
