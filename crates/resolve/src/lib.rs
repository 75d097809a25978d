//! What an upgrade asks for, from its object to the planner's input.
//!
//! [`spec`] turns a spec into a policy, or into the rules that it violates, and [`works`] renders the ManifestWorks that it
//! needs. [`origin`] finds out whether its object was restored from a backup. [`decode`] reads as much of an object as possible.
//!
//! [`lists`] and [`snapshot`] go the whole way without watches: from the lists of a hub to what the planner sees of an upgrade.
//!
//! This crate sends no request and reads no clock: the caller passes objects and times in. So the controller and the
//! rehearsal of `kubectl mcu` go the same way.

pub mod decode;
pub mod lists;
pub mod origin;
pub mod retry;
pub mod snapshot;
pub mod spec;
pub mod works;
