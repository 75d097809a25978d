//! The state that all parts share, behind one lock. The lock is held only for work in memory, never across
//! I/O.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ahash::{AHashMap, AHashSet};
use api::names::{LABEL_MCU, LABEL_MCU_UID, report_name};
use api::views::{Report, Upgrade};
use chrono::{DateTime, SecondsFormat, SubsecRound, TimeDelta, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use observe::index::{Index, Key, Uid};
use observe::record::{self, ReportRelation};
use resolve::spec;
use tokio::sync::Notify;

use crate::apply::WriteQueue;
use crate::clock::{self, HubClock};
use crate::health::{Check, Readiness};
use crate::lease::Fence;
use crate::metrics::Metrics;
use crate::metrics::labels::WatchKind;
use crate::phase_log::PhaseLog;
use crate::sources::Sources;
use crate::state::changes::{concerns_archive, concerns_planning};
use crate::state::freshness::Freshness;
use crate::state::freshness::KINDS;
use crate::state::operation_limit::OperationLimit;
use crate::state::orphans::Orphans;
use crate::state::settings::Settings;
use crate::state::upgrade::Upgrades;
use crate::state::upgrade::{UpgradeEntry, wake_conflicting};

/// Largest number of remembered reports whose upgrades are not known.
const MAX_UNKNOWN_REPORTS: usize = 4096;
/// Largest number of remembered deleted upgrades.
const MAX_ENDED: usize = 4096;

/// Everything that the lock protects.
#[derive(Debug)]
pub struct State {
    /// The cache.
    pub index: Index,
    /// For each upgrade, when the oldest step that ended since the last pass was seen to end and released a slot.
    pub slots_released_at: AHashMap<Uid, Instant>,
    /// One entry per upgrade.
    pub upgrades: Upgrades,
    /// Works without an upgrade.
    pub orphans: Orphans,
    /// Reports whose upgrades are not known: UID and name of the upgrade of each.
    unknown_reports: BTreeMap<Key, (Uid, Arc<str>)>,
    /// UIDs of upgrades that were seen to be deleted. Their remaining reports are garbage-collected.
    ended: AHashSet<Uid>,
    /// Limits of upgrades that were discarded and have not been listed since.
    kept_limits: AHashMap<Uid, OperationLimit>,
    /// The records of this replica count, not those on the hub.
    pub(crate) owns_records: bool,
    /// When selections of archived upgrades may be compared again.
    pub(crate) compare_at: Instant,
    /// The settings from the command line.
    pub settings: Settings,
}

impl State {
    fn new(settings: Settings) -> State {
        State {
            index: Index::default(),
            slots_released_at: AHashMap::new(),
            upgrades: Upgrades::new(),
            orphans: Orphans::default(),
            unknown_reports: BTreeMap::new(),
            ended: AHashSet::new(),
            kept_limits: AHashMap::new(),
            owns_records: false,
            compare_at: clock::now(),
            settings,
        }
    }
}

/// The shared state, and handles to the parts of the controller.
#[derive(Debug)]
pub struct Context {
    state: Mutex<State>,
    wake: Notify,
    fence: Fence,
    /// Jobs for the writers.
    pub queue: WriteQueue,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Whether the state is current.
    pub freshness: Freshness,
    /// Whether the clock of this machine can be trusted.
    pub clock: Arc<HubClock>,
    /// Wall-clock time and random numbers.
    pub sources: Sources,
    /// Limits how many changes of phases are logged.
    pub(crate) phase_log: PhaseLog,
    checks: Vec<Watching>,
}

/// What `/readyz` reports about the watch of a kind.
#[derive(Debug)]
struct Watching {
    kind: WatchKind,
    check: Check,
    /// Since when the kind is outdated, if it was ever current.
    since: Mutex<Option<DateTime<Utc>>>,
}

impl Context {
    /// A context without any upgrades.
    #[must_use]
    pub fn new(
        settings: Settings,
        fence: Fence,
        metrics: Arc<Metrics>,
        readiness: &Readiness,
        sources: &Sources,
    ) -> Context {
        let watching = |kind: &WatchKind| Watching {
            kind: *kind,
            check: readiness.register(kind.as_str()),
            since: Mutex::new(None),
        };
        Context {
            state: Mutex::new(State::new(settings)),
            wake: Notify::new(),
            fence,
            clock: Arc::default(),
            queue: WriteQueue::new(sources.random()),
            sources: sources.clone(),
            phase_log: PhaseLog::new(clock::now()),
            metrics,
            freshness: Freshness::new(&KINDS),
            checks: KINDS.iter().map(watching).collect(),
        }
    }

    /// Runs `work` on the locked state.
    pub fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the state, then wakes the loop if an upgrade must be reconciled.
    pub fn update(&self, change: impl FnOnce(&mut State)) {
        let wake = self.with(|state| {
            change(state);
            state.forget_changes();
            state.index.all_dirty
                || !state.index.dirty.is_empty()
                || state.upgrades.values().any(UpgradeEntry::is_due)
        });
        if wake {
            self.wake.notify_one();
        }
    }

    /// Waits until an upgrade may have to be reconciled.
    pub async fn wait_for_wake(&self) {
        self.wake.notified().await;
    }

    /// Wakes the loop.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// How far this machine's clock is ahead of the hub's, if the difference is so large that no deadline may
    /// fire.
    #[must_use]
    pub fn skew(&self) -> Option<TimeDelta> {
        self.clock
            .distrusted(tokio::time::Instant::now(), self.sources.wall())
    }

    /// The current time for planning, in whole milliseconds like in annotations. While the two clocks differ
    /// it is the later one, so that nothing that starts meanwhile ends too early, whichever clock is wrong.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        let behind = self
            .skew()
            .map_or(TimeDelta::zero(), |ahead| (-ahead).max(TimeDelta::zero()));
        (self.sources.wall() + behind).trunc_subsecs(3)
    }

    /// True while this replica may write.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.fence.is_leader()
    }

    /// Records that a watch delivered something.
    pub fn watch_alive(&self, kind: WatchKind) {
        self.metrics.watch_alive(kind);
    }

    /// Like [`Context::update`], but does nothing if another view than the one with this number is wanted by
    /// now.
    pub fn update_if_current(&self, generation: u64, change: impl FnOnce(&mut State)) {
        self.update(|state| {
            if self.freshness.is_wanted(generation) {
                change(state);
            }
        });
    }

    /// Records that a kind is listed and watched for the view with this number.
    pub fn refreshed(&self, kind: WatchKind, generation: u64) {
        self.freshness.refreshed(kind, generation);
        if let Some(watching) = self.checks.iter().find(|known| known.kind == kind) {
            watching.check.pass();
            *watching.since() = None;
        }
        self.watch_alive(kind);
        self.wake();
    }

    /// Records why the watch of a kind ended or could not start; it is restarted. `outage`: the other watches
    /// may be broken too.
    pub fn watch_lost(&self, kind: WatchKind, outage: bool, reason: &str) {
        let known = self.freshness.is_watched(kind);
        self.freshness.lost(kind, outage);
        self.metrics.watch_restarted(kind);
        if let Some(watching) = self.checks.iter().find(|known| known.kind == kind) {
            watching.fail(known, self.now(), reason);
        }
        tracing::warn!(kind = kind.as_str(), reason, "restarting the watch");
        self.wake();
    }

    /// Starts a term, in which only what the hub delivers from now on counts.
    pub fn begin_term(&self) {
        self.with(|state| {
            state.begin_term();
            self.freshness.begin_term();
        });
    }

    /// Opens the view if it is complete, so that plans may be made. Returns true if it is open.
    pub fn open(&self) -> bool {
        self.with(|state| {
            let opened = self.freshness.open();
            if opened {
                state.owns_records = true;
                // Steps that ended while the lists were read do not count for the reaction time.
                state.slots_released_at.clear();
            }
            opened
        })
    }

    /// Discards everything like a restarted process, because the hub's storage is older than what is known. Only the
    /// operations of the last minute stay counted, because they are no knowledge about the hub.
    pub fn discard_all(&self, kind: WatchKind, listed: u64, known: u64) {
        tracing::error!(
            kind = kind.as_str(),
            listed,
            known,
            "versions decreased, or a deleted upgrade is back, so the hub's storage was replaced by an older one; everything is read again"
        );
        let forgotten = self.with(|state| {
            let anew = State {
                kept_limits: state.take_limits(),
                ..State::new(state.settings.clone())
            };
            self.freshness.discard_all();
            std::mem::replace(state, anew)
        });
        drop(forgotten);
        self.wake();
    }

    /// True when the records of this replica count, not those on the hub.
    #[must_use]
    pub fn owns_records(&self) -> bool {
        self.leads() && self.freshness.owns_records()
    }

    /// Counts an object that could not be read completely.
    pub fn count_unreadable(&self, kind: Option<WatchKind>) {
        if let Some(kind) = kind {
            self.metrics.decode_failed(kind);
        }
    }
}

impl Watching {
    fn since(&self) -> std::sync::MutexGuard<'_, Option<DateTime<Utc>>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports why the kind is outdated and since when, if it was ever current.
    fn fail(&self, known: bool, now: DateTime<Utc>, reason: &str) {
        let mut since = self.since();
        if known {
            since.get_or_insert(now);
        }
        let name = self.kind.as_str();
        self.check.fail(match *since {
            Some(since) => {
                let since = since.to_rfc3339_opts(SecondsFormat::Secs, true);
                format!("{name} has not been up to date since {since}: {reason}")
            }
            None => format!("{name} cannot be listed: {reason}"),
        });
    }
}

impl State {
    /// Handles the object of an upgrade from the hub; ignores it if a newer version is known.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the text of the spec is not to be kept, here or elsewhere"
    )]
    pub fn apply_upgrade(&mut self, upgrade: Upgrade) {
        let Some(uid) = upgrade.metadata.uid.clone() else {
            return;
        };
        // The text of the spec is not kept, because it would be a second copy of the actions.
        let object = Arc::new(upgrade.without_spec_text());
        let mut followed = false;
        if let Some(entry) = self.upgrades.get_mut(uid.as_str()) {
            if version(&entry.object) > version(&object) {
                return;
            }
            let old = std::mem::replace(&mut entry.object, Arc::clone(&object));
            entry.status.observe(object.status.good());
            if !self.owns_records {
                entry.begin_estimate();
            }
            if let Some(archive) = &mut entry.archive {
                if concerns_archive(&old, &object) {
                    archive.want(clock::now());
                }
                return;
            }
            if concerns_planning(&old, &object) {
                entry.dirty = true;
            }
            let annotated = old.metadata.annotations != object.metadata.annotations;
            let deleted = old.metadata.deletion_timestamp.is_none() && entry.is_deleting();
            if annotated || deleted {
                entry.forget_refusals();
            }
            let same_spec = old.metadata.generation == object.metadata.generation && old.spec == object.spec;
            if same_spec && old.has_too_many_finalizers() == object.has_too_many_finalizers() {
                if !self.owns_records || !self.settings.serves(&entry.namespace) {
                    entry.archive_by_status();
                }
                return;
            }
            let generation = |object: &Upgrade| object.metadata.generation.unwrap_or(0);
            followed = same_spec || generation(&object) == generation(&old) + 1;
        } else if !self.open_entry(&object) {
            return;
        }
        let spec = spec::resolve_spec(&upgrade, &self.settings.works, self.settings.operators_grace);
        if let Some(entry) = self.upgrades.get_mut(uid.as_str()) {
            entry.set_spec(spec, followed);
            if !self.owns_records || !self.settings.serves(&entry.namespace) {
                entry.archive_by_status();
            }
        }
    }

    /// Adds the entry of a new upgrade. Returns false if the object has no name or UID.
    fn open_entry(&mut self, object: &Arc<Upgrade>) -> bool {
        let Some(mut entry) = UpgradeEntry::new(Arc::clone(object)) else {
            return false;
        };
        // A name can be used only once at a time, so one of two upgrades with the same name is gone.
        if let Some(earlier) = self.namesake(&entry.namespace, &entry.name) {
            if version(&earlier.object) > version(object) {
                return false;
            }
            let gone = Arc::clone(&earlier.uid);
            self.delete_upgrade(&gone);
        }
        entry.operation_limit = self.kept_limits.remove(&entry.uid).unwrap_or_default();
        entry.status.observe(object.status.good());
        self.unknown_reports.retain(|_, (uid, _)| *uid != entry.uid);
        self.upgrades.insert(Arc::clone(&entry.uid), entry);
        true
    }

    /// Removes and returns the limits of all upgrades.
    fn take_limits(&mut self) -> AHashMap<Uid, OperationLimit> {
        let mut limits = std::mem::take(&mut self.kept_limits);
        for (uid, entry) in &mut self.upgrades {
            limits.insert(Arc::clone(uid), std::mem::take(&mut entry.operation_limit));
        }
        limits
    }

    /// Handles the object of an upgrade from the response to a write. If the upgrade is not known any more,
    /// it was deleted meanwhile.
    pub fn answered_upgrade(&mut self, upgrade: Upgrade) {
        let uid = upgrade.metadata.uid.as_deref().unwrap_or_default();
        if self.upgrades.contains_key(uid) {
            self.apply_upgrade(upgrade);
        }
    }

    /// Handles a change of a ManifestWork in the index, and records when it released slots.
    pub fn update_works(&mut self, change: impl FnOnce(&mut Index)) {
        change(&mut self.index);
        for uid in std::mem::take(&mut self.index.slots_released) {
            self.slots_released_at.entry(uid).or_insert_with(clock::now);
        }
    }

    /// Clears the list of changes on a replica that does not plan. It will reconcile everything when it
    /// becomes the leader.
    fn forget_changes(&mut self) {
        if !self.owns_records {
            self.index.dirty.clear();
            self.slots_released_at.clear();
        }
    }

    /// Removes an upgrade that was deleted.
    pub fn delete_upgrade(&mut self, uid: &str) {
        if let Some(entry) = self.upgrades.remove(uid) {
            // Upgrades that waited for its clusters may continue.
            self.index.all_dirty = true;
            self.note_end(entry.uid);
        }
    }

    /// Removes upgrades that a complete list did not contain.
    pub fn retain_upgrades(&mut self, seen: &AHashSet<Key>) {
        self.kept_limits.clear();
        let mut ended = Vec::new();
        self.upgrades.retain(|uid, entry| {
            let kept = seen.contains(&(Arc::clone(&entry.namespace), Arc::clone(&entry.name)));
            ended.extend((!kept).then(|| Arc::clone(uid)));
            kept
        });
        self.index.all_dirty |= !ended.is_empty();
        for uid in ended {
            self.note_end(uid);
        }
    }

    fn note_end(&mut self, uid: Uid) {
        if self.ended.len() >= MAX_ENDED {
            self.ended.clear();
        }
        self.ended.insert(uid);
    }

    /// True if the upgrade with this UID was seen to be deleted.
    pub(crate) fn has_ended(&self, uid: &str) -> bool {
        self.ended.contains(uid)
    }

    /// True if a newer upgrade of the same name is known, so that this one was deleted before that one was created.
    pub(crate) fn is_replaced(&self, upgrade: &Upgrade) -> bool {
        let meta = &upgrade.metadata;
        let (Some(uid), Some(namespace), Some(name)) = (&meta.uid, &meta.namespace, &meta.name) else {
            return false;
        };
        let is_newer = |other: &UpgradeEntry| version(&other.object) > version(upgrade);
        !self.upgrades.contains_key(uid.as_str()) && self.namesake(namespace, name).is_some_and(is_newer)
    }

    /// The upgrade that is known by this name.
    fn namesake(&self, namespace: &str, name: &str) -> Option<&UpgradeEntry> {
        let mut upgrades = self.upgrades.values();
        upgrades.find(|upgrade| *upgrade.namespace == *namespace && *upgrade.name == *name)
    }

    /// UID of an earlier upgrade with the same name that is not known but has reports. It shows that the
    /// object was restored.
    pub(crate) fn earlier_uid(&self, entry: &UpgradeEntry) -> Option<Uid> {
        let mut unknown_reports = self.unknown_reports.iter();
        let found = unknown_reports.find(|((namespace, _), (uid, name))| {
            *namespace == entry.namespace
                && *name == entry.name
                && !self.ended.contains(uid)
                && !self.upgrades.contains_key(uid)
                && *uid != entry.uid
        });
        found.map(|(_, (uid, _))| Arc::clone(uid))
    }

    /// Remembers a report whose upgrade is not known.
    fn remember_unknown_report(&mut self, report: &Report, deleted: bool) {
        let meta = &report.metadata;
        let label = |key| meta.labels.as_ref().and_then(|labels| labels.get(key));
        let (Some(namespace), Some(name), Some(upgrade), Some(uid)) = (
            &meta.namespace,
            &meta.name,
            label(LABEL_MCU),
            label(LABEL_MCU_UID),
        ) else {
            return;
        };
        let key = (Arc::from(namespace.as_str()), Arc::from(name.as_str()));
        if deleted || self.upgrades.contains_key(uid.as_str()) {
            self.unknown_reports.remove(&key);
        } else if self.unknown_reports.len() < MAX_UNKNOWN_REPORTS {
            self.unknown_reports
                .insert(key, (Arc::from(uid.as_str()), Arc::from(upgrade.as_str())));
        }
    }

    /// Handles a report from the hub. A report that does not belong to the upgrade of its name counts as
    /// missing.
    pub fn observe_report(&mut self, report: &Report, deleted: bool, leads: bool, now: DateTime<Utc>) {
        let meta = &report.metadata;
        let (Some(namespace), Some(name)) = (meta.namespace.as_deref(), meta.name.as_deref()) else {
            return;
        };
        self.remember_unknown_report(report, deleted);
        let found = self
            .upgrades
            .values_mut()
            .find(|entry| *entry.namespace == *namespace && entry.rows.is_report(name));
        if let Some(entry) = found {
            let own = leads && self.settings.serves(&entry.namespace);
            let ours = relation_of(report, entry) == ReportRelation::Own;
            if ours && !deleted {
                self.index.note_rows(report, now);
            }
            if let Some(archive) = &mut entry.archive {
                let shard = entry.rows.shard_of(name).unwrap_or(0);
                let held = Some(report).filter(|_| ours && !deleted);
                let was_at_work = archive.at_work().next().is_some();
                archive.observe(shard, version_of(meta), held, own);
                if was_at_work && own {
                    wake_conflicting(&mut self.upgrades);
                }
                return;
            }
            let is_changed = entry.rows.observe(report, deleted || !ours, own, clock::now());
            entry.dirty |= is_changed;
            // Other upgrades may be waiting for a row that is gone now.
            if is_changed && own {
                wake_conflicting(&mut self.upgrades);
            }
        }
    }

    /// The resource version at which a report of this name is known, or its deletion; 0 if none is known. No later list has an older
    /// report of that name, not even another object.
    pub(crate) fn version_of_report(&self, report: &Report) -> u64 {
        let meta = &report.metadata;
        let (Some(namespace), Some(name)) = (meta.namespace.as_deref(), meta.name.as_deref()) else {
            return 0;
        };
        let entries = self
            .upgrades
            .values()
            .filter(|entry| *entry.namespace == *namespace);
        let version = |entry: &UpgradeEntry| {
            let shard = entry.rows.shard_of(name)?;
            entry.report_versions().get(shard).copied()
        };
        entries.filter_map(version).max().unwrap_or(0)
    }

    /// Handles a complete list of reports. Missing reports were deleted without an event.
    pub fn retain_reports(&mut self, seen: &AHashSet<Key>, newest: u64, leads: bool) {
        for entry in self.upgrades.values_mut() {
            let own = leads && self.settings.serves(&entry.namespace);
            let namespace = &entry.namespace;
            let known = |name: &str| seen.contains(&(Arc::clone(namespace), Arc::from(name)));
            if let Some(archive) = &mut entry.archive {
                archive.relist(|shard| known(&report_name(&entry.name, shard + 1)), newest);
                continue;
            }
            entry.dirty |= entry.rows.relist(known, newest, own, clock::now());
        }
        self.unknown_reports.retain(|report, _| seen.contains(report));
    }
}

/// The relation of a report to an upgrade.
#[must_use]
pub fn relation_of(report: &Report, entry: &UpgradeEntry) -> ReportRelation {
    record::relation_of(report, &entry.namespace, &entry.name, &entry.uid)
}

/// Resource version as a number; 0 if it is not a number.
pub(crate) fn version(upgrade: &Upgrade) -> u64 {
    version_of(&upgrade.metadata)
}

pub(crate) fn version_of(meta: &ObjectMeta) -> u64 {
    let version = meta.resource_version.as_deref();
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
