//! The acknowledgments that an author lists, as a manifest (`docs/design/preflight.md#the-request`).

use api::preflight::AdminAck;
use clusterversion::gates::ACKS;
use serde_json::{Map, Value, json};

use super::canonical;

/// The `ConfigMap` admin-acks with these keys alone.
pub(super) fn manifest(acks: &[AdminAck]) -> Value {
    let (namespace, name) = ACKS;
    let data: Map<String, Value> = acks.iter().map(|ack| (ack.key.clone(), json!("true"))).collect();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "namespace": namespace, "name": name },
        "data": data,
    })
}

/// Server-side apply leaves the keys of others alone. Each set of keys has a field manager of its own, because a manager that
/// applies fewer keys than before would take the others back.
pub(super) fn strategy(acks: &[AdminAck]) -> Value {
    let mut keys: Vec<&str> = acks.iter().map(|ack| ack.key.as_str()).collect();
    keys.sort_unstable();
    let manager = format!("work-agent-mcu-acks-{}", canonical::hash(&json!(keys)));
    json!({
        "type": "ServerSideApply",
        "serverSideApply": { "force": true, "fieldManager": manager },
    })
}

/// Names the `ConfigMap` in a rule.
pub(super) fn identifier() -> Value {
    let (namespace, name) = ACKS;
    json!({ "group": "", "resource": "configmaps", "namespace": namespace, "name": name })
}
