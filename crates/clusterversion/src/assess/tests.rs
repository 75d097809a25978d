use super::*;
use crate::types::{Release, Spec, read_documents};

fn object(conditions: &[(&str, &str, &str, &str)], state: &str) -> ClusterVersion {
    let mut object = ClusterVersion::new(Spec::default());
    object.status.desired = Release::new("4.14.1", "image/1");
    object.status.history = vec![HistoryEntry {
        state: state.to_owned(),
        version: "4.14.1".to_owned(),
        started_time: Some(Time::UNIX_EPOCH),
        ..HistoryEntry::default()
    }];
    object.status.observed_generation = 1;
    for (kind, status, reason, message) in conditions {
        let status = match *status {
            "True" => ConditionStatus::True,
            "False" => ConditionStatus::False,
            _ => ConditionStatus::Unknown,
        };
        let condition = Condition::new(Time::UNIX_EPOCH, kind, status, *reason, *message);
        object.status.conditions.set(condition);
    }
    object
}

#[test]
fn each_state_has_its_cause() {
    let settled = ("Progressing", "False", "", "Cluster version is 4.14.1");
    let working = ("Progressing", "True", "", "Working towards 4.14.1: 12% complete");
    let pools = "Cluster operator machine-config should not be upgraded between minor versions: One or more machine config pools are updating, please see `oc get mcp` for further details";
    for (minutes, conditions, history, state, cause) in [
        (
            0,
            vec![settled],
            "Completed",
            State::Idle,
            "Cluster version is 4.14.1",
        ),
        (
            0,
            vec![working],
            "Partial",
            State::Updating,
            "Working towards 4.14.1: 12% complete",
        ),
        (
            0,
            vec![
                settled,
                (
                    "Invalid",
                    "True",
                    "InvalidClusterVersion",
                    "The cluster version is invalid: x",
                ),
            ],
            "Completed",
            State::Blocked,
            "The cluster version is invalid: x",
        ),
        (
            0,
            vec![
                settled,
                (
                    "ReleaseAccepted",
                    "False",
                    "PreconditionChecks",
                    "Preconditions failed",
                ),
            ],
            "Completed",
            State::Blocked,
            "PreconditionChecks: Preconditions failed",
        ),
        (
            0,
            vec![
                settled,
                ("Upgradeable", "False", "AdminAckRequired", "Read this."),
            ],
            "Completed",
            State::Blocked,
            "4.14.1 runs; updates to another minor version are blocked: AdminAckRequired: Read this.",
        ),
        (
            0,
            vec![settled, ("Upgradeable", "False", "PoolUpdating", pools)],
            "Completed",
            State::WorkersPending,
            "4.14.1 is applied but for nodes: PoolUpdating: Cluster operator machine-config should not be upgraded between minor versions: One or more machine config pools are updating, please see `oc get mcp` for further details",
        ),
        (
            0,
            vec![
                settled,
                (
                    "Failing",
                    "True",
                    "ClusterOperatorNotAvailable",
                    "Cluster operator monitoring is not available",
                ),
            ],
            "Completed",
            State::Failing,
            "ClusterOperatorNotAvailable: Cluster operator monitoring is not available",
        ),
        (
            0,
            vec![
                settled,
                (
                    "Failing",
                    "True",
                    "ClusterOperatorDegraded",
                    "Cluster operator machine-config is degraded",
                ),
            ],
            "Completed",
            State::WorkersPending,
            "4.14.1 is applied but for nodes: ClusterOperatorDegraded: Cluster operator machine-config is degraded",
        ),
        (
            5,
            vec![working, ("Failing", "True", "UpdatePayloadClusterDown", "down")],
            "Partial",
            State::Failing,
            "UpdatePayloadClusterDown: down (Working towards 4.14.1: 12% complete)",
        ),
        (
            30,
            vec![working, ("Failing", "True", "UpdatePayloadClusterDown", "down")],
            "Partial",
            State::Stalled,
            "UpdatePayloadClusterDown: down (Working towards 4.14.1: 12% complete)",
        ),
        (
            24 * 60,
            vec![working],
            "Partial",
            State::Stalled,
            "Working towards 4.14.1: 12% complete (for 24 hours)",
        ),
        (
            95,
            vec![
                working,
                (
                    "Failing",
                    "Unknown",
                    "SlowClusterOperator",
                    "waiting on etcd over 30 minutes",
                ),
            ],
            "Partial",
            State::Updating,
            "Working towards 4.14.1: 12% complete",
        ),
    ] {
        let assessment = assess(
            &object(&conditions, history),
            Some(Time::UNIX_EPOCH + TimeDelta::minutes(minutes)),
        );
        assert_eq!(
            (assessment.state, assessment.cause.as_str()),
            (state, cause),
            "{conditions:?}"
        );
    }
}

#[test]
fn what_else_matters_is_noted() {
    let mut object = object(
        &[
            ("Progressing", "True", "", "Working"),
            (
                "Failing",
                "Unknown",
                "SlowClusterOperator",
                "waiting on etcd over 30 minutes",
            ),
            ("Upgradeable", "False", "PoolUpdating", "pools"),
            (
                "RetrievedUpdates",
                "False",
                "NoChannel",
                "The update channel has not been configured.",
            ),
            ("ReleaseAccepted", "False", "RetrievePayload", "no such image"),
        ],
        "Partial",
    );
    object.metadata.generation = 3;
    assert_eq!(
        assess(&object, None).notes,
        [
            "SlowClusterOperator: waiting on etcd over 30 minutes",
            "RetrievePayload: no such image",
            "updates to another minor version are blocked: PoolUpdating: pools",
            "no updates are retrieved: NoChannel: The update channel has not been configured.",
            "the operator has taken up generation 1 of 3",
        ]
    );
}

#[test]
fn an_object_without_status_is_idle_and_has_a_text() {
    let object = &read_documents("kind: ClusterVersion\nspec: {}\n").unwrap()[0];
    assert_eq!(assess(object, None).state, State::Idle);
}
