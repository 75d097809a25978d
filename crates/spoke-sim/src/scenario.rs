//! Scenarios: which simulated cluster is installed with what, and which faults it has from the start.
//!
//! A scenario is a YAML file, and flags add rules to it. Selection is reproducible: it depends only on the seed and on the
//! cluster's name, labels and index.
//!
//! ```yaml
//! version: 4.11.9            # installed version of clusters whose ManagedCluster does not contain it
//! channel: stable-4.11
//! updates: [4.12.0]          # status.availableUpdates; every requested version is accepted nevertheless
//! rules:                     # in order, later ones override field by field
//! - match: {percent: 10}
//!   fault: slow=3
//! - match: {name: spoke-3}
//!   fault: "failing=Cluster operator network is not available"
//! - match: {labels: {env: prod}, index: [0, 1]}
//!   version: 4.11.20
//! jobs:
//! - {name: backup-*, duration: 5s, failPercent: 20}
//! ```

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::fault::{self, Faults, Simulator, parse_duration};
use crate::platform::JobRule;
use crate::seeded_rng::SeededRng;
use crate::work::wildcard;

/// A scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Scenario {
    /// Installed version.
    pub version: String,
    /// Channel at installation. If it is empty, the stable channel of the minor version.
    pub channel: String,
    /// `status.availableUpdates`.
    pub updates: Vec<String>,
    /// Exceptions for certain clusters.
    pub rules: Vec<Rule>,
    /// Durations and failures of certain Jobs.
    pub jobs: Vec<JobEntry>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            version: "4.11.9".to_owned(),
            channel: String::new(),
            updates: Vec::new(),
            rules: Vec::new(),
            jobs: Vec::new(),
        }
    }
}

/// One exception.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Rule {
    /// Which clusters.
    #[serde(rename = "match")]
    pub selector: Selector,
    /// Their faults, as [`Faults::parse`] reads them.
    #[serde(deserialize_with = "fault::read_for_agents")]
    pub fault: Option<Faults>,
    /// Their installed version.
    pub version: Option<String>,
    /// Their channel.
    pub channel: Option<String>,
    /// Their offered updates.
    pub updates: Option<Vec<String>>,
    /// False for clusters without the kinds of OpenShift.
    pub openshift: Option<bool>,
}

/// Selects clusters. All given parts must match. Without any part all clusters match.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Selector {
    /// Pattern for the name, in which `*` matches any characters.
    pub name: Option<String>,
    /// Labels of the ManagedCluster.
    pub labels: BTreeMap<String, String>,
    /// Positions in the sorted list of simulated clusters, from 0.
    #[serde(deserialize_with = "one_or_many")]
    pub index: Vec<usize>,
    /// Percentage of the clusters, 0 to 100, chosen at random by name.
    pub percent: Option<f64>,
}

/// Jobs of certain names.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobEntry {
    name: String,
    #[serde(default, deserialize_with = "duration")]
    duration: Option<Duration>,
    #[serde(default)]
    fail_percent: f64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(usize),
    Many(Vec<usize>),
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<usize>, D::Error> {
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(index) => vec![index],
        OneOrMany::Many(list) => list,
    })
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text)
        .map(Some)
        .ok_or_else(|| serde::de::Error::custom(format!("\"{text}\" is not a duration such as 30s")))
}

/// A scenario that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The YAML or its content is wrong.
    #[error("scenario: {0}")]
    Parse(String),
    /// A `--fault` flag is wrong.
    #[error(
        "--fault \"{0}\": expected SELECTOR:FAULT, where SELECTOR is one of name=PATTERN, label=KEY=VALUE, index=N, percent=P"
    )]
    Flag(String),
    /// The fault of a flag is wrong.
    #[error(transparent)]
    Fault(#[from] fault::FaultError),
}

impl FromStr for Scenario {
    type Err = ScenarioError;

    fn from_str(yaml: &str) -> Result<Self, ScenarioError> {
        if yaml.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_saphyr::from_str(yaml).map_err(|error| ScenarioError::Parse(error.to_string()))
    }
}

/// The properties of one cluster at the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Faults.
    pub faults: Faults,
    /// Installed version, if the scenario says so for this cluster.
    pub version: Option<String>,
    /// Channel.
    pub channel: Option<String>,
    /// Offered updates.
    pub updates: Vec<String>,
    /// Whether it is OpenShift.
    pub openshift: bool,
}

impl Scenario {
    /// Adds a rule that gives faults to the clusters of a selector.
    #[must_use]
    pub fn with(mut self, selector: Selector, faults: impl Into<Faults>) -> Self {
        self.rules.push(Rule {
            selector,
            fault: Some(faults.into()),
            ..Rule::default()
        });
        self
    }

    /// Adds a rule in the form `SELECTOR:FAULT`, for example `percent=10:slow=3`.
    ///
    /// # Errors
    /// The text is not of that form.
    pub fn add_flag(&mut self, text: &str) -> Result<(), ScenarioError> {
        let wrong = || ScenarioError::Flag(text.to_owned());
        let (selector, fault) = text.split_once(':').ok_or_else(wrong)?;
        let (by, value) = selector.split_once('=').ok_or_else(wrong)?;
        let mut selector = Selector::default();
        match by {
            "name" => selector.name = Some(value.to_owned()),
            "label" => {
                let (key, value) = value.split_once('=').ok_or_else(wrong)?;
                selector.labels.insert(key.to_owned(), value.to_owned());
            }
            "index" => selector.index.push(value.parse().map_err(|_| wrong())?),
            "percent" => selector.percent = Some(value.parse().map_err(|_| wrong())?),
            _ => return Err(wrong()),
        }
        self.rules.push(Rule {
            selector,
            fault: Some(Faults::parse(fault, Simulator::Agents)?),
            ..Rule::default()
        });
        Ok(())
    }

    /// The properties of a cluster.
    #[must_use]
    pub fn profile(
        &self,
        rng: SeededRng,
        name: &str,
        index: usize,
        labels: &BTreeMap<String, String>,
    ) -> Profile {
        let mut profile = Profile {
            faults: Faults::default(),
            version: None,
            channel: (!self.channel.is_empty()).then(|| self.channel.clone()),
            updates: self.updates.clone(),
            openshift: true,
        };
        for (n, rule) in self.rules.iter().enumerate() {
            let draw = rng.of(name).nth(n as u64).unit() * 100.0;
            if !rule.selector.matches(name, index, labels, draw) {
                continue;
            }
            if let Some(faults) = &rule.fault {
                profile.faults = faults.clone();
            }
            profile.version = rule.version.clone().or(profile.version);
            profile.channel = rule.channel.clone().or(profile.channel);
            profile.updates = rule.updates.clone().unwrap_or(profile.updates);
            profile.openshift = rule.openshift.unwrap_or(profile.openshift);
        }
        profile
    }

    /// The rules for Jobs.
    #[must_use]
    pub fn job_rules(&self) -> Vec<JobRule> {
        let rule = |job: &JobEntry| JobRule {
            name: job.name.clone(),
            duration: job.duration,
            fail_percent: job.fail_percent,
        };
        self.jobs.iter().map(rule).collect()
    }
}

impl Selector {
    /// Selects by a pattern for the name.
    #[must_use]
    pub fn name(pattern: &str) -> Self {
        Self {
            name: Some(pattern.to_owned()),
            ..Self::default()
        }
    }

    /// Selects by positions in the sorted list of simulated clusters.
    #[must_use]
    pub fn index(positions: &[usize]) -> Self {
        Self {
            index: positions.to_vec(),
            ..Self::default()
        }
    }

    /// Selects a percentage of the clusters, 0 to 100.
    #[must_use]
    pub fn percent(percent: f64) -> Self {
        Self {
            percent: Some(percent),
            ..Self::default()
        }
    }

    fn matches(&self, name: &str, index: usize, labels: &BTreeMap<String, String>, draw: f64) -> bool {
        self.name.as_ref().is_none_or(|pattern| wildcard(pattern, name))
            && self
                .labels
                .iter()
                .all(|(key, value)| labels.get(key) == Some(value))
            && (self.index.is_empty() || self.index.contains(&index))
            && self.percent.is_none_or(|percent| draw < percent)
    }
}

#[cfg(test)]
mod tests;
