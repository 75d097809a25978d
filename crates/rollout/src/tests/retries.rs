//! Retries of clusters that went on, or failed, before their rows say so, and what a retry repeats.

use std::sync::Arc;

use super::violations::refused;
use super::{plan_of, planned, record_of, stand, writes};
use crate::check::ViolationKind as Kind;
use crate::model::{Operation, Outcome, Phase, Reason, Record, Stage, Step, StepRecord, StepStatus};
use crate::testing::{FleetBuilder, PolicyBuilder, WorkBuilder, at, fleet, policy, record, work};

fn asked() -> PolicyBuilder {
    policy().pre_action().timeouts(60, 60).retry("again")
}

/// A cluster that recovered and began its update. Its leader was killed before it could write that.
fn begun() -> FleetBuilder {
    let a = fleet()
        .cluster("a")
        .work(Step::PreAction, work(0).succeeded())
        .work(Step::Platform, work(100).running());
    a.record(
        record(Phase::PreActionDegraded)
            .reason(Reason::PreActionTimeout)
            .stage(Stage::PreAction, 0),
    )
}

#[test]
fn a_retry_leaves_a_cluster_alone_that_went_on_before_its_row() {
    let plan = planned(110, asked(), begun());
    assert_eq!(stand(&plan, "a").0, Phase::Partial);
    assert_eq!(&*record_of(&plan, "a").attempt.retry, "");
    assert!(plan.retry_done, "nobody is to be retried");
}

#[test]
fn a_retry_waits_for_a_cluster_that_failed_before_its_row() {
    let late = || begun().read(Step::Platform, 160);
    let plan = planned(160, asked(), late());
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::ClusterUpgradeTimeout));
    assert!(!plan.retry_done, "it was shown as degraded, and is to be retried");
    let plan = planned(161, asked(), late().draft(record_of(&plan, "a").clone()));
    assert_eq!(stand(&plan, "a").0, Phase::Pending);
    assert_eq!(&*record_of(&plan, "a").attempt.retry, "again");
    refused(Kind::RetryForgotten, 160, asked(), late(), |plan| {
        plan.retry_done = true;
    });
}

/// A retry of the spec is for clusters whose pre-action failed. This one has recovered since, and its Job has failed.
#[test]
fn a_retry_for_a_reason_waits_for_no_cluster_that_failed_for_another_one_before_its_row() {
    let asked = |reason: Reason| {
        let asked = policy().without(Step::Platform).pre_action().operators();
        asked.retry_of("again", &[], &[reason.as_str()])
    };
    let a = || {
        let a = fleet().cluster("a").work(Step::PreAction, work(0).succeeded());
        let a = a.work(Step::Operators, work(100).failed());
        a.record(
            record(Phase::PreActionDegraded)
                .reason(Reason::PreActionFailed)
                .stage(Stage::PreAction, 0),
        )
    };
    let plan = planned(110, asked(Reason::PreActionFailed), a());
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::OperatorsJobFailed));
    assert!(plan.retry_done);
    let concerned = || asked(Reason::OperatorsJobFailed);
    assert!(!planned(110, concerned(), a()).retry_done);
    refused(Kind::RetryForgotten, 110, concerned(), a(), |plan| {
        plan.retry_done = true;
    });
}

/// The spec asks for a pre-action only since the platform was updated.
#[test]
fn the_retry_of_a_failed_post_action_does_not_go_back_to_a_step_that_was_added_since() {
    let asked = || policy().pre_action().post_action();
    let failed = record(Phase::Failed)
        .reason(Reason::PostActionFailed)
        .succeeded(Stage::Platform, 0)
        .done(Stage::PostAction, 10, Outcome::Failed);
    let a = || fleet().cluster("a").record(failed.clone());
    let plan = planned(20, asked().retry("again"), a());
    assert_eq!(&*record_of(&plan, "a").attempt.retry, "again");
    let queued = record_of(&plan, "a").clone();
    let plan = planned(21, asked(), fleet().cluster("a").record(queued));
    assert_eq!(writes(&plan), ["create a/PostAction"]);
}

/// The row was lost after the cluster had been registered anew. The work of its update was from before that, so the next row tells only of
/// the operators that followed.
#[test]
fn the_retry_of_a_failed_post_action_does_not_go_back_to_an_update_that_its_row_does_not_tell_of() {
    let asked = || policy().pre_action().operators().post_action();
    let failed = record(Phase::Failed)
        .reason(Reason::PostActionTimeout)
        .succeeded(Stage::Operators, 0)
        .done(Stage::PostAction, 10, Outcome::Failed);
    let left = || fleet().cluster("a").work(Step::Platform, work(5).succeeded());
    let plan = planned(20, asked().retry("again"), left().record(failed));
    let queued = record_of(&plan, "a").clone();
    assert_eq!(&*queued.attempt.retry, "again");
    // Its works are deleted when the row says that it has failed, or stay as leftovers while the hub rejects that.
    for works in [fleet().cluster("a"), left()] {
        let plan = planned(21, asked(), works.record(queued.clone()));
        assert!(writes(&plan).contains(&"create a/PostAction".to_owned()));
    }
    // Without the end of the operators, nothing tells that the update has ended.
    let mut unproven = queued;
    unproven.stages[Stage::Operators.index()] = None;
    let a = fleet().cluster("a").record(unproven.clone());
    refused(Kind::StepOrder, 21, asked(), a, |plan| {
        plan.operations = vec![Operation::Create {
            cluster: Arc::from("a"),
            step: Step::PostAction,
            attempt: unproven.attempt.clone(),
            started: at(21),
        }];
    });
}

/// A cluster whose operators were done when it turned out in its soak that it runs an older version again.
fn regressed() -> FleetBuilder {
    let a = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).status(StepStatus::OtherVersion).soak(20))
        .work(Step::Operators, work(10).succeeded());
    a.record(
        record(Phase::Failed)
            .reason(Reason::RegressedInSoak)
            .succeeded(Stage::PreAction, 0)
            .succeeded(Stage::Platform, 0)
            .succeeded(Stage::Operators, 10)
            .done(Stage::Soak, 20, Outcome::Failed),
    )
}

#[test]
fn a_retry_after_a_regression_repeats_the_update_and_then_the_operators() {
    let asked = || policy().pre_action().operators().soak(30);
    let retried = planned(100, asked().retry("again"), regressed());
    let queued = record_of(&retried, "a").clone();
    assert!(queued.succeeded(Stage::PreAction), "a backup is not taken twice");
    for stage in [Stage::Platform, Stage::Operators, Stage::Soak] {
        assert_eq!(queued.stage(stage), None, "{stage:?}");
    }
    let announced = regressed().record(queued);
    let plan = planned(101, asked(), announced);
    let begun = ["update a/Platform Retry", "delete a/Operators Leftover"];
    assert_eq!(writes(&plan), begun);
    let again = |work: WorkBuilder| work.retry("again");
    let a = |platform: WorkBuilder, record: &Record| {
        let a = fleet().cluster("a").work(Step::Platform, again(platform));
        a.record(record.clone())
    };
    let asked_again = record_of(&plan, "a").clone();
    let plan = planned(
        102,
        asked(),
        a(work(101).status(StepStatus::OtherVersion), &asked_again),
    );
    assert_eq!(
        stand(&plan, "a").0,
        Phase::Initialized,
        "it has time to update again"
    );
    let updated = record_of(&plan, "a").clone();
    let plan = planned(110, asked(), a(work(101).succeeded(), &updated));
    assert_eq!(writes(&plan), ["create a/Operators"]);
}

/// The soak would show that the cluster still runs an older version, and the author does not ask for one any more.
#[test]
fn a_retry_without_a_soak_does_not_complete_a_cluster_that_has_regressed() {
    let asked = || policy().pre_action().operators();
    let retried = planned(100, asked().retry("again"), regressed());
    assert_eq!(stand(&retried, "a").0, Phase::Pending);
    let announced = regressed().record(record_of(&retried, "a").clone());
    let plan = planned(101, asked(), announced);
    assert_ne!(stand(&plan, "a").0, Phase::Complete);
}

#[test]
fn a_retry_after_a_regression_that_keeps_what_followed_the_update() {
    for stage in [Stage::Platform, Stage::Operators] {
        let asked = policy().pre_action().operators().soak(30).retry("again");
        refused(Kind::UnprovenSuccess, 100, asked, regressed(), |plan| {
            let record = Arc::make_mut(&mut plan.clusters[0].record);
            record.stages[stage.index()] = Some(StepRecord {
                finished: Some(at(20)),
                outcome: Some(Outcome::Succeeded),
                ..StepRecord::started(at(10))
            });
        });
    }
}

/// Three clusters that failed: of one the Job, of the others the update.
fn failures() -> FleetBuilder {
    let failed = |reason| {
        record(Phase::Failed)
            .reason(reason)
            .done(Stage::Platform, 0, Outcome::Failed)
    };
    fleet()
        .cluster("a")
        .record(failed(Reason::ClusterUpgradeTimeout))
        .cluster("b")
        .record(failed(Reason::JobFailed))
        .cluster("c")
        .record(failed(Reason::ClusterUpgradeTimeout))
}

/// The clusters that a retry queues again.
fn queued(asked: PolicyBuilder) -> Vec<String> {
    let plan = planned(100, asked, failures());
    let states = plan.clusters.iter();
    let queued = states.filter(|state| state.record.attempt.is_of_retry("again"));
    queued.map(|state| state.name.to_string()).collect()
}

#[test]
fn a_retry_of_chosen_clusters_or_reasons_leaves_the_others_failed() {
    assert_eq!(queued(policy().retry("again")), ["a", "b", "c"]);
    assert_eq!(queued(policy().retry_of("again", &[], &[])), ["a", "b", "c"]);
    assert_eq!(queued(policy().retry_of("again", &["b", "c"], &[])), ["b", "c"]);
    assert_eq!(
        queued(policy().retry_of("again", &[], &["ClusterUpgradeTimeout"])),
        ["a", "c"]
    );
    assert_eq!(
        queued(policy().retry_of("again", &["b", "c"], &["ClusterUpgradeTimeout"])),
        ["c"]
    );
    assert_eq!(
        queued(policy().retry_of("again", &["z"], &[])),
        Vec::<String>::new()
    );
}

#[test]
fn a_retry_that_concerns_nobody_is_done_at_once_and_one_that_does_only_when_its_rows_are_written() {
    let plan = planned(100, policy().retry_of("again", &["z"], &[]), failures());
    assert!(plan.retry_done);
    let asked = || policy().retry_of("again", &["b"], &[]);
    let plan = planned(100, asked(), failures());
    assert!(!plan.retry_done);
    let written = fleet().cluster("b").record(record_of(&plan, "b").clone());
    assert!(planned(101, asked(), written).retry_done);
}

#[test]
fn a_retry_whose_end_is_forgotten_does_not_reach_a_cluster_that_a_later_one_has_retried() {
    let mut asked = policy().retry_of("first", &[], &[]).build();
    let scope = asked
        .retry
        .as_mut()
        .and_then(|retry| retry.scope.as_mut())
        .unwrap();
    scope.later = vec!["again".into()];
    let failed = record(Phase::Failed).reason(Reason::JobFailed);
    let fleet = || fleet().cluster("a").record(failed.clone().retry("again"));
    let plan = plan_of(100, &asked, &fleet().build());
    assert_eq!(&*record_of(&plan, "a").attempt.retry, "again");
    assert!(plan.retry_done);
}

#[test]
fn a_retry_of_a_cluster_that_was_not_asked_for() {
    for asked in [
        policy().retry_of("again", &["b"], &[]),
        policy().retry_of("again", &[], &["JobFailed"]),
    ] {
        refused(Kind::AttemptUnfounded, 100, asked, failures(), |plan| {
            let record = Arc::make_mut(&mut plan.clusters[0].record);
            record.attempt.retry = "again".into();
            record.phase = Phase::Pending;
        });
    }
}

/// Placements are rewritten in several steps, so a cluster can be missing although it was never taken out.
#[test]
fn a_retry_is_not_carried_out_while_a_failed_cluster_is_missing_for_a_moment() {
    for phase in [Phase::Failed, Phase::PreActionDegraded] {
        let asked = || policy().pre_action().retry("again");
        let row = || {
            let row = record(phase).reason(Reason::PreActionFailed);
            row.stage(Stage::PreAction, 0)
        };
        let a = || fleet().cluster("a").record(row());
        let missing = || a().left(98);
        let plan = planned(100, asked(), missing());
        assert_eq!(&*record_of(&plan, "a").attempt.retry, "", "{phase}");
        assert!(!plan.retry_done, "{phase}: it may be back at once");
        assert_eq!(plan.wake_at, Some(at(103)), "{phase}");
        refused(Kind::RetryForgotten, 100, asked(), missing(), |plan| {
            plan.retry_done = true;
        });
        let back = planned(101, asked(), a());
        assert_eq!(&*record_of(&back, "a").attempt.retry, "again", "{phase}");
        assert!(planned(103, asked(), missing()).retry_done, "{phase}");
    }
}

/// The hub has refused to delete the pre-action of an earlier spec until now.
#[test]
fn a_retried_post_action_takes_no_slot_although_a_leftover_is_removed_beside_it() {
    let row = record(Phase::Pending).retry("again");
    let a = fleet()
        .cluster("a")
        .work(Step::PreAction, work(0).revision("r0"))
        .record(row.succeeded(Stage::Platform, 5));
    let asked = policy().post_action().max_concurrency(1);
    let plan = planned(10, asked, a.cluster("b"));
    assert_eq!(
        writes(&plan),
        [
            "create a/PostAction",
            "delete a/PreAction Leftover",
            "create b/Platform"
        ]
    );
}
