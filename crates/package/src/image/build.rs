//! Builds the static binary of a program for an architecture.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use repository::{Metadata, cargo, root};

use super::{Architecture, Libc};

/// What cargo builds for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Platform {
    pub(super) architecture: Architecture,
    /// The operating system, as Go names it.
    pub(super) os: &'static str,
    /// Rust's name of it.
    pub(super) triple: &'static str,
    /// The C compiler and linker that a build on another machine needs, and Debian's package of it.
    cross: Option<(&'static str, &'static str)>,
}

impl Platform {
    /// The target, if this machine can build for it.
    ///
    /// # Errors
    /// The Rust target or the C compiler is not installed; the message says how it is got.
    pub fn new(architecture: Architecture, libc: Libc) -> Result<Self> {
        let target = Self::of(architecture, libc, std::env::consts::ARCH);
        target.check(&installed()?, |program| find_program(program).is_some())?;
        Ok(target)
    }

    /// This machine's.
    ///
    /// # Errors
    /// It is none that programs are packed for, or its target is not installed.
    pub fn own() -> Result<Self> {
        let darwin = |architecture, triple| Self {
            architecture,
            os: "darwin",
            triple,
            cross: None,
        };
        match (std::env::consts::OS, std::env::consts::ARCH) {
            ("linux", "x86_64") => Self::new(Architecture::Amd64, Libc::Gnu),
            ("linux", "aarch64") => Self::new(Architecture::Arm64, Libc::Gnu),
            ("macos", "x86_64") => Ok(darwin(Architecture::Amd64, "x86_64-apple-darwin")),
            ("macos", "aarch64") => Ok(darwin(Architecture::Arm64, "aarch64-apple-darwin")),
            (os, machine) => bail!("nothing is packed for {os} on {machine}"),
        }
    }

    /// The operating system, as Go names it.
    #[must_use]
    pub const fn os(&self) -> &'static str {
        self.os
    }

    /// The architecture, as Go names it.
    #[must_use]
    pub const fn architecture(&self) -> &'static str {
        self.architecture.name()
    }

    fn of(architecture: Architecture, libc: Libc, machine: &str) -> Self {
        let (triple, name, cross) = match (architecture, libc) {
            (Architecture::Amd64, Libc::Gnu) => (
                "x86_64-unknown-linux-gnu",
                "x86_64",
                ("x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu"),
            ),
            (Architecture::Arm64, Libc::Gnu) => (
                "aarch64-unknown-linux-gnu",
                "aarch64",
                ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
            ),
            (Architecture::Amd64, Libc::Musl) => {
                ("x86_64-unknown-linux-musl", "", ("musl-gcc", "musl-tools"))
            }
            (Architecture::Arm64, Libc::Musl) => (
                "aarch64-unknown-linux-musl",
                "",
                ("aarch64-linux-musl-gcc", "musl-cross, which Debian does not have"),
            ),
        };
        Self {
            architecture,
            os: "linux",
            triple,
            cross: (name != machine).then_some(cross),
        }
    }

    /// Fails where this is not among the installed targets, or its C compiler is not here.
    fn check(&self, installed: &[String], has_program: impl Fn(&str) -> bool) -> Result<()> {
        let name = self.architecture.name();
        if !installed.iter().any(|triple| triple == self.triple) {
            bail!(
                "the Rust target for {name} is not installed: rustup target add {}",
                self.triple
            );
        }
        if let Some((compiler, package)) = self.cross
            && !has_program(compiler)
        {
            bail!("the C compiler for {name}, {compiler}, is not installed: it is in the package {package}");
        }
        Ok(())
    }

    /// Builds a program of the workspace from the package of its name; returns its path.
    ///
    /// # Errors
    /// It does not build.
    pub fn build(&self, program: &str, profile: &str) -> Result<PathBuf> {
        let variable = format!("CARGO_TARGET_{}", self.triple.to_uppercase().replace('-', "_"));
        let underscored = self.triple.replace('-', "_");
        let mut build = cargo();
        build
            .args(["build", "--locked", "--package", program, "--bin", program])
            .args(["--target", self.triple, "--profile", profile])
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env(format!("{variable}_RUSTFLAGS"), flags(self.os))
            .env(format!("CFLAGS_{underscored}"), c_flags());
        if let Some((compiler, _)) = self.cross {
            build.env(format!("{variable}_LINKER"), compiler);
            build.env(format!("CC_{underscored}"), compiler);
        }
        let status = build.status().context("cargo does not start")?;
        ensure!(status.success(), "{program} does not build for {}", self.triple);
        // Cargo's directory of the profile dev has another name.
        let directory = if profile == "dev" { "debug" } else { profile };
        let target = Metadata::load()?.target_directory;
        Ok(target.join(self.triple).join(directory).join(program))
    }
}

/// A static binary where the system has them, in which no path names a directory of this machine.
fn flags(os: &str) -> String {
    let moved = moved_paths().map(|(from, to)| format!(" --remap-path-prefix={from}={to}"));
    let linked = if os == "linux" {
        "-C target-feature=+crt-static"
    } else {
        ""
    };
    format!("{linked}{}", moved.concat())
}

fn c_flags() -> String {
    moved_paths()
        .map(|(from, to)| format!("-ffile-prefix-map={from}={to} "))
        .concat()
}

/// Directories of this machine, and what stands for them in the binary.
fn moved_paths() -> [(String, &'static str); 2] {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let cargo_home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or(home)
        .unwrap_or_default();
    [
        (root().display().to_string(), "mcu"),
        (cargo_home.display().to_string(), "cargo"),
    ]
}

/// The targets whose standard library the toolchain has.
fn installed() -> Result<Vec<String>> {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .current_dir(root())
        .output()
        .context("rustc does not start")?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()).join("lib/rustlib");
    let directories =
        std::fs::read_dir(&libraries).with_context(|| format!("cannot read {}", libraries.display()))?;
    Ok(directories
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("lib").is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect())
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_target_or_compiler_is_named_with_how_it_is_got() {
        let target = Platform::of(Architecture::Arm64, Libc::Gnu, "x86_64");
        let message = |installed: &[String], has| target.check(installed, |_| has).unwrap_err().to_string();
        assert!(message(&[], true).ends_with("rustup target add aarch64-unknown-linux-gnu"));
        let installed = ["aarch64-unknown-linux-gnu".to_owned()];
        assert!(message(&installed, false).ends_with("it is in the package gcc-aarch64-linux-gnu"));
        target.check(&installed, |_| true).unwrap();
    }

    #[test]
    fn a_build_for_the_own_architecture_needs_no_further_compiler() {
        assert_eq!(Platform::of(Architecture::Amd64, Libc::Gnu, "x86_64").cross, None);
        assert!(
            Platform::of(Architecture::Amd64, Libc::Musl, "x86_64")
                .cross
                .is_some()
        );
        Platform::new(Architecture::Amd64, Libc::Gnu).unwrap();
    }

    #[test]
    fn the_flags_make_the_binary_static_and_name_no_directory_of_this_machine() {
        let flags = flags("linux");
        assert!(flags.starts_with("-C target-feature=+crt-static --remap-path-prefix="));
        assert!(flags.contains(&format!("{}=mcu", root().display())));
    }
}
