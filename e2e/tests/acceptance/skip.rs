//! Clusters that the spec skips: they do not start, their failures do not count, and the upgrade completes without them.

use anyhow::Result;
use api::names::Step::Platform;
use api::report::Phase;
use e2e::Scenario;
use serde_json::json;

#[tokio::test]
async fn an_upgrade_completes_without_clusters_that_are_skipped_and_takes_one_up_again() -> Result<()> {
    let s = Scenario::new(3).await?;
    let skip = |clusters: &[&str]| {
        let entry = |cluster: &&str| json!({"cluster": cluster, "reason": "no power until May"});
        let entries: Vec<_> = clusters.iter().map(entry).collect();
        json!({"upgradeStrategy": {"skip": entries, "clusterUpgradeTimeout": "4s", "maxFailures": 0}})
    };
    s.create(skip(&[s.c(1)])).await?;
    let row = s
        .up()
        .row_until(s.c(1), "skipped", |row| row.phase == Phase::Skipped)
        .await?;
    assert_eq!(
        (row.reason.as_str(), row.message.as_str()),
        ("Skipped", "no power until May")
    );
    s.agent(2).completed().await?;
    s.agent(3).available(Platform).await?;
    s.until("one failed", |seen| seen.clusters().failed == 1).await?;
    s.edit(skip(&[s.c(1), s.c(3)])).await?;
    let seen = s.until("complete", |seen| seen.is("Complete")).await?;
    assert_eq!(seen.status.phases.get("Skipped"), Some(&2));
    assert_eq!(
        (
            seen.clusters().complete,
            seen.clusters().failed,
            seen.clusters().total
        ),
        (1, 0, 3)
    );
    let failed = s
        .up()
        .row_until(s.c(3), "skipped", |row| row.phase == Phase::Skipped)
        .await?;
    assert!(
        failed.message.contains("it had failed: ClusterUpgradeTimeout"),
        "{}",
        failed.message
    );
    assert_eq!(s.created(1, Platform), 0);
    s.edit(skip(&[s.c(3)])).await?;
    s.agent(1).completed().await?;
    s.until("complete", |seen| {
        seen.is("Complete") && seen.clusters().complete == 2
    })
    .await?;
    Ok(())
}
