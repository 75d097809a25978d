//! The model and the readers of a ClusterVersion, compared with real objects and graphs. Without the real data
//! (`repository::data`) these tests say that they are skipped; the tests in `tests/sample` run on a sample instead.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "../checks/mod.rs"]
mod checks;

use checks::{File, files, graph, graphs, preflight, recorded};
use clusterversion::assess::{Assessment, ClusterVersionState, assess};
use clusterversion::types::ConditionStatus;
use repository::data::directory;

fn real_files() -> Option<Vec<File>> {
    directory("clusterversions").map(|dir| files(&dir))
}

#[test]
fn real_objects_are_read_and_written_back_without_loss() {
    let Some(files) = real_files() else { return };
    recorded::objects_are_written_back(&files);
}

#[test]
fn every_recommendation_follows_from_one_verdict_per_query() {
    let Some(files) = real_files() else { return };
    assert!(recorded::recommendations_follow(&files) > 0);
}

#[test]
fn a_cluster_is_ready_exactly_if_the_update_may_be_requested() {
    let Some(files) = real_files() else { return };
    assert!(preflight::verdicts_agree_with_requests(&files) > 200);
}

#[test]
fn promotion_and_order_follow_from_the_recommendations() {
    let Some(files) = real_files() else { return };
    recorded::promotion_and_order_follow(&files);
}

#[test]
fn every_edge_of_a_real_graph_is_offered_with_its_metadata() {
    let Some(dir) = directory("update-graph") else {
        return;
    };
    // A graph is read for each version, so every twentieth is enough.
    graph::edges_are_offered(graphs(&dir.join("expected")), 20);
}

/// Real objects, and what a person would say of them.
const JUDGED: [(&str, ClusterVersionState, &str); 12] = [
    (
        "4.12.16-longest-not-recommended-cv.yaml",
        ClusterVersionState::Blocked,
        "AdminAckRequired",
    ),
    (
        "4.14.1-all-recommended-cv.yaml",
        ClusterVersionState::Updating,
        "waiting on kube-scheduler",
    ),
    (
        "4.14.1-degraded-cv.yaml",
        ClusterVersionState::Stalled,
        "Cluster operators etcd, kube-apiserver are degraded",
    ),
    (
        "4.14.1-workers-started-updating-multiple-pools-cv.yaml",
        ClusterVersionState::Updating,
        "waiting on machine-config",
    ),
    (
        "4.15.0-ec2-b02-cos-not-annotated-cv.yaml",
        ClusterVersionState::Updating,
        "waiting up to 40 minutes on cluster-api",
    ),
    (
        "4.15.0-ec2-early-cv.yaml",
        ClusterVersionState::Updating,
        "waiting on etcd, kube-apiserver",
    ),
    (
        "4.16.0-compact-cv.yaml",
        ClusterVersionState::Updating,
        "waiting on openshift-apiserver",
    ),
    (
        "4.16.0-ec2-control-plane-updated-pdb-prohibits-draining-cv.yaml",
        ClusterVersionState::WorkersPending,
        "Cluster operator machine-config is degraded",
    ),
    (
        "4.16.27-degraded-monitoring-cv.yaml",
        ClusterVersionState::Failing,
        "Cluster operator monitoring is not available",
    ),
    (
        "no-version-upgrading-cv.yaml",
        ClusterVersionState::Idle,
        "Cluster version is 4.18.0-ec.3",
    ),
    (
        "not-upgrading-cv.yaml",
        ClusterVersionState::Idle,
        "Cluster version is 4.14.1",
    ),
    (
        "to-multi-arch-cv.yaml",
        ClusterVersionState::Updating,
        "waiting on machine-config",
    ),
];

#[test]
fn real_clusters_are_judged_as_a_person_would() {
    let Some(files) = real_files() else { return };
    let is_there = |name: &str| files.iter().any(|file| file.name == name);
    if JUDGED.iter().any(|(name, ..)| is_there(name)) {
        for (name, ..) in &JUDGED {
            assert!(is_there(name), "{name} is gone");
        }
    }
    for file in &files {
        let Some((_, state, cause)) = JUDGED.iter().find(|(name, ..)| *name == file.name) else {
            plausible(file);
            continue;
        };
        let assessment = assess(&file.objects[0], None);
        assert_eq!(assessment.state, *state, "{}: {}", file.name, assessment.cause);
        assert!(
            assessment.cause.contains(cause),
            "{}: {}",
            file.name,
            assessment.cause
        );
    }
}

/// Must hold for every real cluster.
fn plausible(file: &File) {
    for object in &file.objects {
        let Assessment { state, cause, .. } = assess(object, None);
        let conditions = &object.status.conditions;
        let told = format!("{}: {state}: {cause}", file.name);
        assert!(!cause.trim().is_empty(), "{told}");
        assert_ne!(state, ClusterVersionState::Unknown, "{told}");
        let newest = object.status.history.first();
        let running = newest.is_some_and(|entry| !entry.is_completed());
        let moves = [
            ClusterVersionState::Updating,
            ClusterVersionState::Failing,
            ClusterVersionState::Stalled,
            ClusterVersionState::Blocked,
        ];
        let rests = [
            ClusterVersionState::Idle,
            ClusterVersionState::Blocked,
            ClusterVersionState::Failing,
            ClusterVersionState::WorkersPending,
        ];
        // A release that is being loaded is not in the history yet, nor is one that was just begun.
        let begins = conditions
            .get("ReleaseAccepted")
            .is_some_and(|condition| condition.status == ConditionStatus::Unknown)
            || conditions.is_true("Progressing");
        let possible = if running || begins { &moves } else { &rests };
        assert!(possible.contains(&state), "{told}");
        if conditions.is_true("Failing") {
            assert_ne!(state, ClusterVersionState::Idle, "{told}");
            assert_ne!(state, ClusterVersionState::Updating, "{told}");
        }
    }
}
