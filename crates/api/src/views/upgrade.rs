//! Our custom resources as the controller watches them. A spec stays readable even when it violates a rule.
//!
//! Tenants write upgrades, so the memory that one of them can take is limited here, whatever it contains: of a spec
//! that is too large only the error is kept, and of the metadata only what the controller reads.

use std::hash::{DefaultHasher, Hasher};
use std::io;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{owned_meta, resource, slim_meta};
use crate::lenient::{self, Lenient, measure};
use crate::names::{
    ANNOTATION_COMPLETED, ANNOTATION_RESUME_RESTORED, ANNOTATION_RETRY_FAILED, ANNOTATION_UPGRADE_UID,
};
use crate::stored::StoredRows;
use crate::validate::check_size;
use crate::{ManagedClustersUpgradeSpec, ManagedClustersUpgradeStatus};

/// Largest number of finalizers that the controller rewrites. A view of an upgrade with more does not hold them all.
pub const MAX_FINALIZERS: usize = 64;
/// Largest number of annotations of an upgrade that are kept.
const MAX_ANNOTATIONS: usize = 8;
/// Annotations that the controller reads. They are kept however many others there are.
const READ_ANNOTATIONS: [&str; 4] = [
    ANNOTATION_COMPLETED,
    ANNOTATION_RESUME_RESTORED,
    ANNOTATION_RETRY_FAILED,
    ANNOTATION_UPGRADE_UID,
];
/// Longest annotation that is kept unchanged, in bytes.
const MAX_ANNOTATION_BYTES: usize = 4096;
/// Largest status that is read, in bytes. The controller's own status stays below 16 KiB.
const MAX_STATUS_BYTES: usize = 64 * 1024;

/// A `ManagedClustersUpgrade` whose spec may have another shape than today's CRD says.
#[derive(Clone, Debug, Deserialize)]
pub struct Upgrade {
    /// Name, namespace, uid, generation, our annotations, finalizers.
    #[serde(deserialize_with = "bounded_meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: Lenient<SpecText>,
    /// Status.
    #[serde(default, deserialize_with = "bounded_status")]
    pub status: Lenient<ManagedClustersUpgradeStatus>,
}

impl Upgrade {
    /// True when the object has more finalizers than are kept. They must not be rewritten from this view then.
    #[must_use]
    pub fn has_too_many_finalizers(&self) -> bool {
        let finalizers = self.metadata.finalizers.as_ref();
        finalizers.is_some_and(|finalizers| finalizers.len() > MAX_FINALIZERS)
    }

    /// A copy without the text of the spec. It can still be compared with another spec.
    #[must_use]
    pub fn without_spec_text(&self) -> Upgrade {
        Upgrade {
            metadata: self.metadata.clone(),
            spec: match &self.spec {
                Lenient::Good(spec) => Lenient::Good(SpecText {
                    digest: spec.digest,
                    text: None,
                }),
                Lenient::Absent => Lenient::Absent,
                Lenient::Broken(error) => Lenient::Broken(error.clone()),
            },
            status: self.status.clone(),
        }
    }
}

/// A readable spec as text. It is parsed only while it is used, because the parsed form may need thirty times as much
/// memory.
///
/// Two specs are equal when they mean the same under today's CRD.
#[derive(Clone, Debug)]
pub struct SpecText {
    digest: u64,
    text: Option<Box<RawValue>>,
}

impl SpecText {
    /// Parses the spec.
    ///
    /// # Errors
    /// When the text is not kept.
    pub fn parse(&self) -> Result<ManagedClustersUpgradeSpec, String> {
        let text = self
            .text
            .as_ref()
            .ok_or("the controller does not keep its text in memory; it reads the text again with the next event of the object")?;
        serde_json::from_str(text.get()).map_err(|error| lenient::explain(&error))
    }
}

impl PartialEq for SpecText {
    fn eq(&self, other: &SpecText) -> bool {
        self.digest == other.digest
    }
}

impl<'de> Deserialize<'de> for SpecText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = lenient::capture(deserializer)?;
        check_size(text.get()).map_err(D::Error::custom)?;
        let spec: ManagedClustersUpgradeSpec =
            serde_json::from_str(text.get()).map_err(|error| D::Error::custom(lenient::explain(&error)))?;
        let mut digest = Digest(DefaultHasher::new());
        serde_json::to_writer(&mut digest, &spec).map_err(D::Error::custom)?;
        Ok(SpecText {
            digest: digest.0.finish(),
            text: Some(text),
        })
    }
}

/// Hashes everything that is written to it.
struct Digest(DefaultHasher);

impl io::Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Metadata of an upgrade: without labels, and with annotations and finalizers up to their limits.
fn bounded_meta<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut meta = slim_meta(deserializer)?;
    meta.labels = None;
    if let Some(all) = meta.annotations.take() {
        let (known, other): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|(key, _)| READ_ANNOTATIONS.contains(&key.as_str()));
        let kept = known.into_iter().chain(other).take(MAX_ANNOTATIONS);
        meta.annotations = Some(kept.map(|(key, value)| (key, shortened(value))).collect());
    }
    if let Some(finalizers) = &mut meta.finalizers
        && finalizers.len() > MAX_FINALIZERS
    {
        // Our finalizer must be known even among thousands.
        finalizers.sort_by_key(|finalizer| finalizer != crate::names::FINALIZER);
        finalizers.truncate(MAX_FINALIZERS + 1);
        finalizers.shrink_to_fit();
    }
    Ok(meta)
}

/// Replaces a long value by its beginning and a hash of the whole, so that different values stay different.
fn shortened(value: String) -> String {
    if value.len() <= MAX_ANNOTATION_BYTES {
        return value;
    }
    let mut hash = DefaultHasher::new();
    hash.write(value.as_bytes());
    let start: String = value.chars().take(64).collect();
    format!("{start}-{:016x}", hash.finish())
}

fn bounded_status<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Lenient<ManagedClustersUpgradeStatus>, D::Error> {
    let text = lenient::capture(deserializer)?;
    let bytes = measure(text.get()).bytes;
    Ok(if bytes > MAX_STATUS_BYTES {
        Lenient::Broken(format!(
            "has {bytes} bytes, more than the {MAX_STATUS_BYTES} bytes that are read"
        ))
    } else {
        Lenient::read(text.get())
    })
}

resource!(
    Upgrade,
    NamespaceResourceScope,
    "cluster.open-cluster-management.io",
    "v1beta1",
    "ManagedClustersUpgrade",
    "managedclustersupgrades"
);

/// A `ManagedClustersUpgradeReport` whose rows may be unreadable.
#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    /// Name, namespace, uid, labels, the controlling owner.
    #[serde(deserialize_with = "owned_meta")]
    pub metadata: ObjectMeta,
    /// The rows, each read separately.
    #[serde(default)]
    pub rows: StoredRows,
}

impl Report {
    /// The upgrade that owns the report: its controlling owner, if that is an upgrade.
    #[must_use]
    pub fn owner(&self) -> Option<&OwnerReference> {
        let mut owners = self.metadata.owner_references.iter().flatten();
        owners.find(|owner| {
            owner.controller == Some(true)
                && owner.kind == "ManagedClustersUpgrade"
                && owner.api_version.split('/').next() == Some(crate::GROUP)
        })
    }
}

resource!(
    Report,
    NamespaceResourceScope,
    "cluster.open-cluster-management.io",
    "v1beta1",
    "ManagedClustersUpgradeReport",
    "managedclustersupgradereports"
);

#[cfg(test)]
mod tests;
