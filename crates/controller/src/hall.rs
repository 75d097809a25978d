//! The state all parts share, behind one lock that is held for memory work only, never across I/O.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ahash::{AHashMap, AHashSet};
use api::names::{LABEL_MCU, LABEL_MCU_UID, report_name};
use api::views::{Report, Upgrade};
use chrono::{DateTime, SecondsFormat, SubsecRound, TimeDelta, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::Notify;

use crate::apply::Lanes;
use crate::archive;
use crate::clock::HubClock;
use crate::desk::Desk;
use crate::freshness::Freshness;
use crate::index::{Index, Key, Uid};
use crate::lease::Fence;
use crate::observe::Desks;
use crate::orphans::Orphans;
use crate::policy;
use crate::telemetry::health::{Check, Readiness};
use crate::telemetry::labels::WatchKind;
use crate::telemetry::metrics::Metrics;
use crate::watch::KINDS;
use crate::works::WorkFlags;

/// Most reports of upgrades that are not known that are remembered.
const MOST_STRANGERS: usize = 4096;
/// Most ended upgrades that are remembered.
const MOST_ENDED: usize = 4096;

/// What the flags say, as far as planning and rendering go.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What goes into works.
    pub works: WorkFlags,
    /// Added to the operators' timeout.
    pub operators_grace: TimeDelta,
    /// A selector sees only clusters of bound sets.
    pub require_bindings: bool,
    /// The hub itself may be upgraded.
    pub allow_hub: bool,
    /// Namespaces whose upgrades are carried out; empty: all. Upgrades of other namespaces still hold their clusters.
    pub namespaces: Vec<Arc<str>>,
}

impl Settings {
    /// True when upgrades of a namespace are carried out here.
    #[must_use]
    pub fn serves(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|served| **served == *namespace)
    }
}

/// Everything the locked state holds.
#[derive(Debug)]
pub struct State {
    /// The cache.
    pub index: Index,
    /// One desk per upgrade.
    pub desks: Desks,
    /// Works without an upgrade.
    pub orphans: Orphans,
    /// Reports of upgrades that are not known: UID and name of each one's upgrade.
    strangers: AHashMap<Key, (Uid, Arc<str>)>,
    /// UIDs of upgrades whose end was seen: what is left of their reports goes by itself.
    ended: AHashSet<Uid>,
    /// The records of this replica count, not those of the hub.
    pub(crate) owns_records: bool,
    /// When selections of archived upgrades may be compared again.
    pub(crate) compare_at: Instant,
    /// What the flags say.
    pub settings: Settings,
}

impl State {
    fn new(settings: Settings) -> State {
        State {
            index: Index::default(),
            desks: Desks::new(),
            orphans: Orphans::default(),
            strangers: AHashMap::new(),
            ended: AHashSet::new(),
            owns_records: false,
            compare_at: Instant::now(),
            settings,
        }
    }
}

/// The shared state and the handles of its parts.
#[derive(Debug)]
pub struct Hall {
    state: Mutex<State>,
    wake: Notify,
    fence: Fence,
    /// Jobs for the writers.
    pub lanes: Lanes,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Whether the state is true now.
    pub freshness: Freshness,
    /// Whether this machine's clock is true.
    pub clock: Arc<HubClock>,
    checks: Vec<Watching>,
}

/// What readiness tells of the watch of a kind.
#[derive(Debug)]
struct Watching {
    kind: WatchKind,
    check: Check,
    /// Since when the kind is not up to date, if it ever was.
    since: Mutex<Option<DateTime<Utc>>>,
}

impl Hall {
    /// An empty hall.
    #[must_use]
    pub fn new(settings: Settings, fence: Fence, metrics: Arc<Metrics>, readiness: &Readiness) -> Hall {
        let watching = |kind: &WatchKind| Watching {
            kind: *kind,
            check: readiness.register(kind.as_str()),
            since: Mutex::new(None),
        };
        Hall {
            state: Mutex::new(State::new(settings)),
            wake: Notify::new(),
            fence,
            clock: Arc::default(),
            lanes: Lanes::default(),
            metrics,
            freshness: Freshness::new(&KINDS),
            checks: KINDS.iter().map(watching).collect(),
        }
    }

    /// Works on the state under the lock.
    pub fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Brings news: changes the state, then wakes the pipeline if something is to be looked at.
    pub fn tell(&self, change: impl FnOnce(&mut State)) {
        let wake = self.with(|state| {
            change(state);
            state.forget_news_of_others();
            state.index.all_dirty || !state.index.dirty.is_empty() || state.desks.values().any(Desk::is_due)
        });
        if wake {
            self.wake.notify_one();
        }
    }

    /// Waits until something is to be looked at.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Wakes the pipeline.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// How far this machine's clock is ahead of the hub's, if that is so far that no deadline may fire.
    #[must_use]
    pub fn skew(&self) -> Option<TimeDelta> {
        self.clock.distrusted(tokio::time::Instant::now(), Utc::now())
    }

    /// Domain time, in whole milliseconds as annotations carry it. While the clocks differ it is the later one: what begins
    /// meanwhile must not be over too early, whichever of them is wrong.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        let behind = self
            .skew()
            .map_or(TimeDelta::zero(), |ahead| (-ahead).max(TimeDelta::zero()));
        (Utc::now() + behind).trunc_subsecs(3)
    }

    /// True while this replica may write.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.fence.is_leader()
    }

    /// A watch told something.
    pub fn heard(&self, kind: WatchKind) {
        self.metrics.watch_alive(kind);
    }

    /// Brings news that were told for the view of this number; they are old when another one is wanted by now.
    pub fn tell_of(&self, generation: u64, change: impl FnOnce(&mut State)) {
        self.tell(|state| {
            if self.freshness.is_wanted(generation) {
                change(state);
            }
        });
    }

    /// A kind is listed and watched, as the view of this number asked for.
    pub fn refreshed(&self, kind: WatchKind, generation: u64) {
        self.freshness.refreshed(kind, generation);
        if let Some(watching) = self.checks.iter().find(|known| known.kind == kind) {
            watching.check.pass();
            *watching.since() = None;
        }
        self.heard(kind);
        self.wake();
    }

    /// The watch of a kind ended, or could not begin, for this reason; it is made anew. `outage`: the others may not work
    /// either.
    pub fn watch_lost(&self, kind: WatchKind, outage: bool, reason: &str) {
        let known = self.freshness.is_watched(kind);
        self.freshness.lost(kind, outage);
        self.metrics.watch_restarted(kind);
        if let Some(watching) = self.checks.iter().find(|known| known.kind == kind) {
            watching.fail(known, self.now(), reason);
        }
        tracing::warn!(kind = kind.as_str(), reason, "the watch is made anew");
        self.wake();
    }

    /// True when every list has arrived that the present view asks for.
    #[must_use]
    pub fn all_synced(&self) -> bool {
        self.freshness.is_complete()
    }

    /// A term begins: what counts is what the hub has from now on.
    pub fn begin_term(&self) {
        self.with(|state| {
            state.begin_term();
            self.freshness.begin_term();
        });
    }

    /// Opens the view if it is complete: from now on plans may be made. True when it is open.
    pub fn open(&self) -> bool {
        self.with(|state| {
            let opened = self.freshness.open();
            if opened {
                state.owns_records = true;
                // What ended while the lists were read is no reaction.
                state.index.ended.clear();
            }
            opened
        })
    }

    /// Forgets everything, as a new process would: the hub's storage is older than what is known of it.
    pub fn start_anew(&self, kind: WatchKind, listed: u64, known: u64) {
        tracing::error!(
            kind = kind.as_str(),
            listed,
            known,
            "resource versions went back: the hub's storage was replaced by an older one; everything is read anew"
        );
        let forgotten = self.with(|state| {
            let settings = state.settings.clone();
            self.freshness.start_anew();
            std::mem::replace(state, State::new(settings))
        });
        drop(forgotten);
        self.wake();
    }

    /// True when this replica knows the records better than the hub does.
    #[must_use]
    pub fn owns_records(&self) -> bool {
        self.leads() && self.freshness.owns_records()
    }

    /// Counts an object that could not be read in full.
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

    /// Says why the kind is not up to date and, if it has been, since when.
    fn fail(&self, known: bool, now: DateTime<Utc>, reason: &str) {
        let mut since = self.since();
        if known {
            since.get_or_insert(now);
        }
        let name = self.kind.as_str();
        self.check.fail(match *since {
            Some(since) => {
                let since = since.to_rfc3339_opts(SecondsFormat::Secs, true);
                format!("{name} is not up to date since {since}: {reason}")
            }
            None => format!("{name} cannot be listed: {reason}"),
        });
    }
}

impl State {
    /// Takes an upgrade as the hub has it now; older news than known is ignored.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the text of the spec is not to be kept, here or elsewhere"
    )]
    pub fn apply_upgrade(&mut self, upgrade: Upgrade) {
        let Some(uid) = upgrade.metadata.uid.clone() else {
            return;
        };
        // What is kept of a spec is its brief; the text would be a second copy of its actions.
        let view = Arc::new(upgrade.without_spec_text());
        let mut followed = false;
        if let Some(desk) = self.desks.get_mut(uid.as_str()) {
            if version(&desk.view) > version(&view) {
                return;
            }
            let old = std::mem::replace(&mut desk.view, Arc::clone(&view));
            desk.status.observe(view.status.good());
            if let Some(archive) = &mut desk.archive {
                if archive::concerns(&old, &view) {
                    archive.want(crate::run::now());
                }
                return;
            }
            if concerns_planning(&old, &view) {
                desk.dirty = true;
            }
            let annotated = old.metadata.annotations != view.metadata.annotations;
            let deleted = old.metadata.deletion_timestamp.is_none() && desk.is_deleting();
            if annotated || deleted {
                desk.forget_refusals();
            }
            let same_spec = old.metadata.generation == view.metadata.generation && old.spec == view.spec;
            if same_spec && old.has_too_many_finalizers() == view.has_too_many_finalizers() {
                if !self.owns_records || !self.settings.serves(&desk.namespace) {
                    desk.archive_as_told();
                }
                return;
            }
            let generation = |view: &Upgrade| view.metadata.generation.unwrap_or(0);
            followed = generation(&view) <= generation(&old) + 1;
        } else if !self.open_desk(&view) {
            return;
        }
        let brief = policy::brief(&upgrade, &self.settings.works, self.settings.operators_grace);
        if let Some(desk) = self.desks.get_mut(uid.as_str()) {
            desk.take_spec(brief, followed);
            if !self.owns_records || !self.settings.serves(&desk.namespace) {
                desk.archive_as_told();
            }
        }
    }

    /// Opens the desk of an upgrade that was not known. False when it has none.
    fn open_desk(&mut self, view: &Arc<Upgrade>) -> bool {
        let Some(mut desk) = Desk::new(Arc::clone(view)) else {
            return false;
        };
        // A name is used once at a time: an upgrade of the same name is gone, or this one is.
        let earlier = self.desks.values().find(|other| other.key == desk.key);
        if let Some(earlier) = earlier {
            if version(&earlier.view) > version(view) {
                return false;
            }
            let gone = Arc::clone(&earlier.uid);
            self.delete_upgrade(&gone);
        }
        desk.status.observe(view.status.good());
        self.strangers.retain(|_, (uid, _)| *uid != desk.uid);
        self.desks.insert(Arc::clone(&desk.uid), desk);
        true
    }

    /// Takes an upgrade from the answer to a write. One that is not known any more has been deleted since.
    pub fn answered_upgrade(&mut self, upgrade: Upgrade) {
        let uid = upgrade.metadata.uid.as_deref().unwrap_or_default();
        if self.desks.contains_key(uid) {
            self.apply_upgrade(upgrade);
        }
    }

    /// A replica that does not plan looks at everything when it begins to, so it keeps no list of what changed.
    fn forget_news_of_others(&mut self) {
        if !self.owns_records {
            self.index.dirty.clear();
            self.index.ended.clear();
        }
    }

    /// Forgets an upgrade that is gone.
    pub fn delete_upgrade(&mut self, uid: &str) {
        if let Some(desk) = self.desks.remove(uid) {
            // Whoever waited for its clusters may go on.
            self.index.all_dirty = true;
            self.note_end(desk.uid);
        }
    }

    /// Forgets upgrades that a fresh list did not contain.
    pub fn retain_upgrades(&mut self, seen: &AHashSet<Key>) {
        let mut ended = Vec::new();
        self.desks.retain(|uid, desk| {
            let kept = seen.contains(&(Arc::clone(&desk.namespace), Arc::clone(&desk.name)));
            ended.extend((!kept).then(|| Arc::clone(uid)));
            kept
        });
        self.index.all_dirty |= !ended.is_empty();
        for uid in ended {
            self.note_end(uid);
        }
    }

    fn note_end(&mut self, uid: Uid) {
        if self.ended.len() >= MOST_ENDED {
            self.ended.clear();
        }
        self.ended.insert(uid);
    }

    /// UID of an upgrade of the same name that nobody here has known and whose reports are there: the object was restored.
    pub(crate) fn earlier_life(&self, desk: &Desk) -> Option<Uid> {
        let mut strangers = self.strangers.iter();
        let found = strangers.find(|((namespace, _), (uid, name))| {
            *namespace == desk.namespace
                && *name == desk.name
                && !self.ended.contains(uid)
                && !self.desks.contains_key(uid)
                && *uid != desk.uid
        });
        found.map(|(_, (uid, _))| Arc::clone(uid))
    }

    /// Notes a report whose upgrade is not known.
    fn note_stranger(&mut self, report: &Report, deleted: bool) {
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
        if deleted || self.desks.contains_key(uid.as_str()) {
            self.strangers.remove(&key);
        } else if self.strangers.len() < MOST_STRANGERS {
            self.strangers
                .insert(key, (Arc::from(uid.as_str()), Arc::from(upgrade.as_str())));
        }
    }

    /// Takes a report as the hub has it. What does not belong to the upgrade whose report its name says counts as none.
    pub fn observe_report(&mut self, report: &Report, deleted: bool, leads: bool) {
        let meta = &report.metadata;
        let (Some(namespace), Some(name)) = (meta.namespace.as_deref(), meta.name.as_deref()) else {
            return;
        };
        self.note_stranger(report, deleted);
        let found = self
            .desks
            .values_mut()
            .find(|desk| *desk.namespace == *namespace && desk.rows.is_report(name));
        if let Some(desk) = found {
            let own = leads && self.settings.serves(&desk.namespace);
            let ours = belongs(report, desk) == Belonging::Ours;
            if let Some(archive) = &mut desk.archive {
                let shard = desk.rows.shard_of(name).unwrap_or(0);
                archive.observe(shard, version_of(meta), Some(report).filter(|_| ours && !deleted));
                return;
            }
            desk.dirty |= desk.rows.observe(report, deleted || !ours, own, Instant::now());
        }
    }

    /// Takes a complete list of reports: what is missing was deleted while nobody looked.
    pub fn retain_reports(&mut self, seen: &AHashSet<Key>, newest: u64, leads: bool) {
        for desk in self.desks.values_mut() {
            let own = leads && self.settings.serves(&desk.namespace);
            let namespace = &desk.namespace;
            let known = |name: &str| seen.contains(&(Arc::clone(namespace), Arc::from(name)));
            if let Some(archive) = &mut desk.archive {
                archive.relist(|shard| known(&report_name(&desk.name, shard + 1)), newest);
                continue;
            }
            desk.dirty |= desk.rows.relist(known, newest, own, Instant::now());
        }
        self.strangers.retain(|report, _| seen.contains(report));
    }
}

/// Whose a report is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belonging {
    /// The upgrade's: in its namespace, named as one of its reports, and controlled by it.
    Ours,
    /// Of an upgrade of the same name in the same namespace that had another UID.
    OtherUid,
    /// Somebody else's.
    No,
}

/// Whether a report is believed to be the upgrade's. This is the one place where that is decided.
#[must_use]
pub fn belongs(report: &Report, desk: &Desk) -> Belonging {
    let meta = &report.metadata;
    let placed = meta.namespace.as_deref() == Some(&*desk.namespace)
        && meta.name.as_deref().is_some_and(|name| desk.rows.is_report(name));
    match report.owner().filter(|owner| placed && *owner.name == *desk.name) {
        Some(owner) if *owner.uid == *desk.uid => Belonging::Ours,
        Some(_) => Belonging::OtherUid,
        None => Belonging::No,
    }
}

/// Resource version as a number; 0 when it is none.
pub(crate) fn version(upgrade: &Upgrade) -> u64 {
    version_of(&upgrade.metadata)
}

fn version_of(meta: &ObjectMeta) -> u64 {
    let version = meta.resource_version.as_deref();
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// True unless only the status changed.
pub(crate) fn concerns_planning(old: &Upgrade, new: &Upgrade) -> bool {
    let (old_meta, new_meta) = (&old.metadata, &new.metadata);
    old_meta.generation != new_meta.generation
        || old_meta.annotations != new_meta.annotations
        || old_meta.deletion_timestamp != new_meta.deletion_timestamp
        || old_meta.finalizers != new_meta.finalizers
        || observed_retry(old) != observed_retry(new)
}

fn observed_retry(upgrade: &Upgrade) -> Option<&str> {
    upgrade.status.good()?.observed_retry.as_deref()
}

#[cfg(test)]
#[path = "hall_tests.rs"]
mod tests;
