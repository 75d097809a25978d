//! The end of a cluster that was queued again and left the selection before it started (`docs/design/rules.md#leavers`).

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::model::{Attempt, Cluster, Phase, Policy, Reason, Record, Step, StepStatus, Work};
use crate::planner::evidence::{TOLERATED_LEAD, telling};
use crate::planner::wording::cut;

/// True when platform and operators of an attempt have ended although the work of one of them may be gone: the note of a soak, and
/// a post-action, come only after both. A cluster that is unhealthy may have failed in its soak.
fn is_upgraded(cluster: &Cluster, attempt: &Attempt, now: DateTime<Utc>) -> bool {
    let has_ended = |step: Step| {
        telling(cluster, step).filter(|work| work.attempt == *attempt && work.status == StepStatus::Succeeded)
    };
    let has_note = |work: &Work| {
        let noted = work.soak_started;
        work.unhealthy.is_none()
            && noted.is_some_and(|began| began > work.started && began - TOLERATED_LEAD <= now)
    };
    has_ended(Step::PostAction).is_some()
        || [Step::Platform, Step::Operators]
            .into_iter()
            .any(|step| has_ended(step).is_some_and(has_note))
}

/// Returns a cluster to the end of its earlier attempt. It was queued again and left the selection before it started.
/// Its work from that attempt must not be deleted, so the cluster cannot be dropped.
pub(super) fn fall_back(
    cluster: &Cluster,
    mut record: Record,
    attempt: Attempt,
    policy: &Policy,
    now: DateTime<Utc>,
) -> Record {
    // The operators work of that attempt was in the way of the next one, so it may have been deleted.
    let is_upgraded = is_upgraded(cluster, &attempt, now);
    let succeeded = |step: Step| {
        cluster
            .step_work(step)
            .ours()
            .map_or(is_upgraded || !policy.wants(step), |work| {
                work.status == StepStatus::Succeeded
            })
    };
    // Where nothing that comes after them shows that the worker pools had followed, the attempt may have failed because of them.
    let is_followed = telling(cluster, Step::Operators)
        .is_some_and(|work| work.attempt == attempt && work.status == StepStatus::Succeeded);
    let have_followed = is_upgraded || is_followed || !cluster.awaits_pools(policy);
    let revised = attempt.revision != record.attempt.revision;
    let complete = revised && have_followed && succeeded(Step::Platform) && succeeded(Step::Operators);
    record.attempt = attempt;
    record.stages = [None; 5];
    record.since = now;
    if complete {
        record.phase = Phase::Complete;
        record.reason = Reason::None;
        record.message = Arc::from("");
    } else {
        record.phase = Phase::Failed;
        record.reason = Reason::LeftSelection;
        record.message = Arc::from(cut(
            "The cluster left the selection while it was queued again. The ManifestWork of its earlier attempt is kept.",
        ));
    }
    record
}
