//! Specs of upgrades, as far as rules depend on them.

use std::collections::BTreeSet;
use std::time::Duration;

use hub_sim::At as _;
use serde_json::Value;

use super::asked::{Asked, names};
use super::fields::{duration, text};
use super::limits::Limits;
use super::schedule::Control;

/// A spec of an upgrade, as far as rules depend on it.
#[derive(Clone, Debug, Default)]
pub(super) struct Generation {
    pub number: i64,
    /// When it came.
    pub since: Duration,
    pub max_concurrency: usize,
    /// Nothing may start: it is paused or invalid.
    pub is_shut: bool,
    pub is_invalid: bool,
    pub max_failures: Option<usize>,
    /// Those that are not left out.
    pub canaries: BTreeSet<String>,
    /// Clusters that are skipped or aborted, and those of them that are aborted.
    pub left_out: BTreeSet<String>,
    pub aborted: BTreeSet<String>,
    pub version: String,
    pub soak: Duration,
    pub limits: Limits,
    pub control: Control,
    /// What follows the release in each cluster.
    pub after: After,
    pub asked: Asked,
    /// All that it asks for of clusters: whatever an edit changes of that queues them again.
    pub asks: String,
    /// Its retries, if it is valid: none of an invalid one is carried out.
    pub retries: Vec<Retry>,
}

/// An entry of `spec.upgradeStrategy.retry`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Retry {
    pub id: String,
    /// The clusters that it is for; none: all.
    pub clusters: BTreeSet<String>,
    /// The reasons that it is for; none: any.
    pub reasons: BTreeSet<String>,
}

impl Retry {
    fn all_of(spec: &Value) -> Vec<Self> {
        let entries = spec.at("/upgradeStrategy/retry").and_then(Value::as_array);
        let entries = entries.into_iter().flatten();
        entries
            .map(|entry| Self {
                id: text(entry, "/id").to_owned(),
                clusters: names(entry, "/clusters", ""),
                reasons: names(entry, "/reasons", ""),
            })
            .collect()
    }

    /// Whether it is for a cluster that failed for this reason.
    pub(super) fn concerns(&self, cluster: &str, reason: &str) -> bool {
        let has = |names: &BTreeSet<String>, wanted: &str| names.is_empty() || names.contains(wanted);
        has(&self.clusters, cluster) && has(&self.reasons, reason)
    }
}

/// The steps that a spec asks for after the release.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct After {
    pub operators: bool,
    pub action: bool,
}

/// The fields of a spec that say what is asked for of clusters.
const ASKED: [&str; 4] = [
    "clusterVersion",
    "ocpOperators",
    "preUpgradeAction",
    "postUpgradeAction",
];

pub(super) fn names_in(selector: Option<&Value>) -> BTreeSet<String> {
    let expressions = selector.and_then(|selector| selector.at("/matchExpressions")?.as_array());
    let values = expressions
        .into_iter()
        .flatten()
        .filter_map(|one| one.get("values")?.as_array());
    values
        .flatten()
        .filter_map(Value::as_str)
        .map(ToOwned::to_owned)
        .collect()
}

/// Where a spec names its canaries.
pub(super) const CANARIES: &str = "/upgradeStrategy/canaryClusters/clusterSelector";

impl Generation {
    pub(super) fn of(value: &Value) -> Self {
        let spec = value.get("spec").unwrap_or(&Value::Null);
        let number = |pointer: &str| {
            spec.at(pointer)
                .and_then(Value::as_u64)
                .and_then(|n| usize::try_from(n).ok())
        };
        let flag = |pointer: &str| spec.at(pointer).and_then(Value::as_bool).unwrap_or_default();
        let aborted = names(spec, "/upgradeStrategy/abort", "cluster");
        let left_out = &names(spec, "/upgradeStrategy/skip", "cluster") | &aborted;
        Self {
            number: value
                .at("/metadata/generation")
                .and_then(Value::as_i64)
                .unwrap_or_default(),
            max_concurrency: number("/upgradeStrategy/maxConcurrency").unwrap_or(10),
            since: Duration::ZERO,
            // The only invalid spec of a run names one manifest twice.
            is_shut: flag("/paused") || is_invalid(spec),
            is_invalid: is_invalid(spec),
            max_failures: number("/upgradeStrategy/maxFailures"),
            canaries: &names_in(spec.at(CANARIES)) - &left_out,
            left_out,
            aborted,
            version: text(spec, "/clusterVersion/version").to_owned(),
            soak: duration(text(spec, "/upgradeStrategy/minSuccessTime")),
            limits: Limits::of(spec),
            control: Control::of(spec),
            after: After {
                operators: flag("/ocpOperators/approveAllUpgrades"),
                action: spec.get("postUpgradeAction").is_some(),
            },
            asked: Asked::of(spec),
            asks: ASKED
                .map(|field| spec.get(field).unwrap_or(&Value::Null).to_string())
                .join(" "),
            retries: if is_invalid(spec) {
                Vec::new()
            } else {
                Retry::all_of(spec)
            },
        }
    }
}

/// Whether one of the actions names a manifest twice.
fn is_invalid(spec: &Value) -> bool {
    ["preUpgradeAction", "postUpgradeAction"].iter().any(|action| {
        let manifests = spec
            .at(&format!("/{action}/manifestWork/workload/manifests"))
            .and_then(Value::as_array);
        let names: Vec<&str> = manifests
            .into_iter()
            .flatten()
            .map(|one| text(one, "/metadata/name"))
            .collect();
        names.iter().collect::<BTreeSet<_>>().len() < names.len()
    })
}
