use serde_json::{Value, json};

use super::*;
use crate::validate::{MAX_SPEC_BYTES, MAX_SPEC_VALUES};

fn read(spec: &Value) -> Upgrade {
    serde_json::from_str(&json!({"metadata": {"name": "a"}, "spec": spec}).to_string()).unwrap()
}

fn with_rest(rest: &Value) -> Value {
    json!({"preUpgradeAction": {"manifestWork": {"workload": {"manifests": []}, "later": rest}}})
}

#[test]
fn a_spec_above_its_bounds_is_refused_with_size_bound_and_remedy_and_not_kept() {
    let zeros = with_rest(&json!(vec![0; 700_000]));
    let long = with_rest(&json!("x".repeat(MAX_SPEC_BYTES)));
    let many = with_rest(&json!(vec![0; MAX_SPEC_VALUES]));
    for (spec, bound) in [
        (zeros, MAX_SPEC_BYTES),
        (long, MAX_SPEC_BYTES),
        (many, MAX_SPEC_VALUES),
    ] {
        let upgrade = read(&spec);
        let error = upgrade.spec.error().unwrap();
        assert!(error.len() < 300 && error.contains(&bound.to_string()), "{error}");
        assert!(error.contains("on the cluster"), "{error}");
    }
}

#[test]
fn specs_are_told_apart_without_their_text() {
    let spec = |version: &str| json!({"paused": false, "clusterVersion": {"version": version}});
    let (one, same, other) = (read(&spec("4.1.0")), read(&spec("4.1.0")), read(&spec("4.1.1")));
    assert!(one.spec.good().unwrap().parse().is_ok());
    let one = one.without_spec_text();
    assert!(one.spec.good().unwrap().parse().is_err());
    assert!(one.spec == same.spec && one.spec != other.spec);
    let ordered = r#"{"metadata": {}, "spec": {"clusterVersion": {"version": "4.1.0"}, "paused": false}}"#;
    assert_eq!(serde_json::from_str::<Upgrade>(ordered).unwrap().spec, one.spec);
}

#[test]
fn metadata_is_kept_within_bounds() {
    let key = |number: usize| format!("{}/x{number:06}", crate::GROUP);
    let junk: serde_json::Map<_, _> = (0..500).map(|number| (key(number), json!("y"))).collect();
    let mut annotations = junk.clone();
    annotations.insert(ANNOTATION_RETRY_FAILED.to_owned(), json!("z".repeat(100_000)));
    annotations.insert(ANNOTATION_UPGRADE_UID.to_owned(), json!("u1"));
    let mut finalizers: Vec<String> = (0..50_000).map(key).collect();
    finalizers.push(crate::names::FINALIZER.to_owned());
    let object = json!({"metadata": {"labels": junk, "annotations": annotations, "finalizers": finalizers}});
    let upgrade: Upgrade = serde_json::from_value(object).unwrap();
    assert!(upgrade.has_too_many_finalizers());
    assert_eq!(upgrade.metadata.labels, None);
    let kept = upgrade.metadata.annotations.as_ref().unwrap();
    assert_eq!(kept.len(), MAX_ANNOTATIONS);
    assert!((1..100).contains(&kept[ANNOTATION_RETRY_FAILED].len()));
    assert_eq!(kept[ANNOTATION_UPGRADE_UID], "u1");
    let finalizers = upgrade.metadata.finalizers.unwrap();
    assert_eq!(finalizers.len(), MAX_FINALIZERS + 1);
    assert_eq!(finalizers[0], crate::names::FINALIZER);
}

#[test]
fn a_status_that_the_controller_never_writes_is_not_kept() {
    let status = json!({"progress": "x".repeat(MAX_STATUS_BYTES)});
    let upgrade: Upgrade = serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap();
    assert!(upgrade.status.error().unwrap().contains("65536"));
}
