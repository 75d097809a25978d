//! Crashes, faults and two replicas: controllers that reach a real hub through a proxy which breaks the way on purpose.
//!
//! All tests but the one that restarts the API server share a hub without a controller; each starts its own, which
//! carries out only the upgrades of its namespace.

mod faults;
mod kills;
mod leaders;
mod outage;

use std::sync::Arc;

use anyhow::Result;
use e2e::{TestHub, WorldOptions};
use tokio::sync::OnceCell;

/// The hub of this binary.
async fn test_hub() -> Result<Arc<TestHub>> {
    static WORLD: OnceCell<Arc<TestHub>> = OnceCell::const_new();
    let test_hub = WORLD
        .get_or_try_init(|| TestHub::start(WorldOptions::default()))
        .await?;
    Ok(Arc::clone(test_hub))
}
