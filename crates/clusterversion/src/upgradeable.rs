//! Which updates condition Upgradeable=False blocks.

use crate::era::Era;
use crate::types::ClusterVersion;
use crate::version::{Hop, hop, parse};

/// Whether Upgradeable=False blocks updates within the minor version as well. Overrides do that up to 4.21
/// (`docs/design/cvo.md#overrides`).
#[must_use]
pub fn blocks_patch_updates(object: &ClusterVersion) -> bool {
    object.has_overrides() && Era::of(&object.status.desired.version).overrides_block_patches()
}

/// Whether Upgradeable=False blocks an update between these versions: the update leads to another minor or major version,
/// or one of the two is not a version, so that this cannot be ruled out.
#[must_use]
pub fn blocks(from: &str, to: &str) -> bool {
    match (parse(from), parse(to)) {
        (Some(from), Some(to)) => matches!(hop(&from, &to), Hop::Minor | Hop::Major),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_to_another_minor_version_and_those_that_cannot_be_compared_are_blocked() {
        for (from, to, expected) in [
            ("4.14.1", "4.14.2", false),
            ("4.14.1", "4.15.0", true),
            ("4.22.1", "5.0.0", true),
            ("4.15.1", "4.14.9", false),
            ("4.14.1", "nightly", true),
        ] {
            assert_eq!(blocks(from, to), expected, "{from} {to}");
        }
    }
}
