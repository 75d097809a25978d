//! What the log says of upgrades, clusters, decisions, Leases and Events, and the rules about them.

use std::collections::BTreeSet;

use api::names::{
    ANNOTATION_RESUME_RESTORED, ANNOTATION_RETRY_FAILED, ANNOTATION_UPGRADE_UID, LABEL_PLACEMENT,
};
use hub_sim::{At as _, Change, ChangeKind, Object};
use serde_json::Value;

use super::facts::{Cluster, Facts, Record, Upgrade};
use super::fields::{Version, label, text, version};
use super::generation::{CANARIES, Generation, names_in};
use super::memory::RENEW_DEADLINE;
use super::row::Row;
use super::rule::Rule;
use crate::actor::Sender;
use crate::describe::claimed_version;
use crate::names::OUTSIDER;

fn note<'a>(value: &'a Value, name: &str) -> &'a str {
    let notes = value.at("/metadata/annotations");
    notes
        .and_then(|notes| notes.get(name))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The version that a ManagedCluster claims.
fn claimed(object: &Object) -> Option<Version> {
    version(claimed_version(&object.value()))
}

impl Facts {
    pub(super) fn upgrade(&mut self, change: &Change) {
        let object = &change.after;
        let value = object.value();
        let now = self.now;
        let upgrade = self.upgrades.entry(object.uid.to_string()).or_default();
        upgrade.key = object.key.to_string();
        upgrade.is_gone = object.is_deleting || change.kind == ChangeKind::Deleted;
        upgrade.ended = (change.kind == ChangeKind::Deleted).then_some(now);
        if upgrade.is_gone {
            upgrade.release_all(now);
        }
        if change.kind == ChangeKind::Deleted {
            for cluster in self.clusters.values_mut() {
                cluster.proven.remove(&*object.uid);
            }
        }
        let spec = Generation {
            since: now,
            ..Generation::of(&value)
        };
        if upgrade
            .generations
            .last()
            .is_none_or(|last| last.number != spec.number)
        {
            let selector = value.at("/spec/clusterSelector");
            let canaries = value.at("/spec").and_then(|spec| spec.at(CANARIES));
            upgrade.selectors.push(&names_in(selector) | &names_in(canaries));
            let placement = text(&value, "/spec/placement/0/name");
            let namespace = object.namespace();
            upgrade.placement = if placement.is_empty() {
                String::new()
            } else {
                format!("{namespace}/{placement}")
            };
            upgrade.generations.push(spec);
        }
        let retry = note(&value, ANNOTATION_RETRY_FAILED);
        if upgrade.retry != retry {
            retry.clone_into(&mut upgrade.retry);
            upgrade.retried = Some(now);
        }
        let lived = note(&value, ANNOTATION_UPGRADE_UID);
        upgrade.is_held = !lived.is_empty()
            && lived != &*object.uid
            && note(&value, ANNOTATION_RESUME_RESTORED) != &*object.uid;
        let told = value
            .at("/status/observedGeneration")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        // After the storage of the hub went back, a status may tell a number that the hub will give to another spec.
        let newest = upgrade.generations.last().map_or(0, |spec| spec.number);
        let told = told.min(newest);
        if upgrade
            .acknowledged
            .last()
            .is_none_or(|(_, before)| told > *before)
        {
            upgrade.acknowledged.push((now, told));
        }
        self.select();
        if change.kind == ChangeKind::Modified && self.by_controller() {
            self.note_plans(&object.uid, &value);
            self.status(&object.uid, &value);
        }
    }

    pub(super) fn managed_cluster(&mut self, change: &Change) {
        let object = &change.after;
        let now = self.now;
        let exists = change.kind != ChangeKind::Deleted && !object.is_deleting;
        let name_label = label(object, "name").to_owned();
        let runs = claimed(object);
        let is_new = change
            .before
            .as_ref()
            .is_none_or(|before| claimed(before) != runs);
        let is_first = change.kind == ChangeKind::Added && !self.clusters.contains_key(object.name());
        let cluster = self.cluster(object.name());
        cluster.lacks_namespace &= exists;
        let is_there = exists && !cluster.lacks_namespace;
        if !is_first && cluster.is_there != is_there {
            cluster.registered = now;
            cluster.heard = now;
        }
        if !is_first && (cluster.is_there != is_there || cluster.name_label != name_label) {
            cluster.changed = now;
        }
        let name = object.name();
        let was_called = cluster.called(name).to_owned();
        cluster.is_there = is_there;
        if !exists {
            cluster.deleted = Some(now);
        }
        cluster.name_label = name_label;
        if !is_first && was_called == name && cluster.called(name) != name {
            cluster.left = Some(now);
        }
        if is_new {
            match runs {
                Some(runs) => cluster.claims(now, runs),
                None => cluster.claims_nothing(now),
            }
        }
        if !exists {
            cluster.versions.clear();
            cluster.proven.clear();
            cluster.reported = None;
        }
        if !is_there {
            self.lose(object.name());
        }
        self.select();
    }

    /// A cluster is gone. Its row goes with it. When it comes back, it begins anew, and what it had ended before counts for nothing.
    fn lose(&mut self, name: &str) {
        let now = self.now;
        for upgrade in self.upgrades.values_mut() {
            if upgrade.flights.contains_key(name) || upgrade.suspended.contains_key(name) {
                upgrade.dropped.insert(name.to_owned(), now);
            }
            upgrade.release(name);
            upgrade.finished.remove(name);
        }
    }

    /// The namespace of a cluster goes or comes back while the ManagedCluster stays.
    pub(super) fn namespace(&mut self, change: &Change) {
        let (name, now) = (change.after.name(), self.now);
        let is_whole = change.kind != ChangeKind::Deleted && !change.after.is_deleting;
        let Some(cluster) = self.clusters.get_mut(name) else {
            return;
        };
        let is_news = if is_whole {
            cluster.lacks_namespace
        } else {
            cluster.is_there
        };
        if !is_news {
            return;
        }
        cluster.is_there = is_whole;
        cluster.lacks_namespace = !is_whole;
        cluster.registered = now;
        cluster.changed = now;
        if !is_whole {
            self.lose(name);
        }
        self.select();
    }

    pub(super) fn decision(&mut self, change: &Change) {
        let object = &change.after;
        // Only OCM's own controller names the Placement as the owner.
        if object.owners.is_empty() || change.kind == ChangeKind::Deleted {
            return;
        }
        let placement = format!("{}/{}", object.namespace(), label(object, LABEL_PLACEMENT));
        let value = object.value();
        let decided = value.at("/status/decisions").and_then(Value::as_array);
        let names: BTreeSet<String> = decided
            .into_iter()
            .flatten()
            .map(|one| text(one, "/clusterName").to_owned())
            .collect();
        let before = std::mem::replace(&mut self.decided, names.clone());
        let now = self.now;
        for name in before.symmetric_difference(&names).filter(|_| !before.is_empty()) {
            let cluster = self.cluster(name);
            cluster.changed = now;
            if before.contains(name) {
                cluster.left = Some(now);
            }
        }
        self.decisions.entry(placement).or_default().extend(names);
        self.select();
    }

    /// The set of the fleet is bound or unbound. For each of its clusters that is as if it got other labels.
    pub(super) fn binding(&mut self, change: &Change) {
        let is_unbound = change.kind == ChangeKind::Deleted || change.after.is_deleting;
        if is_unbound == self.is_unbound {
            return;
        }
        self.is_unbound = is_unbound;
        let now = self.now;
        let members = self.clusters.iter_mut().filter(|(name, _)| *name != OUTSIDER);
        members.for_each(|(_, cluster)| {
            cluster.changed = now;
            cluster.left = if is_unbound { Some(now) } else { cluster.left };
        });
    }

    /// Whether an upgrade selects a cluster.
    pub(super) fn selects(&self, upgrade: &Upgrade, name: &str) -> bool {
        let selected = |cluster: &Cluster| {
            let by_name = upgrade.selectors.last();
            let is_decided = !upgrade.placement.is_empty() && self.decided.contains(name);
            by_name.is_some_and(|names| names.contains(cluster.called(name))) || is_decided
        };
        !self.is_unbound && self.clusters.get(name).is_some_and(selected)
    }

    pub(super) fn lease(&mut self, change: &Change) {
        const HOLDER: &str = "\"holderIdentity\":\"";
        let object = change.after.text();
        let holder = object
            .split(HOLDER)
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .unwrap_or_default();
        let is_other = self.claims.last().is_none_or(|(_, before)| before != holder);
        let sent = self.sent();
        self.terms.claim(is_other, sent, self.now);
        if is_other {
            self.claims.push((self.now, holder.to_owned()));
        }
    }

    pub(super) fn event(&mut self, change: &Change) {
        let value = change.after.value();
        let reason = text(&value, "/reason");
        self.check(Rule::Internal, reason != "PlanRefused", || {
            text(&value, "/note").to_owned()
        });
    }

    /// Whether the storage of the hub went back shortly before a replica sent something, and that replica had held the Lease until
    /// then. It cannot know that another one may hold it, until it renews its claim.
    pub(super) fn has_lost_claim(&self, sender: &Sender) -> bool {
        self.rewinds.iter().any(|(at, holder)| {
            *holder == *sender.identity && *at <= sender.at && sender.at <= *at + RENEW_DEADLINE
        })
    }

    /// Whether the claim of a replica was overwritten by whoever had held the Lease until the storage of the hub went back. He
    /// renews by the version that he wrote last, and the hub may have given that version to the other claim since. Whoever made
    /// the other claim cannot know of it, until he renews it.
    fn is_overwritten(&self, sender: &Sender) -> bool {
        self.claims.windows(2).any(|pair| {
            let [(since, claimed), (at, by)] = pair else {
                return false;
            };
            let is_unknown = *at <= sender.at && sender.at <= *at + RENEW_DEADLINE;
            let mut rewinds = self.rewinds.iter();
            *claimed == *sender.identity
                && is_unknown
                && rewinds
                    .any(|(back, holder)| holder == by && back <= since && *at <= *back + RENEW_DEADLINE)
        })
    }

    /// Judges whether a replica led when it sent the change that is looked at.
    pub(super) fn writer(&mut self) {
        let Some(sender) = self.sender.clone() else { return };
        let holder = self
            .claims
            .iter()
            .rev()
            .find(|(at, _)| *at <= sender.at)
            .map(|(_, holder)| holder.clone());
        let is_holder = holder.as_deref() == Some(&*sender.identity);
        let is_excused = self.has_lost_claim(&sender) || self.is_overwritten(&sender);
        self.check(Rule::OneWriter, is_holder || is_excused, || {
            format!(
                "{} wrote what it sent at {:?}, when the Lease was of {holder:?}",
                sender.identity, sender.at
            )
        });
    }

    /// Whether a cluster of an upgrade waits, by its row, for another upgrade that has it under way, in its soak or in its
    /// post-action. That one ends or fails by time, without a human, and then the cluster goes on, or a condition says why it does
    /// not.
    pub(super) fn waits_for_another(&self, uid: &str) -> bool {
        let waits = |row: &Row| row.phase == "Blocked" && row.reason == "Conflict";
        let is_ending = |other: &Upgrade, cluster: &str| {
            let row = other.records.get(cluster).and_then(Record::row);
            row.is_some_and(|row| matches!(row.phase.as_str(), "Soaking" | "PostAction"))
        };
        let has_it =
            |other: &Upgrade, cluster: &str| other.has_under_way(cluster) || is_ending(other, cluster);
        let is_at_work = |cluster: &str| {
            let mut others = self.upgrades.iter().filter(|(other, _)| *other != uid);
            others.any(|(_, other)| !other.is_gone && !other.is_held && has_it(other, cluster))
        };
        let records = self.upgrades.get(uid).map(|upgrade| &upgrade.records);
        let mut records = records.into_iter().flatten();
        records.any(|(name, record)| record.row().is_some_and(waits) && is_at_work(name))
    }
}

impl Facts {
    /// Whether a cluster is blocked only because the controller remembers what is not on the hub any more: a row from before
    /// the cluster was registered anew, or a newer version that its platform work reported before it was deleted. The claim of the
    /// cluster allows its update, and a replica that starts anew may find nothing that forbids it. A row that proves the newer
    /// version is found by that replica, too.
    pub(super) fn has_block_by_memory(&self) -> bool {
        let is_allowed = |name: &str, target: Version| {
            let Some(cluster) = self.clusters.get(name) else {
                return false;
            };
            let remembered = cluster.reported.filter(|reported| reported.is_gone);
            let is_remembered = remembered.is_some_and(|reported| reported.version > target)
                && cluster
                    .proven_at(self.now)
                    .is_none_or(|version| version <= target);
            let claimed = cluster.versions.last();
            (cluster.deleted.is_some() || is_remembered)
                && claimed.is_some_and(|(_, claimed)| *claimed <= target)
        };
        let is_blocked = |row: &Row| row.phase == "Blocked" && row.reason == "NewerThanTarget";
        let mut upgrades = self.upgrades.values().filter(|upgrade| !upgrade.is_gone);
        upgrades.any(|upgrade| {
            let target = upgrade.generations.last();
            let Some(target) = target.and_then(|spec| version(&spec.version)) else {
                return false;
            };
            let mut records = upgrade.records.iter();
            records.any(|(name, record)| record.row().is_some_and(is_blocked) && is_allowed(name, target))
        })
    }
}

/// Whether an upgrade's rows are all over, or say that they need a human for a reason that stays.
impl Upgrade {
    pub(super) fn waits_for_ever(&self) -> bool {
        let rows = self.records.values().filter_map(|record| record.row());
        rows.clone().count() > 0
            && rows.into_iter().all(|row| {
                row.phase == "Complete" || (row.phase == "Blocked" && row.reason == "NewerThanTarget")
            })
    }
}

#[cfg(test)]
mod tests;
