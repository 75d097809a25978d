//! What must hold, judged by the hub's log, by requests, and by the agents' own truth: never by what the controller thinks of the
//! world. Two rules ask whether its processes refused a plan or could not read an object, which the log does not tell.

mod answers;
mod asked;
mod clocks;
mod complete;
mod control;
mod counts;
mod deadlines;
mod facts;
mod fields;
mod former;
mod generation;
mod in_force;
mod limits;
mod memory;
mod objects;
mod probes;
mod requests;
mod retries;
mod rivals;
mod row;
mod rows;
mod rule;
mod said;
mod schedule;
mod starts;
mod statuses;
mod told;
mod works;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use hub_sim::{Change, Kind};

pub use self::answers::{Past, Witness};
use self::facts::Facts;
pub use self::requests::Sent;
pub use self::rule::{Rule, Violation};
pub use self::told::Tidings;
use crate::actor::{self, Role, Sender};
use crate::trace::Trace;

/// Follows a hub. Clones are the same oracle.
#[derive(Clone, Debug, Default)]
pub struct Oracle(Arc<Mutex<Facts>>);

/// What an oracle knew at a time.
#[derive(Clone, Debug)]
pub struct Known(Facts);

impl Oracle {
    /// An oracle for a run in which the wall clocks of replicas may be wrong by `tolerance` without being distrusted.
    #[must_use]
    pub fn new(tolerance: Duration, trace: Trace) -> Self {
        let oracle = Self::default();
        oracle.with(|facts| {
            facts.tolerance = tolerance;
            facts.trace = trace;
        });
        oracle
    }

    fn with<T>(&self, change: impl FnOnce(&mut Facts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a change of the hub, which happens at `now`.
    pub fn observe(&self, now: Duration, kind: &Kind, change: &Change) {
        self.with(|facts| {
            facts.now = now;
            facts.sender = actor::sender();
            facts.observe(kind, change);
        });
    }

    /// What is known now, to be given to [`Oracle::rewind`] later.
    #[must_use]
    pub fn snapshot(&self) -> Known {
        self.with(|facts| Known(facts.clone()))
    }

    /// The hub goes back to an earlier time, and so does what is known of it.
    pub fn rewind(&self, known: Known) {
        self.with(|facts| facts.rewind(known.0));
    }

    /// Lets rules ask clusters themselves what they know of their past.
    pub fn believe(&self, truth: Witness) {
        self.with(|facts| facts.probes.believe(truth));
    }

    /// Whether any spec has ever acknowledged a key.
    #[must_use]
    pub fn has_ever_acknowledged(&self, key: &str) -> bool {
        self.with(|facts| facts.has_ever_acknowledged(key))
    }

    /// Judges whether the ends that agents report are recorded. `disturbed`: when something last kept the controller from that.
    pub fn recorded(&self, now: Duration, disturbed: Duration) {
        self.with(|facts| {
            facts.now = now;
            facts.recorded(disturbed);
        });
    }

    /// Takes a request that a replica sends. If it never arrives, nothing else tells of it.
    pub fn send(&self, sender: &Sender, verb: &str, path: &str, body: &[u8]) {
        if verb == "POST" && path.ends_with("/manifestworks") {
            self.with(|facts| facts.try_work(sender, body));
        }
    }

    /// Takes a request of a replica that the hub has answered.
    pub fn request(&self, sender: &Sender, sent: &Sent<'_>) {
        self.with(|facts| facts.request(sender, sent));
    }

    /// Something may keep the controller from its work until then, or does so no more.
    pub fn disturb(&self, until: Duration, is_over: bool) {
        self.with(|facts| {
            let known = &mut facts.disturbed.until;
            *known = if is_over { until } else { until.max(*known) };
        });
    }

    /// Requests of a replica wait behind one that gets no answer, or that is to be sent again later.
    pub fn delay(&self, now: Duration) {
        self.with(|facts| facts.disturbed.waits.push(now));
    }

    /// The wall clock of a machine is set. It is ahead by these seconds from now on.
    pub fn set_clock(&self, machine: &str, now: Duration, seconds: i64) {
        self.with(|facts| facts.disturbed.set_clock(machine, now, seconds));
    }

    /// Judges what should have happened by now.
    pub fn look(&self, now: Duration) {
        self.with(|facts| {
            facts.now = now;
            facts.sender = None;
            facts.overdue();
        });
    }

    /// Requests of replicas that would change something, but for the Lease.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.with(|facts| facts.writes)
    }

    /// What replicas have read and watched, without the Lease: by verb and path.
    #[must_use]
    pub fn reads(&self) -> BTreeMap<String, u64> {
        self.with(|facts| facts.reads.clone())
    }

    /// Adds a violation that the log alone does not show.
    pub fn add(&self, rule: Rule, what: impl Into<String>) {
        let what = what.into();
        self.with(|facts| facts.violated(rule, what));
    }

    /// The clusters whose agents have changed works since the last time, but for those that were ever away.
    #[must_use]
    pub fn take_applied(&self) -> BTreeSet<String> {
        self.with(|facts| {
            let mut applied = std::mem::take(&mut facts.applied);
            applied.retain(|name| facts.clusters.get(name).is_some_and(|one| !one.was_away()));
            applied
        })
    }

    /// Counts that a rule was tried, and adds a violation unless it holds.
    pub fn check(&self, rule: Rule, holds: bool, what: impl FnOnce() -> String) {
        self.with(|facts| facts.check(rule, holds, what));
    }

    /// The number of changes so far, without renewals of Leases.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.with(|facts| facts.changes)
    }

    /// How many updates agents have reported as ended.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.with(|facts| facts.ended)
    }

    /// When the controller last changed something.
    #[must_use]
    pub fn last_change(&self) -> Duration {
        self.with(|facts| facts.last_change)
    }

    /// Whether nothing says that a cluster runs what a complete upgrade asks for: somebody has edited its record, it was registered
    /// anew and nobody has heard of that, or its agents not yet when they reported the end of its update, the upgrade was complete
    /// before it was restored, or the cluster has claimed to run something older, and another upgrade
    /// has believed it. Or something took the cluster back: a creation that a former leader had sent before the update ended. The
    /// agents play the cluster since the time `begun`.
    #[must_use]
    pub fn is_excused(&self, uid: &str, cluster: &str, begun: Option<DateTime<Utc>>) -> bool {
        self.with(|facts| {
            let upgrade = facts.upgrades.get(uid);
            let was_deleted = facts.is_reborn(uid, cluster, begun)
                || facts.is_blocked_by_former_row(uid, cluster)
                || facts.is_blocked_by_what_it_just_ran(uid, cluster);
            let is_edited = |upgrade: &facts::Upgrade| {
                let record = upgrade.records.get(cluster);
                upgrade.is_held || record.is_some_and(|record| record.is_edited)
            };
            let is_taken_back = facts.was_misled(uid, cluster) || facts.was_taken_back(uid, cluster);
            was_deleted || upgrade.is_some_and(is_edited) || is_taken_back
        })
    }

    /// When the time of the last cluster is over that only its time can end; zero if there is none.
    #[must_use]
    pub fn ends_by_time(&self) -> Duration {
        self.with(|facts| facts.ends_by_time().unwrap_or_default())
    }

    /// Whether clusters of an upgrade are under way.
    #[must_use]
    pub fn is_under_way(&self, uid: &str) -> bool {
        self.with(|facts| facts.upgrades.get(uid).is_some_and(facts::Upgrade::is_under_way))
    }

    /// Whether a cluster of an upgrade waits for another upgrade that has it under way, or comes to it without a human.
    #[must_use]
    pub fn waits_for_another(&self, uid: &str, now: Duration) -> bool {
        self.with(|facts| facts.waits_for_progress_of_another(uid, now))
    }

    /// Whether a cluster is blocked only by what a replica remembers, and one that starts anew may not know.
    #[must_use]
    pub fn has_block_by_memory(&self) -> bool {
        self.with(|facts| facts.has_block_by_memory())
    }

    /// Whether every cluster of an upgrade is complete or runs something newer.
    #[must_use]
    pub fn waits_for_ever(&self, uid: &str) -> bool {
        self.with(|facts| {
            facts
                .upgrades
                .get(uid)
                .is_some_and(facts::Upgrade::waits_for_ever)
        })
    }

    /// The violations so far.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.with(|facts| facts.violations.clone())
    }

    /// How often each rule was tried.
    #[must_use]
    pub fn checked(&self) -> BTreeMap<Rule, u64> {
        self.with(|facts| facts.checked.clone())
    }
}

impl Facts {
    fn observe(&mut self, kind: &Kind, change: &Change) {
        if kind.plural == "leases" {
            self.lease(change);
            return;
        }
        self.changes += 1;
        if self.by_controller() {
            self.last_change = self.now;
            self.writer();
        }
        match kind.plural.as_str() {
            "manifestworks" => {
                if self.role() == Some(Role::Agents) {
                    self.applied.insert(change.after.namespace().to_owned());
                }
                self.work(change);
            }
            "managedclustersupgradereports" => self.report(change),
            "managedclustersupgrades" => self.upgrade(change),
            "managedclusters" => self.managed_cluster(change),
            "managedclustersupgradeapprovals" => self.approval(change),
            "namespaces" => self.namespace(change),
            "placementdecisions" => self.decision(change),
            "managedclustersetbindings" => self.binding(change),
            "events" => self.event(change),
            _ => {}
        }
    }
}
