//! What a cluster must have done before an upgrade counts as complete there, whatever its controller knows.

use super::Scenario;
use crate::model::{Fleet, Phase, Plan, Record, Selection, Stage, Step, WorkerPools};
use crate::testing::hub::Pools;
use crate::testing::monitor::named;

/// What a step is rendered from by the revision of a record, if the revision tells it.
fn asked(record: &Record, step: Step) -> Option<&str> {
    let (_, hashes) = record.attempt.revision.split_once(':')?;
    let name = format!("{step:?}@");
    hashes.split(',').find(|hash| hash.starts_with(&name))
}

impl Scenario {
    /// Sets what is known of the worker pools of a cluster.
    pub fn worker_pools(&mut self, name: &str, pools: WorkerPools) {
        self.spoke(name, |spoke, now| {
            let have_followed = spoke.worker_pools.have_followed && now > spoke.registered;
            spoke.worker_pools = Pools {
                have_followed: have_followed || pools == WorkerPools::Updated,
                known: pools,
            };
        });
    }

    /// Where an upgrade waits for worker pools, no cluster whose pools have never followed becomes complete, unless its update had
    /// ended before.
    fn unproven_pools(&self, index: usize, fleet: &Fleet, plan: &Plan) -> Vec<String> {
        let policy = &self.upgrades[index].policy;
        let states = plan.clusters.iter().filter(|state| {
            let cluster = named(fleet, &state.name);
            let before = cluster.and_then(|cluster| cluster.record.as_deref());
            let is_queued =
                before.is_some_and(|before| before.phase.is_queued() && !before.succeeded(Stage::Platform));
            let spoke = self.hub.spokes.get(&state.name);
            let is_behind = spoke.is_some_and(|spoke| !spoke.worker_pools.have_followed);
            let is_waited_for = policy.worker_pools_timeout.is_some() && policy.wants(Step::Platform);
            is_waited_for && is_queued && is_behind && state.record.phase == Phase::Complete
        });
        states
            .map(|state| format!("{} is complete, and its worker pools never followed", state.name))
            .collect()
    }

    /// No cluster becomes complete that has not ended the steps after the pre-action that its revision asks for, each as it is asked for.
    pub(super) fn watch_proofs(&mut self, index: usize, fleet: &Fleet, plan: &Plan) {
        let mut faults = Vec::new();
        for state in &plan.clusters {
            let cluster = named(fleet, &state.name);
            let before = cluster.and_then(|cluster| cluster.record.as_deref());
            let was = before.is_some_and(|before| before.phase == Phase::Complete);
            let Some(spoke) = self.hub.spokes.get(&state.name) else {
                continue;
            };
            if was || state.record.phase != Phase::Complete || self.watch.is_excused(index, &state.name) {
                continue;
            }
            let is_selected = cluster.is_some_and(|cluster| cluster.selection == Selection::In);
            // A leaver ends before its post-action, and without operators that an edit has taken from the spec.
            let steps = Step::ALL.into_iter().filter(|step| match step {
                Step::PreAction => false,
                Step::Platform => true,
                Step::Operators | Step::PostAction => is_selected,
            });
            for step in steps {
                let ended = spoke.ended[step.index()].as_deref();
                let asked = asked(&state.record, step);
                if asked.is_some() && asked != ended {
                    faults.push(format!(
                        "{} is complete, {step:?} has ended {ended:?} and not {asked:?}",
                        state.name
                    ));
                }
            }
        }
        faults.extend(self.unproven_pools(index, fleet, plan));
        for fault in faults {
            self.watch.fault(self.now, &fault);
        }
    }
}
