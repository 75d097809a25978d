//! Admin gates and their acknowledgments: which gates apply to a version, and which are not acknowledged
//! (`docs/design/cvo.md#gates`).

use std::collections::BTreeMap;

use crate::era::Era;
use crate::version;

/// Namespace and name of the `ConfigMap` of gates.
pub const GATES: (&str, &str) = ("openshift-config-managed", "admin-gates");
/// Namespace and name of the `ConfigMap` of acknowledgments.
pub const ACKS: (&str, &str) = ("openshift-config", "admin-acks");

/// Pattern of gate names up to 4.22, as messages quote it.
const PATTERN: &str = "^ack-[4-5][.]([0-9]{1,})-[^-]";
/// Pattern of gate names from 4.23 on.
const PATTERN_WITH_MAJOR: &str = "^ack-([4-5][.][0-9]{1,})-[^-]";

/// A `ConfigMap` as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigMap {
    /// Its data.
    Found(BTreeMap<String, String>),
    /// It does not exist.
    Missing,
    /// It cannot be read, because of this error.
    Unreadable(String),
}

impl ConfigMap {
    /// A `ConfigMap` with these keys and values.
    pub fn of<K: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        Self::Found(
            pairs
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        )
    }

    /// The data, if it was read.
    #[must_use]
    pub const fn data(&self) -> Option<&BTreeMap<String, String>> {
        match self {
            Self::Found(data) => Some(data),
            Self::Missing | Self::Unreadable(_) => None,
        }
    }
}

/// The major and minor version of a gate's name; `None` when it is malformed.
#[must_use]
pub fn gate_version(name: &str) -> Option<(u64, u64)> {
    let rest = name.strip_prefix("ack-")?;
    let (major, rest) = rest.split_once('.')?;
    let (minor, rest) = rest.split_once('-')?;
    let digits = !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit());
    let named = rest.chars().next().is_some_and(|first| first != '-');
    let major = match major {
        "4" => 4,
        "5" => 5,
        _ => return None,
    };
    (digits && named)
        .then(|| minor.parse().ok().map(|minor| (major, minor)))
        .flatten()
}

/// Whether a gate applies while a version runs: by its minor version alone up to 4.22, by both later.
fn applies(gate: (u64, u64), current: &str, era: Era) -> bool {
    let current = version::parse(current).map(|version| (version.major(), version.minor()));
    current.is_some_and(|current| {
        if era.has_risk_sources() {
            gate == current
        } else {
            gate.1 == current.1
        }
    })
}

/// Whether a gate belongs to another version than the one that runs. A malformed name belongs to none, and counts everywhere.
pub(crate) fn is_of_another_version(name: &str, current: &str) -> bool {
    let gate = gate_version(name).filter(|_| version::parse(current).is_some());
    gate.is_some_and(|gate| !applies(gate, current, Era::of(current)))
}

/// A gate that blocks updates to another minor version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnacknowledgedGate {
    /// Reason of Upgradeable, as up to 4.22.
    pub reason: &'static str,
    /// The text of the gate, or what is wrong with the gate.
    pub message: String,
    /// The key of the gate.
    pub key: String,
}

/// The gates that apply to the current version and are not acknowledged, in the order of their keys. Only the value `true`
/// acknowledges a gate.
#[must_use]
pub fn unacknowledged(
    gates: &BTreeMap<String, String>,
    acks: &BTreeMap<String, String>,
    current: &str,
    era: Era,
) -> Vec<UnacknowledgedGate> {
    let mut found = Vec::new();
    for (key, text) in gates {
        let mut add = |reason, message: String| {
            found.push(UnacknowledgedGate {
                reason,
                message,
                key: key.clone(),
            });
        };
        match gate_version(key) {
            None => add("AdminAckConfigMapGateNameError", malformed(key, era)),
            Some(gate) if !applies(gate, current, era) => {}
            Some(_) if text.is_empty() => add(
                "AdminAckConfigMapGateValueError",
                format!("admin-gates configmap gate {key} must contain a non-empty value."),
            ),
            Some(_) if acks.get(key).is_some_and(|value| value == "true") => {}
            Some(_) => add("AdminAckRequired", text.clone()),
        }
    }
    found
}

fn malformed(key: &str, era: Era) -> String {
    if era.has_risk_sources() {
        format!(
            "admin-gates configmap gate {key:?} is invalid: admin-gates configmap gate name {key} has invalid format; must comply with {PATTERN_WITH_MAJOR:?}"
        )
    } else {
        format!("admin-gates configmap gate name {key} has invalid format; must comply with {PATTERN:?}.")
    }
}

#[cfg(test)]
mod tests;
