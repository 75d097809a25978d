use std::time::Duration;

use api::views::Report;
use observe::record::HubRows;
use rollout::testing::{policy, record};
use rollout::{ClusterState, Phase, Plan, Reason, Record};
use serde_json::{Value, json};

use super::*;
use crate::fixture::{state, stored};

/// A report as a later release may write it: with a new phase, step, outcome and reason, and with new fields.
const FUTURE: &str = include_str!("testdata/report-of-a-future-release.json");

fn load(text: &str) -> Rows {
    let mut rows = Rows::new(&Arc::from("up"));
    let report: Report = serde_json::from_str(text).unwrap();
    assert!(rows.observe(&report, false, false, Instant::now()));
    rows
}

fn report(version: u64, rows: &Value) -> Report {
    serde_json::from_value(json!({
        "metadata": {"name": "up-report-1", "resourceVersion": version.to_string()}, "rows": rows,
    }))
    .unwrap()
}

fn row(cluster: &str, phase: &str) -> Value {
    json!({"cluster": cluster, "phase": phase, "since": "2026-03-01T10:00:00Z", "revision": "r1"})
}

/// The text of each row that would be written now, by cluster.
fn written(rows: &mut Rows) -> Vec<String> {
    rows.shards[0].mark(Instant::now(), true);
    let due = rows.due(Instant::now() + Duration::from_mins(2)).remove(0);
    let lines = due
        .rows
        .iter()
        .map(|line| serde_json::to_string(line).unwrap())
        .collect();
    rows.wrote(due, Some(stored(1000)), Instant::now());
    lines
}

fn commit(rows: &mut Rows, name: &str, phase: Phase) {
    let plan = Plan {
        clusters: vec![ClusterState {
            urgent: true,
            ..state(name, record(phase))
        }],
        ..Plan::default()
    };
    rows.commit(&plan, &policy().build(), Instant::now(), |_| (false, false));
}

fn stand(rows: &Rows, cluster: &str) -> (Phase, Reason) {
    let record = &rows.get(cluster).unwrap().record;
    (record.phase, record.reason)
}

#[test]
fn of_a_report_of_a_future_release_what_is_known_goes_on_and_the_rest_is_kept_byte_for_byte_and_blocked() {
    let mut rows = load(FUTURE);
    let texts: Vec<Box<RawValue>> = {
        #[derive(serde::Deserialize)]
        struct Texts {
            rows: Vec<Box<RawValue>>,
        }
        serde_json::from_str::<Texts>(FUTURE).unwrap().rows
    };
    let compact = |text: &RawValue| text.get().to_owned();
    assert_eq!(stand(&rows, "complete"), (Phase::Complete, Reason::None));
    assert_eq!(stand(&rows, "with-new-fields"), (Phase::Complete, Reason::None));
    assert_eq!(stand(&rows, "new-reason"), (Phase::Failed, Reason::Other));
    assert_eq!(
        rows.get("new-reason").unwrap().record.reason_text(),
        "EtcdQuorumLost"
    );
    for name in ["new-phase", "new-step", "new-outcome"] {
        assert_eq!(
            stand(&rows, name),
            (Phase::Blocked, Reason::UnreadableRecord),
            "{name}"
        );
    }
    let message = &rows.get("new-phase").unwrap().record.message;
    assert!(
        message.contains("Hibernating") && message.contains("Upgrade the controller"),
        "{message}"
    );
    // Another cluster changes, so the shard is written.
    commit(&mut rows, "partial", Phase::Complete);
    let lines = written(&mut rows);
    assert_eq!(lines.len(), texts.len());
    for text in &texts {
        let name = serde_json::from_str::<Value>(text.get()).unwrap()["cluster"].clone();
        if name == "partial" {
            continue;
        }
        let line = lines
            .iter()
            .find(|line| line.contains(&format!("{name}")))
            .unwrap();
        if ["complete", "new-reason"].contains(&name.as_str().unwrap()) {
            let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(value(line), value(text.get()), "it says the same");
        } else {
            assert_eq!(*line, compact(text));
        }
    }
    // The readable part of the later release's rows is done, so nothing of it starts again.
    let mut fleet = rollout::testing::fleet();
    for (name, row) in rows.all() {
        fleet = fleet.cluster(name).record(Record::clone(&row.record));
    }
    let plan = rollout::plan(rollout::testing::at(10), &policy().build(), &fleet.build());
    assert_eq!(plan.operations, []);
    assert!(!plan.outlook.complete);
}

#[test]
fn a_row_with_the_reason_of_an_unreadable_one_is_read_unless_it_names_no_revision() {
    let all = json!([
        {"cluster": "read", "phase": "Blocked", "since": "2026-03-01T10:00:00Z", "revision": "r1",
         "reason": "UnreadableRecord"},
        {"cluster": "kept", "phase": "Blocked", "since": "2026-03-01T10:00:00Z", "revision": "",
         "reason": "UnreadableRecord"},
    ]);
    let mut rows = Rows::new(&Arc::from("up"));
    rows.observe(&report(3, &all), false, false, Instant::now());
    for (name, unreadable) in [("read", false), ("kept", true)] {
        assert_eq!(stand(&rows, name), (Phase::Blocked, Reason::UnreadableRecord));
        assert_eq!(rows.get(name).unwrap().record.unreadable, unreadable, "{name}");
    }
    let kept = all[1].to_string();
    assert!(written(&mut rows).contains(&kept), "byte for byte");
}

#[test]
fn a_row_with_new_fields_keeps_them_until_its_record_changes() {
    let mut rows = load(FUTURE);
    let has = |lines: Vec<String>| lines.iter().any(|line| line.contains("\"percent\": 3"));
    assert!(has(written(&mut rows)));
    assert!(has(written(&mut rows)), "written twice, still the same");
    commit(&mut rows, "with-new-fields", Phase::PostAction);
    assert!(!has(written(&mut rows)));
}

#[test]
fn rows_without_a_name_and_several_rows_of_a_cluster_are_never_lost() {
    let nameless = json!({"phase": "Complete"});
    let all = json!([
        row("c1", "Complete"),
        nameless,
        row("c2", "Complete"),
        row("c2", "Hibernating"),
        row("c3", "Partial")
    ]);
    for reversed in [false, true] {
        let mut all = all.as_array().unwrap().clone();
        if reversed {
            all.reverse();
        }
        let mut rows = load(
            &json!({"metadata": {"name": "up-report-1", "resourceVersion": "3"}, "rows": all}).to_string(),
        );
        assert_eq!(stand(&rows, "c2"), (Phase::Blocked, Reason::UnreadableRecord));
        assert_eq!(stand(&rows, "c3").0, Phase::Partial);
        let stand_in = if reversed {
            "up-report-1/rows[3]"
        } else {
            "up-report-1/rows[1]"
        };
        assert_eq!(stand(&rows, stand_in), (Phase::Blocked, Reason::UnreadableRecord));
        assert_eq!(rows.shards[0].members, 5);
        let mut lines: Vec<Value> = written(&mut rows)
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let mut all = all.clone();
        lines.sort_by_key(ToString::to_string);
        all.sort_by_key(ToString::to_string);
        assert_eq!(lines, all);
    }
}

#[test]
fn a_follower_holds_what_the_hub_holds_of_unreadable_rows_too() {
    let now = Instant::now();
    let mut rows = Rows::new(&Arc::from("up"));
    rows.observe(
        &report(3, &json!([row("c1", "Hibernating"), row("c1", "Complete")])),
        false,
        false,
        now,
    );
    assert_eq!(stand(&rows, "c1").1, Reason::UnreadableRecord);
    rows.observe(&report(4, &json!([row("c1", "Complete")])), false, false, now);
    assert_eq!(stand(&rows, "c1"), (Phase::Complete, Reason::None));
    assert!(rows.kept.is_empty());
    assert_eq!(rows.shards[0].members, 1);
    rows.observe(&report(5, &json!([row("c1", "Hibernating")])), false, false, now);
    rows.observe(&report(6, &json!([])), true, false, now);
    assert!(rows.all().is_empty() && rows.kept.is_empty());
    assert_eq!(rows.shards[0].members, 0);
}

#[test]
fn a_leader_takes_the_end_and_the_mending_of_an_unreadable_row_from_whoever_edits_the_report() {
    let now = Instant::now();
    let given = json!([row("c1", "Hibernating"), row("c2", "Complete")]);
    for (edited, stands) in [
        (json!([row("c2", "Complete")]), None),
        (
            json!([row("c1", "Complete"), row("c2", "Complete")]),
            Some(Phase::Complete),
        ),
        (json!([row("c1", "Hibernating")]), Some(Phase::Blocked)),
    ] {
        let mut rows = Rows::new(&Arc::from("up"));
        rows.observe(&report(3, &given), false, false, now);
        rows.observe(&report(4, &edited), false, true, now);
        assert_eq!(rows.get("c1").map(|row| row.record.phase), stands);
        assert_eq!(
            stand(&rows, "c2").0,
            Phase::Complete,
            "the leader's own record outweighs a readable row"
        );
        assert_eq!(written(&mut rows).len(), 1 + usize::from(stands.is_some()));
    }
    // If a whole report is gone, that is not a decision about one of its rows.
    let mut rows = Rows::new(&Arc::from("up"));
    rows.observe(&report(3, &given), false, false, now);
    rows.observe(&report(4, &given), true, true, now);
    assert_eq!(stand(&rows, "c1").0, Phase::Blocked);
    assert_eq!(written(&mut rows).len(), 2);
}

#[test]
fn a_report_whose_rows_are_no_list_is_left_as_it_is_until_it_is_mended() {
    let now = Instant::now();
    let mut rows = Rows::new(&Arc::from("up"));
    rows.observe(
        &report(3, &json!({"c1": {"phase": "Complete"}})),
        false,
        false,
        now,
    );
    assert!(rows.is_incomplete());
    assert_eq!(stand(&rows, "up-report-1/rows").1, Reason::UnreadableRecord);
    commit(&mut rows, "c2", Phase::Partial);
    let due = rows.due(now + Duration::from_mins(2));
    let names: Vec<&str> = due.iter().map(|due| due.name.as_str()).collect();
    assert_eq!(names, ["up-report-2"]);
    rows.observe(&report(4, &json!([row("c1", "Complete")])), false, true, now);
    assert!(!rows.is_incomplete());
    assert_eq!(stand(&rows, "c1").0, Phase::Complete);
    assert!(rows.get("up-report-1/rows").is_none());
}

#[test]
fn a_row_that_was_not_written_before_it_was_kept_is_not_written_afterwards() {
    let now = Instant::now();
    let later = now + Duration::from_mins(2);
    let mut rows = Rows::new(&Arc::from("up"));
    rows.observe(&report(3, &json!("none")), false, false, now);
    commit(&mut rows, "c1", Phase::Partial);
    let lost = rows.due(later).remove(0);
    assert_eq!(lost.name, "up-report-2");
    rows.failed(&lost, now);
    rows.observe(&report(4, &json!([row("c1", "Hibernating")])), false, true, now);
    assert_eq!(stand(&rows, "c1").1, Reason::UnreadableRecord);
    rows.observe(&report(5, &json!([])), false, true, now);
    let known = rows.get("c1").unwrap();
    assert_eq!((known.record.phase, known.shard()), (Phase::Partial, 1));
    assert_eq!(known.written, None);
    assert!(known.slot_in_doubt, "the write may have taken effect");
    for due in rows.due(later) {
        let left = (!due.rows.is_empty()).then(|| stored(6));
        rows.wrote(due, left, now);
    }
    let known = rows.get("c1").unwrap();
    assert_eq!(known.written.as_ref(), Some(&known.record));
    assert!(!known.slot_in_doubt);
    assert!(rows.is_settled());
}

/// It is blocked as long as it has no row. By a row that says nothing it would start in the next plan, although it may be complete by
/// the report that cannot be read, and later that row would outweigh the one in that report.
#[test]
fn a_queued_cluster_gets_no_row_while_its_own_may_be_in_a_report_that_cannot_be_read() {
    let now = Instant::now();
    let mut rows = Rows::new(&Arc::from("up"));
    let unreadable = json!({"c1": {"phase": "Complete"}});
    rows.observe(&report(3, &unreadable), false, false, now);
    for phase in [Phase::Blocked, Phase::Pending, Phase::Skipped] {
        commit(&mut rows, "c1", phase);
        assert!(rows.get("c1").is_none(), "{phase}");
        assert!(rows.due(now + Duration::from_mins(2)).is_empty(), "{phase}");
    }
    rows.observe(&report(4, &json!([row("c1", "Complete")])), false, true, now);
    assert_eq!(stand(&rows, "c1").0, Phase::Complete);
    commit(&mut rows, "c2", Phase::Pending);
    assert_eq!(stand(&rows, "c2").0, Phase::Pending);
}

#[test]
fn rows_that_are_only_read_are_the_same_records() {
    let mut other = row("c4", "Failed");
    other["reason"] = json!("EtcdQuorumLost");
    let stand_in = json!({
        "cluster": "c5", "phase": "Blocked", "reason": "UnreadableRecord", "since": "2026-03-01T10:00:00Z", "revision": "",
    });
    let reports = [
        report(
            1,
            &json!([
                row("c1", "Complete"),
                row("c2", "Later"),
                row("c2", "Complete"),
                row("c3", "Partial"),
                other
            ]),
        ),
        report(
            2,
            &json!([row("c2", "Complete"), row("c1", "Partial"), stand_in, {"phase": "Failed"}]),
        ),
        report(3, &json!("none")),
    ];
    let named = |number: usize, mut report: Report| {
        report.metadata.name = Some(format!("up-report-{number}"));
        report
    };
    let reports: Vec<Report> = (1..)
        .zip(reports)
        .map(|(number, report)| named(number, report))
        .collect();
    let mut rows = Rows::new(&Arc::from("up"));
    for report in &reports {
        rows.observe(report, false, false, Instant::now());
    }
    let read = HubRows::read("up", &reports);
    assert_eq!(read.is_incomplete, rows.is_incomplete());
    let ours: Vec<(&str, &Record)> = rows
        .all()
        .iter()
        .map(|(name, row)| (&**name, &*row.record))
        .collect();
    let theirs: Vec<(&str, &Record)> = read
        .by_cluster
        .iter()
        .map(|(name, row)| (&**name, &*row.record))
        .collect();
    assert_eq!(ours, theirs);
    assert_eq!(ours.len(), 7, "{ours:?}");
}
