//! What was observed: every cluster that is selected, or has works or a record of this upgrade.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::phase::Step;
use crate::reason::Reason;
use crate::record::{Attempt, Record};

/// The fleet of one upgrade, sorted by cluster name, without duplicates.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// The clusters.
    pub clusters: Vec<Cluster>,
}

/// One cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Name of the ManagedCluster.
    pub name: Arc<str>,
    /// Whether it is selected.
    pub selection: Selection,
    /// True for a canary.
    pub canary: bool,
    /// True when the ManagedCluster or its namespace is gone or terminating: it is dropped, no failure.
    pub gone: bool,
    /// Whether it may start.
    pub standing: Standing,
    /// Another upgrade that concerns the cluster.
    pub rival: Option<Rival>,
    /// What exists under the name of each step's work.
    pub works: [Slot; 4],
    /// The latest record, written or about to be.
    pub record: Option<Arc<Record>>,
    /// The record as last written: only on its strength may works be removed or a new attempt begin.
    pub written: Option<Arc<Record>>,
    /// A write for this cluster is under way: no further action, and a slot is held if the write starts a step.
    pub busy: Option<Busy>,
    /// The last write failed.
    pub backoff: Option<Backoff>,
    /// A creation, or a change in place, of this step's work was put off or may have been carried out: until that is known it
    /// counts as carried out.
    pub unsettled: Option<Step>,
    /// An earlier creation of this step's work may be carried out yet, though a later one was, or one of a step after
    /// `unsettled`: should the work go, it may come back.
    pub late: Option<Step>,
    /// The step whose work was last read from the hub itself, not from a watch, and a time that the reading is not older
    /// than.
    pub read: Option<(Step, DateTime<Utc>)>,
    /// Version the cluster ran when last heard of.
    pub version: Arc<str>,
}

impl Cluster {
    /// The first step whose work is ours and cannot be read, and what is wrong with it.
    #[must_use]
    pub fn unreadable_work(&self) -> Option<(Step, &Arc<str>)> {
        Step::ALL.into_iter().find_map(|step| match self.slot(step) {
            Slot::Unreadable { what, .. } => Some((step, what)),
            _ => None,
        })
    }

    /// The slot of a step.
    #[must_use]
    pub const fn slot(&self, step: Step) -> &Slot {
        &self.works[step.index()]
    }

    /// True while a write that takes a slot is under way, or one that was given up on may have been carried out, or may be yet.
    #[must_use]
    pub fn awaits_start(&self) -> bool {
        let mut doubts = [self.unsettled, self.late].into_iter().flatten();
        self.busy == Some(Busy::Starting) || doubts.any(|step| step != Step::PostAction)
    }

    /// True while a creation that was given up on may have been carried out, or may be yet.
    #[must_use]
    pub const fn is_in_doubt(&self) -> bool {
        self.unsettled.is_some() || self.late.is_some()
    }
}

/// Whether a cluster is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// It is.
    In,
    /// It is not any more, since then; decisions are rewritten non-atomically, so leaving is debounced.
    Left(DateTime<Utc>),
}

/// Whether a cluster may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may.
    Eligible,
    /// It is not available now; it stays Pending and starts by itself later.
    Unavailable {
        /// Cause.
        reason: Reason,
        /// Text.
        message: Arc<str>,
    },
    /// It must not start until somebody mends it.
    Blocked {
        /// Cause.
        reason: Reason,
        /// Text, remedy included.
        message: Arc<str>,
    },
}

/// Another upgrade that concerns the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// `namespace/name` of the other upgrade.
    pub upgrade: Arc<str>,
    /// What it holds.
    pub hold: RivalHold,
}

/// What a rival holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RivalHold {
    /// It is upgrading the cluster, or is older and has yet to start it: it goes first.
    Active,
    /// It holds the cluster until a human acts (`PreActionDegraded`, an invalid spec, or a newer upgrade that failed).
    Stuck,
    /// It is done with the cluster and only kept works: they give way (`docs/design/rules.md#giving-way`).
    Yielding,
}

/// A write that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// It starts a step that holds a slot.
    Starting,
    /// Anything else.
    Other,
}

/// A wait after failed writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Not again before.
    pub until: DateTime<Utc>,
    /// The last error's text.
    pub error: Arc<str>,
    /// Forbidden for so long that only a human will change it.
    pub lasting: bool,
}

/// What exists under the name of a step's work in the cluster's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Slot {
    /// Nothing we know of.
    #[default]
    Absent,
    /// A work of this upgrade.
    Ours(Arc<Work>),
    /// A work of this upgrade whose annotations are not what the controller writes: which attempt it serves is unknown.
    Unreadable {
        /// What is wrong with it.
        what: Arc<str>,
        /// It is being deleted.
        terminating: bool,
    },
    /// A work of another upgrade.
    Rival {
        /// It is being deleted.
        terminating: bool,
    },
    /// Somebody else's work, found by a refused creation; not tried again before the time given.
    Foreign {
        /// Next try.
        retry_at: DateTime<Utc>,
    },
    /// Somebody else's work that is being deleted; not looked at again before the time given.
    ForeignTerminating {
        /// Next try.
        retry_at: DateTime<Utc>,
    },
    /// Nothing: the hub refused the work as invalid, so the spec or the hub must change; not tried again before the time
    /// given.
    Refused {
        /// Next try.
        retry_at: DateTime<Utc>,
        /// What the hub said.
        message: Arc<str>,
    },
}

impl Slot {
    /// The work, if it is ours and not being deleted.
    #[must_use]
    pub fn ours(&self) -> Option<&Work> {
        match self {
            Slot::Ours(work) if !work.terminating && !work.vanished => Some(work),
            _ => None,
        }
    }

    /// True when a work of this upgrade is there, readable or not, and nobody deletes it yet.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.ours().is_some()
            || matches!(
                self,
                Slot::Unreadable {
                    terminating: false,
                    ..
                }
            )
    }

    /// True when a work of this upgrade is there that cannot be read.
    #[must_use]
    pub const fn is_unreadable(&self) -> bool {
        matches!(self, Slot::Unreadable { .. })
    }

    /// True when the slot's work may be at work on the cluster: unknown is never free.
    #[must_use]
    pub fn may_run(&self) -> bool {
        match self {
            Slot::Ours(work) => {
                !work.vanished && !matches!(work.reading, Reading::Succeeded | Reading::Failed(_))
            }
            Slot::Unreadable { .. } => true,
            _ => false,
        }
    }
}

/// A work of this upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Attempt it serves.
    pub attempt: Attempt,
    /// Hash of what it was rendered from.
    pub hash: Arc<str>,
    /// Start of the step's clock.
    pub started: DateTime<Utc>,
    /// Start of the soak, if it began. A note that is not younger than `started` is of an earlier attempt and ignored.
    pub soak_started: Option<DateTime<Utc>>,
    /// It is being deleted.
    pub terminating: bool,
    /// It is gone; kept only because it had succeeded and no record says so yet.
    pub vanished: bool,
    /// The agent has applied it as it is now.
    pub applied: bool,
    /// How the step goes.
    pub reading: Reading,
    /// What it waits for, as far as the cluster or the agent says.
    pub cause: Option<(Reason, Arc<str>)>,
    /// The cluster reports a failure of its own (Failing=True); matters in the soak.
    pub unhealthy: Option<Arc<str>>,
}

/// How a step goes, as its feedback tells, measured by what the work itself asks for (which may be an older target than
/// the policy's).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Nothing that counts yet: no feedback, or stale feedback.
    NotYet,
    /// Fresh feedback tells of another version than the target.
    OtherVersion,
    /// Under way; for the platform: the target is in the history, state Partial.
    Running,
    /// Done.
    Succeeded,
    /// Failed, with its text.
    Failed(Arc<str>),
    /// The Job has failed pods and neither active nor succeeded ones since then; a failure once that lasts 15 s.
    Suspect(DateTime<Utc>),
}
