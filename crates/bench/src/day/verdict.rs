//! Whether a cluster ended as its case says.

use std::collections::BTreeMap;

use api::ReportRow;
use api::report::{Outcome, Phase, Stage};
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

/// The reason of a failure: the cause in the message of a timeout, otherwise the reason itself.
#[must_use]
pub fn cause(row: &ReportRow) -> &str {
    let told = row.message.split(": ").nth(1);
    let is_word = |word: &&str| word.bytes().all(|byte| byte.is_ascii_alphabetic());
    told.filter(is_word)
        .filter(|_| row.message.starts_with("Not done within"))
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
            failed("Not done within 1m: ReleaseNotAccepted: AdminAckRequired: x"),
            None
        );
        assert!(failed("Not done within 1m").unwrap().contains("AdminAckRequired"));
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
    fn a_time_out_is_put_down_to_what_it_names() {
        let told = |message| cause(&row("Failed", "ClusterUpgradeTimeout", message, 1)).to_owned();
        assert_eq!(
            told("Not done within 60s: AgentSilent: nothing was heard"),
            "AgentSilent"
        );
        assert_eq!(told("Not done within 60s"), "ClusterUpgradeTimeout");
        assert_eq!(told("other: Thing: x"), "ClusterUpgradeTimeout");
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
