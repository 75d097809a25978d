//! How long the steps of an upgrade may take, by its spec.

use std::time::Duration;

use api::names::Step;
use serde_json::Value;

use super::fields::{duration, text};

/// `operatorsUpgradeTimeout`, if a spec does not say it.
pub(super) const OPERATORS_TIMEOUT: Duration = Duration::from_mins(20);

/// How long steps may take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    pub update: Duration,
    pub operators: Duration,
    /// Each of the two actions.
    pub action: Duration,
}

impl Limits {
    pub(super) fn of(spec: &Value) -> Self {
        let limit = |name: &str| duration(text(spec, &format!("/upgradeStrategy/{name}")));
        let or = |limit: Duration, default: Duration| if limit.is_zero() { default } else { limit };
        let update = limit("clusterUpgradeTimeout");
        Self {
            update,
            operators: or(limit("operatorsUpgradeTimeout"), OPERATORS_TIMEOUT),
            action: or(limit("actionTimeout"), update),
        }
    }

    pub(super) const fn of_step(self, step: Step) -> Duration {
        match step {
            Step::PreAction | Step::PostAction => self.action,
            Step::Platform => self.update,
            Step::Operators => self.operators,
        }
    }
}
