//! The admission policy: no author borrows another namespace's Placement or an executor.

use anyhow::Result;
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::actors::denied;
use crate::installed::{EDITOR, LENT, installed, spec_with, try_create, upgrade, upgrades};

fn placements(count: usize, namespace: &str) -> Value {
    let refer = |n: usize| json!({"name": format!("p{n}"), "namespace": namespace});
    spec_with(json!({"placement": (0..count).map(refer).collect::<Vec<_>>()}))
}

fn manifest_work(executor: &Value, manifest: &str) -> Value {
    json!({"manifestWork": {
        "executor": executor,
        "workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": manifest, "namespace": "backup"}}]},
    }})
}

fn executor(name: &str) -> Value {
    json!({"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "backup", "name": name}}})
}

/// A merge patch of an MCU in `team-a`, or the API server's message.
async fn patch(client: &Client, name: &str, patch: Value) -> Result<(), String> {
    let done = upgrades(client, "team-a")
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    done.map(drop).map_err(|error| error.to_string())
}

/// Stores an MCU in `team-a` as the administrator, who may refer to anything.
async fn store(name: &str, spec: &Value) -> Result<()> {
    let admin = installed().await?.admin().await?;
    upgrades(&admin, "team-a")
        .create(&PostParams::default(), &upgrade(name, spec))
        .await?;
    Ok(())
}

#[tokio::test]
async fn placements_of_the_own_namespace_need_no_permission() -> Result<()> {
    let editor = installed().await?.as_user(EDITOR).await?;
    for spec in [
        spec_with(json!({"placement": [{"name": "p"}]})),
        spec_with(json!({"placement": [{"name": "p", "namespace": ""}]})),
        placements(64, "team-a"),
    ] {
        try_create(&editor, "team-a", "x", &spec)
            .await
            .map_err(anyhow::Error::msg)?;
    }
    Ok(())
}

#[tokio::test]
async fn a_placement_of_another_namespace_is_for_those_who_may_get_it() -> Result<()> {
    let installed = installed().await?;
    let (editor, lent) = (installed.as_user(EDITOR).await?, installed.as_user(LENT).await?);
    let borrowed = placements(1, "team-b");
    denied(
        try_create(&editor, "team-a", "x", &borrowed).await,
        &[
            "spec.placement: team-b/p0",
            "edith may not get",
            "refer to one of namespace team-a, or ask for get on placements",
        ],
    );
    try_create(&lent, "team-a", "x", &borrowed)
        .await
        .map_err(anyhow::Error::msg)?;
    denied(
        try_create(&lent, "team-a", "x", &placements(1, "default")).await,
        &["spec.placement: default/p0", "lena may not get"],
    );
    Ok(())
}

#[tokio::test]
async fn each_of_several_borrowed_placements_is_checked_up_to_a_bound() -> Result<()> {
    let lent = installed().await?.as_user(LENT).await?;
    try_create(&lent, "team-a", "x", &placements(16, "team-b"))
        .await
        .map_err(anyhow::Error::msg)?;
    let mut last_is_foreign = placements(16, "team-b");
    last_is_foreign["placement"][15]["namespace"] = json!("default");
    denied(
        try_create(&lent, "team-a", "x", &last_is_foreign).await,
        &["spec.placement: default/p15", "lena may not get"],
    );
    denied(
        try_create(&lent, "team-a", "x", &placements(17, "team-b")).await,
        &["spec.placement: at most 16", "add the others in a second one"],
    );
    Ok(())
}

#[tokio::test]
async fn an_executor_is_for_those_who_may_execute_as_it() -> Result<()> {
    let installed = installed().await?;
    let (editor, lent) = (installed.as_user(EDITOR).await?, installed.as_user(LENT).await?);
    for field in ["preUpgradeAction", "postUpgradeAction"] {
        let with = |executor: &Value| spec_with(json!({field: manifest_work(executor, "x")}));
        let name = format!("spec.{field}.manifestWork.executor: system:serviceaccount:backup:runner");
        denied(
            try_create(&editor, "team-a", "x", &with(&executor("runner"))).await,
            &[
                &name,
                "edith may not use",
                "leave it out to act as the work agent, or ask for execute-as",
            ],
        );
        try_create(&lent, "team-a", "x", &with(&executor("runner")))
            .await
            .map_err(anyhow::Error::msg)?;
        denied(
            try_create(&lent, "team-a", "x", &with(&executor("root"))).await,
            &["system:serviceaccount:backup:root", "lena may not use"],
        );
        try_create(&editor, "team-a", "x", &with(&Value::Null))
            .await
            .map_err(anyhow::Error::msg)?;
    }
    Ok(())
}

#[tokio::test]
async fn updates_that_keep_the_references_pass_for_users_who_could_not_add_them() -> Result<()> {
    let editor = installed().await?.as_user(EDITOR).await?;
    let mut spec = placements(2, "team-b");
    spec["preUpgradeAction"] = manifest_work(&executor("runner"), "x");
    store("kept", &spec).await?;
    let ok = anyhow::Error::msg;
    patch(&editor, "kept", json!({"spec": {"paused": true}}))
        .await
        .map_err(ok)?;
    patch(
        &editor,
        "kept",
        json!({"spec": {"upgradeStrategy": {"maxConcurrency": 3}}}),
    )
    .await
    .map_err(ok)?;
    let fewer = json!([{"name": "p1", "namespace": "team-b"}, {"name": "own"}]);
    patch(&editor, "kept", json!({"spec": {"placement": fewer}}))
        .await
        .map_err(ok)?;
    patch(&editor, "kept", json!({"spec": {"preUpgradeAction": null}}))
        .await
        .map_err(ok)?;
    Ok(())
}

#[tokio::test]
async fn updates_that_add_a_reference_or_change_what_an_executor_runs_are_denied() -> Result<()> {
    let installed = installed().await?;
    let (editor, lent) = (installed.as_user(EDITOR).await?, installed.as_user(LENT).await?);
    let mut spec = placements(1, "team-b");
    spec["preUpgradeAction"] = manifest_work(&executor("runner"), "x");
    store("changed", &spec).await?;
    let more = placements(2, "team-b")["placement"].clone();
    denied(
        patch(&editor, "changed", json!({"spec": {"placement": more}})).await,
        &["spec.placement: team-b/p1", "edith may not get"],
    );
    let other = json!({"spec": {"preUpgradeAction": manifest_work(&executor("runner"), "y")}});
    denied(
        patch(&editor, "changed", other.clone()).await,
        &["spec.preUpgradeAction.manifestWork.executor", "edith may not use"],
    );
    patch(&lent, "changed", other).await.map_err(anyhow::Error::msg)?;
    patch(&lent, "changed", json!({"spec": {"placement": more}}))
        .await
        .map_err(anyhow::Error::msg)?;
    Ok(())
}

#[tokio::test]
async fn the_controller_sets_finalizer_and_status_of_an_upgrade_with_borrowed_references() -> Result<()> {
    let installed = installed().await?;
    let controller = installed.controller.client().await?;
    let mut spec = placements(2, "team-b");
    spec["postUpgradeAction"] = manifest_work(&executor("runner"), "x");
    store("finalized", &spec).await?;

    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    let ok = anyhow::Error::msg;
    patch(
        &controller,
        "finalized",
        finalizers(json!([api::names::FINALIZER])),
    )
    .await
    .map_err(ok)?;
    let status = Patch::Merge(json!({"status": {"state": "Pending"}}));
    upgrades(&controller, "team-a")
        .patch_status("finalized", &PatchParams::default(), &status)
        .await?;
    upgrades(&installed.admin().await?, "team-a")
        .delete("finalized", &kube::api::DeleteParams::default())
        .await?;
    patch(&controller, "finalized", finalizers(json!([])))
        .await
        .map_err(ok)?;
    assert!(
        upgrades(&controller, "team-a")
            .get_opt("finalized")
            .await?
            .is_none()
    );
    Ok(())
}
