//! Rules about time: no step fails too early, and none that does not end fails too late.

use std::collections::BTreeSet;
use std::time::Duration;

use api::names::Step;
use api::time::parse_rfc3339;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::clocks::{CLOCK_JUMPS, EARLY, is_recorded_as_now, wall};
use super::complete::word;
use super::facts::{Facts, Key, Record, Running, Upgrade};
use super::fields::{text, version};
use super::memory::Rejected;
use super::row::Row;
use super::rows::rows_of;
use super::rule::Rule;
use super::schedule::since_begin;
use super::works::Work;
use crate::actor::{Role, Sender};

/// How long after its time a cluster may be under way when nothing keeps the controller from its work: its work is read, the row
/// is written, and a row that is held up is gathered with others.
const LATE: Duration = Duration::from_mins(2);
/// When a row is sent again that the hub has rejected.
const AGAIN: Duration = Duration::from_mins(5);
/// How long after it was planned a work may be sent.
const UNSENT: Duration = Duration::from_mins(1);

/// The step that failed by time, by the reason of a row.
fn timed_out(reason: &str) -> Option<Step> {
    match reason {
        "PreActionTimeout" => Some(Step::PreAction),
        "ClusterUpgradeTimeout" => Some(Step::Platform),
        "OperatorsUpgradeTimeout" => Some(Step::Operators),
        "PostActionTimeout" => Some(Step::PostAction),
        _ => None,
    }
}

/// The step that a cluster is in by its row.
fn step_of(row: &Row) -> Option<Step> {
    match row.phase.as_str() {
        "PreAction" => Some(Step::PreAction),
        "Initialized" | "Partial" => Some(Step::Platform),
        "Operators" => Some(Step::Operators),
        "PostAction" => Some(Step::PostAction),
        _ => None,
    }
}

/// The work of a step and an attempt.
fn key(owner: &str, cluster: &str, step: Step, row: &Row) -> Key {
    (
        owner.to_owned(),
        cluster.to_owned(),
        step.work_name(cluster),
        row.revision.clone(),
        row.retry.clone(),
    )
}

impl Record {
    /// Whether a row that was sent since a time says Blocked, or the hub has refused such a row since then, or a creation that
    /// blocks the cluster, in the attempt of a work.
    fn was_blocked_since(&self, at: Duration, work: &Work) -> bool {
        let is_refused = self.blocked.as_ref().is_some_and(|(sent, (revision, retry))| {
            *sent >= at && *revision == work.revision && *retry == work.retry
        });
        let mut phases = self.phases.iter();
        is_refused || phases.any(|told| told.phase == "Blocked" && told.sent >= at)
    }
}

impl Facts {
    /// A failure by time is judged by the hub's clock, and by when the log shows that its step began.
    pub(super) fn deadline(&mut self, owner: &str, name: &str, row: &Row) {
        if row.reason == "WorkerPoolsTimeout" {
            self.pools_deadline(owner, name, row);
        }
        let Some(step) = timed_out(&row.reason) else {
            return;
        };
        let word = word(step);
        let sent = self.sent();
        let Some(upgrade) = self.upgrades.get(owner) else {
            return;
        };
        let limits = upgrade.in_force(sent).map(|spec| spec.limits.of_step(step));
        let least = limits.min().unwrap_or_default().saturating_sub(self.tolerance);
        let Some(started) = row.step(word).and_then(|step| parse_rfc3339(&step.started)) else {
            return;
        };
        // Agents had reported the end in time, and whoever reads the work sees that, unless it is gone or says something
        // else by now.
        let target = upgrade.generations.last().map_or("", |spec| &spec.version);
        let done = self
            .clusters
            .get(name)
            .and_then(|cluster| cluster.shown.get(target))
            .copied();
        // A row that the hub rejected is written minutes after the cluster failed.
        let finished = row.step(word).and_then(|step| parse_rfc3339(&step.finished));
        let was_told = |done: Duration| {
            let told = done + Duration::from_mins(1);
            told < sent && finished.is_none_or(|finished| wall(told) < finished)
        };
        // A reading after the deadline shows what was reported before it, however deaf the watch was.
        let limit = TimeDelta::from_std(least).unwrap_or_default();
        let was_in_time = |done: Duration| wall(done + Duration::from_secs(1)) < started + limit;
        let is_after = |done: &Duration| wall(*done) > started;
        let is_readable = !self.has_unreadable_work(owner, &step.work_name(name));
        let was_done = step == Step::Platform
            && is_readable
            && done
                .filter(is_after)
                .is_some_and(|done| was_told(done) || was_in_time(done));
        self.check(Rule::Deadline, !was_done, || {
            format!("{name} failed by time, and its end was reported at {done:?}")
        });
        let key = key(owner, name, step, row);
        let began = self.began.get(&key).copied();
        // A pre-action that an edit does not concern keeps its clock, also where it must be created again.
        let kept = (step == Step::PreAction)
            .then(|| self.began_before_deletion(owner, &step.work_name(name), row, started));
        let tried = self.tried_before(&key, started);
        let began = kept.flatten().into_iter().chain(tried).chain(began).min();
        let passed = wall(self.now) - started;
        let is_over = TimeDelta::from_std(least).is_ok_and(|least| passed >= least);
        let is_known = began.is_none_or(|began| {
            let is_of_time = began + least.saturating_sub(UNSENT) <= self.now;
            let has_waited = self.waited_for_removal(&key, started, began);
            is_of_time || has_waited || self.waited_for_others(started, began)
        });
        self.check(Rule::Deadline, is_over && is_known, || {
            let seconds = passed.num_seconds();
            format!(
                "{name} failed {seconds} s after its {word} began by its row, and it was sent at {began:?}"
            )
        });
    }

    /// When a work was first tried that goes on with the start of its row. If its cluster was registered anew before any try had arrived,
    /// and the row has stayed, nobody who leads later can tell that the cluster was away: then the clock of the row goes on, as it does for
    /// a work that was there before.
    pub(super) fn first_try(&self, work: &Work) -> Option<Duration> {
        let tried = self.first_tried.get(&(work.key(), work.started.clone()));
        tried.copied().filter(|_| self.has_start_of_row(work))
    }

    /// The same of the work of a step that has this start.
    fn tried_before(&self, key: &Key, started: DateTime<Utc>) -> Option<Duration> {
        let created = self.created.get(key)?;
        created
            .first_try
            .filter(|_| parse_rfc3339(&created.started) == Some(started))
    }

    /// Whether the creation of a work may have waited behind other requests that the hub did not answer, or put off. The time of its step
    /// runs meanwhile.
    fn waited_for_others(&self, started: DateTime<Utc>, began: Duration) -> bool {
        let mut waits = self.disturbed.waits.iter();
        waits.any(|at| started < wall(*at + UNSENT) && *at < began)
    }

    /// Whether what was left of an earlier attempt was still being removed when a step was to begin, until its own work was created. The
    /// time of the step runs meanwhile, because a removal that never ends must not hold a slot for ever. The same holds for a work that was
    /// created for another upgrade, if its deletion had been asked for when the step was to begin: before that, it blocks the cluster. A
    /// retry begins with a start of its own, and waits for nothing that has the same one.
    fn waited_for_removal(
        &self,
        (owner, _, work, _, again): &Key,
        started: DateTime<Utc>,
        began: Duration,
    ) -> bool {
        self.created.iter().any(|((of, _, name, _, retry), created)| {
            let is_until_then =
                |(at, _): (Duration, _)| started < wall(at) && at <= began && began < at + UNSENT;
            let is_before = |at: Duration| wall(at.saturating_sub(self.tolerance)) <= started;
            let is_in_the_way = of == owner || created.unwanted.is_some_and(is_before);
            let is_by_us = created
                .deleted
                .is_some_and(|(_, by)| by == Some(Role::Controller));
            let is_same_start = parse_rfc3339(&created.started) == Some(started);
            // An edit may lengthen the token, and leaves a start as it is.
            let is_other = retry.trim_end_matches('~') != again.trim_end_matches('~');
            let is_retried = is_by_us && is_same_start && is_other;
            is_in_the_way && !is_retried && name == work && created.deleted.is_some_and(is_until_then)
        })
    }

    /// A cluster whose worker pools do not follow fails by their time alone, which runs from the end of its update at the earliest.
    fn pools_deadline(&mut self, owner: &str, name: &str, row: &Row) {
        let sent = self.sent();
        let Some(upgrade) = self.upgrades.get(owner) else {
            return;
        };
        let limits = upgrade.in_force(sent).filter_map(|spec| spec.asked.pools);
        let least = limits.min().unwrap_or_default().saturating_sub(self.tolerance);
        let ended = upgrade.end_of_row(name, Step::Platform, row).map(|end| end.first);
        let is_over = ended.is_none_or(|ended| ended + least <= self.now);
        self.check(Rule::Deadline, is_over, || {
            format!("{name} failed by the time of its worker pools, and its update ended at {ended:?}")
        });
    }

    /// Whether somebody has written into a work what the controller cannot read as its attempt. What it reports counts for none.
    fn has_unreadable_work(&self, owner: &str, name: &str) -> bool {
        let is_revision =
            |text: &str| text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let mut works = self.works.values();
        works.any(|work| {
            let is_it = work.owner == owner && work.name == name;
            is_it && (work.revision.is_empty() || !is_revision(&work.revision))
        })
    }

    /// A row announces an attempt whose platform work is an earlier one that is to be changed in place. Its clock begins. If
    /// somebody has changed the owner of that work, the controller may not change it: a later row says that the cluster is blocked
    /// and has no platform step. Then the step has not begun, and the work that is created in the end has a clock of its own. So it
    /// has where somebody had deleted the work, and the hub rejected it when it was created again. Nor
    /// does a clock begin if the row goes on with the start of that work: the edit does not concern it.
    pub(super) fn announced(&mut self, owner: &str, name: &str, row: &Row) {
        let key = key(owner, name, Step::Platform, row);
        let step = row.step("Platform");
        let recorded = step.and_then(|step| parse_rfc3339(&step.started));
        let is_in_place = self.works.values().any(|work| {
            work.owner == owner
                && work.name == key.2
                && (work.revision != row.revision || work.retry != row.retry)
                && recorded.is_none_or(|recorded| !self.is_kept(work, row, recorded))
        });
        let created = self.created.get(&key);
        let is_there = created.is_some_and(|created| created.deleted.is_none());
        if row.phase == "Blocked" && step.is_none() && !is_there && !self.goes_on(owner, name, row) {
            self.began.remove(&key);
        } else if is_in_place && step.is_some_and(|step| step.finished.is_empty()) {
            let sent = self.sent();
            self.began.entry(key).or_insert(sent);
        } else if let Some(began) = self.began_before(owner, name, row) {
            self.began.entry(key).or_insert(began);
        }
    }

    /// When the platform step of a row began that goes on through an edit which does not concern it: there is a work of an earlier
    /// revision, with the start of the row and the version that it asks for. If somebody deletes that work, it is created again
    /// with the revision and the start of the row, and keeps its clock.
    fn began_before(&self, owner: &str, name: &str, row: &Row) -> Option<Duration> {
        let step = row.step("Platform").filter(|step| step.finished.is_empty())?;
        let started = parse_rfc3339(&step.started)?;
        let platform = Step::Platform.work_name(name);
        let work = self.works.values().find(|work| {
            work.owner == owner
                && work.name == platform
                && work.revision != row.revision
                && work.retry == row.retry
                && work.target == row.to
                && self.is_kept(work, row, started)
        });
        let Some(work) = work else {
            return self.began_before_deletion(owner, &platform, row, started);
        };
        let earlier = Row {
            revision: work.revision.clone(),
            retry: work.retry.clone(),
            ..Row::default()
        };
        self.began
            .get(&key(owner, name, Step::Platform, &earlier))
            .copied()
    }

    /// The same of a step, if somebody else had deleted its work just before the edit.
    fn began_before_deletion(
        &self,
        owner: &str,
        work_name: &str,
        row: &Row,
        started: DateTime<Utc>,
    ) -> Option<Duration> {
        let mut earlier = self
            .created
            .iter()
            .filter(|((of, _, name, revision, retry), created)| {
                let is_deleted = created
                    .deleted
                    .is_some_and(|(_, by)| by != Some(Role::Controller));
                let is_it =
                    of == owner && name == work_name && *revision != row.revision && *retry == row.retry;
                is_it && is_deleted && parse_rfc3339(&created.started) == Some(started)
            });
        earlier.next().and_then(|(key, _)| self.began.get(key)).copied()
    }

    /// Whether a row with this start may tell of a platform work.
    fn may_have_start(&self, work: &Running, started: DateTime<Utc>) -> bool {
        let Some(named) = parse_rfc3339(&work.started) else {
            return false;
        };
        let key = (
            work.owner.clone(),
            work.cluster.clone(),
            work.name.clone(),
            work.revision.clone(),
            work.retry.clone(),
        );
        let began = self.began.get(&key).copied().unwrap_or_default();
        // No step begins long before its work is there, whatever a creation that came late names. The hub's times have seconds.
        let created = self.created.get(&key);
        let earliest = created.map(|created| wall(Duration::from_secs(created.at.as_secs())) - EARLY);
        let is_late = earliest.is_some_and(|earliest| named < earliest && earliest == started);
        named == started || is_late || is_recorded_as_now(named, wall(began) - EARLY, started)
    }

    /// Whether a row with this start goes on with a work of another attempt. If the work does not name that start, the row asks for
    /// the same as the work, and the row of that attempt has the same start, if there is one. A change in place begins anew.
    fn is_kept(&self, work: &Running, row: &Row, started: DateTime<Utc>) -> bool {
        if parse_rfc3339(&work.started) == Some(started) {
            return true;
        }
        let upgrade = self.upgrades.get(&work.owner);
        let record = upgrade.and_then(|upgrade| upgrade.records.get(&work.cluster));
        let before = record.and_then(|record| record.row_for(&work.revision)?.step("Platform"));
        let told = before.and_then(|step| parse_rfc3339(&step.started));
        work.target == row.to
            && work.retry == row.retry
            && told.is_none_or(|told| told == started)
            && self.may_have_start(work, started)
    }

    /// Whether a work that replaces one which somebody else had deleted has a clock of its own. If no row had told of the former one,
    /// whoever leads since cannot know that it existed, and gives the next one a start of its own. Whoever knew it gives it the
    /// former start, unless the cluster was blocked since: then it has given its slot back, and its step begins anew when it has one
    /// again, which may be when its windows open.
    pub(super) fn has_own_clock(&self, work: &Work) -> bool {
        let upgrade = self.upgrades.get(&work.uid);
        let earlier = self.created.get(&work.key());
        let earlier = earlier.filter(|earlier| earlier.started != work.started);
        let Some((upgrade, (at, by))) = upgrade.zip(earlier.and_then(|earlier| earlier.deleted)) else {
            return false;
        };
        let is_since = |started: &str| {
            parse_rfc3339(started).is_some_and(|started| started > wall(at.saturating_sub(self.tolerance)))
        };
        let is_told = |row: &Row| {
            let mut open = row.steps.iter().filter(|step| step.outcome.is_empty());
            row.revision == work.revision
                && row.retry == work.retry
                && open.any(|step| !is_since(&step.started))
        };
        let record = upgrade.records.get(&work.cluster);
        let is_doubtful = upgrade.is_doubtful(&work.cluster, &work.revision, &work.retry);
        by != Some(Role::Controller)
            && (is_doubtful || record.is_some_and(|record| record.was_blocked_since(at, work)))
            && is_since(&work.started)
            && !record.and_then(Record::row).is_some_and(is_told)
    }

    /// Notes the rows of a report that the hub has rejected, if they were to say that a cluster is in another step or attempt. The
    /// cluster is in the one of the row that the hub has until they are sent again.
    pub(super) fn note_rejected(&mut self, sender: &Sender, body: &[u8]) {
        let report: Value = serde_json::from_slice(body).unwrap_or_default();
        let owner = text(&report, "/metadata/ownerReferences/0/uid");
        let Some(upgrade) = self.upgrades.get(owner) else {
            return;
        };
        for (name, row) in rows_of(&report) {
            let kept = upgrade.records.get(&name).and_then(Record::row);
            let is_left = |kept: &&Row| step_of(kept) != step_of(&row) || kept.attempt() != row.attempt();
            if let Some(kept) = kept.filter(is_left) {
                let rejected = Rejected {
                    sent: sender.at,
                    kept: kept.clone(),
                };
                self.rejected.insert((owner.to_owned(), name), rejected);
            }
        }
    }

    /// When the row of a cluster is sent again that the hub has rejected; zero if the hub has had another row since.
    fn sent_again(&self, owner: &str, name: &str) -> Duration {
        let rejected = self.rejected.get(&(owner.to_owned(), name.to_owned()));
        let upgrade = self.upgrades.get(owner);
        let record = upgrade.and_then(|upgrade| upgrade.records.get(name));
        let row = record.and_then(Record::row);
        let is_kept = |rejected: &&Rejected| {
            let kept = &rejected.kept;
            row.is_some_and(|row| row.phase == kept.phase && row.attempt() == kept.attempt())
        };
        let rejected = rejected.filter(is_kept);
        rejected.map_or(Duration::ZERO, |rejected| rejected.sent + AGAIN)
    }

    /// Until when no deadline fires because the clock of whoever leads differs too much from the hub's.
    fn untrusted_until(&self) -> Duration {
        let mut claims = self.claims.iter().rev();
        let leader = claims.find(|(_, holder)| !holder.is_empty());
        leader.map_or(Duration::ZERO, |(_, holder)| {
            self.disturbed.untrusted_until(holder)
        })
    }

    /// Whose time is over fails, when nothing keeps the controller from saying so.
    pub(super) fn overdue(&mut self) {
        let mut late = Vec::new();
        for (uid, upgrade) in &self.upgrades {
            let is_valid = upgrade.generations.last().is_some_and(|spec| !spec.is_invalid);
            if upgrade.is_gone || upgrade.is_held || !is_valid {
                continue;
            }
            let records = &upgrade.records;
            let is_edited = |name: &&String| records.get(*name).is_some_and(|one| one.is_edited);
            let checked = records.iter().filter_map(|(name, record)| {
                let is_checked = record.row().is_some_and(|row| row.phase == "PostAction");
                is_checked.then_some(name)
            });
            let names = upgrade.flights.keys().chain(checked);
            let names: BTreeSet<&String> = names.filter(|name| !is_edited(name)).collect();
            let dues = names
                .into_iter()
                .filter_map(|name| Some((name, self.due(uid, upgrade, name)?)));
            let over = dues.filter(|(_, due)| *due < self.now);
            late.extend(over.map(|(name, due)| (uid.clone(), name.clone(), due)));
        }
        let kept = self.disturbed.until.max(self.untrusted_until());
        for (uid, name, due) in late {
            let now = self.now;
            let again = self.sent_again(&uid, &name);
            let is_late = due.max(kept).max(again).saturating_add(LATE) < now;
            self.check(Rule::Deadline, !is_late, || {
                format!("{name} is under way at {now:?}, and its time was over at {due:?}")
            });
            // Once is enough.
            if let Some(upgrade) = self.upgrades.get_mut(&uid).filter(|_| is_late) {
                upgrade.release(&name);
            }
        }
    }

    /// When the last cluster fails by time that only its time can end, because it refuses the update that it is asked for: it runs
    /// something newer. It was asked for that before the storage of the hub went back, or somebody has written into its row that its
    /// update had begun. An update that has begun is not interrupted, whatever the spec asks for by now. Nor can any controller tell
    /// that the row is wrong: a cluster does not acknowledge a request that it refuses, so what it reports may be older than the row.
    pub(super) fn ends_by_time(&self) -> Option<Duration> {
        let upgrades = self.upgrades.iter().filter(|(_, upgrade)| !upgrade.is_gone);
        let ends = upgrades.flat_map(|(uid, upgrade)| {
            upgrade.records.iter().filter_map(move |(name, record)| {
                let is_meant =
                    |phase: &str| phase == "Initialized" || (phase == "Partial" && record.is_edited);
                let row = record.row().filter(|row| is_meant(&row.phase))?;
                let due = || {
                    self.due(uid, upgrade, name)
                        .or_else(|| self.due_by_row(upgrade, row))
                };
                self.refuses(uid, name, row).then(due)?
            })
        });
        ends.max()
    }

    /// When the time of an update is over by the start that its row has.
    fn due_by_row(&self, upgrade: &Upgrade, row: &Row) -> Option<Duration> {
        let started = since_begin(&row.step(word(Step::Platform))?.started)?;
        let limits = upgrade.in_force(self.now);
        let limit = limits.map(|spec| spec.limits.of_step(Step::Platform)).max()?;
        Some(started + limit + self.tolerance)
    }

    /// Whether the work of a row's attempt asks a cluster for an older version than it claims. An edit that does not concern it leaves
    /// the work as it is, with the start that the row has.
    fn refuses(&self, owner: &str, name: &str, row: &Row) -> bool {
        let cluster = self.clusters.get(name);
        let claims = cluster.and_then(|cluster| cluster.versions.last());
        let started = row.step(word(Step::Platform)).map(|step| &step.started);
        let works = self.works.values().filter(|work| {
            let is_of_it = work.revision == row.revision && work.retry == row.retry;
            work.owner == owner && work.cluster == name && (is_of_it || Some(&work.started) == started)
        });
        let mut targets = works.filter_map(|work| version(&work.target));
        claims.is_some_and(|(_, claimed)| targets.any(|target| target < *claimed))
    }

    /// When the time of the step of a cluster is over that is in it by its row and its work.
    fn due(&self, uid: &str, upgrade: &Upgrade, name: &str) -> Option<Duration> {
        let row = upgrade.records.get(name)?.row().filter(|row| !row.is_newer)?;
        let cluster = self.clusters.get(name).filter(|cluster| cluster.is_there)?;
        let step = step_of(row)?;
        let key = key(uid, name, step, row);
        let is_in_it = if step == Step::PostAction {
            let created = self.created.get(&key);
            let is_there = created.is_some_and(|created| created.deleted.is_none());
            is_there && upgrade.end_of_row(name, step, row).is_none()
        } else {
            self.goes_on(uid, name, row)
        };
        let began = self.began.get(&key).copied();
        let began = began.filter(|began| is_in_it && cluster.changed < *began)?;
        let limits = upgrade.in_force(self.now);
        let limit = limits.map(|spec| spec.limits.of_step(step)).max()?;
        let counts = self.recorded_start(uid, name, step, row).unwrap_or(began);
        Some(began.max(counts) + limit + self.tolerance)
    }

    /// The start of a step that a row has for its work, in a run in which clocks jump. A step that begins while a clock
    /// is ahead gets a start in the future, and a start that was recorded is not moved when the clock is right again. If it was not
    /// recorded before that, the row has the time at which the work was found.
    fn recorded_start(&self, uid: &str, name: &str, step: Step, row: &Row) -> Option<Duration> {
        if self.tolerance < CLOCK_JUMPS {
            return None;
        }
        let started = row
            .step(word(step))
            .and_then(|step| parse_rfc3339(&step.started))?;
        let of_step = step.work_name(name);
        let mut works = self.works.values();
        // Works of post-actions are not known here.
        let is_told = step == Step::PostAction
            || works
                .any(|work| work.owner == uid && work.name == of_step && self.may_have_start(work, started));
        let since = (started - crate::time::begin()).to_std().ok();
        since.filter(|_| is_told)
    }
}

#[cfg(test)]
mod tests;
