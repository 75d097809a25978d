use super::*;
use crate::render::fixtures::{invalid, now, rows, running};

fn why(cluster: &str, output: Option<Output>) -> String {
    let rows = rows();
    render(&running(), rows.of(cluster).unwrap(), output, now(), Paint::Never)
}

#[test]
fn a_failed_cluster_is_explained_with_its_history_and_remedy() {
    insta::assert_snapshot!(why("edge-17", None));
}

#[test]
fn what_a_cluster_says_of_itself_steers_no_terminal() {
    let rows = rows();
    let mut row = rows.of("edge-17").unwrap().clone();
    row.from_version = "\u{1b}]0;owned\u{7}\u{1b}[2J".to_owned();
    row.to_version = "\u{202e}4.16".to_owned();
    row.reason = "Bad\u{9b}2J".to_owned();
    for output in [None, Some(Output::Json), Some(Output::Wide)] {
        let text = render(&running(), &row, output, now(), Paint::Never);
        let steers = |c: char| api::text::is_steering(c) && c != '\n';
        assert!(!text.chars().any(steers), "{text:?}");
    }
}

#[test]
fn a_blocked_cluster_has_no_history() {
    insta::assert_snapshot!(why("edge-20", None));
}

#[test]
fn a_running_cluster_shows_its_open_step() {
    insta::assert_snapshot!(why("edge-02", None));
}

#[test]
fn a_degraded_pre_action_does_not_run() {
    let mut row = rows().of("edge-02").unwrap().clone();
    row.phase = Phase::PreActionDegraded;
    let text = render(&running(), &row, None, now(), Paint::Never);
    assert!(
        text.contains("  degraded\n") && !text.contains("running\n"),
        "{text}"
    );
}

#[test]
fn a_step_of_a_cluster_that_failed_or_is_left_out_does_not_run() {
    let mut row = rows().of("edge-02").unwrap().clone();
    let mut shown = |phase| {
        row.phase = phase;
        let text = render(&running(), &row, None, now(), Paint::Never);
        let step = text.lines().find(|line| line.contains("  Platform "));
        step.unwrap()
            .split_whitespace()
            .skip(3)
            .collect::<Vec<_>>()
            .join(" ")
    };
    // Its phase began 4m48s after the step.
    assert_eq!(shown(Phase::Failed), "4m48s Failed");
    assert_eq!(shown(Phase::Skipped), "4m48s ended");
    assert_eq!(shown(Phase::Aborted), "4m48s withdrawn");
    assert!(shown(Phase::Partial).ends_with(" running"));
}

#[test]
fn while_the_spec_is_invalid_only_its_correction_moves_a_cluster() {
    let rows = rows();
    let text = render(&invalid(), rows.of("edge-02").unwrap(), None, now(), Paint::Never);
    assert!(
        text.contains("Fix the spec") && text.contains("ConfigMap a appears twice"),
        "{text}"
    );
    assert!(!text.contains("Nothing to do"), "{text}");
}

#[test]
fn an_abort_that_comes_too_late_says_so() {
    let mut upgrade = running();
    upgrade.object["spec"]["upgradeStrategy"]["abort"] =
        json!([{"cluster": "edge-02", "reason": "wrong site"}]);
    let rows = rows();
    let mut row = rows.of("edge-02").unwrap().clone();
    for (phase, is_too_late) in [(Phase::Partial, true), (Phase::Initialized, false)] {
        row.phase = phase;
        let text = next_step(&upgrade, &row);
        assert_eq!(
            text.contains("kubectl mcu skip spring edge-02"),
            is_too_late,
            "{text}"
        );
    }
}

#[test]
fn machines_get_every_key_for_every_cluster() {
    insta::assert_snapshot!(why("edge-02", Some(Output::Json)));
    let keys = |cluster| {
        let value: Value = serde_json::from_str(&why(cluster, Some(Output::Json))).unwrap();
        value.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(keys("edge-02"), keys("edge-20"));
}

#[test]
fn a_cluster_that_waits_points_to_what_clusters_say_to_the_update() {
    let mut object = running().object;
    object["status"]["preflight"] = serde_json::json!({"ready": 0, "blocked": 2, "unknown": 0});
    let upgrade = Upgrade::read(object);
    let step = |cluster: &str| next_step(&upgrade, rows().of(cluster).unwrap());
    let told =
        "2 clusters reported something that speaks against a start: kubectl mcu preflight spring -n upgrades";
    assert!(step("edge-20").ends_with(told), "{}", step("edge-20"));
    assert!(!step("edge-17").contains(told), "a failed cluster has been asked");
}

#[test]
fn a_failed_cluster_that_has_left_the_selection_is_told_that_no_retry_reaches_it() {
    let mut row = rows().of("edge-17").unwrap().clone();
    row.left_selection = true;
    let text = render(&running(), &row, None, now(), Paint::Never);
    assert!(text.contains("(canary) (no longer selected)\n"), "{text}");
    assert!(
        text.contains("no retry reaches it before it is selected again"),
        "{text}"
    );
}
