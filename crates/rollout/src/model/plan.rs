//! The result of planning: operations, the state of every cluster, and counts of the fleet.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use api::names::Step;
use api::report::Phase;

use crate::model::approval::{CheckpointState, PlanHash};
use crate::model::fleet::Cluster;
use crate::model::record::{Attempt, Record};

/// One operation on a ManifestWork: a write, or a read that proves what a write did. It leaves no decision to the code
/// that carries it out, and it is safe to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates the work of a step.
    Create {
        /// The cluster.
        cluster: Arc<str>,
        /// The step.
        step: Step,
        /// The attempt to write into the work.
        attempt: Attempt,
        /// Start of the step's clock.
        started: DateTime<Utc>,
    },
    /// Changes an existing platform work in place. A platform work is never deleted in mid-upgrade.
    Update {
        /// The cluster.
        cluster: Arc<str>,
        /// The attempt to write into the work.
        attempt: Attempt,
        /// Start of the step's clock.
        started: DateTime<Utc>,
        /// The reason for the change.
        kind: UpdateKind,
    },
    /// Takes the request of the update out of an existing platform work. Nothing else in it changes.
    Withdraw {
        /// The cluster.
        cluster: Arc<str>,
    },
    /// Notes the start of the soak on a work.
    MarkSoak {
        /// The cluster.
        cluster: Arc<str>,
        /// The step whose work gets the note.
        step: Step,
        /// Start of the soak.
        started: DateTime<Utc>,
    },
    /// Deletes a work.
    Delete {
        /// The cluster.
        cluster: Arc<str>,
        /// The step.
        step: Step,
        /// The reason for the deletion.
        why: DeleteReason,
    },
    /// Reads the work of a step from the hub and changes nothing. It is needed when the reports of the watches may be
    /// out of date, or when a write got no response.
    Read {
        /// The cluster.
        cluster: Arc<str>,
        /// The step.
        step: Step,
    },
}

impl Operation {
    /// The deletion of a work of this cluster.
    pub(crate) fn delete(cluster: &Cluster, step: Step, why: DeleteReason) -> Operation {
        Operation::Delete {
            cluster: Arc::clone(&cluster.name),
            step,
            why,
        }
    }

    /// The cluster that the operation is for.
    #[must_use]
    pub const fn cluster(&self) -> &Arc<str> {
        match self {
            Operation::Create { cluster, .. }
            | Operation::Update { cluster, .. }
            | Operation::Withdraw { cluster }
            | Operation::MarkSoak { cluster, .. }
            | Operation::Delete { cluster, .. }
            | Operation::Read { cluster, .. } => cluster,
        }
    }

    /// The kind of the operation.
    #[must_use]
    pub const fn kind(&self) -> OperationKind {
        match self {
            Operation::Create { .. } => OperationKind::Create,
            Operation::Update { .. } => OperationKind::Update,
            Operation::Withdraw { .. } => OperationKind::Withdraw,
            Operation::MarkSoak { .. } => OperationKind::MarkSoak,
            Operation::Delete { .. } => OperationKind::Delete,
            Operation::Read { .. } => OperationKind::Read,
        }
    }

    /// The step that the operation is for.
    #[must_use]
    pub const fn step(&self) -> Step {
        match self {
            Operation::Create { step, .. }
            | Operation::MarkSoak { step, .. }
            | Operation::Delete { step, .. }
            | Operation::Read { step, .. } => *step,
            Operation::Update { .. } | Operation::Withdraw { .. } => Step::Platform,
        }
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// Creates a work.
    Create,
    /// Changes a platform work in place.
    Update,
    /// Takes the request out of a platform work.
    Withdraw,
    /// Notes the start of the soak on a work.
    MarkSoak,
    /// Deletes a work.
    Delete,
    /// Reads a work.
    Read,
}

impl OperationKind {
    /// The kind in one word, for messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            OperationKind::Create => "create",
            OperationKind::Update => "update",
            OperationKind::Withdraw => "withdraw",
            OperationKind::MarkSoak => "mark",
            OperationKind::Delete => "delete",
            OperationKind::Read => "read",
        }
    }
}

/// Why a platform work is changed in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateKind {
    /// The spec has a new revision.
    Repoint,
    /// A retry, with a fresh clock.
    Retry,
    /// The work belonged to an older upgrade, which is done with the cluster.
    TakeOver,
}

/// Why a work is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteReason {
    /// The cluster's upgrade is complete.
    Complete,
    /// The cluster is aborted: its pre-action ends, or its platform work requests nothing any more.
    Aborted,
    /// Every cluster is complete, so pre- and post-actions are removed.
    AllComplete,
    /// The cluster is complete, and the upgrade is Stalled with nothing in flight. Its actions are not kept until somebody has fixed the
    /// others.
    OthersStalled,
    /// The work belongs to an earlier attempt and cannot be changed in place.
    Leftover,
    /// The work belonged to an older upgrade, which is done with the cluster.
    Superseded,
    /// The cluster left the selection before its upgrade started.
    LeftSelection,
    /// The upgrade is being deleted.
    UpgradeDeleted,
}

/// The state of one cluster.
#[derive(Clone, Debug)]
pub struct ClusterState {
    /// Name of the ManagedCluster.
    pub name: Arc<str>,
    /// The record to keep. It is the same `Arc` as in the input if nothing changed.
    pub record: Arc<Record>,
    /// True when the record must be written at once. It announces a new attempt, before which nothing is done for
    /// the cluster, or a failure, before which the slot is not given to another cluster.
    pub urgent: bool,
    /// True when this plan starts the cluster. Its record shows the start once it is carried out.
    pub starting: bool,
}

/// What to do next, and why everything else waits.
#[must_use = "an unread plan moves nothing and explains nothing"]
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The operations, in the order of clusters. At most one of them starts or advances the same cluster.
    pub operations: Vec<Operation>,
    /// Every cluster that counts, by name, with its reason.
    pub clusters: Vec<ClusterState>,
    /// Clusters that are to be asked again whether they would take the update. Slots are kept for those whose windows are open.
    pub ask_again: Vec<Arc<str>>,
    /// Clusters whose records are to be removed.
    pub dropped: Vec<Arc<str>>,
    /// No cluster may start, whichever it is. A start of an earlier plan that was not sent yet is called back.
    pub starts_stopped: bool,
    /// The counters of the status.
    pub summary: Summary,
    /// Whether any cluster will move.
    pub outlook: Outlook,
    /// True when the policy's retry token was handled for every cluster and the records of that are written.
    pub retry_done: bool,
    /// What is said of each checkpoint, in the order of the spec.
    pub checkpoints: Vec<CheckpointState>,
    /// The hash by which approvals name this plan, if the spec has checkpoints.
    pub hash: Option<PlanHash>,
    /// Steps that have a recorded start in the future.
    pub future_starts: Option<FutureStarts>,
    /// When to plan again if no event comes before.
    pub wake_at: Option<DateTime<Utc>>,
}

/// Counts of clusters. It is always `total = initialized + pending`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Clusters that count.
    pub total: usize,
    /// Clusters whose upgrade has started.
    pub initialized: usize,
    /// Clusters in `Partial`, `Workers` or `Operators`.
    pub partial: usize,
    /// Clusters in `Complete` or `PostAction`.
    pub complete: usize,
    /// Clusters in `Failed`.
    pub failed: usize,
    /// All others.
    pub pending: usize,
}

impl Counts {
    pub(crate) fn add(&mut self, phase: Phase) {
        self.total += 1;
        self.initialized += usize::from(phase.is_started());
        self.pending += usize::from(!phase.is_started());
        self.partial += usize::from(matches!(
            phase,
            Phase::Partial | Phase::Workers | Phase::Operators
        ));
        self.complete += usize::from(matches!(phase, Phase::Complete | Phase::PostAction));
        self.failed += usize::from(phase == Phase::Failed);
    }
}

/// Counts of an action's works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActionCounts {
    /// For the pre-action, works created; for the post-action, clusters that are complete.
    pub total: usize,
    /// Works that their agent has applied, now or earlier.
    pub applied: usize,
    /// Actions that are done.
    pub available: usize,
    /// Actions that are running.
    pub progressing: usize,
    /// Actions that failed or timed out.
    pub degraded: usize,
}

/// The counters of the status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// All clusters, canaries included.
    pub clusters: Counts,
    /// The canaries.
    pub canaries: Counts,
    /// The pre-actions.
    pub pre_action: ActionCounts,
    /// The post-actions.
    pub post_action: ActionCounts,
    /// Clusters that are selected now.
    pub selected: usize,
    /// Slots that are held.
    pub in_flight: usize,
    /// The number of slots that maxConcurrency amounts to.
    pub max_concurrency: usize,
    /// Clusters that applied any work of this upgrade, now or earlier.
    pub applied: usize,
    /// Clusters in `PreActionDegraded`.
    pub degraded: usize,
    /// Clusters in `Skipped`. They are among the pending ones.
    pub skipped: usize,
    /// Clusters in `Aborted`. They are among the pending ones.
    pub aborted: usize,
    /// Clusters that are blocked, whose post-action is blocked, or whose writes the hub keeps forbidding.
    pub blocked: usize,
    /// Clusters that are complete, their post-action included.
    pub finished: usize,
    /// Canaries that are complete, their post-action included, as the others wait for it.
    pub finished_canaries: usize,
    /// Canaries that are to be skipped or aborted and are not complete: the others do not wait for them.
    pub left_out_canaries: usize,
    /// Clusters that wait for their maintenance windows.
    pub waiting_for_window: usize,
    /// The first time at which such a window opens.
    pub next_opening: Option<DateTime<Utc>>,
    /// Clusters that wait for an approval.
    pub waiting_for_approval: usize,
}

/// Why no cluster will move until a human acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallReason {
    /// The upgrade was restored from a backup or copied, and has not been resumed.
    Restored,
    /// No cluster is selected, or the canary selector matches none.
    NothingSelected,
    /// A canary failed or its pre-action is degraded.
    CanaryFailed,
    /// More clusters failed than `maxFailures` allows.
    MaxFailuresExceeded,
    /// All other clusters are done; only failed or degraded ones remain.
    ClustersFailed,
    /// All other clusters are done; only blocked ones remain.
    ClustersBlocked,
    /// All other clusters are done; the maintenance windows never open for the rest.
    NoWindow,
}

/// What will happen to the fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// At least one cluster is selected and all are complete, including their post-actions.
    pub complete: bool,
    /// At least one cluster is in flight or will start without a human.
    pub moving: bool,
    /// Set when the upgrade is neither complete nor paused nor moving.
    pub stalled: Option<StallReason>,
    /// The canary selector matches no cluster.
    pub no_canary: bool,
}

/// Clusters whose present step has a recorded start in the future, because it began while the controller's clock was
/// ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FutureStarts {
    /// Number of clusters.
    pub clusters: usize,
    /// The cluster whose start is the latest.
    pub example: Arc<str>,
    /// That start.
    pub started: DateTime<Utc>,
}
