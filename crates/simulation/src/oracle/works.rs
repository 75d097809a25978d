//! Rules about works: who starts when, and what is created, changed and deleted.

use std::time::Duration;

use api::names::{
    ANNOTATION_ATTEMPT, ANNOTATION_OWNER, ANNOTATION_REVISION, ANNOTATION_TARGET_VERSION, LABEL_MCU_UID, Step,
};
use hub_sim::{Change, ChangeKind, Object};
use serde_json::Value;

use super::facts::{Created, Facts, Record, Row, label, text, version};
use super::rule::Rule;
use crate::actor::Role;

/// How long a replica may not know what it should have heard: a dead watch is noticed within a minute.
const DEAF: Duration = Duration::from_secs(75);

/// A work as far as rules depend on it.
struct Work {
    uid: String,
    cluster: String,
    name: String,
    step: Option<Step>,
    revision: String,
    retry: String,
    owner: String,
    target: String,
    value: Value,
}

impl Work {
    fn of(object: &Object) -> Self {
        let value = object.value();
        let note = |name: &str| {
            let notes = value.pointer("/metadata/annotations");
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
            value,
        }
    }

    fn notes(&self) -> Option<&Value> {
        self.value.pointer("/metadata/annotations")
    }

    fn takes_slot(&self) -> bool {
        matches!(
            self.step,
            Some(Step::PreAction | Step::Platform | Step::Operators)
        )
    }

    fn key(&self) -> (String, String, String, String, String) {
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
        let manifests = self
            .value
            .pointer("/status/resourceStatus/manifests")?
            .as_array()?;
        let values = manifests
            .iter()
            .filter_map(|manifest| manifest.pointer("/statusFeedback/values")?.as_array());
        let mut values = values.flatten();
        let found = values.find(|value| value.get("name").and_then(Value::as_str) == Some(name))?;
        found.get("fieldValue")
    }

    /// Whether agents report that the step has succeeded.
    fn is_done(&self) -> bool {
        let says = |name: &str| self.reported(name).map_or("", |value| text(value, "/string"));
        match self.step {
            Some(Step::Platform) => says("state") == "Completed" && says("version") == self.target,
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

fn generation(value: &Value) -> Option<&Value> {
    value.pointer("/metadata/generation")
}

impl Facts {
    pub(super) fn work(&mut self, change: &Change) {
        let work = Work::of(&change.after);
        if self.by_controller() {
            self.own_work(change, &work);
        } else {
            self.disown(change, &work);
            self.tampered(change, &work);
        }
        match change.kind {
            ChangeKind::Added if self.by_controller() => {
                self.keys.insert(change.after.uid.to_string(), work.key());
                let is_late = self.is_late(&work);
                self.created(&work);
                if work.takes_slot() && !is_late {
                    self.start(&work);
                }
            }
            ChangeKind::Added => {}
            ChangeKind::Modified => {
                let before = change.before.as_ref().map(|before| Work::of(before));
                if let Some(before) = before.filter(|_| self.by_controller()) {
                    let is_other = before.uid != work.uid
                        || (&before.revision, &before.retry) != (&work.revision, &work.retry);
                    if is_other && work.takes_slot() {
                        self.start(&work);
                        // Only annotations differ, so what agents have reported is fresh.
                        if work.is_done() && generation(&before.value) == generation(&work.value) {
                            self.done(&work);
                        }
                    }
                }
                let was_deleting = change.before.as_ref().is_some_and(|before| before.is_deleting);
                if change.after.is_deleting && !was_deleting {
                    self.deleting(change, &work);
                }
                if self.role() == Some(Role::Agents) && work.is_done() {
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
                }
            }
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
        }
    }

    /// Whether a creation was under way when the controller deleted the work that it had created meanwhile. It cannot be
    /// called back.
    fn is_late(&self, work: &Work) -> bool {
        let sent = self.sent();
        let earlier = self.created.get(&work.key()).and_then(|created| created.deleted);
        earlier.is_some_and(|(at, by)| by == Some(Role::Controller) && sent <= at)
    }

    fn created(&mut self, work: &Work) {
        let sent = self.sent();
        // A cluster that was away begins anew.
        let changed = self
            .clusters
            .get(&work.cluster)
            .map_or(Duration::ZERO, |cluster| cluster.changed);
        let earlier = self
            .created
            .get(&work.key())
            .filter(|created| created.at > changed)
            .cloned();
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
        self.check(Rule::Once, !is_repeat || is_edited, || {
            format!(
                "{} was created again for attempt {:?} {:?}",
                work.name, work.revision, work.retry
            )
        });
        self.created.insert(
            work.key(),
            Created {
                at: self.now,
                deleted: None,
            },
        );
        let selected = self
            .upgrades
            .get(&work.uid)
            .is_some_and(|upgrade| upgrade.selected.contains(&work.cluster));
        self.check(Rule::Selected, selected, || {
            format!("{} was created for a cluster that was never selected", work.name)
        });
    }

    /// A cluster begins its steps, or begins them anew.
    fn start(&mut self, work: &Work) {
        self.downgrade(work);
        let sent = self.sent();
        let Some(upgrade) = self.upgrades.get(&work.uid) else {
            return;
        };
        if upgrade.flights.contains_key(&work.cluster) {
            return;
        }
        let may_start = !upgrade.is_held && upgrade.in_force(sent).any(|generation| !generation.is_shut);
        let limit = upgrade
            .in_force(sent)
            .map(|one| one.max_concurrency)
            .max()
            .unwrap_or_default();
        // Whoever rewrites a record or a work decides what the controller believes of that cluster.
        let is_edited = |name: &String| upgrade.records.get(name).is_some_and(|record| record.is_edited);
        if is_edited(&work.cluster) {
            return;
        }
        let holders = upgrade
            .holders()
            .into_iter()
            .filter(|name| **name != work.cluster);
        let mut names: Vec<String> = holders
            .filter(|name| !is_edited(name) && !self.is_unaccounted(upgrade, name))
            .cloned()
            .collect();
        names.push(work.cluster.clone());
        // A cluster that comes back before it was dropped goes on, and one whose work somebody deleted may do so.
        let is_doubtful = upgrade.doubtful.contains(&work.cluster);
        let goes_on = is_doubtful
            || upgrade.records.get(&work.cluster).is_some_and(|record| {
                let is_same = record
                    .row()
                    .is_some_and(|row| row.revision == work.revision && row.retry == work.retry);
                is_same
                    && matches!(
                        record.phase_at(sent),
                        "PreAction" | "Initialized" | "Partial" | "Operators"
                    )
            });
        // Its works may still seem to be there for a while after it has come back.
        let changed = self.clusters.get(&work.cluster).map(|cluster| cluster.changed);
        let is_back = changed.is_some_and(|changed| !changed.is_zero() && changed + DEAF > sent);
        let is_there = self
            .clusters
            .get(&work.cluster)
            .is_some_and(|cluster| cluster.is_there);
        let kept_slot = goes_on
            && (is_back
                || is_doubtful
                || upgrade.has_kept_slot(&work.cluster)
                || upgrade.suspended.contains_key(&work.cluster));
        let rival = self.at_work(work, sent);
        let failures = self.failures(work, sent);
        let canary = self.open_canary(work, sent);
        let cluster = &work.cluster;
        self.check(Rule::Paused, may_start || goes_on, || {
            format!("{cluster} started while its upgrade is paused, invalid or restored")
        });
        self.check(
            Rule::Concurrency,
            names.len() <= limit || kept_slot || !is_there,
            || format!("{} are under way at the same time", names.join(", ")),
        );
        self.check(Rule::Exclusive, rival.is_none(), || {
            format!(
                "{cluster} started while {} is at work on it",
                rival.unwrap_or_default()
            )
        });
        if let Some((failed, budget)) = failures.filter(|_| !goes_on) {
            self.check(Rule::Budget, failed <= budget, || {
                format!(
                    "{cluster} started after {failed} clusters had failed, of which {budget} are tolerated"
                )
            });
        }
        if let Some(open) = canary.filter(|_| !goes_on) {
            self.check(Rule::CanariesFirst, open.is_none(), || {
                format!(
                    "{cluster} started before canary {} was complete",
                    open.unwrap_or_default()
                )
            });
        }
        self.note_under_way(work);
    }

    /// A cluster is under way from now on. A start whose cluster was deleted before it arrived does not count.
    fn note_under_way(&mut self, work: &Work) {
        let now = self.now;
        let cluster = self.clusters.get(&work.cluster);
        let is_there = cluster.is_some_and(|cluster| cluster.is_there);
        if let Some(upgrade) = self.upgrades.get_mut(&work.uid).filter(|_| is_there) {
            // Whoever goes on has kept its slot all the time.
            let suspended = upgrade.suspended.remove(&work.cluster);
            let finished = upgrade.finished.remove(&work.cluster);
            let since = suspended.or(finished).unwrap_or(now);
            upgrade.doubtful.remove(&work.cluster);
            upgrade.flights.insert(work.cluster.clone(), since);
        }
    }

    /// Another upgrade that was at work on the cluster when the start was sent.
    fn at_work(&self, work: &Work, sent: Duration) -> Option<String> {
        let rival = self.upgrades.iter().find(|(uid, other)| {
            let since = other.flights.get(&work.cluster);
            **uid != work.uid && !other.is_gone && since.is_some_and(|since| *since <= sent)
        });
        rival.map(|(_, rival)| rival.key.clone())
    }

    fn downgrade(&mut self, work: &Work) {
        let Some(target) = version(&work.target) else {
            return;
        };
        let sent = self.sent();
        let runs = self.clusters.get(&work.cluster).and_then(|cluster| {
            cluster
                .proven_at(sent)
                .or_else(|| cluster.oldest_claimed(sent, DEAF))
        });
        if let Some(runs) = runs {
            self.check(Rule::Downgrade, runs <= target, || {
                format!(
                    "{} asks for {} of a cluster that runs {runs:?}",
                    work.name, work.target
                )
            });
        }
    }

    /// How many failures the rows showed when a start was sent, and how many are tolerated.
    fn failures(&self, work: &Work, sent: Duration) -> Option<(usize, usize)> {
        let upgrade = self.upgrades.get(&work.uid)?;
        let budget = upgrade
            .in_force(sent)
            .map(|one| one.max_failures)
            .try_fold(0, |most, one| Some(one?.max(most)))?;
        let counts = |name: &String| {
            let Some(record) = upgrade.records.get(name) else {
                return false;
            };
            let Some(row) = record.row() else { return false };
            let since = record.phases.last().map_or(sent, |(since, _)| *since);
            // A retry takes a failure back before its row says so.
            let is_retried = upgrade.retried.is_some_and(|retried| retried > since);
            row.phase == "Failed"
                && !record.is_edited
                && row.revision == work.revision
                && !row.is_canary
                && !row.has_left
                && !row.steps.iter().any(|step| step.name == "PostAction")
                && since < sent
                && !is_retried
                && *name != work.cluster
                && self
                    .clusters
                    .get(name)
                    .is_some_and(|cluster| cluster.is_there && cluster.changed < since)
        };
        Some((upgrade.records.keys().filter(|name| counts(name)).count(), budget))
    }

    /// For a cluster that is no canary: a canary that was not complete when the start was sent, if any.
    #[expect(clippy::option_option, reason = "no canaries, or perhaps one that is open")]
    fn open_canary(&self, work: &Work, sent: Duration) -> Option<Option<String>> {
        let upgrade = self.upgrades.get(&work.uid)?;
        let specs: Vec<_> = upgrade.in_force(sent).collect();
        let first = specs.first()?;
        let canaries: Vec<&String> = first
            .canaries
            .iter()
            .filter(|name| specs.iter().all(|spec| spec.canaries.contains(*name)))
            .collect();
        if canaries.is_empty() || specs.iter().any(|spec| spec.canaries.contains(&work.cluster)) {
            return None;
        }
        let soak = specs.iter().map(|spec| spec.soak).min().unwrap_or_default();
        let wants_post_action = specs.iter().all(|spec| spec.has_post_action);
        let is_open = |name: &&&String| {
            let Some(cluster) = self.clusters.get(**name) else {
                return false;
            };
            if !cluster.is_there || cluster.was_relabelled || !cluster.changed.is_zero() {
                return false;
            }
            // A cluster may go on to the target of an earlier spec.
            let versions = specs.iter().map(|spec| &spec.version).chain([&work.target]);
            let soaked = versions.into_iter().any(|version| {
                let done = cluster.done.get(version);
                done.is_some_and(|done| *done + soak <= sent + self.tolerance)
            });
            let checked = cluster.post_action_done.is_some_and(|done| done <= sent);
            !soaked || (wants_post_action && !checked)
        };
        Some(canaries.iter().find(is_open).map(|name| (*name).clone()))
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
        let record = upgrade.records.get(&work.cluster);
        let phase = record.map_or("", |record| record.phase_at(sent)).to_owned();
        let is_edited = record.is_some_and(|record| record.is_edited);
        // What fails in its post-action has ended its update.
        let failed_late = |row: &Row| phase == "Failed" && row.reason.starts_with("PostAction");
        let is_over = upgrade.is_gone
            || !is_there
            || is_edited
            || matches!(phase.as_str(), "Complete" | "PostAction")
            || record.and_then(Record::row).is_some_and(failed_late);
        if work.step == Some(Step::Platform) {
            self.check(Rule::RowFirst, is_over, || {
                format!(
                    "{} was deleted while the row of {} says {phase:?}",
                    work.name, work.cluster
                )
            });
        }
        let was_started = matches!(phase.as_str(), "Initialized" | "Partial" | "Operators");
        let now = self.now;
        if let Some(upgrade) = self.upgrades.get_mut(&work.uid).filter(|_| !was_started)
            && upgrade.flights.remove(&work.cluster).is_some()
            && phase == "PreAction"
        {
            upgrade.suspended.insert(work.cluster.clone(), now);
        }
    }

    /// Somebody else deletes a work. Without a row, nothing tells any more that its cluster was under way. With a row that says
    /// so, nothing tells any more that it is not.
    fn lost(&mut self, work: &Work) {
        let Some(upgrade) = self.upgrades.get_mut(&work.uid).filter(|_| work.takes_slot()) else {
            return;
        };
        let row = upgrade.records.get(&work.cluster).and_then(Record::row);
        let is_known = row.is_some_and(Row::is_under_way) && upgrade.flights.contains_key(&work.cluster);
        if !is_known {
            upgrade.release(&work.cluster);
            upgrade.doubtful.insert(work.cluster.clone());
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
        match work.step {
            Some(Step::Platform) => {
                self.ended += 1;
                let cluster = self.cluster(&work.cluster);
                cluster.done.entry(work.target.clone()).or_insert(now);
                cluster.shown.entry(work.target.clone()).or_insert(now);
                if let Some(upgrade) = self.upgrades.get_mut(&work.uid)
                    && !upgrade.generations.iter().any(|spec| spec.has_operators)
                {
                    upgrade.release(&work.cluster);
                    upgrade.finished.insert(work.cluster.clone(), now);
                }
            }
            Some(Step::Operators) => {
                if let Some(upgrade) = self.upgrades.get_mut(&work.uid) {
                    upgrade.release(&work.cluster);
                    upgrade.finished.insert(work.cluster.clone(), now);
                }
            }
            Some(Step::PostAction) => {
                self.cluster(&work.cluster).post_action_done.get_or_insert(now);
            }
            _ => {}
        }
    }
}
