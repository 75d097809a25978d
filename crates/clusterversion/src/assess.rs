//! Where a cluster stands by its whole ClusterVersion, in one word, with a cause for people.
//!
//! Owns the six states and their order. The hub judges by [`feedback`](crate::feedback), which has less; this is for who has
//! the object: the command line, reports, simulations.

use std::fmt;

use chrono::TimeDelta;

use crate::cause::Cause;
use crate::types::{
    ClusterVersion, Condition, ConditionStatus, Conditions, FAILING, HistoryEntry, INVALID, PROGRESSING,
    RELEASE_ACCEPTED, RETRIEVED_UPDATES, Time, UPGRADEABLE,
};

/// An error that lasts this long in an update no longer passes by itself: real ones that do take 1 to 8 minutes.
const PASSING: TimeDelta = TimeDelta::minutes(30);
/// Longer than this takes one real update in twenty.
const ENDLESS: TimeDelta = TimeDelta::hours(24);

/// A state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// A release is applied, and nothing stands against an update.
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
    let newest = status.history.first();
    let updating = conditions.is_true(PROGRESSING) && newest.is_none_or(|entry| !entry.is_completed());
    let (state, cause) = if updating {
        in_update(conditions, newest, at)
    } else {
        at_rest(object)
    };
    Assessment {
        state,
        cause: Cause::new("", &cause).message,
        notes: notes(object, state, updating),
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

fn in_update(conditions: &Conditions, newest: Option<&HistoryEntry>, at: Option<Time>) -> (State, String) {
    let progress = conditions
        .get(PROGRESSING)
        .map_or("", |condition| condition.message.as_str());
    let lasts = |since: Option<Time>| at.zip(since).map(|(at, since)| at - since);
    if let Some(failing) = failing(conditions) {
        // Degraded operators fail an update only after a grace of 40 minutes.
        let given_up = progress.contains("wait has exceeded")
            || lasts(failing.last_transition_time).is_some_and(|span| span >= PASSING);
        let state = if given_up { State::Stalled } else { State::Failing };
        return (state, format!("{} ({progress})", spoken(failing)));
    }
    let span = newest.and_then(|entry| lasts(entry.started_time));
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
        if names_machine_config_only(failing) {
            let text = format!("{version} is applied but for nodes: {}", spoken(failing));
            return (State::WorkersPending, text);
        }
        return (State::Failing, spoken(failing));
    }
    if conditions
        .get(RELEASE_ACCEPTED)
        .is_some_and(|condition| condition.status == ConditionStatus::Unknown)
    {
        let text = conditions.get(RELEASE_ACCEPTED).map(spoken).unwrap_or_default();
        return (State::Updating, text);
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
            format!(
                "{version} runs; updates to another minor version are blocked: {}",
                spoken(gate)
            ),
        ),
        _ => (State::Idle, rest(conditions, version)),
    }
}

fn rest(conditions: &Conditions, version: &str) -> String {
    let said = conditions
        .get(PROGRESSING)
        .map(|condition| condition.message.clone());
    said.filter(|text| !text.is_empty())
        .unwrap_or_else(|| format!("Cluster version is {version}"))
}

/// Whether machine-config is the one operator a failure is about: the nodes are its business alone.
fn names_machine_config_only(failing: &Condition) -> bool {
    let about = |text: &str| failing.message.starts_with(text);
    about("Cluster operator machine-config is ")
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

fn notes(object: &ClusterVersion, state: State, updating: bool) -> Vec<String> {
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
            add(&format!(
                "updates to another minor version are blocked: {}",
                spoken(gate)
            ));
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
