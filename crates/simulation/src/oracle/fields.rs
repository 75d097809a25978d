//! How the rules read fields of objects.

use hub_sim::{At as _, Object};
use serde_json::Value;

/// Major, minor and patch.
pub(super) type Version = (u64, u64, u64);

/// Reads `4.14.12`.
pub(super) fn version(text: &str) -> Option<Version> {
    let mut parts = text.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?))
}

/// A text of a JSON value.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.at(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A label of an object.
pub(super) fn label<'a>(object: &'a Object, name: &str) -> &'a str {
    let found = object.labels.iter().find(|(key, _)| &**key == name);
    found.map_or("", |(_, value)| value)
}
