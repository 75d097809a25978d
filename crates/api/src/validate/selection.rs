//! The rules for placements and selectors.
//!
//! A name that cannot exist is rejected, although it would match nothing under `In`: under `NotIn` and `DoesNotExist`
//! it would match every cluster.

use super::grammar::{is_dns_label, is_label_key, is_label_value, is_subdomain};
use super::{SpecViolation, violation};
use crate::mcu::{ClusterSelector, LabelOperator, PlacementRef};
use crate::names::{KEY_METADATA_NAME, LABEL_NAME};

const NAME: &str =
    "at most 253 lower-case letters, digits, - and ., beginning and ending with a letter or digit";
const NAMESPACE: &str =
    "at most 63 lower-case letters, digits and -, beginning and ending with a letter or digit";
const LABEL: &str = "at most 63 letters, digits, -, _ and ., beginning and ending with a letter or digit";

pub(super) fn check_placements(placements: &[PlacementRef], found: &mut Vec<SpecViolation>) {
    for (index, placement) in placements.iter().enumerate() {
        let at = format!("spec.placement[{index}]");
        let name = placement.name.as_str();
        // An absent or empty namespace means that of the upgrade.
        let namespace = placement.namespace.as_deref().unwrap_or_default();
        if name.is_empty() {
            found.push(violation(format!("{at}.name"), "must name a Placement"));
        } else if !is_subdomain(name) {
            found.push(violation(
                format!("{at}.name"),
                format!("{name:?} must be the name of a Placement: {NAME}"),
            ));
        }
        if !namespace.is_empty() && !is_dns_label(namespace) {
            found.push(violation(
                format!("{at}.namespace"),
                format!("{namespace:?} must be the namespace of a Placement: {NAMESPACE}"),
            ));
        }
    }
}

pub(super) fn check_selector(field: &str, selector: &ClusterSelector, found: &mut Vec<SpecViolation>) {
    for (index, set) in selector.cluster_sets.iter().enumerate() {
        if !is_subdomain(set) {
            found.push(violation(
                format!("{field}.clusterSets[{index}]"),
                format!("{set:?} must be the name of a ManagedClusterSet: {NAME}"),
            ));
        }
    }
    for (key, value) in &selector.match_labels {
        let at = format!("{field}.matchLabels.{key}");
        check_key(&at, key, found);
        check_value(&at, key, value, found);
    }
    for (index, expression) in selector.match_expressions.iter().enumerate() {
        let at = format!("{field}.matchExpressions[{index}]");
        let wants_values = matches!(expression.operator, LabelOperator::In | LabelOperator::NotIn);
        if wants_values == expression.values.is_empty() {
            found.push(violation(
                format!("{at}.values"),
                "must name at least one value for operator In or NotIn, and must be left out for Exists and DoesNotExist",
            ));
        } else {
            for (index, value) in expression.values.iter().enumerate() {
                check_value(&format!("{at}.values[{index}]"), &expression.key, value, found);
            }
        }
        check_key(&format!("{at}.key"), &expression.key, found);
    }
}

fn check_key(at: &str, key: &str, found: &mut Vec<SpecViolation>) {
    if key.is_empty() {
        found.push(violation(at, "must name a label"));
    } else if !is_label_key(key) {
        found.push(violation(
            at,
            format!(
                "{key:?} must be a label key such as region or example.com/region: {LABEL}, with a lower-case DNS name and / before it if needed"
            ),
        ));
    }
}

/// Checks a value of a selector. Under the keys `metadata.name` and `name` it is the name of a cluster, which may be
/// longer than a label value.
fn check_value(at: &str, key: &str, value: &str, found: &mut Vec<SpecViolation>) {
    if is_label_value(value) {
        return;
    }
    let message = if key != LABEL_NAME && key != KEY_METADATA_NAME {
        format!("{value:?} must be a label value: empty, or {LABEL}")
    } else if is_subdomain(value) {
        return;
    } else {
        format!("{value:?} must be the name of a ManagedCluster: {NAME}")
    };
    found.push(violation(at, message));
}

#[cfg(test)]
mod tests {
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
}
