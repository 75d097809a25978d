//! Create, update and delete of an upgrade of real clusters, and what is left of a cluster's own settings.

use anyhow::Result;
use api::names::Step::Platform;
use api::report::Phase;
use serde_json::{Value, json};

use crate::cluster::{Cluster, HELD, completed, history, under_way};
use crate::fleet_test::{at, limits, part, to, with};

const FIRST: &str = "4.16.19";
const SECOND: &str = "4.16.20";
const CHANNEL: &str = "eus-4.16";

/// Sets fields that the upgrade does not own, as an admin does, and returns the whole spec.
async fn set_own(cluster: &Cluster) -> Result<Value> {
    let own = json!({
        "metadata": {"labels": {"team": "edge"}, "annotations": {"note": "ours"}},
        "spec": {
            "capabilities": {"baselineCapabilitySet": "v4.16", "additionalEnabledCapabilities": ["Storage"]},
            "overrides": [{
                "kind": "Deployment", "group": "apps", "namespace": "openshift-monitoring", "name": "ours", "unmanaged": false,
            }],
        },
    });
    cluster.patch(&own).await?;
    let version = cluster.version().await?;
    assert_eq!(version["spec"]["capabilities"], own["spec"]["capabilities"]);
    assert_eq!(version["spec"]["overrides"], own["spec"]["overrides"]);
    Ok(version["spec"].clone())
}

/// The cluster keeps the requested channel and update; every other field is unchanged.
fn assert_own(before: &Value, version: &Value) {
    let strip = |spec: &Value| {
        let mut spec = spec.clone();
        e2e::sample::merge(&mut spec, &json!({"channel": null, "desiredUpdate": null}));
        spec
    };
    assert_eq!(strip(before), strip(&version["spec"]));
    assert_eq!(version["metadata"]["labels"]["team"], "edge");
    assert_eq!(version["metadata"]["annotations"]["note"], "ours");
    assert_eq!(version["spec"]["channel"], CHANNEL);
    assert_eq!(version["spec"]["desiredUpdate"]["version"], SECOND);
    assert_eq!(version["metadata"]["ownerReferences"], Value::Null);
}

/// A version edited while one cluster is done and the other under way, and a deletion in the same situation.
#[tokio::test]
async fn an_upgrade_is_created_edited_and_deleted_and_leaves_the_clusters_settings_alone() -> Result<()> {
    part(2, &[at("4.16.10", "stable-4.16")], async |turn| {
        let s = turn.scenario();
        let (done, held) = (turn.cluster(1), turn.cluster(2));
        let own = [set_own(done).await?, set_own(held).await?];
        held.fault(HELD).await?;
        s.create(with(&[to(FIRST, CHANNEL), limits(2, "20m")])).await?;
        s.up()
            .row_until(s.c(1), "complete", |row| row.phase == Phase::Complete)
            .await?;
        held.version_until("under way", under_way(FIRST)).await?;

        // An upgrade that names no channel leaves the one that an earlier upgrade has set.
        s.edit(json!({"clusterVersion": {"version": SECOND, "channel": null}}))
            .await?;
        s.until("one is done again", |seen| seen.clusters().complete == 1)
            .await?;
        done.version_until("at the new version", completed(SECOND))
            .await?;
        // A cluster in flight continues and gets the new version afterwards. The pause gives the fault time to take effect.
        s.edit(json!({"paused": true})).await?;
        held.fault("none").await?;
        held.version_until("at the first version", completed(FIRST))
            .await?;
        s.up()
            .row_until(s.c(2), "queued again", |row| row.phase == Phase::Pending)
            .await?;
        held.fault(HELD).await?;
        s.edit(json!({"paused": false})).await?;
        held.version_until("under way to the new version", under_way(SECOND))
            .await?;

        turn.clear().await?;
        assert_eq!(s.having(Platform), Vec::<usize>::new());
        held.fault("none").await?;
        held.version_until("upgraded without the upgrade", completed(SECOND))
            .await?;
        for (cluster, own) in [done, held].into_iter().zip(&own) {
            let version = cluster.version().await?;
            assert_own(own, &version);
            assert_eq!(
                history(&version),
                [SECOND, FIRST, "4.16.10"],
                "{}",
                cluster.name()
            );
        }
        Ok(())
    })
    .await
}
