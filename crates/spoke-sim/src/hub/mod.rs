//! The connection to the hub: watches, timers and writes.
//!
//! A watch of ManifestWorks and one of ManagedClusters feed a single task that owns the clock. Writes have a limited
//! concurrency: at most one at a time per work, and only when something changed.

mod agents;
mod agents_state;
mod clusters;
mod engine;
mod options;
mod serve;
#[cfg(test)]
mod tests;
mod timers;
mod view;
mod work_state;
mod write;

pub use self::agents::{Agents, Builder, StartError};
pub use self::clusters::Stats;
pub use self::options::{Filter, Options};
