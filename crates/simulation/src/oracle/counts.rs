//! Rules about one status: what its counts by phase, its causes and its times say must agree.

use std::collections::BTreeMap;

use hub_sim::At as _;
use serde_json::Value;

use super::fields::text;

/// Most groups of causes in a status.
const MAX_CAUSES: usize = 20;

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
    let has_cause = |note: &Value| {
        let same = |cause: &Value, field: &str| text(cause, field) == text(note, field);
        let mut causes = causes.iter();
        causes.any(|cause| same(cause, "/phase") && same(cause, "/reason"))
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
        (causes.len() <= MAX_CAUSES, "more causes than a status may have"),
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
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_causes_and_times_that_contradict_each_other_are_found() {
        let cause = json!({"reason": "R", "phase": "Failed", "clusters": 2, "remedy": "Fix it."});
        let status = json!({
            "phases": {"Failed": 2, "Pending": 1},
            "clustersSummery": {"total": 3, "failed": 2, "pending": 1},
            "causes": [cause], "failedClusters": [{"phase": "Failed", "reason": "R"}],
            "conditions": [{"type": "Stalled", "status": "True", "reason": "S"}, {"type": "Ready", "reason": "S"}],
        });
        assert_eq!(contradiction(&status), None);
        for (pointer, value, expected) in [
            ("/phases/Pending", json!(2), "phases and total"),
            (
                "/causes/0/clusters",
                json!(3),
                "more causes than clusters in a phase",
            ),
            (
                "/causes/0/clusters",
                json!(1),
                "clusters that need a human and have no cause",
            ),
            (
                "/failedClusters/0/reason",
                json!("X"),
                "a listed cluster without a cause",
            ),
            ("/causes/0/remedy", json!(""), "a cause without a remedy"),
            (
                "/conditions/1/reason",
                json!("T"),
                "Ready and Stalled with different reasons",
            ),
        ] {
            let mut wrong = status.clone();
            *wrong.pointer_mut(pointer).unwrap() = value;
            assert_eq!(contradiction(&wrong), Some(expected), "{pointer}");
        }
        let mut wrong = status;
        wrong["completedAt"] = json!("2026-03-01T10:00:00Z");
        assert_eq!(contradiction(&wrong), Some("Complete and completedAt"));
    }
}
