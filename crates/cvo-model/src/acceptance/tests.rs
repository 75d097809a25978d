use clusterversion::types::{Spec, UPGRADEABLE, Update};

use super::*;
use crate::testing::payload;

const ERA: Era = Era::new(4, 18);
const RETRY: TimeDelta = TimeDelta::minutes(3);

fn at(seconds: i64) -> Time {
    Time::UNIX_EPOCH + TimeDelta::seconds(seconds)
}

fn asking(update: Option<Update>) -> ClusterVersion {
    let mut object = ClusterVersion::new(Spec {
        channel: "stable".to_owned(),
        desired_update: update,
        ..Spec::default()
    });
    object.status.desired = Release::new("4.18.1", "image/4.18.1");
    object.status.available_updates = vec![
        Release::new("4.18.2", "image/4.18.2"),
        Release::new("4.19.0", "image/4.19.0"),
    ];
    object
}

fn update(version: &str, image: &str) -> Update {
    Update {
        version: version.to_owned(),
        image: image.to_owned(),
        ..Update::default()
    }
}

fn answer(version: &str) -> PayloadAnswer {
    PayloadAnswer {
        image: format!("image/{version}"),
        outcome: Ok(Loaded {
            payload: payload(version),
            verification_error: None,
        }),
    }
}

struct Play {
    acceptance: Acceptance,
    running: Payload,
    seconds: i64,
}

impl Play {
    fn new() -> Self {
        Self {
            acceptance: Acceptance::default(),
            running: payload("4.18.1"),
            seconds: 0,
        }
    }

    fn advance(&mut self, object: &ClusterVersion, answer: Option<&PayloadAnswer>) -> AcceptanceAction {
        self.seconds += 10;
        self.acceptance
            .advance(at(self.seconds), object, &self.running, answer, RETRY, ERA)
    }

    fn said(&self) -> String {
        let condition = self.acceptance.condition(at(self.seconds)).unwrap();
        format!("{} {} {}", condition.status, condition.reason, condition.message)
    }
}

#[test]
fn a_request_is_retrieved_verified_and_begun() {
    let mut play = Play::new();
    assert_eq!(play.advance(&asking(None), None), AcceptanceAction::Nothing);
    assert_eq!(
        play.said(),
        "True PayloadLoaded Payload loaded version=\"4.18.1\" image=\"image/4.18.1\" architecture=\"amd64\""
    );
    let object = asking(Some(update("4.18.2", "")));
    let wanted = Request {
        version: "4.18.2".to_owned(),
        image: "image/4.18.2".to_owned(),
        force: false,
    };
    assert_eq!(play.advance(&object, None), AcceptanceAction::Retrieve(wanted));
    assert_eq!(
        play.said(),
        "Unknown RetrievePayload Retrieving and verifying payload version=\"4.18.2\" image=\"image/4.18.2\""
    );
    assert_eq!(
        play.advance(&object, None),
        AcceptanceAction::Nothing,
        "it is under way"
    );
    assert_eq!(
        play.advance(&object, Some(&answer("4.18.2"))),
        AcceptanceAction::Begin(payload("4.18.2"))
    );
    assert_eq!(
        play.said(),
        "True PayloadLoaded Payload loaded version=\"4.18.2\" image=\"image/4.18.2\" architecture=\"amd64\""
    );
    let accepted = play.acceptance.accepted().unwrap();
    assert_eq!((accepted.verified, accepted.risks.as_deref()), (true, Some("")));
    assert_eq!(play.advance(&object, None), AcceptanceAction::Nothing);
}

#[test]
fn failures_name_their_step_and_are_tried_again() {
    let verification = PayloadAnswer {
        image: "image/4.18.2".to_owned(),
        outcome: Ok(Loaded {
            payload: payload("4.18.2"),
            verification_error: Some("no signature".to_owned()),
        }),
    };
    let failing = |failure| PayloadAnswer {
        image: "image/4.18.2".to_owned(),
        outcome: Err(failure),
    };
    let other = PayloadAnswer {
        image: "image/4.18.2".to_owned(),
        ..answer("4.18.3")
    };
    let named = "version=\"4.18.2\" image=\"image/4.18.2\"";
    for (answer, expected) in [
        (
            failing(PayloadFailure::Retrieve("no such image".to_owned())),
            format!("False RetrievePayload Retrieving payload failed {named} failure=no such image"),
        ),
        (
            failing(PayloadFailure::Load("no manifests".to_owned())),
            format!("False LoadPayload Loading payload failed {named} failure=no manifests"),
        ),
        (
            verification,
            format!(
                "False RetrievePayload Retrieving payload failed {named} failure=The update cannot be verified: no signature"
            ),
        ),
        (
            other,
            format!(
                "False VerifyPayloadVersion Verifying payload failed {named} failure=release image version 4.18.3 does not match the expected upstream version 4.18.2"
            ),
        ),
    ] {
        let mut play = Play::new();
        let object = asking(Some(update("4.18.2", "")));
        play.advance(&object, None);
        assert_eq!(play.advance(&object, Some(&answer)), AcceptanceAction::Nothing);
        assert_eq!(play.said(), expected);
        assert_eq!(play.acceptance.accepted().unwrap().payload.version, "4.18.1");
        assert_eq!(play.acceptance.wake_at(), Some(at(play.seconds) + RETRY));
        play.seconds += 180;
        assert!(matches!(
            play.advance(&object, None),
            AcceptanceAction::Retrieve(_)
        ));
        assert_eq!(play.said(), expected, "a new attempt does not hide the failure");
    }
}

#[test]
fn a_blocked_request_proceeds_by_itself_when_the_gate_clears() {
    let mut play = Play::new();
    let mut object = asking(Some(update("4.19.0", "")));
    let no = ConditionStatus::False;
    let gate = ClusterOperatorCondition::new(at(0), UPGRADEABLE, no, "AdminAckRequired", "Read this.");
    object.status.conditions.set(gate);
    play.advance(&object, None);
    assert_eq!(
        play.advance(&object, Some(&answer("4.19.0"))),
        AcceptanceAction::Nothing
    );
    assert_eq!(
        play.said(),
        "False PreconditionChecks Preconditions failed for payload loaded version=\"4.19.0\" image=\"image/4.19.0\": Precondition \"ClusterVersionUpgradeable\" failed because of \"AdminAckRequired\": Read this."
    );
    assert_eq!(play.advance(&object, None), AcceptanceAction::Nothing);
    object.status.conditions.remove(UPGRADEABLE);
    assert_eq!(
        play.advance(&object, None),
        AcceptanceAction::Begin(payload("4.19.0"))
    );
}

#[test]
fn force_overrules_verification_and_preconditions_and_both_are_recorded() {
    let mut play = Play::new();
    let mut object = asking(Some(Update {
        image: "image/4.19.0".to_owned(),
        force: true,
        ..Update::default()
    }));
    let no = ConditionStatus::False;
    object
        .status
        .conditions
        .set(ClusterOperatorCondition::new(at(0), UPGRADEABLE, no, "R", "M"));
    let unverified = PayloadAnswer {
        image: "image/4.19.0".to_owned(),
        outcome: Ok(Loaded {
            payload: payload("4.19.0"),
            verification_error: Some("no signature".to_owned()),
        }),
    };
    play.advance(&object, None);
    assert!(matches!(
        play.advance(&object, Some(&unverified)),
        AcceptanceAction::Begin(_)
    ));
    let accepted = play.acceptance.accepted().unwrap();
    assert!(!accepted.verified);
    assert_eq!(
        accepted.risks.as_deref(),
        Some(
            "Target release version=\"\" image=\"image/4.19.0\" cannot be verified, but continuing anyway because the update was forced: no signature\nForced through blocking failures: Precondition \"ClusterVersionUpgradeable\" failed because of \"R\": M"
        )
    );
}

#[test]
fn a_request_that_is_taken_back_before_it_is_accepted_leaves_nothing_behind() {
    let mut play = Play::new();
    play.advance(&asking(Some(update("4.18.2", ""))), None);
    assert_eq!(
        play.advance(&asking(None), Some(&answer("4.18.2"))),
        AcceptanceAction::Nothing
    );
    assert_eq!(
        play.said(),
        "True PayloadLoaded Payload loaded version=\"4.18.1\" image=\"image/4.18.1\""
    );
    assert_eq!(play.acceptance.pending(), None);
}

#[test]
fn an_answer_to_an_older_request_is_ignored() {
    let mut play = Play::new();
    play.advance(&asking(Some(update("4.18.2", ""))), None);
    let object = asking(Some(update("4.19.0", "")));
    assert!(matches!(
        play.advance(&object, None),
        AcceptanceAction::Retrieve(_)
    ));
    assert_eq!(
        play.advance(&object, Some(&answer("4.18.2"))),
        AcceptanceAction::Nothing
    );
    assert_eq!(
        play.advance(&object, Some(&answer("4.19.0"))),
        AcceptanceAction::Begin(payload("4.19.0"))
    );
}

#[test]
fn going_back_to_the_operators_own_payload_needs_no_precondition() {
    let mut play = Play::new();
    play.advance(&asking(None), None);
    let forward = asking(Some(update("4.18.2", "")));
    play.advance(&forward, None);
    play.advance(&forward, Some(&answer("4.18.2")));
    // The new operator does not run yet, and the request is changed to what still runs.
    let mut back = asking(Some(update("4.18.1", "image/4.18.1")));
    back.status.desired = Release::new("4.18.2", "image/4.18.2");
    play.advance(&back, None);
    assert_eq!(
        play.advance(&back, Some(&answer("4.18.1"))),
        AcceptanceAction::Begin(payload("4.18.1"))
    );
}

#[test]
fn a_version_alone_means_a_recommended_update_and_a_migration_the_same_version() {
    let object = asking(Some(update("4.18.9", "")));
    assert_eq!(requested(&object, "amd64"), None);
    let mut migrating = asking(Some(Update {
        architecture: MULTI.to_owned(),
        version: "4.18.1".to_owned(),
        ..Update::default()
    }));
    migrating.status.available_updates = vec![Release::new("4.18.1", "image/multi")];
    assert_eq!(requested(&migrating, "amd64").unwrap().image, "image/multi");
    assert_eq!(requested(&asking(None), "amd64"), None);
}

#[test]
fn risks_accepted_by_name_go_on_with_what_was_overruled_before() {
    let recorded = |before: &str| {
        let mut acceptance = Acceptance {
            accepted: Some(Accepted {
                payload: payload("4.22.2"),
                verified: true,
                risks: Some(before.to_owned()),
            }),
            ..Acceptance::default()
        };
        acceptance.record_accepted("image/4.22.2", &["A", "B"]);
        acceptance.accepted().and_then(|accepted| accepted.risks.clone())
    };
    assert_eq!(
        recorded("").as_deref(),
        Some(
            "The target release image/4.22.2 is exposed to the risks [A,B] which were all explicitly accepted by the cluster administrator."
        )
    );
    assert_eq!(
        recorded("Forced through blocking failures: x").as_deref(),
        Some(
            "Forced through blocking failures: x; It is exposed to the risks [A,B] which were all explicitly accepted by the cluster administrator."
        )
    );
}
