//! Operators through whole updates, on a clock that jumps to the next instant.

use chrono::TimeDelta;

use super::{
    Machines, Operators, OperatorsContext, Statuses, Target, condition, find, healthy, level, new_status,
};
use crate::fault::Faults;
use crate::fields::{Time, from_unix, text};
use crate::run_levels::{MACHINE_CONFIG, OPERATORS};
use crate::seeded_rng::SeededRng;

const OLD: &str = "4.16.10";
const NEW: &str = "4.17.3";

struct World {
    statuses: Statuses,
    operators: Operators,
    target: Target,
    machines: Machines,
    faults: Faults,
    now: Time,
}

impl World {
    fn new(faults: &str) -> Self {
        let born = from_unix(0);
        Self {
            statuses: OPERATORS
                .iter()
                .map(|row| (row.name.to_owned(), new_status(OLD, born)))
                .collect(),
            operators: Operators::default(),
            target: Target {
                version: NEW.into(),
                up: true,
            },
            machines: Machines::default(),
            faults: faults.parse().unwrap(),
            now: born + TimeDelta::hours(1),
        }
    }

    fn pass(&mut self) -> Option<Time> {
        let context = OperatorsContext {
            target: &self.target,
            machines: &self.machines,
            faults: &self.faults,
            pace: 1.0,
            jitter: 0.0,
            rng: SeededRng::new(1),
        };
        self.operators.advance(&mut self.statuses, &context, self.now)
    }

    /// Jumps from change to change until nothing changes by itself. Returns when each operator became level.
    fn run(&mut self) -> Vec<(String, i64)> {
        let start = self.now;
        let mut finished = Vec::new();
        for _ in 0..1000 {
            let next = self.pass();
            for row in &OPERATORS {
                let is_level = self
                    .statuses
                    .get(row.name)
                    .is_some_and(|status| level(status, NEW));
                if is_level && !finished.iter().any(|(name, _)| name == row.name) {
                    finished.push((row.name.to_owned(), (self.now - start).num_minutes()));
                }
            }
            match next {
                Some(next) => {
                    assert!(next > self.now, "no standing still");
                    self.now = next;
                }
                // What a level run level lets begin is seen in the next pass.
                None if self.pass().is_none() => return finished,
                None => {}
            }
        }
        panic!("no end: {finished:?}");
    }
}

fn minutes_of(finished: &[(String, i64)], name: &str) -> Option<i64> {
    finished
        .iter()
        .find(|(found, _)| found == name)
        .map(|(_, at)| *at)
}

#[test]
fn operators_update_in_the_order_and_time_of_real_clusters() {
    let mut world = World::new("none");
    let finished = world.run();
    for (name, low, high) in [
        ("etcd", 4, 6),
        ("kube-apiserver", 10, 13),
        ("kube-controller-manager", 15, 18),
        ("kube-scheduler", 16, 19),
        ("machine-api", 20, 24),
        ("authentication", 24, 30),
        ("network", 32, 38),
    ] {
        let at = minutes_of(&finished, name).unwrap_or_else(|| panic!("{name} in {finished:?}"));
        assert!((low..=high).contains(&at), "{name} at {at}");
    }
    assert_eq!(
        minutes_of(&finished, MACHINE_CONFIG),
        None,
        "its masters are not updated"
    );
    world.machines.masters_updated = true;
    assert!(minutes_of(&world.run(), MACHINE_CONFIG).is_some());
    assert!(
        world
            .statuses
            .values()
            .all(|status| healthy(status) && level(status, NEW))
    );
}

#[test]
fn a_degraded_operator_holds_all_later_stages_for_as_long() {
    let mut world = World::new("degraded=kube-apiserver,40m");
    loop {
        let next = world.pass().unwrap();
        if condition(&world.statuses["kube-apiserver"], "Degraded") == "True" {
            break;
        }
        world.now = next;
    }
    assert_eq!(
        condition(&world.statuses["kube-controller-manager"], "Progressing"),
        "False"
    );
    let finished = world.run();
    assert!(minutes_of(&finished, "kube-apiserver").unwrap() >= 40);
    assert_eq!(condition(&world.statuses["kube-apiserver"], "Degraded"), "False");
}

#[test]
fn an_unavailable_operator_says_so_and_recovers() {
    let mut world = World::new("unavailable=etcd,5m");
    world.pass();
    assert_eq!(condition(&world.statuses["etcd"], "Available"), "False");
    world.run();
    assert_eq!(condition(&world.statuses["etcd"], "Available"), "True");
}

#[test]
fn a_slow_operator_is_neither_degraded_nor_unavailable() {
    let mut world = World::new("slow-operator=etcd,50m");
    world.pass();
    world.now += TimeDelta::minutes(40);
    world.pass();
    assert!(healthy(&world.statuses["etcd"]));
    assert_eq!(condition(&world.statuses["etcd"], "Progressing"), "True");
    let finished = world.run();
    assert!(minutes_of(&finished, "kube-apiserver").is_some());
}

#[test]
fn without_the_version_operator_nobody_begins_but_who_began_goes_on() {
    let mut world = World::new("none");
    world.target.up = false;
    assert!(world.run().is_empty());
    world.target.up = true;
    world.pass();
    world.target.up = false;
    let finished = world.run();
    let names: Vec<&str> = finished.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["config-operator", "etcd"]);
}

#[test]
fn a_restart_goes_on_from_the_conditions() {
    let mut world = World::new("none");
    world.pass();
    world.now += TimeDelta::minutes(3);
    world.operators = Operators::default();
    let next = world.pass().unwrap();
    assert!(
        next - world.now < TimeDelta::minutes(2),
        "etcd has 1.5 of its 4.5 minutes left"
    );
}

#[test]
fn a_rebooting_master_degrades_the_static_pods_only() {
    let mut world = World::new("none");
    world.target.version = OLD.into();
    world.machines.masters_not_ready = vec![("master-1".into(), world.now)];
    world.pass();
    let degraded: Vec<&str> = OPERATORS
        .iter()
        .map(|row| row.name)
        .filter(|name| condition(&world.statuses[*name], "Degraded") == "True")
        .collect();
    assert_eq!(degraded, super::STATIC_PODS);
    let message = text(find(&world.statuses["etcd"], "Degraded").unwrap(), &["message"]);
    assert!(message.contains("node \"master-1\" not ready since"), "{message}");
}

#[test]
fn updating_pools_make_machine_config_not_upgradeable() {
    let mut world = World::new("not-upgradeable=network,Migrating: SDN migration runs");
    world.target.version = OLD.into();
    world.machines.pools_updating = true;
    world.pass();
    let reason =
        |name: &str| text(find(&world.statuses[name], "Upgradeable").unwrap(), &["reason"]).to_owned();
    assert_eq!(reason(MACHINE_CONFIG), "PoolUpdating");
    assert_eq!(reason("network"), "Migrating");
    assert_eq!(reason("etcd"), "AsExpected");
}

#[test]
fn a_new_target_starts_all_operators_again() {
    let mut world = World::new("none");
    world.run();
    world.target.version = "4.17.4".into();
    world.pass();
    assert_eq!(condition(&world.statuses["etcd"], "Progressing"), "True");
    assert_eq!(
        condition(&world.statuses["kube-apiserver"], "Progressing"),
        "False"
    );
}

#[test]
fn an_operator_that_is_gone_holds_all_later_stages_and_starts_over_when_it_is_there_again() {
    let mut world = World::new("none");
    world.statuses.remove("etcd");
    let finished = world.run();
    let names: Vec<&str> = finished.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["config-operator"]);
    world.statuses.insert("etcd".into(), serde_json::Value::Null);
    world.pass();
    assert!(!level(&world.statuses["etcd"], NEW));
    let finished = world.run();
    assert!(minutes_of(&finished, "etcd").is_some(), "{finished:?}");
    assert!(minutes_of(&finished, "kube-apiserver").is_some(), "{finished:?}");
    assert!(healthy(&world.statuses["etcd"]));
}
