//! Reads and writes the annotations by which a restored upgrade is recognised ([`resolve::origin`]).

use std::sync::Arc;

use api::conditions::{COMPLETE, reason};
use api::names::{ANNOTATION_COMPLETED, ANNOTATION_UPGRADE_UID};
use api::time::to_rfc3339;
use chrono::{DateTime, Utc};
use resolve::origin::{
    self, Completed, CompletionNote, MAX_CLUSTERS, Origin, OriginInput, annotation, is_unknown,
};
use rollout::{Hold, Plan, Policy};
use serde_json::{Value, json};

use crate::apply::{Write, WriteJob};
use crate::state::upgrade::UpgradeEntry;

/// The annotation about the completion of an upgrade.
fn completed(entry: &UpgradeEntry) -> Option<Result<Completed, String>> {
    origin::completed(&entry.object, &entry.key)
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

/// True when the status on the hub says that the upgrade was complete before, and does not run again.
pub(crate) fn is_told_complete_before(entry: &UpgradeEntry) -> bool {
    let mut conditions = entry
        .object
        .status
        .good()
        .into_iter()
        .flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == COMPLETE && condition.reason == reason::COMPLETED_BEFORE)
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

/// Finds out where an upgrade comes from. `idle`: it has no ManifestWorks.
pub(crate) fn origin_of(entry: &UpgradeEntry, idle: bool) -> Origin {
    origin::origin_of(&OriginInput {
        object: &entry.object,
        uid: &entry.uid,
        key: &entry.key,
        has_earlier_reports: entry.earlier_uid.is_some(),
        is_idle: idle,
        has_rows: !entry.rows.all().is_empty(),
        revision: entry.in_force().map(|spec| &*spec.policy.revision),
        status: entry.status.latest(),
    })
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
        &CompletionNote {
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
        &CompletionNote {
            upgrade: entry.key.to_string(),
            revision: completed.revision.clone(),
            time: to_rfc3339(completed.time),
            clusters: completed.clusters,
            restored_as: Some(entry.uid.to_string()),
        },
    )
}

fn note(entry: &mut UpgradeEntry, note: &CompletionNote) -> Option<WriteJob> {
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
