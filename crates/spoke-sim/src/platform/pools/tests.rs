use std::time::Duration;

use super::*;
use crate::fault::Faults;
use crate::fields::from_unix;
use crate::platform::Pace;
use crate::seeded_rng::SeededRng;
use crate::store::Store;

struct World {
    store: Store,
    operator: MachineConfigOperator,
    now: Time,
}

impl World {
    fn new() -> Self {
        let mut store = Store::new(SeededRng::new(1));
        let installation = cvo::Installation {
            cluster_id: "00000000-0000-4000-8000-000000000000".to_owned(),
            version: "4.14.9".to_owned(),
            channel: "stable-4.14".to_owned(),
            updates: Vec::new(),
        };
        let now = from_unix(1_000_000);
        let version = cvo::new_cluster_version(&installation, now);
        store.create(&cvo::key(), &version, "test", now).unwrap();
        for object in objects("4.14.9") {
            let name = fields::text(&object, &["metadata", "name"]);
            let key = if name == "machine-config" {
                operator_key()
            } else {
                key(name)
            };
            store.create(&key, &object, "test", now).unwrap();
        }
        let operator = MachineConfigOperator::default();
        let mut world = Self { store, operator, now };
        world.at(0);
        world
    }

    /// Lives for some seconds. Returns when the operator next acts, in seconds from then.
    fn at(&mut self, seconds: i64) -> Option<i64> {
        self.now += TimeDelta::seconds(seconds);
        let pace = Pace {
            machines: Duration::from_secs(100),
            ..Pace::exact(Duration::from_secs(10))
        };
        let mut context = ControllerContext {
            store: &mut self.store,
            faults: &Faults::default(),
            pace: &pace,
            rng: SeededRng::new(1),
            asked: self.now,
        };
        let due = self.operator.advance(&mut context, self.now);
        due.map(|due| (due - self.now).num_seconds())
    }

    fn update(&mut self) {
        self.store.amend(&cvo::key(), |version| {
            version["status"]["history"][0]["version"] = "4.14.12".into();
        });
    }

    fn told(&self) -> (String, String) {
        let operator = self.store.get(&operator_key()).unwrap();
        let version = operator["status"]["versions"][0]["version"].as_str().unwrap();
        let worker = operator["status"]["extension"]["worker"].as_str().unwrap();
        (version.to_owned(), worker.to_owned())
    }

    fn change(&mut self, change: impl FnOnce(&mut Value)) {
        self.store.amend(&key("worker"), change);
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(
        "machineconfiguration.openshift.io",
        "machineconfigpools",
        "",
        name,
    )
}

const BEFORE: &str = "all 3 nodes are at latest configuration rendered-worker-4.14.9";
const AFTER: &str = "all 3 nodes are at latest configuration rendered-worker-4.14.12";

#[test]
fn the_nodes_follow_an_update_after_a_moment_in_which_nothing_shows() {
    let mut world = World::new();
    assert_eq!(world.told(), ("4.14.9".to_owned(), BEFORE.to_owned()));
    world.update();
    assert_eq!(world.at(0), Some(60));
    assert_eq!(world.told(), ("4.14.12".to_owned(), BEFORE.to_owned()));
    assert_eq!(world.at(60), Some(100));
    assert!(
        world
            .told()
            .1
            .starts_with("0 (ready 0) out of 3 nodes are updating")
    );
    assert_eq!(world.at(100), None);
    assert_eq!(world.told().1, AFTER);
    let pool = world.store.get(&key("worker")).unwrap();
    assert_eq!(pool["status"]["configuration"]["name"], "rendered-worker-4.14.12");
    assert_eq!(reached(&pool, "4.14.12"), Some(world.now));
    assert_eq!(reached(&pool, "4.14.13"), None);
}

#[test]
fn a_pool_that_is_paused_or_degraded_does_not_follow_until_that_is_over() {
    let mut world = World::new();
    world.change(|pool| pool["spec"]["paused"] = true.into());
    world.at(1);
    assert_eq!(world.told().1, BEFORE, "there is nothing to come");
    world.update();
    world.at(0);
    assert_eq!(world.at(60), None);
    assert_eq!(world.told().1, "<unknown>");
    world.change(|pool| {
        pool["spec"]["paused"] = false.into();
        pool["metadata"]["annotations"] = json!({DEGRADED: "a disk is full"});
    });
    assert_eq!(world.at(1), None);
    assert!(world.told().1.starts_with("pool is degraded because"));
    world.change(|pool| pool["metadata"]["annotations"] = json!({ADDED: "-chrony"}));
    assert_eq!(world.at(1), Some(100));
    world.at(100);
    assert_eq!(world.told().1, format!("{AFTER}-chrony"));
}
