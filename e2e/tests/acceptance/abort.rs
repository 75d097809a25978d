//! Clusters that the spec aborts: a request that is not accepted is withdrawn, one that is accepted goes on.

use anyhow::Result;
use api::names::Step::{Platform, PreAction};
use api::report::Phase;
use e2e::{Scenario, sample};
use serde_json::{Value, json};

fn abort(clusters: &[&str]) -> Value {
    let entry = |cluster: &&str| json!({"cluster": cluster, "reason": "wrong site"});
    let entries: Vec<Value> = clusters.iter().map(entry).collect();
    json!({"upgradeStrategy": {"abort": entries, "maxConcurrency": 2}})
}

/// What a cluster reports that runs another version than the target and is asked for this one.
fn unaccepted(requested: &str, generation: i64) -> Vec<(&'static str, Value)> {
    vec![
        ("version", json!("4.11.0")),
        ("state", json!("Completed")),
        ("desiredVersion", json!("4.11.0")),
        ("generation", json!(generation)),
        ("observedGeneration", json!(generation)),
        ("requestedVersion", json!(requested)),
    ]
}

/// The request that a work makes of its cluster.
fn request(work: &Value) -> &Value {
    &work["spec"]["workload"]["manifests"][0]["spec"]["desiredUpdate"]
}

#[tokio::test]
async fn a_request_that_is_not_accepted_is_withdrawn_and_one_that_is_goes_on() -> Result<()> {
    let s = Scenario::new(3).await?;
    s.create(json!({"upgradeStrategy": {"maxConcurrency": 2}}))
        .await?;
    s.agent(1).values(Platform, &unaccepted("4.12.0", 3)).await?;
    s.agent(2).partial().await?;
    s.up()
        .row_until(s.c(2), "partial", |row| row.phase == Phase::Partial)
        .await?;
    s.edit(abort(&[s.c(1), s.c(2)])).await?;
    let row = s
        .up()
        .row_until(s.c(1), "aborting", |row| row.reason == "Aborting")
        .await?;
    assert_eq!(row.phase, Phase::Initialized);
    let work = s
        .work_until(1, Platform, "withdrawn", |work| request(&work.raw).is_null())
        .await?;
    let before = &work.raw["spec"]["manifestConfigs"][0]["updateStrategy"];
    assert_eq!(before["serverSideApply"]["fieldManager"], "work-agent-mcu");
    assert_eq!(s.created(3, Platform), 0, "the slot is held");
    // Old values prove nothing: the cluster has not heard of it.
    s.agent(1).values(Platform, &unaccepted("4.12.0", 3)).await?;
    s.up()
        .row_until(s.c(1), "unconfirmed", |row| {
            row.message.contains("has not confirmed")
        })
        .await?;
    s.agent(1).values(Platform, &unaccepted("", 4)).await?;
    let row = s
        .up()
        .row_until(s.c(1), "aborted", |row| row.phase == Phase::Aborted)
        .await?;
    assert_eq!(
        (row.reason.as_str(), row.message.as_str()),
        ("Aborted", "wrong site")
    );
    s.gone(1, Platform).await?;
    s.agent(3).completed().await?;
    s.agent(2).completed().await?;
    let seen = s.until("complete", |seen| seen.is("Complete")).await?;
    assert_eq!(seen.status.phases.get("Aborted"), Some(&1));
    assert_eq!(
        seen.clusters().complete,
        2,
        "an update that was accepted is not torn"
    );
    s.edit(abort(&[])).await?;
    s.agent(1).completed().await?;
    s.until("all complete", |seen| seen.clusters().complete == 3)
        .await?;
    Ok(())
}

#[tokio::test]
async fn the_pre_action_of_an_aborted_cluster_is_removed_and_its_update_is_never_requested() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"preUpgradeAction": sample::action("backup")}))
        .await?;
    s.agent(1).applied(PreAction).await?;
    s.up()
        .row_until(s.c(1), "pre-action", |row| row.phase == Phase::PreAction)
        .await?;
    s.edit(abort(&[s.c(1)])).await?;
    s.up()
        .row_until(s.c(1), "aborted", |row| row.phase == Phase::Aborted)
        .await?;
    s.gone(1, PreAction).await?;
    assert_eq!(s.created(1, Platform), 0);
    Ok(())
}
