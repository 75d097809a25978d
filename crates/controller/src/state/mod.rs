//! What this process keeps in memory: the shared context, one entry per upgrade, waits after failed writes,
//! and the schedule of passes. All of it can be rebuilt from the hub.

pub mod asked_for;
pub mod backoff;
pub(crate) mod changes;
pub mod context;
pub mod freshness;
mod in_force;
pub mod observed;
pub mod operation_limit;
pub mod orphan_search;
pub mod orphans;
pub mod schedule;
pub mod settings;
pub mod upgrade;
