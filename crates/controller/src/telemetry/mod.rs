//! What the controller tells about itself: metrics, logs, health, and the admin server that shows them.
//!
//! Owns names, types and label sets of every series and the meaning of ready and alive. Refuses names of clusters and
//! upgrades as labels: those go to logs, reports and events. Nothing here locks or slows the pipeline.

pub mod catalogue;
pub mod health;
pub mod labels;
pub mod logs;
pub mod metrics;
mod process;
pub mod server;
