//! The rules for clusters that a spec leaves out.

use std::collections::BTreeSet;

use super::{SpecViolation, check_cluster, check_twice, says_something, violation};
use crate::mcu::{LeftOutCluster, MAX_LEFT_OUT, UpgradeStrategy};

/// Longest reason, in characters.
const MAX_REASON: usize = 200;

pub(super) fn check_left_out(strategy: &UpgradeStrategy, found: &mut Vec<SpecViolation>) {
    check_list("spec.upgradeStrategy.skip", &strategy.skip, found);
    let field = "spec.upgradeStrategy.abort";
    check_list(field, &strategy.abort, found);
    let skipped: BTreeSet<&str> = strategy.skip.iter().map(|skip| skip.cluster.as_str()).collect();
    for (index, abort) in strategy.abort.iter().enumerate() {
        if skipped.contains(abort.cluster.as_str()) {
            found.push(violation(
                format!("{field}[{index}].cluster"),
                format!(
                    "{} is also in spec.upgradeStrategy.skip; remove it from one of the two",
                    abort.cluster
                ),
            ));
        }
    }
}

fn check_list(field: &str, clusters: &[LeftOutCluster], found: &mut Vec<SpecViolation>) {
    if clusters.len() > MAX_LEFT_OUT {
        found.push(violation(
            field,
            format!("may have at most {MAX_LEFT_OUT} entries; select fewer clusters instead"),
        ));
    }
    let mut seen = BTreeSet::new();
    for (index, one) in clusters.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let cluster = format!("{field}.cluster");
        check_cluster(&cluster, &one.cluster, found);
        check_twice(&mut seen, &one.cluster, &cluster, found);
        if !says_something(&one.reason) || one.reason.chars().count() > MAX_REASON {
            found.push(violation(
                format!("{field}.reason"),
                format!("must say why, in at most {MAX_REASON} characters"),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(clusters: &[(&str, &str)]) -> Vec<LeftOutCluster> {
        let one = |(cluster, reason): &(&str, &str)| LeftOutCluster {
            cluster: (*cluster).to_owned(),
            reason: (*reason).to_owned(),
            acknowledge_canary: false,
        };
        clusters.iter().map(one).collect()
    }

    fn fields(strategy: &UpgradeStrategy) -> Vec<String> {
        let mut found = Vec::new();
        check_left_out(strategy, &mut found);
        let of = |violation: SpecViolation| violation.field.replace("spec.upgradeStrategy.", "");
        found.into_iter().map(of).collect()
    }

    #[test]
    fn a_cluster_is_left_out_once_and_with_a_reason() {
        let skip = |clusters: &[(&str, &str)]| {
            fields(&UpgradeStrategy {
                skip: left_out(clusters),
                ..UpgradeStrategy::default()
            })
        };
        assert_eq!(
            skip(&[("edge-17", "no power until May"), ("edge-18", "x")]),
            Vec::<String>::new()
        );
        assert_eq!(skip(&[("Edge 17", "why")]), ["skip[0].cluster"]);
        assert_eq!(skip(&[("a", "why"), ("a", "why")]), ["skip[1].cluster"]);
        assert_eq!(
            skip(&[("a", " "), ("b", &"x".repeat(201))]),
            ["skip[0].reason", "skip[1].reason"]
        );
        let many: Vec<String> = (0..501).map(|number| format!("c{number}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "why")).collect();
        assert_eq!(skip(&many), ["skip"]);
    }

    #[test]
    fn a_cluster_is_either_skipped_or_aborted() {
        let strategy = UpgradeStrategy {
            skip: left_out(&[("a", "why")]),
            abort: left_out(&[("b", " "), ("a", "why")]),
            ..UpgradeStrategy::default()
        };
        assert_eq!(fields(&strategy), ["abort[0].reason", "abort[1].cluster"]);
    }
}
