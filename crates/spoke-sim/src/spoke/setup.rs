//! The scenario file of `spoke-sim cluster`: how a cluster is installed and how it behaves.
//!
//! ```yaml
//! version: 4.16.10
//! channel: stable-4.16
//! era: "4.20"                  # release line of the operator's behavior; that of the version if absent
//! masters: 3
//! workers: 2
//! durations: {retrieve: 1m, drain: 3m, reboot: 4m}
//! adminGates: {ack-4.16-api-removals-in-4.17: "Kubernetes 1.30 removes …"}
//! payloads:                    # images in addition to those of the update service's graph
//! - {version: 4.16.99, image: "quay.io/…@sha256:…"}
//! packages:                    # OLM's catalog
//! - {name: pipelines, channel: latest, versions: [pipelines.v1.14.0, pipelines.v1.15.0]}
//! subscriptions:
//! - {name: pipelines, namespace: openshift-operators, package: pipelines, approval: Manual}
//! faults: "degraded=network,50m; api-outage"
//! jobs:                        # what images without a command do
//! - {name: health-*, duration: 10s, failPercent: 100}
//! ```
//!
//! Durations are simulated time.

use std::collections::BTreeMap;
use std::str::FromStr;

use chrono::TimeDelta;
use clusterversion::types::Spec;
use clusterversion::{ClusterVersion, Era};
use cvo_model::validation::validate;
use serde::{Deserialize, Deserializer};

use crate::fault::{self, Faults, parse_duration};
use crate::scenario::ScenarioError;

/// A cluster and its behavior.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Setup {
    /// Installed version.
    pub version: String,
    /// Its payload. If it is empty, it is derived from the version.
    pub image: String,
    /// `spec.channel`. If it is absent, the stable channel of the minor version; if it is empty, none.
    pub channel: Option<String>,
    /// `spec.upstream`.
    pub upstream: String,
    /// `spec.clusterID`. If it is empty, a random one.
    pub cluster_id: String,
    /// Architecture of the payload, `amd64` or `Multi`.
    pub architecture: String,
    /// Release line of the operator's behavior, such as `4.20`, or `A` for 4.14, `B` for 4.18, `C` for 5.0. If it is absent, that
    /// of the running version.
    pub era: Option<String>,
    /// Control plane machines; 1 for a single node.
    pub masters: u32,
    /// Worker machines.
    pub workers: u32,
    /// How long things take.
    pub durations: Durations,
    /// Maximum deviation of durations, as a fraction of them.
    pub jitter: f64,
    /// `admin-gates`: the gates of this release.
    pub admin_gates: BTreeMap<String, String>,
    /// Payloads that exist in addition to those of the update service.
    pub payloads: Vec<Payload>,
    /// OLM's catalog.
    pub packages: Vec<Package>,
    /// Subscriptions installed with the cluster.
    pub subscriptions: Vec<Subscription>,
    /// The faults.
    #[serde(deserialize_with = "fault::read_for_cluster")]
    pub faults: Faults,
    /// What containers without a command do, by the name of their Job or pod.
    pub jobs: Vec<Image>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            version: "4.16.10".to_owned(),
            image: String::new(),
            channel: None,
            upstream: String::new(),
            cluster_id: String::new(),
            architecture: "amd64".to_owned(),
            era: None,
            masters: 3,
            workers: 2,
            durations: Durations::default(),
            jitter: 0.1,
            admin_gates: BTreeMap::new(),
            payloads: Vec::new(),
            packages: Vec::new(),
            subscriptions: Vec::new(),
            faults: Faults::default(),
            jobs: Vec::new(),
        }
    }
}

/// How long things take, in simulated time. The defaults are those of a quiet cluster in a cloud.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Durations {
    /// Time from a request to the loaded payload.
    #[serde(deserialize_with = "span")]
    pub retrieve: TimeDelta,
    /// Time from the acceptance of a release until its operator replaces the running one.
    #[serde(deserialize_with = "span")]
    pub handover: TimeDelta,
    /// How long the cluster-version operator is away when it is replaced.
    #[serde(deserialize_with = "span")]
    pub restart: TimeDelta,
    /// Factor on the duration of every operator's update (see [`crate::run_levels`]).
    pub operators: f64,
    /// Draining a machine.
    #[serde(deserialize_with = "span")]
    pub drain: TimeDelta,
    /// Writing its system.
    #[serde(deserialize_with = "span")]
    pub write: TimeDelta,
    /// Rebooting it.
    #[serde(deserialize_with = "span")]
    pub reboot: TimeDelta,
    /// Time from a new version in the catalog to its InstallPlan.
    #[serde(deserialize_with = "span")]
    pub install_plan: TimeDelta,
    /// Installing an approved InstallPlan.
    #[serde(deserialize_with = "span")]
    pub install: TimeDelta,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            retrieve: TimeDelta::seconds(45),
            handover: TimeDelta::seconds(90),
            restart: TimeDelta::seconds(60),
            operators: 1.0,
            drain: TimeDelta::minutes(2),
            write: TimeDelta::minutes(2),
            reboot: TimeDelta::minutes(4),
            install_plan: TimeDelta::seconds(30),
            install: TimeDelta::minutes(2),
        }
    }
}

/// A release image that exists.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Payload {
    /// Version inside the image.
    pub version: String,
    /// Pull specification.
    pub image: String,
    /// `metadata.url` of the release.
    #[serde(default)]
    pub url: String,
    /// Architecture, if it is not that of the cluster.
    #[serde(default)]
    pub architecture: Option<String>,
    /// Whether it is not signed.
    #[serde(default)]
    pub unsigned: bool,
}

/// A package of OLM's catalog.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Package {
    /// Name of the package.
    pub name: String,
    /// Channel of these versions. If it is empty, they are in every channel.
    #[serde(default)]
    pub channel: String,
    /// Names of its `ClusterServiceVersions` in upgrade order. Each replaces the previous one.
    pub versions: Vec<String>,
    /// All but the first version are published when the platform has completed this version. If it is empty, they are published
    /// from the start.
    #[serde(default)]
    pub after_platform: String,
}

/// A Subscription that exists from the start, with the first version of its package installed.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subscription {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The package. If it is empty, it equals the name.
    #[serde(default)]
    pub package: String,
    /// The channel. If it is empty, it is that of the package.
    #[serde(default)]
    pub channel: String,
    /// `Manual` or `Automatic`.
    #[serde(default = "manual")]
    pub approval: String,
}

fn manual() -> String {
    "Manual".to_owned()
}

/// What a container without a command does. The entry point of its image cannot be run.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Image {
    /// Pattern for the name of the pod's Job, or of the pod.
    pub name: String,
    /// How long it runs, in wall-clock time.
    #[serde(default, deserialize_with = "wall")]
    pub duration: Option<std::time::Duration>,
    /// Percentage that fails, 0 to 100.
    #[serde(default)]
    pub fail_percent: f64,
}

fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TimeDelta, D::Error> {
    let text = String::deserialize(deserializer)?;
    if matches!(text.as_str(), "0" | "0s") {
        return Ok(TimeDelta::zero());
    }
    parse_duration(&text)
        .and_then(|span| TimeDelta::from_std(span).ok())
        .ok_or_else(|| serde::de::Error::custom(format!("\"{text}\" is not a duration such as 30s")))
}

fn wall<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<std::time::Duration>, D::Error> {
    span(deserializer).map(|span| span.to_std().ok())
}

impl FromStr for Setup {
    type Err = ScenarioError;

    fn from_str(yaml: &str) -> Result<Self, ScenarioError> {
        let setup: Self = if yaml.trim().is_empty() {
            Self::default()
        } else {
            serde_saphyr::from_str(yaml).map_err(|error| ScenarioError::Parse(error.to_string()))?
        };
        setup.check()?;
        Ok(setup)
    }
}

impl Setup {
    /// Refuses what cannot be simulated.
    ///
    /// # Errors
    /// A value is invalid, or refers to something that does not exist.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let wrong = |text: String| Err(ScenarioError::Parse(text));
        if semver::Version::parse(&self.version).is_err() {
            return wrong(format!("version: \"{}\" is not a semantic version", self.version));
        }
        if self.masters == 0 {
            return wrong("masters: expected at least 1".to_owned());
        }
        if let Some(era) = self.era.as_deref().filter(|era| line(era).is_none()) {
            return wrong(format!(
                "era: \"{era}\" is neither a release line such as 4.20 nor one of A, B and C"
            ));
        }
        let architectures = ["amd64", "arm64", "ppc64le", "s390x", "Multi"];
        if !architectures.contains(&self.architecture.as_str()) {
            return wrong(format!(
                "architecture: \"{}\" is none of {}",
                self.architecture,
                architectures.join(", ")
            ));
        }
        let spec = Spec {
            cluster_id: self.cluster_id.clone(),
            upstream: self.upstream.clone(),
            ..Spec::default()
        };
        if let Some(error) = validate(&ClusterVersion::new(spec), false).first() {
            return wrong(error.to_string());
        }
        for subscription in &self.subscriptions {
            if !matches!(subscription.approval.as_str(), "Manual" | "Automatic") {
                return wrong(format!(
                    "subscriptions: approval of {} is \"{}\", neither Manual nor Automatic",
                    subscription.name, subscription.approval
                ));
            }
        }
        if let Some(image) = self
            .jobs
            .iter()
            .find(|image| !(0.0..=100.0).contains(&image.fail_percent))
        {
            return wrong(format!(
                "jobs: failPercent of {} is not from 0 to 100",
                image.name
            ));
        }
        if !(0.0..1.0).contains(&self.jitter) {
            return wrong("jitter: expected a fraction from 0 to 1".to_owned());
        }
        if !(self.durations.operators.is_finite() && self.durations.operators >= 0.0) {
            return wrong("durations.operators: expected a factor".to_owned());
        }
        Ok(())
    }

    /// The release line of the operator's behavior, if it is fixed.
    #[must_use]
    pub fn fixed_era(&self) -> Option<Era> {
        self.era.as_deref().and_then(line)
    }

    /// The payload of the installed version.
    #[must_use]
    pub fn installed_image(&self) -> String {
        if self.image.is_empty() {
            crate::platform::cvo::payload(&self.version)
        } else {
            self.image.clone()
        }
    }

    /// `spec.channel` at installation.
    #[must_use]
    pub fn installed_channel(&self) -> String {
        self.channel.clone().unwrap_or_else(|| {
            let minor: Vec<&str> = self.version.split('.').take(2).collect();
            format!("stable-{}", minor.join("."))
        })
    }

    /// Whether the control plane is one machine.
    #[must_use]
    pub fn is_single_node(&self) -> bool {
        self.masters == 1 && self.workers == 0
    }
}

/// The release line that a text means.
fn line(era: &str) -> Option<Era> {
    match era {
        "A" => Some(Era::new(4, 14)),
        "B" => Some(Era::new(4, 18)),
        "C" => Some(Era::new(5, 0)),
        line => {
            let (major, minor) = line.split_once('.')?;
            Some(Era::new(major.parse().ok()?, minor.parse().ok()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::{Era, Setup};

    #[test]
    fn a_scenario_overrides_field_by_field() {
        let setup: Setup = "
version: 4.14.3
masters: 1
workers: 0
durations: {reboot: 12m, handover: 0s}
adminGates: {ack-4.14-x-in-4.15: 'read this'}
packages:
- {name: gitops, versions: [gitops.v1, gitops.v2], afterPlatform: 4.15.0}
subscriptions:
- {name: gitops, namespace: openshift-operators}
faults: [api-outage, 'degraded=etcd,1h']
"
        .parse()
        .unwrap();
        assert!(setup.is_single_node());
        assert_eq!(setup.installed_channel(), "stable-4.14");
        assert_eq!(setup.durations.reboot, TimeDelta::minutes(12));
        assert_eq!(setup.durations.handover, TimeDelta::zero());
        assert_eq!(setup.durations.drain, TimeDelta::minutes(2));
        assert_eq!(setup.subscriptions[0].approval, "Manual");
        assert_eq!(setup.faults.api_outage(), Some(TimeDelta::minutes(10)));
        assert!(setup.installed_image().contains("@sha256:"));
    }

    #[test]
    fn what_cannot_be_played_is_refused() {
        for yaml in [
            "version: latest",
            "masters: 0",
            "era: D",
            "jitter: 2",
            "durations: {drain: soon}",
            "durations: {operators: -1}",
            "faults: broken",
            "unknown: 1",
            "era: '4'",
            "architecture: sparc",
            "upstream: '://x'",
            "clusterId: abc",
            "faults: degraded=nosuchoperator",
            "faults: [slow=2, slow=3]",
            "subscriptions: [{name: a, namespace: b, approval: Sometimes}]",
            "jobs: [{name: a, failPercent: 900}]",
        ] {
            assert!(yaml.parse::<Setup>().is_err(), "{yaml}");
        }
        assert_eq!("".parse::<Setup>().unwrap().masters, 3);
        let era = |text: &str| format!("era: '{text}'").parse::<Setup>().unwrap().fixed_era();
        assert_eq!(era("B"), Some(Era::new(4, 18)));
        assert_eq!(era("4.20"), Some(Era::new(4, 20)));
    }
}
