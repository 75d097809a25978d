//! Risk evaluation: which rules an operator can evaluate, and whether a cluster is exposed
//! (`docs/design/cvo.md#risk-evaluation`).
//!
//! The caller evaluates the queries, usually through the [`cache`](crate::cache).

use clusterversion::risks::Exposure;
use clusterversion::types::{MatchingRule, Risk};

/// The type of a rule, with what is needed to evaluate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule<'a> {
    Always,
    PromQl(&'a str),
}

/// Reads a rule.
fn recognise(rule: &MatchingRule) -> Result<Rule<'_>, String> {
    match (rule.kind.as_str(), &rule.promql) {
        ("Always", None) => Ok(Rule::Always),
        ("Always", Some(_)) => Err("the 'promql' property is not supported for 'type: Always'".to_owned()),
        ("PromQL", None) => Err("the 'promql' property must be set for 'type: PromQL'".to_owned()),
        ("PromQL", Some(query)) if query.promql.is_empty() => {
            Err("the 'promql.promql' property must be a non-empty string for 'type: PromQL'".to_owned())
        }
        ("PromQL", Some(query)) => Ok(Rule::PromQl(&query.promql)),
        (kind, _) => Err(format!("skipping unrecognized cluster condition type {kind:?}")),
    }
}

/// The known and valid rules, and what is wrong with the others.
#[must_use]
pub fn prune(rules: &[MatchingRule]) -> (Vec<MatchingRule>, Vec<String>) {
    let mut valid = Vec::new();
    let mut problems = Vec::new();
    for rule in rules {
        match recognise(rule) {
            Ok(_) => valid.push(rule.clone()),
            Err(why) => problems.push(why),
        }
    }
    (valid, problems)
}

/// The queries of a risk, in the order of its rules.
pub fn queries(risk: &Risk) -> impl Iterator<Item = &str> {
    risk.matching_rules
        .iter()
        .filter_map(|rule| match recognise(rule) {
            Ok(Rule::PromQl(query)) => Some(query),
            _ => None,
        })
}

/// The rules of a risk as text. Risks with equal rules are evaluated once.
#[must_use]
pub fn identity(risk: &Risk) -> String {
    serde_json::to_string(&risk.matching_rules).unwrap_or_else(|_| risk.name.clone())
}

/// Whether a cluster is exposed. The first rule that can be evaluated decides. Without any known rule the cluster is not
/// exposed.
///
/// # Errors
/// The errors, if no rule could be evaluated.
pub fn matches(rules: &[MatchingRule], mut exposure_of: impl FnMut(&str) -> Exposure) -> Exposure {
    let mut failures: Vec<String> = Vec::new();
    for rule in rules {
        let exposure = match recognise(rule) {
            Ok(Rule::Always) => Ok(true),
            Ok(Rule::PromQl(query)) => exposure_of(query),
            Err(_) => continue,
        };
        match exposure {
            Ok(exposed) => return Ok(exposed),
            Err(why) => failures.push(why),
        }
    }
    aggregate(failures)
}

/// Combines errors: duplicates are removed, and several are put in brackets.
fn aggregate(mut failures: Vec<String>) -> Exposure {
    let mut seen = std::collections::BTreeSet::new();
    failures.retain(|failure| seen.insert(failure.clone()));
    match failures.as_slice() {
        [] => Ok(false),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests;
