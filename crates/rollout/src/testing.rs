//! Fluent builders of policies and fleets, and a toy world that carries plans out: hub, agents, faults.
//!
//! Owns what tests of several crates share. It refuses to decide anything the planner decides: the world only obeys, and
//! [`World::faults`] tells what it saw go wrong.

mod build;
mod hub;
mod script;
mod upgrade;
mod watch;
mod world;

pub use build::{FleetBuilder, PolicyBuilder, RecordBuilder, WorkBuilder, at, fleet, policy, record, work};
pub use script::{Rng, Script};
pub use world::{Latency, World};
