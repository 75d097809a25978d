//! Builds the fleet that the planner sees from the index and the upgrade's entry. No I/O.
//!
//! A work counts for an upgrade only if the upgrade selects the cluster or has a record of it. Anyone who may
//! write works in the cluster's namespace can set the labels, and must not be able to add a cluster to
//! someone else's upgrade.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::sync::Arc;

use ahash::AHashMap;
use api::names::Step;
use chrono::{DateTime, Utc};
use rollout::{Cluster, Eligibility, Fleet, Phase, Reason, Rival, RivalHold, Selection, Stage, StepWork};

use crate::observe::eligibility::eligibility;
use crate::observe::index::{ClusterView, ClusterWorks, Index};
use crate::observe::selection::{self, Member};
use crate::report::row::Row;
use crate::state::backoff::BlockerKind;
use crate::state::upgrade::{LASTING_AFTER, MISSING_RETRY, UpgradeEntry, Upgrades};

/// Updates the selection of an upgrade from the index. Returns true if it changed.
pub fn refresh_selection(entry: &mut UpgradeEntry, index: &Index, require_bindings: bool) -> bool {
    let Some(spec) = entry.in_force().cloned() else {
        return false;
    };
    if entry.selected_at == index.epoch + 1 {
        return false;
    }
    entry.selected_at = index.epoch + 1;
    let selected = selection::select(
        &spec.fields,
        &entry.namespace,
        &index.clusters,
        &index.placements,
        require_bindings,
    );
    let changed = selected != entry.selected;
    entry.selected = selected;
    changed
}

/// Records which clusters will be queued again although their claims do not show the version yet that this
/// upgrade has installed. Their works are gone, and a claim follows only minutes later. The entry counts
/// until the claim changes.
pub fn note_proven(entry: &mut UpgradeEntry, index: &Index) {
    let Some(revision) = entry.in_force().map(|spec| Arc::clone(&spec.policy.revision)) else {
        return;
    };
    let claim = |name: &Arc<str>| index.clusters.get(name).map(|cluster| &cluster.version);
    entry.proven.retain(|name, (_, known)| claim(name) == Some(known));
    for (name, row) in entry.rows.all() {
        let record = &row.record;
        let queued = record.attempt.revision != revision && record.succeeded(Stage::Platform);
        if queued
            && !row.target.is_empty()
            && let Some(claim) = claim(name)
            && (claim.is_empty() || *claim == record.from_version)
        {
            let known = (Arc::clone(&row.target), Arc::clone(claim));
            entry.proven.insert(Arc::clone(name), known);
        }
    }
}

/// What other upgrades hold, by cluster, as far as it concerns `entry`.
fn rivals(entry: &UpgradeEntry, upgrades: &Upgrades) -> AHashMap<Arc<str>, Rival> {
    let mut found = AHashMap::new();
    let mut others: Vec<&UpgradeEntry> = upgrades.values().filter(|other| other.uid != entry.uid).collect();
    others.sort_by(|a, b| a.order().cmp(&b.order()));
    for other in others {
        let mut note = |cluster: &Arc<str>, hold| {
            found.entry(Arc::clone(cluster)).or_insert_with(|| Rival {
                upgrade: Arc::clone(&other.key),
                hold,
            });
        };
        // The first work of the other upgrade may not have arrived yet, or its next one may be about to be
        // created.
        for cluster in in_flight(other).filter(|cluster| concerns(entry, cluster)) {
            note(cluster, at_work(other, cluster));
        }
        if other.order() > entry.order() || other.is_deleting() || other.spec.is_err() {
            continue;
        }
        let selected = other.selected.clusters.keys();
        for cluster in selected.filter(|cluster| entry.selected.clusters.contains_key(*cluster)) {
            // This upgrade finishes what it has started on the cluster, and the older upgrade waits for that.
            if has_upgraded(entry, cluster) {
                continue;
            }
            let row = other.rows.get(cluster).map(|row| &row.record);
            match row.map(|record| (record.phase, record.reason)) {
                // The other upgrade will not change the cluster, neither by itself nor after other upgrades
                // are done with it.
                Some(
                    (Phase::Complete | Phase::Failed, _)
                    | (Phase::Pending, Reason::Restored)
                    | (Phase::Blocked, Reason::NewerThanTarget),
                ) => {}
                Some((phase, reason)) if waits_for_a_human(phase, reason) => note(cluster, RivalHold::Stuck),
                _ => note(cluster, RivalHold::Active),
            }
        }
    }
    found
}

/// Clusters that an upgrade is processing, whether or not a work exists at the moment.
fn in_flight(other: &UpgradeEntry) -> impl Iterator<Item = &Arc<str>> {
    let busy = other
        .busy
        .iter()
        .filter(|(_, writes)| writes.starting)
        .map(|(cluster, _)| cluster);
    let rows = other.rows.all().iter().filter(|_| !other.is_deleting());
    busy.chain(other.unsettled.keys()).chain(
        rows.filter(|(_, row)| {
            row.record.phase.holds_slot() || matches!(row.record.phase, Phase::Soaking | Phase::PostAction)
        })
        .map(|(cluster, _)| cluster),
    )
}

/// True when the platform of a cluster was upgraded and the cluster is not complete yet.
fn has_upgraded(entry: &UpgradeEntry, cluster: &str) -> bool {
    entry.rows.get(cluster).is_some_and(|row| {
        let record = &row.record;
        matches!(record.phase, Phase::Pending | Phase::Blocked) && record.succeeded(Stage::Platform)
    })
}

fn concerns(entry: &UpgradeEntry, cluster: &str) -> bool {
    entry.selected.clusters.contains_key(cluster) || entry.rows.get(cluster).is_some()
}

fn waits_for_a_human(phase: Phase, reason: Reason) -> bool {
    let gates = [
        Reason::InvalidSpec,
        Reason::Paused,
        Reason::Restored,
        Reason::CanaryFailed,
        Reason::NoCanarySelected,
        Reason::MaxFailuresExceeded,
    ];
    match phase {
        Phase::PreActionDegraded => true,
        Phase::Pending => gates.contains(&reason),
        Phase::Blocked => reason != Reason::Conflict,
        _ => false,
    }
}

/// What an upgrade holds on a cluster in flight. Without a valid spec, or if its post-action is blocked, it
/// cannot continue until a human acts.
fn at_work(owner: &UpgradeEntry, cluster: &Arc<str>) -> RivalHold {
    let blocked = || {
        let record = owner.rows.get(cluster).map(|row| &row.record);
        record.is_some_and(|record| record.phase == Phase::PostAction && record.reason == Reason::WorkRefused)
            || owner.has_foreign(cluster, Step::PostAction)
    };
    if blocked() || owner.in_force().is_none() {
        RivalHold::Stuck
    } else {
        RivalHold::Active
    }
}

/// What the owner of a rival work is doing with the cluster (`docs/design/rules.md#giving-way`).
fn hold_of(entry: &UpgradeEntry, owner: Option<&UpgradeEntry>, cluster: &Arc<str>) -> RivalHold {
    let Some(owner) = owner else {
        return RivalHold::Yielding;
    };
    let older = owner.order() < entry.order();
    let Some(row) = owner.rows.get(cluster) else {
        return at_work(owner, cluster);
    };
    // The works stay until the end is recorded. Otherwise the next leader would find neither and treat the
    // cluster as unfinished.
    let recorded = row
        .written
        .as_ref()
        .is_some_and(|written| written.phase == row.record.phase);
    match row.record.phase {
        Phase::Complete if recorded => RivalHold::Yielding,
        Phase::Failed if older && recorded => RivalHold::Yielding,
        Phase::Failed if !older => RivalHold::Stuck,
        phase if waits_for_a_human(phase, row.record.reason) => RivalHold::Stuck,
        _ => at_work(owner, cluster),
    }
}

/// The upgrade's view of the hub.
#[derive(Debug, Default)]
pub struct Observation {
    /// Every cluster that the upgrade selects or has a record of.
    pub fleet: Fleet,
    /// Clusters that the upgrade neither selects nor has a record of, but where works carry its UID. Nothing
    /// is done there.
    pub unaccounted: Vec<Arc<str>>,
}

/// Observes an upgrade. `owned`: clusters with works that carry its UID, sorted. `upgrades`: all upgrades.
/// `allow_hub`: the hub itself may be upgraded. An upgrade that is being deleted also sees clusters that have
/// left its selection, to clean up there.
#[must_use]
pub fn observe(
    entry: &UpgradeEntry,
    upgrades: &Upgrades,
    index: &Index,
    owned: &[Arc<str>],
    allow_hub: bool,
    now: DateTime<Utc>,
) -> Observation {
    let platform = entry
        .in_force()
        .is_some_and(|spec| spec.fields.cluster_version.is_some());
    let rivals = if upgrades.keys().all(|uid| *uid == entry.uid) {
        AHashMap::new()
    } else {
        rivals(entry, upgrades)
    };
    let view = FleetView {
        entry,
        upgrades,
        index,
        rivals,
        platform,
        incomplete: entry.rows.is_incomplete(),
        allow_hub,
        now,
    };
    // All lists are sorted by name, so one pass over them is enough. That matters because ten thousand
    // clusters are observed several times a second.
    let mut members = Cursor::new(&entry.selected.clusters);
    let mut rows = Cursor::new(entry.rows.all());
    let mut owned = Cursor::new(owned.iter().map(|name| (name, ())));
    let mut managed = Cursor::new(&index.clusters);
    let mut clusters = Vec::with_capacity(entry.rows.all().len().max(entry.selected.clusters.len()));
    let mut unaccounted = Vec::new();
    while let Some(name) = first([members.name(), rows.name(), owned.name()]) {
        owned.take(name);
        let known = KnownCluster {
            member: members.take(name).copied(),
            row: rows.take(name),
            managed: managed.take(name).map(AsRef::as_ref),
        };
        // A start with an unknown result may have left a work before there is a record.
        let counts = known.member.is_some() || known.row.is_some() || entry.unsettled.contains_key(name);
        if counts || (entry.is_deleting() && entry.former.contains(name)) {
            clusters.push(view.cluster(name, &known));
        } else if view.has_works(name) {
            unaccounted.push(Arc::clone(name));
        }
    }
    Observation {
        fleet: Fleet { clusters },
        unaccounted,
    }
}

/// The first of the names in sort order.
fn first<'a>(names: [Option<&'a Arc<str>>; 3]) -> Option<&'a Arc<str>> {
    let earlier = |a: &'a Arc<str>, b: &'a Arc<str>| if Arc::ptr_eq(a, b) || a <= b { a } else { b };
    names.into_iter().flatten().reduce(earlier)
}

/// An iterator over entries sorted by name. Names are shared, so most equal names are recognized without
/// reading them.
struct Cursor<'a, T, I: Iterator<Item = (&'a Arc<str>, T)>> {
    ahead: Peekable<I>,
}

impl<'a, T, I: Iterator<Item = (&'a Arc<str>, T)>> Cursor<'a, T, I> {
    fn new(sorted: impl IntoIterator<IntoIter = I>) -> Self {
        Cursor {
            ahead: sorted.into_iter().peekable(),
        }
    }

    /// The next name.
    fn name(&mut self) -> Option<&'a Arc<str>> {
        self.ahead.peek().map(|(name, _)| *name)
    }

    /// The entry with this name, if any. Skips all entries before it.
    fn take(&mut self, name: &Arc<str>) -> Option<T> {
        loop {
            let (next, _) = self.ahead.peek()?;
            let order = if Arc::ptr_eq(next, name) {
                Ordering::Equal
            } else {
                (*next).cmp(name)
            };
            match order {
                Ordering::Less => drop(self.ahead.next()),
                Ordering::Equal => return self.ahead.next().map(|(_, found)| found),
                Ordering::Greater => return None,
            }
        }
    }
}

struct FleetView<'a> {
    entry: &'a UpgradeEntry,
    upgrades: &'a Upgrades,
    index: &'a Index,
    rivals: AHashMap<Arc<str>, Rival>,
    platform: bool,
    /// The upgrade may have rows that are not known.
    incomplete: bool,
    allow_hub: bool,
    now: DateTime<Utc>,
}

/// What is known of a cluster by name.
struct KnownCluster<'a> {
    member: Option<Member>,
    row: Option<&'a Row>,
    managed: Option<&'a ClusterView>,
}

impl FleetView<'_> {
    fn cluster(&self, name: &Arc<str>, known: &KnownCluster<'_>) -> Cluster {
        let entry = self.entry;
        let KnownCluster { member, row, managed } = *known;
        let missing = entry
            .missing
            .get(name)
            .is_some_and(|since| self.now < *since + MISSING_RETRY);
        let mut rival = self.rivals.get(name).cloned();
        let works = self.index.works(name);
        let slots = self.slots(name, works, &mut rival);
        let selection = match member {
            Some(_) => Selection::In,
            None => Selection::Left(entry.left.get(name).copied().unwrap_or(self.now)),
        };
        let (unsettled, late) = entry.unsettled_steps(name, self.index);
        Cluster {
            name: Arc::clone(name),
            selection,
            canary: member.map_or_else(|| row.is_some_and(|row| row.canary), |member| member.canary),
            gone: missing || managed.is_none_or(|cluster| cluster.terminating),
            eligibility: self.eligibility(known),
            rival,
            version: version(
                works,
                entry
                    .proven
                    .get(name)
                    .map(|(proven, _)| proven)
                    .or(managed.map(|cluster| &cluster.version)),
            ),
            works: slots,
            record: row.map(|row| Arc::clone(&row.record)),
            written: row.and_then(|row| row.written.clone()),
            busy: entry.busy.get(name).map(|writes| writes.busy()),
            backoff: entry.backoff.get(name).map(|backoff| rollout::ClusterBackoff {
                until: backoff.until,
                error: Arc::clone(&backoff.text),
                lasting: backoff.forbidden >= LASTING_AFTER,
            }),
            unsettled,
            late,
            read: entry.reading(name, self.now),
        }
    }

    fn eligibility(&self, known: &KnownCluster<'_>) -> Eligibility {
        if self.incomplete && known.row.is_none() {
            return Eligibility::Blocked {
                reason: Reason::UnreadableRecord,
                message: Arc::from(
                    "a report of the upgrade cannot be read, and the row of the cluster may be in it; upgrade the controller, or fix the report",
                ),
            };
        }
        known.managed.map_or(Eligibility::Eligible, |cluster| {
            let member = known.member.unwrap_or(Member {
                canary: false,
                explicitly_named: true,
            });
            eligibility(cluster, member, self.platform, self.allow_hub)
        })
    }

    /// True when works that carry the upgrade's UID exist and are not being deleted.
    fn has_works(&self, name: &str) -> bool {
        let mut works = self.index.works(name).into_iter().flatten().flatten();
        works.any(|view| view.upgrade == self.entry.uid && !view.work.terminating && !view.work.vanished)
    }

    /// The works of a cluster. A rival's work outweighs a rival's mere selection.
    fn slots(
        &self,
        name: &Arc<str>,
        works: Option<&ClusterWorks>,
        rival: &mut Option<Rival>,
    ) -> [StepWork; 4] {
        Step::ALL.map(|step| {
            let Some(view) = works.and_then(|works| works[step.index()].as_ref()) else {
                return self.blocker(name, step);
            };
            if let Some(what) = view
                .unreadable
                .as_ref()
                .filter(|_| view.upgrade == self.entry.uid)
            {
                if view.work.vanished {
                    return StepWork::Absent;
                }
                return StepWork::Unreadable {
                    what: Arc::clone(what),
                    terminating: view.work.terminating,
                };
            }
            if view.upgrade == self.entry.uid {
                // Without our annotation, someone else created the work or took it over.
                return if view.owner == self.entry.key {
                    StepWork::Ours(Arc::clone(&view.work))
                } else {
                    self.blocker(name, step)
                };
            }
            if view.work.vanished {
                return StepWork::Absent;
            }
            let owner = self.upgrades.get(&view.upgrade);
            let hold = hold_of(self.entry, owner, name);
            let stronger = rival
                .as_ref()
                .is_none_or(|known| known.hold == RivalHold::Yielding);
            if stronger {
                let upgrade = owner.map_or_else(|| Arc::from("(deleted)"), |owner| Arc::clone(&owner.key));
                *rival = Some(Rival { upgrade, hold });
            }
            StepWork::Rival {
                terminating: view.work.terminating,
            }
        })
    }

    fn blocker(&self, name: &Arc<str>, step: Step) -> StepWork {
        if self.entry.blockers.is_empty() {
            return StepWork::Absent;
        }
        let blocker = self.entry.blockers.get(&(Arc::clone(name), step));
        blocker.map_or(StepWork::Absent, |blocker| {
            let retry_at = blocker.retry_at;
            match &blocker.kind {
                BlockerKind::Foreign => StepWork::Foreign { retry_at },
                BlockerKind::ForeignTerminating => StepWork::ForeignTerminating { retry_at },
                BlockerKind::Refused(message) => StepWork::Refused {
                    retry_at,
                    message: Arc::clone(message),
                },
            }
        })
    }
}

/// The version that a cluster runs: as its platform work reports it, otherwise as the claim says.
fn version(works: Option<&ClusterWorks>, claimed: Option<&Arc<str>>) -> Arc<str> {
    let reported = works
        .and_then(|works| works[Step::Platform.index()].as_ref())
        .map(|view| &view.cluster_version);
    reported
        .filter(|version| !version.is_empty())
        .or(claimed)
        .map_or_else(|| Arc::from(""), Arc::clone)
}

#[cfg(test)]
mod tests;
