//! Checks whether a query parses, and whether it uses only the features that risks use. A cluster evaluates it with its own
//! Prometheus, so other features are no error; but tools that rehearse upgrades offline cannot evaluate them.

use promql_parser::parser::token::{
    T_ADD, T_BOTTOMK, T_COUNT, T_EQLC, T_GROUP, T_GTE, T_GTR, T_LAND, T_LOR, T_LSS, T_LTE, T_MAX, T_MUL,
    T_NEQ, T_SUB, T_TOPK, TokenId,
};
use promql_parser::parser::{BinModifier, Expr, LabelModifier, VectorMatchCardinality, VectorSelector};

use crate::problem::Rule;

/// What is wrong with a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromqlError {
    /// It does not parse.
    #[error("no PromQL: {0}")]
    Syntax(String),
    /// It parses, and uses something that no risk has used so far.
    #[error("PromQL with {0}, which is not among the features in use")]
    Feature(String),
}

impl PromqlError {
    /// The lint's rule.
    #[must_use]
    pub fn rule(&self) -> Rule {
        match self {
            Self::Syntax(_) => Rule::PromqlSyntax,
            Self::Feature(_) => Rule::PromqlFeature,
        }
    }
}

/// Deeper than any query in use; a parser that calls itself must not be sent deeper.
const MAX_DEPTH: usize = 100;

/// Longer than ten times the longest in use.
const MAX_LENGTH: usize = 16 << 10;

/// Checks a query.
///
/// # Errors
/// [`PromqlError`] for the first problem found.
pub fn check(query: &str) -> Result<(), PromqlError> {
    let depth = query.bytes().filter(|b| matches!(b, b'(' | b'-' | b'+')).count();
    if query.len() > MAX_LENGTH || depth > MAX_DEPTH {
        return Err(PromqlError::Feature(
            "more nesting or text than a cluster should be asked".into(),
        ));
    }
    let expression = promql_parser::parser::parse(query).map_err(|e| {
        let words: Vec<_> = e.split_whitespace().collect();
        PromqlError::Syntax(words.join(" ").chars().take(200).collect())
    })?;
    inspect(&expression)
}

fn feature<T>(name: impl Into<String>) -> Result<T, PromqlError> {
    Err(PromqlError::Feature(name.into()))
}

fn inspect(expression: &Expr) -> Result<(), PromqlError> {
    match expression {
        Expr::Aggregate(aggregate) => {
            const KNOWN: [TokenId; 5] = [T_GROUP, T_TOPK, T_BOTTOMK, T_MAX, T_COUNT];
            if !KNOWN.contains(&aggregate.op.id()) {
                return feature(format!("the aggregation {}", aggregate.op));
            }
            if let Some(LabelModifier::Exclude(_)) = aggregate.modifier {
                return feature("without");
            }
            if let Some(parameter) = &aggregate.param
                && !matches!(**parameter, Expr::NumberLiteral(_))
            {
                return feature("a computed parameter");
            }
            inspect(&aggregate.expr)
        }
        Expr::Binary(binary) => {
            const KNOWN: [TokenId; 11] = [
                T_LAND, T_LOR, T_MUL, T_ADD, T_SUB, T_GTR, T_GTE, T_LSS, T_LTE, T_EQLC, T_NEQ,
            ];
            if !KNOWN.contains(&binary.op.id()) {
                return feature(format!("the operator {}", binary.op));
            }
            binary.modifier.as_ref().map_or(Ok(()), matching)?;
            inspect(&binary.lhs)?;
            inspect(&binary.rhs)
        }
        Expr::Paren(inner) => inspect(&inner.expr),
        Expr::Unary(inner) => inspect(&inner.expr),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) => Ok(()),
        Expr::VectorSelector(selector) => instant(selector),
        Expr::Call(call) => {
            let name = call.func.name;
            for argument in &call.args.args {
                match argument.as_ref() {
                    Expr::MatrixSelector(matrix) if name == "max_over_time" => instant(&matrix.vs)?,
                    argument => inspect(argument)?,
                }
            }
            if matches!(name, "max_over_time" | "label_replace" | "vector") {
                Ok(())
            } else {
                feature(format!("the function {name}"))
            }
        }
        Expr::MatrixSelector(_) => feature("a range outside max_over_time"),
        Expr::Subquery(_) => feature("a subquery"),
        Expr::Extension(_) => feature("an extension"),
    }
}

fn matching(modifier: &BinModifier) -> Result<(), PromqlError> {
    if modifier.return_bool {
        return feature("bool");
    }
    if let Some(LabelModifier::Exclude(_)) = modifier.matching {
        return feature("ignoring");
    }
    match modifier.card {
        VectorMatchCardinality::OneToMany(_) => feature("group_right"),
        _ => Ok(()),
    }
}

fn instant(selector: &VectorSelector) -> Result<(), PromqlError> {
    if selector.offset.is_some() {
        return feature("offset");
    }
    if selector.at.is_some() {
        return feature("@");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
