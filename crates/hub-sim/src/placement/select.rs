//! Which clusters a Placement selects, by the rules of OCM's placement controller. Pure: values in, names out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::json::At as _;
use crate::object::Object;

/// The label that puts a cluster into a set.
const SET_LABEL: &str = "cluster.open-cluster-management.io/clusterset";

/// What selection depends on, of one cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub claims: BTreeMap<String, String>,
    pub taints: Vec<Value>,
    /// The status of its condition `ManagedClusterConditionAvailable`; empty if there is none.
    pub available: String,
}

impl Cluster {
    pub(super) fn of(object: &Object) -> Self {
        let value = object.value();
        let items = |path: &str| value.at(path).and_then(Value::as_array).into_iter().flatten();
        let available = items("/status/conditions")
            .find(|condition| text(condition, "type") == "ManagedClusterConditionAvailable")
            .map(|condition| text(condition, "status"));
        Self {
            name: object.name().to_owned(),
            labels: object
                .labels
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
            claims: items("/status/clusterClaims")
                .map(|claim| (text(claim, "name").to_owned(), text(claim, "value").to_owned()))
                .collect(),
            taints: items("/spec/taints").cloned().collect(),
            available: available.unwrap_or_default().to_owned(),
        }
    }
}

/// Why a Placement cannot be decided, for its condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misconfigured(pub String);

/// The clusters that a Placement selects among those of the sets, by name. `decided` are those that it has selected before.
///
/// # Errors
/// The Placement contradicts itself, or has a field that this scheduler does not know. Without `numberOfClusters` all clusters are
/// selected, so scores do not matter.
pub(super) fn select<'c>(
    spec: &Value,
    clusters: &[&'c Cluster],
    decided: &BTreeSet<String>,
) -> Result<Vec<&'c Cluster>, Misconfigured> {
    if is_set(spec, "numberOfClusters") {
        return Err(unknown("numberOfClusters"));
    }
    let predicates = items(spec, "predicates");
    let tolerations = items(spec, "tolerations");
    for predicate in predicates {
        if is_set(&predicate["requiredClusterSelector"], "celSelector") {
            return Err(unknown("celSelector"));
        }
    }
    let is_required = |cluster: &&Cluster| {
        let matches = |predicate: &Value| matches_cluster(&predicate["requiredClusterSelector"], cluster);
        predicates.is_empty() || predicates.iter().any(matches)
    };
    let mut selected: Vec<&Cluster> = clusters.iter().copied().filter(is_required).collect();
    // Nobody looks at tolerations that are not needed.
    if !selected.is_empty() {
        check_tolerations(tolerations)?;
    }
    selected.retain(|cluster| {
        let is_decided = decided.contains(&cluster.name);
        let mut taints = cluster.taints.iter();
        taints.all(|taint| is_tolerated(taint, tolerations, is_decided))
    });
    selected.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(selected)
}

fn unknown(field: &str) -> Misconfigured {
    Misconfigured(format!("the simulated hub does not support {field}"))
}

fn is_set(value: &Value, field: &str) -> bool {
    value.get(field).is_some_and(|value| !value.is_null())
}

fn check_tolerations(tolerations: &[Value]) -> Result<(), Misconfigured> {
    for toleration in tolerations {
        let exists = text(toleration, "operator") == "Exists";
        if text(toleration, "key").is_empty() && !exists {
            let why = "TaintToleration:If the key is empty, operator must be Exists.";
            return Err(Misconfigured(why.to_owned()));
        }
        if exists && !text(toleration, "value").is_empty() {
            let why = "TaintToleration:If the operator is Exists, the value should be empty.";
            return Err(Misconfigured(why.to_owned()));
        }
        if is_set(toleration, "tolerationSeconds") {
            return Err(unknown("tolerationSeconds"));
        }
    }
    Ok(())
}

fn is_tolerated(taint: &Value, tolerations: &[Value], is_decided: bool) -> bool {
    let effect = text(taint, "effect");
    effect == "PreferNoSelect"
        || (effect == "NoSelectIfNew" && is_decided)
        || tolerations.iter().any(|toleration| {
            let fits = |field: &str| {
                let wanted = text(toleration, field);
                wanted.is_empty() || wanted == text(taint, field)
            };
            let same_value = text(toleration, "value") == text(taint, "value");
            fits("effect") && fits("key") && (text(toleration, "operator") == "Exists" || same_value)
        })
}

/// The clusters of a ManagedClusterSet.
pub(super) fn members<'c>(set: &str, spec: &Value, clusters: &'c [Arc<Cluster>]) -> Vec<&'c Cluster> {
    let selector = &spec["clusterSelector"];
    let by_selector = text(selector, "selectorType") == "LabelSelector";
    let is_member = |cluster: &&Cluster| {
        if by_selector {
            matches(&selector["labelSelector"], &cluster.labels)
        } else {
            cluster.labels.get(SET_LABEL).is_some_and(|have| have == set)
        }
    };
    clusters.iter().map(Arc::as_ref).filter(is_member).collect()
}

/// The groups of a Placement's strategy: their names and the clusters in each, never none.
pub(super) fn groups<'c>(
    spec: &Value,
    selected: &[&'c Cluster],
) -> Result<Vec<(String, Vec<&'c str>)>, Misconfigured> {
    let strategy = &spec["decisionStrategy"]["groupStrategy"];
    let size = group_size(&strategy["clustersPerDecisionGroup"], selected.len())?;
    let mut rest: Vec<&Cluster> = selected.to_vec();
    let mut groups = Vec::new();
    let mut divide = |name: &str, clusters: Vec<&'c Cluster>| {
        for part in clusters.chunks(size.max(1)) {
            let names = part.iter().map(|cluster| cluster.name.as_str()).collect();
            groups.push((name.to_owned(), names));
        }
    };
    for group in items(strategy, "decisionGroups") {
        let (inside, outside) = rest
            .into_iter()
            .partition(|cluster| matches_cluster(&group["groupClusterSelector"], cluster));
        divide(text(group, "groupName"), inside);
        rest = outside;
    }
    divide("", rest);
    if groups.is_empty() {
        groups.push((String::new(), Vec::new()));
    }
    Ok(groups)
}

/// How many of `total` clusters are in a group: a number, or a percentage that is rounded up.
fn group_size(given: &Value, total: usize) -> Result<usize, Misconfigured> {
    let size = match given {
        Value::Null => total,
        Value::Number(number) => number
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(0),
        other => {
            let percent = other.as_str().and_then(|text| text.strip_suffix('%'));
            let percent: usize = percent
                .and_then(|digits| digits.parse().ok())
                .ok_or_else(|| Misconfigured(format!("{other} invalid type: string is not a percentage")))?;
            (total * percent).div_ceil(100)
        }
    };
    Ok(if size == 0 || size > total { total } else { size })
}

/// Labels and claims of a `requiredClusterSelector` or `groupClusterSelector`.
fn matches_cluster(selector: &Value, cluster: &Cluster) -> bool {
    matches(&selector["labelSelector"], &cluster.labels)
        && matches(&selector["claimSelector"], &cluster.claims)
}

/// Whether a selector with `matchLabels` and `matchExpressions` matches. An empty one matches everything.
fn matches(selector: &Value, have: &BTreeMap<String, String>) -> bool {
    let labels = selector["matchLabels"].as_object();
    let mut labels = labels.into_iter().flatten();
    labels.all(|(name, value)| have.get(name).map(String::as_str) == value.as_str())
        && items(selector, "matchExpressions").iter().all(|expression| {
            let found = have.get(text(expression, "key"));
            let is_one =
                found.is_some_and(|found| items(expression, "values").iter().any(|value| value == found));
            match text(expression, "operator") {
                "In" => is_one,
                "NotIn" => !is_one,
                "Exists" => found.is_some(),
                _ => found.is_none(),
            }
        })
}

pub(super) fn items<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value
        .get(field)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(super) fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}
