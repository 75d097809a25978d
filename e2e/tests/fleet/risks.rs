//! A conditional update whose risk applies here, not there, and cannot be evaluated elsewhere.

use anyhow::Result;
use api::names::Step::Platform;
use api::report::Phase;
use serde_json::{Value, json};

use crate::cluster::{Cluster, completed, condition, newest};
use crate::fleet_test::{at, limits, to, whole, with};

const FROM: &str = "4.15.10";
const TARGET: &str = "4.15.49";
const CHANNEL: &str = "stable-4.15";
/// The real risk of this edge: it applies to clusters on Azure.
const RISK: &str = "NonZonalAzureMachineSetScaling";

/// The Recommended condition of the target.
fn recommended(version: &Value) -> Value {
    let updates = version["status"]["conditionalUpdates"].as_array();
    updates
        .into_iter()
        .flatten()
        .find(|update| update["release"]["version"] == TARGET)
        .map(|update| update["conditions"][0].clone())
        .unwrap_or_default()
}

async fn evaluated(cluster: &Cluster, status: &str) -> Result<Value> {
    let version = cluster
        .version_until(&format!("{TARGET} is Recommended={status}"), |version| {
            recommended(version)["status"] == status
        })
        .await?;
    Ok(recommended(&version))
}

/// The first cluster is on Azure, the second on AWS, and the third has no metric of its platform.
#[tokio::test]
async fn a_risk_that_applies_does_not_apply_or_cannot_be_evaluated_is_treated_and_explained_as_such()
-> Result<()> {
    let mut preview = at(FROM, CHANNEL);
    preview["era"] = json!("C");
    whole(&[preview, at(FROM, CHANNEL)], async |turn| {
        let s = turn.scenario();
        let matched = evaluated(turn.cluster(1), "False").await?;
        assert!(
            matched["message"].as_str().unwrap_or_default().contains("Azure"),
            "{matched}"
        );
        evaluated(turn.cluster(2), "True").await?;
        let unknown = evaluated(turn.cluster(3), "Unknown").await?;
        assert_eq!(unknown["reason"], "EvaluationFailed");

        s.create(with(&[to(TARGET, CHANNEL), limits(3, "20m")])).await?;
        s.up()
            .row_until(s.c(2), "complete", |row| row.phase == Phase::Complete)
            .await?;
        turn.cluster(2)
            .version_until("upgraded", completed(TARGET))
            .await?;
        for number in [1, 3] {
            let version = turn
                .cluster(number)
                .version_until("refused", |version| condition(version, "Invalid") == "True")
                .await?;
            assert_eq!(newest(&version).0, FROM, "it stays where it is");
            let row = s
                .up()
                .row_until(s.c(number), "the cause", |row| {
                    row.phase == Phase::Initialized && row.message.contains("available update")
                })
                .await?;
            assert!(!row.reason.is_empty(), "{row:?}");
        }

        accept(turn.cluster(1)).await?;
        s.up()
            .row_until(s.c(1), "complete", |row| row.phase == Phase::Complete)
            .await?;
        let version = turn
            .cluster(1)
            .version_until("upgraded", completed(TARGET))
            .await?;
        assert_eq!(
            version["spec"]["desiredUpdate"]["acceptRisks"],
            json!([{"name": RISK}]),
            "the upgrade does not remove it"
        );
        let seen = s
            .until("two of three", |seen| seen.clusters().complete == 2)
            .await?;
        assert_eq!((seen.clusters().failed, seen.clusters().initialized), (0, 3));
        assert_eq!(s.created(1, Platform), 1);
        Ok(())
    })
    .await
}

/// The administrator of a cluster accepts the risk by name, with kubectl, for the first time.
async fn accept(cluster: &Cluster) -> Result<()> {
    let before = cluster.version().await?;
    assert_eq!(before["spec"]["desiredUpdate"]["version"], TARGET);
    assert_eq!(before["spec"]["desiredUpdate"]["acceptRisks"], Value::Null);
    let accepted = json!({"spec": {"desiredUpdate": {"acceptRisks": [{"name": RISK}]}}});
    cluster.patch(&accepted).await
}
