//! Rules about requests: what they must say, and how many there may be.

use std::sync::Arc;
use std::time::Duration;

use api::names::{ANNOTATION_ATTEMPT, ANNOTATION_REVISION, ANNOTATION_STARTED_AT, LABEL_MCU_UID, Step};
use hub_sim::At as _;
use serde_json::Value;

use super::facts::{Facts, Key, Running, Upgrade};
use super::fields::{is_probe, text};
use super::rule::Rule;
use crate::actor::Sender;

const MINUTE: Duration = Duration::from_mins(1);

/// A request as it arrives at the hub, with its answer.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// GET, POST, PUT, PATCH, DELETE or WATCH.
    pub verb: &'a str,
    /// The path without the query.
    pub path: &'a str,
    /// The body.
    pub body: &'a [u8],
    /// The status code of the answer.
    pub code: u16,
    /// The identity of the object that the request met, if it existed.
    pub met: Option<&'a str>,
    /// Whether it asks for a page of a list that is not its first. That is no list of its own.
    pub is_further_page: bool,
}

/// How often a replica may send the same request within a minute. The same action for the same cluster is taken twelve times; a
/// status is written once a second, and reports are, when something waits for them.
fn most(sent: &Sent<'_>) -> usize {
    let is_about = |plural: &str| sent.path.contains(plural);
    match sent.verb {
        "POST" if is_about("/events") => 200,
        "POST" | "PATCH" if is_about("upgradereports") => 130,
        "PATCH" if sent.path.ends_with("/status") => 75,
        "GET" | "WATCH" => 90,
        // The Lease.
        "PUT" => 60,
        _ => 26,
    }
}

/// How many writes of all kinds, but for the Lease, a replica may send within a minute. Each of them may be within its own bound,
/// and all together a loop over the fleet. An honest replica writes the status of each upgrade once a second, a report every other second
/// while the hub refuses its rows, and a few times for each cluster.
const fn most_writes(upgrades: usize, clusters: usize) -> usize {
    40 + (60 + 30) * upgrades + 10 * clusters
}

/// What the creation of a work would create, and the start that it names.
pub(super) fn creation(body: &[u8]) -> (Key, String) {
    let work: Value = serde_json::from_slice(body).unwrap_or_default();
    let note = |field: &str, name: &str| {
        let notes = work.at(field);
        let found = notes.and_then(|notes| notes.get(name)).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let (labels, annotations) = ("/metadata/labels", "/metadata/annotations");
    let key = (
        note(labels, LABEL_MCU_UID),
        text(&work, "/metadata/namespace").to_owned(),
        text(&work, "/metadata/name").to_owned(),
        note(annotations, ANNOTATION_REVISION),
        note(annotations, ANNOTATION_ATTEMPT),
    );
    (key, note(annotations, ANNOTATION_STARTED_AT))
}

/// Whether a creation is that of a probe, which blocks nobody that is not asked first.
fn is_of_probe(body: &[u8]) -> bool {
    let ((_, cluster, name, ..), _) = creation(body);
    is_probe(&cluster, &name)
}

/// The UID that a change names: in the object, or in the list of a JSON patch.
fn uid_of_patch(body: &Value) -> &str {
    let mut operations = body.as_array().into_iter().flatten();
    let named = operations.find(|operation| text(operation, "/path") == "/metadata/uid");
    named.map_or_else(|| text(body, "/metadata/uid"), |named| text(named, "/value"))
}

impl Facts {
    pub(super) fn request(&mut self, sender: &Sender, sent: &Sent<'_>) {
        if sent.is_further_page {
            return;
        }
        self.storm(sender, sent);
        match sent.verb {
            "GET" | "WATCH" if sent.path.contains("/leases") => {}
            "GET" | "WATCH" => {
                let read = format!("{} {}", sent.verb, sent.path);
                *self.reads.entry(read).or_default() += 1;
            }
            _ => self.writes += u64::from(!sent.path.contains("/leases")),
        }
        if sent.code >= 400 && matches!(sent.verb, "POST" | "PATCH") && sent.path.contains("upgradereports") {
            self.refused_rows(sender, sent.body);
            if matches!(sent.code, 400 | 422) {
                self.note_rejected(sender, sent.body);
            }
        }
        if sent.verb == "DELETE" && sent.path.contains("/manifestworks/") {
            self.note_deletion(sender, sent);
        }
        let is_work = sent.verb == "POST" && sent.path.ends_with("/manifestworks");
        if is_work && !is_of_probe(sent.body) {
            self.note_creation(sender, sent);
            self.note_missing(sender, sent);
            self.note_blocked_creation(sender, sent);
        }
        let ours = [
            "/manifestworks",
            "/managedclustersupgrades",
            "/managedclustersupgradereports",
        ];
        let is_ours = ours.iter().any(|plural| sent.path.contains(plural));
        // The server ignores the metadata of a status that is applied.
        let is_ours = is_ours && !sent.path.ends_with("/status");
        if is_ours && matches!(sent.verb, "PATCH" | "DELETE") && sent.code < 300 {
            let body: Value = serde_json::from_slice(sent.body).unwrap_or_default();
            let named = match sent.verb {
                "DELETE" => text(&body, "/preconditions/uid"),
                _ => uid_of_patch(&body),
            };
            let meets = sent.met == Some(named) && !named.is_empty();
            self.check(Rule::Target, meets, || {
                format!(
                    "{} {} names {named:?} and met {:?}",
                    sent.verb, sent.path, sent.met
                )
            });
        }
    }

    /// Notes that a creation met no namespace. Nothing else tells the controller that it is gone while the ManagedCluster stays.
    fn note_missing(&mut self, sender: &Sender, sent: &Sent<'_>) {
        let name = sent.path.rsplit('/').nth(1).unwrap_or_default();
        let Some(cluster) = self.clusters.get_mut(name).filter(|_| sent.code == 404) else {
            return;
        };
        // One that was sent before is carried out late, and nobody waits for its answer.
        if cluster.lacks_namespace && cluster.registered < sender.at {
            cluster.heard = sender.at;
        }
    }

    /// Notes that a creation blocks its cluster, because the hub rejects the work or has somebody else's in its place. That may be
    /// over before a row or a status can say so. A cluster keeps its phase when its post-action is not created.
    fn note_blocked_creation(&mut self, sender: &Sender, sent: &Sent<'_>) {
        if !matches!(sent.code, 400 | 409 | 422) {
            return;
        }
        let ((owner, cluster, name, revision, retry), _) = creation(sent.body);
        let mut works = self.works.iter();
        let is_in_the_way = |(uid, work): (&String, &Running)| {
            work.cluster == cluster && work.name == name && self.foreign.contains_key(uid)
        };
        let is_after = name == Step::PostAction.work_name(&cluster);
        if is_after || (sent.code == 409 && !works.any(is_in_the_way)) {
            return;
        }
        let upgrade = self.upgrades.get_mut(&owner);
        if let Some(record) = upgrade.and_then(|upgrade| upgrade.records.get_mut(&cluster)) {
            record.blocked = Some((sender.at, (revision, retry)));
        }
    }

    fn storm(&mut self, sender: &Sender, sent: &Sent<'_>) {
        self.count(sender, &format!("{} {}", sent.verb, sent.path), most(sent));
        if matches!(sent.verb, "GET" | "WATCH") || sent.path.contains("/leases") {
            return;
        }
        let is_there = |upgrade: &&Upgrade| upgrade.ended.is_none_or(|ended| sender.at <= ended + MINUTE);
        let upgrades = self.upgrades.values().filter(is_there).count();
        self.count(sender, "any write", most_writes(upgrades, self.clusters.len()));
    }

    /// Counts a request among those of its replica within the last minute.
    fn count(&mut self, sender: &Sender, name: &str, most: usize) {
        let times = self
            .requests
            .entry((Arc::clone(&sender.identity), name.to_owned()))
            .or_default();
        times.push_back(sender.at);
        while times.front().is_some_and(|at| *at + MINUTE < sender.at) {
            times.pop_front();
        }
        let count = times.len();
        self.tried(Rule::Storm);
        // Once per minute and request is enough.
        if count == most + 1 {
            self.violated(
                Rule::Storm,
                format!("{} sent {name} {count} times within a minute", sender.identity),
            );
        }
    }
}

#[cfg(test)]
mod tests;
