//! The metrics and health checks of the controller, and the admin server that exposes them. The crate
//! [`telemetry`](::telemetry) contains what the update service also uses.
//!
//! Names of clusters and upgrades are never labels; they are in logs, reports and Events. Nothing here blocks
//! or slows the main loop.

pub mod catalogue;
pub mod health;
pub mod labels;
#[cfg(test)]
mod logs_tests;
pub mod metrics;
pub mod server;
