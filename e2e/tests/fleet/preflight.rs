//! What clusters say to an update before they start: risks, gates, and nothing that is left behind.

use std::time::Duration;

use anyhow::Result;
use api::names::Step::Platform;
use api::report::Phase;
use serde_json::{Value, json};

use crate::cluster::{completed, newest};
use crate::fleet_test::{at, limits, part, to, whole, with};

const GATE: &str = "ack-4.15-kube-1.29-api-removals-in-4.16";
const TEXT: &str =
    "Kubernetes 1.29 and therefore OpenShift 4.16 remove several APIs which require admin consideration.";
/// The real risk of this edge: it applies to clusters on Azure.
const RISK: &str = "NonZonalAzureMachineSetScaling";

fn require() -> Value {
    json!({"preflight": {"mode": "Require"}})
}

/// Accepts a risk that applies to one of the clusters and that another one cannot evaluate.
fn accepted_risk() -> Value {
    let risk = json!({"name": "NonZonalAzureMachineSetScaling", "reason": "no machines are added here"});
    json!({"clusterVersion": {"acceptRisks": [risk]}})
}

/// The image that a cluster reports for an update with risks.
fn image_with_risks<'a>(version: &'a Value, target: &str) -> &'a str {
    let updates = version["status"]["conditionalUpdates"].as_array();
    let mut updates = updates.into_iter().flatten();
    let update = updates.find(|update| update["release"]["version"] == target);
    update
        .and_then(|update| update["release"]["image"].as_str())
        .unwrap_or_default()
}

/// The first cluster is on Azure and accepts risks by name, the second is on AWS, and the third has no metric of its platform.
#[tokio::test]
async fn a_risk_that_applies_blocks_that_cluster_alone_before_its_start_and_is_accepted_by_name() -> Result<()>
{
    let (from, target, channel) = ("4.15.10", "4.15.49", "stable-4.15");
    let mut preview = at(from, channel);
    preview["era"] = json!("C");
    whole(&[preview, at(from, channel)], async |turn| {
        let s = turn.scenario();
        let asked = with(&[to(target, channel), limits(3, "20m"), require()]);
        s.create(asked).await?;
        s.up()
            .row_until(s.c(1), "the risk", |row| row.reason == "RiskNotAccepted")
            .await?;
        s.up()
            .row_until(s.c(3), "unknown", |row| row.reason == "RiskUnknown")
            .await?;
        s.up()
            .row_until(s.c(2), "complete", |row| row.phase == Phase::Complete)
            .await?;
        assert_eq!((s.created(1, Platform), s.created(3, Platform)), (0, 0));
        let row = s
            .up()
            .row_until(s.c(1), "blocked", |row| row.phase == Phase::Blocked)
            .await?;
        assert!(row.message.contains(RISK), "{row:?}");

        let before = turn.cluster(3).version().await?;
        let image = image_with_risks(&before, target);
        assert!(image.contains("@sha256:"), "{before}");
        let risk = json!([{"name": RISK, "reason": "no machine set is scaled meanwhile"}]);
        s.edit(json!({"clusterVersion": {"acceptRisks": risk}})).await?;
        s.until("two of three", |seen| seen.clusters().complete == 2)
            .await?;
        let version = turn
            .cluster(1)
            .version_until("upgraded", completed(target))
            .await?;
        let asked = &version["spec"]["desiredUpdate"];
        assert_eq!(
            (&asked["version"], &asked["acceptRisks"]),
            (&json!(target), &json!([{"name": RISK}]))
        );
        assert!(asked["image"].as_str().unwrap_or_default().is_empty(), "{asked}");
        assert_ne!(asked["force"], true, "{asked}");
        let accept =
            json!({"preflight": {"unknownRisks": "Accept"}, "clusterVersion": {"acceptRisks": null}});
        s.edit(accept).await?;
        s.complete().await?;
        let version = turn
            .cluster(3)
            .version_until("upgraded", completed(target))
            .await?;
        let asked = &version["spec"]["desiredUpdate"];
        assert_eq!(
            (&asked["version"], &asked["image"]),
            (&json!(target), &json!(image)),
            "the request has the image that this cluster reported before"
        );
        assert_ne!(asked["force"], true, "{asked}");
        for number in 1..=3 {
            assert_eq!(s.created(number, Platform), 1);
        }
        Ok(())
    })
    .await
}

/// The first cluster is on Azure, and of a release that accepts no risks by name.
#[tokio::test]
async fn a_risk_that_applies_is_accepted_by_name_and_the_request_has_the_digest_that_the_cluster_reports()
-> Result<()> {
    let (from, target, channel) = ("4.15.10", "4.15.49", "stable-4.15");
    whole(&[at(from, channel), at(from, channel)], async |turn| {
        let (s, cluster) = (turn.scenario(), turn.cluster(1));
        s.create(with(&[to(target, channel), limits(3, "20m"), require()]))
            .await?;
        s.up()
            .row_until(s.c(1), "the risk", |row| row.reason == "RiskNotAccepted")
            .await?;
        let before = cluster.version().await?;
        let image = image_with_risks(&before, target);
        assert!(image.contains("@sha256:"), "{before}");
        s.edit(accepted_risk()).await?;
        let version = cluster.version_until("upgraded", completed(target)).await?;
        let asked = &version["spec"]["desiredUpdate"];
        assert_eq!(
            (&asked["version"], &asked["image"]),
            (&json!(target), &json!(image))
        );
        assert!(asked["acceptRisks"].is_null(), "{asked}");
        assert_ne!(asked["force"], true, "{asked}");
        s.complete().await?;
        assert_eq!(s.created(1, Platform), 1);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_gate_is_seen_before_any_start_and_acknowledged_by_name_from_the_hub() -> Result<()> {
    let (from, target, channel) = ("4.15.40", "4.16.42", "eus-4.16");
    let mut setup = at(from, channel);
    setup["adminGates"] = json!({GATE: TEXT});
    part(1, &[setup], async |turn| {
        let (s, cluster) = (turn.scenario(), turn.cluster(1));
        cluster.feedback_every(Duration::from_secs(2)).await?;
        s.create(with(&[
            to(target, channel),
            limits(1, "20m"),
            require(),
            accepted_risk(),
        ]))
        .await?;
        let row = s
            .up()
            .row_until(s.c(1), "the gate", |row| row.reason == "AdminAckRequired")
            .await?;
        assert!(
            row.message.contains(GATE) && row.message.contains("Kubernetes 1.29"),
            "{row:?}"
        );
        assert_eq!(s.created(1, Platform), 0, "no slot is spent on it");
        assert_eq!(newest(&cluster.version().await?), (from, "Completed"));

        let acks = json!([{"key": GATE, "reason": "scanned"}]);
        s.edit(json!({"clusterVersion": {"adminAcks": acks}})).await?;
        s.complete().await?;
        cluster.version_until("upgraded", completed(target)).await?;
        turn.clear().await?;
        let get = [
            "get",
            "configmap",
            "admin-acks",
            "-n",
            "openshift-config",
            "-o",
            "json",
        ];
        let left: Value = serde_json::from_str(&cluster.kubectl(&get).await?)?;
        assert_eq!(
            left["data"][GATE], "true",
            "it stays when everything of the upgrade is gone"
        );
        assert!(cluster.has(&["clusterversion", "version"]).await?);
        let role = "open-cluster-management:mcu-preflight";
        assert!(
            !cluster.has(&["clusterrole", role]).await?,
            "the right to read goes with the probe"
        );
        Ok(())
    })
    .await
}

/// The cluster has to evaluate another channel than its own. Until it does, the update graph of the controller tells what is served there.
#[tokio::test]
async fn a_target_in_another_channel_is_evaluated_after_the_channel_was_set_and_before_a_start() -> Result<()>
{
    let (from, target, channel) = ("4.15.40", "4.15.49", "stable-4.15");
    part(1, &[at(from, "eus-4.14")], async |turn| {
        let (s, cluster) = (turn.scenario(), turn.cluster(1));
        cluster.feedback_every(Duration::from_secs(2)).await?;
        s.create(with(&[
            to("4.15.999", channel),
            limits(1, "20m"),
            require(),
            accepted_risk(),
        ]))
        .await?;
        let row = s
            .up()
            .row_until(s.c(1), "no such release", |row| row.reason == "NotOffered")
            .await?;
        assert!(
            row.message
                .contains("The update graph has no update from 4.15.40"),
            "{row:?}"
        );
        s.edit(json!({"clusterVersion": {"version": target}})).await?;
        let row = s
            .up()
            .row_until(s.c(1), "served with a risk", |row| row.reason == "RiskUnknown")
            .await?;
        assert!(
            row.message.contains(RISK) && row.message.contains("setChannel"),
            "{row:?}"
        );
        assert_eq!(cluster.version().await?["spec"]["channel"], "eus-4.14");

        s.edit(json!({"preflight": {"setChannel": true}})).await?;
        cluster
            .version_until("in the channel", |version| version["spec"]["channel"] == channel)
            .await?;
        let row = s
            .up()
            .row_until(s.c(1), "looking", |row| {
                row.message.contains("the channel that was set")
            })
            .await?;
        assert_eq!((row.phase, s.created(1, Platform)), (Phase::Pending, 0));
        assert_eq!(newest(&cluster.version().await?), (from, "Completed"));
        s.complete().await?;
        turn.clear().await?;
        let version = cluster.version_until("upgraded", completed(target)).await?;
        assert_eq!(version["spec"]["channel"], channel, "it stays set");
        assert_eq!(version["metadata"]["ownerReferences"], Value::Null);
        Ok(())
    })
    .await
}

/// The first cluster is degraded before anybody asks it for an update; the second one already runs a later version.
#[tokio::test]
async fn a_degraded_operator_and_a_later_version_hold_their_cluster_alone_before_any_start() -> Result<()> {
    let (from, target, later, channel) = ("4.16.10", "4.16.20", "4.16.30", "eus-4.16");
    let mut degraded = at(from, channel);
    degraded["faults"] = json!("degraded=network,for-ever");
    part(2, &[degraded, at(later, channel)], async |turn| {
        let (s, cluster) = (turn.scenario(), turn.cluster(1));
        cluster.feedback_every(Duration::from_secs(2)).await?;
        s.create(with(&[to(target, channel), limits(2, "20m"), require()]))
            .await?;
        let row = s
            .up()
            .row_until(s.c(1), "the operator", |row| row.reason == "Failing")
            .await?;
        assert!(row.message.contains("network is degraded"), "{row:?}");
        let row = s
            .up()
            .row_until(s.c(2), "the later version", |row| row.reason == "NewerThanTarget")
            .await?;
        assert_eq!(row.phase, Phase::Blocked, "{row:?}");
        assert_eq!(s.created(1, Platform), 0, "no slot is spent on it");
        assert_eq!(newest(&cluster.version().await?), (from, "Completed"));

        cluster.fault("none").await?;
        cluster.version_until("upgraded", completed(target)).await?;
        s.until("one of two", |seen| seen.clusters().complete == 1)
            .await?;
        let newer = turn.cluster(2).version().await?;
        assert_eq!(
            newer["spec"]["desiredUpdate"],
            Value::Null,
            "nobody asked it to go back"
        );
        assert_eq!(newest(&newer), (later, "Completed"));
        assert_eq!(s.created(2, Platform), 0);
        Ok(())
    })
    .await
}

/// The pool is paused on the cluster; only the cluster's people resume it.
#[tokio::test]
async fn worker_pools_are_waited_for_and_a_paused_one_is_named_and_never_resumed() -> Result<()> {
    let (from, target, channel) = ("4.16.10", "4.16.20", "eus-4.16");
    part(1, &[at(from, channel)], async |turn| {
        let (s, cluster) = (turn.scenario(), turn.cluster(1));
        cluster.feedback_every(Duration::from_secs(2)).await?;
        let pause = async |paused: bool| {
            let change = json!({"spec": {"paused": paused}}).to_string();
            let patch = [
                "patch",
                "machineconfigpool",
                "worker",
                "--type=merge",
                "-p",
                &change,
            ];
            cluster.kubectl(&patch).await
        };
        pause(true).await?;
        let wait = json!({"upgradeStrategy": {"workerPools": "Wait"}});
        s.create(with(&[to(target, channel), limits(1, "20m"), wait, require()]))
            .await?;
        s.up()
            .row_until(s.c(1), "blocked by the paused pool", |row| {
                row.phase == Phase::Blocked && row.message.contains("MachineConfigPool is paused: worker")
            })
            .await?;
        assert_eq!(s.created(1, Platform), 0, "no slot is spent on it");

        s.edit(json!({"preflight": null})).await?;
        let row = s
            .up()
            .row_until(s.c(1), "the paused pool", |row| {
                row.phase == Phase::Workers && row.reason == "PoolPaused"
            })
            .await?;
        assert!(row.message.contains("worker"), "{row:?}");
        let version = cluster.version_until("updated", completed(target)).await?;
        assert_eq!(newest(&version), (target, "Completed"));

        pause(false).await?;
        s.complete().await?;
        turn.clear().await?;
        let pool = ["get", "machineconfigpool", "worker", "-o", "json"];
        let pool: Value = serde_json::from_str(&cluster.kubectl(&pool).await?)?;
        assert_eq!(pool["spec"]["paused"], false);
        assert_eq!(pool["metadata"]["ownerReferences"], Value::Null);
        assert_eq!(
            pool["status"]["updatedMachineCount"], pool["status"]["machineCount"],
            "{pool}"
        );
        Ok(())
    })
    .await
}
