//! What the server sets and keeps in every object.

use serde_json::{Map, Value, json};

use super::read::{label_with_name, metadata};
use crate::kind::Kind;

/// Fills in what the server gives a new object.
pub(super) fn complete_new(kind: &Kind, object: &mut Value, uid: &str, now: &str) {
    if kind.has_status && kind.is_custom {
        set_or_remove(object, "status", None);
    }
    set_or_remove(object, "apiVersion", Some(kind.api_version().into()));
    set_or_remove(object, "kind", Some(kind.kind.clone().into()));
    if let Some(meta) = metadata(object) {
        meta.insert("uid".to_owned(), uid.into());
        meta.insert("creationTimestamp".to_owned(), now.into());
        meta.remove("generation");
        if kind.has_generation {
            meta.insert("generation".to_owned(), 1.into());
        }
    }
    if kind.is_namespace() {
        label_with_name(object);
        object["spec"] = json!({"finalizers": ["kubernetes"]});
        object["status"] = json!({"phase": "Active"});
    }
}

/// Gives a changed object what the server set, and what the subresource that was written may not change. Counts the generation
/// if anything but metadata and status changed.
pub(super) fn keep_server_fields(kind: &Kind, live: &Value, next: &mut Value, subresource: &str) {
    // The type of a custom resource is validated.
    if !kind.is_custom {
        set_or_remove(next, "apiVersion", Some(kind.api_version().into()));
        set_or_remove(next, "kind", Some(kind.kind.clone().into()));
    }
    if subresource == "status" {
        let status = next.as_object_mut().and_then(|next| next.remove("status"));
        let (Some(fields), Some(kept)) = (next.as_object_mut(), live.as_object()) else {
            return;
        };
        fields.retain(|field, _| kept.contains_key(field));
        for (field, value) in kept.iter().filter(|(field, _)| *field != "status") {
            // What is as it was needs no copy.
            if fields.get(field) != Some(value) {
                fields.insert(field.clone(), value.clone());
            }
        }
        set_or_remove(next, "status", status);
        return;
    }
    if kind.has_status && next.get("status") != live.get("status") {
        set_or_remove(next, "status", live.get("status").cloned());
    }
    if kind.is_namespace() {
        set_or_remove(next, "spec", live.get("spec").cloned());
    }
    let is_changed = kind.has_generation && counted(live) != counted(next);
    let have = live.get("metadata").and_then(Value::as_object);
    if let (Some(meta), Some(have)) = (metadata(next), have) {
        keep_metadata(meta, have);
        if is_changed {
            let generation = have.get("generation").and_then(Value::as_i64).unwrap_or_default();
            meta.insert("generation".to_owned(), (generation + 1).into());
        }
    }
}

fn keep_metadata(meta: &mut Map<String, Value>, have: &Map<String, Value>) {
    for field in ["generation", "creationTimestamp", "deletionTimestamp"] {
        match have.get(field) {
            Some(value) => meta.insert(field.to_owned(), value.clone()),
            // An object that is not being deleted keeps what the client says, which is refused then.
            None if field == "deletionTimestamp" => None,
            None => meta.remove(field),
        };
    }
    for field in ["uid", "deletionGracePeriodSeconds"] {
        if let (None, Some(value)) = (meta.get(field), have.get(field)) {
            meta.insert(field.to_owned(), value.clone());
        }
    }
}

/// What counts for the generation.
fn counted(object: &Value) -> Vec<(&String, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(|(field, _)| *field != "metadata").collect()
}

fn set_or_remove(object: &mut Value, field: &str, value: Option<Value>) {
    if let Some(map) = object.as_object_mut() {
        match (value, map.get_mut(field)) {
            (Some(value), Some(have)) => *have = value,
            (Some(value), None) => {
                map.insert(field.to_owned(), value);
            }
            (None, _) => {
                map.remove(field);
            }
        }
    }
}
