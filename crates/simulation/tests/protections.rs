//! Every fault is found by a mutation: a controller that lacks the protection from it violates a rule when it happens, and does
//! not when it does not happen. The controller as it is violates none.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use simulation::fault::{Fault, Faults, Occasion};
use simulation::mutation::Mutation;
use simulation::options::{Options, Preflight};
use simulation::oracle::Rule;
use simulation::protection::Protection;
use simulation::run::{run, run_mutated};
use simulation::sweep::of_each;
use simulation::trace::Trace;

/// A fault, what the controller lacks, and the rule that must then be violated.
struct Case {
    fault: Fault,
    /// How often it happens, in thousandths of its occasions.
    rate: u64,
    mutation: Mutation,
    rule: Rule,
    options: Options,
    /// The only occasion of it, if not each counts: whom it strikes and when.
    only: Option<(&'static str, u64)>,
    /// What happens beside it, also where the fault itself does not, and when. This is for a fault with `only` alone.
    beside: Option<(Fault, &'static str, u64)>,
}

/// How many seeds are tried until one shows what is looked for: a fault does not strike where it matters in each of them.
const SEEDS: u64 = 30;

/// Faults that no mutation at the wire is bound to, and why. That they change what happens is tested for all.
const UNBOUND: &[(Fault, &str)] = &[
    (
        Fault::FalseEnd,
        "nobody but the agent knows better, so there is no protection to take away",
    ),
    (
        Fault::Flap,
        "whoever starts a cluster may believe what it has said within the last minute",
    ),
];

fn world(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options {
        clusters: 3,
        update_seconds: 30,
        chaos_seconds: 100,
        ..Options::default()
    };
    change(&mut options);
    options
}

fn case(fault: Fault, rate: u64, protection: Protection, rule: Rule) -> Case {
    Case {
        fault,
        rate,
        mutation: Mutation::Lacks(protection),
        rule,
        options: world(|_| {}),
        only: None,
        beside: None,
    }
}

impl Case {
    fn within(self, change: impl FnOnce(&mut Options)) -> Self {
        Self {
            options: world(change),
            ..self
        }
    }
}

/// Faults of requests and watches.
fn cases_of_requests() -> Vec<Case> {
    use Fault as F;
    use Protection as P;
    let lost = [
        F::Lost,
        F::AnswerLost,
        F::Slow,
        F::Hang,
        F::LeaseHang,
        F::Partition,
        F::WatchCut,
        F::WatchSilent,
        F::WatchStuck,
        F::Rewind,
        F::Invalid,
        F::TimedOut,
    ];
    let refused = [
        F::TooManyRequests,
        F::InternalError,
        F::Unavailable,
        F::BadRequest,
        F::Conflict,
        F::InvalidRow,
        F::Forbidden,
        F::Overload,
    ];
    let doubtful = [F::Late, F::VeryLate, F::WatchLag];
    let mut cases: Vec<Case> = Vec::new();
    cases.extend(lost.map(|fault| case(fault, 300, P::Perseverance, Rule::Ends)));
    cases.extend(refused.map(|fault| case(fault, 1000, P::Pause, Rule::Storm)));
    cases.push(case(F::Compaction, 300, P::Relisting, Rule::Ends));
    cases.extend(doubtful.map(|fault| case(fault, 500, P::Doubt, Rule::Concurrency)));
    cases.push(
        case(F::PageExpired, 300, P::Perseverance, Rule::Ends).within(|options| options.small_pages = true),
    );
    cases
}

/// Faults of machines.
fn cases_of_machines() -> Vec<Case> {
    use Fault as F;
    use Protection as P;
    let ends = [F::Kill, F::KillAtCommit, F::KillAll, F::Crash];
    let jumps = [F::ClockJump, F::ClockFar];
    let mut cases: Vec<Case> = Vec::new();
    cases.extend(ends.map(|fault| case(fault, 150, P::Memory, Rule::Once)));
    cases.extend(jumps.map(|fault| {
        case(fault, 300, P::Clock, Rule::Deadline).within(|options| {
            options.timeout_seconds = 240;
            options.update_seconds = 60;
        })
    }));
    cases
}

/// Faults of people and clusters.
fn cases_of_people() -> Vec<Case> {
    use Fault as F;
    use Protection as P;
    let created = [
        F::DeleteWork,
        F::Detach,
        F::DetachHalf,
        F::Squat,
        F::Restore,
        F::RestoreOld,
    ];
    let deleted = [F::Remove, F::Withdraw];
    let named = [F::ForgeWork, F::ForgeDecision, F::NameHub];
    let left = [F::Relabel, F::Leave, F::Undecide, F::Unbind];
    let old = |fault, mutation, rule, change: fn(&mut Options)| Case {
        fault,
        rate: 300,
        mutation,
        rule,
        options: world(change),
        only: None,
        beside: None,
    };
    let mut cases: Vec<Case> = Vec::new();
    cases.extend(created.map(|fault| case(fault, 200, P::Repair, Rule::Ends)));
    cases.extend(deleted.map(|fault| {
        case(fault, 200, P::Cleaning, Rule::Ends).within(|options| {
            options.rival = true;
            options.rival_version = 12;
        })
    }));
    cases.extend(named.map(|fault| {
        case(fault, 300, P::Selection, Rule::Selected)
            .within(|options| options.placement = fault == F::ForgeDecision)
    }));
    cases.extend(left.map(|fault| {
        case(fault, 100, P::Sight, Rule::Complete).within(|options| options.placement = fault == F::Undecide)
    }));
    cases.extend([
        case(F::Retarget, 300, P::Edits, Rule::Complete),
        case(F::Reshape, 300, P::Operators, Rule::Complete),
        case(F::Away, 300, P::Sight, Rule::Ends),
        case(F::DeepUpgrade, 300, P::OneByOne, Rule::Ends),
        case(F::Misspell, 300, P::Validation, Rule::Paused),
        case(F::Nonsense, 300, P::Types, Rule::CanariesFirst).within(|options| options.canaries = 1),
        Case {
            // What is tampered with later is set right.
            only: Some(("c00", 20)),
            ..case(F::Tamper, 0, P::Ownership, Rule::Foreign).within(|options| {
                options.update_seconds = 150;
                options.chaos_seconds = 300;
            })
        },
        case(F::AgentOdd, 300, P::Generations, Rule::Complete),
        case(F::FalseClaim, 50, P::Claims, Rule::Downgrade).within(|options| {
            options.update_seconds = 100;
            options.claim_seconds = 300;
            options.chaos_seconds = 300;
        }),
        old(F::Pause, Mutation::BlindToPause, Rule::Paused, |_| {}),
        old(F::LeaveOut, Mutation::BlindToLeftOut, Rule::LeftOut, |_| {}),
        old(
            F::Resize,
            Mutation::BlindToConcurrency,
            Rule::Concurrency,
            |options| {
                options.max_concurrency = 2;
            },
        ),
        old(F::Agent, Mutation::BlindToFailures, Rule::Budget, |options| {
            options.max_failures = Some(0);
            options.timeout_seconds = 60;
            options.chaos_seconds = 300;
            options.clusters = 6;
        }),
    ]);
    cases
}

/// Faults of windows and approvals.
fn cases_of_control() -> Vec<Case> {
    use Fault as F;
    use Protection as P;
    vec![
        Case {
            mutation: Mutation::BlindToExclusions,
            ..case(F::Rewindow, 300, P::Approvals, Rule::Windows).within(|options| {
                options.window_minutes = 5;
                options.window_seconds = 290;
                options.chaos_seconds = 300;
                options.clusters = 6;
            })
        },
        case(F::FalseApproval, 300, P::Approvals, Rule::Approvals).within(|options| {
            options.approve_at = Some(1);
            options.chaos_seconds = 300;
        }),
        case(F::Disapprove, 300, P::Approvals, Rule::Approvals).within(|options| {
            options.approve_at = Some(0);
            options.update_seconds = 100;
            options.clusters = 5;
            options.chaos_seconds = 600;
        }),
    ]
}

/// Faults of what is recorded, and of works that stay.
fn cases_of_records() -> Vec<Case> {
    use Fault as F;
    use Protection as P;
    vec![
        case(F::HoldWork, 300, P::Departure, Rule::Ends).within(|options| {
            options.rival = true;
            options.rival_version = 13;
            options.chaos_seconds = 200;
        }),
        case(F::DeleteReport, 300, P::Rewriting, Rule::Restart).within(|options| options.restart = true),
        case(F::Retry, 300, P::RetryToken, Rule::Restart).within(|options| options.restart = true),
        Case {
            // When all is complete, nothing else makes the controller read the report again.
            only: Some(("spring", 150)),
            ..case(F::EditRow, 0, P::Attention, Rule::Restart).within(|options| {
                options.restart = true;
                options.chaos_seconds = 200;
            })
        },
        Case {
            // Only a new leader reads rows.
            only: Some(("strangers", 10)),
            beside: Some((F::KillAll, "all", 10)),
            ..case(F::ForgeReport, 0, P::Belonging, Rule::RowFirst)
                .within(|options| options.update_seconds = 60)
        },
    ]
}

/// Faults of what clusters are asked.
fn cases_of_probes() -> Vec<Case> {
    use Fault as F;
    use Protection as P;
    let asked = |options: &mut Options| options.preflight = Some(Preflight::Require);
    let pools = |options: &mut Options| {
        options.worker_pools = true;
        options.pools_seconds = 5;
        options.chaos_seconds = 200;
    };
    vec![
        Case {
            mutation: Mutation::BlindToOffers,
            // The third cluster, long before its turn has come: what it has said before is over then.
            only: Some(("c02", 10)),
            ..case(F::Withhold, 0, P::Types, Rule::Preflight).within(|options| {
                asked(options);
                options.chaos_seconds = 200;
                options.update_seconds = 60;
            })
        },
        case(F::Pool, 200, P::Pools, Rule::WorkerPools).within(pools),
        case(F::DeleteProbe, 200, P::Repair, Rule::Ends).within(asked),
        case(F::ProbeNonsense, 300, P::Sense, Rule::Preflight).within(|options| {
            asked(options);
            options.mixed_offers = true;
        }),
        case(F::LateAnswer, 1000, P::Patience, Rule::Ends).within(asked),
        case(F::ForgeProbe, 300, P::Ownership, Rule::Foreign).within(asked),
    ]
}

fn cases() -> Vec<Case> {
    let mut cases = cases_of_requests();
    cases.extend(cases_of_machines());
    cases.extend(cases_of_people());
    cases.extend(cases_of_control());
    cases.extend(cases_of_records());
    cases.extend(cases_of_probes());
    cases
}

fn occasion(fault: Fault, name: &str, count: u64) -> Occasion {
    Occasion {
        fault,
        name: name.to_owned(),
        count,
    }
}

/// What is wrong with a case, if anything is.
fn wrong(case: &Case) -> Option<String> {
    let name = format!("{} without {:?}", case.fault.as_str(), case.mutation);
    let beside = case
        .beside
        .map(|(fault, name, count)| occasion(fault, name, count));
    let none = Faults::Only(beside.iter().cloned().collect());
    let faults = case.only.map_or(Faults::ByRate, |(name, count)| {
        let struck = occasion(case.fault, name, count);
        Faults::Only(beside.iter().cloned().chain([struck]).collect())
    });
    let mut found = BTreeSet::new();
    for seed in 0..SEEDS {
        let options = Options {
            seed,
            ..case.options.clone()
        }
        .with_rates(&[(case.fault, case.rate)]);
        let trace = Trace::default;
        let broken = run_mutated(&options, &faults, trace(), Some(case.mutation)).unwrap();
        found.extend(Rule::violated_in(&broken.violations));
        if !Rule::violated_in(&broken.violations).contains(&case.rule) {
            continue;
        }
        let spared = run_mutated(&options, &none, trace(), Some(case.mutation)).unwrap();
        let whole = run(&options, &faults, trace()).unwrap();
        if Rule::violated_in(&spared.violations).contains(&case.rule) {
            return Some(format!("{name}: violates {:?} without the fault, too", case.rule));
        }
        let violations = whole.violations.first();
        return violations
            .map(|violation| format!("{name}: the controller as it is, seed {seed}: {violation}"));
    }
    Some(format!("{name}: does not violate {:?} but {found:?}", case.rule))
}

#[test]
fn without_its_protection_each_fault_violates_a_rule() {
    let wrong: Vec<String> = of_each(&cases(), wrong).into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_fault_has_a_mutation_or_a_reason_why_it_has_none() {
    let bound: BTreeSet<Fault> = cases().iter().map(|case| case.fault).collect();
    let unbound: BTreeSet<Fault> = UNBOUND.iter().map(|(fault, _)| *fault).collect();
    assert!(UNBOUND.iter().all(|(_, reason)| !reason.is_empty()));
    assert_eq!(bound.intersection(&unbound).count(), 0);
    assert_eq!(&bound | &unbound, Fault::ALL.iter().copied().collect());
}
