//! The rules for checkpoints.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Limit, SpecViolation, check_twice, is_lower_case, parse_limit, violation};
use crate::mcu::{ApprovalCheckpoint, CANARIES_COMPLETE, MAX_CHECKPOINTS, UpgradeStrategy};

/// Where a checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointAt {
    /// Before any cluster other than a canary.
    CanariesComplete,
    /// Behind that many clusters.
    Clusters(Limit),
}

/// Reads where a checkpoint is. Anything else than the word, a number or a percentage is `None`.
#[must_use]
pub fn parse_checkpoint(when: &IntOrString) -> Option<CheckpointAt> {
    match when {
        IntOrString::String(text) if text == CANARIES_COMPLETE => Some(CheckpointAt::CanariesComplete),
        when => parse_limit(when, 0).map(CheckpointAt::Clusters),
    }
}

pub(super) fn check_checkpoints(strategy: &UpgradeStrategy, found: &mut Vec<SpecViolation>) {
    let field = "spec.upgradeStrategy.approvals";
    if strategy.approvals.len() > MAX_CHECKPOINTS {
        found.push(violation(
            field,
            format!("may have at most {MAX_CHECKPOINTS} checkpoints"),
        ));
    }
    let mut seen = BTreeSet::new();
    for (index, ApprovalCheckpoint { name, when }) in strategy.approvals.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if !is_lower_case(name, "-") || name.len() > 63 {
            found.push(violation(
                format!("{field}.name"),
                format!(
                    "{name:?} must be at most 63 lower-case letters, digits and -, such as after-canaries"
                ),
            ));
        }
        check_twice(&mut seen, name, &format!("{field}.name"), found);
        let at = parse_checkpoint(when);
        let field = format!("{field}.when");
        if at.is_none() {
            found.push(violation(
                &field,
                "must be CanariesComplete, a number of clusters, or a percentage from 0% to 100% such as 50%",
            ));
        }
        if at == Some(CheckpointAt::CanariesComplete) && strategy.canary_clusters.is_none() {
            found.push(violation(
                &field,
                "CanariesComplete needs spec.upgradeStrategy.canaryClusters; to approve before any cluster starts, set 0",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcu::CanaryClusters;

    fn violations(checkpoints: &[(&str, IntOrString)], with_canaries: bool) -> Vec<String> {
        let strategy = UpgradeStrategy {
            canary_clusters: with_canaries.then(CanaryClusters::default),
            approvals: checkpoints
                .iter()
                .map(|(name, when)| ApprovalCheckpoint {
                    name: (*name).to_owned(),
                    when: when.clone(),
                })
                .collect(),
            ..UpgradeStrategy::default()
        };
        let mut found = Vec::new();
        check_checkpoints(&strategy, &mut found);
        let of = |violation: SpecViolation| violation.field.replace("spec.upgradeStrategy.approvals", "");
        found.into_iter().map(of).collect()
    }

    fn text(when: &str) -> IntOrString {
        IntOrString::String(when.to_owned())
    }

    #[test]
    fn a_checkpoint_has_a_name_and_a_place_that_exists() {
        let good = [
            ("after-canaries", text("CanariesComplete")),
            ("half", text("50%")),
            ("first", IntOrString::Int(0)),
        ];
        assert_eq!(violations(&good, true), Vec::<String>::new());
        assert_eq!(violations(&good, false), ["[0].when"]);
        for bad in [text("half"), text("101%"), text("50"), IntOrString::Int(-1)] {
            assert_eq!(violations(&[("a", bad)], true), ["[0].when"]);
        }
        let ten = IntOrString::Int(10);
        assert_eq!(violations(&[("Half", ten.clone())], true), ["[0].name"]);
        assert_eq!(
            violations(&[("a", ten.clone()), ("a", ten.clone())], true),
            ["[1].name"]
        );
        let names: Vec<String> = (0..11).map(|number| format!("c{number}")).collect();
        let many: Vec<(&str, IntOrString)> = names.iter().map(|name| (name.as_str(), ten.clone())).collect();
        assert_eq!(violations(&many, true), [""]);
    }
}
