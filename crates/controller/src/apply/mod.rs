//! The only writer on the hub: jobs in lanes, carried out by a bounded number of workers, each write fenced by the
//! leadership, bounded in time and safe to repeat.

mod execute;
mod gate;
mod lanes;
mod pace;

use std::sync::Arc;
use std::time::Instant;

use api::ManagedClustersUpgradeStatus;
use api::names::Step;
use api::views::{ManifestWork, Upgrade};
use chrono::{DateTime, Utc};
use rollout::Attempt;

pub use execute::{carry_out, execute};
pub use gate::Load;
pub use lanes::{Lane, Lanes};

use crate::index::Uid;
use crate::policy::Brief;
use crate::report::rows::Due;
use crate::telemetry::labels::WriteOutcome;

/// One write, complete: carrying it out leaves no choice.
#[derive(Debug)]
pub struct Job {
    /// The upgrade it serves.
    pub upgrade: Uid,
    /// What to write.
    pub effect: Effect,
}

/// What a work is rendered from, at the moment it is sent: ten thousand queued bodies would not fit into memory.
#[derive(Debug)]
pub struct Sheet {
    /// The spec's templates.
    pub brief: Arc<Brief>,
    /// `namespace/name` of the upgrade.
    pub owner: Arc<str>,
    /// Cluster ID, if it is known.
    pub cluster_id: Option<Arc<str>>,
    /// Attempt to write on the work.
    pub attempt: Attempt,
    /// Start of the step's clock.
    pub started: DateTime<Utc>,
}

/// A write on the hub.
#[derive(Debug)]
pub enum Effect {
    /// Create a work.
    Create {
        /// The cluster.
        cluster: Arc<str>,
        /// The step.
        step: Step,
        /// What to render the work from.
        sheet: Sheet,
        /// When the feedback that freed the slot was seen, for the reaction time.
        freed: Option<Instant>,
    },
    /// Change a platform work in place by server-side apply.
    Update {
        /// The cluster.
        cluster: Arc<str>,
        /// What to render the work from.
        sheet: Sheet,
        /// UID of the object it is meant for.
        uid: Arc<str>,
    },
    /// Note the start of the soak on a work.
    MarkSoak {
        /// The cluster.
        cluster: Arc<str>,
        /// The step whose work carries the note.
        step: Step,
        /// UID of the object it is meant for.
        uid: Arc<str>,
        /// Merge patch.
        patch: serde_json::Value,
    },
    /// Delete a work.
    Delete {
        /// The cluster.
        cluster: Arc<str>,
        /// The step.
        step: Step,
        /// UID of the object it is meant for.
        uid: Arc<str>,
        /// It stops something rather than tidies up.
        halt: bool,
    },
    /// Read a work: nothing is changed.
    Read {
        /// The cluster.
        cluster: Arc<str>,
        /// The step.
        step: Step,
        /// `namespace/name` of the upgrade, as a work of it says.
        owner: Arc<str>,
        /// UID of the object that is known under the name, if it is one of this upgrade.
        uid: Option<Arc<str>>,
        /// When it was asked for.
        asked: DateTime<Utc>,
    },
    /// Write (or, without rows, delete) a report shard.
    Report {
        /// Namespace of the upgrade.
        namespace: Arc<str>,
        /// The shard.
        due: Due,
        /// The report as JSON; `None` deletes it.
        body: Option<Vec<u8>>,
    },
    /// Write the status of an upgrade.
    Status {
        /// Namespace of the upgrade.
        namespace: Arc<str>,
        /// Name of the upgrade.
        name: Arc<str>,
        /// The status.
        status: Box<ManagedClustersUpgradeStatus>,
    },
    /// Replace the finalizers of an upgrade.
    Finalizers {
        /// Namespace of the upgrade.
        namespace: Arc<str>,
        /// Name of the upgrade.
        name: Arc<str>,
        /// Resource version the list was read at.
        version: String,
        /// The new list.
        finalizers: Vec<String>,
        /// UID to note as the one that the object was taken up with.
        life: Option<Arc<str>>,
    },
    /// Change annotations of an upgrade.
    Annotate {
        /// Namespace of the upgrade.
        namespace: Arc<str>,
        /// Name of the upgrade.
        name: Arc<str>,
        /// Merge patch.
        patch: serde_json::Value,
    },
}

impl Effect {
    /// The cluster it concerns, if it concerns one.
    #[must_use]
    pub const fn cluster(&self) -> Option<&Arc<str>> {
        match self {
            Effect::Create { cluster, .. }
            | Effect::Update { cluster, .. }
            | Effect::MarkSoak { cluster, .. }
            | Effect::Delete { cluster, .. }
            | Effect::Read { cluster, .. } => Some(cluster),
            Effect::Report { .. }
            | Effect::Status { .. }
            | Effect::Finalizers { .. }
            | Effect::Annotate { .. } => None,
        }
    }

    /// The lane of the job, by how urgent it is (`docs/design/rules.md#write-priority`).
    #[must_use]
    pub const fn lane(&self) -> Lane {
        match self {
            Effect::Delete { halt: true, .. } => Lane::Halt,
            Effect::Report { .. }
            | Effect::Status { .. }
            | Effect::Finalizers { .. }
            | Effect::Annotate { .. }
            | Effect::Read { .. } => Lane::Record,
            Effect::Create { .. } | Effect::Update { .. } | Effect::MarkSoak { .. } => Lane::Start,
            Effect::Delete { halt: false, .. } => Lane::CleanUp,
        }
    }
}

/// How a write ended.
#[derive(Debug)]
pub enum Outcome {
    /// A work is now like this: written, or found as somebody of us had written it.
    Work(Box<ManifestWork>),
    /// A work is being deleted.
    Doomed,
    /// A work does not exist (any more).
    Gone,
    /// A work of another upgrade is in the way.
    Rival(Box<ManifestWork>),
    /// A work of nobody's upgrade is in the way.
    Foreign,
    /// A work of nobody's upgrade is in the way and is being deleted.
    ForeignTerminating,
    /// The hub refuses a new work as invalid, with its text: the same would be refused again.
    Refused(String),
    /// The hub refuses a report as invalid.
    ReportRefused {
        /// What it said.
        text: String,
        /// Positions of the rows that it names.
        rows: Vec<usize>,
        /// It may be about rows: unless it names other fields only.
        about_rows: bool,
    },
    /// The cluster's namespace is terminating.
    NamespaceGone,
    /// The upgrade is now like this.
    Upgrade(Box<Upgrade>),
    /// A report was written; its resource version.
    Report(u64),
    /// Not sent: this replica does not lead (any more).
    NotLeading,
    /// Sent, but the term ended before the answer came: it may have been carried out, or may be yet.
    GivenUp,
    /// Failed, with the error's text and what it is counted as.
    Failed(String, WriteOutcome),
}
