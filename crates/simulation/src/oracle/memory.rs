//! What rules remember of terms, of rows, of refusals, of reported versions and of deleted pre-actions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::fields::Version;
use super::row::Row;

/// A phase that the rows of a cluster say.
#[derive(Clone, Debug)]
pub(super) struct Told {
    /// When the first row arrived that says so.
    pub since: Duration,
    /// When the last row was sent that says so.
    pub sent: Duration,
    pub phase: String,
}

impl Told {
    /// The time of which it tells: a row that arrives late tells what was known when it was sent.
    pub fn known_at(&self) -> Duration {
        self.since.min(self.sent)
    }

    /// Whether it tells of the time before something happened; zero: that never happened. If the cluster was lost or registered
    /// anew then, this row belongs to its life before.
    pub fn is_from_before(&self, happened: Duration) -> bool {
        !happened.is_zero() && self.known_at() <= happened
    }

    /// Whether the row after it may begin anew because the cluster was away: it is from before that, or whoever sent it need not have heard
    /// of that yet. A cluster that falls back may wait for the same attempt again when it is back.
    pub fn may_be_over(&self, changed: Duration, heard: Duration, now: Duration) -> bool {
        self.is_from_before(changed) || self.sent < heard || changed + Duration::from_mins(1) > now
    }

    /// The same phase, of a row that arrived when it was sent.
    #[cfg(test)]
    pub fn at(at: Duration, phase: &str) -> Self {
        Self {
            since: at,
            sent: at,
            phase: phase.to_owned(),
        }
    }
}

/// How long a replica writes without a renewed claim: the renew deadline of the controller's election.
pub(super) const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// By how many seconds the clocks of hub and controller may differ when a deadline fires.
const MAX_SKEW: u64 = 30;

/// The terms of replicas that have held the Lease.
#[derive(Clone, Debug, Default)]
pub(super) struct Terms {
    /// When each began.
    pub begun: Vec<Duration>,
    /// When the last claim was sent.
    pub renewed: Duration,
}

impl Terms {
    /// Somebody claims the Lease. A replica that has not renewed its claim in time leads no more, and when it claims the Lease again,
    /// it knows only the rows that the hub has then.
    pub fn claim(&mut self, is_other: bool, sent: Duration, now: Duration) {
        if is_other || sent >= self.renewed + RENEW_DEADLINE {
            self.begun.push(now);
        }
        self.renewed = sent;
    }

    /// When the term began in which something was sent.
    pub fn begun_before(&self, sent: Duration) -> Option<Duration> {
        self.begun.iter().rev().find(|begun| **begun <= sent).copied()
    }
}

/// The writes of one cluster's works that the hub has forbidden a replica since an edit or a return of the cluster.
#[derive(Clone, Debug)]
pub(super) struct Forbidden {
    pub by: Arc<str>,
    pub since: Duration,
    pub last: Duration,
}

/// Writes of works that the hub forbids, by UID of the upgrade and cluster.
pub(super) type AllForbidden = BTreeMap<(String, String), Forbidden>;

/// What the hub forbids.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals {
    pub creations: AllForbidden,
    /// Deletions of what another upgrade has left, for which the cluster waits.
    pub deletions: AllForbidden,
}

/// What has kept the controller from its work.
#[derive(Clone, Debug, Default)]
pub(super) struct Disturbances {
    /// Until when something may do so.
    pub until: Duration,
    /// When a request of a replica was neither carried out nor answered at once, so that others waited behind it.
    pub waits: Vec<Duration>,
    /// Until when the clock of a machine differed too much from the hub's for a deadline to fire: the largest time while it does.
    untrusted: BTreeMap<String, Duration>,
}

impl Disturbances {
    /// The clock of a machine is ahead by these seconds from now on.
    pub fn set_clock(&mut self, machine: &str, now: Duration, seconds: i64) {
        if seconds.unsigned_abs() > MAX_SKEW {
            self.untrusted.insert(machine.to_owned(), Duration::MAX);
        } else if let Some(until) = self.untrusted.get_mut(machine) {
            *until = now.min(*until);
        }
    }

    /// Until when no deadline fires because of the clock of a replica's machine.
    pub fn untrusted_until(&self, replica: &str) -> Duration {
        let machine = replica.rsplit_once('-').map_or(replica, |(machine, _)| machine);
        self.untrusted.get(machine).copied().unwrap_or_default()
    }
}

/// A row that the hub rejected although its cluster had left the step or the attempt of the row that the hub has.
#[derive(Clone, Debug)]
pub(super) struct Rejected {
    /// When it was sent.
    pub sent: Duration,
    /// The row that stays.
    pub kept: Row,
}

/// A platform work that came when the replica that had created it did not lead any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Straggler {
    pub sent: Duration,
    pub at: Duration,
    /// The version that it asks for.
    pub target: Version,
}

/// The version that a platform work of a cluster reported last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported {
    pub version: Version,
    /// Since when.
    pub since: Duration,
    /// That work is gone. Only whoever saw it before knows of the version.
    pub is_gone: bool,
}

/// A pre-action that the controller deleted before a row told of it.
#[derive(Clone, Debug)]
pub(super) struct Withdrawn {
    /// When.
    pub at: Duration,
    pub revision: String,
    pub retry: String,
    /// The start that it named.
    pub started: String,
}
