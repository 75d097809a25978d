//! The versions of reports, which show that the storage of the hub is an older one.

use super::*;
use crate::watch::Watched;

/// The version at which the report of the upgrade is known, and the newest one of all reports.
fn known(context: &Context) -> (u64, u64) {
    context.with(|state| (Report::known(state, &report(1, &[])), Report::newest(state)))
}

#[test]
fn the_versions_of_its_reports_and_of_their_deletions_are_known_while_an_upgrade_is_archived() {
    let context = led(&[complete()]);
    assert!(archived(&context));
    assert_eq!(known(&context), (3, 3));
    context.with(|state| state.observe_report(&report(5, &[]), true, true, Utc::now()));
    assert!(archived(&context));
    assert_eq!(known(&context), (5, 5));
}
