//! Rules about works: who starts when, and what is created, changed and deleted.

use std::sync::Arc;
use std::time::Duration;

use api::names::{
    ANNOTATION_ATTEMPT, ANNOTATION_OWNER, ANNOTATION_REVISION, ANNOTATION_STARTED_AT,
    ANNOTATION_TARGET_VERSION, LABEL_MCU_UID, Step,
};
use api::time::parse_rfc3339;
use hub_sim::{At as _, Change, ChangeKind, Object};
use serde_json::Value;

use super::clocks::wall;
use super::facts::{Created, DEAF, End, Facts, Key, ON_ITS_WAY, Record};
use super::fields::{is_probe, label, text};
use super::memory::Withdrawn;
use super::requests::creation;
use super::row::Row;
use super::rule::Rule;
use crate::actor::{Role, Sender};

mod failures;
mod running;
mod withdrawals;

/// A work as far as rules depend on it.
#[derive(Default)]
pub(super) struct Work {
    pub(super) uid: String,
    pub(super) cluster: String,
    pub(super) name: String,
    pub(super) step: Option<Step>,
    pub(super) revision: String,
    pub(super) retry: String,
    pub(super) owner: String,
    pub(super) target: String,
    pub(super) started: String,
    pub(super) value: Arc<Value>,
}

impl Work {
    fn of(object: &Object) -> Self {
        let value = object.value();
        let note = |name: &str| {
            let notes = value.at("/metadata/annotations");
            let found = notes.and_then(|notes| notes.get(name)).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let cluster = object.namespace().to_owned();
        Self {
            uid: label(object, LABEL_MCU_UID).to_owned(),
            step: Step::ALL
                .into_iter()
                .find(|step| step.work_name(&cluster) == object.name()),
            cluster,
            name: object.name().to_owned(),
            revision: note(ANNOTATION_REVISION),
            retry: note(ANNOTATION_ATTEMPT),
            owner: note(ANNOTATION_OWNER),
            target: note(ANNOTATION_TARGET_VERSION),
            started: note(ANNOTATION_STARTED_AT),
            value,
        }
    }

    fn notes(&self) -> Option<&Value> {
        self.value.at("/metadata/annotations")
    }

    /// Whether it is that of a step.
    pub(super) fn is_of(&self, step: Step) -> bool {
        self.step == Some(step)
    }

    fn takes_slot(&self) -> bool {
        matches!(
            self.step,
            Some(Step::PreAction | Step::Platform | Step::Operators)
        )
    }

    pub(super) fn key(&self) -> Key {
        (
            self.uid.clone(),
            self.cluster.clone(),
            self.name.clone(),
            self.revision.clone(),
            self.retry.clone(),
        )
    }

    /// The value that agents report under a name.
    fn reported(&self, name: &str) -> Option<&Value> {
        let manifests = self.value.at("/status/resourceStatus/manifests")?.as_array()?;
        let values = manifests
            .iter()
            .filter_map(|manifest| manifest.at("/statusFeedback/values")?.as_array());
        let mut values = values.flatten();
        let found = values.find(|value| value.get("name").and_then(Value::as_str) == Some(name))?;
        found.get("fieldValue")
    }

    /// Whether what agents report is about the work as it is now. If they have not processed its latest change, nobody can tell
    /// whether it was true before that change or after it, so it counts for nothing. A deletion is no such change.
    pub(super) fn is_current(&self) -> bool {
        let number = |value: &Value, pointer: &str| value.at(pointer).and_then(Value::as_i64);
        let conditions = self.value.at("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        let applied = conditions.find(|condition| text(condition, "/type") == "Applied");
        let processed = applied.and_then(|applied| number(applied, "/observedGeneration"));
        let latest = number(&self.value, "/metadata/generation");
        self.value.at("/metadata/deletionTimestamp").is_some()
            || processed.is_none_or(|processed| processed == 0 || Some(processed) >= latest)
    }

    /// Whether the operator of the cluster has not seen yet what the work asks for last. What is reported may be the end of an
    /// earlier update to the same version, so it counts for nothing.
    fn is_behind(&self) -> bool {
        let number = |name: &str| self.reported(name)?.get("integer")?.as_i64();
        let generations = (number("observedGeneration"), number("generation"));
        matches!(generations, (Some(seen), Some(latest)) if seen < latest)
    }

    /// Whether agents report that the step has succeeded.
    fn is_done(&self) -> bool {
        if !self.is_current() {
            return false;
        }
        let says = |name: &str| self.reported(name).map_or("", |value| text(value, "/string"));
        match self.step {
            Some(Step::Platform) => {
                says("state") == "Completed" && says("version") == self.target && !self.is_behind()
            }
            Some(_) => {
                let count = self
                    .reported("JobSucceeded")
                    .or_else(|| self.reported("succeeded"));
                count
                    .and_then(|value| value.get("integer")?.as_i64())
                    .unwrap_or_default()
                    > 0
            }
            None => false,
        }
    }
}

impl Facts {
    pub(super) fn work(&mut self, change: &Change) {
        let work = Work::of(&change.after);
        if self.by_controller() {
            self.own_work(change, &work);
        } else {
            self.disown(change, &work);
        }
        if is_probe(&work.cluster, &work.name) {
            self.probe(change, &work);
            return;
        }
        if !self.by_controller() {
            self.tampered(change, &work);
        }
        self.judge_withdrawal(change, &work);
        self.note_failure(&work);
        self.note_asked_for(&work);
        self.note_running(change, &work);
        self.note_reported(change, &work);
        match change.kind {
            ChangeKind::Added if self.by_controller() => self.added(change, &work),
            ChangeKind::Added => {}
            ChangeKind::Modified => {
                let before = change.before.as_ref().map(|before| Work::of(before));
                // Whoever has taken over an agent reports what he likes.
                let is_told =
                    self.role() == Some(Role::People) && before.as_ref().is_some_and(|one| !one.is_done());
                if let Some(before) = before.filter(|_| self.by_controller()) {
                    let is_other = before.uid != work.uid
                        || (&before.revision, &before.retry) != (&work.revision, &work.retry);
                    if is_other {
                        self.judge_after_pre_action(&work);
                        self.begins(&work);
                    }
                    // What is being deleted does not start.
                    let is_start = is_other && work.takes_slot() && !change.after.is_deleting;
                    if is_start {
                        self.start(&work);
                    }
                    // The end of another attempt is none of this one, but until now it told which version the cluster runs.
                    if is_other {
                        self.hide_end(&work);
                    }
                    // If only annotations differ, what agents have reported still counts.
                    if is_start && work.is_done() {
                        self.done(&work);
                    }
                }
                let was_deleting = change.before.as_ref().is_some_and(|before| before.is_deleting);
                if change.after.is_deleting && !was_deleting {
                    self.deleting(change, &work);
                }
                if (is_told || self.role() == Some(Role::Agents)) && work.is_done() {
                    self.done(&work);
                }
                if !work.is_done() || (change.after.is_deleting && !self.by_controller()) {
                    self.hide_end(&work);
                }
            }
            ChangeKind::Deleted => {
                self.hide_end(&work);
                if !change.before.as_ref().is_some_and(|before| before.is_deleting) {
                    self.deleting(change, &work);
                }
                let deleter = self.deleters.get(&*change.after.uid).copied();
                // Its annotations may have been changed since.
                let key = self.keys.remove(&*change.after.uid).unwrap_or_else(|| work.key());
                if let Some(created) = self.created.get_mut(&key) {
                    let by = deleter.and_then(|(_, role)| role);
                    created.deleted = Some((self.now, by));
                    created.unwanted = deleter.map(|(at, _)| at);
                }
            }
        }
    }

    fn added(&mut self, change: &Change, work: &Work) {
        self.keys.insert(change.after.uid.to_string(), work.key());
        let is_late = self.is_late(work);
        self.judge_after_pre_action(work);
        self.created(work);
        self.judge_acks(work);
        self.judge_image(work);
        if work.takes_slot() && !is_late {
            self.start(work);
        }
    }

    /// A work that the controller changes must have been its own. What an upgrade leaves that no longer exists is the
    /// controller's to remove: nobody can tell any more what the name of its owner was.
    fn own_work(&mut self, change: &Change, work: &Work) {
        let Some(before) = &change.before else { return };
        let since = self.foreign.get(&*before.uid).copied();
        let sent = self.sent();
        let upgrade = self.upgrades.get(label(before, LABEL_MCU_UID));
        let is_left = upgrade
            .and_then(|upgrade| upgrade.ended)
            .is_some_and(|ended| ended <= sent);
        let is_foreign = since.is_some_and(|since| sent > since + DEAF || since.is_zero());
        self.check(Rule::Foreign, !is_foreign || is_left, || {
            format!("{} belongs to somebody else and was changed", before.key)
        });
        // An update that was under way when somebody took the work over takes it back.
        if self.is_ours(work) {
            self.foreign.remove(&*change.after.uid);
        }
    }

    fn is_ours(&self, work: &Work) -> bool {
        self.upgrades
            .get(&work.uid)
            .map_or(!work.uid.is_empty(), |upgrade| upgrade.key == work.owner)
    }

    /// Notes which works are not the controller's.
    fn disown(&mut self, change: &Change, work: &Work) {
        let uid = change.after.uid.to_string();
        if self.is_ours(work) {
            self.foreign.remove(&uid);
        } else {
            // Zero: it never was ours.
            let since = if change.kind == ChangeKind::Added {
                Duration::ZERO
            } else {
                self.now
            };
            self.foreign.entry(uid).or_insert(since);
        }
    }

    /// Whoever changes what the controller has written on a work changes its record.
    fn tampered(&mut self, change: &Change, work: &Work) {
        let Some(before) = change
            .before
            .as_ref()
            .filter(|_| change.kind == ChangeKind::Modified)
        else {
            return;
        };
        let before = Work::of(before);
        let is_other = before.uid != work.uid || before.owner != work.owner || before.notes() != work.notes();
        if let Some(upgrade) = self.upgrades.get_mut(&before.uid).filter(|_| is_other) {
            upgrade.records.entry(work.cluster.clone()).or_default().is_edited = true;
            upgrade.release(&work.cluster);
            let attempt = before.step.map(|step| (before.cluster, step, before.revision));
            if let Some(end) = attempt.and_then(|attempt| upgrade.ends.get_mut(&attempt)) {
                end.rewritten.clone_from(&work.started);
            }
        }
    }

    /// Whether a creation was under way when the controller deleted the work that it had created meanwhile. It cannot be
    /// called back.
    fn is_late(&self, work: &Work) -> bool {
        let sent = self.sent();
        let earlier = self.created.get(&work.key()).and_then(|created| created.deleted);
        earlier.is_some_and(|(at, by)| by == Some(Role::Controller) && sent <= at)
    }

    /// The work of an attempt is there. One that is created again keeps its clock, unless its cluster was away. If the row of
    /// that cluster is still there, nobody who leads later can tell that it was away: then the clock of the row goes on.
    ///
    /// The clock runs from the first try with this start on, even if the hub refused that one: a cluster whose work the hub never
    /// takes must not hold its slot for ever. Nor can the controller tell a try that never arrived from one whose work somebody
    /// has deleted since. A cluster that was registered anew since begins anew, but
    /// not one that only had other labels or was not selected for a moment, and whose work still has that start. Nor one whose
    /// namespace was away while no creation met that.
    fn begins(&mut self, work: &Work) {
        self.replace_ends(&work.key());
        let cluster = self.clusters.get(&work.cluster);
        let changed = cluster.map(|cluster| cluster.changed);
        let tried = self.tried.get(&(work.key(), work.started.clone()));
        let tried = tried.filter(|tried| cluster.is_none_or(|cluster| **tried > cluster.heard));
        let first = tried.copied().unwrap_or_else(|| self.sent());
        let goes_on = self.has_start_of_row(work);
        let earlier = self.created.get(&work.key());
        let is_anew = earlier.is_some_and(|created| created.is_unheard);
        let began = self.began.entry(work.key()).or_insert(first);
        if (is_anew || changed.is_some_and(|changed| *began < changed)) && !goes_on {
            *began = first;
        }
    }

    /// Notes a creation that is sent. If the hub refuses it or never gets it, the log does not tell of it. The first one counts,
    /// or the first one since the controller could hear that the cluster was registered anew.
    pub(super) fn try_work(&mut self, sender: &Sender, body: &[u8]) {
        let of_start = creation(body);
        let cluster = self.clusters.get(&of_start.0.1);
        let heard = cluster.map_or(Duration::ZERO, |cluster| cluster.heard);
        self.first_tried.entry(of_start.clone()).or_insert(sender.at);
        let first = self.tried.entry(of_start).or_insert(sender.at);
        if *first <= heard {
            *first = sender.at;
        }
    }

    /// Whether a work has the start that the row of its attempt on the hub gives to a step that is not over. A row that only a
    /// rejected report still has is of the time before the cluster was away, and so is its start.
    pub(super) fn has_start_of_row(&self, work: &Work) -> bool {
        let Some(upgrade) = self.upgrades.get(&work.uid) else {
            return false;
        };
        let started = parse_rfc3339(&work.started);
        if upgrade.has_former_row(&work.cluster) {
            let cluster = self.clusters.get(&work.cluster);
            return cluster.is_some_and(|one| started.is_some_and(|at| at < wall(one.changed)));
        }
        let is_of_it = |row: &&Row| row.revision == work.revision && row.retry == work.retry;
        let record = upgrade.records.get(&work.cluster);
        let Some(row) = record.and_then(Record::row).filter(is_of_it) else {
            return false;
        };
        let mut open = row.steps.iter().filter(|step| step.outcome.is_empty());
        started.is_some() && open.any(|step| parse_rfc3339(&step.started) == started)
    }

    /// Whether a work is the first one since its cluster was registered anew, at `changed`, or a pre-action since it was selected again, and
    /// whoever created it may not have heard yet that the cluster was away. When it hears of that, it begins anew.
    fn is_unheard(&self, work: &Work, changed: Duration) -> bool {
        let cluster = self.clusters.get(&work.cluster);
        let away = cluster.filter(|one| one.was_away()).map(|_| changed);
        let back = cluster.filter(|one| work.is_of(Step::PreAction) && one.is_back());
        let since = away.or_else(|| back?.left);
        let earlier = self.created.get(&work.key());
        let is_first = earlier.is_none_or(|created| created.at < changed);
        is_first && since.is_some_and(|since| self.sent() < since + DEAF)
    }

    fn created(&mut self, work: &Work) {
        if self.has_own_clock(work) {
            self.began.remove(&work.key());
        }
        self.begins(work);
        self.note_straggler(&work.cluster, &work.name, &work.target);
        let sent = self.sent();
        // The log tells of this try.
        let of_start = (work.key(), work.started.clone());
        if self.tried.get(&of_start) == Some(&sent) {
            self.tried.remove(&of_start);
        }
        // A cluster that was away begins anew.
        let changed = self
            .clusters
            .get(&work.cluster)
            .map_or(Duration::ZERO, |cluster| cluster.changed);
        let earlier = self
            .created
            .get(&work.key())
            .filter(|created| created.at > changed && !created.is_unheard)
            .cloned();
        let is_unheard = self.is_unheard(work, changed);
        // Whoever else deleted it wants it again if its step is not over. A request that was under way before the deletion
        // cannot be called back.
        let is_repeat = match earlier.map(|created| created.deleted) {
            None | Some(Some((_, None | Some(Role::People | Role::Agents)))) => false,
            Some(None) => true,
            Some(Some((at, Some(Role::Controller)))) => sent > at,
        };
        let record = self
            .upgrades
            .get(&work.uid)
            .and_then(|upgrade| upgrade.records.get(&work.cluster));
        let is_edited = record.is_some_and(|record| record.is_edited);
        // Whoever creates it by a row from before does not know yet that the cluster was away.
        let told = record.and_then(|record| record.phases.last());
        let is_former = told.is_some_and(|told| told.is_from_before(changed));
        self.check(Rule::Once, !is_repeat || is_edited, || {
            format!(
                "{} was created again for attempt {:?} {:?}",
                work.name, work.revision, work.retry
            )
        });
        let at = if is_former { changed } else { self.now };
        let created = Created {
            at,
            started: work.started.clone(),
            is_unheard,
            first_try: self.first_try(work),
            ..Created::default()
        };
        // What was begun goes on, and its beginning was judged.
        let is_again = self.created.insert(work.key(), created).is_some();
        let selected = self
            .upgrades
            .get(&work.uid)
            .is_some_and(|upgrade| upgrade.selected.contains(&work.cluster));
        // Its former labels may still be believed for a while.
        let was_relabelled = !changed.is_zero() && changed + DEAF > sent;
        self.check(Rule::Selected, selected || was_relabelled || is_again, || {
            format!("{} was created for a cluster that was never selected", work.name)
        });
    }

    /// A deletion was asked for.
    fn deleting(&mut self, change: &Change, work: &Work) {
        self.deleters
            .insert(change.after.uid.to_string(), (self.now, self.role()));
        if !self.by_controller() {
            self.lost(work);
            return;
        }
        let sent = self.sent();
        let Some(upgrade) = self.upgrades.get(&work.uid) else {
            return;
        };
        let is_there = self
            .clusters
            .get(&work.cluster)
            .is_some_and(|cluster| cluster.is_there);
        // The row may be gone since.
        let removed = upgrade.removed.get(&work.cluster).filter(|(_, at)| sent <= *at);
        let record = removed.map_or_else(|| upgrade.records.get(&work.cluster), |(record, _)| Some(record));
        let phase = record.map_or("", |record| record.phase_at(sent)).to_owned();
        let is_edited = record.is_some_and(|record| record.is_edited);
        // What fails in its post-action has ended its update.
        let failed_late = |row: &Row| {
            let update = row.step("Platform").filter(|_| row.phase == "Pending");
            let is_retried = update.is_some_and(|step| step.outcome == "Succeeded");
            phase == "Failed" && (is_retried || row.reason.starts_with("PostAction"))
        };
        let is_over = upgrade.is_gone
            || !is_there
            || self.went_back_before(sent, ON_ITS_WAY)
            || is_edited
            || upgrade.has_former_row(&work.cluster)
            || matches!(phase.as_str(), "Complete" | "PostAction")
            || (matches!(phase.as_str(), "Skipped" | "Aborted") && !self.is_accepted(&change.after.uid))
            || (phase == "Pending" && record.is_some_and(|one| one.begins_anew() || work.is_left_of(one)))
            || record.and_then(Record::row).is_some_and(failed_late);
        if work.step == Some(Step::Platform) {
            self.check(Rule::RowFirst, is_over, || {
                format!(
                    "{} was deleted while the row of {} says {phase:?}",
                    work.name, work.cluster
                )
            });
        }
        self.end_flight(work, &phase);
    }

    /// The deletion of a work ends that its cluster is under way, unless the row said that it has started, or the work is left over.
    fn end_flight(&mut self, work: &Work, phase: &str) {
        let now = self.now;
        let goes_on =
            matches!(phase, "Initialized" | "Partial" | "Workers" | "Operators") || self.is_left_beside(work);
        // It is under way since its start, so a row that was sent at the same time as the deletion may end that.
        if let Some(upgrade) = self.upgrades.get_mut(&work.uid).filter(|_| !goes_on)
            && let Some(since) = upgrade.flights.remove(&work.cluster)
        {
            if phase == "PreAction" {
                upgrade.suspended.insert(work.cluster.clone(), since);
            } else if work.step == Some(Step::PreAction) {
                let withdrawn = Withdrawn {
                    at: now,
                    revision: work.revision.clone(),
                    retry: work.retry.clone(),
                    started: work.started.clone(),
                };
                upgrade.withdrawn.insert(work.cluster.clone(), withdrawn);
            }
        }
    }

    /// Somebody else deletes a work. Without a row, nothing tells any more that its cluster was under way. With a row that says
    /// so, nothing tells any more that it is not.
    fn lost(&mut self, work: &Work) {
        let now = self.now;
        let Some(upgrade) = self.upgrades.get_mut(&work.uid).filter(|_| work.takes_slot()) else {
            return;
        };
        let row = upgrade.records.get(&work.cluster).and_then(Record::row);
        let is_told = row.is_some_and(|row| row.is_under_way() && !row.is_newer);
        let is_known = is_told && upgrade.flights.contains_key(&work.cluster);
        if !is_known {
            // An edit may have given the row another attempt than the work still has.
            let told = row.filter(|_| is_told);
            let told = told.map(|row| (row.revision.clone(), row.retry.clone()));
            let attempt = told.unwrap_or_else(|| (work.revision.clone(), work.retry.clone()));
            upgrade.note_doubtful(&work.cluster, attempt, now);
        }
    }

    /// The platform work does not show any more that its update has ended.
    fn hide_end(&mut self, work: &Work) {
        if work.step == Some(Step::Platform) {
            self.cluster(&work.cluster).shown.clear();
        }
    }

    /// Agents report the end of a step.
    fn done(&mut self, work: &Work) {
        let now = self.now;
        if let Some((upgrade, step)) = self.upgrades.get_mut(&work.uid).zip(work.step) {
            let created = text(&work.value, "/metadata/creationTimestamp");
            let of_attempt = End {
                retry: work.retry.clone(),
                target: work.target.clone(),
                started: work.started.clone(),
                created: created.to_owned(),
                rewritten: String::new(),
                is_replaced: false,
                first: now,
                last: now,
            };
            let attempt = (work.cluster.clone(), step, work.revision.clone());
            upgrade.note_end(attempt, of_attempt);
        }
        match work.step {
            Some(Step::Platform) => {
                self.ended += 1;
                let cluster = self.cluster(&work.cluster);
                let since = cluster.deleted.unwrap_or_default();
                let done = cluster.done.entry(work.target.clone()).or_insert(now);
                if *done < since {
                    *done = now;
                }
                cluster.shown.entry(work.target.clone()).or_insert(now);
                let upgrade = self.upgrades.get(&work.uid);
                let goes_on = upgrade.is_some_and(|upgrade| {
                    upgrade.lacks_operators(&work.key(), now) || upgrade.awaits_pools(now)
                });
                if !goes_on && !self.is_from_before(work) {
                    self.finish(work);
                }
            }
            // What agents report of an earlier attempt ends nothing that is under way.
            Some(Step::Operators) if !self.is_from_before(work) => self.finish(work),
            Some(Step::PreAction) => self.end_belated(work),
            _ => {}
        }
    }

    /// Agents report the end of the last step that holds a slot. A cluster that was deleted gets no row any more that could say
    /// so.
    fn finish(&mut self, work: &Work) {
        let now = self.now;
        let cluster = self.clusters.get(&work.cluster);
        let is_there = cluster.is_some_and(|cluster| cluster.is_there);
        if let Some(upgrade) = self.upgrades.get_mut(&work.uid) {
            upgrade.release(&work.cluster);
            if is_there {
                upgrade.finished.insert(work.cluster.clone(), now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
