//! Requests beside a change of channel.

use super::*;

/// A cluster whose channel changes together with its request, before the service is asked for the new channel.
fn moved(version: &str) -> (Cluster, StepOutcome) {
    let mut cluster = Cluster::installed("4.20.1");
    cluster.offer(&["4.20.2"], &[]);
    cluster.settle();
    cluster.object.spec.channel = "candidate".to_owned();
    cluster.ask(by_version(version));
    let outcome = cluster.step();
    let asked =
        |action: &Action| matches!(action, Action::Fetch { url } if url.contains("channel=candidate"));
    assert!(outcome.actions.iter().any(asked), "{:?}", outcome.actions);
    (cluster, outcome)
}

fn retrieves(outcome: &StepOutcome, version: &str) -> bool {
    let of_version =
        |action: &Action| matches!(action, Action::Retrieve(target) if target.version == version);
    outcome.actions.iter().any(of_version)
}

fn offered(cluster: &Cluster) -> Vec<&str> {
    let available = cluster.object.status.available_updates.iter();
    available.map(|release| release.version.as_str()).collect()
}

#[test]
fn the_old_channels_updates_count_until_the_service_has_answered_for_the_new_one() {
    let (mut cluster, outcome) = moved("4.20.2");
    assert_eq!(cluster.said(INVALID), "");
    assert!(retrieves(&outcome, "4.20.2"), "{:?}", outcome.actions);
    assert_eq!(offered(&cluster), ["4.20.2"]);
    cluster.payload = Some(PayloadAnswer {
        image: payload("4.20.2").image,
        outcome: Ok(Loaded {
            payload: payload("4.20.2"),
            verification_error: None,
        }),
    });
    cluster.step();
    assert_eq!(cluster.object.status.history[0].version, "4.20.2");
    // What has begun is in the history, and stays valid whatever the new channel offers.
    cluster.offer(&["4.20.3"], &[]);
    cluster.settle();
    assert_eq!(offered(&cluster), ["4.20.3"]);
    assert_eq!(cluster.said(INVALID), "");
    assert_eq!(cluster.object.status.desired.version, "4.20.2");
}

#[test]
fn an_answer_for_the_new_channel_ends_a_request_that_it_does_not_offer() {
    for (answers, left) in [(true, &["4.20.3"][..]), (false, &[])] {
        let (mut cluster, _) = moved("4.20.2");
        if answers {
            cluster.offer(&["4.20.3"], &[]);
        } else {
            cluster.answer(GraphAnswer::Unreachable("no route".to_owned()));
        }
        cluster.settle();
        assert_eq!(offered(&cluster), left);
        assert!(cluster.said(INVALID).ends_with("must be an available update"));
        assert_eq!(
            cluster.said(RELEASE_ACCEPTED).split(' ').next(),
            Some("True"),
            "the running release is the accepted one"
        );
        assert_eq!(cluster.object.status.history.len(), 1);
    }
}

#[test]
fn a_version_of_the_new_channel_alone_is_invalid_until_the_service_has_answered() {
    let (mut cluster, outcome) = moved("4.20.3");
    assert!(cluster.said(INVALID).ends_with("must be an available update"));
    assert!(!retrieves(&outcome, "4.20.3"));
    cluster.offer(&["4.20.3"], &[]);
    cluster.step();
    let outcome = cluster.step();
    assert_eq!(cluster.said(INVALID), "");
    assert!(retrieves(&outcome, "4.20.3"), "{:?}", outcome.actions);
}

#[test]
fn an_answer_for_the_old_channel_is_none_for_the_new_one_and_the_true_one_is_still_taken() {
    let mut cluster = Cluster::installed("4.20.1");
    cluster.offer(&["4.20.2"], &[]);
    cluster.settle();
    cluster.seconds += 600;
    cluster.step();
    assert!(cluster.fetched.contains("channel=stable"), "{}", cluster.fetched);
    // What the service has for the old channel is on its way while the channel changes.
    cluster.offer(&["4.20.2", "4.20.9"], &[]);
    let late = cluster.graph.take();
    cluster.object.spec.channel = "candidate".to_owned();
    cluster.ask(by_version("4.20.9"));
    cluster.step();
    assert!(
        cluster.fetched.contains("channel=candidate"),
        "{}",
        cluster.fetched
    );
    cluster.graph = late;
    let outcome = cluster.settle();
    assert_eq!(offered(&cluster), ["4.20.2"]);
    assert!(!retrieves(&outcome, "4.20.9"), "{:?}", outcome.actions);
    assert!(cluster.said(INVALID).ends_with("must be an available update"));
    cluster.offer(&["4.20.3"], &[]);
    cluster.settle();
    assert_eq!(offered(&cluster), ["4.20.3"]);
}
