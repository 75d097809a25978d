//! Worlds in which much of one kind happens: what belongs together seldom meets among all events.

use chrono::TimeDelta;
use proptest::collection::vec;
use proptest::prelude::*;

use super::events::{Event, NAMES, apply_event, behaviour, name_revision, of_rows, pools, step};
use super::{add_newer, asked, begin, event_sequence_of, holds, is_gated, mend, no_fault};
use crate::model::{OperationKind, Phase, Step};
use crate::testing::{Latency, Scenario};
use crate::tests::windows;

/// What may happen while clusters wait for their worker pools.
fn of_pools() -> impl Strategy<Value = Event> {
    let cluster = 0..NAMES.len();
    let slow = prop::sample::select(vec![Step::Platform, Step::Operators]);
    prop_oneof![
        4 => (cluster.clone(), any::<bool>()).prop_map(|(c, updated)| Event::Pools(c, updated)),
        2 => (cluster.clone(), slow, behaviour()).prop_map(|(c, s, b)| Event::Script(c, s, b)),
        1 => prop::option::of(5..100_i64).prop_map(Event::WaitForPools),
        2 => (0..3_u8, vec(step(), 0..4)).prop_map(|(r, s)| Event::Edit(r, s)),
        1 => any::<bool>().prop_map(|wanted| Event::Want(Step::Operators, wanted)),
        1 => (0..3_u8).prop_map(Event::Retry),
        1 => (0..3_u8, prop::option::of(cluster.clone())).prop_map(|(r, c)| Event::RetryOf(r, c, None)),
        1 => (cluster.clone(), any::<bool>()).prop_map(|(c, stay)| Event::Register(c, stay)),
        1 => (cluster.clone(), any::<bool>()).prop_map(|(c, offline)| Event::Offline(c, offline)),
        1 => cluster.clone().prop_map(Event::Select),
        1 => cluster.prop_map(Event::Deselect),
        1 => any::<bool>().prop_map(Event::Clock),
        1 => of_rows(),
        2 => Just(Event::Crash),
    ]
}

/// What may happen while clusters are skipped and aborted.
fn of_left_out() -> impl Strategy<Value = Event> {
    let cluster = 0..NAMES.len();
    let forbidden = prop::sample::select(vec![
        vec![],
        vec![OperationKind::Withdraw],
        vec![OperationKind::Delete],
    ]);
    prop_oneof![
        5 => (cluster.clone(), prop::option::of(any::<bool>())).prop_map(|(c, how)| Event::LeaveOut(c, how)),
        2 => (cluster.clone(), any::<bool>()).prop_map(|(c, stay)| Event::Register(c, stay)),
        2 => (cluster.clone(), step()).prop_map(|(c, s)| Event::Spoil(c, s)),
        1 => (cluster.clone(), step()).prop_map(|(c, s)| Event::DeleteWork(c, s)),
        2 => (cluster.clone(), step(), behaviour()).prop_map(|(c, s, b)| Event::Script(c, s, b)),
        1 => (cluster.clone(), any::<bool>()).prop_map(|(c, offline)| Event::Offline(c, offline)),
        1 => (cluster.clone(), forbidden).prop_map(|(c, kinds)| Event::Forbid(c, kinds)),
        2 => (0..3_u8, vec(step(), 0..4)).prop_map(|(r, s)| Event::Edit(r, s)),
        1 => (0..3_u8).prop_map(Event::Retry),
        1 => cluster.clone().prop_map(Event::Select),
        1 => cluster.prop_map(Event::Deselect),
        1 => of_rows(),
        2 => Just(Event::Crash),
    ]
}

/// What may happen while the clocks of controllers and hub differ by more or less.
fn of_clocks() -> impl Strategy<Value = Event> {
    let cluster = 0..NAMES.len();
    let ahead = prop_oneof![2 => Just(0), 2 => 31..120_i64, 1 => 120..100_000_i64];
    prop_oneof![
        6 => ahead.prop_map(Event::Ahead),
        4 => (cluster.clone(), step(), behaviour()).prop_map(|(c, s, b)| Event::Script(c, s, b)),
        2 => (0..3_u8, vec(step(), 0..4)).prop_map(|(r, s)| Event::Edit(r, s)),
        1 => (0..3_u8).prop_map(Event::Retry),
        1 => (10..200_i64).prop_map(Event::Timeout),
        1 => prop::option::of(1..40_i64).prop_map(Event::Soak),
        1 => prop::option::of(5..100_i64).prop_map(Event::WaitForPools),
        1 => (cluster.clone(), any::<bool>()).prop_map(|(c, updated)| Event::Pools(c, updated)),
        1 => (cluster.clone(), prop::option::of(0..4_u8)).prop_map(|(c, window)| Event::Window(c, window)),
        1 => (cluster.clone(), prop::option::of(any::<bool>())).prop_map(|(c, how)| Event::LeaveOut(c, how)),
        1 => (cluster.clone(), any::<bool>()).prop_map(|(c, offline)| Event::Offline(c, offline)),
        1 => (cluster.clone(), step()).prop_map(|(c, s)| Event::DeleteWork(c, s)),
        1 => (cluster.clone(), step()).prop_map(|(c, s)| Event::AddForeign(c, s)),
        1 => (cluster.clone(), step(), any::<bool>()).prop_map(|(c, s, b)| Event::Refuse(c, s, b)),
        1 => cluster.clone().prop_map(Event::Select),
        1 => cluster.prop_map(Event::Deselect),
        2 => Just(Event::Crash),
    ]
}

/// What may happen while upgrades are deleted.
fn of_deletion() -> impl Strategy<Value = Event> {
    let cluster = 0..NAMES.len();
    let forbidden = prop::sample::select(vec![vec![], vec![OperationKind::Delete]]);
    prop_oneof![
        2 => Just(Event::DeleteUpgrade),
        3 => (cluster.clone(), step(), behaviour()).prop_map(|(c, s, b)| Event::Script(c, s, b)),
        2 => (cluster.clone(), forbidden).prop_map(|(c, kinds)| Event::Forbid(c, kinds)),
        1 => (cluster.clone(), any::<bool>()).prop_map(|(c, offline)| Event::Offline(c, offline)),
        1 => (cluster.clone(), step()).prop_map(|(c, s)| Event::DeleteWork(c, s)),
        1 => (cluster.clone(), step()).prop_map(|(c, s)| Event::Spoil(c, s)),
        1 => (cluster.clone(), any::<bool>()).prop_map(|(c, stay)| Event::Register(c, stay)),
        1 => (cluster.clone(), prop::option::of(any::<bool>())).prop_map(|(c, how)| Event::LeaveOut(c, how)),
        2 => (0..3_u8, vec(step(), 0..4)).prop_map(|(r, s)| Event::Edit(r, s)),
        1 => (0..3_u8).prop_map(Event::Retry),
        1 => (1..75_i64).prop_map(Event::Silence),
        1 => cluster.clone().prop_map(Event::Select),
        1 => cluster.prop_map(Event::Deselect),
        2 => Just(Event::Crash),
    ]
}

/// Plays these events with one upgrade, and with another one beside it from some time on.
fn rules_hold_with_a_rival<S: Strategy<Value = Event>>(event: S, prepare: impl Fn(&mut Scenario, usize)) {
    let sequence = event_sequence_of(vec((0..40_i64, event), 0..14));
    let newer = prop::option::of((asked(), 0..60_i64));
    let cases = (sequence, newer, vec(any::<bool>(), 14));
    holds(100, cases, |(sequence, newer, turns)| {
        let mut world = begin(&sequence, Latency::Faulty);
        prepare(&mut world, 0);
        let rival = newer.map(|(asked, after)| {
            world.run_until(after);
            let index = world.add_upgrade("newer", asked.build());
            prepare(&mut world, index);
            for name in &NAMES[..sequence.clusters] {
                world.select(index, name);
            }
            index
        });
        for ((after, event), is_of_rival) in sequence.events.iter().zip(turns) {
            let until = world.seconds() + after;
            world.run_until(until);
            let index = rival.filter(|_| is_of_rival).unwrap_or(0);
            apply_event(&mut world, index, event);
        }
        let until = world.seconds() + 400;
        world.run_until(until);
        no_fault(&world)
    });
}

#[test]
fn rules_hold_while_clusters_wait_for_their_worker_pools() {
    rules_hold_with_a_rival(of_pools(), |world, upgrade| {
        world.edit(upgrade, |policy| {
            policy.worker_pools_timeout = Some(TimeDelta::seconds(60));
        });
        for name in NAMES {
            world.worker_pools(name, pools(false));
        }
    });
}

#[test]
fn rules_hold_while_clusters_are_left_out() {
    rules_hold_with_a_rival(of_left_out(), |_, _| {});
}

#[test]
fn rules_hold_while_clocks_differ() {
    rules_hold_with_a_rival(of_clocks(), |_, _| {});
}

#[test]
fn rules_hold_while_upgrades_are_deleted() {
    rules_hold_with_a_rival(of_deletion(), |_, _| {});
}

#[test]
fn windows_that_close_at_any_second_are_kept_and_every_cluster_ends() {
    let cases = (
        asked(),
        1..=NAMES.len(),
        any::<u64>(),
        (0..150_i64, 0..60_i64),
        vec(0..200_i64, 0..3),
        prop::option::of((0..200_i64, 0..3_u8, vec(step(), 0..4))),
    );
    holds(
        100,
        cases,
        |(asked, clusters, seed, (closes, minimum), mut crashes, edit)| {
            let asked = asked.timeouts(300, 300);
            let canaries = asked.clone().build().canaries;
            let mut policy = asked.build();
            name_revision(&mut policy, 1);
            let mut world = Scenario::new(policy, seed);
            world.set_latency(Latency::Random);
            let (length, minimum) = (TimeDelta::seconds(closes), TimeDelta::seconds(minimum));
            let calendar = windows::calendar("UTC", "0 0 * * *", length.max(TimeDelta::seconds(1)), minimum);
            for name in &NAMES[..clusters] {
                world.add_cluster(name);
                world.calendar(name, Some(calendar.clone()));
            }
            if canaries {
                world.canary(0, NAMES[0]);
            }
            crashes.sort_unstable();
            for seconds in crashes {
                world.run_until(seconds);
                world.crash(0);
            }
            if let Some((seconds, revision, steps)) = edit {
                world.run_until(seconds);
                apply_event(&mut world, 0, &Event::Edit(revision, steps));
            }
            world.run_until(closes.max(250));
            world.note("the windows are open for ever");
            for name in &NAMES[..clusters] {
                world.calendar(name, None);
            }
            let until = world.seconds() + 5000;
            let quiet = world.settle(until);
            no_fault(&world)?;
            prop_assert!(quiet && world.plan(0).outlook.complete, "{}", world.log());
            Ok(())
        },
    );
}

/// Of two upgrades of the same clusters one is deleted. The other one ends.
#[test]
fn an_upgrade_ends_when_another_one_of_its_clusters_is_deleted() {
    let sequence = event_sequence_of(vec((0..40_i64, of_deletion()), 0..12));
    let cases = (
        sequence,
        asked(),
        0..60_i64,
        vec(any::<bool>(), 12),
        any::<bool>(),
    );
    holds(80, cases, |(sequence, newer, after, turns, is_older)| {
        let mut world = begin(&sequence, Latency::Faulty);
        world.run_until(after);
        let index = add_newer(&mut world, &sequence, newer);
        let stays = if is_older { index } else { 0 };
        for ((after, event), is_newer) in sequence.events.iter().zip(turns) {
            let until = world.seconds() + after;
            world.run_until(until);
            let index = if is_newer { index } else { 0 };
            if index != stays || !matches!(event, Event::DeleteUpgrade) {
                apply_event(&mut world, index, event);
            }
        }
        apply_event(&mut world, index - stays, &Event::DeleteUpgrade);
        mend(&mut world, &sequence, stays);
        let until = world.seconds() + 3000;
        world.run_until(until);
        world.retry(stays, "at last");
        let quiet = world.settle(until + 5000);
        no_fault(&world)?;
        prop_assert!(quiet, "still moving\n{}", world.log());
        let is_gated = is_gated(&world, &sequence, stays);
        let phases = world.phases(stays);
        let ended = phases
            .iter()
            .all(|phase| phase.is_done() || *phase == Phase::Failed);
        prop_assert!(ended || is_gated, "{:?}\n{}", world.plan(stays), world.log());
        Ok(())
    });
}
