//! The state of one ManifestWork, and which write it needs next.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use chrono::TimeDelta;
use serde::Serialize;
use serde_json::value::RawValue;

use super::view::WorkView;
use crate::agent::Work;
use crate::fields::Time;
use crate::work::status::{Condition, ManifestStatus, Status, WorkStatus};
use crate::work::{FINALIZER, Interner, WorkSpec};

/// First and maximum delay after a failed apply, as in the agent's rate limiter.
const FIRST_BACKOFF_MS: i64 = 5;
const MAX_BACKOFF_MS: i64 = 1_000_000;

/// One ManifestWork.
#[derive(Debug)]
pub(super) struct WorkState {
    pub uid: Box<str>,
    pub generation: i64,
    pub deleting: bool,
    pub spec: Option<Arc<WorkSpec>>,
    /// The status that the work should have.
    pub status: WorkStatus,
    /// Whether `status` is not written to the hub yet.
    pub unpublished: bool,
    /// The state of its next write.
    pub turn: WriteState,
    /// When to apply next.
    pub apply_at: Option<Time>,
    /// When to collect feedback next, if there is a change.
    pub observe_at: Option<Time>,
    /// The state of the cluster that `status` reports: store revision, epoch of the faults, and period of an agent that flaps.
    pub observed: Option<(u64, u64, u64)>,
    /// Whether all owned objects are gone, so that the finalizer can be removed.
    pub finalized: bool,
    /// When a change that is not applied yet was seen.
    pub asked: Option<Time>,
    /// Number of consecutive failed applies.
    pub failures: u32,
    /// Number of consecutive failed writes to the hub.
    pub refused: u32,
    pub hold_until: Option<Time>,
    version: u64,
    version_text: Box<str>,
    labels: u64,
    /// Hash of the text of the spec.
    spec_text: u64,
    finalizers: Vec<String>,
    /// Hash of the status on the hub as last seen.
    on_hub: u64,
    /// Hash of the status as the hub returned it when it was last written. Before that, as it was when the work was first seen.
    written: u64,
}

/// The state of a work's write. A work has at most one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteState {
    /// No write is needed as far as known.
    Idle,
    /// The write is queued.
    Queued,
    /// The write is running.
    Writing,
}

/// A change to the hub.
#[derive(Debug)]
pub(super) struct Write {
    pub cluster: Arc<str>,
    pub work: Arc<str>,
    pub uid: Box<str>,
    pub kind: WriteKind,
    pub body: Box<RawValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteKind {
    /// Adds the finalizer.
    Hold,
    /// Writes the status.
    Status,
    /// Removes the finalizer.
    Release,
}

#[derive(Serialize)]
struct Patch<'a> {
    metadata: PatchMeta<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a WorkStatus>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PatchMeta<'a> {
    uid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finalizers: Option<&'a [String]>,
}

impl WorkState {
    /// The state of a work that is seen for the first time. Its status counts as written.
    pub fn new(view: &WorkView) -> Self {
        let status = view
            .status
            .as_ref()
            .and_then(|raw| serde_json::from_str(raw.get()).ok());
        Self {
            uid: view.metadata.uid.as_deref().unwrap_or_default().into(),
            generation: -1,
            deleting: false,
            spec: None,
            status: status.unwrap_or_default(),
            unpublished: false,
            turn: WriteState::Idle,
            apply_at: None,
            observe_at: None,
            observed: None,
            finalized: false,
            asked: None,
            failures: 0,
            refused: 0,
            hold_until: None,
            version: 0,
            version_text: "".into(),
            labels: 0,
            spec_text: 0,
            finalizers: Vec::new(),
            on_hub: 0,
            written: status_hash(view),
        }
    }

    /// Records the hub's response to a write of the status.
    pub fn status_written(&mut self, view: &WorkView) {
        self.written = status_hash(view);
    }

    /// Writes the status again if the hub's copy was overwritten. The agent's own patch can do that: it contains no
    /// resourceVersion, so one that is carried out late replaces a newer status.
    pub fn check_hub_copy(&mut self) {
        self.unpublished |= self.written != self.on_hub;
    }

    /// Takes the next object of the hub for the present one, whatever its version.
    pub fn forget_version(&mut self) {
        self.version = 0;
    }

    /// Updates the state from the hub's object. Returns false if the object is older than the known one.
    pub fn update(&mut self, view: &WorkView, interner: &mut Interner, now: Time) -> bool {
        let text = view.metadata.resource_version.as_deref().unwrap_or_default();
        let version = text.parse().unwrap_or(u64::MAX);
        if version <= self.version && version != u64::MAX {
            return false;
        }
        self.version = version;
        self.version_text = text.into();
        self.on_hub = status_hash(view);
        if self.turn != WriteState::Writing {
            self.check_hub_copy();
        }
        self.finalizers = view.metadata.finalizers.clone().unwrap_or_default();
        self.deleting = view.metadata.deletion_timestamp.is_some();
        // Storage that goes back takes a deletion back: then the objects are applied again, and the next deletion is another one.
        self.finalized &= self.deleting;
        let generation = view.metadata.generation.unwrap_or(0);
        let mut hasher = DefaultHasher::new();
        view.metadata.labels.hash(&mut hasher);
        let labels = hasher.finish();
        let spec = view.spec.as_ref().map_or("{}", |raw| raw.get());
        let spec_text = text_hash(spec);
        // Storage that goes back counts the generation again from an earlier one: the same generation may have another spec.
        if generation != self.generation || spec_text != self.spec_text {
            self.generation = generation;
            self.spec_text = spec_text;
            self.spec = WorkSpec::parse(spec, interner)
                .inspect_err(|error| tracing::warn!(%error, uid = %self.uid, "a ManifestWork cannot be read"))
                .ok()
                .map(Arc::new);
            self.apply_again(now);
        } else if labels != self.labels {
            self.apply_again(now);
        }
        self.labels = labels;
        true
    }

    /// Applies a change of spec or labels at once, regardless of the back-off.
    fn apply_again(&mut self, now: Time) {
        self.failures = 0;
        self.apply_at = Some(now);
        self.asked = Some(now);
        self.observed = None;
    }

    pub fn is_held(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == FINALIZER)
    }

    /// Whether the agent has added its finalizer and the work is not being deleted.
    pub fn is_active(&self) -> bool {
        self.is_held() && !self.deleting && self.spec.is_some()
    }

    /// Whether the agent has taken it up and it reads objects without writing them.
    pub fn reads(&self) -> bool {
        let spec = self.spec.as_ref().filter(|_| self.is_active());
        spec.is_some_and(|spec| spec.configs.read_only())
    }

    /// Reports what an agent before OCM v0.14 does of such a work: it panics, takes that for success, and names no object.
    pub fn misread(&mut self, now: Time) {
        let count = self.spec.as_ref().map_or(0, |spec| spec.manifests.len());
        if self.status.resource_status.manifests.len() == count {
            return;
        }
        let condition = |kind, status, reason, message: &str, generation| {
            Condition::new(kind, status, reason, message.to_owned(), generation, now)
        };
        let of_manifest = ManifestStatus {
            conditions: vec![
                condition(
                    "Applied",
                    Status::True,
                    "AppliedManifestComplete",
                    "Apply manifest complete",
                    0,
                ),
                condition(
                    "Available",
                    Status::Unknown,
                    "IncompletedResourceMeta",
                    "Resource meta is incompleted",
                    0,
                ),
            ],
            ..ManifestStatus::default()
        };
        self.status.resource_status.manifests = vec![of_manifest; count];
        let unknown = format!("{count} of {count} resources have unknown status");
        let (done, told) = ("AppliedManifestWorkComplete", "Apply manifest work complete");
        self.status.conditions = vec![
            condition("Applied", Status::True, done, told, self.generation),
            condition(
                "Available",
                Status::Unknown,
                "ResourcesStatusUnknown",
                &unknown,
                self.generation,
            ),
        ];
        self.unpublished = true;
    }

    /// When the agent next has something to do for this work without an event.
    pub fn wake(&self) -> Option<Time> {
        let agent = if self.is_active() {
            [self.apply_at, self.observe_at]
        } else if self.deleting && self.is_held() && !self.finalized {
            [self.apply_at, None]
        } else {
            [None, None]
        };
        agent.into_iter().flatten().chain(self.hold_until).min()
    }

    /// The work for the pure agent.
    pub fn work<'a>(&'a self, name: &'a str) -> Option<Work<'a>> {
        self.spec.as_deref().map(|spec| Work {
            name,
            generation: self.generation,
            spec,
        })
    }

    /// The delay before a failed apply is tried again.
    pub fn back_off(&mut self) -> TimeDelta {
        let delay = FIRST_BACKOFF_MS << self.failures.min(30);
        self.failures = self.failures.saturating_add(1);
        TimeDelta::milliseconds(delay.min(MAX_BACKOFF_MS))
    }

    /// Which write the work needs, if any.
    pub fn wants(&self) -> Option<WriteKind> {
        if self.deleting {
            return match (self.is_held(), self.finalized, self.unpublished) {
                (true, true, _) => Some(WriteKind::Release),
                (true, false, true) => Some(WriteKind::Status),
                _ => None,
            };
        }
        if !self.is_held() {
            return self.spec.is_some().then_some(WriteKind::Hold);
        }
        self.unpublished.then_some(WriteKind::Status)
    }

    /// The body of a write as a merge patch. A merge patch replaces whole lists, so a patch of finalizers contains the
    /// resourceVersion that was read.
    pub fn body(&self, kind: WriteKind) -> Result<Box<RawValue>, serde_json::Error> {
        let mut finalizers = self.finalizers.clone();
        let mut patch = Patch {
            metadata: PatchMeta {
                uid: &self.uid,
                resource_version: None,
                finalizers: None,
            },
            status: None,
        };
        match kind {
            WriteKind::Status => patch.status = Some(&self.status),
            WriteKind::Hold | WriteKind::Release => {
                finalizers.retain(|finalizer| finalizer != FINALIZER);
                if kind == WriteKind::Hold {
                    finalizers.push(FINALIZER.to_owned());
                }
                patch.metadata.resource_version = Some(&self.version_text);
                patch.metadata.finalizers = Some(&finalizers);
            }
        }
        serde_json::value::to_raw_value(&patch)
    }
}

fn text_hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn status_hash(view: &WorkView) -> u64 {
    let mut hasher = DefaultHasher::new();
    view.status.as_ref().map(|raw| raw.get()).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
