//! The `OpenAPI` 3.0.3 description of the service.
//!
//! Built from the same settings as the routes; a test holds each of its paths, parameters, statuses and content types
//! against real answers.

use serde_json::{Map, Value, json};

use super::Settings;
use super::error::ApiError;
use super::query::{ARCH_RULE, CHANNEL_RULE};
use crate::snapshot::Variant;

/// The document, ready to send.
#[must_use]
pub fn document(settings: &Settings) -> Variant {
    Variant::of(serde_json::to_vec_pretty(&value(settings)).unwrap_or_default())
}

/// The document as JSON.
#[must_use]
pub fn value(settings: &Settings) -> Value {
    json!({
        "openapi": "3.0.3",
        "info": {
            "title": "Update service",
            "description": "The update graph of OpenShift releases: which release leads to which, and under which risks.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0"},
        },
        "paths": paths(settings),
        "components": {"schemas": schemas()},
    })
}

fn paths(settings: &Settings) -> Map<String, Value> {
    let prefix = &settings.prefix;
    let mut paths = Map::new();
    let mut add = |path: String, operation: Value| {
        paths.insert(path, json!({"get": operation}));
    };
    if settings.graph {
        add(format!("{prefix}/graph"), graph(settings));
        add(format!("{prefix}/v1/graph"), graph(settings));
        add(format!("{prefix}/openapi"), document_operation());
        for base in bases(prefix) {
            add(format!("{base}/v1/openapi"), document_operation());
            add(format!("{base}/v1/whole-graph"), whole());
            add(format!("{base}/v1/channels"), channels());
            add(format!("{base}/v1/paths"), ways());
            add(format!("{base}/v1/explain"), explanation());
        }
    }
    if settings.status {
        for path in ["/livez", "/liveness"] {
            add(path.to_owned(), probe("Alive", false));
        }
        for path in ["/readyz", "/readiness"] {
            add(path.to_owned(), probe("Ready: a graph is being served", true));
        }
        add(
            "/metrics".to_owned(),
            operation("Metrics for Prometheus", &[], &[(200, "The metrics", text())]),
        );
    }
    paths
}

fn bases(prefix: &str) -> Vec<&str> {
    if prefix.is_empty() {
        vec![""]
    } else {
        vec![prefix, ""]
    }
}

fn operation(summary: &str, parameters: &[Value], answers: &[(u16, &str, Value)]) -> Value {
    let responses: Map<String, Value> = answers
        .iter()
        .map(|(status, description, content)| {
            let response = if content.is_null() {
                json!({"description": description})
            } else {
                json!({"description": description, "content": content})
            };
            (status.to_string(), response)
        })
        .collect();
    json!({"summary": summary, "parameters": parameters, "responses": responses})
}

fn refers(schema: &str) -> Value {
    json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{schema}")}}})
}

fn text() -> Value {
    json!({"text/plain": {"schema": {"type": "string"}}})
}

fn graph_content() -> Value {
    let schema = json!({"schema": {"$ref": "#/components/schemas/Graph"}});
    json!({"application/json": schema, "application/vnd.redhat.cincinnati.v1+json": schema})
}

fn parameter(name: &str, required: bool, description: &str, schema: &Value) -> Value {
    json!({"name": name, "in": "query", "required": required, "description": description, "schema": schema})
}

fn condition() -> Value {
    json!({"name": "If-None-Match", "in": "header", "required": false, "schema": {"type": "string"},
        "description": "ETags of what the client has"})
}

fn graph(settings: &Settings) -> Value {
    let text = json!({"type": "string"});
    let known = [
        (
            "channel",
            "Channel to be answered with",
            json!({"type": "string", "pattern": CHANNEL_RULE}),
        ),
        (
            "arch",
            "Architecture to be answered with",
            json!({"type": "string", "pattern": ARCH_RULE, "default": settings.default_arch}),
        ),
        ("version", "Version the cluster runs", text.clone()),
        ("id", "Identity of the cluster; not looked at", text.clone()),
    ];
    let mut parameters: Vec<Value> = known
        .iter()
        .map(|(name, description, schema)| {
            // Without a channel there is nothing to answer, mandatory or not.
            let required = *name == "channel" || settings.mandatory.iter().any(|known| known == name);
            parameter(name, required, description, schema)
        })
        .collect();
    let others = settings
        .mandatory
        .iter()
        .filter(|name| !known.iter().any(|(known, ..)| known == name));
    parameters.extend(others.map(|name| parameter(name, true, "Demanded by the configuration", &text)));
    parameters.push(condition());
    operation(
        "The update graph of a channel",
        &parameters,
        &[
            (
                200,
                "The graph; empty for a channel or architecture that is not known",
                graph_content(),
            ),
            (304, "The client has it", Value::Null),
            (400, "A parameter is missing or wrong", refers("Error")),
            (406, "Nothing that is offered is accepted", refers("Error")),
            (503, "There is no graph yet", refers("Error")),
        ],
    )
}

fn whole() -> Value {
    operation(
        "The whole update graph, for another service: all architectures, versions with their architecture as build",
        &[condition()],
        &[
            (200, "The graph", graph_content()),
            (304, "The client has it", Value::Null),
            (406, "Nothing that is offered is accepted", refers("Error")),
            (503, "There is no graph yet", refers("Error")),
        ],
    )
}

fn document_operation() -> Value {
    let content = json!({"application/json": {"schema": {"type": "object"}}});
    let answers = [
        (200, "The document", content),
        (304, "The client has it", Value::Null),
    ];
    operation("This document", &[condition()], &answers)
}

fn arch_parameter() -> Value {
    parameter(
        "arch",
        false,
        "Architecture",
        &json!({"type": "string", "pattern": ARCH_RULE}),
    )
}

fn version_parameter(name: &str, description: &str) -> Value {
    parameter(name, true, description, &json!({"type": "string"}))
}

fn list_parameter(name: &str, description: &str) -> Value {
    let schema = json!({"type": "array", "items": {"type": "string"}});
    json!({"name": name, "in": "query", "required": false, "description": description, "schema": schema,
        "style": "form", "explode": false})
}

fn channels() -> Value {
    operation(
        "The channels, with how many releases they have",
        &[arch_parameter()],
        &[
            (200, "The channels", refers("Channels")),
            (400, "A parameter is wrong", refers("Error")),
            (503, "There is no graph yet", refers("Error")),
        ],
    )
}

fn ways() -> Value {
    let switch = json!({"type": "boolean", "default": false});
    operation(
        "Ways from a release to another, fewest hops first",
        &[
            version_parameter("from", "Release the cluster runs"),
            version_parameter("to", "Release it should get to, or a minor version such as 4.16"),
            arch_parameter(),
            parameter(
                "conditional",
                false,
                "Whether updates with risks may be used",
                &switch,
            ),
            list_parameter("accept", "Risks that are accepted, by name"),
            parameter(
                "prerelease",
                false,
                "Whether candidates and hotfixes may be passed through",
                &switch,
            ),
            list_parameter(
                "channels",
                "Channels to stay in, most wanted first, by name or by what stands before the first -. Without, all of them, most wanted first: stable, eus, fast, candidate, others",
            ),
            parameter(
                "channel",
                false,
                "Channel the cluster is in",
                &json!({"type": "string"}),
            ),
            parameter(
                "limit",
                false,
                "Ways wanted",
                &json!({"type": "integer", "minimum": 1, "maximum": 10, "default": 3}),
            ),
        ],
        &[
            (
                200,
                "The ways, or why there is none",
                json!({"application/json": {"schema": {"type": "object"}}}),
            ),
            (400, "A parameter is missing or wrong", refers("Error")),
            (404, "A release is not known", refers("Error")),
            (503, "There is no graph yet", refers("Error")),
        ],
    )
}

fn explanation() -> Value {
    operation(
        "Why an update is offered, conditional or absent",
        &[
            version_parameter("from", "Release at the start"),
            version_parameter("to", "Release at the end"),
            arch_parameter(),
            list_parameter(
                "channels",
                "Channels to look at, by name or by what stands before the first -",
            ),
            parameter(
                "channel",
                false,
                "A channel to look at",
                &json!({"type": "string"}),
            ),
        ],
        &[
            (
                200,
                "The explanation",
                json!({"application/json": {"schema": {"type": "object"}}}),
            ),
            (400, "A parameter is missing or wrong", refers("Error")),
            (404, "A release is not known", refers("Error")),
            (503, "There is no graph yet", refers("Error")),
        ],
    )
}

fn probe(summary: &str, may_fail: bool) -> Value {
    let mut answers = vec![(200, "Yes", text())];
    if may_fail {
        answers.push((503, "No, and why", text()));
    }
    operation(summary, &[], &answers)
}

fn schemas() -> Value {
    let mut schemas = graph_schemas();
    if let (Value::Object(all), Value::Object(others)) = (&mut schemas, answer_schemas()) {
        all.extend(others);
    }
    schemas
}

fn graph_schemas() -> Value {
    let text = json!({"type": "string"});
    let index = json!({"type": "integer", "minimum": 0});
    json!({
        "Graph": {
            "type": "object",
            "required": ["version", "nodes", "edges", "conditionalEdges"],
            "properties": {
                "version": {"type": "integer", "enum": [1]},
                "nodes": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}},
                "edges": {
                    "type": "array",
                    "description": "Pairs of indices into nodes: from, to",
                    "items": {"type": "array", "items": index, "minItems": 2, "maxItems": 2},
                },
                "conditionalEdges": {"type": "array", "items": {"$ref": "#/components/schemas/ConditionalEdges"}},
            },
        },
        "Node": {
            "type": "object",
            "required": ["version", "payload", "metadata"],
            "properties": {
                "version": {"type": "string", "description": "Semantic version, such as 4.14.3 or 4.15.0-rc.1"},
                "payload": {"type": "string", "description": "Image by digest"},
                "metadata": {"type": "object", "additionalProperties": {}},
            },
        },
        "ConditionalEdges": {
            "type": "object",
            "required": ["edges", "risks"],
            "properties": {
                "edges": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["from", "to"],
                        "properties": {"from": text, "to": text},
                    },
                },
                "risks": {"type": "array", "items": {"$ref": "#/components/schemas/Risk"}, "minItems": 1},
            },
        },
        "Risk": {
            "type": "object",
            "required": ["url", "name", "message", "matchingRules"],
            "properties": {
                "url": text,
                "name": text,
                "message": text,
                "matchingRules": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/MatchingRule"}},
            },
        },
        "MatchingRule": {
            "type": "object",
            "required": ["type"],
            "properties": {
                "type": {"type": "string", "description": "Always, or PromQL"},
                "promql": {"type": "object", "required": ["promql"], "properties": {"promql": text}},
            },
        },
    })
}

fn answer_schemas() -> Value {
    let kinds: Vec<&str> = ApiError::KINDS.iter().map(|(kind, _)| *kind).collect();
    let text = json!({"type": "string"});
    let index = json!({"type": "integer", "minimum": 0});
    json!({
        "Channels": {
            "type": "object",
            "required": ["channels"],
            "properties": {"channels": {"type": "array", "items": {
                "type": "object",
                "required": ["name", "arches"],
                "properties": {
                    "name": text,
                    "arches": {"type": "array", "items": {
                        "type": "object",
                        "required": ["arch", "releases"],
                        "properties": {"arch": text, "releases": index},
                    }},
                },
            }}},
        },
        "Error": {
            "type": "object",
            "required": ["kind", "value"],
            "properties": {
                "kind": {"type": "string", "enum": kinds},
                "value": {"type": "string", "minLength": 1},
            },
        },
    })
}
