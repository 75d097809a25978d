//! The real data of the update graph, which are kept outside the repository.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;

/// The releases of amd64, in the directory of the data.
pub const RELEASES: &str = "releases-amd64.json.gz";

/// Reads gzipped JSON.
///
/// # Errors
/// The file cannot be read, or has not the expected content; the message names it.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    serde_json::from_slice(&unzipped(path)?).with_context(|| path.display().to_string())
}

/// Reads a gzipped file.
///
/// # Errors
/// The file cannot be read; the message names it.
pub fn unzipped(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| GzDecoder::new(file).read_to_end(&mut bytes))
        .with_context(|| path.display().to_string())?;
    Ok(bytes)
}
