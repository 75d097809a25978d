//! What the controller promises (`docs/design/rules.md`), one named test each, against a real hub that all of them share.
//!
//! The controller runs beside them as the `ServiceAccount` of `deploy/`. Each test has its own namespace and clusters
//! and acts as placement controller and work agents by writing PlacementDecisions and the status of ManifestWorks.

mod abort;
mod admission;
mod approvals;
mod batching;
mod canaries;
mod causes;
mod changes;
mod conditions;
mod gitops;
mod operators;
mod ownership;
mod platform;
mod post_action;
mod pre_action;
mod preflight;
mod reports;
mod restore;
mod retry;
mod selection;
mod skip;
mod soak;
mod stories;
mod strategy;
mod surface;
mod windows;
