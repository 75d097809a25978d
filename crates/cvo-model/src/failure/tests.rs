use super::*;

fn operator(name: &str, problem: OperatorProblem) -> TaskError {
    TaskError::Operator {
        name: name.to_owned(),
        problem,
        since: Time::UNIX_EPOCH,
    }
}

fn manifest(problem: ManifestProblem) -> TaskError {
    TaskError::Manifest {
        problem,
        task: "deployment \"ns/name\" (412 of 863)".to_owned(),
        error: "boom".to_owned(),
    }
}

fn said(errors: &[TaskError]) -> (String, String) {
    let error = condense(errors, false).unwrap();
    (error.reason, error.message)
}

#[test]
fn operators_with_one_problem_are_named_together() {
    use OperatorProblem::{Degraded, NoVersions, NotAvailable, Updating};
    for (errors, reason, message) in [
        (
            vec![operator("etcd", Degraded)],
            "ClusterOperatorDegraded",
            "Cluster operator etcd is degraded",
        ),
        (
            vec![operator("kube-apiserver", Degraded), operator("etcd", Degraded)],
            "ClusterOperatorsDegraded",
            "Cluster operators etcd, kube-apiserver are degraded",
        ),
        (
            vec![operator("monitoring", NotAvailable)],
            "ClusterOperatorNotAvailable",
            "Cluster operator monitoring is not available",
        ),
        (
            vec![operator("b", NotAvailable), operator("a", NotAvailable)],
            "ClusterOperatorsNotAvailable",
            "Cluster operators a, b are not available",
        ),
        (
            vec![operator("a", NoVersions)],
            "ClusterOperatorNoVersions",
            "Cluster operator a does not declare expected versions",
        ),
        (
            vec![operator("a", Updating), operator("b", Updating)],
            "ClusterOperatorsUpdating",
            "Cluster operators a, b are updating versions",
        ),
    ] {
        assert_eq!(said(&errors), (reason.to_owned(), message.to_owned()));
    }
    assert_eq!(condense(&[], false), None);
}

#[test]
fn manifests_have_a_reason_and_a_cause() {
    for problem in ManifestProblem::ALL {
        let (reason, message) = said(&[manifest(problem)]);
        assert_eq!(reason, problem.reason());
        let cause = if problem == ManifestProblem::Failed {
            "boom"
        } else {
            problem.cause()
        };
        assert_eq!(
            message,
            format!("Could not update deployment \"ns/name\" (412 of 863): {cause}")
        );
    }
}

#[test]
fn several_kinds_are_listed_and_what_goes_on_is_left_out_of_the_failure() {
    let errors = [
        operator("network", OperatorProblem::Updating),
        operator("monitoring", OperatorProblem::NotAvailable),
        manifest(ManifestProblem::ClusterDown),
    ];
    let error = condense(&errors, false).unwrap();
    assert_eq!(error.reason, "MultipleErrors");
    assert_eq!(
        error.message,
        "Multiple errors are preventing progress:\n* Cluster operator monitoring is not available\n* Cluster operator network is updating versions\n* Could not update deployment \"ns/name\" (412 of 863): the server is down or not responding"
    );
    assert_eq!(
        error.without_progress().unwrap().message,
        "Multiple errors are preventing progress:\n* Cluster operator monitoring is not available\n* Could not update deployment \"ns/name\" (412 of 863): the server is down or not responding"
    );
    let one_left = condense(&errors[..2], false).unwrap().without_progress().unwrap();
    assert_eq!(one_left.reason, "ClusterOperatorNotAvailable");
}

#[test]
fn a_summary_is_for_people() {
    for (errors, expected) in [
        (
            vec![manifest(ManifestProblem::ClusterDown)],
            "the control plane is down or not responding",
        ),
        (
            vec![manifest(ManifestProblem::ResourceNotFound)],
            "some resources could not be updated",
        ),
        (
            vec![manifest(ManifestProblem::Failed)],
            "the update could not be applied",
        ),
        (
            vec![operator("x", OperatorProblem::Degraded)],
            "the cluster operator x is degraded",
        ),
        (
            vec![
                operator("x", OperatorProblem::NotAvailable),
                operator("y", OperatorProblem::NotAvailable),
            ],
            "some cluster operators are not available",
        ),
        (
            vec![
                operator("x", OperatorProblem::Degraded),
                operator("y", OperatorProblem::Degraded),
            ],
            "x, y has an unknown error: ClusterOperatorsDegraded",
        ),
        (
            vec![
                operator("x", OperatorProblem::Degraded),
                manifest(ManifestProblem::Failed),
            ],
            "an unknown error has occurred: MultipleErrors",
        ),
    ] {
        assert_eq!(condense(&errors, false).unwrap().summary(), expected);
    }
}

#[test]
fn an_operator_is_judged_by_available_then_degraded_then_its_version() {
    use ConditionStatus::{False, True, Unknown};
    use OperatorProblem::{Degraded, NotAvailable, Updating};

    use clusterversion::types::{ClusterOperatorCondition, ConditionStatus, Conditions};

    let state = |available, degraded, version: &str| {
        let mut conditions = Conditions::default();
        for (kind, status) in [("Available", available), ("Degraded", degraded)] {
            conditions.set(ClusterOperatorCondition::new(
                Time::UNIX_EPOCH,
                kind,
                status,
                "",
                "",
            ));
        }
        OperatorState {
            name: "x".to_owned(),
            conditions,
            version: version.to_owned(),
        }
    };
    for (operator, expected) in [
        (state(True, False, "4.14.2"), None),
        (state(True, False, "4.14.1"), Some(Updating)),
        (state(True, True, "4.14.2"), Some(Degraded)),
        (state(True, Unknown, "4.14.2"), Some(Degraded)),
        (state(False, True, "4.14.1"), Some(NotAvailable)),
        (state(Unknown, False, "4.14.2"), Some(NotAvailable)),
    ] {
        assert_eq!(OperatorProblem::of(&operator, "4.14.2", false), expected);
    }
    assert_eq!(OperatorProblem::of(&state(True, False, ""), "4.14.2", true), None);
}
