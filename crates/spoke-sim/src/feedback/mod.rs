//! Feedback values, which the agent reads from an applied object by the rules of a work.

pub mod jsonpath;
mod wellknown;

use std::sync::Arc;

use serde_json::Value;

use self::jsonpath::go_type;
use crate::catalog::split_api_version;
use crate::fields;
use crate::work::status::{FeedbackValue, FieldValue};
use crate::work::{FeedbackRule, FieldPath};

/// The agent's feature gate `RawFeedbackJsonString` with its `--max-json-raw-length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawJson {
    /// Maximum length of a text in bytes.
    pub max_length: usize,
}

/// The feedback of one object by all its rules: the values that could be read, and the errors of the others, combined as by
/// the agent.
#[must_use]
pub fn read(
    object: &Value,
    rules: &[FeedbackRule],
    raw: Option<RawJson>,
) -> (Vec<FeedbackValue>, Option<String>) {
    let mut values = Vec::new();
    let mut errors: Vec<String> = Vec::new();
    let mut take = |path: &FieldPath| match value_at(object, path, raw) {
        Ok(Some(value)) => values.push(FeedbackValue {
            name: Arc::clone(&path.name),
            field_value: value,
        }),
        Ok(None) => {}
        Err(error) if errors.contains(&error) => {}
        Err(error) => errors.push(error),
    };
    for rule in rules {
        match rule {
            FeedbackRule::JsonPaths(paths) => paths.iter().for_each(&mut take),
            FeedbackRule::WellKnownStatus => {
                if let Some(paths) = wellknown::paths(object) {
                    paths.iter().for_each(&mut take);
                } else {
                    let unknown = no_well_known(object);
                    take(&FieldPath {
                        path: Err(unknown),
                        ..FieldPath::new("", "", "")
                    });
                }
            }
        }
    }
    let error = match errors.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    };
    (values, error)
}

fn no_well_known(object: &Value) -> String {
    let (group, version) = split_api_version(fields::text(object, &["apiVersion"]));
    format!(
        "cannot find the wellknown statuses for resource with gvk {group}/{version}, Kind={}",
        fields::text(object, &["kind"])
    )
}

fn value_at(object: &Value, path: &FieldPath, raw: Option<RawJson>) -> Result<Option<FieldValue>, String> {
    let name = &path.name;
    let (_, version) = split_api_version(fields::text(object, &["apiVersion"]));
    if !path.version.is_empty() && path.version != version {
        return Err(format!(
            "version set in the path {name} is not matched for the related resource"
        ));
    }
    let compiled = match &path.path {
        Ok(compiled) => compiled,
        // The rule for a kind without well-known paths has no name.
        Err(error) if name.is_empty() => return Err(error.clone()),
        Err(error) => {
            return Err(format!(
                "failed to parse json path {} of {name} with error: {error}",
                path.text
            ));
        }
    };
    let found = compiled
        .find(object)
        .map_err(|error| format!("failed to find value for {name} with error: {error}"))?;
    let Some(first) = found.first() else {
        return Ok(None);
    };
    let list;
    let value = if found.len() > 1 && raw.is_some() {
        list = Value::Array(found.into_iter().cloned().collect());
        &list
    } else {
        first
    };
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(FieldValue::String {
            string: text.as_str().into(),
        })),
        Value::Bool(boolean) => Ok(Some(FieldValue::Boolean { boolean: *boolean })),
        Value::Number(number) if number.is_i64() => {
            Ok(number.as_i64().map(|integer| FieldValue::Integer { integer }))
        }
        other => {
            let Some(raw) = raw else {
                return Err(format!(
                    "the type {} of the value for {name} is not found",
                    go_type(other)
                ));
            };
            let text = other.to_string();
            if text.len() > raw.max_length {
                return Err(format!(
                    "the length of returned json raw string for name {name} is larger than the maximum length {}",
                    raw.max_length
                ));
            }
            Ok(Some(FieldValue::JsonRaw {
                json_raw: text.into(),
            }))
        }
    }
}

#[cfg(test)]
mod tests;
