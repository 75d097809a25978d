//! The study: pure planning of a fleet upgrade.
//!
//! [`plan`] takes a [`Fleet`] (what was observed), a [`Policy`] (what was asked for) and the time, and says what to
//! write next, where every cluster stands and why it does not move. It has no clock, no client and no random order:
//! equal input gives an equal [`Plan`]. [`check`] is written apart from it and refuses a plan that breaks a safety rule.
//!
//! The rules are explained in `docs/design/rules.md`, which comments link to.

pub mod check;
mod cluster;
mod downgrade;
pub mod fleet;
mod outlook;
pub mod phase;
mod plan;
pub mod policy;
pub mod reason;
pub mod record;
mod requeue;
mod start;
mod steps;
mod window;
mod wording;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[cfg(test)]
mod tests;

pub use fleet::{Backoff, Busy, Cluster, Fleet, Reading, Rival, RivalHold, Selection, Slot, Standing, Work};
pub use outlook::{ActionCounts, Counts, Outlook, StallReason, Summary};
pub use phase::{Phase, Step};
pub use plan::{Action, ClusterState, DeleteReason, Plan, UpdateKind, plan};
pub use policy::{Hold, Limit, Policy, StepHash};
pub use reason::Reason;
pub use record::{Attempt, LONGEST_RETRY, Outcome, Record, Stage, StepRecord};
