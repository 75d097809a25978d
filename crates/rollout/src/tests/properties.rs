//! Random scenarios and random events: what must hold at every step, and that every upgrade ends.

use std::sync::Arc;

use chrono::TimeDelta;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::abort::left_out;
use super::{approvals, planned, record_of, windows};
use crate::model::{Eligibility, Hold, Limit, Phase, Preflight, Reason, Stage, Step, WorkerPools};
use crate::testing::{
    FleetBuilder, Latency, PolicyBuilder, RecordBuilder, Scenario, Script, fleet, policy, record, work,
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

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[derive(Clone, Debug)]
enum Event {
    Script(usize, Step, Behaviour),
    Offline(usize, bool),
    DeleteWork(usize, Step),
    AddForeign(usize, Step),
    RemoveForeign(usize, Step),
    Refuse(usize, Step, bool),
    Select(usize),
    Deselect(usize),
    Lose(usize),
    Block(usize),
    Unblock(usize),
    Runs(usize, bool),
    AllowDowngrade(bool),
    RequirePreflight(bool),
    Preflight(usize, u8),
    WaitForPools(Option<i64>),
    Pools(usize, bool),
    Window(usize, Option<u8>),
    LeaveOut(usize, Option<bool>),
    Checkpoint(Option<u32>),
    Approve(Option<i64>),
    Restored(bool),
    Edit(u8, Vec<Step>),
    Pause(bool),
    Slots(u32),
    MaxFailures(Option<u32>),
    Soak(Option<i64>),
    Timeout(i64),
    Retry(u8),
    Crash,
}

#[derive(Clone, Copy, Debug)]
enum Behaviour {
    Good,
    Slow,
    Silent,
    Stuck,
    Fails,
    MaybeFailed,
    FailsThenRecovers,
    Regresses,
}

fn script(step: Step, behaviour: Behaviour) -> Script {
    match behaviour {
        Behaviour::Good => Script::succeeds(3, 9),
        Behaviour::Slow => Script::succeeds(20, 70),
        Behaviour::Silent => Script::silent(),
        Behaviour::Stuck => Script::silent().running(4),
        Behaviour::Fails if step == Step::Platform => Script::silent().other_version(2),
        Behaviour::Fails => Script::silent().failed(6),
        Behaviour::MaybeFailed if step == Step::Operators => Script::silent().maybe_failed(4),
        Behaviour::FailsThenRecovers if step != Step::Platform => {
            Script::silent().failed(6).running(10).succeeded(13)
        }
        Behaviour::Regresses if step == Step::Platform => {
            Script::succeeds(2, 6).unhealthy(15).other_version(25)
        }
        Behaviour::MaybeFailed | Behaviour::FailsThenRecovers | Behaviour::Regresses => {
            Script::succeeds(1, 2)
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop::sample::select(Step::ALL.to_vec())
}

fn behaviour() -> impl Strategy<Value = Behaviour> {
    use Behaviour::{Fails, FailsThenRecovers, Good, MaybeFailed, Regresses, Silent, Slow, Stuck};
    prop::sample::select(vec![
        Good,
        Slow,
        Silent,
        Stuck,
        Fails,
        MaybeFailed,
        FailsThenRecovers,
        Regresses,
    ])
}

fn event() -> impl Strategy<Value = Event> {
    let cluster = 0..NAMES.len();
    prop_oneof![
        4 => (cluster.clone(), step(), behaviour()).prop_map(|(c, s, b)| Event::Script(c, s, b)),
        2 => (cluster.clone(), any::<bool>()).prop_map(|(c, b)| Event::Offline(c, b)),
        2 => (cluster.clone(), step()).prop_map(|(c, s)| Event::DeleteWork(c, s)),
        1 => (cluster.clone(), step()).prop_map(|(c, s)| Event::AddForeign(c, s)),
        1 => (cluster.clone(), step()).prop_map(|(c, s)| Event::RemoveForeign(c, s)),
        1 => (cluster.clone(), step(), any::<bool>()).prop_map(|(c, s, b)| Event::Refuse(c, s, b)),
        2 => cluster.clone().prop_map(Event::Select),
        2 => cluster.clone().prop_map(Event::Deselect),
        1 => cluster.clone().prop_map(Event::Lose),
        1 => cluster.clone().prop_map(Event::Block),
        1 => cluster.clone().prop_map(Event::Unblock),
        2 => (cluster.clone(), any::<bool>()).prop_map(|(c, newer)| Event::Runs(c, newer)),
        1 => any::<bool>().prop_map(Event::AllowDowngrade),
        1 => any::<bool>().prop_map(Event::RequirePreflight),
        2 => (cluster.clone(), 0..5_u8).prop_map(|(c, answer)| Event::Preflight(c, answer)),
        1 => prop::option::of(5..100_i64).prop_map(Event::WaitForPools),
        2 => (cluster.clone(), any::<bool>()).prop_map(|(c, updated)| Event::Pools(c, updated)),
        2 => (cluster.clone(), prop::option::of(0..4_u8)).prop_map(|(c, window)| Event::Window(c, window)),
        3 => (cluster, prop::option::of(any::<bool>())).prop_map(|(c, how)| Event::LeaveOut(c, how)),
        1 => any::<bool>().prop_map(Event::Restored),
        1 => prop::option::of(0..6_u32).prop_map(Event::Checkpoint),
        2 => prop::option::of(1..60_i64).prop_map(Event::Approve),
        3 => (0..3_u8, vec(step(), 0..4)).prop_map(|(r, s)| Event::Edit(r, s)),
        1 => any::<bool>().prop_map(Event::Pause),
        1 => (1..5_u32).prop_map(Event::Slots),
        1 => prop::option::of(0..3_u32).prop_map(Event::MaxFailures),
        1 => prop::option::of(1..40_i64).prop_map(Event::Soak),
        1 => (10..200_i64).prop_map(Event::Timeout),
        2 => (0..3_u8).prop_map(Event::Retry),
        3 => Just(Event::Crash),
    ]
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

fn revise(world: &mut Scenario, revision: u8, steps: &[Step]) {
    let revision = format!("r{revision}");
    world.edit(0, |policy| {
        policy.revision = Arc::from(revision.as_str());
        for step in Step::ALL {
            if steps.contains(&step) && policy.wants(step) {
                policy.steps[step.index()] = Some(Arc::from(format!("{step:?}@{revision}")));
            }
        }
    });
}

fn pools(updated: bool) -> WorkerPools {
    if updated {
        return WorkerPools::Updated;
    }
    WorkerPools::Behind {
        reason: Reason::PoolPaused,
        message: "MachineConfigPool is paused: worker".into(),
    }
}

fn preflight(answer: u8) -> Preflight {
    let (reason, message) = (Reason::NotOffered, Arc::from("4.12.0 is not offered"));
    match answer {
        0 => Preflight::NotAsked,
        1 => Preflight::Unknown {
            reason: Reason::PreflightPending,
            message,
        },
        2 => Preflight::Blocked { reason, message },
        3 => Preflight::Stale,
        _ => Preflight::Ready,
    }
}

fn apply_event(world: &mut Scenario, event: &Event) {
    world.note(&format!("{event:?}"));
    match event {
        Event::Script(c, s, b) => world.script(NAMES[*c], *s, script(*s, *b)),
        Event::Offline(c, offline) => world.offline(NAMES[*c], *offline),
        Event::DeleteWork(c, s) => world.delete_work(NAMES[*c], *s),
        Event::AddForeign(c, s) => world.add_foreign(NAMES[*c], *s),
        Event::RemoveForeign(c, s) => world.remove_foreign(NAMES[*c], *s),
        Event::Refuse(c, s, refuses) => world.refuse(NAMES[*c], *s, *refuses),
        Event::Select(c) => world.select(0, NAMES[*c]),
        Event::Deselect(c) => world.deselect(0, NAMES[*c]),
        Event::Lose(c) => world.lose(NAMES[*c]),
        Event::Block(c) => world.eligibility(
            NAMES[*c],
            Eligibility::Blocked {
                reason: Reason::InvalidClusterID,
                message: Arc::from("Fix the label"),
            },
        ),
        Event::Unblock(c) => world.eligibility(NAMES[*c], Eligibility::Eligible),
        Event::Runs(c, newer) => world.runs(NAMES[*c], if *newer { "4.12.1" } else { "4.12.0-rc.1" }),
        Event::AllowDowngrade(allowed) => world.edit(0, |policy| policy.allow_downgrade = *allowed),
        Event::RequirePreflight(required) => {
            world.edit(0, |policy| policy.requires_preflight = *required);
        }
        Event::Preflight(c, answer) => world.preflight(NAMES[*c], preflight(*answer)),
        Event::WaitForPools(seconds) => world.edit(0, |policy| {
            policy.worker_pools_timeout = seconds.map(TimeDelta::seconds);
        }),
        Event::Pools(c, updated) => world.worker_pools(NAMES[*c], pools(*updated)),
        Event::Window(c, window) => world.calendar(NAMES[*c], window.map(windows::of_minutes)),
        Event::LeaveOut(c, how) => world.leave_out(0, NAMES[*c], how.map(left_out)),
        Event::Checkpoint(at) => world.edit(0, |policy| policy.checkpoints = approvals::checkpoints(*at)),
        Event::Approve(seconds) => world.approve(0, *seconds),
        Event::Restored(held) => world.edit(0, |policy| policy.hold = held.then_some(Hold::Restored)),
        Event::Edit(revision, steps) => revise(world, *revision, steps),
        Event::Pause(paused) => world.edit(0, |policy| policy.hold = paused.then_some(Hold::Paused)),
        Event::Slots(count) => world.edit(0, |policy| policy.max_concurrency = Limit::Count(*count)),
        Event::MaxFailures(limit) => {
            world.edit(0, |policy| policy.max_failures = limit.map(Limit::Count));
        }
        Event::Soak(length) => world.edit(0, |policy| {
            policy.min_success_time = length.map(TimeDelta::seconds);
        }),
        Event::Timeout(seconds) => world.edit(0, |policy| {
            policy.cluster_timeout = TimeDelta::seconds(*seconds);
            policy.operators_timeout = TimeDelta::seconds(seconds / 2 + 5);
        }),
        Event::Retry(token) => world.retry(0, &format!("retry-{token}")),
        Event::Crash => world.crash(0),
    }
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
    (
        asked(),
        1..=NAMES.len(),
        prop::option::of(0..NAMES.len()),
        any::<u64>(),
        vec((0..40_i64, event()), 0..events),
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
    let mut world = Scenario::new(sequence.asked.clone().build(), sequence.seed);
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
        apply_event(&mut world, event);
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

#[test]
fn everything_ends_when_faults_end() {
    holds(120, event_sequence(10), |sequence| {
        let mut world = replay(&sequence, Latency::Faulty);
        world.set_latency(Latency::Random);
        for name in &NAMES[..sequence.clusters] {
            world.offline(name, false);
            world.eligibility(name, Eligibility::Eligible);
            world.runs(name, "4.11.0");
            world.preflight(name, Preflight::Ready);
            world.worker_pools(name, WorkerPools::Updated);
            for step in Step::ALL {
                world.remove_foreign(name, step);
                world.refuse(name, step, false);
                world.script(name, step, script(step, Behaviour::Good));
            }
        }
        world.edit(0, |policy| {
            policy.hold = None;
            policy.max_failures = None;
            policy.checkpoints.clear();
            policy.canaries &= sequence.canary.is_some_and(|canary| canary < sequence.clusters);
            policy.cluster_timeout = TimeDelta::seconds(300);
            policy.operators_timeout = TimeDelta::seconds(300);
        });
        world.note("faults end");
        let until = world.seconds() + 1000;
        world.run_until(until);
        world.retry(0, "at last");
        let until = world.seconds() + 3000;
        let quiet = world.settle(until);
        no_fault(&world)?;
        let ended = world
            .phases(0)
            .iter()
            .all(|phase| phase.is_done() || *phase == Phase::Failed);
        let canary_left = sequence.canary.is_some_and(|canary| {
            let name = NAMES[canary];
            !world.selected(0).iter().any(|selected| **selected == *name) || world.phase(0, name).is_none()
        });
        let gated = canary_left && sequence.asked.clone().build().canaries;
        // At a gate, a plan still wakes when windows change.
        let is_window = |(_, event): &_| matches!(event, Event::Window(_, Some(_)));
        let wakes = gated && sequence.events.iter().any(is_window);
        prop_assert!(quiet || wakes, "still moving\n{}", world.log());
        prop_assert!(ended || gated, "{:?}\n{}", world.plan(0), world.log());
        let count = world.operations();
        world.run_until(until + 100_000);
        prop_assert_eq!(count, world.operations());
        no_fault(&world)
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

#[test]
fn rules_hold_where_two_upgrades_meet() {
    let cases = (event_sequence(14), asked(), 0..60_i64, vec(any::<bool>(), 14));
    holds(150, cases, |(sequence, newer, after, turns)| {
        let mut world = begin(&sequence, Latency::Faulty);
        world.run_until(after);
        let index = world.add_upgrade("newer", newer.build());
        for name in &NAMES[..sequence.clusters] {
            world.select(index, name);
        }
        if let Some(canary) = sequence.canary {
            world.canary(index, NAMES[canary]);
        }
        for ((after, event), newer) in sequence.events.iter().zip(turns) {
            let until = world.seconds() + after;
            world.run_until(until);
            match event {
                Event::Crash if newer => world.crash(index),
                Event::Retry(token) if newer => world.retry(index, &format!("retry-{token}")),
                event => apply_event(&mut world, event),
            }
        }
        let until = world.seconds() + 400;
        world.run_until(until);
        no_fault(&world)
    });
}

#[test]
fn a_crash_at_any_second_loses_and_repeats_nothing() {
    let cases = (asked(), 1..=NAMES.len(), any::<u64>(), vec(0..120_i64, 1..4));
    holds(150, cases, |(asked, clusters, seed, mut crashes)| {
        let asked = asked.timeouts(300, 300);
        let canaries = asked.clone().build().canaries;
        let mut world = Scenario::new(asked.build(), seed);
        world.set_latency(Latency::Random);
        for name in &NAMES[..clusters] {
            world.add_cluster(name);
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
            .filter(|(_, event)| !matches!(event, Event::Crash))
            .collect();
        let sequence = EventSequence { events, ..sequence };
        let mut world = replay(&sequence, Latency::Stalling);
        let until = world.seconds() + 400;
        world.run_until(until);
        no_fault(&world)
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
