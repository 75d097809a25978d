//! Observation: index and desk to the fleet that the planner sees. No I/O.
//!
//! A work counts for an upgrade only where the upgrade selects the cluster or has a record of it: labels can be written by
//! whoever may write works in the cluster's namespace, and must not draw a cluster into somebody's upgrade.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::sync::Arc;

use ahash::AHashMap;
use api::names::Step;
use chrono::{DateTime, Utc};
use rollout::{Cluster, Fleet, Phase, Reason, Rival, RivalHold, Selection, Slot, Stage, Standing};

use crate::backoff::ObstacleKind;
use crate::desk::{Desk, LASTING, MISSING};
use crate::index::{ClusterView, ClusterWorks, Index, Uid, slot_of, to_rollout};
use crate::report::rows::Row;
use crate::selection::{self, Member};
use crate::standing::standing;

/// Upgrades by UID.
pub type Desks = AHashMap<Uid, Desk>;

/// Brings an upgrade's selection up to the index; true when it changed.
pub fn refresh_selection(desk: &mut Desk, index: &Index, require_bindings: bool) -> bool {
    let Some(brief) = desk.in_force().cloned() else {
        return false;
    };
    if desk.selected_at == index.epoch + 1 {
        return false;
    }
    desk.selected_at = index.epoch + 1;
    let selected = selection::select(
        &brief.spec,
        &desk.namespace,
        &index.clusters,
        &index.placements,
        require_bindings,
    );
    let changed = selected != desk.selected;
    desk.selected = selected;
    changed
}

/// Since when clusters of the fleet are not selected.
#[must_use]
pub fn leavers(fleet: &Fleet) -> AHashMap<Arc<str>, DateTime<Utc>> {
    let left = |cluster: &Cluster| match cluster.selection {
        Selection::Left(since) => Some((Arc::clone(&cluster.name), since)),
        Selection::In => None,
    };
    fleet.clusters.iter().filter_map(left).collect()
}

/// Notes which clusters are about to be queued again though their claims do not tell yet what this upgrade has brought them
/// to: their works are gone, and a claim follows minutes later. It counts until the claim changes.
pub fn note_proven(desk: &mut Desk, index: &Index) {
    let Some(revision) = desk.in_force().map(|brief| Arc::clone(&brief.policy.revision)) else {
        return;
    };
    let claim = |name: &Arc<str>| index.clusters.get(name).map(|cluster| &cluster.version);
    desk.proven.retain(|name, (_, known)| claim(name) == Some(known));
    for (name, row) in desk.rows.all() {
        let record = &row.record;
        let queued = record.attempt.revision != revision && record.succeeded(Stage::Platform);
        if queued
            && !row.target.is_empty()
            && let Some(claim) = claim(name)
            && (claim.is_empty() || *claim == record.from_version)
        {
            let known = (Arc::clone(&row.target), Arc::clone(claim));
            desk.proven.insert(Arc::clone(name), known);
        }
    }
}

/// What other upgrades hold, by cluster, as far as it concerns `desk`.
fn rivals(desk: &Desk, desks: &Desks) -> AHashMap<Arc<str>, Rival> {
    let mut found = AHashMap::new();
    let mut others: Vec<&Desk> = desks.values().filter(|other| other.uid != desk.uid).collect();
    others.sort_by(|a, b| a.order().cmp(&b.order()));
    for other in others {
        let mut note = |cluster: &Arc<str>, hold| {
            found.entry(Arc::clone(cluster)).or_insert_with(|| Rival {
                upgrade: Arc::clone(&other.key),
                hold,
            });
        };
        // Its first work may not be seen yet, or the next one may be about to be created.
        for cluster in in_flight(other).filter(|cluster| concerns(desk, cluster)) {
            note(cluster, at_work(other, cluster));
        }
        if other.order() > desk.order() || other.is_deleting() || other.brief.is_err() {
            continue;
        }
        let selected = other.selected.clusters.keys();
        for cluster in selected.filter(|cluster| desk.selected.clusters.contains_key(*cluster)) {
            // What this upgrade has begun there, it ends: the older one waits for that.
            if has_upgraded(desk, cluster) {
                continue;
            }
            let row = other.rows.get(cluster).map(|row| &row.record);
            match row.map(|record| (record.phase, record.reason)) {
                // It will not touch the cluster (any more): neither by itself, nor when others are done with it.
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

/// Clusters that an upgrade is at work on, whether or not a work of it is there at the moment.
fn in_flight(other: &Desk) -> impl Iterator<Item = &Arc<str>> {
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

/// True when the platform of a cluster that is not done yet was upgraded.
fn has_upgraded(desk: &Desk, cluster: &str) -> bool {
    desk.rows.get(cluster).is_some_and(|row| {
        let record = &row.record;
        matches!(record.phase, Phase::Pending | Phase::Blocked) && record.succeeded(Stage::Platform)
    })
}

fn concerns(desk: &Desk, cluster: &str) -> bool {
    desk.selected.clusters.contains_key(cluster) || desk.rows.get(cluster).is_some()
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

/// The hold of an upgrade on a cluster in flight: without any valid spec, or with an obstacle in the way of its post-action,
/// nothing of it moves without a human.
fn at_work(owner: &Desk, cluster: &Arc<str>) -> RivalHold {
    let obstructed = || {
        let record = owner.rows.get(cluster).map(|row| &row.record);
        record.is_some_and(|record| record.phase == Phase::PostAction && record.reason == Reason::WorkRefused)
            || owner.has_foreign(cluster, Step::PostAction)
    };
    if obstructed() || owner.in_force().is_none() {
        RivalHold::Stuck
    } else {
        RivalHold::Active
    }
}

/// What the owner of a rival work does with the cluster (`docs/design/rules.md#giving-way`).
fn hold_of(desk: &Desk, owner: Option<&Desk>, cluster: &Arc<str>) -> RivalHold {
    let Some(owner) = owner else {
        return RivalHold::Yielding;
    };
    let older = owner.order() < desk.order();
    let Some(row) = owner.rows.get(cluster) else {
        return at_work(owner, cluster);
    };
    // Until the end is on record its works stay: a successor that found neither would take the cluster for unfinished.
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

/// What an upgrade sees of the hub.
#[derive(Debug, Default)]
pub struct Sight {
    /// Every cluster that it selects or has a record of.
    pub fleet: Fleet,
    /// Clusters that it neither selects nor has a record of, where works carry its UID. Nothing is done there.
    pub unaccounted: Vec<Arc<str>>,
}

/// What an upgrade sees. `owned`: clusters with works that carry its UID, sorted; `desks`: all other upgrades; `allow_hub`:
/// the hub itself may be upgraded. An upgrade that is being deleted also sees clusters that it let go of, to clean up there.
#[must_use]
pub fn sight(
    desk: &Desk,
    desks: &Desks,
    index: &Index,
    owned: &[Arc<str>],
    allow_hub: bool,
    now: DateTime<Utc>,
) -> Sight {
    let platform = desk
        .in_force()
        .is_some_and(|brief| brief.spec.cluster_version.is_some());
    let rivals = if desks.is_empty() {
        AHashMap::new()
    } else {
        rivals(desk, desks)
    };
    let view = View {
        desk,
        desks,
        index,
        rivals,
        platform,
        incomplete: desk.rows.is_incomplete(),
        allow_hub,
        now,
    };
    // All are sorted by name: one walk along them, for ten thousand clusters are looked at several times a second.
    let mut members = Cursor::new(&desk.selected.clusters);
    let mut rows = Cursor::new(desk.rows.all());
    let mut owned = Cursor::new(owned.iter().map(|name| (name, ())));
    let mut managed = Cursor::new(&index.clusters);
    let mut clusters = Vec::with_capacity(desk.rows.all().len().max(desk.selected.clusters.len()));
    let mut unaccounted = Vec::new();
    while let Some(name) = first([members.name(), rows.name(), owned.name()]) {
        owned.take(name);
        let facts = Facts {
            member: members.take(name).copied(),
            row: rows.take(name),
            managed: managed.take(name).map(AsRef::as_ref),
        };
        // A start whose outcome is not known may have left a work before there is a record.
        let known = facts.member.is_some() || facts.row.is_some() || desk.unsettled.contains_key(name);
        if known || (desk.is_deleting() && desk.former.contains(name)) {
            clusters.push(view.cluster(name, &facts));
        } else if view.has_works(name) {
            unaccounted.push(Arc::clone(name));
        }
    }
    Sight {
        fleet: Fleet { clusters },
        unaccounted,
    }
}

/// The first of names.
fn first<'a>(names: [Option<&'a Arc<str>>; 3]) -> Option<&'a Arc<str>> {
    let earlier = |a: &'a Arc<str>, b: &'a Arc<str>| if Arc::ptr_eq(a, b) || a <= b { a } else { b };
    names.into_iter().flatten().reduce(earlier)
}

/// A walk along something sorted by name. Names are shared, so equal ones are mostly known without reading them.
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

    /// What stands at a name; moves on to the names after it.
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

struct View<'a> {
    desk: &'a Desk,
    desks: &'a Desks,
    index: &'a Index,
    rivals: AHashMap<Arc<str>, Rival>,
    platform: bool,
    /// Rows of the upgrade may exist that are not known.
    incomplete: bool,
    allow_hub: bool,
    now: DateTime<Utc>,
}

/// What is known of a cluster by name.
struct Facts<'a> {
    member: Option<Member>,
    row: Option<&'a Row>,
    managed: Option<&'a ClusterView>,
}

impl View<'_> {
    fn cluster(&self, name: &Arc<str>, facts: &Facts<'_>) -> Cluster {
        let desk = self.desk;
        let Facts { member, row, managed } = *facts;
        let missing = desk
            .missing
            .get(name)
            .is_some_and(|since| self.now < *since + MISSING);
        let mut rival = self.rivals.get(name).cloned();
        let works = self.index.works(name);
        let slots = self.slots(name, works, &mut rival);
        let selection = match member {
            Some(_) => Selection::In,
            None => Selection::Left(desk.left.get(name).copied().unwrap_or(self.now)),
        };
        let (unsettled, late) = desk.doubts(name, self.index);
        Cluster {
            name: Arc::clone(name),
            selection,
            canary: member.map_or_else(|| row.is_some_and(|row| row.canary), |member| member.canary),
            gone: missing || managed.is_none_or(|cluster| cluster.terminating),
            standing: self.standing(facts),
            rival,
            version: version(
                works,
                desk.proven
                    .get(name)
                    .map(|(proven, _)| proven)
                    .or(managed.map(|cluster| &cluster.version)),
            ),
            works: slots,
            record: row.map(|row| Arc::clone(&row.record)),
            written: row.and_then(|row| row.written.clone()),
            busy: desk.busy.get(name).map(|writes| writes.busy()),
            backoff: desk.backoff.get(name).map(|backoff| rollout::Backoff {
                until: backoff.until,
                error: Arc::clone(&backoff.text),
                lasting: backoff.forbidden >= LASTING,
            }),
            unsettled: unsettled.map(to_rollout),
            late: late.map(to_rollout),
            read: desk
                .reading(name, self.now)
                .map(|(step, asked)| (to_rollout(step), asked)),
        }
    }

    fn standing(&self, facts: &Facts<'_>) -> Standing {
        if self.incomplete && facts.row.is_none() {
            return Standing::Blocked {
                reason: Reason::UnreadableRecord,
                message: Arc::from(
                    "a report of the upgrade cannot be read, and the row of the cluster may be in it; upgrade the controller, or mend the report",
                ),
            };
        }
        facts.managed.map_or(Standing::Eligible, |cluster| {
            let member = facts.member.unwrap_or(Member {
                canary: false,
                named: true,
            });
            standing(cluster, member, self.platform, self.allow_hub)
        })
    }

    /// True when works that carry the upgrade's UID are there and not on their way out.
    fn has_works(&self, name: &str) -> bool {
        let mut works = self.index.works(name).into_iter().flatten().flatten();
        works.any(|view| view.upgrade == self.desk.uid && !view.work.terminating && !view.work.vanished)
    }

    /// The slots of a cluster. A rival's work there outweighs what its selection alone says.
    fn slots(&self, name: &Arc<str>, works: Option<&ClusterWorks>, rival: &mut Option<Rival>) -> [Slot; 4] {
        Step::ALL.map(|step| {
            let Some(view) = works.and_then(|works| works[slot_of(step)].as_ref()) else {
                return self.obstacle(name, step);
            };
            if let Some(what) = view.unreadable.as_ref().filter(|_| view.upgrade == self.desk.uid) {
                if view.work.vanished {
                    return Slot::Absent;
                }
                return Slot::Unreadable {
                    what: Arc::clone(what),
                    terminating: view.work.terminating,
                };
            }
            if view.upgrade == self.desk.uid {
                // Without our annotation somebody else made it, or took it over.
                return if view.owner == self.desk.key {
                    Slot::Ours(Arc::clone(&view.work))
                } else {
                    self.obstacle(name, step)
                };
            }
            if view.work.vanished {
                return Slot::Absent;
            }
            let owner = self.desks.get(&view.upgrade);
            let hold = hold_of(self.desk, owner, name);
            let stronger = rival
                .as_ref()
                .is_none_or(|known| known.hold == RivalHold::Yielding);
            if stronger {
                let upgrade = owner.map_or_else(|| Arc::from("(deleted)"), |owner| Arc::clone(&owner.key));
                *rival = Some(Rival { upgrade, hold });
            }
            Slot::Rival {
                terminating: view.work.terminating,
            }
        })
    }

    fn obstacle(&self, name: &Arc<str>, step: Step) -> Slot {
        if self.desk.obstacles.is_empty() {
            return Slot::Absent;
        }
        let obstacle = self.desk.obstacles.get(&(Arc::clone(name), step));
        obstacle.map_or(Slot::Absent, |obstacle| {
            let retry_at = obstacle.retry_at;
            match &obstacle.kind {
                ObstacleKind::Foreign => Slot::Foreign { retry_at },
                ObstacleKind::ForeignTerminating => Slot::ForeignTerminating { retry_at },
                ObstacleKind::Refused(message) => Slot::Refused {
                    retry_at,
                    message: Arc::clone(message),
                },
            }
        })
    }
}

/// The version that a cluster runs: what its platform work told, else what is known otherwise.
fn version(works: Option<&ClusterWorks>, claimed: Option<&Arc<str>>) -> Arc<str> {
    let told = works
        .and_then(|works| works[slot_of(Step::Platform)].as_ref())
        .map(|view| &view.cluster_version);
    told.filter(|version| !version.is_empty())
        .or(claimed)
        .map_or_else(|| Arc::from(""), Arc::clone)
}

/// The planner's index of a step equals ours.
const _: () = assert!(to_rollout(Step::PostAction).index() == slot_of(Step::PostAction));

#[cfg(test)]
#[path = "observe_tests.rs"]
mod tests;
