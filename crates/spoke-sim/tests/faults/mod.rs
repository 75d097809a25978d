//! Faults that delay an update or its reports, on a real API server: they begin, are visible, and end.

use std::time::Duration;

use serde_json::{Value, json};
use spoke_sim::spoke::kinds;
use tokio::sync::Mutex;

use super::world::{World, condition, graph, one_risk};
use super::{OLD, PATCH, completed, condition_of};

const BASE: &str = "version: 4.16.1\nworkers: 1\njitter: 0\ndurations: {operators: 0.5}\nfaults: ";

/// These tests run one after the other: each has its own API server, and more at a time would not be faster.
static TURN: Mutex<()> = Mutex::const_new(());

async fn world(faults: &str, graph: Value) -> World {
    World::new(&format!("{BASE}{faults}"), 600.0, graph).await
}

async fn ask(world: &World) {
    world
        .patch_version(&json!({"spec": {"desiredUpdate": {"version": PATCH}}}))
        .await;
}

/// Asks for the update once it is on offer.
async fn ask_when_offered(world: &World) {
    world
        .until("the update is offered", |v| {
            v["status"]["availableUpdates"][0]["version"] == PATCH
        })
        .await;
    ask(world).await;
}

fn says(condition: &Value, text: &str) -> bool {
    condition["message"]
        .as_str()
        .is_some_and(|message| message.contains(text))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_operator_is_suspected_and_the_update_goes_on() {
    let _turn = TURN.lock().await;
    let world = world("slow-operator=etcd,60m", graph(&[OLD, PATCH], &[])).await;
    ask_when_offered(&world).await;
    let slow = world
        .until("etcd is suspected", |v| {
            condition(v, "Failing")["status"] == "Unknown"
        })
        .await;
    assert_eq!(condition(&slow, "Failing")["reason"], "SlowClusterOperator");
    let text = "waiting on etcd over 30 minutes which is longer than expected";
    assert_eq!(condition(&slow, "Failing")["message"], text);
    assert!(says(&condition(&slow, "Progressing"), text), "{slow:#}");
    let done = world.until("it is completed", |v| completed(v, PATCH)).await;
    assert_eq!(condition(&done, "Failing")["status"], "False");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_that_is_stuck_degrades_its_pool_and_goes_on_when_it_is_fixed() {
    let _turn = TURN.lock().await;
    let world = world("drain-stuck=master", graph(&[OLD, PATCH], &[])).await;
    ask_when_offered(&world).await;
    world
        .until_object(
            "the drain failed",
            &kinds::machine_config_pool(),
            "",
            "master",
            |pool| says(&condition(pool, "NodeDegraded"), "failed to drain node"),
        )
        .await;
    let failing = world
        .until("machine-config holds it up", |v| {
            says(&condition(v, "Failing"), "machine-config")
        })
        .await;
    assert_eq!(failing["status"]["history"][0]["state"], "Partial");
    world.fault(Some("none")).await;
    let done = world.until("it is completed", |v| completed(v, PATCH)).await;
    assert_eq!(condition(&done, "Failing")["status"], "False");
    world
        .until_all("all pools are updated", &kinds::machine_config_pool(), |pool| {
            condition(pool, "Updated")["status"] == "True" && condition(pool, "Degraded")["status"] != "True"
        })
        .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_monitoring_a_risk_is_unknown_and_its_update_waits_until_it_can_be_evaluated() {
    let _turn = TURN.lock().await;
    let risk = one_risk("Leak", "Memory may leak.", "unexposed");
    let world = world("monitoring-outage", graph(&[OLD, PATCH], &[(PATCH, risk)])).await;
    let unknown = world
        .until("the risk cannot be evaluated", |v| {
            condition_of(&v["status"]["conditionalUpdates"][0], "Recommended")["status"] == "Unknown"
        })
        .await;
    let recommended = condition_of(&unknown["status"]["conditionalUpdates"][0], "Recommended");
    assert_eq!(recommended["reason"], "EvaluationFailed");
    assert!(says(&recommended, "no such host"), "{recommended}");
    assert!(unknown["status"]["availableUpdates"].is_null());
    ask(&world).await;
    let invalid = world
        .until("it is refused", |v| condition(v, "Invalid")["status"] == "True")
        .await;
    assert!(
        says(
            &condition(&invalid, "Invalid"),
            "the update must be an available update"
        ),
        "{invalid:#}"
    );
    world.fault(Some("none")).await;
    let begun = world
        .until("it begins by itself", |v| {
            v["status"]["desired"]["version"] == PATCH
        })
        .await;
    assert!(condition(&begun, "Invalid").is_null(), "{begun:#}");
    world.until("it is completed", |v| completed(v, PATCH)).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_update_service_a_cluster_says_so_and_offers_nothing() {
    let _turn = TURN.lock().await;
    let world = world("update-service-outage", graph(&[OLD, PATCH], &[])).await;
    let away = world
        .until("the outage shows", |v| {
            condition(v, "RetrievedUpdates")["reason"] == "RemoteFailed"
        })
        .await;
    let retrieved = condition(&away, "RetrievedUpdates");
    assert_eq!(retrieved["status"], "False");
    assert!(
        says(&retrieved, "Unable to retrieve available updates: Get \"http://"),
        "{retrieved}"
    );
    assert!(away["status"]["availableUpdates"].is_null());
    world.fault(Some("none")).await;
    let back = world
        .until("updates are offered", |v| {
            v["status"]["availableUpdates"][0]["version"] == PATCH
        })
        .await;
    assert_eq!(condition(&back, "RetrievedUpdates")["status"], "True");
    // This release line keeps no list over a failure.
    world.fault(Some("update-service-outage")).await;
    world
        .until("nothing is offered any more", |v| {
            v["status"]["availableUpdates"].is_null()
                && condition(v, "RetrievedUpdates")["reason"] == "RemoteFailed"
        })
        .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manifest_that_fails_keeps_the_release_from_completed_until_it_is_fixed() {
    let _turn = TURN.lock().await;
    let world = world("apply-failing=for-ever", graph(&[OLD, PATCH], &[])).await;
    let reports_the_target = |operator: &Value| {
        let versions = operator["status"]["versions"].as_array();
        let mut entries = versions.into_iter().flatten();
        entries.any(|entry| entry["name"] == "operator" && entry["version"] == PATCH)
    };
    ask_when_offered(&world).await;
    let failing = world
        .until("it fails", |v| condition(v, "Failing")["status"] == "True")
        .await;
    assert_eq!(condition(&failing, "Failing")["reason"], "UpdatePayloadFailed");
    let servers = world.api(&kinds::cluster_operator(), "");
    let servers = serde_json::to_value(servers.get("kube-apiserver").await.unwrap()).unwrap();
    assert!(
        reports_the_target(&servers),
        "it fails before they rolled: {servers:#}"
    );
    world
        .until_all(
            "all operators are level",
            &kinds::cluster_operator(),
            reports_the_target,
        )
        .await;
    // Ten minutes of the cluster's: time enough for the rest of the release.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let still = world.version().await;
    assert_eq!(still["status"]["history"][0]["state"], "Partial", "{still:#}");
    assert_eq!(condition(&still, "Failing")["reason"], "UpdatePayloadFailed");
    world.fault(Some("none")).await;
    let done = world.until("it is completed", |v| completed(v, PATCH)).await;
    assert_eq!(condition(&done, "Failing")["status"], "False");
    world.stop().await;
}
