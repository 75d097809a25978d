//! Clusters that are aborted: what is left of the request on them, accepted or not.

use anyhow::Result;
use api::names::Step::Platform;
use api::report::Phase;
use serde_json::{Value, json};

use crate::cluster::{HELD, completed, condition, history, newest, under_way};
use crate::fleet_test::{at, limits, part, to, with};

const FROM: &str = "4.15.40";
const TARGET: &str = "4.16.42";
const CHANNEL: &str = "eus-4.16";
const GATE: &str = "ack-4.15-kube-1.29-api-removals-in-4.16";

fn abort(cluster: &str) -> Value {
    json!({"upgradeStrategy": {"abort": [{"cluster": cluster, "reason": "wrong site"}]}})
}

/// It waits at a gate, so it has not accepted the update. Once the gate is acknowledged, nothing asks for the update any more.
#[tokio::test]
async fn a_cluster_that_has_not_accepted_the_update_stays_where_it_is_and_one_that_is_taken_up_is_upgraded()
-> Result<()> {
    let mut gated = at(FROM, CHANNEL);
    gated["adminGates"] = json!({GATE: "Read what is removed."});
    part(1, &[gated], async |turn| {
        let (s, cluster) = (turn.scenario(), turn.cluster(1));
        s.create(with(&[to(TARGET, CHANNEL), limits(1, "20m")])).await?;
        s.up()
            .row_until(s.c(1), "the cause", |row| {
                row.message.contains("Read what is removed")
            })
            .await?;
        assert_eq!(
            cluster.version().await?["spec"]["desiredUpdate"]["version"],
            TARGET
        );
        s.edit(abort(s.c(1))).await?;
        s.up()
            .row_until(s.c(1), "aborted", |row| row.phase == Phase::Aborted)
            .await?;
        let version = cluster.version().await?;
        assert_eq!(version["spec"]["desiredUpdate"], Value::Null, "{version}");
        assert_eq!(
            version["spec"]["channel"], CHANNEL,
            "the channel is not taken back"
        );
        s.gone(1, Platform).await?;
        let ack = json!({"data": {GATE: "true"}}).to_string();
        let acks = ["-n", "openshift-config", "admin-acks", "--type=merge", "-p", &ack];
        cluster
            .kubectl(&[["patch", "configmap"].as_slice(), &acks].concat())
            .await?;
        let version = cluster
            .version_until("acknowledged", |version| {
                condition(version, "Upgradeable") != "False"
            })
            .await?;
        assert_eq!(newest(&version), (FROM, "Completed"));
        assert_eq!(version["spec"]["desiredUpdate"], Value::Null, "{version}");
        s.edit(json!({"upgradeStrategy": {"abort": []}})).await?;
        s.complete().await?;
        cluster.version_until("upgraded", completed(TARGET)).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_cluster_that_has_accepted_the_update_ends_it() -> Result<()> {
    let (from, target) = ("4.16.10", "4.16.20");
    part(1, &[at(from, CHANNEL)], async |turn| {
        let (s, cluster) = (turn.scenario(), turn.cluster(1));
        cluster.fault(HELD).await?;
        s.create(with(&[to(target, CHANNEL), limits(1, "20m")])).await?;
        cluster.version_until("under way", under_way(target)).await?;
        s.up()
            .row_until(s.c(1), "partial", |row| row.phase == Phase::Partial)
            .await?;
        s.edit(abort(s.c(1))).await?;
        s.until("the edit is observed", |seen| {
            seen.generation() == 2 && seen.is_current()
        })
        .await?;
        cluster.fault("none").await?;
        s.complete().await?;
        let version = cluster.version().await?;
        assert_eq!(newest(&version), (target, "Completed"));
        assert_eq!(history(&version), [target, from]);
        Ok(())
    })
    .await
}
