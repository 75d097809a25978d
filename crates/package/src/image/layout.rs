//! Config, manifest and index of images, and the directory that holds them: an OCI image layout.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Context as _, Result};
use chrono::{DateTime, SecondsFormat};
use oci_spec::image::{
    Arch, ConfigBuilder, Descriptor, Digest, ImageConfigurationBuilder, ImageIndexBuilder,
    ImageManifestBuilder, MediaType, OciLayoutBuilder, Os, PlatformBuilder, RootFsBuilder, SCHEMA_VERSION,
};
use olpc_cjson::CanonicalFormatter;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{Architecture, Commit, Program};

/// As in `deploy/Containerfile`: numeric, so that runAsNonRoot can be checked; the customary "nonroot".
const USER: &str = "65532:65532";
const PORT: &str = "8080/tcp";

/// Bytes under the name that OCI gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        Self {
            digest: format!("sha256:{:x}", Sha256::digest(&bytes)),
            bytes,
        }
    }

    /// Equal values give equal bytes: keys are sorted.
    fn json(value: &impl Serialize) -> Result<Self> {
        let mut bytes = Vec::new();
        let mut writer = serde_json::Serializer::with_formatter(&mut bytes, CanonicalFormatter::new());
        value.serialize(&mut writer)?;
        Ok(Self::new(bytes))
    }

    fn descriptor(&self, media_type: MediaType) -> Result<Descriptor> {
        let digest = Digest::try_from(self.digest.as_str())?;
        Ok(Descriptor::new(
            media_type,
            u64::try_from(self.bytes.len())?,
            digest,
        ))
    }
}

/// A layer of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Its bytes, compressed.
    pub blob: Blob,
    /// Digest of its bytes before compression.
    pub unpacked: String,
}

/// The image of one architecture.
#[derive(Clone, Debug)]
pub struct Image {
    architecture: Architecture,
    layers: Vec<Layer>,
    config: Blob,
    manifest: Blob,
}

impl Image {
    /// The image of a program with these layers, the lowest first.
    ///
    /// # Errors
    /// The commit's time is not one.
    pub fn new(
        program: Program,
        architecture: Architecture,
        version: &str,
        layers: Vec<Layer>,
        commit: &Commit,
    ) -> Result<Self> {
        let created =
            DateTime::from_timestamp(commit.time, 0).context("the commit's time is out of range")?;
        let created = created.to_rfc3339_opts(SecondsFormat::Secs, true);
        let labels = [
            ("title", program.name()),
            ("description", program.description()),
            ("version", version),
            ("revision", &commit.revision),
            ("licenses", "Apache-2.0"),
        ];
        let labels: HashMap<String, String> = labels
            .map(|(name, value)| (format!("org.opencontainers.image.{name}"), value.to_owned()))
            .into();
        let run = ConfigBuilder::default()
            .user(USER)
            .entrypoint([format!("/{}", program.name())])
            .exposed_ports([PORT.to_owned()])
            .labels(labels.clone())
            .build()?;
        let unpacked: Vec<String> = layers.iter().map(|layer| layer.unpacked.clone()).collect();
        let config = ImageConfigurationBuilder::default()
            .created(created)
            .architecture(arch(architecture))
            .os(Os::Linux)
            .config(run)
            .rootfs(
                RootFsBuilder::default()
                    .typ("layers")
                    .diff_ids(unpacked)
                    .build()?,
            )
            .build()?;
        let config = Blob::json(&config)?;
        let descriptors = layers
            .iter()
            .map(|layer| layer.blob.descriptor(MediaType::ImageLayerGzip));
        let manifest = ImageManifestBuilder::default()
            .schema_version(SCHEMA_VERSION)
            .media_type(MediaType::ImageManifest)
            .config(config.descriptor(MediaType::ImageConfig)?)
            .layers(descriptors.collect::<Result<Vec<_>>>()?)
            .annotations(labels)
            .build()?;
        let manifest = Blob::json(&manifest)?;
        Ok(Self {
            architecture,
            layers,
            config,
            manifest,
        })
    }
}

fn arch(architecture: Architecture) -> Arch {
    match architecture {
        Architecture::Amd64 => Arch::Amd64,
        Architecture::Arm64 => Arch::ARM64,
    }
}

/// The images of all architectures, with the index that lists them.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Layers and configs, each once.
    pub(super) blobs: Vec<Blob>,
    /// Manifests.
    pub(super) manifests: Vec<Blob>,
    /// The index.
    pub(super) index: Blob,
}

impl Layout {
    /// The layout of these images.
    ///
    /// # Errors
    /// Never in practice: it is plain data.
    pub fn new(images: &[Image]) -> Result<Self> {
        let mut blobs = BTreeMap::new();
        let mut descriptors = Vec::new();
        for image in images {
            let layers = image.layers.iter().map(|layer| &layer.blob);
            blobs.extend(
                layers
                    .chain([&image.config])
                    .map(|blob| (blob.digest.clone(), blob.clone())),
            );
            let mut descriptor = image.manifest.descriptor(MediaType::ImageManifest)?;
            let platform = PlatformBuilder::default()
                .os(Os::Linux)
                .architecture(arch(image.architecture))
                .build()?;
            descriptor.set_platform(Some(platform));
            descriptors.push(descriptor);
        }
        let index = ImageIndexBuilder::default()
            .schema_version(SCHEMA_VERSION)
            .media_type(MediaType::ImageIndex)
            .manifests(descriptors)
            .build()?;
        Ok(Self {
            blobs: blobs.into_values().collect(),
            manifests: images.iter().map(|image| image.manifest.clone()).collect(),
            index: Blob::json(&index)?,
        })
    }

    /// Digest of the index, which names the image with all its architectures.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.index.digest
    }

    /// Writes the layout into a directory, which it replaces.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<()> {
        if directory.join("oci-layout").is_file() {
            std::fs::remove_dir_all(directory)
                .with_context(|| format!("cannot remove {}", directory.display()))?;
        }
        let blobs = directory.join("blobs/sha256");
        std::fs::create_dir_all(&blobs).with_context(|| format!("cannot create {}", blobs.display()))?;
        for blob in self.blobs.iter().chain(&self.manifests) {
            let name = blob.digest.trim_start_matches("sha256:");
            std::fs::write(blobs.join(name), &blob.bytes).with_context(|| format!("cannot write {name}"))?;
        }
        let version = OciLayoutBuilder::default()
            .image_layout_version("1.0.0")
            .build()?;
        std::fs::write(directory.join("oci-layout"), Blob::json(&version)?.bytes)?;
        std::fs::write(directory.join("index.json"), &self.index.bytes)?;
        Ok(())
    }
}
