//! What is equal: status and objects without times, uids and what only a real server fills in.

use serde_json::{Map, Value, json};

/// Kinds whose server adds to their spec; of them metadata and status are compared.
const FILLED_IN: [&str; 6] = [
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "Job",
    "Namespace",
    "Pod",
];

/// The hash that the agent keeps of a manifest; each of the two has its own.
const HASH: &str = "open-cluster-management.io/config-spec-hash";

/// A work's status without times, its conditions in the order of their types.
pub fn status(work: &Value) -> Value {
    let mut status = work["status"].clone();
    sort_conditions(&mut status["conditions"]);
    if let Some(manifests) = status
        .pointer_mut("/resourceStatus/manifests")
        .and_then(Value::as_array_mut)
    {
        for manifest in manifests {
            sort_conditions(&mut manifest["conditions"]);
        }
    }
    without_nothing(status)
}

/// True when the agent has processed the present work.
pub fn is_caught_up(work: &Value) -> bool {
    let generation = &work["metadata"]["generation"];
    let conditions = work["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        let observed = condition["type"] == "Applied" && condition["observedGeneration"] == *generation;
        observed || (condition["type"] == "Complete" && condition["status"] == "True")
    })
}

fn sort_conditions(list: &mut Value) {
    let Some(conditions) = list.as_array_mut() else {
        return;
    };
    for condition in conditions.iter_mut() {
        if let Some(map) = condition.as_object_mut() {
            map.remove("lastTransitionTime");
        }
    }
    conditions.sort_by_key(|condition| condition["type"].as_str().unwrap_or_default().to_owned());
}

/// An object as far as both clusters must agree on it.
pub fn object(object: &Value) -> Value {
    let mut kept = Map::new();
    let kind = object["kind"].as_str().unwrap_or_default();
    for (field, value) in object.as_object().into_iter().flatten() {
        let skipped = field == "metadata" || (field != "status" && FILLED_IN.contains(&kind));
        let by_server = field == "status" && matches!(kind, "CustomResourceDefinition" | "Namespace");
        if !skipped && !by_server {
            kept.insert(field.clone(), value.clone());
        }
    }
    kept.insert("kind".into(), json!(kind));
    kept.insert("metadata".into(), metadata(&object["metadata"], kind));
    without_nothing(Value::Object(kept))
}

fn metadata(metadata: &Value, kind: &str) -> Value {
    let mut labels = metadata["labels"].clone();
    if let Some(map) = labels.as_object_mut() {
        map.remove("kubernetes.io/metadata.name");
        for (_, value) in map.iter_mut().filter(|(key, _)| key.ends_with("controller-uid")) {
            *value = json!("a uid");
        }
    }
    let mut annotations = metadata["annotations"].clone();
    if let Some(hash) = annotations.get_mut(HASH) {
        *hash = json!("a hash");
    }
    if let Some(map) = annotations.as_object_mut() {
        map.remove("deprecated.daemonset.template.generation");
    }
    let mut owners: Vec<String> = metadata["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .map(owner)
        .collect();
    owners.sort();
    // Names accepted by the server raise the generation of a CRD; namespaces have no generation on a real server.
    let counts = !matches!(kind, "CustomResourceDefinition" | "Namespace");
    json!({
        "name": metadata["name"], "namespace": metadata["namespace"],
        "labels": labels, "annotations": annotations, "ownerReferences": owners,
        "finalizers": metadata["finalizers"],
        "generation": if counts { metadata["generation"].clone() } else { Value::Null },
        "terminating": metadata["deletionTimestamp"].is_string(),
    })
}

/// Kind and work of an owner: the name of an `AppliedManifestWork` begins with a hash of the hub's address.
fn owner(reference: &Value) -> String {
    let name = reference["name"].as_str().unwrap_or_default();
    let work = match name.split_once('-') {
        Some((hash, work)) if hash.len() == 64 => work,
        _ => name,
    };
    format!("{} {work}", reference["kind"].as_str().unwrap_or_default())
}

/// Omits values that are null, empty or zero, because absent and empty are the same on the wire.
fn without_nothing(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(key, value)| (key, without_nothing(value)))
                .filter(|(_, value)| !is_nothing(value))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nothing).collect()),
        other => other,
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// The lines in which two values differ; nothing when they are equal.
pub fn difference(real: &Value, fake: &Value) -> Option<String> {
    if real == fake {
        return None;
    }
    let mut lines = Vec::new();
    walk("", real, fake, &mut lines);
    Some(lines.join("\n"))
}

fn walk(path: &str, real: &Value, fake: &Value, lines: &mut Vec<String>) {
    match (real, fake) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                walk(
                    &format!("{path}.{key}"),
                    &real[key.as_str()],
                    &fake[key.as_str()],
                    lines,
                );
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (one, other)) in a.iter().zip(b).enumerate() {
                walk(&format!("{path}[{index}]"), one, other, lines);
            }
        }
        _ if real == fake => {}
        _ => lines.push(format!("  {path}\n    - {real}\n    + {fake}")),
    }
}

#[test]
fn owners_times_and_empty_fields_are_left_out_of_the_comparison() {
    let hash = "0".repeat(64);
    let real = json!({"kind": "ConfigMap", "metadata": {"name": "a", "uid": "1", "labels": {},
        "ownerReferences": [{"kind": "AppliedManifestWork", "name": format!("{hash}-w"), "uid": "2"}]}});
    let fake = json!({"kind": "ConfigMap", "metadata": {"name": "a", "uid": "3",
        "ownerReferences": [{"kind": "AppliedManifestWork", "name": "w", "uid": "4"}]}});
    assert_eq!(difference(&object(&real), &object(&fake)), None);
    let other = json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let difference = difference(&object(&fake), &object(&other)).unwrap();
    assert!(difference.contains(".data") && difference.contains(".metadata.ownerReferences"));
}
