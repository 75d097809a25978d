//! Commits the result of a pass: records, writes to queue, the status, and Events. This is the only place
//! where a status is drafted. No I/O.

use std::sync::Arc;
use std::time::Instant;

use ahash::AHashSet;
use api::ManagedClustersUpgradeStatus;
use api::preflight::PreflightSummary;
use chrono::{DateTime, TimeDelta, Utc};
use observe::fleet::Observation;
use observe::index::Index;
use resolve::origin::{self, Completed, Origin};
use resolve::retry::CarriedOut;
use rollout::check::Violation;
use rollout::remedy::Names;
use rollout::{
    Cluster, Fleet, Operation, PendingRetry, Plan, Policy, Preflight, Reason, Record, RivalHold, Selection,
};

use crate::apply::{Write, WriteJob};
use crate::clock;
use crate::events::{self, Regarding};
use crate::metrics::labels::ReconcileOutcome;
use crate::reconcile::finalizer;
use crate::reconcile::jobs::{prepare, status_job};
use crate::reconcile::probes;
use crate::reconcile::request::{Checked, Observed, PlanRequest, ReconcileRequest, Task};
use crate::reconcile::restore;
use crate::report::estimate::Estimated;
use crate::report::input::{PreviousStatus, Situation, StatusInput, Warned};
use crate::report::notable;
use crate::report::rows::PhaseChange;
use crate::report::status;
use crate::state::changes::concerns_planning;
use crate::state::context::State;
use crate::state::settings::Settings;
use crate::state::upgrade::{UpgradeEntry, Upgrades, wake_conflicting};

/// When to plan again after a plan was rejected.
const REFUSED_PLAN_RETRY: TimeDelta = TimeDelta::seconds(15);

/// When to look again whether another upgrade has taken a work over.
const NEXT_LOOK: TimeDelta = TimeDelta::seconds(1);

/// The result of a pass.
#[derive(Default)]
pub(super) struct CommitResult {
    /// Writes to queue.
    pub jobs: Vec<WriteJob>,
    /// The object that the Events are about. `None` if there are no Events.
    pub regarding: Option<Regarding>,
    /// Events about the upgrade.
    pub events: Vec<(events::EventReason, String)>,
    /// Clusters with a new phase. True: the cluster is blocked, but will be unblocked without a human.
    pub phase_changes: Vec<(PhaseChange, bool)>,
    /// How the pass is counted in the metrics.
    pub outcome: Option<ReconcileOutcome>,
    /// Upgrades that share clusters with another one must be reconciled.
    wake_conflicting: bool,
}

/// Commits a pass. Does nothing if the upgrade is gone, or has changed since the request was resolved; then
/// it is reconciled again.
pub(super) fn commit(
    state: &mut State,
    uid: &str,
    request: ReconcileRequest<Checked>,
    started: Instant,
) -> CommitResult {
    let State {
        index,
        upgrades,
        settings,
        ..
    } = state;
    let taken = match &request.task {
        Task::Plan(Checked { result: Ok(plan), .. }) => taken_elsewhere(upgrades, uid, plan),
        _ => AHashSet::new(),
    };
    let Some(entry) = upgrades.get_mut(uid) else {
        return CommitResult::default();
    };
    let now = request.now;
    let result = match request.task {
        Task::Wait => CommitResult::default(),
        Task::WriteFinalizer => CommitResult {
            jobs: vec![finalizer::write(entry)],
            ..CommitResult::default()
        },
        Task::ShowViolations => show_violations(entry, (index, settings), now),
        Task::ShowCompleted(completed) => show_completed(entry, &completed, now),
        Task::Plan(Checked {
            observed,
            result,
            estimated,
            longest,
        }) => {
            let is_outdated = take_estimates(entry, &observed, longest, now);
            record_observation(entry, &observed.observation, now);
            entry.last_reconcile = Some((clock::now(), clock::since(started)));
            let fleet = &observed.observation.fleet;
            let hub = Hub {
                index,
                settings,
                taken,
            };
            match result {
                Err(violations) => refuse(entry, &violations, now),
                // The spec was edited meanwhile, or its first estimate is only known now. The entry is dirty already.
                Ok(_) if is_outdated || concerns_planning(&request.object, &entry.object) => {
                    CommitResult::default()
                }
                Ok(plan) if entry.is_deleting() => {
                    commit_deletion(entry, hub, &observed.wanted, fleet, &plan, now)
                }
                Ok(plan) => commit_plan(entry, hub, &observed.wanted, fleet, (&plan, estimated), now),
            }
        }
    };
    if result.wake_conflicting {
        wake_conflicting(upgrades);
    }
    result
}

/// Takes over what the pass has estimated. True if the plan is outdated by that: until the first estimate of a spec, or of a term, is
/// known, the windows are those of a guess. Later the windows of a pass are those before.
fn take_estimates(
    entry: &mut UpgradeEntry,
    observed: &Observed,
    longest: Option<TimeDelta>,
    now: DateTime<Utc>,
) -> bool {
    let policy = &observed.wanted.policy;
    if policy.hold.is_some() {
        entry.estimated = None;
        return false;
    }
    // After an edit the next pass estimates.
    let spec = observed.wanted.spec.as_ref();
    let is_edited = spec.is_some_and(|spec| !entry.is_in_force(spec));
    if observed.profiles.is_none() || is_edited {
        return false;
    }
    let is_changed = spec
        .zip(longest)
        .is_some_and(|(spec, longest)| spec.calendars.set_estimated_minimum(longest));
    entry.dirty |= is_changed;
    let is_outdated = is_changed && entry.estimated.is_none();
    if !is_outdated {
        entry.estimated = Some((now, Arc::clone(&policy.revision)));
    }
    is_outdated
}

/// Records which clusters leave the selection, and which clusters have works that carry the upgrade's UID
/// although the upgrade neither selects them nor has a record of them.
pub(crate) fn record_observation(entry: &mut UpgradeEntry, observation: &Observation, now: DateTime<Utc>) {
    let clusters = &observation.fleet.clusters;
    let left = |cluster: &Cluster| match cluster.selection {
        Selection::Left(since) => Some((Arc::clone(&cluster.name), since)),
        Selection::In => None,
    };
    entry.left = clusters.iter().filter_map(left).collect();
    entry.former.extend(entry.left.keys().cloned());
    entry.has_conflicts = clusters.iter().any(Cluster::is_contested);
    let unaccounted = observation.unaccounted.first().map(|first| {
        format!(
            "The controller ignores ManifestWorks with this upgrade's UID in clusters that the upgrade neither selects nor has a record of ({}, such as {first}). Find out who created them, and delete them.",
            observation.unaccounted.len()
        )
    });
    if let Some(note) = unaccounted.as_ref().filter(|note| !entry.notes.contains(note)) {
        tracing::warn!(
            upgrade = &*entry.key,
            note,
            "ignored works with the UID of this upgrade"
        );
    }
    entry.notes.clone_from(&entry.selected.notes);
    entry.notes.extend(unaccounted);
    entry
        .notes
        .extend(entry.preflights.notes(&observation.fleet, now));
}

/// A rejected plan changes neither writes nor status, so only an Event reports it.
fn refuse(entry: &mut UpgradeEntry, violations: &[Violation], now: DateTime<Utc>) -> CommitResult {
    entry.wake_at = Some(now + REFUSED_PLAN_RETRY);
    let first = violations.first().map(ToString::to_string).unwrap_or_default();
    let note = format!(
        "Internal error: the planned changes violate a safety rule, so none were made. Please report this bug: {first}"
    );
    CommitResult {
        regarding: Some(regarding(entry)),
        events: vec![(events::EventReason::PlanRefused, note)],
        outcome: Some(ReconcileOutcome::Violation),
        ..CommitResult::default()
    }
}

fn show_violations(
    entry: &mut UpgradeEntry,
    (index, settings): (&mut Index, &Settings),
    now: DateTime<Utc>,
) -> CommitResult {
    // The spec may have been fixed since the request was resolved. Then the entry is dirty already.
    let Err(violations) = entry.spec.clone() else {
        return CommitResult::default();
    };
    // Whoever is gone begins anew when it comes back, whatever is asked for by then.
    let is_gone = |name: &str| index.clusters.get(name).is_none_or(|cluster| cluster.terminating);
    let gone = entry.rows.drop_gone(is_gone, clock::now());
    let has_dropped = !gone.is_empty();
    entry.former.extend(gone);
    let jobs = probes::give_names_up(entry, index, settings, now);
    let was_invalid = entry.status.is_invalid();
    let situation = Situation::InvalidSpec {
        violations: &violations,
        plan: None,
    };
    let events = draft_status(entry, &situation, PlanNotes::default(), now);
    CommitResult {
        jobs,
        regarding: Some(regarding(entry)),
        events,
        outcome: Some(ReconcileOutcome::Invalid),
        wake_conflicting: has_dropped || !was_invalid,
        ..CommitResult::default()
    }
}

/// Drafts the status of an upgrade that was complete before it was restored.
fn show_completed(entry: &mut UpgradeEntry, completed: &Completed, now: DateTime<Utc>) -> CommitResult {
    let violations = entry.spec.as_ref().err().cloned();
    let situation = match &violations {
        None => Situation::CompletedBefore(completed),
        Some(violations) => Situation::InvalidSpec {
            violations,
            plan: None,
        },
    };
    let events = draft_status(entry, &situation, PlanNotes::default(), now);
    let mut jobs = Vec::new();
    if let Some(until) = entry.finalizer_backoff_until(now) {
        entry.wake_at = Some(until);
    } else {
        jobs.extend(restore::carry_over(entry, completed));
    }
    CommitResult {
        jobs,
        regarding: Some(regarding(entry)),
        events,
        outcome: Some(ReconcileOutcome::Unchanged),
        ..CommitResult::default()
    }
}

/// What is known of the hub, and the settings of the controller.
struct Hub<'a> {
    index: &'a mut Index,
    settings: &'a Settings,
    /// Clusters on which another upgrade is creating or changing a work. It may be the one that the plan deletes.
    taken: AHashSet<Arc<str>>,
}

/// Clusters of which a plan deletes works while another upgrade is creating or changing one there
/// (`docs/design/rules.md#giving-way`).
fn taken_elsewhere(upgrades: &Upgrades, uid: &str, plan: &Plan) -> AHashSet<Arc<str>> {
    let deletions = plan.operations.iter();
    let deletions = deletions.filter(|operation| matches!(operation, Operation::Delete { .. }));
    let is_starting = |cluster: &&Arc<str>| {
        let mut others = upgrades.values().filter(|other| *other.uid != *uid);
        others.any(|other| {
            other
                .running
                .get(*cluster)
                .is_some_and(|writes| writes.starting.is_some())
        })
    };
    deletions
        .map(Operation::cluster)
        .filter(is_starting)
        .cloned()
        .collect()
}

/// The writes of a plan. Works that are to be deleted count as being deleted from now on.
fn prepare_writes(
    entry: &mut UpgradeEntry,
    Hub {
        index,
        settings,
        taken,
    }: Hub<'_>,
    wanted: &PlanRequest,
    fleet: &Fleet,
    plan: &Plan,
    now: DateTime<Utc>,
) -> Vec<WriteJob> {
    let waits = |operation: &&Operation| {
        matches!(operation, Operation::Delete { .. }) && taken.contains(operation.cluster())
    };
    let operations = plan.operations.iter().filter(|operation| !waits(operation));
    let mut jobs: Vec<WriteJob> = operations
        .filter_map(|operation| prepare(entry, index, operation, (wanted, fleet, plan), now))
        .collect();
    let next_look = (!taken.is_empty()).then(|| now + NEXT_LOOK);
    let wakes = plan.wake_at.into_iter().chain(next_look);
    entry.wake_at = wakes.chain(entry.due_at(now, clock::now())).min();
    for job in &jobs {
        if let Write::Delete {
            cluster,
            step,
            uid,
            version,
            ..
        } = &job.write
        {
            index.mark_deleting(cluster, *step, uid, *version);
        }
    }
    jobs.extend(probes::due(entry, index, settings, wanted, (fleet, plan), now));
    jobs
}

fn commit_deletion(
    entry: &mut UpgradeEntry,
    Hub {
        index,
        settings,
        taken,
    }: Hub<'_>,
    wanted: &PlanRequest,
    fleet: &Fleet,
    plan: &Plan,
    now: DateTime<Utc>,
) -> CommitResult {
    let hub = Hub {
        index,
        settings,
        taken,
    };
    let mut jobs = prepare_writes(entry, hub, wanted, fleet, plan, now);
    let is_idle = jobs.is_empty() && !probes::are_left(entry, index, settings);
    if finalizer::may_be_removed(entry, fleet, now, is_idle) {
        jobs.push(finalizer::remove(entry));
    }
    let mut events = Vec::new();
    // Once the removal of the finalizer is queued, nothing more is written for this object.
    if !entry.finalizing {
        let refused = finalizer::refused_write(entry, fleet);
        events = draft_status(
            entry,
            &Situation::Deleting(refused.as_deref()),
            PlanNotes::default(),
            now,
        );
        let due = entry.status.due(clock::now());
        jobs.extend(due.map(|status| status_job(entry, status)));
    }
    CommitResult {
        outcome: Some(written(&jobs)),
        jobs,
        regarding: Some(regarding(entry)),
        events,
        ..CommitResult::default()
    }
}

fn commit_plan(
    entry: &mut UpgradeEntry,
    hub: Hub<'_>,
    wanted: &PlanRequest,
    fleet: &Fleet,
    (plan, estimated): (&Plan, Estimated),
    now: DateTime<Utc>,
) -> CommitResult {
    for cluster in &plan.dropped {
        hub.index.forget_vanished(cluster, &entry.uid);
    }
    forget_others(entry, plan);
    // Starts of earlier plans may still be queued.
    entry.starts_stopped = plan.starts_stopped;
    let mut jobs = prepare_writes(entry, hub, wanted, fleet, plan, now);
    let instant = clock::now();
    // Fleet and plan are both sorted by name, so one pass finds all clusters.
    let mut clusters = fleet.clusters.iter();
    let changes = entry.rows.commit(plan, &wanted.policy, instant, |name| {
        let found = clusters.find(|cluster| Arc::ptr_eq(&cluster.name, name) || cluster.name == *name);
        found.map_or((false, true), |cluster| {
            (cluster.canary, matches!(cluster.selection, Selection::Left(_)))
        })
    });
    let (was_invalid, was_stalled) = (entry.status.is_invalid(), entry.status.is_stalled());
    let situation = match &wanted.violations {
        None => Situation::Planned(plan),
        Some(violations) => Situation::InvalidSpec {
            violations,
            plan: Some(plan),
        },
    };
    let retry = wanted
        .policy
        .retry
        .as_ref()
        .map(|retry| (retry, retried(retry, plan)));
    let preflight = entry.preflights.summary(fleet);
    let notes = PlanNotes {
        retry,
        preflight,
        warned: warned(&wanted.policy, fleet),
        estimated,
    };
    let events = draft_status(entry, &situation, notes, now);
    let due = entry.status.due(instant);
    jobs.extend(due.map(|status| status_job(entry, status)));
    jobs.extend(restore::note_completion(entry, &wanted.policy, plan, now));
    let phase_changes = changes.phase_changes.into_iter().map(|change| {
        let resolves = resolves_itself(fleet, &change.cluster, &change.record);
        (change, resolves)
    });
    CommitResult {
        outcome: Some(written(&jobs)),
        jobs,
        regarding: Some(regarding(entry)),
        events,
        phase_changes: phase_changes.collect(),
        wake_conflicting: changes.any
            || was_invalid != wanted.violations.is_some()
            || was_stalled != entry.status.is_stalled(),
    }
}

/// Forgets failed writes and blocked steps of clusters that the upgrade does not have any more, or that this plan drops. Nothing tries
/// them again, and if such a cluster is back, they prove nothing about it.
fn forget_others(entry: &mut UpgradeEntry, plan: &Plan) {
    let (running, unsettled) = (&entry.running, &entry.unsettled);
    let is_known = |name: &Arc<str>| {
        let found = plan.clusters.binary_search_by(|known| known.name.cmp(name));
        running.contains_key(name) || unsettled.contains_key(name) || found.is_ok()
    };
    entry.backoff.retain(|name, _| is_known(name));
    entry.blockers.retain(|(name, _), _| is_known(name));
}

const fn written(jobs: &[WriteJob]) -> ReconcileOutcome {
    if jobs.is_empty() {
        ReconcileOutcome::Unchanged
    } else {
        ReconcileOutcome::Written
    }
}

/// What a plan says beside the clusters.
#[derive(Default)]
struct PlanNotes<'a> {
    /// The current retry, and how many clusters it queued again.
    retry: Option<(&'a PendingRetry, usize)>,
    /// What clusters say that have not started.
    preflight: Option<PreflightSummary>,
    /// What they say where it holds nobody back.
    warned: Vec<Warned<'a>>,
    /// When the upgrade ends.
    estimated: Estimated,
}

/// Clusters that would refuse the update, and may start all the same.
fn warned<'a>(policy: &Policy, fleet: &'a Fleet) -> Vec<Warned<'a>> {
    let clusters = fleet.clusters.iter().filter(|_| !policy.requires_preflight);
    let warned = clusters.filter_map(|cluster| match &cluster.preflight {
        Preflight::Blocked { reason, message } => Some(Warned {
            cluster: &cluster.name,
            reason: *reason,
            message,
        }),
        _ => None,
    });
    warned.collect()
}

/// Drafts the status and returns the Events.
fn draft_status(
    entry: &mut UpgradeEntry,
    situation: &Situation<'_>,
    PlanNotes {
        retry,
        preflight,
        warned,
        estimated,
    }: PlanNotes<'_>,
    now: DateTime<Utc>,
) -> Vec<(events::EventReason, String)> {
    let unknown = ManagedClustersUpgradeStatus::default();
    let latest = entry.status.latest().unwrap_or(&unknown);
    let written = entry.status.written().unwrap_or(&unknown);
    let fields = entry.in_force().map(|spec| &spec.fields);
    let retries = match (situation, fields) {
        (Situation::CompletedBefore(_), Some(fields)) => origin::carried_out(&entry.object, fields, latest),
        _ => CarriedOut::of(latest),
    };
    let carried_out = retry
        .zip(fields)
        .map(|((retry, _), fields)| retries.and(retry, fields));
    let input = StatusInput {
        generation: entry.object.metadata.generation.unwrap_or(0),
        names: Names {
            namespace: &entry.namespace,
            name: &entry.name,
            cluster: "",
        },
        target: target(entry),
        paused: entry.spec.as_ref().is_ok_and(|spec| spec.fields.paused),
        restored: match &entry.origin {
            Origin::Restored(text) => Some(text),
            _ => None,
        },
        notes: &entry.notes,
        retries_after: carried_out.unwrap_or_else(|| retries.clone()),
        retries,
        refused: entry.rows.refusal(),
        skew: entry.skew,
        preflight,
        warned,
        estimated,
        minimum_remaining: entry.in_force().and_then(|spec| spec.estimated_minimum()),
        now,
    };
    let previous = PreviousStatus { latest, written };
    let status = status::draft(&input, situation, previous);
    let mut events = notable::of_status(latest, &status, retry.map_or(0, |(_, clusters)| clusters));
    events.extend(entry.asked.requests(&latest.approvals, &status.approvals, now));
    entry.wake_at = entry.wake_at.into_iter().chain(entry.asked.due_at()).min();
    entry.status.set(status, now);
    events
}

/// The version to which the spec in force upgrades or, if it names none, the image.
fn target(entry: &UpgradeEntry) -> &str {
    let spec = entry.in_force();
    let target = spec.and_then(|spec| spec.fields.cluster_version.as_ref());
    target.map_or("", |target| {
        if target.version.is_empty() {
            &target.image
        } else {
            &target.version
        }
    })
}

fn regarding(entry: &UpgradeEntry) -> Regarding {
    Regarding {
        namespace: entry.namespace.to_string(),
        name: entry.name.to_string(),
        uid: entry.uid.to_string(),
    }
}

/// True when a cluster is blocked by an upgrade that is still processing it. The cluster starts when that
/// upgrade is done.
fn resolves_itself(fleet: &Fleet, cluster: &str, record: &Record) -> bool {
    let found = || fleet.find(cluster)?.rival.as_ref();
    record.reason == Reason::Conflict && found().is_some_and(|rival| rival.hold == RivalHold::Active)
}

/// Number of clusters that a retry queued again.
fn retried(retry: &PendingRetry, plan: &Plan) -> usize {
    let attempts = plan.clusters.iter().map(|state| &state.record.attempt);
    attempts.filter(|attempt| retry.has_caused(attempt)).count()
}
