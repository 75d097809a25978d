//! The archive of the kubectl plugin and its manifest, installed by krew.

use anyhow::{Context as _, Result};
use e2e::program;
use package::image::{Commit, Platform};
use package::plugin::{self, CHECKSUMS, MANIFEST, PROGRAM, file_name};
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

/// The lines of the guide that download the archive of this platform and unpack it if it has its checksum.
fn lines_of_the_guide(archive: &str) -> Result<String> {
    let guide = std::fs::read_to_string(root().join("docs/guide/install.md"))?;
    let mut lines = guide.lines();
    let mut line_with = |part: &str| lines.find(|line| line.starts_with("curl ") && line.contains(part));
    let download = line_with(archive).context("a line for this platform")?;
    let check = line_with(CHECKSUMS).context("a line with the checksums")?;
    let unpack = lines.next().context("a line that unpacks")?;
    // It names the archive of one platform.
    let unpack = unpack.replace(&file_name("linux", "amd64"), archive);
    let check = if cfg!(target_os = "macos") {
        check.replace("sha256sum", "shasum -a 256")
    } else {
        check.to_owned()
    };
    Ok(format!("{download}\n{check}\n{unpack}\n"))
}

#[tokio::test]
async fn the_lines_of_the_guide_for_this_platform_install_the_plugin_and_no_other_archive() -> Result<()> {
    let platform = Platform::own()?;
    let name = file_name(platform.os(), platform.architecture());
    let lines = lines_of_the_guide(&name)?;
    let directory = tempfile::tempdir()?;
    let home = directory.path().join("home");
    let version = directory.path().join(concat!("v", env!("CARGO_PKG_VERSION")));
    std::fs::create_dir_all(&version)?;
    std::fs::create_dir_all(home.join(".local/bin"))?;
    let program = std::fs::read(program::binary(PROGRAM, "MCU_CLI").await?)?;
    let commit = Commit::read()?;
    let archive = plugin::archive(program, &commit)?;
    std::fs::write(version.join(&name), &archive.bytes)?;
    std::fs::write(version.join(CHECKSUMS), plugin::checksums(&version)?)?;
    let installed = home.join(".local/bin/kubectl-mcu");
    let run = async || {
        let mut shell = Command::new("sh");
        shell.args(["-c", &lines]).env("HOME", &home).current_dir(&home);
        shell.env("MCU_RELEASES", format!("file://{}", directory.path().display()));
        output(&mut shell).await
    };

    std::fs::write(
        version.join(&name),
        plugin::archive(b"other".to_vec(), &commit)?.bytes,
    )?;
    assert!(run().await.is_err());
    assert!(!installed.exists());

    std::fs::write(version.join(&name), archive.bytes)?;
    run().await?;
    let (told, _) = output(Command::new(installed).arg("--version")).await?;
    assert!(told.contains(env!("CARGO_PKG_VERSION")), "{told}");
    Ok(())
}
