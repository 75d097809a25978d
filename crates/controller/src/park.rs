//! What is kept of an upgrade that is complete and has nothing left to do: numbers, versions and digests, in place of its
//! spec, selection and records. No I/O.
//!
//! A parked upgrade is not looked at. It is read anew from the hub, spec and reports, as soon as anything could alter what a
//! look at it would find: its spec, its annotations, its reports, works that carry its UID, or its selection.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use ahash::{AHashSet, RandomState};
use api::ManagedClustersUpgradeSpec;
use api::mcu::{ClusterSelector, UpgradeState};
use api::names::LABEL_CLUSTER_SET;
use api::report::Phase as RowPhase;
use api::views::{Report, Upgrade};

use crate::desk::Desk;
use crate::index::{Index, Key, News};
use crate::policy::{Brief, pending_retry};
use crate::report::rows::Rows;
use crate::selection::{self, Clusters, Selected};

/// How long an upgrade must have been at rest before it is parked.
pub const CALM: Duration = Duration::from_secs(5);
/// How long to wait after an upgrade could not be read.
pub const RETRY: Duration = Duration::from_secs(5);

static SEEDS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// What is kept of a parked upgrade beside its metadata and its status.
#[derive(Debug)]
pub struct Parked {
    /// The parts of the spec that select clusters, as JSON: ten thousand names take a third of the memory so.
    selecting: Box<[u8]>,
    /// Label keys that those parts name.
    keys: Vec<Box<str>>,
    /// Digest of the whole spec.
    spec: u64,
    /// Revision that all selected clusters are complete at.
    revision: Arc<str>,
    /// What its records say.
    pub records: Tally,
    /// Clusters that may have joined its selection since then.
    pub arrivals: AHashSet<Arc<str>>,
    /// Its selection may have changed: it is to be made anew and compared.
    pub stale: bool,
    /// It is to be read from the hub.
    pub wake: bool,
    /// It is being read.
    pub reading: bool,
    /// Not to be read before.
    pub retry_at: Option<Instant>,
}

/// The records of a parked upgrade, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Clusters that are complete: all.
    pub complete: usize,
    /// Digest of those that are selected.
    members: u64,
    /// Some record says something else than complete, or cannot be read.
    flawed: bool,
    /// Version of each shard on the hub; 0 where there is none.
    shards: Vec<u64>,
}

impl Tally {
    /// What the records and the selection of an upgrade say.
    fn of(selected: &Selected, rows: &Rows) -> Tally {
        Tally {
            complete: rows.all().len(),
            members: members(selected),
            flawed: false,
            shards: rows.versions(),
        }
    }

    /// Counts the rows of a report, all of which are taken once.
    fn add(&mut self, report: &Report, revision: &str) {
        let Some(rows) = report.rows.good() else {
            self.flawed = true;
            return;
        };
        for row in rows {
            let current = row.left_selection || row.revision == revision;
            self.flawed |= row.phase != RowPhase::Complete || !current;
            self.complete += 1;
            if !row.left_selection {
                self.members = self.members.wrapping_add(member(&row.cluster, row.canary));
            }
        }
    }
}

/// Digest of a selection; the order of clusters does not matter.
fn members(selected: &Selected) -> u64 {
    let each = selected
        .clusters
        .iter()
        .map(|(name, one)| member(name, one.canary));
    each.fold(0, u64::wrapping_add)
}

fn member(cluster: &str, canary: bool) -> u64 {
    SEEDS.hash_one((cluster, canary))
}

fn digest(spec: &ManagedClustersUpgradeSpec) -> u64 {
    SEEDS.hash_one(serde_json::to_vec(spec).unwrap_or_default())
}

/// The parts of a spec that select clusters.
fn selecting(spec: &ManagedClustersUpgradeSpec) -> ManagedClustersUpgradeSpec {
    let mut parts = ManagedClustersUpgradeSpec {
        placement: spec.placement.clone(),
        cluster_selector: spec.cluster_selector.clone(),
        ..ManagedClustersUpgradeSpec::default()
    };
    let canaries = &spec.upgrade_strategy.canary_clusters;
    parts.upgrade_strategy.canary_clusters.clone_from(canaries);
    parts
}

/// Label keys that a spec's selectors name.
fn keys(spec: &ManagedClustersUpgradeSpec) -> Vec<Box<str>> {
    let canaries = spec.upgrade_strategy.canary_clusters.as_ref();
    let selectors = spec
        .cluster_selector
        .iter()
        .chain(canaries.map(|canaries| &canaries.cluster_selector));
    let named = |selector: &ClusterSelector| {
        let labels = selector.match_labels.keys();
        let expressions = selector.match_expressions.iter().map(|one| &one.key);
        labels
            .chain(expressions)
            .map(|key| Box::from(key.as_str()))
            .collect::<Vec<_>>()
    };
    selectors.flat_map(named).collect()
}

/// The object without its spec.
fn without_spec(view: &Upgrade) -> Arc<Upgrade> {
    Arc::new(Upgrade {
        metadata: view.metadata.clone(),
        spec: api::lenient::Lenient::Absent,
        status: view.status.clone(),
    })
}

/// True when the status says that the spec as it is now is carried out, and nothing else is asked for.
fn is_told_complete(view: &Upgrade) -> bool {
    let meta = &view.metadata;
    let Some(status) = view.status.good() else {
        return false;
    };
    let finalizers = meta.finalizers.iter().flatten();
    status.state == Some(UpgradeState::Complete)
        && status.observed_generation == meta.generation
        && meta.deletion_timestamp.is_none()
        && pending_retry(view, status.observed_retry.as_deref()).is_none()
        && finalizers.into_iter().any(|one| one == api::names::FINALIZER)
}

impl Parked {
    fn new(view: &Upgrade, brief: &Brief, records: Tally) -> Parked {
        let parts = selecting(&brief.spec);
        Parked {
            selecting: serde_json::to_vec(&parts).unwrap_or_default().into(),
            keys: keys(&parts),
            spec: view.spec.good().map_or(0, digest),
            revision: Arc::clone(&brief.policy.revision),
            records,
            arrivals: AHashSet::new(),
            stale: false,
            wake: false,
            reading: false,
            retry_at: None,
        }
    }

    /// True when it is to be read now.
    #[must_use]
    pub fn is_to_be_read(&self, now: Instant) -> bool {
        self.wake && !self.reading && self.retry_at.is_none_or(|at| at <= now)
    }

    /// Takes a report that was told of; a version that is not known means that somebody changed or removed it.
    pub fn note(&mut self, shard: usize, version: u64, deleted: bool) {
        let shards = &mut self.records.shards;
        if shards.len() <= shard {
            shards.resize(shard + 1, 0);
        }
        let never_was = deleted && shards[shard] == 0;
        if version > shards[shard] && !never_was {
            shards[shard] = version;
            self.wake = true;
        }
    }

    /// The shards that exist.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        self.records.shards.iter().filter(|version| **version > 0).count()
    }

    /// True when a shard exists of which `seen` knows nothing.
    pub fn misses(&self, seen: impl Fn(usize) -> bool) -> bool {
        let mut shards = self.records.shards.iter().enumerate();
        shards.any(|(shard, version)| *version > 0 && !seen(shard))
    }

    fn spec(&self) -> Option<ManagedClustersUpgradeSpec> {
        serde_json::from_slice(&self.selecting).ok()
    }

    /// Takes news of clusters and Placements: what may alter the selection makes it stale.
    fn hear(&mut self, namespace: &str, stir: &Stir, index: &Index, require_bindings: bool) {
        self.stale |= stir.borders;
        let clusters = !stir.after_or_before_is_empty() && stir.concerns(&self.keys);
        if !clusters && stir.decided.is_empty() {
            return;
        }
        let Some(spec) = self.spec() else {
            self.wake = true;
            return;
        };
        for Decided { placement, came, any } in &stir.decided {
            let refers = spec.placement.iter().any(|reference| {
                let at = reference.namespace.as_deref().filter(|at| !at.is_empty());
                *placement.0 == *at.unwrap_or(namespace) && *placement.1 == *reference.name
            });
            if refers && *any {
                self.stale = true;
                self.arrivals.extend(came.iter().cloned());
            }
        }
        if clusters {
            let select = |clusters| {
                selection::select(&spec, namespace, clusters, &index.placements, require_bindings).clusters
            };
            let (before, after) = (select(&stir.before), select(&stir.after));
            if before != after {
                self.stale = true;
                let came = after.into_keys().filter(|name| !before.contains_key(name));
                self.arrivals.extend(came);
            }
        }
    }
}

/// A Placement whose decisions changed: the clusters that came, and whether any came or went.
#[derive(Debug)]
struct Decided {
    placement: Key,
    came: Vec<Arc<str>>,
    any: bool,
}

/// What changed since the last turn, as far as it may alter a selection.
#[derive(Debug, Default)]
pub struct Stir {
    before: Clusters,
    after: Clusters,
    /// Some cluster came, went, or may be selected no more or again.
    structural: bool,
    /// Label keys whose value changed somewhere.
    keys: AHashSet<Arc<str>>,
    /// Some set goes by labels, so any label may matter.
    any_key: bool,
    /// Placements whose decisions changed.
    decided: Vec<Decided>,
    borders: bool,
}

impl Stir {
    /// Reduces the news.
    #[must_use]
    pub fn new(news: News, index: &Index) -> Stir {
        let mut stir = Stir {
            borders: news.borders,
            any_key: index.placements.has_label_sets(),
            ..Stir::default()
        };
        for (name, before) in news.clusters {
            let after = index.clusters.get(&name);
            match (&before, after) {
                (Some(before), Some(after)) if before.selects_like(after) => continue,
                (Some(before), Some(after))
                    if before.terminating == after.terminating && before.accepted == after.accepted =>
                {
                    stir.keys.extend(before.differing_keys(after));
                }
                _ => stir.structural = true,
            }
            stir.before
                .extend(before.map(|before| (Arc::clone(&name), before)));
            stir.after
                .extend(after.map(|after| (Arc::clone(&name), Arc::clone(after))));
        }
        for (key, names) in news.decided {
            let now: AHashSet<&Arc<str>> = index.placements.decided(&key.0, &key.1).collect();
            let came = names.iter().filter(|name| now.contains(name)).cloned().collect();
            stir.decided.push(Decided {
                placement: key,
                came,
                any: !names.is_empty(),
            });
        }
        stir
    }

    /// True when no selection can have changed.
    #[must_use]
    pub fn is_still(&self) -> bool {
        !self.borders && self.decided.is_empty() && self.after_or_before_is_empty()
    }

    fn after_or_before_is_empty(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }

    fn concerns(&self, keys: &[Box<str>]) -> bool {
        let named = |key: &Arc<str>| **key == *LABEL_CLUSTER_SET || keys.iter().any(|one| **one == **key);
        self.structural || self.any_key || self.keys.iter().any(named)
    }
}

impl Desk {
    /// Parks an upgrade that came from the hub as complete. Whether its records say so, too, is not known yet.
    pub fn park_as_told(&mut self) {
        let Ok(brief) = self.brief.clone() else { return };
        if self.parked.is_none() && is_told_complete(&self.view) {
            self.put_away(Parked {
                wake: true,
                ..Parked::new(&self.view, &brief, Tally::default())
            });
        }
    }

    /// Parks an upgrade of which everything is written and nothing is to come. `works`: it has works.
    pub fn park_at_rest(&mut self, works: bool, now: Instant) -> bool {
        let rested = self.looked.is_some_and(|(at, _)| at + CALM <= now);
        let idle = self.busy.is_empty() && self.backoff.is_empty() && self.obstacles.is_empty();
        let awaited = self.dirty || self.wake_at.is_some() || self.finalizing || self.hurdle.is_some();
        if !self.at_rest || !rested || !idle || awaited || works || self.contested {
            return false;
        }
        let Ok(brief) = self.brief.clone() else {
            return false;
        };
        if !is_told_complete(&self.view) || !self.status.is_settled() || !self.rows.is_settled() {
            return false;
        }
        let tally = Tally::of(&self.selected, &self.rows);
        self.put_away(Parked::new(&self.view, &brief, tally));
        true
    }

    fn put_away(&mut self, parked: Parked) {
        self.view = without_spec(&self.view);
        self.parked = Some(Box::new(parked));
        self.brief = Err(Arc::default());
        self.last_valid = None;
        self.selected = Selected::default();
        self.selected_at = 0;
        self.rows = Rows::new(&self.name);
        for left in [&mut self.left, &mut self.missing] {
            left.clear();
            left.shrink_to_fit();
        }
        self.busy.shrink_to_fit();
        self.backoff.shrink_to_fit();
        self.obstacles.shrink_to_fit();
        self.at_rest = false;
        self.dirty = false;
        self.wake_at = None;
    }

    /// Takes a parked upgrade as the hub has it now. `concerns`: more than its status is new.
    pub fn take_parked(&mut self, new: &Upgrade, concerns: bool) {
        let Some(parked) = &mut self.parked else { return };
        let changed = new.spec.good().map_or(0, digest) != parked.spec;
        parked.wake |= changed || concerns || !is_told_complete(new);
        self.view = without_spec(new);
    }

    /// Puts a parked upgrade back to work, with the object and reports as they were read from the hub. False when news have
    /// come that are younger: it must be read again.
    pub fn unpark(&mut self, upgrade: Arc<Upgrade>, reports: &[Report], now: Instant) -> bool {
        let Some(parked) = &self.parked else { return false };
        let mut rows = Rows::new(&self.name);
        for report in reports {
            rows.observe(report, false, false, now);
        }
        let read = rows.versions();
        let known = parked.records.shards.iter().enumerate();
        let outdated = known
            .filter(|(shard, _)| read.get(*shard).is_some_and(|version| *version > 0))
            .any(|(shard, version)| read[shard] < *version);
        if outdated {
            return false;
        }
        self.parked = None;
        self.rows = rows;
        self.view = upgrade;
        self.dirty = true;
        self.looked = None;
        true
    }
}

impl crate::hall::State {
    /// Tells parked upgrades what changed.
    pub fn stir(&mut self, stir: &Stir) {
        if stir.is_still() {
            return;
        }
        let Self {
            desks,
            index,
            settings,
            ..
        } = self;
        for desk in desks.values_mut() {
            if let Some(parked) = &mut desk.parked {
                parked.hear(&desk.namespace, stir, index, settings.require_bindings);
            }
        }
    }

    /// Makes the selection of one parked upgrade anew, if that of any is stale; it is read from the hub if it changed. One at
    /// a time, so that many that are parked hold up none that is not. True when more of them are stale.
    pub fn review_parked(&mut self) -> bool {
        let Self {
            desks,
            index,
            settings,
            ..
        } = self;
        let stale = |desk: &&mut Desk| {
            desk.parked
                .as_ref()
                .is_some_and(|parked| parked.stale && !parked.wake)
        };
        let mut all = desks.values_mut().filter(stale);
        let Some(desk) = all.next() else { return false };
        let more = all.next().is_some();
        let mut waited_for = false;
        if let Some(parked) = &mut desk.parked {
            parked.stale = false;
            let namespace = &desk.namespace;
            let same = parked.spec().is_some_and(|spec| {
                let selected = selection::select(
                    &spec,
                    namespace,
                    &index.clusters,
                    &index.placements,
                    settings.require_bindings,
                );
                !selected.clusters.is_empty() && members(&selected) == parked.records.members
            });
            if same {
                waited_for = !parked.arrivals.is_empty();
                parked.arrivals.clear();
            } else {
                parked.wake = true;
            }
        }
        if waited_for {
            crate::pipeline::wake_contested(&mut self.desks);
        }
        more
    }

    /// Parks what may be parked.
    pub fn park(&mut self, now: Instant) {
        let Self {
            desks,
            index,
            settings,
            ..
        } = self;
        for desk in desks.values_mut() {
            if desk.at_rest && settings.serves(&desk.namespace) {
                let works = !index.clusters_of(&desk.uid).is_empty();
                desk.park_at_rest(works, now);
            }
        }
    }

    /// The parked upgrades that are to be read from the hub now; counted as being read.
    pub fn to_be_read(&mut self, now: Instant) -> Vec<(Arc<str>, Arc<str>, Arc<str>)> {
        let mut found = Vec::new();
        for desk in self.desks.values_mut() {
            if let Some(parked) = &mut desk.parked
                && parked.is_to_be_read(now)
            {
                parked.reading = true;
                found.push((
                    Arc::clone(&desk.uid),
                    Arc::clone(&desk.namespace),
                    Arc::clone(&desk.name),
                ));
            }
        }
        found
    }

    /// Takes a parked upgrade as it was read from the hub; `None` when it could not be read.
    pub fn was_read(&mut self, uid: &str, found: Option<(Upgrade, Vec<Report>)>, now: Instant) {
        let Some(desk) = self.desks.get_mut(uid) else {
            return;
        };
        let Some(parked) = &mut desk.parked else { return };
        parked.reading = false;
        parked.retry_at = Some(now + RETRY);
        let Some((upgrade, reports)) = found else { return };
        let same = upgrade.metadata.uid.as_deref() == Some(uid);
        if !same || crate::hall::version(&upgrade) < crate::hall::version(&desk.view) {
            return;
        }
        let brief = crate::policy::brief(&upgrade, &self.settings.works, self.settings.operators_grace);
        let upgrade = Arc::new(upgrade);
        if desk.unpark(Arc::clone(&upgrade), &reports, now) {
            desk.status.observe(upgrade.status.good());
            desk.take_spec(brief, false);
        }
    }

    /// Begins to take the records of a new term: nothing that was known counts.
    pub fn begin_records(&mut self) {
        self.reading = true;
        self.index.ended.clear();
        self.index.news = News::default();
        for desk in self.desks.values_mut() {
            desk.begin_term();
            if self.settings.serves(&desk.namespace) {
                desk.park_as_told();
            }
            if let Some(parked) = &mut desk.parked {
                desk.dirty = false;
                parked.records = Tally::default();
                parked.arrivals.clear();
                parked.wake = false;
                parked.reading = false;
                parked.retry_at = None;
            }
        }
    }

    /// Takes some of the records of a new term.
    pub fn take_records(&mut self, reports: &[Report]) {
        for report in reports {
            self.observe_report(report, false, false);
        }
    }

    /// All records of a new term were taken. What is said to be complete must be so by its records and its selection.
    pub fn end_records(&mut self) {
        self.reading = false;
        let Self { desks, index, .. } = self;
        for desk in desks.values_mut() {
            let works = !index.clusters_of(&desk.uid).is_empty();
            if let Some(parked) = &mut desk.parked {
                parked.wake |= works || parked.records.flawed || parked.records.complete == 0;
                parked.stale = true;
            }
        }
    }
}

impl Parked {
    /// Takes a report of a new term.
    pub fn count(&mut self, report: &Report, shard: usize, version: u64, deleted: bool) {
        let shards = &mut self.records.shards;
        if shards.len() <= shard {
            shards.resize(shard + 1, 0);
        }
        if version <= shards[shard] {
            return;
        }
        // Counted already, and changed while all were read.
        self.wake |= shards[shard] > 0 || deleted;
        shards[shard] = version;
        let revision = Arc::clone(&self.revision);
        self.records.add(report, &revision);
    }
}

#[cfg(test)]
#[path = "park_tests.rs"]
mod tests;
