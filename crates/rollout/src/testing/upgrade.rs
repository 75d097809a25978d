//! One controller of a scenario: what it remembers, what it has written, and what it sees.

mod works;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::hub::{Hub, Owner};
use super::monitor::busy;
use crate::model::{
    Attempt, Busy, Cluster, ClusterBackoff, Fleet, GivenApproval, LeftOut, Operation, OperationKind,
    PendingRetry, Phase, Plan, Policy, Record, RetryScope, Rival, RivalHold, Selection, Step, StepStatus,
    StepWork, Work,
};

/// How long changes that are not urgent are collected before they are written.
const COALESCE: TimeDelta = TimeDelta::seconds(2);

/// This long after it was abandoned, a write is certainly not carried out any more.
const SETTLED: TimeDelta = TimeDelta::seconds(90);

/// How a write ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Landing {
    Done,
    /// Carried out, but the response is lost.
    Lost,
    /// The response is lost, and the write is carried out this many seconds later.
    Late(i64),
    /// Not carried out.
    Refused,
}

#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) cluster: Arc<str>,
    pub(super) operation: Operation,
    pub(super) starts: bool,
    pub(super) hash: Arc<str>,
    pub(super) issued: DateTime<Utc>,
    pub(super) lands: DateTime<Utc>,
    pub(super) landing: Landing,
    /// True when an earlier write of the same kind may have been carried out or may still be.
    pub(super) repeats: bool,
    /// True when the write is carried out after it was abandoned.
    pub(super) late: bool,
}

/// Abandoned writes of a step's work. Each may have been carried out, and may still be.
#[derive(Clone, Debug)]
pub(super) struct Unsettled {
    /// The attempt that was tried last.
    attempt: Attempt,
    /// The attempt of the last creation that was abandoned.
    created: Option<Attempt>,
    /// When the last one was abandoned.
    last: DateTime<Utc>,
}

impl Unsettled {
    fn over(&self) -> DateTime<Utc> {
        self.last + SETTLED
    }

    /// True when the work that was tried last exists. Another one cannot be created beside it.
    fn has_landed(&self, index: usize, hub: &Hub, name: &str, step: Step) -> bool {
        let spoke = hub.spokes.get(name);
        let work = spoke.and_then(|spoke| spoke.works[step.index()].as_ref());
        work.is_some_and(|work| work.owner == Owner::Upgrade(index) && work.attempt == self.attempt)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Upgrade {
    pub(super) name: Arc<str>,
    pub(super) policy: Policy,
    pub(super) retry: Option<Arc<str>>,
    pub(super) observed_retry: Option<Arc<str>>,
    /// The retries of the spec, in its order.
    pub(super) retries: Vec<(Arc<str>, RetryScope)>,
    /// Those of them that were carried out, by the status.
    pub(super) carried_out: BTreeSet<Arc<str>>,
    pub(super) selection: BTreeMap<Arc<str>, Selection>,
    pub(super) canaries: BTreeSet<Arc<str>>,
    pub(super) left_out: BTreeMap<Arc<str>, LeftOut>,
    /// Its approvals.
    pub(super) approvals: Vec<GivenApproval>,
    /// The rows of the report, which survive a restart.
    pub(super) rows: BTreeMap<Arc<str>, Arc<Record>>,
    /// Rows of dropped clusters, and when they are to be removed. Until then they survive a restart, too.
    pub(super) dropped: BTreeMap<Arc<str>, (Arc<Record>, DateTime<Utc>)>,
    /// All following fields are in memory only.
    pub(super) drafts: BTreeMap<Arc<str>, Arc<Record>>,
    pub(super) due: BTreeMap<Arc<str>, DateTime<Utc>>,
    pub(super) writes: Vec<Write>,
    pub(super) backoff: BTreeMap<Arc<str>, DateTime<Utc>>,
    pub(super) unsettled: BTreeMap<(Arc<str>, Step), Unsettled>,
    pub(super) read: BTreeMap<Arc<str>, (Step, DateTime<Utc>)>,
    /// Set while the watches are silent: the hub as the watches and later responses showed it.
    pub(super) deaf: Option<Hub>,
    pub(super) blockers: BTreeMap<(Arc<str>, Step), StepWork>,
    pub(super) vanished: BTreeMap<(Arc<str>, Step), Work>,
    /// Works that were seen before their clusters were registered anew, and were not read since.
    pub(super) unconfirmed: BTreeMap<(Arc<str>, Step), Work>,
    pub(super) wake: Option<DateTime<Utc>>,
    pub(super) last: Plan,
    /// The retry that is carried out by the latest plan. The status does not say so yet.
    pub(super) done: Option<PendingRetry>,
}

impl Upgrade {
    pub(super) fn new(name: &str, policy: Policy) -> Upgrade {
        Upgrade {
            name: Arc::from(name),
            policy,
            retry: None,
            observed_retry: None,
            retries: Vec::new(),
            carried_out: BTreeSet::new(),
            selection: BTreeMap::new(),
            canaries: BTreeSet::new(),
            left_out: BTreeMap::new(),
            approvals: Vec::new(),
            rows: BTreeMap::new(),
            dropped: BTreeMap::new(),
            drafts: BTreeMap::new(),
            due: BTreeMap::new(),
            writes: Vec::new(),
            backoff: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            read: BTreeMap::new(),
            deaf: None,
            blockers: BTreeMap::new(),
            vanished: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
            wake: None,
            last: Plan::default(),
            done: None,
        }
    }

    pub(super) fn asked(&self) -> Policy {
        let mut policy = self.policy.clone();
        policy.retry = self
            .retry
            .clone()
            .filter(|token| Some(token) != self.observed_retry.as_ref())
            .map(|token| PendingRetry::all(&token))
            .or_else(|| self.retry_of_spec());
        policy
    }

    /// The first retry of the spec that was not carried out.
    fn retry_of_spec(&self) -> Option<PendingRetry> {
        let mut open = self
            .retries
            .iter()
            .filter(|(token, _)| !self.carried_out.contains(token));
        let (token, scope) = open.next()?;
        let later = open.map(|(token, _)| Arc::clone(token)).collect();
        Some(PendingRetry {
            token: Arc::clone(token),
            scope: Some(RetryScope {
                later,
                ..scope.clone()
            }),
        })
    }

    /// Notes in the status that a retry was carried out.
    fn note_retry(&mut self, retry: PendingRetry) {
        if retry.scope.is_some() {
            self.carried_out.insert(retry.token);
        } else {
            self.observed_retry = Some(retry.token);
        }
    }

    /// Approves the latest plan at all its checkpoints.
    pub(super) fn approve(&mut self, now: DateTime<Utc>, expires: Option<DateTime<Utc>>) {
        let Some(hash) = &self.last.hash else { return };
        for checkpoint in &self.policy.checkpoints {
            self.approvals.push(GivenApproval {
                checkpoint: Arc::clone(&checkpoint.name),
                plan_hash: Arc::clone(hash.as_str()),
                approver: Arc::from("anna"),
                message: Arc::from(""),
                given: Some(now),
                expires,
            });
        }
    }

    /// Loses everything that is only in memory.
    pub(super) fn forget(&mut self, now: DateTime<Utc>) {
        for (name, (record, _)) in std::mem::take(&mut self.dropped) {
            self.rows.insert(name, record);
        }
        self.drafts = self.rows.clone();
        self.due.clear();
        self.writes.clear();
        self.backoff.clear();
        self.unsettled.clear();
        self.read.clear();
        self.blockers.clear();
        self.vanished.clear();
        self.unconfirmed.clear();
        self.done = None;
        for selection in self.selection.values_mut() {
            if matches!(selection, Selection::Left(_)) {
                *selection = Selection::Left(now);
            }
        }
    }

    /// Keeps the plan's records until they are due to be written; `urgent` is how long an urgent one takes.
    pub(super) fn adopt(&mut self, plan: &Plan, now: DateTime<Utc>, urgent: TimeDelta) -> bool {
        let mut changed = false;
        for state in &plan.clusters {
            if let Some((record, _)) = self.dropped.remove(&state.name) {
                self.rows.insert(Arc::clone(&state.name), record);
            }
            if self.drafts.get(&state.name) != Some(&state.record) {
                changed = true;
                self.drafts
                    .insert(Arc::clone(&state.name), Arc::clone(&state.record));
            }
            if self.rows.get(&state.name) == Some(&state.record) {
                self.due.remove(&state.name);
                continue;
            }
            let at = now + if state.urgent { urgent } else { COALESCE };
            let due = self.due.entry(Arc::clone(&state.name)).or_insert(at);
            *due = at.min(*due);
        }
        for name in &plan.dropped {
            changed = true;
            self.vanished.retain(|(cluster, _), _| cluster != name);
            let draft = self.drafts.remove(name);
            self.due.remove(name);
            if let Some(record) = self.rows.remove(name) {
                let record = draft.filter(|draft| draft.phase.holds_slot()).unwrap_or(record);
                let wait = if record.phase.holds_slot() {
                    urgent
                } else {
                    COALESCE
                };
                self.dropped.insert(Arc::clone(name), (record, now + wait));
            }
        }
        changed
    }

    /// Writes the rows that are due. Returns true when there were any.
    pub(super) fn flush(&mut self, now: DateTime<Utc>) -> bool {
        let due: Vec<_> = self
            .due
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(name, _)| Arc::clone(name))
            .collect();
        for name in &due {
            self.due.remove(name);
            if let Some(draft) = self.drafts.get(name) {
                self.rows.insert(Arc::clone(name), Arc::clone(draft));
            }
        }
        let before = self.dropped.len();
        self.dropped.retain(|_, (_, at)| *at > now);
        let rows = &self.rows;
        self.vanished
            .retain(|(name, step), work| is_untold(rows.get(name), *step, work));
        let done = self.done.take();
        let retried = done.is_some();
        if let Some(retry) = done {
            self.note_retry(retry);
        }
        !due.is_empty() || self.dropped.len() < before || retried
    }

    /// When something in memory is due next.
    pub(super) fn next(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let landings = self.writes.iter().map(|write| write.lands);
        let doubts = self.unsettled.values().map(Unsettled::over);
        let doubts = doubts.filter(|over| *over > now);
        landings
            .chain(self.due.values().copied())
            .chain(self.dropped.values().map(|(_, at)| *at))
            .chain(self.wake)
            .chain(doubts)
            .min()
    }

    /// Notes that a work is gone. Its success is remembered until it is written.
    pub(super) fn note_gone(&mut self, cluster: &Arc<str>, step: Step, work: Work, proves_nothing: bool) {
        self.unconfirmed.remove(&(Arc::clone(cluster), step));
        let row = self.rows.get(cluster);
        if !proves_nothing && work.status == StepStatus::Succeeded && is_untold(row, step, &work) {
            let work = Work {
                vanished: true,
                ..work
            };
            self.vanished.insert((Arc::clone(cluster), step), work);
        }
    }

    /// Notes whether a creation or change was carried out, as far as its response, or the loss of the response, shows
    /// that.
    pub(super) fn weigh(&mut self, write: &Write, now: DateTime<Utc>) {
        let (Operation::Create { attempt, .. } | Operation::Update { attempt, .. }) = &write.operation else {
            return;
        };
        let key = (Arc::clone(&write.cluster), write.operation.step());
        let attempt = attempt.clone();
        match write.landing {
            Landing::Lost | Landing::Late(_) => {
                let created = match write.operation.kind() {
                    OperationKind::Create => Some(attempt.clone()),
                    _ => self.unsettled.get(&key).and_then(|before| before.created.clone()),
                };
                let unsettled = Unsettled {
                    attempt,
                    created,
                    last: now,
                };
                self.unsettled.insert(key, unsettled);
            }
            Landing::Done => {
                if let Some(unsettled) = self.unsettled.get_mut(&key) {
                    unsettled.attempt = attempt;
                }
            }
            Landing::Refused => {}
        }
    }

    /// Settles abandoned writes by a reading of the hub. `asked` is true when the hub rejected another try of this
    /// step, or when the work was read.
    pub(super) fn settle(
        &mut self,
        index: usize,
        hub: &Hub,
        now: DateTime<Utc>,
        asked: Option<(&str, Step)>,
    ) {
        self.unsettled.retain(|(name, step), unsettled| {
            let known = asked == Some((&**name, *step)) || unsettled.has_landed(index, hub, name, *step);
            !known || now < unsettled.over()
        });
    }

    /// The step for which it is not known whether its work was created, and another step for which a creation may
    /// still be carried out.
    pub(super) fn doubts(&self, index: usize, hub: &Hub, name: &str) -> (Option<Step>, Option<Step>) {
        let doubts = || {
            self.unsettled
                .iter()
                .filter(|((cluster, _), _)| **cluster == *name)
        };
        let open = doubts().find(|((_, step), unsettled)| !unsettled.has_landed(index, hub, name, *step));
        let open = open.map(|((_, step), _)| *step);
        let late = doubts()
            .map(|((_, step), _)| *step)
            .find(|step| Some(*step) != open);
        (open, late)
    }

    /// The attempt of a start that is on its way, or of which it is not known whether it was carried out.
    fn awaited_attempt(&self, name: &Arc<str>, doubts: (Option<Step>, Option<Step>)) -> Option<Attempt> {
        let starting = self.writes.iter().find_map(|write| match &write.operation {
            Operation::Create { attempt, .. } | Operation::Update { attempt, .. }
                if write.cluster == *name && busy(&write.operation) == Busy::Starting =>
            {
                Some(attempt)
            }
            _ => None,
        });
        let in_doubt = || {
            let doubts = [doubts.0, doubts.1].into_iter().flatten();
            let mut starts = doubts.filter(|step| *step != Step::PostAction);
            starts.find_map(|step| self.unsettled.get(&(Arc::clone(name), step))?.created.as_ref())
        };
        in_doubt().or(starting).cloned()
    }

    pub(super) fn busy(&self, name: &Arc<str>) -> Option<Busy> {
        let mut writes = self.writes.iter().filter(|write| write.cluster == *name);
        let first = writes.next().map(|write| busy(&write.operation))?;
        Some(writes.fold(first, |so_far, write| {
            if so_far == Busy::Starting {
                so_far
            } else {
                busy(&write.operation)
            }
        }))
    }

    /// True when the row has the phase of the record in the same run. Until then the next leader would go on.
    fn has_told(&self, name: &str) -> bool {
        let told = self.rows.get(name).zip(self.drafts.get(name));
        told.is_some_and(|(row, draft)| row.phase == draft.phase && row.is_same_run(draft))
    }

    /// True when the upgrade is at work on the cluster by its record, or by a row that the hub has.
    fn may_be_at_work(&self, name: &str) -> bool {
        let dropped = self.dropped.get(name).map(|(row, _)| row);
        let mut records = [self.drafts.get(name), self.rows.get(name), dropped]
            .into_iter()
            .flatten();
        records.any(|record| record.may_be_at_work())
    }

    /// True when the upgrade has works in the cluster or is creating one.
    fn owns(&self, index: usize, hub: &Hub, name: &Arc<str>) -> bool {
        let works = hub.spokes.get(name).map(|spoke| &spoke.works);
        self.busy(name) == Some(Busy::Starting)
            || self.unsettled.keys().any(|(cluster, _)| cluster == name)
            || works.is_some_and(|works| {
                works
                    .iter()
                    .flatten()
                    .any(|work| work.owner == Owner::Upgrade(index))
            })
    }
}

/// True when the record does not show yet how the step of this work ended.
fn is_untold(row: Option<&Arc<Record>>, step: Step, work: &Work) -> bool {
    row.is_none_or(|row| match row.stage(step.into()) {
        Some(stage) if stage.started == work.started => stage.outcome.is_none(),
        Some(_) => false,
        None => row.attempt == work.attempt,
    })
}

/// How another upgrade holds a cluster, as upgrade `index` sees it.
fn rival(upgrades: &[Upgrade], index: usize, hub: &Hub, name: &Arc<str>) -> Option<Rival> {
    let mine = upgrades[index].owns(index, hub, name);
    upgrades
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != index)
        .find_map(|(other, upgrade)| {
            let phase = upgrade.drafts.get(name).map(|record| record.phase);
            let hold = if upgrade.owns(other, hub, name) {
                match phase {
                    Some(Phase::Failed | Phase::Complete) if other < index && upgrade.has_told(name) => {
                        RivalHold::Yielding
                    }
                    Some(Phase::Failed | Phase::PreActionDegraded) => RivalHold::Stuck,
                    _ => RivalHold::Active,
                }
            } else if upgrade.may_be_at_work(name) {
                RivalHold::Active
            } else {
                let waits = upgrade.selection.get(name) == Some(&Selection::In)
                    && !phase.is_some_and(Phase::is_terminal);
                if mine || other > index || !waits {
                    return None;
                }
                RivalHold::Active
            };
            Some(Rival {
                upgrade: Arc::clone(&upgrade.name),
                hold,
            })
        })
}

/// The fleet as upgrade `index` sees it.
pub(super) fn observe(upgrades: &[Upgrade], index: usize, hub: &Hub, now: DateTime<Utc>) -> Fleet {
    let upgrade = &upgrades[index];
    let hub = upgrade.deaf.as_ref().unwrap_or(hub);
    let mut names: BTreeSet<Arc<str>> = upgrade.rows.keys().cloned().collect();
    names.extend(upgrade.drafts.keys().cloned());
    names.extend(upgrade.writes.iter().map(|write| Arc::clone(&write.cluster)));
    names.extend(upgrade.unsettled.keys().map(|(name, _)| Arc::clone(name)));
    let is_selected = |name: &&Arc<str>| upgrade.selection.get(*name) == Some(&Selection::In);
    names.extend(hub.spokes.keys().filter(is_selected).cloned());
    let mut calendars = Vec::new();
    let clusters = names
        .iter()
        .filter_map(|name| Some((name, hub.spokes.get(name)?)))
        .map(|(name, spoke)| (name, spoke, upgrade.doubts(index, hub, name)))
        .map(|(name, spoke, (unsettled, late))| Cluster {
            name: Arc::clone(name),
            selection: upgrade
                .selection
                .get(name)
                .copied()
                .unwrap_or(Selection::Left(now)),
            canary: upgrade.canaries.contains(name),
            gone: spoke.gone,
            left_out: upgrade.left_out.get(name).cloned(),
            eligibility: spoke.eligibility.clone(),
            calendar: spoke.calendar.clone().map(|calendar| {
                calendars.push(calendar);
                calendars.len() - 1
            }),
            rival: rival(upgrades, index, hub, name),
            works: Step::ALL.map(|step| upgrade.step_work(index, hub, name, step)),
            record: upgrade
                .drafts
                .get(name)
                .filter(|_| !upgrade.is_former_record(index, name, spoke))
                .cloned(),
            written: upgrade.rows.get(name).cloned(),
            slot_in_doubt: false,
            busy: upgrade.busy(name),
            backoff: upgrade.backoff.get(name).map(|until| ClusterBackoff {
                until: *until,
                error: Arc::from("the write failed"),
                lasting: spoke.forbids.contains(&OperationKind::Create),
                deletion_lasting: spoke.forbids.contains(&OperationKind::Delete),
            }),
            unsettled,
            late,
            also_late: [None; 3],
            awaited_attempt: upgrade.awaited_attempt(name, (unsettled, late)),
            read: upgrade.read.get(name).copied(),
            version: Arc::clone(&spoke.version),
            newest_version: Arc::clone(&spoke.version),
            preflight: spoke.preflight.clone(),
            has_stale_image: spoke.stale_image,
            worker_pools: spoke.worker_pools.clone(),
        })
        .collect();
    Fleet {
        clusters,
        calendars,
        approvals: upgrade.approvals.as_slice().into(),
        unreleased: upgrade
            .dropped
            .values()
            .filter(|(record, _)| record.phase.holds_slot())
            .count(),
    }
}
