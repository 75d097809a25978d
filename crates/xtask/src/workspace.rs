//! The workspace as cargo sees it: where it is, what is in it, and how its binaries are built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

/// The repository's root.
#[must_use]
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// `cargo`, in the root; the very one that runs us, where there is one.
#[must_use]
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The members of the workspace, from `cargo metadata`.
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
        serde_json::from_slice(&output.stdout).context("cargo metadata is not what it was")
    }
}

/// Cargo's profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Quick to build.
    Dev,
    /// What is measured.
    Release,
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

    const fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Dev => &[],
            Self::Release => &["--release"],
        }
    }

    const fn dir(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

/// The controller, as package and program.
pub const CONTROLLER: &str = "mcu-controller";
/// The simulated agents.
pub const AGENTS: &str = "spoke-sim";

/// The update service, as package and program.
pub const UPDATE_SERVICE: &str = "update-service";

/// Programs of the product, built.
#[derive(Clone, Debug)]
pub struct Binaries {
    dir: PathBuf,
}

impl Binaries {
    /// Builds the programs; cargo's progress goes to standard error.
    ///
    /// # Errors
    /// They do not build.
    pub fn build(profile: Profile) -> Result<Self> {
        let mut build = cargo();
        // The whole workspace, as for the tests: so cargo settles features once and compiles no dependency twice.
        build
            .args(["build", "--workspace", "--bins"])
            .args(profile.flags());
        let status = build.status().context("cargo does not start")?;
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

/// Runs this program again as a release build with the same arguments, unless it is one; returns when that is done.
///
/// # Errors
/// It does not build or fails; its own messages have been shown.
pub fn in_release() -> Result<Reentry> {
    if Profile::own() == Profile::Release {
        return Ok(Reentry::Here);
    }
    let status = cargo()
        .args(["run", "--quiet", "--release", "--package", "xtask", "--"])
        .args(std::env::args_os().skip(1))
        .status()
        .context("cargo does not start")?;
    Ok(Reentry::Done(status.code().unwrap_or(1)))
}

/// Who does the work of a command that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reentry {
    /// This process.
    Here,
    /// A release build did it and ended with this exit code.
    Done(i32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_workspace() {
        let metadata = Metadata::load().unwrap();
        assert!(root().join("Cargo.lock").is_file());
        assert!(metadata.packages.iter().any(|package| package.name == "xtask"));
    }
}
