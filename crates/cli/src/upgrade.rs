//! An upgrade as the hub sent it, and the parts of it that the plugin shows.
//!
//! Reading is tolerant, because the plugin must still show an object that was stored under an older CRD. The spec is read
//! field by field. A status that cannot be read is reported as unreadable and has no influence on exit codes.

use api::conditions;
use api::lenient::Lenient;
use api::mcu::{ClustersSummary, ManagedClustersUpgradeStatus};
use api::names::{ANNOTATION_RESUME_RESTORED, ANNOTATION_RETRY_FAILED, ANNOTATION_UPGRADE_UID};
use api::report::Phase;
use api::time::{parse_rfc3339, to_chrono};
use chrono::{DateTime, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use resolve::retry::token_of;
use serde::Deserialize as _;
use serde_json::Value;

/// Plural of the kind in URLs and messages.
pub const PLURAL: &str = "managedclustersupgrades";
/// `TYPE.GROUP` as `kubectl -o name` writes it.
pub const TYPE_AND_GROUP: &str = "managedclustersupgrade.cluster.open-cluster-management.io";

/// An upgrade (a `ManagedClustersUpgrade`).
#[derive(Clone, Debug, Default)]
pub struct Upgrade {
    /// The object as JSON without managed fields.
    pub object: Value,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// When it was created.
    pub created: Option<DateTime<Utc>>,
    /// True if its deletion was requested.
    pub deleting: bool,
    /// `spec.paused`.
    pub paused: bool,
    /// True if it was restored or copied and waits to be resumed.
    pub restored: bool,
    /// Value of the retry annotation.
    pub retry: String,
    /// Its status. `None` before the controller has written it, and if it cannot be read.
    pub status: Option<ManagedClustersUpgradeStatus>,
    /// Why the status cannot be read.
    pub unreadable: Option<String>,
}

/// Whether `status -w` may end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It continues, is paused, or the controller has not processed the newest spec or retry yet.
    Open,
    /// The upgrade is Ready.
    Ready,
    /// The upgrade is Stalled, with reason and message.
    Stalled(String, String),
}

/// Clusters whose update has not been requested. `clustersSummery` counts all of them as pending, also those that the spec leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotStarted {
    /// Clusters that are not left out.
    pub pending: i64,
    /// Clusters that are skipped.
    pub skipped: i64,
    /// Clusters that are aborted.
    pub aborted: i64,
}

impl NotStarted {
    /// Those of a status. An older controller wrote no phases, and knew no clusters that are left out.
    #[must_use]
    pub fn of(status: &ManagedClustersUpgradeStatus) -> NotStarted {
        let with = |phase: Phase| status.phases.get(phase.as_str()).copied().unwrap_or_default();
        let (skipped, aborted) = (with(Phase::Skipped), with(Phase::Aborted));
        let counted = status.clusters_summery.unwrap_or_default().pending;
        NotStarted {
            pending: counted.saturating_sub(skipped).saturating_sub(aborted).max(0),
            skipped,
            aborted,
        }
    }

    /// How many clusters are left out, and how. Empty if none is.
    #[must_use]
    pub fn left_out(self) -> Vec<(i64, Phase)> {
        let mut all = vec![(self.skipped, Phase::Skipped), (self.aborted, Phase::Aborted)];
        all.retain(|(clusters, _)| *clusters > 0);
        all
    }
}

impl Upgrade {
    /// Reads an object as the hub sent it.
    #[must_use]
    pub fn read(mut object: Value) -> Upgrade {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let annotation = |key: &str| {
            let annotations = metadata.get("annotations");
            let value = annotations.and_then(|annotations| annotations.get(key));
            value.and_then(Value::as_str)
        };
        let uid = text("/metadata/uid");
        let status: Lenient<ManagedClustersUpgradeStatus> =
            object.get("status").map_or(Lenient::Absent, |status| {
                Lenient::deserialize(status).unwrap_or_else(|error| Lenient::Broken(error.to_string()))
            });
        // Only the default of the schema is there before the controller has seen the object.
        let status = if status.good() == Some(&ManagedClustersUpgradeStatus::default()) {
            Lenient::Absent
        } else {
            status
        };
        let stalled = |reason: &str| {
            let mut conditions = status.good().into_iter().flat_map(|status| &status.conditions);
            conditions
                .any(|one| one.type_ == conditions::STALLED && one.status == "True" && one.reason == reason)
        };
        let unseen = matches!(status, Lenient::Absent);
        let held = stalled(conditions::reason::RESTORED)
            || (unseen && annotation(ANNOTATION_UPGRADE_UID).is_some_and(|life| life != uid));
        Upgrade {
            restored: held && annotation(ANNOTATION_RESUME_RESTORED) != Some(uid.as_str()),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            uid,
            generation: metadata
                .get("generation")
                .and_then(Value::as_i64)
                .unwrap_or_default(),
            created: parse_rfc3339(&text("/metadata/creationTimestamp")),
            deleting: metadata.get("deletionTimestamp").is_some(),
            paused: object
                .pointer("/spec/paused")
                .and_then(Value::as_bool)
                .unwrap_or_default(),
            retry: annotation(ANNOTATION_RETRY_FAILED).unwrap_or_default().to_owned(),
            unreadable: status.error().map(str::to_owned),
            status: status.into_good(),
            object,
        }
    }

    /// The string at a JSON pointer within the spec; empty if it is absent.
    #[must_use]
    pub fn spec_text(&self, pointer: &str) -> &str {
        self.object
            .get("spec")
            .and_then(|spec| spec.pointer(pointer))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The version or image to which clusters are upgraded, as in `kubectl get mcu`: that of the status or, before the
    /// controller has written one, that of the spec. `<operators only>` if neither names one.
    #[must_use]
    pub fn target(&self) -> String {
        let status = self.status.as_ref();
        let targets = [
            status
                .and_then(|status| status.target.as_deref())
                .unwrap_or_default(),
            self.spec_text("/clusterVersion/version"),
            self.spec_text("/clusterVersion/image"),
        ];
        let named = targets.into_iter().find(|target| !target.is_empty());
        named.unwrap_or("<operators only>").to_owned()
    }

    /// True if the spec has this action.
    #[must_use]
    pub fn has_action(&self, field: &str) -> bool {
        self.object
            .pointer(&format!("/spec/{field}"))
            .is_some_and(|action| !action.is_null())
    }

    /// The condition of this type.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.as_ref().and_then(|status| {
            status
                .conditions
                .iter()
                .find(|condition| condition.type_ == type_)
        })
    }

    /// True if the condition of this type is True.
    #[must_use]
    pub fn is(&self, type_: &str) -> bool {
        self.condition(type_)
            .is_some_and(|condition| condition.status == "True")
    }

    /// True if nothing moves before somebody approves the plan.
    #[must_use]
    pub fn waits_for_approval(&self) -> bool {
        self.condition(conditions::READY)
            .is_some_and(|ready| ready.reason == conditions::reason::WAITING_FOR_APPROVAL)
    }

    /// True if a cluster is in this phase. An older controller wrote no phases.
    #[must_use]
    pub fn has(&self, phase: Phase) -> bool {
        let phases = self.status.as_ref().map(|status| &status.phases);
        let count = phases.and_then(|phases| phases.get(phase.as_str()));
        count.is_some_and(|clusters| *clusters > 0)
    }

    /// The counts of the status; zero without one. Complete are the clusters whose post-action is done, too, while `clustersSummery`
    /// also counts those whose post-action still runs. An older controller wrote no phases.
    #[must_use]
    pub fn counts(&self) -> ClustersSummary {
        let Some(status) = &self.status else {
            return ClustersSummary::default();
        };
        let mut counts = status.clusters_summery.unwrap_or_default();
        if !status.phases.is_empty() {
            let complete = status.phases.get(Phase::Complete.as_str());
            counts.complete = complete.copied().unwrap_or_default();
        }
        counts
    }

    /// The counts of the canaries, of which those are complete whose post-action is done, too. `None` if the status has none.
    #[must_use]
    pub fn canaries(&self) -> Option<ClustersSummary> {
        let status = self.status.as_ref()?;
        let mut counts = status.canary_clusters_summery?;
        let told = status.canaries.as_deref().and_then(|text| text.split_once('/'));
        if let Some(complete) = told.and_then(|(complete, _)| complete.parse().ok()) {
            counts.complete = complete;
        }
        Some(counts)
    }

    /// The state in one word. It is `Deleting`, `<unreadable>` or `<unknown>` if the status does not contain it.
    #[must_use]
    pub fn state(&self) -> String {
        if self.deleting {
            return "Deleting".to_owned();
        }
        if self.unreadable.is_some() {
            return "<unreadable>".to_owned();
        }
        self.status
            .as_ref()
            .and_then(|status| status.state)
            .map_or_else(|| "<unknown>".to_owned(), |state| format!("{state:?}"))
    }

    /// True if the status describes the newest spec.
    #[must_use]
    pub fn is_observed(&self) -> bool {
        self.status
            .as_ref()
            .and_then(|status| status.observed_generation)
            .is_some_and(|observed| observed >= self.generation)
    }

    /// True if the controller has carried out the newest value of the retry annotation, and all retries of the spec.
    #[must_use]
    pub fn is_retry_handled(&self) -> bool {
        let status = self.status.as_ref();
        let observed = status.and_then(|status| status.observed_retry.as_deref());
        let carried_out = status.map_or(&[][..], |status| &status.retries);
        let asked = self.object.pointer("/spec/upgradeStrategy/retry");
        let mut asked = asked.and_then(Value::as_array).into_iter().flatten();
        (self.retry.is_empty() || observed == Some(token_of(&self.retry).as_str()))
            && asked.all(|request| carried_out.iter().any(|id| request["id"] == **id))
    }

    /// Whether `status -w` may end. It may not end before the status describes the newest spec and retry. While the spec is invalid, no
    /// retry is carried out, so none is waited for.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let stalled = self.condition(conditions::STALLED);
        let stalled = stalled.filter(|stalled| stalled.status == "True");
        let is_invalid = stalled.is_some_and(|stalled| stalled.reason == conditions::reason::INVALID_SPEC);
        if self.deleting || !self.is_observed() || !(is_invalid || self.is_retry_handled()) {
            return Verdict::Open;
        }
        if self.is(conditions::READY) {
            return Verdict::Ready;
        }
        stalled.map_or(Verdict::Open, |stalled| {
            Verdict::Stalled(stalled.reason.clone(), stalled.message.clone())
        })
    }
}

/// When the status of a condition last changed.
#[must_use]
pub fn changed_at(condition: &Condition) -> Option<DateTime<Utc>> {
    to_chrono(&condition.last_transition_time)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clusters_that_are_left_out_are_not_pending() {
        let of = |phases: Value| {
            let status = json!({
                "observedGeneration": 1, "phases": phases,
                "clustersSummery": {"total": 7, "initialized": 1, "partialUpgrade": 0, "complete": 1, "failed": 0, "pending": 6},
            });
            NotStarted::of(&Upgrade::read(json!({"status": status})).status.unwrap())
        };
        let all = of(json!({"Complete": 1, "Pending": 3, "Skipped": 2, "Aborted": 1}));
        assert_eq!(all.pending, 3);
        assert_eq!(all.left_out(), [(2, Phase::Skipped), (1, Phase::Aborted)]);
        let none = of(json!({}));
        assert_eq!((none.pending, none.left_out()), (6, Vec::new()));
    }

    #[test]
    fn the_target_is_that_of_the_status_and_until_there_is_one_that_of_the_spec() {
        let target = |wanted: Value, status: Value| {
            Upgrade::read(json!({"spec": {"clusterVersion": wanted}, "status": status})).target()
        };
        let image = "registry.example.com/release@sha256:00";
        let unseen = json!({"observedGeneration": -1});
        assert_eq!(target(json!({"image": image}), unseen.clone()), image);
        assert_eq!(
            target(json!({"image": image, "version": "4.12.0"}), unseen.clone()),
            "4.12.0"
        );
        assert_eq!(target(Value::Null, unseen), "<operators only>");
        // The newest spec is invalid, so that clusters continue with the one before.
        let status = json!({"observedGeneration": 2, "state": "Invalid", "target": "4.12.0"});
        assert_eq!(target(json!({"version": "v4.13"}), status), "4.12.0");
    }
}
