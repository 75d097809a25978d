use std::collections::BTreeSet;

use super::*;
use crate::oracle::facts::Record;

const NOW: Duration = Duration::from_mins(5);

fn row(phase: &str) -> Row {
    Row {
        phase: phase.to_owned(),
        ..Row::default()
    }
}

fn rows(phases: &[(&str, &str)]) -> Vec<(String, Row)> {
    let rows = phases.iter();
    rows.map(|(cluster, phase)| ((*cluster).to_owned(), row(phase)))
        .collect()
}

/// The row of a cluster was removed that said this.
fn removed(is_edited: bool, phase: &str) -> Upgrade {
    let record = Record {
        before: vec![row(phase)],
        is_edited,
        ..Record::default()
    };
    let mut upgrade = Upgrade::default();
    upgrade.removed.insert("c1".to_owned(), (record, NOW));
    upgrade
}

/// A report has rows of these clusters.
fn reported(upgrade: &mut Upgrade, report: &str, clusters: &[&str]) {
    let names: BTreeSet<String> = clusters.iter().map(|name| (*name).to_owned()).collect();
    upgrade.reports.insert(report.to_owned(), names);
}

#[test]
fn a_row_that_somebody_else_wrote_is_still_theirs_when_it_is_back_as_it_was() {
    let is_theirs = |is_edited: bool, phase: &str| {
        removed(is_edited, "Complete").has_removed_edited("c1", &row(phase), None)
    };
    assert!(is_theirs(true, "Complete"));
    assert!(!is_theirs(true, "Failed"), "it is another row");
    assert!(!is_theirs(false, "Complete"), "it was the controller's");
}

#[test]
fn a_row_that_somebody_else_wrote_is_found_again_in_a_rejected_report_by_the_next_leader_alone() {
    let later = Some(NOW + Duration::from_secs(1));
    let was = rows(&[("c0", "Complete"), ("c1", "Blocked")]);
    let edited = || rows(&[("c0", "Complete"), ("c1", "Complete")]);
    let mut upgrade = removed(false, "Pending");
    reported(&mut upgrade, "u-report-1", &["c0", "c1"]);
    let is_theirs = |upgrade: &Upgrade, term| upgrade.has_removed_edited("c1", &row("Complete"), term);
    assert!(!is_theirs(&upgrade, later), "it is the controller's");
    upgrade.note_theirs("u-report-1", &was, edited());
    assert!(is_theirs(&upgrade, later));
    assert!(!is_theirs(&upgrade, Some(NOW)), "whoever removed it knows better");
    assert!(
        !upgrade
            .theirs
            .contains(&("u-report-1".to_owned(), "c0".to_owned())),
        "it is as it was"
    );

    let mut overtaken = upgrade.clone();
    reported(&mut overtaken, "u-report-10", &["c1"]);
    assert!(!is_theirs(&overtaken, later), "the higher report counts");

    let mut gone = upgrade.clone();
    gone.note_theirs("u-report-1", &edited(), rows(&[("c0", "Complete")]));
    reported(&mut gone, "u-report-1", &["c0"]);
    assert!(!is_theirs(&gone, later), "no report has it any more");

    upgrade.records.insert("c1".to_owned(), Record::default());
    assert!(!is_theirs(&upgrade, later), "another report has its row");
}

#[test]
fn a_row_that_says_left_out_and_stays_in_a_rejected_report_is_not_said_again() {
    let mut upgrade = Upgrade::default();
    reported(&mut upgrade, "u-report-1", &["c0", "c1"]);
    upgrade.keep_left_out(rows(&[("c0", "Complete"), ("c1", "Skipped")]));
    assert!(upgrade.is_kept_left_out("c1", &row("Skipped")));
    assert!(
        !upgrade.is_kept_left_out("c1", &row("Aborted")),
        "it is another row"
    );
    let another = Row {
        revision: "r2".to_owned(),
        ..row("Skipped")
    };
    assert!(
        !upgrade.is_kept_left_out("c1", &another),
        "it is of another attempt"
    );
    assert!(
        !upgrade.is_kept_left_out("c0", &row("Skipped")),
        "it said something else"
    );

    upgrade.keep_left_out(rows(&[("c0", "Complete")]));
    assert!(
        !upgrade.is_kept_left_out("c1", &row("Skipped")),
        "another report is written"
    );
    upgrade.records.insert("c1".to_owned(), Record::default());
    upgrade.keep_left_out(rows(&[("c1", "Skipped")]));
    assert!(
        !upgrade.is_kept_left_out("c1", &row("Skipped")),
        "its row has gone on since"
    );
}
