//! Gates, and condition Upgradeable.

use std::collections::BTreeSet;

use super::super::recipe::{gates_rule, read_gates};
use super::*;
use crate::gates::ConfigMap;
use crate::types::{ClusterVersion, read_documents};

#[test]
fn gates_and_upgradeable_block_another_minor_version_only() {
    let gated = with_gates(&["ack-4.19-a", "ack-4.19-b"]);
    assert_eq!(
        told(&gated, &plan()),
        "blocked AdminAckRequired(ack-4.19-a,ack-4.19-b)"
    );
    let some = PlannedUpdate {
        acks: set(&["ack-4.19-a", "ack-4.20-c"]),
        ..plan()
    };
    assert_eq!(told(&gated, &some), "blocked AdminAckRequired(ack-4.19-b)");
    let all = PlannedUpdate {
        acks: set(&["ack-4.19-a", "ack-4.19-b"]),
        ..plan()
    };
    assert_eq!(told(&gated, &all), "ready");
    let patch = PlannedUpdate {
        version: "4.19.21".to_owned(),
        ..plan()
    };
    assert_eq!(told(&gated, &patch), "ready");

    let stuck = |reason: &str, by_overrides: bool| {
        let mut condition = condition("Upgradeable", ConditionStatus::False);
        condition.reason = reason.to_owned();
        changed(|health| {
            health.upgradeable = Some(condition);
            health.blocks_patch_updates = by_overrides;
        })
    };
    assert_eq!(
        told(&stuck("PoolUpdating", false), &plan()),
        "blocked NotUpgradeable"
    );
    assert_eq!(told(&stuck("PoolUpdating", false), &patch), "ready");
    assert_eq!(
        told(&stuck("ClusterVersionOverridesSet", true), &patch),
        "blocked NotUpgradeable"
    );
    let mut with_overrides = stuck("ClusterVersionOverridesSet", true);
    with_overrides.gates = with_gates(&["ack-4.18-a"]).gates;
    assert_eq!(
        told(&with_overrides, &patch),
        "blocked NotUpgradeable",
        "the gate is one of 4.18"
    );
    let mut asking = stuck("AdminAckRequired", false);
    assert_eq!(
        told(&asking, &plan()),
        "unknown PreflightPending",
        "no gate explains it"
    );
    asking.gates = gated.gates;
    assert_eq!(told(&asking, &all), "ready", "the gates are known by name");
}

#[test]
fn gates_are_known_by_their_texts_where_no_reason_tells_them() {
    let said = |reason: &str, message: &str| {
        let mut facts = with_gates(&["ack-4.23-a", "ack-4.23-b"]);
        facts.current = Ok("4.23.1".to_owned());
        facts.health.as_mut().unwrap().upgradeable = Some(ClusterOperatorCondition {
            reason: reason.to_owned(),
            message: message.to_owned(),
            ..condition("Upgradeable", ConditionStatus::False)
        });
        facts
    };
    let plan = |acks: &[&str]| PlannedUpdate {
        version: "5.0.1".to_owned(),
        acks: set(acks),
        ..plan()
    };
    let (one, several) = ("RiskNameNotCompatibleWithReasonProperty", "MultipleReasons");
    let text = "An API is removed.";
    let head = "Cluster should not be upgraded between minor or major versions for multiple reasons:";
    let both = format!("{head}\n* {text}\n* {text}");
    let gates = "blocked AdminAckRequired(ack-4.23-a,ack-4.23-b)";
    for (reason, message) in [(one, text), (several, both.as_str())] {
        let mut facts = said(reason, message);
        assert_eq!(told(&facts, &plan(&[])), gates, "{message}");
        assert_eq!(told(&facts, &plan(&["ack-4.23-a", "ack-4.23-b"])), "ready");
        facts.gates = Ok(Vec::new());
        assert_eq!(
            told(&facts, &plan(&[])),
            "unknown PreflightPending",
            "the condition is older than the acknowledgments"
        );
    }
    for (reason, message) in [
        (one, "The operator is too old.".to_owned()),
        (several, format!("{both}\n* The operator is too old.")),
        (several, head.to_owned()),
        // Up to 4.22 the texts of gates are one item, and the reasons are listed.
        (
            several,
            format!("{text} admin-gates configmap gate ack-4.23-c must contain a non-empty value."),
        ),
        (
            several,
            format!("{head} AdminAckRequired,Incompatible\n* {text} {text}\n* Cluster operator olm"),
        ),
        ("Incompatible", text.to_owned()),
    ] {
        let expected = format!("{gates} NotUpgradeable");
        assert_eq!(
            told(&said(reason, &message), &plan(&[])),
            expected,
            "{reason}: {message}"
        );
    }
}

#[test]
fn only_the_gates_of_the_planned_update_are_told() {
    let keys = ["ack-4.22-a", "ack-4.23-a"];
    let told = |current: &str, target: &str| -> Vec<String> {
        let facts = Facts {
            current: Ok(current.to_owned()),
            ..with_gates(&keys)
        };
        let gates = gates_of_update(&facts, target);
        gates.into_iter().map(|gate| gate.key.clone()).collect()
    };
    assert_eq!(told("4.23.1", "5.0.1"), ["ack-4.23-a"]);
    assert_eq!(told("4.22.9", "5.0.1"), ["ack-4.22-a"]);
    assert!(told("4.23.1", "4.23.5").is_empty(), "within the minor version");
    assert!(told("4.23.5", "4.23.5").is_empty(), "at the target");
    let silent = Facts {
        current: Err(Missing::Pending),
        ..with_gates(&keys)
    };
    assert_eq!(gates_of_update(&silent, "5.0.1").len(), 2, "it is not known");
}

/// An object of a cluster that runs a version.
fn object(version: &str) -> ClusterVersion {
    let text = format!(
        r#"{{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {{"name": "version"}},
            "spec": {{"channel": "stable-5.0", "clusterID": "c"}},
            "status": {{"desired": {{"version": "{version}", "image": "i"}}, "conditions": [],
              "history": [{{"state": "Completed", "version": "{version}", "image": "i"}}]}}}}"#
    );
    read_documents(&text).unwrap().remove(0)
}

/// What an agent answers to the rule: of each beginning that it names, up to four keys.
fn answer(target: &str, keys: &[&str]) -> String {
    let rule = gates_rule(target).unwrap().message;
    let beginnings = rule.split("startsWith(\"").skip(1);
    let beginnings: BTreeSet<&str> = beginnings.filter_map(|rest| rest.split('"').next()).collect();
    let mut lines = vec!["keys/1".to_owned()];
    for beginning in beginnings {
        let found: Vec<&&str> = keys.iter().filter(|key| key.starts_with(beginning)).collect();
        let told = found.iter().take(4);
        lines.extend(told.map(|key| format!("key {key} An API is removed.")));
        lines.extend((found.len() > 4).then(|| "more".to_owned()));
    }
    lines.join("\n")
}

/// The cluster-version operator adds the gates of each release to the map, and takes none away.
#[test]
fn before_a_new_major_version_only_the_gates_of_the_present_minor_version_count() {
    let history = [
        "ack-4.14-a",
        "ack-4.16-a",
        "ack-4.18-a",
        "ack-4.19-a",
        "ack-4.20-a",
        "ack-4.22-a",
        "ack-4.22-b",
        "ack-4.22-c",
    ];
    let next = ["ack-4.23-a", "ack-4.23-b"];
    let all = [&history[..], &next].concat();
    let plan = |target: &str, acks: &[&str]| PlannedUpdate {
        version: target.to_owned(),
        acks: set(acks),
        ..PlannedUpdate::default()
    };
    for (current, target, keys, acks, expected) in [
        (
            "4.22.9",
            "5.0.1",
            &history[..],
            &[][..],
            "blocked AdminAckRequired(ack-4.22-a,ack-4.22-b,ack-4.22-c)",
        ),
        ("4.22.9", "5.0.1", &history, &history[5..], "ready"),
        ("4.22.9", "5.0.1", &history[..5], &[], "ready"),
        (
            "4.23.1",
            "5.0.1",
            &all,
            &[],
            "blocked AdminAckRequired(ack-4.23-a,ack-4.23-b)",
        ),
        ("4.23.1", "5.0.1", &all, &next, "ready"),
        ("4.23.1", "5.0.1", &history, &[], "ready"),
        ("5.0.4", "5.1.0", &all, &[], "ready"),
        (
            "5.0.4",
            "5.1.0",
            &["ack-4.23-a", "ack-5.0-a"],
            &[],
            "blocked AdminAckRequired(ack-5.0-a)",
        ),
        (
            "4.22.9",
            "4.23.1",
            &history,
            &[],
            "blocked AdminAckRequired(ack-4.22-a,ack-4.22-b,ack-4.22-c)",
        ),
    ] {
        let plan = plan(target, acks);
        let runs = |gates| Facts {
            current: Ok(current.to_owned()),
            gates,
            ..well()
        };
        let map = ConfigMap::of(keys.iter().map(|key| (*key, "An API is removed.")));
        let nothing = ConfigMap::of::<&str, &str>([]);
        let whole = Facts::of(&object(current), Some((&map, &nothing)), target);
        assert_eq!(told(&runs(whole.gates), &plan), expected, "{current} {target}");
        let asked = read_gates(&answer(target, keys), None);
        assert_eq!(
            told(&runs(asked), &plan),
            expected,
            "{current} {target} by the probe"
        );
    }
}
