//! Statuses that count other clusters than there are: a leader has ended after the status and before the records.

use super::*;

/// A status that counts so many clusters, canaries and selected clusters.
fn counting(clusters: i64, canaries: i64, selected: &str) -> Value {
    json!({
        "phases": {"Complete": clusters},
        "canaryClustersSummery": {
            "total": canaries, "initialized": canaries, "partialUpgrade": 0, "complete": canaries, "failed": 0, "pending": 0,
        },
        "conditions": [
            {"type": "Selected", "status": "True", "reason": "ManagedClustersSelected", "message": selected,
             "lastTransitionTime": "2026-05-28T11:00:00Z"},
            {"type": "Complete", "status": "True", "reason": "ManagedClustersUpgradeComplete",
             "message": "All 2 clusters are complete", "lastTransitionTime": "2026-05-28T11:00:00Z"},
        ],
    })
}

/// What a new leader reads of a finished upgrade of two clusters, the first of which is a canary, with these fields in its
/// status.
fn read_with(told: &Value) -> Vec<String> {
    let mut spec = two();
    let canary = crate::fixture::spec(&["c1"])["clusterSelector"].clone();
    spec["upgradeStrategy"] = json!({"canaryClusters": {"clusterSelector": canary}});
    let mut object = object(2, &spec);
    for (field, value) in told.as_object().unwrap() {
        object["status"][field] = value.clone();
    }
    let mut first = row("c1", "Complete");
    first["canary"] = json!(true);
    let report = report(3, &[first, row("c2", "Complete")]);
    let context = context(&["c1", "c2"]);
    context.with(|state| {
        state.apply_upgrade(upgrade(object));
        state.begin_term();
        state.observe_report(&report, false, false, Utc::now());
        state.owns_records = true;
    });
    assert!(archived(&context));
    wanted(&context)
}

#[test]
fn a_finished_upgrade_that_skips_a_cluster_that_is_gone_is_not_read_again_and_again() {
    let mut spec = two();
    spec["upgradeStrategy"] = json!({"skip": [{"cluster": "c3", "reason": "no power"}]});
    let context = context(&["c1", "c2"]);
    context.with(|state| {
        state.apply_upgrade(upgrade(object(2, &spec)));
        let entry = state.upgrades.get_mut("u1").unwrap();
        entry.refresh_selection(&state.index, false);
        assert_eq!(entry.selected.notes.len(), 1, "{:?}", entry.selected.notes);
        for name in ["c1", "c2"] {
            let mut record: rollout::Record = record(rollout::Phase::Complete).into();
            record.attempt.revision = Arc::from(revision(&spec));
            note(entry, name, record);
        }
        crate::fixture::write(entry);
        entry.dirty = false;
        entry.last_reconcile = Some((Instant::now(), Duration::ZERO));
        state.archive_at_rest(later(6));
        state.compare_at = Instant::now();
        state.compare(later(7));
        assert!(!state.upgrades["u1"].archive.as_ref().unwrap().wanted);
    });
}

#[test]
fn a_finished_upgrade_is_read_again_when_its_status_counts_other_clusters_than_there_are() {
    let both = "2 clusters are selected";
    assert!(read_with(&counting(2, 1, both)).is_empty());
    for told in [
        counting(1, 1, both),
        counting(3, 1, both),
        counting(-2, 1, both),
        counting(2, 0, both),
        counting(2, 2, both),
        counting(2, 1, "1 cluster is selected"),
        counting(2, 1, "12 clusters are selected"),
    ] {
        assert_eq!(read_with(&told), ["u1-report-1"], "{told}");
    }
}

#[test]
fn a_finished_upgrade_is_not_read_again_for_counts_that_its_status_does_not_have() {
    assert!(read_with(&json!({})).is_empty());
    assert!(read_with(&json!({"canaryClustersSummery": null, "conditions": []})).is_empty());
}

#[test]
fn an_upgrade_at_rest_is_not_archived_before_its_status_counts_what_is_recorded() {
    let context = resting();
    let told = |version: u64, clusters: i64| {
        let mut told = object(version, &two());
        told["status"]["phases"] = json!({"Complete": clusters});
        context.with(|state| {
            state.apply_upgrade(upgrade(told));
            state.archive_at_rest(later(6));
        });
        archived(&context)
    };
    assert!(!told(3, 1));
    assert!(told(4, 2));
}

/// A cluster has joined and was asked before the status told of it, and the response was lost. The creation may still be carried out.
#[test]
fn an_upgrade_whose_status_says_complete_is_not_archived_while_a_creation_is_in_doubt() {
    let context = context(&["c1", "c2"]);
    context.with(|state| {
        state.apply_upgrade(upgrade(object(2, &two())));
        let entry = state.upgrades.get_mut("u1").unwrap();
        entry.record_certainty(
            &Arc::from("c2"),
            (Step::Platform, rollout::OperationKind::Create),
            &rollout::testing::first_attempt(),
            &crate::apply::WriteResult::GivenUp,
            Instant::now(),
        );
        state.begin_term();
        let entry = &state.upgrades["u1"];
        assert!(entry.archive.is_none());
        assert_eq!(entry.unsettled.len(), 1);
    });
}
