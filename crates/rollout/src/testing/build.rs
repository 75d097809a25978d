//! Builders of policies and fleets, the input of the planner.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::maintenance::Calendar;
use crate::model::{
    Attempt, Busy, Cluster, ClusterBackoff, Eligibility, Fleet, GivenApproval, Hold, KnownApprovals, Limit,
    Outcome, Phase, Policy, Preflight, Reason, Record, Rival, RivalHold, Selection, Stage, Step, StepRecord,
    StepStatus, StepWork, Withdrawal, Work, WorkerPools,
};

mod answers;
mod approvals;
mod doubt;
mod retries;

pub use doubt::stand_in;

/// The time `seconds` after the start of every test.
#[must_use]
pub fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_000) + TimeDelta::seconds(seconds)
}

fn hash(step: Step, revision: &str) -> Arc<str> {
    Arc::from(format!("{step:?}@{revision}"))
}

/// A policy of revision `r1`: platform only, maxConcurrency 10, timeouts 3 h and 21 min 50 s.
pub fn policy() -> PolicyBuilder {
    let mut steps = [None, None, None, None];
    steps[Step::Platform.index()] = Some(hash(Step::Platform, "r1"));
    PolicyBuilder(Policy {
        revision: Arc::from("r1"),
        steps,
        retry: None,
        hold: None,
        deleting: false,
        max_concurrency: Limit::Count(10),
        max_failures: None,
        min_success_time: None,
        cluster_timeout: TimeDelta::hours(3),
        action_timeout: None,
        worker_pools_timeout: None,
        operators_timeout: TimeDelta::seconds(1310),
        canaries: false,
        clock_trusted: true,
        target: Arc::from("4.12.0"),
        allow_downgrade: false,
        requires_preflight: false,
        awaits_answers: false,
        checkpoints: Vec::new(),
        approvals: KnownApprovals::Current,
        spec_hash: Arc::from("spec"),
    })
}

/// Builds a [`Policy`].
#[must_use]
#[derive(Clone, Debug)]
pub struct PolicyBuilder(Policy);

impl PolicyBuilder {
    /// Requests a step.
    pub fn step(mut self, step: Step) -> Self {
        self.0.steps[step.index()] = Some(hash(step, &self.0.revision));
        self
    }

    /// Requests a pre-action.
    pub fn pre_action(self) -> Self {
        self.step(Step::PreAction)
    }

    /// Requests operators.
    pub fn operators(self) -> Self {
        self.step(Step::Operators)
    }

    /// Requests a post-action.
    pub fn post_action(self) -> Self {
        self.step(Step::PostAction)
    }

    /// Removes a step from the request.
    pub fn without(mut self, step: Step) -> Self {
        self.0.steps[step.index()] = None;
        self
    }

    /// A new revision of the spec that concerns the given steps only; the others are rendered as before.
    pub fn edited(mut self, revision: &str, steps: &[Step]) -> Self {
        self.0.revision = Arc::from(revision);
        for step in steps {
            self.0.steps[step.index()] = Some(hash(*step, revision));
        }
        self
    }

    /// The spec was edited and now violates a rule.
    pub fn invalid(mut self) -> Self {
        self.0.hold = Some(Hold::InvalidSpec);
        self
    }

    /// `spec.paused`.
    pub fn paused(mut self) -> Self {
        self.0.hold = Some(Hold::Paused);
        self
    }

    /// The upgrade was restored and not resumed.
    pub fn restored(mut self) -> Self {
        self.0.hold = Some(Hold::Restored);
        self
    }

    /// The requested version.
    pub fn target(mut self, version: &str) -> Self {
        self.0.target = Arc::from(version);
        self
    }

    /// `spec.clusterVersion.allowDowngrade`.
    pub fn allow_downgrade(mut self) -> Self {
        self.0.allow_downgrade = true;
        self
    }

    /// The upgrade is being deleted.
    pub fn deleting(mut self) -> Self {
        self.0.deleting = true;
        self
    }

    /// maxConcurrency.
    pub fn max_concurrency(mut self, count: u32) -> Self {
        self.0.max_concurrency = Limit::Count(count);
        self
    }

    /// maxConcurrency in percent.
    pub fn max_concurrency_percent(mut self, percent: u32) -> Self {
        self.0.max_concurrency = Limit::Percent(percent);
        self
    }

    /// maxFailures.
    pub fn max_failures(mut self, limit: Limit) -> Self {
        self.0.max_failures = Some(limit);
        self
    }

    /// minSuccessTime, in seconds.
    pub fn soak(mut self, seconds: i64) -> Self {
        self.0.min_success_time = Some(TimeDelta::seconds(seconds));
        self
    }

    /// Canaries are requested.
    pub fn canaries(mut self) -> Self {
        self.0.canaries = true;
        self
    }

    /// Timeouts of the platform step (and actions without one of their own) and of the operators step, in seconds.
    pub fn timeouts(mut self, cluster: i64, operators: i64) -> Self {
        self.0.cluster_timeout = TimeDelta::seconds(cluster);
        self.0.operators_timeout = TimeDelta::seconds(operators);
        self
    }

    /// The clock is not trusted.
    pub fn distrusted_clock(mut self) -> Self {
        self.0.clock_trusted = false;
        self
    }

    /// The policy.
    #[must_use]
    pub fn build(self) -> Policy {
        self.0
    }
}

/// An empty fleet.
pub fn fleet() -> FleetBuilder {
    FleetBuilder::default()
}

/// Builds a [`Fleet`]. [`FleetBuilder::cluster`] adds a cluster; the other methods change the one that was added
/// last.
#[must_use]
#[derive(Clone, Debug, Default)]
pub struct FleetBuilder {
    clusters: Vec<Cluster>,
    calendars: Vec<Calendar>,
    approvals: Vec<GivenApproval>,
    unreleased: usize,
}

impl FleetBuilder {
    /// Adds a selected, eligible cluster without works or a record.
    pub fn cluster(mut self, name: &str) -> Self {
        self.clusters.push(Cluster {
            name: Arc::from(name),
            selection: Selection::In,
            canary: false,
            gone: false,
            left_out: None,
            eligibility: Eligibility::Eligible,
            calendar: None,
            rival: None,
            works: [
                StepWork::Absent,
                StepWork::Absent,
                StepWork::Absent,
                StepWork::Absent,
            ],
            record: None,
            written: None,
            slot_in_doubt: false,
            busy: None,
            backoff: None,
            unsettled: None,
            late: None,
            also_late: [None; 3],
            awaited_attempt: None,
            read: None,
            version: Arc::from("4.11.0"),
            newest_version: Arc::from("4.11.0"),
            preflight: Preflight::NotAsked,
            has_stale_image: false,
            worker_pools: WorkerPools::NotAsked,
            pools_unheard: false,
        });
        self
    }

    fn last(mut self, change: impl FnOnce(&mut Cluster)) -> Self {
        if let Some(cluster) = self.clusters.last_mut() {
            change(cluster);
        }
        self
    }

    /// The cluster is a canary.
    pub fn canary(self) -> Self {
        self.last(|cluster| cluster.canary = true)
    }

    /// The cluster left the selection at this time (seconds).
    pub fn left(self, seconds: i64) -> Self {
        self.last(|cluster| cluster.selection = Selection::Left(at(seconds)))
    }

    /// Its ManagedCluster is gone.
    pub fn gone(self) -> Self {
        self.last(|cluster| cluster.gone = true)
    }

    /// The cluster is not available.
    pub fn unavailable(self) -> Self {
        self.last(|cluster| {
            cluster.eligibility = Eligibility::Unavailable {
                reason: Reason::ClusterUnavailable,
                message: Arc::from("The agent is silent"),
            };
        })
    }

    /// The cluster is blocked.
    pub fn blocked(self, reason: Reason) -> Self {
        self.last(|cluster| {
            cluster.eligibility = Eligibility::Blocked {
                reason,
                message: Arc::from("Fix it"),
            };
        })
    }

    /// Another upgrade has the cluster.
    pub fn rival(self, hold: RivalHold) -> Self {
        self.last(|cluster| {
            cluster.rival = Some(Rival {
                upgrade: Arc::from("other/upgrade"),
                hold,
            });
        })
    }

    /// The cluster has a work of ours. Unless it has a hash, it gets the one that [`policy`] gives at the work's
    /// revision.
    pub fn work(self, step: Step, work: impl Into<Work>) -> Self {
        let mut work = work.into();
        if work.hash.is_empty() {
            work.hash = hash(step, &work.attempt.revision);
        }
        self.step_work(step, StepWork::Ours(Arc::new(work)))
    }

    /// What exists under the name of a step's work.
    pub fn step_work(self, step: Step, slot: StepWork) -> Self {
        self.last(|cluster| cluster.works[step.index()] = slot)
    }

    /// The hub rejected the step's work. The next try is at this time (seconds).
    pub fn refused(self, step: Step, seconds: i64) -> Self {
        let refused = StepWork::Refused {
            retry_at: at(seconds),
            message: Arc::from("it is invalid"),
        };
        self.step_work(step, refused)
    }

    /// The cluster has this record, and it is written.
    pub fn record(self, record: impl Into<Record>) -> Self {
        let record = Arc::new(record.into());
        self.last(|cluster| {
            cluster.record = Some(Arc::clone(&record));
            cluster.written = Some(record);
        })
    }

    /// The cluster has this record, and it is not written yet.
    pub fn draft(self, record: impl Into<Record>) -> Self {
        let record = Arc::new(record.into());
        self.last(|cluster| cluster.record = Some(record))
    }

    /// The hub may have a row by which the cluster holds a slot.
    pub fn slot_in_doubt(self) -> Self {
        self.last(|cluster| cluster.slot_in_doubt = true)
    }

    /// The last write for the cluster failed. The next one is at this time (seconds).
    pub fn backoff(self, seconds: i64) -> Self {
        self.last(|cluster| {
            cluster.backoff = Some(ClusterBackoff {
                until: at(seconds),
                error: Arc::from("the hub rejected the write"),
                lasting: false,
                deletion_lasting: false,
            });
        })
    }

    /// The step's work was read from the hub at this time (seconds).
    pub fn read(self, step: Step, seconds: i64) -> Self {
        self.last(|cluster| cluster.read = Some((step, at(seconds))))
    }

    /// The hub keeps forbidding deletions for the cluster. The next one is at this time (seconds).
    pub fn undeletable(self, seconds: i64) -> Self {
        self.backoff(seconds).last(|cluster| {
            if let Some(backoff) = &mut cluster.backoff {
                backoff.deletion_lasting = true;
            }
        })
    }

    /// The hub keeps forbidding creations for the cluster. The next one is at this time (seconds).
    pub fn forbidden(self, seconds: i64) -> Self {
        self.backoff(seconds).last(|cluster| {
            if let Some(backoff) = &mut cluster.backoff {
                backoff.lasting = true;
            }
        })
    }

    /// The version that the cluster runs.
    pub fn version(self, version: &str) -> Self {
        self.last(|cluster| {
            cluster.version = Arc::from(version);
            cluster.newest_version = Arc::from(version);
        })
    }

    /// The newest version that the cluster may run.
    pub fn newest_version(self, version: &str) -> Self {
        self.last(|cluster| cluster.newest_version = Arc::from(version))
    }

    /// That many clusters beside these were dropped and hold slots by what is written of them.
    pub fn unreleased(mut self, number: usize) -> Self {
        self.unreleased = number;
        self
    }

    /// The fleet, sorted.
    #[must_use]
    pub fn build(mut self) -> Fleet {
        self.clusters.sort_by(|a, b| a.name.cmp(&b.name));
        Fleet {
            clusters: self.clusters,
            calendars: self.calendars,
            approvals: self.approvals.into(),
            unreleased: self.unreleased,
        }
    }
}

/// The first attempt at revision `r1`.
#[must_use]
pub fn first_attempt() -> Attempt {
    Attempt {
        revision: Arc::from("r1"),
        retry: Arc::from(""),
    }
}

/// A work of the first attempt at revision `r1` whose clock started at this time (seconds), applied, without
/// feedback.
pub fn work(started: i64) -> WorkBuilder {
    WorkBuilder(Work {
        attempt: first_attempt(),
        hash: Arc::from(""),
        started: at(started),
        soak_started: None,
        withdrawal: Withdrawal::None,
        terminating: false,
        vanished: false,
        applied: true,
        status: StepStatus::NotYet,
        cause: None,
        unhealthy: None,
    })
}

/// Builds a [`Work`].
#[must_use]
#[derive(Clone, Debug)]
pub struct WorkBuilder(Work);

impl WorkBuilder {
    /// The progress of the step.
    pub fn status(mut self, status: StepStatus) -> Self {
        self.0.status = status;
        self
    }

    /// The step succeeded.
    pub fn succeeded(self) -> Self {
        self.status(StepStatus::Succeeded)
    }

    /// The step is running.
    pub fn running(self) -> Self {
        self.status(StepStatus::Running)
    }

    /// The step failed.
    pub fn failed(self) -> Self {
        self.status(StepStatus::Failed(Arc::from("It failed")))
    }

    /// The revision that the work belongs to.
    pub fn revision(mut self, revision: &str) -> Self {
        self.0.attempt.revision = Arc::from(revision);
        self
    }

    /// The retry that the work belongs to.
    pub fn retry(mut self, token: &str) -> Self {
        self.0.attempt.retry = Arc::from(token);
        self
    }

    /// The work is being deleted.
    pub fn terminating(mut self) -> Self {
        self.0.terminating = true;
        self
    }

    /// The work is gone.
    pub fn vanished(mut self) -> Self {
        self.0.vanished = true;
        self
    }

    /// The soak that the work notes began at this time (seconds).
    pub fn soak(mut self, seconds: i64) -> Self {
        self.0.soak_started = Some(at(seconds));
        self
    }

    /// The work does not request the update any more.
    pub fn withdrawn(mut self, withdrawal: Withdrawal) -> Self {
        self.0.withdrawal = withdrawal;
        self
    }

    /// The cluster reports a failure.
    pub fn unhealthy(mut self) -> Self {
        self.0.unhealthy = Some(Arc::from("Operator etcd is degraded"));
        self
    }

    /// What the step is waiting for.
    pub fn cause(mut self, reason: Reason, message: &str) -> Self {
        self.0.cause = Some((reason, Arc::from(message)));
        self
    }
}

impl From<WorkBuilder> for Work {
    fn from(builder: WorkBuilder) -> Work {
        builder.0
    }
}

/// A record of the first attempt at revision `r1`, without stages, in this phase since second 0.
pub fn record(phase: Phase) -> RecordBuilder {
    RecordBuilder(Record {
        attempt: first_attempt(),
        phase,
        reason: Reason::None,
        other_reason: None,
        refused_step: None,
        message: Arc::from(""),
        since: at(0),
        stages: [None; 5],
        from_version: Arc::from("4.11.0"),
        unreadable: false,
    })
}

/// Builds a [`Record`].
#[must_use]
#[derive(Clone, Debug)]
pub struct RecordBuilder(Record);

impl RecordBuilder {
    /// The reason of the phase.
    pub fn reason(mut self, reason: Reason) -> Self {
        self.0.reason = reason;
        self
    }

    /// The record stands for a row that cannot be read.
    pub fn unreadable(mut self) -> Self {
        self.0.unreadable = true;
        self.revision("").reason(Reason::UnreadableRecord)
    }

    /// The hub rejected the work of this step.
    pub fn refused(mut self, step: Step, message: &str) -> Self {
        self.0.refused_step = Some(step);
        self.reason(Reason::WorkRefused).message(message)
    }

    /// The message of the record.
    pub fn message(mut self, message: &str) -> Self {
        self.0.message = Arc::from(message);
        self
    }

    /// The revision that the record is about.
    pub fn revision(mut self, revision: &str) -> Self {
        self.0.attempt.revision = Arc::from(revision);
        self
    }

    /// The retry that the record is about.
    pub fn retry(mut self, token: &str) -> Self {
        self.0.attempt.retry = Arc::from(token);
        self
    }

    /// A stage that started at this time (seconds) and has not ended.
    pub fn stage(mut self, stage: Stage, started: i64) -> Self {
        self.0.stages[stage.index()] = Some(StepRecord::started(at(started)));
        self
    }

    /// A stage that started and ended at this time (seconds).
    pub fn done(mut self, stage: Stage, started: i64, outcome: Outcome) -> Self {
        self.0.stages[stage.index()] = Some(StepRecord {
            started: at(started),
            applied: Some(at(started)),
            finished: Some(at(started)),
            outcome: Some(outcome),
        });
        self
    }

    /// A stage that started and succeeded at this time (seconds).
    pub fn succeeded(self, stage: Stage, started: i64) -> Self {
        self.done(stage, started, Outcome::Succeeded)
    }
}

impl From<RecordBuilder> for Record {
    fn from(builder: RecordBuilder) -> Record {
        builder.0
    }
}
