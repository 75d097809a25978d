//! The toy world: time, upgrades, hub. It carries plans out until nothing moves.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::build::at;
use super::hub::{Hub, HubWork, Owner, Spoke};
use super::script::{Rng, Script};
use super::upgrade::{Landing, Upgrade, Write, observe};
use super::watch::{Watch, named};
use crate::fleet::{Reading, Selection, Slot, Standing};
use crate::phase::{Phase, Step};
use crate::plan::{Action, Plan, plan};
use crate::policy::Policy;
use crate::record::{Attempt, Record};

/// A step with an obstacle is tried again after this long.
const OBSTACLE_BACKOFF: TimeDelta = TimeDelta::seconds(30);
/// A failed write is repeated after this long.
const WRITE_BACKOFF: TimeDelta = TimeDelta::seconds(2);
/// Plans at one instant, at most, before they count as restless.
const ROUNDS: usize = 40;

/// How long writes take and how they end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// One second each, in order; none fails.
    Ordered,
    /// 0 to 3 seconds, none fails.
    Random,
    /// 0 to 3 seconds; one in ten is refused or loses its answer.
    Faulty,
}

/// Hub, agents and controllers.
#[derive(Clone, Debug)]
pub struct World {
    now: DateTime<Utc>,
    hub: Hub,
    upgrades: Vec<Upgrade>,
    latency: Latency,
    rng: Rng,
    watch: Watch,
    log: Vec<String>,
    actions: usize,
}

impl World {
    /// A world of one upgrade, at second 0.
    #[must_use]
    pub fn new(policy: Policy, seed: u64) -> World {
        World {
            now: at(0),
            hub: Hub::default(),
            upgrades: vec![Upgrade::new("upgrade", policy)],
            latency: Latency::Ordered,
            rng: Rng::new(seed),
            watch: Watch::default(),
            log: Vec::new(),
            actions: 0,
        }
    }

    /// Sets how writes fare from now on.
    pub const fn set_latency(&mut self, latency: Latency) {
        self.latency = latency;
    }

    /// Adds a newer upgrade; its index.
    pub fn add_upgrade(&mut self, name: &str, policy: Policy) -> usize {
        self.upgrades.push(Upgrade::new(name, policy));
        self.upgrades.len() - 1
    }

    /// Adds a cluster, selected by every upgrade, whose agent succeeds at everything.
    pub fn add_cluster(&mut self, name: &str) {
        let name: Arc<str> = Arc::from(name);
        let spoke = Spoke {
            gone: false,
            standing: Standing::Eligible,
            version: Arc::from("4.11.0"),
            offline: false,
            works: [None, None, None, None],
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

    /// Selects a cluster.
    pub fn select(&mut self, upgrade: usize, name: &str) {
        self.upgrades[upgrade]
            .selection
            .insert(Arc::from(name), Selection::In);
    }

    /// A cluster leaves the selection.
    pub fn deselect(&mut self, upgrade: usize, name: &str) {
        let left = Selection::Left(self.now);
        self.upgrades[upgrade].selection.insert(Arc::from(name), left);
    }

    /// Clusters that are selected.
    #[must_use]
    pub fn selected(&self, upgrade: usize) -> Vec<Arc<str>> {
        let selection = &self.upgrades[upgrade].selection;
        selection
            .iter()
            .filter(|(_, selection)| **selection == Selection::In)
            .map(|(name, _)| Arc::clone(name))
            .collect()
    }

    /// Makes a cluster a canary.
    pub fn canary(&mut self, upgrade: usize, name: &str) {
        self.upgrades[upgrade].canaries.insert(Arc::from(name));
    }

    /// Changes the policy.
    pub fn edit(&mut self, upgrade: usize, change: impl FnOnce(&mut Policy)) {
        let upgrade = &mut self.upgrades[upgrade];
        change(&mut upgrade.policy);
        let refused = |slot: &Slot| matches!(slot, Slot::Refused { .. });
        upgrade.obstacles.retain(|_, slot| !refused(slot));
    }

    /// Replaces the policy.
    pub fn set_policy(&mut self, upgrade: usize, policy: Policy) {
        self.upgrades[upgrade].policy = policy;
    }

    /// Sets the retry annotation.
    pub fn retry(&mut self, upgrade: usize, token: &str) {
        self.upgrades[upgrade].retry = Some(Arc::from(token));
    }

    fn spoke(&mut self, name: &str, change: impl FnOnce(&mut Spoke, DateTime<Utc>)) {
        let now = self.now;
        if let Some(spoke) = self.hub.spokes.get_mut(name) {
            change(spoke, now);
        }
    }

    /// Gives the agent another script for a step; a work it has not done yet is taken anew.
    pub fn script(&mut self, name: &str, step: Step, script: Script) {
        self.spoke(name, |spoke, now| {
            spoke.scripts[step.index()] = script;
            if let Some(work) = &mut spoke.works[step.index()] {
                work.epoch = now;
                work.done = work.reading == Reading::Succeeded && work.unhealthy.is_none();
            }
        });
    }

    /// The agent goes silent or comes back; while it is silent the cluster is unavailable.
    pub fn offline(&mut self, name: &str, offline: bool) {
        self.spoke(name, |spoke, _| {
            spoke.offline = offline;
            if matches!(spoke.standing, Standing::Eligible | Standing::Unavailable { .. }) {
                spoke.standing = if offline {
                    Standing::Unavailable {
                        reason: crate::Reason::ClusterUnavailable,
                        message: Arc::from("the agent is silent"),
                    }
                } else {
                    Standing::Eligible
                };
            }
        });
    }

    /// Sets the version that a cluster reports.
    pub fn runs(&mut self, name: &str, version: &str) {
        self.spoke(name, |spoke, _| spoke.version = Arc::from(version));
    }

    /// Sets whether a cluster may start.
    pub fn standing(&mut self, name: &str, standing: Standing) {
        self.spoke(name, |spoke, _| spoke.standing = standing);
    }

    /// The ManagedCluster is deleted, its namespace with it.
    pub fn lose(&mut self, name: &str) {
        self.spoke(name, |spoke, _| spoke.gone = true);
    }

    /// Somebody deletes a work by hand.
    pub fn delete_work(&mut self, name: &str, step: Step) {
        self.spoke(name, |spoke, now| {
            if let Some(work) = &mut spoke.works[step.index()] {
                work.deleted.get_or_insert(now);
            }
        });
    }

    /// Somebody else's work appears under a step's name, if the name is free.
    pub fn add_foreign(&mut self, name: &str, step: Step) {
        self.spoke(name, |spoke, now| {
            spoke.works[step.index()].get_or_insert_with(|| HubWork {
                owner: Owner::Nobody,
                attempt: Attempt {
                    revision: Arc::from(""),
                    retry: Arc::from(""),
                },
                hash: Arc::from(""),
                started: now,
                soak_started: None,
                deleted: None,
                epoch: now,
                reading: Reading::NotYet,
                unhealthy: None,
                done: false,
                applied: true,
            });
        });
    }

    /// The hub begins, or ceases, to refuse new works of a step as invalid.
    pub fn refuse(&mut self, name: &str, step: Step, refuses: bool) {
        self.spoke(name, |spoke, _| {
            if refuses {
                spoke.refuses.insert(step);
            } else {
                spoke.refuses.remove(&step);
            }
        });
    }

    /// Somebody else's work is deleted.
    pub fn remove_foreign(&mut self, name: &str, step: Step) {
        self.spoke(name, |spoke, now| {
            if let Some(work) = &mut spoke.works[step.index()]
                && work.owner == Owner::Nobody
            {
                work.deleted = Some(now);
            }
        });
    }

    /// The controller of an upgrade dies and starts again: what it had not written is lost, each write that was under
    /// way has or has not been carried out.
    pub fn crash(&mut self, upgrade: usize) {
        self.say("controller restarts");
        let writes = std::mem::take(&mut self.upgrades[upgrade].writes);
        for write in writes {
            if self.rng.chance(50) {
                self.carry_out(upgrade, &write);
            }
        }
        self.upgrades[upgrade].forget(self.now);
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

    /// The latest plan.
    pub fn plan(&self, upgrade: usize) -> &Plan {
        &self.upgrades[upgrade].last
    }

    /// True when a work exists under the name of the step, whosever it is.
    #[must_use]
    pub fn has_work(&self, name: &str, step: Step) -> bool {
        let spoke = self.hub.spokes.get(name);
        spoke.is_some_and(|spoke| spoke.works[step.index()].is_some())
    }

    /// Writes asked for so far.
    #[must_use]
    pub const fn actions(&self) -> usize {
        self.actions
    }

    /// What went wrong: every rule seen broken.
    #[must_use]
    pub fn faults(&self) -> &[String] {
        &self.watch.faults
    }

    /// Times, actions and phases so far, one per line.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.join("\n")
    }

    /// The lines of the log that tell of actions of this kind (`create`, `update`, `delete`).
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
    }

    /// Lets the world run until the given second.
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

    /// Lets the world run until nothing moves; false when it still does at the given second.
    pub fn settle(&mut self, seconds: i64) -> bool {
        self.run_until(seconds);
        self.next().is_none()
    }

    fn next(&self) -> Option<DateTime<Utc>> {
        let upgrades = self.upgrades.iter().filter_map(Upgrade::next);
        upgrades.chain(self.hub.next(self.now)).min()
    }

    /// Everything that happens at this instant.
    fn tick(&mut self) {
        for _ in 0..ROUNDS {
            let mut moved = false;
            for (name, step, work) in self.hub.report(self.now) {
                if let Owner::Upgrade(index) = work.owner {
                    self.upgrades[index].note_gone(&name, step, work.observed());
                }
                moved = true;
            }
            for index in 0..self.upgrades.len() {
                moved |= self.land(index);
                moved |= self.upgrades[index].flush(self.now);
                moved |= self.think(index);
            }
            if !moved {
                return;
            }
        }
        self.watch.on_restless(self.now);
    }

    /// Plans once; true when the plan changed something.
    fn think(&mut self, index: usize) -> bool {
        let fleet = observe(&self.upgrades, index, &self.hub, self.now);
        let policy = self.upgrades[index].asked();
        let plan = plan(self.now, &policy, &fleet);
        self.watch.on_plan(index, self.now, &policy, &fleet, &plan);
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
        for action in &plan.actions {
            self.issue(index, action, &plan);
        }
        let urgent = match self.latency {
            Latency::Ordered => TimeDelta::zero(),
            Latency::Random | Latency::Faulty => TimeDelta::seconds(self.rng.below(2).cast_signed()),
        };
        let upgrade = &mut self.upgrades[index];
        let changed = upgrade.adopt(&plan, self.now, urgent) || !plan.actions.is_empty();
        upgrade.wake = plan.wake_at;
        upgrade.last = plan;
        changed
    }

    fn issue(&mut self, index: usize, action: &Action, plan: &Plan) {
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
        };
        let step = action.step();
        let hash = self.upgrades[index].policy.steps[step.index()].clone();
        let cluster = action.cluster();
        let starts = plan
            .clusters
            .iter()
            .any(|state| state.name == *cluster && state.starting);
        let what = match action {
            Action::Create { .. } => format!("create {step:?}"),
            Action::Update { kind, .. } => format!("update {step:?} ({kind:?})"),
            Action::MarkSoak { .. } => format!("mark soak on {step:?}"),
            Action::Delete { why, .. } => format!("delete {step:?} ({why:?})"),
        };
        self.say(&format!("{cluster}  {what}"));
        self.actions += 1;
        self.upgrades[index].writes.push(Write {
            cluster: Arc::clone(cluster),
            action: action.clone(),
            starts,
            hash: hash.unwrap_or_else(|| Arc::from("")),
            lands: self.now + TimeDelta::seconds(lands.cast_signed()),
            landing,
        });
    }

    /// Lands the writes that are due; true when any was.
    fn land(&mut self, index: usize) -> bool {
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.upgrades[index].writes)
            .into_iter()
            .partition(|write| write.lands <= now);
        self.upgrades[index].writes = later;
        for write in &due {
            if write.landing != Landing::Refused {
                self.carry_out(index, write);
            }
            let backoff = &mut self.upgrades[index].backoff;
            if write.landing == Landing::Done {
                backoff.remove(&write.cluster);
            } else {
                backoff.insert(Arc::clone(&write.cluster), now + WRITE_BACKOFF);
            }
        }
        !due.is_empty()
    }

    fn carry_out(&mut self, index: usize, write: &Write) {
        let now = self.now;
        let step = write.action.step();
        let Some(spoke) = self.hub.spokes.get_mut(&write.cluster) else {
            return;
        };
        if spoke.gone {
            return;
        }
        let obstacle = (Arc::clone(&write.cluster), step);
        let retry_at = now + OBSTACLE_BACKOFF;
        let refused = spoke.refuses.contains(&step);
        let slot = &mut spoke.works[step.index()];
        match (&write.action, slot) {
            // The API server validates before it looks for the name.
            (Action::Create { .. }, _) if refused => {
                let message = Arc::from("it is invalid");
                let refused = Slot::Refused { retry_at, message };
                self.upgrades[index].obstacles.insert(obstacle, refused);
            }
            (Action::Create { attempt, started, .. }, slot @ None) => {
                *slot = Some(HubWork {
                    owner: Owner::Upgrade(index),
                    attempt: attempt.clone(),
                    hash: Arc::clone(&write.hash),
                    started: *started,
                    soak_started: None,
                    deleted: None,
                    epoch: now,
                    reading: Reading::NotYet,
                    unhealthy: None,
                    done: false,
                    applied: false,
                });
                let key = (index, Arc::clone(&write.cluster), step, attempt.clone());
                let row = self.upgrades[index].rows.get(&write.cluster).cloned();
                self.watch
                    .on_create(now, key, *started, write.starts, row.as_deref());
                self.upgrades[index].obstacles.remove(&obstacle);
            }
            (Action::Create { .. }, Some(work)) => {
                if work.owner == Owner::Upgrade(index) {
                    self.watch.on_doubled(now, &write.cluster, step);
                } else if work.owner == Owner::Nobody {
                    let foreign = Slot::Foreign { retry_at };
                    self.upgrades[index].obstacles.insert(obstacle, foreign);
                }
            }
            (Action::Update { attempt, started, .. }, Some(work)) if work.deleted.is_none() => {
                if work.hash != write.hash {
                    work.epoch = now;
                    work.reading = Reading::NotYet;
                    work.done = false;
                }
                work.owner = Owner::Upgrade(index);
                work.attempt = attempt.clone();
                work.hash = Arc::clone(&write.hash);
                work.started = *started;
                work.soak_started = None;
            }
            (Action::MarkSoak { started, .. }, Some(work))
                if work.deleted.is_none() && work.owner == Owner::Upgrade(index) =>
            {
                work.soak_started = Some(*started);
            }
            (Action::Delete { .. }, Some(work)) if work.owner != Owner::Nobody => {
                work.deleted.get_or_insert(now);
            }
            _ => {}
        }
    }
}
