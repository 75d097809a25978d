//! The tool cache: a directory outside the repository that holds built binaries.
//!
//! An entry is created by rename, so it is complete or absent. Its name contains the pin's hash and the Go version, so a
//! changed pin never finds an old binary.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::tool::Pin;

/// Build flags except the compiler's and the linker's; part of every key.
pub(super) const BUILD_FLAGS: [&str; 2] = ["-trimpath", "-buildvcs=false"];

/// The directory of built tools and copied CRDs.
#[derive(Debug, Clone)]
pub struct ToolCache {
    dir: PathBuf,
}

impl ToolCache {
    /// The one of this user, see [`repository::tool_cache`].
    ///
    /// # Errors
    /// None of the variables (`HOME` last) is set, or the directory cannot be made.
    pub fn from_env() -> Result<Self> {
        Self::at(&repository::tool_cache()?)
    }

    /// A cache in a directory, made if it is missing.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn at(dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir)
            .with_context(|| format!("cannot make the tool cache {}", dir.display()))?;
        Ok(Self {
            dir: std::path::absolute(dir)?,
        })
    }

    /// Where the cache is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory of one built tool.
    pub(super) fn entry(&self, pin: &Pin, go_version: &str) -> PathBuf {
        self.dir.join(format!("{}{go_version}", entry_prefix(pin)))
    }

    /// The built binary of a pin: by this Go version, or, where no Go is installed, by any.
    pub(super) fn binary(&self, pin: &Pin, go_version: Option<&str>) -> Option<PathBuf> {
        let entry = match go_version {
            Some(version) => self.entry(pin, version),
            None => self.any_entry(&entry_prefix(pin))?,
        };
        Some(entry.join(pin.tool.binary())).filter(|path| path.is_file())
    }

    fn any_entry(&self, prefix: &str) -> Option<PathBuf> {
        std::fs::read_dir(&self.dir)
            .ok()?
            .filter_map(Result::ok)
            .find(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
            .map(|entry| entry.path())
    }

    /// Takes the lock of a name, waiting for its holder; freed when the file is dropped or its process dies.
    ///
    /// # Errors
    /// The lock file cannot be opened or locked.
    pub(crate) async fn lock(&self, name: &str, on_wait: impl FnOnce()) -> Result<std::fs::File> {
        let path = self.dir.join(format!("{name}.lock"));
        let file = std::fs::File::create(&path).with_context(|| format!("cannot open {}", path.display()))?;
        if file.try_lock().is_ok() {
            return Ok(file);
        }
        on_wait();
        tokio::task::spawn_blocking(move || file.lock().map(|()| file))
            .await?
            .with_context(|| format!("cannot lock {}", path.display()))
    }
}

/// The name of a tool's entry up to the Go version: tool, version, and a hash of pin and flags.
fn entry_prefix(pin: &Pin) -> String {
    let mut digest = Sha256::new();
    digest.update(&pin.source);
    digest.update(pin.tool.compiler_flags());
    digest.update(pin.linker_flags());
    for flag in BUILD_FLAGS {
        digest.update(flag);
    }
    digest.update("CGO_ENABLED=0");
    digest.update(pin.tag_flags().unwrap_or_default());
    format!(
        "{}-{}-{}-",
        pin.tool.binary(),
        pin.version,
        hex(&digest.finalize(), 6)
    )
}

/// The first `bytes` of a digest in hexadecimal.
pub(crate) fn hex(digest: &[u8], bytes: usize) -> String {
    use std::fmt::Write as _;
    digest.iter().take(bytes).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Renames a finished scratch directory into place; what another process published first stays.
///
/// # Errors
/// The rename fails and no entry is there.
pub(crate) fn publish(scratch: tempfile::TempDir, entry: &Path) -> Result<()> {
    let kept = scratch.keep();
    match std::fs::rename(&kept, entry) {
        Ok(()) => Ok(()),
        Err(_) if entry.is_dir() => {
            std::fs::remove_dir_all(&kept).with_context(|| format!("cannot remove {}", kept.display()))
        }
        Err(error) => Err(error).with_context(|| format!("cannot publish {}", entry.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::hub_tools;
    use super::super::tool::Tool;
    use super::*;

    fn pin() -> Pin {
        Pin::read(Tool::Etcd, &hub_tools()).unwrap()
    }

    #[test]
    fn the_key_changes_with_the_pin_the_flags_and_the_go_version() {
        let dir = tempfile::tempdir().unwrap();
        let cache = ToolCache::at(dir.path()).unwrap();
        let base = cache.entry(&pin(), "go1.26.8");
        assert_eq!(base, cache.entry(&pin(), "go1.26.8"));
        assert_ne!(base, cache.entry(&pin(), "go1.26.9"));
        let mut other_sum = pin();
        other_sum.source.push_str("example.com/x v1.0.0 h1:abc=\n");
        assert_ne!(base, cache.entry(&other_sum, "go1.26.8"));
        let mut other_tool = pin();
        other_tool.tool = Tool::Placement;
        assert_ne!(base, cache.entry(&other_tool, "go1.26.8"));
    }

    #[test]
    fn without_go_a_binary_built_by_any_go_of_the_same_pin_serves() {
        let dir = tempfile::tempdir().unwrap();
        let cache = ToolCache::at(dir.path()).unwrap();
        assert_eq!(cache.binary(&pin(), None), None);
        let entry = cache.entry(&pin(), "go1.26.8");
        std::fs::create_dir_all(&entry).unwrap();
        std::fs::write(entry.join("etcd"), "").unwrap();
        assert_eq!(cache.binary(&pin(), None), Some(entry.join("etcd")));
        assert_eq!(cache.binary(&pin(), Some("go1.27.0")), None);
    }

    #[test]
    fn an_entry_that_was_published_first_stays() {
        let dir = tempfile::tempdir().unwrap();
        let entry = dir.path().join("entry");
        for text in ["first", "second"] {
            let scratch = tempfile::tempdir_in(dir.path()).unwrap();
            std::fs::write(scratch.path().join("file"), text).unwrap();
            publish(scratch, &entry).unwrap();
        }
        assert_eq!(std::fs::read_to_string(entry.join("file")).unwrap(), "first");
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            1,
            "no scratch directory is left"
        );
    }
}
