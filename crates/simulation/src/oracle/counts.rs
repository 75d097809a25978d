//! Rules about one status: what its counts by phase, its causes and its times say must agree, and it has bounds.

use std::collections::BTreeMap;

use hub_sim::At as _;
use serde_json::Value;

use super::fields::text;

/// Longest message about a cluster in a list, in bytes.
const MAX_MESSAGE: usize = 256;
/// A status is smaller than this, in bytes.
const MAX_STATUS: usize = 16 * 1024;

fn number(value: &Value, pointer: &str) -> u64 {
    value.at(pointer).and_then(Value::as_u64).unwrap_or_default()
}

fn entries<'a>(status: &'a Value, list: &str) -> &'a [Value] {
    status
        .at(list)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The value of a field of a condition.
fn condition<'a>(status: &'a Value, name: &str, field: &str) -> &'a str {
    let mut conditions = entries(status, "/conditions").iter();
    let found = conditions.find(|one| text(one, "/type") == name);
    found.map_or("", |one| text(one, field))
}

/// What in the counts of an action does not add up.
fn wrong_action(status: &Value) -> Option<&'static str> {
    let wrong = |action: &str| {
        let count = |name: &str| number(status, &format!("/{action}/{name}"));
        let sum = count("available") + count("progressing") + count("degraded");
        sum > count("total") || count("applied") > count("total")
    };
    ["preUpgradeActionSummary", "postUpgradeActionSummary"]
        .into_iter()
        .find(|action| wrong(action))
}

/// Which bound a status exceeds, or what it does not tell although it must. The hub itself accepts no longer lists than it may have.
pub(super) fn excess(status: &Value) -> Option<&'static str> {
    let conditions = entries(status, "/conditions");
    let lists = ["/failedClusters", "/waitingClusters"].map(|list| entries(status, list));
    let listed = || lists.into_iter().flatten();
    let generation = status.at("/observedGeneration");
    let rules = [
        (status.to_string().len() < MAX_STATUS, "a status of 16 KiB"),
        (
            listed().all(|one| text(one, "/message").len() <= MAX_MESSAGE),
            "a message about a cluster that is too long",
        ),
        (
            listed().all(|one| !matches!(text(one, "/reason"), "" | "None")),
            "a listed cluster without a reason",
        ),
        (
            conditions.iter().all(|one| !text(one, "/reason").is_empty()),
            "a condition without a reason",
        ),
        (
            conditions
                .iter()
                .all(|one| matches!(text(one, "/status"), "True" | "False")),
            "a condition that is neither True nor False",
        ),
        (
            generation.is_some()
                && conditions
                    .iter()
                    .all(|one| one.get("observedGeneration") == generation),
            "a condition of another generation",
        ),
    ];
    let found = rules.iter().find(|(holds, _)| !holds).map(|(_, what)| *what);
    found.or_else(|| wrong_action(status))
}

/// What in a status does not go together, if anything.
pub(super) fn contradiction(status: &Value) -> Option<&'static str> {
    let phase = |name: &str| number(status, &format!("/phases/{name}"));
    let count = |name: &str| number(status, &format!("/clustersSummery/{name}"));
    let phases = status.at("/phases").and_then(Value::as_object);
    let sum: u64 = phases
        .into_iter()
        .flat_map(|phases| phases.values())
        .filter_map(Value::as_u64)
        .sum();
    let causes = entries(status, "/causes");
    let mut by_phase: BTreeMap<&str, u64> = BTreeMap::new();
    for cause in causes {
        *by_phase.entry(text(cause, "/phase")).or_default() += number(cause, "/clusters");
    }
    let is_whole = number(status, "/truncated/causes") == 0;
    let explained = |name: &str| by_phase.get(name).copied().unwrap_or_default();
    let is_asked = status.at("/preflight").is_some();
    let has_cause = |note: &Value| {
        let same = |cause: &Value, field: &str| text(cause, field) == text(note, field);
        // Among the causes, what a cluster says to the update takes the place of the slot that it waits for.
        let is_warned = is_asked && text(note, "/phase") == "Pending";
        let mut causes = causes.iter();
        causes.any(|cause| same(cause, "/phase") && (is_warned || same(cause, "/reason")))
    };
    let mut notes = entries(status, "/failedClusters")
        .iter()
        .chain(entries(status, "/waitingClusters"));
    let is_complete = condition(status, "Complete", "/status") == "True";
    let (ready, stalled) = (
        condition(status, "Ready", "/reason"),
        condition(status, "Stalled", "/reason"),
    );
    let is_stalled = condition(status, "Stalled", "/status") == "True";
    let rules = [
        (sum == count("total"), "phases and total"),
        (phase("Failed") == count("failed"), "phases and failed"),
        (
            phase("Complete") + phase("PostAction") == count("complete"),
            "phases and complete",
        ),
        (
            phase("Partial") + phase("Workers") + phase("Operators") == count("partialUpgrade"),
            "phases and partialUpgrade",
        ),
        (
            by_phase.iter().all(|(name, clusters)| *clusters <= phase(name)),
            "more causes than clusters in a phase",
        ),
        (
            !is_whole
                || ["Failed", "PreActionDegraded", "Blocked"]
                    .iter()
                    .all(|name| explained(name) == phase(name)),
            "clusters that need a human and have no cause",
        ),
        (
            !is_whole || notes.all(has_cause),
            "a listed cluster without a cause",
        ),
        (
            causes.iter().all(|cause| !text(cause, "/remedy").is_empty()),
            "a cause without a remedy",
        ),
        (
            is_complete == status.at("/completedAt").is_some(),
            "Complete and completedAt",
        ),
        (
            !is_stalled || ready == stalled || ready == "Paused",
            "Ready and Stalled with different reasons",
        ),
    ];
    rules.iter().find(|(holds, _)| !holds).map(|(_, what)| *what)
}

#[cfg(test)]
mod tests;
