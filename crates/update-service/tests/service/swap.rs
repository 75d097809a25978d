//! Snapshots that replace each other under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use telemetry::server::Limits;
use update_graph::Arch;
use update_service::serve::etag;
use update_service::snapshot::{Press, Snapshot};

use crate::data::{graph, gunzip};
use crate::running::Running;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_under_a_storm_of_swaps_is_whole_and_of_one_snapshot() {
    let running = Arc::new(Running::serve(Limits::default()));
    let press = Arc::new(Press::new(Arc::clone(running.state.metrics())));
    let sizes = [5, 40, 80];
    let valid: Vec<_> = sizes
        .iter()
        .map(|size| etag::of(&graph(*size).body("stable-4.1", &Arch::amd64())))
        .collect();
    let snapshot = |number: usize| Arc::new(Snapshot::new(graph(sizes[number % 3]), Arc::clone(&press)));
    running.state.publish(snapshot(0));
    let done = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let (running, done, valid) = (Arc::clone(&running), Arc::clone(&done), valid.clone());
            tokio::spawn(async move {
                let client = reqwest::Client::new();
                let url = running.url("/api/upgrades_info/v1/graph?channel=stable-4.1");
                let mut answers = 0;
                while !done.load(Ordering::Relaxed) || answers < 10 {
                    let encoding = if number % 2 == 0 { "gzip" } else { "identity" };
                    let answer = client
                        .get(&url)
                        .header("accept-encoding", encoding)
                        .send()
                        .await
                        .unwrap();
                    assert_eq!(answer.status(), 200);
                    let tag = answer.headers()["etag"].clone();
                    let bytes = answer.bytes().await.unwrap().to_vec();
                    assert_eq!(etag::of(&bytes), tag);
                    assert!(
                        valid.contains(&etag::of(&gunzip(bytes))),
                        "no snapshot has this body"
                    );
                    answers += 1;
                }
                answers
            })
        })
        .collect();
    for number in 1..60 {
        let next = snapshot(number);
        if let Some(last) = running.state.snapshot() {
            next.warm(&last).await;
        }
        running.state.publish(next);
        tokio::task::yield_now().await;
    }
    done.store(true, Ordering::Relaxed);
    for client in clients {
        assert!(client.await.unwrap() >= 10);
    }
}
