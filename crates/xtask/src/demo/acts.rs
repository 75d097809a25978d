//! The acts: stage, canaries and window, two clusters in trouble, mending, the end.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use api::ManagedClustersUpgrade;
use api::conditions;
use api::names::{ANNOTATION_RETRY_FAILED, LABEL_MCU_UID, Step};
use api::report::Phase;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use spoke_sim::fault;
use testenv::hub::wait_until;
use testenv::placement::{self, PlacementSpec};
use testenv::process::tail;
use testenv::{Assets, Controllers, Hub, fleet};

use super::cast::{Cast, FAILURE, FROM, NAMESPACE, PLACEMENT, REFUSAL, SETS, TO, UPGRADE};
use super::snapshot::Snapshot;
use super::summary::{Cause, Summary};
use super::view::{Tint, View};
use crate::stage;
use crate::workspace::Binaries;

const CONTROLLER: &str = "mcu-controller";
const POLL: Duration = Duration::from_millis(200);
/// Longest time of one act, besides what a large fleet needs.
const PATIENCE: Duration = Duration::from_mins(4);
/// Simulated over real time: a minute is a second.
const TIME_SCALE: &str = "--time-scale=0.0166667";
/// An update of the platform takes three seconds.
const UPDATE: &str = "--update-duration=3m";

/// Starts the hub with everything on it.
pub(super) async fn stage(
    view: &mut View,
    assets: Assets,
    cast: &Cast,
    binaries: &Binaries,
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
    let hub = stage::with_agents(builder).start().await?;
    view.say("installing deploy/: CRDs, RBAC, admission policy")?;
    stage::deploy(&hub).await?;
    view.say(&format!(
        "{} clusters at {FROM} in the sets {}, each with a simulated work agent",
        cast.len(),
        SETS.join(" and ")
    ))?;
    fleet::create(hub.client(), &cast.fleet()).await?;
    set_fault(hub.client(), &cast.refusing, Some(REFUSAL)).await?;
    let flags = [TIME_SCALE, UPDATE].map(str::to_owned);
    stage::agents(&hub, binaries, &flags).await?;
    placement::write(hub.client(), NAMESPACE, PLACEMENT, &PlacementSpec::of_sets(&SETS)).await?;
    placement::wait_decided(hub.client(), NAMESPACE, PLACEMENT, cast.len(), PATIENCE).await?;
    view.say(&format!("Placement {PLACEMENT} has decided for all of them"))?;
    stage::controller(&hub, binaries, CONTROLLER).await?;
    view.say("mcu-controller is ready, with the ServiceAccount of deploy/")?;
    Ok(hub)
}

/// Upgrades the fleet to its end.
pub(super) async fn perform(view: &mut View, hub: &Hub, cast: &Cast) -> Result<Summary> {
    let outcome = upgrade(view, hub, cast).await;
    view.settle();
    outcome.with_context(|| {
        let log = tail(&hub.dir().join(format!("{CONTROLLER}.log")), 10);
        format!("not the end that was expected; the end of the controller's log:\n{log}\n")
    })
}

async fn upgrade(view: &mut View, hub: &Hub, cast: &Cast) -> Result<Summary> {
    let client = hub.client();
    let begun = Instant::now();
    let object = stage::create_upgrade(hub, NAMESPACE, UPGRADE, &cast.spec()).await?;
    let uid = object.metadata.uid.unwrap_or_default();
    view.say(&format!(
        "ManagedClustersUpgrade {UPGRADE}: {} clusters to {TO}; canaries {}; then a window of 25%",
        cast.len(),
        cast.canaries.join(", ")
    ))?;

    let stalled = first_act(view, client, cast).await?;
    let causes = causes(&stalled, cast)?;
    let text: Vec<String> = causes
        .iter()
        .map(|cause| format!("{}  {}: {}", cause.cluster, cause.reason, cause.message))
        .collect();
    let heading = view.paint(Tint::Bad, "two clusters failed; the others are done. The causes:");
    view.say(&format!("{heading}\n{}", text.join("\n")))?;

    view.say(&format!(
        "mending {} and {}, then retrying what failed",
        cast.failing, cast.refusing
    ))?;
    for cluster in [&cast.failing, &cast.refusing] {
        set_fault(client, cluster, None).await?;
    }
    retry(client).await?;
    let last = second_act(view, client).await?;
    let seconds = begun.elapsed().as_secs_f64();
    check_end(client, cast, &last, &uid).await?;
    let done = view.paint(Tint::Good, "Complete: every cluster, post-actions included");
    view.say(&done)?;
    Summary::new(hub, cast, &last, causes, seconds)
}

/// Canaries, then the window, until only the two troubled clusters are left.
async fn first_act(view: &mut View, client: &Client, cast: &Cast) -> Result<Snapshot> {
    let (mut broken, mut canaries) = (false, false);
    let works = works(client, &cast.failing);
    let work = Step::Platform.work_name(&cast.failing);
    let deadline = deadline(cast);
    loop {
        let now = Snapshot::take(client).await?;
        view.show(&now)?;
        if !broken && works.get_opt(&work).await?.is_some() {
            // Not earlier: its backup is to succeed.
            broken = true;
            set_fault(client, &cast.failing, Some(FAILURE)).await?;
            view.say(&format!("trouble is coming up on {} in mid-update", cast.failing))?;
        }
        let summary = now.status.canary_clusters_summery.unwrap_or_default();
        if !canaries
            && summary.total > 0
            && summary.complete == summary.total
            && now.status.in_flight > Some(0)
        {
            canaries = true;
            view.say("the canaries are complete; the window opens")?;
        }
        if now.is(conditions::STALLED) {
            return Ok(now);
        }
        ensure!(
            !now.is(conditions::COMPLETE),
            "it was complete without any trouble"
        );
        wait(deadline, "the first act").await?;
    }
}

/// The retried clusters, and the post-actions of everybody.
async fn second_act(view: &mut View, client: &Client) -> Result<Snapshot> {
    let deadline = Instant::now() + PATIENCE;
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
        wait(deadline, "the second act").await?;
    }
}

fn deadline(cast: &Cast) -> Instant {
    Instant::now() + PATIENCE + Duration::from_millis(200) * u32::try_from(cast.len()).unwrap_or(u32::MAX)
}

async fn wait(deadline: Instant, what: &str) -> Result<()> {
    if Instant::now() > deadline {
        bail!("{what} does not end");
    }
    tokio::time::sleep(POLL).await;
    Ok(())
}

/// The causes of the two troubled clusters, as the status shows them.
fn causes(snapshot: &Snapshot, cast: &Cast) -> Result<Vec<Cause>> {
    let failed = &snapshot.status.failed_clusters;
    ensure!(
        failed.len() == 2 && snapshot.count(Phase::Failed) == 2,
        "two clusters should have failed: {failed:?}"
    );
    let expected = [
        (&cast.failing, "network is degraded"),
        (&cast.refusing, "removes APIs"),
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

/// Every row tells of the target, and no ManifestWork is left.
async fn check_end(client: &Client, cast: &Cast, last: &Snapshot, uid: &str) -> Result<()> {
    ensure!(
        last.rows.len() == cast.len(),
        "{} rows of {} clusters",
        last.rows.len(),
        cast.len()
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

/// Breaks a simulated cluster, or mends it.
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
        &json!("mended"),
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
