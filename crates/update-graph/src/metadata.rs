//! Release metadata: the small JSON document inside a release image, and the opaque key-value pairs of a node.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use smol_str::SmolStr;

use crate::version::{Arch, Version};

/// The keys with a meaning.
pub mod key {
    /// The channels of a release, joined by `,`.
    pub const CHANNELS: &str = "io.openshift.upgrades.graph.release.channels";
    /// The digest of the payload.
    pub const MANIFESTREF: &str = "io.openshift.upgrades.graph.release.manifestref";
    /// The architecture of a node in a whole graph; a filtered one has none.
    pub const ARCH: &str = "io.openshift.upgrades.graph.release.arch";
    /// `true` marks the release as removed (policy `node-remove`).
    pub const REMOVE: &str = "io.openshift.upgrades.graph.release.remove";
    /// Versions that may also update to this one, joined by `,`.
    pub const PREVIOUS_ADD: &str = "io.openshift.upgrades.graph.previous.add";
    /// Versions that may not update to this one, joined by `,`, or `*`.
    pub const PREVIOUS_REMOVE: &str = "io.openshift.upgrades.graph.previous.remove";
    /// A regular expression over `VERSION+ARCH`: those that may not update to this one.
    pub const PREVIOUS_REMOVE_REGEX: &str = "io.openshift.upgrades.graph.previous.remove_regex";
    /// Versions that this one may also update to, joined by `,`.
    pub const NEXT_ADD: &str = "io.openshift.upgrades.graph.next.add";
    /// Versions that this one may not update to, joined by `,`, or `*`.
    pub const NEXT_REMOVE: &str = "io.openshift.upgrades.graph.next.remove";
    /// What the image itself says of its architecture; only `multi` is in use.
    pub const IMAGE_ARCH: &str = "release.openshift.io/architecture";
    /// The errata page.
    pub const URL: &str = "url";
}

/// The metadata of a release: keys in order, each value the JSON text that was read, whatever JSON it is.
#[derive(Clone, Default)]
pub struct Metadata(Vec<(SmolStr, Box<RawValue>)>);

impl Metadata {
    /// The JSON text of a value.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.position(key)
            .ok()
            .and_then(|at| self.0.get(at))
            .map(|(_, value)| value.get())
    }

    /// The value as a string; `None` if it is absent or other JSON than a string.
    #[must_use]
    pub fn get_str(&self, key: &str) -> Option<Cow<'_, str>> {
        let text = self.get(key)?;
        let inner = text.strip_prefix('"')?.strip_suffix('"')?;
        if inner.contains('\\') {
            return serde_json::from_str(text).ok().map(Cow::Owned);
        }
        Some(Cow::Borrowed(inner))
    }

    /// True when the value is `true`, as JSON or as a string.
    #[must_use]
    pub fn is_true(&self, key: &str) -> bool {
        matches!(self.get(key), Some("true" | "\"true\""))
    }

    /// Sets a value to the JSON it is.
    pub fn insert(&mut self, key: &str, value: Box<RawValue>) {
        match self.position(key) {
            Ok(at) => {
                if let Some(entry) = self.0.get_mut(at) {
                    entry.1 = value;
                }
            }
            Err(at) => self.0.insert(at, (SmolStr::new(key), value)),
        }
    }

    /// Sets a value to a string.
    pub fn insert_str(&mut self, key: &str, value: &str) {
        // A string always has a JSON form.
        if let Ok(raw) = serde_json::value::to_raw_value(value) {
            self.insert(key, raw);
        }
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: &str) -> Option<Box<RawValue>> {
        self.position(key).ok().map(|at| self.0.remove(at).1)
    }

    /// Keys in order with the JSON text of their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.get()))
    }

    /// Adds the keys of `other` that are missing here.
    pub(crate) fn fill_from(&mut self, other: &Self) {
        for (key, value) in &other.0 {
            if let Err(at) = self.position(key) {
                self.0.insert(at, (key.clone(), value.clone()));
            }
        }
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(k, _)| k.as_str().cmp(key))
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Metadata {}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Metadata;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<Metadata, E> {
                Ok(Metadata::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                let mut metadata = Metadata::default();
                while let Some((key, value)) = map.next_entry::<SmolStr, Box<RawValue>>()? {
                    metadata.insert(&key, value);
                }
                Ok(metadata)
            }
        }
        deserializer.deserialize_any(Pairs)
    }
}

/// A list of versions from a foreign document. Invalid entries are kept separately, so they do not affect the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Versions {
    pub readable: Vec<Version>,
    pub unreadable: Vec<String>,
}

impl<'de> Deserialize<'de> for Versions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        struct Entry(Result<Version, String>);
        impl<'de> Deserialize<'de> for Entry {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = Entry;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a version")
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Entry, E> {
                        Ok(Entry(Version::parse(text).map_err(|e| e.to_string())))
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
        impl<'de> Visitor<'de> for List {
            type Value = Versions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of versions")
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<Versions, E> {
                Ok(Versions::default())
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Versions, A::Error> {
                let mut versions = Versions::default();
                while let Some(Entry(entry)) = seq.next_element()? {
                    match entry {
                        Ok(version) => versions.readable.push(version),
                        Err(text) => versions.unreadable.push(text),
                    }
                }
                Ok(versions)
            }
        }
        deserializer.deserialize_any(List)
    }
}

/// Why a release metadata document was not read.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// Not the JSON of the document.
    #[error("release metadata: {0}")]
    Json(#[from] serde_json::Error),
    /// A document of another kind.
    #[error("release metadata of kind {0:?}, known is cincinnati-metadata-v0")]
    Kind(String),
    /// Has no version.
    #[error("release metadata: {0}")]
    Version(#[from] crate::version::VersionError),
}

/// The document of kind `cincinnati-metadata-v0`, `/release-manifests/release-metadata` of a release image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseMetadata {
    /// The release.
    pub version: Version,
    /// The build of its version, should it have one.
    pub arch: Option<Arch>,
    /// Releases that may update to this one.
    pub previous: Vec<Version>,
    /// Releases that this one may update to.
    pub next: Vec<Version>,
    /// Entries of `previous` and `next` that are no versions, with the reason.
    pub unreadable: Vec<String>,
    /// The rest, kept unchanged.
    pub metadata: Metadata,
}

impl ReleaseMetadata {
    /// Reads the document.
    ///
    /// # Errors
    /// [`MetadataError`] when it is no JSON, of another kind, or has no version.
    pub fn parse(bytes: &[u8]) -> Result<Self, MetadataError> {
        #[derive(Deserialize)]
        struct Document {
            kind: String,
            version: String,
            #[serde(default)]
            previous: Versions,
            #[serde(default)]
            next: Versions,
            #[serde(default)]
            metadata: Metadata,
        }
        let document: Document = serde_json::from_slice(bytes)?;
        if document.kind != "cincinnati-metadata-v0" {
            return Err(MetadataError::Kind(document.kind.chars().take(80).collect()));
        }
        let (version, arch) = Version::split(&document.version)?;
        let mut unreadable = document.previous.unreadable;
        unreadable.extend(document.next.unreadable);
        Ok(Self {
            version,
            arch,
            previous: document.previous.readable,
            next: document.next.readable,
            unreadable,
            metadata: document.metadata,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_as_the_text_they_were() {
        let text = r#"{"kind":"cincinnati-metadata-v0","version":"1.1.0","previous":["1.0.0"],"next":null,
            "metadata":{"b":1.10,"a":{"y":[1, 2],"x":null},"url":"https://e\/x","c":18446744073709551616}}"#;
        let document = ReleaseMetadata::parse(text.as_bytes()).unwrap();
        assert_eq!(document.metadata.get("b"), Some("1.10"));
        assert_eq!(document.metadata.get("a"), Some(r#"{"y":[1, 2],"x":null}"#));
        assert_eq!(document.metadata.get("c"), Some("18446744073709551616"));
        assert_eq!(document.metadata.get_str("url").as_deref(), Some("https://e/x"));
        assert_eq!(document.metadata.get_str("a"), None);
        assert_eq!(
            serde_json::to_string(&document.metadata).unwrap(),
            r#"{"a":{"y":[1, 2],"x":null},"b":1.10,"c":18446744073709551616,"url":"https://e\/x"}"#
        );
    }

    #[test]
    fn another_kind_is_an_error_and_one_bad_entry_costs_itself() {
        let other = br#"{"kind":"cincinnati-metadata-v1","version":"1.1.0"}"#;
        assert!(matches!(
            ReleaseMetadata::parse(other),
            Err(MetadataError::Kind(_))
        ));
        let partly = br#"{"kind":"cincinnati-metadata-v0","version":"1.1.0+s390x","previous":["1.0.0","one","1.0.1+s390x"]}"#;
        let document = ReleaseMetadata::parse(partly).unwrap();
        assert_eq!(
            document.previous,
            ["1.0.0".parse().unwrap(), "1.0.1".parse().unwrap()]
        );
        assert_eq!(document.unreadable.len(), 1);
        assert_eq!(document.arch.unwrap().as_str(), "s390x");
    }

    #[test]
    fn duplicate_fields_are_an_error() {
        let twice = br#"{"kind":"cincinnati-metadata-v0","version":"1.1.0","version":"1.1.0"}"#;
        assert!(matches!(
            ReleaseMetadata::parse(twice),
            Err(MetadataError::Json(_))
        ));
    }
}
