//! How release lines differ in what a ClusterVersion says, one question each (`docs/design/cvo.md#eras`).
//!
//! A fleet mixes release lines, so the era is a value and not a compile-time choice. If patch releases of one line differ, the
//! newest one counts.

use std::fmt;

use update_graph::Version;

use crate::types::{ClusterVersion, ConditionStatus};

/// A release line, such as 4.16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Era {
    major: u64,
    minor: u64,
}

/// The oldest line with conditional updates.
const FIRST: Era = Era::new(4, 10);

impl Era {
    /// The line of a major and a minor version.
    #[must_use]
    pub const fn new(major: u64, minor: u64) -> Self {
        Self { major, minor }
    }

    /// The line of a version; 4.10, the first line with conditional updates, if the text is not a version.
    #[must_use]
    pub fn of(version: &str) -> Self {
        Version::parse(version).map_or(FIRST, |version| Self::new(version.major(), version.minor()))
    }

    /// The era of a recorded object. It follows from the release that the cluster runs, unless the object's own texts are
    /// those of a later or an earlier line, as pre-releases at a border have them.
    #[must_use]
    pub fn recorded(object: &ClusterVersion) -> Self {
        let era = Self::of(&object.status.desired.version);
        let mut conditions = object
            .status
            .conditional_updates
            .iter()
            .filter_map(|update| update.recommended());
        let (old_reason, new_reason) = (Self::new(4, 15), Self::new(4, 16));
        let spoken = conditions
            .clone()
            .find_map(|condition| match condition.reason.as_str() {
                "AsExpected" if condition.status == ConditionStatus::True => Some(old_reason.min(era)),
                "NotExposedToRisks" => Some(new_reason.max(era)),
                _ => None,
            });
        let era = spoken.unwrap_or(era);
        let old_text = conditions.any(|condition| {
            condition
                .message
                .contains(" is unknown due to an evaluation failure: ")
        });
        if old_text { era.min(Self::new(4, 13)) } else { era }
    }

    /// Whether this line is that of the given version or a later one.
    #[must_use]
    pub const fn since(self, major: u64, minor: u64) -> bool {
        self.major > major || self.major == major && self.minor >= minor
    }

    /// Whether a failed evaluation reads `Exposure to NAME is unknown …` (4.10 to 4.13) and not `Could not evaluate exposure …`.
    #[must_use]
    pub const fn has_old_evaluation_text(self) -> bool {
        !self.since(4, 14)
    }

    /// Whether overrides block patch updates too.
    #[must_use]
    pub const fn overrides_block_patches(self) -> bool {
        !self.since(4, 22)
    }

    /// Whether Upgradeable is derived from risk sources, with other reasons and without sub-conditions.
    #[must_use]
    pub const fn has_risk_sources(self) -> bool {
        self.since(4, 23)
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_release_line_has_its_own_answers() {
        let answers = |version: &str| {
            let era = Era::of(version);
            [
                era.has_old_evaluation_text(),
                era.overrides_block_patches(),
                era.has_risk_sources(),
            ]
        };
        for (version, expected) in [
            ("4.12.16", [true, true, false]),
            ("4.14.1", [false, true, false]),
            ("4.22.0", [false, false, false]),
            ("5.0.0-ec.1", [false, false, true]),
            ("garbage", [true, true, false]),
        ] {
            assert_eq!(answers(version), expected, "{version}");
        }
    }
}
