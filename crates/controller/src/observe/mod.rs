//! From the hub's objects to the fleet that the planner sees. No I/O.

pub mod eligibility;
pub mod feedback;
pub mod fleet;
pub mod index;
pub mod selection;
