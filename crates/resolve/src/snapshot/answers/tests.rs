use super::*;

fn in_other_channel(phase: Phase, reason: Reason) -> Preflight {
    let answer = Preflight::Unknown {
        reason: Reason::ChannelDiffers,
        message: Arc::from("another channel"),
    };
    with_row(phase, reason, answer)
}

/// What is made of an answer of a cluster with this row.
fn with_row(phase: Phase, reason: Reason, answer: Preflight) -> Preflight {
    let mut fleet = rollout::testing::fleet().cluster("c1").build();
    let mut record: rollout::Record = rollout::testing::record(phase).reason(reason).into();
    let policy = rollout::testing::policy().requires_preflight().build();
    record.attempt.revision = Arc::clone(&policy.revision);
    fleet.clusters[0].record = Some(Arc::new(record));
    let is_in_other_channel = answer != Preflight::NotAsked;
    by_graph(&fleet.clusters[0], &policy, answer, is_in_other_channel)
}

#[test]
fn what_the_controller_knows_of_another_channel_is_taken_from_the_row() {
    let is_ready = |reason| in_other_channel(Phase::Pending, reason) == Preflight::Ready;
    assert!(is_ready(Reason::WaitingForSlot) && is_ready(Reason::Paused));
    assert!(!is_ready(Reason::ChannelDiffers) && !is_ready(Reason::PreflightPending));
    for reason in [
        Reason::WaitingForWindow,
        Reason::WaitingForApproval,
        Reason::CanaryFailed,
        Reason::MaxFailuresExceeded,
    ] {
        assert!(is_ready(reason), "{reason:?}");
    }
    assert_eq!(
        in_other_channel(Phase::Blocked, Reason::NoWindow),
        Preflight::Ready
    );
    let not_offered = in_other_channel(Phase::Blocked, Reason::NotOffered);
    assert!(
        matches!(
            not_offered,
            Preflight::Blocked {
                reason: Reason::NotOffered,
                ..
            }
        ),
        "{not_offered:?}"
    );
}

/// The verdict of the controller has what the graph tells as well, so its first cause may be another one.
#[test]
fn the_row_has_the_first_cause_of_a_cluster_that_names_others_than_its_channel() {
    let of = |own: Reason, phase: Phase, reason: Reason| {
        let own = Preflight::Blocked {
            reason: own,
            message: Arc::from("its own"),
        };
        match with_row(phase, reason, own) {
            Preflight::Blocked { reason, message } => (reason, &*message == "its own"),
            other => panic!("{other:?}"),
        }
    };
    let (gate, offer) = (Reason::AdminAckRequired, Reason::NotOffered);
    assert_eq!(of(gate, Phase::Blocked, offer), (offer, false));
    assert_eq!(of(gate, Phase::Blocked, gate), (gate, false));
    assert_eq!(
        of(Reason::Updating, Phase::Blocked, offer),
        (Reason::Updating, true)
    );
    for (phase, older) in [
        (Phase::Pending, Reason::WaitingForSlot),
        (Phase::Pending, Reason::RiskUnknown),
        (Phase::Blocked, Reason::NoWindow),
    ] {
        assert_eq!(of(gate, phase, older), (gate, true), "{older:?}");
    }
}

#[test]
fn a_cluster_that_has_told_a_newer_version_is_not_taken_for_one_that_was_not_asked() {
    let of = |reason| with_row(Phase::Blocked, reason, Preflight::NotAsked);
    let newer = of(Reason::NewerThanTarget);
    assert!(
        matches!(
            newer,
            Preflight::Blocked {
                reason: Reason::NewerThanTarget,
                ..
            }
        ),
        "{newer:?}"
    );
    assert_eq!(of(Reason::NotOffered), Preflight::NotAsked);
}

/// What a plan with mode Report makes of a cluster that is blocked: 1 is a refusal, 2 a warning, 3 something that is not known.
fn taken(reason: Reason, message: &str) -> usize {
    let mut answers = Answers::default();
    let message = Arc::from(message);
    let answer = Preflight::Blocked { reason, message };
    assert_eq!(answers.take(&Arc::from("c1"), answer, true), Preflight::Ready);
    answers.refusals.len() + 2 * answers.warned + 3 * answers.not_known
}

#[test]
fn with_mode_report_a_plan_knows_which_clusters_would_not_finish() {
    let retrieved = "RetrievedUpdates=False: RemoteFailed: no route";
    let not_listed = format!("The cluster does not list 4.14.12: {retrieved}");
    for (reason, message, expected) in [
        (Reason::NotOffered, "", 1),
        (Reason::UpdatesNotRetrieved, &*not_listed, 1),
        (Reason::UpdatesNotRetrieved, retrieved, 2),
        (Reason::PoolPaused, "MachineConfigPool is paused: worker", 1),
        (Reason::PoolDegraded, "MachineConfigPool is degraded: worker", 2),
        (Reason::Updating, "", 2),
        (Reason::Failing, "", 2),
        (Reason::RiskUnknown, "", 3),
    ] {
        assert_eq!(taken(reason, message), expected, "{reason:?} {message}");
    }
}

/// It does not become known by waiting longer than the timeout.
#[test]
fn with_mode_report_what_has_been_unknown_for_long_is_no_warning() {
    let mut answers = Answers::default();
    for reason in [
        Reason::PreflightUnknown,
        Reason::PreflightUnsupported,
        Reason::RiskUnknown,
        Reason::ChannelDiffers,
    ] {
        let answer = Preflight::Blocked {
            reason,
            message: Arc::from(""),
        };
        assert_eq!(answers.take(&Arc::from("c1"), answer, true), Preflight::Ready);
    }
    assert_eq!((answers.not_known, answers.warned), (4, 0));
}

#[test]
fn what_a_cluster_says_to_the_request_of_an_earlier_spec_is_no_refusal_of_the_present_one() {
    let policy = rollout::testing::policy().build();
    let refuses = |revision: &str| {
        let mut fleet = rollout::testing::fleet().cluster("c1").build();
        let row = rollout::testing::record(Phase::Initialized).reason(Reason::InvalidUpdate);
        let mut record: rollout::Record = row.stage(Stage::Platform, 0).into();
        record.attempt.revision = Arc::from(revision);
        fleet.clusters[0].record = Some(Arc::new(record));
        refusal_of_request(&fleet.clusters[0], &policy, rollout::testing::at(600)).is_some()
    };
    assert!(refuses(&policy.revision));
    assert!(!refuses("earlier"));
}
