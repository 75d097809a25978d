//! Applies a structural schema as the API server does: pruning, types, required fields, enums, bounds and list types. It
//! does not support `allOf`, `anyOf`, `oneOf` and `not`.

use std::collections::BTreeSet;

use api::validate::is_subdomain;
use serde_json::{Map, Value, json};

/// A problem with one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field.
    pub field: String,
    /// What is wrong and how to fix it.
    pub message: String,
    /// True if the hub would accept the object nevertheless.
    pub warning: bool,
}

impl Problem {
    /// An error.
    #[must_use]
    pub fn error(field: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem {
            field: field.into(),
            message: message.into(),
            warning: false,
        }
    }

    /// A warning.
    #[must_use]
    pub fn warning(field: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem {
            warning: true,
            ..Problem::error(field, message)
        }
    }
}

/// The schema of `ManagedClustersUpgrade`, adapted to the offline CEL engine; see [`adapt`].
#[must_use]
pub fn of_upgrades() -> Value {
    let crds = api::schema::crds();
    let mut schema = crds
        .first()
        .and_then(|crd| {
            crd.spec
                .versions
                .iter()
                .find(|version| version.name == api::VERSION)
        })
        .and_then(|version| version.schema.as_ref())
        .and_then(|validation| serde_json::to_value(validation.open_api_v3_schema.as_ref()?).ok())
        .unwrap_or_default();
    adapt(&mut schema);
    schema
}

/// Adapts a schema to the offline CEL engine. Patterns become CEL rules. Rules that check for an integer are rewritten without
/// `type()`, which the engine does not have.
pub fn adapt(schema: &mut Value) {
    let Some(node) = schema.as_object_mut() else {
        return;
    };
    let mut rules = match node.remove("x-kubernetes-validations") {
        Some(Value::Array(rules)) => rules,
        _ => Vec::new(),
    };
    for rule in &mut rules {
        if let Some(Value::String(text)) = rule.get_mut("rule") {
            *text = text.replace("type(self) == int", "self != string(self)");
        }
    }
    if let Some(Value::String(pattern)) = node.remove("pattern") {
        let literal = pattern.replace('\\', "\\\\").replace('\'', "\\'");
        rules.push(
            json!({"rule": format!("self.matches('{literal}')"), "message": format!("must match {pattern}")}),
        );
    }
    if !rules.is_empty() {
        node.insert("x-kubernetes-validations".to_owned(), Value::Array(rules));
    }
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        properties.values_mut().for_each(adapt);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = node.get_mut(key) {
            adapt(child);
        }
    }
}

/// Checks the name. The API server checks it separately from the schema.
#[must_use]
pub fn check_metadata(object: &Value) -> Vec<Problem> {
    let text = |key: &str| {
        object
            .pointer(&format!("/metadata/{key}"))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (name, prefix) = (text("name"), text("generateName"));
    if name.is_empty() && prefix.is_empty() {
        return vec![Problem::error("metadata.name", "must be set")];
    }
    let checked = if name.is_empty() {
        prefix.trim_end_matches('-')
    } else {
        name
    };
    if is_subdomain(checked) {
        Vec::new()
    } else {
        vec![Problem::error(
            "metadata.name",
            format!(
                "{checked:?} must consist of lower-case letters, digits, - and ., and begin and end with a letter or a digit"
            ),
        )]
    }
}

/// Gives an object without a name the value of generateName, because the API server generates the name before it applies the
/// rules. If both are missing, [`check_metadata`] reports it.
pub fn complete_name(object: &mut Value) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let metadata = fields.entry("metadata").or_insert(Value::Null);
    if !metadata.is_object() {
        *metadata = json!({});
    }
    if let Some(metadata) = metadata.as_object_mut() {
        let prefix = metadata.get("generateName").and_then(Value::as_str);
        let name = Value::from(prefix.unwrap_or_default());
        metadata.entry("name").or_insert(name);
    }
}

/// Removes what the API server would not store: fields that are not in the schema, and nulls that the schema does not allow.
/// Adds the paths of the removed fields to `unknown`.
pub fn prune(schema: &Value, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter_mut().enumerate() {
                    prune(schema, item, &format!("{path}[{index}]"), unknown);
                }
            }
        }
        Value::Object(fields) => prune_object(schema, fields, path, unknown),
        _ => {}
    }
}

fn prune_object(schema: &Value, fields: &mut Map<String, Value>, path: &str, unknown: &mut Vec<String>) {
    let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");
    let additional = schema
        .get("additionalProperties")
        .filter(|additional| additional.is_object());
    fields.retain(|key, value| {
        let at = join(path, key);
        let is_object_meta = path.is_empty() && matches!(key.as_str(), "apiVersion" | "kind" | "metadata");
        if is_object_meta {
            return true;
        }
        let declared = schema
            .get("properties")
            .and_then(|properties| properties.get(key));
        let Some(child) = declared.or(additional) else {
            if !preserves {
                unknown.push(at);
            }
            return preserves;
        };
        if value.is_null() && !flag(child, "nullable") {
            return false;
        }
        prune(child, value, &at, unknown);
        true
    });
}

/// Writes whole numbers without a fraction (`10.0` as `10`), as the API server does before it checks them.
pub fn normalize(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let text = number.to_string();
            if let Some(whole) = text
                .strip_suffix(".0")
                .and_then(|digits| digits.parse::<i64>().ok())
            {
                *value = Value::from(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::Object(fields) => fields.values_mut().for_each(normalize),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Checks an object after pruning and defaulting. The problems are in the order of the schema.
#[must_use]
pub fn check(schema: &Value, object: &Value) -> Vec<Problem> {
    check_at(schema, object, "")
}

/// Like [`check`], for the value at a path of an object.
#[must_use]
pub fn check_at(schema: &Value, value: &Value, path: &str) -> Vec<Problem> {
    let mut found = Vec::new();
    walk(schema, value, path, &mut found);
    found
}

fn walk(schema: &Value, value: &Value, path: &str, found: &mut Vec<Problem>) {
    if value.is_null() && flag(schema, "nullable") {
        return;
    }
    if let Some(wanted) = wrong_type(schema, value) {
        found.push(Problem::error(
            path,
            format!("must be {wanted}, not {}", kind_of(value)),
        ));
        return;
    }
    check_enum(schema, value, path, found);
    match value {
        Value::Object(fields) => walk_object(schema, fields, path, found),
        Value::Array(items) => walk_array(schema, items, path, found),
        Value::String(text) => {
            check_length(schema, text.chars().count(), "Length", "characters", path, found);
        }
        Value::Number(number) => check_bounds(schema, number.as_f64().unwrap_or_default(), path, found),
        Value::Null | Value::Bool(_) => {}
    }
}

fn walk_object(schema: &Value, fields: &Map<String, Value>, path: &str, found: &mut Vec<Problem>) {
    check_length(schema, fields.len(), "Properties", "entries", path, found);
    for name in schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let name = name.as_str().unwrap_or_default();
        if !fields.contains_key(name) {
            found.push(Problem::error(join(path, name), "must be set"));
        }
    }
    if flag(schema, "x-kubernetes-embedded-resource") {
        for name in ["apiVersion", "kind"] {
            if fields.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
                found.push(Problem::error(join(path, name), "must be set"));
            }
        }
    }
    let additional = schema
        .get("additionalProperties")
        .filter(|additional| additional.is_object());
    for (key, value) in fields {
        let declared = schema
            .get("properties")
            .and_then(|properties| properties.get(key));
        if let Some(child) = declared.or(additional) {
            walk(child, value, &join(path, key), found);
        }
    }
}

fn walk_array(schema: &Value, items: &[Value], path: &str, found: &mut Vec<Problem>) {
    check_length(schema, items.len(), "Items", "items", path, found);
    let keys: Vec<&str> = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let list_type = schema
        .get("x-kubernetes-list-type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let at = format!("{path}[{index}]");
        let identity = match list_type {
            "set" => Some(item.to_string()),
            "map" => Some(
                keys.iter()
                    .map(|key| item[*key].to_string())
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
            _ => None,
        };
        if let Some(identity) = identity
            && !seen.insert(identity.clone())
        {
            let named = if keys.is_empty() {
                identity
            } else {
                format!("{} {identity}", keys.join(", "))
            };
            found.push(Problem::error(&at, format!("{named} appears twice; remove one")));
        }
        if let Some(child) = schema.get("items") {
            walk(child, item, &at, found);
        }
    }
}

/// The type that the schema requires, if the value has another one.
fn wrong_type(schema: &Value, value: &Value) -> Option<&'static str> {
    if flag(schema, "x-kubernetes-int-or-string") {
        let fits = is_integer(value) || value.is_string();
        return (!fits).then_some("a whole number or a string such as \"25%\"");
    }
    let (fits, name) = match schema.get("type").and_then(Value::as_str)? {
        "object" => (value.is_object(), "an object"),
        "array" => (value.is_array(), "a list"),
        "string" => (value.is_string(), "a string (quote it)"),
        "boolean" => (value.is_boolean(), "true or false"),
        "integer" => (is_integer(value), "a whole number"),
        "number" => (value.is_number(), "a number"),
        _ => return None,
    };
    (!fits).then_some(name)
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn check_enum(schema: &Value, value: &Value, path: &str, found: &mut Vec<Problem>) {
    let Some(allowed) = schema.get("enum").and_then(Value::as_array) else {
        return;
    };
    if !allowed.contains(value) {
        let names: Vec<String> = allowed
            .iter()
            .map(|name| name.as_str().map_or_else(|| name.to_string(), str::to_owned))
            .collect();
        found.push(Problem::error(
            path,
            format!("must be one of {}, not {value}", names.join(", ")),
        ));
    }
}

fn check_length(
    schema: &Value,
    length: usize,
    suffix: &str,
    unit: &str,
    path: &str,
    found: &mut Vec<Problem>,
) {
    let bound = |prefix: &str| {
        let bound = schema.get(format!("{prefix}{suffix}")).and_then(Value::as_u64);
        bound.and_then(|bound| usize::try_from(bound).ok())
    };
    match bound("min") {
        Some(1) if length == 0 => found.push(Problem::error(path, "must not be empty")),
        Some(least) if length < least => {
            found.push(Problem::error(
                path,
                format!("must have at least {least} {unit}, not {length}"),
            ));
        }
        _ => {}
    }
    if let Some(most) = bound("max").filter(|most| length > *most) {
        found.push(Problem::error(
            path,
            format!("must have at most {most} {unit}, not {length}"),
        ));
    }
}

fn check_bounds(schema: &Value, number: f64, path: &str, found: &mut Vec<Problem>) {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    if let Some(least) = bound("minimum").filter(|least| number < *least) {
        found.push(Problem::error(
            path,
            format!("must be at least {least}, not {number}"),
        ));
    }
    if let Some(most) = bound("maximum").filter(|most| number > *most) {
        found.push(Problem::error(
            path,
            format!("must be at most {most}, not {number}"),
        ));
    }
}

fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// The path of a field below another field. Either may be empty, which means the root.
#[must_use]
pub fn join(path: &str, key: &str) -> String {
    if path.is_empty() || key.is_empty() {
        format!("{path}{key}")
    } else {
        format!("{path}.{key}")
    }
}

#[cfg(test)]
mod tests;
