//! The programs of the workspace, built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::{Metadata, cargo};

/// The controller, as package and program.
pub const CONTROLLER: &str = "mcu-controller";
/// The plugin of kubectl, as package and program.
pub const PLUGIN: &str = "kubectl-mcu";
/// The simulated clusters, as package and program.
pub const SPOKE_SIM: &str = "spoke-sim";
/// The simulation, as package and program.
pub const SIMULATION: &str = "simulation";
/// The update service, as package and program.
pub const UPDATE_SERVICE: &str = "update-service";

/// Feature of a package whose test targets need a hub.
pub const HUB_TESTS: &str = "hub-tests";
/// Feature of a package whose test targets need managed clusters with API servers of their own beside the hub.
pub const SPOKE_TESTS: &str = "spoke-tests";
/// Cargo's arguments for both, and for the demo's feature that has the real hub.
///
/// Every build of the whole workspace that `cargo xtask` starts has them, also where no such test runs: with other features cargo
/// would compile the packages that have such tests a second time.
pub const FEATURES: [&str; 2] = ["--features", "hub-tests,spoke-tests,real-hub"];

/// Cargo's profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Quick to build.
    Dev,
    /// What is measured.
    Release,
    /// The simulation alone, for many seeds: as fast as a release, with assertions, and built for minutes.
    Simulation,
    /// The programs of these packages alone, for people who try something: not optimised, so built soonest.
    Quick(&'static [&'static str]),
}

impl Profile {
    /// The profile this program was built with.
    #[must_use]
    pub const fn own() -> Self {
        if cfg!(debug_assertions) {
            Self::Dev
        } else {
            Self::Release
        }
    }

    /// The command of cargo that builds the programs.
    #[must_use]
    pub fn build(self) -> Command {
        let mut build = cargo();
        build.args(["build", "--locked"]).args(self.flags());
        build
    }

    fn flags(self) -> Vec<&'static str> {
        match self {
            // The whole workspace, as for the tests, so that cargo chooses the same features for both. With the examples, it
            // chooses those of dependencies as for the tests, too. Without them it would compile tokio, and all that depends on
            // it, once for the programs and once for the tests.
            Self::Dev => vec!["--workspace", "--bins", "--examples", FEATURES[0], FEATURES[1]],
            Self::Release => vec!["--workspace", "--bins", "--release", FEATURES[0], FEATURES[1]],
            Self::Simulation => vec!["--package", SIMULATION, "--bins", "--profile", "simulation"],
            Self::Quick(packages) => packages
                .iter()
                .flat_map(|package| ["--package", *package])
                .chain(["--bins", "--profile", "quick"])
                .collect(),
        }
    }

    const fn dir(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
            Self::Simulation => "simulation",
            Self::Quick(_) => "quick",
        }
    }
}

/// All programs of the workspace, built; of [`Profile::Simulation`] only that one, of [`Profile::Quick`] those of its packages.
#[derive(Clone, Debug)]
pub struct Programs {
    dir: PathBuf,
}

impl Programs {
    /// Builds the programs that are not up to date; cargo's progress goes to standard error.
    ///
    /// # Errors
    /// They do not build.
    pub fn build(profile: Profile) -> Result<Self> {
        let status = profile.build().status().context("cargo does not start")?;
        if !status.success() {
            bail!("the programs do not build");
        }
        Ok(Self {
            dir: Metadata::load()?.target_directory.join(profile.dir()),
        })
    }

    /// The directory that holds them.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of one.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_features_of_builds_are_those_of_the_tests() {
        assert_eq!(FEATURES[1], format!("{HUB_TESTS},{SPOKE_TESTS},real-hub"));
    }
}
