//! The labels of the metrics. Every label has a closed set of values, each of them named here, except namespace, name and target of
//! an upgrade: the number of upgrades that have series is limited ([`super::upgrades`]).

#![expect(
    clippy::doc_markdown,
    reason = "comments on values are their documentation, where backticks would show"
)]

use std::fmt::{self, Write};

use crate::apply::{WriteErrorKind, WriteResult};
use api::conditions::TYPES;
use api::report::{Outcome, Phase, Stage};
use prometheus_client::encoding::{
    EncodeLabel, EncodeLabelSet, EncodeLabelValue, LabelSetEncoder, LabelValueEncoder,
};
use rollout::Reason;

/// A label with its values, for the reference documentation.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// Label name.
    pub name: &'static str,
    /// Every value and its meaning.
    pub values: &'static [(&'static str, &'static str)],
}

macro_rules! label {
    ($(#[doc = $about:literal])+ pub enum $name:ident = $label:literal
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
    /// The outcome of a pass over one upgrade.
    pub enum ReconcileOutcome = "outcome" {
        /// At least one write was queued.
        Written = "written",
        /// There was nothing to do.
        Unchanged = "unchanged",
        /// The spec violates a rule; no cluster starts.
        Invalid = "invalid",
        /// The independent check rejected the plan; nothing was written.
        Violation = "violation",
    }
}

label! {
    /// Which kind of write.
    pub enum WriteKind = "kind" {
        /// A ManifestWork was created.
        Create = "create",
        /// The content of a ManifestWork was changed.
        Update = "update",
        /// A ManifestWork was deleted.
        Delete = "delete",
        /// Labels or annotations of a ManifestWork were changed.
        Mark = "mark",
        /// The status of an upgrade was written.
        Status = "status",
        /// A shard of the report was written.
        Report = "report",
        /// An Event was published.
        Event = "event",
        /// The finalizer of an upgrade was set or removed.
        Finalizer = "finalizer",
        /// A ManifestWork was read, either before its deadline failed a cluster or because the response to a write was lost.
        Read = "read",
    }
}

label! {
    /// How a write ended.
    pub enum WriteOutcome = "outcome" {
        /// The server accepted it.
        Ok = "ok",
        /// The server responded with 409: the object exists already, or it changed in the meantime.
        Conflict = "conflict",
        /// The server responded with 404.
        NotFound = "not_found",
        /// The server responded with 401 or 403; with 403 also if the namespace is being deleted.
        Forbidden = "forbidden",
        /// The server responded with 400 or 422.
        Invalid = "invalid",
        /// The server responded with 429 and did not process the write.
        Overloaded = "overloaded",
        /// The server responded with 5xx.
        Unavailable = "unavailable",
        /// The server did not respond in time.
        Timeout = "timeout",
        /// Not sent: no connection to the server could be made.
        Unreachable = "unreachable",
        /// The connection failed, or the response was unreadable.
        Error = "error",
        /// The lease was lost, so the write was not sent or was given up.
        Fenced = "fenced",
    }
}

impl From<WriteErrorKind> for WriteOutcome {
    fn from(kind: WriteErrorKind) -> Self {
        match kind {
            WriteErrorKind::Conflict => Self::Conflict,
            WriteErrorKind::NotFound => Self::NotFound,
            WriteErrorKind::Forbidden => Self::Forbidden,
            WriteErrorKind::Invalid => Self::Invalid,
            WriteErrorKind::Overloaded => Self::Overloaded,
            WriteErrorKind::Unavailable => Self::Unavailable,
            WriteErrorKind::Timeout => Self::Timeout,
            WriteErrorKind::Unreachable => Self::Unreachable,
            WriteErrorKind::Broken => Self::Error,
        }
    }
}

impl From<&WriteResult> for WriteOutcome {
    fn from(result: &WriteResult) -> Self {
        match result {
            WriteResult::Work(_)
            | WriteResult::DeletionAccepted { .. }
            | WriteResult::Upgrade(_)
            | WriteResult::Report(_)
            | WriteResult::ReportDeleted => Self::Ok,
            WriteResult::Gone | WriteResult::NamespaceMissing => Self::NotFound,
            WriteResult::Rival(_)
            | WriteResult::WorkChanged(_)
            | WriteResult::Foreign
            | WriteResult::ForeignTerminating
            | WriteResult::UpgradeChanged(_)
            | WriteResult::ReportChanged(_) => Self::Conflict,
            WriteResult::Refused(_) | WriteResult::ReportRefused { .. } => Self::Invalid,
            WriteResult::NamespaceTerminating => Self::Forbidden,
            WriteResult::NotLeading | WriteResult::GivenUp => Self::Fenced,
            WriteResult::Failed(error) => error.kind.into(),
        }
    }
}

/// Phase of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClusterPhase(pub Phase);

impl ClusterPhase {
    /// Every phase, in the order of [`Phase::ALL`].
    pub const ALL: &'static [Self] = &{
        let mut all = [Self(Phase::Pending); Phase::ALL.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = Self(Phase::ALL[at]);
            at += 1;
        }
        all
    };
    /// The label's name and documented values.
    pub const LABEL: Label = Label {
        name: "phase",
        values: &[
            (
                Phase::Pending.as_str(),
                " The cluster is selected and has not started.",
            ),
            (Phase::Blocked.as_str(), " Cannot start."),
            (Phase::PreAction.as_str(), " The pre-action is running."),
            (
                Phase::PreActionDegraded.as_str(),
                " The pre-action failed or timed out.",
            ),
            (
                Phase::Initialized.as_str(),
                " The platform work exists, but the cluster has not accepted the target yet.",
            ),
            (Phase::Partial.as_str(), " The cluster is updating."),
            (
                Phase::Workers.as_str(),
                " The cluster is updated, and its worker pools follow.",
            ),
            (
                Phase::Operators.as_str(),
                " The approval Job of the operators is running.",
            ),
            (
                Phase::Soaking.as_str(),
                " The cluster is upgraded and observed for minSuccessTime.",
            ),
            (Phase::Complete.as_str(), " Done."),
            (
                Phase::PostAction.as_str(),
                " The upgrade is done, and the post-action is running.",
            ),
            (Phase::Failed.as_str(), " Failed."),
            (Phase::Skipped.as_str(), " Left out by the spec."),
            (
                Phase::Aborted.as_str(),
                " Left out by the spec, and what it was asked for is withdrawn.",
            ),
        ],
    };
}

impl EncodeLabelSet for ClusterPhase {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        ("phase", self.0.as_str()).encode(encoder.encode_label())
    }
}

label! {
    /// State of an upgrade, by its conditions. Each upgrade is counted in exactly one.
    pub enum UpgradeStateLabel = "state" {
        /// The spec violates a rule (Stalled=True, InvalidSpec).
        Invalid = "invalid",
        /// spec.paused is set and the upgrade is not complete.
        Paused = "paused",
        /// Nothing is in flight, and no cluster starts until somebody approves the plan.
        WaitingForApproval = "waiting_for_approval",
        /// No cluster will move until a human acts (Stalled=True).
        Stalled = "stalled",
        /// A cluster is in flight or will start without a human (Reconciling=True).
        Running = "running",
        /// Every selected cluster is complete.
        Complete = "complete",
    }
}

label! {
    /// How a cluster's attempt ended.
    pub enum Finish = "outcome" {
        /// Every step succeeded.
        Complete = "complete",
        /// A step failed or timed out.
        Failed = "failed",
        /// The pre-action failed or timed out. The cluster continues by itself if the action recovers.
        Degraded = "degraded",
    }
}

impl Finish {
    /// How an attempt ended that is in this phase. `None` while it has not ended.
    #[must_use]
    pub const fn of(phase: Phase) -> Option<Self> {
        match phase {
            Phase::Complete => Some(Self::Complete),
            Phase::Failed => Some(Self::Failed),
            Phase::PreActionDegraded => Some(Self::Degraded),
            Phase::Pending
            | Phase::Blocked
            | Phase::PreAction
            | Phase::Initialized
            | Phase::Partial
            | Phase::Workers
            | Phase::Operators
            | Phase::Soaking
            | Phase::PostAction
            | Phase::Skipped
            | Phase::Aborted => None,
        }
    }
}

label! {
    /// How a step of a cluster ended.
    pub enum StepEnd = "outcome" {
        /// It succeeded.
        Succeeded = "succeeded",
        /// It failed or timed out.
        Failed = "failed",
    }
}

impl From<Outcome> for StepEnd {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Succeeded,
            Outcome::Failed => Self::Failed,
        }
    }
}

label! {
    /// Kind of a watched object.
    pub enum WatchKind = "kind" {
        /// ManagedClustersUpgrade.
        Upgrade = "ManagedClustersUpgrade",
        /// ManagedClustersUpgradeReport.
        Report = "ManagedClustersUpgradeReport",
        /// ManagedClustersUpgradeApproval.
        Approval = "ManagedClustersUpgradeApproval",
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
    pub enum EventDrop = "cause" {
        /// The queue was full, so the oldest Event was dropped.
        QueueFull = "queue_full",
        /// The same Event was sent within the last ten minutes.
        Duplicate = "duplicate",
        /// This replica does not lead.
        NotLeader = "not_leader",
        /// The server rejected it or could not be reached.
        Failed = "failed",
    }
}

/// Kind and outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ActionLabels {
    /// Which write.
    pub kind: WriteKind,
    /// How it ended.
    pub outcome: WriteOutcome,
}

impl EncodeLabelSet for ActionLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        EncodeLabelSet::encode(&self.kind, encoder)?;
        EncodeLabelSet::encode(&self.outcome, encoder)
    }
}

/// How a cluster's attempt ended, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FinishLabels {
    /// How it ended.
    pub outcome: Finish,
    /// Why it failed; `None` if it is complete.
    pub reason: Reason,
}

impl EncodeLabelSet for FinishLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        EncodeLabelSet::encode(&self.outcome, encoder)?;
        (REASON.name, self.reason.as_str()).encode(encoder.encode_label())
    }
}

/// A step that ended, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StepLabels {
    /// The step.
    pub step: Stage,
    /// How it ended.
    pub outcome: StepEnd,
}

impl StepLabels {
    /// Every pair.
    pub fn all() -> impl Iterator<Item = Self> {
        let steps = Stage::ALL.into_iter();
        steps.flat_map(|step| StepEnd::ALL.iter().map(move |&outcome| Self { step, outcome }))
    }
}

impl EncodeLabelSet for StepLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        (STEP.name, step_name(self.step)).encode(encoder.encode_label())?;
        EncodeLabelSet::encode(&self.outcome, encoder)
    }
}

const fn step_name(step: Stage) -> &'static str {
    match step {
        Stage::PreAction => "PreAction",
        Stage::Platform => "Platform",
        Stage::Operators => "Operators",
        Stage::Soak => "Soak",
        Stage::PostAction => "PostAction",
    }
}

/// An upgrade, and one more label of its series.
///
/// The namespace has a name of its own: a scrape sets the label `namespace` to that of the controller.
#[derive(Clone, Copy, Debug)]
pub struct UpgradeLabels<'a> {
    /// Namespace and name of the upgrade.
    pub upgrade: (&'a str, &'a str),
    /// Name and value of the other label, if there is one.
    pub other: Option<(&'static str, &'static str)>,
}

impl EncodeLabelSet for UpgradeLabels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        (UPGRADE_NAMESPACE.name, self.upgrade.0).encode(encoder.encode_label())?;
        (UPGRADE.name, self.upgrade.1).encode(encoder.encode_label())?;
        self.other
            .map_or(Ok(()), |other| other.encode(encoder.encode_label()))
    }
}

/// Namespace of an upgrade.
pub const UPGRADE_NAMESPACE: Label = Label {
    name: "upgrade_namespace",
    values: &[],
};

/// Name of an upgrade.
pub const UPGRADE: Label = Label {
    name: "upgrade",
    values: &[],
};

/// What an upgrade asks its clusters for: `status.target`, which is cut. Empty while that is not known.
pub const TARGET: Label = Label {
    name: "target",
    values: &[],
};

/// Reason of a cluster.
pub const REASON: Label = Label {
    name: "reason",
    values: &{
        let mut all =
            [(Reason::Other.as_str(), " A reason that a newer release wrote."); Reason::ALL.len() + 1];
        let mut at = 0;
        while at < Reason::ALL.len() {
            all[at] = (Reason::ALL[at].0.as_str(), Reason::ALL[at].1);
            at += 1;
        }
        all
    },
};

/// Condition of an upgrade.
pub const CONDITION: Label = Label {
    name: "condition",
    values: &{
        let mut all = [("", " See the condition of the upgrade's status."); TYPES.len()];
        let mut at = 0;
        while at < TYPES.len() {
            all[at].0 = TYPES[at];
            at += 1;
        }
        all
    },
};

/// How likely an estimated end is.
pub const QUANTILE: Label = Label {
    name: "quantile",
    values: &[
        ("0.5", " It is as likely to end before this time as after it."),
        ("0.9", " It ends before this time in nine of ten cases."),
    ],
};

/// What a cluster that has not started says to the update.
pub const ANSWER: Label = Label {
    name: "answer",
    values: &[
        ("ready", " It would take the update."),
        (
            "blocked",
            " It would not take the update until somebody removes the cause.",
        ),
        ("unknown", " That is not known."),
        (
            "unsupported",
            " It cannot be asked, because its work agent may be too old for that.",
        ),
    ],
};

/// Step of a cluster.
pub const STEP: Label = Label {
    name: "step",
    values: &[
        (step_name(Stage::PreAction), " The pre-action."),
        (step_name(Stage::Platform), " The update of the platform."),
        (
            step_name(Stage::Operators),
            " The approval of the operators' InstallPlans.",
        ),
        (step_name(Stage::Soak), " The time of minSuccessTime."),
        (step_name(Stage::PostAction), " The post-action."),
    ],
};

/// The running version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version(pub &'static str);

impl EncodeLabelSet for Version {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        ("version", self.0).encode(encoder.encode_label())
    }
}
