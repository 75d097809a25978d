//! Rules about statuses: conditions, transition times and sums.

use std::collections::BTreeMap;
use std::time::Duration;

use api::time::parse_rfc3339;
use chrono::TimeDelta;
use hub_sim::At as _;
use serde_json::Value;

use super::clocks::{CLOCK_JUMPS, wall};
use super::counts::{contradiction, excess};
use super::facts::{Facts, Record, Running, Upgrade};
use super::fields::text;
use super::memory::Told;
use super::row::holds_slot;
use super::rule::Rule;
use crate::actor::Role;

/// Conditions that are always there.
const CONDITIONS: [&str; 8] = api::conditions::TYPES;

/// How long after the removal or change of a row, the end of an update, or the deletion of a work or an upgrade a status may still
/// count its clusters: until the answer is there, or the end or deletion is heard of, and the status is sent.
const UNTOLD: Duration = Duration::from_secs(5);
/// How long after an edit the rows of clusters that it queues again may not be written: it is heard of, written and answered.
const QUEUED: Duration = Duration::from_secs(10);
/// The resolution of a time, and of the time at which a status was sent.
const SECOND: TimeDelta = TimeDelta::seconds(2);

/// Status and transition time of each condition.
type Conditions = BTreeMap<String, (String, String)>;

fn number(value: &Value, pointer: &str) -> u64 {
    value.at(pointer).and_then(Value::as_u64).unwrap_or_default()
}

/// Which counts of a status do not go together, if any.
fn wrong_sum(status: &Value, conditions: &Conditions, stalled: &str) -> Option<&'static str> {
    let is = |name: &str| conditions.get(name).is_some_and(|(status, _)| status == "True");
    let all = |name: &str| number(status, &format!("/clustersSummery/{name}"));
    let left_out = number(status, "/phases/Skipped") + number(status, "/phases/Aborted");
    let canaries = |name: &str| number(status, &format!("/canaryClustersSummery/{name}"));
    let adds_up = |count: &dyn Fn(&str) -> u64| {
        count("total") == count("initialized") + count("pending")
            && count("partialUpgrade") + count("complete") + count("failed") <= count("initialized")
    };
    let rules = [
        (adds_up(&all), "clustersSummery"),
        (adds_up(&canaries), "canaryClustersSummery"),
        (canaries("total") <= all("total"), "more canaries than clusters"),
        (is("Failed") == (all("failed") > 0), "Failed and its count"),
        (
            is("InProgress") == (all("partialUpgrade") > 0),
            "InProgress and its count",
        ),
        (
            !is("Complete") || (all("total") > 0 && all("complete") + left_out == all("total")),
            "Complete and its count",
        ),
        (!is("Ready") || is("Complete"), "Ready and not Complete"),
        // The other clusters go on while a record is rejected.
        (
            !(is("Reconciling") && is("Stalled")) || stalled == "RecordRefused",
            "Reconciling and Stalled",
        ),
        // What is being deleted says of its clusters what it said before.
        (
            !(is("Complete") && is("Stalled")) || stalled == "DeletionRefused",
            "Complete and Stalled",
        ),
    ];
    rules.iter().find(|(holds, _)| !holds).map(|(_, what)| *what)
}

impl Facts {
    /// The controller has written a status.
    pub(super) fn status(&mut self, uid: &str, value: &Value) {
        let status = value.get("status").unwrap_or(&Value::Null);
        let list = status.at("/conditions").and_then(Value::as_array);
        let Some(list) = list.filter(|list| !list.is_empty()) else {
            return;
        };
        let now: Conditions = list
            .iter()
            .map(|one| {
                let (status, time) = (text(one, "/status"), text(one, "/lastTransitionTime"));
                (
                    text(one, "/type").to_owned(),
                    (status.to_owned(), time.to_owned()),
                )
            })
            .collect();
        self.transitions(uid, &now);
        let stalled = list.iter().find(|one| text(one, "/type") == "Stalled");
        let wrong = wrong_sum(status, &now, stalled.map_or("", |one| text(one, "/reason")));
        let wrong = wrong.or_else(|| contradiction(status)).or_else(|| excess(status));
        self.check(Rule::Conditions, wrong.is_none(), || {
            format!("{}: {status}", wrong.unwrap_or_default())
        });
        self.under_way(uid, number(status, "/inFlight"));
        self.note_blocked(uid, status);
    }

    /// Notes who is blocked by a status. The row that would say so may have to wait for the response to the one before.
    fn note_blocked(&mut self, uid: &str, status: &Value) {
        let sent = self.sent();
        let Some(upgrade) = self.upgrades.get_mut(uid) else {
            return;
        };
        let waiting = status.at("/waitingClusters").and_then(Value::as_array);
        let waiting = waiting.into_iter().flatten();
        for one in waiting.filter(|one| text(one, "/phase") == "Blocked") {
            if let Some(record) = upgrade.records.get_mut(text(one, "/name")) {
                record.told_blocked = sent;
            }
        }
    }

    /// Transition times move when a status flips, and only then.
    fn transitions(&mut self, uid: &str, now: &Conditions) {
        let sent = self.sent();
        // The clock of a replica may be wrong by five minutes in a run in which clocks jump.
        let is_right = self.tolerance < CLOCK_JUMPS;
        let tolerance = if is_right {
            SECOND
        } else {
            SECOND + TimeDelta::minutes(5)
        };
        let Some(upgrade) = self.upgrades.get_mut(uid) else {
            return;
        };
        // A status that arrives late is followed by one that was computed from another.
        let is_late = sent < upgrade.told;
        let told = upgrade.told;
        upgrade.told = told.max(sent);
        let next = if is_late { Conditions::new() } else { now.clone() };
        let mut before = std::mem::replace(&mut upgrade.conditions, next);
        if is_late {
            before.clear();
        }
        let missing = CONDITIONS.iter().find(|name| !now.contains_key(**name));
        // A time has whole seconds, and a status may flip twice in one: the last status was sent then.
        // It may have been computed earlier: while the hub refuses requests, it waits for its turn.
        let has_waited = told <= self.disturbed.until + QUEUED;
        let is_recent =
            |time: &str| has_waited || parse_rfc3339(time).is_some_and(|time| wall(told) <= time + tolerance);
        let is_wrong = |(status, time): &(String, String), (new, at): &(String, String)| {
            if new == status {
                at != time
            } else {
                at == time && !is_recent(at)
            }
        };
        let wrong = before
            .iter()
            .find(|(name, was)| now.get(*name).is_some_and(|is| is_wrong(was, is)));
        let wrong = wrong.map(|(name, was)| format!("{name} was {was:?} and is {:?}", now.get(name)));
        self.check(Rule::Conditions, missing.is_none() && wrong.is_none(), || {
            format!("missing: {missing:?}, transition time: {wrong:?}")
        });
    }

    /// More clusters than slots are under way by a status only if there were more slots, or if the log shows as many. Starts
    /// whose answers are lost hold slots, too, so it counts only while nothing disturbs the controller.
    fn under_way(&mut self, uid: &str, in_flight: u64) {
        let sent = self.sent();
        self.release_followed(uid, sent);
        let is_calm = self.disturbed.until <= sent;
        let Some(upgrade) = self.upgrades.get(uid) else {
            return;
        };
        let before = upgrade.in_flight;
        let slots = upgrade.in_force(sent).map(|spec| spec.max_concurrency).max();
        let mut holders = upgrade.holders();
        // What somebody else wrote about a cluster may say so.
        let is_edited =
            |record: &Record| record.is_edited || (!record.edited.is_zero() && sent < record.edited + UNTOLD);
        let edited = upgrade.records.iter().filter(|(_, record)| is_edited(record));
        let edited: Vec<&String> = edited.map(|(name, _)| name).collect();
        // Beside one that somebody has made hold a slot, another one still does that an edit has queued again, until that is written.
        let was_under_way = |record: &Record| {
            let told = record.told_at(sent.saturating_sub(UNTOLD));
            let is_queued = record
                .row()
                .is_some_and(|row| ["Pending", "Blocked"].contains(&row.phase.as_str()));
            !edited.is_empty() && is_queued && told.is_some_and(|told| holds_slot(&told.phase))
        };
        let released = upgrade.records.iter().filter(|(_, record)| was_under_way(record));
        holders.extend(released.map(|(name, _)| name));
        holders.extend(edited);
        holders.extend(self.holders_by_row(upgrade, sent));
        holders.extend(self.holders_by_work(uid, upgrade, sent));
        holders.extend(self.holders_by_unheard_end(uid, upgrade, sent));
        holders.extend(self.holders_by_lost_end(uid, upgrade, sent));
        // That worker pools have followed is known only when a probe tells it.
        let is_waiting = |record: &Record| {
            let told = [sent, sent.saturating_sub(UNTOLD)].map(|at| record.told_at(at));
            told.into_iter().flatten().any(|told| told.phase == "Workers")
        };
        let waiting = upgrade.records.iter().filter(|(_, record)| is_waiting(record));
        holders.extend(waiting.map(|(name, _)| name));
        // Whoever has started a cluster knows of it, although somebody has deleted its work before a row could tell. A row follows
        // that tells of its start.
        let untold = upgrade.untold.iter().filter(|(_, at)| sent <= **at + UNTOLD);
        holders.extend(untold.map(|(name, _)| name));
        // Whoever sent it may not have heard yet that the upgrade is being deleted. It says of its clusters what it said before.
        let halted = upgrade.halted.iter();
        let halted = halted.filter(|(_, (_, until))| sent <= *until + UNTOLD);
        holders.extend(halted.map(|(name, _)| name));
        let known = slots.unwrap_or_default().max(holders.len()) as u64;
        if let Some(upgrade) = self.upgrades.get_mut(uid) {
            upgrade.in_flight = in_flight;
        }
        self.check(
            Rule::Conditions,
            in_flight <= known.max(before) || !is_calm,
            || format!("inFlight is {in_flight}, and {known} may be"),
        );
    }

    /// Clusters that have ended their updates, so that another one may have started, and were deleted before their rows said so.
    /// They count again until those rows are gone or say so: whoever starts anew then finds no work that tells of the end. What
    /// counts is what the rows said when the status was sent. The row that tells the end may come at the same moment.
    ///
    /// A cluster that is gone, or is back, counts until its row is gone: whoever starts anew may find it there. Whoever sent the
    /// status may not have heard yet that it is gone.
    ///
    /// The same holds for clusters that an edit queued again before their rows told the end: whoever starts anew finds by such a
    /// row that the cluster is under way, and queues it again before another one gets its slot.
    fn holders_by_row<'a>(&self, upgrade: &'a Upgrade, sent: Duration) -> Vec<&'a String> {
        let is_open = |(name, record): &(&String, &Record)| {
            let cluster = self.clusters.get(*name);
            let was_away = |told: &Told| {
                cluster.is_some_and(|cluster| cluster.was_away() && told.is_from_before(cluster.changed))
            };
            let known = [sent, sent.saturating_sub(UNTOLD)].map(|at| record.told_at(at));
            let known = known.into_iter().flatten();
            let mut holding = known.filter(|told| holds_slot(&told.phase));
            let mut again = holding.clone();
            let is_anew =
                |told: &Told| cluster.is_some_and(|cluster| told.is_from_before(cluster.registered));
            let is_asked_again =
                |told: &Told| upgrade.has_ended_and_is_asked_again(name, told.known_at(), sent);
            let row = record.row().filter(|_| holding.any(was_away));
            row.is_some_and(|row| upgrade.has_ended(name, row, sent))
                || again.any(|told| is_anew(told) || is_asked_again(told))
        };
        let removed = upgrade.removed.iter().filter(|(_, (_, at))| sent <= *at + UNTOLD);
        let removed = removed.map(|(name, (record, _))| (name, record));
        let open = upgrade
            .records
            .iter()
            .chain(removed)
            .filter(is_open)
            .map(|(name, _)| name);
        let dropped = upgrade.dropped.iter();
        let dropped = dropped
            .filter(|(_, at)| sent <= **at + UNTOLD)
            .map(|(name, _)| name);
        open.chain(dropped).collect()
    }

    /// Clusters that an edit has just queued again before any row told of their start. They may have ended their updates, so that
    /// another one may have started. Whoever starts anew finds them by their works, so they count until their rows are of the edit.
    fn holders_by_work<'a>(&'a self, uid: &str, upgrade: &Upgrade, sent: Duration) -> Vec<&'a String> {
        if !upgrade.is_edited(|at| at <= sent && sent <= at + QUEUED) {
            return Vec::new();
        }
        let is_untold = |work: &Running| {
            let record = upgrade.records.get(&work.cluster);
            let row = record.and_then(|record| record.row_for(&work.revision));
            let row = row.filter(|row| row.revision == work.revision && row.retry == work.retry);
            row.is_none_or(|row| matches!(row.phase.as_str(), "Pending" | "Blocked" | "PreActionDegraded"))
        };
        let has_ended = |work: &Running| {
            upgrade
                .finished
                .get(&work.cluster)
                .is_some_and(|ended| *ended <= sent)
        };
        let works = self.works.values().filter(|work| work.owner == uid);
        let counted = works.filter(|work| is_untold(work) && (work.goes_on || has_ended(work)));
        counted.map(|work| &work.cluster).collect()
    }

    /// Clusters whose updates have ended by what agents reported, and that whoever sent the status had to count: their rows said
    /// that they were under way, and the end came a moment before or since, or agents have taken it back and it was not heard of at
    /// all. If another cluster has started since that end, it was heard of.
    fn holders_by_unheard_end<'a>(&self, uid: &str, upgrade: &'a Upgrade, sent: Duration) -> Vec<&'a String> {
        let is_taken_back = |name: &str| {
            let mut works = self.works.values();
            works.any(|work| {
                let is_open = work.goes_on && work.taken_back.is_some();
                is_open && work.owner == uid && work.cluster == name
            })
        };
        let is_unheard = |(name, ended): &(&String, &Duration)| {
            let record = upgrade.records.get(*name);
            let is_told = record.is_some_and(|record| holds_slot(record.phase_at(sent)));
            let is_recent = sent <= **ended + UNTOLD;
            is_told && (is_recent || is_taken_back(name)) && upgrade.is_first_since(name, **ended)
        };
        let ended = upgrade.finished.iter().filter(is_unheard);
        ended.map(|(name, _)| name).collect()
    }

    /// Clusters whose updates have ended, so that another one may have started, and whose works somebody else deleted before their
    /// rows said so. Whoever starts anew finds nothing that tells of that end, so they count again until their rows are written.
    fn holders_by_lost_end<'a>(&self, uid: &str, upgrade: &'a Upgrade, sent: Duration) -> Vec<&'a String> {
        let is_lost = |(name, ended): &(&String, &Duration)| {
            let Some(record) = upgrade.records.get(*name) else {
                return false;
            };
            let known = [sent, sent.saturating_sub(UNTOLD)].map(|at| record.told_at(at));
            let is_open = known.into_iter().flatten().any(|told| holds_slot(&told.phase));
            let row = record.row().filter(|_| is_open);
            row.is_some_and(|row| {
                let work = upgrade.last_step(row, sent).work_name(name);
                self.is_deleted_by_another(uid, &work, **ended, sent)
            })
        };
        let ended = upgrade.finished.iter().filter(is_lost);
        ended.map(|(name, _)| name).collect()
    }

    /// Whether somebody else than the controller has asked for the deletion of a work that is still there, or has deleted it since a time.
    fn is_deleted_by_another(&self, owner: &str, name: &str, since: Duration, sent: Duration) -> bool {
        let is_another = |by: Option<Role>| by.is_some_and(|by| by != Role::Controller);
        let is_going = |uid: &String| {
            let deleter = self.deleters.get(uid);
            deleter.is_some_and(|(at, by)| *at <= sent && is_another(*by))
        };
        let is_gone = |(at, by): (Duration, Option<Role>)| since <= at && is_another(by);
        let mut works = self.works.iter();
        let mut created = self.created.iter();
        works.any(|(uid, work)| work.owner == owner && work.name == name && is_going(uid))
            || created.any(|((of, _, work, _, _), one)| {
                of == owner && work == name && one.deleted.is_some_and(is_gone)
            })
    }
}

#[cfg(test)]
mod tests;
