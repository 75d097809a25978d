//! Pure planning of a fleet upgrade.
//!
//! [`plan`] takes a [`Fleet`] (what was observed), a [`Policy`] (what was requested) and the time. It returns what to
//! write next, the state of every cluster, and why a cluster does not move. It has no clock, no client and no random
//! order, so equal input gives an equal [`Plan`]. [`check`] is written independently and rejects a plan that violates
//! a safety rule.
//!
//! Comments link to `docs/design/rules.md`, which explains the rules.

pub mod causes;
pub mod check;
pub mod forecast;
pub mod maintenance;
pub mod model;
mod planner;
pub mod remedy;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[cfg(test)]
mod tests;
mod urgency;

pub use model::*;
pub use planner::{
    ASKED_AHEAD, LEAVE_DEBOUNCE, TOLERATED_LEAD, duration, hash_of_plan, is_newer, is_version, plan,
};
pub use urgency::Urgency;
