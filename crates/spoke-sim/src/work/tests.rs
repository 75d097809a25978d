use super::{DeleteOption, Interner, WorkSpec};
use crate::store::ObjectKey;

fn option(json: &str) -> DeleteOption {
    serde_json::from_str(json).unwrap()
}

#[test]
fn orphaning_rules_match_group_plural_namespace_and_name_exactly() {
    let version = ObjectKey::parse("clusterversions.config.openshift.io", "", "version");
    let rule = |fields: &str| {
        option(&format!(
            r#"{{"propagationPolicy":"SelectivelyOrphan","selectivelyOrphans":{{"orphaningRules":[{fields}]}}}}"#
        ))
    };
    let cases = [
        (
            r#"{"group":"config.openshift.io","resource":"clusterversions","name":"version","namespace":""}"#,
            false,
        ),
        (
            r#"{"group":"config.openshift.io","resource":"clusterversions","name":"version"}"#,
            false,
        ),
        (
            r#"{"group":"","resource":"ClusterVersion.config.openshift.io","name":"version"}"#,
            true,
        ),
        (
            r#"{"group":"config.openshift.io","resource":"ClusterVersion","name":"version"}"#,
            true,
        ),
        (
            r#"{"group":"config.openshift.io","resource":"clusterversions","name":"*"}"#,
            true,
        ),
        (
            r#"{"group":"config.openshift.io","resource":"clusterversions","name":"version","namespace":"*"}"#,
            true,
        ),
    ];
    for (fields, owned) in cases {
        assert_eq!(rule(fields).owns(&version), owned, "{fields}");
    }
}

#[test]
fn foreground_is_the_default_and_orphan_keeps_everything() {
    let key = ObjectKey::parse("namespaces", "", "x");
    assert!(DeleteOption::default().owns(&key));
    assert!(option(r#"{"propagationPolicy":"SelectivelyOrphan"}"#).owns(&key));
    assert!(!option(r#"{"propagationPolicy":"Orphan"}"#).owns(&key));
}

#[test]
fn equal_texts_of_two_works_are_kept_once() {
    let mut interner = Interner::default();
    let spec = r#"{"workload":{"manifests":[{"kind":"Namespace"}]},"manifestConfigs":[]}"#;
    let (a, b) = (
        WorkSpec::parse(spec, &mut interner).unwrap(),
        WorkSpec::parse(spec, &mut interner).unwrap(),
    );
    assert!(std::sync::Arc::ptr_eq(&a.manifests[0], &b.manifests[0]));
    assert!(std::sync::Arc::ptr_eq(&a.configs, &b.configs));
}
