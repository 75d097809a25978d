//! Releases: one image of one version for one architecture, and the files that list them.

use std::fmt;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::metadata::{Metadata, ReleaseMetadata, Versions, key};
use crate::version::{Arch, Version};

/// A release as a scrape finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The version.
    pub version: Version,
    /// The architecture.
    pub arch: Arch,
    /// The image by digest, `host/repo@sha256:…`.
    pub payload: SmolStr,
    /// What the image says besides, unchanged.
    pub metadata: Metadata,
    /// Releases of this architecture that may update to this one.
    pub previous: Vec<Version>,
    /// Releases of this architecture that this one may update to.
    pub next: Vec<Version>,
    /// Entries of `previous` and `next` that are no versions, with the reason.
    pub unreadable: Vec<String>,
}

impl Release {
    /// A release out of the document in its image. The architecture is what the registry says: a document says nothing
    /// of it, or `multi`.
    #[must_use]
    pub fn from_metadata(document: ReleaseMetadata, arch: Arch, payload: impl Into<SmolStr>) -> Self {
        Self {
            version: document.version,
            arch,
            payload: payload.into(),
            metadata: document.metadata,
            previous: document.previous,
            next: document.next,
            unreadable: document.unreadable,
        }
    }
}

/// An edge that is declared outside of the releases.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraEdge {
    /// The release that may update.
    pub from: Version,
    /// The release it may update to.
    pub to: Version,
    /// The architecture; absent means every one that has both ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<Arch>,
}

/// What a release list holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReleaseList {
    /// The releases, in the file's order.
    pub releases: Vec<Release>,
    /// Edges besides those of the releases.
    pub extra: Vec<ExtraEdge>,
}

/// Release list files: the result of a scrape as a file.
pub mod release_list {
    pub use super::{ReleaseList, ReleaseListError, parse_list as parse};
}

/// Why a release list was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseListError {
    /// Broken compression, or too large.
    #[error("release list: {0}")]
    Unpack(String),
    /// Not one of the two forms.
    #[error(
        "release list: {0}; it is an array of {{version, payload, metadata, previous}}, or {{TO: [FROM, ...]}}"
    )]
    Json(#[from] serde_json::Error),
}

/// Reads a release list, plain or gzip, in either form: an array of `{version, payload, metadata, previous, next, arch}`
/// (all but the first two optional), or `{TO: [FROM, …]}`, previous entries to be merged into other lists.
///
/// The architecture of a release is its `arch` field, else the build of its version, else `multi` if its metadata says
/// so, else `default_arch`.
///
/// # Errors
/// [`ReleaseListError`] when the file is neither form or one of its releases has no version or payload.
pub fn parse_list(bytes: &[u8], default_arch: &Arch) -> Result<ReleaseList, ReleaseListError> {
    let plain = crate::unpack::gunzip(bytes).map_err(|e| ReleaseListError::Unpack(e.to_string()))?;
    let first = plain.iter().find(|b| !b.is_ascii_whitespace());
    if first == Some(&b'{') {
        let Extra(extra) = serde_json::from_slice(&plain)?;
        return Ok(ReleaseList {
            releases: Vec::new(),
            extra,
        });
    }
    let entries: Vec<Entry> = serde_json::from_slice(&plain)?;
    let releases = entries
        .into_iter()
        .map(|entry| entry.release(default_arch))
        .collect();
    Ok(ReleaseList {
        releases,
        extra: Vec::new(),
    })
}

/// One element of the array form.
#[derive(Deserialize)]
struct Entry {
    version: Built,
    payload: SmolStr,
    #[serde(default)]
    arch: Option<Arch>,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    previous: Versions,
    #[serde(default)]
    next: Versions,
}

impl Entry {
    fn release(mut self, default_arch: &Arch) -> Release {
        let in_metadata = self
            .metadata
            .get_str(key::ARCH)
            .and_then(|text| Arch::parse(&text).ok());
        self.metadata.remove(key::ARCH);
        let multi = self.metadata.get_str(key::IMAGE_ARCH).as_deref() == Some("multi");
        let arch = self
            .arch
            .or(self.version.arch)
            .or(in_metadata)
            .or_else(|| multi.then(Arch::multi))
            .unwrap_or_else(|| default_arch.clone());
        let mut unreadable = self.previous.unreadable;
        unreadable.extend(self.next.unreadable);
        Release {
            version: self.version.version,
            arch,
            payload: self.payload,
            metadata: self.metadata,
            previous: self.previous.readable,
            next: self.next.readable,
            unreadable,
        }
    }
}

/// A version with its build read as architecture.
pub(crate) struct Built {
    pub version: Version,
    pub arch: Option<Arch>,
}

impl<'de> Deserialize<'de> for Built {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Built;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a version such as 4.14.3 or 4.14.3+amd64")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Built, E> {
                let (version, arch) = Version::split(text).map_err(E::custom)?;
                Ok(Built { version, arch })
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// The object form.
struct Extra(Vec<ExtraEdge>);

impl<'de> Deserialize<'de> for Extra {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sources(Built);
        impl<'de> serde::de::DeserializeSeed<'de> for Sources {
            type Value = Vec<ExtraEdge>;

            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                deserializer.deserialize_seq(self)
            }
        }
        impl<'de> Visitor<'de> for Sources {
            type Value = Vec<ExtraEdge>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of versions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut edges = Vec::new();
                while let Some(from) = seq.next_element::<Built>()? {
                    let Built { version, arch } = &self.0;
                    edges.push(ExtraEdge {
                        from: from.version,
                        to: version.clone(),
                        arch: arch.clone(),
                    });
                }
                Ok(edges)
            }
        }
        struct Targets;
        impl<'de> Visitor<'de> for Targets {
            type Value = Extra;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of lists of versions")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Extra, A::Error> {
                let mut edges = Vec::new();
                while let Some(to) = map.next_key::<Built>()? {
                    edges.extend(map.next_value_seed(Sources(to))?);
                }
                Ok(Extra(edges))
            }
        }
        deserializer.deserialize_map(Targets)
    }
}

#[cfg(test)]
mod tests;
