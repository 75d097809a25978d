//! The controller around the pure parts: mirrors and clock in, statuses out.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::machines::{self, Machine, Pool, Step};
use super::operators::{self, Machines, Operators, Statuses, Target};
use super::table::{MACHINE_CONFIG, OPERATORS};
use crate::dice::Dice;
use crate::fields::{self, Time};
use crate::spoke::clock::Clock;
use crate::spoke::desk::{Desk, WriteError};
use crate::spoke::fault::Faults;
use crate::spoke::kinds;
use crate::spoke::mirror::Mirror;
use crate::spoke::setup::Setup;

/// A refused write is tried again after so long.
const RETRY: Duration = Duration::from_millis(500);

/// What the machines mean for the cluster-version operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// How often the machine it runs on was drained or rebooted.
    pub evictions: u64,
}

/// The controller.
pub struct Rollout {
    /// The simulated clock.
    pub clock: Clock,
    /// What the spoke is like.
    pub setup: Arc<Setup>,
    /// What is wrong with it.
    pub faults: watch::Receiver<Faults>,
    /// What is applied; `None` until the cluster-version operator knows.
    pub target: watch::Receiver<Option<Target>>,
    /// Where it tells of evictions.
    pub surroundings: watch::Sender<Surroundings>,
    /// Where it tells of outages.
    pub dark: watch::Sender<bool>,
    /// `ClusterOperators`.
    pub operators: Mirror,
    /// `MachineConfigPools`.
    pub pools: Mirror,
    /// Nodes.
    pub nodes: Mirror,
    /// Rung by the mirrors.
    pub bell: Arc<Notify>,
    /// Where it writes.
    pub desk: Desk,
    /// The cluster's own draws.
    pub dice: Dice,
}

/// What is kept between passes; lost at a restart.
#[derive(Default)]
struct Memory {
    operators: Operators,
    machines: Vec<Machine>,
    /// The machine that the cluster-version operator runs on.
    host: usize,
    host_away: bool,
}

impl Rollout {
    /// Plays until stopped.
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
                () = stop.cancelled() => return,
                () = timer => {}
                () = self.bell.notified() => {}
                Ok(()) = self.target.changed() => {}
                Ok(()) = self.faults.changed() => {}
            }
        }
    }

    /// One look at everything. Returns when to look again although nothing changed.
    async fn pass(&mut self, memory: &mut Memory, now: Time) -> Result<Option<Time>, WriteError> {
        let Some(target) = self.target.borrow_and_update().clone() else {
            return Ok(None);
        };
        let faults = self.faults.borrow_and_update().clone();
        let setup = Arc::clone(&self.setup);
        let mut statuses = self.statuses();
        let nodes = self.nodes.all();
        let pools = self.pools.all();
        self.take_in(memory, &nodes);

        let rendered =
            operators::level_or_begun(&memory.operators, MACHINE_CONFIG, &statuses, &target.version);
        let ground = machines::Ground {
            version: rendered.then_some(target.version.as_str()),
            durations: &setup.durations,
            jitter: setup.jitter,
            faults: &faults,
            single_node: setup.is_single_node(),
            dice: self.dice,
        };
        let views: Vec<Pool> = pools.iter().map(pool).collect();
        let seen = machines::advance(&mut memory.machines, &views, &ground, now);
        self.tell(memory, seen.dark);

        let summary = summary(&memory.machines, &views, ground.version, now);
        let operators_ground = operators::Ground {
            target: &target,
            machines: &summary,
            faults: &faults,
            pace: setup.durations.operators,
            jitter: setup.jitter,
            dice: self.dice,
        };
        let wake = memory.operators.advance(&mut statuses, &operators_ground, now);
        let begun = operators::level_or_begun(&memory.operators, MACHINE_CONFIG, &statuses, &target.version);
        if seen.dark {
            // Nothing can be written; what is due is caught up with when the server is back.
            return Ok(operators::earlier(seen.wake, None));
        }
        self.write(&statuses, &nodes, &pools, &views, memory, &ground, now)
            .await?;
        // The pools begin in the pass after their operator has.
        let soon = (begun != rendered).then_some(now);
        Ok(operators::earlier(soon, operators::earlier(wake, seen.wake)))
    }

    /// Statuses of the operators of the table, times simulated.
    fn statuses(&self) -> Statuses {
        let resource = kinds::cluster_operator();
        let seen = self.operators.all();
        seen.iter()
            .map(|object| {
                let status = self.clock.to_simulated(self.desk.status(&resource, object));
                (fields::text(object, &["metadata", "name"]).to_owned(), status)
            })
            .filter(|(name, _)| OPERATORS.iter().any(|row| row.name == name))
            .collect()
    }

    /// Machines whose Node came or went; those that are known are remembered more finely than their Node says.
    fn take_in(&self, memory: &mut Memory, nodes: &[Value]) {
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

    /// Tells of outages and of evictions of the cluster-version operator, which moves to the next master.
    fn tell(&self, memory: &mut Memory, dark: bool) {
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
            self.surroundings.send_modify(|told| told.evictions += 1);
            tracing::info!(node = %host.name, "the cluster-version operator is evicted");
            if masters.len() > 1 {
                memory.host += 1;
                // Its next host may be the one that is drained next.
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
        ground: &machines::Ground<'_>,
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
                self.desk.merge(&resource, "", name, &patch).await?;
            }
            let before = self.clock.to_simulated(self.desk.status(&resource, node));
            let status = self.clock.to_wall(&machines::node_status(machine, &before, now));
            self.desk.put_status(&resource, node, &status).await?;
        }
        let resource = kinds::machine_config_pool();
        for (object, view) in pools.iter().zip(views) {
            if let Some(version) = ground.version {
                let goal = machines::rendered(&view.name, version);
                let patch = json!({"spec": {"configuration": {"name": goal}}});
                if !shows(object, &patch) {
                    self.desk.merge(&resource, "", &view.name, &patch).await?;
                }
            }
            let generation = fields::integer(object, &["metadata", "generation"]).unwrap_or(0);
            let before = self.clock.to_simulated(self.desk.status(&resource, object));
            let status = machines::pool_status(view, &before, &memory.machines, ground, generation, now);
            self.desk
                .put_status(&resource, object, &self.clock.to_wall(&status))
                .await?;
        }
        let resource = kinds::cluster_operator();
        let present = self.operators.all();
        for row in &OPERATORS {
            let is_row = |object: &Value| fields::text(object, &["metadata", "name"]) == row.name;
            if !present.iter().any(is_row) {
                // What was removed comes back, and its operator starts over.
                self.desk
                    .create(&resource, &operators::manifest(row.name))
                    .await?;
            }
        }
        for object in present {
            if let Some(status) = statuses.get(fields::text(&object, &["metadata", "name"])) {
                self.desk
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

/// What the operators are to know of the machines.
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
    // Without a version nothing is rendered yet, and without their pool nothing is known of the masters.
    let masters = pools.iter().find(|pool| pool.name == "master");
    Machines {
        masters_updated: version.is_some() && masters.is_some_and(|pool| !behind(pool)),
        pools_updating: pools.iter().any(|pool| !pool.paused && behind(pool)),
        degraded,
        masters_not_ready: machines::not_ready(machines, now),
    }
}

/// Whether an object has all that a merge patch would set. Absent, null and empty are the same here.
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
