//! `cargo xtask image`: the image of the controller or of the update service as an OCI layout, without a container runtime.
//!
//! Equal binaries, dependencies and commits give equal bytes: files have the time of the commit and owner 0, and JSON is canonical.

mod build;
mod layer;
mod layout;
mod licences;
mod push;
mod sbom;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use repository::{Metadata, root};

pub use build::{Platform, STATIC};
pub use layer::{Entry, layer};
pub use layout::{Blob, Image, Layout};
pub use push::push;

/// Where programs look for the certificates of public authorities, without the first slash.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

/// A program that has an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// The controller on the hub.
    McuController,
    /// The update service.
    UpdateService,
}

impl Program {
    /// Its name, which is also that of its package.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::McuController => repository::CONTROLLER,
            Self::UpdateService => repository::UPDATE_SERVICE,
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::McuController => {
                "Upgrades fleets of OpenShift clusters from an Open Cluster Management hub"
            }
            Self::UpdateService => "Serves the update graph of OpenShift to clusters",
        }
    }
}

/// A processor architecture, as OCI names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Architecture {
    /// x86-64.
    Amd64,
    /// 64-bit ARM.
    Arm64,
}

impl Architecture {
    /// As OCI names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

/// The C library that is linked into the binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Libc {
    /// The GNU C library.
    Gnu,
    /// musl.
    Musl,
}

/// What to build, and where it goes.
#[derive(Clone, Debug, Args)]
pub struct ImageArgs {
    /// The program in the image.
    #[arg(long, value_enum, default_value = "mcu-controller")]
    program: Program,
    /// Architectures, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "amd64")]
    arch: Vec<Architecture>,
    /// C library of the static binary.
    #[arg(long, value_enum, default_value = "gnu")]
    libc: Libc,
    /// Cargo's profile; dev builds in less time.
    #[arg(long, default_value = "release")]
    profile: String,
    /// PEM file with the certificate authorities that update-service trusts, such as those of your distribution. Without it,
    /// update-service trusts those of its configuration only.
    #[arg(long, value_name = "FILE")]
    certificates: Option<PathBuf>,
    /// Directory of the OCI layout, which is replaced. Default: image/PROGRAM in cargo's target directory.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Push it, too, with the credentials of docker or podman: REGISTRY/REPOSITORY:TAG.
    #[arg(long, value_name = "REF")]
    push: Option<String>,
    /// Push over plain HTTP, for a registry on this machine.
    #[arg(long, requires = "push")]
    plain_http: bool,
}

/// The commit that is checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its hash; ends with `-dirty` if tracked files differ from it.
    pub revision: String,
    /// Its time in seconds since 1970.
    pub time: i64,
}

impl Commit {
    /// Asks git about the repository.
    ///
    /// # Errors
    /// There is no git, or no commit.
    pub fn read() -> Result<Self> {
        let head = git(&["rev-parse", "HEAD"])?;
        let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
        Ok(Self {
            revision: if changes.is_empty() { head } else { head + "-dirty" },
            time: git(&["log", "-1", "--format=%ct"])?.parse()?,
        })
    }
}

fn git(arguments: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root())
        .output()
        .context("git does not start")?;
    ensure!(
        output.status.success(),
        "git {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Builds the image, writes it, and pushes it where that is asked for.
///
/// # Errors
/// The reference to push to is not one, something for an architecture is not installed (the message says how it is got), a build fails,
/// or the registry refuses something.
pub fn run(args: &ImageArgs) -> Result<()> {
    if let Some(reference) = &args.push {
        push::tagged(reference).context("--push")?;
    }
    let commit = Commit::read()?;
    let program = args.program;
    let certificates = match &args.certificates {
        Some(file) => Some(certificates(program, file)?),
        None => None,
    };
    let mut architectures = args.arch.clone();
    architectures.sort_unstable();
    architectures.dedup();
    let platforms = architectures
        .iter()
        .map(|&architecture| Platform::new(architecture, args.libc))
        .collect::<Result<Vec<_>>>()?;
    let mut images = Vec::new();
    for platform in &platforms {
        let binary = platform.build(program.name(), &args.profile)?;
        images.push(image(
            program,
            &binary,
            platform,
            certificates.as_deref(),
            &commit,
        )?);
    }
    let layout = Layout::new(&images)?;
    let output = match &args.output {
        Some(output) => output.clone(),
        None => Metadata::load()?
            .target_directory
            .join("image")
            .join(program.name()),
    };
    layout.write(&output)?;
    println!(
        "{} of {} in {}",
        layout.digest(),
        commit.revision,
        output.display()
    );
    if let Some(reference) = &args.push {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let pushed = runtime.block_on(push(&layout, reference, args.plain_http))?;
        println!("{pushed}");
    }
    Ok(())
}

/// The certificates of a file, for a program that reads them.
fn certificates(program: Program, file: &Path) -> Result<Vec<u8>> {
    ensure!(
        program == Program::UpdateService,
        "--certificates is for {}; give {} the file with its flag --update-graph-ca",
        Program::UpdateService.name(),
        program.name()
    );
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    ensure!(
        text.contains("-----BEGIN CERTIFICATE-----") && !text.contains("PRIVATE KEY-----"),
        "{} has no certificates in PEM, or a private key",
        file.display()
    );
    Ok(text.into_bytes())
}

/// The image of a program with this binary, which was built for the platform. `certificates`: a PEM file of the authorities that it
/// trusts.
///
/// # Errors
/// The binary or the licence of a dependency cannot be read, or cargo does not know the dependencies.
pub fn image(
    program: Program,
    binary: &Path,
    platform: &Platform,
    certificates: Option<&[u8]>,
    commit: &Commit,
) -> Result<Image> {
    let bytes = std::fs::read(binary).with_context(|| format!("cannot read {}", binary.display()))?;
    let dependencies = sbom::Dependencies::read(program.name(), platform.triple)?;
    let mut texts = licences::entries(&dependencies)?;
    texts.push(Entry::file(
        format!("sbom/{}.cdx.json", program.name()),
        sbom::render(&dependencies)?,
    ));
    texts.extend(certificates.map(|certificates| Entry::file(CERTIFICATES, certificates.to_vec())));
    let layers = [
        // Texts change less often than the binary, so they are the layer below.
        layer(texts, commit.time)?,
        layer(vec![Entry::program(program.name(), bytes)], commit.time)?,
    ];
    Image::new(
        program,
        platform.architecture,
        &dependencies.version(),
        layers.into(),
        commit,
    )
}

#[cfg(test)]
mod tests;
