//! The hub of a scenario: clusters, the works in their namespaces, and agents that follow scripts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::script::Script;
use crate::maintenance::Calendar;
use crate::model::{
    Attempt, Eligibility, OperationKind, Preflight, Step, StepStatus, Withdrawal, Work, WorkerPools,
};
use crate::planner::{is_newer, is_version};

/// How long an agent takes to clean up a deleted work.
const FINALIZE: TimeDelta = TimeDelta::seconds(1);

/// What clusters run at first.
pub(super) const FIRST_VERSION: &str = "4.11.0";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Belongs to the upgrade of this index; a lower index is older.
    Upgrade(usize),
    Nobody,
}

#[derive(Clone, Debug)]
pub(super) struct HubWork {
    pub(super) owner: Owner,
    pub(super) created: DateTime<Utc>,
    /// When its creation was sent, or the last change of what it asks for.
    pub(super) sent: DateTime<Utc>,
    pub(super) attempt: Attempt,
    pub(super) hash: Arc<str>,
    /// The version that it asks for; empty if it belongs to no upgrade.
    pub(super) target: Arc<str>,
    pub(super) started: DateTime<Utc>,
    pub(super) soak_started: Option<DateTime<Utc>>,
    /// When the request of the update was taken out of the work.
    pub(super) withdrawn: Option<DateTime<Utc>>,
    /// True when the cluster has found that out before it began the update.
    pub(super) unasked: bool,
    pub(super) deleted: Option<DateTime<Utc>>,
    /// What is wrong with its annotations, if somebody has edited them.
    pub(super) spoiled: Option<Arc<str>>,
    /// When the agent began to follow its present script.
    pub(super) epoch: DateTime<Utc>,
    pub(super) status: StepStatus,
    pub(super) unhealthy: Option<Arc<str>>,
    pub(super) applied: bool,
    /// True when the step succeeded under an earlier script. It stays so.
    pub(super) done: bool,
}

impl HubWork {
    /// The work asks for what this hash stands for, whatever it asked for before.
    pub(super) fn ask_again(&mut self, now: DateTime<Utc>, hash: &Arc<str>) {
        if self.hash != *hash {
            self.epoch = now;
            self.status = StepStatus::NotYet;
            self.done = false;
        }
        self.hash = Arc::clone(hash);
        self.soak_started = None;
        (self.withdrawn, self.unasked) = (None, false);
    }

    /// True when the work is older than the registration of its cluster, and was not changed for it since.
    pub(super) fn is_unchanged_since(&self, registered: DateTime<Utc>) -> bool {
        self.created < registered && self.sent < registered
    }

    /// True when the work is older than the registration of its cluster, or was sent before that for a step after the update.
    pub(super) fn is_from_before(&self, step: Step, registered: DateTime<Utc>) -> bool {
        self.created < registered || self.is_sent_before(step, registered)
    }

    /// True when the work is of a step after the update and was sent for an earlier registration of its cluster.
    pub(super) fn is_sent_before(&self, step: Step, registered: DateTime<Utc>) -> bool {
        step > Step::Platform && self.sent < registered
    }

    pub(super) fn observed(&self) -> Work {
        Work {
            attempt: self.attempt.clone(),
            hash: Arc::clone(&self.hash),
            started: self.started,
            soak_started: self.soak_started,
            withdrawal: match self.withdrawn {
                Some(_) if self.unasked => Withdrawal::Confirmed,
                Some(_) => Withdrawal::Sent,
                None => Withdrawal::None,
            },
            terminating: self.deleted.is_some(),
            vanished: false,
            applied: self.applied,
            status: self.status.clone(),
            cause: None,
            unhealthy: self.unhealthy.clone(),
        }
    }
}

/// The worker pools of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Pools {
    /// What is known of them.
    pub(super) known: WorkerPools,
    /// True when they were updated at any time.
    pub(super) have_followed: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Spoke {
    pub(super) gone: bool,
    /// When its ManagedCluster was created.
    pub(super) registered: DateTime<Utc>,
    pub(super) eligibility: Eligibility,
    /// The version that the cluster reports.
    pub(super) version: Arc<str>,
    /// What is known of its version beside that.
    pub(super) known_version: Option<Arc<str>>,
    /// What the cluster says to the update.
    pub(super) preflight: Preflight,
    /// What it says when it answers the next time.
    pub(super) says: Preflight,
    /// When it answers, if it is asked.
    pub(super) answers_at: Option<DateTime<Utc>>,
    /// True when the image by which it must be asked for the update was told too long ago.
    pub(super) stale_image: bool,
    pub(super) worker_pools: Pools,
    /// When the cluster may start.
    pub(super) calendar: Option<Calendar>,
    /// True while the agent neither reports nor cleans up.
    pub(super) offline: bool,
    pub(super) works: [Option<HubWork>; 4],
    /// What each step was asked for when it succeeded last.
    pub(super) ended: [Option<Arc<str>>; 4],
    /// What the hub forbids the controllers to do with its works.
    pub(super) forbids: Vec<OperationKind>,
    /// Steps whose new works the hub rejects as invalid.
    pub(super) refuses: BTreeSet<Step>,
    pub(super) scripts: [Script; 4],
}

impl Spoke {
    /// The newest version that the cluster may run. What it reports that is no version says no more than nothing.
    pub(super) fn newest_version(&self) -> Arc<str> {
        let known = self.known_version.as_ref();
        let newer = known.filter(|known| !is_version(&self.version) || is_newer(known, &self.version));
        Arc::clone(newer.unwrap_or(&self.version))
    }
}

/// The version that a cluster has come to, as the status of its platform work tells: the one that was asked for, or the one before.
fn version_after(work: &HubWork, status: &StepStatus) -> Option<Arc<str>> {
    let had_ended = work.status == StepStatus::Succeeded;
    match status {
        StepStatus::OtherVersion if had_ended => Some(Arc::from(FIRST_VERSION)),
        StepStatus::Succeeded if !had_ended => {
            Some(Arc::clone(&work.target)).filter(|target| !target.is_empty())
        }
        _ => None,
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Hub {
    pub(super) spokes: BTreeMap<Arc<str>, Spoke>,
}

impl Hub {
    /// Lets agents report and clean up. Returns the works that are gone since the last call.
    pub(super) fn report(&mut self, now: DateTime<Utc>) -> Vec<(Arc<str>, Step, HubWork)> {
        let mut gone = Vec::new();
        for (name, spoke) in &mut self.spokes {
            for step in Step::ALL {
                let slot = &mut spoke.works[step.index()];
                let Some(work) = slot.as_mut() else { continue };
                let finalized = work.deleted.is_some_and(|at| at + FINALIZE <= now);
                if spoke.gone || (finalized && (!spoke.offline || work.owner == Owner::Nobody)) {
                    gone.extend(slot.take().map(|work| (Arc::clone(name), step, work)));
                } else if !spoke.offline && work.deleted.is_none() && !work.done {
                    let (status, unhealthy) = spoke.scripts[step.index()].read(work.epoch, now);
                    work.applied = true;
                    let has_begun = matches!(work.status, StepStatus::Running | StepStatus::Succeeded);
                    let is_heard = work.withdrawn.is_some_and(|at| at + FINALIZE <= now);
                    work.unasked |= is_heard && !has_begun;
                    if work.unasked {
                        work.status = StepStatus::OtherVersion;
                        continue;
                    }
                    if step == Step::Platform
                        && let Some(version) = version_after(work, &status)
                    {
                        spoke.version = version;
                    }
                    if status == StepStatus::Succeeded {
                        spoke.ended[step.index()] = Some(Arc::clone(&work.hash));
                    }
                    work.status = status;
                    work.unhealthy = unhealthy;
                }
            }
        }
        gone
    }

    /// When an agent will do something next.
    pub(super) fn next(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let online = self.spokes.values().filter(|spoke| !spoke.offline);
        online
            .flat_map(|spoke| spoke.works.iter().zip(&spoke.scripts))
            .filter_map(|(work, script)| {
                let work = work.as_ref()?;
                if let Some(at) = work.deleted {
                    return Some((at + FINALIZE).max(now));
                }
                let heard = work.withdrawn.map(|at| at + FINALIZE).filter(|at| *at > now);
                script.next(work.epoch, now).into_iter().chain(heard).min()
            })
            .min()
    }
}
