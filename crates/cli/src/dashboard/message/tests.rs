use serde_json::value::to_raw_value;

use super::*;
use crate::render::fixtures::{complete, invalid, now, rows, running, stalled, unseen};

#[test]
fn texts_are_cut_and_have_no_character_that_steers() {
    assert_eq!(text("a\u{202e}b\n\u{1b}[2Jc", 100), "a b [2Jc");
    assert_eq!(text(&"x".repeat(5000), MAX_TEXT).len(), MAX_TEXT);
    let mut row = rows().rows[0].clone();
    row.message = "m".repeat(9000);
    row.reason = "r".repeat(9000);
    let story = story(&running(), &row, now());
    assert!(story.to_string().len() < 3 * MAX_TEXT + 2000, "{story}");
    assert!(tile(&row).to_string().len() < 2 * MAX_WORD + 200);
}

#[test]
fn a_tile_says_phase_marks_reason_and_times() {
    let all = rows();
    let failed = all.of("edge-17").unwrap();
    let (since, start) = (failed.since.timestamp(), failed.steps[0].started_at.timestamp());
    assert_eq!(
        tile(failed),
        json!([
            "edge-17",
            11,
            CANARY,
            "ClusterUpgradeTimeout",
            since,
            start,
            since
        ])
    );
    let open = all.of("edge-02").unwrap();
    let (since, start) = (open.since.timestamp(), open.steps[0].started_at.timestamp());
    assert_eq!(
        tile(open),
        json!(["edge-02", 5, LEFT_SELECTION, "Running", since, start, null])
    );
}

#[test]
fn a_cluster_that_is_left_out_after_its_start_has_an_end() {
    let all = rows();
    let mut row = all.of("edge-02").unwrap().clone();
    for phase in [Phase::Aborted, Phase::Skipped] {
        row.phase = phase;
        assert_eq!(tile(&row)[6], json!(row.since.timestamp()), "{phase}");
    }
}

#[test]
fn upgrades_that_run_are_told_from_those_that_wait_for_somebody() {
    let mut paused = running();
    paused.paused = true;
    assert!(runs(&running()) && runs(&paused), "clusters are under way");
    paused.status.as_mut().unwrap().in_flight = Some(0);
    for upgrade in [paused, stalled(), invalid(), unseen(), complete()] {
        assert!(!runs(&upgrade), "{}", upgrade.state());
    }
}

/// Choosing one of them shows its own clusters on the map, and presses no other button.
#[test]
fn two_gates_two_risks_and_two_sentences_are_different_causes_of_different_clusters() {
    let rows = [
        ("a", "AdminAckRequired", "ack-4.19-x: Scan first."),
        (
            "b",
            "AdminAckRequired",
            "ack-4.19-y: Scan first.; Leak: It leaks.",
        ),
        ("c", "AdminAckRequired", "ack-4.19-x: Scan\u{202e} first."),
        ("d", "RiskNotAccepted", "Leak: It leaks."),
        ("e", "RiskNotAccepted", "Slow: It is slow."),
        (
            "f",
            "NotOffered",
            "The cluster does not offer 4.20.4 in channel \"a\"",
        ),
        (
            "g",
            "NotOffered",
            "The cluster does not offer 4.20.4 in channel \"b\"",
        ),
        (
            "h",
            "Failing",
            "Failing=True: X: Cluster operator etcd is degraded",
        ),
        ("i", "Failing", "Failing=True: X: Y"),
        ("j", "NotOpenShift", "AKS"),
    ];
    let rows = rows.map(|(cluster, reason, message)| {
        let row = json!({"cluster": cluster, "phase": "Blocked", "reason": reason, "message": message,
            "since": "2026-03-01T11:00:00Z", "revision": "r1"});
        to_raw_value(&row).unwrap()
    });
    let mut fleet = Fleet::default();
    fleet.apply("r-1", rows.into());
    let told = causes(&running(), &fleet);
    let told = told["causes"].as_array().unwrap();
    let tiles: Vec<Value> = fleet.since(0).rows.into_iter().map(tile).collect();
    let clusters = told.iter().map(|cause| {
        let is_of = |tile: &&Value| {
            let subject = tile.get(7).and_then(Value::as_str).unwrap_or_default();
            tile[3] == cause["reason"] && cause["subject"] == subject
        };
        let names = tiles.iter().filter(is_of).filter_map(|tile| tile[0].as_str());
        names.collect::<String>()
    });
    let mut clusters: Vec<String> = clusters.collect();
    clusters.sort_unstable();
    assert_eq!(clusters, ["ac", "b", "d", "e", "f", "g", "h", "i", "j"]);
    assert_eq!(tiles[9].as_array().unwrap().len(), 7, "the reason says enough");
}

#[test]
fn the_page_gets_the_expected_end_in_seconds_and_what_clusters_said() {
    let mut upgrade = running();
    assert_eq!(super::upgrade(&upgrade)["estimate"], Value::Null);
    let status = upgrade.status.as_mut().unwrap();
    status.estimate = serde_json::from_value(json!({
        "p50": "1970-01-01T00:01:00Z", "p90": "1970-01-01T00:02:00Z", "basis": "Usual\u{202e}", "samples": 0,
    }))
    .unwrap();
    status.preflight = serde_json::from_value(json!({"ready": 4, "blocked": 2, "unknown": 1})).unwrap();
    status.maintenance =
        serde_json::from_value(json!({"waiting": 3, "nextOpening": "1970-01-01T00:03:00Z"})).unwrap();
    let told = super::upgrade(&upgrade);
    assert_eq!(told["maintenance"], json!({"waiting": 3, "opens": 180}));
    assert_eq!(told["estimate"], json!({"p50": 60, "p90": 120, "basis": "Usual"}));
    assert_eq!(
        told["preflight"],
        json!({"ready": 4, "blocked": 2, "unknown": 1, "unsupported": 0})
    );
}

#[test]
fn notes_say_what_the_upgrade_as_a_whole_needs() {
    let notes = |upgrade: &Upgrade| super::upgrade(upgrade)["notes"].to_string();
    assert_eq!(notes(&running()), "[]");
    assert!(notes(&stalled()).contains("Stalled (ClustersFailed): 1 cluster failed, 1 cluster is blocked"));
    assert!(notes(&stalled()).contains("then run kubectl mcu retry spring -n upgrades"));
    assert!(notes(&invalid()).contains("Fix the field that the message names"));
    assert!(notes(&unseen()).contains("not processed this upgrade yet"));
}

#[test]
fn the_story_is_what_why_says() {
    let all = rows();
    let story = story(&running(), all.of("edge-17").unwrap(), now());
    assert_eq!(story["reason"], "ClusterUpgradeTimeout");
    assert_eq!(story["steps"][1]["outcome"], "Failed");
    assert!(
        story["remedy"]
            .as_str()
            .unwrap()
            .contains("kubectl mcu retry spring -n upgrades")
    );
}
