//! The law: what the cluster-version operator (CVO) does with a ClusterVersion, and what the values it publishes mean.
//!
//! Owns the feedback rules a hub asks for ([`feedback::RULES`]), their reading against a target ([`progress`]) and the
//! reason why a cluster does not move ([`cause`]). Refuses clocks, clients and ManifestWorks: whether a value is
//! fresh on the level of the work is judged by the caller.

pub mod cause;
pub mod feedback;
pub mod progress;

pub use cause::{Cause, cause, unhealthy};
pub use feedback::{Feedback, Target, Value};
pub use progress::{Progress, progress};
