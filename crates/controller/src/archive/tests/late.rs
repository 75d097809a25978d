//! Reports that are created while an upgrade is archived.

use super::*;

/// The second report of the upgrade.
fn second(version: u64, rows: &[Value]) -> Report {
    let mut second = report(version, rows);
    second.metadata.name = Some("u1-report-2".to_owned());
    second
}

/// A report as it was before the end of `c1`.
fn former() -> Report {
    second(7, &[row("c1", "Initialized"), row("c2", "Complete")])
}

/// A leader hears of a report.
fn hear(context: &Context, report: &Report, deleted: bool) {
    context.with(|state| state.observe_report(report, deleted, true, Utc::now()));
}

/// The phases of both clusters after these reports were read, and the names of the reports that are then deleted.
fn after_reading(context: &Context, reports: Vec<Report>) -> (Vec<rollout::Phase>, Vec<String>) {
    context.with(|state| {
        state.was_read("u1", Some((upgrade(object(2, &two())), reports)), later(10));
        let entry = state.upgrades.get_mut("u1").unwrap();
        assert!(entry.archive.is_none());
        let rows = entry.rows.all().values();
        let phases = rows.map(|row| row.record.phase).collect();
        let due = entry.rows.due(later(60)).into_iter();
        let deleted = due.filter(|due| due.rows.is_empty() && due.replaces.is_some());
        (phases, deleted.map(|due| due.name).collect())
    })
}

const BOTH: [&str; 2] = ["u1-report-1", "u1-report-2"];
const ENDED: [rollout::Phase; 2] = [rollout::Phase::Complete; 2];
const UNDER_WAY: [rollout::Phase; 2] = [rollout::Phase::Initialized, rollout::Phase::Complete];

#[test]
fn a_report_that_is_created_late_brings_back_no_row_of_a_finished_upgrade() {
    let context = led(&[complete()]);
    assert!(wanted(&context).is_empty());
    hear(&context, &former(), false);
    let mut edited = former();
    edited.metadata.resource_version = Some("8".to_owned());
    hear(&context, &edited, false);
    assert_eq!(wanted(&context), BOTH);
    let (phases, deleted) = after_reading(&context, vec![complete(), edited]);
    assert_eq!(phases, ENDED);
    assert_eq!(deleted, ["u1-report-2"]);
}

#[test]
fn a_leader_that_finds_two_reports_believes_the_higher_one() {
    let context = led(&[complete(), former()]);
    assert_eq!(wanted(&context), BOTH);
    assert_eq!(after_reading(&context, vec![complete(), former()]).0, UNDER_WAY);
}

#[test]
fn a_report_that_takes_the_place_of_one_that_was_deleted_counts() {
    let context = led(&[complete()]);
    assert!(wanted(&context).is_empty());
    hear(&context, &report(5, &[]), true);
    let mut again = former();
    again.metadata.name = Some("u1-report-1".to_owned());
    hear(&context, &again, false);
    assert_eq!(wanted(&context), ["u1-report-1"]);
    assert_eq!(after_reading(&context, vec![again]).0, UNDER_WAY);
}
