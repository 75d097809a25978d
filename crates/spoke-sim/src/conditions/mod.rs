//! Condition rules: how they are evaluated for an object, and how the conditions of manifests become those of a work.

mod cel;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use self::cel::Expression;
use crate::fields::{self, Time};
use crate::work::status::{self, Condition, ManifestStatus, Status};

/// Prefix of the reasons of conditions that come from rules.
const RULE_REASON: &str = "ConditionRule";
const EVALUATED: &str = "ConditionRuleEvaluated";
const INVALID: &str = "ConditionRuleInvalid";
const EXPRESSION_ERROR: &str = "ConditionRuleExpressionError";

/// One condition rule with its expressions compiled.
#[derive(Debug)]
pub struct ConditionRule {
    condition: String,
    kind: Kind,
    message: String,
    message_expression: Option<Expression>,
}

#[derive(Debug)]
enum Kind {
    Cel(Vec<Expression>),
    WellKnown,
    Unknown(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRule {
    condition: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    cel_expressions: Option<Vec<String>>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    message_expression: String,
}

impl<'de> Deserialize<'de> for ConditionRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawRule::deserialize(deserializer)?;
        let kind = match raw.kind.as_str() {
            "CEL" => Kind::Cel(
                raw.cel_expressions
                    .iter()
                    .flatten()
                    .map(|e| Expression::compile(e))
                    .collect(),
            ),
            "WellKnownConditions" => Kind::WellKnown,
            _ => Kind::Unknown(raw.kind),
        };
        let message_expression =
            (!raw.message_expression.is_empty()).then(|| Expression::compile(&raw.message_expression));
        Ok(Self {
            condition: raw.condition,
            kind,
            message: raw.message,
            message_expression,
        })
    }
}

impl ConditionRule {
    /// The condition of this rule for an object. `None` for a well-known rule if the kind has none.
    fn evaluate(&self, object: &Value, generation: i64, now: Time) -> Option<Condition> {
        let well_known;
        let (expressions, default_message) = match &self.kind {
            Kind::Cel(expressions) => (expressions.as_slice(), None),
            Kind::WellKnown => {
                well_known = well_known_rule(object, &self.condition)?;
                (std::slice::from_ref(&well_known.0), Some(&well_known.1))
            }
            Kind::Unknown(kind) => {
                let message = format!("unrecognized condition rule type {kind}");
                return Some(self.result(Status::Unknown, INVALID, message, generation, now));
            }
        };
        for expression in expressions {
            match expression.holds(object) {
                Ok(true) => {}
                Ok(false) => return Some(self.evaluated(object, false, default_message, generation, now)),
                Err(error) => {
                    return Some(self.result(Status::False, EXPRESSION_ERROR, error, generation, now));
                }
            }
        }
        Some(self.evaluated(object, true, default_message, generation, now))
    }

    fn evaluated(
        &self,
        object: &Value,
        result: bool,
        default_message: Option<&Expression>,
        generation: i64,
        now: Time,
    ) -> Condition {
        let expression = self.message_expression.as_ref().or(default_message);
        let message = match expression.map(|expression| expression.text(object, result)) {
            Some(Ok(text)) if !text.is_empty() => text,
            Some(Err(error)) => error,
            _ if !self.message.is_empty() => self.message.clone(),
            _ if result => format!("Manifest is {}", self.condition),
            _ => format!("Manifest is not {}", self.condition),
        };
        self.result(result.into(), EVALUATED, message, generation, now)
    }

    fn result(
        &self,
        status: Status,
        reason: &'static str,
        message: String,
        generation: i64,
        now: Time,
    ) -> Condition {
        Condition::new(self.condition.clone(), status, reason, message, generation, now)
    }
}

/// The rule and message behind `WellKnownConditions`. The Job rule is True for a failed Job too.
fn well_known_rule(object: &Value, condition: &str) -> Option<(Expression, Expression)> {
    if condition != "Complete" {
        return None;
    }
    let (rule, message) = match (
        fields::text(object, &["apiVersion"]),
        fields::text(object, &["kind"]),
    ) {
        ("batch/v1", "Job") => (
            "hasConditions(object.status) ? object.status.conditions.exists(c, (c.type == 'Complete' || c.type == \
             'Failed') && c.status == 'True') : false",
            "result ? 'Job is finished' : 'Job is not finished'",
        ),
        ("v1", "Pod") => (
            "object.status.phase in ['Succeeded', 'Failed']",
            "'Pod is in phase ' + object.status.phase",
        ),
        _ => return None,
    };
    Some((Expression::compile(rule), Expression::compile(message)))
}

/// Sets the conditions of an object's rules on its manifest and removes those of removed rules. Returns
/// whether anything changed.
pub fn evaluate(
    conditions: &mut Vec<Condition>,
    object: &Value,
    rules: &[ConditionRule],
    generation: i64,
    now: Time,
) -> bool {
    let mut changed = false;
    for rule in rules {
        if let Some(condition) = rule.evaluate(object, generation, now) {
            changed |= status::set(conditions, condition);
        }
    }
    prune(conditions, generation) || changed
}

/// Removes conditions of rules of an earlier generation. Returns whether there were any.
pub fn prune(conditions: &mut Vec<Condition>, generation: i64) -> bool {
    let before = conditions.len();
    conditions.retain(|c| !c.reason.starts_with(RULE_REASON) || c.observed_generation == generation);
    conditions.len() != before
}

#[derive(Default)]
struct Tally {
    yes: usize,
    no: usize,
    unknown: usize,
    message: String,
}

/// The work's Available condition and one per rule condition, from those of its manifests, ordered by type.
#[must_use]
pub fn aggregate(generation: i64, manifests: &[ManifestStatus], now: Time) -> Vec<Condition> {
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    tallies.insert("Available", Tally::default());
    for condition in manifests.iter().flat_map(|manifest| &manifest.conditions) {
        if condition.kind == "Available" || condition.reason.starts_with(RULE_REASON) {
            let tally = tallies.entry(&condition.kind).or_default();
            match condition.status {
                Status::True => tally.yes += 1,
                Status::False => tally.no += 1,
                Status::Unknown => tally.unknown += 1,
            }
            if !condition.message.is_empty() {
                condition.message.as_ref().clone_into(&mut tally.message);
            }
        }
    }
    let conditions = tallies.into_iter().map(|(kind, tally)| match kind {
        "Available" => available(&tally, manifests.len(), generation, now),
        _ => by_rules(kind, &tally, generation, now),
    });
    conditions.collect()
}

fn available(tally: &Tally, total: usize, generation: i64, now: Time) -> Condition {
    let (status, reason, message) = if tally.no > 0 {
        (
            Status::False,
            "ResourcesNotAvailable",
            format!("{} of {total} resources are not available", tally.no).into(),
        )
    } else if tally.unknown > 0 {
        let message = format!("{} of {total} resources have unknown status", tally.unknown);
        (Status::Unknown, "ResourcesStatusUnknown", message.into())
    } else if tally.yes == 0 {
        (
            Status::Unknown,
            "ResourcesStatusUnknown",
            "cannot get any available resource ".into(),
        )
    } else {
        (
            Status::True,
            "ResourcesAvailable",
            crate::catalog::Text::Borrowed("All resources are available"),
        )
    };
    Condition::new("Available", status, reason, message, generation, now)
}

/// Progressing is True if any is True. For all other conditions False takes precedence over Unknown, and Unknown over True.
fn by_rules(kind: &str, tally: &Tally, generation: i64, now: Time) -> Condition {
    let status = if kind == "Progressing" {
        match tally {
            Tally { yes: 1.., .. } => Status::True,
            Tally { unknown: 1.., .. } => Status::Unknown,
            _ => Status::False,
        }
    } else {
        match tally {
            Tally { no: 1.., .. } => Status::False,
            Tally { unknown: 1.., .. } | Tally { yes: 0, .. } => Status::Unknown,
            _ => Status::True,
        }
    };
    let total = tally.yes + tally.no + tally.unknown;
    let message = if total == 1 && !tally.message.is_empty() {
        tally.message.clone()
    } else {
        format!("Aggregated from {total} manifest conditions")
    };
    Condition::new(
        kind.to_owned(),
        status,
        "ConditionRulesAggregated",
        message,
        generation,
        now,
    )
}

#[cfg(test)]
mod tests;
