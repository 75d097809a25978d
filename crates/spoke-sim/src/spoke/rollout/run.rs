//! The controller around the pure parts: it reads informers and the clock, and writes statuses.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::machines::{self, Machine, MachinesContext, Pool, Step};
use super::operators::{self, Machines, Operators, OperatorsContext, Statuses, Target};
use crate::fault::Faults;
use crate::fields::{self, Time};
use crate::run_levels::{MACHINE_CONFIG, OPERATORS};
use crate::seeded_rng::SeededRng;
use crate::spoke::clock::Clock;
use crate::spoke::informer::Informer;
use crate::spoke::kinds;
use crate::spoke::setup::Setup;
use crate::spoke::status_writer::{StatusWriter, WriteError};

/// Delay before a refused write is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// Events of the machines that affect the cluster-version operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineEvents {
    /// How often its machine was drained or rebooted.
    pub evictions: u64,
}

/// The controller.
pub struct Rollout {
    /// The simulated clock.
    pub clock: Clock,
    /// How the cluster is installed and behaves.
    pub setup: Arc<Setup>,
    /// The faults of the cluster.
    pub faults: watch::Receiver<Faults>,
    /// What is applied; `None` until the cluster-version operator reports it.
    pub target: watch::Receiver<Option<Target>>,
    /// Where evictions are reported.
    pub machine_events: watch::Sender<MachineEvents>,
    /// Where outages are reported.
    pub dark: watch::Sender<bool>,
    /// `ClusterOperators`.
    pub operators: Informer,
    /// `MachineConfigPools`.
    pub pools: Informer,
    /// Nodes.
    pub nodes: Informer,
    /// Notified by the informers.
    pub notify: Arc<Notify>,
    /// Writes statuses and objects.
    pub writer: StatusWriter,
    /// The random numbers of the cluster.
    pub rng: SeededRng,
}

/// The state between passes. It is lost at a restart.
#[derive(Default)]
struct Memory {
    operators: Operators,
    machines: Vec<Machine>,
    /// The machine that the cluster-version operator runs on.
    host: usize,
    host_away: bool,
}

impl Rollout {
    /// Runs until it is stopped.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut memory = Memory::default();
        loop {
            let now = self.clock.now();
            let wait = match self.pass(&mut memory, now).await {
                Ok(wake) => wake.map(|wake| self.clock.until(wake)),
                Err(error) => {
                    tracing::debug!(%error, "the rollout could not write");
                    Some(RETRY)
                }
            };
            let timer = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = timer => {}
                () = self.notify.notified() => {}
                Ok(()) = self.target.changed() => {}
                Ok(()) = self.faults.changed() => {}
            }
        }
    }

    /// Makes one pass. Returns when to make the next one if nothing changes.
    async fn pass(&mut self, memory: &mut Memory, now: Time) -> Result<Option<Time>, WriteError> {
        let Some(target) = self.target.borrow_and_update().clone() else {
            return Ok(None);
        };
        let faults = self.faults.borrow_and_update().clone();
        let setup = Arc::clone(&self.setup);
        let mut statuses = self.statuses();
        let nodes = self.nodes.all();
        let pools = self.pools.all();
        self.update_machines(memory, &nodes);

        let rendered =
            operators::level_or_begun(&memory.operators, MACHINE_CONFIG, &statuses, &target.version);
        let context = MachinesContext {
            version: rendered.then_some(target.version.as_str()),
            durations: &setup.durations,
            jitter: setup.jitter,
            faults: &faults,
            single_node: setup.is_single_node(),
            rng: self.rng,
        };
        let views: Vec<Pool> = pools.iter().map(pool).collect();
        let seen = machines::advance(&mut memory.machines, &views, &context, now);
        self.report_events(memory, seen.dark);

        let summary = summary(&memory.machines, &views, context.version, now);
        let operators_context = OperatorsContext {
            target: &target,
            machines: &summary,
            faults: &faults,
            pace: setup.durations.operators,
            jitter: setup.jitter,
            rng: self.rng,
        };
        let wake = memory.operators.advance(&mut statuses, &operators_context, now);
        let pools_told = views.iter().filter_map(|view| {
            let told = machines::description(view, &memory.machines, &context)?;
            Some((view.name.clone(), Value::from(told)))
        });
        let pools_told: Map<String, Value> = pools_told.collect();
        if let Some(status) = statuses.get_mut(MACHINE_CONFIG)
            && !pools_told.is_empty()
        {
            status["extension"] = Value::Object(pools_told);
        }
        let begun = operators::level_or_begun(&memory.operators, MACHINE_CONFIG, &statuses, &target.version);
        if seen.dark {
            // Nothing can be written. What is due is written when the server is back.
            return Ok(operators::earlier(seen.wake, None));
        }
        self.write(&statuses, &nodes, &pools, &views, memory, &context, now)
            .await?;
        // The pools start in the pass after their operator has started.
        let soon = (begun != rendered).then_some(now);
        Ok(operators::earlier(soon, operators::earlier(wake, seen.wake)))
    }

    /// Statuses of all known operators, with simulated times.
    fn statuses(&self) -> Statuses {
        let resource = kinds::cluster_operator();
        let seen = self.operators.all();
        seen.iter()
            .map(|object| {
                let status = self.clock.to_simulated(self.writer.status(&resource, object));
                (fields::text(object, &["metadata", "name"]).to_owned(), status)
            })
            .filter(|(name, _)| OPERATORS.iter().any(|row| row.name == name))
            .collect()
    }

    /// Adds and removes machines with their Nodes. Known machines keep times that are finer than those on the Node.
    fn update_machines(&self, memory: &mut Memory, nodes: &[Value]) {
        let found: Vec<Machine> = nodes
            .iter()
            .filter_map(|node| machines::read(node, &self.clock))
            .collect();
        memory
            .machines
            .retain(|known| found.iter().any(|machine| machine.name == known.name));
        for machine in found {
            if !memory.machines.iter().any(|known| known.name == machine.name) {
                memory.machines.push(machine);
            }
        }
        memory
            .machines
            .sort_by(|a, b| (&a.pool, &a.name).cmp(&(&b.pool, &b.name)));
    }

    /// Reports outages, and evictions of the cluster-version operator, which moves to the next master.
    fn report_events(&self, memory: &mut Memory, dark: bool) {
        self.dark
            .send_if_modified(|now| std::mem::replace(now, dark) != dark);
        let masters: Vec<&Machine> = memory
            .machines
            .iter()
            .filter(|machine| machine.pool == "master")
            .collect();
        let Some(host) = masters.get(memory.host % masters.len().max(1)) else {
            return;
        };
        let away = matches!(host.step, Step::Write(_) | Step::Reboot(_));
        if away && !memory.host_away {
            self.machine_events.send_modify(|told| told.evictions += 1);
            tracing::info!(node = %host.name, "the cluster-version operator is evicted");
            if masters.len() > 1 {
                memory.host += 1;
                // The next host may be the one that is drained next.
                return;
            }
        }
        memory.host_away = away;
    }

    #[allow(clippy::too_many_arguments)]
    async fn write(
        &mut self,
        statuses: &Statuses,
        nodes: &[Value],
        pools: &[Value],
        views: &[Pool],
        memory: &Memory,
        context: &MachinesContext<'_>,
        now: Time,
    ) -> Result<(), WriteError> {
        let resource = kinds::node();
        for node in nodes {
            let name = fields::text(node, &["metadata", "name"]);
            let Some(machine) = memory.machines.iter().find(|machine| machine.name == name) else {
                continue;
            };
            let patch = machines::node_patch(machine, &self.clock);
            if !shows(node, &patch) {
                self.writer.merge(&resource, "", name, &patch).await?;
            }
            let before = self.clock.to_simulated(self.writer.status(&resource, node));
            let status = self.clock.to_wall(&machines::node_status(machine, &before, now));
            self.writer.put_status(&resource, node, &status).await?;
        }
        let resource = kinds::machine_config_pool();
        for (object, view) in pools.iter().zip(views) {
            if let Some(version) = context.version {
                let goal = machines::rendered(&view.name, version);
                let patch = json!({"spec": {"configuration": {"name": goal}}});
                if !shows(object, &patch) {
                    self.writer.merge(&resource, "", &view.name, &patch).await?;
                }
            }
            let generation = fields::integer(object, &["metadata", "generation"]).unwrap_or(0);
            let before = self.clock.to_simulated(self.writer.status(&resource, object));
            let status = machines::pool_status(view, &before, &memory.machines, context, generation, now);
            self.writer
                .put_status(&resource, object, &self.clock.to_wall(&status))
                .await?;
        }
        let resource = kinds::cluster_operator();
        let present = self.operators.all();
        for row in &OPERATORS {
            let is_row = |object: &Value| fields::text(object, &["metadata", "name"]) == row.name;
            if !present.iter().any(is_row) {
                // A removed object is created again, and its operator starts over.
                self.writer
                    .create(&resource, &operators::manifest(row.name))
                    .await?;
            }
        }
        for object in present {
            if let Some(status) = statuses.get(fields::text(&object, &["metadata", "name"])) {
                self.writer
                    .put_status(&resource, &object, &self.clock.to_wall(status))
                    .await?;
            }
        }
        Ok(())
    }
}

fn pool(object: &Value) -> Pool {
    Pool {
        name: fields::text(object, &["metadata", "name"]).to_owned(),
        paused: fields::get(object, &["spec", "paused"]).and_then(Value::as_bool) == Some(true),
        max_unavailable: fields::get(object, &["spec", "maxUnavailable"])
            .cloned()
            .unwrap_or_default(),
    }
}

/// What the operators need to know about the machines.
fn summary(machines: &[Machine], pools: &[Pool], version: Option<&str>, now: Time) -> Machines {
    let behind = |pool: &Pool| {
        let goal = version.map(|version| machines::rendered(&pool.name, version));
        machines.iter().any(|machine| {
            machine.pool == pool.name
                && (machine.step != Step::Idle || goal.as_ref().is_some_and(|goal| machine.config != *goal))
        })
    };
    let degraded = machines.iter().find_map(|machine| {
        let why = machine.degraded.as_ref()?;
        Some(format!(
            "error required MachineConfigPool {} is not ready, retrying. Status: (pool degraded: true): {why}",
            machine.pool
        ))
    });
    // Without a version nothing is rendered yet, and without their pool the state of the masters is unknown.
    let masters = pools.iter().find(|pool| pool.name == "master");
    Machines {
        masters_updated: version.is_some() && masters.is_some_and(|pool| !behind(pool)),
        pools_updating: pools.iter().any(|pool| !pool.paused && behind(pool)),
        degraded,
        masters_not_ready: machines::not_ready(machines, now),
    }
}

/// Whether an object already has everything that a merge patch would set. Absent, null and empty count as equal.
fn shows(object: &Value, patch: &Value) -> bool {
    match patch {
        Value::Object(parts) => parts.iter().all(|(key, part)| match object.get(key) {
            Some(present) => shows(present, part),
            None => part.is_null() || matches!(part, Value::Object(_)) && shows(&json!({}), part),
        }),
        other => object == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Pool, shows, summary};
    use crate::fields::from_unix;

    #[test]
    fn masters_are_updated_only_where_that_is_known() {
        let pool = |name: &str| Pool {
            name: name.to_owned(),
            paused: false,
            max_unavailable: json!(1),
        };
        let updated = |pools: &[Pool], version: Option<&str>| {
            summary(&[], pools, version, from_unix(0)).masters_updated
        };
        assert!(updated(&[pool("master"), pool("worker")], Some("4.16.2")));
        assert!(!updated(&[pool("worker")], Some("4.16.2")), "the pool is gone");
        assert!(!updated(&[pool("master")], None), "nothing is rendered");
    }

    #[test]
    fn a_patch_that_would_change_nothing_is_seen() {
        let object = json!({"metadata": {"annotations": {"a": "1"}}, "spec": {}});
        for (patch, expected) in [
            (json!({"metadata": {"annotations": {"a": "1", "b": null}}}), true),
            (json!({"spec": {"unschedulable": null}}), true),
            (json!({"spec": {"unschedulable": true}}), false),
            (json!({"status": {"x": null}}), true),
            (json!({"metadata": {"annotations": {"a": "2"}}}), false),
        ] {
            assert_eq!(shows(&object, &patch), expected, "{patch}");
        }
    }
}
