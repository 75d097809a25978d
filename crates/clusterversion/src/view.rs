//! What an administrator wants to know of one cluster's updates, and the request for one.
//!
//! Owns the rows, what blocks, what runs, and when a request is refused, after the habits of `oc adm upgrade`
//! (`docs/design/cvo.md#what-oc-adm-upgrade-does`). Refuses to print and to send.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::assess::{State, assess};
use crate::era::Era;
use crate::gates::{self, ConfigMap};
use crate::recorded;
use crate::types::{
    ClusterVersion, Condition, ConditionStatus, ConditionalUpdate, FAILING, INVALID, PARTIAL, PROGRESSING,
    RELEASE_ACCEPTED, RETRIEVED_UPDATES, Release, Status, Time, UPGRADEABLE, field::timestamp,
};
use crate::upgradeable;
use crate::version;

/// One update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Offered {
    /// Version.
    pub version: String,
    /// Pull specification.
    pub image: String,
    /// Errata page; may be empty.
    pub url: String,
    /// Channels that have it.
    pub channels: Vec<String>,
    /// `True`, or for an update with risks what they make of it.
    pub recommended: String,
    /// Reason of that; empty for an update without risks.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Text of that.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Names of the risks that stand against it: exposed ones, and those that could not be evaluated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<String>,
    /// Whether Upgradeable=False stands against it: it leads to another minor or major version.
    pub blocked: bool,
}

/// Something that stands against updates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Block {
    /// The condition, as `Upgradeable=False`.
    pub condition: String,
    /// Its reason; may be empty.
    pub reason: String,
    /// Its text.
    pub message: String,
}

/// A gate that is to be acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    /// Key to set to `true` in `ConfigMap` admin-acks of namespace openshift-config.
    pub key: String,
    /// What is to be acknowledged.
    pub text: String,
}

/// An update under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    /// Its version; the image while that is not known.
    pub version: String,
    /// Since when.
    pub since: Option<String>,
    /// How far it is.
    pub message: String,
}

/// One cluster's updates. What is not known is left out, never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// UUID of the cluster.
    pub cluster_id: String,
    /// Version that is being reconciled.
    pub version: String,
    /// Channel; empty: none.
    pub channel: String,
    /// Channels that have this version.
    pub channels: Vec<String>,
    /// State in one word.
    pub state: String,
    /// Why.
    pub cause: String,
    /// What else is worth knowing.
    pub notes: Vec<String>,
    /// The update under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    /// What stands against updates.
    pub blocks: Vec<Block>,
    /// Gates to acknowledge; left out when that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gates: Option<Vec<Gate>>,
    /// Why the gates are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gates_unknown: Option<String>,
    /// Recommended updates, newest first.
    pub recommended: Vec<Offered>,
    /// Supported updates that are not recommended, newest first.
    pub not_recommended: Vec<Offered>,
}

/// `ConfigMaps` of gates and acknowledgments, where they are known.
pub type Acks<'a> = Option<(&'a ConfigMap, &'a ConfigMap)>;

/// Looks at a cluster.
#[must_use]
pub fn view(object: &ClusterVersion, acks: Acks<'_>, now: Option<Time>) -> View {
    let status = &object.status;
    let assessment = assess(object, now);
    let progressing = status
        .conditions
        .get(PROGRESSING)
        .filter(|condition| condition.is_true());
    let running = progressing.map(|condition| running(status, condition));
    let (gates, gates_unknown) = match standing_gates(object, acks) {
        Ok(gates) => (Some(gates), None),
        Err(why) => (None, Some(why)),
    };
    let mut notes = assessment.notes;
    notes.extend(unusable(object));
    View {
        cluster_id: object.spec.cluster_id.clone(),
        version: status.desired.version.clone(),
        channel: object.spec.channel.clone(),
        channels: status.desired.channels.clone(),
        state: assessment.state.to_string(),
        cause: assessment.cause,
        notes,
        running,
        blocks: blocks(object),
        gates,
        gates_unknown,
        recommended: recommended(object)
            .iter()
            .map(|release| open(object, release))
            .collect(),
        not_recommended: status
            .conditional_updates
            .iter()
            .filter(|update| !is_recommended(update))
            .map(|update| with_risks(object, update))
            .collect(),
    }
}

/// What the operator says it works on. Its history may not have it yet.
fn running(status: &Status, progressing: &Condition) -> Running {
    let entry = status.history.first().filter(|entry| !entry.is_completed());
    let (version, image) = entry.map_or((&status.desired.version, &status.desired.image), |entry| {
        (&entry.version, &entry.image)
    });
    let since = entry.map_or(progressing.last_transition_time, |entry| entry.started_time);
    Running {
        version: if version.is_empty() { image } else { version }.clone(),
        since: since.map(timestamp),
        message: progressing.message.clone(),
    }
}

fn is_recommended(update: &ConditionalUpdate) -> bool {
    update.recommended().is_some_and(Condition::is_true)
}

/// The recommended updates, newest first. Of a target with risks its condition alone decides, whatever list it is in
/// besides (`docs/design/cvo.md#which-updates-are-recommended`).
fn recommended(object: &ClusterVersion) -> Vec<Release> {
    let status = &object.status;
    let conditional = &status.conditional_updates;
    let without_risks = status.available_updates.iter().filter(|release| {
        conditional
            .iter()
            .all(|update| !is_same(&update.release, release))
    });
    let cleared = conditional
        .iter()
        .filter(|update| is_recommended(update))
        .map(|update| &update.release);
    let mut releases: Vec<Release> = without_risks
        .chain(cleared)
        .filter(|release| is_usable(release))
        .cloned()
        .collect();
    version::sort_releases(&mut releases);
    releases
}

/// By image; by version where one has none.
fn is_same(one: &Release, other: &Release) -> bool {
    if one.image.is_empty() || other.image.is_empty() {
        one.version == other.version
    } else {
        one.image == other.image
    }
}

/// Whether a release can be asked for.
fn is_usable(release: &Release) -> bool {
    !release.version.is_empty() && !release.image.is_empty()
}

/// A note on listed updates that nobody can ask for.
fn unusable(object: &ClusterVersion) -> Option<String> {
    let listed = object.status.available_updates.iter();
    match listed.filter(|release| !is_usable(release)).count() {
        0 => None,
        1 => Some("1 listed update has no version or no image and cannot be requested".to_owned()),
        count => Some(format!(
            "{count} listed updates have no version or no image and cannot be requested"
        )),
    }
}

fn is_blocked(object: &ClusterVersion, version: &str) -> bool {
    let status = &object.status;
    let gate = status
        .conditions
        .get(UPGRADEABLE)
        .is_some_and(Condition::is_false);
    gate && (upgradeable::all_updates_wait(object) || version::is_gated(&status.desired.version, version))
}

fn open(object: &ClusterVersion, release: &Release) -> Offered {
    Offered {
        version: release.version.clone(),
        image: release.image.clone(),
        url: release.url.clone(),
        channels: release.channels.clone(),
        recommended: "True".to_owned(),
        reason: String::new(),
        message: String::new(),
        risks: Vec::new(),
        blocked: is_blocked(object, &release.version),
    }
}

fn with_risks(object: &ClusterVersion, update: &ConditionalUpdate) -> Offered {
    let condition = update.recommended();
    let standing = recorded::standing(update, Era::recorded(object));
    let mut risks: Vec<String> = standing.into_iter().map(|(risk, _)| risk.name.clone()).collect();
    if risks.is_empty() {
        // A message that cannot be taken apart: every risk may stand against it.
        risks = update.risks.iter().map(|risk| risk.name.clone()).collect();
    }
    Offered {
        recommended: condition
            .map_or("Unknown", |condition| condition.status.as_str())
            .to_owned(),
        reason: condition
            .map(|condition| condition.reason.clone())
            .unwrap_or_default(),
        message: condition
            .map(|condition| condition.message.clone())
            .unwrap_or_default(),
        risks,
        ..open(object, &update.release)
    }
}

/// Invalid, a release that is not accepted, Failing, Upgradeable=False, updates that are not retrieved.
fn blocks(object: &ClusterVersion) -> Vec<Block> {
    let conditions = &object.status.conditions;
    let stands = |kind: &str, status: ConditionStatus| {
        conditions
            .get(kind)
            .filter(|condition| condition.status == status)
            .map(|condition| Block {
                condition: format!("{kind}={status}"),
                reason: condition.reason.clone(),
                message: condition.message.clone(),
            })
    };
    [
        stands(INVALID, ConditionStatus::True),
        stands(RELEASE_ACCEPTED, ConditionStatus::False),
        stands(FAILING, ConditionStatus::True),
        stands(UPGRADEABLE, ConditionStatus::False),
        stands(RETRIEVED_UPDATES, ConditionStatus::False),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The gates to acknowledge; the error says why they are not known. Without admin-acks nothing is acknowledged.
fn standing_gates(object: &ClusterVersion, acks: Acks<'_>) -> Result<Vec<Gate>, String> {
    let Some((gates, acks)) = acks else {
        return Err("the ClusterVersion alone does not tell; ask the cluster".to_owned());
    };
    let nothing = BTreeMap::new();
    let gates = match gates {
        ConfigMap::Found(data) => data,
        ConfigMap::Missing => return Err(format!("ConfigMap {} not found", named(gates::GATES))),
        ConfigMap::Unreadable(error) => return Err(unreadable(gates::GATES, error)),
    };
    let acks = match acks {
        ConfigMap::Found(data) => data,
        ConfigMap::Missing => &nothing,
        ConfigMap::Unreadable(error) => return Err(unreadable(gates::ACKS, error)),
    };
    let status = &object.status;
    let era = Era::of(&status.desired.version);
    let current = if era.has_risk_sources() {
        status.desired.version.as_str()
    } else {
        status.current_version()
    };
    if version::parse(current).is_none() {
        return Err(format!(
            "{current:?} is no version that gates could be compared with"
        ));
    }
    let standing = gates::unacknowledged(gates, acks, current, era);
    let required = standing
        .into_iter()
        .filter(|gate| gate.reason == "AdminAckRequired");
    let gates = required.map(|gate| Gate {
        key: gate.key,
        text: gate.message,
    });
    Ok(gates.collect())
}

fn named((namespace, name): (&str, &str)) -> String {
    format!("{name} of namespace {namespace}")
}

fn unreadable(map: (&str, &str), error: &str) -> String {
    format!("ConfigMap {} cannot be read: {error}", named(map))
}

/// What a request may overrule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// An update that is supported and not recommended.
    pub not_recommended: bool,
    /// A cluster that is failing, updating, or refuses its present request.
    pub warnings: bool,
}

/// A request that may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// JSON merge patch of the ClusterVersion.
    pub patch: Value,
    /// What the administrator should know.
    pub notes: Vec<String>,
}

/// The request for an update to a version, or every reason against it.
///
/// A recommended update is asked for by version alone, so that the cluster itself refuses should a risk come up before it
/// acts; one that is not is asked for with its image, which the cluster then takes and records.
///
/// # Errors
/// The reasons, a sentence each, with what would allow the request where something does.
pub fn request(object: &ClusterVersion, version: &str, allowed: Allowed) -> Result<Request, Vec<String>> {
    let status = &object.status;
    let mut reasons = Vec::new();
    if status.desired.version == version {
        let updating = status.history.first().is_some_and(|entry| entry.state == PARTIAL);
        let text = if updating { "is being updated to" } else { "runs" };
        return Err(vec![format!("the cluster {text} {version} already")]);
    }
    if version::parse(version).is_none() {
        return Err(vec![format!(
            "{version:?} is no version; give one such as 4.14.9"
        )]);
    }
    if !allowed.warnings {
        reasons.extend(warnings(object));
    }
    let image = image_of(object, version, allowed, &mut reasons);
    if !reasons.is_empty() {
        return Err(reasons);
    }
    let mut notes = Vec::new();
    if is_blocked(object, version) {
        let gate = status.conditions.get(UPGRADEABLE).map(said).unwrap_or_default();
        let what = if version::is_gated(&status.desired.version, version) {
            "is another minor version"
        } else {
            "is blocked like every update"
        };
        notes.push(format!(
            "{version} {what}, and the cluster waits until nothing stands against that: {gate}"
        ));
    }
    // Blanks undo what an older request set. Accepted risks and the mode are the administrator's and stay.
    let update = json!({"version": version, "image": image, "architecture": "", "force": false});
    Ok(Request {
        patch: json!({"spec": {"desiredUpdate": update}}),
        notes,
    })
}

/// The image to ask for; empty where the version is enough. Adds the reasons against it.
fn image_of(object: &ClusterVersion, version: &str, allowed: Allowed, reasons: &mut Vec<String>) -> String {
    let status = &object.status;
    let of_version = |release: &&Release| release.version == version;
    let recommended = recommended(object);
    let open: Vec<&Release> = recommended.iter().filter(of_version).collect();
    let risky: Vec<&ConditionalUpdate> = status
        .conditional_updates
        .iter()
        .filter(|update| update.release.version == version && !is_recommended(update))
        .collect();
    match (open.as_slice(), risky.as_slice()) {
        ([one], []) => {
            let mut listed = status.available_updates.iter();
            // The cluster knows a version by that list alone.
            if listed.any(|release| release.image == one.image) {
                String::new()
            } else {
                one.image.clone()
            }
        }
        ([], [update]) => {
            if !allowed.not_recommended {
                reasons.push(not_recommended(update));
            }
            if update.release.image.is_empty() {
                reasons.push(format!(
                    "{version} has no image in the list, and an update that is not recommended is asked for by its image"
                ));
            }
            update.release.image.clone()
        }
        ([], []) => {
            reasons.push(not_offered(object, version));
            String::new()
        }
        (open, risky) => {
            reasons.push(format!(
                "{version} names {} images; it cannot be asked for by version",
                open.len() + risky.len()
            ));
            String::new()
        }
    }
}

fn said(condition: &Condition) -> String {
    match (condition.reason.as_str(), condition.message.as_str()) {
        ("", text) | (text, "") => text.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

fn warnings(object: &ClusterVersion) -> Vec<String> {
    const ALLOW: &str = "--allow-upgrade-with-warnings overrules this";
    let conditions = &object.status.conditions;
    let stands = |kind: &str, text: &str| {
        let condition = conditions.get(kind).filter(|condition| condition.is_true());
        condition.map(|condition| format!("{text}: {} ({ALLOW})", said(condition)))
    };
    [
        stands(INVALID, "the present request is refused"),
        stands(FAILING, "the cluster is failing"),
        stands(PROGRESSING, "an update is under way"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn not_recommended(update: &ConditionalUpdate) -> String {
    const ALLOW: &str = "--allow-not-recommended overrules this";
    let version = &update.release.version;
    let Some(condition) = update.recommended() else {
        return format!("{version} is not known to be recommended: its risks are not evaluated ({ALLOW})");
    };
    let reason = match condition.reason.as_str() {
        "" => String::new(),
        reason => format!(", {reason}"),
    };
    let message = match condition.message.as_str() {
        "" => String::new(),
        message => format!(": {message}"),
    };
    format!(
        "{version} is not recommended (Recommended={}{reason}; {ALLOW}){message}",
        condition.status
    )
}

fn not_offered(object: &ClusterVersion, version: &str) -> String {
    let status = &object.status;
    if let Some(failed) = status
        .conditions
        .get(RETRIEVED_UPDATES)
        .filter(|condition| !condition.is_true())
    {
        return format!(
            "{version} is not among the updates, and none could be retrieved: {}",
            said(failed)
        );
    }
    let offered: Vec<&str> = status
        .available_updates
        .iter()
        .chain(status.conditional_updates.iter().map(|update| &update.release))
        .map(|release| release.version.as_str())
        .take(5)
        .collect();
    if offered.is_empty() {
        format!(
            "{version} is not among the updates; channel {:?} offers none",
            object.spec.channel
        )
    } else {
        format!(
            "{version} is not among the updates of channel {:?} (such as {})",
            object.spec.channel,
            offered.join(", ")
        )
    }
}

/// Whether a state wants a person to look.
#[must_use]
pub fn wants_attention(state: &str) -> bool {
    [State::Blocked, State::Failing, State::Stalled, State::Unknown]
        .iter()
        .any(|each| each.to_string() == state)
}

#[cfg(test)]
mod tests;
