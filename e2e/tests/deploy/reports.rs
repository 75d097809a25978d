//! The admission policy of reports: the controller writes them, garbage collection and administrators remove them.

use anyhow::{Context as _, Result};
use api::names::{FIELD_MANAGER, LABEL_MCU, LABEL_MCU_UID};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testenv::hub::wait_until;

use crate::actors::{denied, namespace, owner_of};
use crate::installed::{WAIT_TIMEOUT, any, installed, spec_with, upgrade, upgrades};

const NAME: &str = "spring-report-1";

fn reports(client: &Client, namespace: &str) -> Api<DynamicObject> {
    any(
        client,
        "cluster.open-cluster-management.io/v1beta1",
        "ManagedClustersUpgradeReport",
        Some(namespace),
    )
}

fn report(phase: &str) -> Value {
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgradeReport",
        "metadata": {"name": NAME, "labels": {LABEL_MCU: "spring", LABEL_MCU_UID: "4a8f"}},
        "rows": [{"cluster": "c1", "phase": phase, "revision": "0123", "since": "2026-01-01T00:00:00Z"}],
    })
}

async fn create(client: &Client, namespace: &str, report: &Value) -> Result<DynamicObject, String> {
    let object = serde_json::from_value(report.clone()).map_err(|error| error.to_string())?;
    let created = reports(client, namespace)
        .create(&PostParams::default(), &object)
        .await;
    created.map_err(|error| error.to_string())
}

async fn patch(client: &Client, namespace: &str, change: Value) -> Result<(), String> {
    let done = reports(client, namespace)
        .patch(NAME, &PatchParams::default(), &Patch::Merge(change))
        .await;
    done.map(drop).map_err(|error| error.to_string())
}

/// The controller's write.
async fn apply(namespace: &str, report: &Value) -> Result<()> {
    let controller = installed().await?.controller.client().await?;
    let params = PatchParams::apply(FIELD_MANAGER).force();
    reports(&controller, namespace)
        .patch(NAME, &params, &Patch::Apply(report))
        .await?;
    Ok(())
}

#[tokio::test]
async fn the_controller_writes_and_deletes_reports() -> Result<()> {
    namespace("reported").await?;
    apply("reported", &report("Initialized")).await?;
    apply("reported", &report("Complete")).await?;
    let controller = installed().await?.controller.client().await?;
    reports(&controller, "reported")
        .delete(NAME, &DeleteParams::default())
        .await?;
    Ok(())
}

#[tokio::test]
async fn an_owner_of_a_namespace_forges_no_report_in_it() -> Result<()> {
    namespace("evil").await?;
    let owner = owner_of("evil").await?;
    denied(
        create(&owner, "evil", &report("Complete")).await,
        &[
            "metadata.name: spring-report-1 is a report",
            "alone to write, not for owner-of-evil",
            "create a ManagedClustersUpgrade, its reports follow",
        ],
    );
    // Nor what looks like the work of a restore.
    let mut restored = report("Complete");
    restored["metadata"]["labels"]["velero.io/restore-name"] = json!("r");
    denied(create(&owner, "evil", &restored).await, &["metadata.name"]);

    apply("evil", &report("Initialized")).await?;
    denied(
        patch(&owner, "evil", json!({"rows": report("Complete")["rows"]})).await,
        &[
            "rows: the rows of a report are for the controller",
            "leave them and the summary as they are",
        ],
    );
    denied(
        patch(
            &owner,
            "evil",
            json!({"summary": {"clusters": 1, "complete": 1, "failed": 0, "attempts": 1}}),
        )
        .await,
        &["rows: the rows of a report are for the controller"],
    );
    denied(
        patch(
            &owner,
            "evil",
            json!({"metadata": {"labels": {LABEL_MCU_UID: "other"}}}),
        )
        .await,
        &["metadata.labels", LABEL_MCU_UID, "leave it as it is"],
    );
    for change in [
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "c0ffee"}]}),
        json!({"finalizers": ["example.com/held"]}),
        json!({"annotations": {"note": "x"}}),
    ] {
        denied(
            patch(&owner, "evil", json!({"metadata": change})).await,
            &[
                "metadata: labels, annotations, owner references and finalizers",
                "leave them as they are",
            ],
        );
    }
    let deleted = reports(&owner, "evil")
        .delete(NAME, &DeleteParams::default())
        .await
        .map_err(|error| error.to_string());
    denied(
        deleted,
        &[
            "report spring-report-1",
            "owner-of-evil may not delete",
            "delete the ManagedClustersUpgrade",
        ],
    );
    Ok(())
}

#[tokio::test]
async fn an_administrator_deletes_and_restores_a_report_but_changes_none() -> Result<()> {
    namespace("restored").await?;
    let admin = installed().await?.admin().await?;
    denied(
        create(&admin, "restored", &report("Complete")).await,
        &["metadata.name: spring-report-1"],
    );
    let mut restored = report("Complete");
    restored["metadata"]["labels"]["velero.io/restore-name"] = json!("r");
    create(&admin, "restored", &restored)
        .await
        .map_err(anyhow::Error::msg)?;
    patch(
        &admin,
        "restored",
        json!({"metadata": {"annotations": {"note": "x"}}}),
    )
    .await
    .map_err(anyhow::Error::msg)?;
    denied(patch(&admin, "restored", json!({"rows": []})).await, &["rows: "]);
    denied(
        patch(
            &admin,
            "restored",
            json!({"metadata": {"labels": {LABEL_MCU: "other"}}}),
        )
        .await,
        &["metadata.labels", LABEL_MCU],
    );
    reports(&admin, "restored")
        .delete(NAME, &DeleteParams::default())
        .await?;
    Ok(())
}

#[tokio::test]
async fn garbage_collection_orphans_and_removes_reports() -> Result<()> {
    namespace("collected").await?;
    let installed = installed().await?;
    let admin = installed.admin().await?;
    upgrades(&admin, "collected")
        .create(&PostParams::default(), &upgrade("spring", &spec_with(json!({}))))
        .await?;
    let uid = upgrades(&admin, "collected")
        .get("spring")
        .await?
        .metadata
        .uid
        .context("a UID")?;
    let mut owned = report("Complete");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
        "name": "spring", "uid": uid, "controller": true, "blockOwnerDeletion": true,
    }]);
    apply("collected", &owned).await?;
    // The collector's own account: the hub of this test runs it as an administrator.
    let collector = installed
        .hub
        .client_as(
            "system:serviceaccount:kube-system:generic-garbage-collector",
            &[
                "system:serviceaccounts",
                "system:serviceaccounts:kube-system",
                "system:authenticated",
            ],
        )
        .await?;
    patch(
        &collector,
        "collected",
        json!({"metadata": {"ownerReferences": null}}),
    )
    .await
    .map_err(anyhow::Error::msg)?;
    reports(&collector, "collected")
        .delete(NAME, &DeleteParams::default())
        .await?;
    apply("collected", &owned).await?;
    // A user who may delete the upgrade causes the collection of its reports.
    upgrades(&owner_of("collected").await?, "collected")
        .delete("spring", &DeleteParams::foreground())
        .await?;
    wait_until("the report is collected", WAIT_TIMEOUT, async || {
        Ok(reports(&admin, "collected").get_opt(NAME).await?.is_none())
    })
    .await
}
