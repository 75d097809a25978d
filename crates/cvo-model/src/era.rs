//! How release lines differ in what the operator does, one question each (`docs/design/cvo.md#eras`). Differences that also
//! matter to readers of a ClusterVersion are in [`Era`] itself.

use clusterversion::Era;

/// The behavior of the operator in a release line.
pub trait Behavior: Copy {
    /// Whether a throttled evaluation reads `client-side throttling: …` (4.10 to 4.13) and not `evaluation is throttled …`.
    #[must_use]
    fn has_old_throttling_text(self) -> bool;

    /// Reason of an update that is recommended because none of its risks applies.
    #[must_use]
    fn not_exposed(self) -> &'static str;

    /// Whether the name of a risk that is not a valid reason is replaced by `ExposedToRisks`. Earlier the name is used as it is.
    #[must_use]
    fn checks_risk_names(self) -> bool;

    /// Whether `ExposedToRisks` replaces `EvaluationFailed`. Earlier the two become `MultipleReasons`.
    #[must_use]
    fn exposure_outdoes_failure(self) -> bool;

    /// Whether there is a feature gate for `acceptRisks`.
    #[must_use]
    fn knows_accept_risks(self) -> bool;

    /// Whether ten minutes have to pass between two queries. Later it is one second.
    #[must_use]
    fn has_slow_queries(self) -> bool;

    /// Whether the lists of updates are kept for a day while the update service fails.
    #[must_use]
    fn keeps_lists(self) -> bool;

    /// Whether Failing is Unknown while an operator takes longer than expected.
    #[must_use]
    fn suspects_slow_operators(self) -> bool;

    /// Whether there is a precondition against updates over several minor versions.
    #[must_use]
    fn checks_giant_hops(self) -> bool;

    /// Whether 4.x may be updated to 5.0.
    #[must_use]
    fn opens_five(self) -> bool;

    /// Whether Upgradeable is False during an update.
    #[must_use]
    fn blocks_while_updating(self) -> bool;

    /// Whether texts say "minor or major" where earlier ones say "minor".
    #[must_use]
    fn says_major(self) -> bool;
}

impl Behavior for Era {
    fn has_old_throttling_text(self) -> bool {
        !self.since(4, 14)
    }

    fn not_exposed(self) -> &'static str {
        if self.since(4, 16) {
            "NotExposedToRisks"
        } else {
            "AsExpected"
        }
    }

    fn checks_risk_names(self) -> bool {
        self.since(4, 16)
    }

    fn exposure_outdoes_failure(self) -> bool {
        self.since(4, 22)
    }

    fn knows_accept_risks(self) -> bool {
        self.since(4, 22)
    }

    fn has_slow_queries(self) -> bool {
        !self.since(4, 12)
    }

    fn keeps_lists(self) -> bool {
        self.since(4, 18)
    }

    fn suspects_slow_operators(self) -> bool {
        self.since(4, 16)
    }

    fn checks_giant_hops(self) -> bool {
        self.since(4, 19)
    }

    fn opens_five(self) -> bool {
        self.since(4, 22)
    }

    fn blocks_while_updating(self) -> bool {
        self.since(4, 19)
    }

    fn says_major(self) -> bool {
        self.since(4, 22)
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
            assert_eq!(answers(version), expected, "{version}");
        }
    }
}
