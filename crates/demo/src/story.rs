//! The course of the upgrade: the canaries go first, two clusters fail, they are fixed and retried, and the upgrade completes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use api::ManagedClustersUpgrade;
use api::conditions;
use api::names::{ANNOTATION_RETRY_FAILED, LABEL_MCU_UID, Step};
use api::report::Phase;
use kube::Client;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use serde::Serialize;
use serde_json::{Value, json};
use spoke_sim::fault;

use super::fixtures::{FAILURE, FROM, Fixtures, NAMESPACE, TO, UPGRADE};
use super::narrator::Narrator;
use super::picture::Picture;
use super::snapshot::Snapshot;

const POLL: Duration = Duration::from_millis(200);
/// Longest time of one part, besides what a large fleet needs.
pub(super) const PART_TIMEOUT: Duration = Duration::from_mins(4);
/// Lines of the controller's log in an error.
const LOG_LINES: usize = 10;

/// A hub with the fleet and a controller, before the upgrade.
pub struct Stage {
    /// An administrator.
    pub client: Client,
    /// The names of the fleet.
    pub fixtures: Fixtures,
    /// What shows the upgrade.
    pub picture: Picture,
    /// The log of the controller.
    pub log: PathBuf,
}

/// Why a cluster failed, as the status showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// The cluster.
    pub cluster: String,
    /// Machine-readable cause.
    pub reason: String,
    /// What happened.
    pub message: String,
}

/// How it ended.
#[derive(Clone, Debug)]
pub struct End {
    /// The last state.
    pub last: Snapshot,
    /// Why the two clusters failed.
    pub causes: Vec<Cause>,
    /// How long the upgrade took.
    pub seconds: f64,
}

/// Upgrades the fleet to its end.
pub(super) async fn run(narrator: &mut Narrator, stage: &Stage) -> Result<End> {
    Box::pin(upgrade(narrator, stage)).await.with_context(|| {
        let log = std::fs::read(&stage.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        format!("not the end that was expected; the end of the controller's log:\n{end}\n")
    })
}

async fn upgrade(narrator: &mut Narrator, stage: &Stage) -> Result<End> {
    let (client, fixtures) = (&stage.client, &stage.fixtures);
    let begun = Instant::now();
    let object: ManagedClustersUpgrade = serde_json::from_value(fixtures.upgrade())?;
    let object = upgrades(client).create(&PostParams::default(), &object).await;
    let uid = object.context("the upgrade is rejected")?.metadata.uid;
    narrator.say(&format!(
        "ManagedClustersUpgrade {UPGRADE}: {} clusters to {TO}; canaries {}; then a quarter of all clusters at a time\n\
         the picture is that of kubectl mcu status {UPGRADE} -n {NAMESPACE} -w",
        fixtures.len(),
        fixtures.canaries.join(", ")
    ));
    let until_stalled = async |narrator: &mut Narrator| until_stalled(narrator, client, fixtures).await;
    let stalled = Box::pin(stage.picture.beside(narrator, until_stalled)).await?;
    let causes = causes(&stalled, fixtures)?;
    let text: Vec<String> = causes
        .iter()
        .map(|cause| format!("{}  {}: {}", cause.cluster, cause.reason, cause.message))
        .collect();
    narrator.say(&format!(
        "two clusters failed; the others are done. The causes:\n{}",
        text.join("\n")
    ));

    narrator.say(&format!(
        "fixing {} and {}, then retrying what failed, as kubectl mcu retry does",
        fixtures.failing, fixtures.refusing
    ));
    for cluster in [&fixtures.failing, &fixtures.refusing] {
        set_fault(client, cluster, None).await?;
    }
    retry(client).await?;
    until_moving(client).await?;
    let until_complete = async |_: &mut Narrator| until_complete(client).await;
    let last = Box::pin(stage.picture.beside(narrator, until_complete)).await?;
    let seconds = begun.elapsed().as_secs_f64();
    check_end(client, fixtures, &last, &uid.unwrap_or_default()).await?;
    narrator.say("Complete: every cluster, post-actions included");
    Ok(End {
        last,
        causes,
        seconds,
    })
}

/// Canaries, then the others, until only the two troubled clusters are left.
async fn until_stalled(narrator: &mut Narrator, client: &Client, fixtures: &Fixtures) -> Result<Snapshot> {
    let (mut broken, mut canaries) = (false, false);
    let works = works(client, &fixtures.failing);
    let work = Step::Platform.work_name(&fixtures.failing);
    let deadline = deadline(fixtures);
    loop {
        let now = Snapshot::take(client).await?;
        if !broken && works.get_opt(&work).await?.is_some() {
            // Not earlier: its backup is to succeed.
            broken = true;
            set_fault(client, &fixtures.failing, Some(FAILURE)).await?;
            narrator.say(&format!(
                "trouble is coming up on {} in mid-update",
                fixtures.failing
            ));
        }
        let summary = now.status.canary_clusters_summery.unwrap_or_default();
        if !canaries
            && summary.total > 0
            && summary.complete == summary.total
            && now.status.in_flight > Some(0)
        {
            canaries = true;
            narrator.say("the canaries are complete; the other clusters start");
        }
        // The rows follow the status.
        if now.is(conditions::STALLED) && now.count(Phase::Failed) == now.status.failed_clusters.len() {
            return Ok(now);
        }
        ensure!(
            !now.is(conditions::COMPLETE),
            "it was complete without any trouble"
        );
        wait(deadline, "the upgrade up to its failures").await?;
    }
}

/// The retry is seen.
async fn until_moving(client: &Client) -> Result<()> {
    let deadline = Instant::now() + PART_TIMEOUT;
    while Snapshot::take(client).await?.is(conditions::STALLED) {
        wait(deadline, "the wait for the retry").await?;
    }
    Ok(())
}

/// The retried clusters, and the post-actions of everybody.
async fn until_complete(client: &Client) -> Result<Snapshot> {
    let deadline = Instant::now() + PART_TIMEOUT;
    loop {
        let now = Snapshot::take(client).await?;
        if now.is(conditions::COMPLETE) && now.rows.iter().all(|row| row.phase == Phase::Complete) {
            return Ok(now);
        }
        ensure!(
            !now.is(conditions::STALLED),
            "it stalled after the retry: {:?}",
            now.status.failed_clusters
        );
        wait(deadline, "the retry").await?;
    }
}

fn deadline(fixtures: &Fixtures) -> Instant {
    Instant::now()
        + PART_TIMEOUT
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
    let deadline = Instant::now() + PART_TIMEOUT;
    while !works.list_metadata(&ours).await?.items.is_empty() {
        wait(deadline, "the removal of ManifestWorks").await?;
    }
    Ok(())
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
pub(super) async fn set_fault(client: &Client, cluster: &str, fault: Option<&str>) -> Result<()> {
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
