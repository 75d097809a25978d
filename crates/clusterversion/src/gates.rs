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
mod tests {
    use super::*;

    const A: Era = Era::new(4, 12);
    const C: Era = Era::new(5, 0);

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_gate_name_has_a_version_and_a_text() {
        for (name, expected) in [
            ("ack-4.8-kube-1.22-api-removals-in-4.9", Some((4, 8))),
            ("ack-4.80-x", Some((4, 80))),
            ("ack-5.0-x", Some((5, 0))),
            ("ack-4.8-", None),
            ("ack-4.8--foo", None),
            ("ack-4.x--foo", None),
            ("ack-3.8-x", None),
            ("ack-4-x", None),
            ("ack-4.-x", None),
            ("ack-14.8-x", None),
            ("nack-4.8-x", None),
            ("", None),
        ] {
            assert_eq!(gate_version(name), expected, "{name:?}");
        }
    }

    #[test]
    fn a_gate_stands_until_it_is_acknowledged_by_exactly_true() {
        let gates = map(&[("ack-4.12-kube", "Read this.")]);
        for (value, acknowledged) in [
            (Some("true"), true),
            (Some("True"), false),
            (Some("true "), false),
            (Some("yes"), false),
            (Some(""), false),
            (None, false),
        ] {
            let acks = value
                .map(|value| map(&[("ack-4.12-kube", value)]))
                .unwrap_or_default();
            let standing = unacknowledged(&gates, &acks, "4.12.16", A);
            assert_eq!(standing.is_empty(), acknowledged, "{value:?}");
        }
    }

    #[test]
    fn gates_apply_by_minor_version_and_later_by_major_as_well() {
        let gates = map(&[("ack-4.8-a", "A"), ("ack-4.80-b", "B"), ("ack-5.8-c", "C")]);
        let standing = |current, era| {
            let all = unacknowledged(&gates, &BTreeMap::new(), current, era);
            all.into_iter().map(|gate| gate.message).collect::<Vec<_>>()
        };
        assert_eq!(standing("4.8.3", A), ["A", "C"]);
        assert_eq!(standing("4.80.0", A), ["B"]);
        assert_eq!(standing("5.8.0", C), ["C"]);
        assert_eq!(standing("4.9.0", A), Vec::<String>::new());
        assert_eq!(standing("nightly", A), Vec::<String>::new());
    }

    #[test]
    fn malformed_gates_are_told_with_the_shipped_text() {
        let gates = map(&[("ack-4.x--foo", "t"), ("ack-4.12-empty", "")]);
        let standing = |era| unacknowledged(&gates, &BTreeMap::new(), "4.12.1", era);
        assert_eq!(
            standing(A)
                .iter()
                .map(|gate| (gate.reason, gate.message.as_str()))
                .collect::<Vec<_>>(),
            [
                (
                    "AdminAckConfigMapGateValueError",
                    "admin-gates configmap gate ack-4.12-empty must contain a non-empty value."
                ),
                (
                    "AdminAckConfigMapGateNameError",
                    "admin-gates configmap gate name ack-4.x--foo has invalid format; must comply with \"^ack-[4-5][.]([0-9]{1,})-[^-]\"."
                ),
            ]
        );
    }
}
