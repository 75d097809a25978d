//! The types of planning: the request, the observation, the records and the plan.

mod approval;
mod fleet;
mod plan;
mod policy;
mod reason;
mod record;
mod retry;

pub use api::names::Step;
pub use api::report::{Outcome, Phase, Stage};
pub use api::validate::Limit;

pub use approval::{
    Checkpoint, CheckpointPlace, CheckpointProgress, CheckpointState, GivenApproval, HashedCanary,
    KnownApprovals, PlanHash,
};
pub use fleet::{
    Busy, Cluster, ClusterBackoff, Eligibility, Fleet, LeftOut, Preflight, Rival, RivalHold, Selection,
    StepStatus, StepWork, Withdrawal, Work, WorkerPools,
};
pub use plan::{
    ActionCounts, ClusterState, Counts, DeleteReason, FutureStarts, Operation, OperationKind, Outlook, Plan,
    StallReason, Summary, UpdateKind,
};
pub use policy::{Hold, Policy, StepHash};
pub use reason::Reason;
pub(crate) use record::AGAIN;
pub use record::{Attempt, MAX_RETRY_BYTES, Record, StepRecord};
pub use retry::{PendingRetry, RetryScope};
