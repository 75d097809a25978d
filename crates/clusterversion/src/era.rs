//! Eras: what a release line does in its own way, one question each (`docs/design/cvo.md#eras`).
//!
//! A fleet mixes release lines, so the era is a value and never a compile-time choice. Where minor releases of one line
//! differ, the era is that of the line's newest.

use std::fmt;

use update_graph::Version;

use crate::types::{ClusterVersion, ConditionStatus};

/// A release line, such as 4.16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Era {
    major: u64,
    minor: u64,
}

/// The oldest line that knows conditional updates.
const FIRST: Era = Era::new(4, 10);

impl Era {
    /// The line of a major and a minor version.
    #[must_use]
    pub const fn new(major: u64, minor: u64) -> Self {
        Self { major, minor }
    }

    /// The line of a version; that of 4.10, the first to know conditional updates, for what is no version.
    #[must_use]
    pub fn of(version: &str) -> Self {
        Version::parse(version).map_or(FIRST, |version| Self::new(version.major(), version.minor()))
    }

    /// The era of a recorded object: by the release it runs, unless its own texts tell of a later or an earlier one, as
    /// those of pre-releases at a border do.
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

    const fn since(self, major: u64, minor: u64) -> bool {
        self.major > major || self.major == major && self.minor >= minor
    }

    /// The evaluation text of 4.10 to 4.13: `Exposure to NAME is unknown …`; later `Could not evaluate exposure …`.
    #[must_use]
    pub const fn has_old_evaluation_text(self) -> bool {
        !self.since(4, 14)
    }

    /// The throttling text of 4.10 to 4.13: `client-side throttling: …`; later `evaluation is throttled …`.
    #[must_use]
    pub const fn has_old_throttling_text(self) -> bool {
        !self.since(4, 14)
    }

    /// Reason of an update that none of its risks stands against.
    #[must_use]
    pub const fn not_exposed(self) -> &'static str {
        if self.since(4, 16) {
            "NotExposedToRisks"
        } else {
            "AsExpected"
        }
    }

    /// Whether a risk's name that is no valid reason becomes `ExposedToRisks`; earlier the raw name is the reason.
    #[must_use]
    pub const fn checks_risk_names(self) -> bool {
        self.since(4, 16)
    }

    /// Whether `ExposedToRisks` outdoes `EvaluationFailed` instead of giving `MultipleReasons`.
    #[must_use]
    pub const fn exposure_outdoes_failure(self) -> bool {
        self.since(4, 22)
    }

    /// Whether `acceptRisks` may be opened by its gate.
    #[must_use]
    pub const fn knows_accept_risks(self) -> bool {
        self.since(4, 22)
    }

    /// Minutes between two queries of any kind before the throttle became one second.
    #[must_use]
    pub const fn has_slow_queries(self) -> bool {
        !self.since(4, 12)
    }

    /// Whether the lists survive a failing update service for a day.
    #[must_use]
    pub const fn keeps_lists(self) -> bool {
        self.since(4, 18)
    }

    /// Whether an operator that takes longer than expected makes Failing Unknown.
    #[must_use]
    pub const fn suspects_slow_operators(self) -> bool {
        self.since(4, 16)
    }

    /// Whether giant hops are a precondition.
    #[must_use]
    pub const fn checks_giant_hops(self) -> bool {
        self.since(4, 19)
    }

    /// Whether 4.x may go to 5.0.
    #[must_use]
    pub const fn opens_five(self) -> bool {
        self.since(4, 22)
    }

    /// Whether an update under way makes Upgradeable False.
    #[must_use]
    pub const fn blocks_while_updating(self) -> bool {
        self.since(4, 19)
    }

    /// Whether overrides block patch updates as well.
    #[must_use]
    pub const fn overrides_block_patches(self) -> bool {
        !self.since(4, 22)
    }

    /// Whether texts say "minor or major" where they said "minor".
    #[must_use]
    pub const fn says_major(self) -> bool {
        self.since(4, 22)
    }

    /// Whether Upgradeable is built from risk sources: no sub-conditions, other reasons.
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
    fn each_line_answers_for_itself() {
        let asked = |version: &str| {
            let era = Era::of(version);
            [
                era.has_old_evaluation_text(),
                era.not_exposed() == "NotExposedToRisks",
                era.keeps_lists(),
                era.checks_giant_hops(),
                era.opens_five(),
                era.has_risk_sources(),
            ]
        };
        for (version, expected) in [
            ("4.12.16", [true, false, false, false, false, false]),
            ("4.14.1", [false, false, false, false, false, false]),
            ("4.16.27", [false, true, false, false, false, false]),
            ("4.18.0-rc.1", [false, true, true, false, false, false]),
            ("4.20.3", [false, true, true, true, false, false]),
            ("4.22.0", [false, true, true, true, true, false]),
            ("5.0.0-ec.1", [false, true, true, true, true, true]),
            ("garbage", [true, false, false, false, false, false]),
        ] {
            assert_eq!(asked(version), expected, "{version}");
        }
    }
}
