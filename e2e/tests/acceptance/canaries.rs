//! Canaries go first, and no cluster starts after a failed one.

use anyhow::{Context as _, Result};
use api::names::Step::{Operators, Platform, PostAction};
use e2e::{Scenario, sample};
use serde_json::{Value, json};

fn canary(s: &Scenario, numbers: &[usize], strategy: &Value) -> Value {
    let mut spec = json!({"upgradeStrategy": {"canaryClusters": sample::canaries(&s.some(numbers))}});
    sample::join(&mut spec["upgradeStrategy"], strategy);
    spec
}

#[tokio::test]
async fn the_others_start_when_the_canary_is_complete() -> Result<()> {
    let s = Scenario::new(4).await?;
    s.create(canary(&s, &[1], &json!({}))).await?;
    s.work(1, Platform).await?;
    let seen = s.settle().await?;
    assert_eq!(s.having(Platform), [1]);
    assert_eq!(
        (
            seen.canaries().total,
            seen.canaries().initialized,
            seen.clusters().pending
        ),
        (1, 1, 3)
    );
    assert_eq!(
        seen.waiting(s.c(2)).context("it waits")?.reason,
        "WaitingForCanaries"
    );
    s.agent(1).partial().await?;
    s.settle().await?;
    assert_eq!(s.having(Platform), [1]);
    s.agent(1).completed().await?;
    for number in 2..=4 {
        s.work(number, Platform).await?;
    }
    let seen = s
        .until("the canary is done", |seen| seen.canaries().complete == 1)
        .await?;
    assert_eq!(seen.clusters().total, 4);
    Ok(())
}

#[tokio::test]
async fn a_canary_is_upgraded_once() -> Result<()> {
    let s = Scenario::new(3).await?;
    let mut spec = canary(&s, &[1], &json!({}));
    sample::join(&mut spec, &json!({"ocpOperators": {"approveAllUpgrades": true}}));
    let players = s.play_all();
    s.create(spec).await?;
    s.complete().await?;
    drop(players);
    for number in 1..=3 {
        assert_eq!(
            (s.created(number, Platform), s.created(number, Operators)),
            (1, 1)
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_canary_that_times_out_stops_all_others() -> Result<()> {
    let s = Scenario::new(3).await?;
    s.create(canary(&s, &[1], &json!({"clusterUpgradeTimeout": "4s"})))
        .await?;
    s.agent(1).available(Platform).await?;
    let seen = s.until("stalled", |seen| seen.stalled("CanaryFailed")).await?;
    assert!(seen.is("Failed") && seen.is_not("Complete") && seen.is_not("Reconciling"));
    assert_eq!(
        (
            seen.canaries().failed,
            seen.clusters().failed,
            seen.clusters().pending
        ),
        (1, 1, 2)
    );
    s.settle().await?;
    assert_eq!(s.created(2, Platform) + s.created(3, Platform), 0);
    Ok(())
}

#[tokio::test]
async fn with_two_canaries_one_is_not_enough() -> Result<()> {
    let s = Scenario::new(4).await?;
    s.create(canary(&s, &[1, 2], &json!({}))).await?;
    s.agent(1).completed().await?;
    s.until("one canary is done", |seen| seen.canaries().complete == 1)
        .await?;
    s.settle().await?;
    assert_eq!(s.created(3, Platform) + s.created(4, Platform), 0);
    s.agent(2).completed().await?;
    s.work(3, Platform).await?;
    Ok(())
}

#[tokio::test]
async fn a_canary_selector_that_matches_nothing_starts_nothing_and_says_so() -> Result<()> {
    let s = Scenario::new(2).await?;
    let nobody = json!({"canaryClusters": sample::canaries(&["nobody".to_owned()])});
    s.create(json!({"upgradeStrategy": nobody})).await?;
    let seen = s.until("stalled", |seen| seen.is("Stalled")).await?;
    let said = format!("{} {}", seen.message("Stalled"), seen.message("Selected"));
    assert!(said.contains("canaryClusters"), "{said}");
    s.settle().await?;
    assert_eq!(s.having(Platform), Vec::<usize>::new());
    Ok(())
}

#[tokio::test]
async fn a_canary_whose_operators_fail_stops_all_others() -> Result<()> {
    let s = Scenario::new(2).await?;
    let mut spec = canary(&s, &[1], &json!({}));
    sample::join(&mut spec, &json!({"ocpOperators": {"approveAllUpgrades": true}}));
    s.create(spec).await?;
    s.agent(1).completed().await?;
    s.agent(1).job(json!({"failed": 1, "jobFailed": "True"})).await?;
    let seen = s.until("stalled", |seen| seen.stalled("CanaryFailed")).await?;
    assert_eq!(seen.canaries().failed, 1);
    s.settle().await?;
    assert_eq!(s.created(2, Platform), 0);
    Ok(())
}

#[tokio::test]
async fn a_canary_outside_the_selection_joins_it_and_goes_first() -> Result<()> {
    let s = Scenario::new(4).await?;
    let mut spec = canary(&s, &[4], &json!({}));
    sample::join(
        &mut spec,
        &json!({"clusterSelector": sample::selector(s.id(), &s.some(&[1, 2]))}),
    );
    s.create(spec).await?;
    s.agent(4).partial().await?;
    let seen = s.settle().await?;
    assert_eq!(seen.clusters().total, 3);
    assert_eq!(s.having(Platform), [4]);
    s.agent(4).completed().await?;
    s.agent(1).completed().await?;
    s.agent(2).completed().await?;
    assert_eq!(s.complete().await?.clusters().complete, 3);
    assert_eq!(s.created(3, Platform), 0);
    Ok(())
}

/// Canaries in flight finish when one fails; no further canary starts.
#[tokio::test]
async fn after_a_failed_canary_no_other_canary_starts() -> Result<()> {
    let s = Scenario::new(4).await?;
    s.create(canary(&s, &[1, 2, 3], &json!({"maxConcurrency": 2})))
        .await?;
    s.work(1, Platform).await?;
    s.agent(2).partial().await?;
    s.edit(json!({"upgradeStrategy": {"clusterUpgradeTimeout": "1s"}}))
        .await?;
    s.until("both failed", |seen| seen.clusters().failed == 2).await?;
    let seen = s.settle().await?;
    assert!(seen.stalled("CanaryFailed"));
    assert_eq!(s.created(3, Platform) + s.created(4, Platform), 0);
    Ok(())
}

/// The gate waits for the canary's post-action too. What happens when that fails is shown in `post_action`.
#[tokio::test]
async fn the_gate_opens_only_after_the_post_action_of_the_canary() -> Result<()> {
    let s = Scenario::new(2).await?;
    let mut spec = canary(&s, &[1], &json!({}));
    sample::join(&mut spec, &json!({"postUpgradeAction": sample::action("check")}));
    s.create(spec).await?;
    s.agent(1).completed().await?;
    s.work(1, PostAction).await?;
    s.settle().await?;
    assert_eq!(s.created(2, Platform), 0);
    s.agent(1).available(PostAction).await?;
    s.work(2, Platform).await?;
    Ok(())
}
