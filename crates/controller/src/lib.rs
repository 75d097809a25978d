//! The controller: watch → index → resolve → observe → plan → check → commit → apply → record result.
//!
//! Watches feed the index, observation turns it into a fleet, the planner decides, the checker rejects unsafe
//! plans, and writers execute the others. Status and reports are writes, too. Every replica
//! watches, but only the leader plans and writes.

// Tests may read the time and draw random numbers.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod admission;
pub mod apply;
mod archive;
pub mod clock;
pub mod connect;
pub mod controller;
pub mod events;
#[cfg(test)]
mod fixture;
pub mod flags;
pub mod gauges;
pub mod graphs;
pub mod health;
pub mod lease;
pub mod metrics;
mod phase_log;
pub mod published;
mod rate;
pub mod reconcile;
pub mod report;
pub mod server;
pub mod shutdown;
pub mod sources;
pub mod state;
mod sweep;
#[cfg(test)]
mod test_hub;
#[cfg(test)]
mod tests;
pub mod watch;
