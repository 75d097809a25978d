use std::time::Duration;

use api::names::Step;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::*;
use crate::fixture::{self, Given, settings, spec};
use crate::health::{self, Readiness};
use crate::lease::Handle;
use crate::metrics::Metrics;
use crate::state::context::State;
use crate::state::freshness::KINDS;
use crate::test_hub::{Fault, Hub};

const CLUSTERS: &str = "managedclusters";
const UPGRADES: &str = "managedclustersupgrades";
const REPORTS: &str = "managedclustersupgradereports";

/// A replica that only watches.
struct Watcher {
    hub: Hub,
    context: Arc<Context>,
    readiness: Readiness,
    _watches: JoinSet<()>,
}

impl Watcher {
    fn start(hub: &Hub) -> Watcher {
        let readiness = Readiness::new();
        let fence = Handle::always().fence();
        let context = Arc::new(Context::new(
            settings(),
            fence,
            Arc::new(Metrics::new()),
            &readiness,
            &crate::sources::Sources::system(),
        ));
        let watches = start(&context, &hub.client());
        Watcher {
            hub: hub.clone(),
            context,
            readiness,
            _watches: watches,
        }
    }

    fn clusters(&self) -> Vec<String> {
        self.context.with(|state| {
            let mut names: Vec<String> = state.index.clusters.keys().map(ToString::to_string).collect();
            names.sort();
            names
        })
    }

    /// Waits until a condition is true, for at most ten minutes, and returns the time that it took.
    async fn until(&self, so: impl Fn(&Watcher) -> bool) -> Duration {
        let begun = Instant::now();
        while !so(self) {
            assert!(begun.elapsed() < Duration::from_mins(10), "it did not become so");
            sleep(Duration::from_millis(50)).await;
        }
        begun.elapsed()
    }

    async fn synced(&self) -> Duration {
        self.until(|watcher| watcher.context.freshness.is_complete())
            .await
    }

    fn missing(&self) -> String {
        health::spec(&self.readiness.ready())
    }

    fn metric(&self, line: &str) -> bool {
        let text = self.context.metrics.encode_classic().unwrap();
        text.lines().any(|shown| shown == line)
    }
}

fn cluster(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"hubAcceptsClient": true}})
}

fn hub(clusters: &[&str]) -> Hub {
    let hub = Hub::default();
    for name in clusters {
        hub.put(CLUSTERS, cluster(name));
    }
    hub
}

fn upgrade(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns"}, "spec": spec(&["c1"])})
}

#[tokio::test(start_paused = true)]
async fn a_quiet_hub_is_listed_once_and_its_watches_are_renewed_without_a_list() {
    let watcher = Watcher::start(&hub(&["c1"]));
    watcher.synced().await;
    for _ in 0..600 {
        sleep(Duration::from_secs(1)).await;
        assert!(watcher.context.freshness.is_complete() && watcher.readiness.is_ready());
    }
    assert_eq!(watcher.hub.count("LIST", "*"), KINDS.len() + 1, "approvals, too");
    let renewals = watcher.hub.count("WATCH", CLUSTERS);
    assert!((13..=16).contains(&renewals), "{renewals}");
    assert!(watcher.metric("mcu_watch_restarts_total{kind=\"ManagedCluster\"} 0"));
    watcher.hub.put(CLUSTERS, cluster("c2"));
    watcher.until(|watcher| watcher.clusters() == ["c1", "c2"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_long_list_comes_in_pages_and_begins_anew_when_one_has_expired() {
    let hub = Hub::default();
    for number in 0..1100 {
        hub.put(CLUSTERS, cluster(&format!("c{number}")));
    }
    hub.state().expire_pages = 1;
    let watcher = Watcher::start(&hub);
    watcher.synced().await;
    assert_eq!(watcher.clusters().len(), 1100);
    assert_eq!(hub.count("LIST", CLUSTERS), 2 + 3);
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_while_a_watch_was_broken_is_forgotten_by_the_next_list() {
    let watcher = Watcher::start(&hub(&["c1", "c2"]));
    watcher.synced().await;
    watcher.hub.fault("*", Some(Fault::Down));
    watcher.hub.cut();
    watcher.hub.delete(CLUSTERS, "", "c1");
    sleep(Duration::from_secs(5)).await;
    assert!(!watcher.context.freshness.is_complete());
    let missing = watcher.missing();
    assert!(
        missing.contains("ManagedCluster: ManagedCluster has not been up to date since 20"),
        "{missing}"
    );
    watcher.hub.fault("*", None);
    assert!(watcher.synced().await <= Duration::from_secs(10));
    assert_eq!(watcher.clusters(), ["c2"]);
    assert!(watcher.readiness.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_open_but_dead_is_noticed_within_a_minute_and_lowers_readiness() {
    let watcher = Watcher::start(&hub(&["c1"]));
    watcher.synced().await;
    sleep(Duration::from_secs(100)).await;
    watcher.hub.freeze(CLUSTERS);
    watcher.hub.fault(CLUSTERS, Some(Fault::Hang));
    watcher.hub.put(CLUSTERS, cluster("c2"));
    let noticed = watcher.until(|watcher| !watcher.readiness.is_ready()).await;
    assert!(noticed <= Duration::from_mins(1), "{noticed:?}");
    assert!(
        watcher.missing().contains("the watch delivered nothing for 5"),
        "{}",
        watcher.missing()
    );
    watcher.hub.fault(CLUSTERS, None);
    watcher.until(|watcher| watcher.clusters() == ["c1", "c2"]).await;
    watcher.synced().await;
    assert!(watcher.readiness.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_not_answered_is_noticed_within_a_minute() {
    let watcher = Watcher::start(&hub(&["c1"]));
    watcher.synced().await;
    sleep(Duration::from_secs(100)).await;
    watcher.hub.fault(CLUSTERS, Some(Fault::Hang));
    let renewals = watcher.hub.count("WATCH", CLUSTERS);
    watcher
        .until(|watcher| watcher.hub.count("WATCH", CLUSTERS) > renewals)
        .await;
    let noticed = watcher.until(|watcher| !watcher.readiness.is_ready()).await;
    assert!(noticed <= Duration::from_secs(31), "{noticed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_not_answered_is_given_up_and_asked_for_again() {
    let hub = hub(&["c1"]);
    hub.fault(CLUSTERS, Some(Fault::Hang));
    let watcher = Watcher::start(&hub);
    sleep(Duration::from_secs(50)).await;
    hub.fault(CLUSTERS, None);
    sleep(Duration::from_secs(12)).await;
    assert!(watcher.context.freshness.is_complete());
    assert_eq!(hub.count("LIST", CLUSTERS), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_ends_a_watch_and_sends_no_bookmarks_will_do() {
    let hub = hub(&["c1"]);
    hub.state().endless = true;
    let watcher = Watcher::start(&hub);
    watcher.synced().await;
    for number in 0..10 {
        sleep(Duration::from_secs(47)).await;
        hub.put(CLUSTERS, cluster(&format!("d{number}")));
        watcher
            .until(|watcher| watcher.clusters().len() == number + 2)
            .await;
    }
    assert!(
        hub.count("LIST", CLUSTERS) <= 2,
        "a watch that delivers something is alive"
    );
    watcher.synced().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_version_has_expired_begins_with_a_list() {
    let watcher = Watcher::start(&hub(&["c1"]));
    watcher.synced().await;
    {
        let mut state = watcher.hub.state();
        state.compacted = 100;
    }
    for number in 0..100 {
        watcher.hub.put(
            "placements",
            json!({"metadata": {"name": format!("p{number}"), "namespace": "ns"}}),
        );
    }
    sleep(Duration::from_mins(2)).await;
    watcher.synced().await;
    assert_eq!(watcher.hub.count("LIST", CLUSTERS), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_a_pause_gets_it() {
    let hub = hub(&["c1"]);
    hub.fault(CLUSTERS, Some(Fault::Refuse(429, 30)));
    let watcher = Watcher::start(&hub);
    sleep(Duration::from_secs(29)).await;
    assert_eq!(hub.count("LIST", CLUSTERS), 1);
    assert!(
        watcher
            .missing()
            .contains("ManagedCluster cannot be listed: the API server returned 429")
    );
    hub.fault(CLUSTERS, None);
    assert!(watcher.synced().await <= Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_is_asked_less_and_less_often() {
    let hub = hub(&["c1"]);
    hub.fault(CLUSTERS, Some(Fault::Refuse(403, 0)));
    let watcher = Watcher::start(&hub);
    sleep(Duration::from_mins(10)).await;
    let lists = hub.count("LIST", CLUSTERS);
    assert!((50..=140).contains(&lists), "{lists}");
    assert!(!watcher.context.freshness.is_complete());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_is_there_and_leaves_the_others_alone() {
    let hub = hub(&["c1"]);
    hub.put(UPGRADES, upgrade("good"));
    let deep = format!("{}{}", "[".repeat(3000), "]".repeat(3000));
    let bad = format!(
        r#"{{"metadata":{{"name":"bad","namespace":"evil","uid":"bad","resourceVersion":"1"}},"spec":{{"preUpgradeAction":{{"manifestWork":{{"workload":{{"manifests":[{deep}]}}}}}}}}}}"#
    );
    hub.put_raw(UPGRADES, bad.clone());
    hub.put_raw(
        CLUSTERS,
        r#"{"metadata":{"name":"odd","resourceVersion":"1","creationTimestamp":5}}"#.to_owned(),
    );
    let watcher = Watcher::start(&hub);
    watcher.synced().await;
    let broken = |watcher: &Watcher| {
        watcher.context.with(|state| {
            assert!(state.upgrades["uid-ns-good"].spec.is_ok());
            state.upgrades["bad"].spec.is_err()
        })
    };
    assert!(broken(&watcher));
    assert_eq!(watcher.clusters(), ["c1", "odd"]);
    assert!(watcher.metric("mcu_decode_failures_total{kind=\"ManagedClustersUpgrade\"} 1"));

    // The same from a watch, which continues.
    hub.send_line(UPGRADES, &format!(r#"{{"type":"MODIFIED","object":{bad}}}"#));
    hub.put(UPGRADES, upgrade("next"));
    watcher
        .until(|watcher| {
            watcher
                .context
                .with(|state| state.upgrades.contains_key("uid-ns-next"))
        })
        .await;
    assert_eq!(hub.count("LIST", UPGRADES), 1);

    // The same in a list: the object does not count as deleted.
    hub.cut();
    sleep(Duration::from_secs(10)).await;
    watcher.synced().await;
    assert!(broken(&watcher));
    assert_eq!(watcher.clusters(), ["c1", "odd"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_name_may_be_any_so_that_nothing_is_forgotten() {
    let hub = hub(&["c1", "c2"]);
    let watcher = Watcher::start(&hub);
    watcher.synced().await;
    hub.fault("*", Some(Fault::Down));
    hub.cut();
    hub.delete(CLUSTERS, "", "c1");
    hub.put_raw(CLUSTERS, r#"{"metadata":{"name":{"c":1}}}"#.to_owned());
    sleep(Duration::from_secs(1)).await;
    hub.fault("*", None);
    sleep(Duration::from_secs(12)).await;
    assert!(watcher.context.freshness.is_complete());
    assert_eq!(watcher.clusters(), ["c1", "c2"]);
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_no_event_leads_to_a_list() {
    let watcher = Watcher::start(&hub(&["c1"]));
    for line in [
        "{\"type\":\"ADDED\"",
        "{\"type\":\"ROTATED\",\"object\":{}}",
        "no",
    ] {
        watcher.synced().await;
        let lists = watcher.hub.count("LIST", CLUSTERS);
        watcher.hub.send_line(CLUSTERS, line);
        watcher
            .until(|watcher| watcher.hub.count("LIST", CLUSTERS) > lists)
            .await;
    }
}

/// A replica that has seen 50 edits of upgrade `u`, while the hub cannot be reached.
async fn in_an_outage(hub: &Hub) -> Watcher {
    hub.put(UPGRADES, upgrade("u"));
    for _ in 0..50 {
        hub.edit(UPGRADES, "ns", "u", |upgrade| {
            upgrade["spec"]["paused"] = json!(true);
        });
    }
    let watcher = Watcher::start(hub);
    watcher.synced().await;
    hub.fault("*", Some(Fault::Down));
    hub.cut();
    sleep(Duration::from_secs(14)).await;
    watcher
}

#[tokio::test(start_paused = true)]
async fn versions_that_go_back_make_the_replica_read_everything_anew() {
    let hub = hub(&["c1", "c2"]);
    let watcher = in_an_outage(&hub).await;
    hub.go_back(10);
    hub.edit(UPGRADES, "ns", "u", |upgrade| {
        upgrade["spec"]["paused"] = json!(false);
    });
    hub.delete(CLUSTERS, "", "c2");
    hub.fault("*", None);
    sleep(Duration::from_secs(15)).await;
    assert!(watcher.context.freshness.is_complete());
    watcher.context.with(|state| {
        let entry = &state.upgrades["uid-ns-u"];
        assert!(!entry.spec.as_ref().unwrap().fields.paused);
        assert_eq!(entry.object.metadata.resource_version.as_deref(), Some("11"));
    });
    assert_eq!(watcher.clusters(), ["c1"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_older_than_it_was_makes_the_replica_read_everything_anew_although_the_storage_has_grown() {
    let hub = hub(&["c1"]);
    hub.put(UPGRADES, upgrade("v"));
    let watcher = in_an_outage(&hub).await;
    hub.go_back(40);
    hub.restore(UPGRADES, "ns", "u", |upgrade| {
        upgrade["spec"]["paused"] = json!(false);
    });
    for _ in 0..50 {
        hub.edit(UPGRADES, "ns", "v", |upgrade| {
            upgrade["spec"]["paused"] = json!(true);
        });
    }
    hub.fault("*", None);
    sleep(Duration::from_secs(15)).await;
    assert!(watcher.context.freshness.is_complete());
    watcher.context.with(|state| {
        let entry = &state.upgrades["uid-ns-u"];
        assert!(!entry.spec.as_ref().unwrap().fields.paused);
        assert_eq!(entry.object.metadata.resource_version.as_deref(), Some("2"));
    });
}

/// What the response told is not on the hub any more, and no watch has told of it.
#[tokio::test(start_paused = true)]
async fn a_list_older_than_an_earlier_response_makes_the_replica_read_everything_anew() {
    let responses: [fn(&mut State, DateTime<Utc>); 3] = [
        |state, _| {
            let edited = Given {
                name: "u",
                version: 9,
                ..fixture::upgrade("uid-ns-u", &["c2"])
            };
            state.answered_upgrade(edited.view());
        },
        |state, now| {
            let work = fixture::work("c1", Step::Platform, "uid-ns-u", 9);
            state.update_works(|index| index.answered_work(&work, now));
        },
        |state, now| {
            let report = fixture::report("u-report-1", 9, &json!([]));
            state.observe_report(&report, false, false, now);
        },
    ];
    for (number, respond) in responses.into_iter().enumerate() {
        let hub = hub(&["c1"]);
        hub.put(UPGRADES, upgrade("u"));
        let watcher = Watcher::start(&hub);
        watcher.synced().await;
        let known = watcher.context.freshness.invalidated();
        let now = watcher.context.now();
        watcher.context.with(|state| respond(state, now));
        hub.cut();
        sleep(Duration::from_secs(5)).await;
        assert!(known.is_cancelled(), "response {number}");
        assert!(watcher.context.freshness.is_complete());
        watcher.context.with(|state| {
            let object = &state.upgrades["uid-ns-u"].object;
            assert_eq!(object.metadata.resource_version.as_deref(), Some("2"));
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_overtakes_a_list_tells_of_no_older_storage() {
    let hub = hub(&["c1"]);
    hub.put(UPGRADES, upgrade("u"));
    let watcher = Watcher::start(&hub);
    watcher.synced().await;
    let known = watcher.context.freshness.invalidated();
    hub.fault(UPGRADES, Some(Fault::Late(10)));
    hub.cut();
    let is_asked = |watcher: &Watcher| watcher.hub.count("LIST", UPGRADES) == 2;
    watcher.until(is_asked).await;
    hub.edit(UPGRADES, "ns", "u", |upgrade| {
        upgrade["spec"]["paused"] = json!(true);
    });
    let edited: Upgrade = serde_json::from_value(hub.get(UPGRADES, "ns", "u").unwrap()).unwrap();
    watcher.context.with(|state| state.answered_upgrade(edited));
    assert!(watcher.synced().await >= Duration::from_secs(9));
    assert!(!known.is_cancelled());
    watcher.context.with(|state| {
        let object = &state.upgrades["uid-ns-u"].object;
        assert_eq!(object.metadata.resource_version.as_deref(), Some("3"));
    });
}

/// Its rows are on the hub again, and without them the upgrade would run once more.
#[tokio::test(start_paused = true)]
async fn an_upgrade_that_is_listed_after_its_end_makes_the_replica_read_everything_anew() {
    let hub = hub(&["c1"]);
    let kept = hub.put(UPGRADES, upgrade("u"));
    let watcher = Watcher::start(&hub);
    watcher.synced().await;
    hub.delete(UPGRADES, "ns", "u");
    let is_gone = |watcher: &Watcher| watcher.context.with(|state| state.upgrades.is_empty());
    watcher.until(is_gone).await;
    hub.cut();
    sleep(Duration::from_secs(5)).await;
    watcher.synced().await;
    let known = watcher.context.freshness.invalidated();
    assert!(!known.is_cancelled(), "a list without it");
    hub.cut();
    hub.put(UPGRADES, kept);
    sleep(Duration::from_secs(5)).await;
    assert!(known.is_cancelled());
    assert!(watcher.context.freshness.is_complete());
    watcher
        .context
        .with(|state| assert!(state.upgrades.contains_key("uid-ns-u") && !state.has_ended("uid-ns-u")));
}

/// This process has not seen the end of the earlier one. It would act for an object that is not there, and overlook the one that is.
#[tokio::test(start_paused = true)]
async fn an_upgrade_that_another_one_had_replaced_makes_the_replica_read_everything_anew() {
    let hub = hub(&["c1"]);
    let earlier = hub.put(UPGRADES, upgrade("u"));
    let mut restored = upgrade("u");
    restored["metadata"]["uid"] = json!("restored");
    hub.put(UPGRADES, restored);
    let watcher = Watcher::start(&hub);
    watcher.synced().await;
    let known = watcher.context.freshness.invalidated();
    hub.cut();
    sleep(Duration::from_secs(5)).await;
    watcher.synced().await;
    assert!(!known.is_cancelled(), "a list with the newer one");
    hub.restore(UPGRADES, "ns", "u", |upgrade| *upgrade = earlier);
    hub.cut();
    sleep(Duration::from_secs(5)).await;
    assert!(known.is_cancelled());
    assert!(watcher.context.freshness.is_complete());
    watcher.context.with(|state| {
        assert!(state.upgrades.contains_key("uid-ns-u") && !state.upgrades.contains_key("restored"));
    });
}

/// In the older storage it is not deleted yet, and whoever leads would never write or delete it.
#[tokio::test(start_paused = true)]
async fn a_report_that_is_listed_in_a_version_from_before_its_deletion_makes_the_replica_read_everything_anew()
 {
    let hub = hub(&["c1"]);
    hub.put(UPGRADES, upgrade("u"));
    let group = format!("{}/{}", api::GROUP, api::VERSION);
    let report = json!({"metadata": {
        "name": "u-report-1", "namespace": "ns", "labels": {LABEL_MCU: "u", LABEL_MCU_UID: "uid-ns-u"},
        "ownerReferences": [{"apiVersion": group, "kind": "ManagedClustersUpgrade", "name": "u", "uid": "uid-ns-u",
                             "controller": true, "blockOwnerDeletion": true}],
    }});
    let kept = hub.put(REPORTS, report.clone());
    let watcher = Watcher::start(&hub);
    watcher.synced().await;
    hub.delete(REPORTS, "ns", "u-report-1");
    let is_gone = |watcher: &Watcher| {
        watcher
            .context
            .with(|state| state.upgrades["uid-ns-u"].rows.shard_count() == 0)
    };
    watcher.until(is_gone).await;
    hub.freeze(REPORTS);
    hub.put(REPORTS, report);
    hub.restore(REPORTS, "ns", "u-report-1", |report| *report = kept);
    let known = watcher.context.freshness.invalidated();
    hub.cut();
    sleep(Duration::from_secs(5)).await;
    assert!(known.is_cancelled());
    assert!(watcher.context.freshness.is_complete());
    assert!(!is_gone(&watcher));
}

#[tokio::test(start_paused = true)]
async fn versions_that_are_no_numbers_are_never_compared() {
    let hub = hub(&["c1"]);
    let watcher = Watcher::start(&hub);
    watcher.synced().await;
    watcher.hub.send_line(
        CLUSTERS,
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"opaque-9"}}}"#,
    );
    hub.cut();
    sleep(Duration::from_secs(5)).await;
    watcher.synced().await;
    assert_eq!(watcher.clusters(), ["c1"]);
}

/// A replica that has just been started reads the rows while its clock, or that of the hub, is two days ahead of the other.
#[test]
fn a_row_proves_its_version_while_one_of_the_clocks_is_ahead() {
    let hours = TimeDelta::hours;
    for (hub, row, is_proven) in [(-48, -49, true), (48, -1, true), (0, -49, false)] {
        let context = fixture::context(&["c1"]);
        let (now, took) = (Utc::now(), Duration::from_millis(20));
        context
            .clock
            .answered(Instant::now(), now, took, now + hours(hub));
        let succeeded = (now + hours(row)).to_rfc3339();
        let report = json!({
            "metadata": {"name": "u1-report-1", "namespace": "ns", "resourceVersion": "5", "ownerReferences": [{
                "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
                "name": "u1", "uid": "u1", "controller": true, "blockOwnerDeletion": true,
            }]},
            "rows": [{
                "cluster": "c1", "phase": "Complete", "since": succeeded, "revision": "r1", "fromVersion": "4.14.9",
                "toVersion": "4.14.13", "steps": [{
                    "name": "Platform", "startedAt": succeeded, "finishedAt": succeeded, "outcome": "Succeeded",
                }],
            }],
        });
        let report: Report = serde_json::from_value(report).unwrap();
        context.with(|state| {
            state.apply_upgrade(fixture::upgrade("u1", &["c1"]).view());
            Report::change(state, &context, Change::Applied(report));
            let known = state.index.installed("c1", now).map(|version| &**version);
            assert_eq!(known, is_proven.then_some("4.14.13"), "{hub}");
        });
    }
}

mod approvals;
