//! Limits how long the main loop may take to stop. `main` defines the order in which everything else ends.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// How long the main loop may take to stop before it is dropped.
pub const STOP_BUDGET: Duration = Duration::from_millis(1500);

/// Runs the main loop to its end. After `shutdown` it has [`STOP_BUDGET`] to return, then it is dropped.
///
/// # Errors
/// Returns the error of the main loop.
pub async fn bounded(
    main_loop: impl Future<Output = anyhow::Result<()>>,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    let overdue = async {
        shutdown.cancelled().await;
        tokio::time::sleep(STOP_BUDGET).await;
    };
    tokio::select! {
        biased;
        // The loop comes first: one that has ended was not too slow.
        outcome = main_loop => outcome,
        () = overdue => {
            tracing::warn!("the main loop did not stop in time; its running writes are dropped");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_main_loop_that_does_not_stop_is_dropped_after_its_budget() {
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        let begun = Instant::now();
        bounded(std::future::pending(), &shutdown).await.unwrap();
        assert_eq!(begun.elapsed().as_millis(), STOP_BUDGET.as_millis());
    }

    #[tokio::test(start_paused = true)]
    async fn a_main_loop_that_fails_ends_with_its_error_before_any_signal() {
        let failing = async { Err(anyhow::anyhow!("broken")) };
        let error = bounded(failing, &CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "broken");
    }
}
