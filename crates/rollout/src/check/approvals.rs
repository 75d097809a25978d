//! Rules about checkpoints (`docs/design/rules.md#approvals`).

use super::operations::is_start;
use super::{Case, Checker, LEFT_FOR, ViolationKind};
use crate::model::{
    Busy, CheckpointPlace, Cluster, ClusterState, GivenApproval, HashedCanary, KnownApprovals, Phase,
    PlanHash, Selection, Step, StepWork,
};

impl Checker<'_> {
    /// Nothing starts behind a checkpoint without an approval of the present plan, and the plan wakes up when one that it goes by
    /// expires.
    pub(super) fn check_approvals(&mut self, cases: &[Case<'_>], approvals: &[GivenApproval]) {
        if self.policy.checkpoints.is_empty() {
            return;
        }
        for case in cases {
            self.check_edit(case);
        }
        let hash = self.hash_of(cases);
        let listed = || cases.iter().filter_map(|case| Some((case, case.state?)));
        let starts = |case: &Case<'_>, state: &ClusterState| {
            let mut operations = case.operations.iter();
            operations.any(|operation| is_start(operation, state))
        };
        let starting: Vec<&Case<'_>> = listed()
            .filter(|(case, state)| starts(case, state))
            .map(|(case, _)| case)
            .collect();
        if starting.is_empty() {
            return;
        }
        let begun = listed()
            .filter(|(case, state)| has_begun(case.cluster, state))
            .count();
        let added = starting
            .iter()
            .filter_map(|case| case.state.map(|state| (case.cluster, state)))
            .filter(|(cluster, state)| !has_begun(cluster, state))
            .count();
        for checkpoint in &self.policy.checkpoints {
            let approved = approvals.iter().filter(|approval| {
                self.policy.approvals == KnownApprovals::Current
                    && approval.checkpoint == checkpoint.name
                    && approval.plan_hash == *hash.as_str()
                    && approval
                        .expires
                        .is_none_or(|end| end > self.now && self.policy.clock_trusted)
            });
            let approved: Vec<_> = approved.map(|approval| approval.expires).collect();
            if approved.is_empty() {
                let passed = starting.iter().find(|case| match checkpoint.at {
                    CheckpointPlace::CanariesComplete => !case.cluster.canary,
                    // A retry of a cluster that has passed it goes on.
                    CheckpointPlace::Started(limit) => {
                        let most = self.limit(limit);
                        let is_new = case.state.is_some_and(|state| !has_begun(case.cluster, state));
                        begun > most || (is_new && begun + added > most)
                    }
                });
                if let Some(case) = passed {
                    let text = format!("checkpoint {} is not approved for {hash}", checkpoint.name);
                    self.report(ViolationKind::StartedWithoutApproval, Some(case.cluster), text);
                }
            } else if let Some(last) = approved
                .into_iter()
                .reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b)))
                && last.is_some_and(|last| self.plan.wake_at.is_none_or(|wake| wake > last))
            {
                let text = format!("wakes at {:?}, an approval ends at {last:?}", self.plan.wake_at);
                self.report(ViolationKind::WakeMissed, None, text);
            }
        }
    }

    /// An edit asks nothing of a cluster in flight: nobody has approved that yet.
    fn check_edit(&mut self, case: &Case<'_>) {
        let (Some(before), Some(state)) = (case.cluster.record.as_deref(), case.state) else {
            return;
        };
        let record = &state.record;
        let is_edit = before.attempt.revision != record.attempt.revision
            && record.attempt.revision == self.policy.revision;
        if is_edit && before.phase.holds_slot() && record.phase.holds_slot() {
            let text = format!(
                "an edit reaches it in {}, and nobody has approved that",
                before.phase
            );
            self.report(ViolationKind::StartedWithoutApproval, Some(case.cluster), text);
        }
    }

    fn hash_of(&self, cases: &[Case<'_>]) -> PlanHash {
        let mut covered: Vec<&Case<'_>> = cases
            .iter()
            .filter(|case| {
                let cluster = case.cluster;
                let Some(state) = case.state else { return false };
                let stays = match cluster.selection {
                    Selection::In => true,
                    Selection::Left(since) => {
                        // One that was skipped or aborted, and is not any more, is not under way either.
                        self.now < since + LEFT_FOR || !state.record.phase.is_queued()
                    }
                };
                stays && !cluster.gone && cluster.left_out.is_none()
            })
            .collect();
        // Stable, so by name within canaries and others.
        covered.sort_by_key(|case| !case.cluster.canary);
        let canaries = || covered.iter().filter(|case| case.cluster.canary);
        let is_complete = |case: &&Case<'_>| {
            case.state
                .is_some_and(|state| state.record.phase == Phase::Complete)
        };
        let are_complete = canaries().all(is_complete);
        let canaries = canaries().filter_map(|case| {
            let record = &case.state?.record;
            Some(HashedCanary {
                name: &case.cluster.name,
                attempt: &record.attempt,
                are_complete,
            })
        });
        PlanHash::new(
            &self.policy.spec_hash,
            covered.iter().map(|case| &*case.cluster.name),
            canaries,
        )
    }
}

/// True when a cluster had begun its upgrade by this revision before this plan: its record or its written row says so, something of it is
/// on the hub, or a write that is on its way or in doubt may have started it.
fn has_begun(cluster: &Cluster, state: &ClusterState) -> bool {
    let record = &state.record;
    let is_in_doubt = [cluster.unsettled, cluster.late]
        .into_iter()
        .flatten()
        .any(|step| step != Step::PostAction);
    let has_started = |phase: Phase| {
        !matches!(
            phase,
            Phase::Pending | Phase::Blocked | Phase::Skipped | Phase::Aborted
        )
    };
    let mut works = cluster.works.iter().filter_map(StepWork::ours);
    is_in_doubt
        || cluster.busy == Some(Busy::Starting)
        || cluster
            .written
            .as_deref()
            .is_some_and(|written| has_started(written.phase))
        || has_started(record.phase)
        || record.stages.iter().flatten().next().is_some()
        || works.any(|work| !work.vanished && work.attempt.revision == record.attempt.revision)
}
