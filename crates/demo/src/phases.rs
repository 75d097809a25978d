//! The phases of the demo: the hub is prepared, the canaries go first, two clusters fail, they are fixed and retried, and
//! the upgrade completes.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use api::ManagedClustersUpgrade;
use api::conditions;
use api::names::{ANNOTATION_RETRY_FAILED, LABEL_MCU_UID, Step};
use api::report::Phase;
use e2e::testbed;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use repository::Programs;
use serde_json::{Value, json};
use spoke_sim::fault;
use testenv::hub::wait_until;
use testenv::placement::{self, PlacementSpec};
use testenv::process::tail;
use testenv::{Assets, Controllers, Hub, fleet};

use super::fixtures::{FAILURE, FROM, Fixtures, NAMESPACE, PLACEMENT, REFUSAL, SETS, TO, UPGRADE};
use super::snapshot::Snapshot;
use super::summary::{Cause, Summary};
use super::view::{Tint, View};

const CONTROLLER: &str = "mcu-controller";
const POLL: Duration = Duration::from_millis(200);
/// Longest time of one phase, besides what a large fleet needs.
const PHASE_TIMEOUT: Duration = Duration::from_mins(4);
/// Simulated over real time: a minute is a second.
const TIME_SCALE: &str = "--time-scale=0.0166667";
/// An update of the platform takes three seconds.
const UPDATE: &str = "--update-duration=3m";

/// Starts the hub with everything on it.
pub(super) async fn prepare(
    view: &mut View,
    assets: Assets,
    fixtures: &Fixtures,
    programs: &Programs,
    keep: bool,
) -> Result<Hub> {
    view.say("starting a hub: etcd, kube-apiserver, kube-controller-manager, OCM's placement controller")?;
    let mut builder = Hub::builder()
        .assets(assets)
        .controller_manager(Controllers::collectors())
        .placement()
        .audit();
    if keep {
        builder = builder.detached();
    }
    let hub = testbed::with_agents(builder).start().await?;
    view.say("installing deploy/: CRDs, RBAC, admission policy")?;
    testbed::deploy(&hub).await?;
    view.say(&format!(
        "{} clusters at {FROM} in the sets {}, each with a simulated work agent",
        fixtures.len(),
        SETS.join(" and ")
    ))?;
    fleet::create(hub.client(), &fixtures.fleet()).await?;
    set_fault(hub.client(), &fixtures.refusing, Some(REFUSAL)).await?;
    let flags = [TIME_SCALE, UPDATE].map(str::to_owned);
    testbed::agents(&hub, programs, &flags).await?;
    placement::write(hub.client(), NAMESPACE, PLACEMENT, &PlacementSpec::of_sets(&SETS)).await?;
    placement::wait_decided(hub.client(), NAMESPACE, PLACEMENT, fixtures.len(), PHASE_TIMEOUT).await?;
    view.say(&format!("Placement {PLACEMENT} has decided for all of them"))?;
    testbed::controller(&hub, programs, CONTROLLER).await?;
    view.say("mcu-controller is ready, with the ServiceAccount of deploy/")?;
    Ok(hub)
}

/// Upgrades the fleet to its end.
pub(super) async fn run(view: &mut View, hub: &Hub, fixtures: &Fixtures) -> Result<Summary> {
    let outcome = upgrade(view, hub, fixtures).await;
    view.settle();
    outcome.with_context(|| {
        let log = tail(&hub.dir().join(format!("{CONTROLLER}.log")), 10);
        format!("not the end that was expected; the end of the controller's log:\n{log}\n")
    })
}

async fn upgrade(view: &mut View, hub: &Hub, fixtures: &Fixtures) -> Result<Summary> {
    let client = hub.client();
    let begun = Instant::now();
    let object = testbed::create_upgrade(hub, NAMESPACE, UPGRADE, &fixtures.spec()).await?;
    let uid = object.metadata.uid.unwrap_or_default();
    view.say(&format!(
        "ManagedClustersUpgrade {UPGRADE}: {} clusters to {TO}; canaries {}; then a quarter of all clusters at a time",
        fixtures.len(),
        fixtures.canaries.join(", ")
    ))?;

    let stalled = until_stalled(view, client, fixtures).await?;
    let causes = causes(&stalled, fixtures)?;
    let text: Vec<String> = causes
        .iter()
        .map(|cause| format!("{}  {}: {}", cause.cluster, cause.reason, cause.message))
        .collect();
    let heading = view.paint(Tint::Bad, "two clusters failed; the others are done. The causes:");
    view.say(&format!("{heading}\n{}", text.join("\n")))?;

    view.say(&format!(
        "fixing {} and {}, then retrying what failed",
        fixtures.failing, fixtures.refusing
    ))?;
    for cluster in [&fixtures.failing, &fixtures.refusing] {
        set_fault(client, cluster, None).await?;
    }
    retry(client).await?;
    let last = until_complete(view, client).await?;
    let seconds = begun.elapsed().as_secs_f64();
    check_end(client, fixtures, &last, &uid).await?;
    let done = view.paint(Tint::Good, "Complete: every cluster, post-actions included");
    view.say(&done)?;
    Summary::new(hub, fixtures, &last, causes, seconds)
}

/// Canaries, then the others, until only the two troubled clusters are left.
async fn until_stalled(view: &mut View, client: &Client, fixtures: &Fixtures) -> Result<Snapshot> {
    let (mut broken, mut canaries) = (false, false);
    let works = works(client, &fixtures.failing);
    let work = Step::Platform.work_name(&fixtures.failing);
    let deadline = deadline(fixtures);
    loop {
        let now = Snapshot::take(client).await?;
        view.show(&now)?;
        if !broken && works.get_opt(&work).await?.is_some() {
            // Not earlier: its backup is to succeed.
            broken = true;
            set_fault(client, &fixtures.failing, Some(FAILURE)).await?;
            view.say(&format!(
                "trouble is coming up on {} in mid-update",
                fixtures.failing
            ))?;
        }
        let summary = now.status.canary_clusters_summery.unwrap_or_default();
        if !canaries
            && summary.total > 0
            && summary.complete == summary.total
            && now.status.in_flight > Some(0)
        {
            canaries = true;
            view.say("the canaries are complete; the other clusters start")?;
        }
        if now.is(conditions::STALLED) {
            return Ok(now);
        }
        ensure!(
            !now.is(conditions::COMPLETE),
            "it was complete without any trouble"
        );
        wait(deadline, "the upgrade up to its failures").await?;
    }
}

/// The retried clusters, and the post-actions of everybody.
async fn until_complete(view: &mut View, client: &Client) -> Result<Snapshot> {
    let deadline = Instant::now() + PHASE_TIMEOUT;
    loop {
        let now = Snapshot::take(client).await?;
        view.show(&now)?;
        if now.is(conditions::COMPLETE) && now.rows.iter().all(|row| row.phase == Phase::Complete) {
            return Ok(now);
        }
        let again = now.is(conditions::STALLED) && now.status.observed_retry.is_some();
        ensure!(
            !again,
            "it stalled after the retry: {:?}",
            now.status.failed_clusters
        );
        wait(deadline, "the retry").await?;
    }
}

fn deadline(fixtures: &Fixtures) -> Instant {
    Instant::now()
        + PHASE_TIMEOUT
        + Duration::from_millis(200) * u32::try_from(fixtures.len()).unwrap_or(u32::MAX)
}

async fn wait(deadline: Instant, what: &str) -> Result<()> {
    if Instant::now() > deadline {
        bail!("{what} does not end");
    }
    tokio::time::sleep(POLL).await;
    Ok(())
}

/// The causes of the two troubled clusters, as the status shows them.
fn causes(snapshot: &Snapshot, fixtures: &Fixtures) -> Result<Vec<Cause>> {
    let failed = &snapshot.status.failed_clusters;
    ensure!(
        failed.len() == 2 && snapshot.count(Phase::Failed) == 2,
        "two clusters should have failed: {failed:?}"
    );
    let expected = [
        (&fixtures.failing, "network is degraded"),
        (&fixtures.refusing, "removes APIs"),
    ];
    expected
        .into_iter()
        .map(|(cluster, part)| {
            let note = failed
                .iter()
                .find(|note| note.name == *cluster)
                .with_context(|| format!("{cluster} is not among the failed clusters: {failed:?}"))?;
            ensure!(
                note.message.contains(part),
                "the cause of {cluster} does not say that \"…{part}…\": {}: {}",
                note.reason,
                note.message
            );
            Ok(Cause {
                cluster: note.name.clone(),
                reason: note.reason.clone(),
                message: note.message.clone(),
            })
        })
        .collect()
}

/// Every row has the target, and no ManifestWork is left.
async fn check_end(client: &Client, fixtures: &Fixtures, last: &Snapshot, uid: &str) -> Result<()> {
    ensure!(
        last.rows.len() == fixtures.len(),
        "{} rows of {} clusters",
        last.rows.len(),
        fixtures.len()
    );
    for row in &last.rows {
        ensure!(
            row.from_version == FROM && row.to_version == TO,
            "{} went from {:?} to {:?}",
            row.cluster,
            row.from_version,
            row.to_version
        );
    }
    let ready = |type_: &str| last.is(type_);
    ensure!(
        ready(conditions::READY) && !ready(conditions::FAILED),
        "conditions: {:?}",
        last.status.conditions
    );
    let works: Api<DynamicObject> = Api::all_with(client.clone(), &work_resource());
    let ours = ListParams::default().labels(&format!("{LABEL_MCU_UID}={uid}"));
    wait_until("no ManifestWork is left", Duration::from_secs(30), || async {
        Ok(works.list_metadata(&ours).await?.items.is_empty())
    })
    .await
}

fn upgrades(client: &Client) -> Api<ManagedClustersUpgrade> {
    Api::namespaced(client.clone(), NAMESPACE)
}

fn work_resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(
        "work.open-cluster-management.io",
        "v1",
        "ManifestWork",
    ))
}

fn works(client: &Client, cluster: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), cluster, &work_resource())
}

/// Breaks a simulated cluster, or fixes it.
async fn set_fault(client: &Client, cluster: &str, fault: Option<&str>) -> Result<()> {
    let gvk = GroupVersionKind::gvk("cluster.open-cluster-management.io", "v1", "ManagedCluster");
    let clusters: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk));
    annotate(&clusters, cluster, fault::ANNOTATION, &json!(fault)).await
}

/// Asks for another attempt of what failed, as `kubectl mcu retry` does.
async fn retry(client: &Client) -> Result<()> {
    annotate(
        &upgrades(client),
        UPGRADE,
        ANNOTATION_RETRY_FAILED,
        &json!("fixed"),
    )
    .await
}

async fn annotate<K>(api: &Api<K>, name: &str, key: &str, value: &Value) -> Result<()>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let patch = json!({"metadata": {"annotations": {key: value}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .with_context(|| format!("annotation of {name}"))?;
    Ok(())
}
