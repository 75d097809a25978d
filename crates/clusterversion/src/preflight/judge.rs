//! The verdict on a planned update.

mod offer;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use update_graph::query::UpdatesTo;

pub use self::offer::lacks_target;
use self::offer::offer;
use super::facts::{Fact, Facts, Gate, Health, Missing, Offer, OfferedRisk, PoolState, is};
use super::recipe::is_text_of;
use crate::gates::is_of_another_version;
use crate::types::{ClusterOperatorCondition, ConditionStatus};
use crate::upgradeable::blocks;
use crate::version::{Hop, hop, parse};

/// The update that is planned, and what its author accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedUpdate {
    /// The version; empty if only an image is requested.
    pub version: String,
    /// The release image, if the update is requested by it. The cluster then checks neither whether it is offered nor its risks.
    pub image: String,
    /// The channel that the update sets; empty if the cluster keeps its own.
    pub channel: String,
    /// Names of the accepted risks.
    pub accepted_risks: BTreeSet<String>,
    /// Whether a risk that cannot be evaluated counts as accepted.
    pub accept_unknown_risks: bool,
    /// Keys of the gates that are acknowledged.
    pub acks: BTreeSet<String>,
    /// Findings that are not insisted on, by the names that `oc adm upgrade recommend --accept` uses.
    pub ignore: BTreeSet<String>,
    /// Whether worker pools must be able to follow.
    pub with_pools: bool,
    /// Whether a cluster may be taken to an older version.
    pub allow_downgrade: bool,
    /// What an update graph of our own serves of the version in the planned channel, for clusters that evaluate another one.
    pub by_graph: Option<Arc<UpdatesTo>>,
}

/// Why an update cannot begin, or why that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PreflightReason {
    /// The cluster runs a newer version than the target.
    NewerThanTarget,
    /// Another update is running.
    Updating,
    /// The cluster offers the version neither as a recommended nor as a conditional update.
    NotOffered,
    /// A risk applies to the cluster and is not accepted.
    RiskNotAccepted,
    /// A gate is not acknowledged.
    AdminAckRequired,
    /// The cluster reports Upgradeable=False.
    NotUpgradeable,
    /// The cluster reports Failing=True.
    Failing,
    /// The cluster could not retrieve its updates.
    UpdatesNotRetrieved,
    /// A worker pool is degraded.
    PoolDegraded,
    /// A worker pool is paused.
    PoolPaused,
    /// The agent may not read what the preflight needs.
    PreflightForbidden,
    /// It is not known whether a risk applies.
    RiskUnknown,
    /// The cluster evaluates updates of another channel.
    ChannelDiffers,
    /// The cluster cannot be asked.
    PreflightUnsupported,
    /// The cluster has not answered yet.
    PreflightPending,
}

impl PreflightReason {
    /// All reasons.
    pub const ALL: [Self; 15] = [
        Self::NewerThanTarget,
        Self::Updating,
        Self::NotOffered,
        Self::RiskNotAccepted,
        Self::AdminAckRequired,
        Self::NotUpgradeable,
        Self::Failing,
        Self::UpdatesNotRetrieved,
        Self::PoolDegraded,
        Self::PoolPaused,
        Self::PreflightForbidden,
        Self::RiskUnknown,
        Self::ChannelDiffers,
        Self::PreflightUnsupported,
        Self::PreflightPending,
    ];

    /// Whether the cause stays until somebody acts. Otherwise it is not known whether the update can begin.
    #[must_use]
    pub const fn is_blocking(self) -> bool {
        !matches!(
            self,
            // The right to read comes with the probe, and takes effect a moment later.
            Self::PreflightForbidden
                | Self::RiskUnknown
                | Self::ChannelDiffers
                | Self::PreflightUnsupported
                | Self::PreflightPending
        )
    }

    /// The name by which `oc adm upgrade recommend --accept` accepts the finding, if it has one.
    #[must_use]
    pub const fn accepted_as(self) -> Option<&'static str> {
        match self {
            Self::Failing => Some("Failing"),
            Self::Updating => Some("Progressing"),
            Self::UpdatesNotRetrieved => Some("CannotRetrieveUpdates"),
            Self::PreflightUnsupported => Some("FailedToCompletePrecheck"),
            _ => None,
        }
    }
}

impl fmt::Display for PreflightReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PreflightFinding {
    /// The cause.
    pub reason: PreflightReason,
    /// Names of the risks, keys of the gates, or names of the pools; empty for other causes.
    pub names: Vec<String>,
    /// A text for humans, as the cluster says it.
    pub message: String,
}

/// How an update is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// By what the plan says.
    AsPlanned,
    /// By the version and by the image that this cluster reports for it, because the cluster would not find the version alone.
    ByImage(String),
    /// By the version and the names of risks, which the cluster then accepts.
    AcceptingRisks(Vec<String>),
}

/// The verdict on a planned update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The cluster would take it.
    Ready(Request),
    /// Something must change first. The findings are sorted: what blocks comes before what is not known.
    Blocked(Vec<PreflightFinding>),
    /// It is not known.
    Unknown(Vec<PreflightFinding>),
}

/// Judges whether a cluster would take the update. All causes are found, so that they can be removed in one go.
#[must_use]
pub fn judge(facts: &Facts, plan: &PlannedUpdate) -> Verdict {
    let mut findings = Vec::new();
    // A cluster that does not even tell its version tells nothing else, or the rest cannot be judged.
    let Some(current) = known(&facts.current, "the version that the cluster runs", &mut findings) else {
        return verdict(findings, plan, Request::AsPlanned);
    };
    let is_updating = facts
        .health
        .as_ref()
        .is_ok_and(|health| is(health.progressing.as_ref(), ConditionStatus::True));
    if *current == plan.version && !is_updating {
        // Nothing is requested, but its worker pools may not have followed.
        if plan.with_pools {
            pools(facts, false, &mut findings);
        }
        return verdict(findings, plan, Request::AsPlanned);
    }
    let newer = newer(current, plan);
    health(facts, plan, &mut findings);
    // No cluster offers its own version, the one that it is being updated to, or an older one, so that says nothing more about them.
    let request = if newer.is_some() || *current == plan.version {
        Request::AsPlanned
    } else {
        offer(current, facts, plan, &mut findings)
    };
    findings.extend(newer);
    gates(facts, plan, &mut findings);
    if plan.with_pools {
        pools(facts, true, &mut findings);
    }
    verdict(findings, plan, request)
}

/// How the update is requested, whatever else keeps the cluster from taking it: as planned, unless the cluster offers it in another form
/// and nothing speaks against that offer.
#[must_use]
pub fn request(facts: &Facts, plan: &PlannedUpdate) -> Request {
    let Ok(current) = &facts.current else {
        return Request::AsPlanned;
    };
    let mut findings = Vec::new();
    let request = offer(current, facts, plan, &mut findings);
    match verdict(findings, plan, request) {
        Verdict::Ready(request) if *current != plan.version => request,
        _ => Request::AsPlanned,
    }
}

fn verdict(mut findings: Vec<PreflightFinding>, plan: &PlannedUpdate, request: Request) -> Verdict {
    findings.retain(|finding| !is_ignored(finding.reason, plan));
    findings.sort();
    findings.dedup();
    match findings.first() {
        None => Verdict::Ready(request),
        Some(first) if first.reason.is_blocking() => Verdict::Blocked(findings),
        Some(_) => Verdict::Unknown(findings),
    }
}

fn finding(reason: PreflightReason, message: impl Into<String>) -> PreflightFinding {
    PreflightFinding {
        reason,
        names: Vec::new(),
        message: message.into(),
    }
}

fn is_ignored(reason: PreflightReason, plan: &PlannedUpdate) -> bool {
    reason
        .accepted_as()
        .is_some_and(|name| plan.ignore.contains(name))
}

/// The finding for a fact that is not known.
fn missing(why: &Missing, what: &str) -> PreflightFinding {
    match why {
        Missing::Pending => finding(
            PreflightReason::PreflightPending,
            format!("Not reported yet: {what}"),
        ),
        Missing::Unsupported(text) => finding(PreflightReason::PreflightUnsupported, text.clone()),
        Missing::Forbidden(text) => finding(PreflightReason::PreflightForbidden, text.clone()),
    }
}

/// The value of a fact. Adds the finding if it is missing.
fn known<'a, T>(fact: &'a Fact<T>, what: &str, findings: &mut Vec<PreflightFinding>) -> Option<&'a T> {
    fact.as_ref()
        .inspect_err(|why| findings.push(missing(why, what)))
        .ok()
}

/// The finding for a cluster that runs a newer version than the target.
fn newer(current: &str, plan: &PlannedUpdate) -> Option<PreflightFinding> {
    let (from, to) = (parse(current), parse(&plan.version));
    let is_newer = from.zip(to).is_some_and(|(from, to)| from > to);
    (is_newer && !plan.allow_downgrade).then(|| {
        finding(
            PreflightReason::NewerThanTarget,
            format!("The cluster runs {current}, which is newer than {}", plan.version),
        )
    })
}

/// Whether Upgradeable=False and gates block an update to this version.
fn is_gated(facts: &Facts, target: &str) -> bool {
    let blocks_patch_updates = facts
        .health
        .as_ref()
        .is_ok_and(|health| health.blocks_patch_updates);
    let current = facts.current.as_deref().unwrap_or_default();
    blocks_patch_updates || blocks(current, target)
}

/// True when the cluster is in another channel than the plan.
fn changes_channel(facts: &Facts, plan: &PlannedUpdate) -> bool {
    let channel = facts.channel.as_ref();
    !plan.channel.is_empty() && channel.is_ok_and(|channel| *channel != plan.channel)
}

fn health(facts: &Facts, plan: &PlannedUpdate, findings: &mut Vec<PreflightFinding>) {
    let Some(health) = known(&facts.health, "the conditions of the ClusterVersion", findings) else {
        return;
    };
    let (no, yes) = (ConditionStatus::False, ConditionStatus::True);
    for (kind, condition, wanted, reason) in [
        ("Progressing", &health.progressing, no, PreflightReason::Updating),
        ("Failing", &health.failing, no, PreflightReason::Failing),
        (
            "RetrievedUpdates",
            &health.retrieved,
            yes,
            PreflightReason::UpdatesNotRetrieved,
        ),
    ] {
        // A request by image does not need the updates, and the plan does not need those of the channel that it changes.
        let needs_updates = plan.image.is_empty() && !changes_channel(facts, plan);
        let is_needed = needs_updates || reason != PreflightReason::UpdatesNotRetrieved;
        if is_needed && !is_ignored(reason, plan) {
            must_be(kind, condition.as_ref(), wanted, reason, findings);
        }
    }
    if is_gated(facts, &plan.version) {
        upgradeable(health, facts, findings);
    }
}

/// Adds a finding unless a condition has the wanted status.
fn must_be(
    kind: &str,
    condition: Option<&ClusterOperatorCondition>,
    wanted: ConditionStatus,
    reason: PreflightReason,
    findings: &mut Vec<PreflightFinding>,
) {
    match condition {
        Some(condition) if condition.status == wanted => {}
        Some(condition) if matches!(condition.status, ConditionStatus::True | ConditionStatus::False) => {
            findings.push(finding(reason, said(kind, condition)));
        }
        Some(condition) => findings.push(finding(PreflightReason::PreflightPending, said(kind, condition))),
        None => findings.push(finding(
            PreflightReason::PreflightPending,
            format!("Not reported yet: condition {kind}"),
        )),
    }
}

fn upgradeable(health: &Health, facts: &Facts, findings: &mut Vec<PreflightFinding>) {
    let Some(condition) = health.upgradeable.as_ref() else {
        return;
    };
    let is_gate = asks_for_acks(condition, facts);
    match condition.status {
        ConditionStatus::True => {}
        ConditionStatus::False if is_gate => {}
        ConditionStatus::False => findings.push(finding(
            PreflightReason::NotUpgradeable,
            said("Upgradeable", condition),
        )),
        ConditionStatus::Unknown | ConditionStatus::Unset => {
            findings.push(finding(
                PreflightReason::PreflightPending,
                said("Upgradeable", condition),
            ));
        }
    }
}

/// What is in front of each reason, where condition Upgradeable has several.
const ITEM: &str = "\n* ";

/// Whether Upgradeable=False says only that gates are not acknowledged. Which gates these are is known by name.
///
/// From 4.23 on no reason says so, but the message has the text of each gate (`docs/design/cvo.md#upgradeable-from-risks`).
fn asks_for_acks(condition: &ClusterOperatorCondition, facts: &Facts) -> bool {
    let gates = facts.all_gates.as_deref().unwrap_or_default();
    let is_gate = |text: &str| gates.iter().any(|gate| is_text_of(text, gate));
    let message = condition.message.as_str();
    let is_told = match condition.reason.as_str() {
        "AdminAckRequired" => true,
        "RiskNameNotCompatibleWithReasonProperty" => is_gate(message),
        "MultipleReasons" => message
            .split_once(ITEM)
            .is_some_and(|(_, items)| items.split(ITEM).all(is_gate)),
        _ => false,
    };
    condition.status == ConditionStatus::False && is_told
}

/// Longest text of a condition that is told, in characters. It comes from the cluster.
const MAX_SAID: usize = 2000;

fn said(kind: &str, condition: &ClusterOperatorCondition) -> String {
    let ClusterOperatorCondition {
        status,
        reason,
        message,
        ..
    } = condition;
    let head = format!("{kind}={status}");
    let parts = [head.as_str(), reason, message];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let text = parts.join(": ");
    match text.char_indices().nth(MAX_SAID) {
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
        None => text,
    }
}

fn gates(facts: &Facts, plan: &PlannedUpdate, findings: &mut Vec<PreflightFinding>) {
    if !is_gated(facts, &plan.version) {
        return;
    }
    let upgradeable = facts.health.as_ref().ok();
    let upgradeable = upgradeable.and_then(|health| health.upgradeable.as_ref());
    let asking = upgradeable.filter(|condition| asks_for_acks(condition, facts));
    if parse(&plan.version).is_none() {
        // Which gates belong to it is not known, so nobody asks for them by name.
        findings.extend(
            asking
                .map(|condition| finding(PreflightReason::AdminAckRequired, said("Upgradeable", condition))),
        );
        return;
    }
    if known(&facts.gates, "the gates of the cluster", findings).is_none() {
        return;
    }
    let gates = gates_of_update(facts, &plan.version);
    if let Some(condition) = asking.filter(|_| gates.is_empty()) {
        // One of the two is old, or the gate is not among those that were reported.
        findings.push(finding(
            PreflightReason::PreflightPending,
            said("Upgradeable", condition),
        ));
    }
    let open: Vec<_> = gates
        .into_iter()
        .filter(|gate| !plan.acks.contains(&gate.key))
        .collect();
    if !open.is_empty() {
        let texts: Vec<String> = open
            .iter()
            .map(|gate| format!("{}: {}", gate.key, gate.text))
            .collect();
        findings.push(PreflightFinding {
            reason: PreflightReason::AdminAckRequired,
            names: open.iter().map(|gate| gate.key.clone()).collect(),
            message: texts.join("; "),
        });
    }
}

/// The gates that an update to this version asks for, as far as they are known and nobody has acknowledged them on the cluster. An update
/// within the minor version asks for none.
#[must_use]
pub fn gates_of_update<'a>(facts: &'a Facts, target: &str) -> Vec<&'a Gate> {
    if !is_gated(facts, target) {
        return Vec::new();
    }
    let gates = facts.gates.iter().flatten();
    gates.filter(|gate| counts(gate, facts, target)).collect()
}

/// Whether a gate counts at the version that the cluster runs. Clusters tell the gates of each minor version from which the target may be
/// reached, and those of earlier ones stay on the cluster. For example, a cluster at 4.23 that is to go to 5.0 may still tell a gate of
/// 4.22, and one at 4.19.3 that is to go to 4.19.4 a gate of 4.18.
fn counts(gate: &Gate, facts: &Facts, target: &str) -> bool {
    let current = facts.current.as_deref().unwrap_or_default();
    let hop = parse(current)
        .zip(parse(target))
        .map(|(from, to)| hop(&from, &to));
    hop == Some(Hop::Minor) || !is_of_another_version(&gate.key, current)
}

/// The finding for pools in a state, if they need a person.
pub(super) const fn pool_reason(state: PoolState) -> Option<PreflightReason> {
    match state {
        PoolState::Degraded => Some(PreflightReason::PoolDegraded),
        PoolState::Paused => Some(PreflightReason::PoolPaused),
        PoolState::Updating | PoolState::Updated => None,
    }
}

/// `is_update`: nodes that are up to date have to follow, too.
fn pools(facts: &Facts, is_update: bool, findings: &mut Vec<PreflightFinding>) {
    let Some(pools) = known(&facts.pools, "the worker pools of the cluster", findings) else {
        return;
    };
    let paused = pools.paused_worker().filter(|_| is_update);
    for group in pools.groups.iter().chain(&paused) {
        if let Some(reason) = pool_reason(group.state) {
            findings.push(PreflightFinding {
                reason,
                names: group.names.clone(),
                message: group.text(),
            });
        }
    }
}
