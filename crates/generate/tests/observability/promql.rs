//! What an expression selects, and whether the programs export it.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use controller::metrics::catalogue::{CATALOGUE, MetricKind};
use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::{Expr, VectorSelector, parse};
use promql_parser::util::{ExprVisitor, walk_expr};
use update_service::metrics::Metrics;

/// What is exported: the labels of each metric, with their values where the set is closed.
pub struct Exported(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

impl Exported {
    /// The metrics of the controller and of the update service.
    pub fn all() -> Self {
        let mut found = BTreeMap::new();
        for series in CATALOGUE {
            let labels: BTreeMap<String, BTreeSet<String>> = series
                .labels
                .iter()
                .map(|label| {
                    let values = label.values.iter().map(|(value, _)| (*value).to_owned());
                    (label.name.to_owned(), values.collect())
                })
                .collect();
            let suffixes: &[&str] = match series.kind {
                MetricKind::Histogram(_) => &["_bucket", "_sum", "_count"],
                MetricKind::Counter | MetricKind::Gauge | MetricKind::Info => &[""],
            };
            for suffix in suffixes {
                let mut labels = labels.clone();
                if *suffix == "_bucket" {
                    labels.insert("le".to_owned(), BTreeSet::new());
                }
                found.insert(format!("{}{suffix}", series.name), labels);
            }
        }
        for name in update_service_names() {
            found.entry(name).or_default();
        }
        Self(found)
    }

    /// Checks an expression; returns what is wrong with it.
    pub fn check(&self, expression: &str) -> Result<(), String> {
        let parsed = parse(expression).map_err(|error| format!("{expression}: {error}"))?;
        let mut selectors = Selectors(Vec::new());
        let Ok(_) = walk_expr(&mut selectors, &parsed);
        if selectors.0.is_empty() {
            return Err(format!("{expression}: selects nothing"));
        }
        for selector in &selectors.0 {
            let name = selector.name.as_deref().unwrap_or_default();
            let labels = self
                .0
                .get(name)
                .ok_or_else(|| format!("{expression}: nothing exports {name}"))?;
            // The labels of the update service are not listed anywhere.
            let matchers = selector.matchers.matchers.iter().filter(|_| !labels.is_empty());
            for matcher in matchers {
                let values = labels
                    .get(&matcher.name)
                    .ok_or_else(|| format!("{expression}: {name} has no label {}", matcher.name))?;
                if !values.is_empty() && !matches_some(matcher, values) {
                    return Err(format!("{expression}: no value of {} matches", matcher.name));
                }
            }
        }
        Ok(())
    }
}

/// True when at least one value matches; for a list of alternatives, when each of them is a value.
fn matches_some(matcher: &Matcher, values: &BTreeSet<String>) -> bool {
    match &matcher.op {
        MatchOp::Equal | MatchOp::NotEqual => values.contains(&matcher.value),
        MatchOp::Re(_) | MatchOp::NotRe(_) => {
            let is_list = matcher
                .value
                .chars()
                .all(|char| char.is_alphanumeric() || "_|".contains(char));
            let mut alternatives = matcher.value.split('|');
            !is_list || alternatives.all(|value| values.contains(value))
        }
    }
}

/// Every metric of the update service. Some are exported only after they had a value.
fn update_service_names() -> Vec<String> {
    let metrics = Metrics::new();
    metrics.published(1, std::time::UNIX_EPOCH);
    metrics.path("/v1/graph", true).requested();
    metrics.refused(503, "failed_upstream_fetch", false);
    metrics.problems("error", 1);
    let text = metrics.classic().unwrap();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = types.flat_map(|line| {
        let (name, kind) = line.split_once(' ').unwrap();
        let suffixes: &[&str] = if kind == "histogram" {
            &["_bucket", "_sum", "_count"]
        } else {
            &[""]
        };
        suffixes.iter().map(move |suffix| format!("{name}{suffix}"))
    });
    names.collect()
}

struct Selectors(Vec<VectorSelector>);

impl ExprVisitor for Selectors {
    type Error = Infallible;

    fn pre_visit(&mut self, plan: &Expr) -> Result<bool, Infallible> {
        match plan {
            Expr::VectorSelector(selector) => self.0.push(selector.clone()),
            Expr::MatrixSelector(selector) => self.0.push(selector.vs.clone()),
            _ => {}
        }
        Ok(true)
    }
}

#[test]
fn an_expression_that_names_what_nobody_exports_is_noticed() {
    let exported = Exported::all();
    let wrong = |expression: &str| exported.check(expression).unwrap_err();
    assert!(wrong("sum(mcu_clusterz)").contains("nothing exports mcu_clusterz"));
    assert!(wrong("rate(mcu_action_total[5m])").contains("nothing exports"));
    assert!(wrong(r#"mcu_upgrades{phase="Failed"}"#).contains("has no label phase"));
    assert!(wrong(r#"mcu_upgrades{state="done"}"#).contains("no value of state"));
    assert!(wrong(r#"mcu_upgrades{state=~"stalled|done"}"#).contains("no value of state"));
    assert!(wrong("sum(").contains("sum("));
    assert_eq!(
        exported.check(r#"mcu_upgrades{state=~"stalled|invalid"} > 0"#),
        Ok(())
    );
    assert_eq!(
        exported.check("rate(mcu_write_duration_seconds_bucket[5m])"),
        Ok(())
    );
}
