//! What a hub says about itself: its version, groups and kinds.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::events;
use crate::kind::Kind;
use crate::state::State;

/// The version of Kubernetes that a hub plays.
const VERSION: (&str, &str) = ("1", "35");

/// Answers a path that is not about objects.
pub(super) fn answer(state: &State, path: &str) -> Option<Value> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let kinds: Vec<&Kind> = state
        .collections()
        .iter()
        .map(|collection| &*collection.kind)
        .collect();
    Some(match parts.as_slice() {
        ["healthz" | "livez" | "readyz"] => "ok".into(),
        ["version"] => {
            let (major, minor) = VERSION;
            json!({
                "major": major, "minor": minor, "gitVersion": format!("v{major}.{minor}.0+hub-sim"), "gitCommit": "",
                "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
            })
        }
        ["api"] => json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        ["apis"] => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups(&kinds)}),
        ["apis", group] => groups(&kinds)
            .into_iter()
            .find(|found| found["name"] == **group)?,
        ["api", "v1"] => resources("", "v1", &kinds)?,
        ["apis", group, version] => resources(group, version, &kinds)?,
        // An empty message, in the protobuf that kubectl asks for: it validates nothing by it.
        ["openapi", "v2"] => "".into(),
        ["openapi", "v3"] => openapi_index(&kinds),
        ["openapi", "v3", "api", version] => openapi("", version, &kinds),
        ["openapi", "v3", "apis", group, version] => openapi(group, version, &kinds),
        _ => return None,
    })
}

fn groups(kinds: &[&Kind]) -> Vec<Value> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in kinds.iter().filter(|kind| !kind.group.is_empty()) {
        let known = versions.entry(&kind.group).or_default();
        if !known.contains(&kind.version.as_str()) {
            known.push(&kind.version);
        }
    }
    versions
        .into_iter()
        .map(|(group, mut versions)| {
            // The most stable version first.
            versions.sort_by_key(|version| (version.contains("alpha"), version.contains("beta"), *version));
            let all: Vec<Value> = versions
                .iter()
                .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
                .collect();
            json!({"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": all, "preferredVersion": all[0]})
        })
        .collect()
}

fn resources(group: &str, version: &str, kinds: &[&Kind]) -> Option<Value> {
    const VERBS: [&str; 8] = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];
    let mut resources = Vec::new();
    for kind in kinds.iter().filter(|kind| is_served(kind, group, version)) {
        resources.push(json!({
            "name": kind.plural,
            "singularName": kind.singular,
            "shortNames": kind.short_names,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": VERBS
                .iter()
                .filter(|verb| **verb != "deletecollection" || kind.qualified() != "namespaces")
                .collect::<Vec<_>>(),
        }));
        if kind.has_status {
            resources.push(json!({
                "name": format!("{}/status", kind.plural),
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": ["get", "patch", "update"],
            }));
        }
    }
    if resources.is_empty() {
        return None;
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    }))
}

/// Where the documents of [`openapi`] are.
fn openapi_index(kinds: &[&Kind]) -> Value {
    let mut paths = serde_json::Map::new();
    for kind in kinds {
        let path = prefix(&kind.group, &kind.version);
        let document = json!({"serverRelativeURL": format!("/openapi/v3/{path}")});
        paths.insert(path, document);
    }
    json!({"paths": paths})
}

/// The part of an `OpenAPI` document by which kubectl sees that the server validates fields itself, and explains them.
fn openapi(group: &str, version: &str, kinds: &[&Kind]) -> Value {
    let (mut paths, mut schemas) = (serde_json::Map::new(), serde_json::Map::new());
    for kind in kinds.iter().filter(|kind| is_served(kind, group, version)) {
        let (base, plural) = (prefix(group, version), &kind.plural);
        let path = if kind.namespaced {
            format!("/{base}/namespaces/{{namespace}}/{plural}/{{name}}")
        } else {
            format!("/{base}/{plural}/{{name}}")
        };
        let gvk = json!({"group": group, "version": version, "kind": kind.kind});
        let operation = json!({
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": gvk,
            "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
            "responses": {},
        });
        paths.insert(path, json!({"patch": operation}));
        let mut schema = if kind.group == group {
            kind.openapi.clone()
        } else {
            events::to_core_schema(&kind.openapi)
        };
        for (field, of) in [
            ("apiVersion", "string"),
            ("kind", "string"),
            ("metadata", "object"),
        ] {
            schema["properties"][field] = json!({"type": of});
        }
        schema["x-kubernetes-group-version-kind"] = json!([gvk]);
        schemas.insert(format!("{group}.{version}.{}", kind.kind), schema);
    }
    json!({
        "openapi": "3.0.0", "info": {"title": "hub-sim", "version": "v1"}, "paths": paths, "components": {"schemas": schemas},
    })
}

/// Whether a kind is served in a group. The core group has events, too.
fn is_served(kind: &Kind, group: &str, version: &str) -> bool {
    (kind.group == group && kind.version == version)
        || (group.is_empty() && version == "v1" && kind.group == "events.k8s.io")
}

/// `api/v1` or `apis/group/version`.
fn prefix(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}
