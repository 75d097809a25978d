//! Decodes one object as far as possible, because one malformed object must not hide the others of a list.

use std::collections::BTreeMap;

use kube::core::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// Metadata fields that are decoded one by one if the object as a whole cannot be decoded.
const FIELDS: [&str; 10] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "annotations",
    "finalizers",
];

#[derive(Default, Deserialize)]
struct Outline<'a> {
    #[serde(default, borrow)]
    metadata: Option<&'a RawValue>,
}

/// The object, and whether all of it was decoded. If it cannot be decoded, it consists of its readable
/// metadata, and its other parts are marked as unreadable. `None` if even that does not result in an object
/// of the kind.
#[must_use]
pub fn object<K: DeserializeOwned>(text: &str) -> (Option<K>, bool) {
    match serde_json::from_str(text) {
        Ok(object) => (Some(object), true),
        Err(_) => (outlined(text), false),
    }
}

fn outlined<K: DeserializeOwned>(text: &str) -> Option<K> {
    let metadata: Map<String, Value> = metadata(text)
        .into_iter()
        .filter(|(field, _)| FIELDS.contains(&field.as_str()))
        .filter_map(|(field, raw)| {
            let value: Value = serde_json::from_str(raw.get()).ok()?;
            let alone = json!({field.as_str(): value.clone()});
            serde_json::from_value::<ObjectMeta>(alone)
                .is_ok()
                .then_some((field, value))
        })
        .collect();
    let broken = "the object cannot be read";
    serde_json::from_value(json!({"metadata": metadata, "spec": broken, "status": broken, "rows": broken}))
        .ok()
}

/// The resource version of an object whose other fields do not matter.
#[must_use]
pub fn version(text: &str) -> Option<String> {
    let raw = metadata(text).remove("resourceVersion")?;
    serde_json::from_str(raw.get()).ok()
}

fn metadata(text: &str) -> BTreeMap<String, &RawValue> {
    let outline: Outline<'_> = serde_json::from_str(text).unwrap_or_default();
    outline
        .metadata
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
