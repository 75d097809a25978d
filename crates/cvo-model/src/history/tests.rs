use chrono::TimeDelta;
use proptest::prelude::*;

use super::*;

fn at(minutes: i64) -> Time {
    Time::UNIX_EPOCH + TimeDelta::minutes(minutes)
}

fn reconciled(release: &Release, completed: bool) -> Reconciled<'_> {
    Reconciled {
        release,
        verified: false,
        completed,
        accepted_risks: Some(""),
    }
}

fn entry(version: &str, state: &str) -> HistoryEntry {
    HistoryEntry {
        version: version.to_owned(),
        state: state.to_owned(),
        image: format!("image/{version}"),
        started_time: Some(at(0)),
        ..HistoryEntry::default()
    }
}

fn shown(status: &Status) -> Vec<(String, String, Option<Time>, Option<Time>)> {
    let entries = status.history.iter();
    entries
        .map(|entry| {
            (
                entry.version.clone(),
                entry.state.clone(),
                entry.started_time,
                entry.completion_time,
            )
        })
        .collect()
}

#[test]
fn an_update_is_prepended_and_completed_once() {
    let mut status = Status::default();
    let (old, new) = (
        Release::new("4.14.1", "image/1"),
        Release::new("4.14.2", "image/2"),
    );
    merge(at(0), &mut status, &reconciled(&old, false));
    merge(at(30), &mut status, &reconciled(&old, true));
    merge(at(31), &mut status, &reconciled(&old, true));
    merge(at(60), &mut status, &reconciled(&new, false));
    assert_eq!(
        shown(&status),
        [
            ("4.14.2".into(), "Partial".into(), Some(at(60)), None),
            ("4.14.1".into(), "Completed".into(), Some(at(0)), Some(at(30))),
        ]
    );
    assert_eq!(status.desired.version, "4.14.2");
}

#[test]
fn a_retarget_ends_the_entry_before_which_stays_partial() {
    let mut status = Status::default();
    for (minute, version) in [(0, "4.14.1"), (10, "4.14.2"), (20, "4.14.3")] {
        merge(
            at(minute),
            &mut status,
            &reconciled(&Release::new(version, format!("image/{version}")), false),
        );
    }
    assert_eq!(
        shown(&status)[1],
        ("4.14.2".into(), "Partial".into(), Some(at(10)), Some(at(20)))
    );
}

#[test]
fn one_version_with_another_image_is_another_entry_and_missing_parts_are_filled_in() {
    let mut status = Status::default();
    merge(
        at(0),
        &mut status,
        &reconciled(&Release::new("", "image/1"), false),
    );
    merge(
        at(1),
        &mut status,
        &reconciled(&Release::new("4.14.1", "image/1"), true),
    );
    assert_eq!(shown(&status).len(), 1);
    assert_eq!(status.history[0].version, "4.14.1");
    merge(
        at(2),
        &mut status,
        &reconciled(&Release::new("4.14.1", "image/multi"), false),
    );
    assert_eq!(shown(&status).len(), 2);
    merge(
        at(3),
        &mut status,
        &reconciled(&Release::new("4.14.2", ""), false),
    );
    assert_eq!(
        shown(&status).len(),
        2,
        "a release without image is no part of the history"
    );
}

#[test]
fn what_was_overruled_and_verified_is_recorded_with_the_newest_entry() {
    let mut status = Status::default();
    let release = Release::new("4.14.1", "image/1");
    let mut given = reconciled(&release, false);
    given.accepted_risks = Some("Forced through blocking failures: x");
    given.verified = true;
    merge(at(0), &mut status, &given);
    assert_eq!(
        status.history[0].accepted_risks,
        "Forced through blocking failures: x"
    );
    // The operator that starts with its own payload leaves the record alone.
    given.accepted_risks = None;
    given.verified = false;
    merge(at(1), &mut status, &given);
    assert_eq!(
        status.history[0].accepted_risks,
        "Forced through blocking failures: x"
    );
    assert!(status.history[0].verified);
    given.accepted_risks = Some("");
    merge(at(2), &mut status, &given);
    assert_eq!(status.history[0].accepted_risks, "");
}

#[test]
fn the_least_informative_entry_goes_first() {
    let history = |states: &[(&str, &str)]| {
        let mut entries: Vec<_> = (0..5).map(|n| entry(&format!("4.9.{n}"), PARTIAL)).collect();
        entries.extend(states.iter().map(|(version, state)| entry(version, state)));
        entries
    };
    let removed = |states: &[(&str, &str)]| {
        let before = history(states);
        let mut after = before.clone();
        prune(&mut after, before.len() - 1);
        before
            .into_iter()
            .find(|entry| !after.contains(entry))
            .unwrap()
            .version
    };
    let (c, p) = (COMPLETED, PARTIAL);
    // A partial update between patch versions, before a completed one within a minor.
    assert_eq!(
        removed(&[
            ("4.8.9", c),
            ("4.8.8", p),
            ("4.8.7", c),
            ("4.8.6", c),
            ("4.8.5", c)
        ]),
        "4.8.8"
    );
    // Within a minor the older completed one.
    assert_eq!(
        removed(&[
            ("4.8.9", c),
            ("4.8.8", c),
            ("4.8.7", c),
            ("4.8.6", c),
            ("4.8.5", c)
        ]),
        "4.8.6"
    );
    // A partial one on the way between minors stays before a completed one within a minor.
    assert_eq!(
        removed(&[
            ("4.8.9", c),
            ("4.8.8", c),
            ("4.8.7", c),
            ("4.8.5", c),
            ("4.8.0", p),
            ("4.7.9", c),
            ("4.7.0", c)
        ]),
        "4.8.7"
    );
}

proptest! {
    #[test]
    fn initial_newest_five_and_latest_completed_always_stay(
        states in proptest::collection::vec((0u8..4, 0u8..9, any::<bool>()), 20..60),
        most in 8usize..20,
    ) {
        let history: Vec<_> = states
            .iter()
            .enumerate()
            .map(|(n, (minor, patch, completed))| HistoryEntry {
                image: n.to_string(),
                ..entry(&format!("4.{minor}.{patch}"), if *completed { COMPLETED } else { PARTIAL })
            })
            .collect();
        let mut pruned = history.clone();
        prune(&mut pruned, most);
        prop_assert_eq!(pruned.len(), most);
        prop_assert_eq!(pruned.last(), history.last());
        prop_assert_eq!(&pruned[..5], &history[..5]);
        if let Some(latest) = history.iter().find(|entry| entry.is_completed()) {
            prop_assert!(pruned.contains(latest));
        }
        let order: Vec<usize> = pruned.iter().map(|kept| kept.image.parse().unwrap()).collect();
        prop_assert!(order.is_sorted());
    }
}
