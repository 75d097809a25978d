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
        let condition = ClusterOperatorCondition::new(Time::UNIX_EPOCH, kind, status, *reason, *message);
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
        (None, ClusterVersionState::Idle, "Cluster version is 4.14.1"),
        (
            Some(INVALID_SPEC),
            ClusterVersionState::Blocked,
            "The cluster version is invalid: x",
        ),
        (
            Some(REFUSED),
            ClusterVersionState::Blocked,
            "PreconditionChecks: Preconditions failed",
        ),
        (
            Some(GATE),
            ClusterVersionState::Blocked,
            "The cluster runs 4.14.1 and blocks updates to another minor version: AdminAckRequired: Read this.",
        ),
        (
            Some(POOLS),
            ClusterVersionState::WorkersPending,
            "4.14.1 is applied except on some nodes: PoolUpdating: pools",
        ),
        (
            Some(MONITORING),
            ClusterVersionState::Failing,
            "ClusterOperatorNotAvailable: Cluster operator monitoring is not available",
        ),
        (
            Some(NODES),
            ClusterVersionState::WorkersPending,
            "4.14.1 is applied except on some nodes: ClusterOperatorDegraded: Cluster operator machine-config is degraded",
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
        (0, None, ClusterVersionState::Updating, working),
        (95, Some(SLOW), ClusterVersionState::Updating, working),
        (5, Some(DOWN), ClusterVersionState::Failing, down),
        (30, Some(DOWN), ClusterVersionState::Stalled, down),
        (
            24 * 60,
            None,
            ClusterVersionState::Stalled,
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
            "The cluster blocks updates to another minor version: PoolUpdating: pools",
            "The cluster cannot retrieve updates: NoChannel: The update channel has not been configured.",
            "The cluster-version operator has observed generation 1 of 3",
        ]
    );
}

#[test]
fn an_object_that_does_not_say_enough_is_never_idle() {
    let judged = |text: &str| {
        let object = &read_documents(&format!("kind: ClusterVersion\n{text}")).unwrap()[0];
        let Assessment { state, cause, .. } = assess(object, None);
        (state, cause)
    };
    let completed = "desired: {version: 4.14.1}, history: [{state: Completed, version: 4.14.1}]";
    for (text, state, cause) in [
        (
            "spec: {}".to_owned(),
            ClusterVersionState::Unknown,
            "The object has no status",
        ),
        (
            "status: {conditions: [{type: Progressing, status: 'False'}]}".to_owned(),
            ClusterVersionState::Unknown,
            "The history is empty, so it is not known whether any release is applied",
        ),
        (
            format!("status: {{{completed}}}"),
            ClusterVersionState::Unknown,
            "The object has no condition Progressing",
        ),
        (
            format!("status: {{{completed}, conditions: [{{type: Progressing, status: Unknown}}]}}"),
            ClusterVersionState::Unknown,
            "Progressing is neither True nor False: Progressing=Unknown",
        ),
        (
            format!(
                "status: {{{completed}, conditions: [{{type: Upgradeable, status: 'False', reason: R}}]}}"
            ),
            ClusterVersionState::Unknown,
            "The object has no condition Progressing",
        ),
        (
            format!("status: {{{completed}, conditions: [{{type: Progressing, status: 'False'}}]}}"),
            ClusterVersionState::Idle,
            "Cluster version is 4.14.1",
        ),
    ] {
        assert_eq!(judged(&text), (state, cause.to_owned()), "{text}");
    }
}

#[test]
fn an_object_that_contradicts_itself_is_never_idle() {
    const UP: Said = ("Available", "True", "", "Done applying 4.14.1");
    const AWAY: Said = ("Available", "False", "X", "down");
    let judged = |state: &str, conditions: &[Said]| {
        let Assessment { state, cause, notes } = assess(&object(conditions, state), None);
        (state, cause, notes)
    };
    let standstill = "4.14.1 is not fully applied, but Progressing is not True";
    assert_eq!(
        judged("Partial", &[UP]),
        (ClusterVersionState::Stalled, standstill.to_owned(), Vec::new())
    );
    assert_eq!(
        judged("Partial", &[UP, SETTLED]),
        (
            ClusterVersionState::Stalled,
            format!("{standstill}: Cluster version is 4.14.1"),
            Vec::new()
        )
    );
    assert_eq!(
        judged("Partial", &[SETTLED, NODES]).0,
        ClusterVersionState::Failing,
        "a release that is not completed does not wait for workers alone"
    );
    assert_eq!(
        judged("Completed", &[WORKING]),
        (ClusterVersionState::Updating, WORKING.3.to_owned(), Vec::new())
    );
    let mute = judged("Partial", &[("Progressing", "True", "", "")]);
    assert_eq!(mute.1, "An update is in progress");
    assert_eq!(
        judged("Completed", &[AWAY, SETTLED]),
        (ClusterVersionState::Failing, "X: down".to_owned(), Vec::new())
    );
    assert_eq!(
        judged("Partial", &[AWAY, WORKING]),
        (
            ClusterVersionState::Updating,
            WORKING.3.to_owned(),
            vec!["The cluster is not available: X: down".to_owned()]
        )
    );
}

#[test]
fn only_a_degraded_machine_config_is_a_matter_of_nodes() {
    const AWAY: Said = (
        "Failing",
        "True",
        "ClusterOperatorNotAvailable",
        "Cluster operator machine-config is not available",
    );
    let state = |failing: Said| assess(&object(&[SETTLED, failing], "Completed"), None).state;
    assert_eq!(state(NODES), ClusterVersionState::WorkersPending);
    assert_eq!(state(AWAY), ClusterVersionState::Failing);
}

#[test]
fn without_a_history_no_release_is_applied() {
    let mut object = object(&[SETTLED, NODES], "Completed");
    object.status.history.clear();
    assert_eq!(assess(&object, None).state, ClusterVersionState::Failing);
}

#[test]
fn a_refused_release_does_not_hide_that_the_cluster_is_failing() {
    let assessment = assess(&object(&[SETTLED, REFUSED, DOWN], "Completed"), None);
    assert_eq!(assessment.state, ClusterVersionState::Blocked);
    let failing = "The cluster is failing: UpdatePayloadClusterDown: down";
    assert!(
        assessment.notes.iter().any(|note| note == failing),
        "{assessment:?}"
    );
}
