use std::time::Instant;

use observe::index::{Change, Index};
use rollout::testing::at;

use super::*;
use crate::fixture::{index, work};

/// The storage of the hub may have gone back to a time before the step was over. Then its work has another version.
#[test]
fn only_a_deletion_that_stops_a_step_is_for_any_version_of_its_work() {
    let mut index = index(&["c1"]);
    for step in Step::ALL {
        index.work(&Change::Applied(work("c1", step, "u1", 7)), at(0));
        for why in [
            DeleteReason::Complete,
            DeleteReason::AllComplete,
            DeleteReason::Leftover,
            DeleteReason::Superseded,
        ] {
            assert_eq!(kept_version(&index, "c1", step, why), Some(7), "{step} {why:?}");
        }
        for why in [DeleteReason::LeftSelection, DeleteReason::UpgradeDeleted] {
            assert_eq!(kept_version(&index, "c1", step, why), None, "{step} {why:?}");
        }
    }
}

#[test]
fn a_report_carries_its_owner_and_kept_rows_byte_for_byte() {
    let text = r#"{"cluster":"c2","phase":"Hibernating","ratio": 1.50,"message":"etcd\u007f"}"#;
    let stored: api::views::Report = serde_json::from_str(&format!(
        r#"{{"metadata": {{"name": "u1-report-1", "resourceVersion": "3"}}, "rows": [{text}]}}"#
    ))
    .unwrap();
    let mut entry = crate::fixture::upgrade("u1", &[]).entry(&Index::default());
    entry.rows.observe(&stored, false, false, Instant::now());
    crate::fixture::note(
        &mut entry,
        "c1",
        rollout::testing::record(rollout::Phase::Complete),
    );
    let due = entry
        .rows
        .due(Instant::now() + std::time::Duration::from_secs(5))
        .remove(0);
    let Write::Report { body, .. } = report_job(&entry, due).write else {
        panic!("no report")
    };
    let body = String::from_utf8(body.unwrap()).unwrap();
    assert!(body.ends_with(&format!(",{text}]}}")), "{body}");
    let report: api::views::Report = serde_json::from_str(&body).unwrap();
    assert_eq!(
        crate::state::context::relation_of(&report, &entry),
        observe::record::ReportRelation::Own
    );
    assert_eq!(report.rows.rows.len(), 2);
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        body["summary"],
        json!({"clusters": 2, "complete": 1, "failed": 0, "attempts": 2}),
        "a row that cannot be read counts as one attempt"
    );
}
