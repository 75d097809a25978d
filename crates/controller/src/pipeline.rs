//! One look at one upgrade: observe → validate → plan → check → apply → report.
//!
//! The state is locked to observe and to take the plan, not while planning. Only this loop plans, so a plan can be
//! outdated by news but never by another plan; every write it leads to is safe against news (fixed names, UIDs).

use std::sync::Arc;
use std::time::Instant;

use api::ManagedClustersUpgradeStatus;
use api::mcu::UpgradeState;
use api::names::FINALIZER;
use api::views::Upgrade;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::check::Violation;
use rollout::{Fleet, Hold, Plan, Policy, Reason, Record, RivalHold, Selection};

use crate::apply::{Effect, Job};
use crate::deletion;
use crate::desk::Desk;
use crate::events::{self, Publisher, Regarding};
use crate::hall::{Hall, State, concerns_planning};
use crate::jobs::{finalizer_job, prepare, report_job, status_job};
use crate::observe::{self, Desks};
use crate::policy::{Brief, pending_retry};
use crate::report::announce;
use crate::report::status::{self, Facts, Past};
use crate::restore::{self, Completed, Origin};
use crate::selection::Selected;
use crate::telemetry::labels::ReconcileOutcome;

/// When to look again after a plan was refused.
const REFUSED: TimeDelta = TimeDelta::seconds(15);

/// What was observed of an upgrade.
pub(crate) struct Observed {
    view: Arc<Upgrade>,
    policy: Policy,
    fleet: Fleet,
    pub(crate) brief: Option<Arc<Brief>>,
    /// The rules that the present spec breaks, while its clusters go on by the last valid one.
    broken: Option<Arc<Vec<api::validate::Violation>>>,
    pub(crate) now: DateTime<Utc>,
    pub(crate) freed: Option<Instant>,
}

/// Looks at an upgrade once.
pub fn look(hall: &Hall, events: &Publisher, uid: &str) {
    let begun = Instant::now();
    let observed = hall.with(|state| observe(hall, state, uid, events));
    let Some(observed) = observed else { return };
    let planned = Instant::now();
    let plan = rollout::plan(observed.now, &observed.policy, &observed.fleet);
    let violations = rollout::check::check(observed.now, &observed.policy, &observed.fleet, &plan);
    hall.metrics.planned(planned.elapsed());
    if !violations.is_empty() {
        hall.metrics.check_violated();
        hall.metrics.reconciled(ReconcileOutcome::Violation);
        tracing::error!(
            upgrade = uid,
            ?violations,
            "the plan breaks a safety rule; nothing of it is written"
        );
        // On the object, too: its status is that of the last good plan and would never tell.
        if let Some(regarding) = hall.with(|state| refuse(state, uid, observed.now, begun)) {
            events.upgrade(&regarding, events::Reason::PlanRefused, refusal(&violations));
        }
        return;
    }
    let taken = hall.with(|state| take(state, uid, &observed, &plan, begun));
    hall.metrics.reconciled(if taken.jobs.is_empty() {
        ReconcileOutcome::Unchanged
    } else {
        ReconcileOutcome::Written
    });
    if let Some(regarding) = &taken.regarding {
        for (reason, note) in taken.news {
            events.upgrade(regarding, reason, note);
        }
        for (cluster, record, resolves) in &taken.moved {
            if let Some((reason, note)) = announce::of_record(cluster, record, *resolves) {
                events.cluster(regarding, cluster, reason, note);
            }
        }
    }
    hall.lanes.push(taken.jobs);
}

/// What taking a plan leads to.
#[derive(Default)]
struct Taken {
    jobs: Vec<Job>,
    regarding: Option<Regarding>,
    news: Vec<(events::Reason, String)>,
    /// Clusters whose phase is new; true: what blocks it resolves by itself.
    moved: Vec<(Arc<str>, Arc<Record>, bool)>,
}

fn regarding(desk: &Desk) -> Regarding {
    Regarding {
        namespace: desk.namespace.to_string(),
        name: desk.name.to_string(),
        uid: desk.uid.to_string(),
    }
}

fn observe(hall: &Hall, state: &mut State, uid: &str, events: &Publisher) -> Option<Observed> {
    let now = hall.now();
    let mut desk = state.desks.remove(uid)?;
    let before = desk.status.previous();
    let observed = observe_desk(hall, state, &mut desk, now);
    if observed.is_none() {
        for (reason, note) in announce::of_status(&before, &desk.status.previous(), 0) {
            events.upgrade(&regarding(&desk), reason, note);
        }
    }
    state.desks.insert(Arc::clone(&desk.uid), desk);
    observed
}

fn begin_look(hall: &Hall, desk: &mut Desk, now: DateTime<Utc>) {
    desk.dirty = false;
    desk.skew = hall.skew();
    desk.clamp_waits(now);
    desk.looked = Some((Instant::now(), std::time::Duration::ZERO));
    desk.wake_at = None;
}

fn observe_desk(hall: &Hall, state: &mut State, desk: &mut Desk, now: DateTime<Utc>) -> Option<Observed> {
    begin_look(hall, desk, now);
    // A look that cannot plan uses it up, too: what the upgrade waits for from here on is no reaction.
    let freed = state.index.ended.remove(&desk.uid);
    if desk.earlier_life.is_none() && restore::is_unmarked(desk) {
        desk.earlier_life = state.earlier_life(desk);
    }
    if !settle_finalizer(hall, desk, now) {
        return None;
    }
    let owned = state.index.clusters_of(&desk.uid);
    if !desk.is_deleting() {
        desk.origin = restore::judge(desk, owned.is_empty());
        if let Origin::CompletedBefore(completed) = desk.origin.clone() {
            show_completed(hall, state, desk, &completed, now);
            return None;
        }
    }
    let (brief, in_force) = (desk.brief.clone(), desk.in_force().cloned());
    let clock_trusted = desk.skew.is_none();
    let policy = match (&brief, &in_force) {
        _ if desk.is_deleting() => deletion::policy(),
        (Ok(brief), _) => Policy {
            retry: pending_retry(&desk.view, desk.status.previous().observed_retry.as_deref()),
            hold: match desk.origin {
                Origin::Restored(_) => Some(Hold::Restored),
                _ => brief.policy.hold,
            },
            clock_trusted,
            ..brief.policy.clone()
        },
        // What is in flight goes on as it was asked for; nothing else starts, and no retry.
        (Err(_), Some(last)) => Policy {
            hold: Some(Hold::InvalidSpec),
            clock_trusted,
            ..last.policy.clone()
        },
        (Err(violations), None) => {
            let (latest, written) = (desk.status.previous(), desk.status.written());
            let past = Past {
                latest: &latest,
                written: &written,
            };
            let status = status::invalid(&facts(desk, &latest, now), violations, past);
            desk.status.set(status);
            if latest.state != Some(UpgradeState::Invalid) {
                wake_contested(&mut state.desks);
            }
            hall.metrics.reconciled(ReconcileOutcome::Invalid);
            return None;
        }
    };
    if observe::refresh_selection(desk, &state.index, state.settings.require_bindings) {
        // Younger upgrades wait for what this one selects, and for nothing else.
        for other in state
            .desks
            .values_mut()
            .filter(|other| other.order() > desk.order())
        {
            other.dirty = true;
        }
    }
    observe::note_proven(desk, &state.index);
    if desk.settle(&state.index, now) {
        wake_contested(&mut state.desks);
    }
    let mut owned = owned;
    if !desk.unsettled.is_empty() {
        owned.extend(desk.unsettled.keys().cloned());
        owned.sort_unstable();
        owned.dedup();
    }
    let allow_hub = state.settings.allow_hub;
    let sight = observe::sight(desk, &state.desks, &state.index, &owned, allow_hub, now);
    desk.take_sight(&sight);
    Some(Observed {
        view: Arc::clone(&desk.view),
        policy,
        fleet: sight.fleet,
        brief: in_force,
        broken: brief.err(),
        now,
        freed,
    })
}

/// Shows an upgrade that was complete before it was restored as complete. Nothing is planned for it, and it holds no cluster.
fn show_completed(
    hall: &Hall,
    state: &mut State,
    desk: &mut Desk,
    completed: &Completed,
    now: DateTime<Utc>,
) {
    if !desk.selected.clusters.is_empty() {
        desk.selected = Selected::default();
        wake_contested(&mut state.desks);
    }
    desk.selected_at = 0;
    let (latest, written) = (desk.status.previous(), desk.status.written());
    let past = Past {
        latest: &latest,
        written: &written,
    };
    let observed = restore::observed_retry(desk, &latest);
    let facts = Facts {
        observed_retry: observed.as_deref(),
        ..facts(desk, &latest, now)
    };
    let status = match &desk.brief {
        Ok(_) => status::completed_before(&facts, completed, past),
        Err(violations) => status::invalid(&facts, violations, past),
    };
    desk.status.set(status);
    hall.metrics.reconciled(ReconcileOutcome::Unchanged);
    if let Some(until) = hurdle(desk, now) {
        desk.wake_at = Some(until);
    } else {
        hall.lanes.push(restore::carry_over(desk, completed));
    }
}

/// The finalizer is set before anything is written for an upgrade. True when the upgrade may be looked at.
fn settle_finalizer(hall: &Hall, desk: &mut Desk, now: DateTime<Utc>) -> bool {
    let present = has_finalizer(desk);
    // That it is a restored one is noted first, too: the reports that tell it are soon removed as nobody's.
    let marked = desk.earlier_life.is_none()
        || restore::life_to_note(desk).is_none()
        || (desk.noted.is_some() && !desk.finalizing);
    if desk.is_deleting() || (present && marked) {
        return present;
    }
    if desk.finalizing {
        return false;
    }
    // Of too many finalizers the view has only some, and writing those would remove the others.
    if desk.in_force().is_none() || desk.view.has_too_many_finalizers() {
        return true;
    }
    if let Some(until) = hurdle(desk, now) {
        desk.wake_at = Some(until);
        return false;
    }
    let mut finalizers = desk.view.metadata.finalizers.clone().unwrap_or_default();
    if !present {
        finalizers.push(FINALIZER.to_owned());
    }
    let life = restore::life_to_note(desk);
    desk.noted = life.as_deref().map(str::to_owned);
    let job = finalizer_job(desk, finalizers, life);
    hall.lanes.push([job]);
    false
}

/// When the finalizers may be written again, if not now.
pub(crate) fn hurdle(desk: &Desk, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let until = desk.hurdle.as_ref().map(|hurdle| hurdle.until);
    until.filter(|until| *until > now)
}

pub(crate) fn has_finalizer(desk: &Desk) -> bool {
    desk.view
        .metadata
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == FINALIZER)
}

pub(crate) fn facts<'a>(
    desk: &'a Desk,
    previous: &'a ManagedClustersUpgradeStatus,
    now: DateTime<Utc>,
) -> Facts<'a> {
    Facts {
        generation: desk.view.metadata.generation.unwrap_or(0),
        paused: desk.brief.as_ref().is_ok_and(|brief| brief.spec.paused),
        restored: match &desk.origin {
            Origin::Restored(text) => Some(text),
            _ => None,
        },
        notes: &desk.notes,
        retry: None,
        observed_retry: previous.observed_retry.as_deref(),
        refused: desk.rows.refusal(),
        skew: desk.skew,
        now,
    }
}

/// Notes that a plan was refused; a fresh look may find a better one.
fn refuse(state: &mut State, uid: &str, now: DateTime<Utc>, begun: Instant) -> Option<Regarding> {
    let desk = state.desks.get_mut(uid)?;
    desk.looked = Some((Instant::now(), begun.elapsed()));
    desk.wake_at = Some(now + REFUSED);
    Some(regarding(desk))
}

/// What an Event says of a refused plan.
fn refusal(violations: &[Violation]) -> String {
    let first = violations.first().map(ToString::to_string).unwrap_or_default();
    format!(
        "a plan breaks a safety rule and nothing of it is written; please report this defect of the controller: {first}"
    )
}

/// Takes a plan: records, jobs, status.
fn take(state: &mut State, uid: &str, observed: &Observed, plan: &Plan, begun: Instant) -> Taken {
    let State { index, desks, .. } = state;
    let Some(desk) = desks.get_mut(uid) else {
        return Taken::default();
    };
    let now = Instant::now();
    desk.looked = Some((now, begun.elapsed()));
    if concerns_planning(&observed.view, &desk.view) {
        // Planned for a spec that is not the latest any more; the desk is dirty already.
        return Taken::default();
    }
    desk.wake_at = plan.wake_at.into_iter().chain(desk.due_at(observed.now)).min();
    let mut jobs: Vec<Job> = plan
        .actions
        .iter()
        .filter_map(|action| prepare(desk, index, action, observed))
        .collect();
    for job in &jobs {
        if let Effect::Delete {
            cluster, step, uid, ..
        } = &job.effect
        {
            index.doom(cluster, *step, uid);
        }
    }
    if desk.is_deleting() {
        deletion::finish(desk, &observed.fleet, observed.now, &mut jobs);
        let news = deletion::tell(desk, &observed.fleet, observed.now, &mut jobs);
        return Taken {
            jobs,
            regarding: Some(regarding(desk)),
            news,
            moved: Vec::new(),
        };
    }
    // Fleet and plan are both in the order of names: one walk finds them all.
    let mut clusters = observed.fleet.clusters.iter();
    let changes = desk.rows.take(plan, &observed.policy, now, |name| {
        let found = clusters.find(|cluster| Arc::ptr_eq(&cluster.name, name) || cluster.name == *name);
        found.map_or((false, true), |cluster| {
            (cluster.canary, matches!(cluster.selection, Selection::Left(_)))
        })
    });
    let previous = desk.status.previous();
    let facts = Facts {
        retry: observed.policy.retry.as_deref(),
        ..facts(desk, &previous, observed.now)
    };
    let written = desk.status.written();
    let past = Past {
        latest: &previous,
        written: &written,
    };
    let status = match &observed.broken {
        None => status::status(&facts, plan, past),
        Some(violations) => status::followed(&facts, plan, violations, past),
    };
    let news = announce::of_status(&previous, &status, retried(observed, plan));
    desk.status.set(status);
    let due = desk.status.due(now);
    jobs.extend(due.map(|status| status_job(desk, status)));
    let noted = restore::note_completion(desk, &observed.policy, plan, observed.now);
    jobs.extend(noted);
    let moved = changes.moved.into_iter().map(|(cluster, record)| {
        let resolves = resolves(&observed.fleet, &cluster, &record);
        (cluster, record, resolves)
    });
    let moved = moved.collect();
    let regarding = Some(regarding(desk));
    let was_invalid = previous.state == Some(UpgradeState::Invalid);
    if changes.any || was_invalid != observed.broken.is_some() {
        wake_contested(desks);
    }
    Taken {
        jobs,
        regarding,
        news,
        moved,
    }
}

/// True when a cluster is blocked by an upgrade that is at work on it: it starts when that one is done.
fn resolves(fleet: &Fleet, cluster: &str, record: &Record) -> bool {
    let found = || {
        let at = fleet
            .clusters
            .binary_search_by(|known| (*known.name).cmp(cluster));
        fleet.clusters[at.ok()?].rival.as_ref()
    };
    record.reason == Reason::Conflict && found().is_some_and(|rival| rival.hold == RivalHold::Active)
}

/// Number of clusters that a retry queued again.
fn retried(observed: &Observed, plan: &Plan) -> usize {
    let Some(token) = &observed.policy.retry else {
        return 0;
    };
    let attempts = plan.clusters.iter().map(|state| &state.record.attempt);
    attempts.filter(|attempt| attempt.is_of_retry(token)).count()
}

/// Upgrades that wait for a cluster of another one look again.
pub(crate) fn wake_contested(desks: &mut Desks) {
    for desk in desks.values_mut().filter(|desk| desk.contested) {
        desk.dirty = true;
    }
}

/// Collects the shards and the status that are due, of every upgrade.
pub fn flush(hall: &Hall, now: Instant) {
    let jobs = hall.with(|state| {
        let mut jobs = Vec::new();
        let State { desks, settings, .. } = state;
        for desk in desks.values_mut().filter(|desk| settings.serves(&desk.namespace)) {
            if !desk.is_deleting() {
                let due = desk.rows.due(now);
                jobs.extend(due.into_iter().map(|due| report_job(desk, due)));
            }
            if !deletion::is_over(desk)
                && let Some(status) = desk.status.due(now)
            {
                jobs.push(status_job(desk, status));
            }
        }
        jobs
    });
    hall.lanes.push(jobs);
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
