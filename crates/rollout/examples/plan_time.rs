//! Measures how long one plan and its check take for a fleet in the middle of an upgrade: `cargo run --release -p
//! rollout --features testing --example plan_time [clusters]`. The plan of 10,000 clusters must take less than 10 ms.

#![expect(clippy::disallowed_methods, reason = "a measurement reads a clock")]

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rollout::check::check;
use rollout::testing::{FleetBuilder, at, fleet, policy, record, work};
use rollout::{Fleet, Phase, Plan, Policy, Reason, Stage, Step, plan};

const RUNS: usize = 50;

/// A fleet with a tenth of the clusters in flight, half complete with a row, and the others waiting.
fn middle(clusters: usize) -> Fleet {
    let add = |fleet: FleetBuilder, number: usize| {
        let fleet = fleet.cluster(&format!("cluster-{number:06}"));
        match number % 10 {
            0 => fleet
                .work(Step::PreAction, work(0).succeeded())
                .work(
                    Step::Platform,
                    work(5)
                        .running()
                        .cause(Reason::Running, "Working towards 4.12.0: 120 of 700 done"),
                )
                .record(
                    record(Phase::Partial)
                        .succeeded(Stage::PreAction, 0)
                        .stage(Stage::Platform, 5),
                ),
            1..=5 => fleet.work(Step::PreAction, work(0).succeeded()).record(
                record(Phase::Complete)
                    .succeeded(Stage::PreAction, 0)
                    .succeeded(Stage::Platform, 5)
                    .succeeded(Stage::Operators, 8),
            ),
            _ => fleet.record(record(Phase::Pending).reason(Reason::WaitingForSlot)),
        }
    };
    (0..clusters).fold(fleet(), add).build()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn measure(name: &str, policy: &Policy, fleet: &Fleet) -> Result<Plan, Box<dyn Error>> {
    let now = at(100);
    let first = plan(now, policy, fleet);
    let mut plans = Vec::with_capacity(RUNS);
    let mut checks = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let begin = Instant::now();
        let plan = plan(now, policy, fleet);
        plans.push(begin.elapsed());
        let begin = Instant::now();
        let violations = check(now, policy, fleet, &plan);
        checks.push(begin.elapsed());
        if !violations.is_empty() {
            return Err(format!("{} violations, first {:?}", violations.len(), violations.first()).into());
        }
    }
    writeln!(
        std::io::stdout(),
        "{name}: plan {:?}, check {:?}, {} operations",
        median(plans),
        median(checks),
        first.operations.len()
    )?;
    Ok(first)
}

fn main() -> Result<(), Box<dyn Error>> {
    let clusters = std::env::args().nth(1).map_or(Ok(10_000), |text| text.parse())?;
    let slots = u32::try_from(clusters)?;
    let asked = || policy().pre_action().operators();
    let fresh = (0..clusters)
        .fold(fleet(), |fleet, number| {
            fleet.cluster(&format!("cluster-{number:06}"))
        })
        .build();
    let _ = measure(
        "nothing started, slots of all",
        &asked().max_concurrency(slots).build(),
        &fresh,
    )?;
    let _ = measure(
        "nothing started, slots of 1000",
        &asked().max_concurrency(1000).build(),
        &fresh,
    )?;
    let mut middle = middle(clusters);
    let first = measure("in the middle", &asked().max_concurrency(1000).build(), &middle)?;
    for (cluster, state) in middle.clusters.iter_mut().zip(&first.clusters) {
        cluster.record = Some(Arc::clone(&state.record));
    }
    let _ = measure(
        "in the middle, no change",
        &asked().max_concurrency(1000).build(),
        &middle,
    )?;
    Ok(())
}
