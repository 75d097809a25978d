//! Objects as they were seen: an upgrade with its status, a work with what matters in it.

use std::sync::Arc;

use api::mcu::{ActionSummary, ClusterNote, ClustersSummary, ManagedClustersUpgradeStatus};
use api::names;
use api::time::parse_rfc3339;
use chrono::{DateTime, Utc};
use serde_json::Value;

/// One version of an upgrade.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The whole object.
    pub raw: Arc<Value>,
    /// Its status; the default if there is none yet.
    pub status: ManagedClustersUpgradeStatus,
}

impl Seen {
    /// Reads an upgrade; a status that does not parse counts as none, which breaks an invariant.
    #[must_use]
    pub fn new(raw: &Arc<Value>) -> Self {
        let status = serde_json::from_value(raw["status"].clone()).unwrap_or_default();
        Self {
            raw: Arc::clone(raw),
            status,
        }
    }

    /// `metadata.generation`.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.raw["metadata"]["generation"].as_i64().unwrap_or_default()
    }

    /// True when the status is about the current spec.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.status.observed_generation == Some(self.generation())
    }

    /// `clustersSummery`.
    #[must_use]
    pub fn clusters(&self) -> ClustersSummary {
        self.status.clusters_summery.unwrap_or_default()
    }

    /// `canaryClustersSummery`.
    #[must_use]
    pub fn canaries(&self) -> ClustersSummary {
        self.status.canary_clusters_summery.unwrap_or_default()
    }

    /// `preUpgradeActionSummary`.
    #[must_use]
    pub fn pre(&self) -> ActionSummary {
        self.status.pre_upgrade_action_summary.unwrap_or_default()
    }

    /// `postUpgradeActionSummary`.
    #[must_use]
    pub fn post(&self) -> ActionSummary {
        self.status.post_upgrade_action_summary.unwrap_or_default()
    }

    /// `status.inFlight`.
    #[must_use]
    pub fn in_flight(&self) -> i64 {
        self.status.in_flight.unwrap_or_default()
    }

    /// Status of a condition; empty when it is absent.
    #[must_use]
    pub fn condition(&self, r#type: &str) -> &str {
        self.find(r#type)
            .map_or("", |condition| condition.status.as_str())
    }

    /// True when a condition is True.
    #[must_use]
    pub fn is(&self, r#type: &str) -> bool {
        self.condition(r#type) == "True"
    }

    /// True when a condition is False, which is not the same as absent.
    #[must_use]
    pub fn is_not(&self, r#type: &str) -> bool {
        self.condition(r#type) == "False"
    }

    /// Reason of a condition.
    #[must_use]
    pub fn reason(&self, r#type: &str) -> &str {
        self.find(r#type)
            .map_or("", |condition| condition.reason.as_str())
    }

    /// Message of a condition.
    #[must_use]
    pub fn message(&self, r#type: &str) -> &str {
        self.find(r#type)
            .map_or("", |condition| condition.message.as_str())
    }

    /// True when Stalled with this reason.
    #[must_use]
    pub fn stalled(&self, reason: &str) -> bool {
        self.is("Stalled") && self.reason("Stalled") == reason
    }

    /// What the capped list says of a failed cluster.
    #[must_use]
    pub fn failed(&self, cluster: &str) -> Option<&ClusterNote> {
        self.status
            .failed_clusters
            .iter()
            .find(|note| note.name == cluster)
    }

    /// What the capped list says of a waiting cluster.
    #[must_use]
    pub fn waiting(&self, cluster: &str) -> Option<&ClusterNote> {
        self.status
            .waiting_clusters
            .iter()
            .find(|note| note.name == cluster)
    }

    fn find(&self, r#type: &str) -> Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
        self.status
            .conditions
            .iter()
            .find(|condition| condition.type_ == r#type)
    }
}

/// One version of a work.
#[derive(Debug, Clone)]
pub struct Work {
    /// The whole object.
    pub raw: Arc<Value>,
}

impl Work {
    /// Wraps a work.
    #[must_use]
    pub fn new(raw: &Arc<Value>) -> Self {
        Self { raw: Arc::clone(raw) }
    }

    /// `metadata.uid`.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.raw["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// `metadata.generation`.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.raw["metadata"]["generation"].as_i64().unwrap_or_default()
    }

    /// True while it is being deleted.
    #[must_use]
    pub fn terminating(&self) -> bool {
        self.raw["metadata"]["deletionTimestamp"].is_string()
    }

    /// An annotation; empty when absent.
    #[must_use]
    pub fn annotation(&self, name: &str) -> &str {
        self.raw["metadata"]["annotations"][name]
            .as_str()
            .unwrap_or_default()
    }

    /// A label; empty when absent.
    #[must_use]
    pub fn label(&self, name: &str) -> &str {
        self.raw["metadata"]["labels"][name].as_str().unwrap_or_default()
    }

    /// Start of the step's clock.
    #[must_use]
    pub fn started(&self) -> Option<DateTime<Utc>> {
        parse_rfc3339(self.annotation(names::ANNOTATION_STARTED_AT))
    }

    /// `spec.workload.manifests`.
    #[must_use]
    pub fn manifests(&self) -> &[Value] {
        self.raw["spec"]["workload"]["manifests"]
            .as_array()
            .map_or(&[], Vec::as_slice)
    }

    /// The version that a platform work requests.
    #[must_use]
    pub fn target(&self) -> &str {
        self.manifests()
            .first()
            .and_then(|manifest| manifest["spec"]["desiredUpdate"]["version"].as_str())
            .unwrap_or_default()
    }

    /// An environment variable of the approver's Job.
    #[must_use]
    pub fn approver_env(&self, name: &str) -> Option<&str> {
        self.manifests()
            .last()?
            .pointer("/spec/template/spec/containers/0/env")?
            .as_array()?
            .iter()
            .find(|variable| variable["name"] == name)?["value"]
            .as_str()
    }
}
