//! Those who touch what the controller reads: a cluster with its agent, and the owner of a namespace.

use anyhow::Result;
use kube::Client;
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};

use crate::installed::{any, installed};

/// What OCM lets an agent do on the hub, as of its release 1.2.1 (`registration/hub/manifests/rbac`).
fn agents_rules() -> Value {
    json!([
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
        {"apiGroups": ["work.open-cluster-management.io"], "resources": ["manifestworks"],
            "verbs": ["get", "list", "watch", "update", "patch"]},
        {"apiGroups": ["work.open-cluster-management.io"], "resources": ["manifestworks/status"],
            "verbs": ["patch", "update"]},
    ])
}

/// Every right in the namespace, as `admin` with all custom resources.
fn owners_rules() -> Value {
    json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
}

fn grant(namespace: &str, name: &str, rules: &Value, kind: &str, subject: &str) -> [Value; 2] {
    let metadata = json!({"name": name, "namespace": namespace});
    [
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": subject}],
        }),
    ]
}

/// A namespace with an owner, see [`owner_of`].
pub async fn namespace(name: &str) -> Result<()> {
    let admin = installed().await?.admin().await?;
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})];
    objects.extend(grant(
        name,
        "owner",
        &owners_rules(),
        "User",
        &format!("owner-of-{name}"),
    ));
    testenv::apply::apply_objects(&admin, &objects).await
}

/// A namespace of a cluster, with an owner and an agent.
pub async fn cluster(name: &str) -> Result<()> {
    namespace(name).await?;
    let admin = installed().await?.admin().await?;
    let group = format!("system:open-cluster-management:{name}");
    let objects = grant(name, "agent", &agents_rules(), "Group", &group);
    testenv::apply::apply_objects(&admin, &objects).await
}

/// The agent of a cluster, as OCM names it.
pub async fn agent(cluster: &str) -> Result<Client> {
    let group = format!("system:open-cluster-management:{cluster}");
    let groups = [
        group.as_str(),
        "system:open-cluster-management:managed-clusters",
        "system:authenticated",
    ];
    let hub = &installed().await?.hub;
    hub.client_as(&format!("{group}:agent1"), &groups).await
}

/// A user with every right in a namespace, and none elsewhere.
pub async fn owner_of(namespace: &str) -> Result<Client> {
    let hub = &installed().await?.hub;
    hub.client_as(&format!("owner-of-{namespace}"), &["system:authenticated"])
        .await
}

/// Works of a cluster, unparsed.
pub fn manifest_works(client: &Client, cluster: &str) -> Api<DynamicObject> {
    any(
        client,
        "work.open-cluster-management.io/v1",
        "ManifestWork",
        Some(cluster),
    )
}

/// A work of no upgrade.
pub fn work(name: &str) -> Value {
    json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": name},
        "spec": {"workload": {"manifests": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}},
        ]}},
    })
}

/// The answer is a policy's refusal that says all of this.
pub fn denied(answer: Result<impl Sized, String>, phrases: &[&str]) {
    let message = answer.err().unwrap_or_default();
    for phrase in phrases.iter().chain(&["ValidatingAdmissionPolicy"]) {
        assert!(message.contains(phrase), "no {phrase:?} in: {message}");
    }
}
