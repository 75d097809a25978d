//! Decodes one object as far as possible.

use std::collections::BTreeMap;

use kube::core::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// Metadata fields that are decoded one by one if the object as a whole cannot be decoded.
const FIELDS: [&str; 10] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "annotations",
    "finalizers",
];

#[derive(Default, Deserialize)]
struct Outline<'a> {
    #[serde(default, borrow)]
    metadata: Option<&'a RawValue>,
}

/// The object, and whether all of it was decoded. If it cannot be decoded, it consists of its readable
/// metadata, and its other parts are marked as unreadable. `None` if even that does not result in an object
/// of the kind.
pub(super) fn object<K: DeserializeOwned>(text: &str) -> (Option<K>, bool) {
    match serde_json::from_str(text) {
        Ok(object) => (Some(object), true),
        Err(_) => (outlined(text), false),
    }
}

fn outlined<K: DeserializeOwned>(text: &str) -> Option<K> {
    let metadata: Map<String, Value> = metadata(text)
        .into_iter()
        .filter(|(field, _)| FIELDS.contains(&field.as_str()))
        .filter_map(|(field, raw)| {
            let value: Value = serde_json::from_str(raw.get()).ok()?;
            let alone = json!({field.as_str(): value.clone()});
            serde_json::from_value::<ObjectMeta>(alone)
                .is_ok()
                .then_some((field, value))
        })
        .collect();
    let broken = "the object cannot be read";
    serde_json::from_value(json!({"metadata": metadata, "spec": broken, "status": broken, "rows": broken}))
        .ok()
}

/// The resource version of an object whose other fields do not matter.
pub(super) fn version(text: &str) -> Option<String> {
    let raw = metadata(text).remove("resourceVersion")?;
    serde_json::from_str(raw.get()).ok()
}

fn metadata(text: &str) -> BTreeMap<String, &RawValue> {
    let outline: Outline<'_> = serde_json::from_str(text).unwrap_or_default();
    outline
        .metadata
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
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
}
