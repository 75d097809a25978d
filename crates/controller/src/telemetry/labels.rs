//! The closed label sets of the metrics.
//!
//! Owns every label name and value. Refuses open sets: a label value is a variant here or it is not a label.

#![expect(
    clippy::doc_markdown,
    reason = "comments on values are their documentation, where backticks would show"
)]

use std::fmt::{self, Write};

use prometheus_client::encoding::{
    EncodeLabel, EncodeLabelSet, EncodeLabelValue, LabelSetEncoder, LabelValueEncoder,
};

/// A label with its values, for the reference documentation.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// Label name.
    pub name: &'static str,
    /// Every value and its meaning.
    pub values: &'static [(&'static str, &'static str)],
}

macro_rules! label {
    ($(#[doc = $about:literal])+ $name:ident, $label:literal,
     { $($(#[doc = $doc:literal])+ $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[doc = $doc])+ $variant),+ }

        impl $name {
            /// Every variant, in order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The label's name and documented values.
            pub const LABEL: Label = Label { name: $label, values: &[$(($text, concat!($($doc),+))),+] };

            /// The label value.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder) -> fmt::Result {
                encoder.write_str(self.as_str())
            }
        }

        impl EncodeLabelSet for $name {
            fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
                ($label, *self).encode(encoder.encode_label())
            }
        }
    };
}

label! {
    /// How a reconcile of one upgrade ended.
    ReconcileOutcome, "outcome", {
        /// At least one write was made.
        Written = "written",
        /// Nothing was to be done.
        Unchanged = "unchanged",
        /// The spec breaks a rule; nothing starts.
        Invalid = "invalid",
        /// A write failed and is repeated.
        Failed = "failed",
        /// The independent check refused the plan; nothing was written.
        Violation = "violation",
    }
}

label! {
    /// Which kind of write.
    WriteKind, "kind", {
        /// A ManifestWork was created.
        Create = "create",
        /// The content of a ManifestWork was changed.
        Update = "update",
        /// A ManifestWork was deleted.
        Delete = "delete",
        /// Labels or annotations of a ManifestWork were changed.
        Mark = "mark",
        /// A ManifestWork of an earlier attempt was taken over.
        Readopt = "readopt",
        /// The status of an upgrade was written.
        Status = "status",
        /// A shard of the report was written.
        Report = "report",
        /// An Event was published.
        Event = "event",
        /// The finalizer of an upgrade was set or removed.
        Finalizer = "finalizer",
        /// A ManifestWork was read, before its deadline failed a cluster or because the answer to a write was lost.
        Read = "read",
    }
}

label! {
    /// How a write ended.
    WriteOutcome, "outcome", {
        /// The server accepted it.
        Ok = "ok",
        /// Answered 409: the object exists or changed meanwhile.
        Conflict = "conflict",
        /// Answered 404.
        NotFound = "not_found",
        /// Answered 401 or 403.
        Forbidden = "forbidden",
        /// Answered 400 or 422.
        Invalid = "invalid",
        /// Answered 429: put off, not carried out.
        Overloaded = "overloaded",
        /// Answered 5xx.
        Unavailable = "unavailable",
        /// No answer in time.
        Timeout = "timeout",
        /// Not sent: no connection to the server could be made.
        Unreachable = "unreachable",
        /// The connection failed or the answer was unreadable.
        Error = "error",
        /// Not sent, or given up: the lease was lost.
        Fenced = "fenced",
    }
}

impl WriteOutcome {
    /// True when the server said no, so that the write was certainly not carried out.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::Conflict | Self::NotFound | Self::Forbidden | Self::Invalid
        )
    }

    /// The outcome that an error of the client stands for.
    #[must_use]
    pub fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                401 | 403 => Self::Forbidden,
                404 | 410 => Self::NotFound,
                409 => Self::Conflict,
                // It came too late for a proxy, which says nothing of the API server.
                408 => Self::Error,
                429 => Self::Overloaded,
                500..=599 => Self::Unavailable,
                400..=499 => Self::Invalid,
                _ => Self::Error,
            },
            _ if is_unreachable(error) => Self::Unreachable,
            _ => Self::Error,
        }
    }
}

/// True when nothing was sent: nobody listens at the address.
fn is_unreachable(error: &kube::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let of_socket = error.downcast_ref::<std::io::Error>();
        if of_socket.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    false
}

label! {
    /// Phase of a cluster.
    ClusterPhase, "phase", {
        /// Selected, not started.
        Pending = "Pending",
        /// Cannot start.
        Blocked = "Blocked",
        /// The pre-action runs.
        PreAction = "PreAction",
        /// The pre-action failed or timed out.
        PreActionDegraded = "PreActionDegraded",
        /// The platform work exists, the cluster has not taken the target yet.
        Initialized = "Initialized",
        /// The cluster is updating.
        Partial = "Partial",
        /// The operators' Job runs.
        Operators = "Operators",
        /// Upgraded and watched for minSuccessTime.
        Soaking = "Soaking",
        /// Done.
        Complete = "Complete",
        /// Done, the post-action runs.
        PostAction = "PostAction",
        /// Failed.
        Failed = "Failed",
    }
}

impl From<rollout::Phase> for ClusterPhase {
    fn from(phase: rollout::Phase) -> Self {
        use rollout::Phase;
        match phase {
            Phase::Pending => Self::Pending,
            Phase::Blocked => Self::Blocked,
            Phase::PreAction => Self::PreAction,
            Phase::PreActionDegraded => Self::PreActionDegraded,
            Phase::Initialized => Self::Initialized,
            Phase::Partial => Self::Partial,
            Phase::Operators => Self::Operators,
            Phase::Soaking => Self::Soaking,
            Phase::Complete => Self::Complete,
            Phase::PostAction => Self::PostAction,
            Phase::Failed => Self::Failed,
        }
    }
}

label! {
    /// State of an upgrade, by its conditions. Each upgrade is counted in exactly one.
    UpgradeState, "state", {
        /// The spec breaks a rule (Stalled=True, InvalidSpec).
        Invalid = "invalid",
        /// spec.paused is set and it is not complete.
        Paused = "paused",
        /// Nothing moves without a human (Stalled=True).
        Stalled = "stalled",
        /// Something runs or will start without a human (Reconciling=True).
        Running = "running",
        /// Every selected cluster is complete.
        Complete = "complete",
    }
}

label! {
    /// Kind of a watched object.
    WatchKind, "kind", {
        /// ManagedClustersUpgrade.
        Upgrade = "ManagedClustersUpgrade",
        /// ManagedClustersUpgradeReport.
        Report = "ManagedClustersUpgradeReport",
        /// ManifestWork with our label.
        Work = "ManifestWork",
        /// ManagedCluster.
        Cluster = "ManagedCluster",
        /// ManagedClusterSet.
        ClusterSet = "ManagedClusterSet",
        /// ManagedClusterSetBinding.
        Binding = "ManagedClusterSetBinding",
        /// Placement.
        Placement = "Placement",
        /// PlacementDecision.
        Decision = "PlacementDecision",
    }
}

label! {
    /// Why an Event was not sent.
    EventDrop, "cause", {
        /// The queue was full; the oldest went.
        QueueFull = "queue_full",
        /// The same Event was sent within the last ten minutes.
        Duplicate = "duplicate",
        /// This replica does not lead.
        NotLeader = "not_leader",
        /// The server refused it or was not reachable.
        Failed = "failed",
    }
}

/// Kind and outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Action {
    /// Which write.
    pub kind: WriteKind,
    /// How it ended.
    pub outcome: WriteOutcome,
}

impl EncodeLabelSet for Action {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        EncodeLabelSet::encode(&self.kind, encoder)?;
        EncodeLabelSet::encode(&self.outcome, encoder)
    }
}

/// The running version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version(pub &'static str);

impl EncodeLabelSet for Version {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        ("version", self.0).encode(encoder.encode_label())
    }
}
