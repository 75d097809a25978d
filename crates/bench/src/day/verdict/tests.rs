use super::*;
use serde_json::json;

fn row(phase: &str, reason: &str, message: &str, seconds: u32) -> ReportRow {
    serde_json::from_value(json!({
        "cluster": "a", "phase": phase, "reason": reason, "message": message,
        "since": "2026-01-01T00:01:00Z", "revision": "r",
        "steps": [{
            "name": "Platform", "outcome": "Succeeded", "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": format!("2026-01-01T00:00:{seconds:02}Z"),
        }],
    }))
    .unwrap()
}

fn of(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name == name).unwrap()
}

#[test]
fn a_failure_must_name_its_cause() {
    let gate = of("gate");
    let failed = |message| {
        problem(
            gate.expect,
            &row("Failed", "ClusterUpgradeTimeout", message, 9),
            1.0,
        )
    };
    assert_eq!(
        failed("The step was not done within 1m: ReleaseNotAccepted: AdminAckRequired: x"),
        None
    );
    assert!(
        failed("The step was not done within 1m")
            .unwrap()
            .contains("AdminAckRequired")
    );
    assert!(problem(gate.expect, &row("Complete", "None", "", 9), 1.0).is_some());
    assert!(
        problem(
            gate.expect,
            &row("Failed", "RegressedInSoak", "AdminAckRequired", 9),
            1.0
        )
        .is_some()
    );
}

#[test]
fn a_cluster_that_is_complete_too_early_has_lied_with_success() {
    let liar = of("early-feedback");
    assert!(problem(liar.expect, &row("Complete", "None", "", 2), 15.0).is_some());
    assert_eq!(problem(liar.expect, &row("Complete", "None", "", 15), 15.0), None);
    assert!(problem(liar.expect, &row("Failed", "ClusterUpgradeTimeout", "", 15), 15.0).is_some());
}

#[test]
fn the_cause_of_a_time_out_is_what_the_cluster_waited_for() {
    let failed = |reason| row("Failed", reason, "told in words", 1);
    let timed_out = failed("ClusterUpgradeTimeout");
    assert_eq!(cause(&timed_out, Some("AgentSilent")), "AgentSilent");
    assert_eq!(cause(&timed_out, Some("Running")), "ClusterUpgradeTimeout");
    assert_eq!(cause(&timed_out, None), "ClusterUpgradeTimeout");
    assert_eq!(
        cause(&failed("PostActionFailed"), Some("AgentSilent")),
        "PostActionFailed"
    );
}

#[test]
fn reasons_are_noted_until_a_cluster_has_ended_and_not_before_it_has_begun() {
    let mut queued = row("Pending", "WaitingForSlot", "", 1);
    queued.steps.clear();
    let mut noted = BTreeMap::new();
    let mut note = |row| note_reasons(&BTreeMap::from([("a".to_owned(), row)]), &mut noted);
    note(queued);
    note(row("Partial", "Progressing", "", 1));
    note(row("Partial", "Failing", "", 1));
    note(row("Failed", "ClusterUpgradeTimeout", "", 1));
    assert_eq!(noted, BTreeMap::from([("a".to_owned(), "Failing".to_owned())]));
}

#[test]
fn a_cluster_without_a_row_is_a_mismatch() {
    let clusters = [("a".to_owned(), of("healthy"))];
    let (tallies, mismatches) = judge(&clusters, &BTreeMap::new(), (1.0, false));
    assert_eq!(mismatches.len(), 1);
    assert_eq!((tallies[0].clusters, tallies[0].mismatches), (1, 1));
    let rows = BTreeMap::from([("a".to_owned(), row("Complete", "None", "", 9))]);
    assert_eq!(judge(&clusters, &rows, (1.0, false)).1, []);
}

#[test]
fn a_cluster_that_tells_of_its_cause_first_must_not_start() {
    let gate = of("gate").expected(true);
    assert_eq!(gate, Expect::Blocked("AdminAckRequired"));
    let mut blocked = row("Blocked", "AdminAckRequired", "", 1);
    assert!(problem(gate, &blocked, 1.0).is_some(), "it has started");
    blocked.steps.clear();
    assert_eq!(problem(gate, &blocked, 1.0), None);
    blocked.reason = "NotOffered".to_owned();
    assert!(problem(gate, &blocked, 1.0).is_some());
    assert_eq!(
        of("gate-acknowledged").expected(true),
        Expect::CompleteAfter("AdminAckRequired")
    );
    assert_eq!(of("unverified").expected(true), of("unverified").expect);
}

#[test]
fn a_slot_is_held_from_the_start_of_an_update_to_its_end_or_to_its_failure() {
    let done = row("Complete", "None", "", 9);
    let mut failed = row("Failed", "ClusterUpgradeTimeout", "", 9);
    failed.steps[0].finished_at = None;
    let mut waits = row("Blocked", "NotOffered", "", 9);
    waits.steps.clear();
    let rows = [("a", done), ("b", failed), ("c", waits)];
    let rows = rows.map(|(name, row)| (name.to_owned(), row)).into();
    assert!((slot_seconds(&rows) - 69.0).abs() < f64::EPSILON);
}

#[test]
fn without_gaps_the_canaries_go_first_and_then_each_takes_the_first_free_slot() {
    let mut canary = row("Complete", "None", "", 5);
    canary.canary = true;
    // Platform for 10, 20 and 30 seconds, each with its soak complete a minute after its start.
    let others = [10, 20, 30].map(|seconds| row("Complete", "None", "", seconds));
    let rows: BTreeMap<String, ReportRow> = std::iter::once(canary)
        .chain(others)
        .enumerate()
        .map(|(index, row)| (format!("c{index}"), row))
        .collect();
    let is = |slots, seconds: f64| (gapless_seconds(&rows, slots) - seconds).abs() < f64::EPSILON;
    assert!(is(3, 60.0 + 60.0));
    // The third takes the slot of the first.
    assert!(is(2, 60.0 + 10.0 + 60.0));
    assert!(is(1, 60.0 + 10.0 + 20.0 + 60.0));
    assert!(gapless_seconds(&BTreeMap::new(), 0).abs() < f64::EPSILON);
}
