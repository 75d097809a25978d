//! What the hub refuses for minutes, and what an upgrade must therefore tell.

use std::sync::Arc;
use std::time::Duration;

use api::names::{LABEL_MCU_UID, Step};
use serde_json::Value;

use super::Oracle;
use super::facts::{Facts, Record, Upgrade};
use super::fields::text;
use super::memory::{AllForbidden, Forbidden};
use super::requests::Sent;
use super::row::holds_slot;
use crate::actor::Sender;

/// What is forbidden is tried again within this time.
const AGAIN: Duration = Duration::from_secs(90);
/// How long the controller takes a cluster for one that goes on although the hub forbids its writes: a minute, and the time until the
/// next try.
const UNTIL_STUCK: Duration = Duration::from_mins(2);

/// What an upgrade must tell of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tidings {
    /// The clusters for which the hub forbids works.
    pub blocked: Vec<String>,
    /// No other cluster has anything left to do, and none is under way, here or in another upgrade that one of them waits for. Nor
    /// does one of them wait for another upgrade that waits for its windows.
    pub is_at_rest: bool,
    /// One of the clusters for which the hub forbids works also waits for an approval that the status asks for and that nobody has
    /// given: that is to be told instead of Stalled, as nothing is tried before it is given.
    pub is_unapproved: bool,
    /// No row says that an update has ended.
    pub is_unwritten: bool,
}

impl Tidings {
    /// Whether there is nothing to tell.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.blocked.is_empty() && !self.is_unwritten
    }
}

impl Oracle {
    /// What the upgrade with this UID must tell, because it was so `before` and is so `now`.
    #[must_use]
    pub fn tidings(&self, uid: &str, before: Duration, now: Duration) -> Tidings {
        self.with(|facts| facts.tidings(uid, before, now))
    }

    /// Whether neither canaries nor failures keep a cluster of an upgrade from starting.
    #[must_use]
    pub fn starts_by_itself(&self, uid: &str, cluster: &str) -> bool {
        self.with(|facts| {
            let upgrade = facts.upgrades.get(uid);
            upgrade.is_some_and(|upgrade| upgrade.starts_by_itself(cluster))
        })
    }
}

impl Facts {
    /// Notes whether the hub forbids the creation of a work.
    pub(super) fn note_creation(&mut self, sender: &Sender, sent: &Sent<'_>) {
        if sent.code != 403 && self.forbidden.creations.is_empty() {
            return;
        }
        let work: Value = serde_json::from_slice(sent.body).unwrap_or_default();
        let labels = work.pointer("/metadata/labels");
        let uid = labels.and_then(|labels| labels.get(LABEL_MCU_UID)?.as_str());
        let cluster = text(&work, "/metadata/namespace");
        let key = (uid.unwrap_or_default().to_owned(), cluster.to_owned());
        if self.counts_anew(&self.forbidden.creations, &key) {
            self.forbidden.creations.remove(&key);
        }
        note(&mut self.forbidden.creations, key, sender, sent.code == 403);
    }

    /// Notes whether the hub forbids to delete what one upgrade has left in a cluster, while the row of another one says that the
    /// cluster waits for that. A platform work is not deleted for that, but changed.
    pub(super) fn note_deletion(&mut self, sender: &Sender, sent: &Sent<'_>) {
        if sent.code != 403 && self.forbidden.deletions.is_empty() {
            return;
        }
        let mut parts = sent.path.rsplit('/');
        let (name, cluster) = (parts.next(), parts.nth(1));
        let (name, cluster) = (name.unwrap_or_default(), cluster.unwrap_or_default());
        if name == Step::Platform.work_name(cluster) {
            return;
        }
        let mut works = self.works.values();
        let work = works.find(|work| work.cluster == cluster && work.name == name);
        let owner = work.map(|work| work.owner.as_str());
        for (uid, upgrade) in &self.upgrades {
            let waits = owner.is_some_and(|owner| owner != uid) && upgrade.waits_for_cleanup(cluster);
            let key = (uid.clone(), cluster.to_owned());
            if self.counts_anew(&self.forbidden.deletions, &key) {
                self.forbidden.deletions.remove(&key);
            }
            let is_forbidden = waits && sent.code == 403;
            note(&mut self.forbidden.deletions, key, sender, is_forbidden);
        }
    }

    /// Whether what the hub has forbidden is forgotten since it was last tried: a replica has heard of an edit, or the cluster may
    /// have left.
    fn counts_anew(&self, known: &AllForbidden, key: &(String, String)) -> bool {
        let Some(one) = known.get(key) else {
            return false;
        };
        let (uid, name) = key;
        let upgrade = self.upgrades.get(uid);
        let is_edited = upgrade.is_some_and(|upgrade| upgrade.in_force(one.last).nth(1).is_some());
        let cluster = self.clusters.get(name);
        let changed = cluster.map(|cluster| cluster.changed.max(cluster.left.unwrap_or_default()));
        is_edited || changed.is_some_and(|changed| one.last < changed)
    }

    /// Whether something that another upgrade has left in a cluster is there, and nobody has asked for its deletion.
    fn is_left_by_another(&self, uid: &str, cluster: &str) -> bool {
        let mut works = self.works.iter();
        works.any(|(work_uid, work)| {
            let is_left = work.cluster == cluster && work.owner != uid;
            is_left && work.name != Step::Platform.work_name(cluster) && !self.deleters.contains_key(work_uid)
        })
    }

    fn tidings(&self, uid: &str, before: Duration, now: Duration) -> Tidings {
        let Some(upgrade) = self.upgrades.get(uid).filter(|upgrade| upgrade.may_start(now)) else {
            return Tidings::default();
        };
        let is_forbidden = |one: &Forbidden| one.since <= before && now <= one.last + AGAIN;
        let deletions = self.forbidden.deletions.iter();
        let deletions = deletions.filter(|((owner, cluster), _)| self.is_left_by_another(owner, cluster));
        let blocked: Vec<String> = self
            .forbidden
            .creations
            .iter()
            .chain(deletions)
            .filter(|((owner, _), one)| owner == uid && is_forbidden(one))
            .map(|((_, cluster), _)| cluster.clone())
            .collect();
        let mut rows = upgrade
            .records
            .iter()
            .filter_map(|(name, record)| Some((name, record.row()?)));
        let is_over = |phase: &str| matches!(phase, "Complete" | "Failed" | "PreActionDegraded" | "Blocked");
        let are_over = rows.all(|(name, row)| is_over(&row.phase) || blocked.contains(name));
        let waits = self.waits_for_progress_of_another(uid, now);
        let is_unapproved = blocked
            .iter()
            .any(|name| upgrade.starts_by_itself(name) && self.lacks_approval((uid, upgrade), name, now));
        Tidings {
            is_at_rest: are_over && !upgrade.is_under_way() && !waits,
            is_unapproved,
            is_unwritten: self.is_unwritten(upgrade, before),
            blocked,
        }
    }

    /// Whether a cluster of an upgrade waits, by its row, for another upgrade that comes to it, or to its end with it, without a human.
    pub(super) fn waits_for_progress_of_another(&self, uid: &str, now: Duration) -> bool {
        self.waits_for_another(uid)
            || self.waits_for_windows_of_another(uid, now)
            || self.waits_for_queue_of_another(uid, now)
    }

    /// Whether a cluster of an upgrade waits, by its row, for another upgrade that has it queued, and whose windows are closed or have
    /// just opened. That one goes on without a human.
    fn waits_for_windows_of_another(&self, uid: &str, now: Duration) -> bool {
        let others = self.upgrades.iter().filter(|(other, _)| *other != uid);
        let mut others = others.filter(|(_, other)| other.may_start(now) && other.waits_for_windows(now));
        let waits = |(name, record): (&String, &Record), other: &Upgrade| {
            let row = record.row();
            row.is_some_and(|row| row.phase == "Blocked" && row.reason == "Conflict") && other.is_queued(name)
        };
        let records = self.upgrades.get(uid).map(|upgrade| &upgrade.records);
        records
            .is_some_and(|records| others.any(|(_, other)| records.iter().any(|record| waits(record, other))))
    }

    /// Whether a cluster of an upgrade waits, by its row, for another upgrade that has it queued, neither of the two waits for a human
    /// with it, and a cluster of the other one is under way for which the hub forbids nothing. That one ends or fails by time.
    fn waits_for_queue_of_another(&self, uid: &str, now: Duration) -> bool {
        let Some(upgrade) = self.upgrades.get(uid) else {
            return false;
        };
        let is_forbidden = |owner: &str, cluster: &str| {
            let key = (owner.to_owned(), cluster.to_owned());
            let creation = self.forbidden.creations.get(&key);
            let known = creation.or_else(|| self.forbidden.deletions.get(&key));
            known.is_some_and(|one| one.since + UNTIL_STUCK <= now)
        };
        // What is tried since the one before has ended may fail unnoticed.
        let was_under_way = |record: &Record| holds_slot(record.phase_at(now.saturating_sub(UNTIL_STUCK)));
        let goes_on = |owner: &str, other: &Upgrade| {
            let mut records = other.records.iter();
            records.any(|(name, record)| {
                (other.has_under_way(name) || was_under_way(record)) && !is_forbidden(owner, name)
            })
        };
        let waits = |name: &str| {
            let row = upgrade.records.get(name).and_then(Record::row);
            row.is_some_and(|row| row.phase == "Blocked" && row.reason == "Conflict")
                && upgrade.starts_by_itself(name)
        };
        let others = self.upgrades.iter().filter(|(other, _)| *other != uid);
        let mut others = others.filter(|(owner, other)| other.may_start(now) && goes_on(owner, other));
        others.any(|(owner, other)| {
            let mut names = upgrade.records.keys();
            names.any(|name| waits(name) && other.is_queued_behind(name) && !is_forbidden(owner, name))
        })
    }

    /// Whether agents have reported the end of an update, and no row says so.
    fn is_unwritten(&self, upgrade: &Upgrade, before: Duration) -> bool {
        let mut records = upgrade.records.iter().filter(|(_, record)| !record.is_edited);
        records.any(|(name, record)| {
            let row = record.row().filter(|row| !row.is_newer && row.is_updating());
            let cluster = self.clusters.get(name);
            let shown = row.and_then(|row| cluster?.shown.get(&row.to));
            shown.is_some_and(|since| *since <= before)
        })
    }
}

/// Notes whether the hub forbids a write.
fn note(known: &mut AllForbidden, key: (String, String), sender: &Sender, is_forbidden: bool) {
    if !is_forbidden {
        known.remove(&key);
        return;
    }
    let first = Forbidden {
        by: Arc::clone(&sender.identity),
        since: sender.at,
        last: sender.at,
    };
    let known = known.entry(key).or_insert_with(|| first.clone());
    if known.by == sender.identity {
        known.last = known.last.max(sender.at);
    } else {
        *known = first;
    }
}

impl Upgrade {
    /// Whether neither a person nor a restore keeps its clusters from starting.
    fn may_start(&self, now: Duration) -> bool {
        let is_shut = self.in_force(now).any(|spec| spec.is_shut);
        !self.is_gone && !self.is_held && !is_shut
    }

    /// Whether a row says that a cluster is queued, and not that it waits for an approval.
    fn is_queued(&self, cluster: &str) -> bool {
        let row = self.records.get(cluster).and_then(Record::row);
        row.is_some_and(|row| row.phase == "Pending" && row.reason != "WaitingForApproval")
    }

    /// Whether a row says that a cluster is queued behind others, which does not need a human.
    fn is_queued_behind(&self, cluster: &str) -> bool {
        let row = self.records.get(cluster).and_then(Record::row);
        row.is_some_and(|row| {
            let is_gated = matches!(
                row.reason.as_str(),
                "InvalidSpec"
                    | "Paused"
                    | "Restored"
                    | "CanaryFailed"
                    | "NoCanarySelected"
                    | "MaxFailuresExceeded"
                    | "WaitingForApproval"
            );
            row.phase == "Pending" && !is_gated
        })
    }

    /// Whether the windows of the present spec are closed, or have been so recently that what was tried since may fail unnoticed, and
    /// nothing else keeps a queued cluster from starting.
    fn waits_for_windows(&self, now: Duration) -> bool {
        let ages = [Duration::ZERO, UNTIL_STUCK];
        let was_closed = self.generations.last().is_some_and(|spec| {
            ages.iter()
                .any(|age| !spec.control.is_open(now.saturating_sub(*age), Duration::ZERO))
        });
        let mut names = self.records.keys();
        was_closed && names.any(|name| self.is_queued(name) && self.starts_by_itself(name))
    }

    /// Whether a row says that a cluster is queued and waits for a deletion, or for a write that has failed.
    fn waits_for_cleanup(&self, cluster: &str) -> bool {
        let row = self.records.get(cluster).and_then(Record::row);
        row.is_some_and(|row| {
            row.phase == "Pending" && matches!(row.reason.as_str(), "WaitingForCleanup" | "WriteFailed")
        })
    }

    /// Whether neither canaries nor failures keep a cluster from starting, by the present spec and the rows: all canaries are
    /// complete before others start, none starts after one has failed, and only so many others may fail.
    fn starts_by_itself(&self, cluster: &str) -> bool {
        let Some(spec) = self.generations.last() else {
            return false;
        };
        let phase = |name: &str| {
            let row = self.records.get(name).and_then(Record::row);
            row.map_or("", |row| row.phase.as_str())
        };
        let is_canary = spec.canaries.contains(cluster);
        let keeps = |name: &String| match phase(name) {
            "Complete" => false,
            "Failed" => true,
            _ => !is_canary,
        };
        let others = self.records.keys();
        let others = others.filter(|name| !spec.canaries.contains(*name) && !spec.left_out.contains(*name));
        let lost = others.filter(|name| matches!(phase(name), "Failed" | "PreActionDegraded"));
        let lost = lost.count();
        !spec.canaries.iter().any(keeps) && spec.max_failures.is_none_or(|most| lost <= most)
    }
}

#[cfg(test)]
mod tests;
