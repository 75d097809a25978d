//! The manifest that `create` writes. What is not asked for is left out, so that defaults apply.

use api::mcu::{ClusterSelector, LabelExpression, LabelOperator};
use serde_json::{Map, Value, json};

use crate::args::CreateArgs;

/// The manifest for these arguments.
///
/// # Errors
/// A selector cannot be read, or has no term.
pub fn manifest(args: &CreateArgs, namespace: &str) -> Result<Value, String> {
    let mut spec = Map::new();
    if !args.placements.is_empty() {
        let names: Vec<Value> = args.placements.iter().map(|name| json!({"name": name})).collect();
        spec.insert("placement".to_owned(), json!(names));
    }
    if !args.sets.is_empty() || args.selector.is_some() || !args.clusters.is_empty() {
        let mut selector = match &args.selector {
            Some(text) => terms(
                "--selector",
                text,
                "it would select all clusters",
                "region=eu; for all clusters of sets, leave it out and name the sets with --set",
            )?,
            None => ClusterSelector::default(),
        };
        selector.cluster_sets.clone_from(&args.sets);
        if !args.clusters.is_empty() {
            selector.match_expressions.push(LabelExpression {
                key: api::names::KEY_METADATA_NAME.to_owned(),
                operator: LabelOperator::In,
                values: args.clusters.clone(),
            });
        }
        spec.insert("clusterSelector".to_owned(), json!(selector));
    }
    let target = object([
        ("channel", args.channel.as_ref()),
        ("version", args.to.as_ref()),
        ("image", args.image.as_ref()),
    ]);
    if !target.is_empty() {
        spec.insert("clusterVersion".to_owned(), target.into());
    }
    if args.operators {
        spec.insert("ocpOperators".to_owned(), json!({"approveAllUpgrades": true}));
    }
    let strategy = strategy(args)?;
    if !strategy.is_empty() {
        spec.insert("upgradeStrategy".to_owned(), strategy.into());
    }
    if args.paused {
        spec.insert("paused".to_owned(), json!(true));
    }
    Ok(json!({
        "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
        "kind": "ManagedClustersUpgrade",
        "metadata": {"name": args.name, "namespace": namespace},
        "spec": spec,
    }))
}

/// A warning for each of these sets that none of the bindings of the namespace is for. Empty if all are bound.
#[must_use]
pub fn unbound(sets: &[String], bindings: &[Value], namespace: &str) -> String {
    let is_bound = |set: &&String| {
        let mut bound = bindings.iter().map(|binding| &binding["spec"]["clusterSet"]);
        bound.any(|bound| bound == set.as_str())
    };
    let warning = |set: &String| {
        format!(
            "Warning: namespace {namespace} has no ManagedClusterSetBinding for {set}, and no cluster of the set is selected before it has one\n"
        )
    };
    sets.iter().filter(|set| !is_bound(set)).map(warning).collect()
}

/// A warning for each name alone that is given for canaries: it is that of a label, and may be meant for a cluster. `spec`: that of the
/// manifest.
#[must_use]
pub fn labels_of_any_value(spec: &Value) -> String {
    let terms = &spec["upgradeStrategy"]["canaryClusters"]["clusterSelector"]["matchExpressions"];
    let terms = terms.as_array().into_iter().flatten();
    let keys = terms.filter(|term| term["operator"] == "Exists");
    let keys = keys.filter_map(|term| term["key"].as_str());
    let warning = |key: &str| {
        format!(
            "Warning: --canary {key} makes canaries of the clusters that have a label {key}, whatever its value; for a cluster of that name, write --canary metadata.name={key}\n"
        )
    };
    keys.map(warning).collect()
}

fn strategy(args: &CreateArgs) -> Result<Map<String, Value>, String> {
    let mut strategy = object([
        ("actionTimeout", args.action_timeout.as_ref()),
        ("clusterUpgradeTimeout", args.cluster_upgrade_timeout.as_ref()),
        ("minSuccessTime", args.min_success_time.as_ref()),
    ]);
    if let Some(canary) = &args.canary {
        let selector = terms(
            "--canary",
            canary,
            "all clusters would be canaries",
            "canary=true, or leave it out",
        )?;
        strategy.insert("canaryClusters".to_owned(), json!({"clusterSelector": selector}));
    }
    for (key, number) in [
        ("maxConcurrency", &args.max_concurrency),
        ("maxFailures", &args.max_failures),
    ] {
        if let Some(text) = number {
            let value = text
                .parse::<i64>()
                .map_or_else(|_| json!(text), |number| json!(number));
            strategy.insert(key.to_owned(), value);
        }
    }
    Ok(strategy)
}

fn object<const N: usize>(fields: [(&str, Option<&String>); N]) -> Map<String, Value> {
    let given = fields.into_iter().filter_map(|(key, value)| Some((key, value?)));
    given.map(|(key, value)| (key.to_owned(), json!(value))).collect()
}

/// Reads the selector of a flag. One without a term matches everything, and is what an unset variable of a script leaves.
fn terms(flag: &str, text: &str, effect: &str, remedy: &str) -> Result<ClusterSelector, String> {
    let read = selector(text)?;
    if read.match_labels.is_empty() && read.match_expressions.is_empty() {
        return Err(format!(
            "{flag} {text:?} names no label, so {effect}; a variable of a script may be unset. Name labels, such as {remedy}"
        ));
    }
    Ok(read)
}

/// Reads a label selector as kubectl does: `a=b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a` and `!a`, separated by commas.
fn selector(text: &str) -> Result<ClusterSelector, String> {
    let mut selector = ClusterSelector::default();
    let expression = |key: &str, operator, values: Vec<String>| LabelExpression {
        key: key.trim().to_owned(),
        operator,
        values,
    };
    for part in parts(text) {
        let found = if let Some((key, values)) = set(part, " notin ") {
            expression(key, LabelOperator::NotIn, values)
        } else if let Some((key, values)) = set(part, " in ") {
            expression(key, LabelOperator::In, values)
        } else if part.contains(['(', ')']) {
            return Err(format!("selector {text:?} cannot be read at {part:?}"));
        } else if let Some((key, value)) = part.split_once("!=") {
            expression(key, LabelOperator::NotIn, vec![value.trim().to_owned()])
        } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            if selector.match_labels.insert(key.clone(), value).is_some() {
                return Err(format!("selector {text:?} asks for two values of {key:?}"));
            }
            continue;
        } else if let Some(key) = part.strip_prefix('!') {
            expression(key, LabelOperator::DoesNotExist, Vec::new())
        } else {
            expression(part, LabelOperator::Exists, Vec::new())
        };
        selector.match_expressions.push(found);
    }
    Ok(selector)
}

/// `key in (a, b)`, if the operator is in the text.
fn set<'a>(part: &'a str, operator: &str) -> Option<(&'a str, Vec<String>)> {
    let (key, values) = part.split_once(operator)?;
    let values = values.trim().strip_prefix('(')?.strip_suffix(')')?;
    Some((
        key,
        values.split(',').map(|value| value.trim().to_owned()).collect(),
    ))
}

/// The parts between commas that are not in parentheses.
fn parts(text: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[start..]);
    found
        .into_iter()
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

#[cfg(test)]
mod tests;
