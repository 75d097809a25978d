//! `deploy/strict-executor`: an action that acts as the work agent is for those who may.

use anyhow::{Context as _, Result};
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testenv::hub::wait_until;

use crate::actors::{denied, namespace, owner_of};
use crate::installed::{
    EDITOR, WAIT_TIMEOUT, deploy_dir, installed, spec_with, try_create, type_checked, upgrade, upgrades,
};

const NAMESPACE: &str = "strict";
const FIELDS: [&str; 2] = ["preUpgradeAction", "postUpgradeAction"];

fn action(executor: &Value, name: &str) -> Value {
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let mut work = json!({"workload": {"manifests": [manifest]}});
    if !executor.is_null() {
        work["executor"] = executor.clone();
    }
    json!({"manifestWork": work})
}

/// The overlay as shipped, in force in one namespace: the others of this hub are those of hubs without it.
async fn install() -> Result<()> {
    namespace(NAMESPACE).await?;
    let installed = installed().await?;
    let directory = deploy_dir().join("strict-executor");
    let text = installed
        .kubectl(&["kustomize", &directory.to_string_lossy()])
        .await?;
    let mut objects = testenv::apply::parse_yaml(&text)?;
    let binding = objects
        .iter_mut()
        .find(|object| object["kind"] == "ValidatingAdmissionPolicyBinding")
        .context("a binding")?;
    binding["spec"]["matchResources"] =
        json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}});
    testenv::apply::apply_objects(&installed.admin().await?, &objects).await?;
    let grants = testenv::apply::parse_yaml(
        "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: act-as-agent}
rules:
- apiGroups: [work.open-cluster-management.io]
  resources: [manifestworks]
  resourceNames: ['system:serviceaccount::klusterlet-work-sa']
  verbs: [execute-as]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: act-as-agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: act-as-agent}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: nick}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: editors, namespace: strict}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mcu-editor}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: nick}]
",
    )?;
    testenv::apply::apply_objects(&installed.admin().await?, &grants).await?;
    let owner = owner_of(NAMESPACE).await?;
    let probe = spec_with(json!({"preUpgradeAction": action(&Value::Null, "probe")}));
    wait_until("the policy is in force", WAIT_TIMEOUT, async || {
        Ok(try_create(&owner, NAMESPACE, "probe", &probe).await.is_err())
    })
    .await
}

async fn patch(client: &Client, change: Value) -> Result<(), String> {
    let done = upgrades(client, NAMESPACE)
        .patch("kept", &PatchParams::default(), &Patch::Merge(change))
        .await;
    done.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn with_the_overlay_an_action_without_executor_needs_execute_as_of_its_author() -> Result<()> {
    install().await?;
    let installed = installed().await?;
    type_checked(&["managedclustersupgrade-nil-executor"]).await?;
    let owner = owner_of(NAMESPACE).await?;
    let nick = installed.hub.client_as("nick", &["system:authenticated"]).await?;
    // Without the overlay.
    let editor = installed.as_user(EDITOR).await?;
    let ok = anyhow::Error::msg;
    for field in FIELDS {
        let bare = spec_with(json!({field: action(&Value::Null, "x")}));
        denied(
            try_create(&owner, NAMESPACE, "x", &bare).await,
            &[
                &format!("spec.{field}.manifestWork.executor: without it the action acts as the work agent"),
                "owner-of-strict may not use",
                "name an executor, or ask for execute-as",
            ],
        );
        try_create(&nick, NAMESPACE, "x", &bare).await.map_err(ok)?;
        try_create(&editor, "team-a", "x", &bare).await.map_err(ok)?;
        // One that is there is the other policy's.
        let executor = json!({"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "backup", "name": "runner"}}});
        let named = spec_with(json!({field: action(&executor, "x")}));
        denied(
            try_create(&owner, NAMESPACE, "x", &named).await,
            &[
                "managedclustersupgrade-references",
                "system:serviceaccount:backup:runner",
            ],
        );
        try_create(&installed.admin().await?, NAMESPACE, "x", &named)
            .await
            .map_err(ok)?;
    }
    try_create(&owner, NAMESPACE, "x", &spec_with(json!({})))
        .await
        .map_err(ok)?;

    let bare = spec_with(json!({"preUpgradeAction": action(&Value::Null, "x")}));
    upgrades(&nick, NAMESPACE)
        .create(&PostParams::default(), &upgrade("kept", &bare))
        .await?;
    patch(&owner, json!({"spec": {"paused": true}}))
        .await
        .map_err(ok)?;
    denied(
        patch(
            &owner,
            json!({"spec": {"preUpgradeAction": action(&Value::Null, "y")}}),
        )
        .await,
        &[
            "spec.preUpgradeAction.manifestWork.executor",
            "owner-of-strict may not use",
        ],
    );
    patch(&owner, json!({"spec": {"preUpgradeAction": null}}))
        .await
        .map_err(ok)?;
    Ok(())
}
