//! Preconditions of a loaded payload: rollback, giant hop, Upgradeable, recommended.
//!
//! Owns who is blocked by what, the texts, and what force does (`docs/design/cvo.md#preconditions`). All of them
//! run; one that only warns goes to the accepted risks of the history.

use update_graph::Version;

use crate::era::Era;
use crate::types::{ClusterVersion, ConditionStatus, PROGRESSING, RETRIEVED_UPDATES, Status, UPGRADEABLE};
use crate::upgradeable::overrides_text;
use crate::version::{self, Hop, hop};

/// A precondition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Name of the precondition.
    pub name: &'static str,
    /// Reason.
    pub reason: String,
    /// Text.
    pub message: String,
    /// Whether it stands against the update, or is only recorded.
    pub blocks: bool,
}

/// What the preconditions come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Summary {
    /// All hold.
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

impl Failed {
    fn new(name: &'static str, reason: impl Into<String>, message: impl Into<String>, blocks: bool) -> Self {
        Self {
            name,
            reason: reason.into(),
            message: message.into(),
            blocks,
        }
    }
}

/// Current target and wanted version. An unreadable current version only warns, since it takes an update to mend it.
fn ends(name: &'static str, current: &str, target: &str) -> Result<(Version, Version), Failed> {
    let current = Version::parse(current)
        .map_err(|error| Failed::new(name, "InvalidCurrentVersion", error.to_string(), false))?;
    let target = Version::parse(target)
        .map_err(|error| Failed::new(name, "InvalidDesiredVersion", error.to_string(), true))?;
    Ok((current, target))
}

/// The preconditions that do not hold for an update to a version.
#[must_use]
pub fn run(object: &ClusterVersion, target: &str, era: Era) -> Vec<Failed> {
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

fn rollback(status: &Status, target: &str) -> Option<Failed> {
    let (current, target) = match ends(ROLLBACK, &status.desired.version, target) {
        Ok(ends) => ends,
        Err(failed) => return Some(failed),
    };
    if target >= current {
        return None;
    }
    // The newest entry that is another release decides, whether it was completed or not.
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
    Some(Failed::new(ROLLBACK, "LowDesiredVersion", text, true))
}

fn giant_hop(status: &Status, target: &str, era: Era) -> Option<Failed> {
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
        return Some(Failed::new(GIANT_HOP, "MajorVersionUpdate", text, true));
    }
    // The minor versions alone are compared, so that a way back over a major version may be a giant hop as well.
    let far = target.minor() > current.minor() + 1;
    far.then(|| {
        let text = format!(
            "{target} is more than one minor version beyond the current target {current} ({}.{} > {}.({}+1)), and only updates within the current minor version or to the next minor version are supported.",
            target.major(),
            target.minor(),
            current.major(),
            current.minor()
        );
        Failed::new(GIANT_HOP, "MultipleMinorVersionsUpdate", text, true)
    })
}

fn upgradeable(object: &ClusterVersion, target: &str, era: Era) -> Option<Failed> {
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
        return Some(Failed::new(
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
            Failed::new(GATE, "ClusterVersionOverridesSet", text, true)
        } else {
            let text = format!(
                "Retarget from {current} to {target} is not blocked by ClusterVersionOverridesSet. But the cluster-version operator is not managing these resources; they are currently the responsibility of the agent that set the overrides: {text}"
            );
            Failed::new(GATE, "ClusterVersionOverridesSet", text, false)
        });
    }
    retarget(status, &current, &target, era)
}

/// Another patch version while an update to the minor version of the present target is under way.
fn retarget(status: &Status, current: &Version, target: &Version, era: Era) -> Option<Failed> {
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
    Some(Failed::new(
        GATE,
        format!("{kind}VersionClusterUpdateInProgress"),
        text,
        false,
    ))
}

fn recommended(object: &ClusterVersion, target: &str) -> Option<Failed> {
    let status = &object.status;
    let from = &status.desired.version;
    let warn = |reason: &str, text: String| Some(Failed::new(RECOMMENDATION, reason, text, false));
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

/// What failed preconditions come to, with or without force.
#[must_use]
pub fn summarize(failed: &[Failed], force: bool) -> Summary {
    let lines: Vec<String> = failed
        .iter()
        .map(|failed| {
            let Failed {
                name,
                reason,
                message,
                ..
            } = failed;
            format!("Precondition {name:?} failed because of {reason:?}: {message}")
        })
        .collect();
    let text = match lines.as_slice() {
        [] => return Summary::Passed,
        [one] => one.clone(),
        several => format!("Multiple precondition checks failed:\n* {}", several.join("\n* ")),
    };
    match (failed.iter().any(|failed| failed.blocks), force) {
        (false, _) => Summary::Accepted(text),
        (true, true) => Summary::Accepted(format!("Forced through blocking failures: {text}")),
        (true, false) => Summary::Blocked(text),
    }
}

#[cfg(test)]
mod tests;
