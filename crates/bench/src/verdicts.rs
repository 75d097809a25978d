//! The verdicts of `bench plan`: what the answers of a large fleet mean for an update.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use clusterversion::preflight::{
    Facts, Gate, Health, Missing, Offer, OfferedRisk, PlannedUpdate, Pools, Verdict, judge,
};
use clusterversion::types::{ClusterOperatorCondition, ConditionStatus};
use serde::Serialize;

use crate::thresholds::{Side, Threshold};

/// Risks of the update on a cluster that has some.
const RISKS: usize = 10;

/// The cost of judging a fleet.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdicts {
    /// Milliseconds for all verdicts, the median of several runs.
    pub median_ms: f64,
    /// The same as a ratio to a copy of the answers.
    pub ratio: f64,
    /// Clusters that would take the update.
    pub ready: usize,
}

impl Verdicts {
    /// Judges the answers of a fleet several times.
    pub fn measure(clusters: usize, times: usize) -> Self {
        let answers: Vec<Facts> = (0..clusters).map(facts).collect();
        let plan = planned();
        let is_ready = |facts: &&Facts| matches!(judge(black_box(facts), &plan), Verdict::Ready(_));
        let mut ready = 0;
        let median_ms = median(times, || ready = answers.iter().filter(is_ready).count());
        let copy_ms = median(times, || drop(black_box(answers.clone())));
        Self {
            median_ms,
            ratio: median_ms / copy_ms,
            ready,
        }
    }

    /// The thresholds of the verdicts.
    pub fn thresholds(&self) -> [Threshold; 2] {
        [
            Threshold::time(
                "verdicts of all clusters",
                (Side::Below, 10.0),
                self.median_ms,
                "ms",
            ),
            Threshold::time(
                "as a ratio to a copy of the answers",
                (Side::Below, 5.0),
                self.ratio,
                "",
            ),
        ]
    }
}

/// Median milliseconds of some work.
fn median(times: usize, mut work: impl FnMut()) -> f64 {
    let run = |_| {
        let started = Instant::now();
        work();
        started.elapsed()
    };
    let mut took: Vec<Duration> = (0..times.max(1)).map(run).collect();
    took.sort_unstable();
    took[took.len() / 2].as_secs_f64() * 1000.0
}

fn planned() -> PlannedUpdate {
    PlannedUpdate {
        version: "4.20.4".to_owned(),
        channel: "stable-4.20".to_owned(),
        accepted_risks: (0..RISKS).map(|number| format!("Risk{number}")).collect(),
        acks: BTreeSet::from(["ack-4.19-a".to_owned()]),
        with_pools: true,
        ..PlannedUpdate::default()
    }
}

/// The answers of a cluster: of ten clusters, four are recommended the update, two have accepted risks, one a risk that is not accepted, one
/// a gate that is not acknowledged, one is failing and one has not answered.
fn facts(number: usize) -> Facts {
    let risks = |name: &str| {
        Offer::Conditional {
        image: "quay.io/openshift-release-dev/ocp-release@sha256:0000000000000000000000000000000000000000000000000000000000000000".to_owned(),
        risks: (0..RISKS)
            .map(|number| OfferedRisk {
                name: format!("{name}{number}"),
                message: "Pods may not start on nodes that were rebooted in the course of the update."
                    .to_owned(),
                applies: Some(number % 2 == 0),
            })
            .collect(),
    }
    };
    let kind = number % 10;
    if kind == 9 {
        return Facts::missing(&Missing::Pending);
    }
    let gate = |key: &str| Gate {
        key: key.to_owned(),
        text: "Some APIs are removed.".to_owned(),
    };
    let failing = if kind == 8 {
        ConditionStatus::True
    } else {
        ConditionStatus::False
    };
    let key = if kind == 7 { "ack-4.19-b" } else { "ack-4.19-a" };
    Facts {
        current: Ok("4.19.20".to_owned()),
        channel: Ok("stable-4.20".to_owned()),
        health: Ok(Health {
            progressing: Some(condition(ConditionStatus::False)),
            failing: Some(condition(failing)),
            retrieved: Some(condition(ConditionStatus::True)),
            upgradeable: None,
            blocks_patch_updates: false,
        }),
        offer: Ok(match kind {
            4 | 5 => risks("Risk"),
            6 => risks("Other"),
            _ => Offer::Recommended { image: String::new() },
        }),
        gates: Ok(vec![gate(key)]),
        all_gates: Ok(vec![gate(key)]),
        pools: Ok(Pools::default()),
        accepts_risks: Ok(false),
        history: Ok(Vec::new()),
    }
}

fn condition(status: ConditionStatus) -> ClusterOperatorCondition {
    ClusterOperatorCondition {
        status,
        reason: "AsExpected".to_owned(),
        message: "Cluster version is 4.19.20".to_owned(),
        ..ClusterOperatorCondition::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_of_ten_clusters_would_take_the_update() {
        assert_eq!(Verdicts::measure(100, 1).ready, 60);
    }
}
