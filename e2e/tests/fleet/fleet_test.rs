//! The fleet that all tests of this binary share.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Arc, LazyLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use e2e::{ControllerProcess, Scenario, TestHub, WorldOptions};
use futures::FutureExt as _;
use futures::future::try_join_all;
use serde_json::{Value, json};
use testenv::crds::FeatureSet;
use testenv::hub::wait_until;
use testenv::{FleetSpec, fleet, registration};
use tokio::sync::{Mutex, OnceCell};

use crate::cluster::Cluster;
use crate::explain::{explain, said};
use crate::graph::{self, UpdateService};
use crate::queue::{Queue, Rank, Taken};

/// Names of the clusters; the first serves OpenShift's kinds with what is being tried out.
pub const CLUSTERS: &[&str] = &["spoke1", "spoke2", "spoke3"];
/// The set that all of them are in.
pub const SET: &str = "fleet";
/// Duration of a lease. A cluster that has not renewed it for five times as long is Unknown.
const LEASE_SECONDS: u32 = 2;
/// How long anything may take: nothing on a quiet machine takes a tenth of it.
pub const WAIT_TIMEOUT: Duration = Duration::from_mins(4);

static FLEET: OnceCell<Option<Fleet>> = OnceCell::const_new();
static QUEUE: LazyLock<Queue> = LazyLock::new(|| Queue::new(CLUSTERS.len()));

/// See the module.
pub struct Fleet {
    test_hub: Arc<TestHub>,
    clusters: Vec<Cluster>,
    service: UpdateService,
    payloads: BTreeMap<String, String>,
    controller: Mutex<Option<ControllerProcess>>,
}

/// A test's part of the fleet: some clusters for itself.
pub struct Turn {
    fleet: &'static Fleet,
    scenario: Scenario,
    taken: Taken,
}

/// Namespaces of tests that are over, by cluster: one that failed leaves an upgrade behind.
static OVER: std::sync::Mutex<BTreeMap<usize, Vec<String>>> = std::sync::Mutex::new(BTreeMap::new());

impl Drop for Turn {
    fn drop(&mut self) {
        let mut over = OVER.lock().unwrap_or_else(PoisonError::into_inner);
        for &number in self.taken.numbers() {
            over.entry(number)
                .or_default()
                .push(self.scenario.id().to_owned());
        }
    }
}

/// Runs a test on this number of freshly installed clusters, and deletes its upgrade in the end. Does nothing where the real
/// data may be missing. A failure is printed with its details.
pub async fn play(
    count: usize,
    rank: Rank,
    setups: &[Value],
    test: impl AsyncFnOnce(&Turn) -> Result<()>,
) -> Result<()> {
    // Before the fleet starts, so that all who will wait are known.
    let place = QUEUE.enter(count, rank);
    let fleet = FLEET
        .get_or_try_init(|| TestHub::outliving(Fleet::start))
        .await?
        .as_ref();
    let Some(fleet) = fleet else { return Ok(()) };
    let taken = place.take().await;
    fleet.recover().await?;
    let begun = Instant::now();
    let turn = Turn::new(fleet, taken).await?;
    let played = AssertUnwindSafe(async {
        turn.install(setups).await?;
        let ready = begun.elapsed();
        test(&turn).await?;
        turn.clear().await?;
        let names = turn.names().join(" ");
        eprintln!("{:?} on {names}, ready after {ready:.0?}", begun.elapsed());
        anyhow::Ok(())
    });
    match played.catch_unwind().await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            let error = format!("{error:#}");
            let known = error.contains(" changes, ");
            bail!("{error}\n{}", explain(&turn, known).await)
        }
        Err(panic) => {
            eprintln!("{}\n{}", said(panic.as_ref()), explain(&turn, false).await);
            resume_unwind(panic)
        }
    }
}

/// On the whole fleet.
pub async fn whole(setups: &[Value], test: impl AsyncFnOnce(&Turn) -> Result<()>) -> Result<()> {
    play(CLUSTERS.len(), Rank::Whole, setups, test).await
}

/// On some clusters of it.
pub async fn part(count: usize, setups: &[Value], test: impl AsyncFnOnce(&Turn) -> Result<()>) -> Result<()> {
    play(count, Rank::Part, setups, test).await
}

impl Fleet {
    async fn start() -> Result<Option<Self>> {
        let Some(data) = repository::data::directory("update-graph") else {
            return Ok(None);
        };
        let begun = Instant::now();
        let test_hub = TestHub::start(WorldOptions {
            audit: true,
            spokes: CLUSTERS,
            ..WorldOptions::default()
        })
        .await?;
        let hub = test_hub.hub();
        let service = UpdateService::start(hub.dir(), &data).await?;
        let spec = FleetSpec::named(CLUSTERS).in_set(SET).each(|cluster| {
            let name = cluster.name.clone();
            cluster.label("fleet/name", &name)
        });
        fleet::create(hub.client(), &spec).await?;
        let mut clusters = Vec::new();
        // One by one: the start of an API server takes all there is of a small machine.
        for (number, name) in CLUSTERS.iter().enumerate() {
            registration::set_lease_seconds(hub.client(), name, LEASE_SECONDS).await?;
            let features = if number == 0 {
                FeatureSet::TechPreview
            } else {
                FeatureSet::Default
            };
            let cluster = Cluster::start(hub, name, features).await;
            clusters.push(cluster.with_context(|| (*name).to_owned())?);
        }
        let fleet = Self {
            test_hub,
            clusters,
            payloads: graph::payloads(&data)?,
            service,
            controller: Mutex::default(),
        };
        fleet.start_controller().await?;
        eprintln!("the fleet started in {:.0?}", begun.elapsed());
        Ok(Some(fleet))
    }

    /// Brings back what a failed test left switched off on the hub.
    async fn recover(&self) -> Result<()> {
        let hub = self.test_hub.hub();
        if hub.api_server_pid().is_none() {
            hub.start_apiserver().await?;
        }
        if self.controller.lock().await.is_none() {
            self.start_controller().await?;
        }
        Ok(())
    }

    async fn start_controller(&self) -> Result<()> {
        let graph = format!("--update-graph={}", self.service.upstream());
        let flags = ["--leader-elect=false", "--agents-support-read-only", &graph];
        let controller = self.test_hub.controller("controller", &flags).await?;
        controller.ready().await?;
        *self.controller.lock().await = Some(controller);
        Ok(())
    }

    async fn kill_controller(&self) -> Result<()> {
        let controller = self.controller.lock().await.take();
        controller.context("no controller runs")?.kill().await
    }
}

impl Turn {
    async fn new(fleet: &'static Fleet, taken: Taken) -> Result<Self> {
        let names: Vec<&str> = taken.numbers().iter().map(|&number| CLUSTERS[number]).collect();
        Ok(Self {
            fleet,
            scenario: Scenario::over(&fleet.test_hub, SET, &names, WAIT_TIMEOUT).await?,
            taken,
        })
    }

    /// Its n-th cluster, from 1.
    pub fn cluster(&self, number: usize) -> &'static Cluster {
        &self.fleet.clusters[self.taken.numbers()[number - 1]]
    }

    /// Names of its clusters.
    pub fn names(&self) -> Vec<&'static str> {
        let numbers = self.taken.numbers().iter();
        numbers.map(|&number| CLUSTERS[number]).collect()
    }

    /// A namespace for upgrades of its clusters.
    pub const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Lets others have its n-th cluster, which its upgrade has completed.
    pub fn let_go(&self, number: usize) {
        self.taken.let_go(number - 1);
    }

    /// Installs its clusters anew, each with its setup, or the last one.
    async fn install(&self, setups: &[Value]) -> Result<()> {
        self.sweep().await?;
        let upstream = self.fleet.service.upstream();
        let installs = (1..=self.names().len()).map(|number| {
            let setup = setups.get(number - 1).or(setups.last());
            let mut setup = setup.cloned().unwrap_or_default();
            let version = setup["version"].as_str().unwrap_or_default();
            setup["image"] = json!(self.fleet.payloads.get(version));
            let (cluster, upstream) = (self.cluster(number), upstream.clone());
            async move { cluster.install(&upstream, &setup).await }
        });
        try_join_all(installs).await.map(drop)
    }

    /// Deletes what failed tests left of their upgrades on its clusters, and waits until their works are gone.
    async fn sweep(&self) -> Result<()> {
        let left: Vec<String> = {
            let mut over = OVER.lock().unwrap_or_else(PoisonError::into_inner);
            let numbers = self.taken.numbers().iter();
            numbers
                .filter_map(|number| over.remove(number))
                .flatten()
                .collect()
        };
        let hub = self.test_hub().hub();
        for namespace in left {
            hub.kubectl(&["delete", "managedclustersupgrades", "-n", &namespace, "--all"])
                .await?;
        }
        for number in 1..=self.names().len() {
            let cluster = self.cluster(number);
            cluster.recover().await?;
            let what = format!("{} has no works", cluster.name());
            wait_until(&what, WAIT_TIMEOUT, || async {
                let works = ["get", "manifestworks", "-n", cluster.name(), "-o", "name"];
                Ok(hub.kubectl(&works).await?.is_empty())
            })
            .await?;
        }
        Ok(())
    }

    /// The hub.
    pub fn test_hub(&self) -> &'static Arc<TestHub> {
        &self.fleet.test_hub
    }

    /// Kills the controller with SIGKILL and starts another.
    pub async fn restart_controller(&self) -> Result<()> {
        self.fleet.kill_controller().await?;
        self.fleet.start_controller().await
    }

    /// Deletes the upgrade, if there still is one, and waits until it and its works are gone.
    pub async fn clear(&self) -> Result<()> {
        let upgrade = self.scenario.up();
        if upgrade.now().is_ok() {
            upgrade.delete().await?;
        }
        upgrade.gone().await?;
        for number in 1..=self.names().len() {
            if self.taken.holds(number - 1) {
                for step in api::names::Step::ALL {
                    self.scenario.gone(number, step).await?;
                }
            }
        }
        Ok(())
    }
}

/// A cluster at this version in this channel, which updates at once, as far as its order of things allows.
pub fn at(version: &str, channel: &str) -> Value {
    json!({
        "version": version, "channel": channel, "durations": {
            "retrieve": "20s", "handover": "30s", "restart": "20s", "operators": 0.2,
            "drain": "30s", "write": "30s", "reboot": "1m", "installPlan": "20s", "install": "30s",
        },
    })
}

/// As [`at`], with the durations of a real cluster.
pub fn steadily(version: &str, channel: &str) -> Value {
    json!({"version": version, "channel": channel})
}

/// A spec's change: to this version in this channel.
pub fn to(version: &str, channel: &str) -> Value {
    json!({"clusterVersion": {"version": version, "channel": channel}})
}

/// A spec's change: how many at once, and how long the platform of each may take.
pub fn limits(clusters: usize, timeout: &str) -> Value {
    json!({"upgradeStrategy": {"maxConcurrency": clusters, "clusterUpgradeTimeout": timeout}})
}

/// Joins changes of a spec.
pub fn with(changes: &[Value]) -> Value {
    changes.iter().fold(json!({}), |mut all, change| {
        e2e::sample::join(&mut all, change);
        all
    })
}

/// An action of one Job that runs a shell command in a namespace that every cluster has.
pub fn job(name: &str, command: &str) -> Value {
    json!({"manifestWork": {"workload": {"manifests": [{
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
        "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [
            {"name": "main", "image": "tools", "command": ["/bin/bash", "-c", command]},
        ]}}},
    }]}}})
}
