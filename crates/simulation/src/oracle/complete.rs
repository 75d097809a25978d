//! A row may say that a cluster is complete only if that is true by what agents report.

use std::time::Duration;

use api::names::Step;
use api::time::parse_rfc3339;
use chrono::{DateTime, TimeDelta, Utc};

use super::clocks::{CREATION_DELAY, EARLY, is_recorded_as_now, wall};
use super::facts::{Cluster, DEAF, End, Facts, Key, Record, Running, Upgrade};
use super::fields::{Version, version};
use super::memory::Straggler;
use super::row::Row;
use super::rule::Rule;

/// For how long an agent may not notice that its watch has gone silent, and what happened meanwhile.
const AGENT_DEAF: Duration = Duration::from_secs(330);

/// A cluster that was registered later than this after the success in a row is another one: the clocks of hub and replicas may
/// differ by this much.
const CLOCKS_DIFFER: TimeDelta = TimeDelta::hours(1);

/// What was known of a cluster so shortly before it was registered anew is kept: the clock of a leader may be behind the hub's.
const KEPT: Duration = Duration::from_mins(1);

/// What rows call a step.
pub(super) const fn word(step: Step) -> &'static str {
    match step {
        Step::PreAction => "PreAction",
        Step::Platform => "Platform",
        Step::Operators => "Operators",
        Step::PostAction => "PostAction",
    }
}

/// Whether a work of the attempt of a row holds a slot, and its agent still works on it.
fn is_at_work(work: &Running, owner: &str, cluster: &str, row: &Row) -> bool {
    work.goes_on
        && work.owner == owner
        && work.cluster == cluster
        && work.revision == row.revision
        && work.retry == row.retry
}

impl End {
    /// Whether a row that has this start tells of this step. A work that is created again keeps its start. If somebody deletes the
    /// row as well, the next one has a start that is not long before that creation. A start that a clock which was ahead gave to a
    /// work is recorded as the time at which whoever leads finds it, unless the step has begun anew in another revision since.
    fn has_start(&self, started: DateTime<Utc>) -> bool {
        self.is_named(&self.started, started)
            || (!self.rewritten.is_empty() && self.is_named(&self.rewritten, started))
    }

    fn is_named(&self, named: &str, started: DateTime<Utc>) -> bool {
        let created = parse_rfc3339(&self.created);
        let Some(named) = parse_rfc3339(named) else {
            // Somebody has taken the start away. A row that told of it before has one from just before the creation.
            return created.is_some_and(|created| created - EARLY <= started && started <= created);
        };
        let before = |earlier| created.map_or(named, |created| created - earlier);
        let is_found = !self.is_replaced && is_recorded_as_now(named, before(CREATION_DELAY), started);
        started == named || started == named.max(before(EARLY)) || is_found
    }
}

impl Upgrade {
    /// Agents report the end of a step. The work is of this revision then, also if it was of another one in between: an edit may have
    /// been taken back, by people or because the storage of the hub went back.
    pub(super) fn note_end(&mut self, attempt: (String, Step, String), reported: End) {
        let end = self.ends.entry(attempt).or_insert_with(|| reported.clone());
        if end.retry == reported.retry {
            end.last = reported.last;
            if reported.started != end.rewritten {
                end.started = reported.started;
            }
            end.created = reported.created;
            end.is_replaced = false;
        } else {
            *end = reported;
        }
    }

    /// The ends of this upgrade's updates of a cluster that agents have reported, and the versions to which they led.
    fn updates(&self, cluster: &str) -> impl Iterator<Item = (&End, Option<Version>)> {
        let ends = self.ends.iter();
        let updates = ends.filter(move |((name, step, _), _)| name == cluster && *step == Step::Platform);
        updates.map(|(_, end)| (end, version(&end.target)))
    }

    /// The version that it asks for, if the row of a cluster says that this is blocked because it runs something newer.
    fn blocked_target(&self, cluster: &str) -> Option<Version> {
        let row = self.records.get(cluster).and_then(Record::row)?;
        let is_blocked = row.phase == "Blocked" && row.reason == "NewerThanTarget";
        let asked = self.generations.last().filter(|_| is_blocked)?;
        version(&asked.version)
    }

    /// Whether every spec that may be in force at a time asks for operators.
    pub(super) fn wants_operators(&self, at: Duration) -> bool {
        self.in_force(at).all(|spec| spec.after.operators)
    }

    /// Whether operators are still to come when agents report the end of an update. A retry does not repeat those that had
    /// succeeded before, as its row says. Nothing more comes of an attempt that is not the one for which the cluster waits by its
    /// row: the work was on its way when that row was written, and is removed before the cluster starts.
    pub(super) fn lacks_operators(&self, (_, cluster, _, revision, retry): &Key, at: Duration) -> bool {
        let row = self.records.get(cluster).and_then(Record::row);
        let is_of_it = |row: &&Row| row.revision == *revision && row.retry == *retry;
        let waits = |row: &Row| matches!(row.phase.as_str(), "Pending" | "Blocked");
        if row.is_some_and(|row| waits(row) && !is_of_it(&row)) {
            return false;
        }
        let row = row.filter(is_of_it);
        let have_succeeded = row.is_some_and(|row| {
            let recorded = row.step(word(Step::Operators));
            let is_told = recorded.is_some_and(|step| step.outcome == "Succeeded");
            is_told && self.end_of_row(cluster, Step::Operators, row).is_some()
        });
        !have_succeeded && self.wants_operators(at)
    }

    /// What agents have reported of a step of a revision.
    pub(super) fn end(&self, cluster: &str, step: Step, revision: &str) -> Option<&End> {
        self.ends.get(&(cluster.to_owned(), step, revision.to_owned()))
    }

    /// What agents have reported of the step that a row tells of. An edit that does not concern a step leaves its work as it is:
    /// of an earlier revision than the row, and with the start that the row has. If the row may tell of several steps, it is the one
    /// whose work names that very start.
    pub(super) fn end_of_row(&self, cluster: &str, step: Step, row: &Row) -> Option<&End> {
        let recorded = row.step(word(step));
        let started = recorded.and_then(|step| parse_rfc3339(&step.started));
        let is_kept = |end: &&End| started.is_some_and(|started| end.has_start(started));
        let is_named = |end: &&End| parse_rfc3339(&end.started) == started;
        let ends = self.ends.iter();
        let of_step = ends.filter(|((name, of, _), _)| name == cluster && *of == step);
        let kept = of_step.map(|(_, end)| end).filter(is_kept);
        let end = self.end(cluster, step, &row.revision);
        end.or_else(|| kept.min_by_key(|end| !is_named(end)))
    }

    /// Whether agents have reported the end of the steps that hold a slot, as a row says that was sent at a time.
    pub(super) fn has_ended(&self, cluster: &str, row: &Row, sent: Duration) -> bool {
        self.last_end(cluster, row, sent).is_some()
    }

    /// Whether they have reported the end of the very step that a row tells of as open. The hub may refuse the row that says so.
    pub(super) fn has_ended_as_told(&self, cluster: &str, row: &Row, sent: Duration) -> bool {
        let step = row.step(word(self.last_step(row, sent)));
        let started = step.and_then(|step| parse_rfc3339(&step.started));
        let end = self.last_end(cluster, row, sent);
        end.zip(started)
            .is_some_and(|(end, started)| end.retry == row.retry && end.has_start(started))
    }

    /// What they have reported of the last of these steps.
    pub(super) fn last_end(&self, cluster: &str, row: &Row, sent: Duration) -> Option<&End> {
        self.end_of_row(cluster, self.last_step(row, sent), row)
    }

    pub(super) fn last_step(&self, row: &Row, sent: Duration) -> Step {
        if self.wants_operators(sent) && !row.has_left {
            Step::Operators
        } else {
            Step::Platform
        }
    }

    /// The same, if they reported it after a cluster was lost, and before something was sent.
    pub(super) fn end_since(&self, cluster: &str, row: &Row, lost: Duration, sent: Duration) -> Option<&End> {
        let end = self.last_end(cluster, row, sent);
        end.filter(|end| lost < end.last && end.first <= sent)
    }

    /// Whether an edit at such a time has changed what is asked for of clusters. What is invalid asks for nothing.
    pub(super) fn is_edited(&self, is_meant: impl Fn(Duration) -> bool) -> bool {
        let valid = || self.generations.iter().filter(|spec| !spec.is_invalid);
        let mut edits = valid().zip(valid().skip(1));
        edits.any(|(before, now)| before.asks != now.asks && is_meant(now.since))
    }

    /// Whether agents have reported the end of a step that may be the last one that holds a slot after one time and until another,
    /// and something else was asked for in between as well.
    pub(super) fn has_ended_and_is_asked_again(
        &self,
        cluster: &str,
        since: Duration,
        until: Duration,
    ) -> bool {
        let is_between = |at: Duration| since < at && at <= until;
        let have_operators = self.generations.iter().all(|spec| spec.after.operators);
        let is_last = |step: Step| step == Step::Operators || (step == Step::Platform && !have_operators);
        let mut ends = self
            .ends
            .iter()
            .filter(|((name, step, _), _)| name == cluster && is_last(*step));
        self.is_edited(is_between) && ends.any(|(_, end)| is_between(end.first) || is_between(end.last))
    }

    /// Whether a cluster without a row has ended the update that it holds its slot for, and something else is asked for since. It
    /// waits like any other for its next one, and whoever leads then finds the same.
    pub(super) fn waits_anew(&self, cluster: &str) -> bool {
        let row = self.records.get(cluster).and_then(Record::row);
        let since = self.flights.get(cluster).or_else(|| self.suspended.get(cluster));
        let Some(since) = since.filter(|_| row.is_none()) else {
            return false;
        };
        let asked = self.generations.last();
        let is_edited = self.is_edited(|at| *since < at);
        let is_outdated = |end: &End| is_edited || asked.is_some_and(|spec| spec.version != end.target);
        let mut ends = self
            .ends
            .iter()
            .filter(|((name, step, _), _)| name == cluster && *step == Step::Platform);
        ends.any(|(_, end)| *since < end.last && is_outdated(end))
    }

    /// Whether a cluster that its row says to be in its update needs nothing more that holds a slot, as whoever sent a start of this
    /// revision knew: an edit has taken its operators away after agents had reported the end of the update, and the row is of that
    /// edit already. Whoever leads then finds the end by the work, which is of an earlier revision and has the start of the row.
    /// One that has left the selection stays at its earlier revision, and ends with its update. So its row need not be of the edit.
    pub(super) fn needs_no_operators(
        &self,
        cluster: &str,
        revision: &str,
        has_left: bool,
        sent: Duration,
    ) -> bool {
        let record = self.records.get(cluster).filter(|record| record.sent() < sent);
        let is_meant = |row: &&Row| {
            let is_of_edit = has_left || row.revision == revision;
            is_of_edit && matches!(row.phase.as_str(), "Initialized" | "Partial")
        };
        let row = record.and_then(Record::row).filter(is_meant);
        let update = row.and_then(|row| row.step(word(Step::Platform)));
        let Some(started) = update.and_then(|step| parse_rfc3339(&step.started)) else {
            return false;
        };
        let mut ends = self.ends.iter();
        let has_ended = ends.any(|((name, step, of), end)| {
            let is_kept = of != revision && end.has_start(started);
            name == cluster && *step == Step::Platform && is_kept && end.first <= sent
        });
        has_ended && !self.wants_operators(sent)
    }

    /// When a cluster was last deleted, if its row was removed since and does not tell of the same update again: whoever did that has heard
    /// of it. What the cluster had ended before counts for nothing in what is sent from then on. A row that was sent before and arrives
    /// late tells of the time before.
    pub(super) fn known_deletion(&self, name: &str, cluster: &Cluster, sent: Duration) -> Duration {
        let started = |record: &Record| {
            let update = record.row()?.step(word(Step::Platform));
            update.map(|step| step.started.clone())
        };
        let now = self.records.get(name).and_then(started);
        let deleted = cluster.deleted.filter(|deleted| {
            let is_heard = |at: Duration| at >= *deleted && at.min(*deleted + DEAF) < sent;
            let removed = self.removed.get(name).filter(|(_, at)| is_heard(*at));
            removed.is_some_and(|(record, _)| now.is_none() || started(record) != now)
        });
        deleted.unwrap_or_default()
    }

    /// Whether a cluster has come to the version of a row that says that it is complete. A row that is back at an earlier attempt
    /// names none any more. Then it is the one that the rows of that attempt named before, if they did.
    fn has_run(&self, name: &str, cluster: &Cluster, row: &Row, sent: Duration) -> bool {
        let claims = cluster.versions.last().map(|(_, claim)| *claim);
        let since = self.known_deletion(name, cluster, sent);
        let has_ended = |to: &str| cluster.done.get(to).is_some_and(|done| *done >= since);
        let runs = |to: &str| has_ended(to) || (claims.is_some() && claims >= version(to));
        if !row.to.is_empty() {
            return runs(&row.to);
        }
        let rows = self
            .records
            .get(name)
            .into_iter()
            .flat_map(|record| &record.before);
        let mut named = rows.filter(|before| before.attempt() == row.attempt() && !before.to.is_empty());
        match named.next_back() {
            Some(named) => named.phase == "Complete" || runs(&named.to),
            None => claims.is_some() || !cluster.done.is_empty(),
        }
    }
}

impl Facts {
    /// A step begins in a revision. A row with its start does not tell of what was reported in another one.
    pub(super) fn replace_ends(&mut self, (owner, cluster, work, revision, _): &Key) {
        let Some(upgrade) = self.upgrades.get_mut(owner) else {
            return;
        };
        let ends = upgrade.ends.iter_mut();
        let others = ends.filter(|((name, step, of), _)| {
            name == cluster && step.work_name(cluster) == *work && of != revision
        });
        for (_, end) in others {
            end.is_replaced = true;
        }
    }

    /// Whether a row says that an attempt is under way whose end the hub's own work shows, also if the row was sent before that
    /// end. If the cluster was lost since that end and is back, it is taken for the same one: its work is about to be read, which
    /// shows that it holds no slot.
    pub(super) fn is_over_by_work(&self, owner: &str, cluster: &str, row: &Row) -> bool {
        let sent = self.sent();
        let Some(upgrade) = self.upgrades.get(owner).filter(|_| row.is_under_way()) else {
            return false;
        };
        let end = upgrade.last_end(cluster, row, sent);
        let Some(end) = end.filter(|end| end.retry == row.retry) else {
            return false;
        };
        let name = upgrade.last_step(row, sent).work_name(cluster);
        let mut works = self.works.iter();
        works.any(|(uid, work)| {
            let is_of_it = work.owner == owner && work.name == name && work.started == end.started;
            is_of_it && !work.goes_on && !self.deleters.contains_key(uid)
        })
    }

    /// The platform work of a cluster whose agents have reported the end of its update. If no row tells of that yet, this work
    /// alone tells it, also after an edit that leaves it as it is.
    pub(super) fn untold_update(&self, owner: &str, cluster: &str) -> Option<&Running> {
        let platform = Step::Platform.work_name(cluster);
        let mut works = self.works.values();
        works.find(|work| work.owner == owner && work.name == platform && !work.goes_on)
    }

    /// Whether a work of the attempt of a row holds a slot, and its agent still works on it.
    pub(super) fn goes_on(&self, owner: &str, cluster: &str, row: &Row) -> bool {
        let mut works = self.works.values();
        works.any(|work| is_at_work(work, owner, cluster, row))
    }

    /// The same, by what whoever sent the row had to know. If the row says that the update has succeeded, agents have reported
    /// that, and they took it back so late that the sender may not have heard of it, that work does not count.
    pub(super) fn is_known_to_go_on(&self, owner: &str, cluster: &str, row: &Row) -> bool {
        let sent = self.sent();
        let platform = Step::Platform.work_name(cluster);
        let tells_end = row
            .step("Platform")
            .is_some_and(|step| step.outcome == "Succeeded");
        let mut works = self.works.values();
        works.any(|work| {
            let is_unheard = work.taken_back.is_some_and(|since| sent < since + DEAF);
            let has_seemed_over = tells_end && work.name == platform && is_unheard;
            is_at_work(work, owner, cluster, row) && !has_seemed_over
        })
    }

    /// Whether a cluster was registered anew and need not run what an upgrade asks for: its row was not removed, so it was taken for the
    /// same one; or agents have reported the end of its update so soon after that that they may have begun anew since, or its claim shows
    /// that they have, or they did at the time `begun`; or its last claim is enough, and they began anew after it; or the storage of the
    /// hub has gone back.
    pub(super) fn is_reborn(&self, owner: &str, name: &str, begun: Option<DateTime<Utc>>) -> bool {
        let known = self.upgrades.get(owner).zip(self.clusters.get(name));
        let Some((upgrade, cluster)) = known else {
            return false;
        };
        let Some(deleted) = cluster.deleted else {
            return false;
        };
        let is_taken_for_same = upgrade.known_deletion(name, cluster, Duration::MAX).is_zero();
        // Another upgrade may have seen the cluster at its target, and be told of something older.
        let ends = self.upgrades.values().flat_map(|upgrade| &upgrade.ends);
        let ends = ends.filter(|((of, step, _), _)| of == name && *step == Step::Platform);
        let last = ends
            .map(|(_, end)| end.last)
            .filter(|last| *last >= deleted)
            .max();
        let is_early = last.is_some_and(|last| {
            let mut claims = cluster.versions.windows(2);
            let is_back = claims.any(|claims| last < claims[1].0 && claims[1].1 < claims[0].1);
            // A watch that goes silent again as soon as it is back lets agents hear of it even later.
            let has_begun_anew = begun.is_some_and(|begun| wall(last) < begun);
            is_back || has_begun_anew || last < deleted.max(cluster.registered) + AGENT_DEAF
        });
        // Nobody claims what they play since, once everything is over.
        let target = upgrade.generations.last().and_then(|spec| version(&spec.version));
        let claim = cluster.versions.last().zip(target);
        let is_claim_former = claim
            .zip(begun)
            .is_some_and(|(((since, claimed), target), begun)| {
                deleted < *since && target <= *claimed && wall(*since) < begun
            });
        let has_gone_back = self.rewinds.iter().any(|(at, _)| *at >= deleted);
        is_taken_for_same || is_early || is_claim_former || has_gone_back
    }

    /// Whether a cluster that was registered anew is blocked because another upgrade's row from before tells of an update to something
    /// newer, which agents had reported then. Nobody has removed that row: the leader that heard of the deletion could not read it, or
    /// its term ended before. Who leads next takes the cluster for the same one, and its claim for late.
    pub(super) fn is_blocked_by_former_row(&self, owner: &str, name: &str) -> bool {
        let (Some(upgrade), Some(cluster)) = (self.upgrades.get(owner), self.clusters.get(name)) else {
            return false;
        };
        let (Some(target), Some(deleted)) = (upgrade.blocked_target(name), cluster.deleted) else {
            return false;
        };
        let claimed = cluster.versions.last().map(|(_, claimed)| *claimed);
        let mut others = self.upgrades.iter().filter(|(uid, _)| uid.as_str() != owner);
        others.any(|(_, other)| {
            let row = other.records.get(name).and_then(Record::row);
            let told = row.filter(|row| row.tells_update());
            let Some((row, newer)) = told.and_then(|row| Some((row, version(&row.to)?))) else {
                return false;
            };
            let may_be_late = |claimed: Version| {
                claimed < newer && version(&row.from).is_none_or(|before| before <= claimed)
            };
            let is_newer = target < newer && claimed.is_some_and(may_be_late);
            let updates = other.updates(name).filter(|(_, to)| *to == Some(newer));
            let ended = updates.map(|(end, _)| end.last).max();
            let step = row.step(word(Step::Platform));
            let finished = step.and_then(|step| parse_rfc3339(&step.finished));
            let proves = finished.is_some_and(|at| wall(cluster.registered) <= at + CLOCKS_DIFFER);
            let is_kept = !other.is_gone && other.known_deletion(name, cluster, Duration::MAX).is_zero();
            is_newer && proves && is_kept && ended.is_some_and(|ended| ended < deleted)
        })
    }

    /// Whether a cluster that was registered anew is blocked by something newer that it ran just before: agents had reported the end of
    /// an update to that, and the work that told it was there until a minute before the cluster was registered, or was still there
    /// when it was deleted. That is not taken for what another cluster ran, because nobody installs a cluster anew so fast. A replica
    /// may have heard late that the work was gone.
    pub(super) fn is_blocked_by_what_it_just_ran(&self, owner: &str, name: &str) -> bool {
        let (Some(upgrade), Some(cluster)) = (self.upgrades.get(owner), self.clusters.get(name)) else {
            return false;
        };
        let (Some(target), Some(deleted)) = (upgrade.blocked_target(name), cluster.deleted) else {
            return false;
        };
        let late = KEPT + DEAF + self.tolerance;
        let mut upgrades = self.upgrades.iter();
        let is_kept = upgrades.any(|(of, upgrade)| {
            let mut ends = upgrade.ends.iter();
            ends.any(|((cluster_name, step, revision), end)| {
                let is_update = cluster_name == name && *step == Step::Platform && end.last < deleted;
                let is_newer = version(&end.target).is_some_and(|newer| target < newer);
                let work = step.work_name(name);
                let key = (
                    of.clone(),
                    name.to_owned(),
                    work,
                    revision.clone(),
                    end.retry.clone(),
                );
                let gone = self.created.get(&key).and_then(|created| created.deleted);
                let told = gone.map_or(end.last, |(at, _)| at.min(deleted));
                is_update && is_newer && cluster.registered <= told + late
            })
        });
        is_kept && deleted < cluster.registered
    }

    /// Whether a cluster has claimed to run something older after it had ended the update that an upgrade asks for, and another
    /// upgrade has then taken it to something older. Nobody can tell such a claim from that of a cluster that somebody has taken
    /// back. A claim that is older because of the other update does not count. Neither does one that is no version: it does not
    /// say that the cluster was taken back. To a replica that has never led, a claim that is late by two updates looks the same.
    pub(super) fn was_misled(&self, owner: &str, name: &str) -> bool {
        let (Some(upgrade), Some(cluster)) = (self.upgrades.get(owner), self.clusters.get(name)) else {
            return false;
        };
        let target = upgrade.generations.last().and_then(|spec| version(&spec.version));
        let updates = upgrade.updates(name).filter(|(_, to)| *to == target);
        let update = updates.map(|(end, _)| end).max_by_key(|end| end.last);
        let Some((target, update)) = target.zip(update) else {
            return false;
        };
        let others = self.upgrades.iter().filter(|(uid, _)| uid.as_str() != owner);
        let updates = others.flat_map(|(_, other)| other.updates(name));
        let mut older = updates.filter(|(_, to)| to.is_some_and(|to| to < target));
        let before = self.version_before(upgrade, name, update);
        older.any(|(end, _)| {
            let mut claims = cluster.versions.iter();
            let is_older = |claimed: Version| claimed != Version::default() && claimed < target;
            claims.any(|(since, claimed)| update.last < *since && *since < end.first && is_older(*claimed))
                || before.is_some_and(|before| self.is_unproven(cluster, before, update.last, end.first))
        })
    }

    /// Notes a platform work that comes when the replica that had created it does not lead any more.
    pub(super) fn note_straggler(&mut self, cluster: &str, name: &str, target: &str) {
        let Some(sender) = &self.sender else { return };
        let leader = self.claims.last().map(|(_, holder)| &**holder);
        let is_late = leader != Some(&*sender.identity) && name == Step::Platform.work_name(cluster);
        let Some(target) = version(target).filter(|_| is_late) else {
            return;
        };
        let straggler = Straggler {
            sent: sender.at,
            at: self.now,
            target,
        };
        self.cluster(cluster).stragglers.push(straggler);
    }

    /// Whether a cluster was taken back by a creation that a former leader had sent: it had not ended the update that an upgrade
    /// asks for when that was sent, and had when it was carried out. The work of the update was gone, and nothing else on the hub
    /// refuses such a creation. Whoever leads then does not know of it.
    pub(super) fn was_taken_back(&self, owner: &str, name: &str) -> bool {
        let (Some(upgrade), Some(cluster)) = (self.upgrades.get(owner), self.clusters.get(name)) else {
            return false;
        };
        let target = upgrade.generations.last().and_then(|spec| version(&spec.version));
        let updates = upgrade.updates(name).filter(|(_, to)| *to == target);
        let Some(ended) = updates.map(|(end, _)| end.last).max() else {
            return false;
        };
        let mut stragglers = cluster.stragglers.iter();
        stragglers.any(|late| Some(late.target) < target && late.sent < ended && ended < late.at)
    }

    /// The version from which an update of a cluster began by its row, if agents have reported that an earlier one had led to it.
    fn version_before(&self, upgrade: &Upgrade, name: &str, update: &End) -> Option<Version> {
        let row = upgrade.records.get(name).and_then(Record::row);
        let proven = row.and_then(Row::update);
        let (before, _) = proven.filter(|(_, to)| Some(*to) == version(&update.target))?;
        let updates = self.upgrades.values().flat_map(|one| one.updates(name));
        let mut earlier = updates.filter(|(end, _)| end.last < update.first);
        earlier.any(|(_, to)| to == Some(before)).then_some(before)
    }

    /// Whether a replica that had never led before began to lead between two times, and the cluster claimed then to run something
    /// older than the version from which its last update had begun. To that replica the row of the update proves nothing.
    fn is_unproven(&self, cluster: &Cluster, before: Version, since: Duration, until: Duration) -> bool {
        let is_late = |at: Duration| {
            let next = cluster.versions.iter().skip(1).map(|(since, _)| *since);
            let mut claims = cluster.versions.iter().zip(next.chain([Duration::MAX]));
            claims.any(|((begin, claimed), end)| {
                let is_heard = *begin <= at && at < end.saturating_add(DEAF);
                is_heard && *claimed != Version::default() && *claimed < before
            })
        };
        let has_led = |name: &str| self.claims.iter().any(|(at, who)| *at <= since && who == name);
        let mut leaders = self.claims.iter().filter(|(_, who)| !who.is_empty());
        leaders.any(|(at, who)| since < *at && *at < until && !has_led(who) && is_late(*at))
    }

    /// The row of a cluster that is complete may name another version than before, if the cluster runs that one or has done so.
    pub(super) fn judge_version(&mut self, name: &str, row: &Row, is_renamed: bool) {
        if row.phase != "Complete" || row.to.is_empty() || !is_renamed {
            return;
        }
        let target = version(&row.to);
        let ran = self.clusters.get(name).is_none_or(|cluster| {
            let mut claims = cluster.versions.iter();
            cluster.done.contains_key(&row.to) || claims.any(|(_, claim)| Some(*claim) >= target)
        });
        self.check(Rule::Complete, ran, || {
            format!("{name} is complete, and has never run {}", row.to)
        });
    }

    /// The controller says that a cluster is complete.
    pub(super) fn complete(&mut self, owner: &str, name: &str, row: &Row) {
        let sent = self.sent();
        let (Some(upgrade), Some(cluster)) = (self.upgrades.get(owner), self.clusters.get(name)) else {
            return;
        };
        let runs = upgrade.has_run(name, cluster, row, sent);
        let specs: Vec<_> = upgrade.in_force(sent).collect();
        let wants_operators = !row.has_left && upgrade.wants_operators(sent);
        let wants_post_action = !row.has_left && specs.iter().all(|spec| spec.after.action);
        let soak = specs.iter().map(|spec| spec.soak).min().unwrap_or_default();
        let of_row = |step| upgrade.end_of_row(name, step, row);
        let last = if wants_operators {
            Step::Operators
        } else {
            Step::Platform
        };
        let ended = of_row(last).map(|end| end.first);
        // A cluster that left while it was queued again returns to the end of its earlier attempt, whatever was left of the soak.
        let is_soaked = row.has_left || ended.is_none_or(|ended| ended + soak <= sent + self.tolerance);
        let has_operators = !wants_operators || ended.is_some();
        let has_checked = !wants_post_action || of_row(Step::PostAction).is_some();
        self.check(Rule::Complete, runs, || {
            format!(
                "{name} is complete, and has never reported the end of its update to {}",
                row.to
            )
        });
        self.check(Rule::Complete, has_operators, || {
            format!("{name} is complete, and has never reported the end of its operators")
        });
        self.check(Rule::Complete, is_soaked, || {
            let ended = ended.unwrap_or(Duration::ZERO);
            format!("{name} is complete, and its soak of {soak:?} began at {ended:?} at the earliest")
        });
        self.check(Rule::Complete, has_checked, || {
            format!("{name} is complete, and its post-action has never succeeded")
        });
    }
}

#[cfg(test)]
mod tests;
