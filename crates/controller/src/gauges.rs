//! Counts of objects on the hub, exported as metrics after each pass.

use api::mcu::UpgradeState;
use rollout::Phase;

use crate::metrics::labels::{ClusterPhase, UpgradeStateLabel, WatchKind};
use crate::state::context::{self, Context};
use crate::state::upgrade::UpgradeEntry;

/// Sets every gauge that counts objects.
pub fn set(context: &Context) {
    let metrics = &context.metrics;
    let skew = context
        .clock
        .skew(tokio::time::Instant::now(), context.sources.wall());
    metrics.set_clock_skew(skew.num_seconds());
    context.with(|state| {
        let mut phases = [0_usize; Phase::ALL.len()];
        let mut kinds = [0_usize; UpgradeStateLabel::ALL.len()];
        let (mut used, mut slots) = (0, 0);
        let (mut refused, mut unreadable) = (0, 0);
        for entry in state.upgrades.values() {
            phases[Phase::Complete as usize] += entry.archive.as_ref().map_or(0, |archive| archive.rows());
            for row in entry.rows.all().values() {
                phases[row.record.phase as usize] += 1;
                unreadable += usize::from(row.record.unreadable);
            }
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
    });
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
}

fn set_indexed(context: &Context, state: &context::State) {
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
    ] {
        metrics.set_indexed(kind, count);
    }
}

const fn kind_of(state: Option<UpgradeState>) -> UpgradeStateLabel {
    match state {
        Some(UpgradeState::Invalid) => UpgradeStateLabel::Invalid,
        Some(UpgradeState::Paused) => UpgradeStateLabel::Paused,
        Some(UpgradeState::Stalled) => UpgradeStateLabel::Stalled,
        Some(UpgradeState::Complete) => UpgradeStateLabel::Complete,
        _ => UpgradeStateLabel::Running,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{context, note, upgrade};
    use rollout::testing::record;

    fn shows(context: &Context, lines: [&str; 2]) -> bool {
        let text = context.metrics.encode_classic().unwrap();
        lines.iter().all(|line| text.lines().any(|shown| shown == *line))
    }

    #[test]
    fn what_a_leader_counts_is_cleared_when_its_term_ends() {
        let context = context(&["c1"]);
        context.with(|state| {
            state.apply_upgrade(upgrade("u1", &["c1"]).view());
            note(
                state.upgrades.get_mut("u1").unwrap(),
                "c1",
                record(Phase::Complete),
            );
        });
        set(&context);
        assert!(shows(
            &context,
            [
                "mcu_clusters{phase=\"Complete\"} 1",
                "mcu_upgrades{state=\"running\"} 1"
            ]
        ));
        clear(&context);
        assert!(shows(
            &context,
            [
                "mcu_clusters{phase=\"Complete\"} 0",
                "mcu_upgrades{state=\"running\"} 0"
            ]
        ));
    }
}
