//! Decides what a candidate does next about the Lease. A pure state machine.
//!
//! The rules are those of client-go's leader election. The claim of another holder ends one lease duration
//! after *we* saw its record change, measured by our own monotonic clock. Our own claim ends one renew
//! deadline after we *sent* the last successful renewal. The difference between the two is the margin for
//! clock drift and running writes.
//!
//! No clocks, I/O or randomness: the time is passed in, and jitter comes from a seed. Wall clock times are
//! only written into the record for people to read, and never compared.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// The times of the election. Invariant: `retry_period < renew_deadline < lease_duration` and
/// `renew_interval < renew_deadline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a claim excludes others after its last renewal. Written in whole seconds.
    pub lease_duration: Duration,
    /// How long a leader continues without a successful renewal before it gives up.
    pub renew_deadline: Duration,
    /// Pause between attempts after a failure, and between reads of a candidate that has no watch.
    pub retry_period: Duration,
    /// Pause between a successful renewal and the next.
    pub renew_interval: Duration,
}

/// The given times contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadTiming(pub String);

impl Timing {
    /// Checks the invariant; the renew interval is a third of the lease duration, at most half the renew deadline.
    ///
    /// # Errors
    /// [`BadTiming`] when the durations are not in the order `retry < deadline < duration`, or the lease duration is
    /// not a whole number of seconds.
    pub fn new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, BadTiming> {
        if lease_duration.subsec_nanos() != 0 || lease_duration < Duration::from_secs(2) {
            return Err(BadTiming(format!(
                "lease duration must be whole seconds, at least 2s, not {lease_duration:?}"
            )));
        }
        if renew_deadline >= lease_duration {
            return Err(BadTiming(format!(
                "renew deadline {renew_deadline:?} must be shorter than the lease duration {lease_duration:?}"
            )));
        }
        if retry_period.is_zero() || retry_period.mul_f64(MAX_JITTER) >= renew_deadline {
            return Err(BadTiming(format!(
                "retry period {retry_period:?} with its jitter must be shorter than the renew deadline {renew_deadline:?}"
            )));
        }
        Ok(Self {
            lease_duration,
            renew_deadline,
            retry_period,
            renew_interval: (lease_duration / 3).min(renew_deadline / 2),
        })
    }

    /// The usual proportions for a lease duration: the deadline is two thirds, the retry period two
    /// fifteenths (for example 15 s, 10 s, 2 s).
    ///
    /// # Errors
    /// [`BadTiming`] as in [`Timing::new`].
    pub fn of(lease_duration: Duration) -> Result<Self, BadTiming> {
        Self::new(lease_duration, lease_duration * 2 / 3, lease_duration * 2 / 15)
    }
}

/// Retries wait between one and this many retry periods.
const MAX_JITTER: f64 = 1.2;
/// The least time between two renewals as a record tells it, which is the unit of its times.
const RENEWAL_STEP: Duration = Duration::from_micros(1);

/// The content of the Lease without its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Identity of the holder; empty when nobody holds the lease.
    pub holder: String,
    /// How long the holder's claim lasts after each renewal, in whole seconds; zero if the record does not
    /// contain it.
    pub duration: Duration,
    /// Wall clock of the holder when it acquired the lease. For people.
    pub acquire_time: Option<Timestamp>,
    /// Wall clock of the holder at its last renewal. For people, and to make each renewal differ from the last.
    pub renew_time: Option<Timestamp>,
    /// How often the holder has changed.
    pub transitions: i32,
}

/// A record as it was read from the server or returned by a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedLease {
    /// The record.
    pub record: LeaseRecord,
    /// `metadata.resourceVersion`, which guards the next replace.
    pub version: String,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Read the Lease and call [`Candidate::observed`].
    Read,
    /// Create the Lease and call [`Candidate::wrote`] or [`Candidate::failed`].
    Create(LeaseRecord),
    /// Replace the Lease if it still has `version`, and call [`Candidate::wrote`] or [`Candidate::failed`].
    Replace {
        /// The new record.
        record: LeaseRecord,
        /// The `resourceVersion` that must still be current.
        version: String,
    },
    /// Do nothing before this instant, unless a watch reports a change.
    Wait(Instant),
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseFailure {
    /// Someone else wrote first, or our last write succeeded without our knowing.
    Conflict,
    /// The request failed, or its result is unknown.
    Unknown,
}

#[derive(Clone, Debug)]
enum LeaseView {
    /// The Lease was never read.
    Unknown,
    /// There is no Lease. A claim that was seen before lasts to its end even if someone deletes the object.
    Absent { claimed_until: Option<Instant> },
    /// The Lease as last seen, and when its record last changed on our clock.
    Present {
        seen: ObservedLease,
        changed_at: Instant,
    },
}

#[derive(Clone, Copy, Debug)]
struct Held {
    since: Instant,
    until: Instant,
}

/// One replica's view of the election.
#[derive(Debug)]
pub struct Candidate {
    identity: String,
    timing: Timing,
    view: LeaseView,
    held: Option<Held>,
    /// The renewal time of the last record that we have sent.
    renewed: Option<Timestamp>,
    /// The view is the latest one, so a guarded write may succeed.
    fresh: bool,
    /// A watch reports every change of the Lease, so polling is not needed.
    watching: bool,
    /// No request before this instant.
    wake: Option<Instant>,
    jitter: u64,
}

impl Candidate {
    /// A candidate that has not read the Lease yet. `identity` must be unique to this process; `seed` spreads
    /// the retries of several candidates.
    #[must_use]
    pub fn new(identity: String, timing: Timing, seed: u64) -> Self {
        Self {
            identity,
            timing,
            view: LeaseView::Unknown,
            held: None,
            renewed: None,
            fresh: false,
            watching: false,
            wake: None,
            jitter: seed,
        }
    }

    /// Decides what to do at `now`. `wall` is the time that is written into the record. Ends our own claim
    /// when its time has passed.
    pub fn next(&mut self, now: Instant, wall: Timestamp) -> Next {
        if self.held.is_some_and(|held| now >= held.until) {
            self.held = None;
            self.fresh = false;
        }
        if self.held.is_some() {
            self.next_as_leader(now, wall)
        } else {
            self.next_as_follower(now, wall)
        }
    }

    fn next_as_leader(&mut self, now: Instant, wall: Timestamp) -> Next {
        if let Some(wake) = self.wake.filter(|wake| now < *wake) {
            let until = self.held.map_or(wake, |held| held.until.min(wake));
            return Next::Wait(until);
        }
        if self.fresh { self.claim(wall) } else { Next::Read }
    }

    fn next_as_follower(&mut self, now: Instant, wall: Timestamp) -> Next {
        let claimed_until = self.claimed_until();
        if self.fresh {
            if claimed_until.is_none_or(|until| now >= until) {
                return self.claim(wall);
            }
            self.fresh = false;
            let poll = now + self.pause();
            self.wake = if self.watching { None } else { Some(poll) };
        }
        if matches!(self.view, LeaseView::Unknown) && self.wake.is_none() {
            return Next::Read;
        }
        let end = claimed_until.filter(|until| now < *until);
        let wake = match (self.wake, end) {
            (Some(wake), Some(end)) => Some(wake.min(end)),
            (wake, None) => wake,
            (None, end) => end,
        };
        match wake {
            Some(wake) if now < wake => Next::Wait(wake),
            _ => Next::Read,
        }
    }

    /// Until when someone else's claim excludes us, on our clock. `None` if no claim does.
    fn claimed_until(&self) -> Option<Instant> {
        match &self.view {
            LeaseView::Unknown => None,
            LeaseView::Absent { claimed_until } => *claimed_until,
            LeaseView::Present { seen, changed_at } => {
                let record = &seen.record;
                if record.holder.is_empty() || record.holder == self.identity {
                    return None;
                }
                let duration = if record.duration.is_zero() {
                    self.timing.lease_duration
                } else {
                    record.duration
                };
                Some(*changed_at + duration)
            }
        }
    }

    /// The write that acquires or renews the lease, based on the last view.
    fn claim(&mut self, wall: Timestamp) -> Next {
        let mut record = LeaseRecord {
            holder: self.identity.clone(),
            duration: self.timing.lease_duration,
            acquire_time: Some(wall),
            renew_time: Some(wall),
            transitions: 0,
        };
        let seen = match &self.view {
            LeaseView::Unknown => return Next::Read,
            LeaseView::Absent { .. } => None,
            LeaseView::Present { seen, .. } => Some(seen),
        };
        // Others recognize a renewal by its record. One that they know must not be repeated, neither by a clock that was set
        // back nor after the storage of the hub went back, which shows an earlier record of ours again.
        let own = seen.filter(|seen| seen.record.holder == self.identity);
        let last = own.and_then(|own| own.record.renew_time).max(self.renewed);
        record.renew_time = last.map(|last| last + RENEWAL_STEP).max(Some(wall));
        self.renewed = record.renew_time;
        let Some(seen) = seen else {
            return Next::Create(record);
        };
        if seen.record.holder == self.identity {
            record.acquire_time = seen.record.acquire_time.or(Some(wall));
            record.transitions = seen.record.transitions;
        } else {
            record.transitions = seen.record.transitions.saturating_add(1);
        }
        Next::Replace {
            record,
            version: seen.version.clone(),
        }
    }

    /// The Lease was read, or a watch reported it, at `now`; `None` means it does not exist.
    pub fn observed(&mut self, now: Instant, seen: Option<ObservedLease>) {
        self.fresh = true;
        self.wake = None;
        let Some(seen) = seen else {
            let claimed_until = self.claimed_until();
            self.view = LeaseView::Absent { claimed_until };
            return;
        };
        if seen.record.holder != self.identity {
            self.held = None;
        }
        let changed_at = match &self.view {
            LeaseView::Present {
                seen: old,
                changed_at,
            } if old.record == seen.record => *changed_at,
            _ => now,
        };
        self.view = LeaseView::Present { seen, changed_at };
    }

    /// A create or replace that was sent at `sent_at` succeeded; `seen` is its response, received at `now`.
    pub fn wrote(&mut self, sent_at: Instant, now: Instant, seen: ObservedLease) {
        let since = self.held.map_or(sent_at, |held| held.since);
        self.view = LeaseView::Present {
            seen,
            changed_at: now,
        };
        self.held = Some(Held {
            since,
            until: sent_at + self.timing.renew_deadline,
        });
        self.wake = Some(sent_at + self.timing.renew_interval);
        self.fresh = true;
    }

    /// A request sent at `sent_at` failed. The next request follows one retry period after that time, so at
    /// once if the failure took longer. After a conflict a leader reads the Lease soon, because its own write
    /// may have caused the conflict if the response was lost.
    pub fn failed(&mut self, sent_at: Instant, failure: LeaseFailure) {
        self.fresh = false;
        let pause = self.pause();
        let soon = failure == LeaseFailure::Conflict && self.held.is_some();
        self.wake = Some(sent_at + if soon { pause / 10 } else { pause });
    }

    /// A watch now reports changes, or no longer does. Without a watch the candidate reads the Lease one
    /// retry period after `now`.
    pub fn set_watching(&mut self, watching: bool, now: Instant) {
        self.watching = watching;
        let poll = now + self.pause();
        self.wake = if watching { None } else { Some(poll) };
    }

    /// The write that releases the lease if it is ours in the last view. As in client-go, the record has no
    /// holder and lasts one second.
    #[must_use]
    pub fn release(&self, wall: Timestamp) -> Option<(LeaseRecord, String)> {
        let LeaseView::Present { seen, .. } = &self.view else {
            return None;
        };
        (seen.record.holder == self.identity).then(|| {
            let record = LeaseRecord {
                holder: String::new(),
                duration: Duration::from_secs(1),
                acquire_time: Some(wall),
                renew_time: Some(wall),
                transitions: seen.record.transitions,
            };
            (record, seen.version.clone())
        })
    }

    /// Our claim at `now`: since when and until when. `None` if we have none.
    #[must_use]
    pub fn held(&self, now: Instant) -> Option<(Instant, Instant)> {
        self.held
            .filter(|held| now < held.until)
            .map(|held| (held.since, held.until))
    }

    /// Gives up the claim without a write, before the lease is released.
    pub fn step_down(&mut self) {
        self.held = None;
    }

    /// The holder in the last view. `None` if nobody holds the lease or it was never read.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        match &self.view {
            LeaseView::Present { seen, .. } => {
                Some(seen.record.holder.as_str()).filter(|holder| !holder.is_empty())
            }
            LeaseView::Unknown | LeaseView::Absent { .. } => None,
        }
    }

    /// The last known `resourceVersion`, from which a watch can start.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        match &self.view {
            LeaseView::Present { seen, .. } => Some(seen.version.as_str()),
            LeaseView::Unknown | LeaseView::Absent { .. } => None,
        }
    }

    /// A retry period with jitter, by splitmix64 of the seed.
    fn pause(&mut self) -> Duration {
        self.jitter = self.jitter.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.jitter;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let share = u32::try_from((mixed ^ (mixed >> 31)) >> 40).unwrap_or(0);
        let unit = f64::from(share) / f64::from(1_u32 << 24);
        self.timing.retry_period.mul_f64(1.0 + (MAX_JITTER - 1.0) * unit)
    }
}

#[cfg(test)]
mod tests;
