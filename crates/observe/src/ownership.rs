//! Which other upgrade holds a cluster (`docs/design/rules.md#one-upgrade-per-cluster`,
//! `docs/design/rules.md#giving-way`).

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::AHashMap;
use api::names::Step;
use chrono::{DateTime, Utc};
use rollout::{Phase, Reason, Record, Rival, RivalHold, Stage};

use crate::index::{Index, WorkView};
use crate::input::{ClusterRow, OtherUpgrades, Standing, UpgradeInput};
use crate::writes::Backoff;

/// The upgrades that hold clusters, by cluster, with their places in the order among upgrades.
pub(crate) type Rivals<'a> = AHashMap<Arc<str>, ((DateTime<Utc>, &'a str), Rival)>;

/// What other upgrades hold, by cluster, as far as it concerns `entry`. If several hold a cluster, the first of them in the
/// order of [`UpgradeInput::order`] counts.
pub(crate) fn rivals<'a, R: ClusterRow + 'a>(
    entry: &UpgradeInput<'_, R>,
    others: &impl OtherUpgrades<'a, R>,
    index: &Index,
) -> Rivals<'a> {
    let mut found = Rivals::new();
    for other in others.all() {
        let other = &other;
        let mut note = |cluster: &Arc<str>, hold| {
            let known = found.get(cluster);
            if known.is_none_or(|(order, _)| other.order() < *order) {
                let upgrade = Arc::clone(other.key);
                found.insert(Arc::clone(cluster), (other.order(), Rival { upgrade, hold }));
            }
        };
        // The first work of the other upgrade may not have arrived yet, or its next one may be about to be
        // created.
        for cluster in in_flight(other).filter(|cluster| concerns(entry, cluster)) {
            note(cluster, at_work(other, cluster));
        }
        if other.is_deleting || other.standing == Standing::Invalid {
            continue;
        }
        for cluster in waiting(entry, other) {
            if precedes(entry, other, cluster, index) {
                continue;
            }
            let record = other.record(cluster);
            match record.map(|record| (record.phase, record.reason)) {
                // The other upgrade will not change the cluster, neither by itself nor after other upgrades
                // are done with it.
                Some(
                    (Phase::Complete | Phase::Failed | Phase::Skipped | Phase::Aborted, _)
                    | (Phase::Pending, Reason::Restored)
                    | (Phase::Blocked, Reason::NewerThanTarget),
                ) => {}
                // In an upgrade that is stalled, whatever the cluster waits for waits for a human.
                Some((phase, reason))
                    if waits_for_a_human(phase, reason)
                        || other.standing == Standing::Stalled
                        || is_forbidden(other, cluster) =>
                {
                    note(cluster, RivalHold::Stuck);
                }
                _ => note(cluster, RivalHold::Active),
            }
        }
    }
    found
}

/// Clusters that an upgrade is processing, whether or not a work exists at the moment.
fn in_flight<'a, R: ClusterRow>(other: &UpgradeInput<'a, R>) -> impl Iterator<Item = &'a Arc<str>> {
    let starting = other
        .running
        .iter()
        .filter(|(_, writes)| writes.starting.is_some())
        .map(|(cluster, _)| cluster);
    let is_deleting = other.is_deleting;
    let rows = other.rows.iter().filter(move |_| !is_deleting);
    // As long as the hub has the row of a cluster that was dropped, the next leader would go on there if it came back.
    let dropped = other.unreleased.iter().copied().filter(move |_| !is_deleting);
    starting.chain(other.unsettled.keys()).chain(dropped).chain(
        // Until an end is written, the next leader would go on. So would one of another release that can read a row.
        rows.filter(|(_, row)| {
            let mut records = [Some(row.record()), row.written()].into_iter().flatten();
            records.any(|record| record.may_be_at_work())
        })
        .map(|(cluster, _)| cluster),
    )
}

/// Clusters of `entry` on which another upgrade may go first although it is not at work there. A newer one does so only
/// where it has upgraded the platform; that its platform work is there is seen by the work.
fn waiting<'a, R: ClusterRow>(
    entry: &UpgradeInput<'_, R>,
    other: &UpgradeInput<'a, R>,
) -> impl Iterator<Item = &'a Arc<str>> {
    let older = other.order() < entry.order();
    let selected = older.then_some(&other.selected.clusters);
    let rows = (!older).then_some(other.rows);
    let upgraded = rows
        .into_iter()
        .flatten()
        .filter(|(_, row)| has_upgraded(row.record()))
        .map(|(cluster, _)| cluster);
    let selected = selected.into_iter().flat_map(BTreeMap::keys);
    let known = &entry.selected.clusters;
    selected
        .chain(upgraded)
        .filter(|cluster| known.contains_key(*cluster))
}

/// Which of two upgrades goes first on a cluster where neither is at work: the one that has upgraded its platform, or
/// whose platform work is there, and otherwise the older one.
fn precedes<R: ClusterRow>(
    entry: &UpgradeInput<'_, R>,
    other: &UpgradeInput<'_, R>,
    cluster: &str,
    index: &Index,
) -> bool {
    let platform = index
        .works(cluster)
        .and_then(|works| works[Step::Platform.index()].as_ref())
        .filter(|view| !view.work.vanished);
    let has_begun = |upgrade: &UpgradeInput<'_, R>| {
        upgrade.record(cluster).is_some_and(|record| has_upgraded(record))
            || platform.is_some_and(|view| view.upgrade == *upgrade.uid && view.owner == *upgrade.key)
    };
    match (has_begun(entry), has_begun(other)) {
        (true, false) => true,
        (false, true) => false,
        _ => entry.order() < other.order(),
    }
}

/// True when the platform of a cluster was upgraded and the cluster is not complete yet.
fn has_upgraded(record: &Record) -> bool {
    record.phase.is_queued() && record.succeeded(Stage::Platform)
}

fn concerns<R: ClusterRow>(entry: &UpgradeInput<'_, R>, cluster: &str) -> bool {
    entry.selected.clusters.contains_key(cluster) || entry.rows.contains_key(cluster)
}

fn waits_for_a_human(phase: Phase, reason: Reason) -> bool {
    let gates = [
        Reason::InvalidSpec,
        Reason::Paused,
        Reason::Restored,
        Reason::CanaryFailed,
        Reason::NoCanarySelected,
        Reason::MaxFailuresExceeded,
        Reason::WaitingForApproval,
    ];
    match phase {
        Phase::PreActionDegraded => true,
        Phase::Pending => gates.contains(&reason),
        Phase::Blocked => reason != Reason::Conflict,
        _ => false,
    }
}

/// True when the hub keeps forbidding what an upgrade has to write next for a cluster.
fn is_forbidden<R: ClusterRow>(owner: &UpgradeInput<'_, R>, cluster: &str) -> bool {
    let backoff = owner.backoff.get(cluster).map(Backoff::of_cluster);
    let known = backoff.zip(owner.record(cluster));
    known.is_some_and(|(backoff, record)| backoff.is_stuck(record))
}

/// True when an upgrade that is being deleted has works in a cluster that the hub keeps forbidding to delete. The deletion of its
/// works is all that is left to it, whatever its row says.
fn is_undeletable<R: ClusterRow>(owner: &UpgradeInput<'_, R>, cluster: &str) -> bool {
    let is_lasting = |backoff: &Backoff| backoff.of_cluster().deletion_lasting;
    owner.is_deleting && owner.backoff.get(cluster).is_some_and(is_lasting)
}

/// What an upgrade holds on a cluster where it does not continue until a human acts.
fn stuck<R: ClusterRow>(owner: &UpgradeInput<'_, R>, cluster: &str) -> RivalHold {
    if is_undeletable(owner, cluster) {
        RivalHold::Undeletable
    } else {
        RivalHold::Stuck
    }
}

/// What an upgrade holds on a cluster in flight. Without a valid spec, or if its row cannot be read, its post-action is blocked
/// or its writes stay forbidden, it cannot continue until a human acts.
fn at_work<R: ClusterRow>(owner: &UpgradeInput<'_, R>, cluster: &Arc<str>) -> RivalHold {
    let record = owner.record(cluster);
    let blocked = || {
        record.is_some_and(|record| record.phase == Phase::PostAction && record.reason == Reason::WorkRefused)
            || owner.has_foreign(cluster, Step::PostAction)
    };
    let is_unreadable = record.is_some_and(|record| record.unreadable);
    let is_forbidden = is_forbidden(owner, cluster) || is_undeletable(owner, cluster);
    if is_unreadable || blocked() || owner.in_force.is_none() || is_forbidden {
        stuck(owner, cluster)
    } else {
        RivalHold::Active
    }
}

/// True when a work is of a step whose end the record does not tell: the hub has taken its creation since the upgrade was
/// planned, or since its row was written. When it is planned next, it finds itself at work.
fn has_just_begun(record: &Record, view: &WorkView) -> bool {
    let stage = record.stage(view.step.into());
    stage.is_none_or(|stage| stage.finished.is_none())
        && view.work.attempt == record.attempt
        && !view.work.terminating
        && view.unreadable.is_none()
        && !view.unconfirmed
}

/// What the owner of a rival work is doing with the cluster (`docs/design/rules.md#giving-way`).
pub(crate) fn hold_of<R: ClusterRow>(
    entry: &UpgradeInput<'_, R>,
    owner: Option<&UpgradeInput<'_, R>>,
    cluster: &Arc<str>,
    view: &WorkView,
    index: &Index,
) -> RivalHold {
    let Some(owner) = owner else {
        return RivalHold::Yielding;
    };
    let older = owner.order() < entry.order();
    let Some(row) = owner.rows.get(cluster) else {
        return at_work(owner, cluster);
    };
    let record = row.record();
    // The works stay until the end is recorded. Otherwise the next leader would find neither and treat the
    // cluster as unfinished.
    let is_recorded = |written: &Record| written.phase == record.phase && written.is_same_run(record);
    let recorded = row.written().is_some_and(|written| is_recorded(written));
    match record.phase {
        Phase::Complete | Phase::Skipped | Phase::Aborted if recorded => RivalHold::Yielding,
        Phase::Failed if older && recorded => RivalHold::Yielding,
        Phase::Failed if !older => stuck(owner, cluster),
        phase if waits_for_a_human(phase, record.reason) => stuck(owner, cluster),
        Phase::Pending | Phase::Blocked if has_just_begun(record, view) => at_work(owner, cluster),
        // Works of an earlier attempt, or of a step that is over.
        Phase::Pending | Phase::Blocked if precedes(entry, owner, cluster, index) => RivalHold::Yielding,
        Phase::Pending | Phase::Blocked if owner.standing == Standing::Stalled => stuck(owner, cluster),
        _ => at_work(owner, cluster),
    }
}

#[cfg(test)]
mod tests;
