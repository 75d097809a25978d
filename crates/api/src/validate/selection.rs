//! The rules for placements and selectors.
//!
//! A name that cannot exist is rejected, although it would match nothing under `In`: under `NotIn` and `DoesNotExist`
//! it would match every cluster.

use std::collections::BTreeMap;

use super::grammar::{is_dns_label, is_label_key, is_label_value, is_subdomain};
use super::{SpecViolation, violation};
use crate::mcu::{ClusterSelector, LabelExpression, LabelOperator, PlacementRef};
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
    check_labels(field, &selector.match_labels, &selector.match_expressions, found);
}

/// Checks the labels and expressions of a selector.
pub(super) fn check_labels(
    field: &str,
    labels: &BTreeMap<String, String>,
    expressions: &[LabelExpression],
    found: &mut Vec<SpecViolation>,
) {
    for (key, value) in labels {
        let at = format!("{field}.matchLabels.{key}");
        check_key(&at, key, found);
        check_value(&at, key, value, found);
    }
    for (index, expression) in expressions.iter().enumerate() {
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
mod tests;
