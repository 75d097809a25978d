//! What the controller knows about one upgrade between two passes: its spec, selection, records and running writes. All
//! of it can be rebuilt from the hub.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::{AHashMap, AHashSet};
use api::names::{FINALIZER, Step};
use api::time::to_chrono;
use api::validate::SpecViolation;
use api::views::Upgrade;
use chrono::{DateTime, TimeDelta, Utc};
use observe::index::{Index, Uid};
use observe::preflight::Preflights;
use observe::selection::Selected;
use observe::writes::{
    Backoff, BlockerKind, Doubts, LastReading, MISSING_RETRY, RunningWrites, StepBlocker, Unsettled,
};
use resolve::origin::Origin;
use resolve::spec::ResolvedSpec;
use rollout::{Attempt, OperationKind};

use crate::apply::{WriteError, WriteErrorKind, WriteResult};
use crate::archive::record::Archive;
use crate::report::asked::Asked;
use crate::report::rows::Rows;
use crate::report::tally::Tally;
use crate::report::writer::StatusState;
use crate::state::backoff::{
    BACKOFF, BLOCKER_RETRY, Certainty, after_failure, certainty, clamp, doubled, given_up_at, held_off,
    note_forbidden,
};
use crate::state::operation_limit::OperationLimit;

/// Shortest time between two passes. Reports that agents send at about the same time are handled together, and a released
/// slot is still filled soon.
const INTERVAL: Duration = Duration::from_millis(25);
/// The same while writers are overloaded: the result of a pass would only wait longer in the queue. It is short enough
/// for steps that must be stopped.
const INTERVAL_BEHIND: Duration = Duration::from_millis(500);
/// The pause after a pass is this many times as long as the pass, so passes take at most a third of the time.
const REST_FACTOR: u32 = 2;

/// Number of checks of a foreign work that is being deleted, over a minute, after which it is unlikely to disappear
/// without help.
const MAX_TERMINATING_CHECKS: u32 = 12;

/// Upgrades by UID.
pub type Upgrades = BTreeMap<Uid, UpgradeEntry>;

/// Marks the upgrades that share clusters with another one, so that they are reconciled.
pub fn wake_conflicting(upgrades: &mut Upgrades) {
    for entry in upgrades.values_mut().filter(|entry| entry.has_conflicts) {
        entry.dirty = true;
    }
}

/// One upgrade.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of an upgrade")]
pub struct UpgradeEntry {
    /// UID.
    pub uid: Uid,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// `namespace/name`.
    pub key: Arc<str>,
    /// Creation time. The older of two upgrades has priority.
    pub created: DateTime<Utc>,
    /// The object as last seen.
    pub object: Arc<Upgrade>,
    /// The spec after validation.
    pub spec: Result<Arc<ResolvedSpec>, Arc<Vec<SpecViolation>>>,
    /// The latest valid spec. `None` if a later revision was missed, because that might have been valid.
    pub last_valid: Option<Arc<ResolvedSpec>>,
    /// The selection.
    pub selected: Selected,
    /// Epoch of the index at which `selected` was computed; 0: never.
    pub selected_at: u64,
    /// Since when clusters of the fleet are no longer selected.
    pub left: AHashMap<Arc<str>, DateTime<Utc>>,
    /// When the last pass began, by the wall clock and by the monotonic one.
    pub(super) began: Option<(DateTime<Utc>, Instant)>,
    /// Clusters that left the selection while this process ran, or may do so unseen. Late works there are deleted together
    /// with the upgrade.
    pub former: AHashSet<Arc<str>>,
    /// What the Selected condition says in addition to the number of clusters.
    pub notes: Vec<String>,
    /// Records.
    pub rows: Rows,
    /// What the records added up to after the last pass.
    pub tally: Tally,
    /// The last plan starts no cluster, whichever it is.
    pub starts_stopped: bool,
    /// Running writes, by cluster.
    pub running: AHashMap<Arc<str>, RunningWrites>,
    /// Failed writes, by cluster.
    pub backoff: AHashMap<Arc<str>, Backoff>,
    /// Creations and changes of works that may have taken effect, or may still do so, by cluster: one per step, in order.
    pub unsettled: AHashMap<Arc<str>, Vec<Unsettled>>,
    /// The last time that a work was read, by cluster.
    pub(super) readings: AHashMap<Arc<str>, LastReading>,
    /// Blocked steps, detected when their works were to be created.
    pub blockers: AHashMap<(Arc<str>, Step), StepBlocker>,
    /// Clusters whose namespace is gone or terminating, until they are checked again.
    pub missing: AHashMap<Arc<str>, DateTime<Utc>>,
    /// What clusters say to the update before they start.
    pub preflights: Preflights,
    /// The status and the state of writing it.
    pub status: StatusState,
    /// Which plans somebody was asked to approve.
    pub asked: Asked,
    /// Another upgrade, or a work of somebody else, is in the way of some clusters.
    pub has_conflicts: bool,
    /// Where the object comes from, as of the last pass.
    pub origin: Origin,
    /// UID of a deleted upgrade with the same name whose reports still existed when this object was first seen.
    pub earlier_uid: Option<Uid>,
    /// The annotation that was written last. It is not written again and again if someone always removes it.
    pub last_annotation: Option<String>,
    /// A write of the finalizers or annotations is running.
    pub finalizing: bool,
    /// The wait after failed writes of the finalizers or annotations.
    pub finalizer_backoff: Option<Backoff>,
    /// Limits how often the same operation is executed for the same cluster.
    pub operation_limit: OperationLimit,
    /// How far the clock is ahead of the hub's, if the difference is too large.
    pub skew: Option<TimeDelta>,
    /// What is kept in place of almost all of the above while the upgrade is archived.
    pub archive: Option<Box<Archive>>,
    /// When the upgrade was restored from the archive.
    pub unarchived: Option<Instant>,
    /// The upgrade must be reconciled.
    pub dirty: bool,
    /// When the last pass started, and how long it took.
    pub last_reconcile: Option<(Instant, Duration)>,
    /// When the end of the upgrade was estimated last, and for which revision.
    pub estimated: Option<(DateTime<Utc>, Arc<str>)>,
    /// When to reconcile again if nothing happens before.
    pub wake_at: Option<DateTime<Utc>>,
}

impl UpgradeEntry {
    /// Creates the entry of an upgrade. `None` for an object without name or UID.
    #[must_use]
    pub fn new(object: Arc<Upgrade>) -> Option<UpgradeEntry> {
        let meta = &object.metadata;
        let namespace: Arc<str> = Arc::from(meta.namespace.as_deref()?);
        let name: Arc<str> = Arc::from(meta.name.as_deref()?);
        Some(UpgradeEntry {
            uid: Arc::from(meta.uid.as_deref()?),
            key: Arc::from(format!("{namespace}/{name}")),
            created: meta
                .creation_timestamp
                .as_ref()
                .and_then(to_chrono)
                .unwrap_or_default(),
            rows: Rows::new(&name),
            tally: Tally::default(),
            starts_stopped: false,
            namespace,
            name,
            object,
            spec: Err(Arc::default()),
            last_valid: None,
            selected: Selected::default(),
            selected_at: 0,
            left: AHashMap::new(),
            began: None,
            former: AHashSet::new(),
            notes: Vec::new(),
            running: AHashMap::new(),
            backoff: AHashMap::new(),
            unsettled: AHashMap::new(),
            readings: AHashMap::new(),
            blockers: AHashMap::new(),
            missing: AHashMap::new(),
            preflights: Preflights::default(),
            status: StatusState::default(),
            asked: Asked::default(),
            has_conflicts: false,
            origin: Origin::default(),
            earlier_uid: None,
            last_annotation: None,
            finalizing: false,
            finalizer_backoff: None,
            operation_limit: OperationLimit::default(),
            skew: None,
            archive: None,
            unarchived: None,
            dirty: true,
            last_reconcile: None,
            estimated: None,
            wake_at: None,
        })
    }

    /// True while the object is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// True when records of the upgrade are written. When it is being deleted, its reports go with it.
    #[must_use]
    pub fn takes_rows(&self) -> bool {
        !self.is_deleting()
    }

    /// True when the status of the upgrade may be written now: the object will still exist, and no other write
    /// is about to change its version.
    #[must_use]
    pub fn takes_status(&self) -> bool {
        !self.finalizing && (!self.is_deleting() || self.has_finalizer())
    }

    /// Clears backoffs and blockers caused by a rejected write. Called when the spec changes, a retry is requested, or
    /// deletion starts.
    pub fn forget_refusals(&mut self) {
        let unsettled = &self.unsettled;
        self.backoff
            .retain(|cluster, backoff| backoff.uncertain || unsettled.contains_key(cluster));
        self.blockers
            .retain(|_, blocker| !matches!(blocker.kind, BlockerKind::Refused(_)));
        self.dirty = true;
    }

    /// True when the controller's finalizer is set.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        let mut finalizers = self.object.metadata.finalizers.iter().flatten();
        finalizers.any(|finalizer| finalizer == FINALIZER)
    }

    /// When the finalizers or annotations may be written again, if not now.
    #[must_use]
    pub fn finalizer_backoff_until(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let until = self.finalizer_backoff.as_ref().map(|backoff| backoff.until);
        until.filter(|until| *until > now)
    }

    /// Starts a term: records come from the hub, and no writes are running. Writes of an earlier term without a response
    /// may still take effect, so they are kept.
    pub fn begin_term(&mut self) {
        // Rows that no report has are lost now. If their clusters leave before the selection is known again, nothing else
        // tells that their works are the upgrade's.
        let unwritten = self.rows.all().iter().filter(|(_, row)| row.written.is_none());
        self.former.extend(unwritten.map(|(name, _)| Arc::clone(name)));
        self.rows.restart();
        self.tally = Tally::default();
        if let Some(archive) = &mut self.archive {
            archive.begin_term();
        }
        self.left.clear();
        // Another leader may have begun where there was no namespace then.
        self.missing.clear();
        self.readings.clear();
        self.blockers.clear();
        self.preflights = Preflights::default();
        self.selected_at = 0;
        self.status.reset();
        self.status.observe(self.object.status.good());
        self.asked = Asked::default();
        self.begin_estimate();
        // Another leader may have been permitted since what the hub forbade. Without a creation in doubt, nothing waits for the error.
        let unsettled = &self.unsettled;
        self.backoff.retain(|cluster, backoff| {
            backoff.start_forbidden = None;
            backoff.deletion_forbidden = None;
            unsettled.contains_key(cluster)
        });
        self.finalizing = false;
        self.last_annotation = None;
        self.dirty = self.archive.is_none();
    }

    /// True when the upgrade must be reconciled or a write of it is due.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.dirty || self.archive.as_ref().is_some_and(|archive| archive.is_due())
    }

    /// True when a write is running or waits to be repeated.
    #[must_use]
    pub fn has_open_matters(&self) -> bool {
        let idle = self.running.is_empty() && self.unsettled.is_empty() && self.preflights.is_idle();
        let clear = self.backoff.is_empty() && self.blockers.is_empty() && self.missing.is_empty();
        !idle || !clear || self.skew.is_some()
    }

    /// When the upgrade may be reconciled again. Changes that arrive in a burst are handled together, even more so while
    /// the writers are `behind`.
    #[must_use]
    pub fn next_allowed_at(&self, now: Instant, behind: bool) -> Instant {
        let interval = if behind { INTERVAL_BEHIND } else { INTERVAL };
        self.last_reconcile
            .map_or(now, |(at, took)| at + interval.max(took * REST_FACTOR))
    }

    /// True when the upgrade may be reconciled now.
    #[must_use]
    pub fn may_reconcile(&self, now: Instant, behind: bool) -> bool {
        self.next_allowed_at(now, behind) <= now
    }

    /// True when the upgrade comes after the given order.
    #[must_use]
    pub fn is_younger_than(&self, older: Option<&(DateTime<Utc>, Arc<str>)>) -> bool {
        older.is_some_and(|(created, key)| self.order() > (*created, &**key))
    }

    /// Order among upgrades: the older one first, then by namespace and name.
    #[must_use]
    pub fn order(&self) -> (DateTime<Utc>, &str) {
        (self.created, &self.key)
    }

    /// When to reconcile because of something that is not in a plan: a cluster whose namespace was missing must be
    /// checked again (clusters that are due are removed here), an uncertainty ends by time alone, or an operation was held
    /// back. `at`: the same moment as `now`, by a clock that nobody sets.
    pub fn due_at(&mut self, now: DateTime<Utc>, at: Instant) -> Option<DateTime<Utc>> {
        self.missing.retain(|_, since| now < *since + MISSING_RETRY);
        let missing = self.missing.values().min().map(|since| *since + MISSING_RETRY);
        let waits = self.backoff.values().map(|backoff| backoff.until);
        let waits = waits.filter(|until| *until > now);
        let settles = self.settles_in(at).map(|left| now + left);
        missing.into_iter().chain(settles).chain(waits).min()
    }

    /// Records that writes for a cluster start; `starting`: the attempt of one that starts a step.
    pub fn begin(&mut self, cluster: &Arc<str>, starting: Option<&Attempt>) {
        let writes = self.running.entry(Arc::clone(cluster)).or_default();
        writes.count += 1;
        writes.starting = starting.cloned().or_else(|| writes.starting.take());
    }

    /// Records that a write for a cluster has ended.
    pub fn end(&mut self, cluster: &Arc<str>) {
        if let Some(writes) = self.running.get_mut(cluster) {
            writes.count -= 1;
            if writes.count == 0 {
                self.running.remove(cluster);
            }
        }
        self.dirty = true;
    }

    /// Records a success, so that the next failure has a short wait again.
    pub fn succeed(&mut self, cluster: &str) {
        self.backoff.remove(cluster);
    }

    /// Records a failure. The wait doubles each time, from a second to a minute.
    pub fn fail(&mut self, cluster: &Arc<str>, now: DateTime<Utc>, error: &WriteError) {
        let entry = after_failure(self.backoff.get(cluster), now, error);
        self.backoff.insert(Arc::clone(cluster), entry);
    }

    /// Records that an operation was requested too often, so the cluster waits.
    pub fn hold_off(&mut self, cluster: &Arc<str>, now: DateTime<Utc>, kind: OperationKind, wait: Duration) {
        let text = format!(
            "the controller sent the same request ({}) too often within a minute and waits before it sends it again",
            kind.as_str()
        );
        tracing::warn!(
            upgrade = &*self.key,
            cluster = &**cluster,
            text,
            "the same write was requested too often"
        );
        let before = self.backoff.get(cluster);
        let entry = held_off(before, now, &text, wait);
        self.backoff.insert(Arc::clone(cluster), entry);
    }

    /// Shortens waits that have become long because the clock was set back.
    #[expect(clippy::iter_over_hash_type, reason = "each wait is shortened by itself")]
    pub fn clamp_waits(&mut self, now: DateTime<Utc>) {
        let waits = self.backoff.values_mut().chain(self.finalizer_backoff.as_mut());
        for backoff in waits {
            clamp(backoff, now);
        }
        for blocker in self.blockers.values_mut() {
            blocker.retry_at = blocker.retry_at.min(now + BLOCKER_RETRY.1);
        }
        self.preflights.clamp_waits(now);
        // Nobody knows when these were read, and a deadline must not count by one from before it.
        self.readings.retain(|_, reading| reading.answered <= now);
        // Nobody knows for how long these have been missing, so they are looked for at once.
        self.missing.retain(|_, since| *since <= now);
    }

    /// Records that a work could not be created or changed. If that stays forbidden, a human must act.
    pub fn fail_to_start(&mut self, cluster: &Arc<str>, now: DateTime<Utc>, error: &WriteError) {
        self.fail(cluster, now, error);
        if let Some(backoff) = self.backoff.get_mut(cluster) {
            note_forbidden(&mut backoff.start_forbidden, now, error);
        }
    }

    /// The same for a work that could not be deleted.
    pub fn fail_to_delete(&mut self, cluster: &Arc<str>, now: DateTime<Utc>, error: &WriteError) {
        self.fail(cluster, now, error);
        if let Some(backoff) = self.backoff.get_mut(cluster) {
            note_forbidden(&mut backoff.deletion_forbidden, now, error);
        }
    }

    /// Records whether a creation or change of a step's work took effect, according to its result.
    pub fn record_certainty(
        &mut self,
        cluster: &Arc<str>,
        (step, kind): (Step, OperationKind),
        attempt: &Attempt,
        outcome: &WriteResult,
        now: Instant,
    ) {
        let given_up = match certainty(outcome) {
            Certainty::Unsent => return,
            // If this work is deleted, an earlier try may still take effect.
            Certainty::Done => {
                let mut known = self.unsettled.get_mut(cluster).into_iter().flatten();
                if let Some(before) = known.find(|unsettled| unsettled.step == step) {
                    before.attempt = attempt.clone();
                }
                return self.rule_out(cluster, step, now);
            }
            Certainty::Refused => return self.rule_out(cluster, step, now),
            Certainty::PutOff => None,
            Certainty::Unknown => Some(given_up_at(outcome, now)),
        };
        let known = self.unsettled.entry(Arc::clone(cluster)).or_default();
        let before = known.extract_if(.., |unsettled| unsettled.step == step).last();
        let (created_before, given_up_before) =
            before.map_or((None, None), |before| (before.created, before.given_up));
        let is_created = kind == OperationKind::Create && given_up.is_some();
        known.push(Unsettled {
            step,
            attempt: attempt.clone(),
            created: if is_created {
                Some(attempt.clone())
            } else {
                created_before
            },
            // A later try does not call back an earlier one that is still on its way.
            given_up: given_up.max(given_up_before),
        });
        known.sort_by_key(|unsettled| unsettled.step);
    }

    /// The write succeeded, was rejected, or its work does not exist. Earlier tries may still take effect for a while.
    fn rule_out(&mut self, cluster: &str, step: Step, now: Instant) {
        // While the clock is wrong, no time counts as passed.
        if self.skew.is_some() {
            return;
        }
        if let Some(known) = self.unsettled.get_mut(cluster) {
            known.retain(|unsettled| unsettled.step != step || !unsettled.is_over(now));
            if known.is_empty() {
                self.unsettled.remove(cluster);
            }
        }
    }

    /// Removes writes that took effect, once no earlier try can take effect any more. Returns true if any was removed.
    pub fn settle(&mut self, index: &Index, now: Instant) -> bool {
        let uid = &self.uid;
        let mut settled = false;
        self.unsettled.retain(|cluster, known| {
            let before = known.len();
            known.retain(|unsettled| !unsettled.is_over(now) || !unsettled.has_landed(cluster, uid, index));
            settled |= known.len() < before;
            !known.is_empty()
        });
        settled
    }

    /// The step whose work may or may not have been created or changed, and another step for which an earlier creation
    /// may still take effect if its work is deleted.
    #[must_use]
    pub fn unsettled_steps(&self, cluster: &str, index: &Index) -> (Option<Step>, Option<Step>) {
        let known = self.unsettled.get(cluster).map_or(&[][..], Vec::as_slice);
        let doubts = Doubts::new(known, cluster, &self.uid, index);
        let step = |unsettled: Option<&Unsettled>| unsettled.map(|unsettled| unsettled.step);
        (step(doubts.open), step(doubts.late))
    }

    /// After which time the next uncertainty ends by time alone.
    fn settles_in(&self, now: Instant) -> Option<Duration> {
        let known = self.unsettled.values().flatten();
        let left = known.map(|unsettled| unsettled.left(now));
        left.filter(|left| !left.is_zero()).min()
    }

    /// Records that a work was read. The index already contains the result. `at`: the same moment as `now`, by a clock that
    /// nobody sets.
    pub fn note_reading(
        &mut self,
        cluster: &Arc<str>,
        step: Step,
        asked: DateTime<Utc>,
        (now, at): (DateTime<Utc>, Instant),
        index: &Index,
    ) {
        let reading = LastReading {
            step,
            asked,
            answered: now,
        };
        self.readings.insert(Arc::clone(cluster), reading);
        // The response may have been on its way for long, and the write may have been carried out meanwhile.
        let took = (now - asked).to_std().unwrap_or_default();
        self.rule_out(cluster, step, at.checked_sub(took).unwrap_or(at));
        let mut known = self.unsettled.get(cluster).into_iter().flatten();
        let Some(open) = known.find(|unsettled| !unsettled.has_landed(cluster, &self.uid, index)) else {
            return self.succeed(cluster);
        };
        let over = now + open.left(at);
        let text = self.backoff.get(cluster).map_or_else(
            || Arc::from("the response to a write was lost"),
            |backoff| Arc::clone(&backoff.text),
        );
        self.fail(cluster, now, &WriteError::new(WriteErrorKind::NotFound, &*text));
        if let Some(backoff) = self.backoff.get_mut(cluster) {
            backoff.until = backoff.until.min(over.max(now + BACKOFF.0));
        }
    }

    /// The step whose work was read recently, and when the read was requested.
    #[must_use]
    pub fn reading(&self, cluster: &str, now: DateTime<Utc>) -> Option<(Step, DateTime<Utc>)> {
        self.readings.get(cluster)?.current(now)
    }

    /// True when the upgrade of the cluster has begun, so the cluster had a namespace.
    #[must_use]
    pub fn has_begun(&self, cluster: &str) -> bool {
        let phase = self.rows.get(cluster).map(|row| row.record.phase);
        phase.is_some_and(|phase| !phase.is_queued())
    }

    /// Records that the namespace of a cluster is gone or terminating.
    pub fn record_missing_namespace(&mut self, cluster: &Arc<str>, now: DateTime<Utc>) {
        self.missing.insert(Arc::clone(cluster), now);
    }

    /// Records the result of a write of the finalizers or annotations.
    pub fn finalized(&mut self, now: DateTime<Utc>, outcome: &WriteResult) {
        self.finalizing = false;
        self.dirty = true;
        if !matches!(outcome, WriteResult::Upgrade(_)) {
            self.last_annotation = None;
        }
        self.finalizer_backoff = match outcome {
            WriteResult::Failed(error) => Some(after_failure(self.finalizer_backoff.as_ref(), now, error)),
            _ => None,
        };
    }

    /// Records that a foreign work is being deleted. It is checked again soon, unless the deletion takes too long.
    pub fn await_end(&mut self, cluster: &Arc<str>, step: Step, now: DateTime<Utc>, retry_at: DateTime<Utc>) {
        let key = (Arc::clone(cluster), step);
        let checks = self.blockers.get(&key).map_or(0, |blocker| blocker.checks);
        if checks >= MAX_TERMINATING_CHECKS {
            return self.block_step(cluster, step, now, BlockerKind::Foreign);
        }
        let blocker = StepBlocker {
            kind: BlockerKind::ForeignTerminating,
            retry_at,
            checks: checks + 1,
        };
        self.blockers.insert(key, blocker);
    }

    /// Records a blocker. The step is tried again after 30 s to 5 min.
    pub fn block_step(&mut self, cluster: &Arc<str>, step: Step, now: DateTime<Utc>, kind: BlockerKind) {
        let key = (Arc::clone(cluster), step);
        let checks = self.blockers.get(&key).map_or(0, |blocker| blocker.checks);
        self.blockers.insert(
            key,
            StepBlocker {
                kind,
                retry_at: now + doubled(BLOCKER_RETRY, checks),
                checks: checks + 1,
            },
        );
    }
}
