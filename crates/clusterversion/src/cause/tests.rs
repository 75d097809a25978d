use super::*;

const TARGET: Target<'_> = Target {
    version: "4.13.0",
    image: "",
};

/// A cluster at rest on 4.12.16, as the real objects show it.
const RESTING: Feedback<'_> = Feedback {
    version: Some("4.12.16"),
    state: Some("Completed"),
    verified: Some(true),
    message: Some("Cluster version is 4.12.16"),
    image: Some("quay.io/openshift-release-dev/ocp-release@sha256:5339"),
    desired_version: Some("4.12.16"),
    generation: Some(3),
    observed_generation: Some(3),
    failing: Some("False"),
    failing_reason: None,
    failing_message: None,
    invalid: None,
    invalid_message: None,
    release_accepted: Some("True"),
    release_accepted_reason: Some("PayloadLoaded"),
    release_accepted_message: Some(
        r#"Payload loaded version="4.12.16" image="quay.io/openshift-release-dev/ocp-release@sha256:5339" architecture="amd64""#,
    ),
    upgradeable: None,
    upgradeable_reason: None,
    upgradeable_message: None,
    retrieved_updates: Some("True"),
    retrieved_updates_reason: None,
    retrieved_updates_message: None,
    requested_version: None,
    requested_image: None,
    mode: None,
};

const NOT_AVAILABLE: &str = r#"The cluster version is invalid: spec.desiredUpdate.version: Invalid value: "4.13.0": when image is empty the update must be an available update"#;
const ACK: &str = "Kubernetes 1.26 and therefore OpenShift 4.13 remove several APIs which require admin consideration. Please see the knowledge article https://access.redhat.com/articles/6958394 for details and instructions.";
const PRECONDITION: &str = r#"Preconditions failed for payload loaded version="4.13.0" image="quay.io/openshift-release-dev/ocp-release@sha256:0123456789012345678901234567890123456789012345678901234567890123": Precondition "ClusterVersionUpgradeable" failed because of "PoolUpdating": Cluster operator machine-config should not be upgraded between minor versions"#;
const UNVERIFIED: &str = r#"Retrieving payload failed version="4.13.0" image="quay.io/x@sha256:aa" failure=The update cannot be verified: unable to verify sha256:aa against keyrings: verifier-public-key-redhat"#;

fn told(feedback: &Feedback<'_>, target: &Target<'_>) -> (String, String) {
    let cause = cause(feedback, target).unwrap();
    (cause.reason.to_owned(), cause.message)
}

fn check(feedback: &Feedback<'_>, reason: &str, message: &str) {
    assert_eq!(told(feedback, &TARGET), (reason.to_owned(), message.to_owned()));
}

#[test]
fn a_request_with_mode_preflight_is_named_before_what_the_check_finds_and_only_until_the_update_begins() {
    let checked = Feedback {
        mode: Some("Preflight"),
        release_accepted: Some("False"),
        release_accepted_message: Some(PRECONDITION),
        ..RESTING
    };
    let (reason, message) = told(&checked, &TARGET);
    assert_eq!(reason, reason::PREFLIGHT_ONLY);
    assert!(message.contains("spec.desiredUpdate.mode"), "{message}");
    let updating = Feedback {
        version: Some("4.13.0"),
        state: Some("Partial"),
        desired_version: Some("4.13.0"),
        mode: Some("Preflight"),
        ..RESTING
    };
    assert_eq!(told(&updating, &TARGET).0, reason::PROGRESSING);
    let update = Feedback {
        mode: Some("Upgrade"),
        ..RESTING
    };
    assert_eq!(told(&update, &TARGET).0, reason::NOT_STARTED);
}

#[test]
fn a_refused_request_names_its_field() {
    let refused = Feedback {
        invalid: Some("True"),
        invalid_message: Some(NOT_AVAILABLE),
        ..RESTING
    };
    check(&refused, reason::INVALID_UPDATE, NOT_AVAILABLE);
}

#[test]
fn a_refused_request_by_version_also_says_that_no_updates_were_retrieved() {
    let feedback = Feedback {
        invalid: Some("True"),
        invalid_message: Some("The cluster version is invalid: x"),
        retrieved_updates: Some("False"),
        retrieved_updates_reason: Some("NoChannel"),
        retrieved_updates_message: Some("The update channel has not been configured."),
        ..RESTING
    };
    check(
        &feedback,
        reason::INVALID_UPDATE,
        "The cluster version is invalid: x (NoChannel: The update channel has not been configured.)",
    );
}

#[test]
fn a_release_that_was_not_accepted_names_step_and_failure_without_the_digest() {
    let with = |reason, message| Feedback {
        release_accepted: Some("False"),
        release_accepted_reason: Some(reason),
        release_accepted_message: Some(message),
        ..RESTING
    };
    check(
        &with("PreconditionChecks", PRECONDITION),
        reason::RELEASE_NOT_ACCEPTED,
        r#"PreconditionChecks: Precondition "ClusterVersionUpgradeable" failed because of "PoolUpdating": Cluster operator machine-config should not be upgraded between minor versions"#,
    );
    check(
        &with("RetrievePayload", UNVERIFIED),
        reason::RELEASE_NOT_ACCEPTED,
        "RetrievePayload: The update cannot be verified: unable to verify sha256:aa against keyrings: verifier-public-key-redhat",
    );
}

#[test]
fn a_refusal_of_another_release_is_not_the_cause() {
    let earlier = Feedback {
        release_accepted: Some("False"),
        release_accepted_reason: Some("RetrievePayload"),
        release_accepted_message: Some(
            r#"Retrieving payload failed version="4.12.99" image="i" failure=gone"#,
        ),
        ..RESTING
    };
    check(&earlier, reason::NOT_STARTED, "Cluster version is 4.12.16");
    let by_image = Target {
        version: "",
        image: "i",
    };
    assert_eq!(told(&earlier, &by_image).0, reason::RELEASE_NOT_ACCEPTED);
}

#[test]
fn failing_is_a_cause_and_unhealthy_but_unknown_is_neither_failure_nor_unhealthy() {
    let failing = Feedback {
        failing: Some("True"),
        failing_reason: Some("ClusterOperatorNotAvailable"),
        failing_message: Some("Cluster operator monitoring is not available"),
        ..RESTING
    };
    let text = "ClusterOperatorNotAvailable: Cluster operator monitoring is not available";
    check(&failing, reason::FAILING, text);
    assert_eq!(unhealthy(&failing).unwrap().message, text);

    let slow = Feedback {
        failing: Some("Unknown"),
        failing_reason: Some("SlowClusterOperator"),
        failing_message: Some("waiting on etcd over 30 minutes which is longer than expected"),
        ..RESTING
    };
    check(
        &slow,
        reason::SLOW_CLUSTER_OPERATOR,
        "waiting on etcd over 30 minutes which is longer than expected",
    );
    assert_eq!(unhealthy(&slow), None);
    assert_eq!(unhealthy(&Feedback::default()), None);
}

#[test]
fn upgradeable_false_matters_only_to_another_minor_version() {
    let gated = Feedback {
        upgradeable: Some("False"),
        upgradeable_reason: Some("AdminAckRequired"),
        upgradeable_message: Some(ACK),
        ..RESTING
    };
    check(
        &gated,
        reason::NOT_UPGRADEABLE,
        &format!("AdminAckRequired: {ACK}"),
    );
    for version in ["4.12.17", "", "four"] {
        let target = Target { version, image: "" };
        assert_eq!(told(&gated, &target).0, reason::NOT_STARTED, "{version}");
    }
    let major = Target {
        version: "5.0.0",
        image: "",
    };
    assert_eq!(told(&gated, &major).0, reason::NOT_UPGRADEABLE);
}

#[test]
fn updates_that_were_not_retrieved_matter_only_to_a_request_by_version() {
    let feedback = Feedback {
        retrieved_updates: Some("False"),
        retrieved_updates_reason: Some("VersionNotFound"),
        retrieved_updates_message: Some(
            r#"Unable to retrieve available updates: currently reconciling cluster version 4.12.16 not found in the "chan" channel"#,
        ),
        ..RESTING
    };
    check(
        &feedback,
        reason::UPDATES_NOT_RETRIEVED,
        r#"VersionNotFound: Unable to retrieve available updates: currently reconciling cluster version 4.12.16 not found in the "chan" channel"#,
    );
    let by_image = Target {
        image: "quay.io/x@sha256:aa",
        ..TARGET
    };
    assert_eq!(told(&feedback, &by_image).0, reason::NOT_STARTED);
}

#[test]
fn a_release_under_retrieval_says_so() {
    let retrieving = Feedback {
        release_accepted: Some("Unknown"),
        release_accepted_reason: Some("RetrievePayload"),
        release_accepted_message: Some(r#"Retrieving and verifying payload version="4.13.0" image="i""#),
        ..RESTING
    };
    check(
        &retrieving,
        reason::RETRIEVING_RELEASE,
        r#"Retrieving and verifying payload version="4.13.0" image="i""#,
    );
}

#[test]
fn once_begun_only_what_concerns_a_running_update_is_named() {
    let running = Feedback {
        version: Some("4.13.0"),
        state: Some("Partial"),
        message: Some(
            "Working towards 4.13.0: 106 of 859 done (12% complete), waiting on etcd, kube-apiserver",
        ),
        upgradeable: Some("False"),
        upgradeable_reason: Some("UpdateInProgress"),
        retrieved_updates: Some("False"),
        retrieved_updates_reason: Some("VersionNotFound"),
        ..RESTING
    };
    check(
        &running,
        reason::PROGRESSING,
        "Working towards 4.13.0: 106 of 859 done (12% complete), waiting on etcd, kube-apiserver",
    );
    let degraded = Feedback {
        failing: Some("True"),
        failing_reason: Some("ClusterOperatorsDegraded"),
        failing_message: Some("Cluster operators etcd, kube-apiserver are degraded"),
        ..running
    };
    check(
        &degraded,
        reason::FAILING,
        "ClusterOperatorsDegraded: Cluster operators etcd, kube-apiserver are degraded",
    );
}

#[test]
fn reasons_come_in_their_order_of_priority() {
    let mut feedback = Feedback {
        mode: Some("Preflight"),
        invalid: Some("True"),
        release_accepted: Some("False"),
        release_accepted_message: None,
        failing: Some("True"),
        upgradeable: Some("False"),
        retrieved_updates: Some("False"),
        ..RESTING
    };
    let clear: [fn(&mut Feedback<'_>); 9] = [
        |f| f.mode = None,
        |f| f.invalid = None,
        |f| f.release_accepted = Some("Unknown"),
        |f| f.failing = Some("Unknown"),
        |f| f.upgradeable = None,
        |f| f.retrieved_updates = Some("True"),
        |f| f.release_accepted = Some("True"),
        |f| {
            f.failing = Some("False");
            f.version = Some("4.13.0");
        },
        |f| f.version = Some("4.12.16"),
    ];
    let mut seen = vec![cause(&feedback, &TARGET).unwrap().reason];
    for step in clear {
        step(&mut feedback);
        seen.push(cause(&feedback, &TARGET).unwrap().reason);
    }
    assert_eq!(seen, reason::ALL);
}

#[test]
fn no_values_give_no_cause() {
    assert_eq!(cause(&Feedback::default(), &TARGET), None);
}

#[test]
fn conditions_without_texts_still_give_a_sentence() {
    let bare = Feedback {
        failing: Some("True"),
        ..Feedback::default()
    };
    check(
        &bare,
        reason::FAILING,
        "The cluster-version operator reports Failing=True",
    );
}

#[test]
fn a_long_message_becomes_one_line_cut_on_a_character() {
    let long = format!("Multiple errors are preventing progress:\n* {}", "é".repeat(300));
    let message = Cause::new(reason::FAILING, &long).message;
    assert!(message.len() <= MAX_MESSAGE && message.len() > MAX_MESSAGE - 4);
    assert!(message.starts_with("Multiple errors are preventing progress: * é"));
    assert!(message.ends_with('…'));
    let exact = "x".repeat(MAX_MESSAGE);
    assert_eq!(Cause::new(reason::FAILING, &exact).message, exact);
}
