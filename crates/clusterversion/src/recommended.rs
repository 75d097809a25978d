//! Condition `Recommended` of a conditional update, from the verdicts of its risks.
//!
//! Owns status, reason and message as shipped (`docs/design/cvo.md#recommended-condition`). Refuses to evaluate:
//! a verdict per risk is passed in.

use std::collections::BTreeSet;

use crate::era::Era;
use crate::promql::Verdict;
use crate::types::{Condition, ConditionStatus, RECOMMENDED, Risk, Time};

const NONE_APPLIES: &str =
    "The update is recommended, because none of the conditional update risks apply to this cluster.";
const ALL_ACCEPTED: &str = "The update is recommended, because either risk does not apply to this cluster or it is accepted by cluster admins.";
/// Reason of a risk that could not be evaluated.
pub const EVALUATION_FAILED: &str = "EvaluationFailed";
/// Reason of a risk whose name is no valid reason.
pub const EXPOSED: &str = "ExposedToRisks";
const ACCEPTED: &str = "AllExposedRisksAccepted";
const MULTIPLE: &str = "MultipleReasons";

/// What a condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recommendation {
    /// True, False or Unknown.
    pub status: ConditionStatus,
    /// One word.
    pub reason: String,
    /// The risks that stand against the update, a paragraph each.
    pub message: String,
}

impl Recommendation {
    /// As a condition that came about now.
    #[must_use]
    pub fn condition(self, now: Time) -> Condition {
        Condition::new(now, RECOMMENDED, self.status, self.reason, self.message)
    }
}

/// Whether a text can stand as the reason of a condition: `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`.
#[must_use]
pub fn is_reason(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    match text.as_bytes() {
        [] => false,
        [first, rest @ ..] => {
            first.is_ascii_alphabetic()
                && rest.last().is_none_or(|last| word(*last))
                && rest.iter().all(|byte| word(*byte) || matches!(byte, b',' | b':'))
        }
    }
}

/// The part of a message that says that a risk applies.
#[must_use]
pub fn exposed_text(risk: &Risk) -> String {
    format!("{} {}", risk.message, risk.url)
}

/// The part of a message that says that a risk could not be evaluated, up to the error; see [`unknown_text`].
#[must_use]
pub fn unknown_prefix(risk: &Risk, era: Era) -> String {
    if era.has_old_evaluation_text() {
        format!(
            "Exposure to {} is unknown due to an evaluation failure: ",
            risk.name
        )
    } else {
        format!("Could not evaluate exposure to update risk {} (", risk.name)
    }
}

/// What follows the error in [`unknown_text`].
#[must_use]
pub fn unknown_suffix(risk: &Risk, era: Era) -> String {
    let Risk {
        name, message, url, ..
    } = risk;
    if era.has_old_evaluation_text() {
        format!("\n{message} {url}")
    } else {
        format!(")\n  {name} description: {message}\n  {name} URL: {url}")
    }
}

/// The part of a message that says that a risk could not be evaluated.
#[must_use]
pub fn unknown_text(risk: &Risk, error: &str, era: Era) -> String {
    format!(
        "{}{error}{}",
        unknown_prefix(risk, era),
        unknown_suffix(risk, era)
    )
}

/// What the risks make of an update. `accepted` are the names that the cluster's administrator accepts; it is empty
/// unless the gate is open.
pub fn recommend(
    risks: &[Risk],
    mut verdict_of: impl FnMut(&Risk) -> Verdict,
    accepted: &BTreeSet<String>,
    era: Era,
) -> Recommendation {
    let mut status = ConditionStatus::True;
    let mut reason = era.not_exposed().to_owned();
    let mut message = NONE_APPLIES;
    let mut parts = Vec::new();
    for risk in risks {
        let (part, wanted) = match verdict_of(risk) {
            Ok(false) => continue,
            Ok(true) if accepted.contains(&risk.name) => {
                message = ALL_ACCEPTED;
                reason = next_reason(&reason, ACCEPTED, era);
                continue;
            }
            Ok(true) => {
                status = ConditionStatus::False;
                let named = !era.checks_risk_names() || is_reason(&risk.name);
                (
                    exposed_text(risk),
                    if named { risk.name.as_str() } else { EXPOSED },
                )
            }
            Err(error) => {
                if status != ConditionStatus::False {
                    status = ConditionStatus::Unknown;
                }
                (unknown_text(risk, &error, era), EVALUATION_FAILED)
            }
        };
        reason = next_reason(&reason, wanted, era);
        parts.push(part);
    }
    Recommendation {
        status,
        reason,
        message: if parts.is_empty() {
            message.to_owned()
        } else {
            parts.join("\n\n")
        },
    }
}

/// How a further reason changes the one so far: the first that is not the default stays while it is repeated, another
/// one makes several. The exceptions are those of 4.22 and later.
fn next_reason(now: &str, wanted: &str, era: Era) -> String {
    let gated = era.exposure_outdoes_failure();
    let takes_over = now == era.not_exposed()
        || now == wanted
        || now == ACCEPTED
        || gated && now == EVALUATION_FAILED && wanted == EXPOSED;
    let stays = gated
        && (now == EVALUATION_FAILED && wanted == ACCEPTED
            || now == EXPOSED && (wanted == ACCEPTED || wanted == EVALUATION_FAILED));
    let reason = if takes_over {
        wanted
    } else if stays {
        now
    } else {
        MULTIPLE
    };
    reason.to_owned()
}

#[cfg(test)]
mod tests;
