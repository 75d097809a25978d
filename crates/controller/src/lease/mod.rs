//! Leader election with a `coordination.k8s.io/v1` Lease: at most one replica writes.
//!
//! [`decide`] is the pure part of the election and `elector` its I/O. Callers ask the [`Fence`] before every
//! write and stop when the [`Term`] ends. Every write of the Lease is a replace guarded by `resourceVersion`;
//! clocks of other machines are never compared with ours.
//!
//! Deleting the Lease by hand does not make a second replica leader sooner: a candidate that has seen a claim
//! waits for its end.

pub mod decide;
mod elector;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::published::{Published, Subscription};
use crate::sources::Sources;

pub use decide::{BadTiming, Timing};

/// The Lease to contend for, and the identity of this replica.
#[derive(Clone, Debug)]
pub struct Config {
    /// Namespace of the Lease; must exist.
    pub namespace: String,
    /// Name of the Lease; created if absent.
    pub name: String,
    /// Identity written as `holderIdentity`; unique to this process, see [`identity`].
    pub identity: String,
    /// The times of the election.
    pub timing: Timing,
}

/// Whether this replica leads.
#[derive(Clone, Debug)]
pub enum Leadership {
    /// It leads, in this term.
    Leader(Term),
    /// It does not lead.
    Follower {
        /// The leader, as last seen.
        holder: Option<String>,
    },
}

impl Leadership {
    /// The term, if this replica leads.
    #[must_use]
    pub fn term(&self) -> Option<&Term> {
        match self {
            Leadership::Leader(term) => Some(term),
            Leadership::Follower { .. } => None,
        }
    }
}

/// An uninterrupted time during which this replica leads.
#[derive(Clone, Debug)]
pub struct Term {
    /// When it began, on this process's clock.
    pub since: Instant,
    ended: CancellationToken,
}

impl Term {
    /// A token that is cancelled when the lease is lost or released. Running writes stop on it.
    #[must_use]
    pub fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }
}

/// Says whether this replica may write now. Cheap to clone and to ask: one atomic load and one clock reading.
///
/// Every call compares the end of our claim with the clock. So a process that was paused past that end knows
/// that it may not write before any of its tasks has run.
#[derive(Clone, Debug)]
pub struct Fence {
    shared: Arc<FenceState>,
}

#[derive(Debug)]
struct FenceState {
    epoch: Instant,
    /// Nanoseconds after `epoch`; 0 means never, `u64::MAX` always.
    valid_until: AtomicU64,
}

impl Fence {
    fn closed() -> Self {
        Self {
            shared: Arc::new(FenceState {
                epoch: Instant::now(),
                valid_until: AtomicU64::new(0),
            }),
        }
    }

    /// True while this replica holds the lease.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        match self.shared.valid_until.load(Ordering::Acquire) {
            0 => false,
            u64::MAX => true,
            nanos => self.shared.epoch.elapsed() < Duration::from_nanos(nanos),
        }
    }

    /// When the current claim ends unless it is renewed. `None` if there is no claim or it never ends.
    #[must_use]
    pub fn valid_until(&self) -> Option<Instant> {
        match self.shared.valid_until.load(Ordering::Acquire) {
            0 | u64::MAX => None,
            nanos => Some(self.shared.epoch + Duration::from_nanos(nanos)),
        }
    }

    fn set(&self, until: Option<Instant>) {
        let nanos = until.map_or(0, |until| {
            let span = until.saturating_duration_since(self.shared.epoch);
            u64::try_from(span.as_nanos())
                .unwrap_or(u64::MAX - 1)
                .clamp(1, u64::MAX - 1)
        });
        self.shared.valid_until.store(nanos, Ordering::Release);
    }
}

/// A replica's handle to the election. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    leadership: Subscription<Leadership>,
    fence: Fence,
}

impl Handle {
    /// The handle of a replica that leads without an election (`--leader-elect=false`).
    #[must_use]
    pub fn always() -> Self {
        let fence = Fence::closed();
        fence.shared.valid_until.store(u64::MAX, Ordering::Release);
        let term = Term {
            since: Instant::now(),
            ended: CancellationToken::new(),
        };
        let leadership = Published::new(Leadership::Leader(term)).subscribe();
        Self { leadership, fence }
    }

    /// The fence, which must be asked before every write.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Shorthand for [`Fence::is_leader`].
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.fence.is_leader()
    }

    /// A subscription that wakes when the role or the holder changes, but not at renewals. After the end of the
    /// election, or without one, `changed()` returns an error; the last value remains readable.
    #[must_use]
    pub fn subscribe(&self) -> Subscription<Leadership> {
        self.leadership.clone()
    }

    /// Waits until this replica leads and returns the term. Never returns after the end of the election.
    pub async fn lead(&self) -> Term {
        let mut leadership = self.subscribe();
        loop {
            let term = leadership.see().term().cloned();
            match term {
                Some(term) if !term.ended.is_cancelled() => return term,
                _ => {}
            }
            if leadership.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Contends for the Lease until `shutdown`, then releases it. Must be called within a tokio runtime.
///
/// The returned task ends when the lease is released, at most [`RELEASE_BUDGET`] after `shutdown`. Stop
/// writing before you cancel `shutdown`. When the lease is lost, the term ends and the replica contends
/// again.
#[must_use]
pub fn run(
    client: kube::Client,
    config: Config,
    sources: &Sources,
    shutdown: CancellationToken,
) -> (Handle, JoinHandle<()>) {
    let fence = Fence::closed();
    let published = Published::new(Leadership::Follower { holder: None });
    let leadership = published.subscribe();
    let elector = elector::Elector::new(client, config, published, fence.clone(), sources.clone());
    let task = tokio::spawn(elector.run(shutdown));
    (Handle { leadership, fence }, task)
}

/// How long the release may take before the process exits without it.
pub const RELEASE_BUDGET: Duration = Duration::from_secs(2);

/// An identity for this process: the name of the pod (or host) and 64 random bits, so that a restarted pod is
/// not mistaken for its predecessor.
#[must_use]
pub fn identity(sources: &Sources) -> String {
    let host = ["POD_NAME", "HOSTNAME"]
        .iter()
        .find_map(|key| std::env::var(key).ok().filter(|name| !name.is_empty()))
        .or_else(|| {
            std::fs::read_to_string("/proc/sys/kernel/hostname")
                .ok()
                .map(|name| name.trim().to_owned())
        })
        .unwrap_or_else(|| "mcu-controller".to_owned());
    let host: String = host.chars().take(63).collect();
    format!("{host}_{:016x}", sources.random())
}

#[cfg(test)]
mod tests;
