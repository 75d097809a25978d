//! A hub with two clusters, and the works and probes in their namespaces.

use api::names::{
    ANNOTATION_OWNER, ANNOTATION_REVISION, ANNOTATION_STARTED_AT, ANNOTATION_TARGET_VERSION, APPROVER,
    CLAIM_ID, CLAIM_VERSION, LABEL_MCU_UID, Step,
};
use api::time::{from_chrono, to_rfc3339};
use serde::de::DeserializeOwned;

use super::*;
use crate::testing::{available, cluster, probe, status_of_probe, work};

pub(super) const NAMES: [&str; 2] = ["a", "b"];
/// UIDs of two upgrades.
pub(super) const UPGRADES: [&str; 2] = ["u1", "u2"];
/// What clusters run, one after the other.
pub(super) const VERSIONS: [&str; 5] = ["4.14.9", "4.14.10", "4.14.13", "4.15.0", "4.15.2"];
/// The place of the probe among the works of a cluster.
const PROBE: usize = 4;

/// A cluster and one of its works: a step or the probe.
pub(super) type Place = (usize, usize);

/// What an agent reports.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    Nothing,
    Running,
    Failing,
    Done,
    /// That it is done, about the generation before.
    Stale,
}

/// An update of a cluster: from, to, when, and the notice that shows it.
type Update = (usize, usize, DateTime<Utc>, usize);

#[derive(Debug)]
pub(super) struct Hub {
    pub(super) now: DateTime<Utc>,
    pub(super) version: u64,
    serial: u64,
    pub(super) clusters: [Option<ManagedCluster>; 2],
    pub(super) works: BTreeMap<Place, ManifestWork>,
    /// What watches deliver: whether the object is gone, and its last state.
    pub(super) of_clusters: Vec<(bool, ManagedCluster)>,
    pub(super) of_works: Vec<(bool, ManifestWork)>,
    /// What each cluster runs, and what it has claimed last.
    pub(super) runs: [usize; 2],
    claims: [usize; 2],
    /// What each cluster ran when its platform work was created.
    began: [usize; 2],
    /// The last update of each cluster in its present life that its platform work has shown.
    pub(super) updated: [Option<Update>; 2],
    /// Namespaces that are being deleted.
    terminating: [bool; 2],
    /// UIDs of works that were done, with the upgrades that they were done for.
    pub(super) done: BTreeSet<(String, String)>,
}

impl Hub {
    pub(super) fn new() -> Self {
        Hub {
            now: now(),
            version: 10,
            serial: 0,
            clusters: [None, None],
            works: BTreeMap::new(),
            of_clusters: Vec::new(),
            of_works: Vec::new(),
            runs: [0; 2],
            claims: [0; 2],
            began: [0; 2],
            updated: [None; 2],
            terminating: [false; 2],
            done: BTreeSet::new(),
        }
    }

    fn next(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    /// Registers a cluster, which runs this version.
    pub(super) fn register(&mut self, at: usize, runs: usize, id: usize) {
        if self.clusters[at].is_some() {
            return;
        }
        self.serial += 1;
        let mut object = cluster(NAMES[at]);
        object.metadata.uid = Some(format!("mc-{}", self.serial));
        object.metadata.creation_timestamp = Some(from_chrono(self.now));
        object.status = parse(json!({ "conditions": available() }));
        let id = (id > 0).then(|| format!("00000000-0000-0000-0000-00000000000{id}"));
        object.metadata.labels = id.map(|id| [(api::names::LABEL_CLUSTER_ID.to_owned(), id)].into());
        (self.runs[at], self.claims[at], self.updated[at]) = (runs, runs, None);
        self.terminating[at] &= self.works.keys().any(|(other, _)| *other == at);
        self.put_cluster(at, object);
    }

    fn put_cluster(&mut self, at: usize, mut object: ManagedCluster) {
        object.metadata.resource_version = Some(self.next());
        self.of_clusters.push((false, object.clone()));
        self.clusters[at] = Some(object);
    }

    /// Deletes a cluster. Its namespace and its works stay, or are being deleted, or are deleted.
    pub(super) fn detach(&mut self, at: usize, how: usize) {
        if let Some(object) = self.clusters[at].take() {
            self.version += 1;
            self.of_clusters.push((true, object));
        }
        if how > 0 {
            self.terminating[at] = true;
            for slot in 0..=PROBE {
                self.end((at, slot), how == 1);
            }
        }
    }

    /// Whether the namespace of a cluster is being deleted or is gone.
    pub(super) fn has_no_namespace(&self, at: usize) -> bool {
        self.terminating[at]
    }

    /// The cluster begins to claim what it runs, or the next version on the way there, or nothing that is a version.
    pub(super) fn claim(&mut self, at: usize, how: usize) {
        let Some(mut object) = self.clusters[at].clone() else {
            return;
        };
        let text = match how {
            0 => "",
            1 => "nonsense",
            2 => {
                self.claims[at] = (self.claims[at] + 1).min(self.runs[at]);
                VERSIONS[self.claims[at]]
            }
            _ => {
                self.claims[at] = self.runs[at];
                VERSIONS[self.claims[at]]
            }
        };
        let mut claims = vec![json!({"name": CLAIM_VERSION, "value": text})];
        let id = object
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.values().next());
        claims.extend(id.map(|id| json!({"name": CLAIM_ID, "value": id})));
        object.status = parse(json!({"clusterClaims": claims, "conditions": available()}));
        self.put_cluster(at, object);
    }

    /// The cluster is updated.
    pub(super) fn update(&mut self, at: usize) {
        self.runs[at] = (self.runs[at] + 1).min(VERSIONS.len() - 1);
    }

    /// Creates a work or a probe, if the name is free.
    pub(super) fn create(&mut self, place: Place, upgrade: usize) -> bool {
        let (at, slot) = place;
        if self.works.contains_key(&place) || self.terminating[at] {
            return false;
        }
        if slot == Step::Platform.index() {
            self.began[at] = self.runs[at];
        }
        self.serial += 1;
        let (name, upgrade) = (NAMES[at], UPGRADES[upgrade]);
        let mut object = match Step::ALL.get(slot) {
            Some(step) => work(name, *step, upgrade, 0),
            None => probe(name, (upgrade, &format!("ns/{upgrade}")), "h1", 0),
        };
        object.metadata.uid = Some(format!("w-{}", self.serial));
        object.metadata.creation_timestamp = Some(from_chrono(self.now));
        let notes = object.metadata.annotations.as_mut().unwrap();
        notes.insert(ANNOTATION_STARTED_AT.to_owned(), to_rfc3339(self.now));
        let target = VERSIONS[(self.runs[at] + 1).min(VERSIONS.len() - 1)];
        notes.insert(ANNOTATION_TARGET_VERSION.to_owned(), target.to_owned());
        self.put(place, object);
        true
    }

    fn put(&mut self, place: Place, mut object: ManifestWork) {
        object.metadata.resource_version = Some(self.next());
        self.of_works.push((false, object.clone()));
        self.works.insert(place, object);
    }

    fn change(&mut self, place: Place, change: impl FnOnce(&mut ManifestWork)) {
        if let Some(mut object) = self.works.get(&place).cloned() {
            change(&mut object);
            self.put(place, object);
        }
    }

    /// The agent reports.
    pub(super) fn report(&mut self, place: Place, told: Told) {
        let (at, slot) = place;
        let Some(object) = self.works.get(&place) else {
            return;
        };
        let deletion = i64::from(object.metadata.deletion_timestamp.is_some());
        let generation = object.metadata.generation.unwrap_or_default() - deletion;
        let is_stale = matches!(told, Told::Stale) && generation > 1;
        let seen = generation - i64::from(is_stale);
        let is_done = matches!(told, Told::Done) || is_stale;
        let runs = VERSIONS[self.runs[at]];
        let is_platform = slot == Step::Platform.index();
        let has_done = if is_platform {
            note(object, ANNOTATION_TARGET_VERSION) == runs && !matches!(told, Told::Nothing)
        } else {
            is_done && slot != PROBE
        };
        if has_done && !is_stale {
            let uid = object.metadata.uid.clone().unwrap_or_default();
            self.done.insert((uid, label(object)));
            if is_platform {
                self.updated[at] = Some((self.began[at], self.runs[at], self.now, self.of_works.len()));
            }
        }
        let condition = |kind: &str, holds: bool| {
            let status = if holds { "True" } else { "False" };
            json!({"type": kind, "status": status, "observedGeneration": seen})
        };
        let conditions = json!([condition("Applied", true), condition("Available", is_done)]);
        let mut manifests = json!([]);
        if slot == Step::Operators.index() {
            let (failed, active) = match told {
                Told::Failing => (1, 0),
                _ => (0, 1),
            };
            let value = |name: &str, number: i64| json!({"name": name, "fieldValue": {"type": "Integer", "integer": number}});
            let values = if is_done {
                vec![value("succeeded", 1)]
            } else {
                vec![value("failed", failed), value("active", active)]
            };
            manifests = json!([{
                "resourceMeta": {"group": "batch", "kind": "Job", "resource": "jobs", "name": APPROVER, "namespace": APPROVER},
                "statusFeedback": {"values": values},
            }]);
        } else if is_platform {
            let value = |name: &str, text: &str| json!({"name": name, "fieldValue": {"type": "String", "string": text}});
            manifests = json!([{
                "resourceMeta": {"group": "config.openshift.io", "kind": "ClusterVersion",
                    "resource": "clusterversions", "name": "version"},
                "statusFeedback": {"values": [value("version", runs), value("state", "Completed")]},
            }]);
        }
        let status = match (told, slot) {
            (Told::Nothing, _) => json!({}),
            (_, PROBE) => status_of_probe(),
            _ => json!({"conditions": conditions, "resourceStatus": {"manifests": manifests}}),
        };
        self.change(place, |object| object.status = parse(status));
    }

    /// The other upgrade takes a work over, which nobody deletes.
    pub(super) fn take_over(&mut self, place: Place) -> bool {
        let is_taken = self.works.get(&place).is_some_and(|object| {
            place.1 == Step::Platform.index() && object.metadata.deletion_timestamp.is_none()
        });
        if is_taken {
            self.change(place, |object| {
                let other = if label(object) == UPGRADES[0] {
                    UPGRADES[1]
                } else {
                    UPGRADES[0]
                };
                object
                    .metadata
                    .labels
                    .as_mut()
                    .unwrap()
                    .insert(LABEL_MCU_UID.to_owned(), other.to_owned());
                let notes = object.metadata.annotations.as_mut().unwrap();
                notes.insert(ANNOTATION_OWNER.to_owned(), format!("ns/{other}"));
                object.metadata.generation = object.metadata.generation.map(|generation| generation + 1);
            });
        }
        is_taken
    }

    /// The agent makes the annotations of a work unreadable, or mends them.
    pub(super) fn spoil(&mut self, place: Place) {
        self.change(place, |object| {
            let notes = object.metadata.annotations.as_mut().unwrap();
            let is_fine = notes
                .get(ANNOTATION_REVISION)
                .is_some_and(|revision| revision == "r1");
            let revision = if is_fine { "r 1" } else { "r1" };
            notes.insert(ANNOTATION_REVISION.to_owned(), revision.to_owned());
        });
    }

    /// A work is deleted, or waits for its agent to let go of it.
    pub(super) fn end(&mut self, place: Place, waits: bool) {
        if waits {
            let now = self.now;
            let is_ending = |object: &ManifestWork| object.metadata.deletion_timestamp.is_some();
            if self.works.get(&place).is_some_and(|object| !is_ending(object)) {
                self.change(place, |object| {
                    object.metadata.deletion_timestamp = Some(from_chrono(now));
                    object.metadata.generation = object.metadata.generation.map(|generation| generation + 1);
                });
            }
        } else if let Some(mut object) = self.works.remove(&place) {
            object.metadata.resource_version = Some(self.next());
            self.of_works.push((true, object));
        }
        let (at, _) = place;
        self.terminating[at] &=
            self.clusters[at].is_none() || self.works.keys().any(|(other, _)| *other == at);
    }
}

pub(super) fn label(object: &ManifestWork) -> String {
    let labels = object.metadata.labels.as_ref().unwrap();
    labels[LABEL_MCU_UID].clone()
}

fn note<'a>(object: &'a ManifestWork, key: &str) -> &'a str {
    let notes = object.metadata.annotations.as_ref().unwrap();
    notes.get(key).map(String::as_str).unwrap_or_default()
}

fn parse<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}
