//! The end of the process: who asks for it, and how long the pipeline may take.
//!
//! Owns the signals and the pipeline's budget. Refuses order: what ends after what is said in `main`.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long the pipeline may take to stop before it is dropped where it stands.
pub const STOP_BUDGET: Duration = Duration::from_millis(1500);

/// A token that is cancelled by the first SIGTERM or SIGINT. Must be called within a tokio runtime.
///
/// # Errors
/// When the signals cannot be caught.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let shutdown = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let token = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
            _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
        }
        token.cancel();
    });
    Ok(shutdown)
}

/// Runs the pipeline to its end; after `shutdown` it has [`STOP_BUDGET`] to return, then it is dropped.
///
/// # Errors
/// Those of the pipeline.
pub async fn bounded(
    pipeline: impl Future<Output = anyhow::Result<()>>,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    let overdue = async {
        shutdown.cancelled().await;
        tokio::time::sleep(STOP_BUDGET).await;
    };
    tokio::select! {
        outcome = pipeline => outcome,
        () = overdue => {
            tracing::warn!("the pipeline did not stop in time; its writes in flight are dropped");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pipeline_that_does_not_stop_is_dropped_after_its_budget() {
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        let begun = Instant::now();
        bounded(std::future::pending(), &shutdown).await.unwrap();
        assert_eq!(begun.elapsed().as_millis(), STOP_BUDGET.as_millis());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pipeline_that_fails_ends_with_its_error_before_any_signal() {
        let failing = async { Err(anyhow::anyhow!("broken")) };
        let error = bounded(failing, &CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "broken");
    }
}
