//! Finds the binaries of a hub and of other test programs, or builds them from Go modules once.
//!
//! The places are tried in this order: the directory named by `KUBEBUILDER_ASSETS`, `PATH`, the tool cache, a build into the
//! tool cache. A binary whose version does not satisfy the pin in `e2e/hub-tools` is skipped, and the error message says why.
//! Binaries are never downloaded.

mod build;
mod cache;
mod tool;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

pub use cache::ToolCache;
pub use tool::{Tool, Version};

pub(crate) use build::Go;
pub(crate) use cache::{hex, publish};
pub(crate) use tool::module_version;

use tool::Pin;

/// Receives one line of progress at a time, without line end.
pub type Progress<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Prints a line of progress to standard error.
pub fn stderr_progress(line: &str) {
    eprintln!("{line}");
}

/// The directory that holds one Go module per tool: the pins.
#[must_use]
pub fn hub_tools() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/hub-tools")
}

/// The located binaries, also linked into one directory.
#[derive(Debug, Clone)]
pub struct Assets {
    dir: PathBuf,
    paths: BTreeMap<Tool, PathBuf>,
}

impl Assets {
    /// Locates every tool of a hub, building what is missing.
    ///
    /// The first build takes a quarter of an hour on two cores; `progress` then gets a line every few seconds.
    ///
    /// # Errors
    /// A tool is missing and cannot be built: no Go toolchain (the message says what to install and why each
    /// binary found was skipped), a failed build (the message ends with the compiler's last lines), or an
    /// unwritable cache.
    pub async fn locate_or_build(progress: Progress<'_>) -> Result<Self> {
        Self::locate_or_build_in(&ToolCache::from_env()?, &Tool::HUB, progress).await
    }

    /// As [`Assets::locate_or_build`], with the cache and the tools given.
    ///
    /// # Errors
    /// As [`Assets::locate_or_build`].
    pub async fn locate_or_build_in(
        cache: &ToolCache,
        tools: &[Tool],
        progress: Progress<'_>,
    ) -> Result<Self> {
        let mut paths = BTreeMap::new();
        let mut missing = Vec::new();
        for &tool in tools {
            let pin = Pin::read(tool, &hub_tools())?;
            let mut skipped = Vec::new();
            match installed(&pin, &mut skipped).await {
                Some(path) => drop(paths.insert(tool, path)),
                None => missing.push((pin, skipped)),
            }
        }
        let go = Go::find(&hub_tools()).await;
        let total = missing.len();
        for (index, (pin, skipped)) in missing.iter().enumerate() {
            let step = build::Step {
                number: index + 1,
                total,
            };
            let path = match cache.binary(pin, go.as_ref().ok().map(|go| go.version.as_str())) {
                Some(path) => path,
                None => match &go {
                    Ok(go) => build::build(go, pin, cache, step, progress).await?,
                    Err(why) => return Err(no_toolchain(pin, skipped, why)),
                },
            };
            paths.insert(pin.tool, path);
        }
        let dir = link_together(cache, &paths)?;
        Ok(Self { dir, paths })
    }

    /// The assets of this process, located once; progress goes to standard error.
    ///
    /// # Errors
    /// As [`Assets::locate_or_build`].
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: tokio::sync::OnceCell<Assets> = tokio::sync::OnceCell::const_new();
        SHARED
            .get_or_try_init(|| Self::locate_or_build(&stderr_progress))
            .await
    }

    /// As [`Assets::shared`], with what spokes need besides.
    ///
    /// # Errors
    /// As [`Assets::locate_or_build`].
    pub async fn of_fleets() -> Result<&'static Self> {
        static SHARED: tokio::sync::OnceCell<Assets> = tokio::sync::OnceCell::const_new();
        let locate = || async {
            let cache = ToolCache::from_env()?;
            Self::locate_or_build_in(&cache, &Tool::FLEET, &stderr_progress).await
        };
        SHARED.get_or_try_init(locate).await
    }

    /// The directory that holds a link to every binary; usable as `KUBEBUILDER_ASSETS`.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of one binary.
    #[must_use]
    pub fn path(&self, tool: Tool) -> PathBuf {
        self.paths
            .get(&tool)
            .cloned()
            .unwrap_or_else(|| self.dir.join(tool.binary()))
    }
}

/// The first binary of `KUBEBUILDER_ASSETS` or `PATH` that satisfies the pin.
async fn installed(pin: &Pin, skipped: &mut Vec<String>) -> Option<PathBuf> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS")
        .filter(|dir| !dir.is_empty())
        .map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = assets.into_iter().chain(std::env::split_paths(&path));
    first_fitting(pin, dirs, skipped).await
}

/// The first binary, in the order of `dirs`, whose version satisfies the pin.
async fn first_fitting(
    pin: &Pin,
    dirs: impl Iterator<Item = PathBuf>,
    skipped: &mut Vec<String>,
) -> Option<PathBuf> {
    for dir in dirs {
        let candidate = dir.join(pin.tool.binary());
        if !candidate.is_file() {
            continue;
        }
        match pin.tool.version_of(&candidate).await {
            Ok(found) if pin.accepts(&found) => return Some(candidate),
            Ok(found) => skipped.push(format!("{} is {found}", candidate.display())),
            Err(why) => skipped.push(format!("{}: {why:#}", candidate.display())),
        }
    }
    None
}

fn no_toolchain(pin: &Pin, skipped: &[String], why: &anyhow::Error) -> anyhow::Error {
    let mut message = format!(
        "{} {} is not here and cannot be built ({why:#}): install Go 1.26 or later, or set KUBEBUILDER_ASSETS \
         to a directory that holds it",
        pin.tool.binary(),
        pin.version
    );
    if !skipped.is_empty() {
        message.push_str("; skipped: ");
        message.push_str(&skipped.join(", "));
    }
    anyhow::Error::msg(message)
}

/// Links every binary into one directory of the cache, named by what it links to.
fn link_together(cache: &ToolCache, paths: &BTreeMap<Tool, PathBuf>) -> Result<PathBuf> {
    let mut digest = Sha256::new();
    for (tool, path) in paths {
        digest.update(tool.binary());
        digest.update(path.as_os_str().as_encoded_bytes());
        digest.update([0]);
    }
    let dir = cache.dir().join(format!("assets-{}", hex(&digest.finalize(), 6)));
    if paths.keys().all(|tool| dir.join(tool.binary()).is_file()) {
        return Ok(dir);
    }
    let scratch = tempfile::Builder::new()
        .prefix("assets.")
        .tempdir_in(cache.dir())?;
    for (tool, path) in paths {
        let target = std::path::absolute(path)?;
        std::os::unix::fs::symlink(&target, scratch.path().join(tool.binary()))
            .with_context(|| format!("cannot link {}", target.display()))?;
    }
    publish(scratch, &dir)?;
    Ok(dir)
}

#[cfg(test)]
mod tests;
