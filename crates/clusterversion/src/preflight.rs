//! Whether a cluster would take an update, before it is asked to (`docs/design/preflight.md`).
//!
//! [`Facts`] are what is known of a cluster, and [`judge`] compares them with the update that is planned. A fact that is missing
//! is unknown and never fine.

mod facts;
mod judge;
pub mod pools;
pub mod recipe;

pub use facts::{
    AppliedUpdate, Fact, Facts, Gate, Health, Missing, Offer, OfferedRisk, PoolGroup, PoolState, Pools,
};
pub use judge::{
    PlannedUpdate, PreflightFinding, PreflightReason, Request, Verdict, gates_of_update, judge, lacks_target,
    request,
};
pub use update_graph::query::UpdatesTo;

#[cfg(test)]
mod tests;
