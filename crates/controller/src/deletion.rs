//! The end of an upgrade: its works go, then its finalizer; what keeps them from going is told on the object. No I/O.

use std::sync::Arc;
use std::time::Instant;

use api::names::FINALIZER;
use api::views::MAX_FINALIZERS;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::{Cluster, Fleet, Limit, Policy, Step};

use crate::apply::Job;
use crate::desk::Desk;
use crate::events;
use crate::jobs::{finalizer_job, status_job};
use crate::pipeline::{facts, has_finalizer, hurdle};
use crate::report::announce;
use crate::report::status::{self, Past};

/// The policy of an upgrade that is being deleted: only that matters.
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
        operators_timeout: TimeDelta::zero(),
        canaries: false,
        clock_trusted: true,
        target: Arc::from(""),
        allow_downgrade: false,
    }
}

/// Works that nobody removes any more do not keep the upgrade: a detached agent's finalizer may never go.
pub fn finish(desk: &mut Desk, fleet: &Fleet, now: DateTime<Utc>, jobs: &mut Vec<Job>) {
    let left = fleet.clusters.iter().any(is_held);
    let writing = !desk.busy.is_empty() || desk.status.is_writing();
    // Of too many finalizers the view has only some, and writing those would remove the others.
    if left || !jobs.is_empty() || writing || desk.finalizing || desk.view.has_too_many_finalizers() {
        return;
    }
    // What was sent without an answer may still come about: it is looked for until that is out of the question.
    if !desk.unsettled.is_empty() {
        return;
    }
    if let Some(until) = hurdle(desk, now) {
        desk.wake_at = Some(until);
        return;
    }
    let finalizers = desk
        .view
        .metadata
        .finalizers
        .iter()
        .flatten()
        .filter(|one| *one != FINALIZER)
        .cloned()
        .collect();
    jobs.push(finalizer_job(desk, finalizers, None));
}

/// While works or refused writes keep a deletion from its end the object says so. What it was worth is returned as news.
pub fn tell(
    desk: &mut Desk,
    fleet: &Fleet,
    now: DateTime<Utc>,
    jobs: &mut Vec<Job>,
) -> Vec<(events::Reason, String)> {
    if desk.finalizing {
        return Vec::new();
    }
    let (previous, written) = (desk.status.previous(), desk.status.written());
    let past = Past {
        latest: &previous,
        written: &written,
    };
    let refused = refused(desk, fleet);
    let status = status::deleting(&facts(desk, &previous, now), refused.as_deref(), past);
    let news = announce::of_status(&previous, &status, 0);
    desk.status.set(status);
    if let Some(status) = desk.status.due(Instant::now()) {
        jobs.push(status_job(desk, status));
    }
    news
}

/// The first of the writes that a deletion needs and that were refused, in words.
fn refused(desk: &Desk, fleet: &Fleet) -> Option<String> {
    if desk.view.has_too_many_finalizers() {
        return Some(format!(
            "the finalizer cannot be removed from among so many; leave at most {MAX_FINALIZERS}"
        ));
    }
    if let Some(hurdle) = &desk.hurdle {
        return Some(format!("the finalizer cannot be removed: {}", hurdle.text));
    }
    let clusters = fleet.clusters.iter();
    let mut refused = clusters
        .filter(|cluster| is_held(cluster))
        .filter_map(|cluster| Some((&cluster.name, desk.backoff.get(&cluster.name)?)));
    let (name, backoff) = refused.next()?;
    let more = match refused.count() {
        0 => String::new(),
        number => format!("; {number} more clusters likewise"),
    };
    Some(format!(
        "a ManifestWork of cluster {name} cannot be deleted: {}{more}",
        backoff.text
    ))
}

/// True when works of the upgrade that nobody deletes yet are there.
fn is_held(cluster: &Cluster) -> bool {
    Step::ALL.iter().any(|step| cluster.slot(*step).is_kept())
}

/// True when the object may be gone: after its finalizer nothing is written of it.
#[must_use]
pub fn is_over(desk: &Desk) -> bool {
    desk.is_deleting() && (desk.finalizing || !has_finalizer(desk))
}
