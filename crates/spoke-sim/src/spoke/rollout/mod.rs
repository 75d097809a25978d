//! The rollout of a release: `ClusterOperators`, machines and their pools are updated on the simulated clock, in the order and
//! with the plateaus of real updates.
//!
//! This is the only writer of `ClusterOperators`, `MachineConfigPools` and Nodes. The cluster-version operator reports which
//! version is applied and whether it runs. In turn it learns here when it is evicted and when the API server cannot be reached.
//! All other state is in the objects, so that the simulator can restart at any time.

pub mod machines;
pub mod operators;
mod run;

pub use self::run::{MachineEvents, Rollout};
