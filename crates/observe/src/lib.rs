//! From the hub's objects to the fleet that the planner sees.
//!
//! The [`index`] reduces what the watches deliver to the fields that planning uses, and [`feedback`] evaluates the status
//! of works. [`selection`] computes which clusters an upgrade selects, [`eligibility`] whether a cluster may start, and
//! [`ownership`] which other upgrade holds it, and [`preflight`] which clusters are asked before they start. [`fleet`] puts them together with what the controller knows about the
//! upgrade ([`input`]), such as the records in its reports ([`record`]). [`profile`] is what estimates of its time need.
//!
//! This crate sends no request and reads no clock: the caller passes objects and times in.

pub mod eligibility;
pub mod feedback;
#[cfg(test)]
mod fixture;
pub mod fleet;
pub mod index;
pub mod input;
mod left_out;
mod maintenance;
pub mod ownership;
pub mod preflight;
pub mod profile;
pub mod record;
pub mod selection;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod writes;

pub use maintenance::KnownCalendars;
