//! What a release does to the cluster: `ClusterOperators`, machines and their pools move towards it on the
//! simulated clock, in the order and with the plateaus of real updates.
//!
//! The only writer of `ClusterOperators`, `MachineConfigPools` and Nodes. Hears from the cluster-version operator
//! which version is applied and whether it runs; tells it when it is evicted and when nobody reaches the API
//! server. Everything else it knows is in those objects, so that it can be restarted at any time.

pub mod machines;
pub mod operators;
mod run;
pub mod table;

pub use self::run::{Rollout, Surroundings};
