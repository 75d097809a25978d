use super::*;
use serde_json::{Value, json};

fn of_selector(selector: Value) -> Vec<SpecViolation> {
    let selector = serde_json::from_value(selector).unwrap();
    let mut found = Vec::new();
    check_selector("s", &selector, &mut found);
    found
}

fn of_placements(placements: Value) -> Vec<SpecViolation> {
    let placements: Vec<PlacementRef> = serde_json::from_value(placements).unwrap();
    let mut found = Vec::new();
    check_placements(&placements, &mut found);
    found
}

/// Asserts that there is one violation, of this field, whose message contains the words.
fn one(found: &[SpecViolation], field: &str, words: &str) {
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].field, field);
    assert!(found[0].message.contains(words), "{found:?}");
}

#[test]
fn keys_and_values_that_a_cluster_can_carry_are_good() {
    let cluster = format!("{}.example", "a".repeat(70));
    let good = json!({
        "clusterSets": ["global", "emea.prod"],
        "matchLabels": {"region": "north", "example.com/Tier": "A_1", "empty": "", "name": cluster, "metadata.name": cluster, "local-cluster": "true"},
        "matchExpressions": [
            {"key": "name", "operator": "NotIn", "values": [cluster, "Edge_1", ""]},
            {"key": "gpu", "operator": "DoesNotExist"},
        ],
    });
    assert_eq!(of_selector(good), []);
}

#[test]
fn a_key_that_no_label_can_have_is_refused_for_every_operator() {
    for (operator, values) in [
        ("In", json!(["a"])),
        ("NotIn", json!(["a"])),
        ("Exists", json!([])),
        ("DoesNotExist", json!([])),
    ] {
        let selector =
            json!({"matchExpressions": [{"key": "gpu type", "operator": operator, "values": values}]});
        one(
            &of_selector(selector),
            "s.matchExpressions[0].key",
            "\"gpu type\" must be a label key such as region",
        );
    }
    one(
        &of_selector(json!({"matchLabels": {"a/b/c": "x"}})),
        "s.matchLabels.a/b/c",
        "must be a label key",
    );
}

#[test]
fn a_value_that_no_label_can_have_is_refused() {
    let long = "a".repeat(64);
    for value in ["north,south", &long] {
        one(
            &of_selector(json!({"matchLabels": {"region": value}})),
            "s.matchLabels.region",
            "must be a label value: empty, or at most 63",
        );
        let expression = json!({"key": "region", "operator": "NotIn", "values": ["x", value]});
        one(
            &of_selector(json!({"matchExpressions": [expression]})),
            "s.matchExpressions[0].values[1]",
            "must be a label value",
        );
    }
}

#[test]
fn a_value_of_a_name_that_is_no_cluster_and_no_label_is_refused() {
    for key in ["name", "metadata.name"] {
        one(
            &of_selector(json!({"matchLabels": {key: "edge-1,edge-2"}})),
            &format!("s.matchLabels.{key}"),
            "must be the name of a ManagedCluster",
        );
    }
}

#[test]
fn a_set_that_cannot_exist_is_refused() {
    for set in ["Prod", "dev/prod", "", "-a"] {
        one(
            &of_selector(json!({"clusterSets": ["dev", set]})),
            "s.clusterSets[1]",
            "must be the name of a ManagedClusterSet",
        );
    }
}

#[test]
fn a_placement_that_cannot_exist_is_refused() {
    one(
        &of_placements(json!([{"name": "Dev"}])),
        "spec.placement[0].name",
        "\"Dev\" must be the name of a Placement",
    );
    one(
        &of_placements(json!([{"name": ""}])),
        "spec.placement[0].name",
        "must name a Placement",
    );
    one(
        &of_placements(json!([{"name": "dev", "namespace": "team.a"}])),
        "spec.placement[0].namespace",
        "\"team.a\" must be the namespace of a Placement",
    );
}

#[test]
fn a_placement_named_twice_is_harmless() {
    let dev = json!({"name": "dev"});
    assert_eq!(of_placements(json!([dev, dev])), []);
}
