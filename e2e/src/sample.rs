//! Specs that tests start from: a small complete upgrade, actions, operators.

use serde_json::{Value, json};

use crate::TARGET;

/// Merges a JSON merge patch (RFC 7396) into a value; null removes a key.
pub fn merge(into: &mut Value, patch: &Value) {
    let Some(changes) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, change) in changes {
        if change.is_null() {
            if let Some(map) = into.as_object_mut() {
                map.remove(key);
            }
        } else {
            merge(&mut into[key], change);
        }
    }
}

/// Joins a merge patch to another one: what either removes, the result removes.
pub fn join(into: &mut Value, patch: &Value) {
    match (into.as_object_mut(), patch.as_object()) {
        (Some(map), Some(changes)) => {
            for (key, change) in changes {
                join(map.entry(key.as_str()).or_insert(Value::Null), change);
            }
        }
        _ => *into = patch.clone(),
    }
}

/// `clusterSelector` that names clusters of a set.
#[must_use]
pub fn selector(set: &str, names: &[String]) -> Value {
    json!({
        "clusterSets": [set],
        "matchExpressions": [{"key": "name", "operator": "In", "values": names}],
    })
}

/// A spec that upgrades the named clusters of a set to [`TARGET`].
#[must_use]
pub fn spec(set: &str, names: &[String]) -> Value {
    json!({
        "clusterSelector": selector(set, names),
        "clusterVersion": {"channel": "stable-4.12", "version": TARGET},
    })
}

/// An action of one `ConfigMap`.
#[must_use]
pub fn action(name: &str) -> Value {
    json!({"manifestWork": {"workload": {"manifests": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"a": "b"}},
    ]}}})
}

/// An action that only the controller refuses: it has the same `ConfigMap` twice.
#[must_use]
pub fn action_with_a_manifest_twice(name: &str) -> Value {
    let mut action = action(name);
    let manifests = &mut action["manifestWork"]["workload"]["manifests"];
    let one = manifests[0].clone();
    *manifests = json!([one, one]);
    action
}

/// The object as somebody else could create it again: without the fields that the API server sets.
#[must_use]
pub fn without_server_fields(object: &Value) -> Value {
    let mut object = object.clone();
    let set = json!({
        "uid": null, "resourceVersion": null, "creationTimestamp": null, "generation": null, "managedFields": null,
    });
    merge(&mut object["metadata"], &set);
    object
}

/// An action of one Job without a manifestConfig.
#[must_use]
pub fn job_action(name: &str) -> Value {
    json!({"manifestWork": {"workload": {"manifests": [{
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "x", "image": "x"}]}}},
    }]}}})
}

/// As [`job_action`], with feedback that the author declared himself.
#[must_use]
pub fn declared_job_action(name: &str) -> Value {
    let mut action = job_action(name);
    action["manifestWork"]["manifestConfigs"] = json!([{
        "resourceIdentifier": {"group": "batch", "resource": "jobs", "name": name, "namespace": "default"},
        "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [
            {"name": "succeeded", "path": ".status.succeeded"}, {"name": "failed", "path": ".status.failed"},
        ]}],
    }]);
    action
}

/// `ocpOperators` that approves these subscriptions of `openshift-operators`.
#[must_use]
pub fn operators(names: &[&str]) -> Value {
    let include: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "namespace": "openshift-operators"}))
        .collect();
    json!({"include": include})
}

/// `upgradeStrategy.canaryClusters` that names canaries.
#[must_use]
pub fn canaries(names: &[String]) -> Value {
    json!({"clusterSelector": {"matchExpressions": [{"key": "name", "operator": "In", "values": names}]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_adds_replaces_and_removes() {
        let mut value = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        merge(&mut value, &json!({"a": {"b": null, "e": 3}, "d": [2]}));
        assert_eq!(value, json!({"a": {"c": 2, "e": 3}, "d": [2]}));
    }

    #[test]
    fn joined_patches_keep_what_they_remove() {
        let mut patch = json!({"a": {"b": null}});
        join(&mut patch, &json!({"a": {"c": 1}, "d": null}));
        assert_eq!(patch, json!({"a": {"b": null, "c": 1}, "d": null}));
    }
}
