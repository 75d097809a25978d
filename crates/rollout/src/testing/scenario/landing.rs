//! How writes of a scenario are carried out on its hub, and what the controllers learn from them.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::{BLOCKER_BACKOFF, Latency, Scenario, WRITE_BACKOFF};
use crate::model::{Attempt, Operation, Record, Step, StepStatus, StepWork};
use crate::testing::hub::{HubWork, Owner, Spoke};
use crate::testing::script::Rng;
use crate::testing::upgrade::{Landing, Write};

/// True when a row tells that a step has ended since its cluster was registered.
fn tells_end_since(row: &Record, step: Step, registered: DateTime<Utc>) -> bool {
    let stage = row.stage(step.into());
    stage
        .and_then(|stage| stage.finished)
        .is_some_and(|finished| finished >= registered)
}

/// True when a write is for a work that has gone since. The hub carries out a creation only.
fn is_overtaken(write: &Write, spoke: &Spoke) -> bool {
    let work = spoke.works[write.operation.step().index()].as_ref();
    !matches!(write.operation, Operation::Create { .. }) && work.map(|work| work.created) != write.known
}

/// How long the answer to a row takes, and whether it is lost although the hub has the row.
pub(super) fn row_answer(latency: Latency, rng: &mut Rng) -> (TimeDelta, bool) {
    let (longest, lost) = match latency {
        Latency::Ordered | Latency::Random | Latency::Losing(_) => return (TimeDelta::zero(), false),
        Latency::Faulty => (3, 5),
        Latency::Stalling => (4, 20),
    };
    (
        TimeDelta::seconds(rng.below(longest).cast_signed()),
        rng.chance(lost),
    )
}

impl Scenario {
    /// Carries out the abandoned writes that are due.
    pub(super) fn land_late(&mut self) -> bool {
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.late)
            .into_iter()
            .partition(|(at, ..)| *at <= now);
        self.late = later;
        for (_, index, write) in &due {
            self.watch.something_happens();
            self.say(&format!(
                "{}  {:?} lands late",
                write.cluster,
                write.operation.step()
            ));
            self.carry_out(*index, write);
        }
        !due.is_empty()
    }

    /// Carries out the writes that are due. Returns true when there were any.
    pub(super) fn land(&mut self, index: usize) -> bool {
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.upgrades[index].writes)
            .into_iter()
            .partition(|write| write.lands <= now);
        self.upgrades[index].writes = later;
        for write in &due {
            match write.landing {
                Landing::Done | Landing::Lost => self.carry_out(index, write),
                Landing::Late(seconds) => {
                    let mut write = write.clone();
                    (write.repeats, write.late) = (true, true);
                    self.late.push((now + TimeDelta::seconds(seconds), index, write));
                }
                Landing::Refused => {}
            }
            self.answer(index, write);
        }
        !due.is_empty()
    }

    /// Reports to the controller how a write ended.
    fn answer(&mut self, index: usize, write: &Write) {
        let (now, cluster) = (self.now, &write.cluster);
        let step = write.operation.step();
        if write.landing == Landing::Done {
            self.learn(cluster, step);
        }
        let upgrade = &mut self.upgrades[index];
        let moves = matches!(
            write.operation,
            Operation::Create { .. } | Operation::Update { .. }
        );
        let reads = matches!(write.operation, Operation::Read { .. });
        upgrade.weigh(write, now);
        let answered = match write.landing {
            Landing::Refused => moves,
            Landing::Done => moves || reads,
            Landing::Lost | Landing::Late(_) => false,
        };
        if answered {
            upgrade.settle(index, &self.hub, now, Some((&**cluster, step)));
        }
        if reads && write.landing == Landing::Done && write.issued >= upgrade.clock_set {
            let read = (step, write.issued + upgrade.ahead);
            upgrade.read.insert(Arc::clone(cluster), read);
        }
        let tells = !matches!(write.operation, Operation::Create { .. });
        if tells && write.landing == Landing::Done {
            upgrade.unconfirmed.remove(&(Arc::clone(cluster), step));
        }
        let doubts = upgrade.doubts(index, &self.hub, cluster);
        if write.landing == Landing::Done && doubts.open.is_none() {
            upgrade.backoff.remove(cluster);
        } else {
            upgrade.backoff.insert(Arc::clone(cluster), now + WRITE_BACKOFF);
        }
    }

    /// Shows the watch a creation that was carried out. One that was sent for an earlier registration of the cluster does not tell the
    /// clock of its step: the record may have that of a later try, whose work went with that registration.
    fn watch_creation(
        &mut self,
        index: usize,
        write: &Write,
        (attempt, started): (&Attempt, DateTime<Utc>),
        registered: DateTime<Utc>,
    ) {
        if write.issued < registered {
            return;
        }
        let step = write.operation.step();
        let key = (index, Arc::clone(&write.cluster), step, attempt.clone());
        let row = self.upgrades[index].rows.get(&write.cluster);
        let row = row.filter(|row| tells_end_since(row, step, registered)).cloned();
        self.watch
            .on_create(self.now, key, started, write.starts, row.as_deref(), write.late);
    }

    pub(super) fn carry_out(&mut self, index: usize, write: &Write) {
        let now = self.now;
        let step = write.operation.step();
        let spoke = self.hub.spokes.get_mut(&write.cluster);
        let Some(spoke) = spoke.filter(|spoke| !spoke.gone && !is_overtaken(write, spoke)) else {
            return;
        };
        let blocker = (Arc::clone(&write.cluster), step);
        let retry_at = now + BLOCKER_BACKOFF;
        let refused = spoke.refuses.contains(&step);
        let slot = &mut spoke.works[step.index()];
        match (&write.operation, slot) {
            // The API server validates the object before it looks for the name.
            (Operation::Create { .. }, _) if refused => {
                let message = Arc::from("it is invalid");
                let refused = StepWork::Refused { retry_at, message };
                self.upgrades[index].blockers.insert(blocker, refused);
            }
            (Operation::Create { attempt, started, .. }, slot @ None) => {
                *slot = Some(HubWork {
                    owner: Owner::Upgrade(index),
                    created: now,
                    sent: write.issued,
                    attempt: attempt.clone(),
                    hash: Arc::clone(&write.hash),
                    target: Arc::clone(&write.target),
                    started: *started,
                    soak_started: None,
                    withdrawn: None,
                    unasked: false,
                    deleted: None,
                    spoiled: None,
                    epoch: now,
                    status: StepStatus::NotYet,
                    unhealthy: None,
                    done: false,
                    applied: false,
                });
                let registered = spoke.registered;
                self.watch_creation(index, write, (attempt, *started), registered);
                self.upgrades[index].blockers.remove(&blocker);
            }
            (Operation::Create { .. }, Some(work)) => {
                // A write that is carried out late may take the name of a creation that is in progress.
                let expected =
                    write.repeats || matches!(self.latency, Latency::Stalling | Latency::Losing(_));
                if work.owner == Owner::Upgrade(index) && expected {
                    self.upgrades[index].blockers.remove(&blocker);
                } else if work.owner == Owner::Upgrade(index) {
                    self.watch.on_doubled(now, &write.cluster, step);
                } else if work.owner == Owner::Nobody {
                    let foreign = match work.deleted {
                        Some(_) => StepWork::ForeignTerminating { retry_at },
                        None => StepWork::Foreign { retry_at },
                    };
                    self.upgrades[index].blockers.insert(blocker, foreign);
                }
            }
            (Operation::Update { attempt, started, .. }, Some(work)) if work.deleted.is_none() => {
                work.owner = Owner::Upgrade(index);
                work.attempt = attempt.clone();
                (work.started, work.sent) = (*started, write.issued);
                work.target = Arc::clone(&write.target);
                work.ask_again(now, &write.hash);
            }
            (noted, Some(work)) if work.deleted.is_none() && work.owner == Owner::Upgrade(index) => {
                match noted {
                    Operation::MarkSoak { started, .. } => work.soak_started = Some(*started),
                    Operation::Withdraw { .. } => work.withdrawn = Some(now),
                    Operation::Delete { .. } => work.deleted = Some(now),
                    _ => {}
                }
            }
            (Operation::Delete { .. }, Some(work)) if work.owner != Owner::Nobody => {
                work.deleted.get_or_insert(now);
            }
            _ => {}
        }
    }
}
