use chrono::{DateTime, Utc};
use rollout::testing::{at, fleet, policy, record};
use rollout::{Fleet, Limit, Phase, Policy, Reason, Stage};

use super::*;
use crate::report::estimate::Estimated;
use resolve::retry::CarriedOut;
use rollout::remedy::Names;

fn input(now: DateTime<Utc>, notes: &[String]) -> StatusInput<'_> {
    StatusInput {
        generation: 7,
        names: Names {
            namespace: "upgrades",
            name: "spring",
            cluster: "",
        },
        target: "4.12.0",
        paused: false,
        restored: None,
        notes,
        retries: CarriedOut::default(),
        retries_after: CarriedOut::default(),
        refused: None,
        skew: None,
        preflight: None,
        warned: Vec::new(),
        estimated: Estimated::Not,
        minimum_remaining: None,
        now,
    }
}

fn conditions(
    input: &StatusInput<'_>,
    policy: &Policy,
    fleet: &Fleet,
    before: &ManagedClustersUpgradeStatus,
) -> Vec<Condition> {
    let plan = rollout::plan(input.now, policy, fleet);
    let made = of_plan(
        input,
        &plan,
        PreviousStatus {
            latest: before,
            written: before,
        },
    );
    assert_readable(&made);
    made
}

fn none() -> ManagedClustersUpgradeStatus {
    ManagedClustersUpgradeStatus::default()
}

/// Fails unless every message has the form of messages for users.
#[track_caller]
fn assert_readable(conditions: &[Condition]) {
    for condition in conditions {
        let message = &condition.message;
        assert_eq!(
            api::message::violation(message),
            None,
            "{}: {message}",
            condition.type_
        );
    }
}

fn find<'a>(conditions: &'a [Condition], type_: &str) -> &'a Condition {
    conditions
        .iter()
        .find(|condition| condition.type_ == type_)
        .unwrap()
}

fn shown(conditions: &[Condition], type_: &str) -> (String, String) {
    let found = find(conditions, type_);
    (found.status.clone(), found.reason.clone())
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

fn failed(reason: Reason) -> rollout::testing::RecordBuilder {
    record(Phase::Failed).reason(reason)
}

#[test]
fn all_eight_are_always_there_with_the_generation() {
    let made = conditions(
        &input(at(1), &[]),
        &policy().build(),
        &fleet().cluster("a").build(),
        &none(),
    );
    let types: Vec<&str> = made.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(types, types::TYPES);
    assert!(
        made.iter()
            .all(|condition| condition.observed_generation == Some(7))
    );
}

#[test]
fn every_stall_names_its_reason_and_remedy() {
    let timeout = || failed(Reason::ClusterUpgradeTimeout);
    let cases: [(&str, Policy, Fleet, &str); 7] = [
        (
            reason::NOTHING_SELECTED,
            policy().build(),
            fleet().build(),
            "No cluster is selected",
        ),
        (
            reason::NOTHING_SELECTED,
            policy().canaries().build(),
            fleet().cluster("a").build(),
            "canaryClusters.clusterSelector",
        ),
        (
            reason::CANARY_FAILED,
            policy().canaries().build(),
            fleet()
                .cluster("a")
                .canary()
                .record(timeout())
                .cluster("b")
                .build(),
            "kubectl mcu retry",
        ),
        (
            reason::CANARY_FAILED,
            policy().canaries().pre_action().build(),
            fleet()
                .cluster("a")
                .canary()
                .record(record(Phase::PreActionDegraded).reason(Reason::PreActionFailed))
                .cluster("b")
                .build(),
            "kubectl mcu retry",
        ),
        (
            reason::MAX_FAILURES_EXCEEDED,
            policy().max_failures(Limit::Count(0)).build(),
            fleet().cluster("a").record(timeout()).cluster("b").build(),
            "maxFailures",
        ),
        (
            reason::CLUSTERS_FAILED,
            policy().build(),
            fleet()
                .cluster("a")
                .record(timeout())
                .cluster("b")
                .record(record(Phase::Complete))
                .build(),
            "status.failedClusters",
        ),
        (
            reason::CLUSTERS_BLOCKED,
            policy().build(),
            fleet().cluster("a").blocked(Reason::NotOpenShift).build(),
            "status.waitingClusters",
        ),
    ];
    for (expected, policy, fleet, text) in cases {
        let made = conditions(&input(at(1), &[]), &policy, &fleet, &none());
        assert_eq!(shown(&made, types::STALLED), pair("True", expected));
        assert!(
            find(&made, types::STALLED).message.contains(text),
            "{expected}: {}",
            find(&made, types::STALLED).message
        );
        let idle = (types::RECONCILING, reason::IDLE);
        for (kind, reason) in [idle, (types::READY, expected)] {
            assert_eq!(shown(&made, kind), pair("False", reason), "{expected}");
        }
        assert_eq!(
            find(&made, types::READY).message,
            find(&made, types::STALLED).message
        );
    }
}

#[test]
fn a_canary_selector_that_selects_no_cluster_is_named_with_what_to_change_unless_no_cluster_is_selected() {
    let stalled = |fleet: Fleet| {
        let made = conditions(&input(at(1), &[]), &policy().canaries().build(), &fleet, &none());
        assert_eq!(
            shown(&made, types::STALLED),
            pair("True", reason::NOTHING_SELECTED)
        );
        let message = |type_| find(&made, type_).message.clone();
        (message(types::STALLED), message(types::SELECTED))
    };
    let (told, selected) = stalled(fleet().cluster("a").cluster("b").build());
    assert_eq!(
        told,
        "The canary selector (spec.upgradeStrategy.canaryClusters.clusterSelector) selects none of the 2 selected clusters, so no \
         cluster starts. Correct that selector, remove spec.upgradeStrategy.canaryClusters, or label the clusters that are to be canaries."
    );
    assert!(
        selected.starts_with("2 clusters are selected. The canary selector "),
        "{selected}"
    );
    let (told, _) = stalled(fleet().cluster("a").build());
    assert!(
        told.contains("does not select the only selected cluster, so"),
        "{told}"
    );
    let (told, selected) = stalled(fleet().build());
    assert_eq!(
        told,
        "No cluster is selected. Check spec.placement and spec.clusterSelector."
    );
    assert_eq!(selected, "No cluster is selected");
}

#[test]
fn what_moves_is_not_stalled() {
    let made = conditions(
        &input(at(1), &[]),
        &policy().build(),
        &fleet().cluster("a").build(),
        &none(),
    );
    assert_eq!(shown(&made, types::STALLED), pair("False", reason::MOVING));
    assert_eq!(
        shown(&made, types::RECONCILING),
        pair("True", reason::RECONCILING)
    );
    assert_eq!(shown(&made, types::READY), pair("False", reason::RECONCILING));
    assert_eq!(
        find(&made, types::READY).message,
        find(&made, types::RECONCILING).message
    );
}

#[test]
fn a_paused_upgrade_is_not_ready_for_that_reason_unless_it_is_complete() {
    let input = StatusInput {
        paused: true,
        ..input(at(1), &[])
    };
    let policy = policy().paused().build();
    let made = conditions(&input, &policy, &fleet().cluster("a").build(), &none());
    assert_eq!(shown(&made, types::READY), pair("False", reason::PAUSED));
    assert_eq!(shown(&made, types::STALLED), pair("False", reason::MOVING));
    let done = fleet().cluster("a").record(record(Phase::Complete)).build();
    let made = conditions(&input, &policy, &done, &none());
    assert_eq!(shown(&made, types::READY), pair("True", reason::COMPLETE));
}

#[test]
fn a_soaking_cluster_is_not_in_progress() {
    let soaking = fleet()
        .cluster("a")
        .record(
            record(Phase::Soaking)
                .succeeded(rollout::Stage::Platform, 0)
                .stage(rollout::Stage::Soak, 0),
        )
        .build();
    let made = conditions(&input(at(1), &[]), &policy().soak(600).build(), &soaking, &none());
    assert_eq!(shown(&made, types::IN_PROGRESS).0, "False");
    assert_eq!(shown(&made, types::APPLIED).0, "True");
}

#[test]
fn transition_times_move_only_when_the_status_flips() {
    let policy = policy().build();
    let mut before = none();
    before.conditions = conditions(
        &input(at(1), &[]),
        &policy,
        &fleet().cluster("a").build(),
        &before,
    );
    let more = fleet().cluster("a").cluster("b").build();
    let made = conditions(&input(at(60), &[]), &policy, &more, &before);
    let selected = find(&made, types::SELECTED);
    assert!(selected.message.contains("2 clusters are selected"));
    assert_eq!(selected.last_transition_time, from_chrono(at(1)));

    let done = fleet().cluster("a").record(record(Phase::Complete)).build();
    let made = conditions(&input(at(120), &[]), &policy, &done, &before);
    assert_eq!(
        find(&made, types::COMPLETE).last_transition_time,
        from_chrono(at(120))
    );
    assert_eq!(
        find(&made, types::SELECTED).last_transition_time,
        from_chrono(at(1))
    );
}

#[test]
fn a_flip_that_nobody_saw_moves_no_time() {
    let policy = policy().build();
    let (mut written, mut latest) = (none(), none());
    let one = fleet().cluster("a").build();
    written.conditions = conditions(&input(at(1), &[]), &policy, &one, &written);
    latest.conditions = conditions(&input(at(2), &[]), &policy, &fleet().build(), &written);
    let plan = rollout::plan(at(3), &policy, &one);
    let previous = PreviousStatus {
        latest: &latest,
        written: &written,
    };
    let made = of_plan(&input(at(3), &[]), &plan, previous);
    assert_eq!(
        find(&made, types::SELECTED).last_transition_time,
        from_chrono(at(1))
    );
}

#[test]
fn applied_stays_true_after_everything_is_gone() {
    let mut before = none();
    let running = fleet().cluster("a").record(record(Phase::Initialized)).build();
    before.conditions = conditions(&input(at(1), &[]), &policy().build(), &running, &before);
    let made = conditions(&input(at(2), &[]), &policy().build(), &fleet().build(), &before);
    assert_eq!(shown(&made, types::APPLIED), pair("True", reason::APPLIED));
    assert_eq!(
        shown(&made, types::SELECTED),
        pair("False", reason::CLUSTERS_NOT_SELECTED)
    );
}

#[test]
fn notes_of_the_selection_are_shown_and_cut() {
    let notes = ["Placement ns/p does not exist".to_owned(), "n".repeat(5_000)];
    let before = none();
    let previous = PreviousStatus {
        latest: &before,
        written: &before,
    };
    let plan = rollout::plan(at(1), &policy().build(), &fleet().build());
    let made = of_plan(&input(at(1), &notes), &plan, previous);
    for type_ in [types::SELECTED, types::STALLED] {
        let message = &find(&made, type_).message;
        assert!(message.contains("Placement ns/p does not exist"));
        assert!(message.len() <= MAX_MESSAGE_BYTES);
    }
}

#[test]
fn an_invalid_spec_says_nothing_of_what_it_cannot_know() {
    let policy = policy().build();
    let mut before = none();
    let running = fleet().cluster("a").record(record(Phase::Initialized)).build();
    before.conditions = conditions(&input(at(1), &[]), &policy, &running, &before);
    let violations = [SpecViolation {
        field: "spec".to_owned(),
        message: "must be set".to_owned(),
    }];
    let previous = PreviousStatus {
        latest: &before,
        written: &before,
    };
    let made = of_violations(&input(at(2), &[]), &violations, previous);
    assert_eq!(shown(&made, types::APPLIED), pair("True", reason::APPLIED));
    assert_eq!(
        shown(&made, types::SELECTED),
        pair("True", reason::CLUSTERS_SELECTED)
    );
    for type_ in [types::READY, types::RECONCILING] {
        assert_eq!(shown(&made, type_), pair("False", reason::INVALID_SPEC));
    }
    assert_eq!(shown(&made, types::STALLED), pair("True", reason::INVALID_SPEC));
}

#[test]
fn one_is_not_many_and_a_degraded_pre_action_is_no_failed_cluster() {
    assert_eq!(lost(1, 0), "1 cluster failed");
    assert_eq!(lost(0, 1), "1 pre-action is degraded");
    assert_eq!(lost(2, 3), "2 clusters failed and 3 pre-actions are degraded");
}

#[test]
fn a_clock_that_differs_from_the_hubs_is_told_while_it_does_and_only_roughly() {
    let running = || fleet().cluster("a").record(record(Phase::Partial)).build();
    let skew_condition = |skew: Option<i64>, fleet: &rollout::Fleet| {
        let input = StatusInput {
            skew: skew.map(chrono::TimeDelta::seconds),
            ..input(at(1), &[])
        };
        let made = conditions(&input, &policy().build(), fleet, &none());
        let found = made.into_iter().find(|one| one.type_ == types::CLOCK_SKEW);
        found.map(|one| (one.status, one.message))
    };
    assert_eq!(skew_condition(None, &running()), None);
    for (seconds, text) in [
        (45, "more than 30 seconds ahead of"),
        (-600, "about 10 minutes behind"),
        (10_801, "about 3 hours ahead of"),
    ] {
        let (status, message) = skew_condition(Some(seconds), &running()).unwrap();
        assert_eq!(status, "True");
        assert!(message.contains(text), "{message}");
    }
    let done = fleet().cluster("a").record(record(Phase::Complete)).build();
    assert_eq!(
        skew_condition(Some(45), &done),
        None,
        "no deadline is left to fire"
    );
}

#[test]
fn starts_in_the_future_are_told_until_they_have_passed() {
    let fleet = || {
        fleet()
            .cluster("a")
            .record(record(Phase::Partial).stage(Stage::Platform, 7200))
            .cluster("b")
            .record(
                record(Phase::Soaking)
                    .succeeded(Stage::Platform, 0)
                    .stage(Stage::Soak, 7300),
            )
            .cluster("c")
            .record(record(Phase::Partial).stage(Stage::Platform, 50))
            .cluster("d")
            .record(record(Phase::Complete).succeeded(Stage::Platform, 9000))
            .build()
    };
    let told = |seconds: i64, skew: Option<i64>| {
        let input = StatusInput {
            skew: skew.map(chrono::TimeDelta::seconds),
            ..input(at(seconds), &[])
        };
        let made = conditions(&input, &policy().soak(30).build(), &fleet(), &none());
        let found = made.into_iter().find(|one| one.type_ == types::CLOCK_SKEW);
        found.map(|one| (one.reason, one.message))
    };
    let (reason, message) = told(10, None).unwrap();
    assert_eq!(reason, reason::STARTS_IN_FUTURE);
    assert!(message.starts_with("2 clusters have a step"), "{message}");
    assert!(
        message.contains("for example b at 2024-10-04T02:01:40.000Z"),
        "{message}"
    );
    assert_eq!(
        told(10, Some(45)).unwrap().0,
        reason::CLOCK_SKEW,
        "the clocks come first"
    );
    let (_, message) = told(7230, None).unwrap();
    assert!(message.starts_with("1 cluster has a step"), "{message}");
    assert_eq!(told(7240, None), None);
}

#[test]
fn every_message_begins_with_a_capital_letter_and_only_several_sentences_have_periods() {
    let before = none();
    let previous = PreviousStatus {
        latest: &before,
        written: &before,
    };
    let violations = [SpecViolation {
        field: "spec".to_owned(),
        message: "must be set".to_owned(),
    }];
    let completed = Completed {
        revision: String::new(),
        time: at(0),
        clusters: 3,
        carried: None,
    };
    let refused = Some("The hub rejects the record of cluster a: too long".to_owned());
    let plan = rollout::plan(at(1), &policy().build(), &fleet().cluster("a").build());
    let valid = input(at(1), &[]);
    let paused = StatusInput {
        paused: true,
        ..input(at(1), &[])
    };
    let rejected = StatusInput {
        refused,
        ..input(at(1), &[])
    };
    for made in [
        of_plan(&paused, &plan, previous),
        of_plan(&rejected, &plan, previous),
        of_followed(&valid, &plan, &violations, previous),
        of_violations(&valid, &violations, previous),
        of_completed_before(&valid, &completed, previous),
        of_deletion(&valid, None, previous),
        of_deletion(
            &valid,
            Some("The finalizer cannot be removed: forbidden"),
            previous,
        ),
    ] {
        assert_readable(&made);
    }
}
