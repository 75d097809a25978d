//! Simulated clusters for a real hub: the work agents of thousands of clusters with the clusters behind them in memory
//! ([`Agents`]), and single clusters, each on its own API server ([`spoke`]).
//!
//! The modules of the simulated agents, each of which uses only those before it:
//! - [`fields`], [`seeded_rng`], [`run_levels`], [`fault`], [`catalog`]: basics
//! - [`store`]: the objects of one cluster under the rules of an API server
//! - [`platform`]: the cluster's controllers (ClusterVersion, Jobs, workloads) on a scaled clock
//! - [`work`], [`feedback`], [`conditions`]: a ManifestWork as the agent reads and reports it
//! - [`agent`]: one agent as a pure function of a work, a [`cluster`] and a time
//! - [`scenario`]: which cluster gets which faults
//! - [`hub`]: everything with I/O: watches, timers, a limited number of writes at a time

pub mod agent;
pub mod catalog;
pub mod cluster;
pub mod conditions;
pub mod fault;
pub mod feedback;
pub mod fields;
pub mod hub;
pub mod platform;
pub mod run_levels;
pub mod scenario;
pub mod seeded_rng;
#[expect(
    clippy::disallowed_methods,
    reason = "a cluster with an API server of its own lives in real time"
)]
pub mod spoke;
pub mod store;
pub mod work;

pub use fault::{Fault, Faults};
pub use hub::{Agents, Builder, Stats};
pub use platform::Pace;
pub use scenario::Scenario;
