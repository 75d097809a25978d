//! The state all parts share, behind one lock that is held for memory work only, never across I/O.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ahash::{AHashMap, AHashSet};
use api::names::{LABEL_MCU_UID, report_name};
use api::views::{Report, Upgrade};
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use kube::runtime::watcher;
use tokio::sync::Notify;

use crate::apply::Lanes;
use crate::desk::Desk;
use crate::index::{Index, Key, News, Uid};
use crate::lease::Fence;
use crate::observe::Desks;
use crate::orphans::Orphans;
use crate::policy;
use crate::telemetry::health::{Check, Readiness};
use crate::telemetry::labels::WatchKind;
use crate::telemetry::metrics::Metrics;
use crate::watch::KINDS;
use crate::works::WorkFlags;

/// What the flags say, as far as planning and rendering go.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What goes into works.
    pub works: WorkFlags,
    /// Added to the operators' timeout.
    pub operators_grace: TimeDelta,
    /// A selector sees only clusters of bound sets.
    pub require_bindings: bool,
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
    /// The records of a new term are being taken: whatever a report says counts, whoever tells it.
    pub reading: bool,
    /// Reports that arrived before their upgrade, by name.
    waiting: AHashMap<Uid, AHashMap<String, Report>>,
    /// What the flags say.
    pub settings: Settings,
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
    checks: Vec<(WatchKind, Check)>,
    synced: AtomicU32,
}

impl Hall {
    /// An empty hall.
    #[must_use]
    pub fn new(settings: Settings, fence: Fence, metrics: Arc<Metrics>, readiness: &Readiness) -> Hall {
        let state = State {
            index: Index::default(),
            desks: Desks::new(),
            orphans: Orphans::default(),
            reading: false,
            waiting: AHashMap::new(),
            settings,
        };
        Hall {
            state: Mutex::new(state),
            wake: Notify::new(),
            fence,
            lanes: Lanes::default(),
            metrics,
            checks: KINDS
                .iter()
                .map(|kind| (*kind, readiness.register(kind.as_str())))
                .collect(),
            synced: AtomicU32::new(0),
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
            if !self.leads() {
                // A term begins with everything looked at.
                state.index.news = News::default();
            }
            state.index.all_dirty
                || !state.index.dirty.is_empty()
                || !state.index.news.clusters.is_empty()
                || state.desks.values().any(is_due)
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

    /// Domain time, in whole milliseconds as annotations carry it.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(3)
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

    /// A watch failed and starts again by itself.
    pub fn watch_failed(&self, kind: WatchKind, error: &watcher::Error) {
        self.metrics.watch_restarted(kind);
        if !self.is_synced(kind)
            && let Some((_, check)) = self.checks.iter().find(|(known, _)| *known == kind)
        {
            check.fail(format!("{} cannot be listed: {error}", kind.as_str()));
        }
        tracing::warn!(kind = kind.as_str(), %error, "watch failed, trying again");
    }

    /// A list is complete.
    pub fn synced(&self, kind: WatchKind) {
        if let Some(position) = self.checks.iter().position(|(known, _)| *known == kind) {
            self.checks[position].1.pass();
            self.synced.fetch_or(1 << position, Ordering::AcqRel);
        }
        self.wake();
    }

    fn is_synced(&self, kind: WatchKind) -> bool {
        let synced = self.synced.load(Ordering::Acquire);
        self.checks
            .iter()
            .position(|(known, _)| *known == kind)
            .is_some_and(|position| synced & (1 << position) != 0)
    }

    /// True when every list has arrived once.
    #[must_use]
    pub fn all_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire).count_ones() as usize == self.checks.len()
    }

    /// Counts an object that could not be read in full.
    pub fn count_unreadable(&self, kind: Option<WatchKind>) {
        if let Some(kind) = kind {
            self.metrics.decode_failed(kind);
        }
    }
}

impl State {
    /// Takes an upgrade as the hub has it now; older news than known is ignored.
    pub fn apply_upgrade(&mut self, upgrade: Upgrade) {
        let Some(uid) = upgrade.metadata.uid.clone() else {
            return;
        };
        let view = Arc::new(upgrade);
        let mut followed = false;
        let known = self.desks.contains_key(uid.as_str());
        if let Some(desk) = self.desks.get_mut(uid.as_str()) {
            if version(&desk.view) > version(&view) {
                return;
            }
            if desk.parked.is_some() && view.metadata.deletion_timestamp.is_none() {
                desk.status.observe(view.status.good());
                let concerns = concerns_planning(&desk.view, &view);
                desk.take_parked(&view, concerns);
                return;
            }
            // Nothing but its works matters to its end.
            desk.parked = None;
            let old = std::mem::replace(&mut desk.view, Arc::clone(&view));
            desk.status.observe(view.status.good());
            if concerns_planning(&old, &view) {
                desk.dirty = true;
            }
            let annotated = old.metadata.annotations != view.metadata.annotations;
            let deleted = old.metadata.deletion_timestamp.is_none() && desk.is_deleting();
            if annotated || deleted {
                desk.forget_refusals();
            }
            if old.metadata.generation == view.metadata.generation && old.spec == view.spec {
                return;
            }
            let generation = |view: &Upgrade| view.metadata.generation.unwrap_or(0);
            followed = generation(&view) <= generation(&old) + 1;
        } else if !self.open_desk(&view) {
            return;
        }
        let brief = policy::brief(&view, &self.settings.works, self.settings.operators_grace);
        if let Some(desk) = self.desks.get_mut(uid.as_str()) {
            desk.take_spec(brief, followed);
            if !known && self.settings.serves(&desk.namespace) {
                desk.park_as_told();
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
        for report in self.waiting.remove(&desk.uid).unwrap_or_default().values() {
            desk.rows.observe(report, false, false, Instant::now());
        }
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

    /// Forgets an upgrade that is gone.
    pub fn delete_upgrade(&mut self, uid: &str) {
        if self.desks.remove(uid).is_some() {
            // Whoever waited for its clusters may go on.
            self.index.all_dirty = true;
        }
        self.waiting.remove(uid);
    }

    /// Forgets upgrades that a fresh list did not contain.
    pub fn retain_upgrades(&mut self, seen: &AHashSet<Key>) {
        let before = self.desks.len();
        self.desks
            .retain(|_, desk| seen.contains(&(Arc::clone(&desk.namespace), Arc::clone(&desk.name))));
        self.index.all_dirty |= before != self.desks.len();
    }

    /// Takes a report as the hub has it.
    pub fn observe_report(&mut self, report: &Report, deleted: bool, leads: bool) {
        let meta = &report.metadata;
        let labels = meta.labels.as_ref();
        let (Some(uid), Some(name)) = (labels.and_then(|labels| labels.get(LABEL_MCU_UID)), &meta.name)
        else {
            return;
        };
        if !leads && !self.reading {
            // Of no use: a term begins with what the hub has then.
            return;
        }
        if let Some(desk) = self.desks.get_mut(uid.as_str()) {
            if let Some(parked) = &mut desk.parked {
                let Some(shard) = desk.rows.shard_of(name) else {
                    return;
                };
                let version = meta.resource_version.as_deref();
                let version = version.and_then(|text| text.parse().ok()).unwrap_or(0);
                if self.reading {
                    parked.count(report, shard, version, deleted);
                } else {
                    parked.note(shard, version, deleted);
                }
                return;
            }
            let own = leads && !self.reading && self.settings.serves(&desk.namespace);
            desk.dirty |= desk.rows.observe(report, deleted, own, Instant::now());
        } else if deleted {
            if let Some(reports) = self.waiting.get_mut(uid.as_str()) {
                reports.remove(name);
            }
        } else {
            let reports = self.waiting.entry(Arc::from(uid.as_str())).or_default();
            reports.insert(name.clone(), report.clone());
        }
    }

    /// Takes a complete list of reports: what is missing was deleted while nobody looked.
    pub fn retain_reports(&mut self, seen: &AHashSet<Key>, newest: u64, leads: bool) {
        for desk in self.desks.values_mut() {
            let own = leads && self.settings.serves(&desk.namespace);
            let namespace = &desk.namespace;
            let known = |name: &str| seen.contains(&(Arc::clone(namespace), Arc::from(name)));
            if let Some(parked) = &mut desk.parked {
                let name = &desk.name;
                parked.wake |= leads && parked.misses(|shard| known(&report_name(name, shard + 1)));
                continue;
            }
            desk.dirty |= desk.rows.relist(known, newest, own, Instant::now());
        }
        self.waiting.retain(|_, reports| {
            reports.retain(|name, report| {
                let namespace = report.metadata.namespace.as_deref().unwrap_or_default();
                seen.contains(&(Arc::from(namespace), Arc::from(name.as_str())))
            });
            !reports.is_empty()
        });
    }
}

/// True when the loop has something to do for an upgrade.
fn is_due(desk: &Desk) -> bool {
    let parked = desk.parked.as_ref();
    desk.dirty || parked.is_some_and(|parked| parked.stale || parked.is_to_be_read(Instant::now()))
}

/// Resource version as a number; 0 when it is none.
pub(crate) fn version(upgrade: &Upgrade) -> u64 {
    upgrade
        .metadata
        .resource_version
        .as_deref()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
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
