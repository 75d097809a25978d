mod properties;

use super::*;
use crate::apply::Write;

fn start(cluster: &str) -> WriteJob {
    WriteJob {
        upgrade: std::sync::Arc::from("u1"),
        write: Write::MarkSoak {
            cluster: std::sync::Arc::from(cluster),
            step: api::names::Step::Platform,
            uid: std::sync::Arc::from("w1"),
            patch: serde_json::Value::Null,
        },
    }
}

async fn pops(queue: &WriteQueue) -> bool {
    tokio::time::timeout(Duration::from_secs(1), queue.pop(false))
        .await
        .is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_writer_goes_on_when_a_read_that_was_in_its_way_has_ended() {
    let queue = std::sync::Arc::new(WriteQueue::new(7));
    queue.set_writers(1);
    let (release, released) = tokio::sync::oneshot::channel::<()>();
    let reading = tokio::spawn({
        let queue = std::sync::Arc::clone(&queue);
        async move { queue.pass(async { Ok(released.await.is_ok()) }).await }
    });
    tokio::task::yield_now().await;
    queue.push([start("c1")]);
    let writer = tokio::spawn({
        let queue = std::sync::Arc::clone(&queue);
        async move { pops(&queue).await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    release.send(()).unwrap();
    assert!(reading.await.unwrap().unwrap());
    assert!(writer.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_read_gets_its_turn_among_writers_that_never_rest() {
    let queue = std::sync::Arc::new(WriteQueue::new(7));
    queue.set_writers(1);
    let busy = tokio::spawn({
        let queue = std::sync::Arc::clone(&queue);
        async move {
            loop {
                queue.push([start("c1")]);
                queue.pop(false).await;
                let begun = Instant::now();
                tokio::time::sleep(Duration::from_millis(30)).await;
                queue.ended(begun, Load::Served);
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let read = queue.pass(async { Ok::<_, Error>(()) });
    assert!(tokio::time::timeout(Duration::from_secs(5), read).await.is_ok());
    busy.abort();
}
