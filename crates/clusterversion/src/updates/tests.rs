use super::*;
use crate::types::{ComponentOverride, HistoryEntry, MatchingRule, RECOMMENDED, Risk, Spec};

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
    for (kind, is) in [
        (RETRIEVED_UPDATES, ConditionStatus::True),
        (PROGRESSING, ConditionStatus::False),
    ] {
        set(&mut status.conditions, kind, is, "", "");
    }
    object
}

fn keys(gates: &[AdminGate]) -> Vec<&str> {
    gates.iter().map(|gate| gate.key.as_str()).collect()
}

fn set(
    conditions: &mut crate::types::Conditions,
    kind: &str,
    status: ConditionStatus,
    reason: &str,
    message: &str,
) {
    conditions.set(ClusterOperatorCondition::new(
        Time::UNIX_EPOCH,
        kind,
        status,
        reason,
        message,
    ));
}

fn require_an_ack(object: &mut ClusterVersion) {
    set(
        &mut object.status.conditions,
        UPGRADEABLE,
        ConditionStatus::False,
        "AdminAckRequired",
        "Read this.",
    );
}

fn asked(
    object: &ClusterVersion,
    version: &str,
    not_recommended: bool,
    warnings: bool,
) -> Result<Value, Vec<String>> {
    let allowed = RequestOptions {
        not_recommended,
        warnings,
    };
    update_request(object, version, allowed).map(|request| request.patch["spec"]["desiredUpdate"].clone())
}

#[test]
fn recommended_updates_and_the_others_with_what_stands_against_them() {
    let mut object = object();
    require_an_ack(&mut object);
    let gates = ConfigMap::of([("ack-4.18-a", "Read this.")]);
    let acks = ConfigMap::of([("x", "true")]);
    let view = cluster_updates(&object, Some((&gates, &acks)), None);
    let rows: Vec<_> = view
        .recommended
        .iter()
        .map(|row| (row.version.as_str(), row.blocked))
        .collect();
    assert_eq!(rows, [("4.19.0", true), ("4.18.2", false)]);
    assert_eq!(view.not_recommended[0].risks, ["Leak"]);
    assert_eq!(view.not_recommended[0].recommended, "False");
    assert_eq!(view.gates.as_deref().map(keys), Some(vec!["ack-4.18-a"]));
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
            "4.18.3 is not recommended (Recommended=False, Leak; use --allow-not-recommended to request it anyway): It leaks. https://e/1"
        ]
    );
    assert_eq!(
        one(asked(&object, "4.18.1", true, true)),
        ["the cluster already runs 4.18.1"]
    );
    assert_eq!(
        one(asked(&object, "4.18.9", true, true)),
        [
            "4.18.9 is not an available update of channel \"stable-4.18\"; available are for example 4.19.0, 4.18.2, 4.18.3"
        ]
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
        [
            "4.18.9 is not an available update, and the cluster could not retrieve updates: NoChannel: No channel."
        ]
    );
}

#[test]
fn a_gate_does_not_refuse_a_request_but_is_told() {
    let mut object = object();
    require_an_ack(&mut object);
    let request = update_request(&object, "4.19.0", RequestOptions::default()).unwrap();
    assert!(
        request.notes[0].ends_with("AdminAckRequired: Read this."),
        "{:?}",
        request.notes
    );
}

/// The object with the one risky update said to be so, and in the list of available updates or not.
fn contradicting(is: Option<ConditionStatus>, listed: bool) -> ClusterVersion {
    let mut object = object();
    let status = &mut object.status;
    let update = &mut status.conditional_updates[0];
    update.conditions.remove(RECOMMENDED);
    if let Some(is) = is {
        set(&mut update.conditions, RECOMMENDED, is, "R", "M");
    }
    if listed {
        status.available_updates.push(Release::new("4.18.3", "image/3"));
    }
    object
}

#[test]
fn the_condition_of_an_update_with_risks_outdoes_the_list_of_available_updates() {
    use ConditionStatus::{False, True, Unknown};
    let by_version = json!({"version": "4.18.3", "image": "", "architecture": "", "force": false});
    let by_image = json!({"version": "4.18.3", "image": "image/3", "architecture": "", "force": false});
    for (is, listed, expected) in [
        (Some(True), true, Some(&by_version)),
        (Some(True), false, Some(&by_image)),
        (Some(False), true, None),
        (Some(False), false, None),
        (Some(Unknown), true, None),
        (None, true, None),
    ] {
        let object = contradicting(is, listed);
        let view = cluster_updates(&object, None, None);
        let mut versions: Vec<&str> = view.recommended.iter().map(|row| row.version.as_str()).collect();
        assert_eq!(
            (view.not_recommended.len(), versions.contains(&"4.18.3")),
            (usize::from(expected.is_none()), expected.is_some()),
            "{is:?} {listed}"
        );
        versions.retain(|version| *version != "4.18.3");
        assert_eq!(versions, ["4.19.0", "4.18.2"], "{is:?} {listed}");
        let got = asked(&object, "4.18.3", false, false);
        assert_eq!(got.as_ref().ok(), expected, "{is:?} {listed}: {got:?}");
        assert_eq!(
            asked(&object, "4.18.3", true, false).as_ref().ok(),
            Some(expected.unwrap_or(&by_image)),
            "{is:?} {listed}"
        );
    }
    let unknown = asked(&contradicting(None, false), "4.18.3", false, false).unwrap_err();
    assert_eq!(
        unknown,
        [
            "it is not known whether 4.18.3 is recommended, because its risks are not evaluated yet (use --allow-not-recommended to request it anyway)"
        ]
    );
}

#[test]
fn what_cannot_be_asked_for_is_refused_and_not_listed() {
    let mut object = object();
    object.status.observed_generation = object.metadata.generation;
    object
        .status
        .available_updates
        .extend([Release::new("4.18.4", ""), Release::new("", "image/5")]);
    let shown = cluster_updates(&object, None, None);
    assert_eq!(shown.recommended.len(), 2);
    assert_eq!(
        shown.notes,
        ["2 listed updates have no version or no image and cannot be requested"]
    );
    assert!(asked(&object, "4.18.4", true, true).is_err());
    object.status.conditional_updates[0].release.image.clear();
    let refused = asked(&object, "4.18.3", true, true).unwrap_err();
    assert!(
        refused[0].starts_with("4.18.3 is listed without an image"),
        "{refused:?}"
    );
    for nonsense in ["", "latest", "v4.18.2", "4.18"] {
        assert_eq!(
            asked(&object, nonsense, true, true).unwrap_err(),
            [format!(
                "{nonsense:?} is not a version; expected one such as 4.14.9"
            )]
        );
    }
}

#[test]
fn gates_are_told_or_said_to_be_unknown_and_never_left_out_as_if_there_were_none() {
    let object = object();
    let gates = ConfigMap::of([("ack-4.18-a", "Read this.")]);
    let acks = ConfigMap::of([("ack-4.18-a", "true")]);
    let unreadable = ConfigMap::Unreadable("forbidden".to_owned());
    let told = |gates: &ConfigMap, acks: &ConfigMap| {
        let view = cluster_updates(&object, Some((gates, acks)), None);
        assert_eq!(view.gates.is_none(), view.gates_unknown.is_some());
        view.gates
            .map(|gates| gates.into_iter().map(|gate| gate.key).collect::<Vec<_>>())
            .ok_or(view.gates_unknown.unwrap_or_default())
    };
    assert_eq!(told(&gates, &acks), Ok(Vec::new()));
    assert_eq!(
        told(&gates, &ConfigMap::Missing),
        Ok(vec!["ack-4.18-a".to_owned()])
    );
    assert_eq!(
        told(&gates, &unreadable),
        Err("ConfigMap admin-acks of namespace openshift-config cannot be read: forbidden".to_owned())
    );
    assert_eq!(
        told(&unreadable, &acks),
        Err(
            "ConfigMap admin-gates of namespace openshift-config-managed cannot be read: forbidden"
                .to_owned()
        )
    );
    assert_eq!(
        told(&ConfigMap::Missing, &acks),
        Err("ConfigMap admin-gates of namespace openshift-config-managed not found".to_owned())
    );
    let alone = json!(cluster_updates(&object, None, None));
    assert_eq!(alone.get("gates"), None, "{alone}");
    assert!(alone["gatesUnknown"].is_string(), "{alone}");
}

#[test]
fn from_4_23_on_the_gates_of_the_running_version_are_told() {
    let gates = ConfigMap::of([("ack-4.18-a", "A"), ("ack-5.1-b", "B")]);
    let acks = ConfigMap::of::<String, String>([]);
    let mut object = object();
    for (running, expected) in [("4.19.0", "ack-4.18-a"), ("5.1.0", "ack-5.1-b")] {
        object.status.desired = Release::new(running, "image/9");
        let view = cluster_updates(&object, Some((&gates, &acks)), None);
        assert_eq!(view.gates.as_deref().map(keys), Some(vec![expected]), "{running}");
    }
}

fn overridden(version: &str) -> ClusterVersion {
    let mut object = object();
    object.spec.overrides = vec![ComponentOverride {
        unmanaged: true,
        ..ComponentOverride::default()
    }];
    object.status.desired.version = version.to_owned();
    object.status.history[0].version = version.to_owned();
    let text = "Disabling ownership via cluster version overrides prevents upgrades.";
    set(
        &mut object.status.conditions,
        UPGRADEABLE,
        ConditionStatus::False,
        "ClusterVersionOverridesSet",
        text,
    );
    object
}

#[test]
fn overrides_block_patch_updates_too_as_long_as_clusters_have_it_so() {
    let blocked = |object: &ClusterVersion, version: &str| {
        let view = cluster_updates(object, None, None);
        let mut offered = view.recommended.into_iter();
        offered.find(|one| one.version == version).unwrap().blocked
    };
    let old = overridden("4.18.1");
    assert!(blocked(&old, "4.18.2"));
    let asked = update_request(&old, "4.18.2", RequestOptions::default()).unwrap();
    assert!(asked.notes[0].contains("blocks all updates"), "{asked:?}");
    let told = cluster_updates(&old, None, None).cause;
    assert!(told.contains("blocks all updates"), "{told}");

    let mut new = overridden("4.22.1");
    new.status.available_updates = vec![
        Release::new("4.23.0", "image/4"),
        Release::new("4.22.2", "image/2"),
    ];
    assert!(!blocked(&new, "4.22.2"));
    assert!(blocked(&new, "4.23.0"));
    let told = cluster_updates(&new, None, None).cause;
    assert!(told.contains("blocks updates to another minor version"), "{told}");
}

#[test]
fn what_runs_is_what_the_operator_works_on() {
    let mut object = object();
    assert_eq!(cluster_updates(&object, None, None).running, None);
    set(
        &mut object.status.conditions,
        PROGRESSING,
        ConditionStatus::True,
        "",
        "Working towards 4.18.1",
    );
    let running = cluster_updates(&object, None, None).running.unwrap();
    assert_eq!(running.version, "4.18.1");
    assert_eq!(running.since.as_deref(), Some("1970-01-01T00:00:00Z"));

    let open = HistoryEntry {
        state: PARTIAL.to_owned(),
        version: "4.18.2".to_owned(),
        ..HistoryEntry::default()
    };
    object.status.history.insert(0, open);
    let running = cluster_updates(&object, None, None).running.unwrap();
    assert_eq!((running.version.as_str(), running.since), ("4.18.2", None));

    set(
        &mut object.status.conditions,
        PROGRESSING,
        ConditionStatus::False,
        "",
        "",
    );
    let stalled = cluster_updates(&object, None, None);
    assert_eq!((stalled.state.as_str(), stalled.running), ("Stalled", None));
}
