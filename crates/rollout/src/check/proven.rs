//! What an observation proves about the stages of a record.

use chrono::{DateTime, TimeDelta, Utc};

use crate::model::{
    Attempt, Cluster, Outcome, Policy, Record, Stage, Step, StepStatus, StepWork, Work, WorkerPools,
};

/// How far a note of a soak may be ahead of the present and of the recorded start of its step. Agents can edit their works.
const MAX_NOTE_LEAD: TimeDelta = TimeDelta::minutes(1);

pub(super) fn has_succeeded(record: &Record, stage: Stage) -> bool {
    record.stages[stage.index()].is_some_and(|stage| stage.outcome == Some(Outcome::Succeeded))
}

pub(super) fn own(cluster: &Cluster, step: Step) -> Option<&Work> {
    match &cluster.works[step.index()] {
        StepWork::Ours(work) => Some(work),
        _ => None,
    }
}

/// True when the work belongs to what the record describes: it has the same attempt or the same start.
pub(super) fn speaks_for(work: &Work, record: &Record, step: Step) -> bool {
    let clock = record.stages[Stage::from(step).index()].map(|stage| stage.started);
    work.attempt == record.attempt || clock == Some(work.started)
}

/// True when a step that begins at this time on record may have this work. A start in the future is recorded as now.
fn has_start(work: &Work, started: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    work.started == started || (work.started > now && started == now)
}

/// The attempt that was observed: that of the earlier record, or that of the latest work where there is none.
fn attempt_before(cluster: &Cluster) -> Option<&Attempt> {
    let tells = |work: &&Work| work.status == StepStatus::Succeeded || !(work.terminating || work.vanished);
    let mut steps = Step::ALL.into_iter().rev();
    match cluster.record.as_deref() {
        Some(before) => Some(&before.attempt),
        None => steps
            .find_map(|step| own(cluster, step).filter(tells))
            .map(|work| &work.attempt),
    }
}

/// True when a step goes on in another attempt since an edit, with a work of the attempt before. It keeps the start that is on
/// record, whatever the work says later. If none is, the start is that of the work.
fn goes_on(cluster: &Cluster, record: &Record, work: &Work, step: Step, now: DateTime<Utc>) -> bool {
    let Some(started) = record.stage(step.into()).map(|stage| stage.started) else {
        return false;
    };
    let before = cluster.record.as_deref();
    match before.and_then(|before| Some((before, before.stage(step.into())?))) {
        Some((before, stage)) => stage.started == started && speaks_for(work, before, step),
        None => attempt_before(cluster) == Some(&work.attempt) && has_start(work, started, now),
    }
}

/// True when a work notes a soak that is not far in the future.
fn notes_soak(work: &Work, record: &Record, step: Step, now: DateTime<Utc>) -> bool {
    let clock = record.stages[Stage::from(step).index()].map(|stage| stage.started);
    let latest = clock.map_or(now, |clock| clock.max(now));
    work.soak_started
        .is_some_and(|began| began - MAX_NOTE_LEAD <= latest)
}

/// True when a later step followed the stage in the attempt in which the stage began, by the earlier record or by its work.
/// Since then an edit may have begun another attempt, which repeats only the later step.
fn was_followed(cluster: &Cluster, record: &Record, stage: Stage, now: DateTime<Utc>) -> bool {
    let Some(started) = record.stages[stage.index()].map(|stage| stage.started) else {
        return false;
    };
    let before = cluster
        .record
        .as_deref()
        .filter(|before| before.stages[stage.index()].is_some_and(|stage| stage.started == started));
    let counts = |work: &&Work| has_start(work, started, now);
    let begun = stage.step().and_then(|step| own(cluster, step)).filter(counts);
    Step::ALL
        .into_iter()
        .filter(|step| Stage::from(*step) > stage)
        .filter_map(|step| Some((step, own(cluster, step)?)))
        .any(|(step, work)| {
            before.is_some_and(|before| speaks_for(work, before, step))
                || begun.is_some_and(|begun| begun.attempt == work.attempt)
        })
}

/// True unless a stage that had succeeded by an earlier spec was asked for something else then, as far as its work shows. What came
/// before the update is not repeated after it.
fn stays(policy: &Policy, cluster: &Cluster, before: &Record, record: &Record, stage: Stage) -> bool {
    let is_edit =
        before.attempt.revision != record.attempt.revision && record.attempt.revision == policy.revision;
    let is_asked =
        |step: Step| own(cluster, step).map(|work| &work.hash) == policy.steps[step.index()].as_ref();
    let step = stage.step().filter(|step| *step != Step::PreAction);
    !is_edit || step.is_none_or(|step| policy.steps[step.index()].is_none() || is_asked(step))
}

/// True when the observation proves that the stage succeeded: by the earlier record, the step's feedback (and that of the worker
/// pools, if they are waited for), a work of a later step, or the note of a soak.
pub(super) fn is_proven(
    policy: &Policy,
    cluster: &Cluster,
    record: &Record,
    stage: Stage,
    now: DateTime<Utc>,
) -> bool {
    let clock = |record: &Record| record.stages[stage.index()].map(|stage| stage.started);
    let recorded = cluster.record.as_deref().is_some_and(|before| {
        let same = before.attempt == record.attempt
            || (clock(before) == clock(record) && stays(policy, cluster, before, record, stage));
        same && has_succeeded(before, stage)
    });
    let reported = stage
        .step()
        .and_then(|step| Some((step, own(cluster, step)?)))
        .filter(|(_, work)| work.status == StepStatus::Succeeded)
        .filter(|(step, _)| {
            let is_waited_for = *step == Step::Platform && policy.worker_pools_timeout.is_some();
            let have_followed = cluster.worker_pools == WorkerPools::Updated && policy.clock_trusted;
            !is_waited_for || have_followed
        })
        .is_some_and(|(step, work)| {
            speaks_for(work, record, step) || goes_on(cluster, record, work, step, now)
        });
    let later = Step::ALL.into_iter().any(|step| {
        Stage::from(step) > stage && own(cluster, step).is_some_and(|work| speaks_for(work, record, step))
    });
    let noted = stage < Stage::Soak
        && Step::ALL.into_iter().any(|step| {
            own(cluster, step)
                .is_some_and(|work| notes_soak(work, record, step, now) && speaks_for(work, record, step))
        });
    recorded || reported || later || noted || was_followed(cluster, record, stage, now)
}

/// True when nothing shows that the worker pools have followed the update of an attempt: neither what they say, nor a work that comes
/// after them, nor the note of a soak.
pub(super) fn may_be_behind(policy: &Policy, cluster: &Cluster, record: &Record) -> bool {
    let is_shown = |step: Step| {
        let work = own(cluster, step).filter(|work| work.attempt == record.attempt);
        work.is_some_and(|work| {
            let is_noted = work.soak_started.is_some_and(|began| began > work.started);
            work.status == StepStatus::Succeeded && (step > Step::Platform || is_noted)
        })
    };
    let mut steps = [Step::Platform, Step::Operators, Step::PostAction].into_iter();
    cluster.awaits_pools(policy) && !steps.any(is_shown)
}
