//! Random scenarios and random events: what must hold at every step, and that every upgrade ends.

mod events;
mod facts;
mod families;

use std::sync::Arc;

use chrono::TimeDelta;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use self::events::{Behaviour, Event, NAMES, apply_event, event, name_revision, script, step};
use self::facts::{change, fact};
use super::{planned, record_of, windows};
use crate::check::check;
use crate::model::{
    Eligibility, KnownApprovals, Limit, Phase, Preflight, Selection, Stage, Step, WorkerPools,
};
use crate::planner::plan;
use crate::testing::{
    FleetBuilder, Latency, PolicyBuilder, RecordBuilder, Scenario, at, fleet, policy, record, work,
};

/// Runs a property `cases` times by default, or `PROPTEST_CASES` times where that is set.
fn holds<S: Strategy>(cases: u32, strategy: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    // The value that proptest reports when the variable is not set.
    const UNSET: u32 = 256;
    let asked = Config::default().cases;
    let cases = if asked == UNSET { cases } else { asked };
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    });
    if let Err(error) = runner.run(&strategy, property) {
        panic!("{error}");
    }
}

fn asked() -> impl Strategy<Value = PolicyBuilder> {
    (
        any::<[bool; 4]>(),
        1..5_u32,
        prop::option::of(0..3_u32),
        prop::option::of(1..40_i64),
        any::<bool>(),
        10..200_i64,
    )
        .prop_map(|(steps, slots, failures, soak, canaries, timeout)| {
            let mut asked = policy().max_concurrency(slots).timeouts(timeout, timeout / 2 + 5);
            for step in [Step::PreAction, Step::Operators, Step::PostAction] {
                if steps[step.index()] {
                    asked = asked.step(step);
                }
            }
            if !steps[Step::Platform.index()] && steps[Step::Operators.index()] {
                asked = asked.without(Step::Platform);
            }
            if let Some(count) = failures {
                asked = asked.max_failures(Limit::Count(count));
            }
            if let Some(seconds) = soak {
                asked = asked.soak(seconds);
            }
            if canaries { asked.canaries() } else { asked }
        })
}

#[derive(Clone, Debug)]
struct EventSequence {
    asked: PolicyBuilder,
    clusters: usize,
    canary: Option<usize>,
    seed: u64,
    events: Vec<(i64, Event)>,
}

fn event_sequence(events: usize) -> impl Strategy<Value = EventSequence> {
    event_sequence_of(vec((0..40_i64, event()), 0..events))
}

fn event_sequence_of<S>(events: S) -> impl Strategy<Value = EventSequence>
where
    S: Strategy<Value = Vec<(i64, Event)>>,
{
    (
        asked(),
        1..=NAMES.len(),
        prop::option::of(0..NAMES.len()),
        any::<u64>(),
        events,
    )
        .prop_map(|(asked, clusters, canary, seed, events)| EventSequence {
            asked,
            clusters,
            canary,
            seed,
            events,
        })
}

fn begin(sequence: &EventSequence, latency: Latency) -> Scenario {
    let mut policy = sequence.asked.clone().build();
    name_revision(&mut policy, 1);
    let mut world = Scenario::new(policy, sequence.seed);
    world.set_latency(latency);
    for name in &NAMES[..sequence.clusters] {
        world.add_cluster(name);
    }
    if let Some(canary) = sequence.canary {
        world.canary(0, NAMES[canary]);
    }
    world
}

fn replay(sequence: &EventSequence, latency: Latency) -> Scenario {
    let mut world = begin(sequence, latency);
    for (after, event) in &sequence.events {
        let until = world.seconds() + after;
        world.run_until(until);
        apply_event(&mut world, 0, event);
    }
    world
}

fn no_fault(world: &Scenario) -> Result<(), TestCaseError> {
    prop_assert!(
        world.faults().is_empty(),
        "{:#?}\n{}",
        world.faults(),
        world.log()
    );
    Ok(())
}

#[test]
fn rules_hold_in_every_reachable_state() {
    holds(200, event_sequence(14), |sequence| {
        let mut world = replay(&sequence, Latency::Faulty);
        let until = world.seconds() + 300;
        world.run_until(until);
        no_fault(&world)
    });
}

/// Somebody looks at the upgrade every now and then, and approves what it waits for.
fn approve_for(world: &mut Scenario, seconds: i64) {
    let end = world.seconds() + seconds;
    while world.seconds() < end {
        world.approve(0, None);
        let until = world.seconds() + 100;
        world.run_until(until);
    }
}

/// Faults end, and nobody keeps an upgrade from going on.
fn mend(world: &mut Scenario, sequence: &EventSequence, upgrade: usize) {
    world.set_latency(Latency::Random);
    world.set_clock(0);
    let names = &NAMES[..sequence.clusters];
    for name in names {
        world.mend_row(upgrade, name, false);
        world.offline(name, false);
        world.eligibility(name, Eligibility::Eligible);
        world.runs(name, "4.11.0");
        world.is_known_to_run(name, None);
        world.preflight(name, Preflight::Ready);
        // It must be asked again before it starts.
        world.stale_image(name);
        world.worker_pools(name, WorkerPools::Updated);
        world.forbid(name, &[]);
        for step in Step::ALL {
            world.remove_foreign(name, step);
            world.refuse(name, step, false);
            world.delete_spoiled(name, step);
            world.script(name, step, script(step, Behaviour::Good));
        }
    }
    let has_canary = names.iter().any(|name| world.is_canary(upgrade, name));
    world.edit(upgrade, |policy| {
        policy.hold = None;
        policy.clock_trusted = true;
        // What is in flight may end at a newer version than the present target.
        policy.allow_downgrade = true;
        policy.max_failures = None;
        policy.approvals = KnownApprovals::Current;
        policy.canaries &= has_canary;
        policy.action_timeout = None;
        policy.cluster_timeout = TimeDelta::seconds(300);
        policy.operators_timeout = TimeDelta::seconds(300);
    });
    world.note("faults end");
}

/// True when a canary is not selected or is gone, and the others wait for it.
fn is_gated(world: &Scenario, sequence: &EventSequence, upgrade: usize) -> bool {
    let selected = world.selected(upgrade);
    let is_there = |name: &str| {
        selected.iter().any(|selected| **selected == *name) && world.phase(upgrade, name).is_some()
    };
    let mut names = NAMES[..sequence.clusters].iter();
    let has_left = names.any(|name| world.is_canary(upgrade, name) && !is_there(name));
    has_left && world.observed(upgrade).0.canaries
}

/// What counts as over when nothing moves any more.
fn is_over(world: &Scenario, upgrade: usize) -> Result<(), TestCaseError> {
    let plan = world.plan(upgrade);
    prop_assert!(!plan.outlook.moving, "{:?}\n{}", plan, world.log());
    let complete = NAMES
        .iter()
        .filter(|name| plan.outlook.complete && world.phase(upgrade, name) == Some(Phase::Complete));
    let mut works = complete.flat_map(|name| Step::ALL.map(|step| (*name, step)));
    let left = works.find(|(name, step)| world.has_work(name, *step));
    prop_assert!(left.is_none(), "{left:?} is left\n{}", world.log());
    Ok(())
}

/// Clusters of an upgrade that have failed and are selected.
fn failures(world: &Scenario) -> Vec<Arc<str>> {
    let (_, fleet) = world.observed(0);
    let failed = fleet.clusters.into_iter().filter(|cluster| {
        cluster.selection == Selection::In
            && cluster.left_out.is_none()
            && world.phase(0, &cluster.name) == Some(Phase::Failed)
    });
    failed.map(|cluster| cluster.name).collect()
}

#[test]
fn everything_ends_when_faults_end() {
    holds(120, event_sequence(10), |sequence| {
        let mut world = replay(&sequence, Latency::Faulty);
        mend(&mut world, &sequence, 0);
        approve_for(&mut world, 1000);
        let failed = failures(&world);
        world.retry(0, "at last");
        approve_for(&mut world, 3000);
        let until = world.seconds();
        let quiet = world.settle(until);
        no_fault(&world)?;
        let ended = world
            .phases(0)
            .iter()
            .all(|phase| phase.is_done() || *phase == Phase::Failed);
        let gated = is_gated(&world, &sequence, 0);
        // At a gate, a plan still wakes when windows change.
        let is_window = |(_, event): &_| matches!(event, Event::Window(_, Some(_)));
        let wakes = gated && sequence.events.iter().any(is_window);
        prop_assert!(quiet || wakes, "still moving\n{}", world.log());
        prop_assert!(ended || gated, "{:?}\n{}", world.plan(0), world.log());
        for name in &failed {
            let attempt = world.record(0, name).map(|record| record.attempt.clone());
            let is_retried = attempt
                .as_ref()
                .is_some_and(|attempt| attempt.is_of_retry("at last"));
            prop_assert!(is_retried, "{name}: {attempt:?}\n{}", world.log());
        }
        if !gated {
            is_over(&world, 0)?;
        }
        let count = world.operations();
        world.run_until(until + 100_000);
        prop_assert_eq!(count, world.operations());
        no_fault(&world)
    });
}

#[test]
fn a_deleted_upgrade_leaves_no_work_behind() {
    holds(100, event_sequence(10), |sequence| {
        let mut world = replay(&sequence, Latency::Faulty);
        let names = NAMES.into_iter().take(sequence.clusters);
        let known: Vec<&str> = names.filter(|name| world.phase(0, name).is_some()).collect();
        for name in &known {
            world.offline(name, false);
            world.forbid(name, &[]);
            for step in Step::ALL {
                world.remove_foreign(name, step);
            }
        }
        world.edit(0, |policy| policy.deleting = true);
        world.note("the upgrade is deleted");
        let until = world.seconds() + 600;
        let quiet = world.settle(until);
        no_fault(&world)?;
        prop_assert!(quiet, "still moving\n{}", world.log());
        let mut works = known.iter().flat_map(|name| Step::ALL.map(|step| (*name, step)));
        let left = works.find(|(name, step)| world.has_work(name, *step));
        prop_assert!(left.is_none(), "{left:?}\n{}", world.log());
        Ok(())
    });
}

#[test]
fn two_runs_give_the_same_order() {
    holds(60, event_sequence(8), |sequence| {
        let log = || replay(&sequence, Latency::Faulty).log();
        prop_assert_eq!(log(), log());
        Ok(())
    });
}

/// Adds another upgrade of the same clusters, with the same canary.
fn add_newer(world: &mut Scenario, sequence: &EventSequence, newer: PolicyBuilder) -> usize {
    let index = world.add_upgrade("newer", newer.build());
    for name in &NAMES[..sequence.clusters] {
        world.select(index, name);
    }
    if let Some(canary) = sequence.canary {
        world.canary(index, NAMES[canary]);
    }
    index
}

#[test]
fn rules_hold_where_two_upgrades_meet() {
    let cases = (event_sequence(14), asked(), 0..60_i64, vec(any::<bool>(), 14));
    holds(150, cases, |(sequence, newer, after, turns)| {
        let mut world = begin(&sequence, Latency::Faulty);
        world.run_until(after);
        let index = add_newer(&mut world, &sequence, newer);
        for ((after, event), newer) in sequence.events.iter().zip(turns) {
            let until = world.seconds() + after;
            world.run_until(until);
            apply_event(&mut world, if newer { index } else { 0 }, event);
        }
        let until = world.seconds() + 400;
        world.run_until(until);
        no_fault(&world)
    });
}

#[test]
fn a_crash_at_any_second_loses_and_repeats_nothing() {
    let gates = (any::<[bool; 3]>(), prop::option::of(0..4_u8));
    let cases = (
        asked(),
        1..=NAMES.len(),
        any::<u64>(),
        vec(0..120_i64, 1..4),
        gates,
    );
    holds(150, cases, |(asked, clusters, seed, mut crashes, gates)| {
        let ([requires, awaits, pools], window) = gates;
        let asked = asked.timeouts(300, 300);
        let canaries = asked.clone().build().canaries;
        let mut world = Scenario::new(asked.build(), seed);
        world.edit(0, |policy| {
            (policy.requires_preflight, policy.awaits_answers) = (requires, awaits);
            policy.worker_pools_timeout = pools.then_some(TimeDelta::seconds(300));
        });
        world.set_latency(Latency::Random);
        for name in &NAMES[..clusters] {
            world.add_cluster(name);
            world.calendar(name, window.map(windows::of_minutes));
            if requires || awaits {
                world.stale_image(name);
            }
        }
        if canaries {
            world.canary(0, NAMES[0]);
        }
        crashes.sort_unstable();
        for seconds in crashes {
            world.run_until(seconds);
            world.crash(0);
        }
        let quiet = world.settle(5000);
        no_fault(&world)?;
        prop_assert!(quiet && world.plan(0).outlook.complete, "{}", world.log());
        prop_assert_eq!(world.phases(0), vec![Phase::Complete; clusters]);
        Ok(())
    });
}

#[test]
fn late_commits_stay_within_max_concurrency() {
    holds(150, event_sequence(10), |sequence| {
        let events = sequence.events.into_iter();
        let events = events
            // Known limit: a process that ends forgets which writes were in doubt.
            .filter(|(_, event)| !matches!(event, Event::Crash | Event::Row(_, _, true)))
            .collect();
        let sequence = EventSequence { events, ..sequence };
        let mut world = replay(&sequence, Latency::Stalling);
        let until = world.seconds() + 400;
        world.run_until(until);
        no_fault(&world)
    });
}

#[test]
fn whatever_is_suddenly_known_no_plan_breaks_a_rule() {
    let facts = vec((0..NAMES.len(), fact()), 1..4);
    holds(300, (event_sequence(8), facts), |(sequence, facts)| {
        let world = replay(&sequence, Latency::Faulty);
        let now = at(world.seconds());
        let (mut policy, mut fleet) = world.observed(0);
        for (cluster, fact) in &facts {
            change(now, &mut policy, &mut fleet, *cluster, fact);
        }
        let plan = plan(now, &policy, &fleet);
        let violations = check(now, &policy, &fleet, &plan);
        let told = || format!("{facts:#?}\n{policy:#?}\n{fleet:#?}\n{plan:#?}\n{}", world.log());
        prop_assert!(violations.is_empty(), "{violations:#?}\n{}", told());
        Ok(())
    });
}

/// A cluster of one attempt, and an edit. Each work may name any start: an agent can edit it, and the clock of an earlier leader may
/// have been wrong. The row may lag behind the works and may have other starts.
#[derive(Clone, Debug)]
struct Dated {
    operators: bool,
    /// Index of the latest step that has a work.
    latest: usize,
    works: [i64; 3],
    /// The steps whose works tell their end.
    ended: [bool; 3],
    /// How many steps the row has; `None` where there is no row.
    row: Option<usize>,
    recorded: [i64; 3],
    written: bool,
    edited: Vec<Step>,
}

fn dated() -> impl Strategy<Value = Dated> {
    let starts = || {
        let start = prop::sample::select(vec![-1_000_000, 0, 5, 20, 21, 80, 81, 7_200, 1_000_000_i64]);
        prop::array::uniform3(start)
    };
    let row = prop::option::of(0..4_usize);
    (
        any::<bool>(),
        0..3_usize,
        starts(),
        any::<[bool; 3]>(),
        row,
        starts(),
        any::<bool>(),
        vec(step(), 0..3),
    )
        .prop_map(
            |(operators, latest, works, ended, row, recorded, written, edited)| Dated {
                operators,
                latest: latest.min(1 + usize::from(operators)),
                works,
                ended,
                row,
                recorded,
                written,
                edited,
            },
        )
}

impl Dated {
    fn asked(&self) -> PolicyBuilder {
        let asked = policy().pre_action().timeouts(10_000_000, 10_000_000);
        let asked = if self.operators { asked.operators() } else { asked };
        let steps: Vec<Step> = self
            .edited
            .iter()
            .copied()
            .filter(|step| *step != Step::PostAction && (self.operators || *step != Step::Operators))
            .collect();
        asked.edited("r2", &steps)
    }

    fn works(&self) -> FleetBuilder {
        let steps = Step::ALL.into_iter().take(self.latest + 1);
        steps.fold(fleet().cluster("a"), |fleet, step| {
            let index = step.index();
            let work = work(self.works[index]);
            let work = match (self.ended[index], index == self.latest) {
                (true, _) => work.succeeded(),
                (false, true) => work.running(),
                (false, false) => work,
            };
            fleet.work(step, work)
        })
    }

    fn found(&self) -> FleetBuilder {
        let Some(known) = self.row.map(|known| known.min(self.latest + 1)) else {
            return self.works();
        };
        let phases = [Phase::Pending, Phase::PreAction, Phase::Partial, Phase::Operators];
        let steps = Step::ALL.into_iter().take(known);
        let row = steps.fold(record(phases[known]), |row: RecordBuilder, step| {
            let started = self.recorded[step.index()];
            if step.index() + 1 == known {
                row.stage(step.into(), started)
            } else {
                row.succeeded(step.into(), started)
            }
        });
        if self.written {
            self.works().record(row)
        } else {
            self.works().draft(row)
        }
    }

    /// The latest step, if it has ended and goes on in the new attempt.
    fn kept(&self) -> Option<Step> {
        let step = Step::ALL[self.latest];
        let is_edited = |step: Step| self.edited.contains(&step);
        let goes_on = match step {
            Step::PreAction => !is_edited(step),
            // Before its operators it is queued again.
            Step::Platform => !is_edited(step) && !self.operators,
            _ => !is_edited(step) && !is_edited(Step::Platform),
        };
        (self.ended[self.latest] && goes_on).then_some(step)
    }
}

#[test]
fn an_edit_is_safe_and_repeats_no_step_that_has_ended_whatever_starts_the_works_name() {
    holds(600, dated(), |dated| {
        let first = planned(20, dated.asked(), dated.found());
        let first = record_of(&first, "a");
        if let Some(step) = dated.kept() {
            prop_assert_eq!(&*first.attempt.revision, "r2");
            prop_assert!(first.succeeded(Stage::from(step)), "{:?}", first);
        }
        let kept = planned(21, dated.asked(), dated.found().draft(first.clone()));
        let written = dated.works().record(record_of(&kept, "a").clone());
        // The checker looks at it.
        drop(planned(22, dated.asked(), written));
        Ok(())
    });
}
