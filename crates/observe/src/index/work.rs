//! What the index keeps of a ManifestWork that belongs to an upgrade.

use std::sync::Arc;

use api::names::{
    ANNOTATION_ACCEPTED_RISKS, ANNOTATION_ATTEMPT, ANNOTATION_CLUSTER_UID, ANNOTATION_OWNER,
    ANNOTATION_RELEASE_IMAGE, ANNOTATION_REVISION, ANNOTATION_SOAK_STARTED_AT, ANNOTATION_STARTED_AT,
    ANNOTATION_STEP_HASH, ANNOTATION_TARGET_IMAGE, ANNOTATION_TARGET_VERSION, ANNOTATION_WITHDRAWN,
    LABEL_MCU_UID, Step,
};
use api::text::visible;
use api::time::{parse_rfc3339, to_chrono};
use api::views::ManifestWork;
use chrono::{DateTime, TimeDelta, Utc};
use clusterversion::Target;
use rollout::{
    Attempt, MAX_RETRY_BYTES, Reason, Record, StepStatus, TOLERATED_LEAD, Withdrawal, Work, is_version,
};

use super::intern::Pool;
use super::request::WorkRequest;
use crate::feedback;

/// Largest difference between the hub's and a leader's clock at which the recorded start of a step is
/// trusted. The clock of a leader that is trusted differs by less.
pub(super) const MAX_CLOCK_DIFFERENCE: TimeDelta = TimeDelta::minutes(1);

/// A ManifestWork reduced to the fields that planning uses.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a work")]
pub struct WorkView {
    /// UID of the object.
    pub uid: Arc<str>,
    /// Resource version as a number; a lower one never replaces a higher one.
    pub version: u64,
    /// When the object was created, by the hub's clock.
    pub created: Option<DateTime<Utc>>,
    /// UID of the upgrade that owns it.
    pub upgrade: Arc<str>,
    /// `namespace/name` of the upgrade that owns it, from its annotation.
    pub owner: Arc<str>,
    /// The step it performs.
    pub step: Step,
    /// UID of the ManagedCluster for which it was sent. Empty if it does not say so.
    pub cluster_uid: Arc<str>,
    /// The start that its annotation names, if that is too long before its creation to count by itself.
    pub early_start: Option<DateTime<Utc>>,
    /// What is wrong with the annotations, if they are not what the controller writes. In this case the
    /// attempt of the work is unknown.
    pub unreadable: Option<Arc<str>>,
    /// The part that the planner sees.
    pub work: Arc<Work>,
    /// How a platform work asks its cluster for the version.
    pub request: WorkRequest,
    /// Version that the cluster runs, if the feedback contains it; otherwise empty.
    pub cluster_version: Arc<str>,
    /// The object carries a deletion time.
    pub dying: bool,
    /// We have requested its deletion, or the hub has accepted it. The work counts as terminating whatever
    /// late events say.
    pub deletion_requested: bool,
    /// Number of the last list that had started when this view was received.
    pub listing: u64,
    /// The cluster was registered anew, or had no namespace, since this object was seen on the hub.
    pub unconfirmed: bool,
    /// It was there when its cluster had no namespace, or one that was being deleted. So it goes with that namespace.
    pub is_left_over: bool,
    /// When it became known that the object is gone, if this is what is kept of it.
    pub vanished_at: Option<DateTime<Utc>>,
}

/// The step of a work, by its name.
#[must_use]
pub fn step_of(namespace: &str, name: &str) -> Option<Step> {
    Step::parse(name.strip_prefix(namespace)?.strip_prefix('-')?)
}

/// Longest revision and step hash, in bytes. Both are 16 hex digits today, but a newer release may write
/// longer ones.
const MAX_HASH_BYTES: usize = 64;
/// Longest UID of a ManagedCluster, in bytes. API servers write 36.
const MAX_UID_BYTES: usize = 64;
/// Longest target version and image, in bytes.
const MAX_VERSION_BYTES: usize = 128;
const MAX_IMAGE_BYTES: usize = 1024;
/// Longest list of accepted risks, in bytes: as many and as long as a spec may have.
const MAX_RISKS_BYTES: usize = 64 * 257;

/// What is wrong with the annotations of a work that carries our label, if anything. The agent of a cluster
/// can change them.
fn unreadable_annotation<'a>(note: &impl Fn(&str) -> &'a str) -> Option<Arc<str>> {
    let is_hash =
        |text: &str| text.len() <= MAX_HASH_BYTES && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_short = |text: &str, most: usize| text.len() <= most && !text.chars().any(char::is_control);
    let revision = note(ANNOTATION_REVISION);
    let checks = [
        (ANNOTATION_REVISION, is_hash(revision) && !revision.is_empty()),
        (ANNOTATION_STEP_HASH, is_hash(note(ANNOTATION_STEP_HASH))),
        (
            ANNOTATION_CLUSTER_UID,
            is_short(note(ANNOTATION_CLUSTER_UID), MAX_UID_BYTES),
        ),
        (
            ANNOTATION_ATTEMPT,
            note(ANNOTATION_ATTEMPT).len() <= MAX_RETRY_BYTES,
        ),
        (
            ANNOTATION_TARGET_VERSION,
            is_short(note(ANNOTATION_TARGET_VERSION), MAX_VERSION_BYTES),
        ),
        (
            ANNOTATION_TARGET_IMAGE,
            is_short(note(ANNOTATION_TARGET_IMAGE), MAX_IMAGE_BYTES),
        ),
        (
            ANNOTATION_RELEASE_IMAGE,
            is_short(note(ANNOTATION_RELEASE_IMAGE), MAX_IMAGE_BYTES),
        ),
        (
            ANNOTATION_ACCEPTED_RISKS,
            is_short(note(ANNOTATION_ACCEPTED_RISKS), MAX_RISKS_BYTES),
        ),
    ];
    let (key, _) = checks.into_iter().find(|(_, fine)| !fine)?;
    Some(Arc::from(format!("annotation {key}")))
}

/// The cause of a step as the planner knows it. A reason that the planner does not know is not taken for another one: it
/// becomes [`Reason::Other`], and its name begins the message, as in `EtcdQuorumLost: 2 of 3 members are gone`.
fn known_cause(reason: &str, message: String) -> (Reason, String) {
    match Reason::parse(reason) {
        Some(known) => (known, message),
        None => (Reason::Other, format!("{reason}: {message}")),
    }
}

impl WorkView {
    /// Reduces a work. `None` if it lacks the label of an owner or does not have the name of a step.
    pub fn new(object: &ManifestWork, now: DateTime<Utc>, pool: &mut Pool) -> Option<WorkView> {
        let meta = &object.metadata;
        let labels = meta.labels.as_ref()?;
        // The name decides, because an edited step label must not hide the work.
        let step = step_of(meta.namespace.as_deref()?, meta.name.as_deref()?)?;
        let note = |key: &str| {
            let found = meta.annotations.as_ref().and_then(|notes| notes.get(key));
            found.map(String::as_str).unwrap_or_default()
        };
        let unreadable = unreadable_annotation(&note);
        let attempt = |key: &str| if unreadable.is_some() { "" } else { note(key) };
        let created = meta.creation_timestamp.as_ref().and_then(to_chrono);
        // A step cannot start before its work exists. The planner handles starts in the future.
        let earliest = created.map_or(DateTime::UNIX_EPOCH, |created| created - MAX_CLOCK_DIFFERENCE);
        let noted = parse_rfc3339(note(ANNOTATION_STARTED_AT));
        let early_start = noted.filter(|noted| created.is_some() && *noted <= earliest);
        let started = noted.or(created).unwrap_or(now).max(earliest);
        let target = Target {
            version: attempt(ANNOTATION_TARGET_VERSION),
            image: attempt(ANNOTATION_TARGET_IMAGE),
        };
        let request = WorkRequest::noted(|key| pool.share(attempt(key)));
        let feedback = feedback::read(object, step, &target, now);
        let cause = feedback.cause.as_ref();
        let work = Arc::new(Work {
            attempt: Attempt {
                revision: pool.share(attempt(ANNOTATION_REVISION)),
                retry: pool.share(attempt(ANNOTATION_ATTEMPT)),
            },
            hash: pool.share(attempt(ANNOTATION_STEP_HASH)),
            started,
            // Whether the note counts depends on the time of the plan, and the object is not read again when time passes.
            soak_started: parse_rfc3339(note(ANNOTATION_SOAK_STARTED_AT)),
            terminating: meta.deletion_timestamp.is_some(),
            vanished: false,
            applied: feedback.applied,
            withdrawal: match note(ANNOTATION_WITHDRAWN) {
                "true" if feedback.is_unasked => Withdrawal::Confirmed,
                "true" => Withdrawal::Sent,
                _ => Withdrawal::None,
            },
            status: match feedback.status {
                StepStatus::Failed(text) => StepStatus::Failed(pool.share(&visible(&text))),
                status => status,
            },
            cause: cause.map(|cause| {
                let (reason, message) = known_cause(cause.reason, visible(&cause.message).into_owned());
                (reason, pool.share(&message))
            }),
            unhealthy: feedback
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
            created,
            upgrade: pool.share(labels.get(LABEL_MCU_UID)?),
            owner: pool.share(note(ANNOTATION_OWNER)),
            step,
            cluster_uid: pool.share(attempt(ANNOTATION_CLUSTER_UID)),
            early_start,
            unreadable,
            work,
            request,
            cluster_version: pool.share(&visible(feedback.version.as_deref().unwrap_or_default())),
            dying: meta.deletion_timestamp.is_some(),
            deletion_requested: false,
            listing: 0,
            unconfirmed: false,
            is_left_over: false,
            vanished_at: None,
        })
    }

    /// The work as the record of its cluster knows it. One that was created again names the start of the first one, which is long before
    /// its creation and counts only if the record has it, too: agents can edit their works.
    #[must_use]
    pub fn confirmed_by(&self, record: Option<&Record>) -> Arc<Work> {
        let stage = record.and_then(|record| record.stage(self.step.into()));
        let is_named = |started: &DateTime<Utc>| {
            let named = self.early_start.map(|named| named.timestamp_millis());
            named == Some(started.timestamp_millis())
        };
        match stage.map(|stage| stage.started).filter(is_named) {
            Some(started) => Arc::new(Work {
                started,
                ..Work::clone(&self.work)
            }),
            None => Arc::clone(&self.work),
        }
    }

    /// False when the start that it names is too long before its creation to count. A work that is created again keeps its start.
    #[must_use]
    pub const fn tells_its_start(&self) -> bool {
        self.early_start.is_none()
    }

    /// True when a record may have this start of the step although the work names another one: a start that is far in the future is
    /// recorded as the time at which it is found, by a clock that may be behind the hub's.
    #[must_use]
    pub fn may_be_recorded_as(&self, started: DateTime<Utc>) -> bool {
        let earliest = self.created.map(|created| created - MAX_CLOCK_DIFFERENCE);
        earliest.is_some_and(|earliest| earliest <= started) && started + TOLERATED_LEAD < self.work.started
    }

    /// True when it was created before its cluster was registered.
    #[must_use]
    pub fn is_older_than(&self, registered: Option<DateTime<Utc>>) -> bool {
        self.created
            .zip(registered)
            .is_some_and(|(created, registered)| created < registered)
    }

    /// True when it belongs to a step after the update and was sent for another registration of its cluster than this one. It tells
    /// nothing of the update that the step follows.
    #[must_use]
    pub fn is_of_another(&self, registration: &str) -> bool {
        let is_known = !self.cluster_uid.is_empty() && !registration.is_empty();
        let follows = matches!(self.step, Step::Operators | Step::PostAction);
        follows && is_known && *self.cluster_uid != *registration
    }

    /// True when it was sent for this registration of its cluster. A platform work that is older may have been changed in place for it.
    #[must_use]
    pub fn is_sent_for(&self, registration: &str) -> bool {
        !registration.is_empty() && *self.cluster_uid == *registration
    }

    /// True when its disappearance proves no success: we wanted it deleted, or it may be of an earlier registration of the cluster.
    #[must_use]
    pub fn tells_no_end(&self) -> bool {
        self.deletion_requested || self.unconfirmed || self.is_left_over
    }

    /// Copies what only this process knows about the same object: that its deletion was requested, and since
    /// when it may have failed.
    pub fn inherit(&mut self, before: &WorkView) {
        if before.uid != self.uid {
            return;
        }
        self.unconfirmed = before.unconfirmed;
        self.is_left_over = before.is_left_over;
        // The upgrade that takes a work over changes its version, so what was requested for the other one is refused.
        self.deletion_requested = before.deletion_requested && before.upgrade == self.upgrade;
        if self.deletion_requested {
            Arc::make_mut(&mut self.work).terminating = true;
        }
        if let (StepStatus::MaybeFailed(since), StepStatus::MaybeFailed(_)) =
            (&before.work.status, &self.work.status)
        {
            Arc::make_mut(&mut self.work).status = StepStatus::MaybeFailed(*since);
        }
        if self.cluster_version.is_empty() {
            self.cluster_version = Arc::clone(&before.cluster_version);
        }
    }

    /// The version that the cluster runs, if this platform work reports it and the earlier view did not.
    pub(super) fn newly_reported(&self, before: Option<&WorkView>) -> Option<Arc<str>> {
        let known = before
            .is_some_and(|before| before.uid == self.uid && before.cluster_version == self.cluster_version);
        let reports = self.step == Step::Platform && is_version(&self.cluster_version);
        (reports && !known).then(|| Arc::clone(&self.cluster_version))
    }

    /// True when planning would see a difference.
    #[must_use]
    pub fn differs(&self, other: &WorkView) -> bool {
        self.work != other.work
            || self.unreadable != other.unreadable
            || self.uid != other.uid
            || self.upgrade != other.upgrade
            || self.owner != other.owner
            || self.cluster_uid != other.cluster_uid
            || self.request != other.request
            || self.cluster_version != other.cluster_version
            || self.unconfirmed != other.unconfirmed
            || self.is_left_over != other.is_left_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planner_knows_every_reason_that_a_feedback_can_have() {
        let all = feedback::reason::ALL.into_iter();
        for reason in all.chain(clusterversion::cause::reason::ALL) {
            let (known, message) = known_cause(reason, "why".to_owned());
            assert_eq!((known.as_str(), message.as_str()), (reason, "why"));
        }
    }

    #[test]
    fn a_reason_that_the_planner_does_not_know_is_named_and_not_taken_for_another() {
        let (reason, message) = known_cause("EtcdQuorumLost", "2 of 3 members are gone".to_owned());
        assert_eq!(reason, Reason::Other);
        assert_eq!(message, "EtcdQuorumLost: 2 of 3 members are gone");
    }
}
