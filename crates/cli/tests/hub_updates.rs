//! `kubectl mcu updates` on a live cluster: a real API server with the real ClusterVersion CRD.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

mod outcome;

use std::path::{Path, PathBuf};

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};
use testenv::Hub;
use testenv::apply::apply_objects;
use testenv::crds::{FeatureSet, openshift_crds};

use self::outcome::Outcome;

const GATE: &str = "ack-4.18-kube-1.32-api-removals-in-4.19";

fn updates(kubeconfig: &Path, args: &[&str]) -> Outcome {
    Outcome::of(&["updates"], |command| {
        command.arg("--kubeconfig").arg(kubeconfig).args(args)
    })
}

/// Runs it where it must do what is asked.
fn shown(kubeconfig: &Path, args: &[&str]) -> String {
    let outcome = updates(kubeconfig, args);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome.out
}

/// Runs it where it must refuse.
fn refused(kubeconfig: &Path, args: &[&str]) -> String {
    let outcome = updates(kubeconfig, args);
    assert_eq!((outcome.code, outcome.out.as_str()), (Some(1), ""), "{outcome:?}");
    outcome.err
}

fn versions(hub: &Hub) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterVersion");
    Api::all_with(hub.client().clone(), &ApiResource::from_gvk(&kind))
}

async fn desired(hub: &Hub) -> Value {
    let object = versions(hub).get("version").await.unwrap();
    object.data["spec"]["desiredUpdate"].clone()
}

fn image(digit: &str) -> String {
    format!(
        "quay.io/openshift-release-dev/ocp-release@sha256:{}",
        digit.repeat(64)
    )
}

fn release(version: &str, digit: &str) -> Value {
    json!({"version": version, "image": image(digit), "url": format!("https://access.redhat.com/errata/{digit}")})
}

fn status() -> Value {
    let at = "2026-03-01T10:00:00Z";
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at});
    json!({
        "desired": release("4.18.1", "1"),
        "observedGeneration": 1, "versionHash": "hash",
        "history": [{
            "state": "Completed", "version": "4.18.1", "image": image("1"), "verified": true,
            "startedTime": at, "completionTime": at,
        }],
        "availableUpdates": [release("4.19.0", "4"), release("4.18.2", "2")],
        "conditionalUpdates": [{
            "release": release("4.18.3", "3"),
            "risks": [{"name": "Leak", "message": "It leaks.", "url": "https://example.com/leak",
                       "matchingRules": [{"type": "Always"}]}],
            "conditions": [condition("Recommended", "False", "Leak", "It leaks. https://example.com/leak")],
        }],
        "conditions": [
            condition("Available", "True", "", "Done applying 4.18.1"),
            condition("Failing", "False", "", ""),
            condition("Progressing", "False", "", "Cluster version is 4.18.1"),
            condition("RetrievedUpdates", "True", "", ""),
            condition("Upgradeable", "False", "AdminAckRequired", "Kubernetes 1.32 removes APIs."),
        ],
    })
}

/// The ClusterVersion with its status, and the `ConfigMaps` of a gate and of no acknowledgment.
async fn install(hub: &Hub) {
    let map = |namespace: &str, name: &str, data: &Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
               "metadata": {"namespace": namespace, "name": name}, "data": data})
    };
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let objects = [
        namespace("openshift-config"),
        namespace("openshift-config-managed"),
        map(
            "openshift-config-managed",
            "admin-gates",
            &json!({GATE: "Kubernetes 1.32 removes APIs."}),
        ),
        map("openshift-config", "admin-acks", &json!({})),
        json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
            "spec": {"clusterID": "a93465d5-61b2-42cd-a10a-33840e6add93", "channel": "stable-4.18"},
        }),
    ];
    apply_objects(hub.client(), &objects).await.unwrap();
    let patch = json!({"status": status()});
    versions(hub)
        .patch_status("version", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

async fn install_crds(hub: &Hub) {
    let crds = openshift_crds(FeatureSet::Default).await.unwrap();
    apply_objects(hub.client(), &crds).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_cluster_shows_its_updates_its_gate_and_takes_requests() {
    let hub = Hub::builder().start().await.unwrap();
    install_crds(&hub).await;
    install(&hub).await;
    let admin = hub.kubeconfig_path().clone();

    let table = shown(&admin, &[]);
    for text in [
        "Version: 4.18.1",
        "Channel: stable-4.18",
        "Upgradeable=False",
        "Reason:  AdminAckRequired",
        &format!("{GATE}: Kubernetes 1.32 removes APIs."),
        "Recommended updates",
        "4.18.2",
        "1 more update is supported but not recommended",
    ] {
        assert!(table.contains(text), "{text}: {table}");
    }
    assert!(!table.contains("4.18.3"), "{table}");
    let all = shown(&admin, &["--include-not-recommended"]);
    assert!(
        all.contains("Version: 4.18.3") && all.contains("Risks:   Leak"),
        "{all}"
    );

    let read = |args: &[&str]| -> Value { serde_json::from_str(&shown(&admin, args)).unwrap() };
    let object = read(&["-o", "json"]);
    assert_eq!(object["recommended"][0]["version"], "4.19.0");
    assert_eq!(
        (
            &object["recommended"][0]["blocked"],
            &object["recommended"][1]["blocked"]
        ),
        (&json!(true), &json!(false))
    );
    assert_eq!(object.get("notRecommended"), None, "not asked for is not none");
    assert_eq!(object["gates"][0]["key"], GATE);
    let object = read(&["-o", "json", "--include-not-recommended"]);
    assert_eq!(object["notRecommended"][0]["reason"], "Leak");

    let acks = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "openshift-config", "name": "admin-acks"}, "data": {GATE: "true"}});
    apply_objects(hub.client(), &[acks]).await.unwrap();
    assert_eq!(
        read(&["-o", "json"])["gates"],
        json!([]),
        "an acknowledged gate is not asked for again"
    );
    let why = refused(&admin, &["--to", "4.18.2", "-o", "json"]);
    assert!(why.contains("has no effect with --to"), "{why}");
    let why = refused(&admin, &["-A"]);
    assert!(why.contains("has no namespace"), "{why}");

    let why = refused(&admin, &["--to", "4.18.3"]);
    assert!(
        why.contains("the update to 4.18.3 was not requested") && why.contains("--allow-not-recommended"),
        "{why}"
    );
    let why = refused(&admin, &["--to", "4.18.9"]);
    assert!(why.contains("4.18.9"), "{why}");
    assert_eq!(desired(&hub).await, Value::Null, "a refusal writes nothing");
    assert!(shown(&admin, &["--to", "4.18.2"]).contains("Requested update to 4.18.2"));
    assert_eq!(desired(&hub).await["version"], "4.18.2");
    shown(&admin, &["--to", "4.18.3", "--allow-not-recommended"]);
    let wanted = desired(&hub).await;
    assert_eq!(
        (&wanted["version"], &wanted["image"]),
        (&json!("4.18.3"), &json!(image("3")))
    );
    hub.stop().await.unwrap();
}

/// A user's kubeconfig in a file.
fn kubeconfig(hub: &Hub, user: &str) -> PathBuf {
    let path = hub.dir().join(format!("{user}.kubeconfig"));
    hub.kubeconfig_for_user(user).unwrap().write(&path).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_cannot_be_asked_says_why_and_what_to_do() {
    let hub = Hub::builder()
        .user("reader", &[])
        .user("nobody", &[])
        .start()
        .await
        .unwrap();
    let admin = hub.kubeconfig_path().clone();
    let why = refused(&admin, &[]);
    assert!(
        why.contains("is not an OpenShift cluster, because it has no ClusterVersions; choose another one with --context or --kubeconfig"),
        "{why}"
    );
    install_crds(&hub).await;
    let why = refused(&admin, &[]);
    assert!(
        why.contains("\"version\" not found") && why.contains("--context or --kubeconfig"),
        "{why}"
    );

    install(&hub).await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"},
        "rules": [{"apiGroups": ["config.openshift.io"], "resources": ["clusterversions"], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}],
    });
    apply_objects(hub.client(), &[role, binding]).await.unwrap();
    let (reader, nobody) = (kubeconfig(&hub, "reader"), kubeconfig(&hub, "nobody"));
    testenv::hub::wait_until(
        "the reader may read",
        std::time::Duration::from_mins(1),
        || async { Ok(updates(&reader, &[]).code == Some(0)) },
    )
    .await
    .unwrap();
    let table = shown(&reader, &[]);
    assert!(
        table.contains("Reason:  AdminAckRequired")
            && table.contains("Gates to acknowledge: unknown (ConfigMap admin-gates"),
        "{table}"
    );
    let why = refused(&reader, &["--to", "4.18.2"]);
    assert!(
        why.contains("(Forbidden)") && why.contains("may patch ClusterVersion version"),
        "{why}"
    );
    let why = refused(&nobody, &[]);
    assert!(
        why.contains("(Forbidden)") && why.contains("may get ClusterVersion version"),
        "{why}"
    );
    assert_eq!(desired(&hub).await, Value::Null);
    hub.stop().await.unwrap();
    // Port 1 of this machine: nobody listens.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("away.kubeconfig");
    let closed = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "away",
        "contexts": [{"name": "away", "context": {"cluster": "away", "user": "away"}}],
        "clusters": [{"name": "away", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "away", "user": {}}],
    });
    std::fs::write(&path, closed.to_string()).unwrap();
    let why = refused(&path, &[]);
    assert!(
        why.contains("Unable to connect to the server") && why.contains("--context or --kubeconfig"),
        "{why}"
    );
}
