//! Alerts and dashboards of `deploy/`: each expression can be parsed and names metrics and labels that the programs export, and
//! each alert has a runbook.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

mod alerts;
mod console;
mod grafana;
mod promql;

use std::path::PathBuf;

/// The path of a file of `deploy/`.
fn deploy(path: &str) -> PathBuf {
    repository::root().join("deploy").join(path)
}

/// The text of a file of `deploy/`.
fn read(path: &str) -> String {
    std::fs::read_to_string(deploy(path)).unwrap()
}

/// The files of a directory of `deploy/` whose names end like this.
fn files(directory: &str, ending: &str) -> Vec<String> {
    let mut found: Vec<String> = std::fs::read_dir(deploy(directory))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(ending))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "{directory}");
    found
}
