//! The states of cluster operators for the model, read from their objects.

use clusterversion::types::Conditions;
use cvo_model::upgradeable::OperatorState;
use serde_json::Value;

use crate::fields;

/// The operators with their conditions, from their objects.
pub fn operators(objects: &[Value]) -> Vec<OperatorState> {
    objects
        .iter()
        .map(|object| operator(fields::text(object, &["metadata", "name"]), &object["status"]))
        .collect()
}

/// The state of an operator, from its status.
pub(super) fn operator(name: &str, status: &Value) -> OperatorState {
    let version = fields::list(status, &["versions"])
        .iter()
        .find(|entry| fields::text(entry, &["name"]) == "operator");
    OperatorState {
        name: name.to_owned(),
        conditions: Conditions(serde_json::from_value(status["conditions"].clone()).unwrap_or_default()),
        version: version
            .map_or("", |entry| fields::text(entry, &["version"]))
            .to_owned(),
    }
}
