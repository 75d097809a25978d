//! Where a cluster stands by its whole ClusterVersion, in one word, with a cause for people.
//!
//! Owns the states and their order. The hub judges by [`feedback`](crate::feedback), which has less; this is for who has
//! the object: the command line, reports, simulations.

use std::fmt;

use chrono::TimeDelta;

use crate::cause::Cause;
use crate::types::{
    AVAILABLE, ClusterVersion, Condition, ConditionStatus, Conditions, FAILING, HistoryEntry, INVALID,
    PROGRESSING, RELEASE_ACCEPTED, RETRIEVED_UPDATES, Status, Time, UPGRADEABLE,
};
use crate::upgradeable;

/// An error that lasts this long in an update no longer passes by itself: real ones that do take 1 to 8 minutes.
const PASSING: TimeDelta = TimeDelta::minutes(30);
/// Longer than this takes one real update in twenty.
const ENDLESS: TimeDelta = TimeDelta::hours(24);

/// A state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// A release is applied, and nothing stands against an update. Only with positive evidence of both.
    Idle,
    /// A release is being applied.
    Updating,
    /// Nothing runs, and a request is refused, or updates to another minor version are.
    Blocked,
    /// Something fails: a release that is applied cannot be kept so, or an update meets an error that may still pass.
    Failing,
    /// An update does not get on.
    Stalled,
    /// A release is applied but for the worker nodes.
    WorkersPending,
    /// The object does not say enough for any other state. Never a success.
    Unknown,
}

impl fmt::Display for State {
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

/// Where a cluster stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// In one word.
    pub state: State,
    /// Why, in one line.
    pub cause: String,
    /// What else is worth knowing, a line each.
    pub notes: Vec<String>,
}

/// Judges an object. Without `now` the newest time in the object is taken for it, the least that it can be.
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

/// `Reason: message`, whichever there are.
fn spoken(condition: &Condition) -> String {
    match (condition.reason.as_str(), condition.message.trim()) {
        ("", "") => format!("{}={}", condition.kind, condition.status),
        (text, "") | ("", text) => text.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

fn failing(conditions: &Conditions) -> Option<&Condition> {
    conditions.get(FAILING).filter(|condition| condition.is_true())
}

/// The newest entry of the history, if it is not completed.
fn open_entry(status: &Status) -> Option<&HistoryEntry> {
    status.history.first().filter(|entry| !entry.is_completed())
}

fn unavailable(conditions: &Conditions) -> Option<&Condition> {
    conditions.get(AVAILABLE).filter(|condition| condition.is_false())
}

fn in_update(conditions: &Conditions, entry: Option<&HistoryEntry>, at: Option<Time>) -> (State, String) {
    let progress = conditions
        .get(PROGRESSING)
        .map(|condition| condition.message.as_str())
        .filter(|message| !message.trim().is_empty())
        .unwrap_or("an update is in progress");
    let lasts = |since: Option<Time>| at.zip(since).map(|(at, since)| at - since);
    if let Some(failing) = failing(conditions) {
        // Degraded operators fail an update only after a grace of 40 minutes.
        let given_up = progress.contains("wait has exceeded")
            || lasts(failing.last_transition_time).is_some_and(|span| span >= PASSING);
        let state = if given_up { State::Stalled } else { State::Failing };
        return (state, format!("{} ({progress})", spoken(failing)));
    }
    let span = entry.and_then(|entry| lasts(entry.started_time));
    if let Some(span) = span.filter(|span| *span >= ENDLESS) {
        return (
            State::Stalled,
            format!("{progress} (for {} hours)", span.num_hours()),
        );
    }
    (State::Updating, progress.to_owned())
}

fn at_rest(object: &ClusterVersion) -> (State, String) {
    let status = &object.status;
    let conditions = &status.conditions;
    let version = &status.desired.version;
    if let Some(invalid) = conditions.get(INVALID).filter(|condition| condition.is_true()) {
        return (State::Blocked, invalid.message.clone());
    }
    if let Some(refused) = conditions
        .get(RELEASE_ACCEPTED)
        .filter(|condition| condition.is_false())
    {
        return (State::Blocked, spoken(refused));
    }
    if let Some(failing) = failing(conditions) {
        let applied = status.history.first().is_some_and(HistoryEntry::is_completed);
        if applied && names_machine_config_only(failing) {
            let text = format!("{version} is applied but for nodes: {}", spoken(failing));
            return (State::WorkersPending, text);
        }
        return (State::Failing, spoken(failing));
    }
    if let Some(down) = unavailable(conditions) {
        return (State::Failing, spoken(down));
    }
    if conditions
        .get(RELEASE_ACCEPTED)
        .is_some_and(|condition| condition.status == ConditionStatus::Unknown)
    {
        let text = conditions.get(RELEASE_ACCEPTED).map(spoken).unwrap_or_default();
        return (State::Updating, text);
    }
    if let Some(entry) = open_entry(status) {
        return (State::Stalled, standstill(conditions, entry));
    }
    if let Some(missing) = missing(status) {
        return (State::Unknown, missing);
    }
    match conditions
        .get(UPGRADEABLE)
        .filter(|condition| condition.is_false())
    {
        Some(gate) if names_pools(gate) => (
            State::WorkersPending,
            format!("{version} is applied but for nodes: {}", spoken(gate)),
        ),
        Some(gate) if gate.reason != "UpdateInProgress" => (
            State::Blocked,
            format!("{version} runs; {} are blocked: {}", gated(object), spoken(gate)),
        ),
        _ => (State::Idle, rest(conditions, version)),
    }
}

/// The updates that Upgradeable=False stands against.
fn gated(object: &ClusterVersion) -> &'static str {
    if upgradeable::all_updates_wait(object) {
        "all updates"
    } else {
        "updates to another minor version"
    }
}

/// An entry that is not completed, and nobody who works on it.
fn standstill(conditions: &Conditions, entry: &HistoryEntry) -> String {
    let release = match (entry.version.as_str(), entry.image.as_str()) {
        ("", "") => "the newest release",
        ("", text) | (text, _) => text,
    };
    let text = format!("{release} is not completed, and Progressing is not True");
    match conditions.get(PROGRESSING).map(spoken) {
        Some(said) => format!("{text}: {said}"),
        None => text,
    }
}

/// What an object lacks to be called at rest: a release that is applied, and an operator that says it is done.
fn missing(status: &Status) -> Option<String> {
    let has_conditions = status.conditions.iter().next().is_some();
    if status.history.is_empty() {
        let what = if has_conditions {
            "the history is empty, so that no release is known to be applied"
        } else {
            "the object has no status"
        };
        return Some(what.to_owned());
    }
    match status.conditions.get(PROGRESSING) {
        Some(condition) if condition.is_false() => None,
        Some(condition) => Some(format!(
            "Progressing is neither True nor False: {}",
            spoken(condition)
        )),
        None => Some("the object has no condition Progressing".to_owned()),
    }
}

fn rest(conditions: &Conditions, version: &str) -> String {
    let said = conditions
        .get(PROGRESSING)
        .map(|condition| condition.message.clone());
    said.filter(|text| !text.is_empty())
        .unwrap_or_else(|| format!("Cluster version is {version}"))
}

/// Whether machine-config is degraded, and it alone: nodes that do not take up a release show so. One that is not
/// available fails like any other.
fn names_machine_config_only(failing: &Condition) -> bool {
    failing
        .message
        .starts_with("Cluster operator machine-config is degraded")
}

/// Whether pools that are being updated are all that a gate speaks of.
fn names_pools(gate: &Condition) -> bool {
    let updating = |text: &str| text.contains("machine config pools are updating");
    let lines: Vec<&str> = gate
        .message
        .lines()
        .filter(|line| line.starts_with("* "))
        .collect();
    gate.reason == "PoolUpdating" || updating(&gate.message) && lines.iter().all(|line| updating(line))
}

fn notes(object: &ClusterVersion, state: State, updating: bool, cause: &str) -> Vec<String> {
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
        add(&format!("the cluster is not available: {down}"));
    }
    if let Some(failing) = failing(conditions)
        .map(spoken)
        .filter(|text| !cause.contains(text))
    {
        add(&format!("the cluster is failing: {failing}"));
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
        let told = matches!(state, State::Blocked | State::WorkersPending)
            && conditions.get(INVALID).is_none()
            && failing(conditions).is_none()
            && !conditions.get(RELEASE_ACCEPTED).is_some_and(Condition::is_false);
        if !told {
            add(&format!("{} are blocked: {}", gated(object), spoken(gate)));
        }
    }
    if let Some(retrieved) = conditions
        .get(RETRIEVED_UPDATES)
        .filter(|condition| condition.is_false())
    {
        add(&format!("no updates are retrieved: {}", spoken(retrieved)));
    }
    if status.observed_generation < object.metadata.generation {
        add(&format!(
            "the operator has taken up generation {} of {}",
            status.observed_generation, object.metadata.generation
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
