//! The scheduler of the simulated hub beside OCM's placement controller: both get the same fleet, Placements and changes, and must
//! come to the same decisions and conditions.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::time::Duration;

use hub_sim::{Options, Service};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use testenv::fleet::{self, CLUSTER_SET_LABEL, ClusterSpec, FleetSpec};
use testenv::hub::wait_until;
use testenv::placement::{PLACEMENT_LABEL, PlacementSpec};
use testenv::{Controllers, Hub, apply, placement};

const GROUP: &str = "cluster.open-cluster-management.io";
const TEAM: &str = "team";
/// A namespace with no binding.
const STRANGERS: &str = "strangers";
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

fn api(client: &Client, kind: &str, version: &str, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, version, kind));
    if namespace.is_empty() {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, &resource)
    }
}

async fn patch(client: &Client, cluster: &str, change: &Value) {
    let clusters = fleet::managed_clusters(client);
    let params = PatchParams::default();
    clusters
        .patch(cluster, &params, &Patch::Merge(change))
        .await
        .unwrap();
}

/// Two bound sets, one that is not bound, and one that selects by a label.
async fn make_fleet(client: &Client) {
    let region = |name: &str| {
        if name.ends_with(['1', '3']) {
            "east"
        } else {
            "west"
        }
    };
    let described = |cluster: ClusterSpec| {
        let region = region(&cluster.name);
        let zone = if cluster.name.starts_with("red") { "a" } else { "b" };
        cluster.label("region", region).claim("zone", zone)
    };
    let set = |names: &[&str], set: &str| FleetSpec::named(names).in_set(set).each(described);
    let bound = set(&["red-1", "red-2", "red-3", "red-4", "red-5"], "red")
        .and(set(&["blue-1", "blue-2", "blue-3"], "blue"))
        .bound_in(TEAM);
    let all = bound.and(set(&["far-1", "far-2"], "far"));
    fleet::create(client, &all).await.unwrap();
    let by_label = json!({
        "apiVersion": format!("{GROUP}/v1beta2"), "kind": "ManagedClusterSet", "metadata": {"name": "west"},
        "spec": {"clusterSelector": {
            "selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"region": "west"}},
        }},
    });
    let strangers = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": STRANGERS}});
    let binding = fleet::binding(TEAM, "west");
    apply::apply_objects(client, &[by_label, strangers, binding])
        .await
        .unwrap();
    for (cluster, effect) in [
        ("red-1", "NoSelect"),
        ("red-2", "NoSelectIfNew"),
        ("red-3", "PreferNoSelect"),
    ] {
        let taint = json!({"key": "gpu", "value": "yes", "effect": effect});
        patch(client, cluster, &json!({"spec": {"taints": [taint]}})).await;
    }
}

/// Placements by name, and what they say.
fn placements() -> Vec<(&'static str, Value)> {
    let by = |selector: Value| json!([{"requiredClusterSelector": selector}]);
    let labels = |region: &str| json!({"labelSelector": {"matchLabels": {"region": region}}});
    let expression = |key: &str, operator: &str, values: &[&str]| {
        let expression = json!({"key": key, "operator": operator, "values": values});
        json!({"labelSelector": {"matchExpressions": [expression]}})
    };
    let tolerate = |toleration: Value| json!({"clusterSets": ["red"], "tolerations": [toleration]});
    let canaries = json!({"groupName": "canaries", "groupClusterSelector": labels("east")});
    let nobody = json!({"groupName": "nobody", "groupClusterSelector": labels("north")});
    let groups = |groups: Value, size: Value| json!({"decisionStrategy": {"groupStrategy": {"decisionGroups": groups, "clustersPerDecisionGroup": size}}});
    vec![
        ("all", json!({})),
        ("red", json!({"clusterSets": ["red"]})),
        ("west-set", json!({"clusterSets": ["west"]})),
        ("two-sets", json!({"clusterSets": ["blue", "west", "far"]})),
        ("not-bound", json!({"clusterSets": ["far"]})),
        ("no-set", json!({"clusterSets": ["missing"]})),
        ("east", json!({"predicates": by(labels("east"))})),
        (
            "either",
            json!({"predicates": [
                {"requiredClusterSelector": labels("east")},
                {"requiredClusterSelector": {"claimSelector": {"matchExpressions": [
                    {"key": "zone", "operator": "In", "values": ["b"]},
                ]}}},
            ]}),
        ),
        (
            "both",
            json!({"predicates": by(json!({
                "labelSelector": {"matchLabels": {"region": "east"}},
                "claimSelector": {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["b"]}]},
            }))}),
        ),
        (
            "not-in",
            json!({"predicates": by(expression("region", "NotIn", &["east"]))}),
        ),
        (
            "exists",
            json!({"predicates": by(expression("wave", "Exists", &[]))}),
        ),
        (
            "missing",
            json!({"predicates": by(expression("wave", "DoesNotExist", &[]))}),
        ),
        ("nothing", json!({"predicates": by(labels("north"))})),
        ("equal", tolerate(json!({"key": "gpu", "value": "yes"}))),
        ("other-value", tolerate(json!({"key": "gpu", "value": "no"}))),
        ("any-value", tolerate(json!({"key": "gpu", "operator": "Exists"}))),
        ("any-key", tolerate(json!({"operator": "Exists"}))),
        (
            "one-effect",
            tolerate(json!({"key": "gpu", "operator": "Exists", "effect": "NoSelectIfNew"})),
        ),
        ("no-key", tolerate(json!({"value": "yes"}))),
        (
            "value-and-exists",
            tolerate(json!({"key": "gpu", "operator": "Exists", "value": "yes"})),
        ),
        ("groups", groups(json!([canaries, nobody]), json!("30%"))),
        ("pairs", groups(json!([]), json!(2))),
    ]
}

async fn place(client: &Client, namespace: &str, name: &str, spec: &Value) {
    let object = json!({
        "apiVersion": format!("{GROUP}/v1beta1"), "kind": "Placement",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    });
    apply::apply_objects(client, &[object]).await.unwrap();
}

/// The changes, one after the other.
async fn change(client: &Client, step: usize) {
    let label = |name: &str, value: Value| json!({"metadata": {"labels": {name: value}}});
    match step {
        0 => {
            patch(client, "blue-2", &label("wave", json!("1"))).await;
            patch(client, "red-4", &label("region", json!("east"))).await;
        }
        // A set is left, another one joined.
        1 => {
            patch(client, "red-5", &label(CLUSTER_SET_LABEL, json!("blue"))).await;
            patch(client, "blue-3", &label(CLUSTER_SET_LABEL, Value::Null)).await;
        }
        // Selected clusters stay with one effect and leave with the other.
        2 => {
            for (cluster, effect) in [("blue-1", "NoSelectIfNew"), ("red-5", "NoSelect")] {
                let taint = json!({"key": "broken", "effect": effect});
                patch(client, cluster, &json!({"spec": {"taints": [taint]}})).await;
            }
        }
        3 => {
            let bindings = api(client, "ManagedClusterSetBinding", "v1beta2", TEAM);
            bindings.delete("blue", &DeleteParams::default()).await.unwrap();
        }
        4 => fleet::delete_cluster(client, "red-2").await.unwrap(),
        _ => {
            let sets = api(client, "ManagedClusterSet", "v1beta2", "");
            sets.delete("red", &DeleteParams::default()).await.unwrap();
        }
    }
}

/// Decisions with their groups, and what the Placement says of them, by Placement.
async fn outcome(client: &Client) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for namespace in [TEAM, STRANGERS] {
        let placements = api(client, "Placement", "v1beta1", namespace);
        let decisions = api(client, "PlacementDecision", "v1beta1", namespace);
        for placement in placements.list(&ListParams::default()).await.unwrap() {
            let name = placement.name_any();
            let of_it = ListParams::default().labels(&format!("{PLACEMENT_LABEL}={name}"));
            let decided: Vec<Value> = decisions.list(&of_it).await.unwrap().iter().map(told).collect();
            let status = &placement.data["status"];
            let conditions: BTreeMap<&str, [&Value; 2]> = status["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| (one["type"].as_str().unwrap(), [&one["status"], &one["reason"]]))
                .collect();
            // The real controller leaves a number out that was never above zero.
            let selected = status["numberOfSelectedClusters"].as_u64().unwrap_or(0);
            let told = json!({
                "decisions": decided, "conditions": conditions, "groups": status["decisionGroups"],
                "selected": selected,
            });
            found.insert(format!("{namespace}/{name}"), told);
        }
    }
    found
}

/// Of a decision, what does not differ from run to run.
fn told(decision: &DynamicObject) -> Value {
    let owners: Vec<String> = decision
        .owner_references()
        .iter()
        .map(|owner| owner.name.clone())
        .collect();
    let clusters: Vec<&Value> = decision.data["status"]["decisions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| &one["clusterName"])
        .collect();
    json!({"name": decision.name_any(), "labels": decision.labels(), "owners": owners, "clusters": clusters})
}

/// Waits until both hubs have decided the newest Placement and all others in the same way.
async fn equal(real: &Client, simulated: &Client, newest: &str) -> BTreeMap<String, Value> {
    let newest = format!("{TEAM}/{newest}");
    let is_decided =
        |all: &BTreeMap<String, Value>| all[&newest]["conditions"]["PlacementSatisfied"].is_array();
    let waited = wait_until("equal decisions", WAIT_TIMEOUT, || async {
        let (real, simulated) = (outcome(real).await, outcome(simulated).await);
        Ok(is_decided(&real) && is_decided(&simulated) && real == simulated)
    });
    if waited.await.is_err() {
        let (real, simulated) = (outcome(real).await, outcome(simulated).await);
        for (name, expected) in &real {
            let found = &simulated[name];
            assert_eq!(found, expected, "{name}: simulated, real");
        }
    }
    outcome(simulated).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn placements_are_decided_as_by_the_placement_controller() {
    let real_hub = Hub::builder()
        .controller_manager(Controllers::collectors())
        .placement()
        .start()
        .await
        .unwrap();
    let simulated_hub = hub_sim::Hub::new(Options::default());
    tokio::spawn(simulated_hub.clone().keep_collecting_garbage());
    tokio::spawn(simulated_hub.clone().keep_deciding_placements());
    let real = real_hub.client().clone();
    let simulated = Client::new(Service::new(&simulated_hub, "admin"), "default");
    for client in [&real, &simulated] {
        make_fleet(client).await;
        for (name, spec) in placements() {
            place(client, TEAM, name, &spec).await;
        }
        place(client, STRANGERS, "strange", &json!({})).await;
        let written = PlacementSpec::of_sets(&["red"]).matching("region", "east");
        placement::write(client, TEAM, "written", &written).await.unwrap();
    }
    let mut before = equal(&real, &simulated, "written").await;
    assert_eq!(before["team/east"]["selected"], 3, "{}", before["team/east"]);
    for step in 0..6 {
        let newest = format!("step-{step}");
        for client in [&real, &simulated] {
            change(client, step).await;
            place(client, TEAM, &newest, &json!({})).await;
        }
        let mut after = equal(&real, &simulated, &newest).await;
        after.remove(&format!("{TEAM}/{newest}"));
        before.retain(|name, _| after.contains_key(name));
        assert_ne!(before, after, "step {step} changes no decision");
        before = after;
    }
    real_hub.stop().await.unwrap();
}
