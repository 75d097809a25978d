//! The content of images, by digest, in memory and on disk.
//!
//! A digest always names the same bytes, so an entry is never out of date. Each digest has a file, which is written under
//! another name, renamed, and protected by a checksum. A damaged entry counts as absent and is fetched again. An image that
//! could not be read gets no entry.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::name::Digest;

/// Form of the files; another one counts as absent.
const FORMAT: u32 = 1;

/// How much of the entries is held in memory, in bytes. A real one has a few KiB.
const MAX_HELD: usize = 64 * 1024 * 1024;

/// What an image is, as far as the graph is concerned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// A release.
    Release {
        /// Architecture by the registry: that of the image, or `multi`.
        architecture: String,
        /// The text of `release-manifests/release-metadata`.
        document: String,
    },
    /// An image whose layers were all read and hold no release metadata.
    NoRelease,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    format: u32,
    digest: String,
    content: Content,
}

/// The cache; share it as `Arc`.
#[derive(Debug, Default)]
pub struct Cache {
    directory: Option<PathBuf>,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    entries: HashMap<Digest, Arc<Content>>,
    bytes: usize,
}

impl Memory {
    /// Empties the cache when it is full; otherwise entries of deleted images would stay for ever.
    fn insert(&mut self, digest: Digest, content: Arc<Content>) {
        let bytes = size_of::<(Digest, Content)>()
            + match &*content {
                Content::Release { document, .. } => document.len(),
                Content::NoRelease => 0,
            };
        if self.bytes + bytes > MAX_HELD {
            *self = Self::default();
        }
        if self.entries.insert(digest, content).is_none() {
            self.bytes += bytes;
        }
    }
}

impl Cache {
    /// A cache that forgets at the end of the process.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// A cache with its files in `directory`, which is made if it is missing.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn on_disk(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        Ok(Self {
            directory: Some(directory.to_owned()),
            memory: Mutex::default(),
        })
    }

    /// What is known of a digest.
    #[must_use]
    pub fn get(&self, digest: &Digest) -> Option<Arc<Content>> {
        if let Some(content) = self.lock().entries.get(digest) {
            return Some(Arc::clone(content));
        }
        let path = self.path(digest)?;
        let content = match read(&path, digest) {
            Ok(content) => Arc::new(content),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a cached image cannot be used and is fetched again");
                return None;
            }
        };
        self.lock().insert(*digest, Arc::clone(&content));
        Some(content)
    }

    /// Remembers what was certainly found. That it cannot be written is logged, no failure: it is fetched again then.
    pub fn put(&self, digest: Digest, content: Content) -> Arc<Content> {
        let content = Arc::new(content);
        if let Some(path) = self.path(&digest)
            && let Err(error) = write(&path, &digest, &content)
        {
            tracing::warn!(path = %path.display(), %error, "cannot write to the digest cache");
        }
        self.lock().insert(digest, Arc::clone(&content));
        content
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, digest: &Digest) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(digest.hex()))
    }
}

fn read(path: &Path, digest: &Digest) -> io::Result<Content> {
    let bad = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_owned());
    let bytes = fs::read(path)?;
    let body = crate::durable::open(&bytes).ok_or_else(|| bad("its check sum is wrong"))?;
    let entry: Entry = serde_json::from_slice(body).map_err(|error| bad(&error.to_string()))?;
    if entry.format != FORMAT || entry.digest != digest.to_string() {
        return Err(bad("it is of another format or digest"));
    }
    Ok(entry.content)
}

fn write(path: &Path, digest: &Digest, content: &Content) -> io::Result<()> {
    let entry = Entry {
        format: FORMAT,
        digest: digest.to_string(),
        content: content.clone(),
    };
    crate::durable::write(path, &serde_json::to_vec(&entry)?)
}

#[cfg(test)]
mod tests;
