//! The independent checker.
use chrono::{DateTime, Utc};
/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {}
/// Checks.
#[must_use]
pub fn check(_: DateTime<Utc>, _: &crate::Policy, _: &crate::Fleet, _: &crate::Plan) -> Vec<Violation> {
    Vec::new()
}
