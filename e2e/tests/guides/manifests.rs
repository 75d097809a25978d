//! Tries the YAML of the pages: objects and parts of objects on the API server, settings with the programs that read them.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use testenv::apply::parse_yaml;

use crate::shell::{SUCCESS, Step};

/// Kinds of products that are not here. Commands of the pages use the Kustomizations of kustomize.
const FOREIGN: [&str; 4] = ["ClusterCurator", "ClusterGroupUpgrade", "Kustomization", "Policy"];

/// What is run for a block of YAML. An upgrade is also written to a file of its name, for the commands of the page.
pub fn steps(directory: &Path, line: usize, text: &str) -> Result<Vec<Step>> {
    let documents = parse_yaml(text).with_context(|| format!("the YAML of line {line}"))?;
    let mut objects = Vec::new();
    let mut commands = Vec::new();
    for document in documents {
        if document["apiVersion"].is_string() {
            if !FOREIGN.iter().any(|kind| document["kind"] == *kind) {
                objects.push(document);
            }
        } else if document["spec"].is_object() || document["metadata"].is_object() {
            objects.push(completed(document, line));
        } else {
            commands.extend(of_settings(directory, line, &document)?);
        }
    }
    if !objects.is_empty() {
        commands.extend(of_objects(directory, line, text, &objects)?);
    }
    Ok(commands)
}

fn of_objects(directory: &Path, line: usize, text: &str, objects: &[Value]) -> Result<Vec<Step>> {
    let upgrade = objects
        .iter()
        .find(|object| object["kind"] == "ManagedClustersUpgrade");
    let name = upgrade.and_then(|upgrade| upgrade["metadata"]["name"].as_str());
    if let Some(name) = name {
        std::fs::write(directory.join(format!("{name}.yaml")), text)?;
    }
    let has_upgrade = upgrade.is_some();
    let file = format!("yaml-of-line-{line}.yaml");
    // JSON is YAML.
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(directory.join(&file), list.to_string())?;
    let checked = has_upgrade.then(|| format!("kubectl mcu lint -f {file}"));
    let texts = [Some(format!("kubectl apply --dry-run=server -f {file}")), checked];
    let steps = texts.into_iter().flatten().map(|text| Step {
        line,
        text,
        codes: SUCCESS,
    });
    Ok(steps.collect())
}

/// An upgrade with the part that a page shows.
fn completed(mut part: Value, line: usize) -> Value {
    part["apiVersion"] = json!(format!("{}/{}", api::GROUP, api::VERSION));
    part["kind"] = json!("ManagedClustersUpgrade");
    part["metadata"]["name"] = json!(format!("part-of-line-{line}"));
    part["metadata"]["namespace"] = json!("upgrades");
    let spec = &mut part["spec"];
    if spec["clusterVersion"].is_null() && spec["ocpOperators"].is_null() {
        spec["clusterVersion"] = json!({"version": "4.20.4"});
    }
    part
}

/// What reads settings: the update service, a rehearsal, or a pipeline in a checkout of graph-data.
fn of_settings(directory: &Path, line: usize, settings: &Value) -> Result<Vec<Step>> {
    let file = format!("settings-of-line-{line}.yaml");
    std::fs::write(directory.join(&file), settings.to_string())?;
    let pipeline = settings[0]["run"]
        .as_str()
        .or_else(|| settings["lint"]["script"].as_str());
    let (text, codes): (String, &'static [i32]) = if settings["service"].is_object() {
        let serve = format!(
            "update-service serve --listen 127.0.0.1:0 --config {file} --releases releases.json.gz --graph-data graph-data/"
        );
        (format!("timeout --preserve-status -s INT 3 {serve}"), SUCCESS)
    } else if settings["extraArgs"].is_array() {
        std::fs::write(directory.join("update-graph.yaml"), settings.to_string())?;
        (format!("helm template mcu deploy/chart -f {file}"), SUCCESS)
    } else if settings["platform"].is_object() {
        let rehearse = format!("kubectl mcu rehearse -f winter.yaml --durations {file}");
        (rehearse, &[0, 3])
    } else if let Some(command) = pipeline {
        (format!("(cd graph-data && {command})"), SUCCESS)
    } else {
        bail!("nothing reads the YAML of line {line}");
    };
    Ok(vec![Step { line, text, codes }])
}
