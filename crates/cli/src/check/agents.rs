//! What a hub knows of the agents on its clusters: when they were last heard of, and whether one is kept from applying a work. It
//! knows neither their version nor what they may do on their clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use api::time::parse_rfc3339;
use api::validate::is_subdomain;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::Reason;
use serde_json::Value;

use super::facts::Installed;
use super::{Checks, Level, some};
use crate::age;
use crate::table::one_line;

/// Annotations of a cluster by which Advanced Cluster Management was told where its agent runs.
const DEPLOY_MODE: &str = "import.open-cluster-management.io/klusterlet-deploy-mode";
const NAMESPACE: &str = "import.open-cluster-management.io/klusterlet-namespace";
/// Longest namespace that it makes up for an agent.
const MAX_NAMESPACE: usize = 57;
/// Heartbeats that an agent may miss before the hub takes its cluster for unavailable.
const MISSED: i64 = 5;
/// Seconds between two heartbeats, unless the cluster says otherwise.
const PERIOD: i64 = 60;

/// Clusters whose agents have not reported for a while cannot be upgraded.
pub(super) fn heartbeats(checks: &mut Checks, facts: &Installed, now: DateTime<Utc>) {
    let clusters = match &facts.clusters {
        Err(why) => return checks.unread("The ManagedClusters", why),
        Ok(clusters) => clusters,
    };
    let mut silent: Vec<String> = Vec::new();
    let mut reporting: Vec<&Value> = Vec::new();
    for cluster in clusters {
        match silence(cluster, now) {
            Some(text) => silent.push(text),
            None => reporting.push(cluster),
        }
    }
    match (clusters.len(), silent.len()) {
        (0, _) => checks.add(Level::Warning, "The hub has no clusters", "Register clusters."),
        (all, 0) => checks.ok(format!("The agents of all {all} clusters report")),
        (all, count) => checks.add(
            Level::Warning,
            format!(
                "The agents of {count} of {all} clusters do not report: {}",
                some(&silent)
            ),
            "Such clusters wait with the reason ClusterUnavailable. Check their klusterlets.",
        ),
    }
    match &facts.leases {
        Err(why) => checks.unread("The Leases of the agents", why),
        Ok(leases) => unnoticed(checks, &reporting, leases, now),
    }
}

/// The name of a cluster that is not available, and since when; `None` if it is available.
fn silence(cluster: &Value, now: DateTime<Utc>) -> Option<String> {
    let conditions = cluster["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let available = conditions.find(|condition| condition["type"] == "ManagedClusterConditionAvailable");
    if available.is_some_and(|condition| condition["status"] == "True") {
        return None;
    }
    let name = name_of(cluster);
    let since = available
        .and_then(|condition| condition["lastTransitionTime"].as_str())
        .and_then(parse_rfc3339);
    Some(since.map_or_else(
        || format!("{name} (never joined)"),
        |since| format!("{name} (for {})", age::human(now - since)),
    ))
}

/// Clusters that count as available although their agents are silent. This is so while the hub's registration controller, which
/// compares the Leases with the time, does not run.
fn unnoticed(checks: &mut Checks, reporting: &[&Value], leases: &[Value], now: DateTime<Utc>) {
    let heard = |lease: &Value| lease["spec"]["renewTime"].as_str().and_then(parse_rfc3339);
    let heard: BTreeMap<&str, DateTime<Utc>> = leases
        .iter()
        .filter_map(|lease| Some((lease["metadata"]["namespace"].as_str()?, heard(lease)?)))
        .collect();
    let mut late: Vec<String> = Vec::new();
    let mut oldest: Option<TimeDelta> = None;
    for cluster in reporting {
        let name = cluster["metadata"]["name"].as_str().unwrap_or_default();
        let Some(heard) = heard.get(name) else {
            continue;
        };
        let period = cluster["spec"]["leaseDurationSeconds"].as_i64();
        let period = period.filter(|seconds| *seconds > 0).unwrap_or(PERIOD);
        let limit = TimeDelta::try_seconds(period.saturating_mul(MISSED)).unwrap_or(TimeDelta::MAX);
        let length = (now - *heard).max(TimeDelta::zero());
        if length > limit {
            late.push(format!("{} (for {})", one_line(name), age::human(length)));
        } else {
            oldest = oldest.max(Some(length));
        }
    }
    if !late.is_empty() {
        checks.add(
            Level::Warning,
            format!(
                "Clusters that the hub takes for available although their agents are silent: {}",
                some(&late)
            ),
            "Check the registration controller of Open Cluster Management on the hub, and the klusterlets of these clusters.",
        );
    } else if let Some(oldest) = oldest {
        checks.ok(format!(
            "The oldest heartbeat of an agent is {} old",
            age::human(oldest)
        ));
    }
}

/// Whether agents run under another service account than the one that gets its rights by its name. Of most clusters the hub does
/// not know under which account the agent runs.
pub(super) fn accounts(checks: &mut Checks, facts: &Installed, account: &str, is_granted: bool) {
    let Ok(clusters) = &facts.clusters else {
        return;
    };
    let others: Vec<String> = clusters
        .iter()
        .filter_map(|cluster| Some((cluster, account_of(cluster)?)))
        .filter(|(_, other)| is_granted && other != account)
        .map(|(cluster, other)| format!("{} ({})", name_of(cluster), one_line(&other)))
        .collect();
    if !others.is_empty() {
        return checks.add(
            Level::Warning,
            format!(
                "The agents of {} of {} clusters run under another service account than {account}: {}",
                others.len(),
                clusters.len(),
                some(&others)
            ),
            "Start the controller with --spoke-rbac=aggregate, which needs no account, or with the right --agent-service-account.",
        );
    }
    let known = if is_granted {
        format!("No cluster is known whose agent runs under another service account than {account}")
    } else {
        "Agents may run under any service account".to_owned()
    };
    let mut remedy = "The hub knows neither the version of an agent nor its rights.".to_owned();
    // Whoever copies the command into a shell must not run what somebody has written into the flags of the Deployment.
    if let Some((namespace, name)) = account.split_once('/')
        && is_subdomain(namespace)
        && is_subdomain(name)
    {
        let _ = write!(
            remedy,
            " Ask the cluster: oc auth can-i patch clusterversions --as=system:serviceaccount:{namespace}:{name}"
        );
    }
    checks.add(Level::Ok, known, remedy);
}

/// The service account of a cluster's work agent, as NAMESPACE/NAME, where Advanced Cluster Management was told to put the agent
/// elsewhere than usual; `None` for all other clusters.
fn account_of(cluster: &Value) -> Option<String> {
    let annotation = |key: &str| cluster["metadata"]["annotations"][key].as_str();
    let is_hosted = annotation(DEPLOY_MODE) == Some("Hosted");
    let namespace = annotation(NAMESPACE).map(str::to_owned);
    let cluster = cluster["metadata"]["name"].as_str().unwrap_or_default();
    if !is_hosted {
        return namespace.map(|namespace| format!("{namespace}/klusterlet-work-sa"));
    }
    let namespace = namespace.unwrap_or_else(|| {
        let usual = format!("open-cluster-management-{cluster}");
        usual.chars().take(MAX_NAMESPACE).collect()
    });
    Some(format!("{namespace}/klusterlet-{cluster}-work-sa"))
}

/// Whether agents apply the works of upgrades. This shows rights that they lack, as far as an upgrade has needed them.
pub(super) fn works(checks: &mut Checks, facts: &Installed, namespace: &str) {
    let reports = match &facts.reports {
        Err(why) => return checks.unread(&format!("The reports of {namespace}"), why),
        Ok(reports) => reports,
    };
    let rows: Vec<&Value> = reports
        .iter()
        .filter_map(|report| report["rows"].as_array())
        .flatten()
        .collect();
    let rejecting: BTreeSet<String> = rows
        .iter()
        .filter(|row| row["reason"] == Reason::NotApplied.as_str())
        .map(|row| one_line(row["cluster"].as_str().unwrap_or_default()))
        .collect();
    let rejecting: Vec<String> = rejecting.into_iter().collect();
    if !rejecting.is_empty() {
        checks.add(
            Level::Warning,
            format!(
                "Agents cannot apply a work of an upgrade in namespace {namespace} on: {}",
                some(&rejecting)
            ),
            "Read why: kubectl mcu causes NAME. The agent lacks a permission, or the cluster lacks a CRD or rejects the work by a webhook.",
        );
    } else if !rows.is_empty() {
        checks.ok(format!(
            "No agent is kept from applying a work of the upgrades in namespace {namespace}"
        ));
    }
}

fn name_of(cluster: &Value) -> String {
    one_line(cluster["metadata"]["name"].as_str().unwrap_or_default())
}
