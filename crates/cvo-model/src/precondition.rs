//! Preconditions of a loaded payload: rollback, giant hop, Upgradeable, recommended.
//!
//! This module defines which precondition blocks which update, the texts, and the effect of force
//! (`docs/design/cvo.md#preconditions`). All preconditions are checked. One that only warns is recorded in the history as an
//! accepted risk.

use clusterversion::Era;
use clusterversion::types::{
    ClusterVersion, ConditionStatus, PROGRESSING, RETRIEVED_UPDATES, Status, UPGRADEABLE,
};
use clusterversion::version::{self, Hop, hop};
use update_graph::Version;

use crate::era::Behavior as _;
use crate::upgradeable::overrides_text;

/// A precondition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedPrecondition {
    /// Name of the precondition.
    pub name: &'static str,
    /// Reason.
    pub reason: String,
    /// Message.
    pub message: String,
    /// Whether it blocks the update or is only recorded.
    pub blocks: bool,
}

/// The result of all preconditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreconditionResult {
    /// All preconditions hold.
    Passed,
    /// The update proceeds; the text is recorded as an accepted risk.
    Accepted(String),
    /// The update waits.
    Blocked(String),
}

const ROLLBACK: &str = "ClusterVersionRollback";
const GIANT_HOP: &str = "ClusterVersionGiantHop";
const GATE: &str = "ClusterVersionUpgradeable";
const RECOMMENDATION: &str = "ClusterVersionRecommendedUpdate";

impl FailedPrecondition {
    fn new(name: &'static str, reason: impl Into<String>, message: impl Into<String>, blocks: bool) -> Self {
        Self {
            name,
            reason: reason.into(),
            message: message.into(),
            blocks,
        }
    }
}

/// The versions of the current and the requested release. An invalid current version only warns, because only an update can
/// fix it.
fn ends(name: &'static str, current: &str, target: &str) -> Result<(Version, Version), FailedPrecondition> {
    let current = Version::parse(current)
        .map_err(|error| FailedPrecondition::new(name, "InvalidCurrentVersion", error.to_string(), false))?;
    let target = Version::parse(target)
        .map_err(|error| FailedPrecondition::new(name, "InvalidDesiredVersion", error.to_string(), true))?;
    Ok((current, target))
}

/// The preconditions that do not hold for an update to a version.
#[must_use]
pub fn run(object: &ClusterVersion, target: &str, era: Era) -> Vec<FailedPrecondition> {
    [
        rollback(&object.status, target),
        if era.checks_giant_hops() {
            giant_hop(&object.status, target, era)
        } else {
            None
        },
        upgradeable(object, target, era),
        recommended(object, target),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn rollback(status: &Status, target: &str) -> Option<FailedPrecondition> {
    let (current, target) = match ends(ROLLBACK, &status.desired.version, target) {
        Ok(ends) => ends,
        Err(failed) => return Some(failed),
    };
    if target >= current {
        return None;
    }
    // The newest entry with another release decides, whether it was completed or not.
    let previous = status
        .history
        .iter()
        .find(|entry| entry.version != status.desired.version || entry.image != status.desired.image)
        .and_then(|entry| {
            Version::parse(&entry.version)
                .ok()
                .map(|version| (version, &entry.image))
        });
    let below = format!("{target} is less than the current target {current}");
    let text = match previous {
        None => format!("{below}, and the cluster has no previous Semantic Version"),
        Some((previous, image)) if previous != target => format!(
            "{below}, and the only supported rollback is to the cluster's previous version {previous} ({image})"
        ),
        Some((previous, _)) if (previous.major(), previous.minor()) == (current.major(), current.minor()) => {
            return None;
        }
        Some(_) => format!(
            "{below} and matches the cluster's previous version, but rollbacks that change major or minor versions are not recommended"
        ),
    };
    Some(FailedPrecondition::new(ROLLBACK, "LowDesiredVersion", text, true))
}

fn giant_hop(status: &Status, target: &str, era: Era) -> Option<FailedPrecondition> {
    let (current, target) = match ends(GIANT_HOP, &status.desired.version, target) {
        Ok(ends) => ends,
        Err(failed) => return Some(failed),
    };
    if target.major() > current.major() {
        let opens = era.opens_five() && (current.major(), target.major()) == (4, 5);
        if opens && target.minor() == 0 {
            return None;
        }
        let text = format!(
            "{target} has a larger major version than the current target {current} ({} > {}), and only updates within the current major version{} are supported.",
            target.major(),
            current.major(),
            if opens { " or to 5.0" } else { "" }
        );
        return Some(FailedPrecondition::new(
            GIANT_HOP,
            "MajorVersionUpdate",
            text,
            true,
        ));
    }
    // Only the minor versions are compared, so a way back to an earlier major version may also count as a giant hop.
    let far = target.minor() > current.minor() + 1;
    far.then(|| {
        let text = format!(
            "{target} is more than one minor version beyond the current target {current} ({}.{} > {}.({}+1)), and only updates within the current minor version or to the next minor version are supported.",
            target.major(),
            target.minor(),
            current.major(),
            current.minor()
        );
        FailedPrecondition::new(GIANT_HOP, "MultipleMinorVersionsUpdate", text, true)
    })
}

fn upgradeable(object: &ClusterVersion, target: &str, era: Era) -> Option<FailedPrecondition> {
    let status = &object.status;
    let condition = status
        .conditions
        .get(UPGRADEABLE)
        .filter(|condition| condition.is_false())?;
    let (current, target) = match ends(GATE, &status.desired.version, target) {
        Ok(ends) => ends,
        Err(failed) => return Some(failed),
    };
    if matches!(hop(&current, &target), Hop::Minor | Hop::Major) {
        return Some(FailedPrecondition::new(
            GATE,
            condition.reason.clone(),
            condition.message.clone(),
            true,
        ));
    }
    if object.has_overrides() {
        let text = overrides_text(if era.has_risk_sources() {
            Era::new(4, 22)
        } else {
            era
        });
        return Some(if era.overrides_block_patches() {
            FailedPrecondition::new(GATE, "ClusterVersionOverridesSet", text, true)
        } else {
            let text = format!(
                "Retarget from {current} to {target} is not blocked by ClusterVersionOverridesSet. But the cluster-version operator is not managing these resources; they are currently the responsibility of the agent that set the overrides: {text}"
            );
            FailedPrecondition::new(GATE, "ClusterVersionOverridesSet", text, false)
        });
    }
    retarget(status, &current, &target, era)
}

/// A request for another patch version while an update to that minor version is running.
fn retarget(status: &Status, current: &Version, target: &Version, era: Era) -> Option<FailedPrecondition> {
    let same_minor = (current.major(), current.minor()) == (target.major(), target.minor());
    let completed = version::parse(status.current_version())?;
    if !same_minor || !status.conditions.is_true(PROGRESSING) {
        return None;
    }
    let kind = match hop(&completed, current) {
        Hop::Minor => "Minor",
        Hop::Major if era.says_major() => "Major",
        _ => return None,
    };
    let level = if era.says_major() { "version" } else { "level" };
    let text = format!(
        "Retarget to {target} while a {} {level} update from {completed} to {current} is in progress",
        kind.to_lowercase()
    );
    Some(FailedPrecondition::new(
        GATE,
        format!("{kind}VersionClusterUpdateInProgress"),
        text,
        false,
    ))
}

fn recommended(object: &ClusterVersion, target: &str) -> Option<FailedPrecondition> {
    let status = &object.status;
    let from = &status.desired.version;
    let warn =
        |reason: &str, text: String| Some(FailedPrecondition::new(RECOMMENDATION, reason, text, false));
    if status
        .available_updates
        .iter()
        .any(|release| release.version == target)
    {
        return None;
    }
    let conditional = status
        .conditional_updates
        .iter()
        .find(|update| update.release.version == target);
    if let Some(update) = conditional {
        let Some(condition) = update.recommended() else {
            let text = format!(
                "Update from {from} to {target} has a status.conditionalUpdates entry, but no Recommended condition."
            );
            return warn("UnknownConditionType", text);
        };
        let (reason, message) = (&condition.reason, &condition.message);
        return match condition.status {
            ConditionStatus::True => None,
            ConditionStatus::False => warn(
                reason,
                format!("Update from {from} to {target} is not recommended:\n\n{message}"),
            ),
            status => warn(
                reason,
                format!("Update from {from} to {target} is Recommended={status}: {reason}: {message}"),
            ),
        };
    }
    let unknown = format!("so the recommended status of updating from {from} to {target} is unknown.");
    if object.spec.channel.is_empty() {
        return warn("NoChannel", format!("Configured channel is unset, {unknown}"));
    }
    let text = match status.conditions.get(RETRIEVED_UPDATES) {
        None => format!("No RetrievedUpdates, {unknown}"),
        Some(retrieved) if retrieved.is_true() => format!(
            "RetrievedUpdates=True ({}), so the update from {from} to {target} is probably neither recommended nor supported.",
            retrieved.reason
        ),
        Some(retrieved) => format!(
            "RetrievedUpdates={} ({}), {unknown}",
            retrieved.status, retrieved.reason
        ),
    };
    warn("UnknownUpdate", text)
}

/// The result of the failed preconditions, with or without force.
#[must_use]
pub fn summarize(failed: &[FailedPrecondition], force: bool) -> PreconditionResult {
    let lines: Vec<String> = failed
        .iter()
        .map(|failed| {
            let FailedPrecondition {
                name,
                reason,
                message,
                ..
            } = failed;
            format!("Precondition {name:?} failed because of {reason:?}: {message}")
        })
        .collect();
    let text = match lines.as_slice() {
        [] => return PreconditionResult::Passed,
        [one] => one.clone(),
        several => format!("Multiple precondition checks failed:\n* {}", several.join("\n* ")),
    };
    match (failed.iter().any(|failed| failed.blocks), force) {
        (false, _) => PreconditionResult::Accepted(text),
        (true, true) => PreconditionResult::Accepted(format!("Forced through blocking failures: {text}")),
        (true, false) => PreconditionResult::Blocked(text),
    }
}

#[cfg(test)]
mod tests;
