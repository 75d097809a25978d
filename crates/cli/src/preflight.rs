//! What clusters say to an update before they start, in groups: once per cause, and not once per cluster.
//!
//! The answers are those of the probes. Where they cannot be read, the rows of the reports tell the first cause of each cluster.

use std::collections::BTreeMap;

use api::preflight::PreflightSummary;
use api::report::{Phase, ReportRow};
use api::views::ManifestWork;
use clusterversion::preflight::{
    Facts, Offer, PlannedUpdate, PreflightFinding, PreflightReason, Verdict, judge,
};
use observe::feedback::probe;
use serde::Serialize;

use crate::remedy::{self, Names};
use crate::table::one_line;

/// The reason of a cluster of which too little has been known for longer than `preflight.timeout`.
const UNKNOWN_FOR_LONG: &str = "PreflightUnknown";

/// The answers of clusters, by name.
pub type Answers = BTreeMap<String, Facts>;

/// Reads the probes of an upgrade. A probe lies in the namespace of its cluster.
#[must_use]
pub fn answers(probes: &[ManifestWork]) -> Answers {
    let of = |work: &ManifestWork| Some((work.metadata.namespace.clone()?, probe::read(work)));
    probes.iter().filter_map(of).collect()
}

/// Clusters that do not start for the same cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Blocked, or Unknown.
    pub verdict: &'static str,
    /// The reason.
    pub reason: String,
    /// The risk, the gate or the pool; empty for other causes.
    pub name: String,
    /// Number of clusters.
    pub clusters: usize,
    /// The first of them by name.
    pub example: String,
    /// What that one says.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

/// What the clusters of an upgrade that have not started say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Overview {
    /// Namespace of the upgrade.
    pub namespace: String,
    /// Name of the upgrade.
    pub upgrade: String,
    /// How many of them would take the update.
    pub ready: i64,
    /// How many would not.
    pub blocked: i64,
    /// Of how many that is not known.
    pub unknown: i64,
    /// The causes; the largest group first.
    pub groups: Vec<Group>,
}

/// Groups the clusters of an upgrade. `update` is what the spec asks; without it only the rows count.
#[must_use]
pub fn overview(
    (namespace, name): (&str, &str),
    rows: &[ReportRow],
    answers: &Answers,
    update: Option<&PlannedUpdate>,
    summary: Option<PreflightSummary>,
) -> Overview {
    let mut groups: BTreeMap<(String, String), Group> = BTreeMap::new();
    let waits = |row: &&ReportRow| matches!(row.phase, Phase::Pending | Phase::Blocked);
    for row in rows.iter().filter(waits) {
        let facts = answers.get(&row.cluster).zip(update);
        let causes = facts.map_or_else(|| of_row(row), |(facts, update)| of_verdict(judge(facts, update)));
        for cause in causes {
            let key = (cause.reason.clone(), cause.name.clone());
            let group = groups.entry(key).or_insert_with(|| {
                let names = Names {
                    namespace,
                    name,
                    cluster: &row.cluster,
                };
                Group {
                    verdict: if cause.blocks { "Blocked" } else { "Unknown" },
                    remedy: what_to_do(&cause, names),
                    reason: cause.reason,
                    name: one_line(&cause.name),
                    clusters: 0,
                    example: row.cluster.clone(),
                    message: one_line(&cause.message),
                }
            });
            group.clusters += 1;
        }
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by(|a, b| (b.clusters, &a.reason, &a.name).cmp(&(a.clusters, &b.reason, &b.name)));
    let summary = summary.unwrap_or_default();
    Overview {
        namespace: namespace.to_owned(),
        upgrade: name.to_owned(),
        ready: summary.ready,
        blocked: summary.blocked,
        unknown: summary.unknown,
        groups,
    }
}

/// One cause of one cluster.
struct Cause {
    reason: String,
    blocks: bool,
    name: String,
    message: String,
}

fn of_verdict(verdict: Verdict) -> Vec<Cause> {
    match verdict {
        Verdict::Ready(_) => Vec::new(),
        Verdict::Blocked(findings) | Verdict::Unknown(findings) => {
            findings.into_iter().flat_map(causes).collect()
        }
    }
}

/// The cause of a row, if it is one of the preflight.
fn of_row(row: &ReportRow) -> Vec<Cause> {
    let reasons = PreflightReason::ALL.map(|reason| (reason.to_string(), reason.is_blocking()));
    let mut all = reasons.into_iter().chain([(UNKNOWN_FOR_LONG.to_owned(), true)]);
    let known = all.find(|(reason, _)| *reason == row.reason);
    let cause = known.map(|(reason, blocks)| Cause {
        reason,
        blocks,
        name: String::new(),
        message: row.message.clone(),
    });
    cause.into_iter().collect()
}

/// One cause for each name of a finding, each with its part of the text.
fn causes(finding: PreflightFinding) -> Vec<Cause> {
    let PreflightFinding {
        reason,
        mut names,
        message,
    } = finding;
    if names.is_empty() {
        names.push(String::new());
    }
    let text = |name: &str| {
        let from = if name.is_empty() {
            None
        } else {
            message.find(&format!("{name}: "))
        };
        from.map_or(&*message, |from| &message[from..]).to_owned()
    };
    let causes = names.iter().map(|name| Cause {
        reason: reason.to_string(),
        blocks: reason.is_blocking(),
        name: name.clone(),
        message: text(name),
    });
    causes.collect()
}

fn what_to_do(cause: &Cause, names: Names<'_>) -> String {
    let (namespace, upgrade, name) = (names.namespace, names.name, one_line(&cause.name));
    match cause.reason.as_str() {
        "RiskNotAccepted" | "RiskUnknown" if !name.is_empty() => {
            format!(
                "If the risk is acceptable: kubectl mcu accept {upgrade} {name} -n {namespace} --reason '...'"
            )
        }
        "AdminAckRequired" if !name.is_empty() => {
            format!(
                "When the clusters are prepared: kubectl mcu ack {upgrade} {name} -n {namespace} --reason '...'"
            )
        }
        reason => remedy::for_cluster(reason, Phase::Blocked, names),
    }
}

/// What can be consented to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// A risk of the update.
    Risk,
    /// A gate that asks for an acknowledgment.
    Gate,
}

impl Consent {
    /// The thing in a word.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Consent::Risk => "risk",
            Consent::Gate => "gate",
        }
    }
}

/// A risk or a gate that clusters report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// What it is about, as a cluster says it.
    pub text: String,
    /// Number of clusters that it concerns.
    pub clusters: usize,
    /// The first of them by name.
    pub example: String,
}

/// The risks that apply or are not evaluated, or the gates that are not acknowledged, by name.
#[must_use]
pub fn reported(consent: Consent, answers: &Answers) -> BTreeMap<String, Reported> {
    let mut found: BTreeMap<String, Reported> = BTreeMap::new();
    let mut add = |cluster: &str, name: &str, text: &str| {
        let entry = found.entry(name.to_owned()).or_insert_with(|| Reported {
            text: one_line(text),
            clusters: 0,
            example: cluster.to_owned(),
        });
        entry.clusters += 1;
    };
    for (cluster, facts) in answers {
        match (consent, &facts.offer, &facts.gates) {
            (Consent::Risk, Ok(Offer::Conditional { risks, .. }), _) => {
                for risk in risks.iter().filter(|risk| risk.applies != Some(false)) {
                    add(cluster, &risk.name, &risk.message);
                }
            }
            (Consent::Gate, _, Ok(gates)) => {
                for gate in gates {
                    add(cluster, &gate.key, &gate.text);
                }
            }
            _ => {}
        }
    }
    found
}

/// The same from the rows of clusters that wait, for those who may not read probes: only whether rows tell of this name.
#[must_use]
pub fn reported_by_rows(consent: Consent, name: &str, rows: &[ReportRow]) -> Option<Reported> {
    let reasons: &[PreflightReason] = match consent {
        Consent::Risk => &[PreflightReason::RiskNotAccepted, PreflightReason::RiskUnknown],
        Consent::Gate => &[PreflightReason::AdminAckRequired],
    };
    let about = |row: &&ReportRow| {
        let waits = matches!(row.phase, Phase::Pending | Phase::Blocked);
        let is_cause = reasons.iter().any(|reason| reason.to_string() == row.reason);
        let mut words = row
            .message
            .split(|c: char| c.is_whitespace() || ":;,".contains(c));
        waits && is_cause && words.any(|word| word == name)
    };
    let mut rows = rows.iter().filter(about);
    let first = rows.next()?;
    Some(Reported {
        text: one_line(&first.message),
        clusters: 1 + rows.count(),
        example: first.cluster.clone(),
    })
}

#[cfg(test)]
mod tests;
