//! `cargo xtask plugin`: the kubectl plugin in an archive, and the manifest by which krew installs it.
//!
//! Nothing is published yet. Where archives are published is one variable, `MCU_RELEASES`: with it, the manifest of all archives in the
//! output directory is written, too, so archives of other machines can be put there first.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use repository::{Metadata, root};
use serde_json::{Value, json};

use crate::image::{Blob, Commit, Entry, Platform, layer};

/// The program in the archive; also the name of its package.
pub const PROGRAM: &str = "kubectl-mcu";
/// The name of the plugin's manifest.
pub const MANIFEST: &str = "mcu.yaml";
/// The name of the file with the checksums of archives, as sha256sum reads it.
pub const CHECKSUMS: &str = "SHA256SUMS";
const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
/// The operating systems and architectures that archives are made for, as Go names them.
pub const PLATFORMS: [(&str, &str); 4] = [
    ("linux", "amd64"),
    ("linux", "arm64"),
    ("darwin", "amd64"),
    ("darwin", "arm64"),
];

/// What to pack, and where it goes.
#[derive(Clone, Debug, Args)]
pub struct PluginArgs {
    /// Cargo's profile; dev builds in less time.
    #[arg(long, default_value = "release")]
    profile: String,
    /// Directory of the archives. Default: plugin in cargo's target directory.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Address below which archives are published, each in a directory named by its version. With it, the krew manifest of all
    /// archives in the directory is written.
    #[arg(long, value_name = "URL", env = "MCU_RELEASES")]
    releases: Option<String>,
}

/// Packs the plugin for this machine, writes the checksums, and the manifest where the address is known.
///
/// # Errors
/// It does not build, or a file cannot be written.
pub fn run(args: &PluginArgs) -> Result<()> {
    let output = match &args.output {
        Some(output) => output.clone(),
        None => Metadata::load()?.target_directory.join("plugin"),
    };
    std::fs::create_dir_all(&output).with_context(|| format!("cannot create {}", output.display()))?;
    let platform = Platform::own()?;
    let binary = platform.build(PROGRAM, &args.profile)?;
    let bytes = std::fs::read(&binary).with_context(|| format!("cannot read {}", binary.display()))?;
    let archive = archive(bytes, &Commit::read()?)?;
    let path = output.join(file_name(platform.os(), platform.architecture()));
    std::fs::write(&path, &archive.bytes).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{} {}", archive.digest, path.display());
    let path = output.join(CHECKSUMS);
    std::fs::write(&path, checksums(&output)?).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    if let Some(releases) = &args.releases {
        let manifest = manifest(&output, releases)?;
        let path = output.join(MANIFEST);
        std::fs::write(&path, serde_saphyr::to_string(&manifest)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// The name of the archive for a platform.
#[must_use]
pub fn file_name(os: &str, architecture: &str) -> String {
    format!("{PROGRAM}_{VERSION}_{os}_{architecture}.tar.gz")
}

/// An archive with the program and the licence. Equal programs of a commit give equal bytes.
///
/// # Errors
/// The licence cannot be read.
pub fn archive(program: Vec<u8>, commit: &Commit) -> Result<Blob> {
    let licence = std::fs::read(root().join("LICENSE")).context("cannot read LICENSE")?;
    let entries = vec![Entry::program(PROGRAM, program), Entry::file("LICENSE", licence)];
    Ok(layer(entries, commit.time)?.blob)
}

/// An archive in a directory.
struct Found {
    os: &'static str,
    architecture: &'static str,
    name: String,
    /// Its SHA-256 in hexadecimal digits.
    checksum: String,
}

/// The archives of this version in a directory.
fn found(directory: &Path) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for (os, architecture) in PLATFORMS {
        let name = file_name(os, architecture);
        let path = directory.join(&name);
        if path.is_file() {
            let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let checksum = Blob::new(bytes).digest.trim_start_matches("sha256:").to_owned();
            found.push(Found {
                os,
                architecture,
                name,
                checksum,
            });
        }
    }
    Ok(found)
}

/// The checksums of all archives in a directory, a line for each, as sha256sum reads them.
///
/// # Errors
/// An archive cannot be read.
pub fn checksums(directory: &Path) -> Result<String> {
    let found = found(directory)?;
    let lines = found
        .iter()
        .map(|archive| format!("{}  {}\n", archive.checksum, archive.name));
    Ok(lines.collect())
}

/// The krew manifest of all archives in a directory.
///
/// # Errors
/// There is no archive, or one cannot be read.
pub fn manifest(directory: &Path, releases: &str) -> Result<Value> {
    let releases = releases.trim_end_matches('/');
    let platforms: Vec<Value> = found(directory)?
        .iter()
        .map(|archive| {
            json!({
                "selector": {"matchLabels": {"os": archive.os, "arch": archive.architecture}},
                "uri": format!("{releases}/{VERSION}/{}", archive.name),
                "sha256": archive.checksum,
                "bin": PROGRAM,
            })
        })
        .collect();
    ensure!(
        !platforms.is_empty(),
        "no archive of {VERSION} in {}",
        directory.display()
    );
    Ok(json!({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "mcu"},
        "spec": {
            "version": VERSION,
            "homepage": releases,
            "shortDescription": "Follow upgrades of OpenShift fleets",
            "description":
                "Shows where each cluster of a ManagedClustersUpgrade stands, why it waits and who must do what to move it;\n\
                 pauses, resumes and retries; plans and rehearses. Needs the MCU controller on an Open Cluster Management hub.\n",
            "platforms": platforms,
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: i64 = 7;

    fn sample(program: &[u8]) -> Blob {
        let commit = Commit {
            revision: String::new(),
            time: COMMIT,
        };
        archive(program.to_vec(), &commit).unwrap()
    }

    #[test]
    fn equal_programs_give_equal_archives() {
        assert_eq!(sample(b"a"), sample(b"a"));
        assert_ne!(sample(b"a").digest, sample(b"b").digest);
    }

    #[test]
    fn the_manifest_has_the_archives_that_are_there_below_the_address() {
        let directory = tempfile::tempdir().unwrap();
        assert!(manifest(directory.path(), "https://example.com/mcu").is_err());
        let archive = sample(b"a");
        std::fs::write(directory.path().join(file_name("linux", "arm64")), &archive.bytes).unwrap();
        let manifest = manifest(directory.path(), "https://example.com/mcu/").unwrap();
        let platforms = manifest["spec"]["platforms"].as_array().unwrap();
        assert_eq!(platforms.len(), 1);
        assert_eq!(platforms[0]["selector"]["matchLabels"]["arch"], "arm64");
        let uri = format!("https://example.com/mcu/{VERSION}/kubectl-mcu_{VERSION}_linux_arm64.tar.gz");
        assert_eq!(platforms[0]["uri"], uri);
        let checksum = platforms[0]["sha256"].as_str().unwrap();
        assert!(archive.digest.ends_with(checksum));
        let line = format!("{checksum}  kubectl-mcu_{VERSION}_linux_arm64.tar.gz\n");
        assert_eq!(checksums(directory.path()).unwrap(), line);
    }
}
