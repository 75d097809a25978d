//! Simulated clusters for a real hub: the work agents of thousands of clusters and what is behind them, and single
//! clusters on API servers of their own ([`spoke`]).
//!
//! Layers of the former, each of which knows only those before it:
//! - [`fields`], [`dice`], [`fault`], [`catalog`]: words
//! - [`store`]: the objects of one cluster under the rules of an API server
//! - [`platform`]: the cluster's controllers (ClusterVersion, Jobs, workloads) on a scaled clock
//! - [`work`], [`feedback`], [`conditions`]: a ManifestWork as the agent reads and reports it
//! - [`agent`]: one agent as a pure machine over one [`cluster`]
//! - [`scenario`]: which cluster gets which faults
//! - [`hub`]: the edge: watches, a timer heap, bounded writes
//!
//! [`Agents`] and [`spoke::Spoke`] are the doors for programs, the binary `spoke-sim` the one for people.

pub mod agent;
pub mod catalog;
pub mod cluster;
pub mod conditions;
pub mod dice;
pub mod fault;
pub mod feedback;
pub mod fields;
pub mod hub;
pub mod platform;
pub mod scenario;
pub mod spoke;
pub mod store;
pub mod work;

pub use fault::{Fault, Faults};
pub use hub::{Agents, Builder, Stats};
pub use platform::Pace;
pub use scenario::Scenario;
