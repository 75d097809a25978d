//! Random sequences of what happens on a hub, and of what its watches deliver of that: what the index remembers must be true, and
//! everything else must be what a list shows.

mod events;
mod hub;

use std::collections::BTreeMap;

use api::views::Report;
use chrono::TimeDelta;
use proptest::collection::vec;
use proptest::prelude::*;
use rollout::is_newer;

use self::events::{Event, event};
use self::hub::{Hub, NAMES, Place, UPGRADES, VERSIONS, label};
use super::*;
use crate::fixture::holds;

type Outcome = Result<(), TestCaseError>;

/// What planning sees of a work.
type Seen = BTreeMap<(usize, Step), (String, String)>;

/// A replica and its hub.
struct World {
    hub: Hub,
    index: Index,
    /// How much of what the watches of clusters and of works deliver was heard.
    heard: [usize; 2],
    /// How far the clock of the replica is ahead, in seconds.
    ahead: i64,
    /// A list of works that is under way.
    list: Option<(Vec<ManifestWork>, u64, usize)>,
    /// Answers to requests that have not arrived, by cluster.
    answers: [Option<ManifestWork>; 2],
    /// UIDs of works that must be read before they count.
    unread: BTreeSet<String>,
    /// UIDs of works whose deletion was requested and accepted.
    deleted: BTreeSet<String>,
    /// The newest version that the replica has heard of each cluster, as its present registration is known.
    floor: [Option<usize>; 2],
    /// What the platform work of each cluster reported last, and since when as far as the replica knows.
    reports: [Option<(String, DateTime<Utc>)>; 2],
    /// What happens now concerns an upgrade that plans anyway.
    dropping: bool,
}

impl World {
    fn new() -> Self {
        World {
            hub: Hub::new(),
            index: Index::default(),
            heard: [0; 2],
            ahead: 0,
            list: None,
            answers: [None, None],
            unread: BTreeSet::new(),
            deleted: BTreeSet::new(),
            floor: [None; 2],
            reports: [None, None],
            dropping: false,
        }
    }

    fn now(&self) -> DateTime<Utc> {
        self.hub.now + TimeDelta::seconds(self.ahead)
    }

    fn seen(&self) -> Seen {
        let mut seen = Seen::new();
        for (at, name) in NAMES.into_iter().enumerate() {
            for view in self.index.works(name).into_iter().flatten().flatten() {
                let parts = (&view.work, &view.unreadable, &view.owner, &view.cluster_version);
                let rest = (&view.uid, view.unconfirmed, view.is_left_over, &view.request);
                seen.insert(
                    (at, view.step),
                    (view.upgrade.to_string(), format!("{parts:?} {rest:?}")),
                );
            }
        }
        seen
    }

    /// Everything is read anew by another process, whose clock differs.
    fn restart(&mut self, ahead: i64) {
        self.ahead = ahead;
        self.index = Index::default();
        (self.list, self.answers) = (None, [None, None]);
        self.unread.clear();
        self.deleted.clear();
        self.floor = [None; 2];
        self.reports = [None, None];
        self.list_clusters();
        self.begin_list();
        self.end_list();
    }

    /// The replica hears of a registration: what it knew ends.
    fn hear_cluster(&mut self, is_gone: bool, object: ManagedCluster) {
        let at = position(object.metadata.name.as_deref());
        let before = self
            .index
            .clusters
            .get(NAMES[at])
            .map(|view| view.uid.to_string());
        let is_other = before.as_ref() != object.metadata.uid.as_ref();
        let now = self.now();
        if is_gone {
            self.index.watched_cluster(&Change::Deleted(object), now);
        } else {
            self.index.watched_cluster(&Change::Applied(object), now);
        }
        if is_gone || (is_other && before.is_some()) {
            self.forget(at);
        }
    }

    fn forget(&mut self, at: usize) {
        self.floor[at] = None;
        let views = self.index.works(NAMES[at]).into_iter().flatten().flatten();
        self.unread.extend(views.map(|view| view.uid.to_string()));
    }

    fn hear_work(&mut self, is_gone: bool, object: ManifestWork) {
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let is_known = self.index.version_of(&object) > 0;
        let name = object.metadata.namespace.clone().unwrap_or_default();
        let registered = self.index.clusters.get(&*name).and_then(|view| view.created);
        let created = object
            .metadata
            .creation_timestamp
            .as_ref()
            .and_then(api::time::to_chrono);
        let now = self.now();
        if is_gone {
            self.unread.remove(&uid);
            return self.index.work(&Change::Deleted(object), now);
        }
        if !is_known
            && created
                .zip(registered)
                .is_some_and(|(created, registered)| created < registered)
        {
            self.unread.insert(uid);
        }
        self.index.work(&Change::Applied(object), now);
    }

    /// Delivers what the watch of clusters or of works tells next.
    fn hear(&mut self, kind: usize, count: usize) {
        for _ in 0..count {
            let next = self.heard[kind];
            if kind == 0
                && let Some((is_gone, object)) = self.hub.of_clusters.get(next).cloned()
            {
                self.heard[0] += 1;
                self.hear_cluster(is_gone, object);
            } else if kind == 1
                && self.list.is_none()
                && let Some((is_gone, object)) = self.hub.of_works.get(next).cloned()
            {
                self.heard[1] += 1;
                self.hear_work(is_gone, object);
            }
        }
    }

    fn list_clusters(&mut self) {
        self.heard[0] = self.hub.of_clusters.len();
        let mut seen = AHashSet::new();
        for object in self.hub.clusters.clone().into_iter().flatten() {
            seen.insert((
                Arc::from(""),
                Arc::from(object.metadata.name.as_deref().unwrap_or_default()),
            ));
            self.hear_cluster(false, object);
        }
        for (at, name) in NAMES.into_iter().enumerate() {
            if self.hub.clusters[at].is_none() && self.index.clusters.contains_key(name) {
                self.forget(at);
            }
        }
        self.index.retain_clusters(&seen);
    }

    fn begin_list(&mut self) {
        if self.list.is_none() {
            self.index.relist_works();
            let works = self.hub.works.values().cloned().collect();
            self.list = Some((works, self.hub.version, self.hub.of_works.len()));
        }
    }

    fn end_list(&mut self) {
        let Some((works, newest, heard)) = self.list.take() else {
            return;
        };
        let now = self.now();
        let (mut steps, mut probes) = (AHashSet::new(), AHashSet::new());
        for object in works {
            let namespace: Arc<str> = Arc::from(object.metadata.namespace.as_deref().unwrap_or_default());
            match step_of(&namespace, object.metadata.name.as_deref().unwrap_or_default()) {
                Some(step) => drop(steps.insert((namespace, step))),
                None => drop(probes.insert(namespace)),
            }
            self.unread
                .remove(object.metadata.uid.as_deref().unwrap_or_default());
            self.index.listed_work(&object, now);
        }
        self.index.retain_works(&steps, newest, now);
        self.index.retain_probes(&probes, newest);
        self.heard[1] = heard;
    }

    fn answer(&mut self, at: usize) {
        if let Some(object) = self.answers[at].take() {
            self.unread
                .remove(object.metadata.uid.as_deref().unwrap_or_default());
            self.index.answered_work(&object, self.now());
        }
    }

    /// The replica has asked the hub to create or read a work, and has got this answer.
    fn answered(&mut self, (at, slot): Place) {
        self.answers[at] = self.hub.works.get(&(at, slot)).cloned();
    }

    /// The replica reads a work that it knows.
    fn read(&mut self, place: Place) {
        let (at, slot) = place;
        let known = Step::ALL
            .get(slot)
            .and_then(|step| self.index.work_of(NAMES[at], *step));
        let Some(known) = known.filter(|known| !known.work.vanished).cloned() else {
            return;
        };
        if self.hub.works.contains_key(&place) {
            self.answered(place);
        } else {
            // The watch may still tell of it, and what was known of it is forgotten by then.
            self.deleted.remove(&*known.uid);
            self.unread.remove(&*known.uid);
            let now = self.now();
            self.index.mark_vanished(NAMES[at], known.step, &known.uid, now);
        }
    }

    /// The replica asks the hub to delete a work as it knows it.
    fn delete(&mut self, place: Place, waits: bool, is_lost: bool) {
        let (at, slot) = place;
        let known = Step::ALL
            .get(slot)
            .and_then(|step| self.index.work_of(NAMES[at], *step));
        let Some(known) = known
            .filter(|known| !known.work.vanished && !known.work.terminating)
            .cloned()
        else {
            return;
        };
        let (name, step, now) = (NAMES[at], known.step, self.now());
        self.index.mark_deleting(name, step, &known.uid, None);
        let object = self.hub.works.get(&place);
        let is_this = object.is_some_and(|object| object.metadata.uid.as_deref() == Some(&*known.uid));
        if !is_this {
            // The answer says more than a reading: it is gone. What the watch tells of it after that is over when it has caught up.
            self.unread.remove(&*known.uid);
            return self.index.remove_work(name, step, &known.uid, now);
        }
        if object.is_some_and(|object| label(object) != *known.upgrade) {
            return self.index.unmark_deleting(name, step, &known.uid);
        }
        self.hub.end(place, waits);
        if is_lost {
            return self.index.unmark_deleting(name, step, &known.uid);
        }
        self.deleted.insert(known.uid.to_string());
        let version = self.hub.works.get(&place).map_or(0, version_of);
        self.index.note_deletion(name, step, &known.uid, version);
    }

    /// The report of an upgrade has the row of a cluster's last update.
    fn note_row(&mut self, at: usize) {
        // Who writes the row has heard of the work, and a later leader lists all works first.
        let updated = self.hub.updated[at].filter(|(_, _, _, notice)| self.heard[1] > *notice);
        let Some((from, to, when, _)) = updated else {
            return;
        };
        let when_text = api::time::to_rfc3339(when);
        let row = json!({
            "cluster": NAMES[at], "phase": "Complete", "since": when_text, "revision": "r1",
            "fromVersion": VERSIONS[from], "toVersion": VERSIONS[to],
            "steps": [{"name": "Platform", "startedAt": when_text, "finishedAt": when_text, "outcome": "Succeeded"}],
        });
        let report: Report = serde_json::from_value(json!({
            "metadata": {"name": "mine-report-1", "namespace": "ns"}, "rows": [row],
        }))
        .unwrap();
        assert!(report.rows.rows[0].row.is_ok());
        self.index.note_rows(&report, self.now());
        let known = self.index.clusters.get(NAMES[at]);
        let uid = self.hub.clusters[at]
            .as_ref()
            .and_then(|object| object.metadata.uid.clone());
        let is_present = known.is_some_and(|view| Some(&*view.uid) == uid.as_deref());
        let claims = known.map(|view| view.version.to_string()).unwrap_or_default();
        // No update ends as soon after the version before was reported as clocks differ or a watch is behind.
        let is_late = self.reports[at].as_ref().is_some_and(|(_, since)| when < *since);
        if is_present && !is_late && (claims.is_empty() || !is_newer(VERSIONS[from], &claims)) {
            self.floor[at] = self.floor[at].max(Some(to));
        }
    }

    /// Notes what the works tell of what clusters run.
    fn note_floor(&mut self) {
        for (at, name) in NAMES.into_iter().enumerate() {
            let known = self.index.clusters.get(name).map(|view| view.uid.to_string());
            let present = self.hub.clusters[at].as_ref();
            if known.is_none() || known != present.and_then(|object| object.metadata.uid.clone()) {
                // It may be another cluster by now.
                self.floor[at] = None;
                continue;
            }
            let view = self.index.work_of(name, Step::Platform);
            let registered = self.index.clusters.get(name).and_then(|view| view.created);
            let view = view.filter(|view| !view.unconfirmed && !view.is_older_than(registered));
            let told = view.and_then(|view| {
                VERSIONS
                    .iter()
                    .position(|version| **version == *view.cluster_version)
            });
            let reported = self.index.work_of(name, Step::Platform).map(|view| {
                let what = format!("{} {}", view.uid, view.cluster_version);
                let known = self.reports[at].take().filter(|(known, _)| *known == what);
                known.unwrap_or((what, self.hub.now + TimeDelta::seconds(self.ahead)))
            });
            self.reports[at] = reported.or(self.reports[at].take());
            if registered.is_some() {
                self.floor[at] = self.floor[at].max(told);
            }
        }
    }

    /// The newest version that the replica knows of a cluster.
    fn known_version(&self, at: usize) -> Option<usize> {
        let name = NAMES[at];
        let work = self.index.work_of(name, Step::Platform);
        let reported = work
            .filter(|view| !view.unconfirmed)
            .map(|view| &view.cluster_version);
        let claimed = self.index.clusters.get(name).map(|view| &view.last_version);
        let known = [reported, claimed, self.index.installed(name, self.now())];
        let known = known.into_iter().flatten();
        known
            .filter_map(|known| VERSIONS.iter().position(|version| **version == **known))
            .max()
    }

    fn check(&mut self, before: &Seen) -> Outcome {
        let after = self.seen();
        let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        for key in keys.into_iter().filter(|key| before.get(*key) != after.get(*key)) {
            for (upgrade, _) in before.get(key).into_iter().chain(after.get(key)) {
                let is_told = self.dropping || self.index.all_dirty || self.index.dirty.contains(&**upgrade);
                prop_assert!(is_told, "{upgrade} is not planned again: {key:?}");
            }
        }
        self.index.dirty.clear();
        self.index.all_dirty = false;
        self.note_floor();
        for (at, name) in NAMES.into_iter().enumerate() {
            for view in self.index.works(name).into_iter().flatten().flatten() {
                let uid = view.uid.to_string();
                if view.work.vanished {
                    let proof = (uid.clone(), view.upgrade.to_string());
                    prop_assert!(self.hub.done.contains(&proof), "{uid} was not done");
                    let is_there = self
                        .hub
                        .works
                        .values()
                        .any(|object| object.metadata.uid.as_deref() == Some(&*uid));
                    prop_assert!(!is_there, "{uid} is there");
                    prop_assert!(!self.deleted.contains(&uid), "{uid} was to be deleted");
                } else {
                    // A cluster that is gone is dropped, whatever its works tell.
                    let is_registered = self.index.clusters.contains_key(name);
                    let counts = view.unconfirmed || !is_registered || !self.unread.contains(&uid);
                    prop_assert!(counts, "{uid} must be read");
                }
                let owners = self.index.owned.get(&view.upgrade);
                prop_assert!(
                    owners.is_some_and(|clusters| clusters.contains(name)),
                    "{name} of {}",
                    view.upgrade
                );
            }
            prop_assert!(
                self.known_version(at) >= self.floor[at],
                "{name} runs {:?}",
                self.floor[at]
            );
        }
        Ok(())
    }

    /// When everything was heard, the index shows what a list shows.
    fn check_at_rest(&mut self) -> Outcome {
        let mut fresh = World::new();
        std::mem::swap(&mut fresh.hub, &mut self.hub);
        fresh.restart(self.ahead);
        std::mem::swap(&mut fresh.hub, &mut self.hub);
        for name in NAMES {
            let (known, shown) = (self.index.clusters.get(name), fresh.index.clusters.get(name));
            let plain = known.map(|view| {
                let mut view = ClusterView::clone(view);
                if view.version.is_empty() {
                    view.last_version = Arc::clone(&view.version);
                }
                view
            });
            prop_assert_eq!(plain.as_ref(), shown.map(AsRef::as_ref));
            for step in Step::ALL {
                let known = self.index.work_of(name, step).filter(|view| !view.work.vanished);
                let shown = fresh.index.work_of(name, step);
                prop_assert_eq!(
                    known.map(|view| plain_work(view)),
                    shown.map(|view| plain_work(view))
                );
            }
            let plain_probe = |index: &Index| {
                let probe = index.probe(name);
                probe.map(|probe| {
                    (
                        probe.uid.clone(),
                        probe.upgrade.clone(),
                        probe.is_ending,
                        probe.facts.clone(),
                    )
                })
            };
            prop_assert_eq!(plain_probe(&self.index), plain_probe(&fresh.index));
        }
        for upgrade in UPGRADES {
            prop_assert_eq!(self.index.has_works(upgrade), fresh.index.has_works(upgrade));
        }
        Ok(())
    }
}

/// A work without what only the replica knows of it.
fn plain_work(view: &WorkView) -> String {
    let mut work = rollout::Work::clone(&view.work);
    work.terminating = view.dying;
    if matches!(work.status, rollout::StepStatus::MaybeFailed(_)) {
        work.status = rollout::StepStatus::MaybeFailed(DateTime::UNIX_EPOCH);
    }
    format!(
        "{:?} {} {work:?} {:?} {}",
        view.uid, view.upgrade, view.unreadable, view.owner
    )
}

fn position(name: Option<&str>) -> usize {
    usize::from(name == Some(NAMES[1]))
}

fn play(events: &[Event]) -> Outcome {
    let mut world = World::new();
    world.hub.register(0, 0, 0);
    world.restart(0);
    for event in events {
        let before = world.seen();
        world.dropping = matches!(event, Event::Drop(..) | Event::Restart(_) | Event::NoNamespace(_));
        world.apply(event);
        world.check(&before)?;
    }
    world.end_list();
    for kind in [0, 1] {
        let before = world.seen();
        world.dropping = false;
        world.hear(kind, 1000);
        world.check(&before)?;
    }
    world.check_at_rest()
}

#[test]
fn what_is_remembered_is_true_and_the_rest_is_what_a_list_shows() {
    holds(300, &vec(event(), 0..40), |events| play(&events));
}
