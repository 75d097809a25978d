//! The whole controller with a hub in memory.

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::controller::{Parts, run};
use crate::events::Publisher;
use crate::fixture::spec;
use crate::flags::Flags;
use crate::health::{self, Readiness};
use crate::lease::{self, Handle, Timing};
use crate::metrics::Metrics;
use crate::state::freshness::KINDS;
use crate::test_hub::{Fault, Hub};

const CLUSTERS: &str = "managedclusters";
const UPGRADES: &str = "managedclustersupgrades";
const WORKS: &str = "manifestworks";

struct Controller {
    hub: Hub,
    readiness: Arc<Readiness>,
    shutdown: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Controller {
    fn start(hub: &Hub, leadership: Handle, args: &[&str]) -> Controller {
        let client = hub.client();
        let args = [
            "mcu-controller",
            "--require-set-bindings=false",
            "--require-admission-policies=false",
        ]
        .iter()
        .chain(args);
        let flags = Flags::try_parse_from(args).unwrap();
        let (metrics, readiness) = (Arc::new(Metrics::new()), Arc::new(Readiness::new()));
        let shutdown = CancellationToken::new();
        let (events, _) = Publisher::start(
            client.clone(),
            leadership.fence(),
            Arc::clone(&metrics),
            "test".to_owned(),
            &crate::sources::Sources::system(),
            shutdown.clone(),
        );
        let parts = Parts {
            metrics,
            readiness: Arc::clone(&readiness),
            leadership,
            events,
            sources: crate::sources::Sources::system(),
            shutdown: shutdown.clone(),
        };
        let task = tokio::spawn(async move { run(client, &flags, parts).await });
        Controller {
            hub: hub.clone(),
            readiness,
            shutdown,
            task,
        }
    }

    /// A controller that leads without an election.
    fn alone(hub: &Hub) -> Controller {
        Controller::start(hub, Handle::always(), &[])
    }

    /// A controller that contends for the lease.
    fn elected(hub: &Hub) -> Controller {
        let config = lease::Config {
            namespace: "mcu-system".to_owned(),
            name: "mcu-controller".to_owned(),
            identity: "a".to_owned(),
            timing: Timing::of(Duration::from_secs(15)).unwrap(),
        };
        let (handle, _) = lease::run(
            hub.client(),
            config,
            &crate::sources::Sources::system(),
            CancellationToken::new(),
        );
        Controller::start(hub, handle, &[])
    }

    /// Waits until exactly these clusters have works.
    async fn works(&self, clusters: &[&str]) -> Duration {
        let begun = Instant::now();
        while started(&self.hub) != clusters {
            assert!(!self.task.is_finished(), "the controller ended");
            let missing = health::spec(&self.readiness.ready());
            assert!(
                begun.elapsed() < Duration::from_mins(10),
                "{:?}; {missing}",
                started(&self.hub)
            );
            sleep(Duration::from_millis(100)).await;
        }
        begun.elapsed()
    }

    async fn end(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

fn started(hub: &Hub) -> Vec<String> {
    let works = hub.names(WORKS).into_iter();
    works
        .filter_map(|name| name.split('-').next().map(str::to_owned))
        .collect()
}

fn cluster(name: &str) -> Value {
    json!({
        "metadata": {"name": name}, "spec": {"hubAcceptsClient": true},
        "status": {"conditions": observe::testing::available()},
    })
}

fn upgrade(clusters: &[&str]) -> Value {
    let mut spec = spec(clusters);
    spec["upgradeStrategy"] = json!({"maxConcurrency": 2});
    json!({
        "metadata": {"name": "u", "namespace": "ns", "generation": 1, "creationTimestamp": "2026-05-28T10:00:00Z"},
        "spec": spec,
    })
}

/// A hub with cluster `c1` and an upgrade of `c1` and `c2`.
fn hub() -> Hub {
    let hub = Hub::default();
    hub.put(CLUSTERS, cluster("c1"));
    hub.put(UPGRADES, upgrade(&["c1", "c2"]));
    hub
}

fn pause(hub: &Hub, paused: bool) {
    hub.edit(UPGRADES, "ns", "u", |upgrade| {
        upgrade["spec"]["paused"] = json!(paused);
        let generation = upgrade["metadata"]["generation"].as_u64().unwrap();
        upgrade["metadata"]["generation"] = json!(generation + 1);
    });
}

fn goes_down(hub: &Hub) {
    hub.fault("*", Some(Fault::Down));
    hub.cut();
}

fn comes_back(hub: &Hub) {
    hub.fault("*", None);
}

/// During an outage, someone pauses the upgrade and its next cluster appears. When the API server is back,
/// upgrades are the last kind that can be listed.
async fn a_pause_during_an_outage(controller: Controller, outage: Duration) {
    let hub = &controller.hub;
    controller.works(&["c1"]).await;
    goes_down(hub);
    hub.put(CLUSTERS, cluster("c2"));
    pause(hub, true);
    sleep(outage).await;
    hub.fault(UPGRADES, Some(Fault::Hang));
    comes_back(hub);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(started(hub), ["c1"]);
    hub.fault(UPGRADES, None);
    sleep(Duration::from_secs(100)).await;
    assert_eq!(started(hub), ["c1"], "it is paused");
    pause(hub, false);
    assert!(controller.works(&["c1", "c2"]).await <= Duration::from_secs(1));
    controller.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_was_set_while_the_lease_was_lost_is_obeyed() {
    a_pause_during_an_outage(Controller::elected(&hub()), Duration::from_secs(14)).await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_was_set_during_an_outage_within_a_term_is_obeyed() {
    a_pause_during_an_outage(Controller::alone(&hub()), Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_dead_without_knowing_is_made_anew_with_the_watch_that_broke() {
    let hub = hub();
    let controller = Controller::alone(&hub);
    controller.works(&["c1"]).await;
    // Waits until the status is written, because its response would contain the pause.
    sleep(Duration::from_secs(10)).await;
    // The watch of upgrades delivers nothing any more, and the controller cannot know that.
    hub.freeze(UPGRADES);
    pause(&hub, true);
    hub.send_line("placements", "no event");
    sleep(Duration::from_secs(1)).await;
    hub.put(CLUSTERS, cluster("c2"));
    sleep(Duration::from_secs(30)).await;
    assert_eq!(started(&hub), ["c1"]);
    controller.end().await;
}

/// Another watch breaks while the controller still waits for the list of a third kind.
#[tokio::test(start_paused = true)]
async fn what_is_dead_without_knowing_before_the_view_opens_is_made_anew() {
    let hub = hub();
    let controller = Controller::alone(&hub);
    controller.works(&["c1"]).await;
    // Waits until the status is written, because its response would contain the pause.
    sleep(Duration::from_secs(10)).await;
    hub.fault(REPORTS, Some(Fault::Down));
    hub.send_line("placements", "no event");
    // All other kinds are listed anew meanwhile.
    sleep(Duration::from_secs(1)).await;
    hub.freeze(UPGRADES);
    pause(&hub, true);
    hub.send_line("placements", "no event");
    sleep(Duration::from_secs(1)).await;
    hub.put(CLUSTERS, cluster("c2"));
    hub.fault(REPORTS, None);
    // The watch of upgrades does not count as dead before that.
    sleep(Duration::from_secs(25)).await;
    assert_eq!(started(&hub), ["c1"]);
    controller.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_waited_when_the_watches_broke_is_planned_anew() {
    let hub = Hub::default();
    hub.put(CLUSTERS, cluster("c1"));
    hub.put(CLUSTERS, cluster("c2"));
    let controller = Controller::start(&hub, Handle::always(), &["--write-concurrency=1"]);
    sleep(Duration::from_secs(1)).await;
    // The only writer waits for the response to the creation for c1; the one for c2 is queued.
    hub.fault(WORKS, Some(Fault::Hang));
    hub.put(UPGRADES, upgrade(&["c1", "c2"]));
    sleep(Duration::from_secs(3)).await;
    assert_eq!(hub.count("POST", WORKS), 1);
    goes_down(&hub);
    pause(&hub, true);
    hub.fault(WORKS, None);
    sleep(Duration::from_secs(3)).await;
    comes_back(&hub);
    sleep(Duration::from_mins(2)).await;
    assert_eq!(started(&hub), [""; 0]);
    pause(&hub, false);
    // The wait before the creation for c1 is retried uses the wall clock, and this test does not wait for it.
    sleep(Duration::from_secs(5)).await;
    assert!(started(&hub).contains(&"c2".to_owned()));
    controller.end().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_before_every_kind_has_answered() {
    let hub = hub();
    hub.fault("placements", Some(Fault::Hang));
    let controller = Controller::alone(&hub);
    sleep(Duration::from_mins(5)).await;
    assert_eq!(hub.count("POST", "*") + hub.count("PATCH", "*"), 0);
    let missing = health::spec(&controller.readiness.ready());
    assert!(
        missing.contains(
            "Placement cannot be listed: the API server did not respond to a list request within 60 s"
        ),
        "{missing}"
    );
    hub.fault("placements", None);
    controller.works(&["c1"]).await;
    assert!(controller.readiness.is_ready());
    controller.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_term_that_is_won_again_lists_every_kind_anew() {
    let hub = hub();
    let controller = Controller::elected(&hub);
    controller.works(&["c1"]).await;
    sleep(Duration::from_secs(30)).await;
    let plurals = [
        CLUSTERS,
        WORKS,
        "placements",
        "placementdecisions",
        "managedclustersets",
        "managedclustersetbindings",
        UPGRADES,
        "managedclustersupgradereports",
    ];
    assert_eq!(plurals.len(), KINDS.len());
    let before = plurals.map(|plural| hub.count("LIST", plural));
    hub.fault("leases", Some(Fault::Down));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(
        plurals.map(|plural| hub.count("LIST", plural)),
        before,
        "a follower's watches are as good"
    );
    hub.put(CLUSTERS, cluster("c2"));
    hub.fault("leases", None);
    controller.works(&["c1", "c2"]).await;
    let after = plurals.map(|plural| hub.count("LIST", plural));
    assert_eq!(after, before.map(|count| count + 1));
    controller.end().await;
}

#[tokio::test(start_paused = true)]
async fn versions_that_go_back_restart_the_view_of_a_leader() {
    let hub = hub();
    let controller = Controller::elected(&hub);
    controller.works(&["c1"]).await;
    for _ in 0..100 {
        hub.edit(CLUSTERS, "", "c1", |_| {});
    }
    sleep(Duration::from_secs(5)).await;
    goes_down(&hub);
    sleep(Duration::from_secs(14)).await;
    hub.go_back(20);
    hub.put(CLUSTERS, cluster("c2"));
    comes_back(&hub);
    let took = controller.works(&["c1", "c2"]).await;
    assert!(took <= Duration::from_mins(1), "{took:?}");
    assert_eq!(hub.count("POST", WORKS), 2, "and nothing is done twice");
    controller.end().await;
}

/// No watch breaks, so nothing else is listed.
#[tokio::test(start_paused = true)]
async fn a_status_that_meets_an_older_storage_restarts_the_view_of_a_leader() {
    let hub = Hub::default();
    hub.put(CLUSTERS, cluster("c1"));
    for _ in 0..100 {
        hub.edit(CLUSTERS, "", "c1", |_| {});
    }
    hub.put(UPGRADES, upgrade(&["c1", "c2"]));
    let controller = Controller::alone(&hub);
    controller.works(&["c1"]).await;
    sleep(Duration::from_secs(10)).await;
    let lists = hub.count("LIST", UPGRADES);
    hub.go_back(20);
    hub.fault("PATCH managedclustersupgrades", Some(Fault::Refuse(409, 0)));
    hub.put(CLUSTERS, cluster("c2"));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(hub.count("LIST", UPGRADES), lists + 1);
    controller.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_leader_only_renews_its_lease_and_watches() {
    let hub = hub();
    let controller = Controller::elected(&hub);
    controller.works(&["c1"]).await;
    sleep(Duration::from_mins(1)).await;
    let idle = || {
        let others = ["LIST", "GET", "POST", "PATCH", "DELETE"];
        others.map(|verb| hub.count(verb, "*")).iter().sum::<usize>()
    };
    let before = idle();
    sleep(Duration::from_mins(10)).await;
    assert_eq!(idle(), before);
    controller.end().await;
}

const REPORTS: &str = "managedclustersupgradereports";
const GETS: &str = "GET managedclustersupgrades";

/// A report of the upgrade `u`.
fn report(number: usize, rows: &[Value]) -> Value {
    let group = format!("{}/{}", api::GROUP, api::VERSION);
    json!({
        "metadata": {
            "name": format!("u-report-{number}"), "namespace": "ns",
            "labels": {api::names::LABEL_MCU: "u", api::names::LABEL_MCU_UID: "uid-ns-u"},
            "ownerReferences": [{"apiVersion": group, "kind": "ManagedClustersUpgrade", "name": "u", "uid": "uid-ns-u",
                                 "controller": true, "blockOwnerDeletion": true}],
        },
        "rows": rows,
    })
}

fn complete(upgrade: &Value, cluster: &str, left: bool) -> Value {
    let spec = serde_json::from_value(upgrade["spec"].clone()).unwrap();
    let templates = resolve::works::Templates::new(&spec, &resolve::works::WorkFlags::default());
    json!({
        "cluster": cluster, "phase": "Complete", "since": "2026-05-28T11:00:00Z", "leftSelection": left,
        "revision": templates.revision(),
        "steps": [{"name": "Platform", "startedAt": "2026-05-28T10:00:00Z", "finishedAt": "2026-05-28T11:00:00Z",
                   "outcome": "Succeeded"}],
    })
}

/// A hub with a finished upgrade of `c1` and `c2`, of which `c1` exists, in the state in which the controller
/// left it.
fn finished() -> Hub {
    let hub = hub();
    let mut upgrade = upgrade(&["c1", "c2"]);
    let row = complete(&upgrade, "c1", false);
    let noted = json!({
        "upgrade": "ns/u", "revision": row["revision"], "time": "2026-05-28T11:00:00.000Z", "clusters": 1,
    });
    upgrade["metadata"]["finalizers"] = json!([api::names::FINALIZER]);
    upgrade["metadata"]["annotations"] = json!({
        api::names::ANNOTATION_COMPLETED: noted.to_string(),
        api::names::ANNOTATION_UPGRADE_UID: "uid-ns-u",
    });
    upgrade["status"] = json!({"observedGeneration": 1, "state": "Complete", "phases": {"Complete": 1}});
    hub.put(UPGRADES, upgrade);
    hub.put(REPORTS, report(1, &[row]));
    hub
}

#[tokio::test(start_paused = true)]
async fn a_finished_upgrade_costs_no_request_and_goes_on_when_a_cluster_joins() {
    let hub = finished();
    let controller = Controller::elected(&hub);
    sleep(Duration::from_mins(5)).await;
    let of_the_upgrade = |verb| hub.count(verb, UPGRADES) + hub.count(verb, REPORTS);
    let asked = ["GET", "POST", "PATCH", "DELETE"].map(of_the_upgrade);
    assert_eq!(asked, [0; 4]);
    hub.put(CLUSTERS, cluster("c2"));
    controller.works(&["c2"]).await;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(started(&hub), ["c2"], "c1 is complete");
    controller.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_joins_two_upgrades_goes_to_the_older_one_though_that_is_archived() {
    let hub = finished();
    let mut younger = upgrade(&["c1", "c2"]);
    younger["metadata"]["name"] = json!("v");
    younger["metadata"]["creationTimestamp"] = json!("2026-05-29T10:00:00Z");
    younger["spec"]["clusterVersion"]["version"] = json!("4.13.0");
    let controller = Controller::elected(&hub);
    sleep(Duration::from_mins(1)).await;
    hub.put(UPGRADES, younger);
    controller.works(&["c1"]).await;
    hub.put(CLUSTERS, cluster("c2"));
    controller.works(&["c1", "c2"]).await;
    let work = hub.get(WORKS, "c2", "c2-cluster-upgrade").unwrap();
    assert_eq!(work["metadata"]["labels"][api::names::LABEL_MCU_UID], "uid-ns-u");
    controller.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_finished_upgrade_that_cannot_be_read_is_read_when_it_can() {
    let hub = finished();
    let controller = Controller::elected(&hub);
    sleep(Duration::from_mins(1)).await;
    hub.fault(GETS, Some(Fault::Refuse(500, 0)));
    hub.put(CLUSTERS, cluster("c2"));
    sleep(Duration::from_mins(5)).await;
    assert!((5..15).contains(&hub.count("GET", UPGRADES)));
    hub.fault(GETS, None);
    controller.works(&["c2"]).await;
    controller.end().await;
}

/// No list is older than what was known, because the storage has grown since. Only the version of the report tells it.
#[tokio::test(start_paused = true)]
async fn a_finished_upgrade_whose_report_the_storage_has_taken_back_goes_on_when_a_cluster_joins() {
    let hub = finished();
    let earlier = hub.get(REPORTS, "ns", "u-report-1").unwrap();
    let controller = Controller::elected(&hub);
    sleep(Duration::from_mins(1)).await;
    hub.edit(REPORTS, "ns", "u-report-1", |_| {});
    sleep(Duration::from_secs(10)).await;
    hub.restore(REPORTS, "ns", "u-report-1", |report| *report = earlier);
    hub.cut();
    sleep(Duration::from_mins(1)).await;
    hub.put(CLUSTERS, cluster("c2"));
    controller.works(&["c2"]).await;
    controller.end().await;
}

#[tokio::test(start_paused = true)]
async fn no_record_is_overlooked_however_many_are_listed_before_their_upgrade() {
    let hub = Hub::default();
    hub.put(CLUSTERS, cluster("c1"));
    hub.put(CLUSTERS, cluster("c2"));
    let upgrade = upgrade(&["c1", "c2"]);
    hub.put(UPGRADES, upgrade.clone());
    for number in 1..=110 {
        let rows: Vec<Value> = (0..250)
            .map(|row| complete(&upgrade, &format!("x{number}-{row}"), true))
            .collect();
        hub.put(REPORTS, report(number, &rows));
    }
    hub.put(REPORTS, report(111, &[complete(&upgrade, "c1", false)]));
    hub.fault(UPGRADES, Some(Fault::Hang));
    let controller = Controller::alone(&hub);
    sleep(Duration::from_secs(30)).await;
    hub.fault(UPGRADES, None);
    controller.works(&["c2"]).await;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(started(&hub), ["c2"], "c1 is complete");
    controller.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_work_without_an_upgrade_is_judged_ten_minutes_after_the_last_outage() {
    let hub = Hub::default();
    hub.put(CLUSTERS, cluster("c1"));
    hub.put(
        WORKS,
        json!({
            "metadata": {
                "name": "c1-cluster-upgrade", "namespace": "c1",
                "labels": {api::names::LABEL_MCU_UID: "gone", api::names::LABEL_STEP: "platform"},
                "annotations": {api::names::ANNOTATION_OWNER: "ns/gone"},
            },
            "spec": {"deleteOption": {"propagationPolicy": "Orphan"}},
        }),
    );
    let controller = Controller::alone(&hub);
    sleep(Duration::from_mins(9)).await;
    goes_down(&hub);
    sleep(Duration::from_secs(5)).await;
    comes_back(&hub);
    sleep(Duration::from_mins(9)).await;
    assert_eq!(hub.names(WORKS).len(), 1, "nobody watched meanwhile");
    sleep(Duration::from_mins(2)).await;
    assert!(hub.names(WORKS).is_empty());
    controller.end().await;
}
