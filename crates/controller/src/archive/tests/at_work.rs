//! Clusters on which an archived upgrade is at work by its rows: its status was written before them.

use super::*;
use crate::fixture::upgrade as given;
use crate::state::observed;

/// A leader that knows an older upgrade of the same clusters besides an archived one with this report.
fn led_with_an_older_one(report: Report) -> Context {
    let context = led(&[report]);
    context.with(|state| {
        let mut older = given("older", &["c1", "c2"]).entry(&state.index);
        older.has_conflicts = true;
        state.upgrades.insert(Arc::clone(&older.uid), older);
    });
    assert!(archived(&context));
    context
}

/// Whether the older upgrade finds each cluster held.
fn held(context: &Context) -> Vec<bool> {
    context.with(|state| {
        let older = &state.upgrades["older"];
        let observed = observed::observe(older, &state.upgrades, &state.index, &[], false, Utc::now());
        let clusters = observed.fleet.clusters.iter();
        clusters.map(|cluster| cluster.rival.is_some()).collect()
    })
}

/// Whether the older upgrade is woken by a change.
fn wakes(context: &Context, change: impl FnOnce(&mut State)) -> bool {
    context.with(|state| {
        state.upgrades.get_mut("older").unwrap().dirty = false;
        change(state);
        state.upgrades["older"].dirty
    })
}

fn under_way() -> Report {
    report(3, &[row("c1", "Partial"), row("c2", "Complete")])
}

fn ended(version: u64) -> Report {
    report(version, &[row("c1", "Complete"), row("c2", "Complete")])
}

#[test]
fn a_finished_upgrade_holds_clusters_on_which_it_is_at_work_by_its_rows_until_it_is_read() {
    let context = led_with_an_older_one(under_way());
    assert_eq!(held(&context), [true, false]);
    let read = |report: Report| Some((upgrade(object(2, &two())), vec![report]));
    assert!(wakes(&context, |state| state.was_read(
        "u1",
        read(under_way()),
        later(10)
    )));
    assert!(!archived(&context));
    assert_eq!(held(&context), [true, false], "it goes on there");

    let context = led_with_an_older_one(under_way());
    let end = ended(4);
    assert!(wakes(&context, |state| state.observe_report(
        &end,
        false,
        true,
        Utc::now()
    )));
    assert_eq!(held(&context), [false, false]);

    let context = led_with_an_older_one(under_way());
    context.with(|state| state.retain_reports(&ahash::AHashSet::new(), 9, true));
    assert_eq!(held(&context), [false, false], "its report is gone");
}

#[test]
fn a_finished_upgrade_holds_clusters_whose_rows_cannot_be_read() {
    let unreadable = report(3, &[row("c1", "Advancing"), row("c2", "Complete")]);
    let context = led_with_an_older_one(unreadable);
    assert_eq!(held(&context), [true, false]);
    let end = ended(4);
    assert!(wakes(&context, |state| state.observe_report(
        &end,
        false,
        true,
        Utc::now()
    )));
    assert_eq!(held(&context), [false, false]);
}

#[test]
fn a_late_report_of_a_finished_upgrade_holds_no_cluster() {
    let context = led_with_an_older_one(complete());
    assert!(wanted(&context).is_empty());
    let mut late = report(7, &[row("c1", "Partial")]);
    late.metadata.name = Some("u1-report-2".to_owned());
    context.with(|state| state.observe_report(&late, false, true, Utc::now()));
    assert_eq!(held(&context), [false, false]);
}
