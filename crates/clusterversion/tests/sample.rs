//! The sample objects: a fresh cluster, an update, a failing update, and a cluster with a history and offered updates. Each
//! test asserts what its object is meant to show.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use clusterversion::assess::{Assessment, ClusterVersionState, assess};
use clusterversion::updates::{ClusterUpdates, RequestOptions, cluster_updates, update_request};
use clusterversion::{ClusterVersion, Era, risks};

fn object(name: &str) -> ClusterVersion {
    let path = repository::data::sample("clusterversions").join(format!("{name}.yaml"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut objects = clusterversion::types::read_documents(&text).unwrap();
    assert_eq!(objects.len(), 1);
    objects.remove(0)
}

fn shown(name: &str) -> (Assessment, ClusterUpdates) {
    let object = object(name);
    (assess(&object, None), cluster_updates(&object, None, None))
}

#[test]
fn a_fresh_cluster_has_no_channel_and_a_gate() {
    let (assessment, updates) = shown("fresh");
    assert_eq!(assessment.state, ClusterVersionState::Blocked);
    assert_eq!(
        assessment.cause,
        "The cluster runs 4.13.5 and blocks updates to another minor version: AdminAckRequired: The sample removes an API in 4.14; acknowledge that no workload uses it."
    );
    let blocks: Vec<&str> = updates
        .blocks
        .iter()
        .map(|block| block.condition.as_str())
        .collect();
    assert_eq!(blocks, ["Upgradeable=False", "RetrievedUpdates=False"]);
    assert_eq!((updates.channel.as_str(), updates.running), ("", None));
    assert!(updates.recommended.is_empty() && updates.not_recommended.is_empty());
}

#[test]
fn an_update_shows_its_target_and_its_progress() {
    let (assessment, updates) = shown("updating");
    assert_eq!(assessment.state, ClusterVersionState::Updating);
    let running = updates.running.unwrap();
    assert_eq!(running.version, "4.14.10");
    assert_eq!(running.since.as_deref(), Some("2031-03-02T08:00:00Z"));
    assert_eq!(
        running.message,
        "Working towards 4.14.10: 312 of 870 done (35% complete), waiting on kube-apiserver"
    );
    assert_eq!(assessment.cause, running.message);
}

#[test]
fn a_failing_update_names_the_operator_and_becomes_stalled_in_time() {
    let object = object("failing");
    let early = assess(&object, None);
    assert_eq!(early.state, ClusterVersionState::Failing);
    assert!(
        early
            .cause
            .starts_with("ClusterOperatorDegraded: Cluster operator ingress is degraded"),
        "{}",
        early.cause
    );
    let newest = object
        .status
        .conditions
        .get("Progressing")
        .unwrap()
        .last_transition_time
        .unwrap();
    let later = assess(&object, Some(newest + chrono::TimeDelta::hours(1)));
    assert_eq!(later.state, ClusterVersionState::Stalled);
    assert!(
        object.status.history[0]
            .accepted_risks
            .contains("https://example.com/risks/SlowDrain")
    );
}

#[test]
fn a_completed_cluster_offers_updates_with_and_without_risks() {
    let (assessment, updates) = shown("completed");
    assert_eq!(assessment.state, ClusterVersionState::Idle);
    assert_eq!(assessment.cause, "Cluster version is 4.13.11");
    let recommended: Vec<&str> = updates
        .recommended
        .iter()
        .map(|update| update.version.as_str())
        .collect();
    assert_eq!(recommended, ["4.14.10", "4.14.8"]);
    let others: Vec<(&str, &str, &str, Vec<&str>)> = updates
        .not_recommended
        .iter()
        .map(|update| {
            let risks = update.risks.iter().map(String::as_str).collect();
            (
                update.version.as_str(),
                update.recommended.as_str(),
                update.reason.as_str(),
                risks,
            )
        })
        .collect();
    assert_eq!(
        others,
        [
            ("4.14.9", "False", "SlowDrain", vec!["SlowDrain"]),
            (
                "4.14.7",
                "False",
                "MultipleReasons",
                vec!["MonitoringLeak", "SlowDrain"]
            ),
            ("4.14.6", "Unknown", "EvaluationFailed", vec!["MonitoringLeak"]),
            ("4.14.5", "False", "SlowDrain", vec!["SlowDrain"]),
        ]
    );
}

#[test]
fn the_exposures_of_a_completed_cluster_are_read_from_its_messages() {
    let object = object("completed");
    let exposures: Vec<Vec<Option<bool>>> = object
        .status
        .conditional_updates
        .iter()
        .map(|update| {
            let all = risks::exposures(update, Era::recorded(&object)).unwrap();
            all.into_iter().map(Result::ok).collect()
        })
        .collect();
    let expected = [
        vec![Some(true)],
        vec![Some(false)],
        vec![None, Some(true)],
        vec![None],
        vec![Some(true)],
    ];
    assert_eq!(exposures, expected);
}

#[test]
fn a_request_needs_what_its_update_lacks() {
    let completed = object("completed");
    let plain = RequestOptions::default();
    let accepted = RequestOptions {
        not_recommended: true,
        ..plain
    };
    let image = |version: &str, allowed| {
        let request = update_request(&completed, version, allowed).unwrap();
        request.patch["spec"]["desiredUpdate"]["image"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(image("4.14.10", plain), "");
    assert!(update_request(&completed, "4.14.9", plain).is_err());
    assert!(image("4.14.9", accepted).starts_with("registry.example.com/release@sha256:"));
    assert!(
        update_request(&completed, "4.14.4", accepted).is_err(),
        "it is not offered"
    );
    assert!(
        update_request(&object("failing"), "4.14.10", plain).is_err(),
        "the cluster is failing"
    );
}
