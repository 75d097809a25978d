//! The only writer on the hub. A bounded number of workers takes jobs from a priority queue. Each write is
//! fenced by the leadership, has a time limit, and can be repeated safely.

mod error;
mod execute;
mod gate;
mod queue;
mod throttle;

use std::sync::Arc;
use std::time::Instant;

use api::ManagedClustersUpgradeStatus;
use api::names::Step;
use api::validate::SpecViolation;
use api::views::{ManifestWork, Report, Upgrade};
use chrono::{DateTime, Utc};
use rollout::{Attempt, GivenApproval};

pub use error::{Category, Retry, WriteError, WriteErrorKind};
pub use execute::{carry_out, execute};
pub use gate::Load;
use observe::index::{Uid, WorkRequest};
use observe::preflight::ProbeKind;
pub use queue::{Priority, WriteQueue};
use resolve::spec::ResolvedSpec;
use resolve::works::ClusterFacts;

use crate::report::shard::{ShardWrite, StoredReport};

/// One write with everything that is needed to execute it.
#[derive(Debug)]
pub struct WriteJob {
    /// The upgrade that the write belongs to.
    pub upgrade: Uid,
    /// What to write.
    pub write: Write,
}

impl WriteJob {
    /// True when approvals counted in the plan of the creation or change of a work.
    #[must_use]
    pub fn goes_by_approvals(&self) -> bool {
        match &self.write {
            Write::Create { params, .. } | Write::Update { params, .. } => !params.approvals.is_empty(),
            _ => false,
        }
    }
}

/// The input for rendering a work. Works are rendered when they are sent, because ten thousand queued bodies
/// would not fit into memory.
#[derive(Debug)]
pub struct WorkParams {
    /// The spec's templates.
    pub spec: Arc<ResolvedSpec>,
    /// The rules that the spec of the object violated when the write was planned, by its last valid one.
    pub violations: Option<Arc<Vec<SpecViolation>>>,
    /// `namespace/name` of the upgrade.
    pub owner: Arc<str>,
    /// UID of the ManagedCluster.
    pub cluster_uid: Arc<str>,
    /// Cluster ID, if it is known.
    pub cluster_id: Option<Arc<str>>,
    /// How the cluster is asked for the version.
    pub request: WorkRequest,
    /// Attempt to record on the work.
    pub attempt: Attempt,
    /// Start of the step's clock.
    pub started: DateTime<Utc>,
    /// The write starts the cluster. What stops starts stops it as long as it has not been sent.
    pub starts: bool,
    /// When the maintenance windows of the cluster close, if they were open when the write was planned, an approval expires, or the
    /// image by which the cluster is asked was told too long ago. After that it may be permitted no more.
    pub until: Option<DateTime<Utc>>,
    /// The approvals of the upgrade that counted when the write was planned.
    pub approvals: Arc<[GivenApproval]>,
}

impl WorkParams {
    fn facts<'a>(&'a self, cluster: &'a str) -> ClusterFacts<'a> {
        ClusterFacts {
            name: cluster,
            uid: &self.cluster_uid,
            cluster_id: self.cluster_id.as_deref(),
            request: &self.request,
        }
    }
}

/// A write on the hub.
#[derive(Debug)]
pub enum Write {
    /// Create a work.
    Create {
        /// The cluster.
        cluster: Arc<str>,
        /// The step.
        step: Step,
        /// What to render the work from.
        params: WorkParams,
        /// When the feedback that released the slot arrived, for measuring the reaction time.
        slot_released_at: Option<Instant>,
    },
    /// Change a platform work in place by server-side apply.
    Update {
        /// The cluster.
        cluster: Arc<str>,
        /// What to render the work from.
        params: WorkParams,
        /// UID of the object to change.
        uid: Arc<str>,
        /// Resource version of the object to change. A request that arrives late must not replace what was written after it.
        version: u64,
    },
    /// Take the request of the update out of a platform work.
    Withdraw {
        /// The cluster.
        cluster: Arc<str>,
        /// UID of the object to change.
        uid: Arc<str>,
        /// Resource version of the object to change.
        version: u64,
        /// The spec that leaves the cluster out.
        spec: Arc<ResolvedSpec>,
        /// As in [`WorkParams`].
        violations: Option<Arc<Vec<SpecViolation>>>,
    },
    /// Record the start of the soak on a work.
    MarkSoak {
        /// The cluster.
        cluster: Arc<str>,
        /// The step whose work carries the start of the soak.
        step: Step,
        /// UID of the object to change.
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
        /// UID of the object to delete.
        uid: Arc<str>,
        /// Resource version of the object to delete, if only that one may be deleted.
        version: Option<u64>,
        /// The deletion stops a running step instead of cleaning up after a finished one.
        halt: bool,
    },
    /// Read a work. This changes nothing on the hub.
    Read {
        /// The cluster.
        cluster: Arc<str>,
        /// The step.
        step: Step,
        /// `namespace/name` of the upgrade, as its works record it.
        owner: Arc<str>,
        /// UID of the known object with this name, if it belongs to this upgrade.
        uid: Option<Arc<str>>,
        /// When the read was requested.
        asked: DateTime<Utc>,
    },
    /// Ask a cluster what it would say to the update.
    CreateProbe {
        /// The cluster.
        cluster: Arc<str>,
        /// What is asked.
        kind: ProbeKind,
        /// The spec that asks.
        spec: Arc<ResolvedSpec>,
        /// `namespace/name` of the upgrade.
        owner: Arc<str>,
    },
    /// Delete a probe.
    DeleteProbe {
        /// The cluster.
        cluster: Arc<str>,
        /// UID of the object to delete.
        uid: Arc<str>,
    },
    /// Write a report shard, or delete it if it has no rows.
    Report {
        /// Namespace of the upgrade.
        namespace: Arc<str>,
        /// The shard.
        due: Box<ShardWrite>,
        /// The report as JSON; `None` deletes it.
        body: Option<Vec<u8>>,
    },
    /// Write the status of an upgrade.
    Status {
        /// Namespace of the upgrade.
        namespace: Arc<str>,
        /// Name of the upgrade.
        name: Arc<str>,
        /// Resource version of the object whose status is replaced.
        version: String,
        /// The status.
        status: Box<ManagedClustersUpgradeStatus>,
    },
    /// Replace the finalizers of an upgrade.
    Finalizers {
        /// Namespace of the upgrade.
        namespace: Arc<str>,
        /// Name of the upgrade.
        name: Arc<str>,
        /// Resource version at which the list was read.
        version: String,
        /// The new list.
        finalizers: Vec<String>,
        /// UID of the object to record as the one that the controller began to process.
        recorded_uid: Option<Arc<str>>,
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

impl Write {
    /// The cluster that the write concerns, if any.
    #[must_use]
    pub const fn cluster(&self) -> Option<&Arc<str>> {
        match self {
            Write::Create { cluster, .. }
            | Write::Update { cluster, .. }
            | Write::Withdraw { cluster, .. }
            | Write::MarkSoak { cluster, .. }
            | Write::Delete { cluster, .. }
            | Write::Read { cluster, .. }
            | Write::CreateProbe { cluster, .. }
            | Write::DeleteProbe { cluster, .. } => Some(cluster),
            Write::Report { .. }
            | Write::Status { .. }
            | Write::Finalizers { .. }
            | Write::Annotate { .. } => None,
        }
    }

    /// The priority of the job (`docs/design/rules.md#write-priority`).
    #[must_use]
    pub const fn priority(&self) -> Priority {
        match self {
            Write::Delete { halt: true, .. } | Write::Withdraw { .. } => Priority::Halt,
            Write::Report { .. }
            | Write::Status { .. }
            | Write::Finalizers { .. }
            | Write::Annotate { .. }
            | Write::Read { .. } => Priority::Record,
            Write::Create { .. }
            | Write::Update { .. }
            | Write::MarkSoak { .. }
            | Write::CreateProbe { .. } => Priority::Start,
            Write::Delete { halt: false, .. } | Write::DeleteProbe { .. } => Priority::CleanUp,
        }
    }
}

/// The result of a write.
#[derive(Debug)]
pub enum WriteResult {
    /// The work now has this content: the write took effect, or an earlier write of ours had created it.
    Work(Box<ManifestWork>),
    /// A work is being deleted.
    DeletionAccepted {
        /// The resource version that it got by that; 0 if it is gone already, or the version is not known.
        version: u64,
    },
    /// The work does not exist, or no longer exists.
    Gone,
    /// A work of another upgrade has this name.
    Rival(Box<ManifestWork>),
    /// The work was not changed, because the hub holds another version of it, or another object, than the one to be changed: this
    /// one.
    WorkChanged(Box<ManifestWork>),
    /// A work that is not managed by any upgrade has this name.
    Foreign,
    /// A work that is not managed by any upgrade has this name and is being deleted.
    ForeignTerminating,
    /// The hub rejected a new work as invalid, with this message. It would reject the same work again.
    Refused(String),
    /// The hub rejected a report as invalid.
    ReportRefused {
        /// The message of the hub.
        text: String,
        /// Positions of the rows that the message names.
        rows: Vec<usize>,
        /// The rejection may concern rows. False only if the message names other fields and no row.
        about_rows: bool,
    },
    /// The cluster's namespace is terminating.
    NamespaceTerminating,
    /// The cluster's namespace does not exist.
    NamespaceMissing,
    /// The upgrade now has this content.
    Upgrade(Box<Upgrade>),
    /// The hub holds another version of the upgrade than the one to be changed: this one, or none.
    UpgradeChanged(Option<Box<Upgrade>>),
    /// The report was written, and this is the result.
    Report(StoredReport),
    /// The report does not exist any more.
    ReportDeleted,
    /// The hub holds another copy of the report than the one to be replaced: this one, or none.
    ReportChanged(Option<Box<Report>>),
    /// The write was not sent because this replica is not the leader, or because the write was called back.
    NotLeading,
    /// The write was sent, but the term ended before the response arrived. It may have taken effect, or may
    /// still do so.
    GivenUp,
    /// The write failed.
    Failed(WriteError),
}
