use std::sync::Arc;

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
    status.approvals[0].plan_hash = "another".to_owned();
    let other = of_plan(&plan(CheckpointProgress::Ahead), &status, Utc::now());
    assert_eq!((&*other[0].state, &*other[0].approver), ("Ahead", ""));
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
