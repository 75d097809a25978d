//! What is to be said at the end.

use std::fmt;

use api::report::{ReportRow, Stage};
use serde::Serialize;

use super::fixtures::{FROM, Fixtures, TO};
use super::story::{Cause, End};

/// Requests of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// All of them.
    pub sent: usize,
    /// Those for something that was not there, or that somebody else had changed.
    pub wasted: usize,
}

/// Median and longest time of a step, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct StepTimes {
    step: String,
    clusters: usize,
    median_seconds: f64,
    longest_seconds: f64,
}

/// The whole upgrade in a few numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    hub: &'static str,
    clusters: usize,
    complete: usize,
    from: &'static str,
    to: &'static str,
    seconds: f64,
    steps: Vec<StepTimes>,
    causes: Vec<Cause>,
    requests: usize,
    requests_per_cluster: f64,
    wasted_requests: usize,
}

impl Summary {
    /// Reads the rows. `hub` says which hub it was.
    #[must_use]
    pub fn new(hub: &'static str, fixtures: &Fixtures, end: &End, requests: Requests) -> Self {
        Self {
            hub,
            clusters: fixtures.len(),
            complete: end.last.count(api::report::Phase::Complete),
            from: FROM,
            to: TO,
            seconds: end.seconds,
            steps: steps(&end.last.rows),
            causes: end.causes.clone(),
            requests: requests.sent,
            requests_per_cluster: float(requests.sent) / float(fixtures.len()),
            wasted_requests: requests.wasted,
        }
    }
}

/// Exact for every count that occurs.
fn float(count: usize) -> f64 {
    u32::try_from(count).unwrap_or(u32::MAX).into()
}

fn steps(rows: &[ReportRow]) -> Vec<StepTimes> {
    let names = [
        (Stage::PreAction, "pre-action"),
        (Stage::Platform, "platform"),
        (Stage::Operators, "operators"),
        (Stage::PostAction, "post-action"),
    ];
    let mut found = Vec::new();
    for (name, shown) in names {
        let mut took: Vec<f64> = rows
            .iter()
            .flat_map(|row| &row.steps)
            .filter(|step| step.name == name)
            .filter_map(|step| (step.finished_at? - step.started_at).to_std().ok())
            .map(|took| took.as_secs_f64())
            .collect();
        took.sort_by(f64::total_cmp);
        if let (Some(median), Some(longest)) = (took.get(took.len() / 2), took.last()) {
            found.push(StepTimes {
                step: shown.to_owned(),
                clusters: took.len(),
                median_seconds: *median,
                longest_seconds: *longest,
            });
        }
    }
    found
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} of {} clusters went from {} to {} in {:.0} s (hub: {})",
            self.complete, self.clusters, self.from, self.to, self.seconds, self.hub
        )?;
        for step in &self.steps {
            writeln!(
                f,
                "  {:<12} {:>4} clusters, median {:>5.1} s, longest {:>5.1} s",
                step.step, step.clusters, step.median_seconds, step.longest_seconds
            )?;
        }
        for cause in &self.causes {
            writeln!(f, "  fixed and retried: {} ({})", cause.cluster, cause.reason)?;
        }
        writeln!(
            f,
            "  {} requests of the controller, {:.1} per cluster, {} of them in vain",
            self.requests, self.requests_per_cluster, self.wasted_requests
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_steps_come_from_the_rows_and_unfinished_ones_do_not_count() {
        let row = |finished: Option<&str>| -> ReportRow {
            serde_json::from_value(serde_json::json!({
                "cluster": "a", "phase": "Complete", "since": "2026-01-01T00:00:00Z", "revision": "r",
                "steps": [{"name": "Platform", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": finished}],
            }))
            .unwrap()
        };
        let rows = [
            row(Some("2026-01-01T00:00:02Z")),
            row(Some("2026-01-01T00:00:05Z")),
            row(None),
        ];
        let times = steps(&rows);
        assert_eq!(times.len(), 1);
        assert_eq!((times[0].step.as_str(), times[0].clusters), ("platform", 2));
        assert!((times[0].longest_seconds - 5.0).abs() < 1e-9);
    }
}
