//! The table of rooms: every member of the workspace is one, and its edges are listed here or forbidden.

use crate::workspace::{Dependency, Metadata};

/// What a room may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum May {
    /// These rooms.
    Only(&'static [&'static str]),
    /// Every room.
    All,
}

/// One row of the table.
struct Room {
    package: &'static str,
    may: May,
    pure: bool,
}

const fn room(package: &'static str, may: &'static [&'static str]) -> Room {
    Room {
        package,
        may: May::Only(may),
        pure: false,
    }
}

const fn pure_room(package: &'static str, may: &'static [&'static str]) -> Room {
    Room {
        package,
        may: May::Only(may),
        pure: true,
    }
}

const fn workshop(package: &'static str) -> Room {
    Room {
        package,
        may: May::All,
        pure: false,
    }
}

/// The table. A room that does not exist yet has its row already, so that it is born with its rules.
const ROOMS: [Room; 11] = [
    pure_room("api", &[]),
    pure_room("rollout", &[]),
    pure_room("update-graph", &[]),
    pure_room("clusterversion", &["update-graph"]),
    room("mcu-controller", &["api", "rollout", "clusterversion"]),
    room("update-service", &["update-graph"]),
    room("spoke-sim", &["api", "clusterversion", "update-graph"]),
    room(
        "kubectl-mcu",
        &["api", "rollout", "update-graph", "clusterversion"],
    ),
    workshop("testenv"),
    workshop("xtask"),
    workshop("e2e"),
];

/// Edges that the table does not allow, and members that are not in it.
pub(super) fn violations(metadata: &Metadata) -> Vec<String> {
    let is_member = |name: &str| metadata.packages.iter().any(|package| package.name == name);
    let mut found = Vec::new();
    for package in &metadata.packages {
        let Some(room) = ROOMS.iter().find(|room| room.package == package.name) else {
            found.push(format!(
                "{} is not in the table of rooms (crates/xtask/src/fence/rooms.rs)",
                package.name
            ));
            continue;
        };
        let edges = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.path.is_some() && is_member(&dependency.name));
        for edge in edges.filter(|edge| !allows(room, edge)) {
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

/// Tests of any room may use the workshops; otherwise dev-dependencies are edges like all others.
fn allows(room: &Room, edge: &Dependency) -> bool {
    let workshop = ROOMS
        .iter()
        .any(|other| other.package == edge.name && other.may == May::All);
    match room.may {
        May::All => true,
        May::Only(rooms) => {
            rooms.contains(&edge.name.as_str()) || (workshop && edge.kind.as_deref() == Some("dev"))
        }
    }
}

/// The pure rooms that exist.
pub(super) fn pure(metadata: &Metadata) -> Vec<String> {
    metadata
        .packages
        .iter()
        .filter(|package| ROOMS.iter().any(|room| room.pure && room.package == package.name))
        .map(|package| package.name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    fn house(edges: &[(&str, &str, Option<&str>)]) -> Metadata {
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
        ];
        assert_eq!(violations(&house(&good)), Vec::<String>::new());
        for (edge, message) in [
            (("api", "rollout", None), "api must not depend on rollout"),
            (
                ("rollout", "api", Some("dev")),
                "rollout must not depend on api (dev-dependency)",
            ),
            (
                ("kubectl-mcu", "testenv", None),
                "kubectl-mcu must not depend on testenv",
            ),
            (
                ("mcu-controller", "spoke-sim", Some("build")),
                "mcu-controller must not depend on spoke-sim (build-dependency)",
            ),
        ] {
            assert_eq!(violations(&house(&[edge])), [message]);
        }
    }

    #[test]
    fn a_member_outside_the_table_is_named() {
        let found = violations(&house(&[("xtask", "attic", None)]));
        assert_eq!(
            found,
            ["attic is not in the table of rooms (crates/xtask/src/fence/rooms.rs)"]
        );
    }
}
