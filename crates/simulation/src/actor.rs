//! Who sent the request that changes the hub, and when. The hub's log says only what changed.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// What kind of client sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A replica of the controller.
    Controller,
    /// The agents of the clusters.
    Agents,
    /// People and the hub's other controllers.
    People,
}

/// The sender of a request.
#[derive(Clone, Debug)]
pub struct Sender {
    /// What it is.
    pub role: Role,
    /// Its name. That of a replica is unique to its start, and the identity in its Lease.
    pub identity: Arc<str>,
    /// When it sent the request, since the begin of the run.
    pub at: Duration,
}

tokio::task_local! {
    static SENDER: Sender;
}

/// Runs `work`; what it changes on the hub was sent by `sender`.
pub async fn sent_by<T>(sender: Sender, work: impl Future<Output = T>) -> T {
    SENDER.scope(sender, work).await
}

/// Who sent the request that is being carried out; `None` for what the hub does by itself.
#[must_use]
pub fn sender() -> Option<Sender> {
    SENDER.try_with(Clone::clone).ok()
}
