//! The status of a ClusterVersion: what runs, what ran, what may run next.

use serde_json::{Value, json};

use super::condition::Conditions;
use super::field::{Time, object, require};

object! {
    /// A release as status lists it. It never has `force`.
    pub struct Release {
        /// `Multi` or empty; published only behind a gate.
        pub architecture: String = "architecture",
        /// Version.
        pub version: String = "version",
        /// Pull specification, by digest.
        pub image: String = "image",
        /// Errata page.
        pub url: String = "url",
        /// Channels that have it, sorted.
        pub channels: Vec<String> = "channels",
    }
}

object! {
    /// The query of a `PromQL` rule.
    pub struct PromQl {
        /// Its text; it gives 0 or 1.
        pub promql: String = "promql",
    }
}
super::field::optional!(PromQl);

object! {
    /// One rule of a risk.
    pub struct MatchingRule {
        /// `Always`, `PromQL`, or a type to come.
        pub kind: String = "type",
        /// Present with `PromQL` only.
        pub promql: Option<PromQl> = "promql",
    }
}

object! {
    /// A named reason not to update.
    pub struct Risk {
        /// Where to read on.
        pub url: String = "url",
        /// Name, unique within an update.
        pub name: String = "name",
        /// What may happen, to whom.
        pub message: String = "message",
        /// Who is exposed: the first rule that evaluates decides.
        pub matching_rules: Vec<MatchingRule> = "matchingRules",
        /// `Applies`; behind a gate.
        pub conditions: Conditions = "conditions",
    }
}

object! {
    /// An update that is recommended to some clusters only.
    pub struct ConditionalUpdate {
        /// The target.
        pub release: Release = "release",
        /// Names of the risks, sorted; behind a gate.
        pub risk_names: Vec<String> = "riskNames",
        /// At least one.
        pub risks: Vec<Risk> = "risks",
        /// `Recommended`.
        pub conditions: Conditions = "conditions",
    }
}

object! {
    /// A release that was or is being applied.
    pub struct HistoryEntry {
        /// [`PARTIAL`] or [`COMPLETED`].
        pub state: String = "state",
        /// When it became the release to reconcile.
        pub started_time: Option<Time> = "startedTime",
        /// When it was completed, or given up for the next one.
        pub completion_time: Option<Time> = "completionTime",
        /// Version; empty until the payload is loaded.
        pub version: String = "version",
        /// Pull specification.
        pub image: String = "image",
        /// Whether its signature was verified.
        pub verified: bool = "verified",
        /// What was overruled to get here, a line each.
        pub accepted_risks: String = "acceptedRisks",
    }
}

/// State of a release that is not applied as a whole.
pub const PARTIAL: &str = "Partial";
/// State of a release that was applied as a whole.
pub const COMPLETED: &str = "Completed";

object! {
    /// The status.
    pub struct Status {
        /// The release that is being reconciled.
        pub desired: Release = "desired",
        /// Newest first.
        pub history: Vec<HistoryEntry> = "history",
        /// The generation that the operator has taken up.
        pub observed_generation: i64 = "observedGeneration",
        /// Hash over the manifests.
        pub version_hash: String = "versionHash",
        /// Conditions of the cluster.
        pub conditions: Conditions = "conditions",
        /// Recommended updates, newest first; null when there are none.
        pub available_updates: Vec<Release> = "availableUpdates",
        /// Updates with risks, newest first.
        pub conditional_updates: Vec<ConditionalUpdate> = "conditionalUpdates",
        /// All risks of those, by name; behind a gate.
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

    fn complete(&mut self) {
        require(&mut self.other, "version", json!(""));
        require(&mut self.other, "image", json!(""));
    }
}

impl MatchingRule {
    /// Every cluster is exposed.
    #[must_use]
    pub fn always() -> Self {
        Self {
            kind: "Always".to_owned(),
            ..Self::default()
        }
    }

    /// The clusters are exposed for which the query gives 1.
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

impl Risk {
    fn complete(&mut self) {
        for key in ["url", "name", "message"] {
            require(&mut self.other, key, json!(""));
        }
        self.conditions.complete_strictly();
    }
}

impl ConditionalUpdate {
    /// Its condition `Recommended`.
    #[must_use]
    pub fn recommended(&self) -> Option<&super::Condition> {
        self.conditions.get(super::RECOMMENDED)
    }
}

impl HistoryEntry {
    /// Was it applied as a whole?
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.state == COMPLETED
    }
}

impl Status {
    /// The version a gate or a report means by "current": the newest that was completed, else the oldest entry, which
    /// is the one installed (`docs/design/cvo.md#current-version`). Empty without a history.
    #[must_use]
    pub fn current_version(&self) -> &str {
        let completed = self.history.iter().find(|entry| entry.is_completed());
        completed
            .or_else(|| self.history.last())
            .map_or("", |entry| entry.version.as_str())
    }

    /// Puts in what the schema requires, blank where there is nothing to say: a status that the law made is one that
    /// an API server takes.
    pub fn complete(&mut self) {
        self.desired.complete();
        require(&mut self.other, "desired", json!({}));
        require(&mut self.other, "observedGeneration", json!(0));
        require(&mut self.other, "versionHash", json!(""));
        require(&mut self.other, "availableUpdates", Value::Null);
        for entry in &mut self.history {
            require(&mut entry.other, "completionTime", Value::Null);
            require(&mut entry.other, "image", json!(""));
            require(&mut entry.other, "verified", json!(false));
            require(&mut entry.other, "version", json!(""));
        }
        self.available_updates.iter_mut().for_each(Release::complete);
        for update in &mut self.conditional_updates {
            update.release.complete();
            update.risks.iter_mut().for_each(Risk::complete);
            update.conditions.complete_strictly();
        }
        self.conditional_update_risks.iter_mut().for_each(Risk::complete);
    }
}
