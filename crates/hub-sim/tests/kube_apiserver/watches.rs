//! Watches that are open during all sequences, one per kind and one per way to select, each over all namespaces.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use http::Request;
use kube::Client;
use serde_json::Value;

use crate::objects::{KINDS, Kind};

/// The name of the last object of a sequence. Every watch selects it.
pub const END: &str = "end";

/// Selections besides those of everything: the kind, the query, and the form of objects.
const SELECTIONS: [(usize, &str, &str); 4] = [
    (0, "&labelSelector=team%3Da", "application/json"),
    (5, "&labelSelector=team%20in%20(a%2Cb)", "application/json"),
    (6, "&fieldSelector=metadata.name%21%3Db", "application/json"),
    (
        1,
        "",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    ),
];

type Events = Arc<Mutex<HashMap<String, Vec<Value>>>>;

struct Watch {
    kind: usize,
    title: String,
    events: Events,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// All watches of a server.
pub struct Watches(Vec<Watch>);

impl Watches {
    /// Opens them.
    pub async fn start(client: &Client) -> Self {
        let everything = (0..KINDS.len()).map(|kind| (kind, "", "application/json"));
        let mut watches = Vec::new();
        for (kind, query, accept) in everything.chain(SELECTIONS) {
            let events = Events::default();
            watches.push(Watch {
                kind,
                title: format!("{} {query} {accept}", KINDS[kind].kind),
                events: Arc::clone(&events),
                task: open(client, &KINDS[kind], query, accept, events).await,
            });
        }
        Self(watches)
    }

    /// What the watches of a kind showed of a sequence until its last object.
    pub async fn of(&self, kind: usize, sequence: &str) -> Vec<(String, Vec<Value>)> {
        let is_end = |event: &Value| {
            event["object"]["metadata"]["name"]
                .as_str()
                .is_some_and(|name| name.starts_with(END))
        };
        let mut found = Vec::new();
        for watch in self.0.iter().filter(|watch| watch.kind == kind) {
            while !watch
                .events
                .lock()
                .unwrap()
                .get(sequence)
                .is_some_and(|events| events.iter().any(is_end))
            {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let mut events = watch.events.lock().unwrap().remove(sequence).unwrap();
            events.retain(|event| !is_end(event));
            found.push((watch.title.clone(), events));
        }
        found
    }
}

async fn open(
    client: &Client,
    kind: &Kind,
    query: &str,
    accept: &str,
    events: Events,
) -> tokio::task::JoinHandle<()> {
    let root = if kind.api_version.contains('/') {
        "apis"
    } else {
        "api"
    };
    let collection = format!("/{root}/{}/{}", kind.api_version, kind.plural);
    let list = Request::get(format!("{collection}?limit=1"))
        .body(Vec::new())
        .unwrap();
    let list: Value = client.request(list).await.unwrap();
    let revision = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or("0")
        .to_owned();
    let uri = format!(
        "{collection}?watch=true&allowWatchBookmarks=true&resourceVersion={revision}&timeoutSeconds=1800{query}"
    );
    let request = Request::get(uri)
        .header("accept", accept)
        .body(Vec::new())
        .unwrap();
    let lines = client.request_stream(request).await.unwrap().lines();
    tokio::spawn(async move {
        let _ = lines
            .try_for_each(|line| {
                let event: Value = serde_json::from_str(&line).unwrap();
                if event["type"] != "BOOKMARK" {
                    events
                        .lock()
                        .unwrap()
                        .entry(sequence_of(&event))
                        .or_default()
                        .push(event);
                }
                futures::future::ready(Ok(()))
            })
            .await;
    })
}

/// The sequence that an object belongs to: its namespace, or the end of its name.
fn sequence_of(event: &Value) -> String {
    let metadata = &event["object"]["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let of_name = name.rsplit_once('-').map_or("", |(_, sequence)| sequence);
    metadata["namespace"].as_str().unwrap_or(of_name).to_owned()
}
