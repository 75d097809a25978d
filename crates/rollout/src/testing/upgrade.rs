//! One controller of a scenario: what it remembers, what it has written, and what it sees.

mod rows;
mod works;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use self::rows::SentRow;
use super::hub::{Hub, Owner, Spoke};
use super::monitor::busy;
use crate::model::{
    Attempt, Busy, Cluster, ClusterBackoff, Fleet, GivenApproval, LeftOut, Operation, OperationKind,
    PendingRetry, Phase, Plan, Policy, Record, RetryScope, Rival, RivalHold, Selection, Step, StepStatus,
    StepWork, Work, WorkerPools,
};

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
    /// The version that the upgrade asks for.
    pub(super) target: Arc<str>,
    pub(super) issued: DateTime<Utc>,
    pub(super) lands: DateTime<Utc>,
    pub(super) landing: Landing,
    /// When the work was created that is known under the name, if one is.
    pub(super) known: Option<DateTime<Utc>>,
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

/// What is in doubt at a cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubts {
    /// The step for which it is not known whether its work was created.
    pub(super) open: Option<Step>,
    /// Another step for which a creation may still be carried out.
    late: Option<Step>,
    also_late: [Option<Step>; 3],
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
    /// Rows that the hub has, and the controller has not heard that.
    unheard: BTreeMap<Arc<str>, Arc<Record>>,
    /// What the rows were before they were last written.
    earlier: BTreeMap<Arc<str>, Arc<Record>>,
    /// What the hub has instead of rows that somebody has changed, until they are written again. A restart finds it.
    changed: BTreeMap<Arc<str>, Option<Arc<Record>>>,
    /// What the rows that cannot be read were before.
    readable: BTreeMap<Arc<str>, Arc<Record>>,
    /// All following fields are in memory only.
    pub(super) drafts: BTreeMap<Arc<str>, Arc<Record>>,
    pub(super) due: BTreeMap<Arc<str>, DateTime<Utc>>,
    /// Rows that were sent and have no answer yet.
    sent: BTreeMap<Arc<str>, SentRow>,
    /// Clusters that may hold slots by rows that were sent since the hub was last known to have accepted one.
    slots_in_doubt: BTreeSet<Arc<str>>,
    pub(super) writes: Vec<Write>,
    pub(super) backoff: BTreeMap<Arc<str>, DateTime<Utc>>,
    pub(super) unsettled: BTreeMap<(Arc<str>, Step), Unsettled>,
    pub(super) read: BTreeMap<Arc<str>, (Step, DateTime<Utc>)>,
    /// Set while the watches are silent: the hub as the watches and later responses showed it.
    pub(super) deaf: Option<Hub>,
    /// When the silence ends, if it ends by itself.
    pub(super) hears_at: Option<DateTime<Utc>>,
    pub(super) blockers: BTreeMap<(Arc<str>, Step), StepWork>,
    pub(super) vanished: BTreeMap<(Arc<str>, Step), Work>,
    /// Works that were seen before their clusters were registered anew, and were not read since.
    pub(super) unconfirmed: BTreeMap<(Arc<str>, Step), Work>,
    pub(super) wake: Option<DateTime<Utc>>,
    /// How far the controller's clock is ahead of the hub's, and since when.
    pub(super) ahead: TimeDelta,
    pub(super) clock_set: DateTime<Utc>,
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
            unheard: BTreeMap::new(),
            earlier: BTreeMap::new(),
            changed: BTreeMap::new(),
            readable: BTreeMap::new(),
            drafts: BTreeMap::new(),
            due: BTreeMap::new(),
            sent: BTreeMap::new(),
            slots_in_doubt: BTreeSet::new(),
            writes: Vec::new(),
            backoff: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            read: BTreeMap::new(),
            deaf: None,
            hears_at: None,
            blockers: BTreeMap::new(),
            vanished: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
            wake: None,
            ahead: TimeDelta::zero(),
            clock_set: DateTime::UNIX_EPOCH,
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

    /// Approves the latest plan at one of its checkpoints, or at all.
    pub(super) fn approve(
        &mut self,
        only: Option<usize>,
        now: DateTime<Utc>,
        expires: Option<DateTime<Utc>>,
    ) {
        let Some(hash) = &self.last.hash else { return };
        let checkpoints = self.policy.checkpoints.iter().enumerate();
        for (_, checkpoint) in checkpoints.filter(|(number, _)| only.is_none_or(|only| only == *number)) {
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

    /// When something in memory is due next.
    pub(super) fn next(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let landings = self.writes.iter().map(|write| write.lands);
        let doubts = self.unsettled.values().map(Unsettled::over);
        let doubts = doubts.filter(|over| *over > now);
        landings
            .chain(self.next_row())
            .chain(self.dropped.values().map(|(_, at)| *at))
            .chain(self.wake)
            .chain(self.hears_at)
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

    /// What is in doubt at a cluster.
    pub(super) fn doubts(&self, index: usize, hub: &Hub, name: &str) -> Doubts {
        let doubts = || {
            self.unsettled
                .iter()
                .filter(|((cluster, _), _)| **cluster == *name)
        };
        let open = doubts().find(|((_, step), unsettled)| !unsettled.has_landed(index, hub, name, *step));
        let open = open.map(|((_, step), _)| *step);
        let mut late = doubts()
            .map(|((_, step), _)| *step)
            .filter(|step| Some(*step) != open);
        Doubts {
            open,
            late: late.next(),
            also_late: [late.next(), late.next(), late.next()],
        }
    }

    /// The attempt of a start that is on its way, or of which it is not known whether it was carried out.
    fn awaited_attempt(&self, name: &Arc<str>, doubts: Doubts) -> Option<Attempt> {
        let starting = self.writes.iter().find_map(|write| match &write.operation {
            Operation::Create { attempt, .. } | Operation::Update { attempt, .. }
                if write.cluster == *name && busy(&write.operation) == Busy::Starting =>
            {
                Some(attempt)
            }
            _ => None,
        });
        let in_doubt = || {
            let known = [doubts.open, doubts.late].into_iter();
            let mut starts = known
                .chain(doubts.also_late)
                .flatten()
                .filter(|step| *step != Step::PostAction);
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

    /// What is known of the worker pools of a cluster. That they are updated counts only while it waits for them.
    fn worker_pools(&self, name: &str, spoke: &Spoke) -> WorkerPools {
        let record = self.drafts.get(name);
        let waits = record.is_some_and(|record| record.phase == Phase::Workers);
        if spoke.worker_pools.known == WorkerPools::Updated && !waits {
            WorkerPools::NotAsked
        } else {
            spoke.worker_pools.known.clone()
        }
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
            let is_deleting = upgrade.policy.deleting;
            let hold = if is_deleting {
                // Nothing but its works is left of it.
                let is_forbidden = |spoke: &Spoke| spoke.forbids.contains(&OperationKind::Delete);
                match hub.spokes.get(name).filter(|_| upgrade.owns(other, hub, name)) {
                    Some(spoke) if is_forbidden(spoke) => RivalHold::Undeletable,
                    Some(_) => RivalHold::Active,
                    None => return None,
                }
            } else if upgrade.owns(other, hub, name) {
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
        .map(|(name, spoke, doubts)| Cluster {
            name: Arc::clone(name),
            selection: match upgrade.selection.get(name) {
                Some(Selection::In) => Selection::In,
                Some(Selection::Left(since)) => Selection::Left(*since + upgrade.ahead),
                None => Selection::Left(now + upgrade.ahead),
            },
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
            slot_in_doubt: upgrade.slots_in_doubt.contains(name) || upgrade.is_unreleased(name),
            busy: upgrade.busy(name),
            backoff: upgrade.backoff.get(name).map(|until| ClusterBackoff {
                until: *until + upgrade.ahead,
                error: Arc::from("the write failed"),
                lasting: spoke.forbids.contains(&OperationKind::Create),
                deletion_lasting: spoke.forbids.contains(&OperationKind::Delete),
            }),
            unsettled: doubts.open,
            late: doubts.late,
            also_late: doubts.also_late,
            awaited_attempt: upgrade.awaited_attempt(name, doubts),
            read: upgrade.read.get(name).copied(),
            version: Arc::clone(&spoke.version),
            newest_version: spoke.newest_version(),
            preflight: spoke.preflight.clone(),
            has_stale_image: spoke.stale_image,
            worker_pools: upgrade.worker_pools(name, spoke),
            pools_unheard: false,
        })
        .collect();
    Fleet {
        clusters,
        calendars,
        approvals: upgrade.approvals.as_slice().into(),
        // One that is back counts as itself.
        unreleased: upgrade
            .dropped
            .keys()
            .filter(|name| upgrade.is_unreleased(name) && !names.contains(*name))
            .count(),
    }
}
