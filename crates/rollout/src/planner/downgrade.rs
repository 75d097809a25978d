//! Whether a step would take a cluster to an older version than it runs.

use crate::model::{Policy, Step};

/// True when a text is a version that can be compared with others.
#[must_use]
pub fn is_version(text: &str) -> bool {
    semver::Version::parse(text).is_ok()
}

/// True when a version is newer than the target in semantic version order: a pre-release precedes its release, and
/// build metadata does not count. False when one of them is unknown or not a version, because they cannot be compared
/// then.
#[must_use]
pub fn is_newer(version: &str, target: &str) -> bool {
    let (Ok(version), Ok(target)) = (semver::Version::parse(version), semver::Version::parse(target)) else {
        return false;
    };
    version.cmp_precedence(&target).is_gt()
}

/// True when the policy does not allow a cluster that runs this version to start towards the target.
pub(crate) fn is_refused(policy: &Policy, version: &str) -> bool {
    !policy.allow_downgrade && policy.wants(Step::Platform) && is_newer(version, &policy.target)
}
