//! A spoke: its own control plane beside the hub's, with OpenShift's kinds, OCM's roles and a real work agent.
//!
//! It has what an installed cluster has before its first update: the kinds of OpenShift, OLM and OCM's agents, the platform's
//! namespaces, and the klusterlet's account with the roles that OCM gives it. Its keys are in the hub's etcd under a separate
//! prefix. The platform itself is simulated by `spoke-sim cluster`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kube::Client;
use serde_json::{Value, json};

use crate::apply::apply_objects;
use crate::assets::Tool;
use crate::crds::{self, FeatureSet};
use crate::hub::{Controllers, Hub, HubBuilder, control_plane, wait_until};
use crate::klusterlet;
use crate::kubeconfig::HubKubeconfig;
use crate::process::{Process, Signal};

/// Namespaces that an OpenShift cluster is installed with, as far as updates, metrics and operators are about them.
const NAMESPACES: [&str; 7] = [
    "openshift-cluster-version",
    "openshift-config",
    "openshift-config-managed",
    "openshift-machine-config-operator",
    "openshift-marketplace",
    "openshift-monitoring",
    "openshift-operators",
];

/// Time limit for the aggregation of the role that bindings refer to.
const READY_TIMEOUT: Duration = Duration::from_mins(1);

/// User name of a cluster's agents on the hub.
#[must_use]
pub fn agent_user(cluster: &str) -> String {
    format!("system:open-cluster-management:{cluster}:agent")
}

impl HubBuilder {
    /// Adds the users that the agents of these clusters are on the hub: members of the cluster's group, to which OCM's
    /// registration controller binds its roles.
    #[must_use]
    pub fn agents_of(self, clusters: &[&str]) -> Self {
        clusters.iter().fold(self, |builder, cluster| {
            let group = format!("system:open-cluster-management:{cluster}");
            builder.user(&agent_user(cluster), &[&group])
        })
    }
}

/// How a work agent runs.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// Time between two checks of applied objects.
    pub status_sync_interval: Duration,
    /// Feature gates, `Name=true`.
    pub feature_gates: Vec<String>,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self {
            status_sync_interval: Duration::from_secs(1),
            feature_gates: Vec::new(),
        }
    }
}

/// What a spoke is.
#[derive(Debug, Clone)]
pub struct SpokeSpec {
    /// Name of the cluster.
    pub name: String,
    /// Which of OpenShift's kinds it serves.
    pub features: FeatureSet,
    /// What its controller-manager does.
    pub controllers: Controllers,
    /// Whether its API server writes an audit log.
    pub audit: bool,
}

impl SpokeSpec {
    /// A cluster with everything that its controller-manager does.
    #[must_use]
    pub fn new(name: &str, features: FeatureSet) -> Self {
        Self {
            name: name.to_owned(),
            features,
            controllers: Controllers::standard(),
            audit: false,
        }
    }

    /// Runs other controllers.
    #[must_use]
    pub fn controllers(mut self, controllers: Controllers) -> Self {
        self.controllers = controllers;
        self
    }

    /// Writes an audit log; see [`Hub::audit_log`].
    #[must_use]
    pub fn audited(mut self) -> Self {
        self.audit = true;
        self
    }
}

/// A running spoke. Dropping it kills its processes; the hub must outlive it.
#[derive(Debug)]
pub struct Spoke {
    name: String,
    plane: Hub,
    /// Kubeconfig of the agents' user on the hub.
    hub_kubeconfig: PathBuf,
    hub_identity: HubKubeconfig,
}

impl Spoke {
    /// Starts a spoke whose keys are in the hub's store; the hub was built with [`HubBuilder::agents_of`] its name.
    /// Returns when its kinds are served and OCM's roles are in force; no agent runs yet.
    ///
    /// # Errors
    /// The hub does not know the agents' user, a process is not ready in time, or an object is refused.
    pub async fn start(hub: &Hub, spec: &SpokeSpec) -> Result<Self> {
        let name = spec.name.as_str();
        let user = agent_user(name);
        let hub_identity = hub
            .kubeconfig_for_user(&user)
            .with_context(|| format!("the hub was started without {user}"))?;
        let mut builder = Hub::builder()
            .assets(hub.assets().clone())
            .beside(hub, &format!("/spokes/{name}"))
            .controller_manager(spec.controllers.clone());
        if spec.audit {
            builder = builder.audit();
        }
        let plane = builder.start().await.with_context(|| format!("spoke {name}"))?;
        let mut objects = crds::openshift_crds(spec.features).await?;
        objects.extend(crds::olm_crds().await?);
        objects.extend(crds::ocm_spoke_crds().await?);
        objects.extend(NAMESPACES.map(namespace));
        objects.extend(klusterlet::objects().await?);
        apply_objects(plane.client(), &objects).await?;
        let hub_kubeconfig = hub_identity.write(&plane.dir().join("hub.kubeconfig"))?;
        let spoke = Self {
            name: name.to_owned(),
            plane,
            hub_kubeconfig,
            hub_identity,
        };
        spoke.roles_in_force().await?;
        Ok(spoke)
    }

    /// Waits until the controller-manager has filled in `admin` and OCM's aggregated role.
    async fn roles_in_force(&self) -> Result<()> {
        let roles: kube::Api<k8s_openapi::api::rbac::v1::ClusterRole> =
            kube::Api::all(self.plane.client().clone());
        let aggregated = ["admin", "open-cluster-management:klusterlet-work:aggregate"];
        wait_until("aggregated roles", READY_TIMEOUT, || async {
            for name in aggregated {
                let role = roles.get(name).await?;
                if role.rules.unwrap_or_default().is_empty() {
                    return Ok(false);
                }
            }
            Ok(true)
        })
        .await
    }

    /// Name of the cluster.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its API server and controller-manager, with the ways to reach, stop and start them.
    #[must_use]
    pub const fn plane(&self) -> &Hub {
        &self.plane
    }

    /// A client of its administrator.
    #[must_use]
    pub fn client(&self) -> &Client {
        self.plane.client()
    }

    /// Where its logs are.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.plane.dir()
    }

    /// How its agents reach the hub.
    #[must_use]
    pub const fn hub_identity(&self) -> &HubKubeconfig {
        &self.hub_identity
    }

    /// Starts OCM's work agent with the klusterlet's account here and the agents' user on the hub; returns when it is
    /// healthy.
    ///
    /// # Errors
    /// It runs already, or is not healthy in time; the message ends with its log.
    pub async fn start_agent(&self, options: &AgentOptions) -> Result<()> {
        let name = Tool::Work.binary();
        if self.plane.pid_of(name).is_some() {
            bail!("the agent of {} runs already", self.name);
        }
        let own = self
            .plane
            .service_account_kubeconfig(klusterlet::NAMESPACE, klusterlet::WORK_ACCOUNT)
            .await?
            .write(&self.dir().join("work.kubeconfig"))?;
        let spec = control_plane::program(self.plane.assets(), self.dir(), Tool::Work).args(["agent"]);
        let (spec, probe) = control_plane::ocm(spec, &own, klusterlet::NAMESPACE)?;
        let mut spec = spec.env("GOGC", "100").args([
            "--workload-source-driver=kube".to_owned(),
            format!("--workload-source-config={}", self.hub_kubeconfig.display()),
            format!("--spoke-cluster-name={}", self.name),
            format!("--agent-id={}", self.name),
            format!("--status-sync-interval={:?}", options.status_sync_interval),
        ]);
        if !options.feature_gates.is_empty() {
            spec = spec.args([format!("--feature-gates={}", options.feature_gates.join(","))]);
        }
        self.plane.spawn(&spec)?;
        let what = format!("the work agent of {} is healthy", self.name);
        let healthy = wait_until(&what, READY_TIMEOUT, || async {
            let request = http::Request::get("/healthz").body(Vec::new())?;
            Ok(probe.request_text(request).await.is_ok())
        })
        .await;
        healthy.with_context(|| {
            let log = self.dir().join(format!("{name}.log"));
            format!("the end of its log:\n{}", crate::process::tail(&log, 15))
        })
    }

    /// Kills the work agent.
    ///
    /// # Errors
    /// It does not run, or cannot be killed.
    pub async fn stop_agent(&self) -> Result<()> {
        let agent = self.take(Tool::Work.binary())?;
        agent.kill().await.map(drop)
    }

    /// Takes one of its processes, to stop it or to send it a signal.
    ///
    /// # Errors
    /// It does not run.
    pub fn take(&self, process: &str) -> Result<Process> {
        self.plane
            .take(process)
            .with_context(|| format!("{process} of {} does not run", self.name))
    }

    /// Starts an agent again that was killed, with other options if need be.
    ///
    /// # Errors
    /// As [`Spoke::stop_agent`] and [`Spoke::start_agent`].
    pub async fn restart_agent(&self, options: &AgentOptions) -> Result<()> {
        let agent = self.take(Tool::Work.binary())?;
        agent.signal(Signal::Term)?;
        agent.kill().await?;
        self.start_agent(options).await
    }

    /// Stops everything and removes the directory; its keys go with the hub's store.
    ///
    /// # Errors
    /// A process cannot be killed.
    pub async fn stop(self) -> Result<()> {
        self.plane.stop().await
    }
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}
