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
const ROWS: [Row; 18] = [
    row("api", Kind::Pure, May::Only(&[])),
    row("rollout", Kind::Pure, May::Only(&["api"])),
    row("update-graph", Kind::Pure, May::Only(&[])),
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
        "mcu-controller",
        Kind::Plain,
        May::Only(&["api", "rollout", "observe", "clusterversion", "telemetry"]),
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
    row(
        "kubectl-mcu",
        Kind::Plain,
        May::Only(&["api", "rollout", "update-graph", "clusterversion"]),
    ),
    row("repository", Kind::Development, May::Only(&[])),
    row("testenv", Kind::Development, May::Only(&["repository"])),
    row("e2e", Kind::Development, May::All),
    row("bench", Kind::Development, May::All),
    row("demo", Kind::Development, May::All),
    row("generate", Kind::Development, May::All),
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
mod tests {
    use super::*;
    use repository::Package;

    fn workspace(edges: &[(&str, &str, Option<&str>)]) -> Metadata {
        let mut names: Vec<&str> = edges.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
        names.sort_unstable();
        names.dedup();
        let packages = names.iter().map(|name| Package {
            name: (*name).to_owned(),
            manifest_path: format!("crates/{name}/Cargo.toml").into(),
            dependencies: edges
                .iter()
                .filter(|(from, _, _)| from == name)
                .map(|(_, to, kind)| Dependency {
                    name: (*to).to_owned(),
                    kind: kind.map(str::to_owned),
                    path: Some(format!("crates/{to}").into()),
                })
                .collect(),
            targets: Vec::new(),
        });
        Metadata {
            packages: packages.collect(),
            target_directory: "target".into(),
        }
    }

    #[test]
    fn edges_of_the_table_are_allowed_and_others_are_named() {
        let good = [
            ("mcu-controller", "rollout", None),
            ("clusterversion", "update-graph", None),
            ("e2e", "mcu-controller", None),
            ("api", "testenv", Some("dev")),
            ("rollout", "api", None),
        ];
        assert_eq!(violations(&workspace(&good)), Vec::<String>::new());
        for (edge, message) in [
            (("api", "rollout", None), "api must not depend on rollout"),
            (
                ("api", "update-graph", Some("dev")),
                "api must not depend on update-graph (dev-dependency)",
            ),
            (
                ("update-graph", "testenv", None),
                "update-graph must not depend on testenv",
            ),
            (("xtask", "api", None), "xtask must not depend on api"),
            (
                ("kubectl-mcu", "testenv", None),
                "kubectl-mcu must not depend on testenv",
            ),
            (
                ("mcu-controller", "spoke-sim", Some("build")),
                "mcu-controller must not depend on spoke-sim (build-dependency)",
            ),
        ] {
            assert_eq!(violations(&workspace(&[edge])), [message]);
        }
    }

    #[test]
    fn a_member_outside_the_table_is_named() {
        let found = violations(&workspace(&[("e2e", "attic", None)]));
        assert_eq!(
            found,
            ["attic is not in the table of crates (crates/xtask/src/fence/crates.rs)"]
        );
    }

    #[test]
    fn a_row_without_a_crate_is_named() {
        let found = stale(&workspace(&[("e2e", "api", None)]));
        assert_eq!(found.len(), ROWS.len() - 2);
        assert!(found[0].starts_with("rollout is in the table"), "{}", found[0]);
    }
}
