//! What the metadata of an upgrade says of an earlier life of it: backups bring objects back with a new UID and without their
//! status, without the ManifestWorks in the namespaces of clusters, and with reports that belong to nobody. Pure.
//!
//! Two annotations are written by the controller: the UID of the object that it took up (with the finalizer, before anything
//! else happens), and that the upgrade was complete. One is written by whoever wants a restored upgrade to go on.

use std::fmt::Write as _;
use std::sync::Arc;

use api::ManagedClustersUpgradeStatus;
use api::mcu::UpgradeState;
use api::names::{ANNOTATION_COMPLETED, ANNOTATION_RESUME_RESTORED, ANNOTATION_UPGRADE_UID};
use api::time::{parse_rfc3339, to_rfc3339};
use api::views::Upgrade;
use chrono::{DateTime, Utc};
use rollout::{Hold, Plan, Policy};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::apply::{Effect, Job};
use crate::desk::Desk;
use crate::pipeline::hurdle;
use crate::policy::pending_retry;

/// Longest annotation that is read, in bytes.
const LONGEST: usize = 1024;
/// Most clusters that are believed; more than any hub has.
const MOST_CLUSTERS: u32 = 1_000_000;

/// Where an upgrade comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nothing speaks of an earlier life, or somebody has said that it is to go on.
    #[default]
    Own,
    /// It was complete, at its present revision, before it was restored: it is not run again.
    CompletedBefore(Completed),
    /// It was restored or copied: nothing starts. The text says why and how to go on.
    Restored(Arc<str>),
}

/// That an upgrade was complete, as its annotation says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Revision of the spec.
    pub revision: String,
    /// When it became complete.
    pub time: DateTime<Utc>,
    /// Number of clusters.
    pub clusters: u32,
    /// UID of the restored object for which this was taken over, if one was.
    carried: Option<String>,
}

/// The annotation as it is written.
#[derive(Deserialize, Serialize)]
struct Note {
    upgrade: String,
    revision: String,
    time: String,
    clusters: u32,
    #[serde(default, rename = "restoredAs", skip_serializing_if = "Option::is_none")]
    restored_as: Option<String>,
}

fn annotation<'a>(view: &'a Upgrade, key: &str) -> Option<&'a str> {
    let annotations = view.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// What the annotation about the completion says; `None`: there is none, or it is of an upgrade of another name.
fn completed(desk: &Desk) -> Option<Result<Completed, String>> {
    let text = annotation(&desk.view, ANNOTATION_COMPLETED)?;
    read(text)
        .map(|(upgrade, completed)| (*upgrade == *desk.key).then_some(completed))
        .transpose()
}

fn read(text: &str) -> Result<(String, Completed), String> {
    if text.len() > LONGEST {
        return Err(format!("it is longer than {LONGEST} bytes"));
    }
    let note: Note = serde_json::from_str(text).map_err(|_| "it is not of the expected form".to_owned())?;
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if note.revision.len() != 16 || !note.revision.bytes().all(hex) {
        return Err("its revision is not 16 hex digits".to_owned());
    }
    let time = parse_rfc3339(&note.time).ok_or("its time is no RFC 3339 time")?;
    if note.clusters == 0 || note.clusters > MOST_CLUSTERS {
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

/// True when the object notes that it was complete at this revision, and that it has had no other life.
pub(crate) fn is_noted_complete(desk: &Desk, revision: &str) -> bool {
    let own = annotation(&desk.view, ANNOTATION_UPGRADE_UID) == Some(&*desk.uid);
    own && completed(desk).is_some_and(|noted| noted.is_ok_and(|noted| noted.revision == revision))
}

/// True when the object notes that it was complete before it was restored as this one.
pub(crate) fn is_carried_over(desk: &Desk) -> bool {
    let noted = completed(desk).and_then(Result::ok);
    noted.is_some_and(|noted| noted.carried.as_deref() == Some(&*desk.uid))
}

/// True when nothing on the object tells that it was ever looked at: neither the UID it was taken up with, nor a status.
pub(crate) fn is_unmarked(desk: &Desk) -> bool {
    annotation(&desk.view, ANNOTATION_UPGRADE_UID).is_none() && is_unknown(&desk.status.previous())
}

/// The UID to note on an object before anything else happens, if none is noted there: its own or, where reports of an
/// upgrade of the same name are left from before, theirs.
pub(crate) fn life_to_note(desk: &Desk) -> Option<Arc<str>> {
    let noted = annotation(&desk.view, ANNOTATION_UPGRADE_UID).is_some();
    let earlier = desk.earlier_life.as_ref().unwrap_or(&desk.uid);
    (!noted).then(|| Arc::clone(earlier))
}

fn is_unknown(status: &ManagedClustersUpgradeStatus) -> bool {
    status.observed_generation.is_none() && status.conditions.is_empty()
}

/// Judges where an upgrade comes from. `idle`: it has no ManifestWorks.
pub(crate) fn judge(desk: &Desk, idle: bool) -> Origin {
    let uid = &*desk.uid;
    let life = annotation(&desk.view, ANNOTATION_UPGRADE_UID);
    let foreign = life.map_or(desk.earlier_life.is_some(), |life| life != uid);
    let untouched = idle && desk.rows.all().is_empty();
    if !foreign && !untouched {
        return Origin::Own;
    }
    let completed = completed(desk);
    if untouched && let Some(Ok(completed)) = &completed {
        let status = desk.status.previous();
        let unknown = is_unknown(&status);
        let present = desk
            .in_force()
            .is_some_and(|brief| *brief.policy.revision == *completed.revision);
        let retried = !unknown && pending_retry(&desk.view, status.observed_retry.as_deref()).is_some();
        let carried = completed.carried.as_deref() == Some(uid);
        // Its records are gone, but it was complete and says so.
        let told = status.state == Some(UpgradeState::Complete)
            && status.observed_generation == desk.view.metadata.generation;
        if present && !retried && (foreign || unknown || carried || told) {
            return Origin::CompletedBefore(completed.clone());
        }
    }
    if !foreign || annotation(&desk.view, ANNOTATION_RESUME_RESTORED) == Some(uid) {
        return Origin::Own;
    }
    let mut text = format!(
        "this object was restored from a backup or copied: an earlier one of another UID was worked on, and what became of that is not known here. Nothing starts by itself. See where its clusters stand, then run kubectl mcu resume {} -n {} to go on, or delete it",
        desk.name, desk.namespace
    );
    if let Some(Err(error)) = completed {
        let _ = write!(
            text,
            "; the annotation {ANNOTATION_COMPLETED} is ignored: {error}"
        );
    }
    Origin::Restored(Arc::from(text))
}

/// The retry token that counts as carried out: that of an earlier life must not start anything.
pub(crate) fn observed_retry(desk: &Desk, status: &ManagedClustersUpgradeStatus) -> Option<String> {
    if is_unknown(status) {
        pending_retry(&desk.view, None).map(|token| token.to_string())
    } else {
        status.observed_retry.clone()
    }
}

/// The write that makes the completion that a plan finds durable; `None` where it stands there already.
pub(crate) fn note_completion(
    desk: &mut Desk,
    policy: &Policy,
    plan: &Plan,
    now: DateTime<Utc>,
) -> Option<Job> {
    // While the spec is invalid the policy is that of an earlier one.
    if !plan.outlook.complete || policy.hold == Some(Hold::InvalidSpec) {
        return None;
    }
    let revision = &*policy.revision;
    let known = completed(desk).and_then(Result::ok);
    if known.is_some_and(|known| known.revision == revision && known.carried.is_none()) || desk.finalizing {
        return None;
    }
    if let Some(until) = hurdle(desk, now) {
        desk.wake_at = desk.wake_at.into_iter().chain([until]).min();
        return None;
    }
    let recorded = desk.rows.all().values().all(|row| {
        let written = row.written.as_ref();
        written
            .is_some_and(|written| written.phase == row.record.phase && written.attempt == row.record.attempt)
    });
    let clusters = u32::try_from(plan.summary.clusters.total).ok();
    let clusters = clusters.filter(|number| recorded && (1..=MOST_CLUSTERS).contains(number))?;
    let upgrade = desk.key.to_string();
    note(
        desk,
        &Note {
            upgrade,
            revision: revision.to_owned(),
            time: to_rfc3339(now),
            clusters,
            restored_as: None,
        },
    )
}

/// The write that takes the completion over for a restored object; `None` where that is done.
pub(crate) fn carry_over(desk: &mut Desk, completed: &Completed) -> Option<Job> {
    if completed.carried.as_deref() == Some(&*desk.uid) || desk.finalizing {
        return None;
    }
    note(
        desk,
        &Note {
            upgrade: desk.key.to_string(),
            revision: completed.revision.clone(),
            time: to_rfc3339(completed.time),
            clusters: completed.clusters,
            restored_as: Some(desk.uid.to_string()),
        },
    )
}

fn note(desk: &mut Desk, note: &Note) -> Option<Job> {
    let key = format!("{} {:?}", note.revision, note.restored_as);
    if desk.noted.as_ref() == Some(&key) {
        return None;
    }
    let text = serde_json::to_string(note).ok()?;
    desk.noted = Some(key);
    desk.finalizing = true;
    Some(Job {
        upgrade: Arc::clone(&desk.uid),
        effect: Effect::Annotate {
            namespace: Arc::clone(&desk.namespace),
            name: Arc::clone(&desk.name),
            patch: annotate(
                &desk.uid,
                &[(ANNOTATION_COMPLETED, &text), (ANNOTATION_UPGRADE_UID, &desk.uid)],
            ),
        },
    })
}

/// A merge patch of annotations, for the object of this UID and no other.
fn annotate(uid: &str, annotations: &[(&str, &str)]) -> Value {
    let annotations: serde_json::Map<String, Value> = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
        .collect();
    json!({"metadata": {"uid": uid, "annotations": annotations}})
}

#[cfg(test)]
#[path = "restore_tests.rs"]
mod tests;
