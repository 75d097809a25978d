//! The state of a cluster by its whole ClusterVersion: one word and a cause for people.
//!
//! This needs the object, which the command line has. The hub has only the values of [`feedback`](crate::feedback) and
//! judges by those.

use std::fmt;

use chrono::TimeDelta;

use crate::cause::Cause;
use crate::types::{
    AVAILABLE, ClusterOperatorCondition, ClusterVersion, ConditionStatus, Conditions, FAILING, HistoryEntry,
    INVALID, PROGRESSING, RELEASE_ACCEPTED, RETRIEVED_UPDATES, Status, Time, UPGRADEABLE,
};
use crate::upgradeable;

/// An error during an update that lasts this long is not expected to pass by itself. Errors of real updates that did pass
/// took 1 to 8 minutes.
const MAX_TRANSIENT_ERROR: TimeDelta = TimeDelta::minutes(30);
/// An update that runs this long is stalled. Only one real update in twenty takes longer.
const MAX_UPDATE_DURATION: TimeDelta = TimeDelta::hours(24);

/// The state of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClusterVersionState {
    /// A release is applied and nothing blocks an update. Both need positive evidence.
    Idle,
    /// A release is being applied.
    Updating,
    /// No update runs, and the cluster rejects the requested one or all updates to another minor version.
    Blocked,
    /// Something fails: the operator cannot reconcile the applied release, or an update has an error that may still pass.
    Failing,
    /// An update makes no progress.
    Stalled,
    /// A release is applied except on worker nodes.
    WorkersPending,
    /// The object does not say enough for any other state. This is never a success.
    Unknown,
}

impl fmt::Display for ClusterVersionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "Idle",
            Self::Updating => "Updating",
            Self::Blocked => "Blocked",
            Self::Failing => "Failing",
            Self::Stalled => "Stalled",
            Self::WorkersPending => "WorkersPending",
            Self::Unknown => "Unknown",
        })
    }
}

/// What the object says about the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// The state.
    pub state: ClusterVersionState,
    /// The reason for the state, in one line.
    pub cause: String,
    /// Other things worth knowing, one line each.
    pub notes: Vec<String>,
}

/// Judges an object. Without `now`, the newest time in the object stands in for it: the current time cannot be earlier.
#[must_use]
pub fn assess(object: &ClusterVersion, now: Option<Time>) -> Assessment {
    let status = &object.status;
    let conditions = &status.conditions;
    let at = now.or_else(|| newest_time(object));
    let updating = conditions.is_true(PROGRESSING);
    let (state, cause) = if updating {
        in_update(conditions, open_entry(status), at)
    } else {
        at_rest(object)
    };
    Assessment {
        state,
        notes: notes(object, state, updating, &cause),
        cause: Cause::new("", &cause).message,
    }
}

fn newest_time(object: &ClusterVersion) -> Option<Time> {
    let status = &object.status;
    let conditions = status
        .conditions
        .iter()
        .map(|condition| condition.last_transition_time);
    let history = status
        .history
        .iter()
        .flat_map(|entry| [entry.started_time, entry.completion_time]);
    conditions.chain(history).flatten().max()
}

/// `Reason: message`, or the one of the two that exists.
fn spoken(condition: &ClusterOperatorCondition) -> String {
    match (condition.reason.as_str(), condition.message.trim()) {
        ("", "") => format!("{}={}", condition.kind, condition.status),
        (text, "") | ("", text) => text.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

fn failing(conditions: &Conditions) -> Option<&ClusterOperatorCondition> {
    conditions.get(FAILING).filter(|condition| condition.is_true())
}

/// The newest history entry, if it is not completed.
fn open_entry(status: &Status) -> Option<&HistoryEntry> {
    status.history.first().filter(|entry| !entry.is_completed())
}

fn unavailable(conditions: &Conditions) -> Option<&ClusterOperatorCondition> {
    conditions.get(AVAILABLE).filter(|condition| condition.is_false())
}

fn in_update(
    conditions: &Conditions,
    entry: Option<&HistoryEntry>,
    at: Option<Time>,
) -> (ClusterVersionState, String) {
    let progress = conditions
        .get(PROGRESSING)
        .map(|condition| condition.message.as_str())
        .filter(|message| !message.trim().is_empty())
        .unwrap_or("An update is in progress");
    let lasts = |since: Option<Time>| at.zip(since).map(|(at, since)| at - since);
    if let Some(failing) = failing(conditions) {
        // A degraded operator fails an update only after 40 minutes.
        let given_up = progress.contains("wait has exceeded")
            || lasts(failing.last_transition_time).is_some_and(|span| span >= MAX_TRANSIENT_ERROR);
        let state = if given_up {
            ClusterVersionState::Stalled
        } else {
            ClusterVersionState::Failing
        };
        return (state, format!("{} ({progress})", spoken(failing)));
    }
    let span = entry.and_then(|entry| lasts(entry.started_time));
    if let Some(span) = span.filter(|span| *span >= MAX_UPDATE_DURATION) {
        return (
            ClusterVersionState::Stalled,
            format!("{progress} (for {} hours)", span.num_hours()),
        );
    }
    (ClusterVersionState::Updating, progress.to_owned())
}

fn at_rest(object: &ClusterVersion) -> (ClusterVersionState, String) {
    let status = &object.status;
    let conditions = &status.conditions;
    let version = &status.desired.version;
    if let Some(invalid) = conditions.get(INVALID).filter(|condition| condition.is_true()) {
        return (ClusterVersionState::Blocked, invalid.message.clone());
    }
    if let Some(refused) = conditions
        .get(RELEASE_ACCEPTED)
        .filter(|condition| condition.is_false())
    {
        return (ClusterVersionState::Blocked, spoken(refused));
    }
    if let Some(failing) = failing(conditions) {
        let applied = status.history.first().is_some_and(HistoryEntry::is_completed);
        if applied && names_machine_config_only(failing) {
            let text = format!("{version} is applied except on some nodes: {}", spoken(failing));
            return (ClusterVersionState::WorkersPending, text);
        }
        return (ClusterVersionState::Failing, spoken(failing));
    }
    if let Some(down) = unavailable(conditions) {
        return (ClusterVersionState::Failing, spoken(down));
    }
    if conditions
        .get(RELEASE_ACCEPTED)
        .is_some_and(|condition| condition.status == ConditionStatus::Unknown)
    {
        let text = conditions.get(RELEASE_ACCEPTED).map(spoken).unwrap_or_default();
        return (ClusterVersionState::Updating, text);
    }
    if let Some(entry) = open_entry(status) {
        return (ClusterVersionState::Stalled, standstill(conditions, entry));
    }
    if let Some(missing) = missing(status) {
        return (ClusterVersionState::Unknown, missing);
    }
    match conditions
        .get(UPGRADEABLE)
        .filter(|condition| condition.is_false())
    {
        Some(gate) if names_pools(gate) => (
            ClusterVersionState::WorkersPending,
            format!("{version} is applied except on some nodes: {}", spoken(gate)),
        ),
        Some(gate) if gate.reason != "UpdateInProgress" => (
            ClusterVersionState::Blocked,
            format!(
                "The cluster runs {version} and blocks {}: {}",
                gated(object),
                spoken(gate)
            ),
        ),
        _ => (ClusterVersionState::Idle, rest(conditions, version)),
    }
}

/// The updates that Upgradeable=False blocks.
fn gated(object: &ClusterVersion) -> &'static str {
    if upgradeable::blocks_patch_updates(object) {
        "all updates"
    } else {
        "updates to another minor version"
    }
}

/// The text for a history entry that is not completed although no update runs.
fn standstill(conditions: &Conditions, entry: &HistoryEntry) -> String {
    let release = match (entry.version.as_str(), entry.image.as_str()) {
        ("", "") => "The newest release",
        ("", text) | (text, _) => text,
    };
    let text = format!("{release} is not fully applied, but Progressing is not True");
    match conditions.get(PROGRESSING).map(spoken) {
        Some(said) => format!("{text}: {said}"),
        None => text,
    }
}

/// What the object lacks to be called idle: an applied release, and an operator that reports that it is done.
fn missing(status: &Status) -> Option<String> {
    let has_conditions = status.conditions.iter().next().is_some();
    if status.history.is_empty() {
        let what = if has_conditions {
            "The history is empty, so it is not known whether any release is applied"
        } else {
            "The object has no status"
        };
        return Some(what.to_owned());
    }
    match status.conditions.get(PROGRESSING) {
        Some(condition) if condition.is_false() => None,
        Some(condition) => Some(format!(
            "Progressing is neither True nor False: {}",
            spoken(condition)
        )),
        None => Some("The object has no condition Progressing".to_owned()),
    }
}

fn rest(conditions: &Conditions, version: &str) -> String {
    let said = conditions
        .get(PROGRESSING)
        .map(|condition| condition.message.clone());
    said.filter(|text| !text.is_empty())
        .unwrap_or_else(|| format!("Cluster version is {version}"))
}

/// Whether machine-config is the only degraded operator, which is how nodes that cannot move to a release show. If it is not
/// Available, that is a failure like that of any other operator.
fn names_machine_config_only(failing: &ClusterOperatorCondition) -> bool {
    failing
        .message
        .starts_with("Cluster operator machine-config is degraded")
}

/// Whether Upgradeable=False is only about pools that are being updated.
fn names_pools(gate: &ClusterOperatorCondition) -> bool {
    let updating = |text: &str| text.contains("machine config pools are updating");
    let lines: Vec<&str> = gate
        .message
        .lines()
        .filter(|line| line.starts_with("* "))
        .collect();
    gate.reason == "PoolUpdating" || updating(&gate.message) && lines.iter().all(|line| updating(line))
}

fn notes(object: &ClusterVersion, state: ClusterVersionState, updating: bool, cause: &str) -> Vec<String> {
    let status = &object.status;
    let conditions = &status.conditions;
    let mut notes = Vec::new();
    let mut add = |text: &str| notes.push(Cause::new("", text).message);
    if let Some(slow) = conditions
        .get(FAILING)
        .filter(|condition| condition.status == ConditionStatus::Unknown)
    {
        add(&spoken(slow));
    }
    if let Some(down) = unavailable(conditions).map(spoken).filter(|text| text != cause) {
        add(&format!("The cluster is not available: {down}"));
    }
    if let Some(failing) = failing(conditions)
        .map(spoken)
        .filter(|text| !cause.contains(text))
    {
        add(&format!("The cluster is failing: {failing}"));
    }
    if updating {
        if let Some(invalid) = conditions.get(INVALID).filter(|condition| condition.is_true()) {
            add(&invalid.message);
        }
        if let Some(refused) = conditions
            .get(RELEASE_ACCEPTED)
            .filter(|condition| condition.is_false())
        {
            add(&spoken(refused));
        }
    }
    if let Some(gate) = conditions
        .get(UPGRADEABLE)
        .filter(|condition| condition.is_false())
    {
        let told = matches!(
            state,
            ClusterVersionState::Blocked | ClusterVersionState::WorkersPending
        ) && conditions.get(INVALID).is_none()
            && failing(conditions).is_none()
            && !conditions
                .get(RELEASE_ACCEPTED)
                .is_some_and(ClusterOperatorCondition::is_false);
        if !told {
            add(&format!("The cluster blocks {}: {}", gated(object), spoken(gate)));
        }
    }
    if let Some(retrieved) = conditions
        .get(RETRIEVED_UPDATES)
        .filter(|condition| condition.is_false())
    {
        add(&format!(
            "The cluster cannot retrieve updates: {}",
            spoken(retrieved)
        ));
    }
    if status.observed_generation < object.metadata.generation {
        add(&format!(
            "The cluster-version operator has observed generation {} of {}",
            status.observed_generation, object.metadata.generation
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
