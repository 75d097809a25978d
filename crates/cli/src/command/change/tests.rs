use super::*;
use crate::render::fixtures::running;

#[test]
fn a_restored_upgrade_is_resumed_by_its_own_uid_and_freed_of_a_pause() {
    let restored = |status: &str| {
        Upgrade::read(serde_json::json!({
            "metadata": {"namespace": "upgrades", "name": "spring", "uid": "new", "annotations": {
                "cluster.open-cluster-management.io/upgrade-uid": "old"}},
            "spec": {"paused": true},
            "status": serde_json::from_str::<Value>(status).unwrap(),
        }))
    };
    let on_hold = r#"{"conditions": [{"type": "Stalled", "status": "True", "reason": "Restored", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}"#;
    for status in ["null", on_hold] {
        let before = restored(status);
        assert!(before.restored, "{status}");
        assert_eq!(
            resume_restored_patch(&before),
            json!({
                "metadata": {"uid": "new", "annotations": {
                    "cluster.open-cluster-management.io/resume-restored": "new"}},
                "spec": {"paused": false},
            })
        );
        assert!(paused_text(&before, false).contains("resumed after its restore"));
    }
    assert!(
        !restored(r#"{"state": "Pending"}"#).restored,
        "it was taken up since"
    );
}

#[test]
fn patches_touch_one_field_only() {
    assert_eq!(pause_patch(true), json!({"spec": {"paused": true}}));
    assert_eq!(
        retry_patch("t"),
        json!({"metadata": {"annotations": {"cluster.open-cluster-management.io/retry-failed": "t"}}})
    );
}

#[test]
fn a_retry_always_has_a_new_value() {
    assert_eq!(retry_token("", "now"), "now");
    assert_eq!(retry_token("now", "now"), "now-again");
    assert_eq!(retry_token("now-again", "now"), "now");
}

#[test]
fn pausing_says_what_happens_to_the_clusters() {
    assert_eq!(
        paused_text(&running(), true),
        "managedclustersupgrade.cluster.open-cluster-management.io/spring paused\n\
         5 clusters in flight will finish; 6 pending clusters will not start until you resume.\n"
    );
    let paused = Upgrade {
        paused: true,
        ..running()
    };
    assert!(paused_text(&paused, true).contains("already paused"));
    assert!(
        paused_text(&paused, false)
            .contains("resumed\n6 pending clusters will start as slots become free.\n")
    );
    assert!(paused_text(&running(), false).contains("not paused"));
    let mut paused = paused;
    let status = paused.status.as_mut().unwrap();
    status.phases.insert("Blocked".to_owned(), 2);
    assert!(paused_text(&paused, false).ends_with(
        "\n4 pending clusters will start as slots become free.\n2 blocked clusters will start when the cause is gone.\n"
    ));
    // Clusters that the spec leaves out do not start.
    let status = paused.status.as_mut().unwrap();
    status.phases.insert("Skipped".to_owned(), 3);
    assert!(paused_text(&paused, false).contains("\n1 pending cluster will start"));
}

#[test]
fn nobody_is_told_that_clusters_start_where_a_pause_is_not_what_holds_them() {
    let text = paused_text(&crate::render::fixtures::stalled(), false);
    assert!(
        text.contains("not paused\nThe upgrade is stalled (ClustersFailed): 1 cluster failed"),
        "{text}"
    );
    assert!(!text.contains("will start"), "{text}");
    let mut waits = Upgrade {
        paused: true,
        ..running()
    };
    let checkpoint = json!([{"name": "first", "state": "Waiting", "planHash": "1a2b"}]);
    waits.status.as_mut().unwrap().approvals = serde_json::from_value(checkpoint).unwrap();
    let text = paused_text(&waits, false);
    assert!(
        text.ends_with("resumed\nClusters wait for an approval: kubectl mcu approvals spring -n upgrades\n"),
        "{text}"
    );
    let deleting = Upgrade {
        deleting: true,
        ..running()
    };
    assert!(paused_text(&deleting, false).contains("no cluster will start"));
}
