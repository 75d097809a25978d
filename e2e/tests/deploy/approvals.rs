//! The admission policy of approvals: tried as author, approver, both and neither.

use anyhow::{Context as _, Result};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testenv::hub::wait_until;

use crate::actors::denied;
use crate::installed::{WAIT_TIMEOUT, any, installed, type_checked};

/// The author, the approver, who is both by two roles, who is the author of one upgrade only, and who is neither.
const USERS: [(&str, &[&str]); 5] = [
    ("arthur", &["mcu-editor"]),
    ("anna", &["mcu-approver"]),
    ("bo", &["mcu-editor", "mcu-approver"]),
    ("una", &["mcu-approver", "spring-patcher"]),
    ("nell", &[]),
];

async fn namespace(name: &str) -> Result<()> {
    let admin = installed().await?.admin().await?;
    let rbac = "rbac.authorization.k8s.io";
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": "spring-patcher"},
            "rules": [{"apiGroups": ["cluster.open-cluster-management.io"], "resources": ["managedclustersupgrades"],
                "resourceNames": ["spring"], "verbs": ["patch"]}],
        }),
    ];
    for (user, roles) in USERS {
        objects.extend(roles.iter().map(|role| {
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding",
                "metadata": {"name": format!("{user}-{role}"), "namespace": name},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
            })
        }));
    }
    testenv::apply::apply_objects(&admin, &objects).await
}

async fn as_user(name: &str) -> Result<Client> {
    let hub = &installed().await?.hub;
    hub.client_as(name, &["system:authenticated"]).await
}

fn approvals(client: &Client, namespace: &str) -> Api<DynamicObject> {
    any(
        client,
        "cluster.open-cluster-management.io/v1beta1",
        "ManagedClustersUpgradeApproval",
        Some(namespace),
    )
}

async fn approve(
    user: &str,
    namespace: &str,
    upgrade: &str,
    approver: &str,
) -> Result<Result<Value, String>> {
    let object = serde_json::from_value(json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgradeApproval",
        "metadata": {"generateName": "a-"},
        "spec": {"upgrade": upgrade, "checkpoint": "half", "planHash": "1a2b", "approver": approver},
    }))?;
    let client = as_user(user).await?;
    let created = approvals(&client, namespace)
        .create(&PostParams::default(), &object)
        .await;
    Ok(match created {
        Ok(created) => Ok(serde_json::to_value(created)?),
        Err(error) => Err(error.to_string()),
    })
}

/// Until the API server has compiled the policy, it admits everything that a role allows.
async fn in_force(namespace: &str) -> Result<()> {
    wait_until("the policy of approvals is in force", WAIT_TIMEOUT, async || {
        let answer = approve("anna", namespace, "probe", "somebody").await?;
        Ok(answer.is_err_and(|error| error.contains("ValidatingAdmissionPolicy")))
    })
    .await
}

#[tokio::test]
async fn only_somebody_who_may_not_write_an_upgrade_approves_it_and_only_in_their_own_name() -> Result<()> {
    namespace("approved").await?;
    in_force("approved").await?;
    type_checked(&["managedclustersupgrade-approvals"]).await?;
    let by = async |user: &str| approve(user, "approved", "spring", user).await;
    let stored = by("anna").await?.map_err(anyhow::Error::msg)?;
    assert_eq!(stored["spec"]["approver"], "anna");
    denied(
        approve("anna", "approved", "spring", "arthur").await?,
        &["spec.approver: must be your own user name, anna"],
    );
    let author = [
        "may write ManagedClustersUpgrade spring of namespace approved",
        "somebody else",
    ];
    denied(by("bo").await?, &[&["spec.approver: bo"][..], &author].concat());
    denied(by("una").await?, &author);
    assert!(
        approve("una", "approved", "autumn", "una").await?.is_ok(),
        "that one she may not write"
    );
    // Neither role allows these to approve.
    for user in ["arthur", "nell"] {
        let error = by(user).await?.err().context("it is refused")?;
        assert!(
            error.contains("is forbidden") && error.contains("cannot create"),
            "{error}"
        );
    }
    // A cluster administrator has every right, and so that of an author.
    let admin = installed().await?.admin().await?;
    let object = serde_json::from_value(stored.clone()).map(|mut object: DynamicObject| {
        object.metadata.name = None;
        object.metadata.resource_version = None;
        object
    })?;
    let created = approvals(&admin, "approved")
        .create(&PostParams::default(), &object)
        .await;
    denied(created.map_err(|error| error.to_string()), &["spec.approver"]);
    Ok(())
}

#[tokio::test]
async fn an_approval_cannot_be_changed() -> Result<()> {
    namespace("unchanged").await?;
    in_force("unchanged").await?;
    let stored = approve("anna", "unchanged", "spring", "anna")
        .await?
        .map_err(anyhow::Error::msg)?;
    let name = stored["metadata"]["name"].as_str().context("a name")?;
    let admin = installed().await?.admin().await?;
    let change = |change: Value| {
        let approvals = approvals(&admin, "unchanged");
        async move {
            let patch = Patch::Merge(change);
            approvals.patch(name, &PatchParams::default(), &patch).await
        }
    };
    let error = change(json!({"spec": {"planHash": "9f3c"}}))
        .await
        .err()
        .context("it is refused")?;
    assert!(
        error.to_string().contains("an approval cannot be changed"),
        "{error}"
    );
    change(json!({"metadata": {"labels": {"change": "CHG0042"}}})).await?;
    Ok(())
}
