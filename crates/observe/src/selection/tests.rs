use api::views::ManagedCluster;
use serde_json::{Value, json};

use super::*;
use crate::index::{Change, Index};

/// A hub as selections see it. The upgrade is in namespace `ns`.
#[derive(Default)]
struct Hub(Index);

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Change<T> {
    Change::Applied(serde_json::from_value(value).unwrap())
}

impl Hub {
    fn cluster(mut self, name: &str, labels: &Value) -> Hub {
        let cluster =
            json!({"metadata": {"name": name, "labels": labels}, "spec": {"hubAcceptsClient": true}});
        self.0.cluster(&read::<ManagedCluster>(cluster));
        self
    }

    /// Adds a cluster to a set by the exclusive label.
    fn member(self, name: &str, set: &str) -> Hub {
        self.cluster(name, &json!({LABEL_CLUSTER_SET: set}))
    }

    fn odd(mut self, name: &str, deleted: Option<&str>, accepted: bool) -> Hub {
        self.0.cluster(&read(json!({
            "metadata": {"name": name, "deletionTimestamp": deleted, "labels": {LABEL_CLUSTER_SET: "dev"}},
            "spec": {"hubAcceptsClient": accepted},
        })));
        self
    }

    fn set(mut self, name: &str, selector: &Value) -> Hub {
        self.0.set(&read(
            json!({"metadata": {"name": name}, "spec": {"clusterSelector": selector}}),
        ));
        self
    }

    /// Adds a set with the exclusive label that is bound in `ns`.
    fn bound(self, set: &str) -> Hub {
        self.set(set, &json!({"selectorType": "ExclusiveClusterSetLabel"}))
            .bind("ns", set, None)
    }

    fn bind(mut self, namespace: &str, set: &str, bound: Option<&str>) -> Hub {
        let status = bound.map(|status| json!({"conditions": [{"type": "Bound", "status": status}]}));
        self.0.binding(&read(json!({
            "metadata": {"name": set, "namespace": namespace},
            "spec": {"clusterSet": set},
            "status": status,
        })));
        self
    }

    fn placement(self, namespace: &str, name: &str) -> Hub {
        self.placement_of(namespace, name, &[])
    }

    /// Adds a Placement that decides from these sets.
    fn placement_of(mut self, namespace: &str, name: &str, sets: &[&str]) -> Hub {
        self.0.placement(&read(json!({
            "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{namespace}-{name}")},
            "spec": {"clusterSets": sets},
        })));
        self
    }

    /// Adds a decision like OCM's placement controller.
    fn decision(self, namespace: &str, placement: &str, number: usize, clusters: &[&str]) -> Hub {
        let owner = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
            "name": placement, "uid": format!("uid-{namespace}-{placement}"),
        });
        self.owned_decision(namespace, placement, number, clusters, &[owner])
    }

    fn owned_decision(
        mut self,
        namespace: &str,
        placement: &str,
        number: usize,
        clusters: &[&str],
        owners: &[Value],
    ) -> Hub {
        let decisions: Vec<Value> = clusters
            .iter()
            .map(|cluster| json!({"clusterName": cluster, "reason": ""}))
            .collect();
        self.0.decision(&read(json!({
            "metadata": {"name": format!("{placement}-decision-{number}"), "namespace": namespace,
                "labels": {"cluster.open-cluster-management.io/placement": placement},
                "ownerReferences": owners},
            "status": {"decisions": decisions},
        })));
        self
    }

    fn select_with(&self, spec: Value, require_bindings: bool) -> Selected {
        let spec: ManagedClustersUpgradeSpec = serde_json::from_value(spec).unwrap();
        select(
            &spec,
            "ns",
            &self.0.clusters,
            &self.0.placements,
            require_bindings,
        )
    }

    fn select(&self, spec: Value) -> Selected {
        self.select_with(spec, true)
    }
}

fn names(selected: &Selected) -> Vec<&str> {
    selected.clusters.keys().map(|name| &**name).collect()
}

fn canaries(selected: &Selected) -> Vec<&str> {
    let canaries = selected.clusters.iter().filter(|(_, member)| member.canary);
    canaries.map(|(name, _)| &**name).collect()
}

fn selector(selector: &Value) -> Value {
    json!({"clusterSelector": selector})
}

fn with_canaries(mut spec: Value, selector: &Value) -> Value {
    spec["upgradeStrategy"] = json!({"canaryClusters": {"clusterSelector": selector}});
    spec
}

fn key_in(key: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": "In", "values": values}]})
}

fn notes_have(selected: &Selected, text: &str) -> bool {
    for note in &selected.notes {
        assert_eq!(api::message::violation(note), None, "{note}");
    }
    selected.notes.iter().any(|note| note.contains(text))
}

fn dev() -> Hub {
    Hub::default()
        .bound("dev")
        .member("dev1", "dev")
        .member("dev2", "dev")
        .member("dev3", "dev")
        .member("other", "prod")
}

#[test]
fn placements_and_selector_are_united() {
    let hub = dev()
        .bound("prod")
        .placement("ns", "one")
        .decision("ns", "one", 1, &["dev1", "other"])
        .bind("dev", "dev", None)
        .placement("dev", "two")
        .decision("dev", "two", 1, &["dev1", "dev2"]);
    let selected = hub.select(json!({
        "placement": [{"name": "one"}, {"name": "two", "namespace": "dev"}],
        "clusterSelector": key_in("name", &["dev3"]),
    }));
    assert_eq!(names(&selected), ["dev1", "dev2", "dev3", "other"]);
    assert!(selected.notes.is_empty(), "{:?}", selected.notes);
}

#[test]
fn all_decisions_of_a_placement_count_and_those_of_others_do_not() {
    let hub = dev()
        .placement("ns", "p")
        .decision("ns", "p", 1, &["dev1", ""])
        .decision("ns", "p", 2, &["dev2"])
        .decision("dev", "p", 1, &["dev3"])
        .decision("ns", "q", 1, &["dev3"]);
    assert_eq!(
        names(&hub.select(json!({"placement": [{"name": "p"}]}))),
        ["dev1", "dev2"]
    );
}

#[test]
fn a_missing_or_undecided_placement_is_told() {
    let hub = dev()
        .placement("ns", "empty")
        .decision("ns", "gone", 1, &["dev1"]);
    let selected = hub.select(json!({"placement": [{"name": "gone"}, {"name": "empty"}]}));
    assert!(selected.clusters.is_empty());
    assert!(notes_have(&selected, "Placement ns/gone does not exist"));
    assert!(notes_have(&selected, "Placement ns/empty selects no cluster"));
}

#[test]
fn neither_source_selects_nothing_and_says_so() {
    let selected = dev().select(json!({}));
    assert!(selected.clusters.is_empty());
    assert!(notes_have(
        &selected,
        "Neither spec.placement nor spec.clusterSelector"
    ));
}

#[test]
fn a_decided_cluster_that_does_not_exist_is_not_selected() {
    let hub = dev()
        .placement("ns", "p")
        .decision("ns", "p", 1, &["dev1", "ghost"]);
    assert_eq!(
        names(&hub.select(json!({"placement": [{"name": "p"}]}))),
        ["dev1"]
    );
}

#[test]
fn terminating_and_refused_clusters_are_not_selected() {
    let hub = dev()
        .odd("gone", Some("2026-01-01T00:00:00Z"), true)
        .odd("refused", None, false)
        .placement("ns", "p")
        .decision("ns", "p", 1, &["gone", "refused"]);
    let selected = hub.select(json!({"placement": [{"name": "p"}], "clusterSelector": {}}));
    assert_eq!(names(&selected), ["dev1", "dev2", "dev3"]);
}

#[test]
fn the_selector_sees_only_clusters_of_sets_bound_in_its_namespace() {
    let hub = dev();
    assert_eq!(names(&hub.select(selector(&json!({})))), ["dev1", "dev2", "dev3"]);
    let unbound = Hub::default()
        .set("dev", &json!({}))
        .bind("elsewhere", "dev", None)
        .member("dev1", "dev");
    let selected = unbound.select(selector(&json!({})));
    assert!(selected.clusters.is_empty());
    assert!(notes_have(&selected, "Create a ManagedClusterSetBinding"));
}

#[test]
fn a_refused_binding_binds_nothing_and_one_without_status_does() {
    let hub = |bound| {
        Hub::default()
            .set("dev", &json!({}))
            .bind("ns", "dev", bound)
            .member("dev1", "dev")
    };
    let count = |bound| hub(bound).select(selector(&json!({}))).clusters.len();
    assert_eq!(count(None), 1);
    assert_eq!(count(Some("True")), 1);
    assert_eq!(count(Some("False")), 0);
}

#[test]
fn a_binding_to_a_set_that_does_not_exist_yet_selects_nothing() {
    let hub = Hub::default().bind("ns", "dev", None).member("dev1", "dev");
    assert!(hub.select(selector(&json!({}))).clusters.is_empty());
}

#[test]
fn cluster_sets_narrow_the_selector_and_an_unbound_one_is_told() {
    let hub = dev()
        .bound("test")
        .member("test1", "test")
        .set("prod", &json!({}));
    let selected = hub.select(selector(&json!({"clusterSets": ["test", "prod"]})));
    assert_eq!(names(&selected), ["test1"]);
    assert!(notes_have(&selected, "ManagedClusterSet prod is not bound"));
}

#[test]
fn without_borders_every_cluster_is_seen() {
    let hub = dev();
    assert_eq!(
        hub.select_with(selector(&json!({})), false).clusters.len(),
        4,
        "even those in no set"
    );
    let sets = selector(&json!({"clusterSets": ["dev"]}));
    assert_eq!(hub.select_with(sets, false).clusters.len(), 3);
}

#[test]
fn sets_by_label_selector_are_understood() {
    let by = |selector: &Value| {
        Hub::default()
            .set(
                "s",
                &json!({"selectorType": "LabelSelector", "labelSelector": selector}),
            )
            .bind("ns", "s", None)
            .cluster("a", &json!({"env": "dev", "gpu": "yes"}))
            .cluster("b", &json!({"env": "prod"}))
            .member("c", "s")
    };
    for (set, expected) in [
        (json!({}), vec!["a", "b", "c"]),
        (Value::Null, vec![]),
        (json!({"matchLabels": {"env": "dev"}}), vec!["a"]),
        (
            json!({"matchExpressions": [{"key": "env", "operator": "In", "values": ["dev", "prod"]}]}),
            vec!["a", "b"],
        ),
        (
            json!({"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["dev"]}]}),
            vec!["b", "c"],
        ),
        (
            json!({"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}),
            vec!["a"],
        ),
        (
            json!({"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}),
            vec!["b", "c"],
        ),
        (
            json!({"matchExpressions": [{"key": "gpu", "operator": "Odd"}]}),
            vec![],
        ),
    ] {
        let hub = by(&set);
        let selected = hub.select(selector(&json!({})));
        assert_eq!(names(&selected), expected, "{set}");
    }
}

#[test]
fn labels_and_expressions_are_joined_by_and() {
    let hub = Hub::default()
        .set(
            "all",
            &json!({"selectorType": "LabelSelector", "labelSelector": {}}),
        )
        .bind("ns", "all", None)
        .cluster("a", &json!({"env": "dev", "region": "eu"}))
        .cluster("b", &json!({"env": "dev"}))
        .cluster("c", &json!({"env": "prod", "region": "eu"}));
    let chosen = |spec: &Value| {
        names(&hub.select(selector(spec)))
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        chosen(
            &json!({"matchLabels": {"env": "dev"}, "matchExpressions": [{"key": "region", "operator": "Exists"}]})
        ),
        ["a"]
    );
    assert_eq!(
        chosen(&json!({"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]})),
        ["a", "b"]
    );
    assert_eq!(
        chosen(&json!({"matchExpressions": [{"key": "region", "operator": "DoesNotExist"}]})),
        ["b"]
    );
}

#[test]
fn the_key_name_falls_back_to_the_objects_name() {
    let hub = dev().cluster("dev9", &json!({LABEL_CLUSTER_SET: "dev", "name": "alias"}));
    let selected = hub.select(selector(&key_in("name", &["dev1", "dev9", "alias"])));
    assert_eq!(names(&selected), ["dev1", "dev9"], "dev9 by its label");
    let selected = hub.select(selector(&key_in("name", &["dev9"])));
    assert!(
        selected.clusters.is_empty(),
        "the label wins over the object's name"
    );
    let selected = hub.select(selector(&json!({"matchLabels": {"name": "dev2"}})));
    assert_eq!(names(&selected), ["dev2"]);
}

#[test]
fn canaries_outside_the_selection_are_added() {
    let spec = with_canaries(
        selector(&key_in("name", &["dev2"])),
        &key_in("name", &["dev1", "dev2"]),
    );
    let selected = dev().select(spec);
    assert_eq!(names(&selected), ["dev1", "dev2"]);
    assert_eq!(canaries(&selected), ["dev1", "dev2"]);
}

#[test]
fn a_cluster_that_a_placement_decided_can_be_a_canary_without_a_binding() {
    let hub = Hub::default()
        .member("dev1", "dev")
        .member("dev2", "dev")
        .set("dev", &json!({}))
        .bind("dev", "dev", None)
        .placement("dev", "p")
        .decision("dev", "p", 1, &["dev1", "dev2"]);
    let placed = json!({"placement": [{"name": "p", "namespace": "dev"}]});
    let selected = hub.select(with_canaries(placed.clone(), &key_in("name", &["dev1"])));
    assert_eq!(canaries(&selected), ["dev1"]);
    assert!(
        selected.notes.is_empty(),
        "a canary was found: {:?}",
        selected.notes
    );
    let set = json!({"clusterSets": ["dev"]});
    let selected = hub.select(with_canaries(placed, &set));
    assert!(
        canaries(&selected).is_empty(),
        "a set is used only where it is bound"
    );
    assert!(notes_have(&selected, "ManagedClusterSet dev is not bound"));
}

#[test]
fn canaries_beyond_the_authors_borders_are_not_added() {
    let selected = dev().select(with_canaries(
        selector(&key_in("name", &["dev1"])),
        &key_in("name", &["other"]),
    ));
    assert_eq!(names(&selected), ["dev1"]);
    assert!(canaries(&selected).is_empty());
}

#[test]
fn the_hub_is_named_by_a_value_of_a_selector_and_not_by_being_alone_in_a_placement() {
    let hub = dev()
        .cluster(
            "local-cluster",
            &json!({LABEL_CLUSTER_SET: "dev", "local-cluster": "true"}),
        )
        .placement("ns", "alone")
        .decision("ns", "alone", 1, &["local-cluster"])
        .placement("ns", "both")
        .decision("ns", "both", 1, &["local-cluster", "dev1"]);
    let named = |spec: Value| hub.select(spec).clusters["local-cluster"].explicitly_named;
    assert!(!named(selector(&json!({}))));
    assert!(named(selector(&key_in("name", &["local-cluster", "dev1"]))));
    assert!(named(selector(
        &json!({"matchLabels": {"local-cluster": "true"}})
    )));
    assert!(!named(selector(
        &json!({"matchExpressions": [{"key": "local-cluster", "operator": "Exists"}]})
    )));
    assert!(!named(selector(
        &json!({"matchExpressions": [{"key": "name", "operator": "NotIn", "values": ["dev1"]}]})
    )));
    assert!(named(selector(
        &json!({"matchLabels": {"metadata.name": "local-cluster"}})
    )));
    assert!(!named(json!({"placement": [{"name": "alone"}]})));
    assert!(!named(json!({"placement": [{"name": "both"}]})));
    assert!(named(
        json!({"placement": [{"name": "both"}], "clusterSelector": key_in("name", &["local-cluster"])})
    ));
}

#[test]
fn the_hub_is_not_named_by_a_label_that_it_gave_itself() {
    let hub = dev().cluster(
        "local-cluster",
        &json!({LABEL_CLUSTER_SET: "dev", "local-cluster": "true", "name": "edge"}),
    );
    let selected = hub.select(selector(&key_in("name", &["edge", "local-cluster"])));
    assert!(
        selected.clusters["local-cluster"].explicitly_named,
        "by its own name beside"
    );
    let selected = hub.select(selector(&key_in("name", &["edge"])));
    assert!(!selected.clusters["local-cluster"].explicitly_named);
}

#[test]
fn the_hub_stays_the_hub_when_its_label_is_taken_away() {
    let labelled = json!({LABEL_CLUSTER_SET: "dev", "local-cluster": "true"});
    let hub = dev().cluster("h", &labelled).member("h", "dev");
    assert!(hub.0.clusters["h"].hub);
    assert!(hub.0.clusters["h"].label("local-cluster").is_none());
    assert!(!hub.0.clusters["dev1"].hub);
}

#[test]
fn the_key_metadata_name_is_the_objects_name_whatever_its_labels_say() {
    let hub = dev()
        .cluster(
            "alias",
            &json!({LABEL_CLUSTER_SET: "dev", "name": "dev1", "metadata.name": "dev1"}),
        )
        .cluster("dev9", &json!({LABEL_CLUSTER_SET: "dev", "name": "other"}));
    let selected = hub.select(selector(&key_in("metadata.name", &["dev1", "dev9"])));
    assert_eq!(names(&selected), ["dev1", "dev9"]);
    let selected = hub.select(selector(&json!({"matchLabels": {"metadata.name": "alias"}})));
    assert_eq!(names(&selected), ["alias"]);
    let selected = hub.select(selector(
        &json!({"matchExpressions": [{"key": "metadata.name", "operator": "NotIn", "values": ["dev1", "dev2", "dev3"]}]}),
    ));
    assert_eq!(names(&selected), ["alias", "dev9"]);
}

#[test]
fn a_decision_that_cannot_be_read_keeps_what_was_known() {
    let mut hub = dev().placement("ns", "p").decision("ns", "p", 1, &["dev1"]);
    hub.0.decision(&read(json!({
        "metadata": {"name": "p-decision-1", "namespace": "ns",
            "labels": {"cluster.open-cluster-management.io/placement": "p"},
            "ownerReferences": [{"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
                "name": "p", "uid": "uid-ns-p"}]},
        "status": {"decisions": "odd"},
    })));
    assert_eq!(
        names(&hub.select(json!({"placement": [{"name": "p"}]}))),
        ["dev1"]
    );
}

mod decisions;
