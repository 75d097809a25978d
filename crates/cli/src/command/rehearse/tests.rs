use super::*;

#[test]
fn a_new_upgrade_is_the_youngest_and_an_edited_one_keeps_its_identity() {
    let now: DateTime<Utc> = "2026-05-28T10:15:00Z".parse().unwrap();
    let manifest = json!({"metadata": {"name": "a", "annotations": {"x": "1"}}, "spec": {"paused": true}});
    let new = created(&manifest, "team", now);
    assert_eq!(
        new["metadata"],
        json!({
            "name": "a", "namespace": "team", "uid": NEW_UID, "generation": 1, "annotations": {"x": "1"},
            "creationTimestamp": "2026-05-28T10:15:00.000Z",
        })
    );
    let stored = json!({
        "metadata": {"name": "a", "uid": "u1", "generation": 3, "annotations": {"y": "2"}},
        "spec": {"paused": false}, "status": {"state": "InProgress"},
    });
    let edited = applied(&manifest, stored.clone());
    assert_eq!(
        edited,
        json!({
            "metadata": {"name": "a", "uid": "u1", "generation": 4, "annotations": {"x": "1", "y": "2"}},
            "spec": {"paused": true}, "status": {"state": "InProgress"},
        })
    );
    let same = applied(&json!({"metadata": {}, "spec": {"paused": false}}), stored);
    assert_eq!(same["metadata"]["generation"], 3);
}

#[test]
fn every_missing_right_is_named() {
    let forbidden = [
        (ListKind::Placements, "no".to_owned()),
        (ListKind::Works, "no".to_owned()),
    ];
    let text = missing_rights(&forbidden).to_string();
    assert!(
        text.contains("* list placements.cluster.open-cluster-management.io in all namespaces\n"),
        "{text}"
    );
    assert!(
        text.contains("* list manifestworks.work.open-cluster-management.io in all namespaces\n"),
        "{text}"
    );
    assert!(text.contains("ClusterRole mcu-rehearser"), "{text}");
}

#[test]
fn an_invalid_spec_on_the_hub_is_told_field_by_field() {
    let violation = api::validate::SpecViolation {
        field: "spec.clusterVersion.version".to_owned(),
        message: "bad\u{1b}[2J".to_owned(),
    };
    let text = explained(
        NoRehearsal::NoPlan(NoPlan::Invalid(vec![violation])),
        "team",
        "spring",
    )
    .to_string();
    assert!(text.contains("* spec.clusterVersion.version: bad [2J"), "{text}");
    let deleting = explained(NoRehearsal::NoPlan(NoPlan::Deleting), "team", "spring").to_string();
    assert_eq!(
        deleting,
        "error: upgrade team/spring is being deleted, so it starts no cluster"
    );
}

#[test]
fn what_commands_have_set_on_the_hub_and_a_file_does_not_set_is_told() {
    let stored = json!({"spec": {
        "paused": true, "clusterVersion": {"adminAcks": []},
        "upgradeStrategy": {"skip": [{"cluster": "edge-1", "reason": "no power"}], "maxConcurrency": 2},
    }});
    let told = not_in_file(
        &json!({"spec": {"clusterVersion": {"version": "4.20.4"}}}),
        &stored,
    );
    assert!(
        told.contains("has spec.paused, spec.upgradeStrategy.skip, which the file"),
        "{told}"
    );
    let same = json!({"spec": {"paused": false, "upgradeStrategy": {"skip": [{"cluster": "edge-2", "reason": "x"}]}}});
    assert_eq!(not_in_file(&same, &stored), "");
}
