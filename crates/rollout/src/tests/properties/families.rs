//! Worlds in which much of one kind happens: what belongs together seldom meets among all events.

use chrono::TimeDelta;
use proptest::collection::vec;
use proptest::prelude::*;

use super::events::{Event, NAMES, apply_event, behaviour, of_rows, pools, step};
use super::{asked, begin, event_sequence_of, holds, no_fault};
use crate::model::{OperationKind, Step};
use crate::testing::{Latency, Scenario};

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
