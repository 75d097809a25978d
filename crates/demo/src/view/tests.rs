use super::*;
use api::ManagedClustersUpgradeStatus;
use api::mcu::ClustersSummary;
use api::report::ReportRow;

fn row(cluster: &str, phase: Phase) -> ReportRow {
    serde_json::from_value(serde_json::json!({
        "cluster": cluster, "phase": phase, "reason": "Failing", "message": "why",
        "since": "2026-01-01T00:00:00Z", "revision": "r",
    }))
    .unwrap()
}

fn snapshot(rows: Vec<ReportRow>) -> Snapshot {
    let summary = ClustersSummary {
        total: 4,
        complete: 1,
        failed: 1,
        ..ClustersSummary::default()
    };
    Snapshot {
        status: ManagedClustersUpgradeStatus {
            clusters_summery: Some(summary),
            in_flight: Some(1),
            effective_max_concurrency: Some(2),
            ..ManagedClustersUpgradeStatus::default()
        },
        rows,
    }
}

#[test]
fn the_panel_shows_counts_slots_and_every_cluster() {
    let rows = vec![
        row("a", Phase::Complete),
        row("b", Phase::Partial),
        row("c", Phase::Failed),
    ];
    let lines = panel(&snapshot(rows), Duration::from_secs(7), 100, false);
    let text = lines.join("\n");
    for part in ["1/4", "in flight 1 of 2", "failed 1", "● a", "◐ b", "✗ c", "7 s"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\x1b'));
}

#[test]
fn a_bar_is_as_wide_as_any_other_whatever_it_shows() {
    for counts in [[0, 0, 0], [1, 1, 1], [24, 0, 0], [23, 1, 0], [7, 6, 2]] {
        assert_eq!(bar(false, counts, 24).chars().count(), BAR, "{counts:?}");
    }
    assert_eq!(bar(false, [0, 0, 0], 0).chars().count(), BAR);
}

#[test]
fn a_large_fleet_does_not_fill_the_screen() {
    let rows = (0..500)
        .map(|n| row(&format!("c-{n:04}"), Phase::Pending))
        .collect();
    let lines = grid(&snapshot(rows), 100, false);
    assert_eq!(lines.len(), GRID_LINES + 1);
    assert!(lines.last().unwrap().contains("more"));
}

#[test]
fn changes_are_told_once_with_their_cause_and_waiting_is_no_news() {
    let before = snapshot(vec![row("a", Phase::Partial)]);
    let now = snapshot(vec![row("a", Phase::Failed), row("b", Phase::Pending)]);
    assert_eq!(changes(&before, &now), ["a              Failed  Failing: why"]);
    assert_eq!(changes(&now, &now), Vec::<String>::new());
}

#[test]
fn colours_are_left_out_when_not_wanted() {
    assert_eq!(paint(false, Tint::Bad, "x"), "x");
    assert_eq!(paint(true, Tint::Good, "x"), "\x1b[32mx\x1b[0m");
}
