//! The hall: watch → index → observe → validate → plan → check → apply → report.
//!
//! One way through: watches feed the index, observation turns it into a fleet, the planner decides, the checker refuses
//! unsafe plans, writers carry out, and status and reports tell what was observed afterwards. Every replica watches;
//! only the leader plans and writes.

mod action_limit;
pub mod admission;
pub mod answer;
pub mod apply;
mod archive;
pub mod backoff;
pub mod clock;
pub mod connect;
pub mod deletion;
pub mod desk;
pub mod events;
#[cfg(test)]
mod fixture;
pub mod flags;
pub mod freshness;
pub mod gauges;
pub mod hall;
#[cfg(test)]
mod hub;
pub mod index;
mod jobs;
pub mod lease;
pub mod observe;
mod orphans;
pub mod pipeline;
pub mod policy;
pub mod report;
pub mod restore;
pub mod run;
pub mod schedule;
pub mod selection;
pub mod shutdown;
pub mod standing;
mod sweep;
pub mod telemetry;
pub mod watch;
pub mod works;
