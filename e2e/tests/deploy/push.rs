//! The images that `cargo xtask image` makes, on a real registry.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::manifest::OciManifest;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};
use package::image::{Commit, Layout, Program, image, push};
use serde_json::Value;
use tempfile::TempDir;
use testenv::Registry;
use tokio::process::Command;

use crate::image::{PROFILE, TARGET, platform, static_binary};

/// A certificate, as far as packing is concerned.
const CERTIFICATES: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";

#[tokio::test]
async fn each_pushed_image_runs_by_its_digest_and_pushing_it_again_changes_nothing() -> Result<()> {
    let registry = Registry::start().await?;
    for (program, certificates) in [
        (Program::McuController, None),
        (Program::UpdateService, Some(CERTIFICATES)),
    ] {
        let binary = static_binary(program).await?;
        let commit = Commit::read()?;
        let pack = || -> Result<Layout> {
            let certificates = certificates.map(str::as_bytes);
            Layout::new(&[image(program, &binary, &platform()?, certificates, &commit)?])
        };
        let layout = pack()?;
        assert_eq!(pack()?.digest(), layout.digest());
        let name = format!("{}/fleet/{}:0.1.0", registry.address(), program.name());
        let pushed = push(&layout, &name, true).await?;
        assert_eq!(pushed, push(&layout, &name, true).await?);

        let root = unpacked(&name, &pushed).await?;
        let output = Command::new(root.path().join(program.name()))
            .arg("--version")
            .env_clear()
            .output()
            .await?;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(told.contains(env!("CARGO_PKG_VERSION")), "{told}");
        for file in ["licenses/LICENSE", "licenses/THIRD-PARTY.txt"] {
            assert!(root.path().join(file).is_file(), "{file}");
        }
        let trusted = std::fs::read_to_string(root.path().join("etc/ssl/certs/ca-certificates.crt"));
        assert_eq!(trusted.ok().as_deref(), certificates);
        assert_eq!(billed(root.path(), program)?, compiled(program).await?);
    }
    Ok(())
}

/// What is in an image, fetched as a runtime does: the tag leads to the index, this to the manifest of the platform, and this to the
/// layers.
async fn unpacked(name: &str, pushed: &str) -> Result<TempDir> {
    let client = Client::try_from(ClientConfig {
        protocol: ClientProtocol::Http,
        ..ClientConfig::default()
    })?;
    let (tagged, by_digest): (Reference, Reference) = (name.parse()?, pushed.parse()?);
    let (found, digest) = client.pull_manifest(&tagged, &RegistryAuth::Anonymous).await?;
    assert_eq!(Some(digest.as_str()), by_digest.digest());
    assert!(matches!(found, OciManifest::ImageIndex(_)));
    let accepted = vec!["application/vnd.oci.image.layer.v1.tar+gzip"];
    let pulled = client
        .pull(&by_digest, &RegistryAuth::Anonymous, accepted)
        .await?;
    let root = tempfile::tempdir()?;
    for layer in &pulled.layers {
        tar::Archive::new(flate2::read::GzDecoder::new(layer.data.as_ref())).unpack(root.path())?;
    }
    Ok(root)
}

/// Name and version of each package in the bill of materials of an image.
fn billed(root: &Path, program: Program) -> Result<BTreeSet<String>> {
    let file = root.join(format!("sbom/{}.cdx.json", program.name()));
    let bill: Value = serde_json::from_slice(&std::fs::read(file)?)?;
    let components = bill["components"].as_array().context("components")?;
    let text = |value: &Value| value.as_str().map(str::to_owned).context("a text");
    components
        .iter()
        .map(|one| Ok(format!("{}@{}", text(&one["name"])?, text(&one["version"])?)))
        .collect()
}

/// The same of each package that cargo compiles into the program, as it says itself when it builds it.
async fn compiled(program: Program) -> Result<BTreeSet<String>> {
    // It is built already.
    static_binary(program).await?;
    let mut build = Command::from(platform()?.command(program.name(), PROFILE)?);
    let output = build
        .args(["--quiet", "--message-format", "json"])
        .kill_on_drop(true)
        .output()
        .await?;
    ensure!(output.status.success(), "cargo: {}", output.status);
    let mut found = BTreeSet::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line)?;
        let files = message["filenames"].as_array();
        // Build scripts, procedural macros and what these need are built for this machine, in another directory.
        let for_target = files.is_some_and(|files| {
            let mut paths = files.iter().filter_map(Value::as_str);
            paths.any(|path| path.contains(&format!("/{TARGET}/")))
        });
        if message["reason"] == "compiler-artifact" && for_target {
            let id = message["package_id"].as_str().context("a package")?;
            found.insert(name_and_version(id));
        }
    }
    // Its own package is what the bill is about.
    found.retain(|package| !package.starts_with(&format!("{}@", program.name())));
    Ok(found)
}

/// Name and version of a package by its ID: `SOURCE#NAME@VERSION`, or `SOURCE/NAME#VERSION`.
fn name_and_version(id: &str) -> String {
    let (source, end) = id.rsplit_once('#').unwrap_or_default();
    if end.contains('@') {
        end.to_owned()
    } else {
        let name = source.rsplit('/').next().unwrap_or_default();
        format!("{name}@{end}")
    }
}

/// Run it before a release: `cargo test -p e2e --features hub-tests --test deploy -- --ignored two_directories`.
#[tokio::test]
#[ignore = "builds everything twice with optimizations, which takes half an hour on two cores"]
async fn two_directories_with_the_same_commit_give_the_same_image() -> Result<()> {
    let parent = tempfile::tempdir()?;
    let mut digests = BTreeSet::new();
    for name in ["clone", "another/longer/name"] {
        let clone = parent.path().join(name);
        let cloned = Command::new("git")
            .args(["clone", "--quiet"])
            .arg(repository::root())
            .arg(&clone)
            .status()
            .await?;
        ensure!(cloned.success(), "git clone: {cloned}");
        let mut build = Command::new(env!("CARGO"));
        let output = build
            .args([
                "run",
                "--quiet",
                "--locked",
                "--package",
                "package",
                "--",
                "image",
            ])
            .current_dir(&clone)
            .env_remove("CARGO_TARGET_DIR")
            .kill_on_drop(true)
            .output()
            .await?;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success(),
            "{told}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let digest = told.split_whitespace().next().context("a digest")?;
        assert!(digest.starts_with("sha256:"), "{told}");
        digests.insert(digest.to_owned());
        // They take gigabytes.
        std::fs::remove_dir_all(&clone)?;
    }
    assert_eq!(digests.len(), 1, "{digests:?}");
    Ok(())
}

#[tokio::test]
async fn a_registry_that_is_not_there_and_a_name_without_tag_are_told() -> Result<()> {
    let layout = Layout::new(&[])?;
    let digest = format!("sha256:{}", "0".repeat(64));
    let by_digest = push(&layout, &format!("127.0.0.1:1/a@{digest}"), true).await;
    let message = by_digest.err().context("a digest is accepted")?.to_string();
    assert!(message.contains("pushed under a tag"), "{message}");
    let nobody = push(&layout, "127.0.0.1:1/a:b", true).await;
    assert!(nobody.is_err());
    Ok(())
}
