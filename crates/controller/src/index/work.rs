//! What the index keeps of a ManifestWork of ours.

use std::sync::Arc;

use api::names::{
    ANNOTATION_ATTEMPT, ANNOTATION_OWNER, ANNOTATION_REVISION, ANNOTATION_SOAK_STARTED_AT,
    ANNOTATION_STARTED_AT, ANNOTATION_STEP_HASH, ANNOTATION_TARGET_IMAGE, ANNOTATION_TARGET_VERSION,
    LABEL_MCU_UID, Step,
};
use api::text::visible;
use api::time::{parse_rfc3339, to_chrono};
use api::views::ManifestWork;
use chrono::{DateTime, TimeDelta, Utc};
use clusterversion::Target;
use rollout::{Attempt, LONGEST_RETRY, Reading, Reason, Work};

use super::intern::Pool;
use crate::works::reading::{self, Outcome};

/// How far the clocks of the hub and of a leader may be apart for the start of a step to be believed.
const CLOCKS_APART: TimeDelta = TimeDelta::minutes(1);

/// A ManifestWork, reduced to what planning reads.
#[derive(Clone, Debug)]
pub struct WorkView {
    /// UID of the object.
    pub uid: Arc<str>,
    /// Resource version as a number; a lower one never replaces a higher one.
    pub version: u64,
    /// UID of the upgrade that owns it.
    pub upgrade: Arc<str>,
    /// `namespace/name` of the upgrade that owns it, as its annotation says.
    pub owner: Arc<str>,
    /// The step it performs.
    pub step: Step,
    /// What is wrong with its annotations, if they are not what the controller writes: then nothing is known of the attempt it
    /// serves.
    pub unreadable: Option<Arc<str>>,
    /// What the planner sees of it.
    pub work: Arc<Work>,
    /// Version the cluster runs, where the feedback tells; empty otherwise.
    pub cluster_version: Arc<str>,
    /// The object carries a deletion time.
    pub dying: bool,
    /// A deletion of ours is under way or was accepted: it counts as terminating whatever late events say.
    pub doomed: bool,
    /// Number of the list that was the last to begin when this was told.
    pub listing: u64,
}

/// The planner's step for a step on the wire.
#[must_use]
pub const fn to_rollout(step: Step) -> rollout::Step {
    match step {
        Step::PreAction => rollout::Step::PreAction,
        Step::Platform => rollout::Step::Platform,
        Step::Operators => rollout::Step::Operators,
        Step::PostAction => rollout::Step::PostAction,
    }
}

/// The step on the wire for a planner's step.
#[must_use]
pub const fn from_rollout(step: rollout::Step) -> Step {
    match step {
        rollout::Step::PreAction => Step::PreAction,
        rollout::Step::Platform => Step::Platform,
        rollout::Step::Operators => Step::Operators,
        rollout::Step::PostAction => Step::PostAction,
    }
}

/// The step that a work's name says.
#[must_use]
pub fn step_of(namespace: &str, name: &str) -> Option<Step> {
    Step::parse(name.strip_prefix(namespace)?.strip_prefix('-')?)
}

/// Longest revision and step hash, in bytes. Both are 16 hex digits today; a newer release may write longer ones.
const LONGEST_HASH: usize = 64;
/// Longest target version and image, in bytes.
const LONGEST_VERSION: usize = 128;
const LONGEST_IMAGE: usize = 1024;

/// What is wrong with the annotations of a work that carries our label, if anything. The agent of a cluster can change them.
fn belied<'a>(note: &impl Fn(&str) -> &'a str) -> Option<Arc<str>> {
    let is_hash =
        |text: &str| text.len() <= LONGEST_HASH && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_short = |text: &str, most: usize| text.len() <= most && !text.chars().any(char::is_control);
    let revision = note(ANNOTATION_REVISION);
    let checks = [
        (ANNOTATION_REVISION, is_hash(revision) && !revision.is_empty()),
        (ANNOTATION_STEP_HASH, is_hash(note(ANNOTATION_STEP_HASH))),
        (
            ANNOTATION_ATTEMPT,
            note(ANNOTATION_ATTEMPT).len() <= LONGEST_RETRY,
        ),
        (
            ANNOTATION_TARGET_VERSION,
            is_short(note(ANNOTATION_TARGET_VERSION), LONGEST_VERSION),
        ),
        (
            ANNOTATION_TARGET_IMAGE,
            is_short(note(ANNOTATION_TARGET_IMAGE), LONGEST_IMAGE),
        ),
    ];
    let (key, _) = checks.into_iter().find(|(_, fine)| !fine)?;
    Some(Arc::from(format!("annotation {key}")))
}

impl WorkView {
    /// Reduces a work. `None` when it carries no owner's label or its name is not that of a step.
    pub fn new(object: &ManifestWork, now: DateTime<Utc>, pool: &mut Pool) -> Option<WorkView> {
        let meta = &object.metadata;
        let labels = meta.labels.as_ref()?;
        // By name: a step's label that somebody edited must not hide the work.
        let step = step_of(meta.namespace.as_deref()?, meta.name.as_deref()?)?;
        let note = |key: &str| {
            meta.annotations
                .as_ref()
                .and_then(|notes| notes.get(key))
                .map(String::as_str)
                .unwrap_or_default()
        };
        let unreadable = belied(&note);
        let attempt = |key: &str| if unreadable.is_some() { "" } else { note(key) };
        let created = meta.creation_timestamp.as_ref().and_then(to_chrono);
        // No step of a work begins before the work exists. That none begins in the future is for the planner to see to.
        let earliest = created.map_or(DateTime::UNIX_EPOCH, |created| created - CLOCKS_APART);
        let started = parse_rfc3339(note(ANNOTATION_STARTED_AT))
            .or(created)
            .unwrap_or(now)
            .max(earliest);
        let target = Target {
            version: attempt(ANNOTATION_TARGET_VERSION),
            image: attempt(ANNOTATION_TARGET_IMAGE),
        };
        let reading = reading::read(object, step, &target);
        let cause = reading.cause.as_ref();
        let work = Arc::new(Work {
            attempt: Attempt {
                revision: pool.share(attempt(ANNOTATION_REVISION)),
                retry: pool.share(attempt(ANNOTATION_ATTEMPT)),
            },
            hash: pool.share(attempt(ANNOTATION_STEP_HASH)),
            started,
            // A soak that begins in the future would never end.
            soak_started: parse_rfc3339(note(ANNOTATION_SOAK_STARTED_AT))
                .filter(|began| *began <= now + CLOCKS_APART),
            terminating: meta.deletion_timestamp.is_some(),
            vanished: false,
            applied: reading.applied,
            reading: match &reading.outcome {
                Outcome::NotYet => Reading::NotYet,
                Outcome::OtherVersion => Reading::OtherVersion,
                Outcome::Running => Reading::Running,
                Outcome::Succeeded => Reading::Succeeded,
                Outcome::Failed(cause) => Reading::Failed(pool.share(&visible(&cause.message))),
                Outcome::Suspect => Reading::Suspect(now),
            },
            cause: cause.map(|cause| {
                (
                    Reason::parse(cause.reason).unwrap_or(Reason::Running),
                    pool.share(&visible(&cause.message)),
                )
            }),
            unhealthy: reading
                .unhealthy
                .as_ref()
                .map(|cause| pool.share(&visible(&cause.message))),
        });
        Some(WorkView {
            uid: Arc::from(meta.uid.as_deref()?),
            version: meta
                .resource_version
                .as_deref()
                .and_then(|text| text.parse().ok())
                .unwrap_or(0),
            upgrade: pool.share(labels.get(LABEL_MCU_UID)?),
            owner: pool.share(note(ANNOTATION_OWNER)),
            step,
            unreadable,
            work,
            cluster_version: pool.share(&visible(reading.version.as_deref().unwrap_or_default())),
            dying: meta.deletion_timestamp.is_some(),
            doomed: false,
            listing: 0,
        })
    }

    /// Carries over what only this process knows of the same object: that it is doomed, and since when it looks failed.
    pub fn inherit(&mut self, before: &WorkView) {
        if before.uid != self.uid {
            return;
        }
        self.doomed = before.doomed;
        if before.doomed {
            Arc::make_mut(&mut self.work).terminating = true;
        }
        if let (Reading::Suspect(since), Reading::Suspect(_)) = (&before.work.reading, &self.work.reading) {
            Arc::make_mut(&mut self.work).reading = Reading::Suspect(*since);
        }
        if self.cluster_version.is_empty() {
            self.cluster_version = Arc::clone(&before.cluster_version);
        }
    }

    /// True when planning would see a difference.
    #[must_use]
    pub fn differs(&self, other: &WorkView) -> bool {
        self.work != other.work
            || self.unreadable != other.unreadable
            || self.uid != other.uid
            || self.upgrade != other.upgrade
            || self.owner != other.owner
            || self.cluster_version != other.cluster_version
    }
}
