//! ClusterVersion (`config.openshift.io/v1`) as it is read and written: known fields typed, everything else kept.
//!
//! Owns the shapes, and nothing of what they mean. Reading and writing lose nothing ([`field`]).

mod condition;
mod document;
pub mod field;
mod status;

pub use condition::{Condition, ConditionStatus, Conditions};
pub use document::{DocumentError, read_documents};
pub use field::Time;
pub use status::{
    COMPLETED, ConditionalUpdate, HistoryEntry, MatchingRule, PARTIAL, PromQl, Release, Risk, Status,
};

use field::{object, optional};

/// Condition types of a ClusterVersion, of an update and of a risk.
pub const AVAILABLE: &str = "Available";
/// See [`AVAILABLE`].
pub const FAILING: &str = "Failing";
/// See [`AVAILABLE`].
pub const PROGRESSING: &str = "Progressing";
/// See [`AVAILABLE`].
pub const RETRIEVED_UPDATES: &str = "RetrievedUpdates";
/// See [`AVAILABLE`].
pub const RELEASE_ACCEPTED: &str = "ReleaseAccepted";
/// See [`AVAILABLE`].
pub const UPGRADEABLE: &str = "Upgradeable";
/// See [`AVAILABLE`].
pub const INVALID: &str = "Invalid";
/// See [`AVAILABLE`].
pub const IMPLICITLY_ENABLED_CAPABILITIES: &str = "ImplicitlyEnabledCapabilities";
/// Of a conditional update.
pub const RECOMMENDED: &str = "Recommended";
/// Of a risk.
pub const APPLIES: &str = "Applies";

object! {
    /// Names and versions of an object; annotations and the like are in `other`.
    pub struct Metadata {
        /// `version`.
        pub name: String = "name",
        /// Counts changes of the spec.
        pub generation: i64 = "generation",
    }
}

object! {
    /// A risk that the administrator of the cluster accepts.
    pub struct AcceptRisk {
        /// Name of the risk.
        pub name: String = "name",
    }
}

object! {
    /// The request for an update.
    pub struct Update {
        /// `Multi`, for a migration to the payload of all architectures.
        pub architecture: String = "architecture",
        /// Version; alone it must be a recommended update.
        pub version: String = "version",
        /// Pull specification; with it anything may be asked for.
        pub image: String = "image",
        /// Overrules verification and preconditions.
        pub force: bool = "force",
        /// Risks accepted by name; behind a gate.
        pub accept_risks: Vec<AcceptRisk> = "acceptRisks",
    }
}
optional!(Update);

object! {
    /// An object that the operator is told to leave alone.
    pub struct ComponentOverride {
        /// Whether it is left alone.
        pub unmanaged: bool = "unmanaged",
    }
}

object! {
    /// The spec.
    pub struct Spec {
        /// UUID, version 4.
        pub cluster_id: String = "clusterID",
        /// Empty: the update service is not asked.
        pub channel: String = "channel",
        /// URL of the update service; empty: the operator's default.
        pub upstream: String = "upstream",
        /// The request.
        pub desired_update: Option<Update> = "desiredUpdate",
        /// Objects out of the operator's hands.
        pub overrides: Vec<ComponentOverride> = "overrides",
    }
}

object! {
    /// The object.
    pub struct ClusterVersion {
        /// `config.openshift.io/v1`.
        pub api_version: String = "apiVersion",
        /// `ClusterVersion`.
        pub kind: String = "kind",
        /// Metadata.
        pub metadata: Metadata = "metadata",
        /// What is asked for.
        pub spec: Spec = "spec",
        /// What is.
        pub status: Status = "status",
    }
}

impl ClusterVersion {
    /// An object named `version` without status.
    #[must_use]
    pub fn new(spec: Spec) -> Self {
        Self {
            api_version: "config.openshift.io/v1".to_owned(),
            kind: "ClusterVersion".to_owned(),
            metadata: Metadata {
                name: "version".to_owned(),
                generation: 1,
                ..Metadata::default()
            },
            spec,
            ..Self::default()
        }
    }

    /// Whether an override takes an object out of the operator's hands.
    #[must_use]
    pub fn has_overrides(&self) -> bool {
        self.spec.overrides.iter().any(|entry| entry.unmanaged)
    }
}
