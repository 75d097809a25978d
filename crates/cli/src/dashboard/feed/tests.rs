use futures::stream;

use super::*;

/// A watch that fails once, and of which nothing is heard any more.
async fn trouble_after(changes: u64, silence: Duration) -> String {
    let failure = stream::iter([Err(watcher::Error::NoResourceVersion)]);
    let events = failure.chain(stream::pending::<watcher::Result<watcher::Event<()>>>());
    let watched: Watched<()> = follow(events, |(), _| (), silence);
    let mut told = watched.changes();
    told.wait_for(|number| *number == changes).await.unwrap();
    watched.trouble()
}

#[tokio::test]
async fn a_watch_that_fails_no_more_is_no_trouble_although_nothing_changes() {
    assert_ne!(trouble_after(1, Duration::from_hours(1)).await, "");
    assert_eq!(trouble_after(2, Duration::from_millis(20)).await, "");
}
