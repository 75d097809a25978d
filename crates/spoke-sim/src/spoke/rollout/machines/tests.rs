//! Pools through whole updates, on a clock that jumps to the next instant.

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::{
    Machine, MachinesContext, Pool, Step, advance, new_node, node_patch, not_ready, pool_status, read,
    rendered,
};
use crate::fault::Faults;
use crate::fields::{Time, from_unix};
use crate::seeded_rng::SeededRng;
use crate::spoke::clock::Clock;
use crate::spoke::rollout::operators::{condition, find};
use crate::spoke::setup::Durations;

const OLD: &str = "4.16.10";
const NEW: &str = "4.17.3";

struct World {
    machines: Vec<Machine>,
    pools: Vec<Pool>,
    faults: Faults,
    single_node: bool,
    now: Time,
}

fn pool(name: &str) -> Pool {
    Pool {
        name: name.into(),
        paused: false,
        max_unavailable: Value::Null,
    }
}

impl World {
    fn new(masters: usize, workers: usize, faults: &str) -> Self {
        let of = |pool: &'static str, count: usize| {
            (0..count).map(move |n| Machine {
                name: format!("{pool}-{n}"),
                pool: pool.into(),
                config: rendered(pool, OLD),
                desired: rendered(pool, OLD),
                step: Step::Idle,
                degraded: None,
            })
        };
        Self {
            machines: of("master", masters).chain(of("worker", workers)).collect(),
            pools: vec![pool("master"), pool("worker")],
            faults: faults.parse().unwrap(),
            single_node: masters == 1 && workers == 0,
            now: from_unix(0),
        }
    }

    fn with_ground<T>(
        &mut self,
        run: impl FnOnce(&mut Vec<Machine>, &[Pool], &MachinesContext<'_>, Time) -> T,
    ) -> T {
        let context = MachinesContext {
            version: Some(NEW),
            durations: &Durations::default(),
            jitter: 0.0,
            faults: &self.faults,
            single_node: self.single_node,
            rng: SeededRng::new(1),
        };
        run(&mut self.machines, &self.pools, &context, self.now)
    }

    fn pass(&mut self) -> super::Seen {
        self.with_ground(|machines, pools, context, now| advance(machines, pools, context, now))
    }

    fn status(&mut self, name: &str) -> Value {
        let pool = pool(name);
        self.with_ground(|machines, _, context, now| {
            pool_status(&pool, &json!({}), machines, context, 2, now)
        })
    }

    /// Minutes until nothing changes by itself, and how long it was dark.
    fn run(&mut self) -> (i64, i64) {
        let start = self.now;
        let mut dark = TimeDelta::zero();
        loop {
            let seen = self.pass();
            let Some(next) = seen.wake else {
                return ((self.now - start).num_minutes(), dark.num_minutes());
            };
            assert!(next > self.now);
            if seen.dark {
                dark += next - self.now;
            }
            self.now = next;
        }
    }

    /// Goes from change to change until `minutes` after the start of time.
    fn run_until(&mut self, minutes: i64) {
        let end = from_unix(0) + TimeDelta::minutes(minutes);
        while let Some(next) = self.pass().wake.filter(|next| *next <= end) {
            self.now = next;
        }
        self.now = end;
        self.pass();
    }

    fn updated(&self, pool: &str) -> usize {
        let goal = rendered(pool, NEW);
        self.machines
            .iter()
            .filter(|machine| machine.config == goal)
            .count()
    }
}

#[test]
fn machines_of_a_pool_go_one_by_one_and_pools_side_by_side() {
    let mut world = World::new(3, 2, "none");
    world.pass();
    let busy = |world: &World| -> Vec<String> {
        let busy = world.machines.iter().filter(|machine| machine.step != Step::Idle);
        busy.map(|machine| machine.name.clone()).collect()
    };
    assert_eq!(busy(&world), ["master-0", "worker-0"]);
    let (minutes, dark) = world.run();
    assert_eq!((minutes, dark), (24, 0), "three times 2 + 2 + 4 minutes");
    assert_eq!((world.updated("master"), world.updated("worker")), (3, 2));
}

#[test]
fn a_paused_pool_keeps_its_configuration() {
    let mut world = World::new(3, 2, "none");
    world.pools[1].paused = true;
    world.run();
    assert_eq!((world.updated("master"), world.updated("worker")), (3, 0));
}

#[test]
fn as_many_machines_at_a_time_as_the_pool_allows() {
    for (limit, minutes) in [
        (json!(2), 16),
        (json!("50%"), 16),
        (json!("100%"), 8),
        (json!(0), 32),
    ] {
        let mut world = World::new(0, 4, "none");
        world.pools[1].max_unavailable = limit.clone();
        assert_eq!(world.run().0, minutes, "{limit}");
    }
}

#[test]
fn a_single_node_takes_the_api_with_it_for_its_reboot() {
    assert_eq!(World::new(1, 0, "none").run(), (8, 4));
    assert_eq!(World::new(1, 0, "api-outage=12m").run(), (16, 12));
    assert_eq!(
        World::new(3, 2, "api-outage=1m").run(),
        (24, 3),
        "one minute each"
    );
}

#[test]
fn a_drain_that_is_stuck_degrades_the_pool_after_an_hour() {
    let mut world = World::new(3, 2, "drain-stuck=worker,90m");
    world.run_until(59);
    let status = world.status("worker");
    assert_eq!(condition(&status, "NodeDegraded"), "False");
    world.run_until(60);
    let status = world.status("worker");
    assert_eq!(condition(&status, "Degraded"), "True");
    assert_eq!(status["degradedMachineCount"], 1);
    let message = find(&status, "NodeDegraded").unwrap()["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains("failed to drain node: worker-0 after 1 hour"),
        "{message}"
    );
    assert_eq!(world.updated("master"), 3, "the masters went on");
    world.run();
    assert_eq!(world.updated("worker"), 2);
    assert_eq!(condition(&world.status("worker"), "Updated"), "True");
}

#[test]
fn a_machine_that_cannot_pull_is_degraded_at_once() {
    let mut world = World::new(3, 0, "pull-failing=master,30m");
    world.pass();
    world.now += TimeDelta::minutes(3);
    world.pass();
    assert!(
        world.machines[0]
            .degraded
            .as_ref()
            .unwrap()
            .contains("no such host")
    );
    world.run();
    assert_eq!(world.updated("master"), 3);
}

#[test]
fn a_master_that_reboots_is_noticed_after_two_minutes() {
    let mut world = World::new(1, 0, "none");
    world.pass();
    world.now += TimeDelta::minutes(5);
    world.pass();
    assert_eq!(not_ready(&world.machines, world.now), []);
    world.now += TimeDelta::minutes(2);
    world.pass();
    assert_eq!(not_ready(&world.machines, world.now).len(), 1);
}

#[test]
fn a_machine_is_read_back_from_its_node_in_mid_step() {
    let clock = Clock::new(from_unix(0), 60.0);
    let mut node = new_node("worker-1", "worker", &["worker"], OLD);
    let mut machine = read(&node, &clock).unwrap();
    assert_eq!((machine.pool.as_str(), machine.step), ("worker", Step::Idle));
    for step in [
        Step::Drain(from_unix(60)),
        Step::Write(from_unix(120)),
        Step::Reboot(from_unix(600)),
        Step::Idle,
    ] {
        machine.step = step;
        let patch = node_patch(&machine, &clock);
        node["metadata"]["annotations"] = patch["metadata"]["annotations"].clone();
        assert_eq!(read(&node, &clock).unwrap(), machine);
    }
    assert_eq!(read(&json!({"metadata": {"name": "other"}}), &clock), None);
}

#[test]
fn the_counts_of_a_pool_add_up() {
    let mut world = World::new(3, 0, "none");
    world.pass();
    world.now += TimeDelta::minutes(9);
    world.pass();
    let status = world.status("master");
    let count = |key: &str| status[key].as_i64().unwrap();
    assert_eq!(count("machineCount"), 3);
    assert_eq!(count("updatedMachineCount"), 1);
    assert_eq!(count("unavailableMachineCount"), 1);
    assert_eq!(condition(&status, "Updating"), "True");
    assert_eq!(status["observedGeneration"], 2);
}
