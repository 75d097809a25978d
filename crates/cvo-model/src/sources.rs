//! Risks that the cluster itself finds: firing alerts, and the reasons for Upgradeable=False in 4.23 and later.
//!
//! This module defines their names and texts (`docs/design/cvo.md#risks-of-the-cluster-itself`), and merges them into the
//! updates that they affect.

use std::collections::{BTreeMap, BTreeSet};

use clusterversion::types::{
    APPLIES, ClusterOperatorCondition, ConditionStatus, ConditionalUpdate, Conditions, MatchingRule, Release,
    Risk, Time,
};
use clusterversion::{upgradeable, version};

use crate::diagnostic::Diagnostic;
use crate::retrieval;

const DOCUMENTATION: &str = "https://docs.redhat.com/en/documentation/openshift_container_platform/";

/// An alert of the cluster's monitoring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alert {
    /// Labels, `alertname` and `severity` among them.
    pub labels: BTreeMap<String, String>,
    /// Annotations: `summary`, `description`, `message`, `runbook_url`.
    pub annotations: BTreeMap<String, String>,
    /// `firing` or `pending`.
    pub state: String,
    /// When it became active.
    pub active_at: Option<Time>,
}

/// A risk of some updates.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcedRisk {
    /// The risk.
    pub risk: Risk,
    /// Whether it affects only updates to another minor or major version.
    pub gated_only: bool,
}

/// A risk that always applies, because its source has already checked.
#[must_use]
pub fn certain(name: impl Into<String>, message: impl Into<String>, url: impl Into<String>) -> Risk {
    Risk {
        url: url.into(),
        name: name.into(),
        message: message.into(),
        matching_rules: vec![MatchingRule::always()],
        ..Risk::default()
    }
}

/// The URL of a documentation page for a version, or of the start page if the text is not a version.
#[must_use]
pub fn documentation(version: &str, page: &str) -> String {
    version::parse(version).map_or_else(
        || DOCUMENTATION.to_owned(),
        |version| {
            format!(
                "{DOCUMENTATION}{}.{}/html/{page}",
                version.major(),
                version.minor()
            )
        },
    )
}

/// Why an alert matters for an update; `None` if it does not.
fn impact(name: &str, severity: &str, precheck: bool) -> Option<&'static str> {
    match name {
        _ if severity == "critical" => Some("suggesting significant cluster issues worth investigating"),
        "PodDisruptionBudgetAtLimit" => Some("which might slow node drains"),
        "KubeContainerWaiting"
        | "KubeletHealthState"
        | "KubeNodeNotReady"
        | "KubeNodeReadinessFlapping"
        | "KubeNodeUnreachable"
        | "VirtHandlerDaemonSetRolloutFailing"
        | "VMCannotBeEvicted" => Some("which may slow workload redistribution during rolling node updates"),
        _ if precheck => Some("suggesting issues worth investigating before updating the cluster"),
        _ => None,
    }
}

/// The risks of firing alerts, by name. Several alerts with the same name become one risk.
#[must_use]
pub fn of_alerts(alerts: &[Alert], now: Time) -> Vec<SourcedRisk> {
    let mut risks: BTreeMap<String, Risk> = BTreeMap::new();
    for alert in alerts.iter().filter(|alert| alert.state != "pending") {
        let label = |key: &str| alert.labels.get(key).map_or("", String::as_str);
        let annotation = |key: &str| alert.annotations.get(key).map_or("", String::as_str);
        let (name, severity) = (label("alertname"), label("severity"));
        let precheck = label("openShiftUpdatePrecheck") == "true";
        let Some(impact) = (!name.is_empty())
            .then(|| impact(name, severity, precheck))
            .flatten()
        else {
            continue;
        };
        let mut summary = match annotation("summary") {
            "" => name.to_owned(),
            text => text.to_owned(),
        };
        if !summary.ends_with('.') {
            summary.push('.');
        }
        let description = match (annotation("description"), annotation("message")) {
            ("", "") => " The alert has no description.".to_owned(),
            (text, "") | ("", text) => format!(" The alert description is: {text}"),
            (description, message) => format!(" The alert description is: {description} | {message}"),
        };
        let (runbook, url) = match annotation("runbook_url") {
            text if !retrieval::is_absolute(text) => (
                "<alert does not have a runbook_url annotation>",
                "https://github.com/openshift/runbooks/tree/master/alerts?runbook=notfound",
            ),
            url => (url, url),
        };
        let place = if matches!(name, "PodDisruptionBudgetAtLimit" | "PodDisruptionBudgetLimit") {
            let budget = label("poddisruptionbudget");
            format!("Namespace={}, PodDisruptionBudget={budget}. ", label("namespace"))
        } else {
            String::new()
        };
        let message = format!(
            "{severity} alert {name} {}, {impact}. {place}{summary}{description} {runbook}",
            alert.state
        );
        let reason = format!("Alert:{}", alert.state);
        let since = alert.active_at.unwrap_or(now);
        let applies = ClusterOperatorCondition::new(since, APPLIES, ConditionStatus::True, reason, message);
        if let Some(risk) = risks.get_mut(name) {
            join(&mut risk.conditions, &applies);
        } else {
            let mut risk = certain(name, summary, url);
            risk.conditions = Conditions(vec![applies]);
            risks.insert(name.to_owned(), risk);
        }
    }
    let all = risks.into_values();
    all.map(|risk| SourcedRisk {
        risk,
        gated_only: false,
    })
    .collect()
}

fn join(conditions: &mut Conditions, applies: &ClusterOperatorCondition) {
    if let Some(first) = conditions.0.first_mut() {
        first.message = format!("{}; {}", first.message, applies.message);
        first.last_transition_time = first.last_transition_time.min(applies.last_transition_time);
    }
}

/// Whether a name is a valid name of a risk: `^[A-Z][A-Za-z0-9.-]*$`.
fn is_name(text: &str) -> bool {
    let tail = |byte: &u8| byte.is_ascii_alphanumeric() || b".-".contains(byte);
    matches!(text.as_bytes(), [first, rest @ ..] if first.is_ascii_uppercase() && rest.iter().all(tail))
}

/// Merges risks into the updates that they affect. An affected unconditional update becomes a conditional one. The risks of an
/// update are sorted by name.
pub fn merge(
    current: &str,
    updates: &mut Vec<Release>,
    conditional: &mut Vec<ConditionalUpdate>,
    sourced: &[SourcedRisk],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let concerns =
        |sourced: &SourcedRisk, version: &str| !sourced.gated_only || upgradeable::blocks(current, version);
    let mut known = BTreeSet::new();
    let mut usable: Vec<&SourcedRisk> = Vec::new();
    for source in sourced {
        let name = &source.risk.name;
        if !is_name(name) {
            let why = format!("invalid risk name {name:?}");
            diagnostics.push(Diagnostic::RiskNotMerged { why });
        } else if !known.insert(name.clone()) {
            let why = format!("divergent definitions of risk {name:?}");
            diagnostics.push(Diagnostic::RiskNotMerged { why });
        } else {
            usable.push(source);
        }
    }
    updates.retain(|release| {
        let concerned = usable.iter().any(|source| concerns(source, &release.version));
        if concerned {
            conditional.push(ConditionalUpdate {
                release: release.clone(),
                ..ConditionalUpdate::default()
            });
        }
        !concerned
    });
    for update in conditional {
        for source in usable
            .iter()
            .filter(|source| concerns(source, &update.release.version))
        {
            if update.risks.iter().all(|risk| risk.name != source.risk.name) {
                let mut risk = source.risk.clone();
                if risk.message.is_empty() {
                    // The schema requires a message.
                    risk.message.clone_from(&risk.name);
                }
                update.risks.push(risk);
            }
        }
        update.risks.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

#[cfg(test)]
mod tests;
