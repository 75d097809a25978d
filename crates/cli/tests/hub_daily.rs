//! The commands of daily work on a real API server: what they read and create, and what they say to users without rights.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

mod outcome;

use std::time::Duration;

use serde_json::{Value, json};
use testenv::Hub;
use testenv::apply::apply_objects;

use self::outcome::Outcome;

/// Runs the plugin as the administrator of the hub, or with flags that impersonate another user.
fn run(hub: &Hub, args: &[&str]) -> Outcome {
    let kubeconfig = hub.kubeconfig_path().clone();
    Outcome::of(args, |command| {
        command.args(["-n", "upgrades", "--kubeconfig"]).arg(kubeconfig)
    })
}

fn shown(hub: &Hub, args: &[&str]) -> String {
    let outcome = run(hub, args);
    assert_eq!(outcome.code, Some(0), "{args:?}: {outcome:?}");
    outcome.out
}

fn cluster(name: &str, region: &str) -> Value {
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": name, "labels": {"region": region}}, "spec": {"hubAcceptsClient": true},
    })
}

fn report(uid: &str) -> Value {
    let row = |cluster: &str, phase: &str, reason: &str, since: &str| {
        json!({
            "cluster": cluster, "phase": phase, "reason": reason, "message": format!("about {cluster}"),
            "since": since, "revision": "r1", "fromVersion": "4.17.30", "toVersion": "4.18.20",
        })
    };
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgradeReport",
        "metadata": {
            "name": "spring-report-1", "namespace": "upgrades",
            "labels": {"cluster.open-cluster-management.io/managedclustersupgrade": "spring"},
            "ownerReferences": [{"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
                "name": "spring", "uid": uid, "controller": true}],
        },
        "rows": [
            row("edge-1", "Failed", "ClusterUpgradeTimeout", "2026-03-01T12:00:00Z"),
            row("edge-2", "Blocked", "ManagedService", "2026-03-01T10:00:00Z"),
            row("edge-3", "Pending", "WaitingForSlot", "2026-03-01T11:00:00Z"),
        ],
    })
}

async fn start() -> Hub {
    let hub = Hub::builder().ocm_crds().start().await.unwrap();
    let crds = api::schema::crds()
        .into_iter()
        .map(|crd| serde_json::to_value(crd).unwrap());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "upgrades"}});
    let objects = [
        namespace,
        cluster("edge-1", "eu"),
        cluster("edge-2", "us"),
        cluster("edge-3", "eu"),
    ];
    let objects: Vec<Value> = crds.chain(objects).collect();
    apply_objects(hub.client(), &objects).await.unwrap();
    hub
}

const CREATE: [&str; 9] = [
    "create",
    "spring",
    "--set",
    "prod",
    "--to",
    "4.18.20",
    "--canary",
    "canary=true",
    "--paused",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_is_created_and_its_clusters_are_found_by_cause_label_and_field() {
    let hub = start().await;
    let dry = shown(&hub, &[&CREATE[..], &["--dry-run"]].concat());
    assert!(dry.contains("namespace: upgrades"), "{dry}");
    assert!(!dry.contains("uid:"), "{dry}");
    let tried = shown(&hub, &[&CREATE[..], &["--dry-run=server"]].concat());
    assert!(tried.contains("namespace: upgrades"), "{tried}");
    assert!(tried.contains("uid:"), "only the API server gives a UID: {tried}");
    assert_eq!(
        run(&hub, &["status", "spring"]).code,
        Some(1),
        "nothing was created"
    );
    let created = shown(&hub, &CREATE);
    assert_eq!(
        created,
        "managedclustersupgrade.cluster.open-cluster-management.io/spring created\n"
    );
    let again = run(&hub, &CREATE);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("AlreadyExists"), "{}", again.err);
    let tried = run(&hub, &[&CREATE[..], &["--dry-run=server"]].concat());
    assert!(
        tried.code == Some(1) && tried.err.contains("AlreadyExists"),
        "{tried:?}"
    );

    let uid = shown(&hub, &["status", "spring", "-o", "jsonpath={.metadata.uid}"]);
    apply_objects(hub.client(), &[report(uid.trim())]).await.unwrap();
    let clusters = |args: &[&str]| shown(&hub, &[&["clusters", "spring"], args].concat());
    assert_eq!(clusters(&["-l", "region=eu", "-o", "name"]), "edge-1\nedge-3\n");
    assert_eq!(
        clusters(&["--reason", "managedservice", "-o", "name"]),
        "edge-2\n"
    );
    assert_eq!(
        clusters(&["--sort-by", ".since", "-o", "jsonpath={.items[*].cluster}"]),
        "edge-2 edge-3 edge-1"
    );
    assert_eq!(
        clusters(&["-o", "custom-columns=NAME:.cluster,PHASE:.phase", "--no-headers"]),
        "edge-1   Failed\nedge-2   Blocked\nedge-3   Pending\n"
    );
    let columns = ["-o", "custom-columns=NAME:.metadata.name", "--no-headers"];
    let one = shown(&hub, &[&["status", "spring"][..], &columns].concat());
    assert_eq!(one, "spring\n");
    let causes = shown(&hub, &["causes", "spring", "-o", "name"]);
    assert_eq!(causes, "ClusterUpgradeTimeout\nManagedService\nWaitingForSlot\n");
    assert_eq!(
        shown(&hub, &["cluster", "edge-2", "-o", "name"]),
        "upgrades/spring\n"
    );
    let missing = run(&hub, &["cluster", "edge-9", "-o", "json"]);
    assert_eq!((missing.code, missing.out.as_str()), (Some(1), ""), "{missing:?}");
    assert!(
        missing.err.contains("there is no ManagedCluster \"edge-9\""),
        "{}",
        missing.err
    );
    let csv = shown(&hub, &["export", "spring", "-o", "csv"]);
    assert!(
        csv.contains("upgrades,spring,4.18.20,edge-1,Failed,false,false,ClusterUpgradeTimeout,about edge-1"),
        "{csv}"
    );
    assert!(shown(&hub, &["history"]).contains("spring   4.18.20"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_read_reports_alone_sees_the_upgrades_of_a_cluster() {
    let hub = start().await;
    let (group, metadata) = (
        "rbac.authorization.k8s.io",
        json!({"name": "reports", "namespace": "upgrades"}),
    );
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata,
        "rules": [{
            "apiGroups": ["cluster.open-cluster-management.io"], "resources": ["managedclustersupgradereports"],
            "verbs": ["get", "list"],
        }],
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "reports"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "reader"}],
    });
    let objects = [role, binding, report("u1")];
    apply_objects(hub.client(), &objects).await.unwrap();
    let asked = || run(&hub, &["cluster", "edge-2", "--as", "reader"]);
    let mut read = asked();
    // It takes the API server a moment to heed a new binding.
    for _ in 0..100 {
        if read.code == Some(0) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        read = asked();
    }
    assert_eq!(read.code, Some(0), "{read:?}");
    assert!(read.out.contains("ManagedService"), "{}", read.out);
    assert!(
        read.err.contains("Warning: managedclusters") && read.err.contains("forbidden"),
        "{}",
        read.err
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_without_a_controller_is_ready_for_it_and_says_that_it_is_missing() {
    let hub = start().await;
    let before = run(&hub, &["check", "--pre"]);
    assert_eq!(before.code, Some(0), "{before:?}");
    assert!(
        before.out.contains("You may create customresourcedefinitions"),
        "{}",
        before.out
    );
    let after = run(&hub, &["check", "-o", "json"]);
    assert_eq!(after.code, Some(1));
    let read: Value = serde_json::from_str(&after.out).unwrap();
    let failed: Vec<&str> = read["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["level"] == "failed")
        .map(|check| check["category"].as_str().unwrap())
        .collect();
    assert_eq!(failed, ["admission", "controller", "controller"], "{read:#}");
    let has_all_fields = |check: &Value| {
        check["message"]
            .as_str()
            .unwrap()
            .ends_with("has all fields of this release")
    };
    let crds = read["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| has_all_fields(check));
    assert_eq!(crds.count(), 3, "{read:#}");
    let version = shown(&hub, &["version"]);
    assert!(version.contains("has no Deployment mcu-controller"), "{version}");
    let nobody = run(&hub, &["check", "--as", "nobody"]);
    assert!(
        nobody.out.contains("cannot be read") && nobody.out.contains("Run this as a user who may read it."),
        "{}",
        nobody.out
    );
}
