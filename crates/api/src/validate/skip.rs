//! The rules for clusters that are skipped.

use std::collections::BTreeSet;

use super::{SpecViolation, check_cluster, check_twice, says_something, violation};
use crate::mcu::{MAX_SKIPPED, SkipRequest};

/// Longest reason, in characters.
const MAX_REASON: usize = 200;

pub(super) fn check_skipped(skipped: &[SkipRequest], found: &mut Vec<SpecViolation>) {
    let field = "spec.upgradeStrategy.skip";
    if skipped.len() > MAX_SKIPPED {
        found.push(violation(
            field,
            format!("may have at most {MAX_SKIPPED} entries; select fewer clusters instead"),
        ));
    }
    let mut seen = BTreeSet::new();
    for (index, skip) in skipped.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let cluster = format!("{field}.cluster");
        check_cluster(&cluster, &skip.cluster, found);
        check_twice(&mut seen, &skip.cluster, &cluster, found);
        if !says_something(&skip.reason) || skip.reason.chars().count() > MAX_REASON {
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

    fn fields(skipped: &[(&str, &str)]) -> Vec<String> {
        let skipped: Vec<SkipRequest> = skipped
            .iter()
            .map(|(cluster, reason)| SkipRequest {
                cluster: (*cluster).to_owned(),
                reason: (*reason).to_owned(),
                acknowledge_canary: false,
            })
            .collect();
        let mut found = Vec::new();
        check_skipped(&skipped, &mut found);
        let of = |violation: SpecViolation| violation.field.replace("spec.upgradeStrategy.skip", "");
        found.into_iter().map(of).collect()
    }

    #[test]
    fn a_cluster_is_skipped_once_and_with_a_reason() {
        assert_eq!(
            fields(&[("edge-17", "no power until May"), ("edge-18", "x")]),
            Vec::<String>::new()
        );
        assert_eq!(fields(&[("Edge 17", "why")]), ["[0].cluster"]);
        assert_eq!(fields(&[("a", "why"), ("a", "why")]), ["[1].cluster"]);
        assert_eq!(
            fields(&[("a", " "), ("b", &"x".repeat(201))]),
            ["[0].reason", "[1].reason"]
        );
        let many: Vec<String> = (0..501).map(|number| format!("c{number}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "why")).collect();
        assert_eq!(fields(&many), [""]);
    }
}
