//! Builders of policies and fleets, and a scenario that carries out plans with a hub, agents and faults.
//!
//! Tests of several crates share this module. It decides nothing that the planner decides: a scenario only carries
//! out plans, and [`Scenario::faults`] returns the rules that it saw violated.

mod build;
mod hub;
mod monitor;
mod scenario;
mod script;
mod upgrade;

pub use build::{
    FleetBuilder, PolicyBuilder, RecordBuilder, WorkBuilder, at, first_attempt, fleet, policy, record,
    stand_in, work,
};
pub use scenario::{Latency, RowChange, Scenario};
pub use script::{Rng, Script};
