//! What must hold at every step of a scenario, checked on plans and on writes that were carried out, not on the
//! planner's code.

mod promises;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::check::check;
use crate::model::{
    Attempt, Busy, Cluster, ClusterState, Fleet, Limit, Operation, Phase, Plan, Policy, Reason, Record,
    Selection, Step,
};
use crate::planner::plan;

#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    pub(super) faults: Vec<String>,
    /// Slots held by each upgrade at the last check.
    held: BTreeMap<usize, usize>,
    /// Largest number of slots that each upgrade has held.
    largest: BTreeMap<usize, usize>,
    /// Clock of each step, per upgrade, cluster, step and attempt.
    clocks: BTreeMap<(usize, Arc<str>, Step, Attempt), DateTime<Utc>>,
    /// Clusters of which somebody has changed the row, and that was believed. What they have begun may count anew, beyond all slots.
    excused: BTreeSet<(usize, Arc<str>)>,
    /// Whether each upgrade is complete by its latest plan since something has happened.
    complete: BTreeMap<usize, bool>,
}

impl Watch {
    pub(super) fn fault(&mut self, now: DateTime<Utc>, text: &str) {
        self.faults.push(format!("{now}: {text}"));
    }

    /// A cluster is registered anew, and begins anew.
    pub(super) fn forget(&mut self, name: &str) {
        self.clocks.retain(|(_, cluster, ..), _| **cluster != *name);
    }

    /// What somebody has written of a cluster is believed.
    pub(super) fn excuse(&mut self, index: usize, name: &str) {
        self.forget(name);
        self.excused.insert((index, Arc::from(name)));
    }

    /// True when somebody has changed the row of a cluster, and that was believed.
    pub(super) fn is_excused(&self, index: usize, name: &Arc<str>) -> bool {
        self.excused.contains(&(index, Arc::clone(name)))
    }

    fn excused(&self, index: usize) -> usize {
        self.excused.iter().filter(|(owner, _)| *owner == index).count()
    }

    pub(super) fn on_plan(
        &mut self,
        index: usize,
        now: DateTime<Utc>,
        policy: &Policy,
        fleet: &Fleet,
        plan: &Plan,
    ) {
        for violation in check(now, policy, fleet, plan) {
            self.fault(now, &format!("check: {violation:?}"));
        }
        if policy.deleting {
            return;
        }
        self.watch_slots(index, now, policy, fleet, plan);
        self.watch_summary(now, plan);
        self.watch_free_slots(now, fleet, plan);
        self.watch_order(now, fleet, plan);
        self.watch_idempotence(now, policy, fleet, plan);
        self.clocks
            .retain(|(owner, cluster, ..), _| *owner != index || !plan.dropped.contains(cluster));
        for state in &plan.clusters {
            if state.record.message.starts_with(char::is_lowercase) {
                let text = format!(
                    "{}: a message in lower case: {}",
                    state.name, state.record.message
                );
                self.fault(now, &text);
            }
            let before = fleet
                .clusters
                .iter()
                .find(|cluster| cluster.name == state.name)
                .and_then(|cluster| cluster.record.as_deref());
            if before.is_some_and(|before| before.attempt != state.record.attempt) {
                self.clocks.retain(|(owner, cluster, _, attempt), _| {
                    *owner != index || *cluster != state.name || *attempt != state.record.attempt
                });
            }
            if let Some(before) = before
                && reverses(before, &state.record)
            {
                let text = format!("{}: {:?} became {:?}", state.name, before, state.record);
                self.fault(now, &text);
            }
        }
    }

    fn watch_slots(&mut self, index: usize, now: DateTime<Utc>, policy: &Policy, fleet: &Fleet, plan: &Plan) {
        let total = plan.clusters.len();
        let size = match policy.max_concurrency {
            Limit::Count(count) => count as usize,
            Limit::Percent(percent) => (total * percent as usize).div_ceil(100),
        }
        .max(1);
        let held = plan
            .clusters
            .iter()
            .filter(|state| {
                // A start whose outcome is not known counts as carried out.
                let busy = fleet
                    .clusters
                    .iter()
                    .any(|cluster| cluster.name == state.name && cluster.awaits_start());
                let mut operations = plan.operations.iter();
                let starts = operations.any(|operation| {
                    operation.cluster() == &state.name && self::busy(operation) == Busy::Starting
                });
                state.record.phase.holds_slot() || (state.starting && starts) || busy
            })
            .count();
        let before = self.held.insert(index, held).unwrap_or(0);
        let excused = self.excused(index);
        if held > size + excused && held > before {
            self.fault(
                now,
                &format!("{held} slots held, {size} allowed, {before} before"),
            );
        }
    }

    /// Checks the works on the hub, whatever the controller knows about them.
    pub(super) fn on_hub(&mut self, index: usize, now: DateTime<Utc>, unfinished: usize, size: usize) {
        let excused = self.excused(index);
        let largest = self.largest.entry(index).or_default();
        *largest = size.max(*largest);
        let largest = *largest + excused;
        if unfinished > largest {
            self.fault(
                now,
                &format!("{unfinished} clusters unfinished on the hub, {largest} allowed"),
            );
        }
    }

    fn watch_summary(&mut self, now: DateTime<Utc>, plan: &Plan) {
        let all = &plan.summary.clusters;
        let canaries = &plan.summary.canaries;
        for counts in [all, canaries] {
            if counts.total != counts.initialized + counts.pending {
                self.fault(now, &format!("total differs: {counts:?}"));
            }
        }
        let failed = plan
            .clusters
            .iter()
            .filter(|state| state.record.phase == Phase::Failed)
            .count();
        if all.total != plan.clusters.len() || all.failed != failed || canaries.total > all.total {
            self.fault(now, &format!("counters differ: {:?}", plan.summary));
        }
    }

    /// A second plan without any event in between must ask for nothing and change nothing.
    fn watch_idempotence(&mut self, now: DateTime<Utc>, policy: &Policy, fleet: &Fleet, first: &Plan) {
        // Whether the hub has a row of a dropped cluster, which holds its slot, is known once the plan is adopted.
        // Likewise a cluster that is gone may be dropped only by the next plan, and may keep others waiting until then.
        let soon = now + TimeDelta::seconds(1);
        let drops = !first.dropped.is_empty() || fleet.clusters.iter().any(|cluster| cluster.gone);
        if drops && first.wake_at.is_some_and(|wake| wake <= soon) {
            return;
        }
        if is_retried_next(policy, fleet, first) {
            return;
        }
        // The draft of the status says at once that a retry is carried out. No later plan is asked for that retry.
        let policy = &Policy {
            retry: policy.retry.clone().filter(|_| !first.retry_done),
            ..policy.clone()
        };
        let before = fleet;
        let mut fleet = fleet.clone();
        let (dropped, kept): (Vec<Cluster>, Vec<Cluster>) = fleet
            .clusters
            .into_iter()
            .partition(|cluster| first.dropped.contains(&cluster.name));
        let held = |cluster: &Cluster| {
            let rows = [&cluster.written, &cluster.record];
            let holds = rows.into_iter().flatten().any(|row| row.phase.holds_slot());
            cluster.slot_in_doubt || (holds && cluster.written.is_some())
        };
        fleet.clusters = kept;
        fleet.unreleased += dropped.iter().filter(|cluster| held(cluster)).count();
        // A cluster without a row is still observed while a creation for it may be carried out.
        let may_start = |cluster: &Cluster| cluster.is_in_doubt() || cluster.awaits_start();
        let in_doubt = dropped.into_iter().filter(may_start);
        fleet.clusters.extend(in_doubt.map(|cluster| Cluster {
            record: None,
            written: None,
            ..cluster
        }));
        fleet.clusters.sort_by(|one, other| one.name.cmp(&other.name));
        for cluster in &mut fleet.clusters {
            if let Some(state) = first.clusters.iter().find(|state| state.name == cluster.name) {
                cluster.record = Some(Arc::clone(&state.record));
            }
            for operation in first
                .operations
                .iter()
                .filter(|operation| *operation.cluster() == cluster.name)
            {
                let busy = busy(operation);
                if cluster.busy != Some(Busy::Starting) {
                    cluster.busy = Some(busy);
                }
            }
        }
        let second = plan(now, policy, &fleet);
        if !second.operations.is_empty() {
            self.fault(now, &format!("planned twice: {:?}", second.operations));
        }
        for (one, two) in first.clusters.iter().zip(&second.clusters) {
            // Which of several reasons not to start is given may depend on what starts meanwhile.
            let given = Record {
                reason: one.record.reason,
                refused_step: one.record.refused_step,
                message: Arc::clone(&one.record.message),
                ..Record::clone(&two.record)
            };
            if *one.record != given && !is_left_out_next(before, one, two) {
                let text = format!("record moves by itself: {:?} then {:?}", one.record, two.record);
                self.fault(now, &text);
            }
        }
        self.watch_rest(now, policy, fleet, &second);
    }

    /// A second later, without an event and with nothing due, every record must be the same. A row that changed with
    /// time alone would be written again and again.
    fn watch_rest(&mut self, now: DateTime<Utc>, policy: &Policy, mut fleet: Fleet, latest: &Plan) {
        for cluster in &mut fleet.clusters {
            if let Some(state) = latest.clusters.iter().find(|state| state.name == cluster.name) {
                cluster.record = Some(Arc::clone(&state.record));
            }
        }
        let rest = plan(now, policy, &fleet);
        self.watch_sleep(now, policy, &fleet, &rest);
        let later = now + TimeDelta::seconds(1);
        if rest.wake_at.is_some_and(|wake| wake <= later) {
            return;
        }
        let next = plan(later, policy, &fleet);
        for (one, two) in rest.clusters.iter().zip(&next.clusters) {
            if one.record != two.record {
                let text = format!(
                    "record moves with time alone: {:?} then {:?}",
                    one.record, two.record
                );
                self.fault(now, &text);
            }
        }
        if next.operations != rest.operations || next.dropped != rest.dropped {
            self.fault(now, &format!("time alone causes {:?}", next.operations));
        }
    }

    /// Checks a creation that was carried out on the hub.
    pub(super) fn on_create(
        &mut self,
        now: DateTime<Utc>,
        key: (usize, Arc<str>, Step, Attempt),
        started: DateTime<Utc>,
        starts: bool,
        written: Option<&Record>,
        late: bool,
    ) {
        // A creation that was sent before the step ended and is carried out later is cleaned up again.
        let finished = !late
            && written.is_some_and(|written| written.attempt == key.3 && written.succeeded(key.2.into()));
        if finished {
            self.fault(now, &format!("a finished step is created again: {key:?}"));
        }
        // Its clock may differ as well, because a later try may have had another one, which is on record.
        if late {
            self.clocks.entry(key).or_insert(started);
            return;
        }
        if let Some(clock) = self.clocks.get(&key)
            && *clock != started
            && !starts
        {
            self.fault(
                now,
                &format!("the clock was reset from {clock} to {started}: {key:?}"),
            );
        }
        self.clocks.insert(key, started);
    }

    pub(super) fn on_doubled(&mut self, now: DateTime<Utc>, cluster: &str, step: Step) {
        self.fault(now, &format!("{cluster}: {step:?} created where it exists"));
    }

    pub(super) fn on_restless(&mut self, now: DateTime<Utc>) {
        self.fault(now, "plans keep changing without an event");
    }
}

/// The state of the cluster while a write for the operation is in progress.
pub(super) fn busy(operation: &Operation) -> Busy {
    match operation {
        Operation::Create { step, .. } if *step != Step::PostAction => Busy::Starting,
        Operation::Update { .. } => Busy::Starting,
        Operation::Create { .. }
        | Operation::Withdraw { .. }
        | Operation::MarkSoak { .. }
        | Operation::Delete { .. }
        | Operation::Read { .. } => Busy::Other,
    }
}

/// True when a cluster has failed only in this plan and the retry is not carried out yet: the next plan queues the cluster again, and
/// it does not count as a failure any more, so that others may start.
fn is_retried_next(policy: &Policy, fleet: &Fleet, plan: &Plan) -> bool {
    let Some(retry) = policy.retry.as_ref().filter(|_| !plan.retry_done) else {
        return false;
    };
    plan.clusters.iter().any(|state| {
        let record = &state.record;
        let may_be_retried = named(fleet, &state.name)
            .is_some_and(|cluster| cluster.selection == Selection::In && cluster.left_out.is_none());
        may_be_retried
            && record.phase.has_failed()
            && !retry.has_caused(&record.attempt)
            && retry.concerns(&state.name, record)
    })
}

/// True when a cluster that is to be left out gives its slot back in the first plan: it is queued first, and left out in the next plan.
fn is_left_out_next(fleet: &Fleet, one: &ClusterState, two: &ClusterState) -> bool {
    let before = named(fleet, &one.name).and_then(|cluster| cluster.record.as_deref());
    let held = before.is_some_and(|before| before.phase.holds_slot());
    held && one.record.phase == Phase::Pending && two.record.phase.is_left_out()
}

/// True when a final phase changed within its attempt, other than by a post-action that recovered.
fn reverses(before: &Record, after: &Record) -> bool {
    let recovered = matches!(
        before.reason,
        Reason::PostActionFailed | Reason::PostActionTimeout
    );
    before.phase.is_terminal()
        && before.attempt == after.attempt
        && before.phase != after.phase
        && !(recovered && after.phase == Phase::Complete)
        && !after.phase.is_left_out()
}

/// The cluster of this name.
pub(super) fn named<'a>(fleet: &'a Fleet, name: &str) -> Option<&'a Cluster> {
    fleet.clusters.iter().find(|cluster| *cluster.name == *name)
}

#[cfg(test)]
mod tests {
    use super::{Limit, Phase, Reason, Step, Watch};
    use crate::model::{Outcome, Stage};
    use crate::testing::{at, fleet, policy, record, work};

    #[test]
    fn a_canary_that_is_gone_keeps_others_from_starting_until_it_is_dropped_in_the_plan_that_is_asked_for() {
        let fleet = fleet()
            .cluster("a")
            .canary()
            .gone()
            .work(Step::PreAction, work(50).running())
            .record(record(Phase::Pending))
            .cluster("b")
            .canary()
            .record(record(Phase::Complete))
            .cluster("c")
            .build();
        let policy = policy().pre_action().canaries().build();
        let plan = crate::planner::plan(at(60), &policy, &fleet);
        assert_eq!(plan.operations, []);
        assert_eq!(plan.wake_at, Some(at(61)));
        let mut watch = Watch::default();
        watch.on_plan(0, at(60), &policy, &fleet, &plan);
        assert_eq!(watch.faults, [""; 0]);
    }

    #[test]
    fn a_failure_that_a_pending_retry_has_not_reached_keeps_others_from_starting_until_the_next_plan() {
        let retried = record(Phase::Pending).retry("again");
        let failed = record(Phase::Failed).reason(Reason::ClusterUpgradeTimeout).done(
            Stage::Platform,
            0,
            Outcome::Failed,
        );
        // Once the row of the other cluster is written, the retry is carried out, and this failure is not one of those it was for.
        for (row, done) in [(retried, true), (failed, false)] {
            let fleet = fleet()
                .cluster("a")
                .work(Step::Platform, work(0).running())
                .record(row)
                .cluster("b")
                .work(Step::Platform, work(5).running())
                .read(Step::Platform, 18)
                .record(record(Phase::Partial).stage(Stage::Platform, 5))
                .cluster("c")
                .build();
            let asked = policy().timeouts(13, 13).max_failures(Limit::Count(0));
            let policy = asked.retry("again").build();
            let plan = crate::planner::plan(at(20), &policy, &fleet);
            assert_eq!(plan.clusters[1].record.phase, Phase::Failed);
            assert_eq!(plan.operations, []);
            assert_eq!(plan.retry_done, done);
            let mut watch = Watch::default();
            watch.on_plan(0, at(20), &policy, &fleet, &plan);
            assert_eq!(watch.faults, [""; 0]);
        }
    }
}
