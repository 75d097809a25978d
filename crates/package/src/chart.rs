//! The generated part of the Helm chart in `deploy/chart`: `Chart.yaml`, a template for each file of the base, and copies of
//! alerts and dashboards.
//!
//! A template is the file of the base, or of what is installed beside it, with a few edits, each of which must find its text exactly
//! once. `values.yaml`, its schema and the templates of alerts and dashboards are written by hand.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::base::{Base, Files, HEADER, Manifests};

mod edits;

use edits::{CONDITIONS, EDITS};

/// The chart's directory, relative to the repository's root.
pub const DIRECTORY: &str = "deploy/chart";
/// The namespace in the base.
const NAMESPACE: &str = "mcu-system";
/// What the chart leaves out: Helm creates the namespace.
const LEFT_OUT: &str = "namespace.yaml";
/// What the base does not have, and the chart only where a value says so.
const BESIDE: [&str; 3] = [
    "deploy/strict-executor/admission-executor.yaml",
    "deploy/monitoring/service-monitor.yaml",
    "deploy/monitoring/openshift-platform.yaml",
];

/// The generated files of the chart.
///
/// # Errors
/// An edit does not find its text, or a file cannot be read.
pub fn render(root: &Path, base: &Base) -> Result<Files> {
    let mut files = Files::from([(format!("{DIRECTORY}/Chart.yaml").into(), about())]);
    let beside: Vec<Manifests> = BESIDE
        .iter()
        .map(|path| Manifests::read(&root.join(path), false))
        .collect::<Result<_>>()?;
    for file in base
        .files
        .iter()
        .chain(&beside)
        .filter(|file| file.name != LEFT_OUT)
    {
        let directory = if file.is_crd {
            "templates/crds"
        } else {
            "templates"
        };
        let path = format!("{DIRECTORY}/{directory}/{}", file.name);
        files.insert(path.into(), template(file)?);
    }
    files.insert(format!("{DIRECTORY}/templates/_crds.tpl").into(), crds(base)?);
    files.extend(copies(root, "alerts")?);
    files.extend(copies(root, "dashboards")?);
    Ok(files)
}

fn about() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "{HEADER}apiVersion: v2
name: mcu
description: Upgrades fleets of OpenShift clusters from an Open Cluster Management hub.
type: application
version: {version}
appVersion: {version}
kubeVersion: \">=1.30.0-0\"
keywords: [openshift, open-cluster-management, upgrade, fleet]
annotations:
  artifacthub.io/license: Apache-2.0
"
    )
}

/// The names of all CRDs, for templates that must consider each.
fn crds(base: &Base) -> Result<String> {
    let names: Vec<Value> = base
        .objects()?
        .iter()
        .filter(|object| object["kind"] == "CustomResourceDefinition")
        .map(|object| object["metadata"]["name"].clone())
        .collect();
    ensure!(!names.is_empty(), "the base has no CRDs");
    let names = Value::from(names);
    Ok(format!(
        "{HEADER}{{{{- define \"mcu.crds\" -}}}}\n{names}\n{{{{- end }}}}\n"
    ))
}

/// The template of a file of the base.
fn template(file: &Manifests) -> Result<String> {
    let name = file.name.as_str();
    ensure!(
        !file.text.contains("{{"),
        "{name} has braces that Helm would read"
    );
    let mut text = file.text.replace(NAMESPACE, "{{ .Release.Namespace }}");
    for edit in EDITS.iter().filter(|edit| edit.file == name) {
        text = replace_once(&text, edit.find, edit.replacement).with_context(|| name.to_owned())?;
    }
    if file.is_crd {
        let keep = "\nmetadata:\n  {{- if .Values.crds.keep }}\n  annotations:\n    helm.sh/resource-policy: keep\n  {{- end }}\n";
        text = replace_once(&text, "\nmetadata:\n", keep).with_context(|| name.to_owned())?;
    }
    let condition = if file.is_crd {
        Some(".Values.crds.enabled")
    } else {
        let mut conditions = CONDITIONS.iter().filter(|(file, _)| *file == name);
        conditions.next().map(|(_, condition)| *condition)
    };
    Ok(match condition {
        Some(condition) => format!("{HEADER}{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"),
        None => format!("{HEADER}{text}"),
    })
}

fn replace_once(text: &str, find: &str, replacement: &str) -> Result<String> {
    let found = text.matches(find).count();
    ensure!(
        found == 1,
        "a template's edit finds its text {found} times instead of once: {find}"
    );
    Ok(text.replacen(find, replacement, 1))
}

/// Copies of the files in a directory of `deploy/`, without those in directories below, because Helm reads only what is in the chart.
fn copies(root: &Path, directory: &str) -> Result<Files> {
    let from = root.join("deploy").join(directory);
    let mut files = Files::new();
    if !from.is_dir() {
        return Ok(files);
    }
    for entry in std::fs::read_dir(&from)? {
        let path = entry?.path();
        if path.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let text =
                std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            files.insert(format!("{DIRECTORY}/{directory}/{name}").into(), text);
        }
    }
    Ok(files)
}
