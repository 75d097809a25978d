//! The image that `cargo xtask image` makes, on a real registry.

use anyhow::{Context as _, Result};
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::manifest::OciManifest;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};
use package::image::{Architecture, Commit, Layout, image, push};
use testenv::Registry;
use tokio::process::Command;

use crate::image::static_controller;

const TARGET: &str = "x86_64-unknown-linux-gnu";

#[tokio::test]
async fn the_pushed_image_runs_by_its_digest_and_pushing_it_again_changes_nothing() -> Result<()> {
    let binary = static_controller().await?;
    let commit = Commit::read()?;
    let layout = Layout::new(&[image(&binary, Architecture::Amd64, TARGET, &commit)?])?;
    let registry = Registry::start().await?;
    let name = format!("{}/fleet/mcu-controller:0.1.0", registry.address());
    let pushed = push(&layout, &name, true).await?;
    assert_eq!(pushed, push(&layout, &name, true).await?);
    let again = Layout::new(&[image(&binary, Architecture::Amd64, TARGET, &commit)?])?;
    assert_eq!(again.digest(), layout.digest());

    // As a runtime does: the tag leads to the index, this to the manifest of the platform, and this to the layers.
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
    let controller = root.path().join("mcu-controller");
    let output = Command::new(&controller)
        .arg("--version")
        .env_clear()
        .output()
        .await?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains(env!("CARGO_PKG_VERSION")), "{told}");
    for file in [
        "sbom/mcu-controller.cdx.json",
        "licenses/LICENSE",
        "licenses/THIRD-PARTY.txt",
    ] {
        assert!(root.path().join(file).is_file(), "{file}");
    }
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
