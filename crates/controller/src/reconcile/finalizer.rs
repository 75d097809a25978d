//! The finalizer of an upgrade. It is set before anything is written for the upgrade, and removed when the
//! works are gone. No I/O.

use std::sync::Arc;

use api::message::join;
use api::names::FINALIZER;
use api::views::MAX_FINALIZERS;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::{Cluster, Fleet, KnownApprovals, Limit, Policy, Step};

use crate::apply::WriteJob;
use crate::reconcile::jobs::finalizer_job;
use crate::reconcile::restore;
use crate::state::upgrade::UpgradeEntry;

/// The policy of an upgrade that is being deleted. Nothing else of it matters.
#[must_use]
pub fn policy() -> Policy {
    Policy {
        revision: Arc::from(""),
        steps: [None, None, None, None],
        retry: None,
        hold: None,
        deleting: true,
        max_concurrency: Limit::Count(1),
        max_failures: None,
        min_success_time: None,
        cluster_timeout: TimeDelta::zero(),
        action_timeout: None,
        worker_pools_timeout: None,
        operators_timeout: TimeDelta::zero(),
        canaries: false,
        clock_trusted: true,
        target: Arc::from(""),
        allow_downgrade: false,
        requires_preflight: false,
        awaits_answers: false,
        checkpoints: Vec::new(),
        approvals: KnownApprovals::Missing,
        spec_hash: Arc::from(""),
    }
}

/// What the finalizer needs before anything else is written for an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FinalizerStep {
    /// Nothing: it is present, or it cannot be set.
    Present,
    /// It must be written.
    Write,
    /// A write of it is running or has just failed, or the object is almost gone.
    Wait,
}

/// What the finalizer needs next. The write also records the UID of the object, because a restore of the
/// object must be detectable before the reports that show it are removed.
pub(super) fn next(entry: &mut UpgradeEntry, now: DateTime<Utc>) -> FinalizerStep {
    let present = entry.has_finalizer();
    let marked = entry.earlier_uid.is_none()
        || restore::uid_to_record(entry).is_none()
        || (entry.last_annotation.is_some() && !entry.finalizing);
    if entry.is_deleting() || (present && marked) {
        return if present {
            FinalizerStep::Present
        } else {
            FinalizerStep::Wait
        };
    }
    if entry.finalizing {
        return FinalizerStep::Wait;
    }
    // If there are too many finalizers, the entry contains only some of them, and writing those would
    // remove the others.
    if entry.in_force().is_none() || entry.object.has_too_many_finalizers() {
        return FinalizerStep::Present;
    }
    if let Some(until) = entry.finalizer_backoff_until(now) {
        entry.wake_at = Some(until);
        return FinalizerStep::Wait;
    }
    FinalizerStep::Write
}

/// The write that sets the finalizer.
pub(super) fn write(entry: &mut UpgradeEntry) -> WriteJob {
    let mut finalizers = entry.object.metadata.finalizers.clone().unwrap_or_default();
    if !entry.has_finalizer() {
        finalizers.push(FINALIZER.to_owned());
    }
    let recorded_uid = restore::uid_to_record(entry);
    entry.last_annotation = recorded_uid.as_deref().map(str::to_owned);
    finalizer_job(entry, finalizers, recorded_uid)
}

/// True when nothing prevents the end of the upgrade: it has no works, nothing is being written (`idle`: this
/// pass writes nothing), and no write with an unknown result may still create a work. Works that are being
/// deleted do not count, because the finalizer of a detached agent may never be removed.
pub(super) fn may_be_removed(
    entry: &mut UpgradeEntry,
    fleet: &Fleet,
    now: DateTime<Utc>,
    idle: bool,
) -> bool {
    let works_left = fleet.clusters.iter().any(is_held);
    let writing = !entry.running.is_empty() || entry.status.is_writing() || entry.finalizing;
    // If there are too many finalizers, the entry contains only some of them, and writing those would
    // remove the others.
    if works_left || !idle || writing || entry.object.has_too_many_finalizers() || !entry.unsettled.is_empty()
    {
        return false;
    }
    let until = entry.finalizer_backoff_until(now);
    if until.is_some() {
        entry.wake_at = until;
    }
    until.is_none()
}

/// The write that removes the finalizer.
pub(super) fn remove(entry: &mut UpgradeEntry) -> WriteJob {
    let finalizers = entry.object.metadata.finalizers.iter().flatten();
    let others = finalizers.filter(|one| *one != FINALIZER).cloned().collect();
    finalizer_job(entry, others, None)
}

/// The first write that the deletion needs and that the hub rejected, described for people.
pub(super) fn refused_write(entry: &UpgradeEntry, fleet: &Fleet) -> Option<String> {
    if entry.object.has_too_many_finalizers() {
        return Some(format!(
            "The finalizer cannot be removed, because the object has too many finalizers. Remove others until at most {MAX_FINALIZERS} are left."
        ));
    }
    if let Some(finalizer_backoff) = &entry.finalizer_backoff {
        return Some(format!(
            "The finalizer cannot be removed: {}",
            finalizer_backoff.text
        ));
    }
    let clusters = fleet.clusters.iter();
    let mut refused = clusters
        .filter(|cluster| is_held(cluster))
        .filter_map(|cluster| Some((&cluster.name, entry.backoff.get(&cluster.name)?)));
    let Some((name, backoff)) = refused.next() else {
        let (name, text) = entry.preflights.failure()?;
        return Some(format!(
            "The ManifestWork by which cluster {name} is asked cannot be deleted: {text}"
        ));
    };
    let more = match refused.count() {
        0 => String::new(),
        1 => "1 more cluster has the same problem".to_owned(),
        number => format!("{number} more clusters have the same problem"),
    };
    let first = format!(
        "A ManifestWork of cluster {name} cannot be deleted: {}",
        backoff.text
    );
    Some(join([first.as_str(), &more]))
}

/// True when the cluster has works of the upgrade that are not being deleted yet.
fn is_held(cluster: &Cluster) -> bool {
    Step::ALL.iter().any(|step| cluster.step_work(*step).is_kept())
}
