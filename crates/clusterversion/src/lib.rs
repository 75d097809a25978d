//! The law: what the cluster-version operator (CVO) does with a ClusterVersion, and what the values it publishes mean.
//!
//! One step of the operator is [`law::step`]; its parts are usable alone. Of a hub's side this owns the feedback rules it
//! asks for ([`feedback::RULES`]), their reading against a target ([`progress`]) and the reason why a cluster does not move
//! ([`cause`]). Refuses clocks, clients and ManifestWorks: times, graphs, query results and payloads are passed in, and
//! whether a value is fresh on the level of the work is judged by the caller.

pub mod acceptance;
pub mod assess;
pub mod cache;
pub mod cause;
pub mod diagnostic;
pub mod era;
pub mod failure;
pub mod feedback;
pub mod gates;
pub mod history;
pub mod law;
pub mod metrics;
pub mod precondition;
pub mod progress;
pub mod progressing;
pub mod promql;
pub mod recommended;
pub mod recorded;
pub mod retrieval;
pub mod risk;
pub mod sources;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod types;
pub mod updates;
pub mod upgradeable;
pub mod validation;
pub mod version;
pub mod view;

pub use cause::{Cause, cause, unhealthy};
pub use era::Era;
pub use feedback::{Feedback, Target, Value};
pub use law::{Effect, Inputs, Memory, Outcome, Settings, step};
pub use progress::{Progress, progress};
pub use types::{ClusterVersion, Time};
