//! The works that both agents get, and the words they are written in.

pub mod conditions;
pub mod deletion;
pub mod failures;
pub mod feedback;
pub mod preflight;
pub mod strategies;

use serde_json::{Value, json};

/// A work, the objects on the cluster before it, and the steps.
#[derive(Debug, Clone)]
pub struct Case {
    /// Name of the case and of its work.
    pub name: &'static str,
    /// Objects that exist already, written by `oc`.
    pub before: Vec<Value>,
    /// The steps, one after the other; after each, both clusters must report the same.
    pub steps: Vec<Step>,
}

/// Something that happens to both clusters.
#[derive(Debug, Clone)]
pub enum Step {
    /// The work gets this spec.
    Work(Value),
    /// A second work, `<name>-2`, gets this spec.
    Second(Value),
    /// A label of the work changes: the agent tries again.
    Touch,
    /// The work is deleted.
    Delete,
    /// An object becomes this, status included.
    Place(Value),
    /// Somebody deletes an object.
    Remove(Value),
}

impl Step {
    /// The objects it is about.
    pub fn objects(&self) -> Vec<&Value> {
        match self {
            Self::Work(spec) | Self::Second(spec) => spec["workload"]["manifests"]
                .as_array()
                .map(|manifests| manifests.iter().collect())
                .unwrap_or_default(),
            Self::Place(object) | Self::Remove(object) => vec![object],
            Self::Touch | Self::Delete => Vec::new(),
        }
    }
}

impl Case {
    /// A case with nothing on the cluster before.
    pub fn new(name: &'static str, steps: Vec<Step>) -> Self {
        Self {
            name,
            before: Vec::new(),
            steps,
        }
    }

    /// Puts objects on the cluster before.
    pub fn on(mut self, before: Vec<Value>) -> Self {
        self.before = before;
        self
    }

    /// The work that a step is about.
    pub fn work(&self, step: &Step) -> String {
        match step {
            Step::Second(_) => format!("{}-2", self.name),
            _ => self.name.to_owned(),
        }
    }
}

/// A work's spec.
pub fn work(manifests: &[Value], configs: &[Value]) -> Value {
    json!({"workload": {"manifests": manifests}, "manifestConfigs": configs})
}

/// As [`work`], with a `deleteOption`.
pub fn work_deleted(manifests: &[Value], delete_option: &Value) -> Value {
    json!({"workload": {"manifests": manifests}, "deleteOption": delete_option})
}

/// `manifestConfigs[]` of one object with one more field.
pub fn config(group: &str, resource: &str, name: &str, field: &str, value: &Value) -> Value {
    let mut config = json!({"resourceIdentifier": {
        "group": group, "resource": resource, "namespace": "conf", "name": name,
    }});
    config[field] = value.clone();
    config
}

/// An update strategy of a widget.
pub fn strategy(name: &str, strategy: &Value) -> Value {
    config("example.com", "widgets", name, "updateStrategy", strategy)
}

/// `manifestConfigs[]` that only reads a widget, with these paths as feedback.
pub fn read_paths(name: &str, paths: &[(&str, &str)]) -> Value {
    let paths: Vec<Value> = paths
        .iter()
        .map(|(name, path)| json!({"name": name, "path": path}))
        .collect();
    read_rules(name, &json!([{"type": "JSONPaths", "jsonPaths": paths}]))
}

/// As [`read_paths`], with whole rules.
pub fn read_rules(name: &str, rules: &Value) -> Value {
    let mut config = strategy(name, &json!({"type": "ReadOnly"}));
    config["feedbackRules"] = rules.clone();
    config
}

/// A `ConfigMap`.
pub fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "conf"}, "data": data})
}

/// A custom resource that takes anything.
pub fn widget(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "conf"}, "spec": spec,
    })
}

/// A widget with a status.
pub fn told(name: &str, status: &Value) -> Value {
    let mut widget = widget(name, &json!({"size": 1}));
    widget["status"] = status.clone();
    widget
}

/// A widget by name only, as `ReadOnly` manifests are.
pub fn named(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "conf"}})
}

/// The kind of the widgets.
pub fn widget_definition() -> Value {
    definition("widgets", "Widget")
}

/// A kind of `example.com` that takes anything.
pub fn definition(plural: &str, kind: &str) -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
            }],
        },
    })
}
