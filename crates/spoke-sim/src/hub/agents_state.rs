//! What the handle of the agents, their loop and the HTTP server share.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::clusters::Clusters;
use super::options::Clock;
use crate::fields::Time;

/// State that the handle, the loop and the HTTP server share.
pub(super) struct Shared {
    pub clusters: Locked,
    pub clock: Clock,
    /// Notified when the handle changed something.
    pub notify: Notify,
    pub stop: CancellationToken,
    pub listed: AtomicBool,
    pub listed_notify: Notify,
}

impl Shared {
    /// The wall-clock time.
    pub fn now(&self) -> Time {
        (self.clock.0)()
    }
}

/// The clusters behind a lock. Nobody awaits while holding it. A panic of a holder leaves it usable, because each cluster is
/// consistent between any two statements that matter.
pub(super) struct Locked(pub Mutex<Clusters>);

impl Locked {
    pub fn lock(&self) -> MutexGuard<'_, Clusters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
