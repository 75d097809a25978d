//! The real releases and graph-data as files, and the same releases for five architectures.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

/// Faithful as a load, not as data: every release for each of them.
pub(super) const ARCHITECTURES: [&str; 5] = ["amd64", "arm64", "ppc64le", "s390x", "multi"];

/// File bytes, as they are read from disk.
pub(super) struct Files {
    /// The real list: amd64.
    pub(super) releases: Vec<u8>,
    pub(super) graph_data: Vec<u8>,
}

impl Files {
    /// Reads the real data.
    pub(super) fn read() -> Result<Self> {
        let dir = directory()?;
        let read = |name: &str| {
            let path = dir.join(name);
            std::fs::read(&path).with_context(|| path.display().to_string())
        };
        Ok(Self {
            releases: read("releases-amd64.json.gz")?,
            graph_data: read("graph-data.tar.gz")?,
        })
    }

    /// The releases once per architecture, gzipped, with digests of their own; another `generation` has others again,
    /// of the same length.
    pub(super) fn releases_for_all(&self, generation: u8) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        GzDecoder::new(self.releases.as_slice()).read_to_end(&mut text)?;
        let releases: Vec<Value> = serde_json::from_slice(&text)?;
        let mut all = Vec::with_capacity(releases.len() * ARCHITECTURES.len());
        for (number, arch) in (0..).zip(ARCHITECTURES) {
            for release in &releases {
                let mut release = release.clone();
                let payload = release["payload"].as_str().context("a release without payload")?;
                release["payload"] = json!(turned(payload, generation * 5 + number)?);
                release["arch"] = json!(arch);
                if arch == "multi" {
                    release["metadata"]["release.openshift.io/architecture"] = json!(arch);
                }
                all.push(release);
            }
        }
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&serde_json::to_vec(&all)?)?;
        Ok(gzip.finish()?)
    }
}

/// The directory of the real data.
fn directory() -> Result<PathBuf> {
    repository::data::directory("update-graph").context("this bench needs the real data")
}

/// A payload with every digit of its digest turned on by some steps.
fn turned(payload: &str, steps: u8) -> Result<String> {
    let (place, digest) = payload
        .split_once("@sha256:")
        .context("a payload without digest")?;
    let turn = |c: char| {
        let value = c.to_digit(16).map(|value| (value + u32::from(steps)) % 16);
        value.and_then(|value| char::from_digit(value, 16)).unwrap_or(c)
    };
    Ok(format!(
        "{place}@sha256:{}",
        digest.chars().map(turn).collect::<String>()
    ))
}

/// Replaces a file atomically, so that no reader sees half of it.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let next = path.with_extension("next");
    std::fs::write(&next, bytes)?;
    std::fs::rename(&next, path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turned_digest_is_another_of_the_same_length() {
        let payload = "quay.io/a/b@sha256:0f9";
        assert_eq!(turned(payload, 0).unwrap(), payload);
        assert_eq!(turned(payload, 1).unwrap(), "quay.io/a/b@sha256:10a");
        assert!(turned("quay.io/a/b:tag", 1).is_err());
    }
}
