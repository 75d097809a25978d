//! Placement decisions that change while upgrades run, made by the real placement controller.

use std::collections::BTreeSet;

use anyhow::Result;
use api::names::Step::Platform;
use api::report::Phase;
use serde_json::json;
use testenv::fleet;
use testenv::hub::wait_until;
use testenv::placement::{self, PlacementSpec};

use crate::cluster::{HELD, completed, under_way};
use crate::fleet_test::{SET, Turn, WAIT_TIMEOUT, at, limits, part, to, with};

const WAVE: &str = "fleet/wave";
const PLACEMENT: &str = "wave";
const TARGET: &str = "4.16.20";
const CHANNEL: &str = "eus-4.16";

/// Labels clusters, by number, or takes their label away.
async fn label(turn: &Turn, numbers: &[usize], value: Option<&str>) -> Result<()> {
    for &number in numbers {
        let client = turn.scenario().client();
        fleet::set_labels(client, turn.cluster(number).name(), &[(WAVE, value)]).await?;
    }
    Ok(())
}

/// Waits until the placement has chosen exactly these clusters.
async fn decided(turn: &Turn, numbers: &[usize]) -> Result<()> {
    let s = turn.scenario();
    let wanted: BTreeSet<String> = s.some(numbers).into_iter().collect();
    let what = format!("the placement chooses {wanted:?}");
    wait_until(&what, WAIT_TIMEOUT, || async {
        Ok(placement::decided(s.client(), s.id(), PLACEMENT).await? == wanted)
    })
    .await
}

/// One cluster is in flight and one waits. When both leave by label or by taint, the first continues and the second is
/// dropped.
#[tokio::test]
async fn clusters_that_leave_the_placement_go_on_when_started_and_are_dropped_when_not() -> Result<()> {
    part(2, &[at("4.16.10", CHANNEL)], async |turn| {
        let s = turn.scenario();
        let (first, second) = (turn.cluster(1), turn.cluster(2));
        label(turn, &[1, 2], Some(s.id())).await?;
        let wave = PlacementSpec::of_sets(&[SET]).matching(WAVE, s.id());
        placement::write(s.client(), s.id(), PLACEMENT, &wave).await?;
        decided(turn, &[1, 2]).await?;
        first.fault(HELD).await?;
        let placed = json!({"clusterSelector": null, "placement": [{"name": PLACEMENT}]});
        s.create(with(&[to(TARGET, CHANNEL), limits(1, "20m"), placed]))
            .await?;
        first.version_until("under way", under_way(TARGET)).await?;
        s.until("one in flight, one pending", |seen| {
            (seen.clusters().total, seen.clusters().pending) == (2, 1)
        })
        .await?;

        // By label, both at once.
        label(turn, &[1, 2], None).await?;
        decided(turn, &[]).await?;
        s.until("the started one stays", |seen| seen.clusters().total == 1)
            .await?;
        s.up().row_gone(second.name()).await?;
        label(turn, &[1, 2], Some(s.id())).await?;
        decided(turn, &[1, 2]).await?;
        s.until("it comes back", |seen| seen.clusters().total == 2)
            .await?;

        // By taint: neither agent reports, so both leases expire.
        for cluster in [first, second] {
            cluster.heartbeat(false).await?;
        }
        decided(turn, &[]).await?;
        s.until("the started one stays again", |seen| seen.clusters().total == 1)
            .await?;
        s.up().row_gone(second.name()).await?;
        assert_eq!(s.created(2, Platform), 0);
        first.fault("none").await?;
        s.up()
            .row_until(first.name(), "complete", |row| row.phase == Phase::Complete)
            .await?;
        first.version_until("upgraded", completed(TARGET)).await?;

        for cluster in [first, second] {
            cluster.heartbeat(true).await?;
        }
        let seen = s
            .until("both are done", |seen| {
                seen.is("Complete") && seen.clusters().complete == 2
            })
            .await?;
        assert_eq!(seen.clusters().failed, 0);
        assert_eq!((s.created(1, Platform), s.created(2, Platform)), (1, 1));
        label(turn, &[1, 2], None).await
    })
    .await
}
