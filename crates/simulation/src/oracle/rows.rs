//! Rules about rows: what they record does not go back, and no cluster fails by time too early.

use std::collections::BTreeSet;
use std::time::Duration;

use api::names::{LABEL_MCU, Step as WorkStep};
use api::time::parse_rfc3339;
use chrono::{DateTime, Utc};
use hub_sim::{Change, ChangeKind, Object};
use serde_json::Value;

use super::clocks::wall;
use super::facts::{Cluster, DEAF, Facts, Record, Upgrade};
use super::fields::{Version, label, text, version};
use super::memory::Told;
use super::row::{Row, steps};
use super::rule::Rule;
use crate::actor::Sender;

/// A row is written soon after the start that it tells of.
const PASS: Duration = Duration::from_secs(10);
/// An end that agents report is recorded within this time: rejected rows are tried again after five minutes.
const RECORDED: Duration = Duration::from_secs(400);

impl Record {
    /// Why a row cannot follow, if it cannot.
    fn contradiction(&self, row: &Row, begun: &[&str], ended: Option<&str>) -> Option<String> {
        if self.superseded.contains(&row.attempt()) {
            return Some(format!("the attempt {:?} {:?} was over", row.revision, row.retry));
        }
        let was_blocked = self.was_blocked(&row.attempt());
        let mut found = None;
        for before in &self.before {
            found = Some(row.contradicts(before, begun, was_blocked, ended)?);
        }
        found
    }

    /// Somebody else may have written this row, or the one that it follows.
    fn note_edit(&mut self, by_controller: bool, was_edited: bool, row: &Row, now: Duration) {
        if !by_controller && self.row() != Some(row) {
            (self.is_edited, self.edited) = (true, now);
        }
        self.is_edited |= self.before.is_empty() && was_edited;
    }

    /// What somebody wrote into a record counts until its next attempt. The one whose row they set back is no next one. Nor is that of
    /// the first row since somebody deleted one: it may be the attempt that they have written into a work. A cluster that is under way
    /// by what they wrote goes on through an edit of the spec.
    fn keep_edited(&mut self, by_controller: bool, row: &Row) {
        let mut attempts = self.before.iter().map(Row::attempt);
        let is_same =
            self.before.is_empty() || self.is_lost || attempts.any(|before| before == row.attempt());
        let goes_on = row.is_under_way() && self.row().is_some_and(Row::is_under_way);
        self.is_edited &= !by_controller || is_same || goes_on;
    }

    /// Later rows follow the next one only, which is of this attempt. `is_new`: the cluster may begin anew. An attempt whose row
    /// somebody has deleted is not over: whoever leads since may know only of an earlier attempt, by a work that goes on, and
    /// may announce the deleted one again when that work has ended. `is_undone`: the storage of the hub may have taken back the edit
    /// that this attempt is of. Then the one before is not over, either, because the next row is of what is asked for again.
    fn supersede(&mut self, attempt: &(String, String), is_new: bool, is_undone: bool) {
        let earlier = self.before.iter().map(Row::attempt);
        let over = earlier.filter(|over| over != attempt && !over.0.is_empty());
        let over: Vec<_> = over.collect();
        if !over.is_empty() {
            self.undone = None;
        }
        if !is_undone {
            self.superseded.extend(over);
        }
        let was_lost = std::mem::take(&mut self.is_lost);
        if is_new || was_lost {
            self.superseded.clear();
        }
        let rows = self.before.drain(..).filter(|row| row.revision != attempt.0);
        self.former.extend(rows.map(|row| (row.revision.clone(), row)));
    }

    /// A row arrives that was sent at a time.
    fn tell(&mut self, row: &Row, now: Duration, sent: Duration) {
        self.before.push(row.clone());
        if let Some(told) = self.phases.last_mut().filter(|told| told.phase == row.phase) {
            told.sent = sent;
            return;
        }
        let phase = row.phase.clone();
        self.phases.push(Told {
            since: now,
            sent,
            phase,
        });
    }

    /// The last row of a revision; the latest row, if none is of it.
    pub(super) fn row_for(&self, revision: &str) -> Option<&Row> {
        let mut rows = self.before.iter().rev();
        let of_revision = rows.find(|row| row.revision == revision);
        of_revision
            .or_else(|| self.former.get(revision))
            .or_else(|| self.row())
    }
}

impl Facts {
    /// An end that agents report is recorded within minutes, whatever happens to other clusters of the same report.
    pub(super) fn recorded(&mut self, disturbed: Duration) {
        let before = self.now.saturating_sub(RECORDED);
        if disturbed > before {
            return;
        }
        let mut late = Vec::new();
        for upgrade in self.upgrades.values() {
            let is_at_work = !upgrade.is_gone && !upgrade.is_held;
            if !is_at_work || upgrade.in_force(self.now).any(|spec| spec.is_shut) {
                continue;
            }
            let is_missing = |(name, since): &(&String, &Duration)| {
                let row = upgrade.records.get(*name);
                let is_none = self.is_unaccounted(upgrade, name) || upgrade.waits_anew(name);
                row.is_none() && **since <= before && !is_none && !upgrade.doubtful.contains_key(*name)
            };
            let missing = upgrade.finished.iter().filter(is_missing);
            late.extend(missing.map(|(name, _)| format!("{name} of {}", upgrade.key)));
            for (name, record) in &upgrade.records {
                let Some(row) = record.row().filter(|row| !record.is_edited && !row.is_newer) else {
                    continue;
                };
                let cluster = self.clusters.get(name);
                let shown = cluster.and_then(|cluster| cluster.shown.get(&row.to));
                if row.is_updating() && shown.is_some_and(|since| *since <= before) {
                    late.push(format!("{name} of {}", upgrade.key));
                }
            }
        }
        self.check(Rule::Rows, late.is_empty(), || {
            format!(
                "no row says for {RECORDED:?} that an update has ended: {}",
                late.join(", ")
            )
        });
    }
}

impl Upgrade {
    /// Whether the storage of the hub has taken back an edit, and whoever sent a row of a cluster may not have heard of that. Another
    /// edit that came before the row was sent may be what it is of.
    fn may_be_undone(&self, name: &str, sent: Duration) -> bool {
        let undone = self.records.get(name).and_then(|record| record.undone);
        let asked = |at: Duration| {
            let mut specs = self.generations.iter().rev();
            specs.find(|spec| spec.since <= at).map(|spec| &spec.asks)
        };
        undone.is_some_and(|at| sent < at + DEAF && asked(at) == asked(sent.max(at)))
    }

    /// Takes or releases the slot of a cluster as its changed row says. `sent`: when the controller sent it, if it did, the
    /// cluster is there, and no work shows that what is under way by the row is over. `goes_on`: whether a work of this attempt
    /// goes on that holds a slot, by what was known then.
    fn note_row(&mut self, name: &str, row: &Row, sent: Option<Duration>, goes_on: bool, now: Duration) {
        // What a row says of an end releases no slot: only agents know of it.
        let is_released = match row.phase.as_str() {
            "Failed" | "PreActionDegraded" => true,
            "Blocked" | "Pending" | "Skipped" | "Aborted" => !goes_on,
            "Complete" | "Soaking" | "PostAction" => self.has_ended(name, row, sent.unwrap_or(now)),
            _ => false,
        };
        if matches!(row.phase.as_str(), "Complete" | "Failed") {
            self.doubtful.remove(name);
        }
        // A row from just before a start releases nothing for long. One that arrives after its upgrade was deleted
        // takes no slot: nothing starts any more, and the slots were released. Nor does one that follows from what somebody else
        // wrote: the controller may find next that the work is none of its own any more.
        let is_edited = self.records.get(name).is_some_and(|record| record.is_edited);
        let is_taken = sent.is_some() && !self.is_gone && !is_edited && row.is_under_way();
        // Nor does one of a cluster that is back, and whose agents had reported the end meanwhile: its work is about to be read.
        let lost = self.dropped.get(name);
        let end = lost.and_then(|lost| self.end_since(name, row, *lost, sent.unwrap_or(now)));
        let has_ended = self.finished.contains_key(name)
            || end.is_some_and(|end| end.retry == row.retry)
            || self.has_ended_as_told(name, row, sent.unwrap_or(now));
        if is_taken && !has_ended {
            self.flights.entry(name.to_owned()).or_insert(now);
        }
        if is_released {
            self.release_at(name, sent.unwrap_or(now));
        }
    }

    /// The controller has removed the row of a cluster. If that row told of an attempt in which no update has ended, the cluster
    /// was waiting for that attempt and has left the selection. When it comes back, it waits again, and no row has to tell what
    /// had ended before. A row that somebody else wrote may have told anything.
    fn drop_record(&mut self, name: &str, now: Duration) {
        let Some(record) = self.records.remove(name) else {
            return;
        };
        if record.row().is_some_and(Row::is_under_way) {
            self.dropped.insert(name.to_owned(), now);
        }
        let has_ended = |row: &Row| {
            let steps = [api::names::Step::Platform, api::names::Step::Operators];
            let mut ends = steps
                .into_iter()
                .filter_map(|step| self.end(name, step, &row.revision));
            ends.any(|end| end.retry == row.retry)
        };
        if record.is_edited || record.row().is_some_and(|row| !has_ended(row)) {
            self.finished.remove(name);
        }
        self.removed.insert(name.to_owned(), (record, now));
    }
}

impl Cluster {
    /// Whether its claim showed a version newer than this one between two times.
    fn was_newer(&self, version: Version, since: Duration, until: Duration) -> bool {
        let next = self.versions.iter().skip(1).map(|(at, _)| *at);
        let mut claims = self.versions.iter().zip(next.chain([Duration::MAX]));
        claims.any(|((from, claim), to)| *claim > version && *from <= until && since < to)
    }

    /// Whether its claim showed a version after a time, and then something else.
    fn has_shown(&self, version: Version, after: DateTime<Utc>) -> bool {
        let mut changes = self.versions.windows(2);
        changes.any(|claims| claims[0].1 == version && wall(claims[1].0) > after)
    }
}

/// The number of a report.
pub(super) fn number_of(report: &str) -> usize {
    let number = report.rsplit('-').next();
    number.and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// The rows of a report, by cluster.
pub(super) fn rows_of(report: &Value) -> Vec<(String, Row)> {
    let rows = report.get("rows").and_then(Value::as_array);
    let rows = rows.into_iter().flatten();
    rows.map(|row| (text(row, "/cluster").to_owned(), Row::of(row)))
        .collect()
}

impl Facts {
    pub(super) fn report(&mut self, change: &Change) {
        let object = &change.after;
        let owner = object.owners.first().map(ToString::to_string).unwrap_or_default();
        let Some(upgrade) = self.upgrades.get(&owner) else {
            return;
        };
        // What is not the upgrade's record says nothing.
        let namespace = upgrade.key.split('/').next().unwrap_or_default();
        if namespace != object.namespace() || !upgrade.key.ends_with(label(object, LABEL_MCU)) {
            return;
        }
        let rows = match change.kind {
            ChangeKind::Deleted => Vec::new(),
            _ => rows_of(&object.value()),
        };
        let mut names: BTreeSet<String> = rows.iter().map(|(name, _)| name.clone()).collect();
        let known = upgrade.reports.get(object.name()).cloned().unwrap_or_default();
        self.note_left_out(&owner, change);
        self.judge_names(object, names.len() == rows.len());
        let is_late = self.by_controller() && self.was_held_up();
        for (name, row) in rows {
            let may_be_overtaken = is_late && !known.contains(&name);
            if may_be_overtaken && self.is_overtaken(&owner, &name, &row) {
                names.remove(&name);
                continue;
            }
            self.row_of(object.name(), &owner, (&name, &row), may_be_overtaken);
        }
        let (now, sent, by_controller) = (self.now, self.sent(), self.by_controller());
        let Some(upgrade) = self.upgrades.get_mut(&owner) else {
            return;
        };
        upgrade.note_writer(change, by_controller);
        let before = upgrade
            .reports
            .insert(object.name().to_owned(), names.clone())
            .unwrap_or_default();
        let mut back = Vec::new();
        for gone in before.difference(&names) {
            // Rows move between reports, and a rejected report keeps the former ones.
            let is_latest = upgrade
                .records
                .get(gone)
                .is_some_and(|record| record.report == object.name());
            if !is_latest && upgrade.reports.values().any(|rows| rows.contains(gone)) {
                continue;
            }
            // A late report is removed, and the row that was written beside it counts again.
            let beside = upgrade
                .records
                .get_mut(gone)
                .and_then(|record| record.beside.take());
            let mut others = upgrade.reports.iter();
            let other = others.find(|(_, rows)| rows.contains(gone));
            let beside = beside.filter(|row| by_controller && !row.phase.is_empty());
            if let Some((row, (report, _))) = beside.zip(other) {
                back.push((gone.clone(), report.clone(), row));
                continue;
            }
            if let Some(cluster) = self.clusters.get_mut(gone) {
                cluster.proven.remove(&owner);
            }
            if by_controller || self.sender.is_none() {
                upgrade.drop_record(gone, now);
                upgrade.release_at(gone, sent);
            } else if let Some(record) = upgrade.records.get_mut(gone) {
                // Somebody deleted it: it may be as it was, or begin again, with any attempt.
                self.created
                    .retain(|(uid, cluster, ..), _| *uid != owner || cluster != gone);
                record.is_edited = true;
                record.is_lost = true;
                record.superseded.clear();
                upgrade.release(gone);
            }
        }
        for (name, report, row) in back {
            self.row_of(&report, &owner, (&name, &row), false);
        }
    }

    /// The controller writes one row of each cluster into a report.
    fn judge_names(&mut self, report: &Object, are_unique: bool) {
        if self.by_controller() {
            self.check(Rule::Rows, are_unique, || {
                format!("{} has two rows of a cluster", report.key)
            });
        }
    }

    /// A report has a row of a cluster. `may_be_overtaken`: the report arrives late. The row of a cluster that has moved to a later
    /// report says nothing.
    fn row_of(&mut self, report: &str, owner: &str, (name, row): (&str, &Row), may_be_overtaken: bool) {
        if self.has_moved(owner, report, name) {
            let record = self.record(owner, name);
            if let Some(beside) = record.and_then(|record| record.beside.as_mut()) {
                beside.clone_from(row);
            }
            return;
        }
        let is_unheard = may_be_overtaken && self.is_unheard_row(owner, name, row);
        self.row(owner, name, row);
        if let Some(record) = self.record(owner, name) {
            if is_unheard {
                // What comes next may also follow what was known before: nothing.
                record.before.insert(0, Row::default());
            }
            let is_beside = may_be_overtaken && record.report != report;
            record.beside = is_beside.then(Row::default);
            report.clone_into(&mut record.report);
        }
    }

    /// Notes who is blocked by the rows of a report that was refused: the log will not tell it.
    pub(super) fn refused_rows(&mut self, sender: &Sender, body: &[u8]) {
        let report: Value = serde_json::from_slice(body).unwrap_or_default();
        let owner = text(&report, "/metadata/ownerReferences/0/uid");
        let Some(upgrade) = self.upgrades.get_mut(owner) else {
            return;
        };
        let rows = rows_of(&report).into_iter();
        for (name, row) in rows.filter(|(_, row)| row.phase == "Blocked") {
            if let Some(record) = upgrade.records.get_mut(&name) {
                record.blocked = Some((sender.at, row.attempt()));
            }
        }
    }

    /// Whether the change that is looked at was under way for long.
    pub(super) fn was_held_up(&self) -> bool {
        self.now > self.sent() + Duration::from_secs(5)
    }

    /// The steps of a cluster whose works an upgrade created before the last pass.
    fn begun(&self, owner: &str, name: &str) -> Vec<&'static str> {
        let works = self.created.iter().filter(|((uid, cluster, ..), created)| {
            uid == owner && cluster == name && created.at + PASS < self.now
        });
        let works: Vec<_> = works.map(|((_, _, work, ..), _)| work).collect();
        let is_begun = |(step, _): &(WorkStep, &str)| works.contains(&&step.work_name(name));
        steps().filter(is_begun).map(|(_, name)| name).collect()
    }

    fn record(&mut self, owner: &str, name: &str) -> Option<&mut Record> {
        self.upgrades.get_mut(owner)?.records.get_mut(name)
    }

    /// Whether a later report of an upgrade has a row of a cluster.
    fn has_moved(&self, owner: &str, report: &str, name: &str) -> bool {
        let reports = self.upgrades.get(owner).map(|upgrade| &upgrade.reports);
        let mut reports = reports.into_iter().flatten();
        reports.any(|(other, rows)| number_of(other) > number_of(report) && rows.contains(name))
    }

    /// Whether a write of a former leader that was under way for long brings an older row of a cluster into a report than another
    /// report has. Nothing on the hub can refuse such a write, if the report has not changed meanwhile or did not exist. The
    /// controller removes the row, and the one that it wrote last counts until then.
    fn is_overtaken(&self, owner: &str, name: &str, row: &Row) -> bool {
        let record = self.upgrades.get(owner).and_then(|upgrade| {
            let record = upgrade.records.get(name)?;
            let is_there = upgrade.reports.get(&record.report)?.contains(name);
            is_there.then_some(record)
        });
        let begun = self.begun(owner, name);
        record.is_some_and(|record| record.contradiction(row, &begun, None).is_some())
    }

    /// Whether the hub had neither a row of a cluster nor a work of this attempt when a report arrived that was under way for
    /// long. A leader whose term began before that has found nothing of this attempt, and begins anew. A work that is being
    /// deleted counts for nothing: it may be the pre-action of a cluster that left the selection and has come back. Nor does
    /// one that names another start of its step: the work that the row tells of is gone, and the step has begun anew. Nor does
    /// one that does not show the end which the row tells: somebody has written over what agents had reported.
    fn is_unheard_row(&self, owner: &str, name: &str, row: &Row) -> bool {
        let record = self
            .upgrades
            .get(owner)
            .and_then(|upgrade| upgrade.records.get(name));
        let platform = WorkStep::Platform.work_name(name);
        let mut works = self.works.iter();
        let has_work = works.any(|(uid, work)| {
            !self.deleters.contains_key(uid)
                && work.owner == owner
                && work.cluster == name
                && work.revision == row.revision
                && work.retry == row.retry
                && row.may_have_start(&work.name, name, &work.started)
                && !(work.goes_on && work.name == platform && row.tells_update())
        });
        record.and_then(Record::row).is_none() && !has_work
    }

    /// Whether a row takes a cluster that waits for another attempt, and has left the selection, back to the end of an earlier one
    /// of which the hub has a work: that work is kept, so the cluster is not dropped. Whoever has heard that it left may not have
    /// heard yet that it is back.
    fn falls_back(&self, owner: &str, name: &str, row: &Row) -> bool {
        let (Some(upgrade), Some(cluster)) = (self.upgrades.get(owner), self.clusters.get(name)) else {
            return false;
        };
        let is_other = |was: &Row| was.attempt() != row.attempt();
        let has_begun = |was: &Row| {
            let is_out = matches!(was.phase.as_str(), "Skipped" | "Aborted");
            let waits = ["Pending", "Blocked", "PreAction", "PreActionDegraded"];
            !(is_out || waits.contains(&was.phase.as_str()))
        };
        let was = upgrade.records.get(name).and_then(Record::row);
        let has_waited = was.is_some_and(|was| is_other(was) && !has_begun(was));
        let is_end = row.phase == "Complete" || (row.phase == "Failed" && row.reason == "LeftSelection");
        let was_out = !cluster.changed.is_zero() && self.sent() < cluster.changed + DEAF;
        let is_out = was_out || !self.selects(upgrade, name);
        has_waited && is_end && row.steps.is_empty() && is_out && self.has_kept_work(owner, name, row)
    }

    /// Whether the hub has a work of an attempt of a cluster that is kept when the cluster leaves the selection.
    fn has_kept_work(&self, owner: &str, name: &str, row: &Row) -> bool {
        let kept = [WorkStep::Platform, WorkStep::Operators].map(|step| step.work_name(name));
        let mut works = self.works.values();
        let has_work = works.any(|work| {
            work.owner == owner
                && kept.contains(&work.name)
                && work.revision == row.revision
                && work.retry == row.retry
        });
        let post_action = WorkStep::PostAction.work_name(name);
        let (owner, name) = (owner.to_owned(), name.to_owned());
        let post_action = (owner, name, post_action, row.revision.clone(), row.retry.clone());
        has_work || self.keys.values().any(|key| *key == post_action)
    }

    /// Judges a row that says how its cluster ended. `was`: phase and attempt of the row before.
    fn judge_end(&mut self, owner: &str, name: &str, row: &Row, was: Option<&(String, (String, String))>) {
        let attempt = row.attempt();
        let is_news = was.is_none_or(|(phase, before)| *phase != row.phase || *before != attempt);
        if row.phase == "Complete" && is_news {
            self.complete(owner, name, row);
        }
        if matches!(row.phase.as_str(), "Skipped" | "Aborted") && is_news {
            self.judge_left_out_row(owner, name, row);
        }
        if matches!(row.phase.as_str(), "Complete" | "Soaking" | "PostAction") {
            // It came to the end of its update, and did not fail by time before.
            self.tried(Rule::Deadline);
        }
        if is_news {
            self.judge_pools(owner, name, row, was.map_or("", |(phase, _)| phase));
        }
        if matches!(row.phase.as_str(), "Failed" | "PreActionDegraded") && is_news {
            self.judge_failure(owner, name, row);
            self.deadline(owner, name, row);
        }
    }

    fn row(&mut self, owner: &str, name: &str, row: &Row) {
        let (now, sent, by_controller) = (self.now, self.sent(), self.by_controller());
        let is_late = self.was_held_up();
        let begun = self.begun(owner, name);
        let cluster = self.clusters.get(name);
        let (changed, is_there) = cluster.map_or((Duration::ZERO, false), |cluster| {
            (cluster.changed, cluster.is_there)
        });
        let goes_on = self.is_known_to_go_on(owner, name, row) && !self.is_unasked(owner, name, row);
        let is_over = self.is_over_by_work(owner, name, row);
        let ended = self.ended_instead(owner, name, row);
        let falls_back = by_controller && self.falls_back(owner, name, row);
        let told = self
            .record(owner, name)
            .map_or(Duration::ZERO, |record| record.sent());
        let (cluster, to) = (self.clusters.get(name), version(&row.to));
        let was_newer = cluster.is_some_and(|cluster| to.is_some_and(|to| cluster.was_newer(to, told, sent)));
        let is_disturbed = self.disturbed.until > changed;
        let heard = changed + if is_disturbed { DEAF } else { Duration::ZERO };
        let Some(upgrade) = self.upgrades.get_mut(owner) else {
            return;
        };
        // A report that came late may have removed the row for a moment. Whoever leads writes it again as it was. Or a rejected report
        // still has what somebody wrote.
        let was_edited = upgrade.has_removed_edited(name, row, self.terms.begun_before(sent));
        let is_undone = upgrade.may_be_undone(name, sent);
        let record = upgrade.records.entry(name.to_owned()).or_default();
        let is_renamed = record.row().is_some_and(|was| was.to != row.to);
        // It was blocked then if somebody had deleted its work. The row that said so may not have been written.
        if was_newer {
            record.blocked = Some((sent, row.attempt()));
        }
        let told = record.phases.last();
        let is_changed = !changed.is_zero() && told.is_none_or(|told| told.may_be_over(changed, heard, now));
        let is_new = is_changed || falls_back;
        record.note_edit(by_controller, was_edited, row, now);
        record.keep_edited(by_controller, row);
        let found = if by_controller && !is_new && !record.is_edited {
            record.contradiction(row, &begun, ended.as_deref())
        } else {
            None
        };
        let is_news = record.row() != Some(row);
        let was = record.row().map(|row| (row.phase.clone(), row.attempt()));
        let attempt = row.attempt();
        // A row that was under way long before may tell of a start that never happened. The next one may follow what it says.
        if by_controller && !is_late {
            record.supersede(&attempt, is_new, is_undone);
        } else if by_controller && is_new {
            record.superseded.clear();
        }
        record.tell(row, now, sent);
        let is_edited = record.is_edited;
        if by_controller && is_late {
            upgrade.late_rows.insert(name.to_owned(), now);
        }
        // A row that the hub rejects stays as it was.
        if is_news {
            let sent = by_controller.then_some(sent).filter(|_| is_there && !is_over);
            upgrade.note_row(name, row, sent, goes_on, now);
        }
        if is_edited && !by_controller {
            upgrade.release(name);
        }
        self.note_proof(owner, name, row, (changed, is_edited));
        if by_controller {
            self.announced(owner, name, row);
            self.check(Rule::Rows, found.is_none(), || {
                let age = now.saturating_sub(sent).as_secs();
                format!(
                    "the row of {name}, sent {age} s before: {}",
                    found.unwrap_or_default()
                )
            });
            if !is_edited {
                self.judge_end(owner, name, row, was.as_ref());
                self.judge_version(name, row, is_renamed);
            }
        }
    }

    /// Notes the version that a row proves.
    fn note_proof(&mut self, owner: &str, name: &str, row: &Row, (changed, is_edited): (Duration, bool)) {
        let now = self.now;
        // The cluster may have been registered anew since. And if its claim has shown the new version since, an older claim
        // tells that somebody has taken the cluster back.
        let finished = row
            .step("Platform")
            .and_then(|step| parse_rfc3339(&step.finished));
        let cluster = self.cluster(name);
        let is_proof = |(_, to): &(Version, Version)| {
            finished.is_some_and(|finished| finished > wall(changed) && !cluster.has_shown(*to, finished))
        };
        let update = row.update().filter(|update| !is_edited && is_proof(update));
        cluster.prove(owner, now, update);
    }
}

#[cfg(test)]
mod tests;
