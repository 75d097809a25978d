//! Snapshots that replace each other under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use telemetry::server::Limits;
use update_graph::{Arch, Builder, GraphData, release_list};
use update_service::serve::etag;
use update_service::snapshot::{Press, Snapshot};

use crate::data;
use crate::running::Running;

fn graph(count: usize) -> update_graph::Graph {
    let versions: Vec<String> = (0..count).map(|patch| format!("4.1.{patch}")).collect();
    let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
    let list = release_list::parse(data::list(&versions).as_bytes(), &Arch::amd64()).unwrap();
    let channel = format!("name: stable-4.1\nversions: [{}]\n", versions.join(", "));
    let files = [
        ("version".to_owned(), b"1.1.0\n".to_vec()),
        ("channels/stable-4.1.yaml".to_owned(), channel.into_bytes()),
    ];
    let (data, _) = GraphData::from_files(files, 1).unwrap();
    Builder::new().list(list).graph_data(data.into()).build().0
}

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
                        valid.contains(&etag::of(&data::gunzip(bytes))),
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
