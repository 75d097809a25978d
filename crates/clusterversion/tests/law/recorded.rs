//! What real objects say, read, taken apart and put together again.

use std::collections::BTreeSet;

use clusterversion::assess::{Assessment, State, assess};
use clusterversion::types::{ConditionStatus, Release};
use clusterversion::updates::promote;
use clusterversion::{Era, recommended, recorded, version};
use serde_json::Value;

use crate::data::{File, files};

#[test]
fn real_objects_are_read_and_written_back_without_loss() {
    for file in files() {
        let mut expected: Value = serde_saphyr::from_str(&file.text).unwrap();
        let read: Vec<Value> = file
            .objects
            .iter()
            .map(|object| serde_json::to_value(object).unwrap())
            .collect();
        assert!(!read.is_empty(), "{}", file.name);
        let expected = match expected.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => vec![expected],
        };
        assert_eq!(read, expected, "{}", file.name);
    }
}

#[test]
fn every_recommendation_follows_from_one_verdict_per_query() {
    let mut recomputed = 0;
    for file in files() {
        for object in &file.objects {
            let era = Era::recorded(object);
            let updates = &object.status.conditional_updates;
            let verdicts =
                recorded::derive(updates, era).unwrap_or_else(|error| panic!("{}: {error}", file.name));
            let request = object.spec.desired_update.iter();
            let accepted: BTreeSet<String> = request
                .flat_map(|request| request.accept_risks.iter().map(|risk| risk.name.clone()))
                .collect();
            for (update, verdicts) in updates.iter().zip(&verdicts) {
                let mut given = verdicts.iter();
                let got =
                    recommended::recommend(&update.risks, |_| given.next().unwrap().clone(), &accepted, era);
                let expected = update.recommended().unwrap();
                let version = &update.release.version;
                assert_eq!(got.status, expected.status, "{} {version}", file.name);
                assert_eq!(got.reason, expected.reason, "{} {version}", file.name);
                assert_eq!(got.message, expected.message, "{} {version}", file.name);
                recomputed += 1;
            }
        }
    }
    if !files().is_empty() {
        assert!(recomputed > 0);
    }
}

#[test]
fn promotion_and_order_follow_from_the_recommendations() {
    for file in files() {
        for object in &file.objects {
            let status = &object.status;
            let mut unconditional: Vec<Release> = status.available_updates.clone();
            // What is left without the promoted ones, in another order.
            unconditional.retain(|release| {
                status
                    .conditional_updates
                    .iter()
                    .all(|update| update.release.image != release.image)
            });
            unconditional.reverse();
            for update in status.conditional_updates.iter().rev() {
                let status = update.recommended().unwrap().status;
                assert_ne!(status, ConditionStatus::Unset);
                promote(&mut unconditional, update, status);
            }
            version::sort_releases(&mut unconditional);
            assert_eq!(unconditional, status.available_updates, "{}", file.name);
            let mut conditional = status.conditional_updates.clone();
            conditional.reverse();
            version::sort_conditional(&mut conditional);
            assert_eq!(conditional, status.conditional_updates, "{}", file.name);
        }
    }
}

/// Real objects, and what a person would say of them.
const JUDGED: [(&str, State, &str); 12] = [
    (
        "4.12.16-longest-not-recommended-cv.yaml",
        State::Blocked,
        "AdminAckRequired",
    ),
    (
        "4.14.1-all-recommended-cv.yaml",
        State::Updating,
        "waiting on kube-scheduler",
    ),
    (
        "4.14.1-degraded-cv.yaml",
        State::Stalled,
        "Cluster operators etcd, kube-apiserver are degraded",
    ),
    (
        "4.14.1-workers-started-updating-multiple-pools-cv.yaml",
        State::Updating,
        "waiting on machine-config",
    ),
    (
        "4.15.0-ec2-b02-cos-not-annotated-cv.yaml",
        State::Updating,
        "waiting up to 40 minutes on cluster-api",
    ),
    (
        "4.15.0-ec2-early-cv.yaml",
        State::Updating,
        "waiting on etcd, kube-apiserver",
    ),
    (
        "4.16.0-compact-cv.yaml",
        State::Updating,
        "waiting on openshift-apiserver",
    ),
    (
        "4.16.0-ec2-control-plane-updated-pdb-prohibits-draining-cv.yaml",
        State::WorkersPending,
        "Cluster operator machine-config is degraded",
    ),
    (
        "4.16.27-degraded-monitoring-cv.yaml",
        State::Failing,
        "Cluster operator monitoring is not available",
    ),
    (
        "no-version-upgrading-cv.yaml",
        State::Idle,
        "Cluster version is 4.18.0-ec.3",
    ),
    ("not-upgrading-cv.yaml", State::Idle, "Cluster version is 4.14.1"),
    (
        "to-multi-arch-cv.yaml",
        State::Updating,
        "waiting on machine-config",
    ),
];

#[test]
fn real_clusters_are_judged_as_a_person_would() {
    let files = files();
    if files.is_empty() {
        return;
    }
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

/// What holds of every real cluster, whoever recorded it.
fn plausible(file: &File) {
    for object in &file.objects {
        let Assessment { state, cause, .. } = assess(object, None);
        let conditions = &object.status.conditions;
        let told = format!("{}: {state}: {cause}", file.name);
        assert!(!cause.trim().is_empty(), "{told}");
        assert_ne!(state, State::Unknown, "{told}");
        let newest = object.status.history.first();
        let running = newest.is_some_and(|entry| !entry.is_completed());
        let moves = [State::Updating, State::Failing, State::Stalled, State::Blocked];
        let rests = [State::Idle, State::Blocked, State::Failing, State::WorkersPending];
        // A release that is being loaded is not in the history yet, nor is one that was just begun.
        let begins = conditions
            .get("ReleaseAccepted")
            .is_some_and(|condition| condition.status == ConditionStatus::Unknown)
            || conditions.is_true("Progressing");
        let possible = if running || begins { &moves } else { &rests };
        assert!(possible.contains(&state), "{told}");
        if conditions.is_true("Failing") {
            assert_ne!(state, State::Idle, "{told}");
            assert_ne!(state, State::Updating, "{told}");
        }
    }
}
