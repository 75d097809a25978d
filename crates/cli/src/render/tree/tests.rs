use super::*;
use crate::render::fixtures::{complete, now, rows, running, stalled, unseen};
use serde_json::json;

fn picture(upgrade: &Upgrade, rows: &[ReportRow], lines: usize) -> String {
    let rows: Vec<&ReportRow> = rows.iter().collect();
    let picture = Picture {
        upgrade,
        rows: Some(&rows),
        trouble: "",
    };
    render(picture, lines, now(), Paint::Never)
}

/// Clusters `c000`, `c001`, … of which the first are canaries; one in three runs.
fn many(count: usize) -> Vec<ReportRow> {
    let row = |number: usize| {
        let (phase, reason, steps) = match number % 3 {
            0 => (
                "Partial",
                "Progressing",
                json!([{"name": "Platform", "startedAt": "2026-03-01T11:50:00Z"}]),
            ),
            1 => ("Pending", "WaitingForSlot", json!([])),
            _ => ("Blocked", "ManagedService", json!([])),
        };
        serde_json::from_value(json!({
            "cluster": format!("c{number:03}"), "phase": phase, "reason": reason, "canary": number < 6,
            "message": "Working towards 4.12.0: 300 of 830 done (36% complete), waiting on etcd", "since": "2026-03-01T11:48:00Z",
            "revision": "r1", "steps": steps,
        }))
        .unwrap()
    };
    (0..count).map(row).collect()
}

#[test]
fn a_running_upgrade_is_a_tree_of_canaries_running_clusters_and_causes() {
    insta::assert_snapshot!(picture(&running(), &rows().rows, 40));
}

#[test]
fn a_picture_says_when_the_upgrade_ends_and_what_clusters_said_before_they_start() {
    let mut upgrade = running();
    let status = upgrade.status.as_mut().unwrap();
    let (end, late) = (now() + TimeDelta::minutes(130), now() + TimeDelta::hours(3));
    status.estimate = serde_json::from_value(json!({
        "p50": seconds(end), "p90": seconds(late), "basis": "Upgrade", "samples": 7,
    }))
    .unwrap();
    status.preflight = serde_json::from_value(json!({"ready": 4, "blocked": 2, "unknown": 1})).unwrap();
    let opens = seconds(now() + TimeDelta::minutes(50));
    status.maintenance = serde_json::from_value(json!({"waiting": 3, "nextOpening": opens})).unwrap();
    let text = picture(&upgrade, &rows().rows, 40);
    let windows = format!("Windows:   3 clusters waiting; the next opens in 50m ({opens})\n");
    assert!(text.contains(&windows), "{text}");
    let eta = format!(
        "ETA:       130m ({}), in nine of ten cases at most 3h\n",
        seconds(end)
    );
    assert!(text.contains(&eta), "{text}");
    assert!(
        text.contains("Preflight: 4 ready, 2 blocked, 1 unknown\n"),
        "{text}"
    );
}

#[test]
fn a_stalled_upgrade_says_why() {
    insta::assert_snapshot!(picture(&stalled(), &rows().rows, 40));
}

#[test]
fn a_small_terminal_shows_the_beginning_of_every_group_and_how_many_follow() {
    insta::assert_snapshot!(picture(&running(), &many(90), 24));
}

#[test]
fn the_picture_never_has_more_lines_than_the_terminal() {
    for lines in 12..60 {
        for clusters in [0, 1, 5, 90] {
            let text = picture(&running(), &many(clusters), lines);
            assert!(
                text.lines().count() <= lines,
                "{lines} lines, {clusters} clusters:\n{text}"
            );
        }
    }
}

#[test]
fn a_terminal_without_room_for_clusters_says_at_least_how_many_there_are() {
    let head = picture(&running(), &many(90), 0).lines().count();
    for left in 2..20 {
        let text = picture(&running(), &many(90), head + left);
        assert!(text.contains("Canaries: 0 of 6 complete"), "{left}:\n{text}");
        assert!(text.contains("Running: 28"), "{left}:\n{text}");
        assert!(
            text.contains("Causes: 2") || text.contains("WaitingForSlot   Pending"),
            "{left}:\n{text}"
        );
    }
}

#[test]
fn without_rows_the_status_tells_the_causes() {
    let stalled = stalled();
    let picture = Picture {
        upgrade: &stalled,
        rows: None,
        trouble: "managedclustersupgradereports is forbidden; retrying",
    };
    insta::assert_snapshot!(render(picture, 40, now(), Paint::Never));
}

#[test]
fn an_upgrade_without_status_and_a_complete_one_have_a_picture() {
    let text = picture(&unseen(), &[], 24);
    assert!(
        text.contains("The controller has not processed the newest spec yet."),
        "{text}"
    );
    let text = picture(&complete(), &rows().rows[..1], 24);
    assert!(text.contains("24/24 complete (100%)"), "{text}");
}

#[test]
fn lines_are_shared_fairly_and_none_is_wasted() {
    assert_eq!(shares([2, 100, 3], 20), [2, 15, 3]);
    assert_eq!(shares([9, 9, 9], 9), [3, 3, 3]);
    assert_eq!(shares([0, 5, 0], 3), [0, 3, 0]);
    assert_eq!(shares([1, 9, 9], 0), [0, 0, 0]);
    assert_eq!(shares([6, 28, 2], 5), [3, 2, 0]);
    assert_eq!(shares([6, 28, 2], 3), [3, 0, 0]);
}

#[test]
fn progress_is_read_from_the_texts_of_the_cluster_version_operator_only() {
    assert_eq!(
        done("Working towards 4.12.0: 512 of 830 done (61% complete)"),
        Some((512, 830))
    );
    assert_eq!(done("12 of 24 clusters"), None);
    assert_eq!(done("1 of 0 done"), None);
    assert_eq!(done("-1 of 5 done"), None);
    assert_eq!(done(""), None);
}

#[test]
fn a_bar_is_full_only_at_the_end() {
    assert_eq!(filled(829, 830), "[#########-]");
    assert_eq!(filled(830, 830), "[##########]");
}

#[test]
fn few_slots_are_drawn_and_many_are_counted() {
    assert_eq!(slot_bar("3/5"), "[###--] 3/5 in use");
    assert_eq!(slot_bar("7/5"), "[#####] 7/5 in use");
    assert_eq!(slot_bar("300/1000"), "300/1000 in use");
    assert_eq!(slot_bar("0/?"), "0/? in use");
}
