//! Reads and writes single fields of unstructured objects, whatever their kind.

use chrono::{DateTime, SecondsFormat, TimeZone, Utc};
use serde_json::{Map, Value};

/// Points in time, UTC. They are always passed in.
pub type Time = DateTime<Utc>;

/// The map type of JSON objects.
pub type Object = Map<String, Value>;

/// The value at `path`, if every step is an object that has the key.
#[must_use]
pub fn get<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |current, key| current.get(key))
}

/// The string at `path`; `""` when absent or not a string.
#[must_use]
pub fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    get(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at `path`.
#[must_use]
pub fn integer(value: &Value, path: &[&str]) -> Option<i64> {
    get(value, path).and_then(Value::as_i64)
}

/// The array at `path`; empty when absent, null or not an array.
#[must_use]
pub fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    get(value, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The object at `path`. Missing objects are created, and values that are not objects are replaced.
pub fn object_at<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Object {
    let mut current = into_object(value);
    for key in path {
        current = into_object(current.entry(*key).or_insert(Value::Null));
    }
    current
}

/// The array under `key`. It is created if it is missing, and replaces a value that is not an array.
pub fn array_at<'a>(object: &'a mut Object, key: &str) -> &'a mut Vec<Value> {
    let slot = object.entry(key).or_insert(Value::Null);
    if !slot.is_array() {
        *slot = Value::Array(Vec::new());
    }
    match slot {
        Value::Array(items) => items,
        _ => unreachable!("made an array just above"),
    }
}

fn into_object(value: &mut Value) -> &mut Object {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object just above"),
    }
}

/// RFC 3339 with whole seconds and `Z`, the form of every Kubernetes timestamp.
#[must_use]
pub fn timestamp(at: Time) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Parses an RFC 3339 timestamp.
#[must_use]
pub fn parse_timestamp(text: &str) -> Option<Time> {
    DateTime::parse_from_rfc3339(text)
        .ok()
        .map(|at| at.with_timezone(&Utc))
}

/// The instant `seconds` after the Unix epoch.
#[must_use]
pub fn from_unix(seconds: i64) -> Time {
    Utc.timestamp_opt(seconds, 0)
        .single()
        .unwrap_or(DateTime::<Utc>::MIN_UTC)
}

/// A condition to be set on an object (`status.conditions[]`).
#[derive(Clone, Copy, Debug)]
pub struct Cond<'a> {
    /// Condition type, the key of the list.
    pub kind: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// Reason. It is left out if it is empty.
    pub reason: &'a str,
    /// Message. It is left out if it is empty.
    pub message: &'a str,
}

/// Sets a condition by type and keeps the order of insertion. `lastTransitionTime` changes only with the status. Returns
/// whether anything changed.
pub fn set_condition(object: &mut Value, cond: Cond<'_>, now: Time) -> bool {
    let conditions = array_at(object_at(object, &["status"]), "conditions");
    let existing = conditions.iter_mut().find(|c| text(c, &["type"]) == cond.kind);
    let mut entry = Map::new();
    let mut put = |key: &str, value: &str| {
        if !value.is_empty() {
            entry.insert(key.to_owned(), Value::from(value));
        }
    };
    put("type", cond.kind);
    put("status", cond.status);
    put("reason", cond.reason);
    put("message", cond.message);
    if let Some(old) = existing {
        let since = if text(old, &["status"]) == cond.status {
            text(old, &["lastTransitionTime"]).to_owned()
        } else {
            timestamp(now)
        };
        put("lastTransitionTime", &since);
        let entry = Value::Object(entry);
        if *old == entry {
            return false;
        }
        *old = entry;
    } else {
        put("lastTransitionTime", &timestamp(now));
        conditions.push(Value::Object(entry));
    }
    true
}

/// Removes a condition by type; returns whether it was there.
pub fn remove_condition(object: &mut Value, kind: &str) -> bool {
    let conditions = array_at(object_at(object, &["status"]), "conditions");
    let before = conditions.len();
    conditions.retain(|c| text(c, &["type"]) != kind);
    conditions.len() != before
}

/// The status of a condition, if the object has it.
#[must_use]
pub fn condition_status<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    list(object, &["status", "conditions"])
        .iter()
        .find(|c| text(c, &["type"]) == kind)
        .map(|c| text(c, &["status"]))
}
