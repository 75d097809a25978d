//! The part of the fleet that a forecast plans for.
//!
//! Most clusters of a large fleet are either done or wait for a slot, and nothing can happen to them. Planning without them
//! gives the same starts at a small part of the cost:
//! - Limits in percent are turned into numbers first.
//! - A cluster that is complete, or that cannot start, leaves. A failed one lowers `maxFailures` by one when it leaves.
//! - Of the clusters that wait, the first by name are present, as many as slots can be free.
//! - A cluster whose step runs leaves until the step ends or its time is over. It lowers `maxConcurrency` by one until then.
//! - Canaries stay, because the gate for the others depends on them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use api::validate::Limit;
use chrono::{DateTime, TimeDelta, Utc};

use crate::forecast::Run;
use crate::forecast::agents::{self, Agents};
use crate::model::{
    Cluster, Eligibility, Fleet, Operation, Phase, Plan, Policy, Preflight, Record, Selection, Stage, Step,
    StepStatus, StepWork,
};

/// Blockers that only a human removes are not tried again within a forecast.
pub(super) const NEVER: TimeDelta = TimeDelta::days(36_500);

/// The clusters of a forecast.
pub(super) struct LiveFleet<'a> {
    /// The clusters to plan for, by name.
    pub(super) fleet: Fleet,
    agents: Agents<'a>,
    /// Clusters that can start and are not needed yet, by calendar and name.
    waiting: BTreeMap<(Option<usize>, Arc<str>), Cluster>,
    /// Clusters at work to which nothing happens before that time.
    at_work: BTreeMap<(DateTime<Utc>, Arc<str>), Cluster>,
    /// How many of them hold a slot.
    slots_at_work: usize,
    /// Clusters to which nothing happens any more.
    settled: Vec<Cluster>,
    settled_failures: usize,
    total: usize,
    max_failures: Option<Limit>,
    is_reduced: bool,
    /// When the step of a cluster ended for which the next plan is made.
    news: BTreeMap<Arc<str>, DateTime<Utc>>,
    /// When the slots were released for which the next plan is made.
    released: VecDeque<DateTime<Utc>>,
}

/// What a plan changed.
#[derive(Debug, Default)]
pub(super) struct PlanChanges {
    /// Something changed, so the next plan may differ.
    pub(super) any: bool,
    /// Clusters that changed their phase.
    pub(super) moved: Vec<(Arc<str>, DateTime<Utc>)>,
    /// Clusters that released a slot.
    pub(super) released: Vec<(Arc<str>, DateTime<Utc>)>,
    /// Clusters that took a slot.
    pub(super) started: Vec<(Arc<str>, DateTime<Utc>)>,
}

impl<'a> LiveFleet<'a> {
    pub(super) fn new(
        now: DateTime<Utc>,
        mut fleet: Fleet,
        run: &'a dyn Fn(&str, Step) -> Run,
    ) -> LiveFleet<'a> {
        let mut agents = Agents::new(run);
        for cluster in &mut fleet.clusters {
            (cluster.busy, cluster.backoff, cluster.read) = (None, None, None);
            (cluster.unsettled, cluster.late, cluster.awaited_attempt) = (None, None, None);
            cluster.also_late = [None; 3];
            cluster.has_stale_image = false;
            if cluster.preflight == Preflight::Stale {
                cluster.preflight = Preflight::Ready;
            }
            take_back_to_platform(cluster);
            for step in Step::ALL {
                let work = &mut cluster.works[step.index()];
                match work {
                    StepWork::Foreign { retry_at } | StepWork::Refused { retry_at, .. } => {
                        *retry_at = now + NEVER;
                    }
                    StepWork::ForeignTerminating { .. }
                    | StepWork::Rival { terminating: true }
                    | StepWork::Unconfirmed
                    | StepWork::Former(_) => {
                        *work = StepWork::Absent;
                    }
                    StepWork::Ours(ours) if ours.terminating => *work = StepWork::Absent,
                    StepWork::Ours(ours) => agents.adopt(now, &cluster.name, step, ours),
                    StepWork::Absent | StepWork::Rival { .. } | StepWork::Unreadable { .. } => {}
                }
            }
        }
        LiveFleet {
            fleet,
            agents,
            waiting: BTreeMap::new(),
            at_work: BTreeMap::new(),
            slots_at_work: 0,
            settled: Vec::new(),
            settled_failures: 0,
            total: 0,
            max_failures: None,
            is_reduced: false,
            news: BTreeMap::new(),
            released: VecDeque::new(),
        }
    }

    /// Number of clusters of the whole fleet.
    pub(super) const fn total(&self) -> usize {
        self.total
    }

    /// Failed clusters of the whole fleet, without canaries.
    pub(super) fn failures(&self) -> usize {
        let failed = |cluster: &&Cluster| !cluster.canary && phase(cluster).is_some_and(Phase::has_failed);
        self.settled_failures + self.fleet.clusters.iter().filter(failed).count()
    }

    /// The limit of failures of the whole fleet.
    pub(super) const fn max_failures(&self) -> Option<Limit> {
        self.max_failures
    }

    /// True when there are canaries and all of them are complete.
    pub(super) fn are_canaries_complete(&self, policy: &Policy) -> bool {
        let mut canaries = self
            .fleet
            .clusters
            .iter()
            .filter(|cluster| cluster.canary)
            .peekable();
        canaries.peek().is_some()
            && canaries.all(|cluster| {
                let record = cluster.record.as_deref();
                record.is_some_and(|record| {
                    record.phase == Phase::Complete && record.attempt.revision == policy.revision
                })
            })
    }

    /// When the next step ends, or the time of one is over.
    pub(super) fn next_event(&self) -> Option<DateTime<Utc>> {
        let due = self.at_work.first_key_value().map(|((due, _), _)| *due);
        due.into_iter().chain(self.agents.next()).min()
    }

    /// Slots that are held by clusters that are not planned for now.
    pub(super) const fn slots_at_work(&self) -> usize {
        self.slots_at_work
    }

    /// Turns limits in percent into numbers.
    pub(super) fn fix_limits(&mut self, policy: &mut Policy, total: usize) {
        let count = |limit: Limit| Limit::Count(u32::try_from(limit.of(total)).unwrap_or(u32::MAX));
        self.total = total;
        policy.max_concurrency = count(policy.max_concurrency);
        policy.max_failures = policy.max_failures.map(count);
        self.max_failures = policy.max_failures;
    }

    /// Lets every step end that ends until `now`.
    pub(super) fn report(&mut self, now: DateTime<Utc>, policy: &mut Policy) {
        self.news.clear();
        self.released.clear();
        self.call_back(now, policy);
        for (name, step, at, fails) in self.agents.ended(now) {
            if let Ok(index) = position(&self.fleet, &name) {
                agents::report(&mut self.fleet.clusters[index], step, fails, &policy.target);
                self.news.insert(name, at);
            }
        }
    }

    /// Takes the clusters in again to which something happens until `now`.
    fn call_back(&mut self, now: DateTime<Utc>, policy: &mut Policy) {
        let before = self.fleet.clusters.len();
        while let Some(entry) = self.at_work.first_entry().filter(|entry| entry.key().0 <= now) {
            let cluster = entry.remove();
            if phase(&cluster).is_some_and(Phase::holds_slot) {
                self.slots_at_work -= 1;
                raise(&mut policy.max_concurrency);
            }
            self.fleet.clusters.push(cluster);
        }
        if self.fleet.clusters.len() > before {
            self.fleet.clusters.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        }
    }

    /// Keeps the records of a plan and carries out its operations.
    pub(super) fn carry_out(&mut self, now: DateTime<Utc>, policy: &Policy, plan: &Plan) -> PlanChanges {
        let mut changes = PlanChanges::default();
        self.keep_records(now, plan, &mut changes);
        for operation in &plan.operations {
            let Ok(index) = position(&self.fleet, operation.cluster()) else {
                continue;
            };
            let cluster = &mut self.fleet.clusters[index];
            let takes_slot = operation.step() != Step::PostAction
                && matches!(operation, Operation::Create { .. } | Operation::Update { .. })
                && !phase(cluster).is_some_and(Phase::holds_slot);
            let at = if takes_slot {
                self.released.pop_front()
            } else {
                self.news.get(&cluster.name).copied()
            };
            let at = at.unwrap_or(now);
            if takes_slot {
                changes.started.push((Arc::clone(&cluster.name), at));
            }
            self.agents.carry_out(at, policy, cluster, operation);
            changes.any = true;
        }
        changes
    }

    fn keep_records(&mut self, now: DateTime<Utc>, plan: &Plan, changes: &mut PlanChanges) {
        let before = self.fleet.clusters.len();
        let mut states = plan.clusters.iter().peekable();
        let (news, released) = (&self.news, &mut self.released);
        self.fleet.clusters.retain_mut(|cluster| {
            let Some(state) = states.next_if(|state| state.name == cluster.name) else {
                return false;
            };
            let known = cluster.record.as_ref();
            if known.is_some_and(|known| Arc::ptr_eq(known, &state.record))
                && cluster
                    .written
                    .as_ref()
                    .is_some_and(|written| Arc::ptr_eq(written, &state.record))
            {
                return true;
            }
            changes.any = true;
            let at = news.get(&cluster.name).copied().unwrap_or(now);
            let (old, new) = (phase(cluster), state.record.phase);
            if old != Some(new) && (old.is_some() || new != Phase::Pending) {
                changes.moved.push((Arc::clone(&cluster.name), at));
            }
            if old.is_some_and(Phase::holds_slot) && !new.holds_slot() {
                released.push_back(at);
                changes.released.push((Arc::clone(&cluster.name), at));
            }
            cluster.record = Some(Arc::clone(&state.record));
            cluster.written = Some(Arc::clone(&state.record));
            true
        });
        changes.any |= self.fleet.clusters.len() != before;
        self.released.make_contiguous().sort_unstable();
    }

    /// Takes the clusters out to which nothing happens, or nothing yet.
    pub(super) fn reduce(&mut self, now: DateTime<Utc>, policy: &mut Policy) {
        let first = !self.is_reduced;
        self.is_reduced = true;
        let all = std::mem::take(&mut self.fleet.clusters);
        for cluster in all {
            match self.fate(&cluster, policy) {
                Fate::Settled => self.settled.push(cluster),
                Fate::AtWork(until) if until > now && self.leave(&cluster, policy) => {
                    self.at_work.insert((until, Arc::clone(&cluster.name)), cluster);
                }
                Fate::Failed if lower(&mut policy.max_failures) => {
                    self.settled_failures += 1;
                    self.settled.push(cluster);
                }
                // A cluster that was let in stays, because those that wait are let in by name.
                Fate::Waits if first => {
                    let key = (cluster.calendar, Arc::clone(&cluster.name));
                    self.waiting.insert(key, cluster);
                }
                Fate::Waits | Fate::Failed | Fate::Moves | Fate::AtWork(_) => {
                    self.fleet.clusters.push(cluster);
                }
            }
        }
    }

    /// Lets a cluster at work leave, with its slot if it holds one. The planner knows no limit of zero, so the last slot stays.
    fn leave(&mut self, cluster: &Cluster, policy: &mut Policy) -> bool {
        if !phase(cluster).is_some_and(Phase::holds_slot) {
            return true;
        }
        let Limit::Count(count) = &mut policy.max_concurrency else {
            return false;
        };
        let is_possible = *count > 1;
        if is_possible {
            *count -= 1;
            self.slots_at_work += 1;
        }
        is_possible
    }

    fn fate(&self, cluster: &Cluster, policy: &Policy) -> Fate {
        let Some(record) = cluster.record.as_deref() else {
            return Fate::Moves;
        };
        if cluster.canary || cluster.selection != Selection::In || record.unreadable {
            return Fate::Moves;
        }
        if let Some(until) = self.at_work_until(cluster, record, policy) {
            return Fate::AtWork(until);
        }
        if self.agents.is_running(&cluster.name) {
            return Fate::Moves;
        }
        let current = record.attempt.revision == policy.revision;
        let kept = |step: Step| cluster.step_work(step).is_kept();
        match record.phase {
            Phase::Complete if current && !kept(Step::Platform) && !kept(Step::Operators) => Fate::Settled,
            Phase::Failed | Phase::PreActionDegraded if current => Fate::Failed,
            Phase::Blocked | Phase::Skipped | Phase::Aborted => Fate::Settled,
            Phase::Pending => pending(cluster, record, policy),
            _ => Fate::Moves,
        }
    }

    /// Until when the step of a cluster, or its soak, only takes its time.
    fn at_work_until(&self, cluster: &Cluster, record: &Record, policy: &Policy) -> Option<DateTime<Utc>> {
        if record.attempt.revision != policy.revision || policy.retry.is_some() {
            return None;
        }
        let step = match record.phase {
            Phase::PreAction => Step::PreAction,
            Phase::Initialized | Phase::Partial => Step::Platform,
            Phase::Operators => Step::Operators,
            Phase::PostAction => Step::PostAction,
            Phase::Soaking => return Some(record.stage(Stage::Soak)?.started + policy.soak()?),
            _ => return None,
        };
        let work = cluster.step_work(step).ours()?;
        let only_runs = matches!(
            work.status,
            StepStatus::NotYet | StepStatus::OtherVersion | StepStatus::Running
        );
        let stage = record
            .stage(step.into())
            .filter(|stage| stage.outcome.is_none())?;
        let deadline = stage.started.min(work.started) + policy.timeout(step);
        let end = self.agents.end_of(&cluster.name);
        only_runs.then(|| end.map_or(deadline, |end| end.min(deadline)))
    }

    /// Lets as many waiting clusters in as slots can be free.
    pub(super) fn refill(&mut self, policy: &Policy) {
        if self.waiting.is_empty() {
            return;
        }
        let slots = policy.max_concurrency.of(self.total).max(1);
        let clusters = || self.fleet.clusters.iter();
        let held = clusters().filter(|cluster| {
            phase(cluster).is_some_and(Phase::holds_slot) && self.agents.is_running(&cluster.name)
        });
        let free = slots.saturating_sub(held.count());
        // A cluster in flight that is queued again may come after clusters that still wait. One that may not start after
        // all does not count: too many clusters are planned for then, which changes nothing.
        let queued = clusters().filter(|cluster| matches!(self.fate(cluster, policy), Fate::Waits));
        let mut queued: Vec<(Option<usize>, Arc<str>)> = queued
            .map(|cluster| (cluster.calendar, Arc::clone(&cluster.name)))
            .collect();
        queued.sort_unstable();
        // Those of one calendar may start while those of the others may not.
        let calendars = std::iter::once(None).chain((0..self.fleet.calendars.len()).map(Some));
        for calendar in calendars {
            let first = (calendar, Arc::from(""));
            let before = queued.partition_point(|key| *key < first);
            let mut let_in = 0;
            while let Some((key, _)) = self.waiting.range(first.clone()..).next() {
                let ahead = queued.partition_point(|known| known < key) - before;
                if key.0 != calendar || ahead + let_in >= free {
                    break;
                }
                let_in += 1;
                let key = key.clone();
                let cluster = self.waiting.remove(&key);
                if let (Some(cluster), Err(index)) = (cluster, position(&self.fleet, &key.1)) {
                    self.fleet.clusters.insert(index, cluster);
                }
            }
        }
    }

    /// Puts the whole fleet together again.
    pub(super) fn restore(&mut self, policy: &mut Policy) {
        self.fleet.clusters.append(&mut self.settled);
        let at_work = std::mem::take(&mut self.at_work).into_values();
        let waiting = std::mem::take(&mut self.waiting).into_values();
        for _ in 0..std::mem::take(&mut self.slots_at_work) {
            raise(&mut policy.max_concurrency);
        }
        self.fleet.clusters.extend(at_work.chain(waiting));
        self.fleet.clusters.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        self.settled_failures = 0;
        policy.max_failures = self.max_failures;
    }
}

/// What can become of a cluster.
enum Fate {
    /// It may change by itself, or others depend on it.
    Moves,
    /// It waits for a slot and for nothing else.
    Waits,
    /// Its step or its soak takes its time until then, and nothing else happens to it.
    AtWork(DateTime<Utc>),
    /// It failed for good.
    Failed,
    /// Nothing happens to it.
    Settled,
}

/// A cluster whose worker pools are waited for is still in its platform step, since the time that this takes includes them.
fn take_back_to_platform(cluster: &mut Cluster) {
    if phase(cluster) != Some(Phase::Workers) {
        return;
    }
    let records = [&mut cluster.record, &mut cluster.written];
    for record in records.into_iter().flatten() {
        if record.phase == Phase::Workers {
            Arc::make_mut(record).phase = Phase::Partial;
        }
    }
    if let StepWork::Ours(work) = &mut cluster.works[Step::Platform.index()] {
        Arc::make_mut(work).status = StepStatus::Running;
    }
}

fn pending(cluster: &Cluster, record: &Record, policy: &Policy) -> Fate {
    let has_no_work = cluster.works.iter().all(|work| *work == StepWork::Absent);
    if !has_no_work || cluster.rival.is_some() || record.refused_step.is_some() {
        return Fate::Moves;
    }
    // Nobody asks clusters in a forecast.
    let must_answer = policy.requires_preflight && policy.wants(Step::Platform);
    if must_answer && cluster.preflight != Preflight::Ready {
        return Fate::Settled;
    }
    match cluster.eligibility {
        Eligibility::Eligible => Fate::Waits,
        Eligibility::Unavailable { .. } => Fate::Settled,
        Eligibility::Blocked { .. } => Fate::Moves,
    }
}

fn phase(cluster: &Cluster) -> Option<Phase> {
    cluster.record.as_ref().map(|record| record.phase)
}

/// Lowers the limit by one. False when it is zero already.
fn lower(limit: &mut Option<Limit>) -> bool {
    match limit {
        None => true,
        Some(Limit::Count(count)) if *count > 0 => {
            *count -= 1;
            true
        }
        Some(_) => false,
    }
}

/// Raises the limit by one.
const fn raise(limit: &mut Limit) {
    if let Limit::Count(count) = limit {
        *count = count.saturating_add(1);
    }
}

/// The index of a cluster, or where it would be inserted.
fn position(fleet: &Fleet, name: &str) -> Result<usize, usize> {
    fleet
        .clusters
        .binary_search_by(|cluster| (*cluster.name).cmp(name))
}
