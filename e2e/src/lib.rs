//! Whole-system tests: the controller as a process against a real hub, and the vocabulary of these tests.
//!
//! [`TestHub`] is the hub of a test binary, [`ControllerProcess`] the controller, and [`Scenario`] one test's fleet. [`View`]
//! keeps all objects that were seen on the hub and checks every status against [`invariants`]. [`Agent`] and [`Players`] act
//! as placement controller and work agents, and [`proxy`] injects faults between the controller and the API server.
//!
//! This crate does not use the controller's code: everything is observed through the API server.

pub mod agent;
pub mod audit;
pub mod browser;
pub mod controller;
pub mod data;
pub mod dump;
pub mod fault_scenario;
pub mod invariants;
pub mod player;
pub mod program;
pub mod proxy;
pub mod reported_fleet;
pub mod sample;
pub mod scenario;
pub mod seen;
pub mod test_hub;
pub mod testbed;
pub mod upgrade;
pub mod view;

pub use agent::Agent;
pub use browser::Browser;
pub use controller::ControllerProcess;
pub use fault_scenario::FaultScenario;
pub use player::Players;
pub use reported_fleet::ReportedFleet;
pub use scenario::Scenario;
pub use seen::{Seen, Work};
pub use test_hub::{TestHub, WorldOptions};
pub use upgrade::Upgrade;
pub use view::View;

use std::time::Duration;

/// How long a test waits for anything that should happen at once.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(40);

/// The version that upgrades of tests request.
pub const TARGET: &str = "4.12.0";
