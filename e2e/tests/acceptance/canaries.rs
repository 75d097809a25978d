//! Canaries go first, and no cluster starts after a failed one.

use anyhow::{Context as _, Result};
use api::names::Step::Platform;
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
