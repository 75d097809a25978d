use serde_json::json;

use super::*;

fn upgrade(states: &[(&str, &str)]) -> Upgrade {
    let approvals: Vec<_> = states
        .iter()
        .map(|(name, state)| json!({"name": name, "state": state, "planHash": "1a2b", "approver": "anna", "changed": "the spec"}))
        .collect();
    Upgrade::read(json!({
        "metadata": {"name": "spring", "namespace": "fleet", "uid": "u1", "generation": 1},
        "spec": {"clusterVersion": {"version": "4.20.0"}},
        "status": {"observedGeneration": 1, "approvals": approvals,
            "clustersSummery": {"total": 3, "initialized": 1, "partialUpgrade": 0, "complete": 1, "failed": 0, "pending": 2},
            "causes": [{"reason": "AdminAckRequired", "phase": "Blocked", "clusters": 2, "example": "b", "message": "ack-4.19", "remedy": ""}]},
    }))
}

#[test]
fn only_a_checkpoint_that_waits_can_be_approved() {
    let one = upgrade(&[("first", "Approved"), ("half", "Waiting"), ("rest", "Ahead")]);
    assert_eq!(waiting(&one, None).unwrap().name, "half");
    assert_eq!(waiting(&one, Some("half")).unwrap().name, "half");
    for (name, text) in [
        ("first", "approved already, by anna"),
        ("rest", "not reached"),
        ("other", "it has first, half, rest"),
    ] {
        let error = waiting(&one, Some(name)).unwrap_err();
        assert!(error.contains(text), "{error}");
    }
    let two = upgrade(&[("a", "Waiting"), ("b", "Waiting")]);
    assert!(waiting(&two, None).unwrap_err().ends_with("name one: a, b"));
    let none = upgrade(&[]);
    assert!(waiting(&none, None).unwrap_err().contains("no approval"));
    assert!(waiting(&none, Some("a")).unwrap_err().contains("no checkpoints"));
    let mut edited = one;
    edited.generation = 2;
    assert!(waiting(&edited, None).unwrap_err().contains("newest spec"));
}

#[test]
fn what_is_approved_is_shown_with_what_changed_and_what_holds_clusters() {
    let upgrade = upgrade(&[("half", "Waiting")]);
    let checkpoint = waiting(&upgrade, None).unwrap();
    assert_eq!(
        summary(&upgrade, checkpoint),
        "Checkpoint half of fleet/spring, plan 1a2b\n  target 4.20.0, 1 of 3 clusters complete, 0 failed, 2 pending\n  \
         changed since the last approval: the spec\n  2 Blocked (AdminAckRequired): ack-4.19\n"
    );
}

#[test]
fn clusters_that_are_left_out_are_no_pending_ones() {
    let mut upgrade = upgrade(&[("half", "Waiting")]);
    let status = upgrade.status.as_mut().unwrap();
    status.phases.extend([
        ("Complete".to_owned(), 1),
        ("Pending".to_owned(), 1),
        ("Skipped".to_owned(), 1),
    ]);
    let text = summary(&upgrade, waiting(&upgrade, None).unwrap());
    assert!(
        text.contains("1 of 3 clusters complete, 0 failed, 1 pending, 1 skipped\n"),
        "{text}"
    );
}

#[test]
fn an_approval_names_the_plan_as_it_is_and_who_approves() {
    let upgrade = upgrade(&[("half", "Waiting")]);
    let checkpoint = waiting(&upgrade, None).unwrap();
    let now = DateTime::UNIX_EPOCH;
    let made = approval(
        &upgrade,
        checkpoint,
        "anna",
        " CHG0042 ",
        (now, Some(TimeDelta::hours(4))),
    )
    .unwrap();
    assert_eq!(
        serde_json::to_value(&made).unwrap(),
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgradeApproval",
            "metadata": {"generateName": "spring-half-", "namespace": "fleet"},
            "spec": {"upgrade": "spring", "checkpoint": "half", "planHash": "1a2b", "approver": "anna", "message": "CHG0042",
                "expires": "1970-01-01T04:00:00Z"},
        })
    );
    assert!(approval(&upgrade, checkpoint, "anna", &"x".repeat(201), (now, None)).is_err());
    let at_once = (now, Some(TimeDelta::zero()));
    assert!(approval(&upgrade, checkpoint, "anna", "", at_once).is_err());
}
