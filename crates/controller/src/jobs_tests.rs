use super::*;
use crate::index::Index;

#[test]
fn a_report_carries_its_owner_and_kept_rows_byte_for_byte() {
    let text = r#"{"cluster":"c2","phase":"Hibernating","ratio": 1.50,"message":"etcd\u007f"}"#;
    let stored: api::views::Report = serde_json::from_str(&format!(
        r#"{{"metadata": {{"name": "u1-report-1", "resourceVersion": "3"}}, "rows": [{text}]}}"#
    ))
    .unwrap();
    let mut desk = crate::fixture::upgrade("u1", &[]).desk(&Index::default());
    desk.rows.observe(&stored, false, false, Instant::now());
    crate::fixture::note(
        &mut desk,
        "c1",
        rollout::testing::record(rollout::Phase::Complete),
    );
    let due = desk
        .rows
        .due(Instant::now() + std::time::Duration::from_secs(5))
        .remove(0);
    let Effect::Report { body, .. } = report_job(&desk, due).effect else {
        panic!("no report")
    };
    let body = String::from_utf8(body.unwrap()).unwrap();
    assert!(body.ends_with(&format!(",{text}]}}")), "{body}");
    let report: api::views::Report = serde_json::from_str(&body).unwrap();
    assert_eq!(crate::hall::belongs(&report, &desk), crate::hall::Belonging::Ours);
    assert_eq!(report.rows.rows.len(), 2);
}
