//! `deploy/monitoring/prometheus-rules.yaml`: the alerts of `deploy/alerts` as `PrometheusRules`, for those who do not install by Helm.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::base::HEADER;

/// Where it is, relative to the repository's root.
pub const PATH: &str = "deploy/monitoring/prometheus-rules.yaml";
/// Where the alerts are.
const ALERTS: &str = "deploy/alerts";
const ENDING: &str = ".rules.yaml";
/// What is before the name of the file of rules.
const START: &str = "---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: mcu-";
/// What is between that and the rules.
const REST: &str = "
  namespace: mcu-system
  labels:
    app.kubernetes.io/name: mcu-controller
spec:
";

/// The text of the file: a `PrometheusRule` for each file of rules, of the name that the chart gives it.
///
/// # Errors
/// A file cannot be read.
pub fn render(root: &Path) -> Result<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root.join(ALERTS)).with_context(|| format!("cannot read {ALERTS}"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(ENDING).map(str::to_owned));
    }
    names.sort();
    let mut text = HEADER.to_owned();
    for name in names {
        let path = root.join(ALERTS).join(format!("{name}{ENDING}"));
        let rules =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        text += START;
        text += &name;
        text += REST;
        for line in rules.lines() {
            if !line.is_empty() {
                text += "  ";
                text += line;
            }
            text += "\n";
        }
    }
    Ok(text)
}
