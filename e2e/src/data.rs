//! The real data of the update graph, which are kept outside the repository.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;

/// The releases of amd64, in the directory of the data.
pub const RELEASES: &str = "releases-amd64.json.gz";

/// The directory of the real data, or nothing where it may be missing.
///
/// # Errors
/// It is missing in CI.
pub fn update_graph() -> Result<Option<PathBuf>> {
    let root = std::env::var_os("MCU_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
        PathBuf::from,
    );
    let dir = root.join("update-graph");
    if dir.join(RELEASES).is_file() {
        return Ok(Some(dir));
    }
    let why = format!(
        "no real data in {}: set MCU_DATA to the directory that holds update-graph/",
        dir.display()
    );
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        bail!("{why}");
    }
    eprintln!("skipped: {why}");
    Ok(None)
}

/// Reads gzipped JSON.
///
/// # Errors
/// The file cannot be read, or is not what is wanted; the message names it.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let mut bytes = Vec::new();
    GzDecoder::new(file).read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).with_context(|| path.display().to_string())
}
