use super::*;

fn upgrade(spec: &Value) -> Upgrade {
    Upgrade::read(json!({
        "metadata": {"name": "spring", "namespace": "upgrades", "uid": "u1", "resourceVersion": "7"}, "spec": spec,
    }))
}

fn with_risk() -> Upgrade {
    upgrade(&json!({"clusterVersion": {"acceptRisks": [{"name": "Leak", "reason": "old"}]}}))
}

#[test]
fn a_name_is_added_and_the_others_stay() {
    let (list, edit) = edited(&with_risk(), Consent::Risk, "Other", "why");
    assert_eq!(edit, Edit::Added);
    assert_eq!(
        list,
        [
            json!({"name": "Leak", "reason": "old"}),
            json!({"name": "Other", "reason": "why"})
        ]
    );
    let (list, edit) = edited(&upgrade(&json!({})), Consent::Gate, "ack-4.19-a", "why");
    assert_eq!(
        (list, edit),
        (vec![json!({"key": "ack-4.19-a", "reason": "why"})], Edit::Added)
    );
}

#[test]
fn a_name_is_never_listed_twice() {
    let (list, edit) = edited(&with_risk(), Consent::Risk, "Leak", "new");
    assert_eq!(
        (list, edit),
        (vec![json!({"name": "Leak", "reason": "new"})], Edit::Replaced)
    );
    let (list, edit) = edited(&with_risk(), Consent::Risk, "Leak", "old");
    assert_eq!((list.len(), edit), (1, Edit::Unchanged));
}

#[test]
fn the_patch_holds_only_for_the_object_that_was_read() {
    let list = [json!({"name": "Leak", "reason": "old"})];
    let patch = patch(&with_risk(), Consent::Risk, &list);
    assert_eq!(patch["metadata"], json!({"uid": "u1", "resourceVersion": "7"}));
    assert_eq!(patch["spec"], json!({"clusterVersion": {"acceptRisks": list}}));
    let manifest = manifest(&with_risk(), Consent::Risk, &list);
    assert_eq!(
        manifest["metadata"],
        json!({"name": "spring", "namespace": "upgrades"})
    );
    assert_eq!(manifest["spec"], patch["spec"]);
}

#[test]
fn risks_need_a_preflight_and_gates_do_not() {
    let plain = upgrade(&json!({"clusterVersion": {"version": "4.20.4"}}));
    assert!(
        obstacle(&plain, Consent::Risk)
            .unwrap()
            .contains("spec.preflight.mode")
    );
    assert_eq!(obstacle(&plain, Consent::Gate), None);
    let asked = upgrade(&json!({"clusterVersion": {}, "preflight": {"mode": "Require"}}));
    assert_eq!(obstacle(&asked, Consent::Risk), None);
    assert!(
        obstacle(&upgrade(&json!({})), Consent::Gate)
            .unwrap()
            .contains("spec.clusterVersion")
    );
}
