//! The edge: the hub as watches and writes, clusters as timers.
//!
//! One watch over ManifestWorks and one over ManagedClusters feed a single task that owns the clock; writes go
//! out with bounded concurrency, at most one per work at a time, and only when something changed.

mod agenda;
mod agents;
mod engine;
mod options;
mod serve;
mod slot;
#[cfg(test)]
mod tests;
mod view;
mod world;
mod write;

pub use self::agents::{Agents, Builder, StartError};
pub use self::options::{Filter, Options};
pub use self::world::Stats;
