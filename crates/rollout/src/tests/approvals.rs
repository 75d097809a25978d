//! Checkpoints at which starts wait for an approval (`docs/design/rules.md#approvals`).

use std::sync::Arc;

use super::violations::{create, refused};
use super::{planned, record_of, stand, writes};
use crate::check::ViolationKind as Kind;
use crate::model::{
    Busy, CheckpointPlace, CheckpointProgress, Hold, KnownApprovals, Limit, Outcome, Phase, Plan, Reason,
    RivalHold, Stage, StallReason, Step, StepWork,
};
use crate::planner::hash_of_plan;
use crate::testing::{FleetBuilder, PolicyBuilder, at, fleet, policy, record, work};

const WAITS: (Phase, Reason) = (Phase::Pending, Reason::WaitingForApproval);
const NOTHING: [&str; 0] = [];

fn gated() -> PolicyBuilder {
    policy()
        .canaries()
        .checkpoint("after-canaries", CheckpointPlace::CanariesComplete)
}

/// A canary that is complete, and two other clusters.
fn after_canary() -> FleetBuilder {
    fleet()
        .cluster("a")
        .canary()
        .record(record(Phase::Complete).succeeded(Stage::Platform, 0))
        .cluster("b")
        .cluster("c")
}

#[track_caller]
fn hash(plan: &Plan) -> String {
    plan.hash.as_ref().unwrap().to_string()
}

fn progress(plan: &Plan) -> Vec<CheckpointProgress> {
    plan.checkpoints.iter().map(|state| state.progress).collect()
}

#[test]
fn behind_the_canaries_nothing_starts_until_the_present_plan_is_approved() {
    let canary_waits = fleet().cluster("a").canary().cluster("b");
    let plan = planned(0, gated(), canary_waits);
    assert_eq!(writes(&plan), ["create a/Platform"], "canaries need no approval");
    assert_eq!(stand(&plan, "b").1, Reason::WaitingForCanaries);
    assert_eq!(progress(&plan), [CheckpointProgress::Ahead]);

    let plan = planned(0, gated(), after_canary());
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!((stand(&plan, "b"), stand(&plan, "c")), (WAITS, WAITS));
    assert_eq!(progress(&plan), [CheckpointProgress::Waiting]);
    assert_eq!((plan.outlook.moving, plan.outlook.stalled), (false, None));
    assert_eq!(plan.summary.waiting_for_approval, 2);

    let approved = |name: &str, hash: &str| after_canary().approval(name, hash, None);
    let present = hash(&plan);
    let plan = planned(0, gated(), approved("after-canaries", &present));
    assert_eq!(writes(&plan), ["create b/Platform", "create c/Platform"]);
    assert_eq!(progress(&plan), [CheckpointProgress::Approved]);
    for other in [approved("half", &present), approved("after-canaries", "9f3c2a")] {
        assert_eq!(writes(&planned(0, gated(), other)), NOTHING);
    }
}

#[test]
fn another_spec_selection_or_attempt_of_a_canary_is_another_plan_and_it_is_said_what_changed() {
    let before = hash(&planned(0, gated(), after_canary()));
    let changed = |policy: PolicyBuilder, fleet: FleetBuilder| {
        let plan = planned(0, policy, fleet.approval("after-canaries", &before, None));
        assert_eq!(writes(&plan), NOTHING);
        plan.checkpoints[0].changed.as_deref().map(str::to_owned)
    };
    let said = |text: &str| Some(text.to_owned());
    assert_eq!(
        changed(gated().spec_hash("other"), after_canary()),
        said("the spec")
    );
    assert_eq!(
        changed(gated(), after_canary().cluster("d")),
        said("the selected clusters")
    );
    assert_eq!(
        changed(gated(), after_canary().skipped("no power")),
        said("the selected clusters")
    );
    let retried = fleet()
        .cluster("a")
        .canary()
        .record(
            record(Phase::Complete)
                .retry("again")
                .succeeded(Stage::Platform, 0),
        )
        .cluster("b")
        .cluster("c");
    assert_eq!(changed(gated(), retried), said("the canaries"));
    // A failure, a start or the passing of time does not.
    let failed = after_canary().record(record(Phase::Failed).reason(Reason::ClusterUpgradeTimeout));
    let plan = planned(9000, gated(), failed.approval("after-canaries", &before, None));
    assert_eq!(writes(&plan), ["create b/Platform"]);
}

#[test]
fn the_hash_can_be_asked_for_without_a_checkpoint_and_while_the_upgrade_is_paused() {
    let fleet = after_canary().build();
    let told = hash(&planned(0, gated(), after_canary()));
    let mut policy = gated().build();
    assert_eq!(hash_of_plan(at(0), &policy, &fleet).to_string(), told);
    policy.hold = Some(Hold::Paused);
    policy.checkpoints.clear();
    assert_eq!(hash_of_plan(at(9000), &policy, &fleet).to_string(), told);
}

#[test]
fn an_approval_of_canaries_that_were_not_complete_yet_does_not_count() {
    let early = fleet()
        .cluster("a")
        .canary()
        .work(Step::Platform, work(0).running())
        .record(record(Phase::Partial).stage(Stage::Platform, 0))
        .cluster("b")
        .cluster("c");
    let early = hash(&planned(10, gated(), early));
    let plan = planned(
        20,
        gated(),
        after_canary().approval("after-canaries", &early, None),
    );
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(plan.checkpoints[0].changed.as_deref(), Some("the canaries"));
}

#[test]
fn exactly_as_many_clusters_start_as_a_checkpoint_says() {
    let three = || fleet().cluster("a").cluster("b").cluster("c");
    let plan = planned(0, policy().checkpoint_at("two", 2), three());
    assert_eq!(writes(&plan), ["create a/Platform", "create b/Platform"]);
    assert_eq!(stand(&plan, "c"), WAITS);
    assert_eq!(progress(&plan), [CheckpointProgress::Ahead]);
    let half = CheckpointPlace::Started(Limit::Percent(50));
    let plan = planned(0, policy().checkpoint("half", half), three());
    assert_eq!(writes(&plan).len(), 2, "rounded up");

    let begun = || {
        fleet()
            .cluster("a")
            .record(record(Phase::Complete).succeeded(Stage::Platform, 0))
            .cluster("b")
            .work(Step::Platform, work(0).running())
            .record(record(Phase::Partial).stage(Stage::Platform, 0))
            .cluster("c")
    };
    let asked = || policy().checkpoint_at("two", 2);
    let plan = planned(10, asked(), begun());
    assert_eq!(writes(&plan), NOTHING);
    assert!(plan.outlook.moving, "b goes on");
    let approved = begun().approval("two", &hash(&plan), None);
    assert_eq!(writes(&planned(10, asked(), approved)), ["create c/Platform"]);

    let none = planned(0, policy().checkpoint_at("first", 0), three());
    assert_eq!(writes(&none), NOTHING);
    let all = planned(0, policy().checkpoint_at("never", 9), three());
    assert_eq!(writes(&all).len(), 3);
}

/// Otherwise those behind it would wait for an approval that nobody needs yet, and would start in the next plan all the same.
#[test]
fn a_cluster_that_a_previous_upgrade_gives_up_takes_no_place_at_a_checkpoint_before_it_starts() {
    let asked = || policy().max_concurrency(1).checkpoint_at("one", 1);
    let given_up = |fleet: FleetBuilder| {
        let rival = StepWork::Rival { terminating: false };
        fleet.rival(RivalHold::Yielding).step_work(Step::Operators, rival)
    };
    let first = || given_up(fleet().cluster("a"));
    let plan = planned(0, asked(), first().cluster("b").cluster("c"));
    assert_eq!(
        writes(&plan),
        ["delete a/Operators Superseded", "create b/Platform"]
    );
    assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::WaitingForCleanup));
    assert_eq!(stand(&plan, "c"), WAITS);
    let removing = || first().busy(Busy::Other);
    let plan = planned(0, asked(), removing().cluster("b").cluster("c"));
    assert_eq!(writes(&plan), ["create b/Platform"], "nor while they are removed");

    let both = planned(0, asked(), given_up(first().cluster("b")));
    let deletions = ["delete a/Operators Superseded", "delete b/Operators Superseded"];
    assert_eq!(writes(&both), deletions);
    let meanwhile = given_up(removing().cluster("b")).busy(Busy::Other);
    assert_eq!(writes(&planned(0, asked(), meanwhile)), NOTHING);

    let begun = fleet().cluster("a").cluster("b");
    let begun = begun.work(Step::Platform, work(0).running());
    let begun = begun.record(record(Phase::Partial).stage(Stage::Platform, 0));
    let plan = planned(10, asked(), begun);
    assert_eq!((writes(&plan).len(), stand(&plan, "a")), (0, WAITS));
}

#[test]
fn each_of_several_checkpoints_needs_its_own_approval() {
    let asked = || policy().checkpoint_at("two", 2).checkpoint_at("one", 1);
    let three = || fleet().cluster("a").cluster("b").cluster("c");
    let plan = planned(0, asked(), three());
    assert_eq!(writes(&plan), ["create a/Platform"]);
    let present = hash(&plan);
    let plan = planned(0, asked(), three().approval("one", &present, None));
    assert_eq!(writes(&plan).len(), 2);
    let plan = planned(0, asked(), three().approval("two", &present, None));
    assert_eq!(writes(&plan).len(), 1);
    let both = three()
        .approval("one", &present, None)
        .approval("two", &present, None);
    assert_eq!(writes(&planned(0, asked(), both)).len(), 3);
}

#[test]
fn an_approval_counts_until_it_expires_and_the_plan_wakes_up_then() {
    let asked = || policy().checkpoint_at("first", 0).max_concurrency(1);
    let two = || fleet().cluster("a").cluster("b");
    let present = hash(&planned(0, asked(), two()));
    let plan = planned(99, asked(), two().approval("first", &present, Some(100)));
    assert_eq!(writes(&plan).len(), 1);
    assert!(plan.wake_at.is_some_and(|wake| wake <= at(100)));
    let plan = planned(100, asked(), two().approval("first", &present, Some(100)));
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(plan.checkpoints[0].changed, None, "it is still the same plan");
    let longer = two()
        .approval("first", &present, Some(100))
        .approval("first", &present, None);
    assert_eq!(writes(&planned(100, asked(), longer)).len(), 1);
}

#[test]
fn a_checkpoint_stops_starts_only_and_asks_nobody_when_nothing_is_left_to_start() {
    let running = || {
        fleet()
            .cluster("a")
            .work(Step::Platform, work(0).succeeded())
            .record(record(Phase::Partial).stage(Stage::Platform, 0))
    };
    let asked = || policy().operators().checkpoint_at("first", 0);
    let plan = planned(10, asked(), running());
    assert_eq!(writes(&plan), ["create a/Operators"]);
    assert_eq!(progress(&plan), [CheckpointProgress::Ahead]);
    let blocked = fleet().cluster("a").blocked(Reason::NotOpenShift);
    let plan = planned(10, asked(), blocked);
    assert!(plan.outlook.stalled.is_some(), "an approval would not help");
}

#[test]
fn a_pause_outweighs_a_checkpoint_and_a_retry_waits_like_any_start() {
    let two = || fleet().cluster("a").cluster("b");
    let plan = planned(0, policy().checkpoint_at("first", 0).paused(), two());
    assert_eq!(stand(&plan, "a").1, Reason::Paused);
    let failed = two().record(
        record(Phase::Failed)
            .reason(Reason::ClusterUpgradeTimeout)
            .stage(Stage::Platform, 0),
    );
    let plan = planned(10, policy().checkpoint_at("first", 0).retry("t"), failed);
    assert_eq!(writes(&plan), NOTHING);
}

/// Whoever leads next would find two clusters beyond a checkpoint that only one may pass.
#[test]
fn a_cluster_that_is_queued_again_counts_for_a_checkpoint_until_its_row_says_so() {
    let asked = || policy().checkpoint_at("one", 1).retry("t");
    let failed = record(Phase::Failed)
        .reason(Reason::ClusterUpgradeTimeout)
        .stage(Stage::Platform, 0);
    let before = fleet().cluster("a").record(failed);
    let plan = planned(10, asked(), before.clone().cluster("b"));
    assert_eq!(stand(&plan, "a").0, Phase::Pending);
    assert_eq!((stand(&plan, "b"), writes(&plan)), (WAITS, vec![]));
    let spoil = |plan: &mut Plan| plan.operations.push(create("b", Step::Platform, 10));
    let two = before.clone().cluster("b");
    refused(Kind::StartedWithoutApproval, 10, asked(), two, spoil);
    let told = before.record(record_of(&plan, "a").clone());
    let plan = planned(11, asked(), told.cluster("b"));
    assert_eq!(writes(&plan).len(), 1);
}

/// What they were asked for before was approved.
#[test]
fn an_edit_reaches_no_cluster_in_flight_where_there_are_checkpoints() {
    let edited = || {
        let edited = policy().pre_action().edited("r2", &[Step::Platform]);
        edited.spec_hash("other").checkpoint_at("first", 0)
    };
    let acting = record(Phase::PreAction).stage(Stage::PreAction, 0);
    let acting = fleet()
        .cluster("a")
        .work(Step::PreAction, work(0).succeeded())
        .record(acting);
    let plan = planned(10, edited(), acting.clone());
    assert_eq!((stand(&plan, "a").0, writes(&plan)), (Phase::Pending, vec![]));
    assert_eq!(
        record_of(&plan, "a").stage(Stage::PreAction),
        None,
        "it acts again"
    );
    refused(Kind::StartedWithoutApproval, 10, edited(), acting, |plan| {
        let mut record = record(Phase::PreAction)
            .revision("r2")
            .stage(Stage::PreAction, 0)
            .into();
        std::mem::swap(Arc::make_mut(&mut plan.clusters[0].record), &mut record);
    });
    let flying = [
        record(Phase::Initialized).stage(Stage::Platform, 0),
        record(Phase::Partial).stage(Stage::Platform, 0),
    ];
    for flying in flying {
        for edited_step in [Step::Platform, Step::PostAction] {
            let edited = || {
                policy()
                    .post_action()
                    .edited("r2", &[edited_step])
                    .checkpoint_at("first", 0)
            };
            let flying = fleet()
                .cluster("a")
                .work(Step::Platform, work(0))
                .record(flying.clone());
            let plan = planned(10, edited(), flying.clone());
            assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
            assert_eq!(writes(&plan), NOTHING);
            refused(Kind::StartedWithoutApproval, 10, edited(), flying, |plan| {
                let record = Arc::make_mut(&mut plan.clusters[0].record);
                record.attempt.revision = Arc::from("r2");
            });
        }
    }
}

/// Or a fleet could pass a checkpoint at one cluster by one failure after the other.
#[test]
fn a_cluster_that_has_begun_counts_for_a_checkpoint_also_when_it_is_retried_blocked_or_skipped() {
    let asked = || policy().operators().checkpoint_at("one", 1);
    let failed = |work: crate::testing::WorkBuilder| fleet().cluster("a").work(Step::Platform, work);
    let again = record(Phase::Pending).retry("again");
    let retried = failed(work(0)).record(again);
    let plan = planned(10, asked(), retried.cluster("b"));
    assert_eq!(
        writes(&plan),
        ["update a/Platform Retry"],
        "it has passed the checkpoint"
    );
    assert_eq!(stand(&plan, "b"), WAITS);
    let updated = || {
        record(Phase::Blocked)
            .reason(Reason::WorkRefused)
            .succeeded(Stage::Platform, 0)
    };
    let blocked = failed(work(0).succeeded())
        .record(updated())
        .refused(Step::Operators, 1000);
    let skipped = failed(work(0).succeeded())
        .record(
            record(Phase::Skipped)
                .reason(Reason::Skipped)
                .succeeded(Stage::Platform, 0),
        )
        .skipped("no power");
    for begun in [blocked, skipped] {
        let plan = planned(10, asked(), begun.cluster("b"));
        assert_eq!((stand(&plan, "b"), writes(&plan)), (WAITS, vec![]));
    }
    // Those that have passed one that is at fewer clusters now wait as well.
    let two = || failed(work(0)).record(record(Phase::Pending).retry("again"));
    let two = two()
        .cluster("b")
        .record(record(Phase::Complete).succeeded(Stage::Platform, 0));
    assert_eq!(writes(&planned(10, asked(), two)), NOTHING);
}

#[test]
fn an_approval_that_expires_does_not_count_by_a_clock_that_is_not_trusted() {
    let asked = || policy().checkpoint_at("first", 0);
    let one = || fleet().cluster("a");
    let present = hash(&planned(0, asked(), one()));
    for (expires, counts) in [(Some(100), false), (None, true)] {
        let approved = one().approval("first", &present, expires);
        let plan = planned(10, asked().distrusted_clock(), approved);
        assert_eq!(!plan.operations.is_empty(), counts);
    }
}

#[test]
fn the_checker_finds_a_start_that_nobody_has_approved() {
    let asked = || policy().checkpoint_at("one", 1);
    let two = || fleet().cluster("a").cluster("b");
    let spoil = |plan: &mut Plan| plan.operations.push(create("b", Step::Platform, 0));
    refused(Kind::StartedWithoutApproval, 0, asked(), two(), spoil);
    refused(Kind::StartedWithoutApproval, 0, gated(), after_canary(), spoil);
    let present = hash(&planned(0, asked(), two()));
    let expiring = two().approval("one", &present, Some(50));
    refused(Kind::WakeMissed, 0, asked(), expiring, |plan| plan.wake_at = None);
}

/// Somebody may have deleted it since. One who has not approved by then is asked as before.
#[test]
fn nothing_starts_by_an_approval_that_is_not_known_to_be_there_still() {
    let present = hash(&planned(0, gated(), after_canary()));
    let approved = || after_canary().approval("after-canaries", &present, None);
    let spoil = |plan: &mut Plan| plan.operations.push(create("b", Step::Platform, 0));
    for (known, given, told) in [
        (KnownApprovals::Outdated, approved(), CheckpointProgress::Unknown),
        (
            KnownApprovals::Outdated,
            after_canary(),
            CheckpointProgress::Waiting,
        ),
        (
            KnownApprovals::Missing,
            after_canary(),
            CheckpointProgress::Unknown,
        ),
    ] {
        let asked = || gated().approvals(known);
        let plan = planned(0, asked(), given.clone());
        assert_eq!((writes(&plan), stand(&plan, "b")), (vec![], WAITS), "{known:?}");
        assert_eq!(progress(&plan), [told], "{known:?}");
        assert_eq!(
            (plan.outlook.stalled, plan.summary.waiting_for_approval),
            (None, 2)
        );
        refused(Kind::StartedWithoutApproval, 0, asked(), given, spoil);
    }
    let two = || fleet().cluster("a").cluster("b");
    let one = || policy().checkpoint_at("one", 1);
    let present = hash(&planned(0, one(), two()));
    let ahead = planned(
        0,
        one().approvals(KnownApprovals::Outdated),
        two().approval("one", &present, None),
    );
    assert_eq!(writes(&ahead), ["create a/Platform"], "as many as need none");
    assert_eq!(stand(&ahead, "b"), WAITS);
}

/// Whoever is asked must hear of it although it is night somewhere: the upgrade is not stalled, and waits for an approval.
#[test]
fn a_cluster_outside_its_window_waits_for_the_approval_as_well() {
    let start = || policy().checkpoint("start", CheckpointPlace::Started(Limit::Count(0)));
    let night = || {
        fleet()
            .cluster("a")
            .calendar(super::windows::of_minutes(0))
            .cluster("b")
            .calendar(super::windows::of_minutes(0))
    };
    let plan = planned(90, start(), night());
    assert_eq!(stand(&plan, "a"), WAITS);
    let plan = planned(30, start(), night());
    assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::WaitingForWindow));
    assert_eq!(plan.summary.waiting_for_approval, 2);
    assert_eq!((plan.outlook.moving, plan.outlook.stalled), (false, None));
}

/// Somebody may have written that into its row. Nobody would be asked for an approval, and nobody would hear that help is needed.
#[test]
fn a_cluster_that_is_over_waits_for_no_approval_whatever_its_row_says() {
    let asked = || policy().checkpoint_at("first", 0);
    let over = |phase: Phase| {
        let row = record(phase).reason(Reason::WaitingForApproval);
        fleet().cluster("a").record(row.stage(Stage::Platform, 0))
    };
    let plan = planned(10, asked(), over(Phase::Failed));
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::WaitingForApproval));
    assert_eq!(plan.summary.waiting_for_approval, 0);
    assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersFailed));
    for phase in [Phase::Complete, Phase::Failed] {
        let plan = planned(10, asked(), over(phase).cluster("b"));
        assert_eq!(stand(&plan, "b"), WAITS);
        assert_eq!(plan.summary.waiting_for_approval, 1, "{phase}");
        assert_eq!(plan.outlook.stalled, None, "{phase}");
    }
}

/// It failed in its update, which it may still be at, so it is not dropped. Then its author takes it out of the selection and out of
/// the list of those that are skipped.
#[test]
fn a_cluster_that_was_skipped_and_has_left_is_covered_by_no_approval() {
    for (phase, reason) in [
        (Phase::Skipped, Reason::Skipped),
        (Phase::Aborted, Reason::Aborted),
    ] {
        let row = record(phase).reason(reason);
        let row = row.done(Stage::Platform, 0, Outcome::Failed);
        let left = || {
            let d = after_canary()
                .cluster("d")
                .work(Step::Platform, work(0).running());
            d.record(row.clone()).left(0)
        };
        let present = hash(&planned(100, gated(), left()));
        assert_eq!(present, hash(&planned(100, gated(), after_canary())), "{phase}");
        let plan = planned(100, gated(), left().approval("after-canaries", &present, None));
        assert_eq!(
            writes(&plan),
            ["create b/Platform", "create c/Platform"],
            "{phase}"
        );
        assert_eq!(stand(&plan, "d"), (phase, reason));
    }
}

/// A cluster that restarts in the middle of its update may drop out of its Placement.
#[test]
fn a_cluster_that_leaves_for_a_moment_or_after_its_start_makes_no_other_plan() {
    let started = || record(Phase::Partial).stage(Stage::Platform, 0);
    let before = planned(
        0,
        gated(),
        after_canary()
            .record(started())
            .work(Step::Platform, work(0).running()),
    );
    let leaves = |seconds: i64, fleet: FleetBuilder| hash(&planned(seconds, gated(), fleet.left(0)));
    let partial = || {
        after_canary()
            .record(started())
            .work(Step::Platform, work(0).running())
    };
    assert_eq!(
        leaves(3, after_canary()),
        hash(&planned(0, gated(), after_canary()))
    );
    assert_ne!(
        leaves(60, after_canary()),
        hash(&planned(0, gated(), after_canary()))
    );
    assert_eq!(leaves(60, partial()), hash(&before));
}
