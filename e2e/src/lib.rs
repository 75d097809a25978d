//! Whole-system tests: the controller as its own process against a real hub, and the language they are written in.
//!
//! Owns the hub of a test binary ([`TestHub`]), the controller's process ([`ControllerProcess`]), the memory of all
//! that was ever seen on the hub ([`View`], with the rules of [`invariants`] held against every status), fleets with
//! names of their own ([`Scenario`]), the hands that play placement controller and work agents ([`Agent`],
//! [`Players`]) and a proxy that breaks the way to the API server ([`proxy`]). Refuses to know the controller's code:
//! everything is observed through the API server.

pub mod agent;
pub mod audit;
pub mod controller;
pub mod data;
pub mod dump;
pub mod fault_scenario;
pub mod invariants;
pub mod player;
pub mod program;
pub mod proxy;
pub mod sample;
pub mod scenario;
pub mod seen;
pub mod test_hub;
pub mod testbed;
pub mod upgrade;
pub mod view;

pub use agent::Agent;
pub use controller::ControllerProcess;
pub use fault_scenario::FaultScenario;
pub use player::Players;
pub use scenario::Scenario;
pub use seen::{Seen, Work};
pub use test_hub::{TestHub, WorldOptions};
pub use upgrade::Upgrade;
pub use view::View;

use std::time::Duration;

/// How long a test waits for anything that should happen at once.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(40);

/// The version that upgrades of tests ask for.
pub const TARGET: &str = "4.12.0";
