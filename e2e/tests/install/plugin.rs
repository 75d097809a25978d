//! The archive of the kubectl plugin and its manifest, installed by krew.

use anyhow::{Context as _, Result};
use e2e::program;
use package::image::{Commit, Platform};
use package::plugin::{self, CHECKSUMS, MANIFEST, PLATFORMS, PROGRAM, file_name};
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

/// The lines of the guide that download the archive of a machine and unpack it if it is listed with its checksum.
fn lines_of_the_guide() -> Result<String> {
    let guide = std::fs::read_to_string(root().join("docs/guide/install.md"))?;
    let start = concat!("version=v", env!("CARGO_PKG_VERSION"), "\n");
    let lines = guide.split_once(&format!("```sh\n{start}"));
    let lines = lines.and_then(|(_, rest)| rest.split_once("```"));
    let (lines, _) = lines.context("lines that begin with this version")?;
    Ok(format!("{start}{lines}"))
}

#[tokio::test]
async fn the_lines_of_the_guide_name_the_archive_of_each_platform() -> Result<()> {
    let lines = lines_of_the_guide()?;
    let (names, _) = lines.split_once("\ncheck()").context("a function that checks")?;
    // What `uname -s` and `uname -m` say on each, in the order of PLATFORMS.
    let machines = [
        ("Linux", "x86_64"),
        ("Linux", "aarch64"),
        ("Darwin", "x86_64"),
        ("Darwin", "arm64"),
    ];
    for ((system, machine), (os, architecture)) in machines.into_iter().zip(PLATFORMS) {
        let uname = format!("uname() {{ if [ $1 = -s ]; then echo {system}; else echo {machine}; fi; }}");
        let script = format!("{uname}\n{names}\nprintf %s \"$archive\"\n");
        let (told, _) = output(Command::new("sh").args(["-c", &script])).await?;
        assert_eq!(told, file_name(os, architecture));
    }
    Ok(())
}

#[tokio::test]
async fn the_lines_of_the_guide_install_the_plugin_only_if_its_archive_is_listed() -> Result<()> {
    let lines = lines_of_the_guide()?;
    let platform = Platform::own()?;
    let name = file_name(platform.os(), platform.architecture());
    let directory = tempfile::tempdir()?;
    let home = directory.path().join("home");
    let version = directory.path().join(concat!("v", env!("CARGO_PKG_VERSION")));
    std::fs::create_dir_all(&version)?;
    std::fs::create_dir_all(home.join(".local/bin"))?;
    let program = std::fs::read(program::binary(PROGRAM, "MCU_CLI").await?)?;
    let commit = Commit::read()?;
    let archive = plugin::archive(program, &commit)?.bytes;
    let installed = home.join(".local/bin/kubectl-mcu");
    let run = async || {
        let mut shell = Command::new("sh");
        shell.args(["-c", &lines]).env("HOME", &home).current_dir(&home);
        shell.env("MCU_RELEASES", format!("file://{}", directory.path().display()));
        output(&mut shell).await
    };
    let checksums = version.join(CHECKSUMS);

    std::fs::write(version.join(&name), &archive)?;
    let listed = plugin::checksums(&version)?;
    std::fs::write(&checksums, &listed)?;
    std::fs::write(
        version.join(&name),
        plugin::archive(b"other".to_vec(), &commit)?.bytes,
    )?;
    assert!(run().await.is_err(), "an archive with another checksum");
    assert!(!installed.exists());

    // The archive of another platform, which happens to be in the same directory, is as it should be.
    let another = file_name("plan9", platform.architecture());
    std::fs::write(home.join(&another), &archive)?;
    std::fs::write(version.join(&name), &archive)?;
    std::fs::write(&checksums, listed.replace(&name, &another))?;
    assert!(run().await.is_err(), "an archive that is not listed");
    assert!(!installed.exists());

    std::fs::write(&checksums, listed.replace(&name, &another) + &listed)?;
    run().await?;
    let (told, _) = output(Command::new(installed).arg("--version")).await?;
    assert!(told.contains(env!("CARGO_PKG_VERSION")), "{told}");
    Ok(())
}
