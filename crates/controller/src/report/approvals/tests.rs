use std::sync::Arc;

use rollout::testing::record;
use rollout::{GivenApproval, PlanHash, Summary};

use super::*;

fn plan(progress: CheckpointProgress) -> Plan {
    let approval = GivenApproval {
        checkpoint: Arc::from("half"),
        plan_hash: Arc::from("h"),
        approver: Arc::from("anna"),
        message: Arc::from("CHG0042"),
        given: Some(DateTime::UNIX_EPOCH),
        expires: None,
    };
    Plan {
        hash: Some(PlanHash::new("s", std::iter::empty(), std::iter::empty())),
        checkpoints: vec![CheckpointState {
            name: Arc::from("half"),
            progress,
            approval: (progress == CheckpointProgress::Approved).then_some(approval),
            changed: (progress == CheckpointProgress::Waiting).then(|| Arc::from("the spec")),
        }],
        summary: Summary {
            waiting_for_approval: usize::from(progress == CheckpointProgress::Waiting) * 2,
            ..Summary::default()
        },
        ..Plan::default()
    }
}

#[test]
fn a_checkpoint_that_waits_says_since_when_and_what_to_do() {
    let (early, late) = (DateTime::UNIX_EPOCH, Utc::now());
    let plan = plan(CheckpointProgress::Waiting);
    let mut status = ManagedClustersUpgradeStatus {
        approvals: of_plan(&plan, &ManagedClustersUpgradeStatus::default(), early),
        ..ManagedClustersUpgradeStatus::default()
    };
    status.approvals = of_plan(&plan, &status, late);
    assert_eq!(status.approvals[0].waiting_since, Some(from_chrono(early)));
    let names = Names {
        namespace: "fleet",
        name: "spring",
        cluster: "",
    };
    assert_eq!(
        asked(&plan, "1 of 3 clusters complete", names).as_deref(),
        Some(
            "2 clusters wait for the approval of checkpoint half. Since the last approval the spec changed. 1 of 3 clusters complete. To approve it, run kubectl mcu approve spring half -n fleet."
        )
    );
}

/// An approval that expires when all is over, or is deleted, takes nothing away and causes no write.
#[test]
fn who_approved_stays_when_nothing_is_left_to_start() {
    let mut status = ManagedClustersUpgradeStatus::default();
    status.approvals = of_plan(&plan(CheckpointProgress::Approved), &status, Utc::now());
    let over = of_plan(&plan(CheckpointProgress::Ahead), &status, Utc::now());
    assert_eq!(over, status.approvals);
}

/// The last failure is skipped, for example.
#[test]
fn who_approved_stays_with_the_plan_that_was_approved_when_it_changes_after_the_last_start() {
    let approved = plan(CheckpointProgress::Approved);
    let mut status = ManagedClustersUpgradeStatus::default();
    status.approvals = of_plan(&approved, &status, Utc::now());
    let mut over = plan(CheckpointProgress::Ahead);
    over.hash = Some(PlanHash::new("s", ["c1"].into_iter(), std::iter::empty()));
    for _ in 0..2 {
        status.approvals = of_plan(&over, &status, Utc::now());
        let told = &status.approvals[0];
        assert_eq!(
            (&*told.state, &*told.approver, &*told.message),
            ("Approved", "anna", "CHG0042")
        );
        assert_eq!(told.plan_hash, approved.hash.as_ref().unwrap().to_string());
        assert_eq!(told.changed, "the selected clusters");
    }
}

#[test]
fn a_checkpoint_that_is_ahead_of_clusters_again_is_approved_by_nobody() {
    let mut status = ManagedClustersUpgradeStatus::default();
    status.approvals = of_plan(&plan(CheckpointProgress::Approved), &status, Utc::now());
    let mut ahead = plan(CheckpointProgress::Ahead);
    ahead.hash = Some(PlanHash::new("another", std::iter::empty(), std::iter::empty()));
    ahead.clusters = vec![crate::fixture::state("c1", record(Phase::Pending))];
    let told = of_plan(&ahead, &status, Utc::now());
    assert_eq!((&*told[0].state, &*told[0].approver), ("Ahead", ""));
    assert_eq!(told[0].plan_hash, ahead.hash.unwrap().to_string());
}

#[test]
fn who_approved_last_and_which_plan_stays_when_the_approval_does_not_count_any_more() {
    let approved = plan(CheckpointProgress::Approved);
    let mut status = ManagedClustersUpgradeStatus::default();
    status.approvals = of_plan(&approved, &status, Utc::now());
    assert_eq!(status.approvals[0].last_approval, None);
    let mut waiting = plan(CheckpointProgress::Waiting);
    waiting.hash = Some(PlanHash::new("another", std::iter::empty(), std::iter::empty()));
    for progress in [
        CheckpointProgress::Waiting,
        CheckpointProgress::Unknown,
        CheckpointProgress::Ahead,
        CheckpointProgress::Waiting,
    ] {
        waiting.checkpoints[0].progress = progress;
        status.approvals = of_plan(&waiting, &status, Utc::now());
        for told in [&status.approvals[0], &of_invalid(&status.approvals)[0]] {
            assert_eq!(told.approver, "");
            let last = told.last_approval.as_ref().unwrap();
            assert_eq!((&*last.approver, &*last.message), ("anna", "CHG0042"));
            assert_eq!(last.plan_hash, approved.hash.as_ref().unwrap().to_string());
            assert_eq!(last.approved_at, Some(from_chrono(DateTime::UNIX_EPOCH)));
        }
    }
    status.approvals = of_plan(&approved, &status, Utc::now());
    assert_eq!(status.approvals[0].last_approval, None);
}

#[test]
fn a_checkpoint_that_is_approved_says_by_whom_and_asks_nobody() {
    let plan = plan(CheckpointProgress::Approved);
    let status = of_plan(&plan, &ManagedClustersUpgradeStatus::default(), Utc::now());
    assert_eq!(
        (&*status[0].state, &*status[0].approver, &*status[0].message),
        ("Approved", "anna", "CHG0042")
    );
    assert_eq!(status[0].approved_at, Some(from_chrono(DateTime::UNIX_EPOCH)));
    assert_eq!((waiting(&plan), asked(&plan, "", Names::default())), (None, None));
}

#[test]
fn while_the_approvals_are_not_known_nothing_new_is_said_and_nobody_is_asked() {
    let mut unknown = plan(CheckpointProgress::Unknown);
    unknown.summary.waiting_for_approval = 2;
    let mut status = ManagedClustersUpgradeStatus::default();
    let told = of_plan(&unknown, &status, Utc::now());
    assert_eq!((&*told[0].state, told[0].is_waiting()), ("Ahead", false));
    assert_eq!(told[0].plan_hash, unknown.hash.as_ref().unwrap().to_string());
    for progress in [
        CheckpointProgress::Ahead,
        CheckpointProgress::Waiting,
        CheckpointProgress::Approved,
    ] {
        status.approvals = of_plan(
            &plan(progress),
            &ManagedClustersUpgradeStatus::default(),
            Utc::now(),
        );
        assert_eq!(
            of_plan(&unknown, &status, Utc::now()),
            status.approvals,
            "{progress:?}"
        );
    }
    assert_eq!(
        asked(&unknown, "1 of 3 clusters complete", Names::default()).as_deref(),
        Some("2 clusters wait until the approvals are read from the hub. 1 of 3 clusters complete.")
    );
    // Those that have approved wait for nobody to read what they gave.
    unknown.summary.waiting_for_approval = 0;
    assert_eq!(waiting(&unknown), None);
}

#[test]
fn while_the_spec_is_invalid_nobody_is_asked_and_who_approved_stays() {
    let none = ManagedClustersUpgradeStatus::default();
    for progress in [CheckpointProgress::Waiting, CheckpointProgress::Ahead] {
        let told = of_invalid(&of_plan(&plan(progress), &none, Utc::now()));
        assert_eq!(
            (&*told[0].name, &*told[0].state, &*told[0].plan_hash),
            ("half", "Ahead", "")
        );
        assert_eq!(
            (told[0].waiting_since.as_ref(), &*told[0].changed),
            (None, ""),
            "{progress:?}"
        );
        assert_eq!(of_invalid(&told), told);
    }
    let approved = of_plan(&plan(CheckpointProgress::Approved), &none, Utc::now());
    assert_eq!(of_invalid(&approved), approved);
}
