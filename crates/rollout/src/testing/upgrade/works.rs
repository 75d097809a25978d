//! What a controller of a scenario knows of the works of its upgrade, also after a cluster was registered anew.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::Upgrade;
use crate::model::{Attempt, Step, StepWork, Work};
use crate::testing::hub::{Hub, HubWork, Owner, Spoke};

/// What is in the way, by a clock that is ahead.
fn later(blocker: &StepWork, ahead: TimeDelta) -> StepWork {
    let mut blocker = blocker.clone();
    if let StepWork::Foreign { retry_at }
    | StepWork::ForeignTerminating { retry_at }
    | StepWork::Refused { retry_at, .. } = &mut blocker
    {
        *retry_at += ahead;
    }
    blocker
}

impl Upgrade {
    /// What is known of the work of a step.
    pub(super) fn step_work(&self, index: usize, hub: &Hub, name: &Arc<str>, step: Step) -> StepWork {
        let spoke = hub.spokes.get(name);
        let work = spoke.and_then(|spoke| spoke.works[step.index()].as_ref());
        let key = (Arc::clone(name), step);
        if let Some(work) = self.unconfirmed.get(&key) {
            return if self.tells_of(name, work) {
                StepWork::Unconfirmed
            } else {
                StepWork::Former(Arc::new(work.clone()))
            };
        }
        match work {
            Some(work) if work.owner == Owner::Upgrade(index) => {
                let registered = spoke.map(|spoke| spoke.registered);
                self.own_work(name, step, work, registered.unwrap_or(work.created))
            }
            Some(work) if work.owner != Owner::Nobody => StepWork::Rival {
                terminating: work.deleted.is_some(),
            },
            _ => match (self.blockers.get(&key), self.vanished.get(&key)) {
                (Some(blocker), _) => later(blocker, self.ahead),
                (None, Some(work)) => StepWork::Ours(Arc::new(work.clone())),
                (None, None) => StepWork::Absent,
            },
        }
    }

    /// What a work is that belongs to the upgrade and need not be read.
    fn own_work(&self, name: &Arc<str>, step: Step, work: &HubWork, registered: DateTime<Utc>) -> StepWork {
        let seen = work.observed();
        let is_from_before = work.is_unchanged_since(registered) || work.is_sent_before(step, registered);
        let is_former = is_from_before && work.spoiled.is_none() && !self.tells_of(name, &seen);
        if is_former && !self.rows.contains_key(name) {
            return StepWork::Former(Arc::new(seen));
        }
        if let Some(what) = &work.spoiled {
            return StepWork::Unreadable {
                what: Arc::clone(what),
                terminating: seen.terminating,
            };
        }
        if !is_former && self.is_sent_before(name, step, work, registered) {
            let attempt = Attempt::default();
            return StepWork::Ours(Arc::new(Work { attempt, ..seen }));
        }
        StepWork::Ours(Arc::new(seen))
    }

    /// True when a work was sent for an earlier registration of its cluster, and the record does not have its start.
    pub(in crate::testing) fn is_sent_before(
        &self,
        name: &Arc<str>,
        step: Step,
        work: &HubWork,
        registered: DateTime<Utc>,
    ) -> bool {
        let stage = self.drafts.get(name).and_then(|row| row.stage(step.into()));
        let is_told = stage.is_some_and(|stage| stage.started == work.started);
        work.is_sent_before(step, registered) && !is_told
    }

    /// True when the record of a cluster is of the attempt of a work.
    fn tells_of(&self, name: &Arc<str>, work: &Work) -> bool {
        let record = self.drafts.get(name);
        record.is_some_and(|record| record.unreadable || record.attempt == work.attempt)
    }

    /// A cluster is registered anew: what is known of its works must be read before it counts.
    pub(in crate::testing) fn doubt(&mut self, index: usize, name: &Arc<str>, spoke: &Spoke) {
        self.vanished.retain(|(cluster, _), _| cluster != name);
        let works = spoke.works.iter().zip(Step::ALL);
        let own = works.filter_map(|(work, step)| Some((step, work.as_ref()?)));
        let is_read = |work: &HubWork| work.owner == Owner::Upgrade(index) && work.spoiled.is_none();
        for (step, work) in own.filter(|(_, work)| is_read(work)) {
            let key = (Arc::clone(name), step);
            self.unconfirmed.entry(key).or_insert_with(|| work.observed());
        }
    }

    /// True when the record of a cluster tells only of an earlier registration, and a work that was created since has begun one of its
    /// steps anew.
    pub(super) fn is_former_record(&self, index: usize, name: &Arc<str>, spoke: &Spoke) -> bool {
        let Some(record) = self.drafts.get(name).filter(|record| !record.unreadable) else {
            return false;
        };
        let mut stages = record.stages.iter().flatten();
        let is_before = record.since < spoke.registered
            && stages.all(|stage| stage.finished.unwrap_or(stage.started) < spoke.registered);
        let begins_anew = |step: Step| {
            let work = spoke.works[step.index()].as_ref();
            let work = work.filter(|work| work.owner == Owner::Upgrade(index));
            work.zip(record.stage(step.into())).is_some_and(|(work, stage)| {
                let is_since = !work.is_from_before(step, spoke.registered)
                    && !self.unconfirmed.contains_key(&(Arc::clone(name), step));
                is_since && work.attempt == record.attempt && stage.started < work.started
            })
        };
        is_before && Step::ALL.into_iter().any(begins_anew)
    }
}
