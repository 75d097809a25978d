//! Finds out from the metadata of an upgrade whether its object was restored. A backup brings objects back
//! with a new UID and without their status, without the ManifestWorks in cluster namespaces, and with reports
//! that have no owner. Pure.
//!
//! The controller writes two annotations: the UID of the object that it processes (together with the
//! finalizer, before anything else), and that the upgrade was complete. A user writes a third one to let a
//! restored upgrade continue.

use std::sync::Arc;

use api::ManagedClustersUpgradeStatus;
use api::mcu::UpgradeState;
use api::message::join;
use api::names::{ANNOTATION_COMPLETED, ANNOTATION_RESUME_RESTORED, ANNOTATION_UPGRADE_UID};
use api::time::{parse_rfc3339, to_rfc3339};
use api::views::Upgrade;
use chrono::{DateTime, Utc};
use rollout::{Hold, Plan, Policy};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::apply::{Write, WriteJob};
use crate::spec::pending_retry;
use crate::state::origin::{Completed, Origin};
use crate::state::upgrade::UpgradeEntry;

/// Longest annotation that is read, in bytes.
const MAX_ANNOTATION_BYTES: usize = 1024;
/// Largest number of clusters that is accepted; more than any hub has.
const MAX_CLUSTERS: u32 = 1_000_000;

/// The content of the annotation.
#[derive(Deserialize, Serialize)]
struct Note {
    upgrade: String,
    revision: String,
    time: String,
    clusters: u32,
    #[serde(default, rename = "restoredAs", skip_serializing_if = "Option::is_none")]
    restored_as: Option<String>,
}

fn annotation<'a>(object: &'a Upgrade, key: &str) -> Option<&'a str> {
    let annotations = object.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// The annotation about the completion. `None` if there is none, or it belongs to an upgrade with another
/// name.
fn completed(entry: &UpgradeEntry) -> Option<Result<Completed, String>> {
    let text = annotation(&entry.object, ANNOTATION_COMPLETED)?;
    read(text)
        .map(|(upgrade, completed)| (*upgrade == *entry.key).then_some(completed))
        .transpose()
}

fn read(text: &str) -> Result<(String, Completed), String> {
    if text.len() > MAX_ANNOTATION_BYTES {
        return Err(format!("it is longer than {MAX_ANNOTATION_BYTES} bytes"));
    }
    let note: Note =
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

/// True when the annotation says that this object was complete at this revision.
pub(crate) fn is_noted_complete(entry: &UpgradeEntry, revision: &str) -> bool {
    let own = annotation(&entry.object, ANNOTATION_UPGRADE_UID) == Some(&*entry.uid);
    own && completed(entry)
        .is_some_and(|recorded| recorded.is_ok_and(|recorded| recorded.revision == revision))
}

/// True when the annotation says that the upgrade was complete before it was restored as this object.
pub(crate) fn is_carried_over(entry: &UpgradeEntry) -> bool {
    let recorded = completed(entry).and_then(Result::ok);
    recorded.is_some_and(|recorded| recorded.carried.as_deref() == Some(&*entry.uid))
}

/// True when nothing on the object shows that it was processed before: neither a recorded UID nor a status.
pub(crate) fn is_unmarked(entry: &UpgradeEntry) -> bool {
    annotation(&entry.object, ANNOTATION_UPGRADE_UID).is_none()
        && entry.status.latest().is_none_or(is_unknown)
}

/// The UID to record on an object before anything else is written, if it has none: its own or, if reports of
/// an earlier upgrade with the same name exist, theirs.
pub(crate) fn uid_to_record(entry: &UpgradeEntry) -> Option<Arc<str>> {
    let recorded = annotation(&entry.object, ANNOTATION_UPGRADE_UID).is_some();
    let earlier = entry.earlier_uid.as_ref().unwrap_or(&entry.uid);
    (!recorded).then(|| Arc::clone(earlier))
}

fn is_unknown(status: &ManagedClustersUpgradeStatus) -> bool {
    status.observed_generation.is_none() && status.conditions.is_empty()
}

/// Finds out where an upgrade comes from. `idle`: it has no ManifestWorks.
pub(crate) fn origin_of(entry: &UpgradeEntry, idle: bool) -> Origin {
    let uid = &*entry.uid;
    let recorded_uid = annotation(&entry.object, ANNOTATION_UPGRADE_UID);
    let foreign = recorded_uid.map_or(entry.earlier_uid.is_some(), |recorded_uid| recorded_uid != uid);
    let untouched = idle && entry.rows.all().is_empty();
    if !foreign && !untouched {
        return Origin::Own;
    }
    let completed = completed(entry);
    if untouched && let Some(Ok(completed)) = &completed {
        let status = entry.status.latest();
        let unknown = status.is_none_or(is_unknown);
        let present = entry
            .in_force()
            .is_some_and(|spec| *spec.policy.revision == *completed.revision);
        let retried = !unknown && pending_retry(&entry.object, entry.status.observed_retry()).is_some();
        let carried = completed.carried.as_deref() == Some(uid);
        // The records are gone, but the status says that the upgrade was complete.
        let was_complete = status.is_some_and(|status| {
            status.state == Some(UpgradeState::Complete)
                && status.observed_generation == entry.object.metadata.generation
        });
        if present && !retried && (foreign || unknown || carried || was_complete) {
            return Origin::CompletedBefore(completed.clone());
        }
    }
    if !foreign || annotation(&entry.object, ANNOTATION_RESUME_RESTORED) == Some(uid) {
        return Origin::Own;
    }
    let text = format!(
        "This object was restored from a backup, or copied from another object, so the controller does not know how far its clusters are and starts none. Check the state of the clusters, then run kubectl mcu resume {} -n {} to continue, or delete this object.",
        entry.name, entry.namespace
    );
    let ignored = match completed {
        Some(Err(error)) => format!("The annotation {ANNOTATION_COMPLETED} is ignored: {error}"),
        _ => String::new(),
    };
    Origin::Restored(Arc::from(join([text.as_str(), &ignored])))
}

/// The retry token that counts as processed. The token of a restored object must not start anything.
pub(crate) fn observed_retry(entry: &UpgradeEntry, status: &ManagedClustersUpgradeStatus) -> Option<String> {
    if is_unknown(status) {
        pending_retry(&entry.object, None).map(|token| token.to_string())
    } else {
        status.observed_retry.clone()
    }
}

/// The write that makes the completion durable. `None` if the annotation already contains it.
pub(crate) fn note_completion(
    entry: &mut UpgradeEntry,
    policy: &Policy,
    plan: &Plan,
    now: DateTime<Utc>,
) -> Option<WriteJob> {
    // While the spec is invalid, the policy is that of an earlier spec.
    if !plan.outlook.complete || policy.hold == Some(Hold::InvalidSpec) {
        return None;
    }
    let revision = &*policy.revision;
    let known = completed(entry).and_then(Result::ok);
    if known.is_some_and(|known| known.revision == revision && known.carried.is_none()) || entry.finalizing {
        return None;
    }
    if let Some(until) = entry.finalizer_backoff_until(now) {
        entry.wake_at = entry.wake_at.into_iter().chain([until]).min();
        return None;
    }
    let recorded = entry.rows.all().values().all(|row| {
        let written = row.written.as_ref();
        written
            .is_some_and(|written| written.phase == row.record.phase && written.attempt == row.record.attempt)
    });
    let clusters = u32::try_from(plan.summary.clusters.total).ok();
    let clusters = clusters.filter(|number| recorded && (1..=MAX_CLUSTERS).contains(number))?;
    let upgrade = entry.key.to_string();
    note(
        entry,
        &Note {
            upgrade,
            revision: revision.to_owned(),
            time: to_rfc3339(now),
            clusters,
            restored_as: None,
        },
    )
}

/// The write that transfers the completion to a restored object. `None` if that is already done.
pub(crate) fn carry_over(entry: &mut UpgradeEntry, completed: &Completed) -> Option<WriteJob> {
    if completed.carried.as_deref() == Some(&*entry.uid) || entry.finalizing {
        return None;
    }
    note(
        entry,
        &Note {
            upgrade: entry.key.to_string(),
            revision: completed.revision.clone(),
            time: to_rfc3339(completed.time),
            clusters: completed.clusters,
            restored_as: Some(entry.uid.to_string()),
        },
    )
}

fn note(entry: &mut UpgradeEntry, note: &Note) -> Option<WriteJob> {
    let key = format!("{} {:?}", note.revision, note.restored_as);
    if entry.last_annotation.as_ref() == Some(&key) {
        return None;
    }
    let text = serde_json::to_string(note).ok()?;
    entry.last_annotation = Some(key);
    entry.finalizing = true;
    Some(WriteJob {
        upgrade: Arc::clone(&entry.uid),
        write: Write::Annotate {
            namespace: Arc::clone(&entry.namespace),
            name: Arc::clone(&entry.name),
            patch: annotate(
                &entry.uid,
                &[
                    (ANNOTATION_COMPLETED, &text),
                    (ANNOTATION_UPGRADE_UID, &entry.uid),
                ],
            ),
        },
    })
}

/// A merge patch of annotations that applies only to the object with this UID.
fn annotate(uid: &str, annotations: &[(&str, &str)]) -> Value {
    let annotations: serde_json::Map<String, Value> = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
        .collect();
    json!({"metadata": {"uid": uid, "annotations": annotations}})
}

#[cfg(test)]
mod tests;
