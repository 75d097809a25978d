//! The table of crates: every member of the workspace is in it, and may depend on the crates that its row names.

use repository::{Dependency, Metadata};

/// Where the table is, for messages.
const HERE: &str = "crates/xtask/src/fence/crates.rs";

/// What a crate may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum May {
    /// These crates.
    Only(&'static [&'static str]),
    /// Every crate.
    All,
}

/// What kind of crate it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Part of the product, without clock, client, runtime and randomness.
    Pure,
    /// Part of the product or of the simulators.
    Plain,
    /// Part of neither. Every crate may use it in its tests, and none otherwise, unless its row says so.
    Development,
}

/// One row of the table.
struct Row {
    package: &'static str,
    kind: Kind,
    may: May,
}

const fn row(package: &'static str, kind: Kind, may: May) -> Row {
    Row { package, kind, may }
}

/// The table. To add a crate, add a row here; a new edge is a new name in the row of the crate that gets it.
const ROWS: [Row; 23] = [
    row("api", Kind::Pure, May::Only(&[])),
    row("rollout", Kind::Pure, May::Only(&["api"])),
    row("update-graph", Kind::Pure, May::Only(&[])),
    row("update-client", Kind::Plain, May::Only(&["update-graph"])),
    row("clusterversion", Kind::Pure, May::Only(&["update-graph"])),
    row(
        "cvo-model",
        Kind::Pure,
        May::Only(&["clusterversion", "update-graph"]),
    ),
    row(
        "observe",
        Kind::Pure,
        May::Only(&["api", "rollout", "clusterversion"]),
    ),
    row(
        "resolve",
        Kind::Pure,
        May::Only(&["api", "rollout", "observe", "clusterversion"]),
    ),
    row(
        "mcu-controller",
        Kind::Plain,
        May::Only(&[
            "api",
            "rollout",
            "observe",
            "resolve",
            "telemetry",
            "update-client",
            "update-graph",
        ]),
    ),
    // `update-graph` knows which characters steer a terminal.
    row("telemetry", Kind::Plain, May::Only(&["update-graph"])),
    row(
        "update-service",
        Kind::Plain,
        May::Only(&["update-graph", "telemetry"]),
    ),
    row(
        "spoke-sim",
        Kind::Plain,
        May::Only(&["api", "clusterversion", "cvo-model", "update-graph"]),
    ),
    row("hub-sim", Kind::Plain, May::Only(&["api"])),
    row(
        "simulation",
        Kind::Plain,
        May::Only(&[
            "api",
            "rollout",
            "observe",
            "resolve",
            "mcu-controller",
            "hub-sim",
            "spoke-sim",
        ]),
    ),
    row(
        "kubectl-mcu",
        Kind::Plain,
        May::Only(&[
            "api",
            "rollout",
            "observe",
            "resolve",
            "update-client",
            "update-graph",
            "clusterversion",
        ]),
    ),
    row("repository", Kind::Development, May::Only(&[])),
    row("testenv", Kind::Development, May::Only(&["repository"])),
    row("e2e", Kind::Development, May::All),
    row("bench", Kind::Development, May::All),
    row("demo", Kind::Development, May::All),
    row("generate", Kind::Development, May::All),
    row("package", Kind::Development, May::Only(&["repository"])),
    // No product crate: it must compile in seconds.
    row("xtask", Kind::Development, May::Only(&["repository"])),
];

fn row_of(package: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.package == package)
}

/// Edges that the table does not allow, members that are not in it, and rows without a member.
pub(super) fn violations(metadata: &Metadata) -> Vec<String> {
    let is_member = |name: &str| metadata.packages.iter().any(|package| package.name == name);
    let mut found = Vec::new();
    for package in &metadata.packages {
        let Some(row) = row_of(&package.name) else {
            found.push(format!("{} is not in the table of crates ({HERE})", package.name));
            continue;
        };
        let edges = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.path.is_some() && is_member(&dependency.name));
        for edge in edges.filter(|edge| !allows(row, edge)) {
            found.push(format!(
                "{} must not depend on {}{}",
                package.name,
                edge.name,
                match edge.kind.as_deref() {
                    Some(kind) => format!(" ({kind}-dependency)"),
                    None => String::new(),
                }
            ));
        }
    }
    found
}

/// Rows of crates that do not exist.
pub(super) fn stale(metadata: &Metadata) -> Vec<String> {
    let is_member = |row: &&Row| {
        metadata
            .packages
            .iter()
            .any(|package| package.name == row.package)
    };
    ROWS.iter()
        .filter(|row| !is_member(row))
        .map(|row| {
            format!(
                "{} is in the table of crates ({HERE}) but does not exist",
                row.package
            )
        })
        .collect()
}

/// Tests of any crate may use crates of kind Development; otherwise dev-dependencies are edges like all others.
fn allows(row: &Row, edge: &Dependency) -> bool {
    let is_test_of_development = edge.kind.as_deref() == Some("dev")
        && row_of(&edge.name).is_some_and(|other| other.kind == Kind::Development);
    match row.may {
        May::All => true,
        May::Only(crates) => crates.contains(&edge.name.as_str()) || is_test_of_development,
    }
}

/// The pure crates.
pub(super) fn pure(metadata: &Metadata) -> Vec<String> {
    let is_pure = |name: &str| row_of(name).is_some_and(|row| row.kind == Kind::Pure);
    let names = metadata.packages.iter().map(|package| &package.name);
    names.filter(|name| is_pure(name)).cloned().collect()
}

#[cfg(test)]
mod tests;
