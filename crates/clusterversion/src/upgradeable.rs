//! Condition Upgradeable: what stands against an update to another minor or major version.
//!
//! Owns the checks, their order, their texts and how several become one (`docs/design/cvo.md#upgradeable`): as
//! sub-conditions up to 4.22, from risk sources later. Whom it blocks is the business of
//! [`precondition`](crate::precondition).

use chrono::TimeDelta;
use update_graph::Version;

use crate::era::Era;
use crate::gates::{self, ConfigMap};
use crate::recommended::is_reason;
use crate::sources::{Sourced, certain, documentation};
use crate::types::{
    ClusterVersion, Condition, ConditionStatus, Conditions, PROGRESSING, RELEASE_ACCEPTED, Status, Time,
    UPGRADEABLE,
};

/// How often it is looked at.
pub const INTERVAL: TimeDelta = TimeDelta::minutes(2);
/// How often in the first [`INTERVAL`] after preconditions have failed.
pub const INTERVAL_AFTER_FAILURE: TimeDelta = TimeDelta::seconds(15);
/// Reason of several.
const MULTIPLE: &str = "MultipleReasons";

/// What a `ClusterOperator` says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatorState {
    /// Name.
    pub name: String,
    /// Conditions.
    pub conditions: Conditions,
    /// Version of its operand `operator`.
    pub version: String,
}

/// What is looked at besides the ClusterVersion.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// `ConfigMap` of the gates.
    pub gates: &'a ConfigMap,
    /// `ConfigMap` of the acknowledgments.
    pub acks: &'a ConfigMap,
    /// The `ClusterOperators`, or why they cannot be listed.
    pub operators: &'a Result<Vec<OperatorState>, String>,
    /// Objects of the payload that are being deleted.
    pub deletions: &'a [String],
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failed {
    kind: &'static str,
    status: ConditionStatus,
    reason: String,
    message: String,
}

impl Failed {
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
const fn between(era: Era) -> &'static str {
    if era.says_major() {
        "minor or major"
    } else {
        "minor"
    }
}

/// The text of overrides.
#[must_use]
pub const fn overrides_text(era: Era) -> &'static str {
    if era.has_risk_sources() {
        "Disabling ownership via cluster version overrides prevents updates between minor or major versions. Please remove overrides before requesting a minor or major version update."
    } else if era.says_major() {
        "Disabling ownership via cluster version overrides prevents upgrades between minor or major versions. Please remove overrides before requesting a minor or major version update."
    } else {
        "Disabling ownership via cluster version overrides prevents upgrades. Please remove overrides before continuing."
    }
}

/// Whether Upgradeable=False stands against patch updates as well: overrides do, up to 4.21
/// (`docs/design/cvo.md#overrides`).
#[must_use]
pub fn all_updates_wait(object: &ClusterVersion) -> bool {
    object.has_overrides() && Era::of(&object.status.desired.version).overrides_block_patches()
}

fn overrides(object: &ClusterVersion, era: Era) -> Option<Failed> {
    object.has_overrides().then(|| {
        Failed::new(
            "UpgradeableClusterVersionOverrides",
            "ClusterVersionOverridesSet",
            overrides_text(era),
        )
    })
}

fn admin_acks(object: &ClusterVersion, around: &Surroundings<'_>, era: Era) -> Option<Failed> {
    const KIND: &str = "UpgradeableAdminAckRequired";
    let current = object.status.current_version();
    if current.is_empty() {
        return None;
    }
    let read = |map: &'_ ConfigMap, name: &str, reason: &'static str| match map {
        ConfigMap::Found(data) => Ok(data.clone()),
        ConfigMap::Missing => Err(Failed::new(KIND, reason, format!("{name} configmap not found."))),
        ConfigMap::Unreadable(error) => {
            let text = format!("Unable to access configmap {name}, err={error}.");
            Err(Failed::new(KIND, reason, text))
        }
    };
    let both = read(around.gates, "admin-gates", "UnableToAccessAdminGatesConfigMap").and_then(|gates| {
        read(around.acks, "admin-acks", "UnableToAccessAdminAcksConfigMap").map(|acks| (gates, acks))
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
    Some(Failed::new(KIND, reason, texts.join(" ")))
}

fn cluster_operators(operators: &Result<Vec<OperatorState>, String>, era: Era) -> Option<Failed> {
    const KIND: &str = "UpgradeableClusterOperators";
    let between = between(era);
    let operators = match operators {
        Ok(operators) => operators,
        Err(error) => {
            let text = format!("failed to list cluster operators: {error}");
            return Some(Failed::new(KIND, "FailedToListClusterOperators", text));
        }
    };
    let refusing: Vec<(&str, &Condition)> = refusing(operators).collect();
    let named =
        |name: &str| format!("Cluster operator {name} should not be upgraded between {between} versions");
    match refusing.as_slice() {
        [] => None,
        [(name, condition)] => {
            let text = format!("{}: {}", named(name), condition.message);
            Some(Failed::new(KIND, condition.reason.clone(), text))
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
            Some(Failed::new(KIND, "ClusterOperatorsNotUpgradeable", text))
        }
    }
}

fn refusing(operators: &[OperatorState]) -> impl Iterator<Item = (&str, &Condition)> {
    operators.iter().filter_map(|operator| {
        let condition = operator.conditions.get(UPGRADEABLE)?;
        condition
            .is_false()
            .then_some((operator.name.as_str(), condition))
    })
}

fn deletions(deletions: &[String], era: Era) -> Option<Failed> {
    let which = if era.says_major() {
        "minor or major version"
    } else {
        "minor level"
    };
    (!deletions.is_empty()).then(|| {
        Failed::new(
            "UpgradeableDeletesInProgress",
            "ResourceDeletesInProgress",
            format!(
                "Cluster {which} upgrades are not allowed while resource deletions are in progress; resources={}",
                deletions.join(",")
            ),
        )
    })
}

fn update_in_progress(status: &Status, era: Era) -> Option<Failed> {
    let updating = era.blocks_while_updating() && status.conditions.is_true(PROGRESSING);
    updating.then(|| Failed {
        // The sub-condition is True, as shipped: it only ever takes part in the sum.
        status: ConditionStatus::True,
        ..Failed::new(
            "UpgradeableUpgradeInProgress",
            "UpdateInProgress",
            "An update is already in progress and the details are in the Progressing condition",
        )
    })
}

/// Upgradeable and, with several reasons, its sub-conditions, by type; nothing when nothing stands against an update.
/// Up to 4.22.
#[must_use]
pub fn check(now: Time, object: &ClusterVersion, around: &Surroundings<'_>, era: Era) -> Vec<Condition> {
    let failed: Vec<Failed> = [
        overrides(object, era),
        admin_acks(object, around, era),
        cluster_operators(around.operators, era),
        deletions(around.deletions, era),
        update_in_progress(&object.status, era),
    ]
    .into_iter()
    .flatten()
    .collect();
    let no = ConditionStatus::False;
    match failed.as_slice() {
        [] => Vec::new(),
        [one] => vec![Condition::new(
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
            let mut conditions: Vec<Condition> = several
                .iter()
                .map(|failed| {
                    Condition::new(
                        now,
                        failed.kind,
                        failed.status,
                        failed.reason.clone(),
                        failed.message.clone(),
                    )
                })
                .collect();
            conditions.push(Condition::new(now, UPGRADEABLE, no, MULTIPLE, text));
            conditions.sort_by(|a, b| a.kind.cmp(&b.kind));
            conditions
        }
    }
}

/// Page of the documentation that explains what operators say of themselves.
const CONDITIONS: &str = "updating_clusters/understanding-openshift-updates-1#understanding_clusteroperator_conditiontypes_understanding-openshift-updates";

/// The risks that make up Upgradeable from 4.23 on, in the order of their sources, and the errors of those sources.
#[must_use]
pub fn risks(
    object: &ClusterVersion,
    around: &Surroundings<'_>,
    running: &str,
    era: Era,
) -> (Vec<Sourced>, Vec<String>) {
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
    if let Some(failed) = deletions(around.deletions, era) {
        let page = "updating_clusters/understanding-openshift-updates-1#update-manifest-application_how-updates-work";
        risks.push(certain(
            "ResourceDeletionInProgress",
            failed.message,
            documentation(running, page),
        ));
    }
    acknowledgment_risks(around, running, era, &mut risks, &mut errors);
    operator_risks(around, running, &mut risks, &mut errors);
    let sourced = risks.into_iter().map(|risk| Sourced {
        risk,
        gated_only: true,
    });
    (sourced.collect(), errors)
}

fn operator_risks(
    around: &Surroundings<'_>,
    running: &str,
    risks: &mut Vec<crate::types::Risk>,
    errors: &mut Vec<String>,
) {
    const UNKNOWN: &str = "ClusterOperatorUpgradeableUnknown";
    if let Err(error) = Version::parse(running) {
        let text = format!("Failed to parse cluster version to check Upgradeable conditions: {error}");
        risks.push(certain(UNKNOWN, text, documentation("", "")));
        errors.push(error.to_string());
        return;
    }
    match around.operators {
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
    around: &Surroundings<'_>,
    running: &str,
    era: Era,
    risks: &mut Vec<crate::types::Risk>,
    errors: &mut Vec<String>,
) {
    // Which gates apply cannot be told without a version: none is open then.
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
    let both = read(around.gates, gates::GATES)
        .and_then(|gates| read(around.acks, gates::ACKS).map(|acks| (gates, acks)));
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

/// Upgradeable as a sum of risks: the condition, or `None` when nothing stands against an update. From 4.23 on.
#[must_use]
pub fn sum(now: Time, risks: &[Sourced], errors: &[String]) -> Option<Condition> {
    let no = ConditionStatus::False;
    match risks {
        [] if errors.is_empty() => None,
        [] => Some(Condition::new(
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
            Some(Condition::new(
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
            Some(Condition::new(now, UPGRADEABLE, no, MULTIPLE, text))
        }
    }
}

/// Writes Upgradeable and its sub-conditions: those that are given are merged, all others of that kind are removed.
pub fn write(conditions: &mut Conditions, given: Vec<Condition>) {
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

/// How long the last look is good enough.
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
