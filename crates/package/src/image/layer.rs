//! A layer: files in a gzipped tar archive whose bytes follow from the files and a time.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};

use super::layout::{Blob, Layer};

/// A file of a layer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    path: PathBuf,
    bytes: Vec<u8>,
    mode: u32,
}

impl Entry {
    /// A file that everybody may read.
    pub fn file(path: impl Into<PathBuf>, bytes: Vec<u8>) -> Self {
        Self {
            path: path.into(),
            bytes,
            mode: 0o644,
        }
    }

    /// A file that everybody may run.
    pub fn program(path: impl Into<PathBuf>, bytes: Vec<u8>) -> Self {
        Self {
            path: path.into(),
            bytes,
            mode: 0o755,
        }
    }
}

/// The layer with these files and their directories, all of them owned by root and as old as `time`, in seconds since 1970.
///
/// # Errors
/// Writing to memory fails, or a path is too long for tar.
pub fn layer(mut entries: Vec<Entry>, time: i64) -> Result<Layer> {
    entries.sort();
    let time = u64::try_from(time).context("a commit before 1970")?;
    let mut archive = tar::Builder::new(Vec::new());
    let ancestors = entries.iter().flat_map(|entry| entry.path.ancestors().skip(1));
    let directories: BTreeSet<&Path> = ancestors.filter(|path| !path.as_os_str().is_empty()).collect();
    for directory in directories {
        let mut header = header(0o755, time);
        header.set_entry_type(tar::EntryType::Directory);
        header.set_size(0);
        archive.append_data(&mut header, directory, std::io::empty())?;
    }
    for entry in &entries {
        let mut header = header(entry.mode, time);
        header.set_size(u64::try_from(entry.bytes.len())?);
        archive
            .append_data(&mut header, &entry.path, entry.bytes.as_slice())
            .with_context(|| format!("{} does not fit into a layer", entry.path.display()))?;
    }
    let archive = archive.into_inner()?;
    let unpacked = Blob::new(archive.clone()).digest;
    // Without a time and a name in its header.
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::default());
    gzip.write_all(&archive)?;
    Ok(Layer {
        blob: Blob::new(gzip.finish()?),
        unpacked,
    })
}

fn header(mode: u32, time: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_mtime(time);
    header.set_uid(0);
    header.set_gid(0);
    header
}
