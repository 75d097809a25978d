use super::*;
use api::views::{ManagedCluster, ManifestWork, Report, Upgrade};

fn deep() -> String {
    format!("{}1{}", "[".repeat(5000), "]".repeat(5000))
}

#[test]
fn an_object_that_is_nested_too_deeply_keeps_its_metadata() {
    let deep = deep();
    let text = format!(
        r#"{{"metadata":{{"name":"u","namespace":"ns","uid":"1","resourceVersion":"7","managedFields":{deep}}},"spec":{{"preUpgradeAction":{{"manifestWork":{{"workload":{{"manifests":[{deep}]}}}}}}}}}}"#
    );
    let (upgrade, _) = object::<Upgrade>(&text);
    let upgrade = upgrade.unwrap();
    assert_eq!(upgrade.metadata.uid.as_deref(), Some("1"));
    assert_eq!(upgrade.metadata.resource_version.as_deref(), Some("7"));
    assert!(upgrade.spec.error().is_some());
    assert_eq!(version(&text).as_deref(), Some("7"));
}

#[test]
fn of_metadata_that_cannot_be_read_the_readable_fields_are_left() {
    let text = r#"{"metadata":{"name":"c1","uid":5,"labels":{"a":"b"},"creationTimestamp":"soon"},"spec":{"hubAcceptsClient":true}}"#;
    let (cluster, readable) = object::<ManagedCluster>(text);
    let cluster = cluster.unwrap();
    assert!(!readable && cluster.unreadable_spec());
    assert_eq!(cluster.metadata.name.as_deref(), Some("c1"));
    assert_eq!(cluster.metadata.labels.unwrap()["a"], "b");
    assert!(cluster.metadata.uid.is_none());
}

#[test]
fn what_is_no_object_has_no_name() {
    for text in [
        "null",
        "5",
        "{}",
        "[]",
        r#"{"metadata":[]}"#,
        r#"{"metadata":{"name":{}}}"#,
    ] {
        let (work, readable) = object::<ManifestWork>(text);
        assert!(!readable || text.contains("metadata"), "{text}");
        assert!(work.is_none_or(|work| work.metadata.name.is_none()), "{text}");
        assert!(
            object::<Report>(text)
                .0
                .is_none_or(|report| report.metadata.name.is_none())
        );
    }
}

trait Unreadable {
    fn unreadable_spec(&self) -> bool;
}

impl Unreadable for ManagedCluster {
    fn unreadable_spec(&self) -> bool {
        self.spec.error().is_some()
    }
}
