use super::*;
use crate::render::fixtures::{invalid, now, rows, running, stalled, unseen};

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
