//! Counts of objects on the hub, exported as metrics after each pass.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::conditions::{COMPLETE, TYPES};
use api::estimate::UpgradeEstimate;
use api::mcu::UpgradeState;
use api::time::to_chrono;
use observe::index::Uid;
use rollout::Phase;

use crate::metrics::labels::{ClusterPhase, UpgradeStateLabel, WatchKind};
use crate::metrics::upgrades::{MAX_FINISHED, MAX_OPEN, UpgradeSample};
use crate::report::tally::Tally;
use crate::state::context::{Context, State};
use crate::state::upgrade::UpgradeEntry;

/// Sets every gauge that counts objects. `due`: the upgrades that have been reconciled since the last call. Only their rows
/// are counted again, so that a large fleet that rests costs nothing while another upgrade moves.
pub fn set(context: &Context, due: &[Uid]) {
    let metrics = &context.metrics;
    let skew = context
        .clock
        .skew(tokio::time::Instant::now(), context.sources.wall());
    metrics.set_clock_skew(skew.num_seconds());
    context.with(|state| {
        for uid in due {
            if let Some(entry) = state.upgrades.get_mut(uid) {
                entry.tally = Tally::of(&entry.rows);
            }
        }
        let mut phases = [0_usize; Phase::ALL.len()];
        let mut kinds = [0_usize; UpgradeStateLabel::ALL.len()];
        let (mut used, mut slots) = (0, 0);
        let (mut refused, mut unreadable) = (0, 0);
        for entry in state.upgrades.values() {
            for (sum, count) in phases.iter_mut().zip(phases_of(entry)) {
                *sum += count;
            }
            unreadable += entry.tally.unreadable;
            refused += entry.rows.refused_count();
            let status = entry.status.latest();
            let kind = kind_of(status.and_then(|status| status.state));
            if let Some(position) = UpgradeStateLabel::ALL.iter().position(|known| *known == kind) {
                kinds[position] += 1;
            }
            used += usize::try_from(status.and_then(|status| status.in_flight).unwrap_or(0)).unwrap_or(0);
            if kind != UpgradeStateLabel::Complete {
                slots += usize::try_from(
                    status
                        .and_then(|status| status.effective_max_concurrency)
                        .unwrap_or(0),
                )
                .unwrap_or(0);
            }
        }
        for phase in Phase::ALL {
            metrics.set_clusters(ClusterPhase(phase), phases[phase as usize]);
        }
        for (kind, count) in UpgradeStateLabel::ALL.iter().zip(kinds) {
            metrics.set_upgrades(*kind, count);
        }
        metrics.set_slots(used, slots);
        metrics.set_records(refused, unreadable);
        set_indexed(context, state);
        let (samples, omitted) = samples(state);
        metrics.set_upgrade_series(samples, omitted);
    });
}

/// Clusters of an upgrade, by the position of their phase in [`Phase::ALL`].
fn phases_of(entry: &UpgradeEntry) -> [usize; Phase::ALL.len()] {
    let mut phases = entry.tally.phases;
    phases[Phase::Complete as usize] += entry.archive.as_ref().map_or(0, |archive| archive.rows());
    phases
}

/// What the series of single upgrades say, and how many open upgrades have none.
fn samples(state: &State) -> (Vec<UpgradeSample>, usize) {
    let (mut open, mut finished) = (Vec::new(), Vec::new());
    let served = |entry: &&UpgradeEntry| state.settings.serves(&entry.namespace);
    for entry in state.upgrades.values().filter(served) {
        match completed_at(entry) {
            Some(at) => finished.push((at, entry)),
            None => open.push((entry.created.timestamp(), entry)),
        }
    }
    let omitted = keep_first(&mut open, MAX_OPEN);
    keep_first(&mut finished, MAX_FINISHED);
    let mut samples: Vec<UpgradeSample> = open
        .into_iter()
        .map(|(created, entry)| sample(entry, created))
        .chain(finished.into_iter().map(|(at, entry)| sample(entry, at)))
        .collect();
    let key = |sample: &UpgradeSample| (Arc::clone(&sample.namespace), Arc::clone(&sample.name));
    // An upgrade may be known beside a deleted one of the same name for a moment. Prometheus rejects a scrape with the same
    // series twice.
    samples.sort_by_cached_key(key);
    samples.dedup_by_key(|sample| key(sample));
    (samples, omitted)
}

/// What decides first which upgrades have series, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SeriesRank {
    /// Clusters are at work.
    AtWork,
    /// It has clusters, none of them at work.
    Selected,
    /// It has no cluster.
    Empty,
}

impl SeriesRank {
    fn of(entry: &UpgradeEntry) -> Self {
        let phases = phases_of(entry);
        let mut counted = Phase::ALL.iter().zip(phases).filter(|(_, count)| *count > 0);
        if counted.clone().any(|(phase, _)| phase.is_at_work()) {
            Self::AtWork
        } else if counted.next().is_some() {
            Self::Selected
        } else {
            Self::Empty
        }
    }
}

/// Keeps the upgrades that have series, given with their times, and returns how many are left out. Within a rank namespaces take
/// turns, each with its newest upgrade: otherwise whoever may create upgrades in one namespace could take the series, and with
/// them the alerts, of all others.
fn keep_first(all: &mut Vec<(i64, &UpgradeEntry)>, most: usize) -> usize {
    let omitted = all.len().saturating_sub(most);
    if omitted == 0 {
        return 0;
    }
    // Both sorts are stable, and the caller's order is that of the UIDs: passes over the same upgrades choose the same ones.
    all.sort_by_key(|(at, _)| Reverse(*at));
    let mut turns: BTreeMap<(SeriesRank, &str), usize> = BTreeMap::new();
    let mut ranked = Vec::with_capacity(all.len());
    for (at, entry) in all.drain(..) {
        let rank = SeriesRank::of(entry);
        let turn = turns.entry((rank, &*entry.namespace)).or_default();
        *turn += 1;
        ranked.push((rank, *turn, at, entry));
    }
    ranked.sort_by_key(|(rank, turn, ..)| (*rank, *turn));
    ranked.truncate(most);
    all.extend(ranked.into_iter().map(|(_, _, at, entry)| (at, entry)));
    omitted
}

/// When an upgrade that is complete became so, in seconds since the Unix epoch.
fn completed_at(entry: &UpgradeEntry) -> Option<i64> {
    let status = entry.status.latest()?;
    if status.state != Some(UpgradeState::Complete) {
        return None;
    }
    let condition = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == COMPLETE);
    Some(condition.map_or(0, |condition| condition.last_transition_time.0.as_second()))
}

/// What the series of an upgrade say. `progress`: when it last made progress, unless a row says a later time.
fn sample(entry: &UpgradeEntry, progress: i64) -> UpgradeSample {
    let status = entry.status.latest();
    let phases = phases_of(entry);
    let limit = entry.in_force().and_then(|spec| spec.policy.max_failures);
    let is_true = |type_: &str| {
        let mut conditions = status.iter().flat_map(|status| &status.conditions);
        conditions.any(|condition| condition.type_ == type_ && condition.status == "True")
    };
    let last = entry.tally.last_progress.map(|at| at.timestamp());
    UpgradeSample {
        namespace: Arc::clone(&entry.namespace),
        name: Arc::clone(&entry.name),
        state: kind_of(status.and_then(|status| status.state)),
        target: status
            .and_then(|status| status.target.clone())
            .unwrap_or_default(),
        phases,
        waiting: entry.tally.waiting().collect(),
        conditions: TYPES.map(is_true),
        last_progress: last.unwrap_or_default().max(progress),
        budget: limit.map(|limit| limit.of(phases.iter().sum())),
        failures: entry.tally.failures,
        end: status.and_then(|status| end(status.estimate.as_ref()?)),
        preflight: status
            .and_then(|status| status.preflight)
            .map(|counts| [counts.ready, counts.blocked, counts.unknown, counts.unsupported]),
    }
}

/// The two times of an estimate, in seconds since the Unix epoch.
fn end(estimate: &UpgradeEstimate) -> Option<[i64; 2]> {
    let seconds = |time| Some(to_chrono(time)?.timestamp());
    Some([seconds(&estimate.p50)?, seconds(&estimate.p90)?])
}

/// Clears the counts of a replica that does not lead. Otherwise its last values would be exported forever,
/// beside those of the new leader.
pub fn clear(context: &Context) {
    for phase in Phase::ALL {
        context.metrics.set_clusters(ClusterPhase(phase), 0);
    }
    for kind in UpgradeStateLabel::ALL {
        context.metrics.set_upgrades(*kind, 0);
    }
    context.metrics.set_slots(0, 0);
    context.metrics.set_records(0, 0);
    context.metrics.set_orphans(0);
    context.metrics.set_upgrade_series(Vec::new(), 0);
}

fn set_indexed(context: &Context, state: &State) {
    let metrics = &context.metrics;
    let [placements, decisions, sets, bindings] = state.index.placements.counts();
    let archived = |entry: &UpgradeEntry| entry.archive.as_ref().map(|archive| archive.shard_count());
    let shards = state.upgrades.values();
    let shards = shards
        .map(|entry| archived(entry).unwrap_or_else(|| entry.rows.shard_count()))
        .sum();
    for (kind, count) in [
        (WatchKind::Cluster, state.index.clusters.len()),
        (WatchKind::Work, state.index.work_count()),
        (WatchKind::Upgrade, state.upgrades.len()),
        (WatchKind::Report, shards),
        (WatchKind::Placement, placements),
        (WatchKind::Decision, decisions),
        (WatchKind::ClusterSet, sets),
        (WatchKind::Binding, bindings),
        (WatchKind::Approval, state.index.approvals.count()),
    ] {
        metrics.set_indexed(kind, count);
    }
}

const fn kind_of(state: Option<UpgradeState>) -> UpgradeStateLabel {
    match state {
        Some(UpgradeState::Invalid) => UpgradeStateLabel::Invalid,
        Some(UpgradeState::Paused) => UpgradeStateLabel::Paused,
        Some(UpgradeState::WaitingForApproval) => UpgradeStateLabel::WaitingForApproval,
        Some(UpgradeState::Stalled) => UpgradeStateLabel::Stalled,
        Some(UpgradeState::Complete) => UpgradeStateLabel::Complete,
        _ => UpgradeStateLabel::Running,
    }
}

#[cfg(test)]
mod tests;
