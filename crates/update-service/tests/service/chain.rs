//! Services in a row.

use std::sync::atomic::{AtomicUsize, Ordering};

use repository::data::ServedGraph;
use update_service::config::ReleaseSource;
use update_service::source::location::Location;

use crate::data::{self, DataSet};
use crate::running::{Running, sources, until};

fn graphs(urls: &[String]) -> update_service::config::Sources {
    let locations = urls.iter().map(|url| url.parse().unwrap()).collect();
    sources(ReleaseSource::Graphs(locations), None)
}

async fn first(set: &DataSet) -> Running {
    let mut sources = sources(
        ReleaseSource::Lists(set.lists()),
        Some(Location::Path(set.graph_data.clone())),
    );
    sources.refresh = std::time::Duration::from_hours(1);
    let running = Running::start(&sources);
    running.ready().await;
    running
}

#[tokio::test]
async fn a_service_fed_from_another_serves_the_same_graphs() {
    for set in data::sets() {
        the_third_serves_what_the_first_serves(&set).await;
    }
}

async fn the_third_serves_what_the_first_serves(set: &DataSet) {
    let one = first(set).await;
    let two = Running::start(&graphs(&[one.url("/v1/whole-graph")]));
    two.ready().await;
    let three = Running::start(&graphs(&[two.url("/api/upgrades_info/v1/whole-graph")]));
    three.ready().await;
    let snapshot = one.state.snapshot().unwrap();
    let channels: Vec<String> = snapshot.graph().channels().map(str::to_owned).collect();
    assert_eq!(channels.len(), set.channels);
    let compared = AtomicUsize::new(0);
    for channel in &channels {
        let path = format!("/api/upgrades_info/v1/graph?channel={channel}");
        let body = one.get(&path).await.1;
        assert!(two.get(&path).await.1 == body, "{channel}");
        assert!(three.get(&path).await.1 == body, "{channel}");
        compared.fetch_add(1, Ordering::Relaxed);
    }
    assert_eq!(compared.into_inner(), set.channels);
}

#[tokio::test]
async fn a_channel_that_is_mistyped_is_named_where_readiness_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let versions = ["4.1.0", "4.1.1"];
    std::fs::write(directory.path().join("list"), data::list(&versions)).unwrap();
    data::graph_data(&directory.path().join("data"), &versions, &[]);
    let one = Running::start(&sources(
        ReleaseSource::Lists(vec![directory.path().join("list")]),
        Some(Location::Path(directory.path().join("data"))),
    ));
    one.ready().await;
    let two = Running::start(&graphs(&[
        one.url("/api/upgrades_info/v1/graph?channel=stabel-4.1")
    ]));
    until("it says why it is not ready", async || {
        let (status, body) = two.get("/readyz").await;
        let body = String::from_utf8(body).unwrap();
        status == 503 && body.contains("channel=stabel-4.1") && body.contains("check channel and arch")
    })
    .await;
}

#[tokio::test]
async fn a_service_fed_from_a_filtered_graph_serves_the_same_channel() {
    for set in data::sets() {
        let one = first(&set).await;
        for channel in set.filtered {
            let path = format!("/api/upgrades_info/v1/graph?channel={channel}&arch=amd64");
            let two = Running::start(&graphs(&[one.url(&path)]));
            two.ready().await;
            assert!(two.get(&path).await.1 == one.get(&path).await.1, "{channel}");
            assert_eq!(two.metric("cincinnati_pe_http_upstream_errors_total"), 0.0);
        }
    }
}

#[tokio::test]
async fn a_service_whose_upstream_is_gone_serves_on_and_catches_up() {
    for set in data::sets() {
        it_serves_on_and_catches_up(&set).await;
    }
}

async fn served(running: &Running, channel: &str) -> ServedGraph {
    let body = running.graph(channel).await.to_string();
    ServedGraph::read(body.as_bytes()).unwrap()
}

async fn it_serves_on_and_catches_up(set: &DataSet) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("graph.json");
    let [before, after] = set.captured;
    std::fs::write(&file, &set.expected[before]).unwrap();
    let running = Running::start(&graphs(&[file.display().to_string()]));
    running.ready().await;
    let expected = set.graph(before);
    assert_eq!(served(&running, before).await, expected);
    for broken in ["", "{}", "<html>busy</html>", r#"{"nodes":[],"edges":[[0,1]]}"#] {
        std::fs::write(&file, broken).unwrap();
        until("it is refused", async || {
            running.metric("update_service_source_failed{source=\"releases\"}") == 1.0
        })
        .await;
        assert_eq!(served(&running, before).await, expected, "{broken}");
    }
    std::fs::write(&file, &set.expected[after]).unwrap();
    let expected = set.graph(after);
    until("it catches up", async || {
        served(&running, after).await == expected
    })
    .await;
}

#[tokio::test]
async fn an_upstream_that_fails_does_not_keep_the_blocked_edges_of_another_away() {
    let directory = tempfile::tempdir().unwrap();
    let graph = |first: &str, edges: &str| {
        let channels = r#""metadata":{"io.openshift.upgrades.graph.release.channels":"stable-4.1"}"#;
        let node = |version: &str| format!(r#"{{"version":"{version}","payload":"p/{version}",{channels}}}"#);
        let (a, b) = (node(&format!("4.1.{first}0")), node(&format!("4.1.{first}1")));
        format!(r#"{{"nodes":[{a},{b}],"edges":[{edges}]}}"#)
    };
    let files = ["a.json", "b.json"].map(|name| directory.path().join(name));
    std::fs::write(&files[0], graph("1", "[0,1]")).unwrap();
    std::fs::write(&files[1], graph("2", "[0,1]")).unwrap();
    let running = Running::start(&graphs(&files.clone().map(|file| file.display().to_string())));
    running.ready().await;
    assert_eq!((running.versions().await.len(), running.edges().await), (4, 2));
    for (broken, sound, first) in [(1, 0, "1"), (0, 1, "2")] {
        std::fs::write(&files[broken], "{").unwrap();
        let failed = || running.metric("update_service_source_failed{source=\"releases\"}");
        until("one fails", async || failed() == 1.0).await;
        std::fs::write(&files[sound], graph(first, "")).unwrap();
        let left = 1 - usize::from(sound == 1);
        until("the edge of the other is gone", async || {
            running.edges().await == left
        })
        .await;
        assert_eq!((running.versions().await.len(), failed()), (4, 1.0));
    }
}
