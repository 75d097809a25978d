//! The main loop. It waits for events, deadlines and due writes, and reconciles the upgrades that they
//! concern. Only the leader reconciles.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use kube::Client;
use rollout::KnownApprovals;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::admission;
use crate::apply::{self, Load, Write, WriteError, WriteErrorKind, WriteJob, WriteResult};
use crate::archive;
use crate::clock::{self, now};
use crate::events;
use crate::flags::Flags;
use crate::gauges;
use crate::graphs;
use crate::health::Readiness;
use crate::lease;
use crate::metrics::Metrics;
use crate::metrics::labels::WriteKind;
use crate::reconcile;
use crate::reconcile::{result, storage};
use crate::sources::Sources;
use crate::state::context::{Context, State};
use crate::state::schedule::MAX_SLEEP;
use crate::state::settings::Settings;
use crate::sweep::sweep;
use crate::watch;

/// How often the loop checks whether the view is complete.
const INTERVAL: Duration = Duration::from_millis(200);
/// Longest time of one write.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of jobs per writer at which the writers count as overloaded.
const MAX_JOBS_PER_WRITER: usize = 4;
/// One of this many writers also deletes the works of finished clusters.
const WRITERS_PER_CLEANER: usize = 4;
/// How long running writes may take at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// What the loop needs beside the client and the flags.
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
    /// Wall-clock time and random numbers.
    pub sources: Sources,
    /// Ends the loop.
    pub shutdown: CancellationToken,
}

/// Runs until shutdown.
///
/// # Errors
/// Returns an error if the update graph of the flags cannot be used, or if a watch or a writer has panicked. If the process continued, it would look healthy but
/// miss events or writes. After a restart it reads everything again.
pub async fn run(client: Client, flags: &Flags, parts: Parts) -> anyhow::Result<()> {
    let settings = Settings {
        works: flags.work_flags(),
        operators_grace: TimeDelta::from_std(flags.operators_grace).unwrap_or(TimeDelta::seconds(30)),
        require_bindings: flags.require_set_bindings,
        allow_hub: flags.allow_hub,
        agents_can_read: flags.agents_support_read_only,
        preflight_rate: flags.preflight_rate,
        graphs: flags.graphs()?,
        namespaces: flags
            .watch_namespaces
            .iter()
            .map(|namespace| Arc::from(namespace.as_str()))
            .collect(),
    };
    let fence = parts.leadership.fence();
    let context = Arc::new(Context::new(
        settings,
        fence,
        Arc::clone(&parts.metrics),
        &parts.readiness,
        &parts.sources,
    ));
    let client = clock::watched(&client, &context.clock, &parts.sources);
    context.queue.set_writers(flags.write_concurrency);
    context.metrics.set_write_limit(flags.write_concurrency, false);
    let watches = watch::start(&context, &client);
    let mut writers = JoinSet::new();
    for number in 0..flags.write_concurrency {
        let (context, client, leadership) = (Arc::clone(&context), client.clone(), parts.leadership.clone());
        let cleans_up = number % WRITERS_PER_CLEANER == 0;
        writers.spawn(write(
            context,
            client,
            leadership,
            parts.shutdown.clone(),
            cleans_up,
        ));
    }
    let looping = lead(&context, &client, &parts, flags);
    supervise(&parts.shutdown, looping, watches, writers).await
}

/// Waits until shutdown, or until a task that should never end has ended. Then the writers finish the writes
/// that they have started.
async fn supervise(
    shutdown: &CancellationToken,
    looping: impl Future<Output = ()>,
    mut watches: JoinSet<()>,
    mut writers: JoinSet<()>,
) -> anyhow::Result<()> {
    let outcome = tokio::select! {
        biased;
        () = shutdown.cancelled() => Ok(()),
        () = looping => Ok(()),
        Some(ended) = watches.join_next() => ended_early("watch", ended, shutdown),
        Some(ended) = writers.join_next() => ended_early("writer", ended, shutdown),
    };
    shutdown.cancel();
    let finished = async { while writers.join_next().await.is_some() {} };
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, finished).await.is_err() {
        tracing::warn!(
            "running writes did not end in time; the next leader reads their results from the hub"
        );
    }
    outcome
}

/// A task that should not end has ended. If shutdown was requested meanwhile, it did what it should: the loop is polled
/// between the two checks, and that takes time.
fn ended_early(what: &str, ended: Result<(), JoinError>, shutdown: &CancellationToken) -> anyhow::Result<()> {
    match ended {
        Ok(()) if shutdown.is_cancelled() => Ok(()),
        Ok(()) => Err(anyhow::anyhow!("a {what} ended")),
        Err(error) => Err(anyhow::Error::new(error).context(format!("a {what} ended"))),
    }
}

/// Runs one term after another: lists every kind again, then reconciles and writes until the lease is lost.
async fn lead(context: &Arc<Context>, client: &Client, parts: &Parts, flags: &Flags) {
    let alive = async {
        loop {
            parts.readiness.beat();
            tokio::time::sleep(MAX_SLEEP).await;
        }
    };
    let terms = async {
        loop {
            let term = parts.leadership.lead().await;
            tracing::info!("this replica is now the leader");
            context.begin_term();
            tokio::select! {
                biased;
                // The end comes first: when the lease is lost, no further pass begins.
                () = term.ended().cancelled_owned() => {}
                () = reconcile_loop(context, client, parts, flags.write_concurrency) => {}
                () = graphs::follow::run(context) => {}
            }
            tracing::info!("this replica is no longer the leader");
            context.freshness.end_term();
            drop_queue(context);
            context.with(State::end_term);
            gauges::clear(context);
        }
    };
    let policies = Box::pin(admission::follow(
        client,
        &parts.readiness,
        &parts.metrics,
        &parts.leadership,
        flags.require_admission_policies,
    ));
    tokio::join!(alive, terms, policies);
}

/// Removes all queued jobs. Jobs that were planned in an earlier term or before an outage must not be
/// executed.
fn drop_queue(context: &Context) {
    drop_jobs(context, context.queue.drain());
}

fn drop_jobs(context: &Context, jobs: Vec<WriteJob>) {
    for job in jobs {
        context.with(|state| result::record_result(context, state, job, &WriteResult::NotLeading));
    }
}

/// Calls back the deletions that clean up, and the withdrawals, where the hub may not have the rows any more by which they were
/// decided. Those that are still due are queued again (`docs/design/rules.md#terminal-row-first`).
fn call_back(context: &Context) {
    let disowned: Vec<Arc<str>> = context.with(|state| {
        let upgrades = state.upgrades.iter_mut();
        let disowned =
            upgrades.filter_map(|(uid, entry)| entry.rows.take_disowned().then(|| Arc::clone(uid)));
        disowned.collect()
    });
    for upgrade in disowned {
        drop_jobs(context, context.queue.take_permitted_by_rows(&upgrade));
    }
}

/// Waits until the view is current. The watches may not have delivered yet what an earlier leader wrote last
/// or what changed during an outage. A stale record could repeat a finished step, a missing work could count
/// as a free slot, and a stale spec could start clusters that its author has paused.
async fn wait_until_current(context: &Context) {
    // Nothing is planned meanwhile, so the queue stays empty.
    drop_queue(context);
    while !context.open() {
        tokio::select! {
            biased;
            () = context.wait_for_wake() => {}
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

async fn reconcile_loop(context: &Arc<Context>, client: &Client, parts: &Parts, writers: usize) {
    // All tasks in these sets end with the term.
    let mut sweeps = JoinSet::new();
    let mut reads = JoinSet::new();
    // Number of upgrades when the gauges were set last. A deleted upgrade is not reconciled again but must no
    // longer be counted.
    let mut counted = None;
    let mut trusted = true;
    loop {
        parts.readiness.beat();
        if !context.freshness.is_open() {
            // A work may belong to an upgrade that is not known yet. The time that it has had no upgrade is
            // measured again from now.
            sweeps.shutdown().await;
            context.with(State::forget_orphans);
            wait_until_current(context).await;
        }
        if context.skew().is_none() != trusted {
            trusted = !trusted;
            context.with(|state| state.index.all_dirty = true);
        }
        supervise_archives(context, client, &mut reads);
        call_back(context);
        let behind = context.queue.backlog() > writers * MAX_JOBS_PER_WRITER;
        let (due, upgrades) = context.with(|state| {
            let due = state.due(context.now(), now(), behind);
            (due, state.upgrades.len())
        });
        for uid in &due {
            if !context.freshness.is_open() {
                break;
            }
            reconcile::reconcile(context, &parts.events, uid);
            // Many due upgrades must not block the rest of the process.
            parts.readiness.beat();
            tokio::task::yield_now().await;
        }
        if !due.is_empty() || counted != Some(upgrades) {
            gauges::set(context, &due);
            counted = Some(upgrades);
        }
        reconcile::flush(context, now());
        sweep_orphans(context, client, &mut sweeps);
        let behind = context.queue.backlog() > writers * MAX_JOBS_PER_WRITER;
        let next = context.with(|state| state.next(context.now(), now(), behind));
        tokio::select! {
            biased;
            () = context.wait_for_wake() => {}
            () = tokio::time::sleep_until(next.into()) => {}
        }
    }
}

/// Archives finished upgrades, compares archived ones with the index, and starts to read those that may have
/// changed.
fn supervise_archives(context: &Arc<Context>, client: &Client, reads: &mut JoinSet<()>) {
    while reads.try_join_next().is_some() {}
    if !context.freshness.is_open() {
        return;
    }
    let wanted = context.with(|state| {
        state.pass_on_selection_changes();
        state.archive_at_rest(now());
        state.compare(now());
        state.to_be_read(now())
    });
    for one in wanted {
        reads.spawn(archive::read(Arc::clone(context), client.clone(), one));
    }
}

/// Counts the works without an upgrade, and starts to examine those that have had none for a long time.
fn sweep_orphans(context: &Arc<Context>, client: &Client, sweeps: &mut JoinSet<()>) {
    while sweeps.try_join_next().is_some() {}
    if !context.freshness.is_open() {
        return;
    }
    let (candidates, count) = context.with(|state| (state.find_orphans(now()), state.orphans.count()));
    context.metrics.set_orphans(count);
    if !candidates.is_empty() {
        sweeps.spawn(sweep(Arc::clone(context), client.clone(), candidates));
    }
}

/// A writer: takes jobs and executes them while this replica leads. After shutdown it finishes its current
/// job.
async fn write(
    context: Arc<Context>,
    client: Client,
    leadership: lease::Handle,
    shutdown: CancellationToken,
    cleans_up: bool,
) {
    loop {
        let job = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            job = context.queue.pop(cleans_up) => job,
        };
        let begun = clock::now();
        let invalidated = context.freshness.invalidated();
        let (outcome, load) = carry_out_while_leading(&context, &client, &leadership, &job).await;
        let (limit, paused) = context.queue.ended(begun, load);
        context.metrics.set_write_limit(limit, paused);
        count(&context, &job, &outcome, clock::since(begun));
        if let Some((kind, found, known)) = storage::older_storage(&job, &outcome)
            && !invalidated.is_cancelled()
        {
            context.discard_all(kind, found, known);
        }
        context.update(|state| result::record_result(&context, state, job, &outcome));
    }
}

/// Executes a job while this replica leads and the view is valid. Gives up a running write when the term ends
/// or when the hub's storage was replaced.
async fn carry_out_while_leading(
    context: &Context,
    client: &Client,
    leadership: &lease::Handle,
    job: &WriteJob,
) -> (WriteResult, Load) {
    let ended = leadership.subscribe().get().term().map(lease::Term::ended);
    let invalidated = context.freshness.invalidated();
    // An approval that counted may have been taken back unheard. What needs none is planned again and sent.
    let may_write = leadership.is_leader()
        && context.freshness.is_open()
        && (context.freshness.approvals() == KnownApprovals::Current || !job.goes_by_approvals())
        && context.with(|state| state.is_asked_for(job, context.now()));
    let Some(ended) = ended.filter(|_| may_write) else {
        return (WriteResult::NotLeading, Load::Unknown);
    };
    tokio::select! {
        biased;
        // The answer comes first: an answer that has arrived is known, even when the term has ended as well.
        answer = tokio::time::timeout(WRITE_TIMEOUT, apply::carry_out(client, job)) => {
            answer.unwrap_or_else(|_| {
                let text = format!("no response within {} s", WRITE_TIMEOUT.as_secs());
                (WriteResult::Failed(WriteError::new(WriteErrorKind::Timeout, text)), Load::Overloaded(None))
            })
        }
        () = ended.cancelled() => (WriteResult::GivenUp, Load::Unknown),
        () = invalidated.cancelled() => (WriteResult::GivenUp, Load::Unknown),
    }
}

fn count(context: &Context, job: &WriteJob, outcome: &WriteResult, took: Duration) {
    let kind = match &job.write {
        Write::Create { .. } | Write::CreateProbe { .. } => WriteKind::Create,
        Write::Update { .. } | Write::Withdraw { .. } => WriteKind::Update,
        Write::MarkSoak { .. } => WriteKind::Mark,
        Write::Delete { .. } | Write::DeleteProbe { .. } => WriteKind::Delete,
        Write::Report { .. } => WriteKind::Report,
        Write::Status { .. } => WriteKind::Status,
        Write::Finalizers { .. } | Write::Annotate { .. } => WriteKind::Finalizer,
        Write::Read { .. } => WriteKind::Read,
    };
    context.metrics.wrote(kind, outcome.into(), took);
    if let (Write::Status { status, .. }, WriteResult::Upgrade(_)) = (&job.write, outcome) {
        let bytes = serde_json::to_vec(status).map_or(0, |text| text.len());
        context.metrics.status_written(bytes);
    }
    let error = match outcome {
        WriteResult::Failed(error) => &error.message,
        WriteResult::Refused(text) | WriteResult::ReportRefused { text, .. } => text,
        _ => return,
    };
    tracing::warn!(
        kind = kind.as_str(),
        cluster = job.write.cluster().map(|name| &**name),
        error,
        "write failed"
    );
}

#[cfg(test)]
mod tests;
