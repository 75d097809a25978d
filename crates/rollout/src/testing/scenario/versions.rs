//! The versions that clusters run and that are known of them.

use std::sync::Arc;

use super::Scenario;

impl Scenario {
    /// Sets the version that a cluster reports.
    pub fn runs(&mut self, name: &str, version: &str) {
        self.spoke(name, |spoke, _| spoke.version = Arc::from(version));
    }

    /// Sets what is known of the version of a cluster beside its report, which may be late: by its claim, by a row, or because it has told
    /// that when it was asked.
    pub fn is_known_to_run(&mut self, name: &str, version: Option<&str>) {
        self.spoke(name, |spoke, _| spoke.known_version = version.map(Arc::from));
    }
}
