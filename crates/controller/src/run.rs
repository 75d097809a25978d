//! The loop: waits for news, deadlines and due writes; looks at the upgrades that concern them; leader only.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::names::{LABEL_MCU, LABEL_MCU_UID};
use api::views::{ManifestWork, Report, Upgrade};
use chrono::TimeDelta;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::answer;
use crate::apply::{self, Effect, Job, Outcome};
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

/// How often the loop looks whether the lists have arrived.
const INTERVAL: Duration = Duration::from_millis(200);
/// Longest sleep of the loop, so that it shows it is alive.
pub(crate) const LONGEST: Duration = Duration::from_secs(15);
/// Longest time of one write.
const WRITE: Duration = Duration::from_secs(30);
/// Longest time to read all works and reports.
const READ: Duration = Duration::from_mins(2);
/// Works per page when all are read.
const PAGE: u32 = 500;
/// Longest time that a term waits at its begin for finished upgrades that have changed.
const FIRST_READS: Duration = Duration::from_secs(30);
/// Reports per page: each may have 250 rows.
pub(crate) const REPORTS: u32 = 25;
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

/// Term after term: read the records as they are on the hub, then look and write until the lease is lost.
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
            tokio::select! {
                () = serve(hall, client, parts, writers) => {}
                () = term.ended().cancelled_owned() => {}
            }
            tracing::info!("this replica does not lead any more");
            drop_queue(hall);
            hall.with(State::end_term);
            gauges::clear(hall);
        }
    };
    tokio::join!(alive, terms);
}

/// Jobs that were planned in a term that is over must not be carried out in a later one.
fn drop_queue(hall: &Hall) {
    for job in hall.lanes.drain() {
        hall.with(|state| answer::take(hall, state, job, &Outcome::NotLeading));
    }
}

async fn serve(hall: &Arc<Hall>, client: &Client, parts: &Parts, writers: usize) {
    while !hall.all_synced() {
        tokio::select! {
            () = hall.woken() => {}
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
    read_records(hall, client).await;
    let mut reads = JoinSet::new();
    while hall.with(State::review_parked) {
        parts.readiness.beat();
        tokio::task::yield_now().await;
    }
    // Younger upgrades must not take the clusters that joined an older one while nobody led.
    wake_parked(hall, client, &mut reads);
    let read = async { while reads.join_next().await.is_some() {} };
    if tokio::time::timeout(FIRST_READS, read).await.is_err() {
        tracing::warn!("some finished upgrades that have changed cannot be read yet");
    }
    // Upgrades when the gauges were set last: one that is deleted leaves nothing to look at, but must not be counted on.
    let mut counted = None;
    loop {
        parts.readiness.beat();
        let behind = hall.lanes.backlog() > writers * BEHIND;
        let (due, upgrades) = hall.with(|state| {
            let due = state.due(hall.now(), Instant::now(), behind);
            (due, state.desks.len())
        });
        for uid in &due {
            pipeline::look(hall, &parts.events, uid);
            // Many upgrades must not keep everybody else from their turn, nor look like a loop that hangs.
            parts.readiness.beat();
            tokio::task::yield_now().await;
        }
        if !due.is_empty() || counted != Some(upgrades) {
            gauges::set(hall);
            counted = Some(upgrades);
        }
        pipeline::flush(hall, Instant::now());
        wake_parked(hall, client, &mut reads);
        sweep_orphans(hall, client, &mut reads);
        let behind = hall.lanes.backlog() > writers * BEHIND;
        let next = hall.with(|state| state.next(hall.now(), Instant::now(), behind));
        tokio::select! {
            () = hall.woken() => {}
            () = tokio::time::sleep_until(next.into()) => {}
        }
    }
}

/// Parks what is complete and at rest, and begins to read what is parked no longer.
pub(crate) fn wake_parked(hall: &Arc<Hall>, client: &Client, reads: &mut JoinSet<()>) {
    while reads.try_join_next().is_some() {}
    let now = Instant::now();
    let (more, due) = hall.with(|state| {
        let more = state.review_parked();
        state.park(now);
        (more, state.to_be_read(now))
    });
    if more {
        hall.wake();
    }
    for (uid, namespace, name) in due {
        let (hall, client) = (Arc::clone(hall), client.clone());
        reads.spawn(async move {
            let found = match tokio::time::timeout(READ, read_upgrade(&client, &namespace, &name)).await {
                Ok(Ok(found)) => found,
                Ok(Err(error)) => {
                    tracing::warn!(%namespace, %name, %error, "an upgrade cannot be read, trying again");
                    None
                }
                Err(_) => {
                    tracing::warn!(%namespace, %name, "an upgrade cannot be read in time, trying again");
                    None
                }
            };
            hall.tell(|state| state.was_read(&uid, found, Instant::now()));
            hall.wake();
        });
    }
}

/// Counts the works without an upgrade, and begins to judge those that have had none for long.
fn sweep_orphans(hall: &Arc<Hall>, client: &Client, reads: &mut JoinSet<()>) {
    let (suspects, count) = hall.with(|state| (state.find_orphans(Instant::now()), state.orphans.count()));
    hall.metrics.set_orphans(count);
    if !suspects.is_empty() {
        reads.spawn(sweep(Arc::clone(hall), client.clone(), suspects));
    }
}

/// An upgrade and its reports as the hub has them now.
async fn read_upgrade(
    client: &Client,
    namespace: &str,
    name: &str,
) -> kube::Result<Option<(Upgrade, Vec<Report>)>> {
    let upgrades: Api<Upgrade> = Api::namespaced(client.clone(), namespace);
    let Some(upgrade) = upgrades.get_opt(name).await? else {
        return Ok(None);
    };
    let api: Api<Report> = Api::namespaced(client.clone(), namespace);
    let mut params = ListParams::default()
        .labels(&format!("{LABEL_MCU}={name}"))
        .limit(REPORTS);
    let mut reports = Vec::new();
    loop {
        let page = api.list(&params).await?;
        reports.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(Some((upgrade, reports))),
        }
    }
}

/// Reads all works and reports as the hub has them now: what an earlier leader wrote last may not have reached the
/// watches yet. A stale record could repeat a finished step, a missing work could be counted as a free slot.
async fn read_records(hall: &Arc<Hall>, client: &Client) {
    loop {
        match tokio::time::timeout(READ, read_once(hall, client)).await {
            Ok(Ok(())) => {
                hall.with(State::end_records);
                return;
            }
            Ok(Err(error)) => tracing::warn!(%error, "works and reports cannot be read, trying again"),
            Err(_) => tracing::warn!("works and reports cannot be read in time, trying again"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn read_once(hall: &Arc<Hall>, client: &Client) -> kube::Result<()> {
    let works: Api<ManifestWork> = Api::all(client.clone());
    let mut params = ListParams::default().labels(LABEL_MCU_UID).limit(PAGE);
    loop {
        let page = works.list(&params).await?;
        hall.with(|state| {
            for work in &page.items {
                state.index.answered_work(work, hall.now());
            }
        });
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => break,
        }
    }
    let reports: Api<Report> = Api::all(client.clone());
    let mut params = ListParams::default().labels(LABEL_MCU).limit(REPORTS);
    hall.with(State::begin_records);
    loop {
        let page = reports.list(&params).await?;
        hall.with(|state| state.take_records(&page.items));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(()),
        }
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
        let outcome = carry_out(&client, &leadership, &job).await;
        count(&hall, &job, &outcome, begun.elapsed());
        hall.tell(|state| answer::take(&hall, state, job, &outcome));
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
            outcome.unwrap_or_else(|_| {
                let text = format!("no answer within {} s", WRITE.as_secs());
                Outcome::Failed(text, WriteOutcome::Timeout)
            })
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
        Outcome::Rival(_) | Outcome::Foreign | Outcome::ForeignTerminating => WriteOutcome::Conflict,
        Outcome::Refused(_) => WriteOutcome::Invalid,
        Outcome::NamespaceGone => WriteOutcome::Forbidden,
        Outcome::NotLeading => WriteOutcome::Fenced,
        Outcome::Failed(_, counted) => *counted,
    };
    hall.metrics.wrote(kind, ended, took);
    if let (Effect::Status { status, .. }, Outcome::Upgrade(_)) = (&job.effect, outcome) {
        let bytes = serde_json::to_vec(status).map_or(0, |text| text.len());
        hall.metrics.status_written(bytes);
    }
    if let Outcome::Failed(error, _) | Outcome::Refused(error) = outcome {
        tracing::warn!(
            kind = kind.as_str(),
            cluster = job.effect.cluster().map(|name| &**name),
            error,
            "write failed"
        );
    }
}

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
