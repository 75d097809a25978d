use std::time::Duration;

use api::names::Step;
use rollout::testing::{at, record};
use rollout::{Phase, RivalHold};
use serde_json::{Value, json};

use super::*;
use crate::fixture::{Given, cluster, hall, note, upgrade, work};
use crate::hall::{Hall, State};
use crate::index::Change;

const LATER: Duration = Duration::from_mins(1);

fn complete(uid: &'static str, spec: Value) -> Given {
    Given {
        created: "2026-05-28T09:00:00Z",
        spec,
        status: json!({"state": "Complete", "observedGeneration": 1}),
        ..upgrade(uid, &[])
    }
}

fn by_label() -> Value {
    json!({
        "clusterSelector": {"matchLabels": {"fleet": "a"}},
        "clusterVersion": {"channel": "stable-4.12", "version": "4.12.0"},
    })
}

fn labelled(name: &str, labels: &Value, available: &str) -> Change<api::views::ManagedCluster> {
    Change::Applied(
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": labels}, "spec": {"hubAcceptsClient": true},
            "status": {"conditions": [{"type": "ManagedClusterConditionAvailable", "status": available}]},
        }))
        .unwrap(),
    )
}

fn report(uid: &str, version: u64, rows: &Value) -> Report {
    serde_json::from_value(json!({
        "metadata": {"name": format!("{uid}-report-1"), "namespace": "ns", "resourceVersion": version.to_string(),
            "labels": {"cluster.open-cluster-management.io/managedclustersupgrade-uid": uid,
                       "cluster.open-cluster-management.io/managedclustersupgrade": uid}},
        "rows": rows,
    }))
    .unwrap()
}

fn row(cluster: &str, phase: &str, revision: &str) -> Value {
    json!({"cluster": cluster, "phase": phase, "since": "2026-05-28T10:00:00Z", "revision": revision})
}

fn revision(given: &Given) -> String {
    let index = Index::default();
    let desk = given.desk(&index);
    desk.brief.as_ref().unwrap().policy.revision.to_string()
}

/// A hall whose term begins with a complete upgrade `old` of c1 and c2, which are labelled `fleet=a`.
fn begun(rows: &Value) -> Hall {
    let hall = hall(&[]);
    hall.with(|state| {
        for name in ["c1", "c2"] {
            state
                .index
                .cluster(&labelled(name, &json!({"fleet": "a"}), "True"));
        }
        state.apply_upgrade(complete("old", by_label()).view());
        state.begin_term(&[report("old", 7, rows)]);
        settle(state);
    });
    hall
}

fn parked() -> Hall {
    let revision = revision(&complete("old", by_label()));
    begun(&json!([
        row("c1", "Complete", &revision),
        row("c2", "Complete", &revision)
    ]))
}

/// A turn of the loop without looks.
fn settle(state: &mut State) {
    let now = Instant::now();
    let _ = state.due(at(0), now, false);
    while state.review_parked() {}
    state.park(now);
}

fn old(state: &State) -> &Parked {
    state.desks["old"].parked.as_ref().unwrap()
}

#[test]
fn a_complete_upgrade_is_parked_with_its_counts_and_without_rows_or_spec() {
    let hall = parked();
    hall.with(|state| {
        let desk = &state.desks["old"];
        assert!(!old(state).wake && !old(state).stale, "{desk:?}");
        assert_eq!(old(state).records.complete, 2);
        assert!(desk.rows.all().is_empty() && desk.selected.clusters.is_empty());
        assert!(desk.view.spec.good().is_none());
        assert!(state.due(at(9), Instant::now() + LATER, false).is_empty());
    });
    crate::gauges::set(&hall);
    let text = hall.metrics.encode_classic().unwrap();
    assert!(text.contains("mcu_clusters{phase=\"Complete\"} 2"));
    assert!(
        text.contains("mcu_index_objects{kind=\"ManagedClustersUpgradeReport\"} 1"),
        "{text}"
    );
}

#[test]
fn an_upgrade_that_says_it_is_complete_but_whose_records_do_not_is_read_in_full() {
    let revision = revision(&complete("old", by_label()));
    for rows in [
        json!([row("c1", "Complete", &revision)]),
        json!([row("c1", "Complete", &revision), row("c2", "Partial", &revision)]),
        json!([row("c1", "Complete", &revision), row("c2", "Complete", "earlier")]),
        json!([row("c1", "Complete", &revision), row("c2", "Finished", &revision)]),
        json!([]),
    ] {
        let hall = begun(&rows);
        hall.with(|state| {
            assert!(old(state).wake, "{rows}");
            assert_eq!(state.to_be_read(Instant::now()).len(), 1);
            assert!(state.to_be_read(Instant::now()).is_empty(), "once");
        });
    }
}

#[test]
fn health_and_labels_that_it_does_not_select_by_leave_a_parked_upgrade_alone() {
    let hall = parked();
    hall.with(|state| {
        for change in [
            labelled("c1", &json!({"fleet": "a"}), "Unknown"),
            labelled("c1", &json!({"fleet": "a", "openshiftVersion": "4.12.0"}), "True"),
            labelled("c9", &json!({"fleet": "b"}), "True"),
        ] {
            state.index.cluster(&change);
            let _ = state.due(at(1), Instant::now(), false);
            assert!(!old(state).stale && !old(state).wake, "{change:?}");
        }
    });
}

#[test]
fn a_cluster_that_joins_the_selection_of_a_parked_upgrade_is_not_taken_by_a_younger_one() {
    let hall = parked();
    hall.with(|state| {
        state.apply_upgrade(upgrade("young", &["c3"]).view());
        state
            .index
            .cluster(&labelled("c3", &json!({"fleet": "a"}), "True"));
        let _ = state.due(at(1), Instant::now(), false);
        assert!(old(state).stale && old(state).arrivals.contains("c3"));
        assert!(!state.review_parked());
        assert!(old(state).wake);
        let mut young = state.desks.remove("young").unwrap();
        crate::observe::refresh_selection(&mut young, &state.index, false);
        let fleet = crate::observe::fleet(&young, &state.desks, &state.index, &[], at(1));
        let rival = fleet.clusters[0].rival.as_ref().unwrap();
        assert_eq!(rival.hold, RivalHold::Active);
    });
}

#[test]
fn a_cluster_that_leaves_or_is_gone_wakes_a_parked_upgrade() {
    for change in [labelled("c2", &json!({}), "True"), Change::Deleted(cluster("c2"))] {
        let hall = parked();
        hall.with(|state| {
            state.index.cluster(&change);
            settle(state);
            assert!(old(state).wake, "{change:?}");
        });
    }
}

#[test]
fn news_of_its_spec_its_annotations_or_its_reports_wake_a_parked_upgrade_and_its_status_does_not() {
    let given = |version| Given {
        version,
        ..complete("old", by_label())
    };
    let mut paused = by_label();
    paused["paused"] = json!(true);
    let edited = Given {
        spec: paused,
        ..given(9)
    };
    let retried = Given {
        retry: Some("t1".to_owned()),
        ..given(9)
    };
    for (given, wakes) in [(given(9), false), (edited, true), (retried, true)] {
        let hall = parked();
        hall.with(|state| {
            state.apply_upgrade(given.view());
            assert_eq!(old(state).wake, wakes);
            assert!(state.desks["old"].view.spec.good().is_none());
        });
    }
    for (version, deleted, wakes) in [(7, false, false), (8, false, true), (8, true, true)] {
        let hall = parked();
        hall.with(|state| {
            state.observe_report(&report("old", version, &json!([])), deleted, true);
            assert_eq!(old(state).wake, wakes, "{version} {deleted}");
        });
    }
    let hall = parked();
    hall.with(|state| {
        state.retain_reports(&AHashSet::new(), 9, true);
        assert!(old(state).wake);
    });
}

#[test]
fn a_work_with_the_uid_of_a_parked_upgrade_wakes_it() {
    let hall = parked();
    hall.with(|state| {
        let work = work("c1", Step::Platform, "old", 50);
        state.index.work(&Change::Applied(work), at(0));
        settle(state);
        assert!(old(state).wake);
    });
}

#[test]
fn an_upgrade_that_was_read_again_has_its_spec_and_its_rows() {
    let revision = revision(&complete("old", by_label()));
    let rows = json!([row("c1", "Complete", &revision), row("c2", "Complete", &revision)]);
    let hall = parked();
    hall.with(|state| {
        state.observe_report(&report("old", 9, &rows), false, true);
        let now = Instant::now();
        assert_eq!(state.to_be_read(now).len(), 1);
        let view = complete("old", by_label()).view();
        state.was_read("old", Some((view.clone(), vec![report("old", 8, &rows)])), now);
        assert!(old(state).wake, "older than what the watch has told");
        assert!(state.to_be_read(now).is_empty(), "not at once");
        assert_eq!(state.to_be_read(now + RETRY).len(), 1);
        state.was_read("old", Some((view, vec![report("old", 9, &rows)])), now);
        let desk = &state.desks["old"];
        assert!(desk.parked.is_none() && desk.dirty);
        assert_eq!(desk.rows.all().len(), 2);
        assert!(desk.brief.is_ok());
    });
}

#[test]
fn a_parked_upgrade_that_is_deleted_needs_no_records() {
    let hall = parked();
    hall.with(|state| {
        let deleting = Given {
            version: 9,
            deleting: true,
            ..complete("old", by_label())
        };
        state.apply_upgrade(deleting.view());
        let desk = &state.desks["old"];
        assert!(desk.parked.is_none() && desk.dirty);
    });
}

#[test]
fn what_is_at_rest_is_parked_only_when_all_is_written_and_nothing_is_left() {
    let hall = hall(&["c1"]);
    hall.with(|state| {
        state.apply_upgrade(upgrade("u1", &["c1"]).view());
        let told = Given {
            version: 2,
            status: json!({"state": "Complete", "observedGeneration": 1}),
            ..upgrade("u1", &["c1"])
        };
        state.apply_upgrade(told.view());
        let later = Instant::now() + LATER;
        let desk = state.desks.get_mut("u1").unwrap();
        note(desk, "c1", record(Phase::Complete));
        desk.dirty = false;
        desk.looked = Some((Instant::now(), Duration::ZERO));
        state.park(later);
        assert!(state.desks["u1"].parked.is_none(), "no look has found it at rest");
        let desk = state.desks.get_mut("u1").unwrap();
        desk.at_rest = true;
        state.park(later);
        assert!(state.desks["u1"].parked.is_none(), "its row is not written");
        crate::fixture::write(state.desks.get_mut("u1").unwrap());
        state.park(Instant::now());
        assert!(state.desks["u1"].parked.is_none(), "too soon");
        state.park(later);
        assert_eq!(state.desks["u1"].parked.as_ref().unwrap().records.complete, 1);
    });
}

#[test]
fn a_replica_that_does_not_lead_keeps_no_rows() {
    let hall = hall(&[]);
    hall.with(|state| {
        state.apply_upgrade(upgrade("old", &["c1"]).view());
        state.observe_report(
            &report("old", 3, &json!([row("c1", "Complete", "r1")])),
            false,
            false,
        );
        assert!(state.desks["old"].rows.all().is_empty());
    });
}

#[tokio::test]
async fn a_parked_upgrade_is_read_from_the_hub_before_it_is_looked_at() {
    let revision = revision(&complete("old", by_label()));
    let rows = json!([row("c1", "Complete", &revision), row("c2", "Complete", &revision)]);
    let hall = Arc::new(parked());
    hall.with(|state| {
        state
            .index
            .cluster(&labelled("c3", &json!({"fleet": "a"}), "True"));
        settle(state);
        assert!(old(state).wake);
        assert!(state.due(at(2), Instant::now() + LATER, false).is_empty());
    });
    let hub = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let rows = rows.clone();
        async move {
            let body = if request.uri().path().ends_with("/managedclustersupgrades/old") {
                json!({
                    "metadata": {"name": "old", "namespace": "ns", "uid": "old", "resourceVersion": "1", "generation": 1,
                        "creationTimestamp": "2026-05-28T09:00:00Z",
                        "finalizers": ["cluster.open-cluster-management.io/managedclustersupgrade"]},
                    "spec": by_label(), "status": {"state": "Complete", "observedGeneration": 1},
                })
            } else {
                json!({"metadata": {}, "items": [{
                    "metadata": {"name": "old-report-1", "namespace": "ns", "resourceVersion": "7"}, "rows": rows}]})
            };
            let bytes = serde_json::to_vec(&body).unwrap();
            Ok::<_, std::io::Error>(http::Response::new(kube::client::Body::from(bytes)))
        }
    });
    let mut reads = tokio::task::JoinSet::new();
    crate::run::wake_parked(&hall, &kube::Client::new(hub, "default"), &mut reads);
    while reads.join_next().await.is_some() {}
    hall.with(|state| {
        let due = state.due(at(3), Instant::now() + LATER, false);
        assert_eq!(due.len(), 1);
        let desk = &state.desks["old"];
        assert!(desk.parked.is_none() && desk.rows.get("c2").is_some());
    });
}
