//! Condition Upgradeable: what blocks updates to another minor or major version (`docs/design/cvo.md#upgradeable`).
//!
//! This module defines the checks, their order and texts, and how several are combined: as sub-conditions up to 4.22, and from
//! risk sources later. Which updates the condition blocks is defined in [`precondition`](crate::precondition).

use chrono::TimeDelta;
use clusterversion::Era;
use clusterversion::gates::{self, ConfigMap};
use clusterversion::types::{
    ClusterOperatorCondition, ClusterVersion, ConditionStatus, Conditions, PROGRESSING, RELEASE_ACCEPTED,
    Status, Time, UPGRADEABLE,
};
use update_graph::Version;

use crate::era::Behavior as _;
use crate::recommended::is_reason;
use crate::sources::{SourcedRisk, certain, documentation};

/// How often the condition is checked.
pub const INTERVAL: TimeDelta = TimeDelta::minutes(2);
/// How often it is checked during the first [`INTERVAL`] after preconditions failed.
pub const INTERVAL_AFTER_FAILURE: TimeDelta = TimeDelta::seconds(15);
/// Reason of several failed checks.
const MULTIPLE: &str = "MultipleReasons";

/// What a `ClusterOperator` reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatorState {
    /// Name.
    pub name: String,
    /// Conditions.
    pub conditions: Conditions,
    /// Version of its operand `operator`.
    pub version: String,
}

/// What the checks need besides the ClusterVersion.
#[derive(Clone, Copy, Debug)]
pub struct UpgradeableInputs<'a> {
    /// `ConfigMap` of the gates.
    pub gates: &'a ConfigMap,
    /// `ConfigMap` of the acknowledgments.
    pub acks: &'a ConfigMap,
    /// The `ClusterOperators`, or why they cannot be listed.
    pub operators: &'a Result<Vec<OperatorState>, String>,
    /// Objects of the payload that are being deleted.
    pub deletions: &'a [String],
}

/// A failed check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FailedCheck {
    kind: &'static str,
    status: ConditionStatus,
    reason: String,
    message: String,
}

impl FailedCheck {
    fn new(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: ConditionStatus::False,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// `minor` or `minor or major`.
fn between(era: Era) -> &'static str {
    if era.says_major() {
        "minor or major"
    } else {
        "minor"
    }
}

/// The message about overrides.
#[must_use]
pub fn overrides_text(era: Era) -> &'static str {
    if era.has_risk_sources() {
        "Disabling ownership via cluster version overrides prevents updates between minor or major versions. Please remove overrides before requesting a minor or major version update."
    } else if era.says_major() {
        "Disabling ownership via cluster version overrides prevents upgrades between minor or major versions. Please remove overrides before requesting a minor or major version update."
    } else {
        "Disabling ownership via cluster version overrides prevents upgrades. Please remove overrides before continuing."
    }
}

fn overrides(object: &ClusterVersion, era: Era) -> Option<FailedCheck> {
    object.has_overrides().then(|| {
        FailedCheck::new(
            "UpgradeableClusterVersionOverrides",
            "ClusterVersionOverridesSet",
            overrides_text(era),
        )
    })
}

fn admin_acks(object: &ClusterVersion, context: &UpgradeableInputs<'_>, era: Era) -> Option<FailedCheck> {
    const KIND: &str = "UpgradeableAdminAckRequired";
    let current = object.status.current_version();
    if current.is_empty() {
        return None;
    }
    let read = |map: &'_ ConfigMap, name: &str, reason: &'static str| match map {
        ConfigMap::Found(data) => Ok(data.clone()),
        ConfigMap::Missing => Err(FailedCheck::new(
            KIND,
            reason,
            format!("{name} configmap not found."),
        )),
        ConfigMap::Unreadable(error) => {
            let text = format!("Unable to access configmap {name}, err={error}.");
            Err(FailedCheck::new(KIND, reason, text))
        }
    };
    let both = read(context.gates, "admin-gates", "UnableToAccessAdminGatesConfigMap").and_then(|gates| {
        read(context.acks, "admin-acks", "UnableToAccessAdminAcksConfigMap").map(|acks| (gates, acks))
    });
    let (gates, acks) = match both {
        Ok(both) => both,
        Err(failed) => return Some(failed),
    };
    let mut by_reason: std::collections::BTreeMap<&str, Vec<String>> = std::collections::BTreeMap::new();
    for gate in gates::unacknowledged(&gates, &acks, current, era) {
        by_reason.entry(gate.reason).or_default().push(gate.message);
    }
    let mut texts: Vec<String> = by_reason
        .values_mut()
        .map(|messages| {
            messages.sort();
            messages.join(" ")
        })
        .collect();
    texts.sort();
    let reason = match by_reason.keys().collect::<Vec<_>>().as_slice() {
        [] => return None,
        [one] => **one,
        _ => MULTIPLE,
    };
    Some(FailedCheck::new(KIND, reason, texts.join(" ")))
}

fn cluster_operators(operators: &Result<Vec<OperatorState>, String>, era: Era) -> Option<FailedCheck> {
    const KIND: &str = "UpgradeableClusterOperators";
    let between = between(era);
    let operators = match operators {
        Ok(operators) => operators,
        Err(error) => {
            let text = format!("failed to list cluster operators: {error}");
            return Some(FailedCheck::new(KIND, "FailedToListClusterOperators", text));
        }
    };
    let refusing: Vec<(&str, &ClusterOperatorCondition)> = refusing(operators).collect();
    let named =
        |name: &str| format!("Cluster operator {name} should not be upgraded between {between} versions");
    match refusing.as_slice() {
        [] => None,
        [(name, condition)] => {
            let text = format!("{}: {}", named(name), condition.message);
            Some(FailedCheck::new(KIND, condition.reason.clone(), text))
        }
        several => {
            let lines: Vec<String> = several
                .iter()
                .map(|(name, condition)| {
                    format!("{}: {}: {}", named(name), condition.reason, condition.message)
                })
                .collect();
            let text = format!(
                "Multiple cluster operators should not be upgraded between {between} versions:\n* {}",
                lines.join("\n* ")
            );
            Some(FailedCheck::new(KIND, "ClusterOperatorsNotUpgradeable", text))
        }
    }
}

fn refusing(operators: &[OperatorState]) -> impl Iterator<Item = (&str, &ClusterOperatorCondition)> {
    operators.iter().filter_map(|operator| {
        let condition = operator.conditions.get(UPGRADEABLE)?;
        condition
            .is_false()
            .then_some((operator.name.as_str(), condition))
    })
}

fn deletions(deletions: &[String], era: Era) -> Option<FailedCheck> {
    let which = if era.says_major() {
        "minor or major version"
    } else {
        "minor level"
    };
    (!deletions.is_empty()).then(|| {
        FailedCheck::new(
            "UpgradeableDeletesInProgress",
            "ResourceDeletesInProgress",
            format!(
                "Cluster {which} upgrades are not allowed while resource deletions are in progress; resources={}",
                deletions.join(",")
            ),
        )
    })
}

fn update_in_progress(status: &Status, era: Era) -> Option<FailedCheck> {
    let updating = era.blocks_while_updating() && status.conditions.is_true(PROGRESSING);
    updating.then(|| FailedCheck {
        // As shipped, the sub-condition is True. Only the combined condition is False.
        status: ConditionStatus::True,
        ..FailedCheck::new(
            "UpgradeableUpgradeInProgress",
            "UpdateInProgress",
            "An update is already in progress and the details are in the Progressing condition",
        )
    })
}

/// Condition Upgradeable and, with several reasons, its sub-conditions, sorted by type. Empty if nothing blocks updates. This
/// is the behavior up to 4.22.
#[must_use]
pub fn check(
    now: Time,
    object: &ClusterVersion,
    context: &UpgradeableInputs<'_>,
    era: Era,
) -> Vec<ClusterOperatorCondition> {
    let failed: Vec<FailedCheck> = [
        overrides(object, era),
        admin_acks(object, context, era),
        cluster_operators(context.operators, era),
        deletions(context.deletions, era),
        update_in_progress(&object.status, era),
    ]
    .into_iter()
    .flatten()
    .collect();
    let no = ConditionStatus::False;
    match failed.as_slice() {
        [] => Vec::new(),
        [one] => vec![ClusterOperatorCondition::new(
            now,
            UPGRADEABLE,
            no,
            one.reason.clone(),
            one.message.clone(),
        )],
        several => {
            let reasons: Vec<&str> = several.iter().map(|failed| failed.reason.as_str()).collect();
            let messages: Vec<&str> = several.iter().map(|failed| failed.message.as_str()).collect();
            let text = format!(
                "Cluster should not be upgraded between {} versions for multiple reasons: {}\n* {}",
                between(era),
                reasons.join(","),
                messages.join("\n* ")
            );
            let mut conditions: Vec<ClusterOperatorCondition> = several
                .iter()
                .map(|failed| {
                    ClusterOperatorCondition::new(
                        now,
                        failed.kind,
                        failed.status,
                        failed.reason.clone(),
                        failed.message.clone(),
                    )
                })
                .collect();
            conditions.push(ClusterOperatorCondition::new(
                now,
                UPGRADEABLE,
                no,
                MULTIPLE,
                text,
            ));
            conditions.sort_by(|a, b| a.kind.cmp(&b.kind));
            conditions
        }
    }
}

/// Documentation page about the conditions of operators.
const CONDITIONS: &str = "updating_clusters/understanding-openshift-updates-1#understanding_clusteroperator_conditiontypes_understanding-openshift-updates";

/// The risks behind Upgradeable from 4.23 on, in the order of their sources, and the errors of those sources.
#[must_use]
pub fn risks(
    object: &ClusterVersion,
    context: &UpgradeableInputs<'_>,
    running: &str,
    era: Era,
) -> (Vec<SourcedRisk>, Vec<String>) {
    let mut risks = Vec::new();
    let mut errors = Vec::new();
    let target = &object.status.desired.version;
    if object.status.conditions.is_true(PROGRESSING) {
        risks.push(certain(
            "ClusterVersionUpdating",
            "An update is already in progress and the details are in the Progressing condition.",
            documentation(target, CONDITIONS),
        ));
    }
    if object.has_overrides() {
        risks.push(certain(
            "ClusterVersionOverrides",
            overrides_text(era),
            documentation(target, "config_apis/clusterversion-config-openshift-io-v1#spec-8"),
        ));
    }
    if let Some(failed) = deletions(context.deletions, era) {
        let page = "updating_clusters/understanding-openshift-updates-1#update-manifest-application_how-updates-work";
        risks.push(certain(
            "ResourceDeletionInProgress",
            failed.message,
            documentation(running, page),
        ));
    }
    acknowledgment_risks(context, running, era, &mut risks, &mut errors);
    operator_risks(context, running, &mut risks, &mut errors);
    let sourced = risks.into_iter().map(|risk| SourcedRisk {
        risk,
        gated_only: true,
    });
    (sourced.collect(), errors)
}

fn operator_risks(
    context: &UpgradeableInputs<'_>,
    running: &str,
    risks: &mut Vec<clusterversion::types::Risk>,
    errors: &mut Vec<String>,
) {
    const UNKNOWN: &str = "ClusterOperatorUpgradeableUnknown";
    if let Err(error) = Version::parse(running) {
        let text = format!("Failed to parse cluster version to check Upgradeable conditions: {error}");
        risks.push(certain(UNKNOWN, text, documentation("", "")));
        errors.push(error.to_string());
        return;
    }
    match context.operators {
        Ok(operators) => {
            let mut refused: Vec<_> = refusing(operators).collect();
            refused.sort_by_key(|(name, _)| *name);
            risks.extend(refused.into_iter().map(|(name, condition)| {
                let name = format!("ClusterOperatorUpgradeable-{name}");
                certain(
                    name,
                    condition.message.clone(),
                    documentation(running, CONDITIONS),
                )
            }));
        }
        Err(error) => {
            let text =
                format!("Failed to retrieve ClusterOperators to check Upgradeable conditions: {error}");
            risks.push(certain(UNKNOWN, text, documentation(running, CONDITIONS)));
            errors.push(error.clone());
        }
    }
}

fn acknowledgment_risks(
    context: &UpgradeableInputs<'_>,
    running: &str,
    era: Era,
    risks: &mut Vec<clusterversion::types::Risk>,
    errors: &mut Vec<String>,
) {
    // Without a version it is not known which gates apply, so none is reported.
    if let Err(error) = Version::parse(running) {
        let text = format!("Failed to parse cluster version to check admin-acks: {error}");
        risks.push(certain("AdminAckUnknown", text, documentation("", "")));
        errors.push(error.to_string());
        return;
    }
    let read = |map: &ConfigMap, (namespace, name): (&str, &str)| {
        let error = match map {
            ConfigMap::Found(data) => return Ok(data.clone()),
            ConfigMap::Missing => format!("configmap {name:?} not found"),
            ConfigMap::Unreadable(error) => error.clone(),
        };
        let text = format!("Failed to retrieve ConfigMap {name} from namespace {namespace}: {error}");
        Err((text, error))
    };
    let both = read(context.gates, gates::GATES)
        .and_then(|gates| read(context.acks, gates::ACKS).map(|acks| (gates, acks)));
    match both {
        Ok((gates, acks)) => {
            for gate in gates::unacknowledged(&gates, &acks, running, era) {
                let url = link(&gate.message).unwrap_or_else(|| documentation("", ""));
                risks.push(certain(format!("AdminAck-{}", gate.key), gate.message, url));
            }
        }
        Err((text, error)) => {
            risks.push(certain("AdminAckUnknown", text, documentation("", "")));
            errors.push(error);
        }
    }
}

/// The first link in a text.
fn link(text: &str) -> Option<String> {
    let at = text.find("https://")?;
    text.get(at..)?.split_whitespace().next().map(str::to_owned)
}

/// Condition Upgradeable from the risks, or `None` if nothing blocks updates. This is the behavior from 4.23 on.
#[must_use]
pub fn sum(now: Time, risks: &[SourcedRisk], errors: &[String]) -> Option<ClusterOperatorCondition> {
    let no = ConditionStatus::False;
    match risks {
        [] if errors.is_empty() => None,
        [] => Some(ClusterOperatorCondition::new(
            now,
            UPGRADEABLE,
            ConditionStatus::Unknown,
            crate::recommended::EVALUATION_FAILED,
            errors.join("\n"),
        )),
        [one] => {
            let reason = if is_reason(&one.risk.name) {
                one.risk.name.as_str()
            } else {
                "RiskNameNotCompatibleWithReasonProperty"
            };
            Some(ClusterOperatorCondition::new(
                now,
                UPGRADEABLE,
                no,
                reason,
                one.risk.message.clone(),
            ))
        }
        several => {
            let messages: Vec<&str> = several
                .iter()
                .map(|source| source.risk.message.as_str())
                .collect();
            let text = format!(
                "Cluster should not be upgraded between minor or major versions for multiple reasons:\n* {}",
                messages.join("\n* ")
            );
            Some(ClusterOperatorCondition::new(
                now,
                UPGRADEABLE,
                no,
                MULTIPLE,
                text,
            ))
        }
    }
}

/// Writes Upgradeable and its sub-conditions: the given ones are merged, and all others of that kind are removed.
pub fn write(conditions: &mut Conditions, given: Vec<ClusterOperatorCondition>) {
    let obsolete: Vec<String> = conditions
        .iter()
        .filter(|old| old.kind.starts_with(UPGRADEABLE) && given.iter().all(|new| new.kind != old.kind))
        .map(|old| old.kind.clone())
        .collect();
    for kind in obsolete {
        conditions.remove(&kind);
    }
    for condition in given {
        conditions.set(condition);
    }
}

/// How long the last check stays valid.
#[must_use]
pub fn interval(now: Time, conditions: &Conditions) -> TimeDelta {
    let failed_of_late = conditions.get(RELEASE_ACCEPTED).is_some_and(|condition| {
        condition.is_false()
            && condition.reason == "PreconditionChecks"
            && condition
                .last_transition_time
                .is_some_and(|at| now < at + INTERVAL)
    });
    if failed_of_late {
        INTERVAL_AFTER_FAILURE
    } else {
        INTERVAL
    }
}

#[cfg(test)]
mod tests;
