mod overload;
mod whole;

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// A writer that has ended, and a loop that requests shutdown while it is polled.
async fn supervised(requests_shutdown: bool) -> anyhow::Result<()> {
    let shutdown = CancellationToken::new();
    let mut writers = JoinSet::new();
    writers.spawn(async {});
    tokio::task::yield_now().await;
    let looping = async {
        if requests_shutdown {
            shutdown.cancel();
        }
        std::future::pending::<()>().await;
    };
    supervise(&shutdown, looping, JoinSet::new(), writers).await
}

#[tokio::test]
async fn a_writer_that_ends_because_of_a_shutdown_is_no_failure_whoever_is_seen_first() {
    supervised(true).await.unwrap();
    let error = supervised(false).await.unwrap_err();
    assert_eq!(error.to_string(), "a writer ended");
}
fn tasks(task: impl Future<Output = ()> + Send + 'static) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(task);
    tasks
}

fn panics() -> impl Future<Output = ()> + Send + 'static {
    std::future::poll_fn(|_| panic!("it broke"))
}

#[tokio::test]
async fn a_watch_or_writer_that_panics_ends_the_process_with_an_error() {
    for (watches, writers, who) in [
        (tasks(panics()), tasks(pending()), "watch"),
        (tasks(pending()), tasks(panics()), "writer"),
    ] {
        let shutdown = CancellationToken::new();
        let error = supervise(&shutdown, pending(), watches, writers)
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), format!("a {who} ended"));
        assert!(shutdown.is_cancelled(), "the other writers are notified");
    }
}

#[tokio::test]
async fn at_shutdown_the_writers_finish_what_they_have_begun() {
    let shutdown = CancellationToken::new();
    let finished = Arc::new(AtomicBool::new(false));
    let (stop, done) = (shutdown.clone(), Arc::clone(&finished));
    let writer = async move {
        stop.cancelled().await;
        tokio::task::yield_now().await;
        done.store(true, Ordering::SeqCst);
    };
    shutdown.cancel();
    let outcome = supervise(&shutdown, pending(), tasks(pending()), tasks(writer)).await;
    assert!(outcome.is_ok() && finished.load(Ordering::SeqCst));
}
