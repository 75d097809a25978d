//! The eight conditions, every reason of Stalled, observedGeneration. That conditions agree with the counters and that
//! lastTransitionTime moves only with a flip are invariants of every test.

use anyhow::Result;
use api::conditions::TYPES;
use api::names::Step::{Platform, PreAction};
use e2e::{Scenario, Seen, sample};
use serde_json::{Value, json};

fn assert_stalled(seen: &Seen, reason: &str) {
    assert!(
        seen.is_not("Ready") && seen.is_not("Reconciling"),
        "{}",
        seen.raw["status"]
    );
    assert_eq!(seen.reason("Stalled"), reason);
    assert_eq!(seen.reason("Ready"), reason);
    assert!(!seen.message("Stalled").is_empty());
}

#[tokio::test]
async fn all_conditions_are_there_from_the_first_status_on() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({})).await?;
    let seen = s.until("a status", |_| true).await?;
    assert_eq!(
        (seen.is_not("Ready"), seen.reason("Ready")),
        (true, "UpgradeRunning")
    );
    let types: Vec<&str> = seen
        .status
        .conditions
        .iter()
        .map(|condition| condition.type_.as_str())
        .collect();
    assert_eq!(types.len(), TYPES.len());
    assert!(TYPES.iter().all(|kind| types.contains(kind)));
    let players = s.play_all();
    let seen = s.complete().await?;
    drop(players);
    for (kind, status, reason) in [
        ("Selected", "True", "ManagedClustersSelected"),
        ("Applied", "True", "ManagedClustersUpgradeApplied"),
        ("InProgress", "False", "ManagedClustersUpgradeInProgress"),
        ("Complete", "True", "ManagedClustersUpgradeComplete"),
        ("Failed", "False", "ManagedClustersUpgradeFailed"),
        ("Ready", "True", "ManagedClustersUpgradeComplete"),
    ] {
        assert_eq!(
            (seen.condition(kind), seen.reason(kind)),
            (status, reason),
            "{kind}"
        );
    }
    assert!(seen.is_not("Reconciling") && seen.is_not("Stalled"));
    Ok(())
}

#[tokio::test]
async fn observed_generation_follows_every_edit() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"paused": true})).await?;
    for generation in 2..5 {
        s.edit(json!({"upgradeStrategy": {"maxConcurrency": generation}}))
            .await?;
        let seen = s.until("observed", |_| true).await?;
        assert_eq!(seen.status.observed_generation, Some(generation));
        assert_eq!(seen.status.effective_max_concurrency, Some(generation));
    }
    Ok(())
}

#[tokio::test]
async fn stalled_nothing_selected() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"clusterSelector": null})).await?;
    assert_stalled(
        &s.until("stalled", |seen| seen.is("Stalled")).await?,
        "NothingSelected",
    );
    Ok(())
}

#[tokio::test]
async fn stalled_invalid_spec() -> Result<()> {
    let s = Scenario::new(1).await?;
    let mut action = sample::action("x");
    action["manifestWork"]["workload"]["manifests"][0]["kind"] = json!("");
    // A kind that is empty may already be refused at admission; a manifest twice is not.
    if s.up().refused(json!({"preUpgradeAction": action})).await.is_err() {
        anyhow::bail!("an empty kind was accepted");
    }
    s.create(json!({"preUpgradeAction": sample::action_with_a_manifest_twice("x")}))
        .await?;
    assert_stalled(
        &s.until("stalled", |seen| seen.is("Stalled")).await?,
        "InvalidSpec",
    );
    Ok(())
}

async fn failing(s: &Scenario, strategy: Value) -> Result<Seen> {
    let mut spec = json!({"upgradeStrategy": {"clusterUpgradeTimeout": "2s", "maxConcurrency": 1}});
    sample::join(&mut spec["upgradeStrategy"], &strategy);
    s.create(spec).await?;
    s.until("stalled", |seen| seen.is("Stalled")).await
}

#[tokio::test]
async fn stalled_canary_failed() -> Result<()> {
    let s = Scenario::new(2).await?;
    let seen = failing(&s, json!({"canaryClusters": sample::canaries(&s.some(&[1]))})).await?;
    assert_stalled(&seen, "CanaryFailed");
    Ok(())
}

#[tokio::test]
async fn stalled_max_failures_exceeded() -> Result<()> {
    let s = Scenario::new(2).await?;
    assert_stalled(
        &failing(&s, json!({"maxFailures": 0})).await?,
        "MaxFailuresExceeded",
    );
    Ok(())
}

#[tokio::test]
async fn stalled_clusters_failed() -> Result<()> {
    let s = Scenario::new(2).await?;
    let seen = failing(&s, json!({})).await?;
    assert_stalled(&seen, "ClustersFailed");
    assert_eq!(seen.clusters().failed, 2, "it stalls when nothing is left to run");
    Ok(())
}

#[tokio::test]
async fn stalled_clusters_failed_by_a_degraded_pre_action() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"preUpgradeAction": sample::action("backup")}))
        .await?;
    s.agent(1).degraded(PreAction).await?;
    assert_stalled(
        &s.until("stalled", |seen| seen.is("Stalled")).await?,
        "ClustersFailed",
    );
    Ok(())
}

#[tokio::test]
async fn stalled_clusters_blocked() -> Result<()> {
    let test_hub = e2e::TestHub::shared().await?;
    let s = Scenario::of(&test_hub, 1, |_, cluster| {
        cluster.without_claims().label("clusterID", "x")
    })
    .await?;
    s.create(json!({})).await?;
    let seen = s.until("stalled", |seen| seen.is("Stalled")).await?;
    assert_stalled(&seen, "ClustersBlocked");
    assert_eq!(s.created(1, Platform), 0);
    Ok(())
}

/// A cluster that is unavailable will start without a human, so this is not Stalled.
#[tokio::test]
async fn waiting_for_an_agent_is_reconciling() -> Result<()> {
    let s = Scenario::new(1).await?;
    testenv::fleet::set_available(s.client(), s.c(1), "False").await?;
    s.create(json!({})).await?;
    let seen = s.until("reconciling", |seen| seen.is("Reconciling")).await?;
    assert!(seen.is_not("Stalled") && seen.is_not("Ready"));
    Ok(())
}
