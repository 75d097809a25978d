//! A model of the cluster-version operator (CVO): how it turns a ClusterVersion, and what it knows besides, into the next
//! status.
//!
//! The simulator and tests use this crate; no product crate does. [`step::step`] is one step of the operator, and each of
//! its parts is usable alone. The model reads no clock, sends no request and draws no random number: the caller passes
//! times, graphs, query results and payloads in. The shipped texts and rules that it follows are described in
//! `docs/design/cvo.md`, and where the model differs from the operator on purpose in `docs/design/cvo-model.md`.

pub mod acceptance;
pub mod cache;
pub mod config_maps;
pub mod diagnostic;
pub mod era;
pub mod failure;
pub mod history;
pub mod metrics;
pub mod precondition;
pub mod progressing;
pub mod promql;
pub mod recommended;
pub mod retrieval;
pub mod risk;
pub mod schema;
pub mod sources;
pub mod step;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod updates;
pub mod upgradeable;
pub mod validation;

pub use step::{Action, Inputs, Memory, Settings, StepOutcome, step};
