//! Events in the form of the core group, which kubectl asks for. They are stored in the form of events.k8s.io.

use serde_json::{Map, Value};

/// Names of fields in events.k8s.io and in the core group.
const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// An event of events.k8s.io as one of the core group.
pub(super) fn to_core(event: &Value) -> Value {
    let mut event = rename(event, core_name);
    event["apiVersion"] = "v1".into();
    for field in ["reportingComponent", "reportingInstance"] {
        if event.get(field).is_none() {
            event[field] = "".into();
        }
    }
    event
}

/// The schema of events with the names of the core group.
pub(super) fn to_core_schema(schema: &Value) -> Value {
    let mut schema = schema.clone();
    schema["properties"] = rename(&schema["properties"], core_name);
    schema
}

fn core_name(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|(new, _)| *new == name).map(|(_, core)| *core)
}

/// An event of the core group as one of events.k8s.io.
pub(super) fn from_core(event: &Value) -> Value {
    let mut event = rename(event, |name| {
        NAMES.iter().find(|(_, core)| *core == name).map(|(new, _)| *new)
    });
    event["apiVersion"] = "events.k8s.io/v1".into();
    event
}

fn rename(event: &Value, new: impl Fn(&str) -> Option<&'static str>) -> Value {
    let fields = event.as_object().into_iter().flatten();
    let fields: Map<String, Value> = fields
        .map(|(name, value)| {
            (
                new(name).map_or_else(|| name.clone(), str::to_owned),
                value.clone(),
            )
        })
        .collect();
    Value::Object(fields)
}
