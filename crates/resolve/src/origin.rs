//! Whether the object of an upgrade is original or was restored from a backup, according to its metadata. A backup brings
//! objects back with a new UID and without their status, without the ManifestWorks in cluster namespaces, and with reports
//! that have no owner.
//!
//! The controller writes two annotations: the UID of the object that it processes (together with the finalizer, before
//! anything else), and that the upgrade was complete. A user writes a third one to let a restored upgrade continue.

use std::sync::Arc;

use api::ManagedClustersUpgradeStatus;
use api::mcu::{ManagedClustersUpgradeSpec, UpgradeState};
use api::message::join;
use api::names::{ANNOTATION_COMPLETED, ANNOTATION_RESUME_RESTORED, ANNOTATION_UPGRADE_UID};
use api::time::parse_rfc3339;
use api::views::Upgrade;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::retry::{CarriedOut, pending_token};

/// Longest annotation that is read, in bytes.
const MAX_ANNOTATION_BYTES: usize = 1024;
/// Largest number of clusters that is accepted; more than any hub has.
pub const MAX_CLUSTERS: u32 = 1_000_000;

/// Whether the object of an upgrade is original or was restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nothing indicates a restore, or a user has allowed the upgrade to continue.
    #[default]
    Own,
    /// The upgrade was complete at its present revision before it was restored, so it does not run again.
    CompletedBefore(Completed),
    /// The object was restored or copied, so nothing starts. The text says why and how to continue.
    Restored(Arc<str>),
}

/// The completion of an upgrade, from its annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Revision of the spec.
    pub revision: String,
    /// When it became complete.
    pub time: DateTime<Utc>,
    /// Number of clusters.
    pub clusters: u32,
    /// UID of the restored object to which the completion was transferred, if any.
    pub carried: Option<String>,
}

/// The content of the annotation about the completion.
#[derive(Deserialize, Serialize)]
pub struct CompletionNote {
    /// `namespace/name` of the upgrade.
    pub upgrade: String,
    /// Revision of the spec.
    pub revision: String,
    /// When it became complete, as RFC 3339.
    pub time: String,
    /// Number of clusters.
    pub clusters: u32,
    /// UID of the restored object to which the completion was transferred, if any.
    #[serde(default, rename = "restoredAs", skip_serializing_if = "Option::is_none")]
    pub restored_as: Option<String>,
}

/// What the origin of an upgrade depends on.
#[derive(Clone, Copy, Debug)]
pub struct OriginInput<'a> {
    /// The object.
    pub object: &'a Upgrade,
    /// Its UID.
    pub uid: &'a str,
    /// Its `namespace/name`.
    pub key: &'a str,
    /// True when reports of an earlier upgrade with the same name existed when the object was first seen.
    pub has_earlier_reports: bool,
    /// True when it has no ManifestWorks.
    pub is_idle: bool,
    /// True when there are rows of it.
    pub has_rows: bool,
    /// Revision of the spec in force; `None` without a valid spec.
    pub revision: Option<&'a str>,
    /// Its latest status.
    pub status: Option<&'a ManagedClustersUpgradeStatus>,
}

/// The value of an annotation.
#[must_use]
pub fn annotation<'a>(object: &'a Upgrade, key: &str) -> Option<&'a str> {
    let annotations = object.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// The annotation about the completion. `None` if there is none, or it belongs to an upgrade with another name than
/// `key` (`namespace/name`).
#[must_use]
pub fn completed(object: &Upgrade, key: &str) -> Option<Result<Completed, String>> {
    let text = annotation(object, ANNOTATION_COMPLETED)?;
    read(text)
        .map(|(upgrade, completed)| (*upgrade == *key).then_some(completed))
        .transpose()
}

fn read(text: &str) -> Result<(String, Completed), String> {
    if text.len() > MAX_ANNOTATION_BYTES {
        return Err(format!("it is longer than {MAX_ANNOTATION_BYTES} bytes"));
    }
    let note: CompletionNote =
        serde_json::from_str(text).map_err(|_| "it does not have the expected form".to_owned())?;
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if note.revision.len() != 16 || !note.revision.bytes().all(hex) {
        return Err("its revision is not 16 hex digits".to_owned());
    }
    let time = parse_rfc3339(&note.time).ok_or("its time is not in RFC 3339 format")?;
    if note.clusters == 0 || note.clusters > MAX_CLUSTERS {
        return Err("its number of clusters is out of range".to_owned());
    }
    let completed = Completed {
        revision: note.revision,
        time,
        clusters: note.clusters,
        carried: note.restored_as,
    };
    Ok((note.upgrade, completed))
}

/// True for a status that no controller has written yet.
#[must_use]
pub fn is_unknown(status: &ManagedClustersUpgradeStatus) -> bool {
    status.observed_generation.is_none() && status.conditions.is_empty()
}

/// Finds out where an upgrade comes from.
#[must_use]
pub fn origin_of(input: &OriginInput<'_>) -> Origin {
    let OriginInput {
        object, uid, status, ..
    } = *input;
    let recorded_uid = annotation(object, ANNOTATION_UPGRADE_UID);
    let foreign = recorded_uid.map_or(input.has_earlier_reports, |recorded_uid| recorded_uid != uid);
    let untouched = input.is_idle && !input.has_rows;
    if !foreign && !untouched {
        return Origin::Own;
    }
    let completed = completed(object, input.key);
    if untouched && let Some(Ok(completed)) = &completed {
        let unknown = status.is_none_or(is_unknown);
        let present = input.revision == Some(&*completed.revision);
        let observed = status.and_then(|status| status.observed_retry.as_deref());
        let retried = !unknown && pending_token(object, observed).is_some();
        let carried = completed.carried.as_deref() == Some(uid);
        // The records are gone, but the status says that the upgrade was complete.
        let was_complete = status.is_some_and(|status| {
            status.state == Some(UpgradeState::Complete)
                && status.observed_generation == object.metadata.generation
        });
        if present && !retried && (foreign || unknown || carried || was_complete) {
            return Origin::CompletedBefore(completed.clone());
        }
    }
    if !foreign || annotation(object, ANNOTATION_RESUME_RESTORED) == Some(uid) {
        return Origin::Own;
    }
    let (namespace, name) = input.key.split_once('/').unwrap_or(("", input.key));
    let text = format!(
        "This object was restored from a backup, or copied from another object, so the controller does not know how far its clusters are and starts none. Check the state of the clusters, then run kubectl mcu resume {name} -n {namespace} to continue, or delete this object."
    );
    let ignored = match completed {
        Some(Err(error)) => format!("The annotation {ANNOTATION_COMPLETED} is ignored: {error}"),
        _ => String::new(),
    };
    Origin::Restored(Arc::from(join([text.as_str(), &ignored])))
}

/// The retries that count as carried out.
#[must_use]
pub fn carried_out(
    object: &Upgrade,
    spec: &ManagedClustersUpgradeSpec,
    status: &ManagedClustersUpgradeStatus,
) -> CarriedOut {
    if is_unknown(status) {
        CarriedOut::of_restored(object, spec)
    } else {
        CarriedOut::of(status)
    }
}

#[cfg(test)]
mod tests;
