//! What a cluster offers of the planned version, and which of its risks the author accepts.

use std::collections::BTreeSet;

use super::{
    Facts, Offer, OfferedRisk, PlannedUpdate, PreflightFinding, PreflightReason, Request, changes_channel,
    finding, is, is_ignored, known,
};
use crate::types::ConditionStatus;

/// How a finding begins where the cluster lacks its updates, and what it still lists has no such version.
const NOT_LISTED: &str = "The cluster does not list ";

/// True when a cluster that could not retrieve its updates would refuse the update, because it does not list it. `message`: that of
/// [`PreflightReason::UpdatesNotRetrieved`].
#[must_use]
pub fn lacks_target(message: &str) -> bool {
    message.starts_with(NOT_LISTED)
}

pub(super) fn offer(
    current: &str,
    facts: &Facts,
    plan: &PlannedUpdate,
    findings: &mut Vec<PreflightFinding>,
) -> Request {
    if !plan.image.is_empty() {
        return Request::AsPlanned;
    }
    let Some(channel) = known(&facts.channel, "the channel of the cluster", findings) else {
        return Request::AsPlanned;
    };
    if changes_channel(facts, plan) {
        findings.extend(in_other_channel(current, channel, plan));
        return Request::AsPlanned;
    }
    let Some(offer) = known(&facts.offer, "the updates that the cluster offers", findings) else {
        return Request::AsPlanned;
    };
    match offer {
        // Nobody knows what is offered while updates cannot be retrieved. That is a finding of its own.
        Offer::NotListed if !are_retrieved(facts, plan) => note_not_listed(plan, findings),
        Offer::NotListed => {
            let text = format!(
                "The cluster does not offer {} in channel {channel:?}",
                plan.version
            );
            findings.push(finding(PreflightReason::NotOffered, text));
        }
        Offer::Ambiguous => {
            let text = format!("The cluster offers {} with different images", plan.version);
            findings.push(finding(PreflightReason::NotOffered, text));
        }
        Offer::Recommended { image } if image.is_empty() => {}
        Offer::Recommended { image } => return by_image(image, plan, findings),
        Offer::Cleared { risks } => {
            if let Some(names) = names_to_keep(facts, risks, plan) {
                return Request::AcceptingRisks(names);
            }
        }
        Offer::NotRecommended => {
            let text = format!(
                "The cluster does not recommend {}, and does not tell which risk applies: its work agent may be too old for that. Update the agent, or request the update by clusterVersion.image",
                plan.version
            );
            // Not even an author who accepts unknown risks accepts one that is known to apply.
            findings.push(finding(PreflightReason::RiskUnknown, text));
        }
        Offer::Conditional { image, risks } => {
            judge_risks(risks, plan, findings);
            if let Some(names) = names_to_accept(facts, risks, plan) {
                return Request::AcceptingRisks(names);
            }
            // No cluster checks a request by image, so what nobody has accepted is never requested in this way.
            if are_accepted(risks, plan) {
                return by_image(image, plan, findings);
            }
        }
    }
    Request::AsPlanned
}

/// Says in the finding that updates cannot be retrieved that the version is not among those that are still known.
fn note_not_listed(plan: &PlannedUpdate, findings: &mut [PreflightFinding]) {
    let reason = PreflightReason::UpdatesNotRetrieved;
    for finding in findings.iter_mut().filter(|finding| finding.reason == reason) {
        finding.message = format!("{NOT_LISTED}{}: {}", plan.version, finding.message);
    }
}

/// True when every risk that counts is accepted, by its name or as an unknown one.
fn are_accepted(risks: &[OfferedRisk], plan: &PlannedUpdate) -> bool {
    let is_accepted = |risk: &OfferedRisk| {
        plan.accepted_risks.contains(&risk.name)
            || risk.applies == Some(false)
            || (risk.applies.is_none() && plan.accept_unknown_risks)
    };
    risks.iter().all(is_accepted) && (!risks.is_empty() || plan.accept_unknown_risks)
}

/// The request by the image that the cluster reports for the version, which must name it by its digest: only that cannot change.
fn by_image(image: &str, plan: &PlannedUpdate, findings: &mut Vec<PreflightFinding>) -> Request {
    let digest = image.split_once("@sha256:").map_or("", |(_, digest)| digest);
    if digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Request::ByImage(image.to_owned());
    }
    let text = format!(
        "The cluster offers {} without the digest of its image, by which it must be requested",
        plan.version
    );
    findings.push(finding(PreflightReason::NotOffered, text));
    Request::AsPlanned
}

/// True when the cluster knows the updates of its channel, or nobody waits until it does.
fn are_retrieved(facts: &Facts, plan: &PlannedUpdate) -> bool {
    let health = facts.health.as_ref();
    is_ignored(PreflightReason::UpdatesNotRetrieved, plan)
        || health.is_ok_and(|health| is(health.retrieved.as_ref(), ConditionStatus::True))
}

/// What is found of an update in a channel that the cluster does not evaluate. Only an update graph of our own can tell that it is
/// served, and no graph can tell whether a risk applies to the cluster.
fn in_other_channel(current: &str, channel: &str, plan: &PlannedUpdate) -> Option<PreflightFinding> {
    let (version, wanted) = (&plan.version, &plan.channel);
    let Some(graph) = &plan.by_graph else {
        return Some(finding(
            PreflightReason::ChannelDiffers,
            format!("The cluster evaluates the updates of channel {channel:?}, not those of {wanted:?}"),
        ));
    };
    let Some(risks) = graph.from.get(current) else {
        return Some(finding(
            PreflightReason::NotOffered,
            format!("The update graph has no update from {current} to {version} in channel {wanted:?}"),
        ));
    };
    let texts: Vec<String> = risks
        .iter()
        .map(|risk| format!("{}: {}", risk.name, risk.message))
        .collect();
    (!risks.is_empty()).then(|| PreflightFinding {
        reason: PreflightReason::RiskUnknown,
        names: risks.iter().map(|risk| risk.name.clone()).collect(),
        message: format!(
            "The cluster evaluates the risks of the update only in channel {wanted:?}, which preflight.setChannel sets: {}",
            texts.join("; ")
        ),
    })
}

/// The risks to name in a request, if the cluster accepts them by name and every one that counts is named.
fn names_to_accept(facts: &Facts, risks: &[OfferedRisk], plan: &PlannedUpdate) -> Option<Vec<String>> {
    let counting: Vec<&OfferedRisk> = risks.iter().filter(|risk| risk.applies != Some(false)).collect();
    let is_named = |risk: &&OfferedRisk| plan.accepted_risks.contains(&risk.name);
    let by_name = facts.accepts_risks == Ok(true) && !counting.is_empty();
    (by_name && counting.iter().all(is_named)).then(|| {
        let names: BTreeSet<&str> = counting.iter().map(|risk| risk.name.as_str()).collect();
        names.into_iter().map(str::to_owned).collect()
    })
}

/// The accepted ones among the risks of a version that the cluster recommends, if it accepts risks by name. Its present request may accept
/// them, for example that of an attempt which failed. A request that does not name them takes that back, and the cluster rejects it.
fn names_to_keep(facts: &Facts, risks: &[String], plan: &PlannedUpdate) -> Option<Vec<String>> {
    let is_accepted = |name: &&String| plan.accepted_risks.contains(*name);
    let names: BTreeSet<&String> = risks.iter().filter(is_accepted).collect();
    let by_name = facts.accepts_risks == Ok(true) && !names.is_empty();
    by_name.then(|| names.into_iter().cloned().collect())
}

fn judge_risks(risks: &[OfferedRisk], plan: &PlannedUpdate, findings: &mut Vec<PreflightFinding>) {
    let open = risks
        .iter()
        .filter(|risk| !plan.accepted_risks.contains(&risk.name));
    // A cluster that says that no risk applies, and does not recommend the update, contradicts itself.
    let is_told = risks
        .iter()
        .any(|risk| risk.applies == Some(true) || risk.applies.is_none());
    let of = |wanted: fn(Option<bool>) -> bool| -> Vec<&OfferedRisk> {
        open.clone().filter(|risk| wanted(risk.applies)).collect()
    };
    let applying = of(|applies| applies == Some(true));
    let unknown = if is_told {
        of(|applies| applies.is_none())
    } else {
        of(|_| true)
    };
    let mut add = |reason, risks: &[&OfferedRisk]| {
        let texts: Vec<String> = risks
            .iter()
            .map(|risk| format!("{}: {}", risk.name, risk.message))
            .collect();
        findings.push(PreflightFinding {
            reason,
            names: risks.iter().map(|risk| risk.name.clone()).collect(),
            message: texts.join("; "),
        });
    };
    if !applying.is_empty() {
        add(PreflightReason::RiskNotAccepted, &applying);
    }
    if !unknown.is_empty() && !plan.accept_unknown_risks {
        add(PreflightReason::RiskUnknown, &unknown);
    }
    if risks.is_empty() && !plan.accept_unknown_risks {
        // Without names, nobody can accept them by name, and they may apply.
        findings.push(finding(
            PreflightReason::RiskUnknown,
            format!(
                "The cluster offers {} only with risks, and does not tell which: its work agent may be too old for that. Update the agent, request the update by clusterVersion.image, or set preflight.unknownRisks: Accept",
                plan.version
            ),
        ));
    }
}
