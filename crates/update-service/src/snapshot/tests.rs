use std::collections::HashSet;

use super::*;
use crate::fixture;

const BOTH: [Encoding; 2] = [Encoding::Identity, Encoding::Gzip];

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    crate::source::fetch::gunzip(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn a_body_is_made_once_and_shared_by_all_who_wait_for_it() {
    let snapshot = fixture::snapshot(fixture::graph());
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let snapshot = Arc::clone(&snapshot);
            tokio::spawn(async move {
                snapshot
                    .body("stable-4.1", "amd64", Encoding::Gzip)
                    .await
                    .unwrap()
            })
        })
        .collect();
    let mut places = HashSet::new();
    for asked in asking {
        places.insert(asked.await.unwrap().bytes.as_ptr());
    }
    assert_eq!(places.len(), 1);
    let text = snapshot.press.metrics.classic().unwrap();
    assert!(text.contains("update_service_body_seconds_count 1\n"), "{text}");
}

#[tokio::test]
async fn both_encodings_say_the_same_under_tags_of_their_own() {
    let snapshot = fixture::snapshot(fixture::graph());
    let identity = snapshot
        .body("stable-4.1", "amd64", Encoding::Identity)
        .await
        .unwrap();
    let gzip = snapshot
        .body("stable-4.1", "amd64", Encoding::Gzip)
        .await
        .unwrap();
    assert_eq!(unpacked(&gzip.bytes), identity.bytes);
    assert_ne!(gzip.etag, identity.etag);
    assert_eq!(identity.etag, etag::of(&identity.bytes));
    let expected = snapshot.graph().body("stable-4.1", &Arch::amd64());
    assert_eq!(identity.bytes, expected);
}

#[tokio::test]
async fn equal_graphs_have_equal_bytes_and_tags_and_share_them() {
    let press = Arc::new(Press::new(Arc::new(Metrics::new())));
    let first = Snapshot::new(fixture::graph(), Arc::clone(&press));
    let second = Snapshot::new(fixture::graph(), press);
    let elsewhere = fixture::snapshot(fixture::graph());
    for encoding in BOTH {
        let a = first.body("fast-4.1", "amd64", encoding).await.unwrap();
        let b = second.body("fast-4.1", "amd64", encoding).await.unwrap();
        let c = elsewhere.body("fast-4.1", "amd64", encoding).await.unwrap();
        assert_eq!(a.bytes.as_ptr(), b.bytes.as_ptr());
        assert_eq!((&a.bytes, &a.etag), (&c.bytes, &c.etag));
    }
}

#[tokio::test]
async fn what_nobody_knows_has_one_body_whatever_is_asked() {
    let snapshot = fixture::snapshot(fixture::graph());
    let mut places = HashSet::new();
    for number in 0..1000 {
        let channel = format!("stable-9.{number}");
        for (channel, arch) in [
            (channel.as_str(), "amd64"),
            ("stable-4.1", "sparc"),
            ("stable-4.1", ""),
        ] {
            let variant = snapshot.body(channel, arch, Encoding::Identity).await.unwrap();
            places.insert(variant.bytes.as_ptr());
        }
    }
    assert_eq!(places.len(), 1);
    assert_eq!(snapshot.press.known.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn what_was_asked_for_is_made_for_the_next_snapshot_beforehand() {
    let press = Arc::new(Press::new(Arc::new(Metrics::new())));
    let last = Snapshot::new(fixture::graph(), Arc::clone(&press));
    last.body("stable-4.1", "amd64", Encoding::Gzip).await.unwrap();
    let next = Snapshot::new(fixture::graph_of(&["4.1.0", "4.1.1"]), press);
    next.warm(&last).await;
    let ready = |channel: &str| next.cell(channel, "amd64").unwrap().body.get().is_some();
    assert!(ready("stable-4.1") && !ready("fast-4.1"));
}

#[tokio::test]
async fn bodies_that_nobody_holds_are_forgotten() {
    let press = Arc::new(Press::new(Arc::new(Metrics::new())));
    for number in 1..20 {
        let versions: Vec<String> = (0..number).map(|patch| format!("4.1.{patch}")).collect();
        let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
        let snapshot = Snapshot::new(fixture::graph_of(&versions), Arc::clone(&press));
        snapshot
            .body("stable-4.1", "amd64", Encoding::Identity)
            .await
            .unwrap();
    }
    assert!(press.known.lock().unwrap().len() <= 2);
}

#[tokio::test]
async fn a_slim_body_holds_what_a_version_can_reach() {
    let snapshot = fixture::snapshot(fixture::graph());
    let slim = |version: &'static str| {
        let snapshot = &snapshot;
        async move {
            let version = version.parse().unwrap();
            let variant = snapshot
                .slim("stable-4.1", "amd64", &version, Encoding::Identity)
                .await
                .unwrap();
            let body: serde_json::Value = serde_json::from_slice(&variant.bytes).unwrap();
            let nodes = body["nodes"].as_array().unwrap().iter();
            nodes
                .map(|node| node["version"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        }
    };
    assert_eq!(slim("4.1.0").await, ["4.1.0", "4.1.2"]);
    assert_eq!(slim("4.1.2").await, ["4.1.2"]);
    assert!(slim("4.9.9").await.is_empty());
}

#[tokio::test]
async fn the_whole_graph_has_versions_with_their_architecture() {
    let snapshot = fixture::snapshot(fixture::graph());
    let whole = snapshot.whole(Encoding::Identity).await.unwrap();
    let text = String::from_utf8(whole.bytes.to_vec()).unwrap();
    assert!(text.contains("4.1.2+amd64"), "{text}");
}
