//! A scenario: time, upgrades and a hub. It carries out plans until nothing changes any more.

mod answers;
mod approvals;
mod clock;
mod edits;
mod landing;
mod members;
mod proofs;
mod silence;
mod versions;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

pub use self::edits::RowChange;
use self::landing::row_answer;
use super::build::at;
use super::hub::{FIRST_VERSION, Hub, HubWork, Owner, Pools, Spoke};
use super::monitor::{Watch, named};
use super::script::{Rng, Script};
use super::upgrade::{Landing, Upgrade, Write, observe};
use crate::maintenance::Calendar;
use crate::model::{
    Attempt, Eligibility, Fleet, LeftOut, Operation, Phase, Plan, Policy, Preflight, Record, RetryScope,
    Step, StepStatus, StepWork, WorkerPools,
};
use crate::planner::plan;

/// After this time a step with a blocker is tried again.
const BLOCKER_BACKOFF: TimeDelta = TimeDelta::seconds(30);
/// After this time a failed write is repeated.
const WRITE_BACKOFF: TimeDelta = TimeDelta::seconds(2);
/// Largest number of plans at one time. More mean that plans keep changing.
const ROUNDS: usize = 40;

/// How long writes take and how they end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// One second each, in order; none fails.
    Ordered,
    /// 0 to 3 seconds, none fails.
    Random,
    /// 0 to 3 seconds; one in ten is rejected or its response is lost.
    Faulty,
    /// 0 to 3 seconds; half are rejected, lose their response, or lose their response and are carried out up to a minute
    /// later.
    Stalling,
    /// Every response is lost, and the write is carried out this many seconds later.
    Losing(i64),
}

/// Hub, agents and controllers.
#[derive(Clone, Debug)]
pub struct Scenario {
    now: DateTime<Utc>,
    hub: Hub,
    upgrades: Vec<Upgrade>,
    latency: Latency,
    rng: Rng,
    watch: Watch,
    log: Vec<String>,
    operations: usize,
    /// Writes that were abandoned and will be carried out at these times, by upgrade.
    late: Vec<(DateTime<Utc>, usize, Write)>,
}

impl Scenario {
    /// A scenario with one upgrade, at second 0.
    #[must_use]
    pub fn new(policy: Policy, seed: u64) -> Scenario {
        Scenario {
            now: at(0),
            hub: Hub::default(),
            upgrades: vec![Upgrade::new("upgrade", policy)],
            latency: Latency::Ordered,
            rng: Rng::new(seed),
            watch: Watch::default(),
            log: Vec::new(),
            operations: 0,
            late: Vec::new(),
        }
    }

    /// Sets how writes end from now on.
    pub const fn set_latency(&mut self, latency: Latency) {
        self.latency = latency;
    }

    /// Adds a newer upgrade and returns its index.
    pub fn add_upgrade(&mut self, name: &str, policy: Policy) -> usize {
        self.upgrades.push(Upgrade::new(name, policy));
        self.upgrades.len() - 1
    }

    /// Adds a cluster that every upgrade selects and whose agent succeeds in every step.
    pub fn add_cluster(&mut self, name: &str) {
        let name: Arc<str> = Arc::from(name);
        let spoke = Spoke {
            gone: false,
            registered: self.now,
            eligibility: Eligibility::Eligible,
            version: Arc::from(FIRST_VERSION),
            known_version: None,
            preflight: Preflight::Ready,
            says: Preflight::Ready,
            answers_at: None,
            stale_image: false,
            worker_pools: Pools {
                known: WorkerPools::Updated,
                have_followed: true,
            },
            calendar: None,
            offline: false,
            works: [None, None, None, None],
            ended: [None, None, None, None],
            forbids: Vec::new(),
            refuses: BTreeSet::new(),
            scripts: [
                Script::succeeds(2, 5),
                Script::succeeds(5, 20).other_version(1),
                Script::succeeds(2, 10),
                Script::succeeds(2, 5),
            ],
        };
        self.hub.spokes.insert(Arc::clone(&name), spoke);
        for index in 0..self.upgrades.len() {
            self.select(index, &name);
        }
    }

    /// Leaves a cluster out, aborts it, or takes it up again.
    pub fn leave_out(&mut self, upgrade: usize, name: &str, left_out: Option<LeftOut>) {
        self.watch.something_happens();
        let known = &mut self.upgrades[upgrade].left_out;
        match left_out {
            Some(left_out) => known.insert(Arc::from(name), left_out),
            None => known.remove(name),
        };
    }

    /// Changes the policy.
    pub fn edit(&mut self, upgrade: usize, change: impl FnOnce(&mut Policy)) {
        self.watch.something_happens();
        let upgrade = &mut self.upgrades[upgrade];
        change(&mut upgrade.policy);
        let refused = |slot: &StepWork| matches!(slot, StepWork::Refused { .. });
        upgrade.blockers.retain(|_, slot| !refused(slot));
    }

    /// Replaces the policy.
    pub fn set_policy(&mut self, upgrade: usize, policy: Policy) {
        self.upgrades[upgrade].policy = policy;
    }

    /// Sets the retry annotation.
    pub fn retry(&mut self, upgrade: usize, token: &str) {
        self.watch.something_happens();
        self.upgrades[upgrade].retry = Some(Arc::from(token));
    }

    /// Adds a retry to the spec, or changes whom it is for.
    pub fn retry_of(&mut self, upgrade: usize, token: &str, scope: RetryScope) {
        let retries = &mut self.upgrades[upgrade].retries;
        retries.retain(|(known, _)| **known != *token);
        retries.push((Arc::from(token), scope));
    }

    /// Loses what the status says of retries.
    pub fn lose_status(&mut self, upgrade: usize) {
        let upgrade = &mut self.upgrades[upgrade];
        upgrade.observed_retry = None;
        upgrade.carried_out.clear();
    }

    fn spoke(&mut self, name: &str, change: impl FnOnce(&mut Spoke, DateTime<Utc>)) {
        let now = self.now;
        if let Some(spoke) = self.hub.spokes.get_mut(name) {
            change(spoke, now);
        }
    }

    /// Gives the agent another script for a step. It also applies to a work that is not done yet.
    pub fn script(&mut self, name: &str, step: Step, script: Script) {
        self.spoke(name, |spoke, now| {
            spoke.scripts[step.index()] = script;
            if let Some(work) = &mut spoke.works[step.index()] {
                work.epoch = now;
                work.done = work.status == StepStatus::Succeeded && work.unhealthy.is_none();
            }
        });
    }

    /// Silences the agent of a cluster or brings it back. The cluster is unavailable meanwhile.
    pub fn offline(&mut self, name: &str, offline: bool) {
        self.spoke(name, |spoke, _| {
            spoke.offline = offline;
            if matches!(
                spoke.eligibility,
                Eligibility::Eligible | Eligibility::Unavailable { .. }
            ) {
                spoke.eligibility = if offline {
                    Eligibility::Unavailable {
                        reason: crate::Reason::ClusterUnavailable,
                        message: Arc::from("The agent is silent"),
                    }
                } else {
                    Eligibility::Eligible
                };
            }
        });
    }

    /// Sets when a cluster may start.
    pub fn calendar(&mut self, name: &str, calendar: Option<Calendar>) {
        self.spoke(name, |spoke, _| spoke.calendar = calendar);
    }

    /// Sets whether a cluster may start.
    pub fn eligibility(&mut self, name: &str, eligibility: Eligibility) {
        self.spoke(name, |spoke, _| spoke.eligibility = eligibility);
    }

    /// Deletes a work, as somebody would by hand.
    pub fn delete_work(&mut self, name: &str, step: Step) {
        self.spoke(name, |spoke, now| {
            if let Some(work) = &mut spoke.works[step.index()] {
                work.deleted.get_or_insert(now);
            }
        });
    }

    /// Adds a work that belongs to no upgrade under a step's name, if the name is free.
    pub fn add_foreign(&mut self, name: &str, step: Step) {
        self.spoke(name, |spoke, now| {
            spoke.works[step.index()].get_or_insert_with(|| HubWork {
                owner: Owner::Nobody,
                created: now,
                sent: now,
                attempt: Attempt {
                    revision: Arc::from(""),
                    retry: Arc::from(""),
                },
                hash: Arc::from(""),
                target: Arc::from(""),
                started: now,
                soak_started: None,
                withdrawn: None,
                unasked: false,
                deleted: None,
                spoiled: None,
                epoch: now,
                status: StepStatus::NotYet,
                unhealthy: None,
                done: false,
                applied: true,
            });
        });
    }

    /// Sets whether the hub rejects new works of a step as invalid.
    pub fn refuse(&mut self, name: &str, step: Step, refuses: bool) {
        self.spoke(name, |spoke, _| {
            if refuses {
                spoke.refuses.insert(step);
            } else {
                spoke.refuses.remove(&step);
            }
        });
    }

    /// Removes a work that belongs to no upgrade.
    pub fn remove_foreign(&mut self, name: &str, step: Step) {
        self.spoke(name, |spoke, now| {
            if let Some(work) = &mut spoke.works[step.index()]
                && work.owner == Owner::Nobody
            {
                work.deleted = Some(now);
            }
        });
    }

    /// Kills and restarts the controller of an upgrade. It loses what was not written, and each write that was in
    /// progress was or was not carried out.
    pub fn crash(&mut self, upgrade: usize) {
        self.say("controller restarts");
        self.watch.something_happens();
        let writes = std::mem::take(&mut self.upgrades[upgrade].writes);
        for write in writes {
            if self.rng.chance(50) {
                self.carry_out(upgrade, &write);
            }
        }
        let rng = &mut self.rng;
        for name in self.upgrades[upgrade].forget(self.now, || rng.chance(50)) {
            self.watch.excuse(upgrade, &name);
        }
    }

    /// The time, in seconds.
    #[must_use]
    pub fn seconds(&self) -> i64 {
        (self.now - at(0)).num_seconds()
    }

    /// The record of a cluster, as the controller has it.
    #[must_use]
    pub fn record(&self, upgrade: usize, name: &str) -> Option<&Record> {
        self.upgrades[upgrade].drafts.get(name).map(Arc::as_ref)
    }

    /// The phase of a cluster.
    #[must_use]
    pub fn phase(&self, upgrade: usize, name: &str) -> Option<Phase> {
        self.record(upgrade, name).map(|record| record.phase)
    }

    /// Phases of all clusters, by name.
    #[must_use]
    pub fn phases(&self, upgrade: usize) -> Vec<Phase> {
        let drafts = &self.upgrades[upgrade].drafts;
        drafts.values().map(|record| record.phase).collect()
    }

    /// What an upgrade asks for at present, and what its controller knows of its clusters.
    #[must_use]
    pub fn observed(&self, upgrade: usize) -> (Policy, Fleet) {
        let fleet = observe(&self.upgrades, upgrade, &self.hub, self.now);
        (self.upgrades[upgrade].asked(), fleet)
    }

    /// The latest plan.
    pub fn plan(&self, upgrade: usize) -> &Plan {
        &self.upgrades[upgrade].last
    }

    /// True when a work exists under the name of the step, whatever it belongs to.
    #[must_use]
    pub fn has_work(&self, name: &str, step: Step) -> bool {
        let spoke = self.hub.spokes.get(name);
        spoke.is_some_and(|spoke| spoke.works[step.index()].is_some())
    }

    /// Number of writes that plans have asked for so far.
    #[must_use]
    pub const fn operations(&self) -> usize {
        self.operations
    }

    /// Every rule that was seen violated.
    #[must_use]
    pub fn faults(&self) -> &[String] {
        &self.watch.faults
    }

    /// Times, actions and phases so far, one per line.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.join("\n")
    }

    /// The lines of the log about operations of this kind (`create`, `update`, `delete`).
    #[must_use]
    pub fn log_of(&self, kind: &str) -> Vec<&str> {
        self.log
            .iter()
            .map(String::as_str)
            .filter(|line| line.contains(kind))
            .collect()
    }

    fn say(&mut self, text: &str) {
        let mut line = String::new();
        let _ = write!(line, "{:>5}s  {text}", self.seconds());
        self.log.push(line);
    }

    /// Adds a line to the log.
    pub fn note(&mut self, text: &str) {
        self.say(&format!("# {text}"));
        self.watch.something_happens();
    }

    /// Runs the scenario until the given second.
    pub fn run_until(&mut self, seconds: i64) {
        self.tick();
        while let Some(next) = self.next()
            && next <= at(seconds)
        {
            self.now = next.max(self.now);
            self.tick();
        }
        self.now = at(seconds).max(self.now);
    }

    /// Runs the scenario until nothing changes. Returns false if it still changes at the given second.
    pub fn settle(&mut self, seconds: i64) -> bool {
        self.run_until(seconds);
        self.next().is_none()
    }

    fn next(&self) -> Option<DateTime<Utc>> {
        let upgrades = self.upgrades.iter().filter_map(|upgrade| upgrade.next(self.now));
        let late = self.late.iter().map(|(at, ..)| *at);
        let answers = self.hub.spokes.values().filter_map(|spoke| spoke.answers_at);
        let next = upgrades.chain(late).chain(answers);
        next.chain(self.hub.next(self.now)).min()
    }

    /// Number of clusters with unfinished works on the hub, whatever the controller knows about them. What is left from before a cluster
    /// was registered anew holds no slot.
    #[must_use]
    pub fn unfinished(&self, upgrade: usize) -> usize {
        let spokes = self.hub.spokes.iter().filter(|(_, spoke)| !spoke.gone);
        spokes
            .filter(|(name, spoke)| {
                let owner = &self.upgrades[upgrade];
                let record = owner.drafts.get(*name);
                let counts = |step: Step, work: &HubWork| {
                    let running = matches!(
                        work.status,
                        StepStatus::NotYet | StepStatus::OtherVersion | StepStatus::Running
                    );
                    let open = record.is_none_or(|record| {
                        record.attempt == work.attempt
                            && (record.phase == Phase::Pending || record.phase.holds_slot())
                    });
                    let is_former = work.is_unchanged_since(spoke.registered)
                        || owner.is_sent_before(name, step, work, spoke.registered);
                    let is_own =
                        work.owner == Owner::Upgrade(upgrade) && !is_former && work.spoiled.is_none();
                    is_own && work.deleted.is_none() && running && open
                };
                let works = spoke.works.iter().zip(Step::ALL);
                let mut of_slots = works.filter(|(_, step)| *step != Step::PostAction);
                of_slots.any(|(work, step)| work.as_ref().is_some_and(|work| counts(step, work)))
            })
            .count()
    }

    /// Carries out everything that happens at the present time.
    fn tick(&mut self) {
        self.hear_watches();
        for _ in 0..ROUNDS {
            let mut moved = false;
            for (name, step, work) in self.hub.report(self.now) {
                if let Owner::Upgrade(index) = work.owner {
                    let spoke = self.hub.spokes.get(&name);
                    let is_former = spoke.is_some_and(|spoke| work.is_from_before(step, spoke.registered));
                    let proves_nothing = is_former || work.spoiled.is_some();
                    self.upgrades[index].note_gone(&name, step, work.observed(), proves_nothing);
                }
                moved = true;
            }
            moved |= self.hear();
            moved |= self.land_late();
            for index in 0..self.upgrades.len() {
                moved |= self.land(index);
                let (latency, rng) = (self.latency, &mut self.rng);
                moved |= self.upgrades[index].flush(self.now, || row_answer(latency, rng));
                moved |= self.think(index);
                let size = self.upgrades[index].last.summary.max_concurrency;
                let unfinished = self.unfinished(index);
                self.watch.on_hub(index, self.now, unfinished, size);
            }
            if !moved {
                return;
            }
        }
        self.watch.on_restless(self.now);
    }

    /// Plans once. Returns true when the plan changed something.
    fn think(&mut self, index: usize) -> bool {
        let upgrade = &mut self.upgrades[index];
        let deaf = upgrade.deaf.take();
        upgrade.settle(index, deaf.as_ref().unwrap_or(&self.hub), self.now, None);
        upgrade.deaf = deaf;
        let fleet = observe(&self.upgrades, index, &self.hub, self.now);
        let policy = self.upgrades[index].asked();
        let ahead = self.upgrades[index].ahead;
        let plan = plan(self.now + ahead, &policy, &fleet);
        self.watch
            .on_plan(index, self.now + ahead, &policy, &fleet, &plan);
        self.watch_proofs(index, &fleet, &plan);
        if self.upgrades.len() == 1 {
            self.watch.watch_outlook(index, self.now, &plan);
        }
        for state in &plan.clusters {
            let before = named(&fleet, &state.name).and_then(|cluster| cluster.record.as_deref());
            let was = before.map(|record| record.phase);
            if was != Some(state.record.phase) {
                let from = was.map_or_else(|| "new".to_owned(), |phase| format!("{phase:?}"));
                let text = format!(
                    "{}  {from} -> {:?} {}",
                    state.name, state.record.phase, state.record.reason
                );
                self.say(&text);
            }
        }
        for name in &plan.dropped {
            self.say(&format!("{name}  dropped"));
        }
        for operation in &plan.operations {
            self.issue(index, operation, &plan);
        }
        self.ask(&plan);
        let urgent = match self.latency {
            Latency::Ordered | Latency::Losing(_) => TimeDelta::zero(),
            Latency::Random | Latency::Faulty | Latency::Stalling => {
                TimeDelta::seconds(self.rng.below(2).cast_signed())
            }
        };
        let upgrade = &mut self.upgrades[index];
        let changed = upgrade.adopt(&plan, self.now, urgent) || !plan.operations.is_empty();
        upgrade.done = policy.retry.filter(|_| plan.retry_done);
        upgrade.wake = plan.wake_at.map(|at| at - ahead);
        upgrade.last = plan;
        changed || upgrade.done.is_some()
    }

    fn issue(&mut self, index: usize, operation: &Operation, plan: &Plan) {
        let (lands, landing) = match self.latency {
            Latency::Ordered => (1, Landing::Done),
            Latency::Random => (self.rng.below(4), Landing::Done),
            Latency::Faulty => {
                let landing = match self.rng.below(20) {
                    0 => Landing::Refused,
                    1 => Landing::Lost,
                    _ => Landing::Done,
                };
                (self.rng.below(4), landing)
            }
            Latency::Stalling => {
                let landing = match self.rng.below(10) {
                    0 => Landing::Refused,
                    1 => Landing::Lost,
                    2..=4 => Landing::Late(self.rng.below(60).cast_signed()),
                    _ => Landing::Done,
                };
                (self.rng.below(4), landing)
            }
            Latency::Losing(seconds) => (1, Landing::Late(seconds)),
        };
        let landing = match (landing, operation) {
            (Landing::Late(_), Operation::Read { .. }) => Landing::Done,
            (
                Landing::Late(_),
                Operation::Withdraw { .. } | Operation::MarkSoak { .. } | Operation::Delete { .. },
            ) => Landing::Lost,
            (landing, _) => landing,
        };
        let step = operation.step();
        let policy = &self.upgrades[index].policy;
        let (hash, target) = (policy.steps[step.index()].clone(), Arc::clone(&policy.target));
        let cluster = operation.cluster();
        let spoke = self.hub.spokes.get(cluster);
        let is_forbidden = spoke.is_some_and(|spoke| spoke.forbids.contains(&operation.kind()));
        let landing = if is_forbidden { Landing::Refused } else { landing };
        let starts = plan
            .clusters
            .iter()
            .any(|state| state.name == *cluster && state.starting);
        let what = match operation {
            Operation::Create { .. } => format!("create {step:?}"),
            Operation::Update { kind, .. } => format!("update {step:?} ({kind:?})"),
            Operation::Withdraw { .. } => "withdraw".to_owned(),
            Operation::MarkSoak { .. } => format!("mark soak on {step:?}"),
            Operation::Delete { why, .. } => format!("delete {step:?} ({why:?})"),
            Operation::Read { .. } => format!("read {step:?}"),
        };
        self.say(&format!("{cluster}  {what}"));
        self.operations += 1;
        let key = (Arc::clone(cluster), step);
        let repeats = self.upgrades[index].unsettled.contains_key(&key);
        let hub = self.upgrades[index].deaf.as_ref().unwrap_or(&self.hub);
        let work = hub.spokes.get(cluster).map(|spoke| &spoke.works[step.index()]);
        let known = work.and_then(Option::as_ref).map(|work| work.created);
        self.upgrades[index].writes.push(Write {
            issued: self.now,
            known,
            repeats,
            late: false,
            cluster: Arc::clone(cluster),
            operation: operation.clone(),
            starts,
            hash: hash.unwrap_or_else(|| Arc::from("")),
            target,
            lands: self.now + TimeDelta::seconds(lands.cast_signed()),
            landing,
        });
    }
}
