//! Random sequences of what clusters answer and of what happens to their probes: between two looks nothing may change by time alone,
//! and who leads next knows no more than who led before.

use proptest::collection::vec;
use proptest::prelude::*;
use rollout::WorkerPools;

use super::again::at_risk;
use super::workers::{ASKED, UPDATED, told};
use super::*;
use crate::fixture::holds;

#[derive(Clone, Debug)]
enum Event {
    /// The agent reports: nothing, that the cluster is ready, that it is not offered the update, or that a risk applies.
    Answers(usize),
    /// Somebody deletes the probe, or the agent does not let go of it.
    Gone(bool),
    /// Another upgrade asks the cluster.
    Other,
    Phase(Phase),
    Clock(bool),
    /// The clock is set back.
    Back(i64),
    AskAgain,
    /// What becomes of writes from now on: done, without an answer, refused.
    Writes(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let phases = [
        Phase::Pending,
        Phase::PreAction,
        Phase::Workers,
        Phase::Initialized,
        Phase::Complete,
    ];
    prop_oneof![
        6 => (0..4_usize).prop_map(Event::Answers),
        1 => any::<bool>().prop_map(Event::Gone),
        1 => Just(Event::Other),
        2 => prop::sample::select(phases.to_vec()).prop_map(Event::Phase),
        1 => any::<bool>().prop_map(Event::Clock),
        1 => (1..4000_i64).prop_map(Event::Back),
        2 => Just(Event::AskAgain),
        2 => (0..3_usize).prop_map(Event::Writes),
    ]
}

/// The upgrade of a cluster, and the time.
struct Asked {
    world: World,
    now: i64,
    writes: usize,
    serial: u64,
}

impl Asked {
    fn new(sets_channel: bool, accepts: bool) -> Self {
        let mut world = world(&["a"]);
        let mut asked = Question::clone(&question());
        if sets_channel {
            asked.counts_after = TimeDelta::seconds(120);
        }
        if accepts {
            asked.update.accepted_risks = ["Slow".to_owned()].into();
        }
        world.questions = Questions {
            preflight: Some(Arc::new(asked)),
            workers: Some(Arc::from(ASKED)),
        };
        world.policy = rollout::testing::policy().worker_pools(36_000).build();
        Asked {
            world,
            now: 0,
            writes: 0,
            serial: 0,
        }
    }

    fn put(&mut self, mut object: api::views::ManifestWork, is_new: bool) {
        if is_new {
            self.serial += 1;
            object.metadata.uid = Some(format!("p-{}", self.serial));
            object.metadata.creation_timestamp = Some(api::time::from_chrono(at(self.now)));
        } else if let Some(known) = self.world.index.probe("a") {
            object.metadata.uid = Some(known.uid.to_string());
            object.metadata.creation_timestamp = known.created.map(api::time::from_chrono);
        }
        self.world.index.work(&Change::Applied(object), at(self.now));
    }

    fn version(&mut self) -> u64 {
        self.world.version += 1;
        self.world.version
    }

    fn apply(&mut self, event: &Event) {
        let known = self.world.index.probe("a").cloned();
        match *event {
            Event::Answers(what) => {
                let Some(known) = known.filter(|known| known.is_of(UPGRADE.0, UPGRADE.1)) else {
                    return;
                };
                let version = self.version();
                let status = match what {
                    _ if *known.hash == *ASKED => told(if what == 1 {
                        UPDATED
                    } else {
                        "pools/1\nversion 4.20.4\ntold\nupdating 1 worker"
                    }),
                    0 => json!({}),
                    1 => status_of_probe(),
                    2 => without_offer(),
                    _ => at_risk(),
                };
                self.put(
                    answered(probe("a", UPGRADE, &known.hash, version), status, version),
                    false,
                );
            }
            Event::Gone(waits) => {
                if let Some(known) = known {
                    if waits {
                        self.world.index.mark_probe("a", &known.uid, true);
                    } else {
                        self.world.index.remove_probe("a", &known.uid);
                    }
                }
            }
            Event::Other if known.is_none() => {
                let version = self.version();
                self.put(probe("a", ("u2", "ns/u2"), "h1", version), true);
            }
            Event::Other | Event::AskAgain => {}
            Event::Phase(phase) => {
                let since = self.now;
                let record = record(phase).since(since);
                self.world.cluster(0).record = Some(Arc::new(record.into()));
            }
            Event::Clock(trusted) => self.world.asker.clock_trusted = trusted,
            Event::Back(seconds) => self.now -= seconds,
            Event::Writes(how) => self.writes = how,
        }
        self.world.plan.ask_again.clear();
        if matches!(event, Event::AskAgain) {
            self.world.plan.ask_again.push(Arc::from("a"));
        }
    }

    fn due(&mut self, now: i64) -> (Vec<ProbeWrite>, Option<DateTime<Utc>>) {
        let world = &mut self.world;
        world.preflights.clamp_waits(at(now));
        world.refresh(now);
        let plan = (&world.policy, &world.plan);
        world
            .preflights
            .due(&world.fleet, plan, world.asker, &world.index, at(now))
    }

    /// Plans until nothing is due any more, and returns when to plan again.
    fn settle(&mut self) -> Option<DateTime<Utc>> {
        for _ in 0..10 {
            let (writes, wake) = self.due(self.now);
            self.world.plan.ask_again.clear();
            if writes.is_empty() {
                return wake;
            }
            for write in writes {
                let is_done = self.writes == 0;
                match &write {
                    ProbeWrite::Create(_, kind) if is_done => {
                        let version = self.version();
                        let hash = if *kind == ProbeKind::Workers { ASKED } else { "h1" };
                        self.put(probe("a", UPGRADE, hash, version), true);
                    }
                    ProbeWrite::Delete(_, uid) if is_done => self.world.index.remove_probe("a", uid),
                    _ => {}
                }
                let result = match self.writes {
                    0 => ProbeResult::Done,
                    1 => {
                        self.writes = 0;
                        ProbeResult::Unknown
                    }
                    _ => ProbeResult::Failed("no".to_owned()),
                };
                self.world.ended("a", result, self.now);
            }
        }
        panic!("it writes without end");
    }

    /// What planning sees. That an image is too old is no change: the planner asks again when it is the cluster's turn.
    fn seen(&self, now: i64) -> (Preflight, WorkerPools) {
        let says = self.world.says("a", now);
        let world = &self.world;
        let pools = world
            .preflights
            .worker_pools("a", UPGRADE.0, world.since(), &world.index, at(now));
        (
            if says == Preflight::Stale {
                Preflight::Ready
            } else {
                says
            },
            pools,
        )
    }
}

/// What happens, after which waits, which kind of upgrade asks, and how long nothing happens then.
fn sequence() -> impl Strategy<Value = (Vec<(i64, Event)>, [bool; 2], i64)> {
    let wait = prop_oneof![Just(0_i64), 1..15_i64, 15..200_i64, 200..4000_i64];
    (vec((wait, event()), 0..16), any::<[bool; 2]>(), 0..4000_i64)
}

fn replay(events: &[(i64, Event)], [sets_channel, accepts]: [bool; 2]) -> (Asked, Option<DateTime<Utc>>) {
    let mut asked = Asked::new(sets_channel, accepts);
    let mut wake = asked.settle();
    for (wait, event) in events {
        // It is planned whenever that was said to be due.
        let until = asked.now + wait;
        while let Some(due) = wake.filter(|due| *due <= at(until) && *due > at(asked.now)) {
            asked.now = (due - at(0)).num_seconds();
            wake = asked.settle();
        }
        asked.now = until;
        asked.apply(event);
        wake = asked.settle();
    }
    (asked, wake)
}

#[test]
fn nothing_changes_by_time_before_the_next_look() {
    holds(200, &sequence(), |(events, kind, later)| {
        let (mut asked, wake) = replay(&events, kind);
        let before = asked.seen(asked.now);
        let last = wake.map_or(i64::MAX, |wake| (wake - at(0)).num_seconds() - 1);
        let then = (asked.now + later).min(last);
        if then <= asked.now {
            return Ok(());
        }
        asked.world.refresh(then);
        prop_assert_eq!(
            asked.seen(then),
            before,
            "{} s later, before {:?}",
            then - asked.now,
            wake
        );
        let (writes, _) = asked.due(then);
        prop_assert!(
            writes.is_empty(),
            "{writes:?} {} s later, before {wake:?}",
            then - asked.now
        );
        Ok(())
    });
}

#[test]
fn who_leads_next_takes_nothing_for_answered_that_was_not() {
    holds(200, &sequence(), |(events, kind, _)| {
        let (mut asked, _) = replay(&events, kind);
        let (says, pools) = asked.seen(asked.now);
        let distrusted_at = asked.world.preflights.distrusted_at;
        let settles = asked
            .world
            .preflights
            .verdicts
            .get("a")
            .and_then(|judged| judged.settles().max(judged.held_until));
        asked.world.preflights = Preflights::default();
        asked.due(asked.now);
        let (_, next_pools) = asked.seen(asked.now);
        // Only for how long the answers have been the same is not known to it.
        let is_settled = settles.is_none_or(|settles| settles <= at(asked.now));
        if asked.world.says("a", asked.now) == Preflight::Ready && is_settled {
            prop_assert_eq!(says, Preflight::Ready);
        }
        if next_pools == WorkerPools::Updated && distrusted_at + TimeDelta::minutes(2) <= at(asked.now) {
            prop_assert_eq!(pools, WorkerPools::Updated);
        }
        Ok(())
    });
}
