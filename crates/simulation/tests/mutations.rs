//! Every rule bites: a controller that is broken on purpose violates it. Every fault is felt: it changes what happens.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use simulation::choice::Choices;
use simulation::fault::{Fault, Faults, Occasion};
use simulation::mutation::Mutation;
use simulation::options::{Options, Preflight};
use simulation::oracle::{Rule, Violation};
use simulation::run::{run, run_mutated};
use simulation::sweep::of_each;
use simulation::trace::Trace;

type Case = (Mutation, Rule, Options, Vec<Occasion>);

fn with(change: fn(&mut Options)) -> Options {
    let mut options = Options::default();
    change(&mut options);
    options
}

fn many_clusters() -> Options {
    with(|options| options.clusters = 12)
}

fn at(fault: Fault, name: &str, count: u64) -> Occasion {
    Occasion {
        fault,
        name: name.to_owned(),
        count,
    }
}

/// What is broken, what then must be violated, in which world.
fn cases() -> Vec<Case> {
    let mut cases = cases_of_starts();
    cases.extend(cases_of_failures());
    cases.extend(cases_of_control());
    cases.extend(cases_of_writes());
    cases.extend(cases_of_ends());
    cases.extend(cases_of_probes());
    cases
}

/// Jobs end long before their time.
fn jobs() -> Options {
    with(|options| {
        options.actions = true;
        options.operators = true;
        options.update_seconds = 60;
        options.operators_timeout_seconds = Some(241);
        options.action_timeout_seconds = Some(241);
    })
}

fn cases_of_starts() -> Vec<Case> {
    use Mutation as M;
    let plain = Options::default();
    let short = with(|options| {
        options.timeout_seconds = 240;
        options.update_seconds = 60;
    });
    vec![
        (M::BlindToOtherTimes, Rule::Deadline, jobs(), vec![]),
        (M::BlindToConcurrency, Rule::Concurrency, plain, vec![]),
        (
            M::BlindToCanaries,
            Rule::CanariesFirst,
            with(|options| {
                options.canaries = 1;
                options.max_concurrency = 3;
            }),
            vec![],
        ),
        (
            M::BlindToPause,
            Rule::Paused,
            with(|options| options.chaos_seconds = 120),
            vec![at(Fault::Pause, "spring", 10)],
        ),
        (
            M::BlindToLeftOut,
            Rule::LeftOut,
            with(|options| options.chaos_seconds = 120),
            vec![at(Fault::LeaveOut, "spring", 10)],
        ),
        (
            M::BlindToFailures,
            Rule::Budget,
            with(|options| {
                options.max_failures = Some(0);
                options.timeout_seconds = 90;
                options.update_seconds = 200;
                options.chaos_seconds = 200;
            }),
            vec![],
        ),
        (M::BlindToTime, Rule::Deadline, short.clone(), vec![]),
        (M::BlindToEnd, Rule::Deadline, short, vec![]),
        (
            M::BlindToLeaving,
            Rule::Selected,
            // The third cluster leaves, and its turn comes when everybody has long heard of that.
            with(|options| {
                options.update_seconds = 100;
                options.chaos_seconds = 400;
            }),
            vec![at(Fault::Leave, "c02", 10)],
        ),
        (
            M::BlindToVersion,
            Rule::Downgrade,
            with(|options| {
                options.clusters = 2;
                options.rival = true;
                options.rival_version = 11;
                options.update_seconds = 5;
                // No claim counts that is heard right after an update.
                options.claim_seconds = 150;
                options.chaos_seconds = 600;
                // The second upgrade comes when the first one is long over.
                let late = |seed: &u64| Choices::new(*seed).of("rival at", 0).between(1, 300) > 200;
                options.seed = (0..1000).find(late).unwrap();
            }),
            vec![],
        ),
    ]
}

fn cases_of_failures() -> Vec<Case> {
    use Mutation as M;
    vec![
        (
            M::BlindToBegin,
            Rule::LeftOut,
            with(|options| {
                options.clusters = 1;
                options.update_seconds = 800;
                options.timeout_seconds = 1500;
                options.chaos_seconds = 600;
            }),
            [450, 490, 530, 570]
                .map(|second| at(Fault::LeaveOut, "spring", second))
                .to_vec(),
        ),
        (M::BlindToSuccess, Rule::Rows, jobs(), vec![]),
        (M::BlindToEnd, Rule::Rows, Options::default(), vec![]),
    ]
}

fn cases_of_control() -> Vec<Case> {
    use Mutation as M;
    let windows = with(|options| {
        options.clusters = 4;
        options.update_seconds = 40;
        options.window_minutes = 10;
        options.window_seconds = 60;
    });
    let remaining = Options {
        window_seconds: 300,
        remaining_seconds: 250,
        ..windows.clone()
    };
    let excluded = with(|options| {
        options.clusters = 6;
        options.update_seconds = 30;
        options.chaos_seconds = 300;
        options.window_minutes = 5;
        options.window_seconds = 290;
    });
    let approvals = with(|options| {
        options.clusters = 4;
        options.update_seconds = 70;
        options.chaos_seconds = 400;
        options.approve_at = Some(1);
    });
    let expiring = Options {
        approval_seconds: 60,
        ..approvals.clone()
    };
    vec![
        (M::BlindToWindows, Rule::Windows, windows, vec![]),
        (M::BlindToRemaining, Rule::Windows, remaining, vec![]),
        (
            M::BlindToExclusions,
            Rule::Windows,
            excluded,
            [40, 80, 120, 160]
                .map(|second| at(Fault::Rewindow, "spring", second))
                .to_vec(),
        ),
        (M::BlindToCheckpoints, Rule::Approvals, approvals, vec![]),
        (M::BlindToExpiry, Rule::Approvals, expiring, vec![]),
    ]
}

fn cases_of_writes() -> Vec<Case> {
    use Mutation as M;
    let plain = Options::default();
    let actions = with(|options| options.actions = true);
    let rival = with(|options| {
        options.rival = true;
        options.chaos_seconds = 20;
        options.update_seconds = 60;
    });
    vec![
        (M::DeleteAtOnce, Rule::RowFirst, plain.clone(), vec![]),
        (M::DeleteAtOnce, Rule::Once, plain.clone(), vec![]),
        (M::DeleteAtOnce, Rule::Target, plain.clone(), vec![]),
        (M::Unconditional, Rule::Target, plain.clone(), vec![]),
        (M::StartOutsider, Rule::Selected, plain.clone(), vec![]),
        (M::TakeOver, Rule::Exclusive, rival.clone(), vec![]),
        (
            M::TakeOverInSoak,
            Rule::Exclusive,
            Options {
                soak_seconds: 100,
                ..rival
            },
            vec![],
        ),
        (M::DeleteUpgrade, Rule::Ends, plain.clone(), vec![]),
        (
            M::DeleteForeign,
            Rule::Foreign,
            with(|options| options.chaos_seconds = 120),
            vec![at(Fault::Squat, "c02", 0)],
        ),
        (M::OldRows, Rule::Rows, plain.clone(), vec![]),
        (M::MissingCondition, Rule::Conditions, plain.clone(), vec![]),
        (
            M::WriteAlways,
            Rule::OneWriter,
            with(|options| options.replicas = 2),
            vec![],
        ),
        (M::Storm, Rule::Storm, plain.clone(), vec![]),
        (M::LoopOverFleet, Rule::Storm, many_clusters(), vec![]),
        (M::SilentStall, Rule::Told, plain.clone(), vec![]),
        (M::SilentStall, Rule::Ends, plain.clone(), vec![]),
        (
            M::SilentRefusal,
            Rule::Told,
            // The hub forbids the works of the second and the third cluster for minutes.
            with(|options| {
                let is_long = |seed: &u64| Choices::new(*seed).about("lasts", "r0", 10).happens(100);
                options.seed = (0..1000).find(is_long).unwrap();
            }),
            vec![at(Fault::Forbidden, "r0", 10)],
        ),
        (M::RefusedPlan, Rule::Internal, plain.clone(), vec![]),
        (M::TakeAway, Rule::ClusterVersion, plain.clone(), vec![]),
        (M::NeverQuiet, Rule::Quiet, plain.clone(), vec![]),
        (
            M::WriteAtStart,
            Rule::Restart,
            with(|options| options.restart = true),
            vec![],
        ),
        (M::End, Rule::Ended, actions, vec![]),
        (M::EndEvents, Rule::Ended, plain.clone(), vec![]),
        (M::Panic, Rule::Ended, plain.clone(), vec![]),
        (M::Circle, Rule::Ended, plain, vec![]),
    ]
}

fn cases_of_ends() -> Vec<Case> {
    use Mutation as M;
    let plain = Options::default();
    let soak = with(|options| options.soak_seconds = 60);
    let post = with(|options| options.actions = true);
    let stuck = with(|options| {
        options.timeout_seconds = 240;
        options.update_seconds = 900;
        options.chaos_seconds = 600;
    });
    let stuck_in_action = with(|options| {
        options.actions = true;
        options.action_timeout_seconds = Some(241);
        options.update_seconds = 900;
        options.chaos_seconds = 600;
    });
    let resized = with(|options| {
        options.clusters = 12;
        options.max_concurrency = 3;
        options.update_seconds = 60;
        options.chaos_seconds = 20;
        // maxConcurrency becomes 1.
        let is_one = |seed: &u64| Choices::new(*seed).about("size", "spring", 10).between(1, 3) == 1;
        options.seed = (0..1000).find(is_one).unwrap();
    });
    let removed = with(|options| options.chaos_seconds = 60);
    vec![
        (M::BlindToProgress, Rule::Complete, plain.clone(), vec![]),
        (M::BlindToProgress, Rule::Concurrency, plain.clone(), vec![]),
        (M::BlindToSoak, Rule::Complete, soak.clone(), vec![]),
        (M::Withdraw, Rule::LeftOut, soak, vec![]),
        (M::BlindToPostAction, Rule::Complete, post, vec![]),
        (
            M::BlindAndSilent,
            Rule::Concurrency,
            resized,
            vec![at(Fault::Resize, "spring", 10)],
        ),
        (M::BlindToTimeout, Rule::Deadline, stuck, vec![]),
        (M::BlindToOtherTimeouts, Rule::Deadline, stuck_in_action, vec![]),
        (
            M::NeverDelete,
            Rule::Ends,
            removed,
            vec![at(Fault::Remove, "spring", 10)],
        ),
        (M::LeaveBehind, Rule::Ends, plain.clone(), vec![]),
        (M::Disown, Rule::Ends, plain.clone(), vec![]),
        (M::NeverSatisfied, Rule::Quiet, plain.clone(), vec![]),
        (
            M::NeverSatisfied,
            Rule::Restart,
            with(|options| options.restart = true),
            vec![],
        ),
        (M::ListAgain, Rule::Quiet, plain.clone(), vec![]),
        (M::ReadAgain, Rule::Quiet, plain.clone(), vec![]),
        (M::FrozenTimes, Rule::Conditions, plain.clone(), vec![]),
        (M::RecordTwice, Rule::Ends, plain.clone(), vec![]),
        (M::DoubleRow, Rule::Rows, plain.clone(), vec![]),
        (
            M::TakesForNewer,
            Rule::Complete,
            // Long enough for nobody to ask for something newer before all is over.
            with(|options| options.settle_seconds = 600),
            vec![],
        ),
        (M::Illegible, Rule::Unread, plain.clone(), vec![]),
        (M::RefusedInSilence, Rule::Internal, plain, vec![]),
    ]
}

fn cases_of_probes() -> Vec<Case> {
    use Mutation as M;
    let asked = with(|options| options.preflight = Some(Preflight::Require));
    let withheld = with(|options| {
        options.preflight = Some(Preflight::Require);
        options.chaos_seconds = 200;
        // What it has said before is long over then.
        options.update_seconds = 60;
        // The third cluster offers nothing until its turn has come.
        let is_long = |seed: &u64| {
            let choice = Choices::new(*seed).about("withhold", "c02", 10);
            choice.pick(&[0, 1, 2]) == Some(0) && choice.between(20, 200) > 150
        };
        options.seed = (0..1000).find(is_long).unwrap();
    });
    let gated = with(|options| {
        options.preflight = Some(Preflight::Require);
        options.gates = true;
        options.acknowledge = true;
    });
    let pools = with(|options| {
        options.worker_pools = true;
        options.pools_seconds = 300;
    });
    vec![
        (
            M::BlindToOffers,
            Rule::Preflight,
            withheld,
            vec![at(Fault::Withhold, "c02", 10)],
        ),
        (M::BlindToPools, Rule::WorkerPools, pools, vec![]),
        (M::AcknowledgeMore, Rule::Acks, asked.clone(), vec![]),
        (M::AcknowledgeOther, Rule::Acks, gated, vec![]),
        (M::StartOutsider, Rule::Probes, asked.clone(), vec![]),
        (M::ChangeMore, Rule::Probes, asked, vec![]),
    ]
}

/// Rules that check several things, and what a mutation violates of them.
const SAYS: &[(Mutation, Rule, &str)] = &[
    (Mutation::StartOutsider, Rule::Selected, "was never selected"),
    (Mutation::BlindToLeaving, Rule::Selected, "long after it had left"),
    (Mutation::BlindToLeftOut, Rule::LeftOut, "although it is left out"),
    (Mutation::BlindToBegin, Rule::LeftOut, "accepted: true"),
    (Mutation::Withdraw, Rule::LeftOut, "aborted: false"),
    (Mutation::BlindToTime, Rule::Deadline, "began by its row"),
    (Mutation::BlindToEnd, Rule::Deadline, "its end was reported"),
    (Mutation::BlindToTimeout, Rule::Deadline, "its time was over"),
    (Mutation::BlindToEnd, Rule::Rows, "that an update has ended"),
    (Mutation::BlindToSuccess, Rule::Rows, "no agent has reported"),
    (Mutation::DoubleRow, Rule::Rows, "two rows of a cluster"),
    (Mutation::OldRows, Rule::Rows, "Complete became"),
    (Mutation::MissingCondition, Rule::Conditions, "missing: Some"),
    (Mutation::FrozenTimes, Rule::Conditions, "transition time: Some"),
    (Mutation::BlindToProgress, Rule::Complete, "the end of its update"),
    (Mutation::BlindToSoak, Rule::Complete, "its soak of"),
    (Mutation::BlindToPostAction, Rule::Complete, "its post-action"),
    (Mutation::TakesForNewer, Rule::Complete, "asks for patch"),
    (Mutation::SilentStall, Rule::Ends, "is not complete"),
    (Mutation::NeverDelete, Rule::Ends, "what was deleted is not gone"),
    (
        Mutation::LeaveBehind,
        Rule::Ends,
        "upgrades that are gone are left",
    ),
    (
        Mutation::Disown,
        Rule::Ends,
        "is complete, and these works are left",
    ),
    (Mutation::RecordTwice, Rule::Ends, "more than one row"),
    (Mutation::DeleteUpgrade, Rule::Ends, "nobody has deleted it"),
    (Mutation::SilentStall, Rule::Told, "has moved for"),
    (Mutation::SilentRefusal, Rule::Told, "the hub refuses writes"),
    (
        Mutation::RefusedInSilence,
        Rule::Internal,
        "a checker has refused",
    ),
    (Mutation::NeverQuiet, Rule::Quiet, "changes after"),
    (Mutation::NeverSatisfied, Rule::Quiet, "requests to change"),
    (Mutation::ListAgain, Rule::Quiet, "read after"),
    (Mutation::WriteAtStart, Rule::Restart, "changes after"),
    (Mutation::NeverSatisfied, Rule::Restart, "requests to change"),
    (Mutation::BlindToOffers, Rule::Preflight, "has not said"),
    (Mutation::StartOutsider, Rule::Probes, "selected: false"),
    (Mutation::ChangeMore, Rule::Probes, "selected: true"),
    (Mutation::AcknowledgeMore, Rule::Acks, "no spec says so"),
];

/// What such a violation says, as far as this is known.
fn says(mutation: Mutation, rule: Rule) -> &'static str {
    let mut known = SAYS.iter().filter(|(of, by, _)| (*of, *by) == (mutation, rule));
    known.next().map_or("", |(_, _, text)| text)
}

fn only(faults: &[Occasion]) -> Faults {
    Faults::Only(faults.iter().cloned().collect())
}

#[test]
fn a_broken_controller_violates_the_rule_that_it_breaks() {
    let missed = of_each(&cases(), |(mutation, rule, options, faults)| {
        let whole = run(options, &only(faults), Trace::default()).unwrap();
        assert!(
            !Rule::violated_in(&whole.violations).contains(rule),
            "{mutation:?}: the controller as it is violates {rule:?}: {:?}",
            whole.violations
        );
        let broken = run_mutated(options, &only(faults), Trace::default(), Some(*mutation)).unwrap();
        let text = says(*mutation, *rule);
        let is_found = |violation: &Violation| violation.rule == *rule && violation.what.contains(text);
        (!broken.violations.iter().any(is_found)).then(|| {
            let violated = &broken.violations;
            format!("{mutation:?} does not violate {rule:?} by {text:?} but {violated:?}")
        })
    });
    let missed: Vec<String> = missed.into_iter().flatten().collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// A run that panics, or that would never end, has an outcome, and the faults by which it can be repeated.
#[test]
fn a_run_whose_tasks_panic_or_never_end_says_so_and_keeps_its_faults() {
    let options = Options::default().with_rates(&[(Fault::Lost, 100)]);
    for (mutation, text) in [
        (Mutation::Panic, "a task panicked: a mutation at "),
        (Mutation::Circle, "the run does not end: again at "),
    ] {
        let broken = run_mutated(&options, &Faults::ByRate, Trace::default(), Some(mutation)).unwrap();
        let of_rule = |violation: &&Violation| violation.rule == Rule::Ended;
        let found = broken.violations.iter().find(of_rule).unwrap();
        assert!(found.what.contains(text), "{found}");
        assert!(!broken.faults.is_empty());
    }
}

/// Each of its requests is sent less often than it may be.
#[test]
fn a_loop_over_many_clusters_is_found_by_the_number_of_all_its_writes_alone() {
    let mutation = Some(Mutation::LoopOverFleet);
    let broken = run_mutated(&many_clusters(), &only(&[]), Trace::default(), mutation).unwrap();
    assert!(!broken.violations.is_empty());
    for violation in &broken.violations {
        assert_eq!(violation.rule, Rule::Storm, "{violation}");
        assert!(violation.what.contains("any write"), "{violation}");
    }
}

/// Its pre-action begins within the window and ends when that is closed.
#[test]
fn an_update_outside_its_windows_is_found_behind_a_pre_action_that_began_within_them() {
    let options = with(|options| {
        options.clusters = 1;
        options.actions = true;
        options.update_seconds = 100;
        options.window_minutes = 10;
        options.window_seconds = 60;
    });
    let whole = run(&options, &only(&[]), Trace::default()).unwrap();
    assert_eq!(whole.violations, []);
    let mutation = Some(Mutation::BlindToWindows);
    let broken = run_mutated(&options, &only(&[]), Trace::default(), mutation).unwrap();
    let is_found =
        |violation: &Violation| violation.rule == Rule::Windows && violation.what.contains("was requested");
    assert!(broken.violations.iter().any(is_found), "{:?}", broken.violations);
}

#[test]
fn every_rule_and_every_mutation_has_a_case() {
    let cases = cases();
    let rules: BTreeSet<Rule> = cases.iter().map(|case| case.1).collect();
    let mutations: BTreeSet<Mutation> = cases.iter().map(|case| case.0).collect();
    assert_eq!(rules, Rule::ALL.iter().copied().collect());
    assert_eq!(mutations, Mutation::ALL.iter().copied().collect());
}

/// A world in which every fault has something to strike.
fn busy() -> Options {
    Options {
        clusters: 4,
        canaries: 1,
        max_concurrency: 2,
        actions: true,
        placement: true,
        replicas: 2,
        update_seconds: 30,
        chaos_seconds: 120,
        ..Options::default()
    }
}

/// The hash of a trace is about changes of the hub and requests that it answered: a fault is in it only by what it changes.
#[test]
fn every_fault_changes_what_happens() {
    let hash = |options: &Options| run(options, &only(&[]), Trace::default()).unwrap().hash;
    let two = Options {
        rival: true,
        ..busy()
    };
    let paged = Options {
        small_pages: true,
        ..busy()
    };
    let asked = Options {
        preflight: Some(Preflight::Require),
        worker_pools: true,
        pools_seconds: 20,
        ..busy()
    };
    let controlled = Options {
        window_minutes: 5,
        window_seconds: 200,
        approve_at: Some(1),
        ..busy()
    };
    let without_of_controlled = hash(&controlled);
    let without_of_asked = hash(&asked);
    let (without, without_of_two) = (hash(&busy()), hash(&two));
    let without_of_paged = hash(&paged);
    let mut idle = Vec::new();
    for fault in Fault::ALL {
        // A report is written and a list continued only a few times, and most jumps of a clock are too small to be distrusted.
        let rate = match fault {
            Fault::InvalidRow | Fault::ClockJump | Fault::ClockFar | Fault::PageExpired => 700,
            _ => 200,
        };
        let (world, without) = match fault {
            Fault::Withdraw => (two.clone(), without_of_two),
            fault if fault.is_of_control() => (controlled.clone(), without_of_controlled),
            Fault::PageExpired => (paged.clone(), without_of_paged),
            fault if fault.is_of_probes() => (asked.clone(), without_of_asked),
            _ => (busy(), without),
        };
        let options = world.with_rates(&[(*fault, rate)]);
        let outcome = run(&options, &Faults::ByRate, Trace::default()).unwrap();
        let struck = outcome.faults.iter().filter(|one| one.fault == *fault).count();
        assert!(struck > 0, "{fault:?} never happened");
        assert_eq!(struck, outcome.faults.len(), "{fault:?} alone");
        if outcome.hash == without {
            idle.push(fault);
        }
    }
    assert!(idle.is_empty(), "nothing is changed by {idle:?}");
}
