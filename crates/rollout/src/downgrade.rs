//! Whether a step would take a cluster back to an older version than it runs.

use crate::cluster::Machine;
use crate::phase::Step;
use crate::policy::Policy;

/// True when a version is newer than the target, as semantic versions order: a pre-release comes before its release, build
/// metadata does not count. False where one of them is unknown or no version, for then it cannot be judged.
fn is_newer(version: &str, target: &str) -> bool {
    let (Ok(version), Ok(target)) = (semver::Version::parse(version), semver::Version::parse(target)) else {
        return false;
    };
    version.cmp_precedence(&target).is_gt()
}

/// True when the policy does not allow a cluster that runs this version to be started towards the target.
pub(crate) fn is_refused(policy: &Policy, version: &str) -> bool {
    !policy.allow_downgrade && policy.wants(Step::Platform) && is_newer(version, &policy.target)
}

impl Machine<'_> {
    /// Why a step must not begin, if it leads to an older version than the cluster runs. What comes after the platform
    /// changes no version.
    pub(crate) fn downgrade(&self, step: Step) -> Option<String> {
        let version = &self.cluster.version;
        (step <= Step::Platform && is_refused(self.policy, version)).then(|| {
            format!(
                "runs {version}, which is newer than {}; set spec.clusterVersion.allowDowngrade to insist, or take the cluster out of the selection",
                self.policy.target
            )
        })
    }
}
