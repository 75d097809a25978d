//! Builds the fleet that the planner sees from the index and what the controller knows about the upgrade.
//!
//! A work counts for an upgrade only if the upgrade selects the cluster or has a record of it. Anyone who may
//! write works in the cluster's namespace can set the labels, and must not be able to add a cluster to
//! someone else's upgrade (`docs/design/rules.md#whose-cluster`).

use std::cmp::Ordering;
use std::iter::Peekable;
use std::sync::Arc;

use api::names::Step;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::{
    Attempt, Cluster, Eligibility, Fleet, Phase, Reason, Record, Rival, RivalHold, Selection, Stage,
    StepWork, TOLERATED_LEAD, Work, is_newer, is_version,
};

use crate::eligibility::eligibility;
use crate::index::{ClusterView, ClusterWorks, Index, WorkView};
use crate::input::{ClusterRow, OtherUpgrades, UpgradeInput};
use crate::left_out::LeftOutClusters;
use crate::maintenance::Calendars;
use crate::ownership::{Rivals, hold_of, rivals};
use crate::selection::Member;
use crate::writes::{Backoff, Doubts, MISSING_RETRY, RunningWrites, StepBlocker};

/// The upgrade's view of the hub.
#[derive(Debug, Default)]
pub struct Observation {
    /// Every cluster that the upgrade selects or has a record of.
    pub fleet: Fleet,
    /// Clusters that the upgrade neither selects nor has a record of, but where works carry its UID. Nothing
    /// is done there.
    pub unaccounted: Vec<Arc<str>>,
}

/// Observes an upgrade. `others`: all other upgrades. `owned`: clusters with works that carry its UID, sorted.
/// `allow_hub`: the hub itself may be upgraded. An upgrade that is being deleted also sees clusters that have
/// left its selection, to clean up there.
#[must_use]
pub fn observe<'a, R: ClusterRow + 'a>(
    entry: &UpgradeInput<'_, R>,
    others: &impl OtherUpgrades<'a, R>,
    index: &Index,
    owned: &[Arc<str>],
    allow_hub: bool,
    now: DateTime<Utc>,
) -> Observation {
    let view = FleetView {
        entry,
        others,
        index,
        rivals: rivals(entry, others, index),
        platform: entry.in_force.is_some_and(|spec| spec.cluster_version.is_some()),
        allow_hub,
        now,
    };
    // All lists are sorted by name, so one pass over them is enough. That matters because ten thousand
    // clusters are observed several times a second.
    let mut members = Cursor::new(&entry.selected.clusters);
    let mut rows = Cursor::new(entry.rows);
    let mut owned = Cursor::new(owned.iter().map(|name| (name, ())));
    let mut managed = Cursor::new(&index.clusters);
    let left_out = LeftOutClusters::new(entry.in_force.map(|spec| &spec.upgrade_strategy));
    let has_checkpoints = entry
        .in_force
        .is_some_and(|spec| !spec.upgrade_strategy.approvals.is_empty());
    let maintenance = entry.in_force.and_then(|spec| spec.maintenance.as_ref());
    let mut calendars = maintenance
        .zip(entry.calendars)
        .map(|(spec, known)| Calendars::new(spec, known));
    let mut clusters = Vec::with_capacity(entry.rows.len().max(entry.selected.clusters.len()));
    let mut unaccounted = Vec::new();
    while let Some(name) = first([members.name(), rows.name(), owned.name()]) {
        owned.take(name);
        let known = KnownCluster {
            member: members.take(name).copied(),
            row: rows.take(name),
            managed: managed.take(name).map(AsRef::as_ref),
        };
        // A start without a response may have left a work before there is a record.
        let is_starting = || {
            entry
                .running
                .get(name)
                .is_some_and(|writes| writes.starting.is_some())
        };
        let counts = known.member.is_some()
            || known.row.is_some()
            || entry.unsettled.contains_key(name)
            || is_starting();
        if counts || (entry.is_deleting && entry.former.contains(name)) {
            let mut cluster = view.cluster(name, &known);
            cluster.left_out = left_out.of(&cluster);
            if let Some((calendars, managed)) = calendars.as_mut().zip(known.managed) {
                close(&mut cluster, calendars.of(managed));
            }
            clusters.push(cluster);
        } else if view.has_works(name) {
            unaccounted.push(Arc::clone(name));
        }
    }
    Observation {
        fleet: Fleet {
            clusters,
            calendars: calendars.map(Calendars::finish).unwrap_or_default(),
            approvals: if has_checkpoints {
                index.approvals.of(entry.key).into()
            } else {
                Arc::default()
            },
            unreleased: entry.unreleased.len(),
        },
        unaccounted,
    }
}

/// Notes when a cluster may start. One that may never start is blocked, unless it is blocked for another cause.
fn close(cluster: &mut Cluster, calendar: Result<Option<usize>, Eligibility>) {
    match calendar {
        Ok(position) => cluster.calendar = position,
        Err(blocked) if !matches!(cluster.eligibility, Eligibility::Blocked { .. }) => {
            cluster.eligibility = blocked;
        }
        Err(_) => {}
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

struct FleetView<'v, 'a, R, O> {
    entry: &'v UpgradeInput<'v, R>,
    others: &'v O,
    index: &'v Index,
    rivals: Rivals<'a>,
    /// The spec asks for a platform upgrade.
    platform: bool,
    allow_hub: bool,
    now: DateTime<Utc>,
}

/// What is known of a cluster by name.
struct KnownCluster<'a, R> {
    member: Option<Member>,
    row: Option<&'a R>,
    managed: Option<&'a ClusterView>,
}

impl<R: ClusterRow> KnownCluster<'_, R> {
    /// True when a work is older than the registration of its cluster or goes with its namespace, and no record is of its attempt. A
    /// ManagedCluster may be deleted and come back while its namespace and the works in it stay. A cluster whose record is still there
    /// is taken for the same cluster.
    fn is_former(&self, view: &WorkView) -> bool {
        let is_of_work = |record: &Record| record.unreadable || record.attempt == view.work.attempt;
        self.is_from_before(view)
            && !self.was_sent_since(view)
            && view.unreadable.is_none()
            && !self.row.is_some_and(|row| is_of_work(row.record()))
    }

    /// True when a work was sent for the present registration of its cluster. A platform work that is older was changed in place since,
    /// so its attempt and its start are of this registration. Its status may be from before, so nothing is proven when it disappears.
    fn was_sent_since(&self, view: &WorkView) -> bool {
        !view.is_left_over && self.managed.is_some_and(|cluster| view.is_sent_for(&cluster.uid))
    }

    /// True when a work is older than the registration of its cluster, was sent before that for a step after the update, or goes with
    /// its namespace.
    fn is_from_before(&self, view: &WorkView) -> bool {
        let registered = self.managed.and_then(|cluster| cluster.created);
        view.is_older_than(registered) || view.is_left_over || self.was_sent_before(view)
    }

    /// True when a work of a step after the update was sent for an earlier registration of the cluster.
    fn was_sent_before(&self, view: &WorkView) -> bool {
        self.managed
            .is_some_and(|cluster| view.is_of_another(&cluster.uid))
    }

    /// True when a work had begun before its cluster came into the phase that the row tells, and the row does not tell of its step.
    /// Whoever has written that row knew of the work, so the cluster has begun anew since, perhaps in an attempt of the same name.
    fn is_before_row(&self, view: &WorkView) -> bool {
        let record = self.row.map(ClusterRow::record);
        record.is_some_and(|record| {
            let is_told = record.stage(view.step.into()).is_some();
            !record.unreadable && !is_told && view.work.started + TOLERATED_LEAD < record.since
        })
    }

    /// The work, if it was sent for an earlier registration and its step is not the one that the row tells of: of no attempt, because it
    /// proves nothing of this one.
    fn leftover(&self, view: &WorkView) -> Option<Arc<Work>> {
        let stage = self.row.and_then(|row| row.record().stage(view.step.into()));
        let is_told = stage.is_some_and(|stage| stage.started == view.work.started);
        (!is_told && self.was_sent_before(view)).then(|| {
            Arc::new(Work {
                attempt: Attempt::default(),
                ..Work::clone(&view.work)
            })
        })
    }

    /// True when the row tells only of an earlier registration of the cluster: everything in it is from before, and a work that was
    /// created since has begun a step anew that the row has begun. Whoever created it saw that the cluster was gone, and its term
    /// ended before it could write the row.
    fn is_row_former(&self, works: Option<&ClusterWorks>, uid: &str) -> bool {
        let registered = self.managed.and_then(|cluster| cluster.created);
        let record = self.row.map(ClusterRow::record);
        let Some((registered, record)) = registered.zip(record.filter(|record| !record.unreadable)) else {
            return false;
        };
        let mut stages = record.stages.iter().flatten();
        let is_before = record.since < registered
            && stages.all(|stage| stage.finished.unwrap_or(stage.started) < registered);
        let begins_anew = |step: Step| {
            let view = works.and_then(|works| works[step.index()].as_ref());
            let view = view.filter(|view| *view.upgrade == *uid && view.unreadable.is_none());
            let stage = record.stages[Stage::from(step).index()];
            view.zip(stage).is_some_and(|(view, stage)| {
                let is_since = !view.is_older_than(Some(registered)) && !self.was_sent_before(view);
                is_since
                    && !view.unconfirmed
                    && view.tells_its_start()
                    && view.work.attempt == record.attempt
                    && stage.started < view.work.started
                    && !view.may_be_recorded_as(stage.started)
            })
        };
        is_before && Step::ALL.into_iter().any(begins_anew)
    }
}

impl<'a, R: ClusterRow + 'a, O: OtherUpgrades<'a, R>> FleetView<'_, 'a, R, O> {
    fn cluster(&self, name: &Arc<str>, known: &KnownCluster<'_, R>) -> Cluster {
        let entry = self.entry;
        let KnownCluster { member, row, managed } = *known;
        let missing = entry
            .missing
            .get(name)
            .is_some_and(|since| self.now < *since + MISSING_RETRY);
        let mut rival = self.rivals.get(name).map(|(_, rival)| rival.clone());
        let works = self.index.works(name);
        let step_works = self.step_works(name, known, works, &mut rival);
        let selection = match member {
            Some(_) => Selection::In,
            None => Selection::Left(entry.left.get(name).copied().unwrap_or(self.now)),
        };
        let unsettled = entry.unsettled.get(name).map_or(&[][..], Vec::as_slice);
        let doubts = Doubts::new(unsettled, name, entry.uid, self.index);
        let running = entry.running.get(name);
        let starting = running.and_then(|writes| writes.starting.as_ref());
        let installed = self.index.installed(name, entry.preflights.certain(self.now));
        let claimed = managed.map(|cluster| &cluster.last_version);
        let version = version(works, managed, installed.or(claimed));
        let told = entry.preflights.newer_version(name);
        let in_workers = row
            .map(ClusterRow::record)
            .filter(|record| record.phase == Phase::Workers);
        let workers_since = in_workers.map(|record| record.since);
        Cluster {
            name: Arc::clone(name),
            selection,
            canary: member.map_or_else(|| row.is_some_and(ClusterRow::is_canary), |member| member.canary),
            gone: missing || managed.is_none_or(|cluster| cluster.terminating),
            left_out: None,
            eligibility: self.eligibility(known),
            calendar: None,
            rival,
            newest_version: newest(&version, [installed, claimed, told.as_ref()]),
            preflight: entry.preflights.of(name, entry.uid, self.index, self.now),
            has_stale_image: entry.preflights.has_stale_image(name, self.index, self.now),
            worker_pools: entry
                .preflights
                .worker_pools(name, entry.uid, workers_since, self.index, self.now),
            pools_unheard: workers_since.is_some() && entry.preflights.are_pools_unheard(self.now),
            version,
            works: step_works,
            record: row
                .filter(|_| !known.is_row_former(works, entry.uid))
                .map(|row| Arc::clone(row.record())),
            written: row.and_then(|row| row.written().cloned()),
            slot_in_doubt: row.is_some_and(ClusterRow::slot_in_doubt),
            busy: running.map(RunningWrites::busy),
            backoff: entry.backoff.get(name).map(Backoff::of_cluster),
            unsettled: doubts.open.map(|unsettled| unsettled.step),
            late: doubts.late.map(|unsettled| unsettled.step),
            also_late: doubts.also_late.map(|late| late.map(|unsettled| unsettled.step)),
            awaited_attempt: doubts.start().or(starting).cloned(),
            read: entry
                .readings
                .get(name)
                .and_then(|reading| reading.current(self.now)),
        }
    }

    fn eligibility(&self, known: &KnownCluster<'_, R>) -> Eligibility {
        if self.entry.is_incomplete && known.row.is_none() {
            return Eligibility::Blocked {
                reason: Reason::UnreadableRecord,
                message: Arc::from(
                    "A report of the upgrade cannot be read, and it may contain the row of this cluster. Upgrade the controller, or fix the report.",
                ),
            };
        }
        known.managed.map_or(Eligibility::Eligible, |cluster| {
            let member = known.member.unwrap_or(Member {
                canary: false,
                explicitly_named: true,
            });
            let can_start = eligibility(cluster, member, self.platform, self.allow_hub);
            if matches!(can_start, Eligibility::Blocked { .. }) {
                return can_start;
            }
            // Whoever leads next would take it for the cluster of that row, and find nothing of what it has begun since.
            if self.entry.unremoved.binary_search(&&cluster.name).is_ok() {
                return Eligibility::Unavailable {
                    reason: Reason::WaitingForCleanup,
                    message: Arc::from(
                        "The cluster was dropped and is back. It starts when its row from before is removed or written anew.",
                    ),
                };
            }
            let (preflights, name) = (&self.entry.preflights, &cluster.name);
            preflights
                .cannot_tell_pools(name, self.index)
                .unwrap_or(can_start)
        })
    }

    /// True when works that carry the upgrade's UID exist and are not being deleted.
    fn has_works(&self, name: &str) -> bool {
        let mut works = self.index.works(name).into_iter().flatten().flatten();
        works.any(|view| view.upgrade == *self.entry.uid && !view.work.terminating && !view.work.vanished)
    }

    /// The works of a cluster. A rival's work outweighs a rival's mere selection.
    fn step_works(
        &self,
        name: &Arc<str>,
        known: &KnownCluster<'_, R>,
        works: Option<&ClusterWorks>,
        rival: &mut Option<Rival>,
    ) -> [StepWork; 4] {
        Step::ALL.map(|step| {
            let Some(view) = works.and_then(|works| works[step.index()].as_ref()) else {
                return self.blocker(name, step);
            };
            // What is in the way now outweighs what is left of a work that has vanished.
            if view.work.vanished
                && let Some(blocker) = self.entry.blocker(name, step)
            {
                return blocker.step_work();
            }
            if view.upgrade == *self.entry.uid {
                return self.own_work(name, known, step, view);
            }
            if view.work.vanished {
                return StepWork::Absent;
            }
            let owner = self.others.get(&view.upgrade);
            if owner.as_ref().is_some_and(|owner| view.owner != *owner.key) {
                return self.not_of_its_upgrade(view.work.terminating);
            }
            let hold = hold_of(self.entry, owner.as_ref(), name, view, self.index);
            let stronger = rival
                .as_ref()
                .is_none_or(|known| known.hold == RivalHold::Yielding);
            if stronger {
                let upgrade = owner.map_or_else(|| Arc::from("(deleted)"), |owner| Arc::clone(owner.key));
                *rival = Some(Rival { upgrade, hold });
            }
            StepWork::Rival {
                terminating: view.work.terminating,
            }
        })
    }

    /// A work with the upgrade's UID.
    fn own_work(
        &self,
        name: &Arc<str>,
        known: &KnownCluster<'_, R>,
        step: Step,
        view: &WorkView,
    ) -> StepWork {
        // Without our annotation, someone else created the work or took it over, whatever else it says.
        if view.owner != *self.entry.key {
            return self.blocker(name, step);
        }
        // The end of a work of an earlier life proves nothing of this one, which may have got the same attempt since. Nor does one from
        // before the row: a replica that did not lead does not know that the leader wanted the work deleted.
        if view.work.vanished && (known.is_from_before(view) || known.is_before_row(view)) {
            return StepWork::Absent;
        }
        if known.is_former(view) {
            // By a row that is written, everybody finds that the work is a leftover.
            let is_told = known.row.is_some_and(|row| row.written().is_some());
            let work = Arc::clone(&view.work);
            return if is_told && !view.unconfirmed {
                StepWork::Ours(work)
            } else {
                StepWork::Former(work)
            };
        }
        if view.unconfirmed {
            return StepWork::Unconfirmed;
        }
        match &view.unreadable {
            None if let Some(leftover) = known.leftover(view) => StepWork::Ours(leftover),
            None => StepWork::Ours(view.confirmed_by(known.row.map(|row| &**row.record()))),
            Some(_) if view.work.vanished => StepWork::Absent,
            Some(what) => StepWork::Unreadable {
                what: Arc::clone(what),
                terminating: view.work.terminating,
            },
        }
    }

    /// A work with the UID of another upgrade and without its owner annotation: someone else created it or took it over.
    /// The watch reports when it is gone, so it need not be asked for.
    fn not_of_its_upgrade(&self, terminating: bool) -> StepWork {
        let retry_at = self.now + TimeDelta::hours(1);
        if terminating {
            StepWork::ForeignTerminating { retry_at }
        } else {
            StepWork::Foreign { retry_at }
        }
    }

    fn blocker(&self, name: &Arc<str>, step: Step) -> StepWork {
        self.entry
            .blocker(name, step)
            .map_or(StepWork::Absent, StepBlocker::step_work)
    }
}

/// The newest version that a cluster may run. What a cluster reports that is no version says no more than nothing.
fn newest(reported: &Arc<str>, others: [Option<&Arc<str>>; 3]) -> Arc<str> {
    let newest = others.into_iter().flatten().fold(reported, |newest, other| {
        if !is_version(newest) || is_newer(other, newest) {
            other
        } else {
            newest
        }
    });
    Arc::clone(newest)
}

/// The version that a cluster runs: as its platform work reports it, otherwise as it was known before. A work that is older than
/// the registration of its cluster may have reported before that, so something newer that is known counts more.
fn version(
    works: Option<&ClusterWorks>,
    managed: Option<&ClusterView>,
    known: Option<&Arc<str>>,
) -> Arc<str> {
    let registered = managed.and_then(|cluster| cluster.created);
    let is_outdated = |view: &WorkView| {
        view.is_older_than(registered) && known.is_some_and(|known| is_newer(known, &view.cluster_version))
    };
    let reported = works
        .and_then(|works| works[Step::Platform.index()].as_ref())
        .filter(|view| !view.unconfirmed && !is_outdated(view))
        .map(|view| &view.cluster_version);
    reported
        .filter(|version| !version.is_empty())
        .or(known)
        .map_or_else(|| Arc::from(""), Arc::clone)
}

#[cfg(test)]
mod tests;
