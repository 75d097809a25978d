//! Rules that check many things find each of them: a controller that is broken on purpose violates that very check.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

use api::conditions::{APPLIED, COMPLETE, FAILED, IN_PROGRESS, READY, SELECTED, STALLED, TYPES};
use serde_json::{Value, json};
use simulation::fault::{Fault, Faults, Occasion};
use simulation::mutation::Mutation;
use simulation::options::{Options, Preflight};
use simulation::oracle::{Rule, Violation};
use simulation::protection::Protection;
use simulation::run::{run, run_mutated};
use simulation::sweep::of_each;
use simulation::trace::Trace;

/// What is broken, which rule is violated, what the violation says, and in which world.
struct Case {
    mutation: Mutation,
    rule: Rule,
    text: String,
    options: Options,
    faults: Vec<Occasion>,
}

/// Values, and where they are written.
type Places<'a> = &'a [(&'static str, Value)];

fn case(mutation: Mutation, rule: Rule, text: &str) -> Case {
    Case {
        mutation,
        rule,
        text: text.to_owned(),
        options: Options::default(),
        faults: Vec::new(),
    }
}

impl Case {
    fn within(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }
}

fn misstates(places: Places<'_>) -> Mutation {
    let places = places.iter().map(|(place, value)| {
        let value: &'static str = value.to_string().leak();
        (*place, value)
    });
    Mutation::Misstates(places.collect::<Vec<_>>().leak())
}

/// A status of which this check says that it is wrong.
fn of_status(text: &str, places: Places<'_>) -> Case {
    case(misstates(places), Rule::Conditions, &format!(" s: {text}: {{"))
}

/// The row of the first cluster says something else as soon as the last one has begun.
fn of_row(rule: Rule, text: &str, place: &'static str, value: Value) -> Case {
    let places = [("/rows/2/steps/0/name", json!("Platform")), (place, value)];
    case(misstates(&places), rule, text)
}

/// Where a status has a field of a condition.
fn condition(name: &str, field: &str) -> &'static str {
    let number = TYPES.iter().position(|one| *one == name).unwrap();
    format!("/status/conditions/{number}/{field}").leak()
}

fn is_true(name: &str) -> (&'static str, Value) {
    (condition(name, "status"), json!("True"))
}

/// The first cluster fails, and no other one may.
fn failing(options: &mut Options) {
    options.max_failures = Some(0);
    options.timeout_seconds = 90;
    options.update_seconds = 200;
    options.chaos_seconds = 200;
}

fn asked(options: &mut Options) {
    options.preflight = Some(Preflight::Require);
}

fn cases_of_sums() -> Vec<Case> {
    let pending = ("/status/canaryClustersSummery/pending", json!(9));
    let total = ("/status/canaryClustersSummery/total", json!(9));
    vec![
        of_status(
            "clustersSummery",
            &[("/status/clustersSummery/pending", json!(9))],
        ),
        of_status("canaryClustersSummery", std::slice::from_ref(&pending)),
        of_status("more canaries than clusters", &[pending, total]),
        of_status("Failed and its count", &[is_true(FAILED)]),
        of_status("InProgress and its count", &[is_true(IN_PROGRESS)]),
        of_status("Complete and its count", &[is_true(COMPLETE)]),
        of_status("Ready and not Complete", &[is_true(READY)]),
        of_status("Reconciling and Stalled", &[is_true(STALLED)]),
        of_status("Complete and Stalled", &[is_true(STALLED)]),
        case(
            misstates(&[("/status/inFlight", json!(9))]),
            Rule::Conditions,
            "inFlight is 9, and",
        ),
        // The time is another one only as long as somebody waits.
        case(
            misstates(&[
                ("/status/waitingClusters/0/message", json!("x")),
                (
                    condition(SELECTED, "lastTransitionTime"),
                    json!("2026-01-01T01:00:00Z"),
                ),
            ]),
            Rule::Conditions,
            "transition time: Some(\"Selected was",
        ),
    ]
}

fn cases_of_contradictions() -> Vec<Case> {
    let phases = |phases: Value| [("/status/phases", phases)];
    vec![
        of_status("phases and total", &[("/status/phases/Strange", json!(1))]),
        of_status("phases and failed", &phases(json!({"Failed": 3}))),
        of_status("phases and complete", &phases(json!({"Complete": 3}))),
        of_status("phases and partialUpgrade", &phases(json!({"Partial": 3}))),
        of_status(
            "more causes than clusters in a phase",
            &[("/status/causes/0/clusters", json!(9))],
        ),
        of_status(
            "clusters that need a human and have no cause",
            &[("/status/causes", json!([]))],
        )
        .within(failing),
        of_status(
            "a listed cluster without a cause",
            &[("/status/causes/0/reason", json!("Strange"))],
        ),
        of_status(
            "a cause without a remedy",
            &[("/status/causes/0/remedy", json!(""))],
        ),
        of_status(
            "Complete and completedAt",
            &[("/status/completedAt", json!("2026-01-01T00:00:00Z"))],
        ),
        of_status(
            "Ready and Stalled with different reasons",
            &[(condition(READY, "reason"), json!("Strange"))],
        )
        .within(failing),
    ]
}

fn cases_of_bounds() -> Vec<Case> {
    let long = |length: usize| json!("x".repeat(length));
    vec![
        of_status(
            "a status of 16 KiB",
            &[(condition(SELECTED, "message"), long(16_384))],
        ),
        of_status(
            "a message about a cluster that is too long",
            &[("/status/waitingClusters/0/message", long(257))],
        ),
        // Otherwise it would have no cause, either.
        of_status(
            "a listed cluster without a reason",
            &[
                ("/status/waitingClusters/0/reason", json!("None")),
                ("/status/causes/0/reason", json!("None")),
            ],
        )
        .within(|options| options.clusters = 2),
        of_status(
            "a condition without a reason",
            &[(condition(SELECTED, "reason"), json!(""))],
        ),
        of_status(
            "a condition that is neither True nor False",
            &[(condition(APPLIED, "status"), json!("Unknown"))],
        ),
        of_status(
            "a condition of another generation",
            &[(condition(APPLIED, "observedGeneration"), json!(9))],
        ),
        of_status(
            "preUpgradeActionSummary",
            &[("/status/preUpgradeActionSummary/applied", json!(9))],
        ),
        of_status(
            "postUpgradeActionSummary",
            &[("/status/postUpgradeActionSummary/available", json!(9))],
        ),
    ]
}

/// The last status does not agree with the rows.
fn cases_of_last_statuses() -> Vec<Case> {
    let of_last =
        |text: &str, places: Places<'_>| case(misstates(places), Rule::Told, &format!("spring: {text}"));
    let cause = json!({
        "reason": "Strange", "phase": "Failed", "clusters": 1, "example": "c00", "message": "", "remedy": "Look.",
    });
    vec![
        of_last("its rows say", &[("/status/phases", json!({"Strange": 3}))]),
        of_last("no such rows as", &[("/status/causes", json!([cause]))]),
        of_last(
            "its rows tell of 0 canaries",
            &[("/status/canaryClustersSummery/total", json!(9))],
        ),
        of_last(
            "by its rows, it should say",
            &[(condition(SELECTED, "message"), json!("x"))],
        ),
    ]
}

fn cases_of_rows() -> Vec<Case> {
    let started = json!("2026-01-02T00:00:00Z");
    let retarget = Occasion {
        fault: Fault::Retarget,
        name: "spring".to_owned(),
        count: 30,
    };
    vec![
        of_row(Rule::Rows, "Complete became", "/rows/0/phase", json!("Partial")),
        of_row(Rule::Rows, "Failed became", "/rows/0/phase", json!("Partial")).within(|options| {
            failing(options);
            options.max_failures = None;
            options.chaos_seconds = 400;
        }),
        of_row(Rule::Rows, "step Platform is gone", "/rows/0/steps", json!([])),
        of_row(
            Rule::Rows,
            "step Platform began at",
            "/rows/0/steps/0/startedAt",
            started,
        ),
        of_row(
            Rule::Rows,
            "step Platform had succeeded",
            "/rows/0/steps/0/outcome",
            json!("Failed"),
        ),
        Case {
            faults: vec![retarget],
            ..case(Mutation::OldRows, Rule::Rows, "s before: the attempt")
        }
        .within(|options| options.chaos_seconds = 120),
        of_row(
            Rule::Complete,
            "has never run 4.14.19",
            "/rows/0/toVersion",
            json!("4.14.19"),
        ),
        case(
            misstates(&[("/rows/0/phase", json!("Skipped"))]),
            Rule::LeftOut,
            "the row of c00 says Skipped",
        ),
    ]
}

fn cases_of_works() -> Vec<Case> {
    let image = "/metadata/annotations/cluster.open-cluster-management.io~1upgrade-release-image";
    vec![
        case(
            misstates(&[(image, json!("registry/other@sha256:1"))]),
            Rule::Preflight,
            "asks for image registry/other",
        )
        .within(asked),
        case(
            misstates(&[("/spec/deleteOption/propagationPolicy", json!("Orphan"))]),
            Rule::Probes,
            "still has the role",
        )
        .within(asked),
        case(Mutation::AcknowledgeMore, Rule::Acks, "has the acknowledgments").within(asked),
        case(
            Mutation::BlindToOtherTimes,
            Rule::Deadline,
            "by the time of its worker pools",
        )
        .within(|options| {
            options.worker_pools = true;
            options.pools_seconds = 120;
            options.pools_timeout_seconds = 241;
        }),
        case(
            Mutation::Lacks(Protection::Operators),
            Rule::Complete,
            "the end of its operators",
        )
        .within(|options| options.operators = true),
        case(Mutation::ListAgain, Rule::Restart, "read after").within(|options| options.restart = true),
    ]
}

/// What is wrong with a case, if anything is.
fn wrong(case: &Case) -> Option<String> {
    let faults = Faults::Only(case.faults.iter().cloned().collect());
    let is_found = |one: &Violation| one.rule == case.rule && one.what.contains(&case.text);
    let whole = run(&case.options, &faults, Trace::default()).unwrap();
    if let Some(violation) = whole.violations.iter().find(|one| is_found(one)) {
        return Some(format!("the controller as it is: {violation}"));
    }
    let broken = run_mutated(&case.options, &faults, Trace::default(), Some(case.mutation)).unwrap();
    (!broken.violations.iter().any(is_found)).then(|| {
        let violated = Rule::violated_in(&broken.violations);
        format!("nothing says {:?}, and {violated:?} are violated", case.text)
    })
}

#[test]
fn a_broken_controller_violates_the_check_that_it_breaks() {
    let mut cases = cases_of_sums();
    cases.extend(cases_of_contradictions());
    cases.extend(cases_of_bounds());
    cases.extend(cases_of_last_statuses());
    cases.extend(cases_of_rows());
    cases.extend(cases_of_works());
    let wrong: Vec<String> = of_each(&cases, wrong).into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
