//! Rules about starts: who may begin, and when.

use std::collections::BTreeSet;
use std::time::Duration;

use api::names::Step;

use super::facts::{Cluster, DEAF, Facts, Record, Running, UNHEARD, Upgrade};
use super::fields::{Version, text, version};
use super::row::{Row, holds_slot};
use super::rule::Rule;
use super::works::Work;

impl Cluster {
    /// Whether it had left the selection, and what selects it has changed since.
    pub(super) fn is_back(&self) -> bool {
        self.left.is_some_and(|left| left < self.changed)
    }

    /// The older version that its platform work reported when a start was sent, after it had reported the end of the update to
    /// `proven`. That counts more than a row: somebody may have taken the cluster back.
    fn taken_back(&self, proven: Version, sent: Duration) -> Option<Version> {
        let mut ends = self.done.iter();
        let (_, ended) = ends.find(|(target, _)| version(target) == Some(proven))?;
        let reported = self.reported.filter(|reported| reported.version < proven)?;
        (*ended < reported.since && reported.since <= sent).then_some(reported.version)
    }
}

/// Whether a work is one more of an attempt that is under way by its row. A cluster that comes back before it was dropped
/// goes on, and one whose work somebody deleted may do so.
fn goes_on(upgrade: &Upgrade, work: &Work, sent: Duration) -> bool {
    let of_row = |record: &Record| {
        let row = record.row();
        row.is_some_and(|row| row.revision == work.revision && row.retry == work.retry)
            && holds_slot(record.phase_at(sent))
    };
    upgrade.is_doubtful(&work.cluster, &work.revision, &work.retry)
        || upgrade.has_former_row(&work.cluster)
        || upgrade.records.get(&work.cluster).is_some_and(of_row)
}

/// Whether the update of a cluster had ended in this attempt when a step was sent, as its row says and its agents had reported.
/// Such a cluster goes through all its steps even if it leaves the selection. Its next step may have to wait for long, and
/// then its row does not hold a slot: somebody else's work is in the way, no slot is free after that, or a retry is queued.
fn has_updated(upgrade: &Upgrade, work: &Work, sent: Duration) -> bool {
    let record = upgrade.records.get(&work.cluster);
    let row = record.and_then(Record::row);
    let Some(row) = row.filter(|row| row.revision == work.revision && row.retry == work.retry) else {
        return false;
    };
    let mut ends = upgrade.ends.iter();
    let is_reported = ends.any(|((name, step, _), end)| {
        *name == work.cluster && *step == Step::Platform && end.target == row.to && end.first <= sent
    });
    let platform = row.step("Platform");
    is_reported && platform.is_some_and(|step| step.outcome == "Succeeded")
}

impl Record {
    /// Whether its row said at a time that the cluster is under way, and has said nothing else since, until another time.
    fn holds_slot_between(&self, since: Duration, until: Duration) -> bool {
        let later = self.phases.iter();
        let mut later = later.filter(|told| since < told.since && told.since <= until);
        holds_slot(self.phase_at(since)) && later.all(|told| holds_slot(&told.phase))
    }
}

impl Upgrade {
    /// Clusters that hold slots when a start is sent, and at each time since at which another one began, those included that do
    /// so by their rows alone. What such a row has given back since is free for whoever begins after that, and what was free when the
    /// storage of the hub went back is free for whoever may not have heard of that.
    fn holders_since(&self, sent: Duration) -> impl Iterator<Item = BTreeSet<&String>> {
        let begins = self.flights.values().copied().filter(move |at| *at > sent);
        std::iter::once(sent).chain(begins).map(move |at| {
            let is_kept = |name: &&String| [sent, at].iter().all(|at| self.kept_by_row(name, *at).is_some());
            let begun = self.flights.iter().filter(|(_, since)| **since <= at);
            let begun = begun.map(|(name, _)| name).chain(self.suspended.keys());
            let begun = begun.filter(|name| !self.is_freed(name, sent));
            begun.chain(self.dropped.keys().filter(is_kept)).collect()
        })
    }

    /// When a cluster was lost that keeps its slot by its row alone: it was under way then, and the row has said so ever since,
    /// until a start was sent. Whoever leads finds that row, takes a cluster that is back for the same one, and gives its slot to
    /// nobody before that row is gone or says something else, or agents report the end of its last step that holds a slot.
    pub(super) fn kept_by_row(&self, cluster: &str, sent: Duration) -> Option<Duration> {
        let lost = *self.dropped.get(cluster)?;
        let record = self.records.get(cluster)?;
        let row = record.row().filter(|row| !row.is_newer)?;
        let has_ended =
            self.end_since(cluster, row, lost, sent).is_some() || self.has_ended_as_told(cluster, row, sent);
        (record.holds_slot_between(lost, sent) && !has_ended && !self.finished.contains_key(cluster))
            .then_some(lost)
    }

    /// Whether a cluster has its slot when a start is sent: since an earlier spec, or nothing else has started since it may have lost it.
    fn has_slot(&self, cluster: &str, sent: Duration, ends: [Option<Duration>; 2]) -> bool {
        let mut ends = ends.into_iter().flatten();
        self.had_slot_before(cluster, sent) || ends.any(|at| self.is_first_since(cluster, at))
    }

    /// Whether the present spec lets fewer clusters be under way than one before, and the row of a cluster has said since before it came
    /// that the cluster is under way, until a start was sent. Its work may be missing: somebody has deleted it, or the hub has not
    /// taken it yet.
    fn had_slot_before(&self, cluster: &str, sent: Duration) -> bool {
        let limit = self.in_force(sent).map(|one| one.max_concurrency).max();
        let Some(since) = self.in_force(sent).map(|one| one.since).min() else {
            return false;
        };
        let mut earlier = self.generations.iter().filter(|one| one.since < since);
        let record = self.records.get(cluster);
        earlier.any(|one| Some(one.max_concurrency) > limit)
            && record.is_some_and(|record| record.holds_slot_between(since, sent))
    }

    /// Whether nothing else has started since a time at which a cluster may have released its slot.
    pub(super) fn is_first_since(&self, cluster: &str, since: Duration) -> bool {
        let mut others = self.flights.iter().filter(|(name, _)| *name != cluster);
        others.all(|(_, started)| *started < since)
    }

    /// Whether a cluster that goes on has kept its slot, although its update had ended: nothing else has started since. Or somebody
    /// else has taken that end back before any row told of it, and the row has said ever since that the cluster is under way.
    /// Whoever leads knows of no end then.
    fn has_kept_slot(&self, work: &Work, sent: Duration) -> bool {
        let cluster = &work.cluster;
        let Some(ended) = self.finished.get(cluster) else {
            return false;
        };
        let is_taken_back = self.taken_back.get(cluster).is_some_and(|at| ended < at);
        let frees_nothing = is_taken_back || self.follows_update(work, *ended);
        let record = self.records.get(cluster).filter(|_| frees_nothing);
        let goes_on = record.is_some_and(|record| record.holds_slot_between(*ended, sent));
        goes_on || self.is_first_since(cluster, *ended)
    }

    /// Whether a cluster is under way by a creation of a former leader, or by a row alone, that came so late that whoever sent a start
    /// may not have heard of it. That one has a free slot for each cluster of which it has.
    pub(super) fn is_unheard_stray(&self, cluster: &str, sent: Duration) -> bool {
        let began = self.flights.get(cluster);
        let stray = self.strays.get(cluster).filter(|_| began.is_some());
        let row = self.late_rows.get(cluster).filter(|came| began == Some(came));
        let mut came = stray.into_iter().chain(row);
        came.any(|came| sent < *came + DEAF)
    }

    /// Whether the pre-action of a cluster counts as degraded since after its creation was sent. One that comes late is that of a
    /// cluster that has given its slot back.
    fn is_degraded_since(&self, work: &Work, sent: Duration) -> bool {
        let record = self.records.get(&work.cluster);
        let is_of_it = |row: &Row| row.revision == work.revision && row.retry == work.retry;
        let told = record
            .filter(|record| record.row().is_some_and(is_of_it))
            .and_then(|record| record.phases.last());
        let is_degraded = told.is_some_and(|told| told.phase == "PreActionDegraded" && sent <= told.since);
        is_degraded && work.name == Step::PreAction.work_name(&work.cluster)
    }

    /// Whether a cluster was under way when a work was sent, before the upgrade was deleted.
    fn was_under_way(&self, cluster: &str, sent: Duration) -> bool {
        let halted = self.halted.get(cluster);
        self.is_gone && halted.is_some_and(|(since, until)| *since <= sent && sent <= *until)
    }

    /// When the controller deleted the pre-action of a cluster that goes on: it was back before it was dropped. Whoever had
    /// dropped it begins anew, with another start.
    fn withdrawn_at(&self, work: &Work) -> Option<Duration> {
        let before = self.withdrawn.get(&work.cluster)?;
        let is_of_it = before.revision == work.revision && before.retry == work.retry;
        let is_next = work.name != Step::PreAction.work_name(&work.cluster);
        (is_of_it && (is_next || before.started == work.started)).then_some(before.at)
    }

    /// When a cluster was lost, or its row removed, that was under way when a start was sent. Whoever sent it had not heard of that
    /// yet. The cluster may be back since.
    fn lost_since(&self, work: &Work, sent: Duration) -> Option<Duration> {
        let dropped = self.dropped.get(&work.cluster).copied();
        dropped.filter(|dropped| sent <= *dropped)
    }
}

impl Upgrade {
    /// Whether a spec that a start may go by leaves the cluster out.
    fn may_leave_out(&self, cluster: &str, sent: Duration) -> bool {
        let mut specs = self.in_force(sent);
        specs.any(|spec| spec.left_out.contains(cluster))
    }

    /// Whether every spec that a start may go by leaves the cluster out.
    fn leaves_out(&self, cluster: &str, sent: Duration) -> bool {
        let mut specs = self.in_force(sent).peekable();
        specs.peek().is_some() && specs.all(|spec| spec.left_out.contains(cluster))
    }
}

impl Facts {
    /// A cluster begins its steps, or begins them anew.
    pub(super) fn start(&mut self, work: &Work) {
        self.downgrade(work);
        let sent = self.sent();
        self.release_followed(&work.uid, sent);
        let Some(upgrade) = self.upgrades.get(&work.uid) else {
            return;
        };
        if self.is_no_start(upgrade, work, sent) {
            return;
        }
        let may_start = self.may_start(upgrade, work, sent);
        let limit = upgrade.in_force(sent).map(|one| one.max_concurrency).max();
        let limit = limit.unwrap_or_default();
        // Whoever rewrites a record or a work decides what the controller believes of that cluster.
        let is_edited = |name: &String| upgrade.records.get(name).is_some_and(|record| record.is_edited);
        if is_edited(&work.cluster) {
            return;
        }
        let is_counted = |name: &&String| {
            let is_none = **name == work.cluster
                || self.is_unaccounted(upgrade, name)
                || self.is_back_since(upgrade, name, sent)
                || self.may_seem_gone(upgrade, name, sent)
                || upgrade.is_unheard_stray(name, sent)
                || upgrade.waits_anew(name)
                || self.needs_no_operators(upgrade, name, &work.revision, sent);
            !is_edited(name) && !is_none
        };
        let holders = upgrade.holders_since(sent);
        let holders = holders.map(|names| names.into_iter().filter(is_counted).cloned());
        let holders = holders.map(Iterator::collect::<Vec<String>>);
        let mut names = holders.max_by_key(Vec::len).unwrap_or_default();
        names.push(work.cluster.clone());
        let (lost, withdrawn) = (upgrade.lost_since(work, sent), upgrade.withdrawn_at(work));
        let goes_on = goes_on(upgrade, work, sent) || lost.is_some();
        let is_exempt = self.is_exempt(upgrade, work, sent) || self.is_of_former_leader();
        let rival = self.at_work(work, sent);
        let failures = self.failures(work, sent);
        let canary = self.open_canary(work, sent);
        let cluster = &work.cluster;
        let may_end = goes_on || is_exempt || has_updated(upgrade, work, sent);
        let has_left = self.has_left(work, sent) && !may_end;
        let has_slot = is_exempt || upgrade.has_slot(cluster, sent, [withdrawn, lost]);
        let goes_on = goes_on || withdrawn.is_some() || upgrade.was_under_way(cluster, sent);
        self.check(Rule::Selected, !has_left, || {
            format!("{cluster} started long after it had left the selection")
        });
        self.check(Rule::Paused, may_start || goes_on, || {
            format!("{cluster} started while its upgrade is paused, invalid or restored")
        });
        self.check(Rule::Concurrency, names.len() <= limit || has_slot, || {
            let names = names.join(", ");
            format!("{names} are under way at the same time, and maxConcurrency is {limit}")
        });
        self.judge_spec(work, sent, goes_on || is_exempt);
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

    /// A start is one that a spec in force allows.
    fn judge_spec(&mut self, work: &Work, sent: Duration, may_start: bool) {
        self.judge_asked(work, may_start);
        self.judge_left_out(work, sent, may_start);
        self.judge_control(work, sent, may_start);
    }

    /// No cluster starts that every spec leaves out by which the start may go.
    fn judge_left_out(&mut self, work: &Work, sent: Duration, may_start: bool) {
        let upgrade = self.upgrades.get(&work.uid);
        let is_left_out = upgrade.is_some_and(|upgrade| upgrade.leaves_out(&work.cluster, sent));
        self.check(Rule::LeftOut, may_start || !is_left_out, || {
            format!("{} started although it is left out", work.cluster)
        });
    }

    /// Whether an upgrade lets clusters start, or this one has only just come back in the middle of its steps.
    fn may_start(&self, upgrade: &Upgrade, work: &Work, sent: Duration) -> bool {
        let is_open = !upgrade.is_held && upgrade.in_force(sent).any(|generation| !generation.is_shut);
        is_open || (self.has_step_before(work) && self.is_just_back(&work.cluster, sent))
    }

    /// Whether a work begins nothing that takes a slot.
    fn is_no_start(&self, upgrade: &Upgrade, work: &Work, sent: Duration) -> bool {
        upgrade.flights.contains_key(&work.cluster)
            || self.is_leftover(upgrade, work)
            || upgrade.is_degraded_since(work, sent)
    }

    /// Whether a cluster has left the selection of an upgrade so long before a start was sent that everybody had heard of it. Where
    /// the storage of the hub has just gone back, nobody may have.
    fn has_left(&self, work: &Work, sent: Duration) -> bool {
        let upgrade = self.upgrades.get(&work.uid);
        let cluster = self.clusters.get(&work.cluster);
        let Some((upgrade, cluster)) = upgrade.zip(cluster) else {
            return false;
        };
        let called = cluster.called(&work.cluster);
        let is_named = upgrade.selectors.iter().any(|names| names.contains(called));
        let is_decided = !upgrade.placement.is_empty() && self.decided.contains(&work.cluster);
        let is_heard = !cluster.changed.is_zero() && cluster.changed + UNHEARD <= sent;
        let went_back = self.went_back_before(sent, UNHEARD);
        let is_selected = (is_named || is_decided) && !self.is_unbound;
        cluster.is_there && !is_selected && is_heard && !went_back
    }

    /// Whether a cluster without a row has come back since a start was sent, before which it was nobody's. By now it may have a row. The same holds if it
    /// started before the term in which that was sent, and has come back since so shortly before that the leader may not have heard of it.
    fn is_back_since(&self, upgrade: &Upgrade, name: &str, sent: Duration) -> bool {
        let record = upgrade.records.get(name);
        let row = record.and_then(Record::row);
        let Some(cluster) = self.clusters.get(name) else {
            return false;
        };
        // Its row may have been written since then, too.
        let is_told = record.is_some_and(|record| record.told_at(sent).is_some());
        if row.is_some() {
            let had_left = cluster.left.is_some_and(|left| left <= sent);
            return !is_told && had_left && cluster.changed > sent;
        }
        let started = upgrade.flights.get(name).or_else(|| upgrade.suspended.get(name));
        let was_nobodys = started
            .zip(self.terms.begun_before(sent))
            .is_some_and(|(started, term)| *started < term && term < cluster.changed);
        cluster.changed > sent || (was_nobodys && cluster.changed + DEAF > sent)
    }

    /// Whether a cluster needs nothing more that holds a slot after an edit has taken its operators away, as whoever sent a start of
    /// this revision knew. One that has left the selection ends by the spec as it is then, and gets no row of that edit. It may be
    /// back since so shortly before that whoever sent the start had not heard of that.
    fn needs_no_operators(&self, upgrade: &Upgrade, name: &str, revision: &str, sent: Duration) -> bool {
        let has_left = self.clusters.get(name).is_some_and(|cluster| {
            let left = cluster.left.filter(|left| *left <= sent);
            let is_unheard = |left: Duration| left < cluster.changed && sent < cluster.changed + DEAF;
            left.is_some_and(|left| !self.selects(upgrade, name) || is_unheard(left))
        });
        upgrade.needs_no_operators(name, revision, has_left, sent)
    }

    /// Whether a cluster without a row was registered anew so shortly before that whoever sent the start may only have heard by
    /// then that it was gone. A cluster that is gone holds a slot only as long as the hub has its row.
    fn may_seem_gone(&self, upgrade: &Upgrade, name: &str, sent: Duration) -> bool {
        let row = upgrade.records.get(name).and_then(Record::row);
        let cluster = self.clusters.get(name);
        let is_recent = cluster.is_some_and(|cluster| cluster.was_away() && cluster.changed + DEAF > sent);
        row.is_none() && is_recent
    }

    /// Whether the creation was under way while another replica took the Lease, which cannot know of it.
    fn is_of_former_leader(&self) -> bool {
        let sender = self.sender.as_ref().map(|sender| &*sender.identity);
        let holder = self.claims.last().map(|(_, holder)| holder.as_str());
        let has_lost_claim = self
            .sender
            .as_ref()
            .is_some_and(|sender| self.has_lost_claim(sender));
        (self.was_held_up() || has_lost_claim) && sender != holder
    }

    /// Whether a former leader's creation arrives after its cluster waits for another attempt. Nobody who leads now knew of it,
    /// and it is removed.
    fn is_leftover(&self, upgrade: &Upgrade, work: &Work) -> bool {
        let row = upgrade.records.get(&work.cluster).and_then(Record::row);
        let is_of_it = |row: &Row| row.revision == work.revision && row.retry == work.retry;
        self.is_of_former_leader() && row.is_some_and(|row| !row.is_under_way() && !is_of_it(row))
    }

    /// Whether a work is left from an attempt before that of its cluster's row, and the cluster has begun a step of that one which
    /// holds a slot. The leftover need not be gone before that, if the spec does not ask for its step any more.
    pub(super) fn is_left_beside(&self, work: &Work) -> bool {
        self.works_beside(work).next().is_some()
    }

    /// The works that hold slots and are of the attempt of a cluster's row, if a work is of another attempt.
    fn works_beside(&self, work: &Work) -> impl Iterator<Item = &Running> {
        let upgrade = self.upgrades.get(&work.uid);
        let record = upgrade.and_then(|upgrade| upgrade.records.get(&work.cluster));
        let row = record.and_then(Record::row);
        let row = row.filter(|row| (&row.revision, &row.retry) != (&work.revision, &work.retry));
        self.works.values().filter(move |one| {
            let is_of_row = row.is_some_and(|row| row.revision == one.revision && row.retry == one.retry);
            is_of_row && one.owner == work.uid && one.cluster == work.cluster
        })
    }

    /// Whether a work is left from before the attempt of its cluster's row: a step of that attempt which holds a slot has begun
    /// since the work was created, whatever somebody has written into it meanwhile. A row that arrives late may be of an earlier
    /// attempt than the work, but the steps of that attempt had begun before.
    pub(super) fn is_from_before(&self, work: &Work) -> bool {
        let key = self.keys.get(text(&work.value, "/metadata/uid"));
        let Some(created) = key.and_then(|key| self.created.get(key)) else {
            return false;
        };
        self.works_beside(work).any(|one| {
            let began = self.began.get(&one.key());
            began.is_some_and(|began| created.at < *began)
        })
    }

    /// Whether a cluster that seems to start may do so without a free slot: it has kept its own, it is gone again, or its works
    /// seem to be there for a while after it has come back.
    fn is_exempt(&self, upgrade: &Upgrade, work: &Work, sent: Duration) -> bool {
        let name = &work.cluster;
        if !self.clusters.get(name).is_some_and(|cluster| cluster.is_there) {
            return true;
        }
        let is_back = self.is_just_back(name, sent);
        let has_slot = upgrade.is_doubtful(name, &work.revision, &work.retry)
            || upgrade.has_former_row(name)
            || upgrade.suspended.contains_key(name)
            || upgrade.kept_by_row(name, sent).is_some()
            || upgrade.has_kept_slot(work, sent);
        let is_known = goes_on(upgrade, work, sent) || (is_back && self.has_begun(upgrade, work));
        is_known && (is_back || has_slot)
    }

    /// Whether an earlier step of this attempt is there, and the row of its cluster is of it. Whoever leads when that cluster is back
    /// takes it for the same one, which goes on.
    fn has_begun(&self, upgrade: &Upgrade, work: &Work) -> bool {
        let row = upgrade.records.get(&work.cluster).and_then(Record::row);
        let is_of_it = row.is_some_and(|row| row.revision == work.revision && row.retry == work.retry);
        is_of_it && self.has_step_before(work)
    }

    fn has_step_before(&self, work: &Work) -> bool {
        self.works.values().any(|one| {
            let is_earlier = one.name != work.name && one.cluster == work.cluster;
            let is_same = one.revision == work.revision && one.retry == work.retry;
            is_earlier && is_same && one.owner == work.uid
        })
    }

    /// Whether a cluster has just come back, or is selected again: whoever sent a start may have found it on its way.
    fn is_just_back(&self, cluster: &str, sent: Duration) -> bool {
        let cluster = self.clusters.get(cluster);
        cluster.is_some_and(|cluster| !cluster.changed.is_zero() && cluster.changed + DEAF > sent)
    }

    /// A cluster is under way from now on. A start whose cluster was deleted before it arrived does not count.
    fn note_under_way(&mut self, work: &Work) {
        let (now, sent) = (self.now, self.sent());
        let cluster = self.clusters.get(&work.cluster);
        let is_there = cluster.is_some_and(|cluster| cluster.is_there);
        let is_stray = self.is_of_former_leader();
        if let Some(upgrade) = self.upgrades.get_mut(&work.uid).filter(|_| is_there) {
            // Whoever goes on has kept its slot all the time. The next leader may have given it back since a former one sent this.
            let until = if is_stray { now } else { sent };
            let lost = upgrade.kept_by_row(&work.cluster, until);
            let withdrawn = upgrade.withdrawn_at(work);
            let suspended = upgrade.suspended.remove(&work.cluster);
            upgrade.strays.remove(&work.cluster);
            if is_stray && suspended.or(lost).is_none() {
                upgrade.strays.insert(work.cluster.clone(), now);
            }
            upgrade.note_belated(work, sent);
            let finished = upgrade.finished.remove(&work.cluster);
            let since = suspended.or(finished).or(lost).or(withdrawn).unwrap_or(now);
            upgrade.doubtful.remove(&work.cluster);
            upgrade.withdrawn.remove(&work.cluster);
            upgrade.flights.insert(work.cluster.clone(), since);
        }
    }

    fn downgrade(&mut self, work: &Work) {
        let Some(target) = version(&work.target) else {
            return;
        };
        let sent = self.sent();
        let runs = self.clusters.get(&work.cluster).and_then(|cluster| {
            // What its platform work reports counts more than its claim.
            let reported = cluster.shown.keys().filter_map(|shown| version(shown)).min();
            let claimed = cluster.oldest_claimed(sent, DEAF);
            let known = reported.into_iter().chain(claimed).min();
            let proven = cluster.proven_at(sent);
            let proven = proven.map(|proven| cluster.taken_back(proven, sent).unwrap_or(proven));
            proven.or(known)
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
            let Some((row, told)) = record.row().zip(record.phases.last()) else {
                return false;
            };
            let is_retried = upgrade.takes_back(name, row, told, sent);
            row.phase == "Failed"
                && !record.is_edited
                && row.revision == work.revision
                && !row.is_canary
                && !upgrade.may_leave_out(name, sent)
                && !row.has_left
                && !row.steps.iter().any(|step| step.name == "PostAction")
                && told.since < sent
                && !is_retried
                && *name != work.cluster
                && self
                    .clusters
                    .get(name)
                    .is_some_and(|cluster| cluster.is_there && !told.is_from_before(cluster.changed))
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
        let wants_operators = specs.iter().all(|spec| spec.after.operators);
        let wants_post_action = specs.iter().all(|spec| spec.after.action);
        let is_open = |name: &&&String| {
            let Some(cluster) = self.clusters.get(**name) else {
                return false;
            };
            // Whoever has just come or gone, or has other labels since, may be taken for no canary.
            let is_known = cluster.changed.is_zero() || cluster.changed + DEAF <= sent;
            // What somebody wrote into its row is believed until its next attempt.
            let is_edited = upgrade.records.get(**name).is_some_and(|record| record.is_edited);
            if !cluster.is_there || cluster.called(name) != name.as_str() || !is_known || is_edited {
                return false;
            }
            // What it has ended of an earlier revision counts if no edit since concerns that. When the start arrives, its row may
            // be of a later edit.
            let record = upgrade.records.get(**name);
            let row = record.and_then(|record| record.row_for(&work.revision));
            let updated = row.and_then(|row| upgrade.end_of_row(name, Step::Platform, row));
            let is_kept = updated.is_some_and(|end| specs.iter().any(|spec| spec.version == end.target));
            let is_asked_for = |update: &&Running| specs.iter().any(|spec| spec.version == update.target);
            let untold = self.untold_update(&work.uid, name).filter(is_asked_for);
            let untold = untold.filter(|_| row.is_none());
            let row = row.filter(|_| is_kept);
            let ended = |step: Step| {
                let end = upgrade.end(name, step, &work.revision);
                let end = end.or_else(|| upgrade.end_of_row(name, step, row?));
                let earlier = untold.filter(|_| step != Step::PostAction);
                let end = end.or_else(|| upgrade.end(name, step, &earlier?.revision));
                end.map(|end| end.first).filter(|first| *first <= sent)
            };
            let last = if wants_operators {
                Step::Operators
            } else {
                Step::Platform
            };
            let soaked = ended(last).is_some_and(|end| end + soak <= sent + self.tolerance);
            !soaked || (wants_post_action && ended(Step::PostAction).is_none())
        };
        Some(canaries.iter().find(is_open).map(|name| (*name).clone()))
    }
}

#[cfg(test)]
mod tests;
