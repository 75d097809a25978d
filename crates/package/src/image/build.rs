//! Builds the static binary of a program for an architecture.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use repository::{Metadata, cargo, root};

use super::{Architecture, Libc};

/// The flags by which rustc links the C library statically; those of the image recipes are the same.
pub const STATIC: [&str; 2] = ["-C", "target-feature=+crt-static"];

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

    /// Cargo's command that builds a program of the workspace from the package of its name.
    ///
    /// # Errors
    /// Cargo or rustc does not say where its directories are.
    pub fn command(&self, program: &str, profile: &str) -> Result<Command> {
        let moved = moved_paths()?;
        let underscored = self.triple.replace('-', "_");
        let mut build = cargo();
        build
            .args(["build", "--locked", "--package", program, "--bin", program])
            .args(["--target", self.triple, "--profile", profile])
            // This variable wins over flags from all other variables and files, which would give other bytes. With a target, flags
            // are not for build scripts and procedural macros.
            .env("CARGO_ENCODED_RUSTFLAGS", flags(self.os, &moved).join("\x1f"))
            .env(format!("CFLAGS_{underscored}"), c_flags(&moved));
        if let Some((compiler, _)) = self.cross {
            let variable = self.triple.to_uppercase().replace('-', "_");
            build.env(format!("CARGO_TARGET_{variable}_LINKER"), compiler);
            build.env(format!("CC_{underscored}"), compiler);
        }
        Ok(build)
    }

    /// Builds a program of the workspace from the package of its name; returns its path.
    ///
    /// # Errors
    /// It does not build.
    pub fn build(&self, program: &str, profile: &str) -> Result<PathBuf> {
        let status = self
            .command(program, profile)?
            .status()
            .context("cargo does not start")?;
        ensure!(status.success(), "{program} does not build for {}", self.triple);
        // Cargo's directory of the profile dev has another name.
        let directory = if profile == "dev" { "debug" } else { profile };
        let target = Metadata::load()?.target_directory;
        Ok(target.join(self.triple).join(directory).join(program))
    }
}

/// A static binary where the system has them, in which no path names a directory of this machine.
fn flags(os: &str, moved: &[MovedPath]) -> Vec<String> {
    let linked = STATIC.iter().filter(|_| os == "linux");
    let moved = moved
        .iter()
        .map(|MovedPath { from, to }| format!("--remap-path-prefix={}={to}", from.display()));
    linked.map(|flag| (*flag).to_owned()).chain(moved).collect()
}

fn c_flags(moved: &[MovedPath]) -> String {
    let flags = moved
        .iter()
        .map(|MovedPath { from, to }| format!("-ffile-prefix-map={}={to}", from.display()));
    flags.collect::<Vec<_>>().join(" ")
}

/// A directory of this machine, and what stands for it in the binary.
#[derive(Debug)]
struct MovedPath {
    from: PathBuf,
    to: String,
}

impl MovedPath {
    fn new(from: PathBuf, to: &str) -> Self {
        Self {
            from,
            to: to.to_owned(),
        }
    }
}

/// Of several that fit a path, compilers take the last one.
fn moved_paths() -> Result<Vec<MovedPath>> {
    let mut moved = vec![
        MovedPath::new(root().to_path_buf(), "mcu"),
        MovedPath::new(Metadata::load()?.target_directory, "mcu/target"),
    ];
    // A prefix without text would be one of every path.
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(cargo_home) = set("CARGO_HOME").or_else(|| set("HOME").map(|home| home.join(".cargo"))) {
        let sources = cargo_home.join("registry/src");
        moved.push(MovedPath::new(cargo_home, "cargo"));
        // Their names depend on the mirror that a machine uses. This program has been built from there, so they exist.
        let mut registries = directories(&sources).unwrap_or_default();
        registries.sort();
        moved.extend(
            registries
                .into_iter()
                .map(|path| MovedPath::new(path, "cargo/registry/src")),
        );
    }
    let sysroot = sysroot()?;
    let library = sysroot.join("lib/rustlib/src/rust");
    moved.push(MovedPath::new(sysroot, "rust"));
    // Where the component rust-src is installed, the standard library's paths are there. Elsewhere they are this:
    let version = rustc(&["--version", "--verbose"])?;
    let mut lines = version.lines();
    if let Some(commit) = lines.find_map(|line| line.strip_prefix("commit-hash: ")) {
        moved.push(MovedPath::new(library, &format!("/rustc/{commit}")));
    }
    Ok(moved)
}

fn directories(parent: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(parent).with_context(|| format!("cannot read {}", parent.display()))?;
    Ok(entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect())
}

/// What rustc says.
fn rustc(arguments: &[&str]) -> Result<String> {
    let output = Command::new("rustc")
        .args(arguments)
        .current_dir(root())
        .output()
        .context("rustc does not start")?;
    ensure!(
        output.status.success(),
        "rustc {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The directory of the toolchain.
fn sysroot() -> Result<PathBuf> {
    Ok(PathBuf::from(rustc(&["--print", "sysroot"])?))
}

/// The targets whose standard library the toolchain has.
fn installed() -> Result<Vec<String>> {
    Ok(directories(&sysroot()?.join("lib/rustlib"))?
        .into_iter()
        .filter(|directory| directory.join("lib").is_dir())
        .filter_map(|directory| Some(directory.file_name()?.to_string_lossy().into_owned()))
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
        let moved = moved_paths().unwrap();
        let flags = flags("linux", &moved);
        assert_eq!(flags[..2], STATIC);
        let has_moved = |from: &Path, to: &str| {
            let wanted = format!("--remap-path-prefix={}={to}", from.display());
            flags.contains(&wanted)
        };
        assert!(has_moved(root(), "mcu") && has_moved(&sysroot().unwrap(), "rust"));
        assert!(flags.iter().any(|flag| flag.ends_with("=cargo")));
        assert!(flags.last().unwrap().contains("lib/rustlib/src/rust=/rustc/"));
        assert_eq!(c_flags(&moved).split_whitespace().count(), moved.len());
    }
}
