//! The kinds of Open Cluster Management, described here: which fields exist, which are required, defaults, and how lists are merged.
//! The comparison with a real API server has the definitions of the pinned OCM on its other side, and tries them here, too.

mod cluster;
mod placement;
mod work;

use serde_json::{Map, Value, json};

const CLUSTER: &str = "cluster.open-cluster-management.io";
const LABEL: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
const SUBDOMAIN: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$";
const REASON: &str = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// The definitions of all kinds.
pub(super) fn definitions() -> Vec<Value> {
    vec![
        cluster::managed_cluster(),
        cluster::cluster_set(),
        cluster::set_binding(),
        placement::placement(),
        placement::placement_decision(),
        work::manifest_work(),
    ]
}

struct Names {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    scope: &'static str,
}

fn definition(names: &Names, columns: &[(&str, &str, &str)], schema: &Value) -> Value {
    let columns: Vec<Value> = columns
        .iter()
        .map(|(name, of, path)| json!({"name": name, "type": of, "jsonPath": path}))
        .collect();
    json!({
        "spec": {
            "group": names.group,
            "scope": names.scope,
            "names": {
                "kind": names.kind,
                "plural": names.plural,
                "singular": names.kind.to_lowercase(),
                "shortNames": names.short,
            },
            "versions": [{
                "name": names.version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

fn object(fields: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> = fields
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    json!({"type": "object", "properties": properties})
}

fn required(fields: &[&str], mut schema: Value) -> Value {
    schema["required"] = json!(fields);
    schema
}

fn with(mut schema: Value, extra: &Value) -> Value {
    for (name, value) in extra.as_object().into_iter().flatten() {
        schema[name] = value.clone();
    }
    schema
}

fn list(items: Value) -> Value {
    let mut schema = json!({"type": "array"});
    schema["items"] = items;
    schema
}

fn keyed(keys: &[&str], items: Value) -> Value {
    with(
        list(items),
        &json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}),
    )
}

fn text() -> Value {
    json!({"type": "string"})
}

fn one_of(values: &[&str]) -> Value {
    json!({"type": "string", "enum": values})
}

fn integer() -> Value {
    json!({"type": "integer"})
}

fn boolean() -> Value {
    json!({"type": "boolean"})
}

fn limited(least: u64, most: u64, pattern: Option<&str>) -> Value {
    let mut schema = json!({"type": "string", "maxLength": most});
    if least > 0 {
        schema["minLength"] = least.into();
    }
    if let Some(pattern) = pattern {
        schema["pattern"] = pattern.into();
    }
    schema
}

fn condition() -> Value {
    required(
        &["lastTransitionTime", "message", "reason", "status", "type"],
        object(&[
            (
                "lastTransitionTime",
                json!({"type": "string", "format": "date-time"}),
            ),
            ("message", limited(0, 32_768, None)),
            ("observedGeneration", json!({"type": "integer", "minimum": 0})),
            ("reason", limited(1, 1024, Some(REASON))),
            ("status", one_of(&["True", "False", "Unknown"])),
            ("type", limited(0, 316, Some(LABEL))),
        ]),
    )
}

fn conditions() -> Value {
    keyed(&["type"], condition())
}

fn expressions() -> Value {
    let expression = required(
        &["key", "operator"],
        object(&[("key", text()), ("operator", text()), ("values", list(text()))]),
    );
    list(expression)
}

fn label_selector() -> Value {
    let schema = object(&[
        ("matchExpressions", expressions()),
        (
            "matchLabels",
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
        ),
    ]);
    with(schema, &json!({"x-kubernetes-map-type": "atomic"}))
}

fn taint_fields() -> [(&'static str, Value); 2] {
    [
        ("effect", one_of(&["NoSelect", "PreferNoSelect", "NoSelectIfNew"])),
        ("key", limited(0, 316, Some(LABEL))),
    ]
}
