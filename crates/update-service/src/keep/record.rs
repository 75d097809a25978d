//! The file behind the memory: every known release with its name and its missed listings.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use update_graph::{Arch, Metadata, Release, Version};

use super::Known;

/// Form of the file; another one counts as absent.
const FORMAT: u32 = 1;

#[derive(Serialize)]
struct FileRef<'a> {
    format: u32,
    source: &'a str,
    known: Vec<EntryRef<'a>>,
}

#[derive(Serialize)]
struct EntryRef<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    also: &'a [String],
    missed: u32,
    version: &'a Version,
    arch: &'a Arch,
    payload: &'a str,
    metadata: &'a Metadata,
    previous: &'a [Version],
    next: &'a [Version],
    unreadable: &'a [String],
}

#[derive(Deserialize)]
struct File {
    format: u32,
    source: String,
    known: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    #[serde(default)]
    also: Vec<String>,
    missed: u32,
    version: Version,
    arch: Arch,
    payload: String,
    metadata: Metadata,
    previous: Vec<Version>,
    next: Vec<Version>,
    unreadable: Vec<String>,
}

pub(super) fn write<'a>(path: &Path, source: &str, known: impl Iterator<Item = &'a Known>) -> io::Result<()> {
    let known = known
        .map(|known| EntryRef {
            name: &known.name,
            also: &known.also,
            missed: known.missed,
            version: &known.release.version,
            arch: &known.release.arch,
            payload: &known.release.payload,
            metadata: &known.release.metadata,
            previous: &known.release.previous,
            next: &known.release.next,
            unreadable: &known.release.unreadable,
        })
        .collect();
    let file = FileRef {
        format: FORMAT,
        source,
        known,
    };
    crate::durable::write(path, &serde_json::to_vec(&file)?)
}

/// Nothing for a file that is absent.
pub(super) fn read(path: &Path, source: &str) -> io::Result<Vec<Known>> {
    let Some(bytes) = crate::durable::read(path)? else {
        return Ok(Vec::new());
    };
    let file: File = serde_json::from_slice(&bytes)?;
    if file.format != FORMAT {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is of another format",
        ));
    }
    if file.source != source {
        let text = format!("it is about {}", file.source);
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(file.known.into_iter().map(Entry::known).collect())
}

impl Entry {
    fn known(self) -> Known {
        Known {
            name: self.name,
            also: self.also,
            missed: self.missed,
            release: Release {
                version: self.version,
                arch: self.arch,
                payload: self.payload.into(),
                metadata: self.metadata,
                previous: self.previous,
                next: self.next,
                unreadable: self.unreadable,
            },
        }
    }
}
