//! Retries of clusters that went on, or failed, before their rows say so.

use super::violations::refused;
use super::{planned, record_of, stand, writes};
use crate::check::ViolationKind as Kind;
use crate::model::{Outcome, Phase, Reason, Stage, Step};
use crate::testing::{FleetBuilder, PolicyBuilder, fleet, policy, record, work};

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
