//! Watches that are open during all sequences, one per kind and one per way to select, each over all namespaces.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::compare::normalize_event;
use crate::objects::{self, KINDS, Kind};
use crate::side::{Side, text};

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

fn is_end(event: &Value) -> bool {
    text(&event["object"]["metadata"]["name"]).starts_with(END)
}

impl Side {
    /// What the watches of some kinds showed of this sequence.
    pub async fn events(&mut self, watches: &Watches, kinds: &BTreeSet<usize>) -> Vec<(String, Vec<Value>)> {
        // Every event is on its way. A last write to each kind tells that all before it have come.
        let mut found = Vec::new();
        for at in kinds {
            let kind = &KINDS[*at];
            let last = self.last(kind);
            let ended = self
                .send(
                    Method::POST,
                    &self.collection(kind),
                    "application/json",
                    Some(&last),
                )
                .await;
            if ended.code != 201 {
                found.push((format!("{} ends", kind.kind), vec![ended.body]));
                continue;
            }
            found.extend(watches.of(*at, &self.suffix).await);
            if kind.namespaced {
                found.push((format!("{} again", kind.kind), self.again(kind, *at).await));
            }
        }
        for event in found.iter_mut().flat_map(|(_, events)| events) {
            normalize_event(event, &mut self.names);
        }
        found
    }

    /// The last object of a sequence.
    fn last(&self, kind: &Kind) -> Value {
        let name = if kind.namespaced {
            END.to_owned()
        } else {
            format!("{END}-{}", self.suffix)
        };
        let mut last = objects::valid(kind);
        last["apiVersion"] = kind.api_version.into();
        last["kind"] = kind.kind.into();
        last["metadata"] = json!({"name": name, "labels": {"team": "a"}});
        last
    }

    /// What a watch of the namespace shows that begins where the sequence began.
    async fn again(&self, kind: &Kind, at: usize) -> Vec<Value> {
        let query = [
            "",
            "&labelSelector=team%3Da",
            "&labelSelector=team",
            "&fieldSelector=metadata.name%21%3Db",
        ][at % 4];
        let path = format!(
            "{}?watch=true&resourceVersion={}&timeoutSeconds=60{query}",
            self.collection(kind),
            self.began
        );
        let request = Request::get(path).body(Vec::new()).unwrap();
        let mut lines = self.client().request_stream(request).await.unwrap().lines();
        let mut events = Vec::new();
        while let Some(line) = lines.try_next().await.unwrap() {
            let event: Value = serde_json::from_str(&line).unwrap();
            if is_end(&event) {
                break;
            }
            events.push(event);
        }
        events
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
