//! Condition `Recommended` of a conditional update, from the exposures to its risks.
//!
//! This module defines status, reason and message as shipped (`docs/design/cvo.md#recommended-condition`). The caller passes in
//! the exposure to each risk.

use std::collections::BTreeSet;

use clusterversion::Era;
use clusterversion::risks::{Exposure, exposed_text, unknown_text};
use clusterversion::types::{ClusterOperatorCondition, ConditionStatus, RECOMMENDED, Risk, Time};

use crate::era::Behavior as _;

const NONE_APPLIES: &str =
    "The update is recommended, because none of the conditional update risks apply to this cluster.";
const ALL_ACCEPTED: &str = "The update is recommended, because either risk does not apply to this cluster or it is accepted by cluster admins.";
/// Reason of a risk that could not be evaluated.
pub const EVALUATION_FAILED: &str = "EvaluationFailed";
/// Reason of a risk whose name is not a valid reason.
pub const EXPOSED: &str = "ExposedToRisks";
const ACCEPTED: &str = "AllExposedRisksAccepted";
const MULTIPLE: &str = "MultipleReasons";

/// Status, reason and message of the condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recommendation {
    /// True, False or Unknown.
    pub status: ConditionStatus,
    /// One word.
    pub reason: String,
    /// The risks because of which the update is not recommended, one paragraph each.
    pub message: String,
}

impl Recommendation {
    /// The condition, with `now` as transition time.
    #[must_use]
    pub fn condition(self, now: Time) -> ClusterOperatorCondition {
        ClusterOperatorCondition::new(now, RECOMMENDED, self.status, self.reason, self.message)
    }
}

/// Whether a text is a valid reason of a condition: `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`.
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

/// The recommendation of an update with these risks. `accepted`: names of the risks that the administrator accepts, empty
/// without the feature gate.
pub fn recommend(
    risks: &[Risk],
    mut exposure_of: impl FnMut(&Risk) -> Exposure,
    accepted: &BTreeSet<String>,
    era: Era,
) -> Recommendation {
    let mut status = ConditionStatus::True;
    let mut reason = era.not_exposed().to_owned();
    let mut message = NONE_APPLIES;
    let mut parts = Vec::new();
    for risk in risks {
        let (part, wanted) = match exposure_of(risk) {
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

/// Combines the reason so far with that of another risk. A reason replaces the default and stays if it is repeated. Two
/// different ones become `MultipleReasons`. From 4.22 on there are exceptions.
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
