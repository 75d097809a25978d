//! `kubectl mcu rehearse` on a real API server, as a user who may only list: every command of the guide runs, and names the
//! clusters in the controller's order.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

mod outcome;

use std::path::Path;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};
use testenv::Hub;
use testenv::apply::{apply_objects, parse_yaml};

use self::outcome::Outcome;

const USER: &str = "rita";
const CLUSTERS: [&str; 4] = ["edge-3", "edge-1", "edge-4", "edge-2"];

fn group(kind: &str, version: &str) -> String {
    format!("cluster.open-cluster-management.io/{version} {kind}")
}

/// Objects of the hub: four clusters in a bound set, the last of which is not available, and an upgrade of all of them.
fn objects() -> Vec<Value> {
    let object = |kind: &str, metadata: Value, spec: Value| {
        let (api_version, kind) = kind.split_once(' ').unwrap();
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "upgrades"}});
    let clusters = CLUSTERS.map(|name| {
        let labels = json!({"env": "prod", "cluster.open-cluster-management.io/clusterset": "fleet"});
        object(
            &group("ManagedCluster", "v1"),
            json!({"name": name, "labels": labels}),
            json!({"hubAcceptsClient": true}),
        )
    });
    let set = object(
        &group("ManagedClusterSet", "v1beta2"),
        json!({"name": "fleet"}),
        json!({}),
    );
    let binding = object(
        &group("ManagedClusterSetBinding", "v1beta2"),
        json!({"name": "fleet", "namespace": "upgrades"}),
        json!({"clusterSet": "fleet"}),
    );
    let spring = object(
        &group("ManagedClustersUpgrade", "v1beta1"),
        json!({"name": "spring", "namespace": "upgrades"}),
        json!({
            "clusterSelector": {"matchLabels": {"env": "prod"}},
            "clusterVersion": {"channel": "stable-4.14", "version": "4.14.12"},
            "upgradeStrategy": {
                "maxConcurrency": 2,
                "canaryClusters": {"clusterSelector": {"matchLabels": {"name": "edge-4"}}},
            },
        }),
    );
    let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}]);
    let rights = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "rehearsers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "mcu-rehearser"},
        "subjects": subjects,
    });
    [namespace, set]
        .into_iter()
        .chain(clusters)
        .chain([binding, spring, rights])
        .collect()
}

async fn install(hub: &Hub) {
    let crds = api::schema::crds()
        .into_iter()
        .map(|crd| serde_json::to_value(crd).unwrap());
    let objects: Vec<Value> = crds.chain(objects()).collect();
    apply_objects(hub.client(), &objects).await.unwrap();
    let kind = GroupVersionKind::gvk("cluster.open-cluster-management.io", "v1", "ManagedCluster");
    let clusters: Api<DynamicObject> = Api::all_with(hub.client().clone(), &ApiResource::from_gvk(&kind));
    for (number, name) in CLUSTERS.iter().enumerate() {
        let available = if *name == "edge-3" { "Unknown" } else { "True" };
        let status = json!({"status": {
            "clusterClaims": [
                {"name": "id.openshift.io", "value": format!("00000000-0000-4000-8000-{number:012}")},
                {"name": "product.open-cluster-management.io", "value": "OpenShift"},
                {"name": "version.openshift.io", "value": "4.14.9"},
            ],
            "conditions": [{
                "type": "ManagedClusterConditionAvailable", "status": available, "reason": "Reported", "message": "",
                "lastTransitionTime": "2026-05-01T10:00:00Z",
            }],
        }});
        let params = PatchParams::default();
        clusters
            .patch_status(name, &params, &Patch::Merge(&status))
            .await
            .unwrap();
    }
}

/// Runs `kubectl mcu` with these arguments in a directory, as the user.
fn run(kubeconfig: &Path, directory: &Path, args: &[&str]) -> Outcome {
    Outcome::of(args, |command| {
        command
            .current_dir(directory)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--as", USER])
    })
}

/// The commands of the guide, without `kubectl mcu`.
fn guide() -> Vec<String> {
    let page = std::fs::read_to_string(repository::root().join("docs/guide/rehearse.md")).unwrap();
    let blocks = page.split("```sh\n").skip(1);
    let lines = blocks.flat_map(|block| block.split("```").next().unwrap_or_default().lines());
    lines
        .map(|line| line.strip_prefix("kubectl mcu ").unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_guide_run_with_the_right_to_list_alone() {
    let hub = Hub::builder().ocm_crds().start().await.unwrap();
    install(&hub).await;
    let (admin, directory) = (hub.kubeconfig_path().clone(), tempfile::tempdir().unwrap());
    let kubectl = |args: &[&str]| run(&admin, directory.path(), args);

    let forbidden = kubectl(&["rehearse", "spring", "-n", "upgrades"]);
    assert_eq!(
        (forbidden.code, forbidden.out.as_str()),
        (Some(1), ""),
        "{forbidden:?}"
    );
    for right in [
        "* list managedclusters.cluster.open-cluster-management.io in all namespaces",
        "* list manifestworks.work.open-cluster-management.io in all namespaces",
        "ClusterRole mcu-rehearser",
    ] {
        assert!(forbidden.err.contains(right), "{right}: {}", forbidden.err);
    }

    let roles = std::fs::read_to_string(repository::root().join("deploy/user-roles.yaml")).unwrap();
    apply_objects(hub.client(), &parse_yaml(&roles).unwrap())
        .await
        .unwrap();
    let order = || kubectl(&["rehearse", "spring", "-n", "upgrades", "-o", "name"]);
    let granted = || async { Ok(order().code != Some(1)) };
    testenv::hub::wait_until("the right to list", std::time::Duration::from_mins(1), granted)
        .await
        .unwrap();
    let shown = order();
    assert_eq!(
        shown.out, "edge-4\nedge-1\nedge-2\n",
        "the canary first, then by name: {shown:?}"
    );
    assert_eq!(shown.code, Some(3), "edge-3 is not available");

    let winter = std::fs::read_to_string(repository::data::sample("rehearsal").join("winter.yaml")).unwrap();
    let winter = winter.replace("canary-1, canary-2, edge-01", "edge-1");
    std::fs::write(directory.path().join("winter.yaml"), winter).unwrap();
    let commands = guide();
    assert!(commands.len() >= 6, "{commands:?}");
    for command in &commands {
        let outcome = kubectl(&command.split(' ').collect::<Vec<_>>());
        assert!(matches!(outcome.code, Some(0 | 3)), "{command}: {outcome:?}");
        assert!(outcome.err.is_empty(), "{command}: {}", outcome.err);
    }

    let live = kubectl(&["rehearse", "-f", "winter.yaml", "-o", "json"]);
    let live: Value = serde_json::from_str(&live.out).unwrap();
    assert_eq!(
        live["causes"][0]["reason"], "Conflict",
        "spring is older and selects edge-1: {live:#}"
    );
    assert_eq!(live["starts"], json!([]));
    let saved = kubectl(&["rehearse", "spring", "--from", "hub-of-today", "-o", "name"]);
    assert_eq!(saved.out, shown.out);
}
