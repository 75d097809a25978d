//! What was observed: every cluster that is selected, or that has works or a record of this upgrade.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use api::names::Step;
use api::report::Phase;

use crate::maintenance::Calendar;
use crate::model::approval::GivenApproval;
use crate::model::policy::Policy;
use crate::model::reason::Reason;
use crate::model::record::{Attempt, Record};

/// The fleet of one upgrade, sorted by cluster name, without duplicates.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// The clusters.
    pub clusters: Vec<Cluster>,
    /// When clusters may start, if the spec has maintenance windows.
    pub calendars: Vec<Calendar>,
    /// The approvals of the upgrade.
    pub approvals: Arc<[GivenApproval]>,
    /// Number of clusters that were dropped, are not among `clusters`, and hold slots by what is written of them.
    pub unreleased: usize,
}

impl Fleet {
    /// The cluster of this name. Clusters are sorted by name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Cluster> {
        let found = self
            .clusters
            .binary_search_by(|cluster| (*cluster.name).cmp(name));
        found.ok().map(|position| &self.clusters[position])
    }
}

/// One cluster of an upgrade.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one cluster")]
pub struct Cluster {
    /// Name of the ManagedCluster.
    pub name: Arc<str>,
    /// Whether the cluster is selected.
    pub selection: Selection,
    /// True for a canary.
    pub canary: bool,
    /// True when the ManagedCluster or its namespace is gone or terminating. The cluster is dropped and does not
    /// count as failed.
    pub gone: bool,
    /// How and why the spec leaves the cluster out, if it does.
    pub left_out: Option<LeftOut>,
    /// Whether the cluster may start.
    pub eligibility: Eligibility,
    /// Its position in [`Fleet::calendars`]; `None`: it may start at any time.
    pub calendar: Option<usize>,
    /// Another upgrade that concerns the cluster.
    pub rival: Option<Rival>,
    /// The work of each step, as far as is known.
    pub works: [StepWork; 4],
    /// The latest record, written or about to be written.
    pub record: Option<Arc<Record>>,
    /// The record as last written. Works may be removed, and a new attempt may begin, only on the basis of this one.
    pub written: Option<Arc<Record>>,
    /// A write of the row that has no response yet may have written one by which the cluster holds a slot. If the
    /// cluster has no record, it was dropped, and the hub may still have such a row of it.
    pub slot_in_doubt: bool,
    /// A write for this cluster that is in progress. There is no further operation meanwhile, and a slot is held if the
    /// write starts a step.
    pub busy: Option<Busy>,
    /// The wait after the last write, if that failed.
    pub backoff: Option<ClusterBackoff>,
    /// The step whose work may have been created or changed by a write that was put off or that got no response. It
    /// counts as carried out until this is known.
    pub unsettled: Option<Step>,
    /// A step other than `unsettled` whose work an abandoned creation may still create, for example although a later
    /// creation succeeded. If that work is deleted, it may come back.
    pub late: Option<Step>,
    /// Further such steps: each step has a doubt of its own.
    pub also_late: [Option<Step>; 3],
    /// The attempt of a start that is in progress or in doubt. A record that is made anew is of this attempt, because the work of
    /// the start would be a leftover of any other one, and hold no slot.
    pub awaited_attempt: Option<Attempt>,
    /// The step whose work was last read from the hub itself and not from a watch, and a time at or after which this
    /// reading was made.
    pub read: Option<(Step, DateTime<Utc>)>,
    /// The version that the cluster last reported.
    pub version: Arc<str>,
    /// The newest version that the cluster may run, by what it reports, what it claims and what is remembered: each may be late.
    /// It is not asked for less.
    pub newest_version: Arc<str>,
    /// What the cluster says to the update before it starts.
    pub preflight: Preflight,
    /// The image by which it must be asked for the update was told too long ago. Where the preflight holds nobody back, it is asked
    /// again all the same.
    pub has_stale_image: bool,
    /// Its worker pools, while the platform step waits for them.
    pub worker_pools: WorkerPools,
    /// A term has begun, or the clocks agree again, since a short time ago. It may not have been asked for its pools before, so their time
    /// limit does not end yet.
    pub pools_unheard: bool,
}

impl Cluster {
    /// True when the spec aborts the cluster.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.left_out.as_ref().is_some_and(|left_out| left_out.aborts)
    }

    /// True while the platform step, once the version is updated, waits for the worker pools. What they say counts when it was asked
    /// for some time ago, so a clock that is not trusted proves nothing.
    #[must_use]
    pub fn awaits_pools(&self, policy: &Policy) -> bool {
        let have_followed = self.worker_pools == WorkerPools::Updated && policy.clock_trusted;
        policy.worker_pools_timeout.is_some() && !have_followed
    }

    /// The first step whose work belongs to this upgrade but cannot be read, and what is wrong with it.
    #[must_use]
    pub fn unreadable_work(&self) -> Option<(Step, &Arc<str>)> {
        Step::ALL.into_iter().find_map(|step| match self.step_work(step) {
            StepWork::Unreadable { what, .. } => Some((step, what)),
            _ => None,
        })
    }

    /// The first step whose work must be read before it counts. It may be running.
    #[must_use]
    pub fn unread_work(&self) -> Option<Step> {
        let mut steps = Step::ALL.into_iter();
        steps.find(|step| matches!(self.step_work(*step), StepWork::Unconfirmed))
    }

    /// The same among the steps that take a slot.
    #[must_use]
    pub fn unread_step(&self) -> Option<Step> {
        self.unread_work().filter(|step| *step != Step::PostAction)
    }

    /// The first step whose work is from before the cluster was registered anew and is still to be read. It holds no slot.
    #[must_use]
    pub fn former_step(&self) -> Option<Step> {
        let mut steps = Step::ALL.into_iter();
        let step = steps.find(|step| matches!(self.step_work(*step), StepWork::Former(_)));
        // Until then nothing begins.
        step.filter(|_| self.written.is_some())
    }

    /// True when another upgrade or a work of somebody else is in the way. So the cluster may go on as soon as another
    /// upgrade changes or a work is gone.
    #[must_use]
    pub fn is_contested(&self) -> bool {
        let is_in_the_way = |work: &StepWork| {
            matches!(
                work,
                StepWork::Rival { .. } | StepWork::Foreign { .. } | StepWork::ForeignTerminating { .. }
            )
        };
        self.rival.is_some() || self.works.iter().any(is_in_the_way)
    }

    /// True when a work asks the cluster in its present attempt for the update that the policy requires, or the cluster has begun that
    /// update. Nobody needs to know then what it would say to it. What it said before a retry counts no more.
    #[must_use]
    pub fn is_asked_for(&self, policy: &Policy) -> bool {
        let attempt = self.record.as_deref().map(|record| &record.attempt);
        let work = self.step_work(Step::Platform).ours();
        work.is_some_and(|work| work.asks_for(policy, attempt))
    }

    /// The work of a step, as far as is known.
    #[must_use]
    pub const fn step_work(&self, step: Step) -> &StepWork {
        &self.works[step.index()]
    }

    /// True while another upgrade holds the cluster and does not give way.
    #[must_use]
    pub fn is_held_by_another(&self) -> bool {
        let rival = self.rival.as_ref();
        rival.is_some_and(|rival| rival.hold != RivalHold::Yielding)
    }

    /// True while a write that takes a slot is in progress, or an abandoned one may have been carried out or may
    /// still be.
    #[must_use]
    pub fn awaits_start(&self) -> bool {
        let mut doubts = [self.unsettled, self.late].into_iter().flatten();
        self.busy == Some(Busy::Starting) || doubts.any(|step| step != Step::PostAction)
    }

    /// True while an abandoned creation may bring the work of a step back if that is deleted. As long as it is there, the hub
    /// rejects that creation.
    #[must_use]
    pub fn may_come_back(&self, step: Step) -> bool {
        let is_late = self.late == Some(step) || self.also_late.contains(&Some(step));
        self.unsettled == Some(step) || is_late
    }

    /// True while an abandoned creation may have been carried out or may still be.
    #[must_use]
    pub const fn is_in_doubt(&self) -> bool {
        self.unsettled.is_some() || self.late.is_some()
    }
}

/// How the spec leaves a cluster out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Why.
    pub reason: Arc<str>,
    /// False: what is under way on it ends first (`docs/design/rules.md#skipped-clusters`). True: the request of an update that it has
    /// not accepted is withdrawn (`docs/design/rules.md#aborted-clusters`).
    pub aborts: bool,
}

/// Whether a platform work has withdrawn its request of the update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Withdrawal {
    /// The work requests the update.
    #[default]
    None,
    /// The work does not request the update any more, and the cluster may not know yet.
    Sent,
    /// The cluster reports that it is not asked for the update, and has not begun it.
    Confirmed,
}

/// Whether a cluster is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The cluster is selected.
    In,
    /// The cluster has not been selected since this time. OCM rewrites decisions non-atomically, so leaving is
    /// debounced.
    Left(DateTime<Utc>),
}

/// Whether a cluster may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// The cluster may start.
    Eligible,
    /// The cluster is not available now. It stays Pending and starts later without a human.
    Unavailable {
        /// The cause.
        reason: Reason,
        /// The message of the row.
        message: Arc<str>,
    },
    /// The cluster must not start until somebody fixes the cause.
    Blocked {
        /// The cause.
        reason: Reason,
        /// The message of the row, with the remedy.
        message: Arc<str>,
    },
}

/// What a cluster says to the update before it starts (`docs/design/preflight.md#the-verdict`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Preflight {
    /// The cluster was not asked.
    #[default]
    NotAsked,
    /// The cluster would take the update.
    Ready,
    /// The cluster would take the update, but by an image that it told too long ago. It is asked again when it is its turn.
    Stale,
    /// It is not known whether the cluster would take the update.
    Unknown {
        /// The cause.
        reason: Reason,
        /// The message of the row.
        message: Arc<str>,
    },
    /// The cluster would not take the update until somebody removes the cause.
    Blocked {
        /// The cause.
        reason: Reason,
        /// The message of the row.
        message: Arc<str>,
    },
}

impl Preflight {
    /// True when the cluster is still to answer.
    #[must_use]
    pub const fn is_pending(&self) -> bool {
        matches!(
            self,
            Self::NotAsked
                | Self::Unknown {
                    reason: Reason::PreflightPending,
                    ..
                }
        )
    }
}

/// The worker pools of a cluster whose version is updated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WorkerPools {
    /// Nothing is known of them.
    #[default]
    NotAsked,
    /// All are updated.
    Updated,
    /// They are not all updated, or that is not known.
    Behind {
        /// The cause.
        reason: Reason,
        /// The message of the row.
        message: Arc<str>,
    },
}

/// Another upgrade of the same cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// `namespace/name` of the other upgrade.
    pub upgrade: Arc<str>,
    /// Whether the rival may keep the cluster.
    pub hold: RivalHold,
}

/// The relation of a rival to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RivalHold {
    /// The rival is upgrading the cluster, or is older and will start it. It goes first.
    Active,
    /// The rival keeps the cluster until a human acts (`PreActionDegraded`, an invalid spec, writes that the hub keeps
    /// forbidding, or a newer upgrade that failed).
    Stuck,
    /// The rival is being deleted, and the hub keeps forbidding the deletion of its works in the cluster.
    Undeletable,
    /// The rival is done with the cluster and has only left works there. They give way
    /// (`docs/design/rules.md#giving-way`).
    Yielding,
}

/// A write that is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// The write starts a step that holds a slot.
    Starting,
    /// Any other write.
    Other,
}

/// The wait after failed writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterBackoff {
    /// No write before this time.
    pub until: DateTime<Utc>,
    /// The text of the last error.
    pub error: Arc<str>,
    /// True when the hub has forbidden to create or change a work for so long that only a human can change it.
    pub lasting: bool,
    /// The same for the deletion of a work.
    pub deletion_lasting: bool,
}

impl ClusterBackoff {
    /// True when a cluster with this record does not go on before a human permits what the hub keeps forbidding. One that is
    /// blocked tries nothing.
    #[must_use]
    pub fn is_stuck(&self, record: &Record) -> bool {
        let tries_nothing = matches!(
            record.phase,
            Phase::Complete | Phase::Failed | Phase::PreActionDegraded | Phase::Blocked
        );
        // Nothing waits for the deletion of other works.
        let is_in_the_way = record.reason == Reason::WaitingForCleanup;
        !tries_nothing && (self.lasting || (self.deletion_lasting && is_in_the_way))
    }
}

/// The work of a step in the cluster's namespace, as far as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StepWork {
    /// No work is known.
    #[default]
    Absent,
    /// A work of this upgrade.
    Ours(Arc<Work>),
    /// A work of this upgrade whose annotations are not what the controller writes, so its attempt is unknown.
    Unreadable {
        /// What is wrong with it.
        what: Arc<str>,
        /// True when it is being deleted.
        terminating: bool,
    },
    /// A work of another upgrade.
    Rival {
        /// True when it is being deleted.
        terminating: bool,
    },
    /// A work of this upgrade that was seen before its cluster was registered anew. It is probably gone, and it must be
    /// read before it counts.
    Unconfirmed,
    /// A work of this upgrade that is older than the present registration of its cluster, has not been changed for that since, and is of
    /// an attempt of which no record tells. The cluster begins another attempt. Once that is written, the work is read: if it is still
    /// there, it is a leftover.
    Former(Arc<Work>),
    /// A work that belongs to no upgrade, found because the hub rejected a creation. The creation is not retried before
    /// `retry_at`.
    Foreign {
        /// Time of the next try.
        retry_at: DateTime<Utc>,
    },
    /// A work that belongs to no upgrade and is being deleted. It is not read again before `retry_at`.
    ForeignTerminating {
        /// Time of the next try.
        retry_at: DateTime<Utc>,
    },
    /// There is no work: the hub rejected it as invalid, so the spec or the hub must change. The creation is not
    /// retried before `retry_at`.
    Refused {
        /// Time of the next try.
        retry_at: DateTime<Utc>,
        /// The hub's error message.
        message: Arc<str>,
    },
}

impl StepWork {
    /// The work, if it belongs to this upgrade and is not being deleted.
    #[must_use]
    pub fn ours(&self) -> Option<&Work> {
        match self {
            StepWork::Ours(work) if !work.terminating && !work.vanished => Some(work),
            _ => None,
        }
    }

    /// True when a work of this upgrade exists, readable or not, and is not being deleted yet.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.ours().is_some()
            || matches!(
                self,
                StepWork::Unconfirmed
                    | StepWork::Former(_)
                    | StepWork::Unreadable {
                        terminating: false,
                        ..
                    }
            )
    }

    /// True when a work of this upgrade is to be read before it counts, or cannot be read.
    #[must_use]
    pub const fn is_unclear(&self) -> bool {
        matches!(self, StepWork::Unconfirmed | StepWork::Unreadable { .. })
    }

    /// True when a work of this upgrade exists that cannot be read.
    #[must_use]
    pub const fn is_unreadable(&self) -> bool {
        matches!(self, StepWork::Unreadable { .. })
    }

    /// True when the work, or the step after it, may be running on the cluster. An unknown work counts as running.
    #[must_use]
    pub fn may_run(&self) -> bool {
        match self {
            StepWork::Ours(work) => !work.vanished && !matches!(work.status, StepStatus::Failed(_)),
            StepWork::Unreadable { .. } => true,
            _ => false,
        }
    }
}

/// A work of this upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The attempt that the work belongs to.
    pub attempt: Attempt,
    /// Hash of what the work was rendered from.
    pub hash: Arc<str>,
    /// Start of the step's clock.
    pub started: DateTime<Utc>,
    /// Start of the soak as the work notes it, if it does. A time that is not later than `started` belongs to an earlier
    /// attempt. Neither such a time nor one that is far in the future counts as the start of a soak.
    pub soak_started: Option<DateTime<Utc>>,
    /// True when the work is being deleted.
    pub terminating: bool,
    /// True when the work is gone. It is kept here only because it had succeeded and no record says so yet.
    pub vanished: bool,
    /// True when the agent has applied the current generation of the work.
    pub applied: bool,
    /// Whether a platform work has withdrawn its request (`docs/design/rules.md#aborted-clusters`).
    pub withdrawal: Withdrawal,
    /// The progress of the step.
    pub status: StepStatus,
    /// What the step is waiting for, as the cluster or the agent reports it.
    pub cause: Option<(Reason, Arc<str>)>,
    /// The failure that the cluster reports (Failing=True), if any. It matters in the soak.
    pub unhealthy: Option<Arc<str>>,
}

impl Work {
    /// True when the cluster has begun the update that this platform work requests.
    #[must_use]
    pub const fn is_accepted(&self) -> bool {
        matches!(self.status, StepStatus::Running | StepStatus::Succeeded)
    }

    /// True when this platform work asks for the update that the policy requires, in this attempt if there is one, or the cluster has begun
    /// that update.
    #[must_use]
    pub fn asks_for(&self, policy: &Policy, attempt: Option<&Attempt>) -> bool {
        let is_wanted = policy.steps[Step::Platform.index()].as_ref() == Some(&self.hash);
        is_wanted && (self.is_accepted() || attempt.is_none_or(|attempt| *attempt == self.attempt))
    }
}

/// The progress of a step according to its feedback, measured by what the work itself requests. That may be an older
/// target than the policy's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepStatus {
    /// There is no feedback yet, or it is stale.
    NotYet,
    /// Fresh feedback reports another version than the target.
    OtherVersion,
    /// The step is running. For the platform: the target is in the history with state Partial.
    Running,
    /// The step succeeded.
    Succeeded,
    /// The step failed, with this message.
    Failed(Arc<str>),
    /// The Job has had failed pods and neither active nor succeeded ones since this time. It counts as failed once
    /// this lasts 15 s.
    MaybeFailed(DateTime<Utc>),
}
