//! One cluster of the fleet: its spoke, agents, Prometheus, and the platform that is simulated on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use chrono::{DateTime, Utc};
use e2e::{TestHub, program};
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use testenv::crds::FeatureSet;
use testenv::hub::wait_until;
use testenv::prometheus::{Constant, Scrape};
use testenv::{
    AgentOptions, Hub, Process, ProcessSpec, Prometheus, PrometheusSpec, RegistrationAgent, Spoke, SpokeSpec,
    Tool, fleet, klusterlet,
};

use crate::fleet_test::WAIT_TIMEOUT;
use crate::follow::{self, Follow};

/// Environment variable that names a binary to use as it is.
const BINARY: &str = "MCU_SPOKE_SIM";
/// Simulated seconds per second: an update of an hour takes eighteen.
const SPEED: u32 = 200;
/// The fault that holds an update at its last machines until it is taken away.
pub const HELD: &str = "drain-stuck=master";
/// The role by which OCM's agent may bind roles; without it, it may not even let itself write ClusterVersion.
const EXECUTION_ROLE: &str = "open-cluster-management:klusterlet-work:execution";

/// User of the work agent on its cluster.
pub fn work_account() -> String {
    format!(
        "system:serviceaccount:{}:{}",
        klusterlet::NAMESPACE,
        klusterlet::WORK_ACCOUNT
    )
}

/// Metrics that risks query, as the cluster's exporters would export them.
fn infrastructure(name: &str) -> Vec<Constant> {
    let provider = match name {
        "spoke1" => "Azure",
        "spoke2" => "AWS",
        // The third has no value: its exporter is down.
        _ => return Vec::new(),
    };
    vec![Constant::one(
        "cluster_infrastructure_provider",
        &[("_id", ""), ("type", provider)],
    )]
}

/// A cluster of the fleet.
pub struct Cluster {
    spoke: Spoke,
    prometheus: Prometheus,
    metrics: String,
    follow: Arc<Follow>,
    state: Mutex<State>,
}

/// What tests switch.
#[derive(Default)]
struct State {
    registration: Option<RegistrationAgent>,
    platform: Option<Process>,
    /// Number of times it was installed.
    installed: usize,
    /// The agent checks its objects less often than usual.
    slow_agent: bool,
    /// The agent's role that was taken away.
    role: Option<Value>,
}

impl Cluster {
    /// Starts spoke, agent and Prometheus; nothing is installed yet, and the hub gets no report.
    pub async fn start(hub: &Hub, name: &str, features: FeatureSet) -> Result<Self> {
        let spoke = Spoke::start(hub, &SpokeSpec::new(name, features).audited()).await?;
        let metrics = program::free_address()?;
        let prometheus = Prometheus::start(&PrometheusSpec {
            scrapes: vec![Scrape::cluster_version_operator(&metrics)],
            constants: infrastructure(name),
            rules: Vec::new(),
        })
        .await?;
        spoke.start_agent(&AgentOptions::default()).await?;
        let follow = Follow::start(&spoke.plane().kubeconfig().client().await?);
        Ok(Self {
            spoke,
            prometheus,
            metrics,
            follow,
            state: Mutex::default(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.spoke.name()
    }

    /// Its control plane and agent.
    pub const fn spoke(&self) -> &Spoke {
        &self.spoke
    }

    /// A client of its administrator that lives on the caller's runtime.
    pub async fn client(&self) -> Result<Client> {
        self.spoke.plane().kubeconfig().client().await
    }

    /// Starts or stops the heartbeat by which the hub knows that the cluster is there.
    pub async fn heartbeat(&self, on: bool) -> Result<()> {
        let (name, hub) = (self.name().to_owned(), self.spoke.hub_identity().clone());
        let spoke = self.spoke.plane().kubeconfig().clone();
        let agent = if on {
            // It outlives the test that starts it.
            let start = move || async move { RegistrationAgent::start(&name, &hub, &spoke).await };
            Some(TestHub::outliving(start).await?)
        } else {
            None
        };
        self.state().registration = agent;
        Ok(())
    }

    /// Brings back what a test left switched off: API server, agent and its rights, heartbeat.
    pub async fn recover(&self) -> Result<()> {
        if self.spoke.plane().api_server_pid().is_none() {
            self.spoke.plane().start_apiserver().await?;
        }
        if self.spoke.plane().pid_of(Tool::Work.binary()).is_none() {
            self.spoke.start_agent(&AgentOptions::default()).await?;
        } else if self.state().slow_agent {
            self.spoke.restart_agent(&AgentOptions::default()).await?;
        }
        self.state().slow_agent = false;
        self.allow().await?;
        if self.state().registration.is_none() {
            self.heartbeat(true).await?;
        }
        Ok(())
    }

    /// Sets how often the agent checks its objects, times up to 1.9, until the end of the test.
    pub async fn feedback_every(&self, period: Duration) -> Result<()> {
        self.state().slow_agent = true;
        let options = AgentOptions {
            status_sync_interval: period,
            ..AgentOptions::default()
        };
        self.spoke.restart_agent(&options).await
    }

    /// Takes the agent's execution role away, until the end of the test.
    pub async fn forbid(&self) -> Result<()> {
        let role = self
            .kubectl(&["get", "clusterrole", EXECUTION_ROLE, "-o", "json"])
            .await?;
        let role = e2e::sample::without_server_fields(&serde_json::from_str(&role)?);
        self.state().role = Some(role);
        self.kubectl(&["delete", "clusterrole", EXECUTION_ROLE]).await?;
        self.agent_may_bind(false).await
    }

    /// Gives the agent the binding that it makes for itself with a platform work, until that work goes.
    pub async fn bind_agent(&self) -> Result<()> {
        let account = format!(
            "--serviceaccount={}:{}",
            klusterlet::NAMESPACE,
            klusterlet::WORK_ACCOUNT
        );
        let bind = [
            "create",
            "clusterrolebinding",
            "admin-ocm",
            "--clusterrole=cluster-admin",
        ];
        self.kubectl(&[bind.as_slice(), &[account.as_str()]].concat())
            .await?;
        Ok(())
    }

    /// Gives it back, to an agent that remembers no failures: it waits longer after each, also for a later work of that name.
    async fn allow(&self) -> Result<()> {
        let Some(role) = self.state().role.take() else {
            return Ok(());
        };
        testenv::apply::apply_objects(&self.client().await?, &[role]).await?;
        self.agent_may_bind(true).await?;
        self.spoke.restart_agent(&AgentOptions::default()).await
    }

    /// The role is one of several that the controller-manager puts together, so its change takes a while.
    async fn agent_may_bind(&self, wanted: bool) -> Result<()> {
        let account = format!("--as={}", work_account());
        let asked = ["auth", "can-i", "create", "clusterrolebindings", &account];
        let what = format!("whether the agent of {} may bind roles is {wanted}", self.name());
        wait_until(&what, WAIT_TIMEOUT, || async {
            // The answer no is an exit code, too.
            Ok(self.kubectl(&asked).await.is_ok() == wanted)
        })
        .await
    }

    /// Installs the platform anew with this setup, and waits until it knows its updates and the hub knows its new ID.
    pub async fn install(&self, upstream: &str, setup: &Value) -> Result<()> {
        self.uninstall().await?;
        let id = self.new_id();
        let mut all = json!({"clusterId": id, "upstream": upstream, "jitter": 0.0});
        e2e::sample::merge(&mut all, setup);
        let dir = self.spoke.dir();
        let file = dir.join("platform.yaml");
        // JSON is YAML.
        std::fs::write(&file, all.to_string())?;
        let assets = self.spoke.plane().assets();
        let spec = ProcessSpec::new("platform", &program::binary("spoke-sim", BINARY).await?).args([
            "cluster".to_owned(),
            format!("--kubeconfig={}", self.spoke.plane().kubeconfig_path().display()),
            format!("--scenario={}", file.display()),
            format!("--speed={SPEED}"),
            format!("--prometheus={}", self.prometheus.url()),
            format!("--listen={}", self.metrics),
            format!("--kubectl={}", assets.path(Tool::Kubectl).display()),
        ]);
        self.state().platform = Some(Process::start(&spec, dir)?);
        self.version_until("installed", |version| {
            !condition(version, "RetrievedUpdates").is_empty()
        })
        .await?;
        let hub = self.spoke.hub_identity().client().await?;
        wait_until(
            &format!("the hub knows {} by {id}", self.name()),
            WAIT_TIMEOUT,
            || async {
                let cluster = fleet::managed_clusters(&hub).get(self.name()).await?;
                let claims = cluster.data["status"]["clusterClaims"].as_array();
                Ok(claims.is_some_and(|claims| claims.iter().any(|claim| claim["value"] == id)))
            },
        )
        .await
    }

    /// The ID of the next installation.
    fn new_id(&self) -> String {
        let mut state = self.state();
        state.installed += 1;
        fleet::cluster_id(&format!("{}-{}", self.name(), state.installed))
    }

    /// Ends the platform and takes its objects and everything of earlier upgrades away.
    async fn uninstall(&self) -> Result<()> {
        let platform = self.state().platform.take();
        if let Some(platform) = platform {
            platform.kill().await?;
        }
        let client = self.client().await?;
        for (group, version, kind) in [
            ("config.openshift.io", "v1", "ClusterVersion"),
            ("config.openshift.io", "v1", "ClusterOperator"),
            ("machineconfiguration.openshift.io", "v1", "MachineConfigPool"),
            ("operators.coreos.com", "v1alpha1", "Subscription"),
            ("operators.coreos.com", "v1alpha1", "InstallPlan"),
            ("operators.coreos.com", "v1alpha1", "ClusterServiceVersion"),
        ] {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            for object in all.list(&ListParams::default()).await? {
                let api = match &object.metadata.namespace {
                    Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                    None => all.clone(),
                };
                let name = object.metadata.name.unwrap_or_default();
                match api.delete(&name, &DeleteParams::default()).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    other => drop(other?),
                }
            }
        }
        for (namespace, map) in [
            ("openshift-config", "admin-acks"),
            ("openshift-config-managed", "admin-gates"),
        ] {
            self.kubectl(&["delete", "configmap", "-n", namespace, map, "--ignore-not-found"])
                .await?;
        }
        // What is waited for from here on is about the next one.
        let gone = self.follow.until(WAIT_TIMEOUT, Value::is_null).await;
        gone.map(drop)
            .with_context(|| format!("{} is not uninstalled", self.name()))
    }

    /// Sets what goes wrong with the platform; `none` for nothing.
    pub async fn fault(&self, fault: &str) -> Result<()> {
        let annotation = format!("spoke-sim.mcu/fault={fault}");
        self.kubectl(&[
            "annotate",
            "clusterversion",
            "version",
            "--overwrite",
            &annotation,
        ])
        .await?;
        Ok(())
    }

    /// Changes its ClusterVersion as its administrator does.
    pub async fn patch(&self, change: &Value) -> Result<()> {
        let change = change.to_string();
        self.kubectl(&[
            "patch",
            "clusterversion",
            "version",
            "--type=merge",
            "-p",
            &change,
        ])
        .await?;
        Ok(())
    }

    /// Runs kubectl as its administrator.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.spoke.plane().kubectl(args).await
    }

    /// The ClusterVersion as it is now.
    pub async fn version(&self) -> Result<Value> {
        let api = follow::api(self.client().await?);
        Ok(serde_json::to_value(api.get("version").await?)?)
    }

    /// Waits until the ClusterVersion is as it should be.
    pub async fn version_until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Result<Arc<Value>> {
        let found = self.follow.until(WAIT_TIMEOUT, holds).await;
        let Some(found) = found else {
            let exited = match &self.state().platform {
                Some(platform) => platform.exited()?,
                None => None,
            };
            let exited = exited.map_or(String::new(), |status| {
                format!(" (the platform ended with {status})")
            });
            bail!("{}: not within {WAIT_TIMEOUT:?}: {what}{exited}", self.name());
        };
        Ok(found)
    }

    /// What is known of its ClusterVersion.
    pub fn told(&self) -> String {
        self.follow.told()
    }

    /// Whether an object exists, by kubectl's words for it.
    pub async fn has(&self, object: &[&str]) -> Result<bool> {
        let mut args = vec!["get", "--ignore-not-found", "-o", "name"];
        args.extend(object);
        Ok(!self.kubectl(&args).await?.trim().is_empty())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// Status of a condition of an object; empty when it is absent.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    find(object, kind)
        .and_then(|condition| condition["status"].as_str())
        .unwrap_or_default()
}

/// Since when a condition has its status, by whole seconds.
pub fn since(object: &Value, kind: &str) -> Result<DateTime<Utc>> {
    let time = find(object, kind).and_then(|condition| condition["lastTransitionTime"].as_str());
    time.and_then(api::time::parse_rfc3339)
        .with_context(|| format!("no time of {kind}"))
}

/// Version and state of the newest entry of the history.
pub fn newest(version: &Value) -> (&str, &str) {
    let entry = &version["status"]["history"][0];
    (
        entry["version"].as_str().unwrap_or_default(),
        entry["state"].as_str().unwrap_or_default(),
    )
}

/// The versions of the history, the newest first.
pub fn history(version: &Value) -> Vec<&str> {
    let entries = version["status"]["history"].as_array();
    let versions = entries
        .into_iter()
        .flatten()
        .map(|entry| entry["version"].as_str());
    versions.map(Option::unwrap_or_default).collect()
}

/// Whether an update to this version has ended.
pub fn completed(target: &str) -> impl Fn(&Value) -> bool {
    let target = target.to_owned();
    move |version| newest(version) == (&target, "Completed")
}

/// Whether an update to this version is under way.
pub fn under_way(target: &str) -> impl Fn(&Value) -> bool {
    let target = target.to_owned();
    move |version| newest(version) == (&target, "Partial")
}
