mod properties;

use super::*;
use WatchKind::{Approval, Cluster, Work};

fn leading() -> Freshness {
    let freshness = Freshness::new(&[Cluster, Work]);
    freshness.begin_term();
    freshness
}

fn refresh(freshness: &Freshness) {
    let generation = freshness.wanted().get();
    freshness.refreshed(Cluster, generation);
    freshness.refreshed(Work, generation);
}

#[test]
fn a_view_opens_when_every_kind_was_listed_since_the_term_began() {
    let freshness = Freshness::new(&[Cluster, Work]);
    refresh(&freshness);
    assert!(freshness.is_complete() && !freshness.open(), "a follower's");
    freshness.begin_term();
    assert!(!freshness.open(), "those lists may be older than the term");
    freshness.refreshed(Cluster, 1);
    freshness.refreshed(Work, 0);
    assert!(!freshness.open(), "a list of an earlier view arrived late");
    freshness.refreshed(Work, 1);
    assert!(!freshness.is_open(), "not before it is asked for");
    assert!(freshness.open() && freshness.owns_records());
    freshness.end_term();
    assert!(!freshness.is_open() && !freshness.owns_records());
}

#[test]
fn an_outage_closes_the_view_and_makes_every_watch_anew_once() {
    let freshness = leading();
    refresh(&freshness);
    assert!(freshness.open());
    freshness.lost(Work, true);
    assert!(!freshness.is_open() && freshness.owns_records());
    assert!(freshness.is_wanted(2));
    freshness.lost(Cluster, true);
    assert!(freshness.is_wanted(2), "they are being restarted already");
    freshness.refreshed(Work, 2);
    assert!(!freshness.open());
    freshness.refreshed(Cluster, 2);
    assert!(freshness.open());
}

#[test]
fn a_view_does_not_open_by_lists_that_were_requested_before_an_outage() {
    let freshness = leading();
    freshness.requested(Cluster);
    freshness.requested(Work);
    freshness.refreshed(Work, 1);
    freshness.lost(Work, true);
    freshness.requested(Work);
    refresh(&freshness);
    assert!(freshness.is_complete() && freshness.is_wanted(1));
    freshness.refreshed(Cluster, 1);
    assert!(!freshness.open(), "a watch that is renewed is no list");
    assert!(freshness.is_wanted(2));
    assert!(!freshness.open());
    assert!(freshness.is_wanted(2), "they are being restarted already");
    freshness.requested(Cluster);
    freshness.requested(Work);
    refresh(&freshness);
    assert!(freshness.open());
}

#[test]
fn a_view_opens_by_lists_that_were_all_requested_since_an_outage() {
    let freshness = leading();
    freshness.refreshed(Work, 1);
    freshness.lost(Work, true);
    freshness.requested(Work);
    freshness.requested(Cluster);
    freshness.lost(Cluster, true);
    refresh(&freshness);
    assert!(freshness.open(), "the list that failed was none");
    assert!(freshness.is_wanted(1));
}

#[test]
fn a_watch_that_has_expired_is_made_anew_alone() {
    let freshness = leading();
    refresh(&freshness);
    assert!(freshness.open());
    freshness.lost(Work, false);
    assert!(!freshness.is_open() && freshness.is_wanted(1));
    freshness.refreshed(Work, 1);
    assert!(freshness.open());
}

#[test]
fn no_view_waits_for_approvals_and_they_are_known_only_by_a_list_for_it() {
    let freshness = leading();
    refresh(&freshness);
    assert!(freshness.open());
    assert_eq!(freshness.approvals(), KnownApprovals::Missing);
    freshness.refreshed(Approval, 1);
    assert_eq!(freshness.approvals(), KnownApprovals::Current);
    freshness.lost(Approval, true);
    assert_eq!(freshness.approvals(), KnownApprovals::Outdated);
    assert!(
        freshness.is_open() && freshness.is_wanted(1),
        "nobody waits for them"
    );
    freshness.refreshed(Approval, 1);
    freshness.lost(Work, true);
    assert_eq!(
        freshness.approvals(),
        KnownApprovals::Outdated,
        "another view is wanted"
    );
    refresh(&freshness);
    assert!(freshness.open());
    freshness.refreshed(Approval, 1);
    assert_eq!(
        freshness.approvals(),
        KnownApprovals::Outdated,
        "a list of an earlier view"
    );
    freshness.refreshed(Approval, 2);
    assert_eq!(freshness.approvals(), KnownApprovals::Current);
    freshness.discard_all();
    assert_eq!(freshness.approvals(), KnownApprovals::Missing);
}

#[test]
fn approvals_that_were_listed_before_an_outage_are_listed_anew_and_those_that_were_not_put_no_view_off() {
    for (is_listed, wanted) in [(true, 2), (false, 1)] {
        let freshness = leading();
        freshness.requested(Approval);
        if is_listed {
            freshness.refreshed(Approval, 1);
        }
        freshness.refreshed(Work, 1);
        freshness.lost(Work, true);
        freshness.requested(Cluster);
        freshness.requested(Work);
        refresh(&freshness);
        assert_eq!(freshness.open(), !is_listed);
        assert!(freshness.is_wanted(wanted));
    }
}

#[test]
fn approvals_that_are_not_watched_any_more_put_no_view_off() {
    let freshness = leading();
    freshness.refreshed(Approval, 1);
    freshness.refreshed(Work, 1);
    freshness.lost(Work, true);
    freshness.lost(Approval, true);
    freshness.requested(Cluster);
    freshness.requested(Work);
    refresh(&freshness);
    assert!(freshness.open() && freshness.is_wanted(1));
}

#[test]
fn approvals_that_were_listed_for_an_earlier_view_alone_put_no_view_off() {
    let freshness = leading();
    freshness.refreshed(Approval, 1);
    refresh(&freshness);
    assert!(freshness.open());
    freshness.lost(Work, true);
    freshness.requested(Approval);
    freshness.refreshed(Work, 2);
    freshness.lost(Work, true);
    freshness.requested(Cluster);
    freshness.requested(Work);
    refresh(&freshness);
    assert!(freshness.open() && freshness.is_wanted(2));
}

#[test]
fn versions_that_go_back_are_told_once_and_old_news_do_not_count() {
    let freshness = leading();
    freshness.saw(Work, 1, 100);
    assert_eq!(freshness.newer_than(Work, 100), None);
    assert_eq!(freshness.newer_than(Work, 99), Some(100));
    assert_eq!(freshness.newer_than(Cluster, 1), None);
    let invalidated = freshness.invalidated();
    freshness.discard_all();
    assert!(invalidated.is_cancelled() && !freshness.invalidated().is_cancelled());
    freshness.saw(Work, 1, 100);
    assert_eq!(freshness.newer_than(Work, 99), None);
}
