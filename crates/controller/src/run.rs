//! The loop: waits for news, deadlines and due writes; looks at the upgrades that concern them; leader only.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::names::{LABEL_MCU, Step};
use api::views::Report;
use chrono::{DateTime, TimeDelta, Utc};
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::apply::{self, Effect, Job, Outcome};
use crate::events;
use crate::flags::Flags;
use crate::gauges;
use crate::hall::{Hall, Settings, State};
use crate::index::Change;
use crate::lease;
use crate::pipeline;
use crate::telemetry::health::Readiness;
use crate::telemetry::labels::{WriteKind, WriteOutcome};
use crate::telemetry::metrics::Metrics;
use crate::watch;

/// How often the loop looks whether the lists have arrived.
const INTERVAL: Duration = Duration::from_millis(200);
/// Longest sleep of the loop, so that it shows it is alive.
const LONGEST: Duration = Duration::from_secs(15);
/// Longest time of one write.
const WRITE: Duration = Duration::from_secs(30);
/// Longest time that writes in flight have at shutdown.
const LAST_WRITES: Duration = Duration::from_secs(1);
/// First wait before a foreign work that is being deleted is looked at again.
const TERMINATING: TimeDelta = TimeDelta::seconds(5);

/// The parts the loop works with.
#[derive(Debug)]
pub struct Parts {
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Readiness and liveness.
    pub readiness: Arc<Readiness>,
    /// Who leads.
    pub leadership: lease::Handle,
    /// Events.
    pub events: events::Publisher,
    /// Ends the loop.
    pub shutdown: CancellationToken,
}

/// Runs until shutdown.
///
/// # Errors
/// None today; the signature leaves room.
pub async fn run(client: Client, flags: &Flags, parts: Parts) -> anyhow::Result<()> {
    let settings = Settings {
        works: flags.work_flags(),
        operators_grace: TimeDelta::from_std(flags.operators_grace).unwrap_or(TimeDelta::seconds(30)),
        require_bindings: flags.require_set_bindings,
        namespaces: flags
            .watch_namespaces
            .iter()
            .map(|namespace| Arc::from(namespace.as_str()))
            .collect(),
    };
    let require_bindings = settings.require_bindings;
    let fence = parts.leadership.fence();
    let hall = Arc::new(Hall::new(
        settings,
        fence,
        Arc::clone(&parts.metrics),
        &parts.readiness,
    ));
    watch::start(&hall, &client);
    let mut writers = JoinSet::new();
    for _ in 0..flags.write_concurrency {
        let (hall, client, leadership) = (Arc::clone(&hall), client.clone(), parts.leadership.clone());
        writers.spawn(write(hall, client, leadership, parts.shutdown.clone()));
    }
    let looping = lead(&hall, &client, &parts, require_bindings);
    tokio::select! {
        () = looping => {}
        () = parts.shutdown.cancelled() => {}
    }
    let finished = async { while writers.join_next().await.is_some() {} };
    if tokio::time::timeout(LAST_WRITES, finished).await.is_err() {
        tracing::warn!("writes in flight did not end in time; their outcome is read back by the next leader");
    }
    Ok(())
}

/// Term after term: read the records as they are on the hub, then look and write until the lease is lost.
async fn lead(hall: &Arc<Hall>, client: &Client, parts: &Parts, require_bindings: bool) {
    let alive = async {
        loop {
            parts.readiness.beat();
            tokio::time::sleep(LONGEST).await;
        }
    };
    let terms = async {
        loop {
            let term = parts.leadership.lead().await;
            tracing::info!("this replica leads");
            tokio::select! {
                () = serve(hall, client, parts, require_bindings) => {}
                () = term.ended().cancelled_owned() => {}
            }
            tracing::info!("this replica does not lead any more");
            drop_queue(hall);
            hall.with(State::end_term);
        }
    };
    tokio::join!(alive, terms);
}

/// Jobs that were planned in a term that is over must not be carried out in a later one.
fn drop_queue(hall: &Hall) {
    for job in hall.lanes.drain() {
        hall.with(|state| finish(hall, state, job, &Outcome::NotLeading));
    }
}

async fn serve(hall: &Arc<Hall>, client: &Client, parts: &Parts, require_bindings: bool) {
    while !hall.all_synced() {
        tokio::select! {
            () = hall.woken() => {}
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
    read_records(hall, client).await;
    loop {
        parts.readiness.beat();
        let due = hall.with(|state| state.due(hall.now()));
        for uid in &due {
            pipeline::look(hall, &parts.events, uid, require_bindings);
        }
        if !due.is_empty() {
            gauges::set(hall);
        }
        pipeline::flush(hall);
        let next = hall.with(|state| state.next(hall.now()));
        tokio::select! {
            () = hall.woken() => {}
            () = tokio::time::sleep_until(next.into()) => {}
        }
    }
}

/// Reads all reports as the hub has them now: what an earlier leader wrote last may not have reached the watch yet, and
/// a stale record could repeat a finished step.
async fn read_records(hall: &Arc<Hall>, client: &Client) {
    let api: Api<Report> = Api::all(client.clone());
    let params = ListParams::default().labels(LABEL_MCU);
    loop {
        match tokio::time::timeout(WRITE, api.list(&params)).await {
            Ok(Ok(list)) => {
                hall.with(|state| state.begin_term(&list.items));
                return;
            }
            Ok(Err(error)) => tracing::warn!(%error, "reports cannot be read, trying again"),
            Err(_) => tracing::warn!("reports cannot be read in time, trying again"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// A writer: takes jobs and carries them out while this replica leads. After shutdown it finishes the one it has.
async fn write(hall: Arc<Hall>, client: Client, leadership: lease::Handle, shutdown: CancellationToken) {
    loop {
        let job = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            job = hall.lanes.pop() => job,
        };
        let begun = Instant::now();
        let outcome = carry_out(&client, &leadership, &job).await;
        count(&hall, &job, &outcome, begun.elapsed());
        hall.tell(|state| finish(&hall, state, job, &outcome));
    }
}

/// Carries out a job while the lease lasts: a write that is under way when the term ends is given up.
async fn carry_out(client: &Client, leadership: &lease::Handle, job: &Job) -> Outcome {
    let ended = leadership.subscribe().borrow().term().map(lease::Term::ended);
    let Some(ended) = ended.filter(|_| leadership.is_leader()) else {
        return Outcome::NotLeading;
    };
    tokio::select! {
        outcome = tokio::time::timeout(WRITE, apply::execute(client, job)) => {
            outcome.unwrap_or_else(|_| Outcome::Failed(format!("no answer within {} s", WRITE.as_secs())))
        }
        () = ended.cancelled() => Outcome::NotLeading,
    }
}

fn count(hall: &Hall, job: &Job, outcome: &Outcome, took: Duration) {
    let kind = match &job.effect {
        Effect::Create { .. } => WriteKind::Create,
        Effect::Update { .. } => WriteKind::Update,
        Effect::MarkSoak { .. } => WriteKind::Mark,
        Effect::Delete { .. } => WriteKind::Delete,
        Effect::Report { .. } => WriteKind::Report,
        Effect::Status { .. } => WriteKind::Status,
        Effect::Finalizers { .. } => WriteKind::Finalizer,
    };
    let ended = match outcome {
        Outcome::Work(_) | Outcome::Doomed | Outcome::Upgrade(_) | Outcome::Report(_) => WriteOutcome::Ok,
        Outcome::Gone => WriteOutcome::NotFound,
        Outcome::Foreign | Outcome::ForeignTerminating => WriteOutcome::Conflict,
        Outcome::NamespaceGone => WriteOutcome::Forbidden,
        Outcome::NotLeading => WriteOutcome::Fenced,
        Outcome::Failed(_) => WriteOutcome::Error,
    };
    hall.metrics.wrote(kind, ended, took);
    if let Outcome::Failed(error) = outcome {
        tracing::warn!(
            kind = kind.as_str(),
            cluster = job.effect.cluster().map(|name| &**name),
            error,
            "write failed"
        );
    }
}

/// Takes the answer of a write into the state at once, so that the next plan sees what was written.
fn finish(hall: &Hall, state: &mut State, job: Job, outcome: &Outcome) {
    let now = hall.now();
    let Job { upgrade, effect } = job;
    if let Outcome::Work(work) = outcome {
        state.index.work(&Change::Applied((**work).clone()), now);
    }
    match (&effect, outcome) {
        (
            Effect::Delete {
                cluster, step, uid, ..
            },
            Outcome::Failed(_) | Outcome::NotLeading | Outcome::NamespaceGone,
        ) => {
            state.index.spare(cluster, *step, uid);
        }
        (
            Effect::Delete {
                cluster, step, uid, ..
            }
            | Effect::MarkSoak {
                cluster, step, uid, ..
            },
            Outcome::Gone,
        ) => {
            state.index.forget(cluster, *step, uid);
        }
        (Effect::Update { cluster, uid, .. }, Outcome::Gone) => {
            state.index.forget(cluster, Step::Platform, uid)
        }
        _ => {}
    }
    if let Outcome::Upgrade(object) = outcome {
        state.apply_upgrade((**object).clone(), hall);
    }
    let Some(desk) = state.desks.get_mut(&upgrade) else {
        return;
    };
    match effect {
        Effect::Create {
            cluster, step, freed, ..
        } => {
            if let (Outcome::Work(_), Some(freed)) = (outcome, freed) {
                hall.metrics.reacted(freed.elapsed());
            }
            match outcome {
                Outcome::Foreign => desk.obstruct(&cluster, step, now),
                Outcome::ForeignTerminating => desk.await_end(&cluster, step, now + TERMINATING),
                Outcome::NamespaceGone => {
                    desk.missing.insert(Arc::clone(&cluster), now);
                }
                Outcome::Failed(text) => desk.fail(&cluster, now, text),
                _ => {
                    desk.foreign.remove(&(Arc::clone(&cluster), step));
                    desk.succeed(&cluster);
                }
            }
            desk.end(&cluster);
        }
        Effect::Update { cluster, .. }
        | Effect::MarkSoak { cluster, .. }
        | Effect::Delete { cluster, .. } => {
            match outcome {
                Outcome::Failed(text) => desk.fail(&cluster, now, text),
                _ => desk.succeed(&cluster),
            }
            desk.end(&cluster);
        }
        Effect::Report { due, .. } => {
            let version = if let Outcome::Report(version) = outcome {
                Some(*version)
            } else {
                None
            };
            desk.rows.wrote(due, version, Instant::now());
            desk.dirty = true;
        }
        Effect::Status { status, .. } => {
            desk.status.wrote(*status, matches!(outcome, Outcome::Upgrade(_)));
        }
        Effect::Finalizers { .. } => {
            desk.finalizing = false;
            desk.dirty = true;
        }
    }
}

impl State {
    /// Takes the records of a new term.
    fn begin_term(&mut self, reports: &[Report]) {
        for desk in self.desks.values_mut() {
            desk.begin_term();
        }
        for report in reports {
            self.observe_report(report, false, false);
        }
    }

    /// Forgets what only a leader may believe.
    fn end_term(&mut self) {
        for desk in self.desks.values_mut() {
            desk.status.reset();
            desk.dirty = true;
        }
    }

    /// Upgrades to look at now, the oldest first.
    fn due(&mut self, wall: DateTime<Utc>) -> Vec<Arc<str>> {
        let all = std::mem::take(&mut self.index.all_dirty);
        for uid in std::mem::take(&mut self.index.dirty) {
            if let Some(desk) = self.desks.get_mut(&uid) {
                desk.dirty = true;
            }
        }
        let now = Instant::now();
        let mut due: Vec<_> = Vec::new();
        for desk in self.desks.values_mut() {
            if !self.settings.serves(&desk.namespace) {
                continue;
            }
            desk.dirty |= all || desk.wake_at.is_some_and(|wake| wake <= wall);
            if desk.dirty && desk.rested(now) {
                due.push((desk.created, Arc::clone(&desk.key), Arc::clone(&desk.uid)));
            }
        }
        due.sort_unstable();
        due.into_iter().map(|(_, _, uid)| uid).collect()
    }

    /// When to turn again, if nothing happens before.
    fn next(&self, wall: DateTime<Utc>) -> Instant {
        let instant = Instant::now();
        let mut next = instant + LONGEST;
        for desk in self
            .desks
            .values()
            .filter(|desk| self.settings.serves(&desk.namespace))
        {
            if desk.dirty {
                next = next.min(desk.rested_at(instant));
            }
            if let Some(wake) = desk.wake_at {
                let left = (wake - wall).to_std().unwrap_or(Duration::ZERO);
                next = next.min(instant + left);
            }
            if let Some(due) = desk.rows.due_at() {
                next = next.min(due);
            }
            if let Some(due) = desk.status.due_at(instant) {
                next = next.min(due);
            }
        }
        next
    }
}
