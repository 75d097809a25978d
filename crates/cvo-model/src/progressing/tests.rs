use super::*;
use crate::failure::{ManifestProblem, OperatorProblem};

const A: Era = Era::new(4, 14);
const B: Era = Era::new(4, 16);

fn at(minutes: i64) -> Time {
    Time::UNIX_EPOCH + TimeDelta::minutes(minutes)
}

fn operator(name: &str, problem: OperatorProblem) -> TaskError {
    TaskError::Operator {
        name: name.to_owned(),
        problem,
        since: at(0),
    }
}

fn updating(done: u32, errors: Vec<TaskError>) -> Round {
    Round {
        state: RoundState::Updating,
        done,
        total: 859,
        errors,
        ..Round::default()
    }
}

fn reconciling(errors: Vec<TaskError>) -> Round {
    Round {
        completed: true,
        errors,
        ..Round::default()
    }
}

/// Failing and Progressing, as `status reason message`.
fn said(minute: i64, round: &Round, invalid: bool, era: Era) -> [String; 2] {
    let mut conditions = Conditions::default();
    let subject = ConditionSubject {
        version: "4.14.1",
        invalid,
        has_history: true,
    };
    write(at(minute), &mut conditions, round, subject, era);
    [FAILING, PROGRESSING].map(|kind| {
        let condition = conditions.get(kind).unwrap();
        let text = format!("{} {} {}", condition.status, condition.reason, condition.message);
        text.trim().to_owned()
    })
}

#[test]
fn progress_is_counted_and_cut_not_rounded() {
    use OperatorProblem::Updating;
    for (round, expected) in [
        (updating(0, vec![]), "True  Working towards 4.14.1"),
        (
            updating(734, vec![]),
            "True  Working towards 4.14.1: 734 of 859 done (85% complete)",
        ),
        (
            updating(139, vec![operator("kube-scheduler", Updating)]),
            "True ClusterOperatorUpdating Working towards 4.14.1: 139 of 859 done (16% complete), waiting on kube-scheduler",
        ),
        (
            updating(
                106,
                vec![operator("kube-apiserver", Updating), operator("etcd", Updating)],
            ),
            "True ClusterOperatorsUpdating Working towards 4.14.1: 106 of 859 done (12% complete), waiting on etcd, kube-apiserver",
        ),
        (
            updating(0, vec![operator("etcd", Updating)]),
            "True ClusterOperatorUpdating Working towards 4.14.1: waiting on etcd",
        ),
        (
            updating(300, vec![operator("cluster-api", OperatorProblem::Degraded)]),
            "True ClusterOperatorDegraded Working towards 4.14.1: 300 of 859 done (34% complete), waiting up to 40 minutes on cluster-api",
        ),
    ] {
        assert_eq!(
            said(5, &round, false, B),
            ["False".to_owned(), expected.to_owned()]
        );
    }
}

#[test]
fn a_degraded_operator_fails_an_update_after_40_minutes() {
    use OperatorProblem::Degraded;
    let round = updating(
        300,
        vec![operator("kube-apiserver", Degraded), operator("etcd", Degraded)],
    );
    assert!(said(40, &round, false, B)[1].ends_with("waiting up to 40 minutes on etcd, kube-apiserver"));
    assert_eq!(
        said(41, &round, false, A),
        [
            "True ClusterOperatorsDegraded Cluster operators etcd, kube-apiserver are degraded",
            "True ClusterOperatorsDegraded Unable to apply 4.14.1: wait has exceeded 40 minutes for these operators: etcd, kube-apiserver",
        ]
    );
    assert_eq!(wake_at(at(10), &round, B), Some(at(40) + TimeDelta::seconds(1)));
    assert_eq!(wake_at(at(41), &round, B), None);
}

#[test]
fn a_slow_operator_is_a_suspicion_from_4_16_on() {
    let waits = |names: &[&str]| {
        updating(
            300,
            names
                .iter()
                .map(|name| operator(name, OperatorProblem::Updating))
                .collect(),
        )
    };
    for (minute, names, expected) in [
        (
            31,
            vec!["etcd"],
            "waiting on etcd over 30 minutes which is longer than expected",
        ),
        (
            31,
            vec!["etcd", "machine-config"],
            "waiting on etcd over 30 minutes which is longer than expected",
        ),
        (
            91,
            vec!["machine-config"],
            "waiting on machine-config over 90 minutes which is longer than expected",
        ),
        (
            91,
            vec!["etcd", "machine-config", "network"],
            "waiting on etcd, network over 30 minutes and machine-config over 90 minutes which is longer than expected",
        ),
    ] {
        let [failing, progressing] = said(minute, &waits(&names), false, B);
        assert_eq!(failing, format!("Unknown SlowClusterOperator {expected}"));
        assert!(progressing.ends_with(expected), "{progressing}");
        assert!(progressing.starts_with("True ClusterOperator"), "{progressing}");
        assert_eq!(said(minute, &waits(&names), false, A)[0], "False");
    }
    assert_eq!(said(30, &waits(&["etcd"]), false, B)[0], "False");
    assert_eq!(said(90, &waits(&["machine-config"]), false, B)[0], "False");
    assert_eq!(
        wake_at(at(0), &waits(&["machine-config", "etcd"]), B),
        Some(at(30) + TimeDelta::seconds(1))
    );
    assert_eq!(wake_at(at(0), &waits(&["etcd"]), A), None);
}

#[test]
fn an_operator_that_is_not_available_and_a_manifest_fail_at_once() {
    let not_available = updating(300, vec![operator("monitoring", OperatorProblem::NotAvailable)]);
    assert_eq!(
        said(0, &not_available, false, B),
        [
            "True ClusterOperatorNotAvailable Cluster operator monitoring is not available",
            "True ClusterOperatorNotAvailable Unable to apply 4.14.1: the cluster operator monitoring is not available",
        ]
    );
    let down = TaskError::Manifest {
        problem: ManifestProblem::ClusterDown,
        task: "deployment \"ns/name\" (412 of 863)".to_owned(),
        error: String::new(),
    };
    assert_eq!(
        said(0, &updating(300, vec![down]), false, B),
        [
            "True UpdatePayloadClusterDown Could not update deployment \"ns/name\" (412 of 863): the server is down or not responding",
            "True UpdatePayloadClusterDown Unable to apply 4.14.1: the control plane is down or not responding",
        ]
    );
}

#[test]
fn after_an_update_there_is_no_grace() {
    for (round, expected) in [
        (reconciling(vec![]), ["False", "False  Cluster version is 4.14.1"]),
        (
            reconciling(vec![operator("machine-config", OperatorProblem::Degraded)]),
            [
                "True ClusterOperatorDegraded Cluster operator machine-config is degraded",
                "False ClusterOperatorDegraded Error while reconciling 4.14.1: the cluster operator machine-config is degraded",
            ],
        ),
    ] {
        assert_eq!(said(0, &round, false, B), expected);
    }
}

#[test]
fn an_invalid_spec_stops_nothing_that_runs() {
    assert_eq!(
        said(0, &reconciling(vec![]), true, B)[1],
        "False InvalidClusterVersion Stopped at 4.14.1: the cluster version is invalid"
    );
    assert_eq!(
        said(0, &updating(300, vec![]), true, B)[1],
        "True InvalidClusterVersion Reconciling 4.14.1: the cluster version is invalid"
    );
}

#[test]
fn available_is_false_only_before_the_first_installation_is_complete() {
    let subject = ConditionSubject {
        version: "4.14.1",
        invalid: false,
        has_history: true,
    };
    let mut conditions = Conditions::default();
    let installing = Round {
        state: RoundState::Initializing,
        ..updating(10, vec![])
    };
    write(at(0), &mut conditions, &installing, subject, B);
    assert!(conditions.get(AVAILABLE).unwrap().is_false());
    write(at(30), &mut conditions, &reconciling(vec![]), subject, B);
    assert_eq!(conditions.get(AVAILABLE).unwrap().message, "Done applying 4.14.1");
    // During the next update it is still about the last completed one.
    let next = ConditionSubject {
        version: "4.14.2",
        ..subject
    };
    write(at(60), &mut conditions, &updating(10, vec![]), next, B);
    assert_eq!(conditions.get(AVAILABLE).unwrap().message, "Done applying 4.14.1");
    assert_eq!(
        conditions.get(AVAILABLE).unwrap().last_transition_time,
        Some(at(30))
    );
}

#[test]
fn while_installing_a_degraded_operator_is_told_and_waits_for_nothing() {
    let round = Round {
        state: RoundState::Initializing,
        ..updating(300, vec![operator("x", OperatorProblem::Degraded)])
    };
    assert_eq!(
        said(0, &round, false, B),
        [
            "True ClusterOperatorDegraded Cluster operator x is degraded",
            "True ClusterOperatorDegraded Unable to apply 4.14.1: Cluster operator x is degraded",
        ]
    );
}
