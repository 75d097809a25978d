//! Whether a cluster ended as its case says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use api::ReportRow;
use api::report::{Outcome, Phase, Stage};
use chrono::TimeDelta;
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
    /// Those that have not started.
    pub blocked: usize,
    /// Those that did not end as they should.
    pub mismatches: usize,
}

/// Whether a row has come to its end.
#[must_use]
pub fn has_ended(row: &ReportRow) -> bool {
    matches!(row.phase, Phase::Complete | Phase::Failed)
}

/// Whether a row says that its cluster does not start, for the reason that was expected.
#[must_use]
pub fn is_blocked_as(row: &ReportRow, expect: Expect) -> bool {
    matches!(expect, Expect::Blocked(reason) if row.phase == Phase::Blocked && row.reason == reason)
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
pub fn problem(expect: Expect, row: &ReportRow, shortest: f64) -> Option<String> {
    match expect {
        Expect::Blocked(reason) => (!is_blocked_as(row, expect) || !row.steps.is_empty())
            .then(|| format!("it should not have started, because of {reason}")),
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

/// Seconds for which clusters held slots: the time of their updates, to their end or to their failure.
#[must_use]
pub fn slot_seconds(rows: &BTreeMap<String, ReportRow>) -> f64 {
    let updates = rows.values().filter_map(|row| {
        let update = row.steps.iter().find(|step| step.name == Stage::Platform)?;
        let end = update.finished_at.unwrap_or(row.since);
        Some((end - update.started_at).as_seconds_f64())
    });
    updates.sum()
}

/// Seconds from the first start to the last end, if each cluster takes as long as it did, in the order in which they were started: first
/// the canaries, then the others, each as soon as a slot is free.
#[must_use]
pub fn gapless_seconds(rows: &BTreeMap<String, ReportRow>, slots: usize) -> f64 {
    let updates = rows.values().filter_map(|row| {
        let update = row.steps.iter().find(|step| step.name == Stage::Platform)?;
        let end = update.finished_at.unwrap_or(row.since);
        let (held, whole) = (end - update.started_at, row.since - update.started_at);
        Some((row.canary, update.started_at, held, whole))
    });
    let (canaries, mut others): (Vec<_>, Vec<_>) = updates.partition(|(canary, ..)| *canary);
    others.sort_by_key(|(_, started, ..)| *started);
    let canaries = canaries.iter().map(|(.., whole)| *whole).max();
    let begin = canaries.unwrap_or(TimeDelta::zero());
    let mut free: BinaryHeap<_> = std::iter::repeat_n(Reverse(begin), slots.max(1)).collect();
    let mut last = begin;
    for (_, _, held, whole) in others {
        let Some(Reverse(start)) = free.pop() else { break };
        free.push(Reverse(start + held));
        last = last.max(start + whole);
    }
    last.as_seconds_f64()
}

/// Judges all clusters.
#[must_use]
pub fn judge(
    clusters: &[(String, &'static Case)],
    rows: &BTreeMap<String, ReportRow>,
    (shortest, asked): (f64, bool),
) -> (Vec<Tally>, Vec<Mismatch>) {
    let mut mismatches = Vec::new();
    let mut tallies = Vec::new();
    for case in &CASES {
        let mut tally = Tally {
            case: case.name,
            expected: match case.expected(asked) {
                Expect::Blocked(reason) => format!("not started: {reason}"),
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
            tally.blocked += usize::from(row.is_some_and(|row| row.phase == Phase::Blocked));
            let problem = match row {
                None => Some("no report has it".to_owned()),
                Some(row) => problem(case.expected(asked), row, shortest),
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
mod tests;
