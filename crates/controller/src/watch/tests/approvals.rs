use rollout::KnownApprovals;

use super::*;

const APPROVALS: &str = "managedclustersupgradeapprovals";

/// A hub with approval `a` of upgrade `spring`, and an upgrade with a checkpoint.
fn approved() -> Hub {
    let hub = hub(&["c1"]);
    hub.put(
        APPROVALS,
        json!({
            "metadata": {"namespace": "n", "name": "a"},
            "spec": {"upgrade": "spring", "checkpoint": "half", "planHash": "h", "approver": "anna"},
        }),
    );
    let mut waiting = upgrade("u");
    waiting["spec"]["upgradeStrategy"] = json!({"approvals": [{"name": "half", "when": 1}]});
    hub.put(UPGRADES, waiting);
    hub
}

fn known(watcher: &Watcher) -> usize {
    watcher
        .context
        .with(|state| state.index.approvals.of("n/spring").len())
}

fn standing(watcher: &Watcher) -> KnownApprovals {
    watcher.context.freshness.approvals()
}

/// As a pass over it would.
fn planned(watcher: &Watcher) {
    watcher
        .context
        .with(|state| state.upgrades.get_mut("uid-ns-u").unwrap().dirty = false);
}

fn is_planned_again(watcher: &Watcher) -> bool {
    watcher.context.with(|state| state.upgrades["uid-ns-u"].dirty)
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_for_approvals_and_none_counts_while_nobody_tells_of_them() {
    let hub = approved();
    hub.fault(APPROVALS, Some(Fault::Refuse(404, 0)));
    let watcher = Watcher::start(&hub);
    watcher.until(|watcher| watcher.readiness.is_ready()).await;
    assert_eq!(
        (known(&watcher), standing(&watcher)),
        (0, KnownApprovals::Missing)
    );
    planned(&watcher);
    hub.fault(APPROVALS, None);
    watcher
        .until(|watcher| standing(watcher) == KnownApprovals::Current)
        .await;
    assert_eq!(known(&watcher), 1);
    assert!(is_planned_again(&watcher), "although it has no approval");
    hub.fault(APPROVALS, Some(Fault::Down));
    hub.cut();
    watcher
        .until(|watcher| standing(watcher) == KnownApprovals::Outdated)
        .await;
    watcher.until(|watcher| watcher.readiness.is_ready()).await;
    assert_eq!(standing(&watcher), KnownApprovals::Outdated);
    hub.fault(APPROVALS, None);
    watcher
        .until(|watcher| standing(watcher) == KnownApprovals::Current)
        .await;
    assert_eq!(known(&watcher), 1);
}

/// The old watch was dropped, so nobody has told that it is deleted.
#[tokio::test(start_paused = true)]
async fn approvals_from_before_a_term_do_not_count_while_their_list_hangs_and_the_view_opens_without_them() {
    let hub = approved();
    let watcher = Watcher::start(&hub);
    watcher.synced().await;
    watcher
        .until(|watcher| standing(watcher) == KnownApprovals::Current)
        .await;
    hub.fault(APPROVALS, Some(Fault::Hang));
    watcher.context.begin_term();
    assert_eq!(standing(&watcher), KnownApprovals::Outdated);
    assert!(watcher.synced().await < Duration::from_secs(5));
    assert!(watcher.context.open());
    hub.delete(APPROVALS, "n", "a");
    sleep(Duration::from_secs(30)).await;
    assert_eq!(
        (known(&watcher), standing(&watcher)),
        (1, KnownApprovals::Outdated)
    );
    planned(&watcher);
    hub.fault(APPROVALS, None);
    watcher
        .until(|watcher| standing(watcher) == KnownApprovals::Current)
        .await;
    assert_eq!(known(&watcher), 0);
    assert!(is_planned_again(&watcher) && watcher.context.freshness.is_open());
    planned(&watcher);
    sleep(Duration::from_mins(5)).await;
    assert!(!is_planned_again(&watcher), "a watch that is renewed is no news");
}

/// No other kind was seen at a version that the older storage does not have.
#[tokio::test(start_paused = true)]
async fn a_list_of_approvals_older_than_they_were_makes_the_replica_read_everything_anew() {
    let hub = approved();
    let watcher = Watcher::start(&hub);
    watcher.synced().await;
    watcher
        .until(|watcher| standing(watcher) == KnownApprovals::Current)
        .await;
    for number in 0..9 {
        hub.edit(APPROVALS, "n", "a", |approval| {
            approval["metadata"]["labels"] = json!({"number": number.to_string()});
        });
    }
    sleep(Duration::from_secs(1)).await;
    let invalidated = watcher.context.freshness.invalidated();
    hub.go_back(5);
    hub.delete(APPROVALS, "n", "a");
    hub.cut();
    sleep(Duration::from_secs(15)).await;
    assert!(invalidated.is_cancelled());
    assert!(watcher.context.freshness.is_complete());
    assert_eq!(
        (known(&watcher), standing(&watcher)),
        (0, KnownApprovals::Current)
    );
}
