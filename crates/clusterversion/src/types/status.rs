//! The status of a ClusterVersion: the current release, the history and the updates.

use super::condition::Conditions;
use super::field::{Time, object};

object! {
    /// A release as the status lists it.
    pub struct Release {
        /// `Multi` or empty; only published with a feature gate.
        pub architecture: String = "architecture",
        /// Version.
        pub version: String = "version",
        /// Pull specification, by digest.
        pub image: String = "image",
        /// Errata page.
        pub url: String = "url",
        /// Channels that contain the release, sorted.
        pub channels: Vec<String> = "channels",
    }
}

object! {
    /// The query of a `PromQL` rule.
    pub struct PromQl {
        /// The query. Its result is 0 or 1.
        pub promql: String = "promql",
    }
}
super::field::optional!(PromQl);

object! {
    /// One rule of a risk.
    pub struct MatchingRule {
        /// `Always`, `PromQL`, or a future type.
        pub kind: String = "type",
        /// Only with type `PromQL`.
        pub promql: Option<PromQl> = "promql",
    }
}

object! {
    /// A known problem that an update may bring.
    pub struct Risk {
        /// URL with more information.
        pub url: String = "url",
        /// Name, unique within an update.
        pub name: String = "name",
        /// What may happen, and to which clusters.
        pub message: String = "message",
        /// Which clusters are exposed. The first rule that can be evaluated decides.
        pub matching_rules: Vec<MatchingRule> = "matchingRules",
        /// Condition `Applies`; only with a feature gate.
        pub conditions: Conditions = "conditions",
    }
}

object! {
    /// An update that is recommended only to clusters that are not exposed to its risks.
    pub struct ConditionalUpdate {
        /// The target.
        pub release: Release = "release",
        /// Names of the risks, sorted; only with a feature gate.
        pub risk_names: Vec<String> = "riskNames",
        /// The risks, at least one.
        pub risks: Vec<Risk> = "risks",
        /// Condition `Recommended`.
        pub conditions: Conditions = "conditions",
    }
}

object! {
    /// A release that is or was being applied.
    pub struct HistoryEntry {
        /// [`PARTIAL`] or [`COMPLETED`].
        pub state: String = "state",
        /// When the operator started to apply it.
        pub started_time: Option<Time> = "startedTime",
        /// When it was completed, or replaced by the next one.
        pub completion_time: Option<Time> = "completionTime",
        /// Version. It is empty until the payload is loaded.
        pub version: String = "version",
        /// Pull specification.
        pub image: String = "image",
        /// Whether its signature was verified.
        pub verified: bool = "verified",
        /// The risks that were accepted for this update, one line each.
        pub accepted_risks: String = "acceptedRisks",
    }
}

/// State of a release that is not fully applied.
pub const PARTIAL: &str = "Partial";
/// State of a release that was fully applied.
pub const COMPLETED: &str = "Completed";

object! {
    /// The status.
    pub struct Status {
        /// The release that is being reconciled.
        pub desired: Release = "desired",
        /// Newest first.
        pub history: Vec<HistoryEntry> = "history",
        /// The generation that the operator has observed.
        pub observed_generation: i64 = "observedGeneration",
        /// Hash over the manifests.
        pub version_hash: String = "versionHash",
        /// Conditions of the cluster.
        pub conditions: Conditions = "conditions",
        /// Recommended updates, newest first; null if there are none.
        pub available_updates: Vec<Release> = "availableUpdates",
        /// Conditional updates, newest first.
        pub conditional_updates: Vec<ConditionalUpdate> = "conditionalUpdates",
        /// All risks of those, by name; only with a feature gate.
        pub conditional_update_risks: Vec<Risk> = "conditionalUpdateRisks",
    }
}

impl Release {
    /// A release without metadata.
    #[must_use]
    pub fn new(version: impl Into<String>, image: impl Into<String>) -> Self {
        Self {
            version: version.into(),
            image: image.into(),
            ..Self::default()
        }
    }
}

impl MatchingRule {
    /// A rule by which every cluster is exposed.
    #[must_use]
    pub fn always() -> Self {
        Self {
            kind: "Always".to_owned(),
            ..Self::default()
        }
    }

    /// A rule by which those clusters are exposed for which the query gives 1.
    #[must_use]
    pub fn promql(query: impl Into<String>) -> Self {
        let query = PromQl {
            promql: query.into(),
            ..PromQl::default()
        };
        Self {
            kind: "PromQL".to_owned(),
            promql: Some(query),
            ..Self::default()
        }
    }
}

impl ConditionalUpdate {
    /// The condition `Recommended`.
    #[must_use]
    pub fn recommended(&self) -> Option<&super::ClusterOperatorCondition> {
        self.conditions.get(super::RECOMMENDED)
    }
}

impl HistoryEntry {
    /// Whether the release was fully applied.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.state == COMPLETED
    }
}

impl Status {
    /// The version that gates and reports call current (`docs/design/cvo.md#current-version`): the newest completed one, or else
    /// the oldest entry, which is the installed one. Empty without a history.
    #[must_use]
    pub fn current_version(&self) -> &str {
        let completed = self.history.iter().find(|entry| entry.is_completed());
        completed
            .or_else(|| self.history.last())
            .map_or("", |entry| entry.version.as_str())
    }
}
