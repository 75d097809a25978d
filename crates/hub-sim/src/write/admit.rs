//! What the server sets, keeps and checks in every object.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use super::text;
use crate::error::ApiError;
use crate::kind::Kind;
use crate::schema::{Cause, CauseKind};

/// Metadata that a writer cannot choose.
const SERVER_FIELDS: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
];

/// The metadata of an object, which becomes a map if it is none.
pub(super) fn metadata(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let object = object.as_object_mut()?;
    let meta = object.entry("metadata").or_insert_with(|| json!({}));
    if !meta.is_object() {
        *meta = json!({});
    }
    meta.as_object_mut()
}

/// Removes what the server sets from a new object.
pub(super) fn clear_server_fields(object: &mut Value) {
    if let Some(meta) = metadata(object) {
        meta.retain(|field, _| !SERVER_FIELDS.contains(&field.as_str()));
    }
}

/// Gives a changed object what the server set, and what the subresource that was written may not change.
pub(super) fn keep_server_fields(kind: &Kind, live: &Value, next: &mut Value, status: bool) {
    if kind.has_status && status {
        let changed = next.get("status").cloned();
        *next = live.clone();
        set_or_remove(next, "status", changed);
        return;
    }
    if kind.has_status {
        set_or_remove(next, "status", live.get("status").cloned());
    }
    for field in ["apiVersion", "kind"] {
        set_or_remove(next, field, live.get(field).cloned());
    }
    let have = live.get("metadata").and_then(Value::as_object);
    if let (Some(meta), Some(have)) = (metadata(next), have) {
        for field in SERVER_FIELDS.iter().chain(&["name", "namespace", "generateName"]) {
            match have.get(*field) {
                Some(value) => meta.insert((*field).to_owned(), value.clone()),
                None => meta.remove(*field),
            };
        }
        drop_empty(meta);
    }
}

/// Empty maps and lists of metadata are not stored.
fn drop_empty(meta: &mut Map<String, Value>) {
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let is_empty = match meta.get(field) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Null) => true,
            _ => false,
        };
        if is_empty {
            meta.remove(field);
        }
    }
}

fn set_or_remove(object: &mut Value, field: &str, value: Option<Value>) {
    if let Some(map) = object.as_object_mut() {
        match value {
            Some(value) => map.insert(field.to_owned(), value),
            None => map.remove(field),
        };
    }
}

/// Fills in what the server gives a new object.
pub(super) fn complete_new(
    kind: &Kind,
    object: &mut Value,
    namespace: &str,
    name: &str,
    uid: &str,
    now: &str,
) {
    if kind.has_status && kind.is_custom {
        set_or_remove(object, "status", None);
    }
    set_or_remove(object, "apiVersion", Some(kind.api_version().into()));
    set_or_remove(object, "kind", Some(kind.kind.clone().into()));
    if let Some(meta) = metadata(object) {
        drop_empty(meta);
        meta.insert("name".to_owned(), name.into());
        if kind.namespaced {
            meta.insert("namespace".to_owned(), namespace.into());
        }
        meta.insert("uid".to_owned(), uid.into());
        meta.insert("creationTimestamp".to_owned(), now.into());
        if kind.has_generation {
            meta.insert("generation".to_owned(), 1.into());
        }
    }
    if kind.group.is_empty() && kind.plural == "namespaces" {
        if let Some(meta) = metadata(object) {
            let labels = meta.entry("labels").or_insert_with(|| json!({}));
            labels["kubernetes.io/metadata.name"] = name.into();
        }
        object["spec"] = json!({"finalizers": ["kubernetes"]});
        object["status"] = json!({"phase": "Active"});
    }
}

/// Counts the generation if anything but metadata and status changed.
pub(super) fn count_generation(kind: &Kind, live: &Value, next: &mut Value) {
    if !kind.has_generation {
        return;
    }
    let counted = |object: &Value| -> Vec<(String, Value)> {
        let fields = object.as_object().into_iter().flatten();
        fields
            .filter(|(field, _)| *field != "metadata" && !(kind.has_status && *field == "status"))
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect()
    };
    if counted(live) != counted(next) {
        let generation = live
            .pointer("/metadata/generation")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        if let Some(meta) = metadata(next) {
            meta.insert("generation".to_owned(), (generation + 1).into());
        }
    }
}

/// Checks an object: metadata, schema, then CEL rules.
pub(super) fn validate(
    kind: &Kind,
    name: &str,
    object: &Value,
    live: Option<&Value>,
) -> Result<(), ApiError> {
    let mut causes = metadata_causes(kind, name, object);
    if let Some(live) = live {
        causes.extend(finalizer_causes(live, object));
    }
    let schema = if kind.is_custom {
        kind.schema.check(object)
    } else {
        Vec::new()
    };
    let hides_rules = schema.iter().any(Cause::hides_rules);
    causes.extend(schema);
    if kind.schema.has_rules {
        if hides_rules {
            causes.push(Cause::new(
                "<nil>",
                CauseKind::Invalid,
                "Invalid value: null: some validation rules were not checked because the object was invalid; correct \
                 the existing errors to complete validation",
            ));
        } else {
            causes.extend(kind.schema.check_rules(object, live));
        }
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid(kind, name, &causes))
    }
}

fn metadata_causes(kind: &Kind, name: &str, object: &Value) -> Vec<Cause> {
    static SUBDOMAIN: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$").ok()
    });
    let mut causes = Vec::new();
    let is_subdomain = SUBDOMAIN.as_ref().is_none_or(|regex| regex.is_match(name)) && name.len() <= 253;
    if !is_subdomain && (kind.is_custom || kind.plural == "namespaces") {
        causes.push(Cause::new(
            "metadata.name",
            CauseKind::Invalid,
            format!(
                "Invalid value: {}: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
                 or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                 validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                Value::from(name)
            ),
        ));
    }
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    for (_, value) in labels.into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        if !is_label_value(value) {
            let message = format!(
                "Invalid value: {}: a valid label must be an empty string or consist of alphanumeric \
                 characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
                 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                Value::from(value)
            );
            causes.push(Cause::new("metadata.labels", CauseKind::Invalid, message));
        }
    }
    causes
}

fn is_label_value(value: &str) -> bool {
    let ends = |letter: Option<char>| letter.is_none_or(|letter| letter.is_ascii_alphanumeric());
    value.len() <= 63
        && ends(value.chars().next())
        && ends(value.chars().last())
        && value
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
}

/// Finalizers cannot be added to an object that is being deleted.
fn finalizer_causes(live: &Value, next: &Value) -> Option<Cause> {
    if text(live, "/metadata/deletionTimestamp").is_empty() {
        return None;
    }
    let of = |object: &Value| -> Vec<String> {
        let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(|item| Some(item.as_str()?.to_owned()))
            .collect()
    };
    let had = of(live);
    let added: Vec<String> = of(next).into_iter().filter(|name| !had.contains(name)).collect();
    (!added.is_empty()).then(|| {
        let list: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
        let message = format!(
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            list.join(", ")
        );
        Cause::new("metadata.finalizers", CauseKind::Forbidden, message)
    })
}
