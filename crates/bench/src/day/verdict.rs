//! Whether a cluster ended as its case says.

use std::collections::BTreeMap;

use api::ReportRow;
use api::report::{Outcome, Phase, Stage};
use rollout::Reason;
use serde::Serialize;

use super::fixtures::{CASES, Case, Expect};

/// A cluster that did not end as it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mismatch {
    /// Name of the cluster.
    pub cluster: String,
    /// Its case.
    pub case: &'static str,
    /// What is not as it should be.
    pub problem: String,
    /// Phase it ended in; empty without a row.
    pub phase: String,
    /// Reason it ended with.
    pub reason: String,
    /// Message it ended with.
    pub message: String,
}

/// The clusters of one case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// Its name.
    pub case: &'static str,
    /// What must come out.
    pub expected: String,
    /// Clusters.
    pub clusters: usize,
    /// Those that are complete.
    pub complete: usize,
    /// Those that failed.
    pub failed: usize,
    /// Those that did not end as they should.
    pub mismatches: usize,
}

/// Whether a row has come to its end.
#[must_use]
pub fn has_ended(row: &ReportRow) -> bool {
    matches!(row.phase, Phase::Complete | Phase::Failed)
}

/// Notes for each cluster whose upgrade is under way what it waits for.
pub fn note_reasons(rows: &BTreeMap<String, ReportRow>, noted: &mut BTreeMap<String, String>) {
    for (name, row) in rows {
        if !has_ended(row) && !row.steps.is_empty() {
            noted.insert(name.clone(), row.reason.clone());
        }
    }
}

/// The cause of a failure. A time-out is caused by what the cluster waited for until then, `waited_for`; any other failure is
/// its own cause, and so is a time-out of a step that just ran.
#[must_use]
pub fn cause<'a>(row: &'a ReportRow, waited_for: Option<&'a str>) -> &'a str {
    let timed_out = matches!(
        Reason::parse(&row.reason),
        Some(
            Reason::PreActionTimeout
                | Reason::ClusterUpgradeTimeout
                | Reason::OperatorsUpgradeTimeout
                | Reason::PostActionTimeout
        )
    );
    waited_for
        .filter(|_| timed_out)
        .filter(|reason| !matches!(Reason::parse(reason), Some(Reason::None | Reason::Running)))
        .unwrap_or(&row.reason)
}

/// What is wrong with an outcome; `None`: it is as it should be. `shortest`: seconds that an update takes at least.
#[must_use]
pub fn problem(case: &Case, row: &ReportRow, shortest: f64) -> Option<String> {
    match case.expect {
        Expect::Complete | Expect::CompleteAfter(_) => {
            if row.phase != Phase::Complete {
                return Some("it should be complete".to_owned());
            }
            let platform = row.steps.iter().find(|step| step.name == Stage::Platform);
            let Some(platform) = platform.filter(|step| step.outcome == Some(Outcome::Succeeded)) else {
                return Some("complete without a platform step that succeeded".to_owned());
            };
            let took = platform.finished_at.map(|end| end - platform.started_at);
            let seconds = took.map_or(0.0, chrono::TimeDelta::as_seconds_f64);
            // Both ends are cut to whole seconds.
            (seconds + 1.0 < shortest)
                .then(|| format!("complete after {seconds} s, an update takes at least {shortest:.1} s"))
        }
        Expect::Failed(reason, marks) => {
            if row.phase != Phase::Failed {
                return Some("it should have failed".to_owned());
            }
            if row.reason != reason {
                return Some(format!("the reason should be {reason}"));
            }
            let missing: Vec<_> = marks
                .iter()
                .copied()
                .filter(|mark| !row.message.contains(mark))
                .collect();
            (!missing.is_empty()).then(|| format!("the message does not say {}", missing.join(", ")))
        }
    }
}

/// Judges all clusters.
#[must_use]
pub fn judge(
    clusters: &[(String, &'static Case)],
    rows: &BTreeMap<String, ReportRow>,
    shortest: f64,
) -> (Vec<Tally>, Vec<Mismatch>) {
    let mut mismatches = Vec::new();
    let mut tallies = Vec::new();
    for case in &CASES {
        let mut tally = Tally {
            case: case.name,
            expected: match case.expect {
                Expect::Complete => "complete".to_owned(),
                Expect::CompleteAfter(told) => format!("complete after {told}"),
                Expect::Failed(reason, marks) => format!("{reason}: {}", marks.join(", ")),
            },
            ..Tally::default()
        };
        for (name, _) in clusters.iter().filter(|(_, of)| of.name == case.name) {
            tally.clusters += 1;
            let row = rows.get(name);
            tally.complete += usize::from(row.is_some_and(|row| row.phase == Phase::Complete));
            tally.failed += usize::from(row.is_some_and(|row| row.phase == Phase::Failed));
            let problem = match row {
                None => Some("no report has it".to_owned()),
                Some(row) => problem(case, row, shortest),
            };
            let Some(problem) = problem else { continue };
            tally.mismatches += 1;
            mismatches.push(Mismatch {
                cluster: name.clone(),
                case: case.name,
                problem,
                phase: row.map(|row| format!("{:?}", row.phase)).unwrap_or_default(),
                reason: row.map(|row| row.reason.clone()).unwrap_or_default(),
                message: row.map(|row| row.message.clone()).unwrap_or_default(),
            });
        }
        tallies.push(tally);
    }
    (tallies, mismatches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(phase: &str, reason: &str, message: &str, seconds: u32) -> ReportRow {
        serde_json::from_value(json!({
            "cluster": "a", "phase": phase, "reason": reason, "message": message,
            "since": "2026-01-01T00:01:00Z", "revision": "r",
            "steps": [{
                "name": "Platform", "outcome": "Succeeded", "startedAt": "2026-01-01T00:00:00Z",
                "finishedAt": format!("2026-01-01T00:00:{seconds:02}Z"),
            }],
        }))
        .unwrap()
    }

    fn of(name: &str) -> &'static Case {
        CASES.iter().find(|case| case.name == name).unwrap()
    }

    #[test]
    fn a_failure_must_name_its_cause() {
        let gate = of("gate");
        let failed = |message| problem(gate, &row("Failed", "ClusterUpgradeTimeout", message, 9), 1.0);
        assert_eq!(
            failed("The step was not done within 1m: ReleaseNotAccepted: AdminAckRequired: x"),
            None
        );
        assert!(
            failed("The step was not done within 1m")
                .unwrap()
                .contains("AdminAckRequired")
        );
        assert!(problem(gate, &row("Complete", "None", "", 9), 1.0).is_some());
        assert!(
            problem(
                gate,
                &row("Failed", "RegressedInSoak", "AdminAckRequired", 9),
                1.0
            )
            .is_some()
        );
    }

    #[test]
    fn a_cluster_that_is_complete_too_early_has_lied_with_success() {
        let liar = of("early-feedback");
        assert!(problem(liar, &row("Complete", "None", "", 2), 15.0).is_some());
        assert_eq!(problem(liar, &row("Complete", "None", "", 15), 15.0), None);
        assert!(problem(liar, &row("Failed", "ClusterUpgradeTimeout", "", 15), 15.0).is_some());
    }

    #[test]
    fn the_cause_of_a_time_out_is_what_the_cluster_waited_for() {
        let failed = |reason| row("Failed", reason, "told in words", 1);
        let timed_out = failed("ClusterUpgradeTimeout");
        assert_eq!(cause(&timed_out, Some("AgentSilent")), "AgentSilent");
        assert_eq!(cause(&timed_out, Some("Running")), "ClusterUpgradeTimeout");
        assert_eq!(cause(&timed_out, None), "ClusterUpgradeTimeout");
        assert_eq!(
            cause(&failed("PostActionFailed"), Some("AgentSilent")),
            "PostActionFailed"
        );
    }

    #[test]
    fn reasons_are_noted_until_a_cluster_has_ended_and_not_before_it_has_begun() {
        let mut queued = row("Pending", "WaitingForSlot", "", 1);
        queued.steps.clear();
        let mut noted = BTreeMap::new();
        let mut note = |row| note_reasons(&BTreeMap::from([("a".to_owned(), row)]), &mut noted);
        note(queued);
        note(row("Partial", "Progressing", "", 1));
        note(row("Partial", "Failing", "", 1));
        note(row("Failed", "ClusterUpgradeTimeout", "", 1));
        assert_eq!(noted, BTreeMap::from([("a".to_owned(), "Failing".to_owned())]));
    }

    #[test]
    fn a_cluster_without_a_row_is_a_mismatch() {
        let clusters = [("a".to_owned(), of("healthy"))];
        let (tallies, mismatches) = judge(&clusters, &BTreeMap::new(), 1.0);
        assert_eq!(mismatches.len(), 1);
        assert_eq!((tallies[0].clusters, tallies[0].mismatches), (1, 1));
        let rows = BTreeMap::from([("a".to_owned(), row("Complete", "None", "", 9))]);
        assert_eq!(judge(&clusters, &rows, 1.0).1, []);
    }
}
