//! No write is repeated: if a request does not change, the cluster keeps its generation.

use std::time::Duration;

use anyhow::Result;
use api::names::Step::Platform;
use e2e::view::Kind;
use serde_json::json;

use crate::audit::{Audit, Request};
use crate::cluster::{HELD, under_way, work_account};
use crate::fleet_test::{WAIT_TIMEOUT, at, limits, play, to, with};
use crate::queue::Rank;

/// The agent applies an unchanged work by itself after four minutes, times up to one and a half.
const NATURAL: Duration = Duration::from_mins(4);
/// How long to wait for that.
const RESYNC: Duration = Duration::from_mins(10);

/// The agent's applies of ClusterVersion.
fn applies(request: &Request) -> bool {
    request.verb == "patch" && request.resource == "clusterversions" && request.user == work_account()
}

/// Three times the agent is made to apply the work again by a label, and once it does so by itself, in the background of
/// other tests: it changes neither ClusterVersion nor work.
#[tokio::test]
async fn a_work_that_is_applied_again_changes_nothing() -> Result<()> {
    play(1, Rank::Long, &[at("4.16.10", "eus-4.16")], async |turn| {
        let (s, cluster) = (turn.scenario(), turn.cluster(1));
        // An update that does not end keeps its work.
        cluster.fault(HELD).await?;
        s.create(with(&[to("4.16.20", "eus-4.16"), limits(1, "1h")]))
            .await?;
        cluster.version_until("under way", under_way("4.16.20")).await?;
        let before = cluster.version().await?;
        let work = s
            .work_until(1, Platform, "reported", |work| {
                work.raw.to_string().contains("\"Partial\"")
            })
            .await?;
        let on_hub = Audit::from_now(turn.test_hub().hub())?;
        for round in 1..=3 {
            let on_cluster = Audit::from_now(cluster.spoke().plane())?;
            let label = json!({"metadata": {"labels": {"test/touched": format!("{round}")}}});
            s.patch(Kind::Work, s.c(1), &Platform.work_name(s.c(1)), &label)
                .await?;
            on_cluster
                .until(
                    "the agent applies a work with a new label",
                    1,
                    WAIT_TIMEOUT,
                    applies,
                )
                .await?;
        }
        let forced = chrono::Utc::now();
        let on_cluster = Audit::from_now(cluster.spoke().plane())?;
        let natural = |request: &Request| applies(request) && request.at > forced + NATURAL.mul_f64(0.9);
        on_cluster
            .until("the agent applies the work by itself", 1, RESYNC, natural)
            .await?;

        let after = cluster.version().await?;
        assert_eq!(after["spec"], before["spec"]);
        assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
        let work_after = s.work(1, Platform).await?;
        assert_eq!(
            (work_after.generation(), work_after.uid()),
            (work.generation(), work.uid())
        );
        // Not even without a change.
        let controller = format!(
            "system:serviceaccount:{}:{}",
            e2e::test_hub::NAMESPACE,
            e2e::test_hub::ACCOUNT
        );
        let rewritten = on_hub.writes(|request| {
            request.user == controller
                && request.resource.starts_with("manifestworks")
                && request.namespace == cluster.name()
        })?;
        assert!(rewritten.is_empty(), "{rewritten:?}");
        Ok(())
    })
    .await
}
