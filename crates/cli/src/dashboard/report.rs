//! A report as the watch delivers it: only what the dashboard reads, with each row still as text.

use api::ManagedClustersUpgradeReport;
use api::lenient::capture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A report.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = "ManagedClustersUpgradeReport")]
pub struct Report {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Its rows, unread. None if the field is not a list.
    #[serde(default, deserialize_with = "texts")]
    pub rows: Vec<Box<RawValue>>,
}

impl Report {
    /// True if the owner of the report is the upgrade with this UID. Others may have its label: an earlier upgrade of the same name,
    /// which was deleted but not yet garbage-collected, or what somebody else wrote.
    #[must_use]
    pub fn is_owned_by(&self, uid: &str) -> bool {
        let mut owners = self.metadata.owner_references.iter().flatten();
        owners.any(|owner| owner.kind == "ManagedClustersUpgrade" && owner.uid == uid)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
}

fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Box<RawValue>>, D::Error> {
    let text = capture(deserializer)?;
    Ok(serde_json::from_str(text.get()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str) -> Report {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn reports_are_requested_as_what_the_hub_serves() {
        let path = "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/upgrades/managedclustersupgradereports";
        assert_eq!(Report::url_path(&(), Some("upgrades")), path);
    }

    #[test]
    fn rows_that_are_no_list_are_none_and_the_report_is_still_read() {
        assert!(
            report(r#"{"metadata":{"name":"r"},"rows":"many"}"#)
                .rows
                .is_empty()
        );
        assert!(report(r#"{"metadata":{"name":"r"}}"#).rows.is_empty());
        assert_eq!(
            report(r#"{"metadata":{"name":"r"},"rows":[{"a":1},2]}"#)
                .rows
                .len(),
            2
        );
    }

    #[test]
    fn a_report_of_an_earlier_upgrade_of_the_name_or_of_nobody_is_told_apart() {
        let owned = report(
            r#"{"metadata":{"ownerReferences":[
                {"apiVersion":"v1","kind":"ManagedClustersUpgrade","name":"spring","uid":"u1"}]}}"#,
        );
        assert!(owned.is_owned_by("u1") && !owned.is_owned_by("u2"));
        assert!(!report(r#"{"metadata":{}}"#).is_owned_by("u1"));
    }
}
