//! The members of the workspace, from `cargo metadata`.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::cargo;

/// The members of the workspace.
#[derive(Clone, Debug, Deserialize)]
pub struct Metadata {
    /// Members.
    pub packages: Vec<Package>,
    /// Where cargo builds.
    pub target_directory: PathBuf,
}

/// One member.
#[derive(Clone, Debug, Deserialize)]
pub struct Package {
    /// Package name.
    pub name: String,
    /// Path of its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// What it depends on, as written in the manifest.
    pub dependencies: Vec<Dependency>,
    /// What is built of it.
    pub targets: Vec<Target>,
}

/// One dependency of a member.
#[derive(Clone, Debug, Deserialize)]
pub struct Dependency {
    /// Name of the package depended on.
    pub name: String,
    /// `dev`, `build`, or nothing for a normal one.
    pub kind: Option<String>,
    /// Directory of a path dependency.
    pub path: Option<PathBuf>,
}

/// Something that is built of a member.
#[derive(Clone, Debug, Deserialize)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// `lib`, `bin`, `test` and so on.
    pub kind: Vec<String>,
    /// Features without which cargo leaves it out.
    #[serde(rename = "required-features", default)]
    pub required_features: Vec<String>,
}

impl Metadata {
    /// Asks cargo.
    ///
    /// # Errors
    /// Cargo fails, or a manifest is broken; the message ends with cargo's own.
    pub fn load() -> Result<Self> {
        let output = cargo()
            .args(["metadata", "--format-version", "1", "--no-deps"])
            .output()
            .context("cargo does not start")?;
        if !output.status.success() {
            bail!(
                "cargo metadata: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        serde_json::from_slice(&output.stdout).context("the output of cargo metadata has another shape")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_package_is_a_member_without_tests_that_need_a_feature() {
        let metadata = Metadata::load().unwrap();
        let here = metadata
            .packages
            .iter()
            .find(|package| package.name == "repository")
            .unwrap();
        assert!(here.targets.iter().any(|target| target.kind == ["lib"]));
        assert!(
            here.targets
                .iter()
                .all(|target| target.required_features.is_empty())
        );
    }
}
