use super::*;
use crate::types::{HistoryEntry, MatchingRule, RECOMMENDED, Risk, Spec};

fn object() -> ClusterVersion {
    let mut object = ClusterVersion::new(Spec {
        channel: "stable-4.18".to_owned(),
        ..Spec::default()
    });
    let status = &mut object.status;
    status.desired = Release::new("4.18.1", "image/1");
    status.history = vec![HistoryEntry {
        state: "Completed".to_owned(),
        version: "4.18.1".to_owned(),
        ..HistoryEntry::default()
    }];
    status.available_updates = vec![
        Release::new("4.19.0", "image/4"),
        Release::new("4.18.2", "image/2"),
    ];
    let mut update = ConditionalUpdate {
        release: Release::new("4.18.3", "image/3"),
        risks: vec![
            Risk {
                url: "https://e/1".to_owned(),
                name: "Leak".to_owned(),
                message: "It leaks.".to_owned(),
                matching_rules: vec![MatchingRule::always()],
                ..Risk::default()
            },
            Risk {
                name: "Other".to_owned(),
                ..Risk::default()
            },
        ],
        ..ConditionalUpdate::default()
    };
    set(
        &mut update.conditions,
        RECOMMENDED,
        ConditionStatus::False,
        "Leak",
        "It leaks. https://e/1",
    );
    status.conditional_updates = vec![update];
    set(
        &mut status.conditions,
        RETRIEVED_UPDATES,
        ConditionStatus::True,
        "",
        "",
    );
    object
}

fn set(
    conditions: &mut crate::types::Conditions,
    kind: &str,
    status: ConditionStatus,
    reason: &str,
    message: &str,
) {
    conditions.set(Condition::new(Time::UNIX_EPOCH, kind, status, reason, message));
}

fn asked(
    object: &ClusterVersion,
    version: &str,
    not_recommended: bool,
    warnings: bool,
) -> Result<Value, Vec<String>> {
    let allowed = Allowed {
        not_recommended,
        warnings,
    };
    request(object, version, allowed).map(|request| request.patch["spec"]["desiredUpdate"].clone())
}

#[test]
fn recommended_updates_and_the_others_with_what_stands_against_them() {
    let mut object = object();
    set(
        &mut object.status.conditions,
        UPGRADEABLE,
        ConditionStatus::False,
        "AdminAckRequired",
        "Read this.",
    );
    let gates = ConfigMap::of([("ack-4.18-a", "Read this.")]);
    let acks = ConfigMap::of([("x", "true")]);
    let view = view(&object, Some((&gates, &acks)), None);
    let rows: Vec<_> = view
        .recommended
        .iter()
        .map(|row| (row.version.as_str(), row.blocked))
        .collect();
    assert_eq!(rows, [("4.19.0", true), ("4.18.2", false)]);
    assert_eq!(view.not_recommended[0].risks, ["Leak"]);
    assert_eq!(view.not_recommended[0].recommended, "False");
    assert_eq!(view.gates[0].key, "ack-4.18-a");
    assert_eq!(view.blocks[0].condition, "Upgradeable=False");
    assert_eq!(view.running, None);
    assert!(wants_attention(&view.state));
}

#[test]
fn a_recommended_update_is_asked_for_by_version_and_another_by_image() {
    let object = object();
    assert_eq!(
        asked(&object, "4.18.2", false, false),
        Ok(json!({"version": "4.18.2", "image": "", "architecture": "", "force": false}))
    );
    assert_eq!(
        asked(&object, "4.18.3", true, false),
        Ok(json!({"version": "4.18.3", "image": "image/3", "architecture": "", "force": false}))
    );
}

#[test]
fn a_request_is_refused_with_every_reason() {
    let mut object = object();
    let one = |result: Result<Value, Vec<String>>| result.unwrap_err();
    assert_eq!(
        one(asked(&object, "4.18.3", false, false)),
        [
            "4.18.3 is not recommended (Recommended=False, Leak; --allow-not-recommended overrules this): It leaks. https://e/1"
        ]
    );
    assert_eq!(
        one(asked(&object, "4.18.1", true, true)),
        ["the cluster runs 4.18.1 already"]
    );
    assert_eq!(
        one(asked(&object, "4.18.9", true, true)),
        ["4.18.9 is not among the updates of channel \"stable-4.18\" (such as 4.19.0, 4.18.2, 4.18.3)"]
    );
    set(
        &mut object.status.conditions,
        FAILING,
        ConditionStatus::True,
        "R",
        "M",
    );
    set(
        &mut object.status.conditions,
        PROGRESSING,
        ConditionStatus::True,
        "",
        "Working",
    );
    assert_eq!(one(asked(&object, "4.18.3", false, false)).len(), 3);
    assert!(asked(&object, "4.18.2", false, true).is_ok());
    set(
        &mut object.status.conditions,
        RETRIEVED_UPDATES,
        ConditionStatus::False,
        "NoChannel",
        "No channel.",
    );
    assert_eq!(
        one(asked(&object, "4.18.9", true, true)),
        ["4.18.9 is not among the updates, and none could be retrieved: NoChannel: No channel."]
    );
}

#[test]
fn a_gate_does_not_refuse_a_request_but_is_told() {
    let mut object = object();
    set(
        &mut object.status.conditions,
        UPGRADEABLE,
        ConditionStatus::False,
        "AdminAckRequired",
        "Read this.",
    );
    let request = request(&object, "4.19.0", Allowed::default()).unwrap();
    assert!(
        request.notes[0].ends_with("AdminAckRequired: Read this."),
        "{:?}",
        request.notes
    );
}
