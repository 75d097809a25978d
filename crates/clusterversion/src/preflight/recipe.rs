//! What a cluster is asked before its update, as rules for a work agent, and how the answers are read.
//!
//! Rules and readers stand side by side, so that the two cannot differ. The rules are `JSONPaths`, which every agent knows, and CEL
//! expressions, whose text becomes the message of a condition. Nothing that they export moves by itself: no clock, and lists in a
//! fixed order, because each change is a write to the hub. All texts that are read come from the cluster, so they are limited.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::facts::{AppliedUpdate, Fact, Gate, Missing, Offer, OfferedRisk};
use crate::feedback::ReportedValue;
use crate::version;

/// Condition of [`offer_rule`].
pub const OFFER: &str = "UpgradeOffer";
/// Condition of [`gates_rule`].
pub const GATES: &str = "UpgradeGates";
/// Condition of [`acks_rule`].
pub const ACKS: &str = "UpgradeAcks";
/// Condition of [`history_rule`].
pub const HISTORY: &str = "UpgradeHistory";
/// Condition of [`accept_rule`].
pub const ACCEPT: &str = "UpgradeAcceptRisks";
/// First line of the versions of [`accept_rule`].
const ACCEPT_HEAD: &str = "accept/1";
/// The feature gate by which a cluster accepts risks by name.
const ACCEPT_GATE: &str = "ClusterUpdateAcceptRisks";
/// First line of a history.
const HISTORY_HEAD: &str = "history/1";
/// How many past releases a cluster tells.
const MAX_RELEASES: usize = 9;
/// First line of an offer.
const OFFER_HEAD: &str = "offer/1";
/// First line of a list of keys.
const KEYS_HEAD: &str = "keys/1";
/// Maximum number of risks of one version that count.
const MAX_RISKS: usize = 64;
/// Maximum length of the text of a risk or a gate, in characters.
const MAX_TEXT: usize = 300;
/// How many keys of one minor version a cluster reports; the language of the rules cannot sort.
const MAX_KEYS: usize = 4;
/// The minor versions from which 5.0 may be reached (`docs/design/cvo.md#eras`).
const BEFORE_FIVE: [&str; 2] = ["ack-4.22-", "ack-4.23-"];
/// Longest name of a risk, in characters. A longer one cannot be accepted.
const MAX_NAME: usize = 256;

/// A condition rule of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Type of the condition.
    pub condition: &'static str,
    /// CEL expression of its message.
    pub message: String,
}

/// Name and JSONPath of each value of the ClusterVersion that is read in addition to [`crate::feedback::RULES`].
#[must_use]
pub fn paths(target: &str) -> Vec<(&'static str, String)> {
    let listed = format!(r#".status.availableUpdates[?(@.version=="{target}")].image"#);
    let conditional = format!(r#".status.conditionalUpdates[?(@.release.version=="{target}")]"#);
    vec![
        ("channel", ".spec.channel".to_owned()),
        ("overrides", ".spec.overrides[0].kind".to_owned()),
        (
            "progressing",
            r#".status.conditions[?(@.type=="Progressing")].status"#.to_owned(),
        ),
        ("targetImage", listed),
        ("targetRisksImage", format!("{conditional}.release.image")),
        (
            "targetRecommended",
            format!(r#"{conditional}.conditions[?(@.type=="Recommended")].status"#),
        ),
    ]
}

/// The rule of the ClusterVersion: what it offers of the target.
///
/// A risk applies if its text is in the message of condition Recommended, as the cluster-version operator writes it
/// (`docs/design/cvo.md#recommended-condition`).
#[must_use]
pub fn offer_rule(target: &str) -> Rule {
    let message = format!(
        r#"(["{OFFER_HEAD}"]
 + (has(object.status.availableUpdates) && object.status.availableUpdates != null
    ? object.status.availableUpdates.filter(u, u.version == "{target}").map(u, "listed " + u.image) : [])
 + (has(object.status.conditionalUpdates) && object.status.conditionalUpdates != null
    ? object.status.conditionalUpdates.filter(c, c.release.version == "{target}").map(c,
        "update " + (has(c.conditions) && c.conditions != null
            ? c.conditions.filter(k, k.type == "Recommended").map(k, k.status).join("") : "") + " " + c.release.image
        + "\n" + c.risks.map(r, "risk "
            + (!has(c.conditions) || c.conditions == null ? "U"
                : c.conditions.exists(k, k.type == "Recommended" && (k.message.contains("update risk " + r.name + " ")
                    || k.message.contains("Exposure to " + r.name + " is unknown"))) ? "U"
                : c.conditions.exists(k, k.type == "Recommended" && k.message.contains(r.message + " " + r.url)) ? "T" : "F")
            + " " + r.name + " " + [r.message.replace("\n", " ")].map(m, m.size() > {MAX_TEXT} ? m.substring(0, {MAX_TEXT}) : m)[0]).join("\n")) : [])
).join("\n")"#
    );
    Rule {
        condition: OFFER,
        message: one_line(&message),
    }
}

/// The rule of the ClusterVersion about its past: the newest releases that were fully applied, with their times. They change only
/// when an update ends.
#[must_use]
pub fn history_rule() -> Rule {
    let newest: Vec<String> = (0..MAX_RELEASES).map(|number| format!("l[{number}]")).collect();
    let message = format!(
        r#"(["{HISTORY_HEAD}"]
 + (has(object.status.history) && object.status.history != null
    ? [object.status.history.filter(h, h.state == "Completed" && has(h.completionTime) && h.completionTime != null)
        .map(h, h.version + " " + h.startedTime + " " + h.completionTime)].map(l, l.size() > {MAX_RELEASES} ? [{}] : l)[0]
    : [])).join("\n")"#,
        newest.join(", ")
    );
    Rule {
        condition: HISTORY,
        message: one_line(&message),
    }
}

/// The rule of `FeatureGate` cluster: the versions at which the cluster accepts risks by name.
#[must_use]
pub fn accept_rule() -> Rule {
    let message = format!(
        r#"(["{ACCEPT_HEAD}"]
 + (has(object.status) && has(object.status.featureGates) && object.status.featureGates != null
    ? object.status.featureGates.filter(f, has(f.enabled) && f.enabled != null && f.enabled.exists(e, e.name == "{ACCEPT_GATE}"))
        .map(f, "version " + f.version)
    : [])).join("\n")"#
    );
    Rule {
        condition: ACCEPT,
        message: one_line(&message),
    }
}

/// Reads the message of [`accept_rule`]: whether a cluster at this version accepts risks by name.
///
/// # Errors
/// It is not a message of the rule.
pub fn read_accept(message: &str, version: &str) -> Fact<bool> {
    let mut lines = message.lines();
    if lines.next() != Some(ACCEPT_HEAD) {
        return Err(unreadable(ACCEPT, message));
    }
    Ok(lines.any(|line| line.strip_prefix("version ") == Some(version)))
}

/// The rule of `ConfigMap` admin-gates: the gates of an update to `target`, with their texts. `None` if the target is not a version,
/// so that it is not known which gates belong to it.
#[must_use]
pub fn gates_rule(target: &str) -> Option<Rule> {
    let text = format!(
        r#"[string(object.data[k]).replace("\n", " ")].map(m, m.size() > {MAX_TEXT} ? m.substring(0, {MAX_TEXT}) : m)[0]"#
    );
    keys_rule(GATES, target, "true", &format!(r#"k + " " + {text}"#))
}

/// The rule of `ConfigMap` admin-acks: the acknowledged gates of an update to `target`.
#[must_use]
pub fn acks_rule(target: &str) -> Option<Rule> {
    keys_rule(ACKS, target, r#"object.data[k] == "true""#, "k")
}

/// Up to [`MAX_KEYS`] keys of a `ConfigMap` in their order, of each release line from which the target may be reached.
fn keys_rule(condition: &'static str, target: &str, counts: &str, line: &str) -> Option<Rule> {
    let lists = gate_prefixes(target)?;
    let lists: Vec<String> = lists.iter().map(|prefix| keys_of(prefix, counts, line)).collect();
    let message = format!(
        r#"(["{KEYS_HEAD}"] + (has(object.data) && object.data != null
  ? {}
  : [])).join("\n")"#,
        lists.join(" + ")
    );
    Some(Rule {
        condition,
        message: one_line(&message),
    })
}

/// The lines of the keys with this prefix.
fn keys_of(prefix: &str, counts: &str, line: &str) -> String {
    format!(
        r#"[object.data.map(k, k).filter(k, k.startsWith("{prefix}") && {counts})].map(l,
      (l.size() > 0 ? [l.min()] : [])
      + (l.size() > 1 ? [l.filter(k, k > l.min()).min()] : [])
      + (l.size() > 2 ? [l.filter(k, k > l.filter(j, j > l.min()).min()).min()] : [])
      + (l.size() > 3 ? [l.max()] : [])).map(l, l.map(k, "key " + {line}))[0]
    + (object.data.map(k, k).filter(k, k.startsWith("{prefix}") && {counts}).size() > {MAX_KEYS} ? ["more"] : [])"#
    )
}

/// What the gates of an update to another minor version begin with: one beginning for each minor version from which it may be reached. The
/// cluster-version operator keeps the gates of earlier ones in the map, where they count no more.
fn gate_prefixes(target: &str) -> Option<Vec<String>> {
    let target = version::parse(target)?;
    Some(match (target.major(), target.minor().checked_sub(1)) {
        // To a later 5 no cluster goes from another major version.
        (major, Some(minor)) => vec![format!("ack-{major}.{minor}-")],
        (5, None) => BEFORE_FIVE.map(str::to_owned).to_vec(),
        // Nobody knows yet which minor version is the last one before it.
        (major, None) => vec![format!("ack-{}.", major.checked_sub(1)?)],
    })
}

/// What the gates of an update to another minor version begin with, in one text. Before a new major version it has no minor version.
#[must_use]
pub fn gate_prefix(target: &str) -> Option<String> {
    let mut prefixes = gate_prefixes(target)?;
    if prefixes.len() == 1 {
        return prefixes.pop();
    }
    let major = version::parse(target)?.major().checked_sub(1)?;
    Some(format!("ack-{major}."))
}

/// The text of an expression on one line.
pub(super) fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join(" ")
}

/// Reads the message of [`offer_rule`].
///
/// # Errors
/// It is not a message of the rule.
pub fn read_offer(message: &str) -> Fact<Offer> {
    let mut lines = message.lines();
    if lines.next() != Some(OFFER_HEAD) {
        return Err(unreadable(OFFER, message));
    }
    let (mut listed, mut updates, mut risks) = (BTreeSet::new(), Vec::new(), Vec::new());
    for line in lines {
        let mut words = line.splitn(2, ' ');
        match (words.next(), words.next()) {
            (Some("listed"), Some(image)) if !image.is_empty() => {
                listed.insert(image);
            }
            (Some("update"), Some(rest)) => updates.push(rest.split_once(' ').unwrap_or((rest, ""))),
            // One that is left out might be the one that applies.
            (Some("risk"), Some(_)) if risks.len() >= MAX_RISKS => {
                return Err(Missing::Unsupported(format!(
                    "The cluster offers the update with more than {MAX_RISKS} risks"
                )));
            }
            (Some("risk"), Some(rest)) => {
                risks.push(read_risk(rest).ok_or_else(|| unreadable(OFFER, message))?);
            }
            _ => return Err(unreadable(OFFER, message)),
        }
    }
    Ok(match (listed.len(), updates.as_slice()) {
        (0, []) => Offer::NotListed,
        (1, []) => Offer::Recommended { image: String::new() },
        (_, [(status, image)]) if listed.iter().all(|one| one == image) => {
            if *status == "True" {
                let names = risks.into_iter().map(|risk| risk.name);
                Offer::recommended(image, !listed.is_empty(), names)
            } else {
                Offer::by_status(status, image, risks)
            }
        }
        _ => Offer::Ambiguous,
    })
}

/// Reads the message of [`history_rule`].
///
/// # Errors
/// It is not a message of the rule.
pub fn read_history(message: &str) -> Fact<Vec<AppliedUpdate>> {
    let mut lines = message.lines();
    if lines.next() != Some(HISTORY_HEAD) {
        return Err(unreadable(HISTORY, message));
    }
    let mut releases = Vec::new();
    for line in lines.take(MAX_RELEASES) {
        let words: Vec<&str> = line.split(' ').collect();
        let [release, started, completed] = words[..] else {
            return Err(unreadable(HISTORY, message));
        };
        let time = |text: &str| text.parse::<DateTime<Utc>>().ok();
        let took = time(completed)
            .zip(time(started))
            .map(|(completed, started)| completed - started)
            .filter(|_| version::parse(release).is_some())
            .ok_or_else(|| unreadable(HISTORY, message))?;
        releases.push((release, took));
    }
    Ok(AppliedUpdate::between(&releases))
}

fn read_risk(line: &str) -> Option<OfferedRisk> {
    let mut words = line.splitn(3, ' ');
    let applies = match words.next()? {
        "T" => Some(true),
        "F" => Some(false),
        _ => None,
    };
    Some(OfferedRisk {
        name: words.next()?.chars().take(MAX_NAME).collect(),
        message: words.next().unwrap_or_default().chars().take(MAX_TEXT).collect(),
        applies,
    })
}

/// The values of [`paths`]. `None`: not reported, or reported with another type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathValues<'a> {
    /// Channel of the ClusterVersion.
    pub channel: Option<&'a str>,
    /// Kind of the first override.
    pub overrides: Option<&'a str>,
    /// Status of condition Progressing.
    pub progressing: Option<&'a str>,
    /// Image of the target among the available updates.
    pub target_image: Option<&'a str>,
    /// Image of the target among the updates with risks.
    pub target_risks_image: Option<&'a str>,
    /// Whether the target is recommended in spite of its risks.
    pub target_recommended: Option<&'a str>,
}

impl<'a> FromIterator<(&'a str, ReportedValue<'a>)> for PathValues<'a> {
    fn from_iter<I: IntoIterator<Item = (&'a str, ReportedValue<'a>)>>(values: I) -> Self {
        let mut found = Self::default();
        for (name, value) in values {
            let slot = match name {
                "channel" => &mut found.channel,
                "overrides" => &mut found.overrides,
                "progressing" => &mut found.progressing,
                "targetImage" => &mut found.target_image,
                "targetRisksImage" => &mut found.target_risks_image,
                "targetRecommended" => &mut found.target_recommended,
                _ => continue,
            };
            if let ReportedValue::Text(text) = value {
                slot.get_or_insert(text);
            }
        }
        found
    }
}

impl PathValues<'_> {
    /// What an agent that knows no CEL tells: whether the version is offered, but not which of its risks apply.
    #[must_use]
    pub fn offer(&self) -> Option<Offer> {
        match (
            self.target_image,
            self.target_risks_image,
            self.target_recommended,
        ) {
            (Some(_), None, None) => Some(Offer::Recommended { image: String::new() }),
            (listed, Some(image), Some("True")) => Some(Offer::Recommended {
                image: if listed.is_some() {
                    String::new()
                } else {
                    image.to_owned()
                },
            }),
            (_, Some(image), status) => Some(Offer::by_status(status.unwrap_or_default(), image, Vec::new())),
            // A path that fails looks like one without a result.
            _ => None,
        }
    }
}

/// Reads the messages of [`gates_rule`] and [`acks_rule`]: the gates that are not acknowledged, of all release lines that were asked for.
/// Without `acks` nothing is acknowledged.
///
/// # Errors
/// One of them is not a message of its rule, or there are more keys than can be reported.
pub fn read_gates(gates: &str, acks: Option<&str>) -> Fact<Vec<Gate>> {
    let acks: BTreeSet<String> = match acks {
        Some(message) => read_keys(ACKS, message)?
            .into_iter()
            .map(|gate| gate.key)
            .collect(),
        None => BTreeSet::new(),
    };
    let gates = read_all_gates(gates)?;
    Ok(gates
        .into_iter()
        .filter(|gate| !acks.contains(&gate.key))
        .collect())
}

/// Reads the message of [`gates_rule`]: all gates, acknowledged or not.
///
/// # Errors
/// It is not a message of the rule, or there are more keys than can be reported.
pub fn read_all_gates(gates: &str) -> Fact<Vec<Gate>> {
    read_keys(GATES, gates)
}

/// Whether a text is that of a gate, as far as [`gates_rule`] tells it.
pub(super) fn is_text_of(text: &str, gate: &Gate) -> bool {
    told(text).eq(told(&gate.text))
}

fn told(text: &str) -> impl Iterator<Item = char> {
    let letters = text.chars().take(MAX_TEXT);
    letters.map(|letter| if letter == '\n' { ' ' } else { letter })
}

fn read_keys(rule: &str, message: &str) -> Fact<Vec<Gate>> {
    let mut lines = message.lines();
    if lines.next() != Some(KEYS_HEAD) {
        return Err(unreadable(rule, message));
    }
    let mut found = Vec::new();
    for line in lines {
        if line == "more" || found.len() == BEFORE_FIVE.len() * MAX_KEYS {
            return Err(Missing::Unsupported(format!(
                "The cluster has more than {MAX_KEYS} gates of one minor version, which is more than it can report"
            )));
        }
        let key = line
            .strip_prefix("key ")
            .ok_or_else(|| unreadable(rule, message))?;
        let (key, text) = key.split_once(' ').unwrap_or((key, ""));
        found.push(Gate {
            key: key.to_owned(),
            text: text.chars().take(MAX_TEXT).collect(),
        });
    }
    Ok(found)
}

pub(super) fn unreadable(rule: &str, message: &str) -> Missing {
    let text: String = message.chars().take(MAX_TEXT).collect();
    Missing::Unsupported(format!("The answer to {rule} cannot be read: {text}"))
}

#[cfg(test)]
mod tests;
