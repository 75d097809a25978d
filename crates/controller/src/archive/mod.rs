//! What is kept of an upgrade that is complete and has nothing left to do: counts and digests, in place of its spec, its
//! selection and its records. No I/O but in [`read`].
//!
//! An archived upgrade is not looked at. Its object and reports are read from the hub again as soon as anything could change
//! what a look would find: the object, its reports, a work with its UID, or its selection.

mod read;
mod selector;

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use ahash::RandomState;
use api::mcu::UpgradeState;
use api::names::report_name;
use api::report::Phase;
use api::stored::StoredRow;
use api::views::{Report, Upgrade};
use chrono::{DateTime, Utc};

pub use read::{Wanted, read};
use selector::Selector;

use crate::desk::Desk;
use crate::hall::{Belonging, State, belongs};
use crate::index::{Index, SelectionNews};
use crate::pipeline::has_finalizer;
use crate::policy::{self, Brief, pending_retry};
use crate::report::kept::is_stand_in;
use crate::report::rows::Rows;
use crate::restore::{self, Origin};
use crate::selection::{Clusters, Selected};

/// How long an upgrade must have been at rest before it is archived.
const REST: Duration = Duration::from_secs(5);
/// Shortest time between two comparisons of selections with records, and how many times longer than one it is.
const INTERVAL: (Duration, u32) = (Duration::from_millis(25), 4);
/// So long younger upgrades wait for what is not known yet of an archived one.
const DEFERENCE: Duration = Duration::from_secs(10);
/// First and longest wait after an upgrade could not be read.
const RETRY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(1));
/// Most upgrades that are read at a time: each is in memory as a whole meanwhile.
const READS: usize = 4;

/// Keys of the digests: of this process alone, so that nobody can make two that are equal.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// An archived upgrade, beside its metadata and status.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one upgrade")]
pub struct Archive {
    /// What selects its clusters. `None`: it was complete before it was restored, and selects none.
    selector: Option<Selector>,
    /// Its reports, by number.
    shards: Vec<Shard>,
    /// Digest of the notes of its selection, once that was found to be that of the records.
    notes: Option<u64>,
    /// The selection or the records may have changed: they are to be compared.
    stale: bool,
    /// Clusters with a record that have left the selection: their records go with them.
    left: Vec<Arc<str>>,
    /// The object and its reports are to be read from the hub.
    wanted: bool,
    /// The object does not say yet that it was complete: they are to be read when there is nothing else to do.
    unnoted: bool,
    /// Since when it is stale or wanted.
    unresolved: Option<Instant>,
    /// They are being read.
    reading: bool,
    /// So often they could not be read, and when to try again.
    failures: u32,
    retry_at: Option<Instant>,
}

/// What is kept of a report.
#[derive(Clone, Copy, Debug, Default)]
struct Shard {
    /// Resource version.
    version: u64,
    exists: bool,
    rows: usize,
    /// Digest of the clusters that have not left the selection.
    members: u64,
    /// Something in it says other than that a cluster is complete.
    unfinished: bool,
}

/// Digest of the clusters of a selection; their order does not matter.
fn members<'a>(clusters: impl Iterator<Item = (&'a str, bool)>) -> u64 {
    clusters
        .map(|member| KEYS.hash_one(member))
        .fold(0, u64::wrapping_add)
}

fn digest_of_notes(selected: &Selected) -> u64 {
    KEYS.hash_one(&selected.notes)
}

impl Shard {
    fn of(report: &Report, version: u64, revision: Option<&str>) -> Shard {
        let finished = |row: &StoredRow| {
            row.row.as_ref().is_ok_and(|row| {
                let current = row.left_selection || revision == Some(&*row.revision);
                row.phase == Phase::Complete && current && !is_stand_in(row)
            })
        };
        let rows = &report.rows.rows;
        let readable = rows.iter().filter_map(|row| row.row.as_ref().ok());
        let present = readable.filter(|row| !row.left_selection);
        Shard {
            version,
            exists: true,
            rows: rows.len(),
            members: members(present.map(|row| (&*row.cluster, row.canary))),
            unfinished: report.rows.error.is_some() || !rows.iter().all(finished),
        }
    }
}

impl Archive {
    /// Of an upgrade with these records, as far as they are known yet. `notes`: of its selection when it was looked at.
    fn new(selector: Option<Selector>, rows: &Rows, notes: Option<u64>) -> Archive {
        let revision = selector.as_ref().map(Selector::revision);
        let mut shards: Vec<Shard> = rows
            .versions()
            .into_iter()
            .map(|(version, exists)| Shard {
                version,
                exists,
                ..Shard::default()
            })
            .collect();
        let mut left = Vec::new();
        for (name, row) in rows.all() {
            let shard = &mut shards[row.shard()];
            shard.rows += 1;
            if row.left {
                left.push(Arc::clone(name));
            } else {
                let one = members(std::iter::once((&**name, row.canary)));
                shard.members = shard.members.wrapping_add(one);
            }
            shard.unfinished |= !row.is_finished(revision);
        }
        Archive {
            selector,
            shards,
            notes,
            stale: true,
            left,
            wanted: false,
            unnoted: false,
            unresolved: None,
            reading: false,
            failures: 0,
            retry_at: None,
        }
    }

    /// Number of records; all are of clusters that are complete.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.shards.iter().map(|shard| shard.rows).sum()
    }

    /// Number of reports on the hub.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        self.shards.iter().filter(|shard| shard.exists).count()
    }

    /// The object and its reports are to be read from the hub.
    pub fn want(&mut self, now: Instant) {
        self.wanted = true;
        self.unresolved.get_or_insert(now);
    }

    /// A term begins: reports are told anew.
    pub fn begin_term(&mut self) {
        self.shards.clear();
        self.left.clear();
        self.stale = true;
        self.end_term();
    }

    /// A term ends, and with it what is being read.
    pub const fn end_term(&mut self) {
        self.reading = false;
        self.failures = 0;
        self.retry_at = None;
        self.unresolved = None;
    }

    /// Takes a report; `None` when it is gone.
    pub fn observe(&mut self, shard: usize, version: u64, report: Option<&Report>) {
        if self.shards.len() <= shard {
            self.shards.resize(shard + 1, Shard::default());
        }
        let known = &mut self.shards[shard];
        if version <= known.version {
            return;
        }
        let revision = self.selector.as_ref().map(Selector::revision);
        *known = report.map_or(
            Shard {
                version,
                ..Shard::default()
            },
            |report| Shard::of(report, version, revision),
        );
        if let Some(report) = report {
            let readable = report.rows.rows.iter().filter_map(|row| row.row.as_ref().ok());
            let left = readable.filter(|row| row.left_selection);
            self.left.extend(left.map(|row| Arc::from(row.cluster.as_str())));
        }
        self.stale = true;
    }

    /// Takes a complete list of reports, of which `seen` tells the numbers and `newest` the newest version.
    pub fn relist(&mut self, seen: impl Fn(usize) -> bool, newest: u64) {
        for (number, shard) in self.shards.iter_mut().enumerate() {
            if shard.exists && shard.version <= newest && !seen(number) {
                *shard = Shard::default();
                self.stale = true;
            }
        }
    }

    /// Takes what changed that may alter selections.
    fn hear(&mut self, news: &SelectionNews, namespace: &str) {
        self.stale |= self
            .selector
            .as_ref()
            .is_some_and(|selector| selector.is_concerned(news, namespace));
    }

    /// True when the records are all of clusters that are complete, and of exactly those that are selected. `clusters`: all
    /// there are.
    fn is_confirmed(&mut self, selected: Option<&Selected>, clusters: &Clusters) -> bool {
        let unfinished = self.shards.iter().any(|shard| shard.unfinished);
        if unfinished || self.left.iter().any(|name| !clusters.contains_key(name)) {
            return false;
        }
        let Some(selected) = selected else {
            return self.selector.is_none() && self.rows() == 0;
        };
        let recorded = self
            .shards
            .iter()
            .fold(0, |sum: u64, shard| sum.wrapping_add(shard.members));
        let clusters = selected.clusters.iter();
        let same = members(clusters.map(|(name, member)| (&**name, member.canary))) == recorded;
        // Notes that were there when it was looked at stand in its status.
        let notes = digest_of_notes(selected);
        let told = self
            .notes
            .map_or(selected.notes.is_empty(), |known| known == notes);
        self.notes = Some(notes);
        same && told && self.rows() > 0
    }

    /// True when there is something to do for it.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        (self.stale || self.wanted) && !self.reading
    }

    fn is_to_be_read(&self, now: Instant) -> bool {
        (self.wanted || self.unnoted) && !self.reading && self.retry_at.is_none_or(|at| at <= now)
    }

    /// Notes that it could not be read: it is tried again ever less often.
    fn fail(&mut self, now: Instant) {
        let wait = RETRY.0.saturating_mul(1 << self.failures.min(10));
        self.reading = false;
        self.retry_at = Some(now + wait.min(RETRY.1));
        self.failures += 1;
    }

    /// True when one of the shards is known in a newer version than `read` says.
    fn is_newer_than(&self, read: &[(u64, bool)]) -> bool {
        let mut shards = self.shards.iter().enumerate();
        shards.any(|(number, shard)| match read.get(number) {
            Some((version, _)) if *version > 0 => *version < shard.version,
            _ => shard.exists,
        })
    }

    /// True when the selection may contain a cluster.
    #[must_use]
    pub fn may_select(&self, namespace: &str, cluster: &str, index: &Index, require_bindings: bool) -> bool {
        let selected = |selector: &Selector| selector.select(namespace, index, require_bindings);
        self.selector
            .as_ref()
            .is_none_or(|selector| selected(selector).clusters.contains_key(cluster))
    }
}

/// True when the object says of itself that its present spec is carried out, and asks for nothing else. Whether its records
/// say so, too, is found out when they are compared.
fn is_told_complete(desk: &Desk) -> bool {
    let view = &desk.view;
    let (Some(status), Ok(brief)) = (view.status.good(), &desk.brief) else {
        return false;
    };
    status.state == Some(UpgradeState::Complete)
        && status.observed_generation == view.metadata.generation
        && !desk.is_deleting()
        && has_finalizer(desk)
        && pending_retry(view, status.observed_retry.as_deref()).is_none()
        && brief.generation == view.metadata.generation.unwrap_or(0)
}

/// True when the object notes in its annotations, too, that it was complete.
fn is_noted(desk: &Desk) -> bool {
    let noted = |brief: &Arc<Brief>| restore::is_noted_complete(desk, &brief.policy.revision);
    desk.brief.as_ref().is_ok_and(noted)
}

/// True when news of the object may change what a look would find.
pub fn concerns(old: &Upgrade, new: &Upgrade) -> bool {
    crate::hall::concerns_planning(old, new) || old.spec != new.spec || old.status != new.status
}

impl Desk {
    /// Archives an upgrade that comes from the hub as complete.
    pub fn archive_as_told(&mut self) {
        if self.archive.is_none() && is_told_complete(self) {
            let runs_no_more = restore::is_carried_over(self);
            let brief = self.brief.as_ref().ok().filter(|_| !runs_no_more);
            let selector = brief.map(|brief| Selector::new(brief));
            let mut archive = Archive::new(selector, &self.rows, None);
            archive.unnoted = !is_noted(self);
            self.put_away(archive);
        }
    }

    /// Archives an upgrade of which everything is written and nothing is to come. `idle`: it has no works.
    fn archive_at_rest(&mut self, idle: bool, clusters: &Clusters, now: Instant) {
        let rested = self.looked.is_some_and(|(at, _)| at + REST <= now);
        let waits = self.dirty || self.wake_at.is_some() || self.finalizing || self.hurdle.is_some();
        let restored = matches!(self.origin, Origin::Restored(_));
        if self.archive.is_some() || !rested || waits || restored || !idle || self.has_open_matters() {
            return;
        }
        if !is_told_complete(self) || !is_noted(self) || !self.status.is_settled() {
            return;
        }
        let Ok(brief) = self.brief.clone() else { return };
        let before = matches!(self.origin, Origin::CompletedBefore(_));
        if !self.rows.is_settled() {
            return;
        }
        let selector = (!before).then(|| Selector::new(&brief));
        let notes = digest_of_notes(&self.selected);
        let mut archive = Archive::new(selector, &self.rows, Some(notes));
        if archive.is_confirmed((!before).then_some(&self.selected), clusters) {
            self.put_away(archive);
        }
    }

    fn put_away(&mut self, archive: Archive) {
        let Some(mut empty) = Desk::new(Arc::clone(&self.view)) else {
            return;
        };
        empty.status.observe(self.view.status.good());
        empty.noted = self.noted.take();
        empty.rows.follow(&self.rows);
        empty.dirty = false;
        empty.archive = Some(Box::new(archive));
        *self = empty;
    }

    /// What to read of it.
    fn begin_reading(&mut self) -> Option<Wanted> {
        let archive = self.archive.as_mut()?;
        archive.reading = true;
        // A report that the watch calls deleted may only have lost its label.
        let shards = archive
            .shards
            .iter()
            .enumerate()
            .filter(|(_, shard)| shard.version > 0);
        Some(Wanted {
            uid: Arc::clone(&self.uid),
            namespace: Arc::clone(&self.namespace),
            name: Arc::clone(&self.name),
            reports: shards
                .map(|(number, _)| report_name(&self.name, number + 1))
                .collect(),
        })
    }

    /// Puts an archived upgrade back to work, as it was read from the hub. False when it has changed since: it must be read
    /// again.
    fn restore_from(&mut self, upgrade: &Upgrade, reports: &[Report], now: Instant) -> bool {
        let mut rows = Rows::new(&self.name);
        rows.follow(&self.rows);
        for report in reports {
            if belongs(report, self) == Belonging::Ours {
                rows.observe(report, false, false, now);
            }
        }
        let outdated = |archive: &Archive| archive.is_newer_than(&rows.versions());
        if self.archive.as_deref().is_none_or(outdated) {
            return false;
        }
        self.archive = None;
        self.rows = rows;
        self.view = Arc::new(upgrade.clone().without_spec_text());
        self.status.observe(self.view.status.good());
        self.looked = None;
        self.unarchived = Some(now);
        self.dirty = true;
        true
    }
}

impl State {
    /// Archives the upgrades that are at rest.
    pub fn archive_at_rest(&mut self, now: Instant) {
        let State {
            index,
            desks,
            settings,
            ..
        } = self;
        for desk in desks.values_mut().filter(|desk| settings.serves(&desk.namespace)) {
            if desk.archive.is_none() && desk.looked.is_some_and(|(at, _)| at + REST <= now) {
                let idle = !index.has_works(&desk.uid);
                desk.archive_at_rest(idle, &index.clusters, now);
            }
        }
    }

    /// Tells archived upgrades what changed since the last call.
    pub(crate) fn hear_selection_news(&mut self) {
        let news = std::mem::take(&mut self.index.selection_news);
        if news.is_empty() {
            return;
        }
        for desk in self.desks.values_mut() {
            if let Some(archive) = &mut desk.archive {
                archive.hear(&news, &desk.namespace);
            }
        }
    }

    /// Compares the selections of archived upgrades that may have changed with their records.
    pub fn compare(&mut self, now: Instant) {
        if self.compare_at > now {
            return;
        }
        let begun = Instant::now();
        let State {
            index,
            desks,
            settings,
            ..
        } = self;
        for desk in desks.values_mut() {
            let Some(archive) = &mut desk.archive else {
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
                .map(|selector| selector.select(&desk.namespace, index, settings.require_bindings));
            let idle = !index.has_works(&desk.uid);
            archive.wanted |= !idle || !archive.is_confirmed(selected.as_ref(), &index.clusters);
            if !archive.wanted {
                archive.unresolved = None;
            }
        }
        self.compare_at = now + INTERVAL.0.max(begun.elapsed() * INTERVAL.1);
    }

    /// The order of the oldest archived upgrade of which it is not known yet whether it goes on; younger ones wait for that,
    /// but not for ever.
    pub(crate) fn oldest_unresolved(&self, now: Instant) -> Option<(DateTime<Utc>, Arc<str>)> {
        let open = |desk: &&Desk| {
            !desk.is_deleting()
                && desk.archive.as_ref().is_some_and(|archive| {
                    let since = archive.unresolved.unwrap_or(now);
                    (archive.stale || archive.wanted) && now < since + DEFERENCE
                })
        };
        let oldest = self.desks.values().filter(open).min_by_key(|desk| desk.order())?;
        Some((oldest.created, Arc::clone(&oldest.key)))
    }

    /// When archived upgrades are to be compared or read next, or are waited for no longer, if any is.
    pub(crate) fn archives_at(&self, now: Instant) -> Option<Instant> {
        let at = |desk: &Desk| {
            let archive = desk.archive.as_ref()?;
            let compare = archive.stale.then(|| self.compare_at.max(now));
            let read = (archive.wanted && !archive.reading).then(|| archive.retry_at.unwrap_or(now));
            let deferred = archive.unresolved.filter(|_| archive.wanted);
            let deferred = deferred.map(|since| since + DEFERENCE);
            let deferred = deferred.filter(|at| *at > now);
            [compare, read, deferred].into_iter().flatten().min()
        };
        self.desks.values().filter_map(at).min()
    }

    /// The archived upgrades to read from the hub now; they count as being read. Those that are only to be noted come last.
    pub fn to_be_read(&mut self, now: Instant) -> Vec<Wanted> {
        let reading = |desk: &&Desk| desk.archive.as_ref().is_some_and(|archive| archive.reading);
        let recent = |desk: &&Desk| desk.unarchived.is_some_and(|at| now < at + REST + INTERVAL.0);
        let recent = self.desks.values().filter(recent).count();
        let mut free = READS.saturating_sub(self.desks.values().filter(reading).count());
        let mut due: Vec<(bool, &mut Desk)> = Vec::new();
        for desk in self.desks.values_mut() {
            if let Some(archive) = desk.archive.as_ref().filter(|archive| archive.is_to_be_read(now)) {
                due.push((!archive.wanted, desk));
            }
        }
        due.sort_by_key(|(only_to_note, desk)| (*only_to_note, desk.created));
        let mut found = Vec::new();
        for (only_to_note, desk) in due {
            let room = if only_to_note {
                free.saturating_sub(recent)
            } else {
                free
            };
            if room > 0 {
                free -= 1;
                found.extend(desk.begin_reading());
            }
        }
        found
    }

    /// Takes an archived upgrade and its reports as they were read from the hub; `None` when that failed, or it is not there.
    pub fn was_read(&mut self, uid: &str, found: Option<(Upgrade, Vec<Report>)>, now: Instant) {
        let Some(desk) = self.desks.get_mut(uid) else {
            return;
        };
        let Some(archive) = &mut desk.archive else { return };
        archive.fail(now);
        let Some((upgrade, reports)) = found else { return };
        let same = upgrade.metadata.uid.as_deref() == Some(uid);
        if !same || crate::hall::version(&upgrade) < crate::hall::version(&desk.view) {
            return;
        }
        if desk.restore_from(&upgrade, &reports, now) {
            let brief = policy::brief(&upgrade, &self.settings.works, self.settings.operators_grace);
            desk.take_spec(brief, false);
        }
    }
}

#[cfg(test)]
mod tests;
