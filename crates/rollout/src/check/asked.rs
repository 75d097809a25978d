//! Which clusters a retry is for, and which the spec skips.

use crate::model::{Cluster, PendingRetry, Phase, Record};

/// True when a retry is for a cluster that failed: by its name, by why it failed, and as no later retry has reached it.
pub(super) fn is_asked_for(retry: &PendingRetry, cluster: &Cluster, before: &Record) -> bool {
    let Some(scope) = &retry.scope else { return true };
    let is_listed = scope.clusters.is_empty() || scope.clusters.contains(&cluster.name);
    let mut reasons = scope.reasons.iter();
    let has_reason = scope.reasons.is_empty() || reasons.any(|reason| **reason == *before.reason_text());
    let token = before.attempt.retry.trim_end_matches('~');
    is_listed && has_reason && !scope.later.iter().any(|later| **later == *token)
}

/// True when a cluster counts neither as a failure nor as a canary, because the spec skips it.
pub(super) fn counts_not(cluster: &Cluster) -> bool {
    cluster.skipped.is_some()
}

/// True when a record may say that its cluster is skipped after this one.
pub(super) fn may_be_skipped(cluster: &Cluster, before: &Record) -> bool {
    counts_not(cluster) && !before.phase.holds_slot() && before.phase != Phase::Complete
}

/// True when a new attempt may follow because the cluster is not skipped any more.
pub(super) fn is_taken_up(cluster: &Cluster, before: &Record, record: &Record) -> bool {
    before.phase == Phase::Skipped
        && !counts_not(cluster)
        && before.attempt.revision == record.attempt.revision
}
