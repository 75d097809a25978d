//! The archive of the kubectl plugin and its manifest, installed by krew.

use anyhow::{Context as _, Result};
use e2e::program;
use package::image::{Commit, Platform};
use package::plugin::{self, MANIFEST, PROGRAM, file_name};
use repository::root;
use testenv::Tool;
use tokio::process::Command;

use crate::helm::{output, tool};

#[tokio::test]
async fn krew_installs_the_plugin_from_its_manifest_and_refuses_another_archive() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let program = std::fs::read(program::binary(PROGRAM, "MCU_CLI").await?)?;
    let platform = Platform::own()?;
    let archive = directory
        .path()
        .join(file_name(platform.os(), platform.architecture()));
    let commit = Commit::read()?;
    std::fs::write(&archive, plugin::archive(program.clone(), &commit)?.bytes)?;
    let manifest = plugin::manifest(directory.path(), "https://releases.example.com/mcu")?;
    let file = directory.path().join(MANIFEST);
    // JSON is YAML.
    std::fs::write(&file, manifest.to_string())?;

    let krew = tool(Tool::Krew).await?;
    let kubectl = tool(Tool::Kubectl).await?;
    let home = directory.path().join("krew");
    let install = || {
        let mut install = Command::new(&krew);
        install
            .arg("install")
            .arg("--manifest")
            .arg(&file)
            .arg("--archive")
            .arg(&archive);
        install.env("KREW_ROOT", &home).env("KREW_NO_UPGRADE_CHECK", "1");
        if let Some(directory) = kubectl.parent() {
            install.env("PATH", directory);
        }
        install
    };
    std::fs::write(
        &archive,
        plugin::archive(b"another program".to_vec(), &commit)?.bytes,
    )?;
    let refused = output(&mut install())
        .await
        .err()
        .context("another archive is accepted")?
        .to_string();
    assert!(refused.contains("checksum does not match"), "{refused}");

    std::fs::write(&archive, plugin::archive(program, &commit)?.bytes)?;
    output(&mut install()).await?;
    let (told, _) = output(Command::new(home.join("bin/kubectl-mcu")).arg("--version")).await?;
    assert!(told.contains(env!("CARGO_PKG_VERSION")), "{told}");
    Ok(())
}

#[tokio::test]
async fn the_line_of_the_guide_for_this_platform_installs_the_plugin() -> Result<()> {
    let platform = Platform::own()?;
    let name = file_name(platform.os(), platform.architecture());
    let guide = std::fs::read_to_string(root().join("docs/guide/install.md"))?;
    let mut lines = guide.lines();
    let line = lines
        .find(|line| line.starts_with("curl ") && line.contains(&name))
        .context("a line for this platform")?;
    let directory = tempfile::tempdir()?;
    let home = directory.path().join("home");
    let version = directory.path().join(concat!("v", env!("CARGO_PKG_VERSION")));
    std::fs::create_dir_all(&version)?;
    std::fs::create_dir_all(home.join(".local/bin"))?;
    let program = std::fs::read(program::binary(PROGRAM, "MCU_CLI").await?)?;
    let archive = plugin::archive(program, &Commit::read()?)?;
    std::fs::write(version.join(name), archive.bytes)?;

    let mut shell = Command::new("sh");
    shell.args(["-c", line]).env("HOME", &home);
    shell.env("MCU_RELEASES", format!("file://{}", directory.path().display()));
    output(&mut shell).await?;
    let (told, _) = output(Command::new(home.join(".local/bin/kubectl-mcu")).arg("--version")).await?;
    assert!(told.contains(env!("CARGO_PKG_VERSION")), "{told}");
    Ok(())
}
