use super::*;
use crate::Options;

const TEAM: &str = "team";

/// A hub with a set that is bound in the namespace of the Placements.
fn hub() -> Hub {
    let hub = Hub::new(Options::default());
    for name in [TEAM, "strangers"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        hub.create("", "namespaces", &namespace).unwrap();
    }
    put(
        &hub,
        "managedclustersets",
        ("v1beta2", "ManagedClusterSet"),
        "",
        "fleet",
        &json!({}),
    );
    let spec = json!({"clusterSet": "fleet"});
    put(
        &hub,
        "managedclustersetbindings",
        ("v1beta2", "ManagedClusterSetBinding"),
        TEAM,
        "fleet",
        &spec,
    );
    hub
}

fn put(hub: &Hub, plural: &str, (version, kind): (&str, &str), namespace: &str, name: &str, spec: &Value) {
    let object = json!({
        "apiVersion": format!("{GROUP}/{version}"), "kind": kind, "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    });
    hub.create(GROUP, plural, &object).unwrap();
}

fn change(hub: &Hub, of: (&str, &str), at: &str, change: &Value) {
    let now = hub.now_text();
    hub.change(|state| patch(state, of, &Key::from(at), &now, change));
}

fn set_available(hub: &Hub, name: &str, status: &str) {
    let condition = json!({
        "type": "ManagedClusterConditionAvailable", "status": status, "reason": "Test", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({"status": {"conditions": [condition]}});
    change(hub, ("managedclusters", "status"), name, &status);
}

fn add_cluster(hub: &Hub, name: &str) {
    put(
        hub,
        "managedclusters",
        ("v1", "ManagedCluster"),
        "",
        name,
        &json!({}),
    );
    let labels = json!({"cluster.open-cluster-management.io/clusterset": "fleet"});
    change(
        hub,
        ("managedclusters", ""),
        name,
        &json!({"metadata": {"labels": labels}}),
    );
    set_available(hub, name, "True");
}

fn add_placement(hub: &Hub, name: &str, spec: &Value) {
    put(hub, "placements", ("v1beta1", "Placement"), TEAM, name, spec);
}

/// Name of the group and clusters of each decision.
fn decisions(hub: &Hub, placement: &str) -> Vec<(String, Vec<String>)> {
    hub.decide_placements();
    hub.read(|state| {
        objects(state, "placementdecisions")
            .filter(|decision| decision.label(PLACEMENT_LABEL) == Some(placement))
            .map(|decision| {
                let group = decision.label(GROUP_NAME_LABEL).unwrap_or_default();
                (group.to_owned(), clusters_of(&decision.value()))
            })
            .collect()
    })
}

fn selected(hub: &Hub, placement: &str) -> Vec<String> {
    decisions(hub, placement)
        .into_iter()
        .flat_map(|(_, clusters)| clusters)
        .collect()
}

/// The reason of a condition of a Placement.
fn reason(hub: &Hub, placement: &str, condition: &str) -> String {
    hub.read(|state| {
        let placement = objects(state, "placements").find(|object| object.name() == placement);
        let value = placement.unwrap().value();
        let found = items(&value["status"], "conditions").iter();
        let mut found = found.filter(|found| text(found, "type") == condition);
        text(found.next().unwrap(), "reason").to_owned()
    })
}

#[test]
fn a_cluster_is_selected_while_its_labels_match_and_its_set_is_bound() {
    let hub = hub();
    for name in ["a", "b"] {
        add_cluster(&hub, name);
    }
    let predicate = json!({"requiredClusterSelector": {"labelSelector": {"matchLabels": {"wave": "1"}}}});
    add_placement(&hub, "wave", &json!({"predicates": [predicate]}));
    assert_eq!(decisions(&hub, "wave"), [(String::new(), vec![])]);
    assert_eq!(
        reason(&hub, "wave", "PlacementSatisfied"),
        "NoManagedClusterMatched"
    );
    change(
        &hub,
        ("managedclusters", ""),
        "b",
        &json!({"metadata": {"labels": {"wave": "1"}}}),
    );
    assert_eq!(selected(&hub, "wave"), ["b"]);
    assert_eq!(
        reason(&hub, "wave", "PlacementSatisfied"),
        "AllDecisionsScheduled"
    );
    let now = hub.now_text();
    hub.change(|state| {
        let binding = Key::from("team/fleet");
        write(
            state,
            ("managedclustersetbindings", ""),
            &binding,
            &now,
            |writer| {
                writer.delete(&DeleteOptions::default()).unwrap();
            },
        );
    });
    assert_eq!(selected(&hub, "wave"), [""; 0]);
    assert_eq!(
        reason(&hub, "wave", "PlacementSatisfied"),
        "NoManagedClusterSetBindings"
    );
}

#[test]
fn a_cluster_that_is_not_reached_is_tainted_and_leaves_unless_that_is_tolerated() {
    let hub = hub();
    add_cluster(&hub, "a");
    add_placement(&hub, "strict", &json!({}));
    let toleration = json!({"key": UNREACHABLE, "operator": "Exists"});
    add_placement(&hub, "patient", &json!({"tolerations": [toleration]}));
    assert_eq!(selected(&hub, "strict"), ["a"]);
    for (status, patient) in [("Unknown", true), ("False", false)] {
        set_available(&hub, "a", status);
        assert_eq!(selected(&hub, "strict"), [""; 0], "{status}");
        assert_eq!(!selected(&hub, "patient").is_empty(), patient, "{status}");
    }
    set_available(&hub, "a", "True");
    assert_eq!(selected(&hub, "strict"), ["a"]);
    let taints = hub.read(|state| Cluster::of(objects(state, "managedclusters").next().unwrap()).taints);
    assert_eq!(taints, Vec::<Value>::new());
}

#[test]
fn a_decision_has_at_most_a_hundred_clusters_and_goes_when_it_is_not_needed() {
    let hub = hub();
    let names: Vec<String> = (0..150).map(|number| format!("c{number:03}")).collect();
    for name in &names {
        add_cluster(&hub, name);
    }
    add_placement(&hub, "all", &json!({"clusterSets": ["fleet"]}));
    let sizes = |hub: &Hub| -> Vec<usize> {
        let decisions = decisions(hub, "all");
        decisions.iter().map(|(_, clusters)| clusters.len()).collect()
    };
    assert_eq!(sizes(&hub), [100, 50]);
    assert_eq!(selected(&hub, "all"), names);
    for name in &names[..60] {
        let label = json!({"metadata": {"labels": {"cluster.open-cluster-management.io/clusterset": null}}});
        change(&hub, ("managedclusters", ""), name, &label);
    }
    assert_eq!(sizes(&hub), [90]);
}

#[test]
fn named_groups_come_first_and_all_are_divided_by_size() {
    let hub = hub();
    for name in ["a", "b", "c", "d", "e"] {
        add_cluster(&hub, name);
    }
    change(
        &hub,
        ("managedclusters", ""),
        "d",
        &json!({"metadata": {"labels": {"canary": "true"}}}),
    );
    let canary = json!({
        "groupName": "canaries", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}},
    });
    let strategy = json!({"groupStrategy": {"decisionGroups": [canary], "clustersPerDecisionGroup": "40%"}});
    add_placement(&hub, "waves", &json!({"decisionStrategy": strategy}));
    let group = |name: &str, clusters: &[&str]| {
        (
            name.to_owned(),
            clusters.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(),
        )
    };
    assert_eq!(
        decisions(&hub, "waves"),
        [
            group("canaries", &["d"]),
            group("", &["a", "b"]),
            group("", &["c", "e"])
        ]
    );
}

#[test]
fn a_placement_with_a_field_that_is_not_played_is_misconfigured_and_selects_nothing() {
    let hub = hub();
    add_cluster(&hub, "a");
    add_placement(&hub, "some", &json!({"numberOfClusters": 1}));
    assert_eq!(selected(&hub, "some"), [""; 0]);
    assert_eq!(reason(&hub, "some", "PlacementMisconfigured"), "Misconfigured");
}

#[test]
fn what_is_decided_already_is_not_written_again() {
    let hub = hub();
    add_cluster(&hub, "a");
    add_placement(&hub, "all", &json!({}));
    hub.decide_placements();
    let revision = hub.read(State::revision);
    hub.decide_placements();
    assert_eq!(hub.read(State::revision), revision);
}

#[test]
fn a_placement_that_somebody_else_decides_is_left_alone() {
    let hub = hub();
    add_cluster(&hub, "a");
    let object = json!({
        "apiVersion": format!("{GROUP}/v1beta1"), "kind": "Placement",
        "metadata": {"name": "hand", "namespace": TEAM, "annotations": {DISABLED: "true"}}, "spec": {},
    });
    hub.create(GROUP, "placements", &object).unwrap();
    assert_eq!(decisions(&hub, "hand"), []);
}

#[tokio::test]
async fn the_task_follows_what_is_written() {
    let hub = hub();
    let task = tokio::spawn(hub.clone().keep_deciding_placements());
    let mut news = hub.subscribe();
    add_placement(&hub, "all", &json!({}));
    add_cluster(&hub, "a");
    let has_it = |state: &State| {
        let mut decisions = objects(state, "placementdecisions");
        decisions.any(|decision| clusters_of(&decision.value()) == ["a"])
    };
    while !hub.read(has_it) {
        news.changed().await;
    }
    task.abort();
}
