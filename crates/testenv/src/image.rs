//! Container images as bytes: release images, and malformed images for tests.
//!
//! It builds layers, configs, manifests and indexes of both media type families with their digests. It does no I/O;
//! [`crate::registry`] pushes the bytes.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::assets::hex;

/// Where a release image keeps its release metadata.
pub const RELEASE_METADATA: &str = "release-manifests/release-metadata";

/// A media type family; registries and their clients know both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `application/vnd.oci.image.*`.
    Oci,
    /// `application/vnd.docker.distribution.*`, schema 2.
    Docker,
}

impl Family {
    /// Media type of the manifest of one image.
    #[must_use]
    pub const fn manifest(self) -> &'static str {
        match self {
            Self::Oci => "application/vnd.oci.image.manifest.v1+json",
            Self::Docker => "application/vnd.docker.distribution.manifest.v2+json",
        }
    }

    /// Media type of the list of an image's architectures.
    #[must_use]
    pub const fn index(self) -> &'static str {
        match self {
            Self::Oci => "application/vnd.oci.image.index.v1+json",
            Self::Docker => "application/vnd.docker.distribution.manifest.list.v2+json",
        }
    }

    const fn config(self) -> &'static str {
        match self {
            Self::Oci => "application/vnd.oci.image.config.v1+json",
            Self::Docker => "application/vnd.docker.container.image.v1+json",
        }
    }

    const fn layer(self) -> &'static str {
        match self {
            Self::Oci => "application/vnd.oci.image.layer.v1.tar+gzip",
            Self::Docker => "application/vnd.docker.image.rootfs.diff.tar.gzip",
        }
    }
}

/// Bytes under the name that registries give them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// `sha256:<64 hexadecimal digits>`.
    pub digest: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Blob {
    /// Names bytes by their digest.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        let digest = Sha256::digest(&bytes);
        Self {
            digest: format!("sha256:{}", hex(&digest, digest.len())),
            bytes,
        }
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": self.digest, "size": self.bytes.len()})
    }
}

/// An image of one architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Media type family of its manifest.
    pub family: Family,
    /// As Go names it: `amd64`, `arm64`, `ppc64le`, `s390x`.
    pub architecture: String,
    /// Its layers, the base first. What they hold is not checked.
    pub layers: Vec<Blob>,
}

impl Image {
    /// A release image: a base layer that all of them share, and a top layer with the release metadata among other
    /// files.
    ///
    /// # Errors
    /// Writing to memory fails.
    pub fn release(family: Family, architecture: &str, metadata: &[u8]) -> Result<Self> {
        let base = layer(&[("etc/os-release", b"ID=rhel\n")])?;
        // As in real ones, what a release refers to is of its architecture.
        let references = json!({"kind": "ImageStream", "architecture": architecture}).to_string();
        let top = layer(&[
            ("release-manifests/image-references", references.as_bytes()),
            (RELEASE_METADATA, metadata),
            (
                "release-manifests/0000_00_cluster-version-operator.yaml",
                b"---\n",
            ),
        ])?;
        Ok(Self {
            family,
            architecture: architecture.to_owned(),
            layers: vec![base, top],
        })
    }

    /// Its config: the architecture, and what a config must have.
    #[must_use]
    pub fn config(&self) -> Blob {
        let layers: Vec<&str> = self.layers.iter().map(|layer| layer.digest.as_str()).collect();
        let config = json!({
            "architecture": self.architecture, "os": "linux", "config": {},
            "rootfs": {"type": "layers", "diff_ids": layers},
        });
        Blob::new(config.to_string().into_bytes())
    }

    /// Its manifest.
    #[must_use]
    pub fn manifest(&self) -> Blob {
        let layers: Vec<Value> = self
            .layers
            .iter()
            .map(|layer| layer.descriptor(self.family.layer()))
            .collect();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": self.family.manifest(),
            "config": self.config().descriptor(self.family.config()), "layers": layers,
        });
        Blob::new(manifest.to_string().into_bytes())
    }
}

/// The images of one tag, each for its architecture.
#[must_use]
pub fn index(family: Family, images: &[Image]) -> Blob {
    let manifests: Vec<Value> = images
        .iter()
        .map(|image| {
            let mut entry = image.manifest().descriptor(image.family.manifest());
            entry["platform"] = json!({"architecture": image.architecture, "os": "linux"});
            entry
        })
        .collect();
    let index = json!({"schemaVersion": 2, "mediaType": family.index(), "manifests": manifests});
    Blob::new(index.to_string().into_bytes())
}

/// A layer: files by path in a gzipped tar archive. Equal files give equal bytes.
///
/// # Errors
/// Writing to memory fails, or a path is too long for tar.
pub fn layer(files: &[(&str, &[u8])]) -> Result<Blob> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(u64::try_from(bytes.len())?);
        header.set_mode(0o644);
        archive
            .append_data(&mut header, path, *bytes)
            .with_context(|| format!("{path} does not fit into a layer"))?;
    }
    // Whole images of real size are not the point; fast is enough.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&archive.into_inner()?)?;
    Ok(Blob::new(gzip.finish()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn files(layer: &Blob) -> Vec<(String, String)> {
        let gzip = flate2::read::GzDecoder::new(layer.bytes.as_slice());
        let mut archive = tar::Archive::new(gzip);
        let entries = archive.entries().unwrap();
        entries
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                (entry.path().unwrap().display().to_string(), text)
            })
            .collect()
    }

    #[test]
    fn the_top_layer_of_a_release_holds_its_metadata() {
        let image = Image::release(Family::Oci, "amd64", b"{}").unwrap();
        let top = files(image.layers.last().unwrap());
        assert!(
            top.contains(&(RELEASE_METADATA.to_owned(), "{}".to_owned())),
            "{top:?}"
        );
    }

    #[test]
    fn equal_images_have_equal_digests_and_others_do_not() {
        let one = |family, text: &[u8]| Image::release(family, "amd64", text).unwrap().manifest().digest;
        assert_eq!(one(Family::Oci, b"a"), one(Family::Oci, b"a"));
        assert_ne!(one(Family::Oci, b"a"), one(Family::Oci, b"b"));
        assert_ne!(one(Family::Oci, b"a"), one(Family::Docker, b"a"));
    }

    #[test]
    fn an_index_names_every_architecture_with_the_manifest_of_its_image() {
        let images = ["amd64", "arm64"].map(|arch| Image::release(Family::Docker, arch, b"{}").unwrap());
        let index: Value = serde_json::from_slice(&index(Family::Docker, &images).bytes).unwrap();
        for (entry, image) in index["manifests"].as_array().unwrap().iter().zip(&images) {
            assert_eq!(entry["platform"]["architecture"], image.architecture);
            assert_eq!(entry["digest"], image.manifest().digest);
        }
    }
}
