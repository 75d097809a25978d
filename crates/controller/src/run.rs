//! The loop: waits for news, deadlines and due writes; looks at the upgrades that concern them; leader only.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use kube::Client;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::admission;
use crate::answer;
use crate::apply::{self, Effect, Job, Load, Outcome};
use crate::archive;
use crate::clock;
use crate::events;
use crate::flags::Flags;
use crate::gauges;
use crate::hall::{Hall, Settings, State};
use crate::lease;
use crate::pipeline;
use crate::sweep::sweep;
use crate::telemetry::health::Readiness;
use crate::telemetry::labels::{WriteKind, WriteOutcome};
use crate::telemetry::metrics::Metrics;
use crate::watch;

/// How often the loop looks whether the view is complete.
const INTERVAL: Duration = Duration::from_millis(200);
/// Longest sleep of the loop, so that it shows it is alive.
pub(crate) const LONGEST: Duration = Duration::from_secs(15);
/// Longest time of one write.
const WRITE: Duration = Duration::from_secs(30);
/// Writers are behind when each of them has so many jobs before it.
const BEHIND: usize = 4;
/// Of so many writers one tidies up, too.
const TIDY: usize = 4;
/// Longest time that writes in flight have at shutdown.
const LAST_WRITES: Duration = Duration::from_secs(1);

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
/// A watch or a writer has panicked. Without it the controller would go on and look well, but not see or do what it should;
/// started again it reads everything anew.
pub async fn run(client: Client, flags: &Flags, parts: Parts) -> anyhow::Result<()> {
    let settings = Settings {
        works: flags.work_flags(),
        operators_grace: TimeDelta::from_std(flags.operators_grace).unwrap_or(TimeDelta::seconds(30)),
        require_bindings: flags.require_set_bindings,
        allow_hub: flags.allow_hub,
        namespaces: flags
            .watch_namespaces
            .iter()
            .map(|namespace| Arc::from(namespace.as_str()))
            .collect(),
    };
    let fence = parts.leadership.fence();
    let hall = Arc::new(Hall::new(
        settings,
        fence,
        Arc::clone(&parts.metrics),
        &parts.readiness,
    ));
    let client = clock::watched(&client, &hall.clock);
    hall.lanes.set_writers(flags.write_concurrency);
    hall.metrics.set_write_limit(flags.write_concurrency, false);
    let watches = watch::start(&hall, &client);
    let mut writers = JoinSet::new();
    for number in 0..flags.write_concurrency {
        let (hall, client, leadership) = (Arc::clone(&hall), client.clone(), parts.leadership.clone());
        let tidies = number % TIDY == 0;
        writers.spawn(write(hall, client, leadership, parts.shutdown.clone(), tidies));
    }
    let looping = lead(&hall, &client, &parts, flags.write_concurrency);
    attend(&parts.shutdown, looping, watches, writers).await
}

/// Until shutdown, or until one of those that never end by themselves has ended. Then the writers finish what they have
/// begun.
async fn attend(
    shutdown: &CancellationToken,
    looping: impl Future<Output = ()>,
    mut watches: JoinSet<()>,
    mut writers: JoinSet<()>,
) -> anyhow::Result<()> {
    let outcome = tokio::select! {
        biased;
        () = shutdown.cancelled() => Ok(()),
        () = looping => Ok(()),
        Some(ended) = watches.join_next() => Err(broken("watch", ended)),
        Some(ended) = writers.join_next() => Err(broken("writer", ended)),
    };
    shutdown.cancel();
    let finished = async { while writers.join_next().await.is_some() {} };
    if tokio::time::timeout(LAST_WRITES, finished).await.is_err() {
        tracing::warn!("writes in flight did not end in time; their outcome is read back by the next leader");
    }
    outcome
}

fn broken(what: &str, ended: Result<(), JoinError>) -> anyhow::Error {
    match ended {
        Ok(()) => anyhow::anyhow!("a {what} ended"),
        Err(error) => anyhow::Error::new(error).context(format!("a {what} ended")),
    }
}

/// Term after term: have every kind listed anew, then look and write until the lease is lost.
async fn lead(hall: &Arc<Hall>, client: &Client, parts: &Parts, writers: usize) {
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
            hall.begin_term();
            tokio::select! {
                () = serve(hall, client, parts, writers) => {}
                () = term.ended().cancelled_owned() => {}
            }
            tracing::info!("this replica does not lead any more");
            hall.freshness.end_term();
            drop_queue(hall);
            hall.with(State::end_term);
            gauges::clear(hall);
        }
    };
    let policies = Box::pin(admission::follow(
        client,
        &parts.readiness,
        &parts.metrics,
        &parts.leadership,
    ));
    tokio::join!(alive, terms, policies);
}

/// Jobs that were planned in a term that is over, or before an outage, must not be carried out any more.
fn drop_queue(hall: &Hall) {
    for job in hall.lanes.drain() {
        hall.with(|state| answer::take(hall, state, job, &Outcome::NotLeading));
    }
}

/// Waits until all that is known is true now: what an earlier leader wrote last, or what was changed during an outage,
/// may not have reached the watches yet. A stale record could repeat a finished step, a missing work could be counted as
/// a free slot, a stale spec could start what its author has stopped.
async fn see(hall: &Hall) {
    // Nobody plans meanwhile, so the queue stays empty.
    drop_queue(hall);
    while !hall.open() {
        tokio::select! {
            () = hall.woken() => {}
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

/// Now, on the runtime's clock.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

async fn serve(hall: &Arc<Hall>, client: &Client, parts: &Parts, writers: usize) {
    // Those of each end with the term.
    let mut sweeps = JoinSet::new();
    let mut reads = JoinSet::new();
    // Upgrades when the gauges were set last: one that is deleted leaves nothing to look at, but must not be counted on.
    let mut counted = None;
    let mut trusted = true;
    loop {
        parts.readiness.beat();
        if !hall.freshness.is_open() {
            // A work may have an upgrade that is not known now: how long it has had none counts anew.
            sweeps.shutdown().await;
            hall.with(State::forget_orphans);
            see(hall).await;
        }
        if hall.skew().is_none() != trusted {
            trusted = !trusted;
            hall.with(|state| state.index.all_dirty = true);
        }
        attend_archives(hall, client, &mut reads);
        let behind = hall.lanes.backlog() > writers * BEHIND;
        let (due, upgrades) = hall.with(|state| {
            let due = state.due(hall.now(), now(), behind);
            (due, state.desks.len())
        });
        for uid in &due {
            if !hall.freshness.is_open() {
                break;
            }
            pipeline::look(hall, &parts.events, uid);
            // Many that are due at once must not keep the rest of the process waiting.
            parts.readiness.beat();
            tokio::task::yield_now().await;
        }
        if !due.is_empty() || counted != Some(upgrades) {
            gauges::set(hall);
            counted = Some(upgrades);
        }
        pipeline::flush(hall, now());
        sweep_orphans(hall, client, &mut sweeps);
        let behind = hall.lanes.backlog() > writers * BEHIND;
        let next = hall.with(|state| state.next(hall.now(), now(), behind));
        tokio::select! {
            () = hall.woken() => {}
            () = tokio::time::sleep_until(next.into()) => {}
        }
    }
}

/// Archives what is at rest, compares what is archived, and begins to read what is to be worked on again.
fn attend_archives(hall: &Arc<Hall>, client: &Client, reads: &mut JoinSet<()>) {
    while reads.try_join_next().is_some() {}
    if !hall.freshness.is_open() {
        return;
    }
    let wanted = hall.with(|state| {
        state.hear_selection_news();
        state.archive_at_rest(now());
        state.compare(now());
        state.to_be_read(now())
    });
    for one in wanted {
        reads.spawn(archive::read(Arc::clone(hall), client.clone(), one));
    }
}

/// Counts the works without an upgrade, and begins to judge those that have had none for long.
fn sweep_orphans(hall: &Arc<Hall>, client: &Client, sweeps: &mut JoinSet<()>) {
    while sweeps.try_join_next().is_some() {}
    if !hall.freshness.is_open() {
        return;
    }
    let (suspects, count) = hall.with(|state| (state.find_orphans(now()), state.orphans.count()));
    hall.metrics.set_orphans(count);
    if !suspects.is_empty() {
        sweeps.spawn(sweep(Arc::clone(hall), client.clone(), suspects));
    }
}

/// A writer: takes jobs and carries them out while this replica leads. After shutdown it finishes the one it has.
async fn write(
    hall: Arc<Hall>,
    client: Client,
    leadership: lease::Handle,
    shutdown: CancellationToken,
    tidies: bool,
) {
    loop {
        let job = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            job = hall.lanes.pop(tidies) => job,
        };
        let begun = Instant::now();
        let (outcome, load) = carry_out(&hall, &client, &leadership, &job).await;
        let (limit, paused) = hall.lanes.ended(begun, load);
        hall.metrics.set_write_limit(limit, paused);
        count(&hall, &job, &outcome, begun.elapsed());
        hall.tell(|state| answer::take(&hall, state, job, &outcome));
    }
}

/// Carries out a job while the lease lasts and what it was planned on is true: a write that is under way when the term
/// ends, or when the hub turns out to be another one, is given up.
async fn carry_out(hall: &Hall, client: &Client, leadership: &lease::Handle, job: &Job) -> (Outcome, Load) {
    let ended = leadership.subscribe().borrow().term().map(lease::Term::ended);
    let view = hall.freshness.view();
    let may_write = leadership.is_leader() && hall.freshness.is_open();
    let Some(ended) = ended.filter(|_| may_write) else {
        return (Outcome::NotLeading, Load::Unknown);
    };
    tokio::select! {
        biased;
        answer = tokio::time::timeout(WRITE, apply::carry_out(client, job)) => {
            answer.unwrap_or_else(|_| {
                let text = format!("no answer within {} s", WRITE.as_secs());
                (Outcome::Failed(text, WriteOutcome::Timeout), Load::Overloaded(None))
            })
        }
        () = ended.cancelled() => (Outcome::GivenUp, Load::Unknown),
        () = view.cancelled() => (Outcome::GivenUp, Load::Unknown),
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
        Effect::Finalizers { .. } | Effect::Annotate { .. } => WriteKind::Finalizer,
        Effect::Read { .. } => WriteKind::Read,
    };
    let ended = match outcome {
        Outcome::Work(_) | Outcome::Doomed | Outcome::Upgrade(_) | Outcome::Report(_) => WriteOutcome::Ok,
        Outcome::Gone => WriteOutcome::NotFound,
        Outcome::Rival(_) | Outcome::Foreign | Outcome::ForeignTerminating => WriteOutcome::Conflict,
        Outcome::Refused(_) | Outcome::ReportRefused { .. } => WriteOutcome::Invalid,
        Outcome::NamespaceGone => WriteOutcome::Forbidden,
        Outcome::NotLeading | Outcome::GivenUp => WriteOutcome::Fenced,
        Outcome::Failed(_, counted) => *counted,
    };
    hall.metrics.wrote(kind, ended, took);
    if let (Effect::Status { status, .. }, Outcome::Upgrade(_)) = (&job.effect, outcome) {
        let bytes = serde_json::to_vec(status).map_or(0, |text| text.len());
        hall.metrics.status_written(bytes);
    }
    if let Outcome::Failed(error, _) | Outcome::Refused(error) | Outcome::ReportRefused { text: error, .. } =
        outcome
    {
        tracing::warn!(
            kind = kind.as_str(),
            cluster = job.effect.cluster().map(|name| &**name),
            error,
            "write failed"
        );
    }
}

#[cfg(test)]
#[path = "overload_tests.rs"]
mod overload;

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn tasks(task: impl Future<Output = ()> + Send + 'static) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        tasks.spawn(task);
        tasks
    }

    fn panics() -> impl Future<Output = ()> + Send + 'static {
        std::future::poll_fn(|_| panic!("it broke"))
    }

    #[tokio::test]
    async fn a_watch_or_writer_that_panics_ends_the_process_with_an_error() {
        for (watches, writers, who) in [
            (tasks(panics()), tasks(pending()), "watch"),
            (tasks(pending()), tasks(panics()), "writer"),
        ] {
            let shutdown = CancellationToken::new();
            let error = attend(&shutdown, pending(), watches, writers).await.unwrap_err();
            assert_eq!(error.to_string(), format!("a {who} ended"));
            assert!(shutdown.is_cancelled(), "the other writers are told");
        }
    }

    #[tokio::test]
    async fn at_shutdown_the_writers_finish_what_they_have_begun() {
        let shutdown = CancellationToken::new();
        let finished = Arc::new(AtomicBool::new(false));
        let (told, done) = (shutdown.clone(), Arc::clone(&finished));
        let writer = async move {
            told.cancelled().await;
            tokio::task::yield_now().await;
            done.store(true, Ordering::SeqCst);
        };
        shutdown.cancel();
        let outcome = attend(&shutdown, pending(), tasks(pending()), tasks(writer)).await;
        assert!(outcome.is_ok() && finished.load(Ordering::SeqCst));
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod whole;
