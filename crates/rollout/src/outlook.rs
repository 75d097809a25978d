//! The whole fleet in a few numbers: counters of the status (`docs/design/rules.md#counters`) and whether anything will
//! move by itself (`docs/design/rules.md#stalled`).

use crate::fleet::{Cluster, RivalHold, Selection, Slot};
use crate::phase::{Phase, Step};
use crate::plan::ClusterState;
use crate::policy::{Hold, Policy};
use crate::reason::Reason;
use crate::record::{Outcome, Record, Stage};
use crate::window::{Canaries, Window};

/// Counts of clusters; `total = initialized + pending` always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Clusters that count.
    pub total: usize,
    /// Clusters whose upgrade has started.
    pub initialized: usize,
    /// Clusters in Partial or Operators.
    pub partial: usize,
    /// Clusters in `Complete` or `PostAction`.
    pub complete: usize,
    /// Clusters in Failed.
    pub failed: usize,
    /// All others.
    pub pending: usize,
}

impl Counts {
    fn add(&mut self, phase: Phase) {
        self.total += 1;
        self.initialized += usize::from(phase.is_initialized());
        self.pending += usize::from(!phase.is_initialized());
        self.partial += usize::from(matches!(phase, Phase::Partial | Phase::Operators));
        self.complete += usize::from(matches!(phase, Phase::Complete | Phase::PostAction));
        self.failed += usize::from(phase == Phase::Failed);
    }
}

/// Counts of an action's works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActionCounts {
    /// Works created (pre), clusters complete (post).
    pub total: usize,
    /// Works applied by their agent, now or earlier.
    pub applied: usize,
    /// Actions done.
    pub available: usize,
    /// Actions running.
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
    /// Slots held.
    pub in_flight: usize,
    /// maxConcurrency as a number.
    pub window: usize,
    /// Clusters that applied anything of ours, now or earlier.
    pub applied: usize,
    /// Clusters in `PreActionDegraded`.
    pub degraded: usize,
    /// Blocked clusters, those whose post-action is, and those whose writes stay forbidden.
    pub blocked: usize,
}

/// Why nothing moves without a human.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallReason {
    /// The upgrade was restored from a backup, or copied, and nobody has said yet that it is to go on.
    Restored,
    /// No cluster is selected, or the canary selector matches none.
    NothingSelected,
    /// A canary failed or its pre-action is degraded.
    CanaryFailed,
    /// More failures than `maxFailures`.
    MaxFailuresExceeded,
    /// Only failed or degraded clusters are left.
    ClustersFailed,
    /// Only blocked clusters are left.
    ClustersBlocked,
}

/// What will become of the fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// At least one cluster is selected and all are complete, post-actions included.
    pub complete: bool,
    /// Something is in flight or will start without a human.
    pub moving: bool,
    /// Neither complete nor paused nor moving.
    pub stalled: Option<StallReason>,
    /// The canary selector matches nothing.
    pub no_canary: bool,
}

pub(crate) fn summarize(window: &Window, fleet: &[(&Cluster, &ClusterState)]) -> Summary {
    let mut summary = Summary {
        window: window.size,
        in_flight: window.held,
        ..Summary::default()
    };
    for (cluster, state) in fleet {
        let record = &state.record;
        summary.clusters.add(record.phase);
        if cluster.canary {
            summary.canaries.add(record.phase);
        }
        summary.selected += usize::from(cluster.selection == Selection::In);
        summary.degraded += usize::from(record.phase == Phase::PreActionDegraded);
        summary.blocked += usize::from(record.phase == Phase::Blocked || is_stuck(cluster, record));
        let applied = record.phase.is_initialized() || record.stages.iter().flatten().next().is_some();
        summary.applied += usize::from(applied);
        let degraded = record.phase == Phase::PreActionDegraded;
        count_action(&mut summary.pre_action, record, Stage::PreAction, degraded);
        let failed = record.phase == Phase::Failed
            && matches!(
                record.reason,
                Reason::PostActionFailed | Reason::PostActionTimeout
            );
        count_action(&mut summary.post_action, record, Stage::PostAction, failed);
    }
    summary
}

fn count_action(counts: &mut ActionCounts, record: &Record, stage: Stage, degraded: bool) {
    let Some(entry) = record.stage(stage) else { return };
    let available = entry.outcome == Some(Outcome::Succeeded);
    counts.total += 1;
    counts.applied += usize::from(entry.applied.is_some() || available);
    counts.available += usize::from(available);
    counts.degraded += usize::from(degraded && !available);
    counts.progressing += usize::from(!degraded && !available);
}

pub(crate) fn outlook(
    policy: &Policy,
    window: &Window,
    summary: &Summary,
    fleet: &[(&Cluster, &ClusterState)],
) -> Outlook {
    let done = |state: &ClusterState| {
        state.record.phase == Phase::Complete && state.record.attempt.revision == policy.revision
    };
    let complete = summary.selected > 0
        && fleet.iter().all(|(cluster, state)| {
            done(state) || (cluster.selection != Selection::In && state.record.phase == Phase::Complete)
        });
    let moving = !complete
        && fleet
            .iter()
            .any(|(cluster, state)| moves(policy, window, cluster, state));
    let stalled = match policy.hold {
        _ if complete || moving => None,
        None => Some(stall(window, summary, fleet)),
        // Unlike a pause nobody has asked for it.
        Some(Hold::Restored) => Some(StallReason::Restored),
        Some(Hold::Paused | Hold::InvalidSpec) => None,
    };
    Outlook {
        complete,
        moving,
        stalled,
        no_canary: window.canaries == Canaries::Missing,
    }
}

/// True when the cluster goes on, or will, without a human.
fn moves(policy: &Policy, window: &Window, cluster: &Cluster, state: &ClusterState) -> bool {
    if is_stuck(cluster, &state.record) {
        return false;
    }
    // A blocked cluster that is tried again has not moved yet.
    if state.record.phase != Phase::Blocked
        && (cluster.busy.is_some() || cluster.awaits_start() || state.starting)
    {
        return true;
    }
    let gated = || window.gate(policy, cluster.canary).is_some();
    match state.record.phase {
        Phase::PreAction
        | Phase::Initialized
        | Phase::Partial
        | Phase::Operators
        | Phase::Soaking
        | Phase::PostAction => true,
        Phase::Pending => state.record.reason == Reason::LeftSelection || !gated(),
        Phase::Blocked => {
            state.record.reason == Reason::Conflict
                && !gated()
                && cluster
                    .rival
                    .as_ref()
                    .is_some_and(|rival| rival.hold == RivalHold::Active)
        }
        Phase::PreActionDegraded | Phase::Complete | Phase::Failed => false,
    }
}

/// True when a human is needed although the phase does not say so: the hub keeps forbidding what is written for the cluster,
/// or something stands in the way of its post-action, where it is upgraded and keeps its phase.
fn is_stuck(cluster: &Cluster, record: &Record) -> bool {
    let forbidden = || cluster.backoff.as_ref().is_some_and(|backoff| backoff.lasting);
    let obstructed = || {
        let slot = cluster.slot(Step::PostAction);
        // After a restart only the record knows of a refusal.
        matches!(
            slot,
            Slot::Foreign { .. } | Slot::Refused { .. } | Slot::Unreadable { .. }
        ) || record.reason == Reason::WorkRefused
    };
    forbidden() || (record.phase == Phase::PostAction && obstructed())
}

fn stall(window: &Window, summary: &Summary, fleet: &[(&Cluster, &ClusterState)]) -> StallReason {
    let canary_degraded = || {
        fleet
            .iter()
            .any(|(cluster, state)| cluster.canary && state.record.phase == Phase::PreActionDegraded)
    };
    if summary.selected == 0 || window.canaries == Canaries::Missing {
        StallReason::NothingSelected
    } else if window.canaries == Canaries::Failed
        || (window.canaries == Canaries::Unfinished && canary_degraded())
    {
        StallReason::CanaryFailed
    } else if window.breach {
        StallReason::MaxFailuresExceeded
    } else if summary.clusters.failed + summary.degraded > 0 {
        StallReason::ClustersFailed
    } else if summary.blocked > 0 {
        StallReason::ClustersBlocked
    } else {
        StallReason::NothingSelected
    }
}
