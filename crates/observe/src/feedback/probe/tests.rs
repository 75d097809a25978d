use clusterversion::preflight::{OfferedRisk, PlannedUpdate, PreflightReason, Verdict, judge};
use serde_json::{Value, json};

use super::*;
use crate::testing::{map_of_probe as map, operator_of_probe, status_of_probe as healthy};

/// What is read of the status after this change.
fn facts(change: impl FnOnce(&mut Value)) -> Facts {
    let mut status = healthy();
    change(&mut status);
    let work = json!({"metadata": {"name": "w", "namespace": "c1", "generation": 1}, "status": status});
    read(&serde_json::from_value(work).unwrap())
}

fn manifest(status: &mut Value, number: usize) -> &mut Value {
    &mut status["resourceStatus"]["manifests"][number]
}

/// The different reasons why a cluster does not take the update to a version.
fn reasons(facts: &Facts, version: &str) -> Vec<PreflightReason> {
    let plan = PlannedUpdate {
        version: version.to_owned(),
        ..PlannedUpdate::default()
    };
    match judge(facts, &plan) {
        Verdict::Ready(_) => Vec::new(),
        Verdict::Blocked(findings) | Verdict::Unknown(findings) => {
            let mut reasons: Vec<_> = findings.iter().map(|finding| finding.reason).collect();
            reasons.dedup();
            reasons
        }
    }
}

#[test]
fn a_healthy_cluster_takes_a_patch_update_and_a_minor_update_when_its_gates_are_acknowledged() {
    let known = facts(|_| {});
    assert_eq!(known.current.as_deref(), Ok("4.20.3"));
    assert_eq!(known.channel.as_deref(), Ok("stable-4.20"));
    assert!(reasons(&known, "4.20.4").is_empty());
    assert_eq!(reasons(&known, "4.21.0"), [PreflightReason::AdminAckRequired]);
    let acknowledged = facts(|status| {
        *manifest(status, 2) = map(
            "openshift-config",
            "admin-acks",
            "UpgradeAcks",
            "keys/1\nkey ack-4.19-a",
        );
    });
    assert!(reasons(&acknowledged, "4.21.0").is_empty());
}

#[test]
fn a_map_of_acknowledgments_that_does_not_exist_acknowledges_nothing() {
    let known = facts(|status| manifest(status, 2)["conditions"][1]["status"] = json!("False"));
    assert_eq!(known.gates.unwrap().len(), 1);
}

#[test]
fn risks_are_told_with_whether_they_apply() {
    let message = "offer/1\nupdate False quay.io/r@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\nrisk T SlowDisk It may be slow.";
    let known = facts(|status| manifest(status, 0)["conditions"][2]["message"] = json!(message));
    let risk = OfferedRisk {
        name: "SlowDisk".to_owned(),
        message: "It may be slow.".to_owned(),
        applies: Some(true),
    };
    let expected = Offer::Conditional {
        image: "quay.io/r@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb".to_owned(),
        risks: vec![risk],
    };
    assert_eq!(known.offer, Ok(expected));
}

#[test]
fn a_cluster_accepts_risks_by_name_if_its_feature_gate_says_so_of_its_version() {
    assert!(facts(|_| {}).accepts_risks.is_err(), "it was not asked");
    let told = |applied: &str, message: &str| {
        let gate = json!({
            "resourceMeta": {"group": "config.openshift.io", "kind": "FeatureGate", "resource": "featuregates", "name": "cluster"},
            "conditions": [
                {"type": "Applied", "status": applied, "message": "featuregates \"cluster\" is forbidden"},
                {"type": "Available", "status": "True"},
                {"type": "UpgradeAcceptRisks", "status": "True", "message": message},
            ],
        });
        let add = |status: &mut Value| {
            let manifests = status["resourceStatus"]["manifests"].as_array_mut();
            manifests.unwrap().push(gate);
        };
        facts(add).accepts_risks
    };
    assert_eq!(told("True", "accept/1\nversion 4.20.3"), Ok(true));
    assert_eq!(told("True", "accept/1\nversion 4.20.2"), Ok(false));
    assert!(matches!(told("False", ""), Err(Missing::Forbidden(_))));
}

#[test]
fn a_pool_tells_before_an_update_whether_it_is_paused() {
    let operator = || operator_of_probe("pools/1\nversion 4.20.3\ntold\nupdated 1 worker");
    let told = |pool: Option<(&str, &str)>| {
        let add = |status: &mut Value| {
            let manifests = status["resourceStatus"]["manifests"].as_array_mut().unwrap();
            manifests.push(operator());
            manifests.extend(pool.map(|(available, message)| {
                json!({
                    "resourceMeta": {"group": "machineconfiguration.openshift.io", "kind": "MachineConfigPool", "resource": "machineconfigpools", "name": "worker"},
                    "conditions": [
                        {"type": "Applied", "status": "True"},
                        {"type": "Available", "status": available, "message": "machineconfigpools \"worker\" is forbidden"},
                        {"type": "UpgradePausedPool", "status": "True", "message": message},
                    ],
                })
            }));
        };
        facts(add).pools.map(|pools| pools.worker_is_paused)
    };
    assert_eq!(told(None), Ok(false), "it was not asked");
    assert_eq!(told(Some(("True", "paused/1\nworker"))), Ok(true));
    assert_eq!(told(Some(("True", "paused/1"))), Ok(false));
    assert_eq!(
        told(Some(("False", "paused/1\nworker"))),
        Ok(false),
        "there is none"
    );
    assert!(matches!(
        told(Some(("Unknown", "paused/1"))),
        Err(Missing::Forbidden(_))
    ));
    assert!(matches!(
        told(Some(("True", "true"))),
        Err(Missing::Unsupported(_))
    ));
}

#[test]
fn nothing_is_known_before_the_agent_has_reported_on_this_work() {
    let pending = [PreflightReason::PreflightPending];
    let work = json!({"metadata": {"name": "w", "namespace": "c1", "generation": 1}});
    let silent = read(&serde_json::from_value(work).unwrap());
    assert_eq!(reasons(&silent, "4.20.4"), pending);
    let earlier = facts(|status| status["conditions"][0]["observedGeneration"] = json!(0));
    assert!(reasons(&earlier, "4.20.4").is_empty(), "old agents write none");
    let work = json!({"metadata": {"name": "w", "namespace": "c1", "generation": 2}, "status": healthy()});
    assert_eq!(
        reasons(&read(&serde_json::from_value(work).unwrap()), "4.20.4"),
        pending
    );
    for number in 0..2 {
        let unseen = facts(|status| manifest(status, number)["conditions"] = json!([]));
        assert!(
            reasons(&unseen, "4.21.0").contains(&PreflightReason::PreflightPending),
            "{number}"
        );
    }
}

#[test]
fn what_was_reported_of_an_object_does_not_count_once_it_cannot_be_read() {
    let unavailable = |text: &str| {
        facts(|status| {
            let condition = &mut manifest(status, 0)["conditions"][1];
            condition["status"] = json!("Unknown");
            condition["message"] = json!(text);
        })
    };
    let forbidden = "clusterversions.config.openshift.io \"version\" is forbidden: User cannot get resource";
    assert_eq!(
        reasons(&unavailable(forbidden), "4.20.4"),
        [PreflightReason::PreflightForbidden]
    );
    assert_eq!(
        reasons(&unavailable("connection refused"), "4.20.4"),
        [PreflightReason::PreflightPending]
    );
}

#[test]
fn a_cluster_without_cluster_version_is_not_supported() {
    let unsupported = [PreflightReason::PreflightUnsupported];
    let absent = facts(|status| manifest(status, 0)["conditions"][1]["status"] = json!("False"));
    assert_eq!(reasons(&absent, "4.20.4"), unsupported);
    let kind = facts(|status| {
        let condition = &mut manifest(status, 0)["conditions"][0];
        condition["status"] = json!("False");
        condition["message"] = json!("the server doesn't have a resource type \"ClusterVersion\"");
    });
    assert_eq!(reasons(&kind, "4.20.4"), unsupported);
}

#[test]
fn an_agent_that_knows_no_rules_tells_whether_the_version_is_offered_and_no_gates() {
    let known = facts(|status| {
        for number in 0..3 {
            manifest(status, number)["conditions"]
                .as_array_mut()
                .unwrap()
                .truncate(2);
        }
    });
    assert!(reasons(&known, "4.20.4").is_empty());
    assert_eq!(reasons(&known, "4.21.0"), [PreflightReason::PreflightUnsupported]);
}

#[test]
fn answers_of_another_form_are_not_known() {
    for (what, value) in [
        ("message", json!("listed quay.io/r")),
        ("message", json!("")),
        ("status", json!("False")),
    ] {
        for number in 0..3 {
            let known = facts(|status| manifest(status, number)["conditions"][2][what] = value.clone());
            let found = reasons(&known, "4.21.0");
            assert!(
                found.contains(&PreflightReason::PreflightUnsupported),
                "{what} of {number}: {found:?}"
            );
        }
    }
    let numbers = facts(|status| {
        let values = manifest(status, 0)["statusFeedback"]["values"]
            .as_array_mut()
            .unwrap();
        for value in values {
            value["fieldValue"] = json!({"type": "Integer", "integer": 4});
        }
    });
    assert_eq!(reasons(&numbers, "4.20.4"), [PreflightReason::PreflightPending]);
    let broken = json!({"metadata": {"name": "w", "namespace": "c1"}, "status": {"conditions": 3}});
    assert_eq!(
        reasons(&read(&serde_json::from_value(broken).unwrap()), "4.20.4"),
        [PreflightReason::PreflightUnsupported]
    );
}
