//! Rules that every status of an upgrade and every report must obey.
//!
//! The rules of counters, conditions and bounds (`docs/design/rules.md#status-and-reports`) are pure functions of a status and
//! the status before it.

use std::collections::BTreeSet;

use api::conditions::TYPES;
use api::mcu::ClustersSummary;
use api::report::MAX_ROWS;
use serde_json::{Value, json};

use crate::seen::Seen;

/// Largest status as JSON.
const MAX_STATUS: usize = 16 * 1024;
/// Most entries of a capped list.
const MAX_NOTES: usize = 10;
/// Most groups of causes.
const MAX_CAUSES: usize = 20;
/// Longest message of a capped list, in bytes.
const MAX_MESSAGE: usize = 256;

/// Checks one status against itself and against the one before; returns what is broken.
#[must_use]
pub fn check(before: Option<&Seen>, now: &Seen) -> Vec<String> {
    let mut broken = Vec::new();
    // The default of the schema is there before the controller has seen the object.
    if [Value::Null, json!({"observedGeneration": -1})].contains(&now.raw["status"]) {
        return broken;
    }
    let mut rule = |holds: bool, what: &str| {
        if !holds {
            broken.push(format!("{what}: {}", now.raw["status"]));
        }
    };
    rule(
        now.raw["status"].to_string().len() < MAX_STATUS,
        "status below 16 KiB",
    );
    rule(
        now.status.observed_generation.is_some(),
        "observedGeneration is set and the status parses",
    );
    check_counters("clustersSummery", now.clusters(), &mut rule);
    check_counters("canaryClustersSummery", now.canaries(), &mut rule);
    rule(
        now.canaries().total <= now.clusters().total,
        "canaries are among the clusters",
    );
    for (name, action) in [("pre", now.pre()), ("post", now.post())] {
        let sum = action.available + action.progressing + action.degraded;
        rule(
            sum <= action.total,
            &format!("{name}: available + progressing + degraded <= total"),
        );
        rule(
            action.applied <= action.total,
            &format!("{name}: applied <= total"),
        );
    }
    check_phases(now, &mut rule);
    check_slots(before, now, &mut rule);
    check_conditions(now, &mut rule);
    check_transitions(before, now, &mut rule);
    let notes = [&now.status.failed_clusters, &now.status.waiting_clusters];
    rule(
        notes.iter().all(|list| list.len() <= MAX_NOTES),
        "lists hold at most 10 clusters",
    );
    rule(
        notes
            .iter()
            .flat_map(|list| list.iter())
            .all(|note| note.message.len() <= MAX_MESSAGE),
        "messages of at most 256 bytes",
    );
    rule(
        notes
            .iter()
            .flat_map(|list| list.iter())
            .all(|note| !note.reason.is_empty() && note.reason != "None"),
        "every listed cluster has a cause",
    );
    broken
}

fn check_counters(name: &str, counts: ClustersSummary, rule: &mut impl FnMut(bool, &str)) {
    rule(
        counts.total == counts.initialized + counts.pending,
        &format!("{name}: total = initialized + pending"),
    );
    rule(
        counts.partial_upgrade + counts.complete + counts.failed <= counts.initialized,
        &format!("{name}: partial + complete + failed <= initialized"),
    );
}

fn check_phases(now: &Seen, rule: &mut impl FnMut(bool, &str)) {
    let status = &now.status;
    let counts = now.clusters();
    rule(
        status.phases.values().sum::<i64>() == counts.total,
        "phases add up to the total",
    );
    let of = |phase: &str| status.phases.get(phase).copied().unwrap_or_default();
    rule(of("Failed") == counts.failed, "phases and failed");
    let causes = &status.causes;
    rule(causes.len() <= MAX_CAUSES, "at most 20 causes");
    rule(
        causes
            .iter()
            .all(|cause| cause.clusters <= of(cause.phase.as_str()) && !cause.remedy.is_empty()),
        "causes are of clusters in their phase, and have a remedy",
    );
    rule(
        now.is("Complete") == status.completed_at.is_some(),
        "Complete <=> completedAt",
    );
    rule(
        !now.is("Stalled") || [now.reason("Stalled"), "Paused"].contains(&now.reason("Ready")),
        "Ready has the reason of Stalled",
    );
}

/// More clusters than `maxConcurrency` may be in flight only after it was lowered. Then no cluster starts.
fn check_slots(before: Option<&Seen>, now: &Seen, rule: &mut impl FnMut(bool, &str)) {
    let Some(slots) = now.status.effective_max_concurrency else {
        return;
    };
    let allowed = before.map_or(slots, |before| slots.max(before.in_flight()));
    rule(now.in_flight() <= allowed, "in flight <= maxConcurrency");
}

fn check_conditions(now: &Seen, rule: &mut impl FnMut(bool, &str)) {
    for r#type in TYPES {
        rule(
            matches!(now.condition(r#type), "True" | "False"),
            &format!("condition {type} is True or False"),
        );
        rule(
            !now.reason(r#type).is_empty(),
            &format!("condition {type} has a reason"),
        );
    }
    let generations = now
        .status
        .conditions
        .iter()
        .map(|condition| condition.observed_generation);
    rule(
        generations
            .into_iter()
            .all(|generation| generation == now.status.observed_generation),
        "conditions bear the observedGeneration of the status",
    );
    let counts = now.clusters();
    rule(now.is("Failed") == (counts.failed > 0), "Failed <=> failed > 0");
    rule(
        now.is("InProgress") == (counts.partial_upgrade > 0),
        "InProgress <=> partialUpgrade > 0",
    );
    let of_phase = |phase: &str| now.status.phases.get(phase).copied().unwrap_or_default();
    let left_out = of_phase("Skipped") + of_phase("Aborted");
    rule(
        !now.is("Complete") || (counts.total > 0 && counts.complete + left_out == counts.total),
        "Complete => all clusters are complete or left out",
    );
    rule(!now.is("Ready") || now.is("Complete"), "Ready => Complete");
    rule(
        !(now.is("Reconciling") && now.is("Stalled")),
        "not both Reconciling and Stalled",
    );
    rule(
        !(now.is("Complete") && now.is("Stalled")),
        "not both Complete and Stalled",
    );
}

fn check_transitions(before: Option<&Seen>, now: &Seen, rule: &mut impl FnMut(bool, &str)) {
    let Some(before) = before.filter(|before| before.raw["metadata"]["uid"] == now.raw["metadata"]["uid"])
    else {
        return;
    };
    for condition in &now.status.conditions {
        let Some(old) = before
            .status
            .conditions
            .iter()
            .find(|old| old.type_ == condition.type_)
        else {
            continue;
        };
        if old.status == condition.status {
            rule(
                old.last_transition_time == condition.last_transition_time,
                &format!(
                    "lastTransitionTime of {} moves only when it flips",
                    condition.type_
                ),
            );
        } else {
            rule(
                old.last_transition_time <= condition.last_transition_time,
                &format!("lastTransitionTime of {} never goes back", condition.type_),
            );
        }
    }
    rule(!before.is("Applied") || now.is("Applied"), "Applied stays True");
}

/// Checks one report: bounded, each cluster once.
#[must_use]
pub fn check_report(report: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let rows = report["rows"].as_array().map_or(&[][..], Vec::as_slice);
    if rows.len() > MAX_ROWS {
        broken.push(format!("a report of {} rows", rows.len()));
    }
    let names: BTreeSet<&str> = rows.iter().filter_map(|row| row["cluster"].as_str()).collect();
    if names.len() != rows.len() {
        broken.push(format!("a cluster has two rows: {}", report["rows"]));
    }
    broken
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn seen(total: i64, pending: i64, in_flight: i64) -> Seen {
        let conditions: Vec<Value> = TYPES
            .iter()
            .map(|kind| {
                json!({"type": kind, "status": "False", "reason": "R", "message": "", "observedGeneration": 1,
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        Seen::new(&Arc::new(json!({"metadata": {"uid": "u"}, "status": {
            "observedGeneration": 1, "inFlight": in_flight, "effectiveMaxConcurrency": 2, "conditions": conditions,
            "clustersSummery": {"total": total, "initialized": 1, "partialUpgrade": 0, "complete": 0, "failed": 0,
                "pending": pending},
            "phases": {"Initialized": 1, "Pending": total - 1},
        }})))
    }

    #[test]
    fn a_sound_status_breaks_nothing() {
        assert_eq!(check(None, &seen(3, 2, 1)), Vec::<String>::new());
    }

    #[test]
    fn wrong_sums_and_too_many_clusters_in_flight_are_found() {
        assert!(check(None, &seen(4, 2, 1))[0].contains("total = initialized + pending"));
        assert!(check(None, &seen(3, 2, 3))[0].contains("maxConcurrency"));
        assert!(
            check(Some(&seen(3, 2, 3)), &seen(3, 2, 3)).is_empty(),
            "maxConcurrency was lowered"
        );
    }

    #[test]
    fn a_report_with_a_cluster_twice_is_found() {
        let report = json!({"rows": [{"cluster": "a"}, {"cluster": "a"}]});
        assert_eq!(check_report(&report).len(), 1);
    }
}
