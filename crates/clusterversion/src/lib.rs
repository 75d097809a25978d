//! What a ClusterVersion says about its cluster.
//!
//! A hub learns some values of it by feedback rules ([`feedback::RULES`]), compares them with the target of an upgrade
//! ([`progress`]) and explains why a cluster does not move ([`cause`]). The command line has the whole object: it judges the
//! state of the cluster ([`assess`]) and lists its updates with their risks and what blocks them ([`updates`]).
//!
//! This crate reads no clock and sends no request: the caller passes times, `ConfigMaps` and the object in, and decides
//! whether a feedback value is current. How the cluster-version operator arrives at these values is modelled in `cvo-model`.

pub mod assess;
pub mod cause;
pub mod era;
pub mod feedback;
pub mod gates;
pub mod preflight;
pub mod progress;
pub mod risks;
pub mod types;
pub mod updates;
pub mod upgradeable;
pub mod version;

pub use cause::{Cause, cause, unhealthy};
pub use era::Era;
pub use feedback::{Feedback, ReportedValue, Target};
pub use progress::{Progress, is_unasked, progress};
pub use types::{ClusterVersion, Time};
