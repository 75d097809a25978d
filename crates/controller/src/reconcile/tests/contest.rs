//! Two upgrades of one cluster.

use observe::writes::{Backoff, Forbidden};

use super::*;

/// An older and a newer upgrade of the operators of cluster `c1`; the older one is running.
fn contest() -> TestHub {
    let mut hub = hub(&["c1"]);
    for (uid, created) in [("old", "2026-05-28T09:00:00Z"), ("new", "2026-05-28T11:00:00Z")] {
        hub.add_upgrade(&Given {
            spec: operators(&["c1"]),
            created,
            ..upgrade(uid, &[])
        });
    }
    assert_eq!(works(&hub.settle()), ["old: create c1-operators-upgrade"]);
    assert_eq!(hub.phase("new", "c1"), Some(Phase::Blocked));
    hub
}

#[tokio::test]
async fn of_two_upgrades_of_one_cluster_the_second_starts_when_the_first_is_done() {
    let mut hub = contest();
    let finished = done(&mut hub, "c1", "old");
    hub.deliver(&Change::Applied(finished.clone()));
    assert_eq!(works(&hub.settle()), Vec::<String>::new());
    write_rows(&mut hub, "old");
    let written = hub.settle();
    assert_eq!(works(&written), ["old: delete c1-operators-upgrade"]);
    hub.version += 1;
    let mut gone = finished;
    gone.metadata.resource_version = Some(hub.version.to_string());
    // The only event is about the work of the other upgrade.
    hub.deliver(&Change::Deleted(gone));
    assert_eq!(works(&hub.settle()), ["new: create c1-operators-upgrade"]);
}

#[tokio::test]
async fn an_upgrade_that_lets_go_of_a_cluster_wakes_the_one_that_waits_for_it() {
    let mut hub = hub(&["c1", "c2"]);
    let mut paused = operators(&["c1"]);
    paused["paused"] = json!(true);
    hub.add_upgrade(&Given {
        spec: paused,
        created: "2026-05-28T09:00:00Z",
        ..upgrade("old", &[])
    });
    hub.add_upgrade(&Given {
        spec: operators(&["c1"]),
        created: "2026-05-28T11:00:00Z",
        ..upgrade("new", &[])
    });
    assert!(works(&hub.settle()).is_empty());
    assert_eq!(hub.phase("new", "c1"), Some(Phase::Blocked));
    let mut other = Given {
        spec: operators(&["c2"]),
        created: "2026-05-28T09:00:00Z",
        version: 1_000,
        ..upgrade("old", &[])
    }
    .view();
    other.metadata.generation = Some(2);
    hub.context.with(|state| state.apply_upgrade(other));
    let written = hub.settle();
    assert!(
        works(&written).contains(&"new: create c1-operators-upgrade"),
        "{written:?}"
    );
}

#[tokio::test]
async fn an_upgrade_that_goes_leaves_its_clusters_to_whoever_waits() {
    let mut hub = contest();
    hub.context.with(|state| state.delete_upgrade("old"));
    let written = hub.settle();
    assert_eq!(works(&written), ["new: delete c1-operators-upgrade"]);
}

/// Otherwise the one that waits would say that it goes on until something else happens.
#[tokio::test]
async fn an_upgrade_that_waits_for_one_that_stalls_stalls_too() {
    let mut hub = hub(&["c1", "c2"]);
    let mut canaries_first = operators(&["c1", "c2"]);
    let canary = operators(&["c1"])["clusterSelector"].clone();
    canaries_first["upgradeStrategy"] = json!({"canaryClusters": {"clusterSelector": canary}});
    for (uid, spec, created) in [
        ("old", canaries_first, "2026-05-28T09:00:00Z"),
        ("new", operators(&["c2"]), "2026-05-28T11:00:00Z"),
    ] {
        hub.add_upgrade(&Given {
            created,
            spec,
            ..upgrade(uid, &[])
        });
    }
    // The work of the canary is forbidden, and the other cluster waits for the canary.
    let now = hub.context.now();
    let forbid = |hub: &TestHub, first| {
        hub.context.with(|state| {
            let entry = state.upgrades.get_mut("old").unwrap();
            let backoff = Backoff {
                until: now + TimeDelta::seconds(50),
                failures: 7,
                text: Arc::from("forbidden"),
                uncertain: false,
                start_forbidden: Some(Forbidden { first, last: now }),
                deletion_forbidden: None,
            };
            entry.backoff.insert(Arc::from("c1"), backoff);
            entry.dirty = true;
        });
    };
    let states = |hub: &TestHub| {
        let of = |state: &State, uid: &str| state.upgrades[uid].status.previous().state;
        hub.context.with(|state| (of(state, "old"), of(state, "new")))
    };
    // Nothing is to be written at first when somebody is only woken.
    let settle = |hub: &mut TestHub| (0..2).for_each(|_| assert!(works(&hub.settle()).is_empty()));
    forbid(&hub, now);
    settle(&mut hub);
    let goes_on = (Some(UpgradeState::Canary), Some(UpgradeState::Pending));
    assert_eq!(states(&hub), goes_on, "a human may have nothing to do");
    forbid(&hub, now - TimeDelta::minutes(1));
    settle(&mut hub);
    let both = (Some(UpgradeState::Stalled), Some(UpgradeState::Stalled));
    assert_eq!(states(&hub), both);
    forbid(&hub, now);
    settle(&mut hub);
    assert_eq!(states(&hub), goes_on);
}

/// Otherwise the one that waits would say that it goes on, although a human must permit the deletion first.
#[tokio::test]
async fn an_upgrade_that_waits_for_one_whose_deletion_stays_forbidden_stalls() {
    let mut hub = contest();
    hub.version = 1_000;
    hub.add_upgrade(&Given {
        spec: operators(&["c1"]),
        created: "2026-05-28T09:00:00Z",
        deleting: true,
        version: 1_000,
        ..upgrade("old", &[])
    });
    let delete = "old: delete c1-operators-upgrade";
    let refuse = |hub: &mut TestHub| {
        let forbidden = WriteResult::Failed(WriteError::new(WriteErrorKind::Forbidden, "may not"));
        let mut refused = 0;
        for job in hub.reconcile() {
            if line(&job) == delete {
                hub.answer(job, &forbidden);
                refused += 1;
            } else {
                hub.carry_out(job);
            }
        }
        assert_eq!(refused, 1);
    };
    // The next try is so many seconds from now, and what was refused was refused so many seconds earlier.
    let set = |hub: &TestHub, next: i64, earlier: i64| {
        let now = hub.context.now();
        hub.context.with(|state| {
            let entry = state.upgrades.get_mut("old").unwrap();
            let backoff = entry.backoff.get_mut("c1").unwrap();
            backoff.until = now + TimeDelta::seconds(next);
            let known = backoff.deletion_forbidden.as_mut().unwrap();
            known.first -= TimeDelta::seconds(earlier);
            known.last -= TimeDelta::seconds(earlier);
            entry.dirty = true;
        });
    };
    let states = |hub: &TestHub| {
        let of = |state: &State, uid: &str| state.upgrades[uid].status.previous().state;
        hub.context.with(|state| (of(state, "old"), of(state, "new")))
    };
    // Nothing is to be written at first when somebody is only woken.
    let settle = |hub: &mut TestHub| (0..2).for_each(|_| assert!(works(&hub.settle()).is_empty()));
    refuse(&mut hub);
    set(&hub, 50, 0);
    settle(&mut hub);
    let goes_on = (Some(UpgradeState::Deleting), Some(UpgradeState::Pending));
    assert_eq!(states(&hub), goes_on, "a human may have nothing to do");
    set(&hub, -1, 60);
    refuse(&mut hub);
    set(&hub, 50, 0);
    settle(&mut hub);
    let waits = (Some(UpgradeState::Deleting), Some(UpgradeState::Stalled));
    assert_eq!(states(&hub), waits);
    hub.context.with(|state| {
        let known = state.upgrades["new"].status.previous();
        let told = &known.waiting_clusters[0].message;
        let expected = "Upgrade ns/old holds this cluster. It is being deleted, and the hub forbids";
        assert!(told.starts_with(expected), "{told}");
    });
    set(&hub, -1, 0);
    assert_eq!(works(&hub.settle()), [delete]);
    settle(&mut hub);
    assert_eq!(states(&hub), goes_on, "the deletion is permitted");
}

/// A deletion names the work and not its version, so it would also hit the work after another upgrade has taken it over.
#[tokio::test]
async fn works_of_a_deleted_upgrade_stay_while_another_one_is_writing_to_that_cluster() {
    let hub = contest();
    let writes = |begins: bool| {
        hub.context.with(|state| {
            let entry = state.upgrades.get_mut("new").unwrap();
            if begins {
                entry.begin(&Arc::from("c1"), Some(&first_attempt()));
            } else {
                entry.end(&Arc::from("c1"));
            }
        });
    };
    writes(true);
    let deleted = Given {
        spec: operators(&["c1"]),
        created: "2026-05-28T09:00:00Z",
        deleting: true,
        version: 1_000,
        ..upgrade("old", &[])
    };
    hub.add_upgrade(&deleted);
    let lines = |jobs: &[WriteJob]| jobs.iter().map(line).collect::<Vec<_>>();
    assert_eq!(works(&lines(&hub.pass("old"))), Vec::<String>::new());
    writes(false);
    assert_eq!(
        works(&lines(&hub.pass("old"))),
        ["old: delete c1-operators-upgrade"]
    );
}
