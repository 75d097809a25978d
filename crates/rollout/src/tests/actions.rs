//! When the works of actions are deleted.

use super::{planned, stand, writes};
use crate::model::{Phase, Reason, Stage, Step};
use crate::testing::{FleetBuilder, fleet, policy, record, work};

#[test]
fn action_works_go_when_every_cluster_is_complete_or_nothing_moves_any_more() {
    let done = |fleet: FleetBuilder| {
        fleet
            .work(Step::PreAction, work(0).succeeded())
            .work(Step::PostAction, work(10).succeeded())
            .record(
                record(Phase::Complete)
                    .succeeded(Stage::PreAction, 0)
                    .succeeded(Stage::Platform, 5)
                    .succeeded(Stage::PostAction, 10),
            )
    };
    let asked = || policy().pre_action().post_action();
    let all = done(done(fleet().cluster("a")).cluster("b"));
    assert_eq!(
        writes(&planned(20, asked(), all)),
        [
            "delete a/PreAction AllComplete",
            "delete b/PreAction AllComplete",
            "delete a/PostAction AllComplete",
            "delete b/PostAction AllComplete"
        ]
    );
    let failed = done(fleet().cluster("a"))
        .cluster("b")
        .work(Step::PreAction, work(0).succeeded())
        .record(
            record(Phase::Failed)
                .reason(Reason::PostActionFailed)
                .succeeded(Stage::PreAction, 0),
        );
    let only_complete = [
        "delete a/PreAction OthersStalled",
        "delete a/PostAction OthersStalled",
    ];
    assert_eq!(writes(&planned(20, asked(), failed.clone())), only_complete);
    let in_flight = failed
        .cluster("c")
        .work(Step::PreAction, work(0).running())
        .record(record(Phase::PreAction).stage(Stage::PreAction, 0));
    assert_eq!(writes(&planned(20, asked(), in_flight)), Vec::<String>::new());
}

/// The hub has carried out its creation after somebody had deleted the first one.
#[test]
fn a_pre_action_that_is_created_late_takes_no_cluster_back_from_its_post_action() {
    let a = fleet()
        .cluster("a")
        .work(Step::PreAction, work(15).running())
        .work(Step::PostAction, work(10).running())
        .record(
            record(Phase::PostAction)
                .succeeded(Stage::PreAction, 0)
                .succeeded(Stage::Platform, 5)
                .stage(Stage::PostAction, 10),
        );
    let plan = planned(20, policy().pre_action().post_action(), a);
    assert_eq!(stand(&plan, "a").0, Phase::PostAction);
    assert_eq!(writes(&plan), ["delete a/PreAction AllComplete"]);
}
