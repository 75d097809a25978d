use std::path::Path;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// A graph in which 4.20.4 can be reached from these versions in channel stable-4.20.
fn graph(from: &[&str]) -> String {
    let node = |version: &str| {
        serde_json::json!({
            "version": version,
            "payload": format!("quay.io/release@sha256:{version}"),
            "metadata": {"io.openshift.upgrades.graph.release.channels": "stable-4.20"},
        })
    };
    let nodes = from.iter().copied().chain(["4.20.4"]).map(node);
    let edges = (0..from.len()).map(|place| [place, from.len()]);
    serde_json::json!({
        "nodes": nodes.collect::<Vec<_>>(),
        "edges": edges.collect::<Vec<_>>(),
    })
    .to_string()
}

fn of_file(path: &Path) -> anyhow::Result<Graphs> {
    Graphs::new(path.to_str().unwrap(), Arch::amd64(), &[])
}

fn wanted(channels: &[&str]) -> Vec<Wanted> {
    let one = |channel: &&str| ((*channel).to_owned(), "4.20.4".to_owned());
    channels.iter().map(one).collect()
}

fn from(graphs: &Graphs) -> Option<Vec<String>> {
    let updates = graphs.updates_to("stable-4.20", "4.20.4")?;
    Some(updates.from.keys().cloned().collect())
}

#[tokio::test(start_paused = true)]
async fn a_file_is_read_again_every_few_minutes_and_only_a_difference_counts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("graph.json");
    std::fs::write(&path, graph(&["4.19.20"])).unwrap();
    let graphs = of_file(&path).unwrap();
    let shared = Arc::clone(graphs.0.as_ref().unwrap());
    assert_eq!(from(&graphs), None, "nobody has needed it yet");

    let needed = wanted(&["stable-4.20"]);
    assert!(shared.refresh(needed.clone()).await);
    assert_eq!(from(&graphs), Some(vec!["4.19.20".to_owned()]));
    std::fs::write(&path, graph(&["4.19.20", "4.19.21"])).unwrap();
    assert!(!shared.refresh(needed.clone()).await, "it is not due yet");
    tokio::time::advance(INTERVAL).await;
    assert!(shared.refresh(needed.clone()).await);
    assert_eq!(from(&graphs).map(|from| from.len()), Some(2));
    tokio::time::advance(INTERVAL).await;
    assert!(!shared.refresh(needed).await, "it is the same");
    assert_eq!(shared.missing(), 0);
    shared.refresh(Vec::new()).await;
    assert_eq!(from(&graphs), None, "nobody needs it any more");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_any_more_counts_for_an_hour() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("graph.json");
    std::fs::write(&path, graph(&["4.19.20"])).unwrap();
    let graphs = of_file(&path).unwrap();
    let shared = Arc::clone(graphs.0.as_ref().unwrap());
    let needed = wanted(&["stable-4.20"]);
    shared.refresh(needed.clone()).await;
    std::fs::write(&path, "{").unwrap();
    tokio::time::advance(MAX_AGE).await;
    assert!(!shared.refresh(needed.clone()).await);
    assert!(from(&graphs).is_some());
    tokio::time::advance(RETRY).await;
    assert!(shared.refresh(needed.clone()).await);
    assert_eq!((from(&graphs), shared.missing()), (None, 1));
    std::fs::write(&path, graph(&["4.19.20"])).unwrap();
    tokio::time::advance(RETRY).await;
    assert!(shared.refresh(needed).await);
    assert!(from(&graphs).is_some());
}

/// Only the leader reads.
#[tokio::test(start_paused = true)]
async fn what_was_read_in_an_earlier_term_counts_for_an_hour_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("graph.json");
    std::fs::write(&path, graph(&["4.19.20"])).unwrap();
    let graphs = of_file(&path).unwrap();
    graphs.0.as_ref().unwrap().refresh(wanted(&["stable-4.20"])).await;
    tokio::time::advance(MAX_AGE).await;
    assert!(from(&graphs).is_some());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(from(&graphs), None);
    let shared = graphs.0.as_ref().unwrap();
    let has_changed = shared.refresh(wanted(&["stable-4.20"])).await;
    assert!(has_changed, "what was planned meanwhile has gone without it");
    assert!(from(&graphs).is_some());
}

/// A service that has the graph of one channel and knows no other, and counts requests.
async fn service() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/api/upgrades_info", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.unwrap();
            let head = String::from_utf8_lossy(&head[..length]);
            let target = head.split(' ').nth(1).unwrap().to_owned();
            let (status, body) = if target.contains("channel=stable-4.20&") {
                ("200 OK", graph(&["4.19.20"]))
            } else {
                ("503 Service Unavailable", String::new())
            };
            seen.lock().unwrap().push(target);
            let length = body.len();
            let text =
                format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            stream.write_all(text.as_bytes()).await.unwrap();
        }
    });
    (address, asked)
}

#[tokio::test]
async fn a_service_is_asked_for_each_channel_and_one_that_fails_hides_no_other() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (address, asked) = service().await;
    let graphs = Graphs::new(&address, Arch::amd64(), &[]).unwrap();
    let shared = Arc::clone(graphs.0.as_ref().unwrap());
    let needed = wanted(&["candidate-4.20", "stable-4.20"]);
    assert!(shared.refresh(needed.clone()).await);
    assert_eq!(from(&graphs), Some(vec!["4.19.20".to_owned()]));
    assert_eq!(graphs.updates_to("candidate-4.20", "4.20.4"), None);
    assert_eq!(shared.missing(), 1);
    let expected = ["candidate-4.20", "stable-4.20"]
        .map(|channel| format!("/api/upgrades_info/v1/graph?channel={channel}&arch=amd64"));
    assert_eq!(*asked.lock().unwrap(), expected);
    assert!(!shared.refresh(needed).await);
    assert_eq!(asked.lock().unwrap().len(), 2, "neither is due again");
}

#[tokio::test]
async fn authors_of_upgrades_cannot_name_any_number_of_channels() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (address, asked) = service().await;
    let graphs = Graphs::new(&address, Arch::amd64(), &[]).unwrap();
    let names: Vec<String> = (0..200).map(|number| format!("c{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    graphs.0.as_ref().unwrap().refresh(wanted(&names)).await;
    assert_eq!(asked.lock().unwrap().len(), MAX_CHANNELS);
}

#[test]
fn a_source_that_cannot_be_used_is_refused_with_its_name() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("graph.json");
    let text = |found: anyhow::Result<Graphs>| format!("{:#}", found.unwrap_err());
    assert!(text(of_file(&path)).contains("graph.json: No such file"));
    std::fs::write(&path, "[]").unwrap();
    assert!(text(of_file(&path)).contains("graph.json: graph: "));
    std::fs::write(&path, "no graph").unwrap();
    let found = text(of_file(&path));
    assert_eq!(found.matches("expected ident").count(), 1, "{found}");
    for address in ["ftp://example.com", "https://example.com/graph?channel=a"] {
        let found = text(Graphs::new(address, Arch::amd64(), &[]));
        assert!(
            found.contains("is not the address of an update service"),
            "{found}"
        );
    }
}
