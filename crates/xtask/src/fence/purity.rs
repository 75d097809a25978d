//! Pure crates reach no client, no runtime and no randomness, however indirectly.
//!
//! Asked from `cargo tree` of the one package: cargo metadata unites the features of the whole workspace, and in that
//! union `kube` has a client everywhere.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail};
use repository::cargo;

/// External crates that no pure crate reaches through normal or build dependencies.
const FORBIDDEN: [&str; 16] = [
    "async-std",
    "axum",
    "hyper",
    "hyper-util",
    "kube-client",
    "kube-runtime",
    "mio",
    "openssl",
    "rand",
    "reqwest",
    "rustls",
    "smol",
    "tokio",
    "tokio-util",
    "tower",
    "ureq",
];

/// Forbidden crates that a package reaches.
///
/// # Errors
/// Cargo fails.
pub(super) fn violations(package: &str) -> Result<Vec<String>> {
    let output = cargo()
        .args([
            "tree",
            "--locked",
            "--package",
            package,
            "--edges",
            "normal,build",
        ])
        .args(["--prefix", "none", "--format", "{p}"])
        .output()
        .context("cargo does not start")?;
    if !output.status.success() {
        bail!(
            "cargo tree --package {package}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(judge(package, &String::from_utf8_lossy(&output.stdout)))
}

/// Reads the list of packages, one `<name> v<version> …` per line.
fn judge(package: &str, tree: &str) -> Vec<String> {
    let reached: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    FORBIDDEN
        .iter()
        .filter(|forbidden| reached.contains(*forbidden))
        .map(|forbidden| {
            format!(
                "{package} is pure and must not reach {forbidden}: cargo tree --package {package} --invert {forbidden}"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_below_a_pure_crate_is_found_and_its_neighbours_in_name_are_not() {
        let tree = "api v0.1.0 (path)\nkube v5.0.0\nkube-core v5.0.0\nrandom-names v1.0.0\n";
        assert_eq!(judge("api", tree), Vec::<String>::new());
        let found = judge("api", &format!("{tree}kube-client v5.0.0 (*)\ntokio v1.0.0\n"));
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("api is pure and must not reach kube-client"));
    }

    #[test]
    fn a_crate_with_a_client_reaches_what_a_pure_one_must_not() {
        // Shows that the check can find something.
        assert!(!violations("testenv").unwrap().is_empty());
    }
}
