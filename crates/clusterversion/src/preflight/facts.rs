//! What is known of a cluster before its update.

use std::collections::BTreeMap;

use chrono::TimeDelta;

use crate::era::Era;
use crate::gates::{self, ConfigMap};
use crate::risks::{Exposure, exposures};
use crate::types::{
    ClusterOperatorCondition, ClusterVersion, ConditionStatus, ConditionalUpdate, FAILING, HistoryEntry,
    PROGRESSING, RETRIEVED_UPDATES, UPGRADEABLE,
};
use crate::updates::Acks;
use crate::{upgradeable, version};

/// A fact, or why it is not known.
pub type Fact<T> = Result<T, Missing>;

/// Why a fact is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Nothing current was reported yet.
    Pending,
    /// The cluster cannot be asked for it; the text says why.
    Unsupported(String),
    /// The agent may not read it; the text says what.
    Forbidden(String),
}

/// What is known of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The version that the cluster runs or is being updated to.
    pub current: Fact<String>,
    /// The channel of its ClusterVersion. It may be empty.
    pub channel: Fact<String>,
    /// The conditions that matter before an update.
    pub health: Fact<Health>,
    /// What the cluster offers of the planned version, in its present channel.
    pub offer: Fact<Offer>,
    /// The gates that are not acknowledged. Before a new major version those of other minor versions may be among them.
    pub gates: Fact<Vec<Gate>>,
    /// All gates that it has for the update, acknowledged or not.
    pub all_gates: Fact<Vec<Gate>>,
    /// The pools of its worker nodes.
    pub pools: Fact<Pools>,
    /// Whether it accepts risks by name in a request.
    pub accepts_risks: Fact<bool>,
    /// Its past updates, the newest first, without the installation. Nothing is judged by them.
    pub history: Fact<Vec<AppliedUpdate>>,
}

/// A past update of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedUpdate {
    /// The version before.
    pub from: String,
    /// The version after.
    pub to: String,
    /// How long it took.
    pub took: TimeDelta,
}

/// Conditions of a ClusterVersion. `None` means that the condition is not there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// Progressing.
    pub progressing: Option<ClusterOperatorCondition>,
    /// Failing.
    pub failing: Option<ClusterOperatorCondition>,
    /// `RetrievedUpdates`.
    pub retrieved: Option<ClusterOperatorCondition>,
    /// Upgradeable. A cluster without it can be upgraded.
    pub upgradeable: Option<ClusterOperatorCondition>,
    /// Whether Upgradeable=False blocks updates within the minor version as well.
    pub blocks_patch_updates: bool,
}

/// What a cluster offers of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The version is not among the updates.
    NotListed,
    /// The version is listed with several images.
    Ambiguous,
    /// The version is recommended. The image is empty if the version alone is enough for a request.
    Recommended {
        /// Pull specification by digest, or empty.
        image: String,
    },
    /// The version has risks, and is recommended all the same: none of them applies, or the present request of the cluster accepts those
    /// that do. The version alone is enough for a request.
    Cleared {
        /// Names of the risks, in the order in which the cluster lists them.
        risks: Vec<String>,
    },
    /// The version has risks. If the cluster does not recommend it, at least one of them applies.
    Conditional {
        /// Pull specification by digest. It may be empty.
        image: String,
        /// The risks of the version, in the order in which the cluster lists them.
        risks: Vec<OfferedRisk>,
    },
    /// The cluster does not recommend the version, so that a risk applies, and does not name a single one.
    NotRecommended,
}

/// A risk of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedRisk {
    /// Its name.
    pub name: String,
    /// What may happen.
    pub message: String,
    /// Whether it applies to the cluster; `None` if that is not known.
    pub applies: Option<bool>,
}

/// A gate that asks for an acknowledgment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Key of `ConfigMap` admin-acks.
    pub key: String,
    /// What is acknowledged by it.
    pub text: String,
}

/// The worker pools of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pools {
    /// The version of the machine-config operator that says so; empty if it does not tell it.
    pub version: String,
    /// The pools by state, as the operator tells it. States without pools are left out.
    pub groups: Vec<PoolGroup>,
    /// Whether pool `worker` is paused, even if its nodes are up to date. Clusters are asked for it only before their update.
    pub worker_is_paused: bool,
}

/// The pools that are in the same state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolGroup {
    /// Their state.
    pub state: PoolState,
    /// How many there are.
    pub count: usize,
    /// Names of up to two of them: the first and the last in the alphabet.
    pub names: Vec<String>,
}

/// The state of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// A node could not be updated.
    Degraded,
    /// The pool is paused, so its nodes are not updated.
    Paused,
    /// Some nodes are still to be updated, or the operator says something that is not known.
    Updating,
    /// All nodes run the latest configuration.
    Updated,
}

impl Facts {
    /// Facts of a cluster of which nothing is known, for the same reason each.
    #[must_use]
    pub fn missing(why: &Missing) -> Self {
        Self {
            current: Err(why.clone()),
            channel: Err(why.clone()),
            health: Err(why.clone()),
            offer: Err(why.clone()),
            gates: Err(why.clone()),
            all_gates: Err(why.clone()),
            pools: Err(why.clone()),
            accepts_risks: Err(why.clone()),
            history: Err(why.clone()),
        }
    }

    /// What a whole object tells of an update to `version`. It tells nothing of pools and feature gates.
    #[must_use]
    pub fn of(object: &ClusterVersion, acks: Acks<'_>, version: &str) -> Self {
        let desired = &object.status.desired.version;
        Self {
            current: if version::parse(desired).is_some() {
                Ok(desired.clone())
            } else {
                Err(Missing::Pending)
            },
            channel: Ok(object.spec.channel.clone()),
            health: Ok(Health::of(object)),
            offer: Ok(Offer::of(object, version)),
            gates: gates_of(object, acks),
            all_gates: all_gates(acks),
            pools: Err(Missing::Unsupported(
                "A ClusterVersion does not show the pools of the cluster".to_owned(),
            )),
            accepts_risks: Err(Missing::Unsupported(
                "A ClusterVersion does not show the feature gates of the cluster".to_owned(),
            )),
            history: Ok(AppliedUpdate::all(&object.status.history)),
        }
    }
}

impl AppliedUpdate {
    /// The updates between releases that were fully applied. The oldest one was installed, or was updated from a release that is not
    /// listed any more.
    fn all(history: &[HistoryEntry]) -> Vec<Self> {
        let completed = history.iter().filter(|entry| entry.is_completed());
        let times = completed.filter_map(|entry| {
            Some((
                entry.version.as_str(),
                entry.completion_time? - entry.started_time?,
            ))
        });
        Self::between(&times.collect::<Vec<_>>())
    }

    /// The updates between these releases, the newest first, each with the time that it took.
    pub(super) fn between(releases: &[(&str, TimeDelta)]) -> Vec<Self> {
        let pairs = releases.iter().zip(releases.iter().skip(1));
        let updates = pairs.map(|((to, took), (from, _))| Self {
            from: (*from).to_owned(),
            to: (*to).to_owned(),
            took: *took,
        });
        updates
            .filter(|update| update.took >= TimeDelta::zero())
            .collect()
    }
}

impl Health {
    fn of(object: &ClusterVersion) -> Self {
        let get = |kind| object.status.conditions.get(kind).cloned();
        Self {
            progressing: get(PROGRESSING),
            failing: get(FAILING),
            retrieved: get(RETRIEVED_UPDATES),
            upgradeable: get(UPGRADEABLE),
            blocks_patch_updates: upgradeable::blocks_patch_updates(object),
        }
    }
}

impl Offer {
    /// What an object offers of a version. For a conditional update only its condition decides, even if it is also in the list of
    /// available updates (`docs/design/cvo.md#which-updates-are-recommended`).
    #[must_use]
    pub fn of(object: &ClusterVersion, version: &str) -> Self {
        let status = &object.status;
        let conditional: Vec<&ConditionalUpdate> = status
            .conditional_updates
            .iter()
            .filter(|update| update.release.version == version)
            .collect();
        let mut images: Vec<&str> = conditional
            .iter()
            .map(|update| update.release.image.as_str())
            .collect();
        let listed = status.available_updates.iter();
        let listed: Vec<&str> = listed
            .filter(|release| release.version == version && !release.image.is_empty())
            .map(|release| release.image.as_str())
            .collect();
        images.extend(&listed);
        images.sort_unstable();
        images.dedup();
        match (images.as_slice(), conditional.as_slice()) {
            ([], _) => Self::NotListed,
            ([image], []) => {
                debug_assert!(listed.contains(image));
                Self::Recommended { image: String::new() }
            }
            ([image], [update]) => {
                Self::with_risks(update, image, listed.contains(image), Era::recorded(object))
            }
            _ => Self::Ambiguous,
        }
    }

    /// What a version with risks is if the cluster recommends it. The cluster finds a version only in the list of available updates.
    pub(super) fn recommended(image: &str, is_listed: bool, risks: impl Iterator<Item = String>) -> Self {
        let risks: Vec<String> = risks.collect();
        match (is_listed, risks.is_empty()) {
            (false, _) => Self::Recommended {
                image: image.to_owned(),
            },
            (true, true) => Self::Recommended { image: String::new() },
            (true, false) => Self::Cleared { risks },
        }
    }

    /// What a version with risks is by the status of its condition Recommended, if that is not True.
    ///
    /// Where the cluster does not recommend it, a risk applies. If none is named as applying, each may be the one, so all of them count
    /// as applying, and nobody accepts them as unknown ones.
    pub(super) fn by_status(status: &str, image: &str, mut risks: Vec<OfferedRisk>) -> Self {
        let is_named = risks.iter().any(|risk| risk.applies == Some(true));
        if status == "False" && !is_named {
            if risks.is_empty() {
                return Self::NotRecommended;
            }
            for risk in &mut risks {
                risk.applies = Some(true);
            }
        }
        Self::Conditional {
            image: image.to_owned(),
            risks,
        }
    }

    fn with_risks(update: &ConditionalUpdate, image: &str, is_listed: bool, era: Era) -> Self {
        let condition = update.recommended();
        if condition.is_some_and(ClusterOperatorCondition::is_true) {
            let names = update.risks.iter().map(|risk| risk.name.clone());
            return Self::recommended(image, is_listed, names);
        }
        let found = condition.and_then(|_| exposures(update, era)).unwrap_or_default();
        let applies =
            |exposure: Option<&Exposure>| exposure.and_then(|exposure| exposure.as_ref().ok().copied());
        let risks = update.risks.iter().enumerate().map(|(number, risk)| OfferedRisk {
            name: risk.name.clone(),
            message: risk.message.clone(),
            applies: applies(found.get(number)),
        });
        let status = condition.map_or("", |condition| condition.status.as_str());
        Self::by_status(status, image, risks.collect())
    }
}

fn forbidden((namespace, name): (&str, &str), error: &str) -> Missing {
    Missing::Forbidden(format!(
        "ConfigMap {name} of namespace {namespace} cannot be read: {error}"
    ))
}

/// The gates as the cluster stores them, and the acknowledgments.
fn stored(acks: Acks<'_>) -> Fact<(&BTreeMap<String, String>, &ConfigMap)> {
    let Some((gates, acks)) = acks else {
        return Err(Missing::Unsupported(
            "A ClusterVersion alone does not show the gates".to_owned(),
        ));
    };
    match gates {
        ConfigMap::Found(data) => Ok((data, acks)),
        ConfigMap::Missing => Err(Missing::Pending),
        ConfigMap::Unreadable(error) => Err(forbidden(gates::GATES, error)),
    }
}

fn all_gates(acks: Acks<'_>) -> Fact<Vec<Gate>> {
    let (gates, _) = stored(acks)?;
    let gates = gates.iter().map(|(key, text)| Gate {
        key: key.clone(),
        text: text.clone(),
    });
    Ok(gates.collect())
}

/// The gates that are not acknowledged. If admin-acks is missing, nothing is acknowledged.
fn gates_of(object: &ClusterVersion, acks: Acks<'_>) -> Fact<Vec<Gate>> {
    let (gates, acks) = stored(acks)?;
    let nothing = BTreeMap::new();
    let acks = match acks {
        ConfigMap::Found(data) => data,
        ConfigMap::Missing => &nothing,
        ConfigMap::Unreadable(error) => return Err(forbidden(gates::ACKS, error)),
    };
    let status = &object.status;
    let era = Era::of(&status.desired.version);
    let current = if era.has_risk_sources() {
        status.desired.version.as_str()
    } else {
        status.current_version()
    };
    if version::parse(current).is_none() {
        return Err(Missing::Pending);
    }
    let standing = gates::unacknowledged(gates, acks, current, era);
    Ok(standing
        .into_iter()
        .map(|gate| Gate {
            key: gate.key,
            text: gate.message,
        })
        .collect())
}

/// Whether a condition has a status.
pub(super) fn is(condition: Option<&ClusterOperatorCondition>, status: ConditionStatus) -> bool {
    condition.is_some_and(|condition| condition.status == status)
}
