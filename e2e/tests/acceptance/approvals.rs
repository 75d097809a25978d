//! Checkpoints: nothing starts behind them before somebody else than the author has approved the present plan.

use anyhow::{Context as _, Result};
use api::names::Step::Platform;
use e2e::Scenario;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

/// Approvals in the namespace of a scenario, as somebody who may give them.
async fn approvals(s: &Scenario) -> Result<Api<DynamicObject>> {
    let rbac = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": {"name": "approvers", "namespace": s.id()},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "mcu-approver"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "anna"}],
    });
    testenv::apply::apply_objects(s.client(), &[binding]).await?;
    let client = s
        .test_hub()
        .hub()
        .client_as("anna", &["system:authenticated"])
        .await?;
    let kind = GroupVersionKind::gvk(
        "cluster.open-cluster-management.io",
        "v1beta1",
        "ManagedClustersUpgradeApproval",
    );
    Ok(Api::namespaced_with(
        client,
        s.id(),
        &ApiResource::from_gvk(&kind),
    ))
}

fn approval(name: &str, hash: &str) -> Result<DynamicObject> {
    let object = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgradeApproval",
        "metadata": {"name": name},
        "spec": {"upgrade": "up", "checkpoint": "one", "planHash": hash, "approver": "anna", "message": "CHG0042"},
    });
    Ok(serde_json::from_value(object)?)
}

fn gated(more: &Value) -> Value {
    let mut strategy = json!({"approvals": [{"name": "one", "when": 1}], "maxConcurrency": 10});
    if let (Some(strategy), Some(more)) = (strategy.as_object_mut(), more.as_object()) {
        strategy.extend(more.clone());
    }
    json!({"upgradeStrategy": strategy})
}

#[tokio::test]
async fn an_upgrade_waits_until_somebody_else_than_its_author_has_approved_the_plan() -> Result<()> {
    let s = Scenario::new(3).await?;
    s.create(gated(&json!({}))).await?;
    s.agent(1).completed().await?;
    let waiting = |seen: &e2e::Seen| seen.reason("Ready") == "WaitingForApproval";
    let seen = s.until("it waits", waiting).await?;
    assert!(!seen.is("Stalled") && !seen.is("Reconciling"));
    assert_eq!(seen.raw["status"]["state"], "WaitingForApproval");
    let [checkpoint] = seen.status.approvals.as_slice() else {
        anyhow::bail!("{:?}", seen.status.approvals)
    };
    let hash = checkpoint.plan_hash.clone();
    assert!(checkpoint.is_waiting() && checkpoint.waiting_since.is_some());
    s.up()
        .row_until(s.c(2), "waits", |row| row.reason == "WaitingForApproval")
        .await?;

    // An edit makes it another plan.
    s.edit(gated(&json!({"maxConcurrency": 1}))).await?;
    let approvals = approvals(&s).await?;
    approvals
        .create(&PostParams::default(), &approval("old", &hash)?)
        .await?;
    let seen = s
        .until("it says what changed", |seen| {
            seen.status.approvals.iter().any(|one| one.changed == "the spec")
        })
        .await?;
    assert!(waiting(&seen));
    assert_eq!(s.created(2, Platform), 0);

    let present = seen
        .status
        .approvals
        .first()
        .context("a checkpoint")?
        .plan_hash
        .clone();
    approvals
        .create(&PostParams::default(), &approval("new", &present)?)
        .await?;
    s.agent(2).available(Platform).await?;
    let seen = s
        .until("it is approved", |seen| {
            seen.status.approvals.iter().any(|one| one.approver == "anna")
        })
        .await?;
    assert_eq!(seen.status.approvals[0].message, "CHG0042");

    // Without the approval, no further cluster starts; what has started goes on.
    approvals.delete("new", &DeleteParams::default()).await?;
    s.agent(2).completed().await?;
    s.until("it waits again", waiting).await?;
    assert_eq!(s.created(3, Platform), 0);
    approvals
        .create(&PostParams::default(), &approval("again", &present)?)
        .await?;
    s.agent(3).completed().await?;
    s.until("complete", |seen| seen.is("Complete")).await?;
    Ok(())
}
