//! Every cluster that waits or failed has a cause, and the cause is the cluster's own.

use anyhow::{Context as _, Result};
use api::names::Step::Platform;
use api::names::{CLAIM_CONTROL_PLANE_TOPOLOGY, TOPOLOGY_EXTERNAL};
use api::report::Phase;
use e2e::{Scenario, TestHub, sample};
use serde_json::{Value, json};
use testenv::fleet;

async fn cause(values: &[(&str, Value)], reason: &str, word: &str) -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({})).await?;
    s.agent(1).values(Platform, values).await?;
    let row = s
        .up()
        .row_until(s.c(1), reason, |row| row.reason == reason)
        .await?;
    assert!(row.message.contains(word), "{}", row.message);
    assert_eq!(row.phase, Phase::Initialized, "a cause is not a failure");
    let seen = s
        .until("listed", |seen| {
            seen.waiting(s.c(1)).is_some_and(|note| note.reason == reason)
        })
        .await?;
    assert_eq!(seen.clusters().failed, 0);
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_must_not_be_upgraded_says_so() -> Result<()> {
    let message = "Cluster operator kube-apiserver should not be upgraded: AdminAckRequired";
    cause(
        &[
            ("version", json!("4.11.0")),
            ("state", json!("Completed")),
            ("upgradeable", json!("False")),
            ("upgradeableReason", json!("AdminAckRequired")),
            ("upgradeableMessage", json!(message)),
        ],
        "NotUpgradeable",
        "AdminAckRequired",
    )
    .await
}

#[tokio::test]
async fn a_request_that_somebody_has_made_a_mere_check_is_the_cause() -> Result<()> {
    cause(
        &[
            ("version", json!("4.11.0")),
            ("state", json!("Completed")),
            ("mode", json!("Preflight")),
        ],
        "PreflightOnly",
        "spec.desiredUpdate.mode",
    )
    .await
}

#[tokio::test]
async fn a_release_that_is_not_accepted_is_the_cause() -> Result<()> {
    cause(
        &[
            ("version", json!("4.11.0")),
            ("state", json!("Completed")),
            ("releaseAccepted", json!("False")),
            ("releaseAcceptedReason", json!("RetrievePayload")),
            (
                "releaseAcceptedMessage",
                json!("Retrieving payload failed: the image is unsigned"),
            ),
        ],
        "ReleaseNotAccepted",
        "unsigned",
    )
    .await
}

#[tokio::test]
async fn an_invalid_request_is_the_cause_and_no_failure() -> Result<()> {
    cause(
        &[
            ("version", json!("4.11.0")),
            ("state", json!("Completed")),
            ("invalid", json!("True")),
            (
                "invalidMessage",
                json!("spec.desiredUpdate.version: 4.12.0 is not in availableUpdates"),
            ),
        ],
        "InvalidUpdate",
        "availableUpdates",
    )
    .await
}

#[tokio::test]
async fn a_failing_operator_of_the_cluster_is_the_cause() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({})).await?;
    let values = [
        ("version", json!("4.12.0")),
        ("state", json!("Partial")),
        ("failing", json!("True")),
        ("failingReason", json!("ClusterOperatorDegraded")),
        ("failingMessage", json!("Cluster operator etcd is degraded")),
    ];
    s.agent(1).values(Platform, &values).await?;
    let row = s
        .up()
        .row_until(s.c(1), "failing", |row| row.reason == "Failing")
        .await?;
    assert_eq!(row.phase, Phase::Partial);
    assert!(row.message.contains("etcd"), "{}", row.message);
    Ok(())
}

#[tokio::test]
async fn an_update_graph_that_cannot_be_read_is_the_cause() -> Result<()> {
    cause(
        &[
            ("version", json!("4.11.0")),
            ("state", json!("Completed")),
            ("retrievedUpdates", json!("False")),
            ("retrievedUpdatesReason", json!("RemoteFailed")),
            (
                "retrievedUpdatesMessage",
                json!("Unable to retrieve available updates: connection refused"),
            ),
        ],
        "UpdatesNotRetrieved",
        "connection refused",
    )
    .await
}

#[tokio::test]
async fn a_timeout_names_what_the_cluster_said_last() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"upgradeStrategy": {"clusterUpgradeTimeout": "4s"}}))
        .await?;
    let values = [
        ("version", json!("4.12.0")),
        ("state", json!("Partial")),
        (
            "message",
            json!("Working towards 4.12.0: 310 of 840 done, waiting on machine-config"),
        ),
    ];
    s.agent(1).values(Platform, &values).await?;
    let seen = s.until("failed", |seen| seen.clusters().failed == 1).await?;
    let note = seen.failed(s.c(1)).context("it is listed")?;
    assert_eq!(note.reason, "ClusterUpgradeTimeout");
    assert!(note.message.contains("machine-config"), "{}", note.message);
    Ok(())
}

#[tokio::test]
async fn a_work_that_cannot_be_applied_and_a_silent_agent_are_causes() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(json!({})).await?;
    s.agent(1)
        .not_applied(Platform, "clusterversions \"version\" is forbidden")
        .await?;
    let row = s
        .up()
        .row_until(s.c(1), "not applied", |row| row.reason == "NotApplied")
        .await?;
    assert!(row.message.contains("forbidden"), "{}", row.message);
    s.up()
        .row_until(s.c(2), "silent", |row| row.reason == "AgentSilent")
        .await?;
    Ok(())
}

/// Product and place of a cluster decide (`docs/design/rules.md#eligibility`).
#[tokio::test]
async fn clusters_that_are_not_ours_to_upgrade_are_blocked_with_their_cause() -> Result<()> {
    let s = Scenario::of(&TestHub::shared().await?, 6, |number, cluster| match number {
        1 => cluster.claim(fleet::PRODUCT_CLAIM, "ROSA"),
        2 => cluster.claim(fleet::PRODUCT_CLAIM, "EKS"),
        3 => cluster.label("local-cluster", "true"),
        4 => cluster.claim(fleet::PRODUCT_CLAIM, "ARO"),
        5 => cluster.without_claims(),
        _ => cluster.claim(CLAIM_CONTROL_PLANE_TOPOLOGY, TOPOLOGY_EXTERNAL),
    })
    .await?;
    s.create(json!({"clusterSelector": {"matchExpressions": null}}))
        .await?;
    s.agent(4).completed().await?;
    s.agent(5).completed().await?;
    let seen = s.until("stalled", |seen| seen.stalled("ClustersBlocked")).await?;
    assert_eq!((seen.clusters().complete, seen.clusters().pending), (2, 4));
    for (number, reason) in [
        (1, "ManagedService"),
        (2, "NotOpenShift"),
        (3, "LocalCluster"),
        (6, "HostedControlPlane"),
    ] {
        let mut causes = seen.status.causes.iter();
        let cause = causes
            .find(|cause| cause.reason == reason)
            .context("it is a cause")?;
        assert_eq!((cause.clusters, cause.example.as_str()), (1, s.c(number)));
        assert!(!cause.remedy.is_empty(), "{cause:?}");
        let note = seen.waiting(s.c(number)).context("it is listed")?;
        assert_eq!((note.phase, note.reason.as_str()), (Phase::Blocked, reason));
        assert_eq!(s.created(number, Platform), 0);
    }
    // Named by the key `local-cluster`, for it has another name, the hub itself is meant, where the controller may upgrade it.
    s.edit(json!({"clusterSelector": {"matchExpressions": [
        {"key": "name", "operator": "In", "values": s.some(&[3])},
        {"key": "local-cluster", "operator": "In", "values": ["true"]},
    ]}}))
    .await?;
    s.work(3, Platform).await?;
    Ok(())
}

/// What the API server refuses is shown as the cause, and repeated until it works.
#[tokio::test]
async fn a_namespace_that_is_missing_is_shown_and_healed() -> Result<()> {
    let s = Scenario::new(1).await?;
    let name = format!("{}-bare", s.id());
    let cluster = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": name, "labels": {"name": name, "cluster.open-cluster-management.io/clusterset": s.id()}},
        "spec": {"hubAcceptsClient": true},
    });
    testenv::apply::apply_objects(s.client(), &[cluster]).await?;
    fleet::set_available(s.client(), &name, "True").await?;
    s.create(json!({"clusterSelector": sample::selector(s.id(), std::slice::from_ref(&name))}))
        .await?;
    let row = s
        .up()
        .row_until(&name, "the cause", |row| row.reason == "WriteFailed")
        .await?;
    assert!(row.message.contains("namespace"), "{}", row.message);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    testenv::apply::apply_objects(s.client(), &[namespace]).await?;
    s.wait("the work", |known| known.work(&name, Platform)).await?;
    Ok(())
}
