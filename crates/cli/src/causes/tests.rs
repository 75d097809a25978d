use super::*;
use crate::render::fixtures::{rows, running, stalled};
use serde_json::json;

fn row(cluster: &str, phase: &str, reason: &str) -> ReportRow {
    serde_json::from_value(json!({
        "cluster": cluster, "phase": phase, "reason": reason, "message": format!("{cluster} says why"),
        "since": "2026-03-01T11:48:00Z", "revision": "r1",
    }))
    .unwrap()
}

#[test]
fn groups_that_need_a_human_come_first_and_then_the_largest() {
    let rows = [
        row("c1", "Pending", "WaitingForSlot"),
        row("c2", "Pending", "WaitingForSlot"),
        row("c3", "Pending", "WaitingForSlot"),
        row("c4", "Partial", "Failing"),
        row("c5", "Partial", "Progressing"),
        row("c6", "Blocked", "ManagedService"),
        row("c7", "Failed", "ClusterUpgradeTimeout"),
        row("c8", "Failed", "ClusterUpgradeTimeout"),
        row("c9", "Complete", ""),
    ];
    let groups = of_rows(&running(), &rows);
    let told: Vec<_> = groups
        .iter()
        .map(|group| (group.reason.as_str(), group.clusters, group.example.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("ClusterUpgradeTimeout", 2, "c7"),
            ("ManagedService", 1, "c6"),
            ("Failing", 1, "c4"),
            ("WaitingForSlot", 3, "c1"),
        ]
    );
    assert_eq!(groups[0].message, "c7 says why");
    assert!(groups[0].remedy.contains("kubectl mcu retry spring -n upgrades"));
}

#[test]
fn the_same_reason_in_two_phases_is_two_groups() {
    let rows = [
        row("c1", "Blocked", "Conflict"),
        row("c2", "PostAction", "Conflict"),
    ];
    assert_eq!(of_rows(&running(), &rows).len(), 2);
}

#[test]
fn without_rows_the_status_tells_the_groups() {
    let groups = of_status(&stalled());
    let told: Vec<_> = groups.iter().map(|group| &*group.reason).collect();
    assert_eq!(told, ["ClusterUpgradeTimeout", "ManagedService"]);
    let mut upgrade = stalled();
    upgrade.status.as_mut().unwrap().causes = of_rows(&upgrade, &rows().rows)[..1].to_vec();
    assert_eq!(of_status(&upgrade).len(), 1, "groups of the controller count");
}
