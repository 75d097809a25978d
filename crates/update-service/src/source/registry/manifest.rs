//! Manifests and manifest lists, in the OCI and in the docker family of media types.
//!
//! It parses their JSON and chooses an entry of a list. Schema 1 is not supported.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::name::Digest;

/// The requested media types, in order of preference.
pub const ACCEPT: &str = "application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.oci.image.manifest.v1+json";

/// A manifest that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadManifest {
    /// Not JSON of the expected form.
    #[error("its manifest cannot be read: {0}")]
    Malformed(String),
    /// A kind of manifest that is not supported.
    #[error("its manifest is of an unsupported kind: {0}")]
    Unsupported(String),
    /// A list without entries for any platform.
    #[error("its manifest list is empty")]
    Empty,
}

/// What a tag points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manifest {
    /// One image.
    Image(ImageManifest),
    /// Images for several platforms.
    List(Vec<Child>),
}

/// One image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageManifest {
    /// The blob that names the architecture.
    pub config: Descriptor,
    /// Layers from bottom to top.
    pub layers: Vec<Descriptor>,
}

/// A blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Media type, may be empty.
    pub media_type: String,
    /// Digest of its content.
    pub digest: Digest,
    /// Size in bytes.
    pub size: u64,
}

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Digest of its manifest.
    pub digest: Digest,
    /// Architecture as the list says it.
    pub architecture: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    schema_version: u32,
    #[serde(default)]
    media_type: String,
    config: Option<WireDescriptor>,
    layers: Option<Vec<WireDescriptor>>,
    manifests: Option<Vec<WireChild>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireDescriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    #[serde(default)]
    size: u64,
}

#[derive(Deserialize)]
struct WireChild {
    digest: String,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    architecture: String,
}

impl Manifest {
    /// Reads either kind of either family; what it holds decides, since media types are optional in OCI.
    ///
    /// # Errors
    /// [`BadManifest`].
    pub fn parse(bytes: &[u8]) -> Result<Self, BadManifest> {
        let wire: Wire =
            serde_json::from_slice(bytes).map_err(|error| BadManifest::Malformed(error.to_string()))?;
        match wire {
            Wire {
                manifests: Some(children),
                ..
            } => list(children),
            Wire {
                config: Some(config),
                layers: Some(layers),
                ..
            } => Ok(Self::Image(ImageManifest {
                config: config.read()?,
                layers: layers
                    .into_iter()
                    .map(WireDescriptor::read)
                    .collect::<Result<_, _>>()?,
            })),
            Wire {
                schema_version,
                media_type,
                ..
            } => Err(BadManifest::Unsupported(format!(
                "schema version {schema_version}, media type {media_type:?}"
            ))),
        }
    }
}

fn list(children: Vec<WireChild>) -> Result<Manifest, BadManifest> {
    let children: Vec<Child> = children
        .into_iter()
        .filter_map(|child| Some((child.digest, child.platform?.architecture)))
        // Attestations are listed like images, for a platform that does not exist.
        .filter(|(_, architecture)| architecture != "unknown" && !architecture.is_empty())
        .map(|(digest, architecture)| {
            Ok(Child {
                digest: read_digest(&digest)?,
                architecture,
            })
        })
        .collect::<Result<_, _>>()?;
    if children.is_empty() {
        return Err(BadManifest::Empty);
    }
    Ok(Manifest::List(children))
}

impl WireDescriptor {
    fn read(self) -> Result<Descriptor, BadManifest> {
        Ok(Descriptor {
            digest: read_digest(&self.digest)?,
            media_type: self.media_type,
            size: self.size,
        })
    }
}

fn read_digest(text: &str) -> Result<Digest, BadManifest> {
    text.parse()
        .map_err(|error| BadManifest::Malformed(format!("{text:?}: {error}")))
}

/// `multi` for a list of more than one architecture, the architecture itself for a list of one.
#[must_use]
pub fn list_architecture(children: &[Child]) -> &str {
    let distinct: BTreeSet<&str> = children.iter().map(|child| child.architecture.as_str()).collect();
    match (distinct.len(), distinct.first()) {
        (1, Some(only)) => only,
        _ => "multi",
    }
}

/// The architecture that an image's config names, lower case letters and digits.
///
/// # Errors
/// [`BadManifest::Malformed`] if no entry can be read.
pub fn config_architecture(bytes: &[u8]) -> Result<String, BadManifest> {
    let config: Config = serde_json::from_slice(bytes)
        .map_err(|error| BadManifest::Malformed(format!("image config: {error}")))?;
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if config.architecture.is_empty() || !config.architecture.chars().all(legal) {
        let text = format!("image config: {:?} is no architecture", config.architecture);
        return Err(BadManifest::Malformed(text));
    }
    Ok(config.architecture)
}

#[cfg(test)]
mod tests;
