//! ClusterVersion (`config.openshift.io/v1`) as it is read and written. Known fields are typed, and all others are kept, so
//! that reading and writing lose nothing ([`field`]).

mod condition;
mod document;
pub mod field;
mod status;

pub use condition::{ClusterOperatorCondition, ConditionStatus, Conditions};
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
/// Of a conditional update.
pub const RECOMMENDED: &str = "Recommended";
/// Of a risk.
pub const APPLIES: &str = "Applies";

object! {
    /// Metadata of an object. Annotations, labels and so on are in `other`.
    pub struct ObjectMetadata {
        /// `version`.
        pub name: String = "name",
        /// `generation`: counts changes of the spec.
        pub generation: i64 = "generation",
    }
}

object! {
    /// A risk that the administrator accepts.
    pub struct AcceptRisk {
        /// Name of the risk.
        pub name: String = "name",
    }
}

object! {
    /// The requested update.
    pub struct Update {
        /// `Multi` requests the migration to the payload for all architectures.
        pub architecture: String = "architecture",
        /// Version. Without an image it must be an available update.
        pub version: String = "version",
        /// Pull specification. With an image any release can be requested.
        pub image: String = "image",
        /// Whether verification and preconditions are ignored.
        pub force: bool = "force",
        /// Risks accepted by name; only with a feature gate.
        pub accept_risks: Vec<AcceptRisk> = "acceptRisks",
    }
}
optional!(Update);

object! {
    /// An object that the operator may be told not to manage.
    pub struct ComponentOverride {
        /// Whether the operator does not manage it.
        pub unmanaged: bool = "unmanaged",
    }
}

object! {
    /// The spec.
    pub struct Spec {
        /// UUID, version 4.
        pub cluster_id: String = "clusterID",
        /// Channel. If it is empty, the operator retrieves no updates.
        pub channel: String = "channel",
        /// URL of the update service. If it is empty, the operator uses its default.
        pub upstream: String = "upstream",
        /// The requested update.
        pub desired_update: Option<Update> = "desiredUpdate",
        /// Objects that the operator may be told not to manage.
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
        pub metadata: ObjectMetadata = "metadata",
        /// Spec.
        pub spec: Spec = "spec",
        /// Status.
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
            metadata: ObjectMetadata {
                name: "version".to_owned(),
                generation: 1,
                ..ObjectMetadata::default()
            },
            spec,
            ..Self::default()
        }
    }

    /// Whether the operator is told not to manage some object.
    #[must_use]
    pub fn has_overrides(&self) -> bool {
        self.spec.overrides.iter().any(|entry| entry.unmanaged)
    }
}
