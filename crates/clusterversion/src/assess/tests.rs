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

type Said = (&'static str, &'static str, &'static str, &'static str);

const SETTLED: Said = ("Progressing", "False", "", "Cluster version is 4.14.1");
const WORKING: Said = ("Progressing", "True", "", "Working towards 4.14.1: 12% complete");
const DOWN: Said = ("Failing", "True", "UpdatePayloadClusterDown", "down");
const SLOW: Said = (
    "Failing",
    "Unknown",
    "SlowClusterOperator",
    "waiting on etcd over 30 minutes",
);
const INVALID_SPEC: Said = (
    "Invalid",
    "True",
    "InvalidClusterVersion",
    "The cluster version is invalid: x",
);
const REFUSED: Said = (
    "ReleaseAccepted",
    "False",
    "PreconditionChecks",
    "Preconditions failed",
);
const GATE: Said = ("Upgradeable", "False", "AdminAckRequired", "Read this.");
const POOLS: Said = ("Upgradeable", "False", "PoolUpdating", "pools");
const MONITORING: Said = (
    "Failing",
    "True",
    "ClusterOperatorNotAvailable",
    "Cluster operator monitoring is not available",
);
const NODES: Said = (
    "Failing",
    "True",
    "ClusterOperatorDegraded",
    "Cluster operator machine-config is degraded",
);

#[test]
fn at_rest_each_state_has_its_cause() {
    for (also, state, cause) in [
        (None, State::Idle, "Cluster version is 4.14.1"),
        (
            Some(INVALID_SPEC),
            State::Blocked,
            "The cluster version is invalid: x",
        ),
        (
            Some(REFUSED),
            State::Blocked,
            "PreconditionChecks: Preconditions failed",
        ),
        (
            Some(GATE),
            State::Blocked,
            "4.14.1 runs; updates to another minor version are blocked: AdminAckRequired: Read this.",
        ),
        (
            Some(POOLS),
            State::WorkersPending,
            "4.14.1 is applied but for nodes: PoolUpdating: pools",
        ),
        (
            Some(MONITORING),
            State::Failing,
            "ClusterOperatorNotAvailable: Cluster operator monitoring is not available",
        ),
        (
            Some(NODES),
            State::WorkersPending,
            "4.14.1 is applied but for nodes: ClusterOperatorDegraded: Cluster operator machine-config is degraded",
        ),
    ] {
        let conditions: Vec<Said> = [SETTLED].into_iter().chain(also).collect();
        let assessment = assess(&object(&conditions, "Completed"), None);
        assert_eq!((assessment.state, assessment.cause.as_str()), (state, cause));
    }
}

#[test]
fn in_an_update_each_state_has_its_cause() {
    let working = "Working towards 4.14.1: 12% complete";
    let down = "UpdatePayloadClusterDown: down (Working towards 4.14.1: 12% complete)";
    for (minutes, also, state, cause) in [
        (0, None, State::Updating, working),
        (95, Some(SLOW), State::Updating, working),
        (5, Some(DOWN), State::Failing, down),
        (30, Some(DOWN), State::Stalled, down),
        (
            24 * 60,
            None,
            State::Stalled,
            "Working towards 4.14.1: 12% complete (for 24 hours)",
        ),
    ] {
        let conditions: Vec<Said> = [WORKING].into_iter().chain(also).collect();
        let now = Time::UNIX_EPOCH + TimeDelta::minutes(minutes);
        let assessment = assess(&object(&conditions, "Partial"), Some(now));
        assert_eq!((assessment.state, assessment.cause.as_str()), (state, cause));
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
