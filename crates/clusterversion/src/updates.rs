//! One cluster's updates for its administrator: what is offered, what runs and what blocks, and the request for an update.
//!
//! This follows `oc adm upgrade` (`docs/design/cvo.md#what-oc-adm-upgrade-does`). The caller prints and sends.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::assess::{ClusterVersionState, assess};
use crate::era::Era;
use crate::gates::{self, ConfigMap};
use crate::risks;
use crate::types::{
    ClusterOperatorCondition, ClusterVersion, ConditionStatus, ConditionalUpdate, FAILING, INVALID, PARTIAL,
    PROGRESSING, RELEASE_ACCEPTED, RETRIEVED_UPDATES, Release, Status, Time, UPGRADEABLE, field::timestamp,
};
use crate::upgradeable;
use crate::version;

/// An update that the cluster offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedUpdate {
    /// Version.
    pub version: String,
    /// Pull specification.
    pub image: String,
    /// URL of the errata page. It may be empty.
    pub url: String,
    /// Channels that contain the release.
    pub channels: Vec<String>,
    /// `True`, or for a conditional update the status of its condition `Recommended`.
    pub recommended: String,
    /// Reason of the condition `Recommended`. It is empty for an update without risks.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Message of the condition `Recommended`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Names of the risks because of which the update is not recommended: the cluster is exposed to them, or they could not be
    /// evaluated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<String>,
    /// Whether Upgradeable=False blocks the update.
    pub blocked: bool,
}

/// A condition that blocks updates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateBlock {
    /// The condition, as `Upgradeable=False`.
    pub condition: String,
    /// Its reason. It may be empty.
    pub reason: String,
    /// Its message.
    pub message: String,
}

/// A gate that the administrator has to acknowledge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdminGate {
    /// Key to set to `true` in `ConfigMap` admin-acks of namespace openshift-config.
    pub key: String,
    /// What the administrator acknowledges.
    pub text: String,
}

/// The running update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningUpdate {
    /// Its version, or its image while the version is not known.
    pub version: String,
    /// When it started.
    pub since: Option<String>,
    /// Its progress.
    pub message: String,
}

/// The updates of one cluster. What is not known is left out and never shown as empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterUpdates {
    /// UUID of the cluster.
    pub cluster_id: String,
    /// Version that the cluster runs or is being updated to.
    pub version: String,
    /// Channel; empty if none is set.
    pub channel: String,
    /// Channels that contain this version.
    pub channels: Vec<String>,
    /// State of the cluster, one word.
    pub state: String,
    /// Reason for the state.
    pub cause: String,
    /// Other things worth knowing.
    pub notes: Vec<String>,
    /// The running update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<RunningUpdate>,
    /// What blocks updates.
    pub blocks: Vec<UpdateBlock>,
    /// Gates to acknowledge; left out if they are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gates: Option<Vec<AdminGate>>,
    /// Why the gates are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gates_unknown: Option<String>,
    /// Recommended updates, newest first.
    pub recommended: Vec<OfferedUpdate>,
    /// Supported but not recommended updates, newest first.
    pub not_recommended: Vec<OfferedUpdate>,
}

/// The `ConfigMaps` of gates and acknowledgments, if they are known.
pub type Acks<'a> = Option<(&'a ConfigMap, &'a ConfigMap)>;

/// Describes the updates of a cluster. Without `now`, the newest time in the object stands in for it.
#[must_use]
pub fn cluster_updates(object: &ClusterVersion, acks: Acks<'_>, now: Option<Time>) -> ClusterUpdates {
    let status = &object.status;
    let assessment = assess(object, now);
    let progressing = status
        .conditions
        .get(PROGRESSING)
        .filter(|condition| condition.is_true());
    let running = progressing.map(|condition| running(status, condition));
    let (gates, gates_unknown) = match gates_to_acknowledge(object, acks) {
        Ok(gates) => (Some(gates), None),
        Err(why) => (None, Some(why)),
    };
    let mut notes = assessment.notes;
    notes.extend(unusable(object));
    ClusterUpdates {
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
            .map(|release| without_risks(object, release))
            .collect(),
        not_recommended: status
            .conditional_updates
            .iter()
            .filter(|update| !is_recommended(update))
            .map(|update| with_risks(object, update))
            .collect(),
    }
}

/// The update that the operator reports. The history may not contain it yet.
fn running(status: &Status, progressing: &ClusterOperatorCondition) -> RunningUpdate {
    let entry = status.history.first().filter(|entry| !entry.is_completed());
    let (version, image) = entry.map_or((&status.desired.version, &status.desired.image), |entry| {
        (&entry.version, &entry.image)
    });
    let since = entry.map_or(progressing.last_transition_time, |entry| entry.started_time);
    RunningUpdate {
        version: if version.is_empty() { image } else { version }.clone(),
        since: since.map(timestamp),
        message: progressing.message.clone(),
    }
}

fn is_recommended(update: &ConditionalUpdate) -> bool {
    update
        .recommended()
        .is_some_and(ClusterOperatorCondition::is_true)
}

/// The recommended updates, newest first. For a conditional update only its condition decides, even if it is also in the list
/// of available updates (`docs/design/cvo.md#which-updates-are-recommended`).
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

/// Whether two releases are the same: by image, or by version if one has no image.
fn is_same(one: &Release, other: &Release) -> bool {
    if one.image.is_empty() || other.image.is_empty() {
        one.version == other.version
    } else {
        one.image == other.image
    }
}

/// Whether a release can be requested.
fn is_usable(release: &Release) -> bool {
    !release.version.is_empty() && !release.image.is_empty()
}

/// A note about listed updates that cannot be requested.
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
        .is_some_and(ClusterOperatorCondition::is_false);
    gate && (upgradeable::blocks_patch_updates(object)
        || upgradeable::blocks(&status.desired.version, version))
}

fn without_risks(object: &ClusterVersion, release: &Release) -> OfferedUpdate {
    OfferedUpdate {
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

fn with_risks(object: &ClusterVersion, update: &ConditionalUpdate) -> OfferedUpdate {
    let condition = update.recommended();
    let standing = risks::open_risks(update, Era::recorded(object));
    let mut risks: Vec<String> = standing.into_iter().map(|(risk, _)| risk.name.clone()).collect();
    if risks.is_empty() {
        // The message cannot be read, so any of the risks may be the reason.
        risks = update.risks.iter().map(|risk| risk.name.clone()).collect();
    }
    OfferedUpdate {
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
        ..without_risks(object, &update.release)
    }
}

/// The conditions that block updates, in the order in which an administrator should look at them.
fn blocks(object: &ClusterVersion) -> Vec<UpdateBlock> {
    let conditions = &object.status.conditions;
    let stands = |kind: &str, status: ConditionStatus| {
        conditions
            .get(kind)
            .filter(|condition| condition.status == status)
            .map(|condition| UpdateBlock {
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

/// The gates to acknowledge. The error says why they are not known. If admin-acks is missing, nothing is acknowledged.
fn gates_to_acknowledge(object: &ClusterVersion, acks: Acks<'_>) -> Result<Vec<AdminGate>, String> {
    let Some((gates, acks)) = acks else {
        return Err("a ClusterVersion alone does not show them; connect to the cluster".to_owned());
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
            "{current:?} is not a version, so gates cannot be compared with it"
        ));
    }
    let standing = gates::unacknowledged(gates, acks, current, era);
    let required = standing
        .into_iter()
        .filter(|gate| gate.reason == "AdminAckRequired");
    let gates = required.map(|gate| AdminGate {
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

/// What a request may ignore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestOptions {
    /// That the update is supported but not recommended.
    pub not_recommended: bool,
    /// That the cluster is failing or updating, or rejects its current request.
    pub warnings: bool,
}

/// A request that may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateRequest {
    /// JSON merge patch for the ClusterVersion.
    pub patch: Value,
    /// What the administrator should know.
    pub notes: Vec<String>,
}

/// The request for an update to a version.
///
/// A recommended update is requested by version alone: if a risk comes up before the cluster acts, the cluster rejects it. An
/// update that is not recommended is requested with its image, which the cluster accepts and records.
///
/// # Errors
/// All reasons against the request, one sentence each, with the flag that would allow the request if there is one.
pub fn update_request(
    object: &ClusterVersion,
    version: &str,
    allowed: RequestOptions,
) -> Result<UpdateRequest, Vec<String>> {
    let status = &object.status;
    let mut reasons = Vec::new();
    if status.desired.version == version {
        let updating = status.history.first().is_some_and(|entry| entry.state == PARTIAL);
        let text = if updating {
            "is already being updated to"
        } else {
            "already runs"
        };
        return Err(vec![format!("the cluster {text} {version}")]);
    }
    if version::parse(version).is_none() {
        return Err(vec![format!(
            "{version:?} is not a version; expected one such as 4.14.9"
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
        let what = if upgradeable::blocks(&status.desired.version, version) {
            "updates to another minor version"
        } else {
            "all updates"
        };
        notes.push(format!(
            "The cluster blocks {what}, so it starts the update to {version} only when this is fixed: {gate}"
        ));
    }
    // Blank values undo those of an older request. Accepted risks and the mode stay as the administrator set them.
    let update = json!({"version": version, "image": image, "architecture": "", "force": false});
    Ok(UpdateRequest {
        patch: json!({"spec": {"desiredUpdate": update}}),
        notes,
    })
}

/// The image for the request, or an empty text if the version is enough. Adds the reasons against the request.
fn image_of(
    object: &ClusterVersion,
    version: &str,
    allowed: RequestOptions,
    reasons: &mut Vec<String>,
) -> String {
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
            // The cluster finds a version only in the list of available updates.
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
                    "{version} is listed without an image, but an update that is not recommended must be requested by image"
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
                "{version} is listed with {} different images, so it cannot be requested by version",
                open.len() + risky.len()
            ));
            String::new()
        }
    }
}

fn said(condition: &ClusterOperatorCondition) -> String {
    match (condition.reason.as_str(), condition.message.as_str()) {
        ("", text) | (text, "") => text.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

fn warnings(object: &ClusterVersion) -> Vec<String> {
    const ALLOW: &str = "use --allow-upgrade-with-warnings to request it anyway";
    let conditions = &object.status.conditions;
    let stands = |kind: &str, text: &str| {
        let condition = conditions.get(kind).filter(|condition| condition.is_true());
        condition.map(|condition| format!("{text}: {} ({ALLOW})", said(condition)))
    };
    [
        stands(INVALID, "the cluster rejects the current request"),
        stands(FAILING, "the cluster is failing"),
        stands(PROGRESSING, "an update is already running"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn not_recommended(update: &ConditionalUpdate) -> String {
    const ALLOW: &str = "use --allow-not-recommended to request it anyway";
    let version = &update.release.version;
    let Some(condition) = update.recommended() else {
        return format!(
            "it is not known whether {version} is recommended, because its risks are not evaluated yet ({ALLOW})"
        );
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
            "{version} is not an available update, and the cluster could not retrieve updates: {}",
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
            "{version} is not an available update; channel {:?} offers no updates",
            object.spec.channel
        )
    } else {
        format!(
            "{version} is not an available update of channel {:?}; available are for example {}",
            object.spec.channel,
            offered.join(", ")
        )
    }
}

/// Whether a state needs the attention of a person.
#[must_use]
pub fn wants_attention(state: &str) -> bool {
    [
        ClusterVersionState::Blocked,
        ClusterVersionState::Failing,
        ClusterVersionState::Stalled,
        ClusterVersionState::Unknown,
    ]
    .iter()
    .any(|each| each.to_string() == state)
}

#[cfg(test)]
mod tests;
