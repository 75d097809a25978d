//! The command line of `mcu-controller`.
//!
//! Defines every flag with its default, unit and help, and derives the client configuration from them.
//! Contradicting values are rejected at startup.

#![expect(
    clippy::doc_markdown,
    reason = "comments on flags are the help text, where backticks would show"
)]

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Parser};
use http::header::{HeaderValue, USER_AGENT};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use resolve::works::{SpokeRbac, WorkFlags};
use telemetry::listen::ListenAddr;
use telemetry::logs::{self, Format};
use update_graph::Arch;

use crate::graphs::Graphs;
use crate::lease;
use crate::sources::Sources;

/// Namespace of the Lease if neither a flag nor the environment names one.
const DEFAULT_NAMESPACE: &str = "mcu-system";
/// Time limit for connecting to the API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be silent. A healthy watch is never silent for this long.
const READ_TIMEOUT: Duration = Duration::from_mins(1);
/// Time limit for a single write to the connection.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Upgrades fleets of OpenShift clusters from an Open Cluster Management hub.
///
/// Watches ManagedClustersUpgrades and carries them out by creating ManifestWorks. Every replica watches, but
/// only the replica that holds the Lease writes. Durations are written like 500ms, 30s, 20m or 3h.
#[derive(Clone, Debug, Parser)]
#[command(name = "mcu-controller", version, max_term_width = 100)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Flags {
    /// Kubeconfig file of the hub. Default: the files in KUBECONFIG, then ~/.kube/config, then the pod's
    /// service account.
    #[arg(long, value_name = "FILE", help_heading = "Hub")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig. Default: the current context.
    #[arg(long, value_name = "NAME", help_heading = "Hub")]
    pub context: Option<String>,

    /// Process only upgrades in this namespace; may be repeated. Default: all namespaces.
    #[arg(long = "watch-namespace", value_name = "NAMESPACE", help_heading = "Hub")]
    pub watch_namespaces: Vec<String>,

    /// Largest number of concurrent writes to the hub.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = parse_concurrency, help_heading = "Hub")]
    pub write_concurrency: usize,

    /// Acquire the Lease before writing. Disable this only if a single replica runs.
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1,
          require_equals = true, action = ArgAction::Set, help_heading = "Leader election")]
    pub leader_elect: bool,

    /// Namespace of the Lease. Default: the namespace of the pod or of the kubeconfig's context, or else
    /// mcu-system.
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "POD_NAMESPACE",
        help_heading = "Leader election"
    )]
    pub lease_namespace: Option<String>,

    /// Name of the Lease.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "mcu-controller",
        help_heading = "Leader election"
    )]
    pub lease_name: String,

    /// How long a new leader waits after the old leader has stopped renewing the Lease; whole seconds.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = humantime::parse_duration,
          help_heading = "Leader election")]
    pub lease_duration: Duration,

    /// How long a leader that cannot renew the Lease keeps writing; must be shorter than the lease duration.
    /// Default: two thirds of the lease duration.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, help_heading = "Leader election")]
    pub lease_renew_deadline: Option<Duration>,

    /// Pause between attempts to acquire or renew the Lease after a failure. Default: two fifteenths of the
    /// lease duration.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, help_heading = "Leader election")]
    pub lease_retry_period: Option<Duration>,

    /// How the work agent gets the permission to write ClusterVersion: admin-ocm creates a ClusterRoleBinding
    /// to cluster-admin, aggregate creates a least-privilege ClusterRole that is aggregated into the agent's
    /// role, none creates nothing because the clusters are prepared. All manifests that install the controller set
    /// aggregate, and a controller that is started by hand should, too.
    #[arg(long, value_name = "MODE", default_value = "admin-ocm", value_parser = spoke_rbac_parser(),
          help_heading = "Clusters")]
    pub spoke_rbac: SpokeRbac,

    /// Service account of the work agent on the clusters, the subject of the ClusterRoleBinding admin-ocm.
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "open-cluster-management-agent/klusterlet-work-sa",
        help_heading = "Clusters"
    )]
    pub agent_service_account: ServiceAccount,

    /// Image of the Job that approves InstallPlans; it must contain bash and oc.
    #[arg(
        long,
        value_name = "IMAGE",
        env = "MCU_APPROVER_IMAGE",
        default_value = "registry.redhat.io/openshift4/ose-cli:latest",
        help_heading = "Clusters"
    )]
    pub approver_image: String,

    /// Extra time for the operators step, in addition to operatorsUpgradeTimeout and the 90 s of the Job.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration,
          help_heading = "Clusters")]
    pub operators_grace: Duration,

    /// Select clusters only from ManagedClusterSets that are bound to the namespace of the upgrade
    /// (clusterSelector) or of the Placement. If disabled, every author of an upgrade can select every
    /// cluster of the hub.
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1,
          require_equals = true, action = ArgAction::Set, help_heading = "Clusters")]
    pub require_set_bindings: bool,

    /// Also upgrade the hub if a selector names it. The author of the upgrade also needs the verb upgrade on
    /// managedclusters/local-cluster, which the shipped admission policy checks. If disabled, the hub is
    /// never upgraded.
    #[arg(long, value_name = "BOOL", env = "MCU_ALLOW_HUB", default_value_t = false, default_missing_value = "true",
          num_args = 0..=1, require_equals = true, action = ArgAction::Set, help_heading = "Clusters")]
    pub allow_hub: bool,

    /// All work agents are of OCM v0.14 or newer (multicluster engine 2.7), so that they can read objects without writing
    /// them, which spec.preflight needs. An older agent panics on such a work and never answers, so without this flag only clusters are asked whose
    /// label cluster.open-cluster-management.io/work-agent-version says that their agent is new enough.
    #[arg(long, value_name = "BOOL", env = "MCU_AGENTS_SUPPORT_READ_ONLY", default_value_t = false,
          default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set,
          help_heading = "Clusters")]
    pub agents_support_read_only: bool,

    /// How many clusters an upgrade with spec.preflight asks in a second.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000),
          help_heading = "Clusters")]
    pub preflight_rate: u32,

    /// Update graph that tells which updates are served in channels that clusters do not evaluate: the address of an
    /// update service, as in spec.upstream of a ClusterVersion, or a file with a served graph of all channels.
    /// spec.preflight uses it where setChannel is not set.
    #[arg(
        long,
        value_name = "URL|FILE",
        env = "MCU_UPDATE_GRAPH",
        help_heading = "Clusters"
    )]
    pub update_graph: Option<String>,

    /// Architecture of the clusters, as the update graph has it: amd64, arm64, ppc64le, s390x or multi.
    #[arg(long, value_name = "ARCH", default_value = "amd64", help_heading = "Clusters")]
    pub update_graph_arch: Arch,

    /// PEM file with certificates that are trusted for the update graph in addition to the system's.
    #[arg(long, value_name = "FILE", help_heading = "Clusters")]
    pub update_graph_ca: Option<PathBuf>,

    /// Be ready only while the hub enforces the admission policies of this release. Without them, others may write
    /// objects that the controller trusts. If disabled, /readyz only warns.
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1,
          require_equals = true, action = ArgAction::Set, help_heading = "Telemetry")]
    pub require_admission_policies: bool,

    /// Address for metrics, health and log level: HOST:PORT, or :PORT for all interfaces. Port 0 picks a free
    /// port, which the log reports.
    #[arg(
        long,
        value_name = "ADDR",
        default_value = ":8080",
        help_heading = "Telemetry"
    )]
    pub listen: ListenAddr,

    /// Format of the log on standard error.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Text, help_heading = "Telemetry")]
    pub log_format: Format,

    /// Log filter: LEVEL or TARGET=LEVEL, separated by commas; levels are off, error, warn, info, debug,
    /// trace. PUT /log-level changes it at runtime.
    #[arg(long, value_name = "FILTER", env = "RUST_LOG", default_value = "info", value_parser = parse_filter,
          help_heading = "Telemetry")]
    pub log_level: String,
}

/// A service account on a spoke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl FromStr for ServiceAccount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = |part: &str| {
            !part.is_empty()
                && part.len() <= 253
                && part
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.')
        };
        match text.split_once('/') {
            Some((namespace, name)) if named(namespace) && named(name) => Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err("expected NAMESPACE/NAME".to_owned()),
        }
    }
}

impl Flags {
    /// The client configuration for the hub. Connecting, reading and writing have time limits. Failed
    /// requests are not repeated automatically (kube would repeat 429, 503 and 504 up to 15 times); every
    /// caller limits and repeats its own requests.
    ///
    /// # Errors
    /// Returns an error if no configuration is found or the named one cannot be read.
    pub async fn client_config(&self) -> anyhow::Result<kube::Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let mut config = if let Some(path) = &self.kubeconfig {
            let file =
                Kubeconfig::read_from(path).with_context(|| format!("kubeconfig {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(file, &options)
                .await
                .with_context(|| format!("kubeconfig {}", path.display()))?
        } else if let Some(merged) =
            present(&std::env::var_os("KUBECONFIG").unwrap_or_default()).context("KUBECONFIG")?
        {
            kube::Config::from_custom_kubeconfig(merged, &options)
                .await
                .context("KUBECONFIG")?
        } else if self.context.is_some() {
            kube::Config::from_kubeconfig(&options)
                .await
                .context("kubeconfig")?
        } else {
            kube::Config::infer().await.context(
                "no kubeconfig was found and the process does not run in a cluster; set --kubeconfig",
            )?
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        // Otherwise a request on an idle connection would only have the rest of the time limit.
        config.reset_reader_on_write = true;
        config.write_timeout = Some(WRITE_TIMEOUT);
        config.default_retry = false;
        let agent = concat!("mcu-controller/", env!("CARGO_PKG_VERSION"));
        config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
        Ok(config)
    }

    /// The configuration of the leader election. `default_namespace` is the namespace of the client
    /// configuration.
    ///
    /// # Errors
    /// Returns an error that names the durations that contradict each other.
    pub fn lease_config(&self, default_namespace: &str) -> Result<lease::Config, lease::BadTiming> {
        let duration = self.lease_duration;
        let timing = lease::Timing::new(
            duration,
            self.lease_renew_deadline.unwrap_or(duration * 2 / 3),
            self.lease_retry_period.unwrap_or(duration * 2 / 15),
        )?;
        let fallback = match default_namespace {
            "" | "default" => DEFAULT_NAMESPACE,
            named => named,
        };
        let namespace = self
            .lease_namespace
            .as_deref()
            .filter(|name| !name.is_empty())
            .unwrap_or(fallback)
            .to_owned();
        Ok(lease::Config {
            namespace,
            name: self.lease_name.clone(),
            identity: lease::identity(&Sources::system()),
            timing,
        })
    }

    /// The update graph of our own.
    ///
    /// # Errors
    /// Returns an error that names the flag whose value cannot be used.
    pub(crate) fn graphs(&self) -> anyhow::Result<Graphs> {
        let Some(named) = self.update_graph.as_deref().filter(|named| !named.is_empty()) else {
            return Ok(Graphs::default());
        };
        let ca = match &self.update_graph_ca {
            Some(path) => {
                std::fs::read(path).with_context(|| format!("--update-graph-ca {}", path.display()))?
            }
            None => Vec::new(),
        };
        Graphs::new(named, self.update_graph_arch.clone(), &ca).context("--update-graph")
    }

    /// The flags that affect works.
    #[must_use]
    pub fn work_flags(&self) -> WorkFlags {
        let ServiceAccount { namespace, name } = self.agent_service_account.clone();
        WorkFlags {
            spoke_rbac: self.spoke_rbac,
            agent_service_account: (namespace, name),
            approver_image: self.approver_image.clone(),
        }
    }
}

/// Merges the files in KUBECONFIG that exist. Like kubectl, it treats missing files as empty. `None` if no
/// file exists.
fn present(listed: &OsStr) -> Result<Option<Kubeconfig>, KubeconfigError> {
    let mut found: Option<Kubeconfig> = None;
    for file in std::env::split_paths(listed).filter(|file| !file.as_os_str().is_empty()) {
        let next = match Kubeconfig::read_from(file) {
            Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == ErrorKind::NotFound => continue,
            read => read?,
        };
        found = Some(found.unwrap_or_default().merge(next)?);
    }
    Ok(found)
}

fn spoke_rbac_parser() -> impl TypedValueParser<Value = SpokeRbac> {
    PossibleValuesParser::new(["admin-ocm", "aggregate", "none"]).map(|mode| match mode.as_str() {
        "aggregate" => SpokeRbac::Aggregate,
        "none" => SpokeRbac::None,
        _ => SpokeRbac::AdminOcm,
    })
}

fn parse_concurrency(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=1024) => Ok(number),
        _ => Err("expected a number from 1 to 1024".to_owned()),
    }
}

fn parse_filter(text: &str) -> Result<String, logs::BadFilter> {
    let text = logs::or_default(text);
    logs::parse(text).map(|_| text.to_owned())
}

#[cfg(test)]
mod tests;
