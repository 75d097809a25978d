use rollout::Phase;
use rollout::testing::{at, record};

use super::*;
use crate::fixture::{Given, context, note, upgrade};
use crate::state::context::Context;

/// A context with one upgrade that has just been reconciled.
fn may_reconcile() -> (Context, Instant) {
    let context = context(&["c1"]);
    let now = Instant::now();
    context.with(|state| {
        state.apply_upgrade(upgrade("u1", &["c1"]).view());
        state.due(at(0), now, false);
        mark_reconciled(state, "u1", now);
    });
    (context, now)
}

fn mark_reconciled(state: &mut State, uid: &str, now: Instant) {
    let entry = state.upgrades.get_mut(uid).unwrap();
    entry.dirty = false;
    entry.last_reconcile = Some((now, Duration::ZERO));
}

fn milliseconds(number: u64) -> Duration {
    Duration::from_millis(number)
}

#[test]
fn nothing_is_due_without_news_and_the_loop_sleeps_long() {
    let (context, now) = may_reconcile();
    context.with(|state| {
        assert!(state.due(at(1), now + MAX_SLEEP, false).is_empty());
        assert_eq!(state.next(at(1), now, false), now + MAX_SLEEP);
    });
}

#[test]
fn news_after_a_quiet_moment_is_looked_at_at_once_and_bursts_are_gathered() {
    let (context, now) = may_reconcile();
    context.with(|state| {
        state.index.dirty.insert(Arc::from("u1"));
        assert!(state.due(at(1), now + milliseconds(10), false).is_empty());
        assert_eq!(
            state.next(at(1), now + milliseconds(10), false),
            now + milliseconds(25)
        );
        assert_eq!(state.due(at(1), now + milliseconds(25), false).len(), 1);
    });
}

#[test]
fn while_writers_are_behind_an_upgrade_rests_longer_but_not_for_ever() {
    let (context, now) = may_reconcile();
    context.with(|state| {
        state.index.dirty.insert(Arc::from("u1"));
        assert!(state.due(at(1), now + milliseconds(499), true).is_empty());
        assert_eq!(state.next(at(1), now, true), now + milliseconds(500));
        assert_eq!(state.due(at(1), now + milliseconds(500), true).len(), 1);
    });
}

#[test]
fn looking_takes_at_most_a_third_of_the_time() {
    let (context, now) = may_reconcile();
    context.with(|state| {
        let entry = state.upgrades.get_mut("u1").unwrap();
        entry.last_reconcile = Some((now, milliseconds(100)));
        entry.dirty = true;
        assert!(state.due(at(1), now + milliseconds(199), false).is_empty());
        assert_eq!(state.due(at(1), now + milliseconds(200), false).len(), 1);
    });
}

#[test]
fn a_deadline_makes_an_upgrade_due_and_does_not_spin_while_it_rests() {
    let (context, now) = may_reconcile();
    context.with(|state| {
        state.upgrades.get_mut("u1").unwrap().wake_at = Some(at(10));
        assert_eq!(state.next(at(8), now, false), now + Duration::from_secs(2));
        let early = now + milliseconds(10);
        assert!(state.due(at(10), early, false).is_empty(), "it rests");
        assert_eq!(state.next(at(10), early, false), now + milliseconds(25));
        assert_eq!(state.due(at(10), now + milliseconds(25), false).len(), 1);
    });
}

#[test]
fn rows_of_an_upgrade_that_is_being_deleted_do_not_keep_the_loop_awake() {
    let (context, now) = may_reconcile();
    context.with(|state| {
        note(
            state.upgrades.get_mut("u1").unwrap(),
            "c1",
            record(Phase::Partial),
        );
        assert!(state.next(at(1), now, false) < now + MAX_SLEEP);
        let deleting = Given {
            version: 2,
            deleting: true,
            ..upgrade("u1", &["c1"])
        };
        state.apply_upgrade(deleting.view());
        mark_reconciled(state, "u1", now);
        assert_eq!(state.next(at(1), now, false), now + MAX_SLEEP);
    });
}

#[test]
fn upgrades_are_looked_at_in_their_order() {
    let context = context(&[]);
    context.with(|state| {
        for (uid, created) in [
            ("b", "2026-05-28T10:00:00Z"),
            ("a", "2026-05-28T10:00:00Z"),
            ("old", "2026-05-28T09:00:00Z"),
        ] {
            state.apply_upgrade(
                Given {
                    created,
                    ..upgrade(uid, &[])
                }
                .view(),
            );
        }
        let due = state.due(at(0), Instant::now(), false);
        let due: Vec<&str> = due.iter().map(|uid| &**uid).collect();
        assert_eq!(due, ["old", "a", "b"]);
    });
}

#[test]
fn a_free_work_name_is_news_for_whoever_contests_a_cluster_and_for_nobody_else() {
    let (context, now) = may_reconcile();
    let later = now + MAX_SLEEP;
    context.with(|state| {
        state.index.work_released = true;
        assert!(state.due(at(1), later, false).is_empty());
        state.upgrades.get_mut("u1").unwrap().has_conflicts = true;
        state.index.work_released = true;
        assert_eq!(state.due(at(1), later, false).len(), 1);
    });
}

#[test]
fn upgrades_of_other_namespaces_are_never_due() {
    let (context, now) = may_reconcile();
    context.with(|state| {
        state.settings.namespaces = vec![Arc::from("elsewhere")];
        state.index.all_dirty = true;
        assert!(state.due(at(1), now + MAX_SLEEP, false).is_empty());
        assert!(!state.upgrades["u1"].dirty, "nor do they wake the loop");
    });
}

#[test]
fn the_clock_of_a_reaction_does_not_run_from_before_the_term() {
    let (context, now) = may_reconcile();
    context.with(|state| {
        state.slots_released_at.insert(Arc::from("u1"), now);
        state.begin_term();
        assert!(state.slots_released_at.is_empty());
    });
}

/// What is due and not sent would make the loop spin.
#[test]
fn the_loop_sleeps_while_the_finalizer_of_a_deleted_upgrade_is_removed() {
    let (context, now) = may_reconcile();
    context.with(|state| {
        let later = now + MAX_SLEEP;
        let entry = state.upgrades.get_mut("u1").unwrap();
        note(entry, "c1", record(Phase::Pending));
        let status = api::ManagedClustersUpgradeStatus {
            state: Some(api::mcu::UpgradeState::Invalid),
            ..Default::default()
        };
        entry.status.set(status, rollout::testing::at(0));
        assert!(
            state.next(at(1), later, false) <= later,
            "rows and status are due"
        );
        let entry = state.upgrades.get_mut("u1").unwrap();
        let object = Arc::make_mut(&mut entry.object);
        object.metadata.deletion_timestamp = Some(api::time::from_chrono(at(1)));
        entry.finalizing = true;
        assert_eq!(state.next(at(1), later, false), later + MAX_SLEEP);
    });
}
