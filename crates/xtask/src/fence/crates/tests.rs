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
