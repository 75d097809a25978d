//! The API server goes away and comes back.

use anyhow::Result;
use api::names::Step::{Operators, Platform};
use e2e::{Scenario, TestHub, WorldOptions};
use serde_json::json;

#[tokio::test]
async fn a_rollout_goes_on_after_a_restart_of_the_api_server() -> Result<()> {
    let test_hub = TestHub::start(WorldOptions {
        controller: true,
        ..WorldOptions::default()
    })
    .await?;
    let s = Scenario::on(&test_hub, 3).await?;
    s.create(json!({"ocpOperators": {"approveAllUpgrades": true}, "upgradeStrategy": {"maxConcurrency": 1}}))
        .await?;
    s.first_is_partial().await?;
    test_hub.hub().restart_apiserver().await?;
    s.agent(1).completed().await?;
    s.work(1, Operators).await?;
    test_hub.hub().restart_apiserver().await?;
    let players = s.play_all();
    s.complete().await?;
    drop(players);
    assert!((1..=3).all(|number| s.created(number, Platform) == 1 && s.created(number, Operators) == 1));
    assert!(
        test_hub.own_controller()?.exited()?.is_none(),
        "it is the same process"
    );
    Ok(())
}
