//! The environment and command line of a container from the spec of its pod. `ConfigMaps` and Secrets are passed in.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::fields;

/// Data by kind (`configmaps`, `secrets`), object and key. Objects that do not exist are absent.
#[derive(Clone, Debug, Default)]
pub struct Sources(pub BTreeMap<(&'static str, String), BTreeMap<String, String>>);

/// Objects that a container's environment is taken from.
#[must_use]
pub fn wanted(container: &Value) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for entry in fields::list(container, &["env"]) {
        for (field, kind) in [("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")] {
            if let Some(name) = fields::get(entry, &["valueFrom", field, "name"]).and_then(Value::as_str) {
                found.push((kind, name.to_owned()));
            }
        }
    }
    for entry in fields::list(container, &["envFrom"]) {
        for (field, kind) in [("configMapRef", "configmaps"), ("secretRef", "secrets")] {
            if let Some(name) = fields::get(entry, &[field, "name"]).and_then(Value::as_str) {
                found.push((kind, name.to_owned()));
            }
        }
    }
    found
}

/// The variables of a container, in order.
///
/// # Errors
/// A source that is not optional does not exist. The text is that of the kubelet.
pub fn variables(pod: &Value, container: &Value, sources: &Sources) -> Result<Vec<(String, String)>, String> {
    let mut variables: Vec<(String, String)> = Vec::new();
    for entry in fields::list(container, &["envFrom"]) {
        let prefix = fields::text(entry, &["prefix"]);
        for (field, kind) in [("configMapRef", "configmaps"), ("secretRef", "secrets")] {
            let Some(reference) = entry.get(field) else {
                continue;
            };
            let name = fields::text(reference, &["name"]);
            match sources.0.get(&(kind, name.to_owned())) {
                Some(data) => {
                    let entries = data
                        .iter()
                        .map(|(key, value)| (format!("{prefix}{key}"), value.clone()));
                    variables.extend(entries);
                }
                None if is_optional(reference) => {}
                None => return Err(missing(kind, name)),
            }
        }
    }
    for entry in fields::list(container, &["env"]) {
        let value = if let Some(source) = entry.get("valueFrom") {
            from_source(pod, source, sources)?
        } else {
            Some(expand(fields::text(entry, &["value"]), &variables))
        };
        if let Some(value) = value {
            let name = fields::text(entry, &["name"]).to_owned();
            variables.retain(|(known, _)| *known != name);
            variables.push((name, value));
        }
    }
    Ok(variables)
}

fn from_source(pod: &Value, source: &Value, sources: &Sources) -> Result<Option<String>, String> {
    if let Some(path) = fields::get(source, &["fieldRef", "fieldPath"]).and_then(Value::as_str) {
        return Ok(Some(field(pod, path)));
    }
    for (name, kind) in [("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")] {
        let Some(reference) = source.get(name) else {
            continue;
        };
        let (object, key) = (
            fields::text(reference, &["name"]),
            fields::text(reference, &["key"]),
        );
        return match sources.0.get(&(kind, object.to_owned())) {
            _ if is_optional(reference) && value(sources, kind, object, key).is_none() => Ok(None),
            None => Err(missing(kind, object)),
            Some(_) => value(sources, kind, object, key)
                .map(Some)
                .ok_or_else(|| format!("couldn't find key {key} in {kind} {object}")),
        };
    }
    Ok(None)
}

fn value(sources: &Sources, kind: &'static str, object: &str, key: &str) -> Option<String> {
    sources.0.get(&(kind, object.to_owned()))?.get(key).cloned()
}

fn is_optional(reference: &Value) -> bool {
    reference.get("optional").and_then(Value::as_bool) == Some(true)
}

fn missing(kind: &str, name: &str) -> String {
    format!("{} \"{name}\" not found", kind.trim_end_matches('s'))
}

/// The downward API: metadata, labels and annotations by key, names, addresses.
fn field(pod: &Value, path: &str) -> String {
    if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        let path: Vec<&str> = map.split('.').chain([key]).collect();
        return fields::text(pod, &path).to_owned();
    }
    let path: Vec<&str> = path.split('.').collect();
    fields::text(pod, &path).to_owned()
}

/// Replaces `$(NAME)` by the value of a known variable. Unknown ones stay, and `$$` becomes a dollar sign.
#[must_use]
pub fn expand(text: &str, variables: &[(String, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$$") {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix("$(").and_then(|inner| inner.split_once(')')) {
            match variables.iter().find(|(known, _)| known == name) {
                Some((_, value)) => out.push_str(value),
                None => out.push_str(&rest[..name.len() + 3]),
            }
            rest = after;
        } else {
            out.push('$');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}

/// The command line of a container; `None` if it is that of the image.
#[must_use]
pub fn command(container: &Value, variables: &[(String, String)]) -> Option<Vec<String>> {
    let words = |field: &str| -> Vec<String> {
        fields::list(container, &[field])
            .iter()
            .filter_map(Value::as_str)
            .map(|word| expand(word, variables))
            .collect()
    };
    let mut argv = words("command");
    if argv.is_empty() {
        return None;
    }
    argv.extend(words("args"));
    Some(argv)
}

#[cfg(test)]
mod tests;
