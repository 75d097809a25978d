//! The rules that a run is judged by.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! rules {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal;)+) => {
        /// A rule that can be violated.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Rule { $($(#[doc = $doc])+ #[serde(rename = $text)] $name),+ }

        impl Rule {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Its name in outputs and stories.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            /// What must hold.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii()),+ }
            }
        }
    };
}

rules! {
    /// Never more than `maxConcurrency` clusters are under way.
    Concurrency = "concurrency";
    /// A work is created once per cluster, step and attempt.
    Once = "once";
    /// No other cluster starts before all canaries have ended every step and their soak.
    CanariesFirst = "canaries-first";
    /// The platform work is deleted only when the row says that its cluster is upgraded.
    RowFirst = "row-first";
    /// Nothing starts after the status has acknowledged a pause.
    Paused = "paused";
    /// No cluster starts that the spec skips or aborts.
    LeftOut = "left-out";
    /// No cluster starts outside its maintenance windows, or when less than minimumRemaining is left of them.
    Windows = "windows";
    /// No cluster starts behind a checkpoint without an approval of the present plan.
    Approvals = "approvals";
    /// Nothing starts after the rows show more failures than `maxFailures`.
    Budget = "budget";
    /// A cluster is in the hands of one upgrade at a time.
    Exclusive = "exclusive";
    /// Nothing is created in the namespace of a cluster that was never selected.
    Selected = "selected";
    /// A work of somebody else is neither changed nor deleted.
    Foreign = "foreign";
    /// A change or deletion names the object it is meant for, and meets it.
    Target = "target";
    /// No cluster is asked for an older version than it is known to run.
    Downgrade = "downgrade";
    /// No replica writes what it sent after another one claimed the Lease.
    OneWriter = "one-writer";
    /// Within an attempt a row does not go back, and no earlier attempt returns.
    Rows = "rows";
    /// Transition times move only when a status flips, and all conditions are there.
    Conditions = "conditions";
    /// No cluster fails by time before its time is over.
    Deadline = "deadline";
    /// A cluster is complete only when it has ended every step and its soak.
    Complete = "complete";
    /// Requests of a replica per virtual minute are bounded.
    Storm = "storm";
    /// When nothing moves any more, or the hub refuses something for minutes, the status says so.
    Told = "told";
    /// No plan is refused by the controller's own checker.
    Internal = "internal";
    /// Replicas can read every object, unless somebody writes on purpose what cannot be read.
    Unread = "unread";
    /// No cluster loses its `ClusterVersion`.
    ClusterVersion = "cluster-version";
    /// Everything ends when faults end.
    Ends = "ends";
    /// Nothing changes when all is done.
    Quiet = "quiet";
    /// Nothing changes when all is done and all replicas start anew.
    Restart = "restart";
    /// Where that is required, a cluster starts only after it has said that it would take the update, and an image is one that it told.
    Preflight = "preflight";
    /// A probe changes nothing but what the spec says, and nothing of it is left in the end.
    Probes = "probes";
    /// What is acknowledged on clusters is what the spec acknowledges.
    Acks = "acks";
    /// Where an upgrade waits for worker pools, no update is over before they have followed.
    WorkerPools = "worker-pools";
    /// No task ends by itself, panics, or goes round in a circle in which no time passes.
    Ended = "ended";
}

/// A rule that was violated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// What happened.
    pub what: String,
}

impl Rule {
    /// The rules that were violated.
    #[must_use]
    pub fn violated_in(violations: &[Violation]) -> BTreeSet<Self> {
        violations.iter().map(|violation| violation.rule).collect()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule.as_str(), self.what)
    }
}
