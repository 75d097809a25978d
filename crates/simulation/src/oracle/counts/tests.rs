use serde_json::json;

use super::*;

#[test]
fn counts_causes_and_times_that_contradict_each_other_are_found() {
    let cause = json!({"reason": "R", "phase": "Failed", "clusters": 2, "remedy": "Fix it."});
    let status = json!({
        "phases": {"Failed": 2, "Pending": 1},
        "clustersSummery": {"total": 3, "failed": 2, "pending": 1},
        "causes": [cause], "failedClusters": [{"phase": "Failed", "reason": "R"}],
        "conditions": [{"type": "Stalled", "status": "True", "reason": "S"}, {"type": "Ready", "reason": "S"}],
    });
    assert_eq!(contradiction(&status), None);
    for (pointer, value, expected) in [
        ("/phases/Pending", json!(2), "phases and total"),
        (
            "/causes/0/clusters",
            json!(3),
            "more causes than clusters in a phase",
        ),
        (
            "/causes/0/clusters",
            json!(1),
            "clusters that need a human and have no cause",
        ),
        (
            "/failedClusters/0/reason",
            json!("X"),
            "a listed cluster without a cause",
        ),
        ("/causes/0/remedy", json!(""), "a cause without a remedy"),
        (
            "/conditions/1/reason",
            json!("T"),
            "Ready and Stalled with different reasons",
        ),
    ] {
        let mut wrong = status.clone();
        *wrong.pointer_mut(pointer).unwrap() = value;
        assert_eq!(contradiction(&wrong), Some(expected), "{pointer}");
    }
    let mut warned = status.clone();
    warned["waitingClusters"] = json!([{"phase": "Pending", "reason": "WaitingForSlot"}]);
    let cause = json!({"reason": "NotOffered", "phase": "Pending", "clusters": 1, "remedy": "Look."});
    warned["causes"].as_array_mut().unwrap().push(cause);
    assert_eq!(contradiction(&warned), Some("a listed cluster without a cause"));
    warned["preflight"] = json!({"blocked": 1});
    assert_eq!(contradiction(&warned), None, "it says that to the update");
    let mut wrong = status;
    wrong["completedAt"] = json!("2026-03-01T10:00:00Z");
    assert_eq!(contradiction(&wrong), Some("Complete and completedAt"));
}

#[test]
fn bounds_reasons_and_generations_of_a_status_are_checked() {
    let one = json!({"name": "c1", "phase": "Failed", "reason": "R", "message": "m"});
    let ready = json!({"type": "Ready", "status": "False", "reason": "R", "observedGeneration": 3});
    let status = json!({
        "observedGeneration": 3, "conditions": [ready], "failedClusters": [one], "waitingClusters": [],
        "preUpgradeActionSummary": {"total": 3, "applied": 2, "available": 1, "progressing": 1, "degraded": 1},
    });
    assert_eq!(excess(&status), None);
    let long = |length: usize| json!("x".repeat(length));
    for (pointer, value, expected) in [
        ("/conditions/0/message", long(16_384), "a status of 16 KiB"),
        (
            "/failedClusters/0/message",
            long(257),
            "a message about a cluster that is too long",
        ),
        (
            "/failedClusters/0/reason",
            json!("None"),
            "a listed cluster without a reason",
        ),
        ("/conditions/0/reason", json!(""), "a condition without a reason"),
        (
            "/conditions/0/status",
            json!("Unknown"),
            "a condition that is neither True nor False",
        ),
        (
            "/conditions/0/observedGeneration",
            json!(2),
            "a condition of another generation",
        ),
        (
            "/observedGeneration",
            json!(4),
            "a condition of another generation",
        ),
        (
            "/preUpgradeActionSummary/progressing",
            json!(2),
            "preUpgradeActionSummary",
        ),
        (
            "/preUpgradeActionSummary/applied",
            json!(4),
            "preUpgradeActionSummary",
        ),
    ] {
        let mut wrong = status.clone();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        wrong.pointer_mut(parent).unwrap()[field] = value;
        assert_eq!(excess(&wrong), Some(expected), "{pointer}");
    }
}
