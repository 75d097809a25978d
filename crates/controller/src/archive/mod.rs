//! Archives upgrades that are complete and have nothing left to do: counts and digests are kept in place of
//! the spec, the selection and the records. No I/O except in [`read`].
//!
//! An archived upgrade is not reconciled. The controller reads its object and reports from the hub again as
//! soon as a pass could have a different result: when the object, a report, a work with its UID, or its
//! selection changes.

mod read;
pub mod record;
mod selector;

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::mcu::UpgradeState;
use api::names::report_name;
use api::views::{Report, Upgrade};
use chrono::{DateTime, Utc};

use observe::index::Clusters;
use observe::record::ReportRelation;
pub use read::{ArchiveRead, read};
use resolve::origin::Origin;
use resolve::retry;
use resolve::spec::{self, ResolvedSpec};
use selector::Selector;

use crate::archive::record::{Archive, digest_of_notes};
use crate::clock;
use crate::reconcile::restore;
use crate::report::rows::Rows;
use crate::state::context::{State, relation_of};
use crate::state::upgrade::{UpgradeEntry, wake_conflicting};

/// How long an upgrade must be unchanged before it is archived.
const REST_BEFORE_ARCHIVE: Duration = Duration::from_secs(5);
/// Shortest time between two comparisons of selections with records. The time is at least this many times as
/// long as one comparison takes.
const INTERVAL: (Duration, u32) = (Duration::from_millis(25), 4);
/// How long younger upgrades wait until the state of an archived one is known.
const MAX_WAIT_FOR_OLDER: Duration = Duration::from_secs(10);
/// How many upgrades are read at a time. Each one is completely in memory meanwhile.
const READS: usize = 4;

/// True when the status says that the present spec is complete and nothing else is requested. Whether the
/// records agree is found out by comparing them.
fn is_complete_by_status(entry: &UpgradeEntry) -> bool {
    let object = &entry.object;
    let (Some(status), Ok(spec)) = (object.status.good(), &entry.spec) else {
        return false;
    };
    status.state == Some(UpgradeState::Complete)
        && status.observed_generation == object.metadata.generation
        && !entry.is_deleting()
        && entry.has_finalizer()
        && retry::pending(object, &spec.fields, Some(status)).is_none()
        && spec.generation == object.metadata.generation.unwrap_or(0)
}

/// True when the annotation also says that the upgrade was complete.
fn has_completion_annotation(entry: &UpgradeEntry) -> bool {
    let recorded = |spec: &Arc<ResolvedSpec>| restore::is_noted_complete(entry, &spec.policy.revision);
    entry.spec.as_ref().is_ok_and(recorded)
}

/// False when an earlier release wrote the status, which did not count clusters by their phases.
fn has_whole_status(entry: &UpgradeEntry) -> bool {
    let status = entry.object.status.good();
    status.is_some_and(|status| !status.phases.is_empty())
}

impl UpgradeEntry {
    /// Archives an upgrade whose status on the hub says that it is complete. If it was complete before and does not run again,
    /// the status must say so: a leader may have died between the annotation and the status. One with a creation in doubt is not
    /// archived: its status may not tell yet of the cluster that has joined, and nothing on the hub tells of the creation.
    pub fn archive_by_status(&mut self) {
        if self.archive.is_none() && self.unsettled.is_empty() && is_complete_by_status(self) {
            let carried_over = restore::is_carried_over(self);
            if carried_over && !restore::is_told_complete_before(self) {
                return;
            }
            let spec = self.spec.as_ref().ok().filter(|_| !carried_over);
            let selector = spec.map(|spec| Selector::new(spec));
            let mut archive = Archive::new(selector, &self.rows, None);
            archive.lacks_fields = !has_completion_annotation(self) || !has_whole_status(self);
            self.replace_by(archive);
        }
    }

    /// Archives an upgrade if everything is written and nothing is pending. `idle`: the upgrade has no works.
    fn archive_at_rest(&mut self, idle: bool, clusters: &Clusters, now: Instant) {
        let may_reconcile = self
            .last_reconcile
            .is_some_and(|(at, _)| at + REST_BEFORE_ARCHIVE <= now);
        let waits =
            self.dirty || self.wake_at.is_some() || self.finalizing || self.finalizer_backoff.is_some();
        let restored = matches!(self.origin, Origin::Restored(_));
        if self.archive.is_some() || !may_reconcile || waits || restored || !idle || self.has_open_matters() {
            return;
        }
        if !is_complete_by_status(self) || !has_completion_annotation(self) || !self.status.is_settled() {
            return;
        }
        let Ok(spec) = self.spec.clone() else { return };
        let before = matches!(self.origin, Origin::CompletedBefore(_));
        if !self.rows.is_settled() {
            return;
        }
        let selector = (!before).then(|| Selector::new(&spec));
        let notes = digest_of_notes(&self.selected);
        let mut archive = Archive::new(selector, &self.rows, Some(notes));
        let selected = (!before).then_some(&self.selected);
        if archive.is_confirmed(selected, clusters, self.object.status.good()) {
            self.replace_by(archive);
        }
    }

    fn replace_by(&mut self, archive: Archive) {
        let Some(mut empty) = UpgradeEntry::new(Arc::clone(&self.object)) else {
            return;
        };
        empty.status.observe(self.object.status.good());
        empty.last_annotation = self.last_annotation.take();
        empty.former = std::mem::take(&mut self.former);
        empty.rows.follow(&self.rows);
        empty.dirty = false;
        empty.archive = Some(Box::new(archive));
        *self = empty;
    }

    /// The version at which each report is known, or its deletion, by number, whether the upgrade is archived or not.
    pub(crate) fn report_versions(&self) -> Vec<u64> {
        if let Some(archive) = &self.archive {
            return archive.shards.iter().map(|shard| shard.version).collect();
        }
        let versions = self.rows.versions().into_iter();
        versions.map(|(version, _)| version).collect()
    }

    /// What to read from the hub for this upgrade.
    fn begin_reading(&mut self) -> Option<ArchiveRead> {
        let archive = self.archive.as_mut()?;
        archive.reading = true;
        // A report that the watch reports as deleted may only have lost its label.
        let shards = archive
            .shards
            .iter()
            .enumerate()
            .filter(|(_, shard)| shard.version > 0);
        Some(ArchiveRead {
            uid: Arc::clone(&self.uid),
            namespace: Arc::clone(&self.namespace),
            name: Arc::clone(&self.name),
            reports: shards
                .map(|(number, _)| report_name(&self.name, number + 1))
                .collect(),
        })
    }

    /// True when a report was created while the records of the archived upgrade were proven.
    fn is_late(&self, report: &Report) -> bool {
        let name = report.metadata.name.as_deref();
        let shard = name.and_then(|name| self.rows.shard_of(name));
        let archived = self.archive.as_ref().zip(shard);
        archived.is_some_and(|(archive, shard)| archive.is_late(shard))
    }

    /// Restores an archived upgrade from the objects that were read. Returns false if they are outdated; then
    /// they must be read again.
    fn restore_from(&mut self, upgrade: &Upgrade, reports: &[Report], now: Instant) -> bool {
        let mut rows = Rows::new(&self.name);
        rows.follow(&self.rows);
        let own = reports
            .iter()
            .filter(|report| relation_of(report, self) == ReportRelation::Own);
        let (late, believed): (Vec<_>, Vec<_>) = own.partition(|report| self.is_late(report));
        for report in believed {
            rows.observe(report, false, false, now);
        }
        // As of an upgrade in memory, the known records outweigh those.
        for report in late {
            rows.observe(report, false, true, now);
        }
        let outdated = |archive: &Archive| archive.is_newer_than(&rows.versions());
        if self.archive.as_deref().is_none_or(outdated) {
            return false;
        }
        self.archive = None;
        self.rows = rows;
        self.object = Arc::new(upgrade.clone().without_spec_text());
        self.status.observe(self.object.status.good());
        self.last_reconcile = None;
        self.unarchived = Some(now);
        self.dirty = true;
        true
    }
}

impl State {
    /// Archives the upgrades that have nothing left to do.
    pub fn archive_at_rest(&mut self, now: Instant) {
        let State {
            index,
            upgrades,
            settings,
            ..
        } = self;
        for entry in upgrades
            .values_mut()
            .filter(|entry| settings.serves(&entry.namespace))
        {
            if entry.archive.is_none()
                && entry
                    .last_reconcile
                    .is_some_and(|(at, _)| at + REST_BEFORE_ARCHIVE <= now)
            {
                let is_asking = index.probes_of(&entry.uid).next().is_some();
                let idle = !index.has_works(&entry.uid) && !is_asking;
                entry.archive_at_rest(idle, &index.clusters, now);
            }
        }
    }

    /// Passes what changed since the last call to the archived upgrades.
    pub(crate) fn pass_on_selection_changes(&mut self) {
        let changes = std::mem::take(&mut self.index.selection_changes);
        if changes.is_empty() {
            return;
        }
        for entry in self.upgrades.values_mut() {
            if let Some(archive) = &mut entry.archive {
                archive.handle_selection_changes(&changes, &entry.namespace);
            }
        }
    }

    /// Compares the selections and statuses of archived upgrades with their records, where these may differ.
    pub fn compare(&mut self, now: Instant) {
        if self.compare_at > now {
            return;
        }
        let begun = clock::now();
        let State {
            index,
            upgrades,
            settings,
            ..
        } = self;
        for entry in upgrades.values_mut() {
            let Some(archive) = &mut entry.archive else {
                continue;
            };
            if archive.wanted {
                archive.unresolved.get_or_insert(now);
            }
            if !archive.stale {
                continue;
            }
            archive.stale = false;
            archive.unresolved.get_or_insert(now);
            let selected = archive
                .selector
                .as_ref()
                .map(|selector| selector.select(&entry.namespace, index, settings.require_bindings));
            // A leader may have ended before it had deleted a probe. Who is to be deleted is found when the upgrade is reconciled.
            let is_asking = index
                .probes_of(&entry.uid)
                .any(|(_, probe)| *probe.owner == *entry.key && !probe.is_ending);
            let idle = !index.has_works(&entry.uid) && !is_asking;
            let status = entry.object.status.good();
            archive.wanted |= !idle || !archive.is_confirmed(selected.as_ref(), &index.clusters, status);
            if !archive.wanted {
                archive.unresolved = None;
            }
        }
        self.compare_at = now + INTERVAL.0.max(clock::since(begun) * INTERVAL.1);
    }

    /// The order of the oldest archived upgrade that may have to continue. Younger upgrades wait until that
    /// is known, but at most [`MAX_WAIT_FOR_OLDER`].
    pub(crate) fn oldest_unresolved(&self, now: Instant) -> Option<(DateTime<Utc>, Arc<str>)> {
        let open = |entry: &&UpgradeEntry| {
            !entry.is_deleting()
                && entry.archive.as_ref().is_some_and(|archive| {
                    let since = archive.unresolved.unwrap_or(now);
                    (archive.stale || archive.wanted) && now < since + MAX_WAIT_FOR_OLDER
                })
        };
        let oldest = self
            .upgrades
            .values()
            .filter(open)
            .min_by_key(|entry| entry.order())?;
        Some((oldest.created, Arc::clone(&oldest.key)))
    }

    /// When the next archived upgrade must be compared or read, or the wait for one ends.
    pub(crate) fn archives_at(&self, now: Instant) -> Option<Instant> {
        let at = |entry: &UpgradeEntry| {
            let archive = entry.archive.as_ref()?;
            let compare = archive.stale.then(|| self.compare_at.max(now));
            let read = (archive.wanted && !archive.reading).then(|| archive.retry_at.unwrap_or(now));
            let deferred = archive.unresolved.filter(|_| archive.wanted);
            let deferred = deferred.map(|since| since + MAX_WAIT_FOR_OLDER);
            let deferred = deferred.filter(|at| *at > now);
            [compare, read, deferred].into_iter().flatten().min()
        };
        self.upgrades.values().filter_map(at).min()
    }

    /// The archived upgrades to read from the hub now; marks them as being read. Upgrades that only lack fields come
    /// last.
    pub fn to_be_read(&mut self, now: Instant) -> Vec<ArchiveRead> {
        let reading = |entry: &&UpgradeEntry| entry.archive.as_ref().is_some_and(|archive| archive.reading);
        let recent = |entry: &&UpgradeEntry| {
            entry
                .unarchived
                .is_some_and(|at| now < at + REST_BEFORE_ARCHIVE + INTERVAL.0)
        };
        let recent = self.upgrades.values().filter(recent).count();
        let mut free = READS.saturating_sub(self.upgrades.values().filter(reading).count());
        let mut due: Vec<(bool, &mut UpgradeEntry)> = Vec::new();
        for entry in self.upgrades.values_mut() {
            if let Some(archive) = entry
                .archive
                .as_ref()
                .filter(|archive| archive.is_to_be_read(now))
            {
                due.push((!archive.wanted, entry));
            }
        }
        due.sort_by_key(|(only_annotation, entry)| (*only_annotation, entry.created));
        let mut found = Vec::new();
        for (only_annotation, entry) in due {
            let room = if only_annotation {
                free.saturating_sub(recent)
            } else {
                free
            };
            if room > 0 {
                free -= 1;
                found.extend(entry.begin_reading());
            }
        }
        found
    }

    /// Restores an archived upgrade from the objects that were read. `None`: the read failed, or the object
    /// does not exist.
    pub fn was_read(&mut self, uid: &str, found: Option<(Upgrade, Vec<Report>)>, now: Instant) {
        let Some(entry) = self.upgrades.get_mut(uid) else {
            return;
        };
        let Some(archive) = &mut entry.archive else { return };
        archive.fail(now);
        let Some((upgrade, reports)) = found else { return };
        let same = upgrade.metadata.uid.as_deref() == Some(uid);
        if !same || crate::state::context::version(&upgrade) < crate::state::context::version(&entry.object) {
            return;
        }
        if entry.restore_from(&upgrade, &reports, now) {
            let spec = spec::resolve_spec(&upgrade, &self.settings.works, self.settings.operators_grace);
            entry.set_spec(spec, false);
            // Others may be waiting for clusters on which it is not at work any more.
            wake_conflicting(&mut self.upgrades);
        }
    }
}

#[cfg(test)]
mod tests;
