//! Checks the ManifestWork of an action, except its workload, against the CRD of OCM.
//!
//! The CRD of the upgrade does not check these fields, so that an action can use fields of a newer OCM. The findings are
//! therefore only warnings. Without them, a user would learn of a mistake only when the first work is created, or never,
//! because the hub drops misspelt fields silently. Of the workload, only Secrets are checked here; the rules of the upgrade
//! cover the rest.

use kube_cel::{CompiledSchema, Validator};
use serde_json::{Value, json};

use super::schema::{self, Problem};

/// The release of Open Cluster Management whose ManifestWork [`spec_schema`] describes.
pub const OCM: &str = "1.3";

const ACTIONS: [&str; 2] = ["preUpgradeAction", "postUpgradeAction"];

/// The compiled rules of a `ManifestWorkSpec`.
pub struct WorkRules {
    schema: Value,
    compiled: CompiledSchema,
}

impl WorkRules {
    /// Compiles the schema.
    #[must_use]
    pub fn new() -> WorkRules {
        let mut schema = spec_schema();
        // This rule is in the webhook of OCM, not in its CRD.
        schema["properties"]["executor"]["properties"]["subject"]["x-kubernetes-validations"] = json!([
            {"rule": "self.type != 'ServiceAccount' || has(self.serviceAccount)", "message": "serviceAccount must be set for type ServiceAccount"},
        ]);
        schema::adapt(&mut schema);
        WorkRules {
            compiled: kube_cel::compile_schema(&schema),
            schema,
        }
    }

    /// Checks the actions of an upgrade. With `drops`, it also reports fields that the hub would drop.
    #[must_use]
    pub fn check(&self, validator: &Validator, object: &Value, drops: bool) -> Vec<Problem> {
        let mut found = Vec::new();
        for action in ACTIONS {
            let work = object.pointer(&format!("/spec/{action}/manifestWork"));
            if let Some(work) = work.filter(|work| work.is_object()) {
                let at = format!("spec.{action}.manifestWork");
                found.extend(secrets(work, &at));
                self.check_work(validator, work.clone(), &at, drops, &mut found);
            }
        }
        found
    }

    fn check_work(
        &self,
        validator: &Validator,
        mut work: Value,
        at: &str,
        drops: bool,
        found: &mut Vec<Problem>,
    ) {
        if let Some(fields) = work.as_object_mut() {
            fields.remove("workload");
        }
        let mut unknown = Vec::new();
        schema::prune(&self.schema, &mut work, at, &mut unknown);
        if drops {
            found.extend(unknown.into_iter().map(|field| {
                Problem::warning(
                    field,
                    format!("ManifestWork of OCM {OCM} has no such field, so the hub drops it; check its spelling and its position"),
                )
            }));
        }
        let work = kube_cel::apply_defaults(&self.schema, &work);
        let structural = schema::check_at(&self.schema, &work, at);
        let cel = super::cel_rules(validator, &self.compiled, &work)
            .into_iter()
            .map(|problem| Problem {
                field: schema::join(at, &problem.field),
                ..problem
            });
        let refused = super::merge(structural, Vec::new(), cel.collect());
        found.extend(refused.into_iter().map(|problem| {
            // A warning of the CEL engine means that it could not evaluate the rule.
            if problem.warning {
                return problem;
            }
            Problem::warning(
                problem.field,
                format!(
                    "{}; a hub with OCM {OCM} rejects the ManifestWork",
                    problem.message
                ),
            )
        }));
    }
}

/// Warns about Secrets in a workload, also inside other manifests, because everybody who may view the upgrade can read them.
fn secrets(work: &Value, at: &str) -> Vec<Problem> {
    let manifests = work.pointer("/workload/manifests").and_then(Value::as_array);
    let holds = |manifest: &Value| {
        // No recursion, because a deeply nested manifest could overflow the stack.
        let mut left = vec![manifest];
        while let Some(value) = left.pop() {
            if is_secret(value) {
                return true;
            }
            match value {
                Value::Array(items) => left.extend(items),
                Value::Object(fields) => left.extend(fields.values()),
                _ => {}
            }
        }
        false
    };
    let mut found = Vec::new();
    for (index, manifest) in manifests.into_iter().flatten().enumerate() {
        if holds(manifest) {
            found.push(Problem::warning(
                format!("{at}.workload.manifests[{index}]"),
                "contains a Secret, which everybody who may view ManagedClustersUpgrades or ManifestWorks can read; use a Secret that is on the cluster already, or one that an operator fetches from an external store",
            ));
        }
    }
    found
}

/// Whether a value is a Secret with data. A reference to a Secret has none.
fn is_secret(value: &Value) -> bool {
    let filled = |field: &str| {
        let data = value.get(field).and_then(Value::as_object);
        data.is_some_and(|data| !data.is_empty())
    };
    value["apiVersion"] == "v1" && value["kind"] == "Secret" && (filled("data") || filled("stringData"))
}

impl Default for WorkRules {
    fn default() -> WorkRules {
        WorkRules::new()
    }
}

/// The structural schema of a `ManifestWorkSpec` without its workload, as in OCM [`OCM`]. A hub test compares it with the CRD
/// of the pinned OCM release.
#[must_use]
pub fn spec_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "deleteOption": delete_option(),
            "executor": executor(),
            "manifestConfigs": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["resourceIdentifier"],
                    "properties": {
                        "resourceIdentifier": resource_identifier(),
                        "feedbackRules": feedback_rules(),
                        "feedbackScrapeType": {"type": "string", "enum": ["Poll", "Watch"], "default": "Poll"},
                        "updateStrategy": update_strategy(),
                        "conditionRules": condition_rules(),
                    },
                },
            },
        },
    })
}

fn delete_option() -> Value {
    json!({
        "type": "object",
        "properties": {
            "propagationPolicy": {
                "type": "string",
                "enum": ["Foreground", "Orphan", "SelectivelyOrphan"],
                "default": "Foreground",
            },
            "selectivelyOrphans": {
                "type": "object",
                "properties": {"orphaningRules": {"type": "array", "items": resource_identifier()}},
            },
            "ttlSecondsAfterFinished": {"type": "integer", "format": "int64"},
        },
    })
}

fn executor() -> Value {
    let name = json!({
        "type": "string",
        "minLength": 1,
        "maxLength": 253,
        "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$",
    });
    json!({
        "type": "object",
        "properties": {
            "subject": {
                "type": "object",
                "required": ["type"],
                "properties": {
                    "type": {"type": "string", "enum": ["ServiceAccount"]},
                    "serviceAccount": {
                        "type": "object",
                        "required": ["name", "namespace"],
                        "properties": {"name": name, "namespace": name},
                    },
                },
            },
        },
    })
}

fn resource_identifier() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "required": ["name", "resource"],
        "properties": {"group": text, "resource": text, "name": text, "namespace": text},
    })
}

fn feedback_rules() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["type"],
            "properties": {
                "type": {"type": "string", "enum": ["WellKnownStatus", "JSONPaths"]},
                "jsonPaths": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name", "path"],
                        "properties": {"name": text, "path": text, "version": text},
                    },
                },
            },
        },
    })
}

fn update_strategy() -> Value {
    let paths = json!({"type": "array", "items": {"type": "string"}});
    json!({
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {
                "type": "string",
                "enum": ["Update", "CreateOnly", "ServerSideApply", "ReadOnly"],
                "default": "Update",
            },
            "serverSideApply": {
                "type": "object",
                "properties": {
                    "force": {"type": "boolean"},
                    "fieldManager": {"type": "string", "pattern": "^work-agent", "default": "work-agent"},
                    "ignoreFields": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["condition"],
                        "items": {
                            "type": "object",
                            "required": ["condition"],
                            "properties": {
                                "condition": {
                                    "type": "string",
                                    "enum": ["OnSpokePresent", "OnSpokeChange"],
                                    "default": "OnSpokePresent",
                                },
                                "jqPathExpressions": paths,
                                "jsonPaths": paths,
                                "jsonPointers": paths,
                            },
                        },
                    },
                },
            },
        },
    })
}

fn condition_rules() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["condition"],
        "items": {
            "type": "object",
            "required": ["condition", "type"],
            "properties": {
                "condition": text,
                "type": {"type": "string", "enum": ["WellKnownConditions", "CEL"]},
                "celExpressions": {"type": "array", "items": text},
                "message": text,
                "messageExpression": text,
            },
            "x-kubernetes-validations": [
                {"rule": "self.type != 'CEL' || self.condition != \"\"", "message": "condition must not be empty for type CEL"},
            ],
        },
    })
}

#[cfg(test)]
mod tests;
