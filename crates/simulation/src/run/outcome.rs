//! A run from its begin to its outcome, also if a task or the run itself panics.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::Result;

use super::Run;
use crate::fault::{Faults, Occasion};
use crate::mutation::Mutation;
use crate::options::Options;
use crate::oracle::{Rule, Violation};
use crate::panics;
use crate::trace::Trace;

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What was violated.
    pub violations: Vec<Violation>,
    /// The hash of the trace.
    pub hash: u64,
    /// Requests to the hub.
    pub requests: u64,
    /// The faults that happened.
    pub faults: Vec<Occasion>,
    /// How often each rule was tried.
    pub checked: BTreeMap<Rule, u64>,
    /// Virtual seconds.
    pub seconds: f64,
    /// The lines of the trace, if they were kept.
    pub lines: String,
}

/// Runs a seed.
///
/// # Errors
/// The simulated world cannot be built: a defect of the simulation.
pub fn run(options: &Options, faults: &Faults, trace: Trace) -> Result<Outcome> {
    run_mutated(options, faults, trace, None)
}

/// Runs a seed with a controller that is broken on purpose.
///
/// # Errors
/// The simulated world cannot be built.
#[expect(clippy::needless_pass_by_value, reason = "a trace is of one run alone")]
pub fn run_mutated(
    options: &Options,
    faults: &Faults,
    trace: Trace,
    mutation: Option<Mutation>,
) -> Result<Outcome> {
    panics::note();
    fastrand::seed(options.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let whole = async {
        let mut run = Run::begin(options, faults, trace.clone(), mutation).await?;
        let played = tokio::select! {
            biased;
            line = trace.overrun() => {
                run.oracle.add(Rule::Ended, format!("the run does not end: {line}"));
                Ok(())
            }
            played = run.play() => played,
        };
        run.note_panics();
        let outcome = run.outcome();
        // Where a task has panicked, the world that it belonged to need not work any more.
        let has_failed = outcome.violations.iter().any(|one| one.rule == Rule::Ended);
        if has_failed {
            Ok(outcome)
        } else {
            played.map(|()| outcome)
        }
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on(whole)));
    runtime.shutdown_background();
    outcome.unwrap_or_else(|_| Ok(panicked(&trace)))
}

/// The outcome of a run that panicked itself. It has the faults that happened, so that it can be reduced like any other.
fn panicked(trace: &Trace) -> Outcome {
    let what = format!("the run panicked: {}", panics::take().join("; "));
    Outcome {
        violations: vec![Violation {
            rule: Rule::Ended,
            what,
        }],
        hash: trace.hash(),
        requests: trace.requests(),
        faults: trace.faults(),
        checked: BTreeMap::new(),
        seconds: 0.0,
        lines: trace.lines(),
    }
}

impl Run {
    /// No task panics: none of the controller, the hub, the agents or the rules.
    pub(super) fn note_panics(&self) {
        for panic in panics::take() {
            self.oracle.add(Rule::Ended, format!("a task panicked: {panic}"));
        }
    }

    fn outcome(&self) -> Outcome {
        let trace = &self.network.ground.trace;
        Outcome {
            violations: self.oracle.violations(),
            hash: trace.hash(),
            requests: trace.requests(),
            faults: trace.faults(),
            checked: self.oracle.checked(),
            seconds: self.clock.elapsed().as_secs_f64(),
            lines: trace.lines(),
        }
    }
}
