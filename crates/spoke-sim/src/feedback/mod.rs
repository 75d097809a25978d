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
mod tests {
    use serde_json::json;

    use super::{RawJson, read};
    use crate::work::status::FieldValue;
    use crate::work::{FeedbackRule, FieldPath};

    fn rule(paths: &[(&str, &str)]) -> Vec<FeedbackRule> {
        vec![FeedbackRule::JsonPaths(
            paths
                .iter()
                .map(|(name, path)| FieldPath::new(name, path, ""))
                .collect(),
        )]
    }

    #[test]
    fn one_bad_path_leaves_the_other_values_in_place() {
        let object = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
            "metadata": {"generation": 2}, "status": {"history": []}});
        let rules = rule(&[
            ("version", ".status.history[0].version"),
            ("generation", ".metadata.generation"),
        ]);
        let (values, error) = read(&object, &rules, None);
        assert_eq!(values.len(), 1);
        assert_eq!(values[0].field_value, FieldValue::Integer { integer: 2 });
        assert_eq!(
            error.unwrap(),
            "failed to find value for version with error: array index out of bounds: index 0, length 0"
        );
    }

    #[test]
    fn several_errors_are_listed_once_each() {
        let object = json!({"a": {"b": 1.5}, "c": {}});
        let (_, error) = read(&object, &rule(&[("x", ".a"), ("y", ".a.b"), ("x", ".a")]), None);
        assert_eq!(
            error.unwrap(),
            "[the type map[string]interface {} of the value for x is not found, \
             the type float64 of the value for y is not found]"
        );
    }

    #[test]
    fn several_matches_give_the_first_unless_raw_json_is_on() {
        let object = json!({"items": [{"n": "a"}, {"n": "b"}]});
        let rules = rule(&[("n", ".items[*].n")]);
        let (values, _) = read(&object, &rules, None);
        assert_eq!(values[0].field_value, FieldValue::String { string: "a".into() });
        let (values, _) = read(&object, &rules, Some(RawJson { max_length: 1024 }));
        assert_eq!(
            values[0].field_value,
            FieldValue::JsonRaw {
                json_raw: "[\"a\",\"b\"]".into()
            }
        );
    }

    #[test]
    fn raw_json_beyond_its_limit_is_an_error() {
        let object = json!({"list": ["x".repeat(1100)]});
        let (values, error) = read(
            &object,
            &rule(&[("l", ".list")]),
            Some(RawJson { max_length: 1024 }),
        );
        assert!(values.is_empty());
        assert_eq!(
            error.unwrap(),
            "the length of returned json raw string for name l is larger than the maximum length 1024"
        );
    }

    #[test]
    fn a_null_or_absent_field_is_omitted_without_error() {
        let object = json!({"a": null});
        let (values, error) = read(&object, &rule(&[("a", ".a"), ("b", ".b.c")]), None);
        assert!(values.is_empty() && error.is_none());
    }

    #[test]
    fn a_path_for_another_version_is_an_error() {
        let object = json!({"apiVersion": "batch/v1", "x": 1});
        let rules = vec![FeedbackRule::JsonPaths(vec![FieldPath::new(
            "x", ".x", "v1beta1",
        )])];
        assert_eq!(
            read(&object, &rules, None).1.unwrap(),
            "version set in the path x is not matched for the related resource"
        );
    }

    #[test]
    fn well_known_status_exists_for_four_kinds_only() {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"succeeded": 1,
            "conditions": [{"type": "Complete", "status": "True"}]}});
        let (values, error) = read(&job, &[FeedbackRule::WellKnownStatus], None);
        let names: Vec<_> = values.iter().map(|v| &*v.name).collect();
        assert_eq!((names, error), (vec!["JobComplete", "JobSucceeded"], None));
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        assert_eq!(
            read(&map, &[FeedbackRule::WellKnownStatus], None).1.unwrap(),
            "cannot find the wellknown statuses for resource with gvk /v1, Kind=ConfigMap"
        );
    }
}
