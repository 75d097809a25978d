//! The probes of an upgrade: judges what clusters have answered, and converts what the preflight needs to write jobs
//! (`docs/design/preflight.md#the-probe`). No I/O.

use std::sync::Arc;

use ahash::AHashSet;
use chrono::{DateTime, Utc};
use observe::index::Index;
use observe::preflight::{Asker, Preflights, ProbeResult, ProbeWrite};
use resolve::spec::ResolvedSpec;
use rollout::{Fleet, Plan};

use crate::apply::{Write, WriteJob, WriteResult};
use crate::reconcile::request::PlanRequest;
use crate::state::settings::Settings;
use crate::state::upgrade::UpgradeEntry;

/// Judges the answers that have changed since the last pass.
pub(super) fn refresh(entry: &mut UpgradeEntry, index: &Index, settings: &Settings, now: DateTime<Utc>) {
    let spec = entry.in_force().filter(|_| !entry.is_deleting());
    let mut questions = spec.map(|spec| spec.questions()).unwrap_or_default();
    if !settings.graphs.is_named() {
        questions.without_graph();
    }
    let updates = questions
        .for_graph()
        .and_then(|(channel, version)| settings.graphs.updates_to(channel, version));
    if let Some(updates) = updates {
        questions.add_graph(updates);
    }
    let with = |preflights: &mut Preflights, asker: Asker<'_>| {
        preflights.refresh(&questions, asker, index, now);
    };
    of(entry, settings, with);
}

/// The writes that are due. The entry wakes up when more are.
pub(super) fn due(
    entry: &mut UpgradeEntry,
    index: &mut Index,
    settings: &Settings,
    wanted: &PlanRequest,
    (fleet, plan): (&Fleet, &Plan),
    now: DateTime<Utc>,
) -> Vec<WriteJob> {
    let (writes, wake) = of(entry, settings, |preflights, asker| {
        preflights.due(fleet, (&wanted.policy, plan), asker, index, now)
    });
    entry.wake_at = entry.wake_at.into_iter().chain(wake).min();
    jobs(entry, index, writes, wanted.spec.as_ref())
}

/// The deletions of the probes of an upgrade of which no valid spec is known. Nothing is planned for it, and another upgrade may need the
/// names.
pub(super) fn give_names_up(
    entry: &mut UpgradeEntry,
    index: &mut Index,
    settings: &Settings,
    now: DateTime<Utc>,
) -> Vec<WriteJob> {
    let rows = entry.rows.all();
    let at_work: AHashSet<Arc<str>> = rows
        .iter()
        .filter(|(_, row)| row.record.unreadable || row.record.phase.holds_slot())
        .map(|(name, _)| Arc::clone(name))
        .collect();
    let (writes, wake) = of(entry, settings, |preflights, asker| {
        preflights.give_names_up(|cluster| at_work.contains(cluster), asker, index, now)
    });
    entry.wake_at = entry.wake_at.into_iter().chain(wake).min();
    jobs(entry, index, writes, None)
}

/// The jobs of these writes. Probes that are to be deleted count as being deleted from now on.
fn jobs(
    entry: &UpgradeEntry,
    index: &mut Index,
    writes: Vec<ProbeWrite>,
    spec: Option<&Arc<ResolvedSpec>>,
) -> Vec<WriteJob> {
    let writes = writes.into_iter().filter_map(|write| match write {
        ProbeWrite::Create(cluster, kind) => Some(Write::CreateProbe {
            cluster,
            kind,
            spec: Arc::clone(spec?),
            owner: Arc::clone(&entry.key),
        }),
        ProbeWrite::Delete(cluster, uid) => {
            index.mark_probe(&cluster, &uid, true);
            Some(Write::DeleteProbe { cluster, uid })
        }
    });
    let upgrade = &entry.uid;
    let job = |write| WriteJob {
        upgrade: Arc::clone(upgrade),
        write,
    };
    writes.map(job).collect()
}

/// True while a probe of the upgrade is being written, or exists and is not being deleted.
pub(super) fn are_left(entry: &mut UpgradeEntry, index: &Index, settings: &Settings) -> bool {
    of(entry, settings, |preflights, asker| {
        preflights.holds(asker, index)
    })
}

/// Records the result of a write.
pub(super) fn record(entry: &mut UpgradeEntry, cluster: &Arc<str>, result: &WriteResult, now: DateTime<Utc>) {
    let failed = |text: &str| ProbeResult::Failed(text.to_owned());
    let result = match result {
        WriteResult::NotLeading | WriteResult::GivenUp => ProbeResult::Unknown,
        WriteResult::Failed(error) => failed(&error.message),
        WriteResult::Refused(text) => failed(text),
        WriteResult::Foreign => {
            failed("a ManifestWork with the name of the probe exists, and no upgrade manages it; delete it")
        }
        WriteResult::ForeignTerminating => {
            failed("a ManifestWork with the name of the probe, which no upgrade manages, is being deleted")
        }
        WriteResult::NamespaceMissing | WriteResult::NamespaceTerminating => {
            failed("the namespace of the cluster does not exist")
        }
        _ => ProbeResult::Done,
    };
    entry.preflights.ended(cluster, result, now);
    entry.dirty = true;
}

fn of<T>(
    entry: &mut UpgradeEntry,
    settings: &Settings,
    with: impl FnOnce(&mut Preflights, Asker<'_>) -> T,
) -> T {
    let asker = Asker {
        uid: &entry.uid,
        key: &entry.key,
        agents_can_read: settings.agents_can_read,
        clock_trusted: entry.skew.is_none(),
        rate: settings.preflight_rate,
    };
    with(&mut entry.preflights, asker)
}
