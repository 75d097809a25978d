//! Where things are in this repository: its root, its members, the programs it builds, sample and real data of tests, their
//! browser, and the cache of tools. Tests and development programs use it; no product crate does.
//!
//! It has few dependencies on purpose: `cargo xtask fence` compiles nothing else, and the tests of the pure crates use it.

pub mod browser;
pub mod data;
mod metadata;
mod programs;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

pub use metadata::{Dependency, Metadata, Package, Target};
pub use programs::{
    CONTROLLER, FEATURES, HUB_TESTS, PLUGIN, Profile, Programs, SIMULATION, SPOKE_SIM, SPOKE_TESTS,
    UPDATE_SERVICE,
};

/// The repository's root.
#[must_use]
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// `cargo`, in the root; the very one that runs us, where there is one.
///
/// Without what cargo tells a program or a test about its own package: the build script of ring looks at these variables, so a
/// build that has others compiles ring again, and all that depends on it.
#[must_use]
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    for (name, _) in std::env::vars_os() {
        if tells_of_a_package(&name.to_string_lossy()) {
            command.env_remove(&name);
        }
    }
    command
}

/// Whether cargo tells a program of its own package with this variable.
fn tells_of_a_package(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"]
        .iter()
        .any(|prefix| variable.starts_with(prefix))
}

/// The directory of tools that are built once and kept outside the repository: `MCU_TOOL_CACHE`, or `mcu/hub-tools` in the
/// user's cache directory. It may not exist yet.
///
/// # Errors
/// None of `MCU_TOOL_CACHE`, `XDG_CACHE_HOME` and `HOME` is set.
pub fn tool_cache() -> Result<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("MCU_TOOL_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("mcu/hub-tools")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/mcu/hub-tools")))
        .context("no place for the tool cache: set MCU_TOOL_CACHE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("Cargo.lock").is_file());
    }

    #[test]
    fn cargo_is_not_told_of_the_package_of_the_test_that_starts_it() {
        let command = cargo();
        let is_removed = |name: &str| {
            command
                .get_envs()
                .any(|(key, value)| key == name && value.is_none())
        };
        // Cargo sets both for this test.
        assert!(is_removed("CARGO_PKG_NAME") && is_removed("CARGO_MANIFEST_DIR"));
        assert!(!is_removed("CARGO_HOME") && !is_removed("PATH"));
    }
}
