//! Approvals of plans.

use chrono::TimeDelta;

use super::Scenario;

impl Scenario {
    /// Somebody approves the latest plan of an upgrade at all its checkpoints, for that many seconds or for ever.
    pub fn approve(&mut self, upgrade: usize, seconds: Option<i64>) {
        self.watch.something_happens();
        let expires = seconds.map(|seconds| self.now + TimeDelta::seconds(seconds));
        self.upgrades[upgrade].approve(None, self.now, expires);
    }

    /// The same at one checkpoint, by its place in the spec.
    pub fn approve_one(&mut self, upgrade: usize, checkpoint: usize, seconds: Option<i64>) {
        let expires = seconds.map(|seconds| self.now + TimeDelta::seconds(seconds));
        self.upgrades[upgrade].approve(Some(checkpoint), self.now, expires);
    }

    /// Somebody deletes the approvals of one checkpoint, by its name.
    pub fn disapprove_one(&mut self, upgrade: usize, checkpoint: &str) {
        let approvals = &mut self.upgrades[upgrade].approvals;
        approvals.retain(|approval| *approval.checkpoint != *checkpoint);
    }

    /// Somebody deletes all approvals of an upgrade.
    pub fn disapprove(&mut self, upgrade: usize) {
        self.upgrades[upgrade].approvals.clear();
    }
}
