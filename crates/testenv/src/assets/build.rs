//! Builds a tool from its Go module into the cache.
//!
//! One process at a time builds a tool; the others wait for its lock and then find the entry.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use tokio::process::Command;

use super::Progress;
use super::cache::{self, BUILD_FLAGS, ToolCache};
use super::tool::Pin;
use crate::process::tail;

/// Time between two lines of progress about one build.
const PROGRESS_PERIOD: Duration = Duration::from_secs(10);

/// The Go toolchain.
#[derive(Debug)]
pub(crate) struct Go {
    program: PathBuf,
    /// As `go version` prints it: `go1.26.8`.
    pub version: String,
}

impl Go {
    /// Finds Go in `PATH` or where its installer puts it.
    pub(crate) async fn find(hub_tools: &Path) -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = std::env::split_paths(&path)
            .chain([PathBuf::from("/usr/local/go/bin")])
            .map(|dir| dir.join("go"))
            .find(|program| program.is_file())
            .ok_or_else(|| anyhow!("no go in PATH"))?;
        // Asked inside a module, so that a toolchain too old for its go line says so now.
        let output = Command::new(&program)
            .arg("version")
            .current_dir(hub_tools.join("etcd"))
            .stdin(Stdio::null())
            .output()
            .await
            .with_context(|| format!("{} does not start", program.display()))?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let version = parse_go_version(&String::from_utf8_lossy(&output.stdout))
            .ok_or_else(|| anyhow!("{} version says nothing known", program.display()))?;
        Ok(Self { program, version })
    }

    /// A `go` command in a module's directory.
    pub(crate) fn command(&self, dir: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(dir)
            .env("CGO_ENABLED", "0")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }
}

fn parse_go_version(text: &str) -> Option<String> {
    text.split_whitespace()
        .find(|word| word.starts_with("go1."))
        .map(str::to_owned)
}

/// Which build of how many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub number: usize,
    pub total: usize,
}

/// Builds a pinned tool and publishes it in the cache; returns the binary's path.
pub(super) async fn build(
    go: &Go,
    pin: &Pin,
    cache: &ToolCache,
    step: Step,
    progress: Progress<'_>,
) -> Result<PathBuf> {
    let name = pin.tool.binary();
    let _lock = cache
        .lock(name, || progress(&format!("waiting for another build of {name}")))
        .await?;
    if let Some(path) = cache.binary(pin, Some(&go.version)) {
        return Ok(path);
    }
    let started = Instant::now();
    let title = format!("{name} {} ({} of {})", pin.version, step.number, step.total);
    progress(&format!("building {title} from Go modules"));

    let scratch = tempfile::Builder::new()
        .prefix(&format!("{name}."))
        .tempdir_in(cache.dir())?;
    let log = cache.dir().join(format!("{name}.build.log"));
    let output = std::fs::File::create(&log).with_context(|| format!("cannot open {}", log.display()))?;
    let mut child = go
        .command(&pin.module_dir)
        .arg("build")
        .args(BUILD_FLAGS)
        .args(pin.tag_flags())
        .arg(format!("-gcflags={}", pin.tool.compiler_flags()))
        .arg(format!("-ldflags={}", pin.linker_flags()))
        .arg("-o")
        .arg(scratch.path().join(name))
        .arg(pin.tool.package())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .context("go build does not start")?;
    let status = loop {
        match tokio::time::timeout(PROGRESS_PERIOD, child.wait()).await {
            Ok(status) => break status?,
            Err(_) => progress(&format!("building {title}: {} s", started.elapsed().as_secs())),
        }
    };
    if !status.success() {
        bail!(
            "go build of {title} failed ({status}); the end of {}:\n{}",
            log.display(),
            tail(&log, 20)
        );
    }
    let entry = cache.entry(pin, &go.version);
    cache::publish(scratch, &entry)?;
    progress(&format!("built {title} in {} s", started.elapsed().as_secs()));
    Ok(entry.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_go_version_is_read_from_what_go_prints() {
        assert_eq!(
            parse_go_version("go version go1.26.8 linux/amd64\n").as_deref(),
            Some("go1.26.8")
        );
        assert_eq!(parse_go_version("something else"), None);
    }
}
