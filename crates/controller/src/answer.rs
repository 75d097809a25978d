//! The answers of writes, taken into the state at once so that the next plan sees what was written. No I/O.

use std::sync::Arc;
use std::time::Instant;

use api::names::Step;
use chrono::{DateTime, TimeDelta, Utc};

use crate::apply::{Effect, Job, Outcome, Sheet};
use crate::backoff::ObstacleKind;
use crate::desk::Desk;
use crate::hall::{Hall, State};
use crate::index::Index;
use crate::pipeline::wake_contested;

/// First wait before a foreign work that is being deleted is looked at again.
const TERMINATING: TimeDelta = TimeDelta::seconds(5);

/// Takes the answer of a write into the state.
pub fn take(hall: &Hall, state: &mut State, job: Job, outcome: &Outcome) {
    let now = hall.now();
    let Job { upgrade, effect } = job;
    match outcome {
        Outcome::Work(work) | Outcome::Rival(work) => state.index.answered_work(work, now),
        Outcome::Upgrade(object) => state.answered_upgrade((**object).clone()),
        _ => {}
    }
    take_end(&mut state.index, &effect, outcome);
    let Some(desk) = state.desks.get_mut(&upgrade) else {
        if let (Effect::Delete { uid, .. }, Outcome::Doomed) = (&effect, outcome)
            && state.orphans.knows(uid)
        {
            hall.metrics.orphan_swept();
        }
        return;
    };
    desk.skew = hall.skew();
    match effect {
        Effect::Create {
            cluster,
            step,
            sheet,
            freed,
        } => {
            if let (Outcome::Work(_), Some(freed)) = (outcome, freed) {
                hall.metrics.reacted(freed.elapsed());
            }
            desk.weigh(&cluster, step, &sheet.attempt, outcome, now);
            take_creation(desk, &cluster, step, &sheet, outcome, now);
            desk.end(&cluster);
        }
        Effect::Update { cluster, sheet, .. } => {
            desk.weigh(&cluster, Step::Platform, &sheet.attempt, outcome, now);
            take_change(desk, &cluster, outcome, now);
        }
        Effect::MarkSoak { cluster, .. } | Effect::Delete { cluster, .. } => {
            take_change(desk, &cluster, outcome, now);
        }
        Effect::Read {
            cluster, step, asked, ..
        } => {
            match outcome {
                Outcome::Failed(text, counted) => desk.fail(&cluster, now, text, *counted),
                Outcome::NotLeading | Outcome::GivenUp => {}
                _ => desk.note_reading(&cluster, step, asked, now, &state.index),
            }
            desk.end(&cluster);
        }
        Effect::Report { due, .. } => {
            let version = match outcome {
                Outcome::Report(version) => Some(*version),
                _ => None,
            };
            match outcome {
                Outcome::ReportRefused {
                    text,
                    rows,
                    about_rows,
                } => desk.rows.refused(&due, rows, *about_rows, text, Instant::now()),
                _ => desk.rows.wrote(due, version, Instant::now()),
            }
            desk.dirty = true;
            // What is on record now may be what others wait for.
            if version.is_some() {
                wake_contested(&mut state.desks);
            }
        }
        Effect::Status { status, .. } => {
            desk.status.wrote(*status, matches!(outcome, Outcome::Upgrade(_)));
            // The end of a deletion waits for it.
            desk.dirty |= desk.is_deleting();
        }
        Effect::Finalizers { .. } | Effect::Annotate { .. } => desk.finalized(now, outcome),
    }
}

/// What the answer to the creation of a work means for its cluster.
fn take_creation(
    desk: &mut Desk,
    cluster: &Arc<str>,
    step: Step,
    sheet: &Sheet,
    outcome: &Outcome,
    now: DateTime<Utc>,
) {
    match outcome {
        Outcome::Foreign => desk.obstruct(cluster, step, now, ObstacleKind::Foreign),
        Outcome::Refused(text) if desk.goes_by(&sheet.brief) => {
            desk.obstruct(
                cluster,
                step,
                now,
                ObstacleKind::Refused(Arc::from(text.as_str())),
            );
        }
        // Refused for an earlier spec: the present one may do.
        Outcome::Refused(_) | Outcome::NotLeading | Outcome::GivenUp => {}
        Outcome::ForeignTerminating => desk.await_end(cluster, step, now, now + TERMINATING),
        Outcome::NamespaceGone => desk.miss(cluster, now),
        Outcome::Failed(text, counted) => desk.fail_to_create(cluster, now, text, *counted),
        _ => {
            desk.obstacles.remove(&(Arc::clone(cluster), step));
            desk.succeed(cluster);
        }
    }
}

/// What the answer to a change or deletion of a work means for its cluster.
fn take_change(desk: &mut Desk, cluster: &Arc<str>, outcome: &Outcome, now: DateTime<Utc>) {
    match outcome {
        Outcome::NamespaceGone => desk.miss(cluster, now),
        Outcome::Failed(text, counted) => desk.fail(cluster, now, text, *counted),
        Outcome::NotLeading | Outcome::GivenUp => {}
        _ => desk.succeed(cluster),
    }
    desk.end(cluster);
}

/// What a write says about the end of a work. Only a deletion that the hub has taken leaves the work doomed.
fn take_end(index: &mut Index, effect: &Effect, outcome: &Outcome) {
    match (effect, outcome) {
        (
            Effect::Delete {
                cluster, step, uid, ..
            },
            Outcome::Work(work) | Outcome::Rival(work),
        ) if work.metadata.uid.as_deref() != Some(uid) => index.forget(cluster, *step, uid),
        (Effect::Delete { .. }, Outcome::Doomed) => {}
        (
            Effect::Delete {
                cluster, step, uid, ..
            }
            | Effect::MarkSoak {
                cluster, step, uid, ..
            },
            Outcome::Gone,
        ) => index.forget(cluster, *step, uid),
        (
            Effect::Delete {
                cluster, step, uid, ..
            },
            _,
        ) => index.spare(cluster, *step, uid),
        (
            Effect::Read {
                cluster,
                step,
                uid: Some(uid),
                ..
            },
            Outcome::Gone,
        ) => index.lose(cluster, *step, uid),
        (Effect::Update { cluster, uid, .. }, Outcome::Gone) => index.forget(cluster, Step::Platform, uid),
        _ => {}
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
