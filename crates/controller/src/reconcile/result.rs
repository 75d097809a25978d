//! Records the results of writes in the state at once, so that the next plan sees what was written. No I/O.

use std::sync::Arc;

use api::names::Step;
use api::views::Upgrade;
use chrono::{DateTime, TimeDelta, Utc};
use observe::index::Index;
use observe::record::ReportRelation;
use observe::writes::{Backoff, BlockerKind};
use rollout::OperationKind;

use crate::apply::{WorkParams, Write, WriteError, WriteErrorKind, WriteJob, WriteResult};
use crate::clock;
use crate::reconcile::probes;
use crate::report::shard::ShardWrite;
use crate::state::context::{Context, State, relation_of, version};
use crate::state::upgrade::UpgradeEntry;
use crate::state::upgrade::wake_conflicting;

/// First wait before a foreign work that is being deleted is checked again.
const TERMINATING: TimeDelta = TimeDelta::seconds(5);

/// Records the result of a write.
pub fn record_result(context: &Context, state: &mut State, job: WriteJob, result: &WriteResult) {
    let now = context.now();
    let WriteJob { upgrade, write } = job;
    record_object(state, result, now);
    record_deletion(&mut state.index, &write, result, now);
    let Some(entry) = state.upgrades.get_mut(&upgrade) else {
        record_sweep(context, state, &write, result);
        return;
    };
    entry.skew = context.skew();
    let (unsettled, cluster) = (entry.unsettled.len(), write.cluster().cloned());
    let was_forbidden = is_forbidden(entry, cluster.as_deref());
    record_certainty(entry, &write, result);
    match write {
        Write::Create {
            cluster,
            step,
            params,
            slot_released_at,
        } => {
            if let (WriteResult::Work(_), Some(slot_released_at)) = (result, slot_released_at) {
                context.metrics.reacted(clock::since(slot_released_at));
            }
            record_creation(entry, &cluster, step, &params, result, now);
            entry.end(&cluster);
        }
        Write::Update { cluster, .. } => {
            record_change(entry, &cluster, result, now, UpgradeEntry::fail_to_start);
        }
        Write::Withdraw { cluster, .. } | Write::MarkSoak { cluster, .. } => {
            record_change(entry, &cluster, result, now, UpgradeEntry::fail);
        }
        Write::Delete { cluster, .. } => {
            record_change(entry, &cluster, result, now, UpgradeEntry::fail_to_delete);
        }
        Write::Read {
            cluster, step, asked, ..
        } => {
            match result {
                WriteResult::Failed(error) => entry.fail(&cluster, now, error),
                WriteResult::NotLeading | WriteResult::GivenUp => {}
                _ => entry.note_reading(&cluster, step, asked, (now, clock::now()), &state.index),
            }
            entry.end(&cluster);
        }
        Write::CreateProbe { cluster, .. } | Write::DeleteProbe { cluster, .. } => {
            probes::record(entry, &cluster, result, now);
        }
        Write::Report { due, .. } => {
            let is_known = record_report(entry, *due, result);
            entry.dirty = true;
            // Other upgrades may be waiting for what is recorded now, or for a row that is gone.
            if is_known {
                wake_conflicting(&mut state.upgrades);
            }
        }
        Write::Status { status, .. } => record_status(context, entry, *status, result),
        Write::Finalizers { .. } | Write::Annotate { .. } => entry.finalized(now, result),
    }
    let entry = state.upgrades.get(&upgrade);
    let is_missing = |name: &&Arc<str>| entry.is_some_and(|entry| entry.missing.get(*name) == Some(&now));
    if let Some(name) = cluster.as_ref().filter(is_missing) {
        // It begins anew when it has a namespace again.
        state.index.lose_namespace(name);
    }
    let is_settled = entry.is_some_and(|entry| entry.unsettled.len() < unsettled);
    if is_settled || entry.is_some_and(|entry| is_forbidden(entry, cluster.as_deref()) != was_forbidden) {
        // Other upgrades may be waiting for the clusters whose writes are settled now, or are known to stay forbidden.
        wake_conflicting(&mut state.upgrades);
    }
}

/// Records the deletion of what is left of an upgrade that is gone.
fn record_sweep(context: &Context, state: &mut State, write: &Write, result: &WriteResult) {
    match (write, result) {
        (
            Write::Delete { uid, .. } | Write::DeleteProbe { uid, .. },
            WriteResult::DeletionAccepted { .. },
        ) if state.orphans.contains(uid) => context.metrics.orphan_swept(),
        (Write::Delete { uid, .. }, WriteResult::Work(_)) => state.orphans.look_again(uid, clock::now()),
        _ => {}
    }
}

/// Records whether the creation or change of a work took effect.
fn record_certainty(entry: &mut UpgradeEntry, write: &Write, result: &WriteResult) {
    let (cluster, step, kind, params) = match write {
        Write::Create {
            cluster,
            step,
            params,
            ..
        } => (cluster, *step, OperationKind::Create, params),
        Write::Update { cluster, params, .. } => (cluster, Step::Platform, OperationKind::Update, params),
        _ => return,
    };
    entry.record_certainty(cluster, (step, kind), &params.attempt, result, clock::now());
}

/// Records the object that a response contains.
fn record_object(state: &mut State, result: &WriteResult, now: DateTime<Utc>) {
    match result {
        WriteResult::Work(work) | WriteResult::Rival(work) | WriteResult::WorkChanged(work) => {
            state.update_works(|index| index.answered_work(work, now));
        }
        WriteResult::Upgrade(object) | WriteResult::UpgradeChanged(Some(object)) => {
            state.answered_upgrade((**object).clone());
        }
        _ => {}
    }
}

/// True when the hub keeps forbidding writes for a cluster.
fn is_forbidden(entry: &UpgradeEntry, cluster: Option<&str>) -> bool {
    let backoff = cluster.and_then(|cluster| entry.backoff.get(cluster));
    backoff.is_some_and(Backoff::is_lasting)
}

/// Records the result of writing a status.
fn record_status(
    context: &Context,
    entry: &mut UpgradeEntry,
    status: api::ManagedClustersUpgradeStatus,
    result: &WriteResult,
) {
    let is_written = matches!(result, WriteResult::Upgrade(_));
    // The watch may have told what somebody else has written since, before the response arrived.
    let is_replaced =
        |answer: &Upgrade| version(answer) < version(&entry.object) && answer.status != entry.object.status;
    let is_replaced = matches!(result, WriteResult::Upgrade(answer) if is_replaced(answer));
    entry.status.wrote(status, is_written);
    if is_replaced {
        entry.status.was_replaced();
    }
    // The deletion of the upgrade may be waiting for this write.
    entry.dirty |= entry.is_deleting();
    // What changed during the write is due in a second, and the loop sleeps longer if nothing else happens.
    if !entry.status.is_settled() {
        context.wake();
    }
}

/// Records the result of writing a report. Returns true if it tells what the hub has now.
fn record_report(entry: &mut UpgradeEntry, due: ShardWrite, result: &WriteResult) -> bool {
    let now = clock::now();
    match result {
        WriteResult::Report(stored) => entry.rows.wrote(due, Some(stored.clone()), now),
        WriteResult::ReportDeleted => entry.rows.wrote(due, None, now),
        WriteResult::ReportChanged(report) => {
            let report = report.as_deref();
            let own = report.is_some_and(|report| relation_of(report, entry) == ReportRelation::Own);
            entry.rows.conflicted(&due, report, own, now);
        }
        WriteResult::ReportRefused {
            text,
            rows,
            about_rows,
        } => entry.rows.refused(&due, rows, *about_rows, text, now),
        WriteResult::Failed(error)
            if matches!(error.kind, WriteErrorKind::Forbidden | WriteErrorKind::Invalid) =>
        {
            entry.rows.forbidden(&due, &error.message, now);
        }
        _ => entry.rows.failed(&due, now),
    }
    matches!(
        result,
        WriteResult::Report(_) | WriteResult::ReportDeleted | WriteResult::ReportChanged(_)
    )
}

/// Records the result of creating a work.
fn record_creation(
    entry: &mut UpgradeEntry,
    cluster: &Arc<str>,
    step: Step,
    params: &WorkParams,
    result: &WriteResult,
    now: DateTime<Utc>,
) {
    match result {
        WriteResult::Foreign => entry.block_step(cluster, step, now, BlockerKind::Foreign),
        WriteResult::Refused(text) if entry.is_in_force(&params.spec) => {
            entry.block_step(cluster, step, now, BlockerKind::Refused(Arc::from(text.as_str())));
        }
        // The hub rejected the work of an earlier spec; it may accept that of the present one.
        WriteResult::Refused(_) | WriteResult::NotLeading | WriteResult::GivenUp => {}
        WriteResult::ForeignTerminating => entry.await_end(cluster, step, now, now + TERMINATING),
        WriteResult::NamespaceTerminating => entry.record_missing_namespace(cluster, now),
        WriteResult::NamespaceMissing if entry.has_begun(cluster) => {
            entry.record_missing_namespace(cluster, now);
        }
        WriteResult::NamespaceMissing => entry.fail_to_start(cluster, now, &no_namespace()),
        WriteResult::Failed(error) => entry.fail_to_start(cluster, now, error),
        _ => {
            entry.blockers.remove(&(Arc::clone(cluster), step));
            entry.succeed(cluster);
        }
    }
}

/// The error for a cluster that waits for its namespace.
fn no_namespace() -> WriteError {
    let text = "the namespace of the cluster does not exist; OCM creates it when the cluster joins the hub";
    WriteError::new(WriteErrorKind::NotFound, text)
}

/// How a failure is recorded.
type Fail = fn(&mut UpgradeEntry, &Arc<str>, DateTime<Utc>, &WriteError);

/// Records the result of changing or deleting a work.
fn record_change(
    entry: &mut UpgradeEntry,
    cluster: &Arc<str>,
    result: &WriteResult,
    now: DateTime<Utc>,
    fail: Fail,
) {
    match result {
        WriteResult::NamespaceTerminating | WriteResult::NamespaceMissing => {
            entry.record_missing_namespace(cluster, now);
        }
        WriteResult::Failed(error) => fail(entry, cluster, now, error),
        WriteResult::NotLeading | WriteResult::GivenUp => {}
        _ => entry.succeed(cluster),
    }
    entry.end(cluster);
}

/// Records what a write shows about the deletion of a work. The work stays marked as deleting only if the hub
/// accepted the deletion.
fn record_deletion(index: &mut Index, write: &Write, result: &WriteResult, now: DateTime<Utc>) {
    match (write, result) {
        (
            Write::Delete {
                cluster, step, uid, ..
            },
            WriteResult::Work(work) | WriteResult::Rival(work),
        ) if work.metadata.uid.as_deref() != Some(uid) => index.remove_work(cluster, *step, uid, now),
        (
            Write::Delete {
                cluster, step, uid, ..
            },
            WriteResult::DeletionAccepted { version },
        ) => index.note_deletion(cluster, *step, uid, *version),
        (Write::DeleteProbe { cluster, uid }, WriteResult::DeletionAccepted { version }) => {
            index.note_probe_deletion(cluster, uid, *version);
        }
        (Write::DeleteProbe { cluster, uid }, WriteResult::Gone) => index.remove_probe(cluster, uid),
        (Write::DeleteProbe { cluster, uid }, _) => index.mark_probe(cluster, uid, false),
        (
            Write::Delete {
                cluster, step, uid, ..
            }
            | Write::MarkSoak {
                cluster, step, uid, ..
            },
            WriteResult::Gone,
        ) => index.remove_work(cluster, *step, uid, now),
        (
            Write::Delete {
                cluster, step, uid, ..
            },
            _,
        ) => index.unmark_deleting(cluster, *step, uid),
        (
            Write::Read {
                cluster,
                step,
                uid: Some(uid),
                ..
            },
            WriteResult::Gone,
        ) => index.mark_vanished(cluster, *step, uid, now),
        (Write::Update { cluster, uid, .. } | Write::Withdraw { cluster, uid, .. }, WriteResult::Gone) => {
            index.remove_work(cluster, Step::Platform, uid, now);
        }
        (
            Write::Update { cluster, uid, .. } | Write::Withdraw { cluster, uid, .. },
            WriteResult::WorkChanged(work),
        ) if work.metadata.uid.as_deref() != Some(uid) => {
            index.remove_work(cluster, Step::Platform, uid, now);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
