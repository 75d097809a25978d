//! Numbers of the whole hub for the metrics, taken from the state after a look.

use api::mcu::UpgradeState as State;
use rollout::Phase;

use crate::desk::Desk;
use crate::hall::{self, Hall};
use crate::telemetry::labels::{ClusterPhase, UpgradeState, WatchKind};

/// Sets every gauge that counts objects.
pub fn set(hall: &Hall) {
    let metrics = &hall.metrics;
    let skew = hall.clock.skew(tokio::time::Instant::now(), chrono::Utc::now());
    metrics.set_clock_skew(skew.num_seconds());
    hall.with(|state| {
        let mut phases = [0_usize; ALL_PHASES.len()];
        let mut kinds = [0_usize; UpgradeState::ALL.len()];
        let (mut used, mut slots) = (0, 0);
        let (mut refused, mut unreadable) = (0, 0);
        for desk in state.desks.values() {
            phases[Phase::Complete as usize] += desk.archive.as_ref().map_or(0, |archive| archive.rows());
            for row in desk.rows.all().values() {
                phases[row.record.phase as usize] += 1;
                unreadable += usize::from(row.record.is_unreadable());
            }
            refused += desk.rows.refused_count();
            let status = desk.status.previous();
            let kind = kind_of(status.state);
            if let Some(position) = UpgradeState::ALL.iter().position(|known| *known == kind) {
                kinds[position] += 1;
            }
            used += usize::try_from(status.in_flight.unwrap_or(0)).unwrap_or(0);
            if kind != UpgradeState::Complete {
                slots += usize::try_from(status.effective_max_concurrency.unwrap_or(0)).unwrap_or(0);
            }
        }
        for phase in ALL_PHASES {
            metrics.set_clusters(ClusterPhase::from(phase), phases[phase as usize]);
        }
        for (kind, count) in UpgradeState::ALL.iter().zip(kinds) {
            metrics.set_upgrades(*kind, count);
        }
        metrics.set_slots(used, slots);
        metrics.set_records(refused, unreadable);
        set_indexed(hall, state);
    });
}

/// A replica that does not lead counts no clusters and no upgrades: what it knew when its term ended would stand for
/// ever, beside the count of its successor.
pub fn clear(hall: &Hall) {
    for phase in ALL_PHASES {
        hall.metrics.set_clusters(ClusterPhase::from(phase), 0);
    }
    for kind in UpgradeState::ALL {
        hall.metrics.set_upgrades(*kind, 0);
    }
    hall.metrics.set_slots(0, 0);
    hall.metrics.set_records(0, 0);
    hall.metrics.set_orphans(0);
}

const ALL_PHASES: [Phase; 11] = [
    Phase::Pending,
    Phase::Blocked,
    Phase::PreAction,
    Phase::PreActionDegraded,
    Phase::Initialized,
    Phase::Partial,
    Phase::Operators,
    Phase::Soaking,
    Phase::Complete,
    Phase::PostAction,
    Phase::Failed,
];

fn set_indexed(hall: &Hall, state: &hall::State) {
    let metrics = &hall.metrics;
    let [placements, decisions, sets, bindings] = state.index.placements.counts();
    let archived = |desk: &Desk| desk.archive.as_ref().map(|archive| archive.shard_count());
    let shards = state.desks.values();
    let shards = shards
        .map(|desk| archived(desk).unwrap_or_else(|| desk.rows.shard_count()))
        .sum();
    for (kind, count) in [
        (WatchKind::Cluster, state.index.clusters.len()),
        (WatchKind::Work, state.index.work_count()),
        (WatchKind::Upgrade, state.desks.len()),
        (WatchKind::Report, shards),
        (WatchKind::Placement, placements),
        (WatchKind::Decision, decisions),
        (WatchKind::ClusterSet, sets),
        (WatchKind::Binding, bindings),
    ] {
        metrics.set_indexed(kind, count);
    }
}

const fn kind_of(state: Option<State>) -> UpgradeState {
    match state {
        Some(State::Invalid) => UpgradeState::Invalid,
        Some(State::Paused) => UpgradeState::Paused,
        Some(State::Stalled) => UpgradeState::Stalled,
        Some(State::Complete) => UpgradeState::Complete,
        _ => UpgradeState::Running,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{hall, note, upgrade};
    use rollout::testing::record;

    fn shows(hall: &Hall, lines: [&str; 2]) -> bool {
        let text = hall.metrics.encode_classic().unwrap();
        lines.iter().all(|line| text.lines().any(|shown| shown == *line))
    }

    #[test]
    fn what_a_leader_counts_is_cleared_when_its_term_ends() {
        let hall = hall(&["c1"]);
        hall.with(|state| {
            state.apply_upgrade(upgrade("u1", &["c1"]).view());
            note(state.desks.get_mut("u1").unwrap(), "c1", record(Phase::Complete));
        });
        set(&hall);
        assert!(shows(
            &hall,
            [
                "mcu_clusters{phase=\"Complete\"} 1",
                "mcu_upgrades{state=\"running\"} 1"
            ]
        ));
        clear(&hall);
        assert!(shows(
            &hall,
            [
                "mcu_clusters{phase=\"Complete\"} 0",
                "mcu_upgrades{state=\"running\"} 0"
            ]
        ));
    }
}
