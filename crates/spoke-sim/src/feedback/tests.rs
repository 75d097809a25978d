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
