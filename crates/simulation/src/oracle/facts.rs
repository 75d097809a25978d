//! What the rules know of a run: upgrades, clusters, works, claims of the Lease, requests.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use api::names::Step as WorkStep;

use super::answers::Probes;
use super::fields::Version;
use super::generation::Generation;
use super::memory::{Disturbances, Refusals, Rejected, Reported, Straggler, Terms, Told, Withdrawn};
use super::row::Row;
use super::rule::{Rule, Violation};
use super::schedule::Approval;
use crate::actor::{Role, Sender};
use crate::names::HUB;
use crate::trace::Trace;

/// How long a replica may not know what it should have heard: a dead watch is noticed within a minute.
pub(super) const DEAF: Duration = Duration::from_secs(75);
/// The same for a watch that nothing disturbs.
pub(super) const ON_ITS_WAY: Duration = Duration::from_secs(5);
/// The same until nothing is sent any more that was planned before.
pub(super) const UNHEARD: Duration = Duration::from_secs(135);

/// Upgrade, cluster, name of the work, revision and retry.
pub(super) type Key = (String, String, String, String, String);

/// What is known of a cluster's rows in one upgrade.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// What a later row may follow: the controller's last row, and the one that somebody else wrote since.
    pub before: Vec<Row>,
    /// The phases that its rows have said, one after the other.
    pub phases: Vec<Told>,
    /// Somebody else has written this record since its last attempt began.
    pub is_edited: bool,
    /// When somebody else last wrote it.
    pub edited: Duration,
    /// Somebody else has deleted its latest row.
    pub is_lost: bool,
    /// The report that has its latest row.
    pub report: String,
    /// If a report that arrived late has its latest row: the row that another report got since, or an empty one.
    pub beside: Option<Row>,
    /// The last row of each earlier revision.
    pub former: BTreeMap<String, Row>,
    /// Attempts that are over.
    pub superseded: BTreeSet<(String, String)>,
    /// When the storage of the hub took back an edit of what is asked for, until a row of another attempt follows.
    pub undone: Option<Duration>,
    /// When the controller last sent a row that said Blocked and was refused, or a creation that blocks its cluster, and the
    /// attempt of that (revision and retry).
    pub blocked: Option<(Duration, (String, String))>,
    /// When a status was last sent that said Blocked of the cluster.
    pub told_blocked: Duration,
}

impl Record {
    /// What the row said at a time.
    pub fn phase_at(&self, at: Duration) -> &str {
        self.told_at(at).map_or("", |told| &told.phase)
    }

    /// What the row said at a time, and since when.
    pub fn told_at(&self, at: Duration) -> Option<&Told> {
        self.phases.iter().rev().find(|told| told.since <= at)
    }

    /// When its latest row was sent.
    pub fn sent(&self) -> Duration {
        self.phases.last().map_or(Duration::ZERO, |told| told.sent)
    }

    pub fn row(&self) -> Option<&Row> {
        self.before.last()
    }

    /// Whether the controller has sent a row of this attempt that said Blocked and was refused, or a creation that blocked the
    /// cluster, since the time of which the phase on the hub tells, or a status that said so since it sent that row: the next row
    /// may have waited until that was over.
    pub fn was_blocked(&self, attempt: &(String, String)) -> bool {
        let is_told_before = |at: Duration| self.phases.last().is_none_or(|told| told.is_from_before(at));
        let refused = self.blocked.as_ref();
        self.told_blocked > self.sent()
            || refused.is_some_and(|(sent, of)| is_told_before(*sent) && of == attempt)
    }

    /// Whether the cluster waits for another attempt after it was complete, or after everything but its post-action had ended: an
    /// edit queues it again in both cases.
    pub fn begins_anew(&self) -> bool {
        matches!(self.before_waiting(), Some("Complete" | "PostAction"))
    }

    /// Whether the cluster waits since its row said that it was left out: the spec does not leave it out any more.
    pub fn is_taken_up(&self) -> bool {
        matches!(self.before_waiting(), Some("Skipped" | "Aborted"))
    }

    /// What its rows said last before they said Pending.
    fn before_waiting(&self) -> Option<&str> {
        let mut phases = self.phases.iter().rev().map(|told| told.phase.as_str());
        phases.find(|phase| *phase != "Pending")
    }
}

/// The end of a step, as agents reported it for the last attempt that came to it.
#[derive(Clone, Debug, Default)]
pub(super) struct End {
    pub retry: String,
    pub target: String,
    /// The start that its work names, and when the hub created that work.
    pub started: String,
    pub created: String,
    /// The start that somebody has written into it since. Whoever leads then may know no other.
    pub rewritten: String,
    /// The step has begun in another revision since they last said so.
    pub is_replaced: bool,
    /// When they first and last said so.
    pub first: Duration,
    pub last: Duration,
}

/// An upgrade.
#[derive(Clone, Debug, Default)]
pub(super) struct Upgrade {
    /// `namespace/name`.
    pub key: String,
    /// It is being deleted, or was.
    pub is_gone: bool,
    /// When the hub removed it.
    pub ended: Option<Duration>,
    pub generations: Vec<Generation>,
    /// Specs that were in force when the storage of the hub lost them, and when that was.
    pub lost_specs: Vec<(Duration, Generation)>,
    /// Clusters that held no slot any more when the storage of the hub went back to a time at which they did, and when that was.
    pub freed: BTreeMap<String, Duration>,
    /// The plans that its statuses have told, and the generation of which each was.
    pub plans: BTreeSet<(i64, String)>,
    /// The checkpoints that wait by the last status, and the plan that each is to be approved for.
    pub asked: Vec<(String, String)>,
    /// When the status first told which generation.
    pub acknowledged: Vec<(Duration, i64)>,
    /// Clusters under way, and since when.
    pub flights: BTreeMap<String, Duration>,
    /// Clusters whose rows came late, and when.
    pub late_rows: BTreeMap<String, Duration>,
    /// Clusters under way by a creation of a former leader alone, and when that came.
    pub strays: BTreeMap<String, Duration>,
    /// Clusters without works that go on because their rows say that they are under way, and since when they are.
    pub suspended: BTreeMap<String, Duration>,
    /// Clusters whose updates agents have reported as ended, and since when.
    pub finished: BTreeMap<String, Duration>,
    /// Pre-actions that were sent before such an end was reported, and came after it.
    pub belated: BTreeSet<Key>,
    /// When somebody else last took such an end back.
    pub taken_back: BTreeMap<String, Duration>,
    /// Clusters whose works somebody deleted while their rows did not tell yet where they were. They may go on with that
    /// attempt (revision and retry) or not.
    pub doubtful: BTreeMap<String, (String, String)>,
    /// Clusters under way whose works somebody deleted while no row told of their starts, and when.
    pub untold: BTreeMap<String, Duration>,
    /// Clusters whose pre-actions the controller deleted, because they had left, before their rows told of them.
    pub withdrawn: BTreeMap<String, Withdrawn>,
    /// Clusters that were under way when the upgrade was deleted, and from when to when.
    pub halted: BTreeMap<String, (Duration, Duration)>,
    /// What agents have reported as ended, by cluster, step and revision. Whoever rewrites a work's revision adds an end, and
    /// takes none away.
    pub ends: BTreeMap<(String, WorkStep, String), End>,
    pub records: BTreeMap<String, Record>,
    /// When rows were removed that said that a cluster was under way, or a cluster that held a slot was lost.
    pub dropped: BTreeMap<String, Duration>,
    /// The records of clusters whose rows are gone, and since when.
    pub removed: BTreeMap<String, (Record, Duration)>,
    /// The clusters of each report.
    pub reports: BTreeMap<String, BTreeSet<String>>,
    /// The rows of reports that somebody else wrote last: report and cluster.
    pub theirs: BTreeSet<(String, String)>,
    /// Clusters without rows of which a report that is written now had said before that they are left out: phase and attempt.
    pub left_out: BTreeMap<String, (String, (String, String))>,
    /// Every cluster that was ever selected.
    pub selected: BTreeSet<String>,
    /// The token of the last retry.
    pub retry: String,
    /// When failed clusters were last queued again by a person.
    pub retried: Option<Duration>,
    /// Conditions of the last status: status and transition time of each type.
    pub conditions: BTreeMap<String, (String, String)>,
    /// When the last status was sent.
    pub told: Duration,
    /// How many clusters were under way by the last status.
    pub in_flight: u64,
    /// It was restored from a backup and nobody has resumed it.
    pub is_held: bool,
    /// The names that each of its specs selects by.
    pub selectors: Vec<BTreeSet<String>>,
    /// The Placement that it selects by: `namespace/name`, or nothing.
    pub placement: String,
}

impl Upgrade {
    /// Whether a cluster is under way, by its works or by its row. A Job that has failed is tried again minutes later, and
    /// what never ends fails by time.
    pub fn is_under_way(&self) -> bool {
        let mut rows = self.records.values().filter_map(Record::row);
        !self.flights.is_empty() || rows.any(Row::is_under_way)
    }

    /// Whether this cluster is under way, by its works or by its row.
    pub fn has_under_way(&self, cluster: &str) -> bool {
        let row = self.records.get(cluster).and_then(Record::row);
        self.flights.contains_key(cluster) || row.is_some_and(Row::is_under_way)
    }

    /// Clusters that hold slots: those under way, and those that go on because their rows say so.
    pub fn holders(&self) -> BTreeSet<&String> {
        self.flights.keys().chain(self.suspended.keys()).collect()
    }

    /// Whether somebody else deleted a work of this attempt of a cluster before its row told where it was.
    pub fn is_doubtful(&self, cluster: &str, revision: &str, retry: &str) -> bool {
        let attempt = self.doubtful.get(cluster);
        attempt.is_some_and(|(of, again)| of == revision && again == retry)
    }

    /// Somebody else has deleted a work of this attempt of a cluster, and no row tells where it is. Whoever has started it still
    /// knows of it.
    pub fn note_doubtful(&mut self, cluster: &str, attempt: (String, String), now: Duration) {
        if self.flights.contains_key(cluster) {
            let row = self.records.get(cluster).and_then(Record::row);
            if !row.is_some_and(Row::is_under_way) {
                self.untold.insert(cluster.to_owned(), now);
            }
        }
        self.release(cluster);
        self.doubtful.insert(cluster.to_owned(), attempt);
    }

    /// The upgrade is being deleted, so no cluster holds a slot any more, or may go on.
    pub fn release_all(&mut self, now: Duration) {
        let under_way = std::mem::take(&mut self.flights).into_iter();
        self.halted
            .extend(under_way.map(|(name, since)| (name, (since, now))));
        self.suspended.clear();
        self.finished.clear();
        self.doubtful.clear();
        self.withdrawn.clear();
    }

    /// A cluster holds no slot any more.
    pub fn release(&mut self, cluster: &str) {
        self.flights.remove(cluster);
        self.suspended.remove(cluster);
    }

    /// The same by a report that was sent at a time. What started since holds its slot.
    pub fn release_at(&mut self, cluster: &str, sent: Duration) {
        let since = self.flights.get(cluster).or_else(|| self.suspended.get(cluster));
        if since.is_some_and(|since| *since < sent) {
            self.release(cluster);
        }
    }
}

/// A cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    pub is_there: bool,
    /// When its ManagedCluster was last deleted. Its agents learn of that when their watch says so, and then begin anew.
    pub deleted: Option<Duration>,
    /// Its namespace is gone or on its way out. So nothing can be asked of it, and it counts as gone.
    pub lacks_namespace: bool,
    pub name_label: String,
    /// When it was last created, deleted, given other labels, or its set was bound or unbound.
    pub changed: Duration,
    /// When a Placement last left it out, it last got other labels, or its set was last unbound. It may be selected again since.
    pub left: Option<Duration>,
    /// When it or its namespace was last created or deleted.
    pub registered: Duration,
    /// When the controller could last hear of that: by the ManagedCluster, or by a creation that met no namespace.
    pub heard: Duration,
    /// Since when it claims which version.
    pub versions: Vec<(Duration, Version)>,
    /// Versions to which upgrades have taken it by their rows, since the claim last changed: by UID of the upgrade.
    pub proven: BTreeMap<String, (Duration, Version)>,
    /// When agents last reported the end of the update to a version for the first time since it was deleted.
    pub done: BTreeMap<String, Duration>,
    /// Since when the platform work shows the end of the update to a version.
    pub shown: BTreeMap<String, Duration>,
    /// The version that a platform work reported last.
    pub reported: Option<Reported>,
    /// What former leaders asked for too late.
    pub stragglers: Vec<Straggler>,
}

impl Cluster {
    /// What selectors call the cluster of this name.
    pub fn called<'a>(&'a self, name: &'a str) -> &'a str {
        if self.name_label.is_empty() {
            name
        } else {
            &self.name_label
        }
    }

    /// It was gone before, or its namespace was.
    pub fn was_away(&self) -> bool {
        self.deleted.is_some() || !self.registered.is_zero()
    }

    /// It claims a version.
    pub fn claims(&mut self, now: Duration, runs: Version) {
        if self.versions.last().is_none_or(|(_, before)| *before != runs) {
            self.versions.push((now, runs));
            self.proven.clear();
        }
    }

    /// Its claim is gone, or is no version any more. It may run anything, except for what rows prove.
    pub fn claims_nothing(&mut self, now: Duration) {
        if !self.versions.is_empty() {
            self.versions.push((now, Version::default()));
        }
    }

    /// A row of an upgrade says that it took the cluster from a version to another one, or does not say so any more.
    pub fn prove(&mut self, upgrade: &str, now: Duration, update: Option<(Version, Version)>) {
        let claimed = self.versions.last().map(|(_, version)| *version);
        match update.filter(|(from, _)| claimed == Some(*from)) {
            Some((_, to)) => {
                self.proven.entry(upgrade.to_owned()).or_insert((now, to));
            }
            None => {
                self.proven.remove(upgrade);
            }
        }
    }

    /// The version that rows proved last at a time.
    pub fn proven_at(&self, at: Duration) -> Option<Version> {
        let known = self.proven.values().filter(|(since, _)| *since < at);
        known.max().map(|(_, version)| *version)
    }

    /// The oldest version that somebody may take it to run by its claims, if all that is older than `deaf` is known.
    pub fn oldest_claimed(&self, at: Duration, deaf: Duration) -> Option<Version> {
        let certain = self.versions.iter().rposition(|(since, _)| *since + deaf < at)?;
        let known = self.versions[certain..].iter().filter(|(since, _)| *since <= at);
        known.map(|(_, version)| *version).min()
    }
}

/// A work that was created.
#[derive(Clone, Debug, Default)]
pub(super) struct Created {
    /// When the hub took it.
    pub at: Duration,
    /// The start that it named.
    pub started: String,
    /// When it was deleted, and by whom.
    pub deleted: Option<(Duration, Option<Role>)>,
    /// When the deletion that has removed it was asked for.
    pub unwanted: Option<Duration>,
    /// Whoever created it may not have heard that its cluster was registered anew shortly before.
    pub is_unheard: bool,
    /// When it was first tried with this start, if its row had that start already.
    pub first_try: Option<Duration>,
}

/// A work of a step that holds a slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Running {
    pub name: String,
    pub owner: String,
    pub cluster: String,
    pub revision: String,
    pub retry: String,
    /// The start that it names.
    pub started: String,
    /// The version that it asks for, if it asks for one.
    pub target: String,
    /// Its agent has not reported its end, and nobody has deleted it.
    pub goes_on: bool,
    /// Since when its agent reports that the update has begun or ended.
    pub accepted: Option<Duration>,
    /// Its request was withdrawn, and its agent reports that the cluster is asked for nothing.
    pub is_unasked: bool,
    /// When an end that was reported was last taken back: since then, the work goes on again.
    pub taken_back: Option<Duration>,
}

impl Running {
    /// The step of an attempt whose work it is.
    pub fn key(&self) -> Key {
        (
            self.owner.clone(),
            self.cluster.clone(),
            self.name.clone(),
            self.revision.clone(),
            self.retry.clone(),
        )
    }
}

/// Everything that rules know.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// The time of the change that is looked at.
    pub now: Duration,
    /// Seconds by which the wall clocks of replicas may be wrong without being distrusted.
    pub tolerance: Duration,
    pub sender: Option<Sender>,
    /// By UID.
    pub upgrades: BTreeMap<String, Upgrade>,
    pub clusters: BTreeMap<String, Cluster>,
    pub created: BTreeMap<Key, Created>,
    /// When the work of an attempt was first sent, or announced by a row if an earlier one is changed in place.
    pub began: BTreeMap<Key, Duration>,
    /// When a creation was first sent that the log does not tell of, because it was refused or never arrived: by what it would
    /// have created, and the start that it names.
    pub tried: BTreeMap<(Key, String), Duration>,
    /// When each creation was first sent, whatever came of it or of its cluster since: by the same.
    pub first_tried: BTreeMap<(Key, String), Duration>,
    /// Rows that the hub has rejected, by UID of the upgrade and cluster.
    pub rejected: BTreeMap<(String, String), Rejected>,
    /// What a work was created as, by UID of the work.
    pub keys: BTreeMap<String, Key>,
    /// Who deleted which work, by UID of the work.
    pub deleters: BTreeMap<String, (Duration, Option<Role>)>,
    /// Works that hold a slot, as they are: by UID of the work.
    pub works: BTreeMap<String, Running>,
    /// Since when works are not ours any more, by UID of the work.
    pub foreign: BTreeMap<String, Duration>,
    /// Claims of the Lease: when and whose.
    pub claims: Vec<(Duration, String)>,
    pub terms: Terms,
    /// When the storage of the hub went back, and who held the Lease until then.
    pub rewinds: Vec<(Duration, String)>,
    /// The clusters that each Placement has ever decided on.
    pub decisions: BTreeMap<String, BTreeSet<String>>,
    /// Those of the last decision.
    pub decided: BTreeSet<String>,
    /// The set of the fleet is not bound in the namespace of the upgrades, so they select nobody.
    pub is_unbound: bool,
    /// Changes that are not renewals of Leases.
    pub changes: u64,
    /// Updates that agents have reported as ended.
    pub ended: u64,
    /// The last time at which the controller changed something.
    pub last_change: Duration,
    /// Until when something may keep the controller from its work.
    pub disturbed: Disturbances,
    /// Requests of replicas that would change something, but for the Lease.
    pub writes: u64,
    /// What replicas have read and watched, without the Lease: by verb and path.
    pub reads: BTreeMap<String, u64>,
    /// Works whose failure agents have reported in some attempt: upgrade, cluster and name.
    pub failures: BTreeSet<(String, String, String)>,
    /// Writes of works that the hub forbids.
    pub forbidden: Refusals,
    pub probes: Probes,
    pub approvals: Vec<Approval>,
    /// Clusters whose agents have changed works since somebody last looked.
    pub applied: BTreeSet<String>,
    /// Requests of the last minute, by replica and request.
    pub requests: HashMap<(Arc<str>, String), VecDeque<Duration>>,
    pub checked: BTreeMap<Rule, u64>,
    pub violations: Vec<Violation>,
    /// Where violations are told of when they happen.
    pub trace: Trace,
}

impl Facts {
    /// Goes back to what was known at an earlier time, because the hub does. What was judged since stays judged, and whoever
    /// held the Lease last believes that he still does.
    pub fn rewind(&mut self, mut earlier: Self) {
        earlier.now = self.now;
        earlier.claims = std::mem::take(&mut self.claims);
        earlier.rewinds = std::mem::take(&mut self.rewinds);
        earlier.terms = std::mem::take(&mut self.terms);
        let holder = earlier
            .claims
            .last()
            .map(|(_, holder)| (self.now, holder.clone()));
        earlier.rewinds.extend(holder);
        earlier.changes = self.changes;
        earlier.ended = self.ended;
        earlier.last_change = self.last_change;
        earlier.disturbed = std::mem::take(&mut self.disturbed);
        earlier.writes = self.writes;
        earlier.reads = std::mem::take(&mut self.reads);
        earlier.failures = std::mem::take(&mut self.failures);
        earlier.requests = std::mem::take(&mut self.requests);
        earlier.tried = std::mem::take(&mut self.tried);
        earlier.first_tried = std::mem::take(&mut self.first_tried);
        earlier.rejected = std::mem::take(&mut self.rejected);
        earlier.checked = std::mem::take(&mut self.checked);
        earlier.violations = std::mem::take(&mut self.violations);
        earlier.keep_approvals(self);
        earlier.keep_ends(self);
        *self = earlier;
    }

    /// What agents have reported as ended stays so: replicas have read it, and may have acted on it just before the storage went
    /// back. A cluster that was registered anew has begun anew, although the hub does not know of it any more. Whom an upgrade has ever
    /// selected it has selected: whoever sends something may not have heard of the storage.
    fn keep_ends(&mut self, later: &mut Self) {
        for (uid, upgrade) in &mut self.upgrades {
            let known = later.upgrades.remove(uid).unwrap_or_default();
            upgrade.note_undone(&known, self.now);
            upgrade.note_lost_specs(&known, self.now);
            upgrade.note_freed(&known, self.now);
            upgrade.selected.extend(known.selected);
            for (step, end) in known.ends {
                upgrade.ends.entry(step).or_insert(end);
            }
        }
        for (name, cluster) in &mut self.clusters {
            let known = later.clusters.remove(name).unwrap_or_default();
            cluster.deleted = cluster.deleted.max(known.deleted);
            for (version, since) in known.done {
                let done = cluster.done.entry(version).or_default();
                *done = since.max(*done);
            }
        }
    }

    pub fn tried(&mut self, rule: Rule) {
        *self.checked.entry(rule).or_default() += 1;
    }

    pub fn violated(&mut self, rule: Rule, mut what: String) {
        what.insert_str(0, &format!("at {:.3} s: ", self.now.as_secs_f64()));
        self.trace
            .explain(|| format!("violated {}: {what}", rule.as_str()));
        self.violations.push(Violation { rule, what });
    }

    /// Counts that a rule was tried, and adds a violation unless it holds.
    pub fn check(&mut self, rule: Rule, holds: bool, what: impl FnOnce() -> String) {
        self.tried(rule);
        if !holds {
            self.violated(rule, what());
        }
    }

    /// Whether a replica of the controller sent the change that is looked at.
    pub fn by_controller(&self) -> bool {
        self.role() == Some(Role::Controller)
    }

    pub fn role(&self) -> Option<Role> {
        self.sender.as_ref().map(|sender| sender.role)
    }

    /// When the change that is looked at was sent.
    pub fn sent(&self) -> Duration {
        self.sender.as_ref().map_or(self.now, |sender| sender.at)
    }

    pub fn cluster(&mut self, name: &str) -> &mut Cluster {
        self.clusters.entry(name.to_owned()).or_default()
    }

    /// Whether a cluster was started, has left the selection and has no row. Works alone do not make it the upgrade's: whoever
    /// may write works there could have made them.
    pub fn is_unaccounted(&self, upgrade: &Upgrade, name: &str) -> bool {
        let row = upgrade.records.get(name).and_then(Record::row);
        row.is_none() && !self.selects(upgrade, name)
    }

    /// Whether the storage of the hub had gone back less than a time before something was sent, or has done so since.
    pub fn went_back_before(&self, sent: Duration, within: Duration) -> bool {
        self.rewinds.iter().any(|(at, _)| sent < *at + within)
    }

    /// Computes anew who is selected.
    pub fn select(&mut self) {
        for upgrade in self.upgrades.values_mut() {
            for (name, cluster) in &self.clusters {
                let called = cluster.called(name);
                // The hub itself is not upgraded, whoever names it: the controllers of a run are not allowed to.
                if name != HUB
                    && cluster.is_there
                    && upgrade.selectors.iter().any(|names| names.contains(called))
                {
                    upgrade.selected.insert(name.clone());
                }
            }
            if let Some(decided) = self.decisions.get(&upgrade.placement) {
                upgrade.selected.extend(decided.iter().cloned());
            }
        }
    }
}
