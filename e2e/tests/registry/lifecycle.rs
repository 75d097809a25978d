//! What becomes of releases while a registry changes, fails and comes back.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Map, json};
use testenv::Registry;
use testenv::hub::wait_until;
use testenv::image::Family;

use crate::data::Release;
use crate::proxy::{Proxy, Seen, Verdict};
use crate::service::Service;

const REPOSITORY: &str = "mirror/releases";
const CHANNEL: &str = "stable-4.14";
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);
const ERRORS: &str = "cincinnati_gb_graph_upstream_errors_total";

fn release(version: &str, previous: &[&str]) -> Release {
    let mut metadata = Map::new();
    metadata.insert(
        "url".to_owned(),
        json!(format!("https://errata.example.com/{version}")),
    );
    Release {
        version: version.to_owned(),
        metadata,
        previous: previous.iter().map(|&version| version.to_owned()).collect(),
    }
}

/// A registry with three releases behind a proxy, and a service that reads it every second.
struct Stage {
    registry: Registry,
    proxy: Proxy,
    service: Service,
    /// Removed last.
    _dir: tempfile::TempDir,
}

impl Stage {
    async fn new() -> Result<Self> {
        let registry = Registry::start().await?;
        let releases = [
            release("4.14.1", &[]),
            release("4.14.2", &["4.14.1"]),
            release("4.14.3", &["4.14.1", "4.14.2"]),
        ];
        for release in &releases {
            push(&registry, release).await?;
        }
        let proxy = Proxy::start(registry.address()).await?;
        let dir = tempfile::tempdir()?;
        let graph_data = graph_data(dir.path())?;
        let args = [
            format!("--registry={}/{REPOSITORY}", proxy.address()),
            format!("--graph-data={}", graph_data.display()),
            "--refresh=1s".to_owned(),
        ];
        let service = Service::start(dir.path(), "service", &args).await?;
        service.ready(WAIT_TIMEOUT).await?;
        Ok(Self {
            registry,
            proxy,
            service,
            _dir: dir,
        })
    }

    async fn serves(&self, version: &str) -> Result<bool> {
        let graph = self.service.graph(CHANNEL, "amd64").await?;
        Ok(graph.nodes.contains_key(version))
    }

    /// Waits for something of the service.
    async fn until<F, Fut>(&self, what: &str, condition: F) -> Result<()>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<bool>>,
    {
        let outcome = wait_until(what, WAIT_TIMEOUT, condition).await;
        outcome.map_err(|error| error.context(self.service.log_tail(20)))
    }
}

async fn push(registry: &Registry, release: &Release) -> Result<()> {
    let image = release.image(Family::Oci, "amd64")?;
    registry
        .pusher()
        .push(REPOSITORY, &release.version, &image)
        .await
        .map(drop)
}

fn graph_data(dir: &Path) -> Result<PathBuf> {
    let top = dir.join("graph-data");
    std::fs::create_dir_all(top.join("channels"))?;
    std::fs::write(top.join("version"), "1.1.0\n")?;
    std::fs::write(
        top.join(format!("channels/{CHANNEL}.yaml")),
        format!("name: {CHANNEL}\nversions: [4.14.1, 4.14.2, 4.14.3, 4.14.4]\n"),
    )?;
    Ok(top)
}

fn is_listing(path: &str) -> bool {
    path.ends_with("/tags/list")
}

fn listings(log: &[Seen], status: u16) -> usize {
    log.iter()
        .filter(|seen| is_listing(&seen.path) && seen.status == status)
        .count()
}

#[tokio::test]
async fn a_release_leaves_after_three_complete_listings_without_its_tag_and_not_by_errors() -> Result<()> {
    let stage = Stage::new().await?;
    stage.proxy.judge(|_, path| {
        if is_listing(path) {
            Verdict::Answer(500)
        } else {
            Verdict::Pass
        }
    });
    stage.proxy.take_log();
    stage.registry.pusher().delete_tag(REPOSITORY, "4.14.2").await?;
    let failed = stage.service.metric(ERRORS).await?;
    stage
        .until("four scrapes have failed", async || {
            Ok(stage.service.metric(ERRORS).await? >= failed + 4.0)
        })
        .await?;
    ensure!(stage.serves("4.14.2").await?, "gone by errors alone");

    stage.proxy.take_log();
    stage.proxy.judge(|_, _| Verdict::Pass);
    let complete = Cell::new(0);
    stage
        .until("the release is gone", async || {
            let serves = stage.serves("4.14.2").await?;
            // Counted after the answer: a listing that ended in between may have been the third.
            complete.set(complete.get() + listings(&stage.proxy.take_log(), 200));
            Ok(!serves)
        })
        .await?;
    ensure!(complete.get() >= 3, "gone after {} listings", complete.get());
    ensure!(stage.serves("4.14.3").await?);
    let edges = stage.service.graph(CHANNEL, "amd64").await?.edges;
    ensure!(edges.len() == 1, "{edges:?}");
    stage.service.stop().await
}

#[tokio::test]
async fn a_registry_that_is_gone_costs_nothing_and_what_it_has_when_it_is_back_is_served() -> Result<()> {
    let mut stage = Stage::new().await?;
    stage.registry.stop().await?;
    let failed = stage.service.metric(ERRORS).await?;
    stage
        .until("two scrapes have failed", async || {
            Ok(stage.service.metric(ERRORS).await? >= failed + 2.0)
        })
        .await?;
    ensure!(stage.serves("4.14.3").await?, "the last good graph is not kept");
    ensure!(stage.service.get("/readyz").await?.0 == 200, "not ready any more");

    stage.registry.restart().await?;
    push(&stage.registry, &release("4.14.4", &["4.14.3"])).await?;
    stage
        .until("the new release is served", async || stage.serves("4.14.4").await)
        .await?;
    stage.service.stop().await
}

#[tokio::test]
async fn a_release_whose_image_breaks_later_keeps_what_is_known_of_it() -> Result<()> {
    let stage = Stage::new().await?;
    // The same tag, another image, and that one cannot be read.
    let image = testenv::image::Image {
        layers: vec![testenv::image::Blob::new(b"no archive".to_vec())],
        ..release("4.14.2", &[]).image(Family::Docker, "amd64")?
    };
    stage.registry.pusher().push(REPOSITORY, "4.14.2", &image).await?;
    stage.proxy.take_log();
    let complete = Cell::new(0);
    stage
        .until("four listings, so that three have had their effect", async || {
            complete.set(complete.get() + listings(&stage.proxy.take_log(), 200));
            Ok(complete.get() >= 4)
        })
        .await?;
    ensure!(stage.serves("4.14.2").await?, "one bad image took a release away");
    stage.service.stop().await
}

#[tokio::test]
async fn the_configuration_that_deploy_ships_is_understood() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/update-service/config.toml");
    let args = [
        format!("--config={}", config.display()),
        format!("--state-dir={}", dir.path().join("state").display()),
    ];
    let service = Service::start(dir.path(), "service", &args).await?;
    // Its registry is an example: it lives and is not ready.
    let outcome = wait_until("it lives", WAIT_TIMEOUT, async || {
        Ok(service.get("/livez").await.is_ok_and(|(status, _)| status == 200))
    });
    outcome
        .await
        .map_err(|error| error.context(service.log_tail(20)))?;
    ensure!(service.get("/readyz").await?.0 == 503);
    service.stop().await
}
