//! Writes of reports.

use super::*;

fn stored_answer(version: u64) -> Value {
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgradeReport",
        "metadata": {"name": "mcu-report-1", "namespace": "ns", "uid": "report-uid", "resourceVersion": version.to_string()},
    })
}

fn stored_report(outcome: &WriteResult) -> (&str, u64) {
    let WriteResult::Report(stored) = outcome else {
        panic!("{outcome:?}");
    };
    (&stored.uid, stored.version)
}

/// A shard that is due, which exists on the hub or not, with or without a row.
pub(super) fn due(exists: bool, row: bool) -> crate::report::shard::ShardWrite {
    use std::time::{Duration, Instant};
    let now = Instant::now();
    let mut rows = crate::report::rows::Rows::new(&Arc::from("mcu"));
    let plan = rollout::Plan {
        clusters: vec![rollout::ClusterState {
            name: Arc::from("c1"),
            record: Arc::new(rollout::testing::record(rollout::Phase::Pending).into()),
            urgent: true,
            starting: false,
        }],
        ..rollout::Plan::default()
    };
    let policy = rollout::testing::policy().build();
    rows.commit(&plan, &policy, now, |_| (false, false));
    let first = rows.due(now).remove(0);
    let dropped = rollout::Plan {
        dropped: vec![Arc::from("c1")],
        ..rollout::Plan::default()
    };
    if !exists && row {
        return first;
    }
    if !exists {
        rows.commit(&dropped, &policy, now, |_| (false, false));
        rows.failed(&first, now);
        return rows.due(now + Duration::from_mins(5)).remove(0);
    }
    rows.wrote(first, Some(crate::fixture::stored(1)), now);
    if row {
        let plan = rollout::Plan {
            clusters: vec![rollout::ClusterState {
                name: Arc::from("c1"),
                record: Arc::new(rollout::testing::record(rollout::Phase::Blocked).into()),
                urgent: true,
                starting: false,
            }],
            ..rollout::Plan::default()
        };
        rows.commit(&plan, &policy, now, |_| (false, false));
        return rows.due(now).remove(0);
    }
    rows.commit(&dropped, &policy, now, |_| (false, false));
    rows.due(now + Duration::from_secs(2)).remove(0)
}

pub(super) fn report(due: crate::report::shard::ShardWrite) -> WriteJob {
    let body = (!due.rows.is_empty()).then(|| json!({"rows": due.rows}).to_string().into_bytes());
    job(Write::Report {
        namespace: Arc::from("ns"),
        due: Box::new(due),
        body,
    })
}

#[tokio::test]
async fn a_new_report_is_created_by_one_post_and_its_version_read() {
    let answer = stored_answer(42);
    let (outcome, hub) = run(&report(due(false, true)), vec![Answer::Said(201, answer)]).await;
    assert_eq!(stored_report(&outcome), ("report-uid", 42));
    let asked = hub.asked().remove(0);
    assert_eq!(
        (asked.method.as_str(), asked.content.as_str()),
        ("POST", "application/json")
    );
    assert!(
        asked
            .uri
            .contains("/namespaces/ns/managedclustersupgradereports?")
    );
    assert_eq!(asked.body["rows"][0]["cluster"], "c1");
}

#[tokio::test]
async fn a_report_is_changed_only_as_it_was_read() {
    let answer = stored_answer(43);
    let (outcome, hub) = run(&report(due(true, true)), vec![Answer::Said(200, answer)]).await;
    assert_eq!(stored_report(&outcome), ("report-uid", 43));
    let asked = hub.asked().remove(0);
    assert_eq!(
        (asked.method.as_str(), asked.content.as_str()),
        ("PATCH", "application/apply-patch+yaml")
    );
    assert!(
        asked
            .uri
            .contains("/namespaces/ns/managedclustersupgradereports/mcu-report-1?")
    );
    assert_eq!(asked.body["rows"][0]["cluster"], "c1");
}

#[tokio::test]
async fn a_report_that_is_not_as_it_was_read_is_read_again() {
    for (exists, rows) in [(false, true), (true, true), (true, false)] {
        let conflict = || status(409, "Conflict", "the object has been modified", &json!({}));
        let found = Answer::Said(200, stored_answer(44));
        let (outcome, hub) = run(&report(due(exists, rows)), vec![conflict(), found]).await;
        let WriteResult::ReportChanged(Some(found)) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(found.metadata.resource_version.as_deref(), Some("44"));
        assert_eq!(hub.calls().last().map(String::as_str), Some("GET"));
        let (outcome, _) = run(&report(due(exists, rows)), vec![conflict(), not_found()]).await;
        assert!(matches!(outcome, WriteResult::ReportChanged(None)), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_report_without_rows_is_deleted_also_when_it_is_gone_already() {
    let success = Answer::Said(
        200,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
    );
    for answer in [success, not_found()] {
        let (outcome, hub) = run(&report(due(true, false)), vec![answer]).await;
        assert!(matches!(outcome, WriteResult::ReportDeleted), "{outcome:?}");
        assert_eq!(hub.calls(), ["DELETE"]);
        assert_eq!(
            hub.asked()[0].body["preconditions"],
            json!({"uid": "report-uid", "resourceVersion": "1"})
        );
    }
}

/// Nobody knows which one that would be.
#[tokio::test]
async fn a_report_without_rows_that_may_have_been_created_is_read_before_it_is_deleted() {
    let found = Answer::Said(200, stored_answer(44));
    let (outcome, hub) = run(&report(due(false, false)), vec![found]).await;
    assert!(
        matches!(outcome, WriteResult::ReportChanged(Some(_))),
        "{outcome:?}"
    );
    assert_eq!(hub.calls(), ["GET"]);
    let (outcome, hub) = run(&report(due(false, false)), vec![not_found()]).await;
    assert!(matches!(outcome, WriteResult::ReportDeleted), "{outcome:?}");
    assert_eq!(hub.calls(), ["GET"]);
}
