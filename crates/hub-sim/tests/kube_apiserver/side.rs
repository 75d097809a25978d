//! One of the two servers: plays requests, remembers what it saw, and watches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::AsyncBufReadExt as _;
use futures::TryStreamExt as _;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::compare::Answer;
use crate::objects::{KINDS, Kind};
use crate::steps::{Named, Op, Step};

const FOREIGN_UID: &str = "00000000-0000-4000-8000-000000000000";

/// A server, and what a client knows of it.
pub struct Side {
    client: Client,
    namespace: String,
    suffix: String,
    /// The last and the first state that was seen of each object.
    seen: HashMap<(usize, &'static str), (Value, Value)>,
    watches: Vec<(usize, Arc<Mutex<Vec<Value>>>, tokio::task::JoinHandle<()>)>,
}

impl Side {
    /// Makes the namespace of a sequence and opens its watches.
    pub async fn start(client: Client, seed: u64) -> Self {
        let mut side = Self {
            client,
            namespace: format!("s{seed}"),
            suffix: format!("s{seed}"),
            seen: HashMap::new(),
            watches: Vec::new(),
        };
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": side.namespace}});
        side.send(
            Method::POST,
            "/api/v1/namespaces",
            "application/json",
            Some(&namespace),
        )
        .await;
        for (at, kind) in KINDS.iter().enumerate().filter(|(_, kind)| kind.namespaced) {
            let events = Arc::new(Mutex::new(Vec::new()));
            let task = side.watch(kind, Arc::clone(&events)).await;
            side.watches.push((at, events, task));
        }
        side
    }

    async fn watch(&self, kind: &Kind, events: Arc<Mutex<Vec<Value>>>) -> tokio::task::JoinHandle<()> {
        let collection = self.collection(kind);
        let (_, list) = self
            .send(Method::GET, &format!("{collection}?limit=1"), "", None)
            .await;
        let revision = list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or("0")
            .to_owned();
        let uri = format!("{collection}?watch=true&resourceVersion={revision}&timeoutSeconds=600");
        let request = Request::get(uri).body(Vec::new()).unwrap();
        let lines = self.client.request_stream(request).await.unwrap().lines();
        tokio::spawn(async move {
            let _ = lines
                .try_for_each(|line| {
                    let event: Value = serde_json::from_str(&line).unwrap();
                    events.lock().unwrap().push(event);
                    futures::future::ready(Ok(()))
                })
                .await;
        })
    }

    fn collection(&self, kind: &Kind) -> String {
        let root = if kind.api_version.contains('/') {
            "apis"
        } else {
            "api"
        };
        let namespace = if kind.namespaced {
            format!("namespaces/{}/", self.namespace)
        } else {
            String::new()
        };
        format!("/{root}/{}/{namespace}{}", kind.api_version, kind.plural)
    }

    async fn send(&self, method: Method, path: &str, media_type: &str, body: Option<&Value>) -> (u16, Value) {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("accept", "application/json");
        if !media_type.is_empty() {
            request = request.header("content-type", media_type);
        }
        let bytes = body
            .map(|body| serde_json::to_vec(body).unwrap())
            .unwrap_or_default();
        let request = request.body(Body::from(bytes)).unwrap();
        let answer = self.client.send(request).await.unwrap();
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (
            code,
            serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes))),
        )
    }

    /// Plays a request.
    pub async fn play(&mut self, step: &Step) -> Answer {
        let kind = &KINDS[step.kind];
        let name = if kind.namespaced {
            step.name.to_owned()
        } else {
            format!("{}-{}", step.name, self.suffix)
        };
        let collection = self.collection(kind);
        let object = format!("{collection}/{name}");
        let mut query = format!("fieldValidation={}", step.validation);
        let status_of = |status: bool| {
            if status {
                format!("{object}/status")
            } else {
                object.clone()
            }
        };
        let typed = |body: &Value| {
            let mut body = body.clone();
            body["apiVersion"] = kind.api_version.into();
            body["kind"] = kind.kind.into();
            body["metadata"]["name"] = name.as_str().into();
            body
        };
        let (code, body) = match &step.op {
            Op::Create { body, dry_run } => {
                if *dry_run {
                    query.push_str("&dryRun=All");
                }
                let path = format!("{collection}?{query}&fieldManager=creator");
                self.send(Method::POST, &path, "application/json", Some(&typed(body)))
                    .await
            }
            Op::Get => self.send(Method::GET, &object, "", None).await,
            Op::List { labels, limit } => {
                let labels: String = form_urlencoded::byte_serialize(labels.as_bytes()).collect();
                // Clusters of other sequences are in the same collection.
                let scope = if kind.namespaced {
                    String::new()
                } else {
                    format!("&fieldSelector=metadata.name%3D{name}")
                };
                let path = format!("{collection}?labelSelector={labels}&limit={limit}{scope}");
                self.send(Method::GET, &path, "", None).await
            }
            Op::Put {
                body,
                revision,
                uid,
                status,
            } => {
                let mut body = typed(body);
                self.name(step, &mut body, *revision, *uid);
                let path = format!("{}?{query}&fieldManager=updater", status_of(*status));
                self.send(Method::PUT, &path, "application/json", Some(&body))
                    .await
            }
            Op::Merge {
                body,
                revision,
                uid,
                status,
            } => {
                let mut body = body.clone();
                self.name(step, &mut body, *revision, *uid);
                let path = format!("{}?{query}&fieldManager=patcher", status_of(*status));
                self.send(Method::PATCH, &path, "application/merge-patch+json", Some(&body))
                    .await
            }
            Op::Json { body } => {
                let path = format!("{object}?{query}&fieldManager=patcher");
                self.send(Method::PATCH, &path, "application/json-patch+json", Some(body))
                    .await
            }
            Op::Apply {
                body,
                manager,
                force,
                uid,
                status,
            } => {
                let mut body = typed(body);
                self.name(step, &mut body, Named::None, *uid);
                let path = format!(
                    "{}?{query}&fieldManager={manager}&force={force}",
                    status_of(*status)
                );
                self.send(Method::PATCH, &path, "application/apply-patch+yaml", Some(&body))
                    .await
            }
            Op::Delete { uid, policy } => {
                let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
                if let Some(uid) = self.uid(step, *uid) {
                    options["preconditions"] = json!({"uid": uid});
                }
                if !policy.is_empty() {
                    options["propagationPolicy"] = (*policy).into();
                }
                self.send(Method::DELETE, &object, "application/json", Some(&options))
                    .await
            }
        };
        if body["kind"] == kind.kind && code < 300 {
            let seen = self
                .seen
                .entry((step.kind, step.name))
                .or_insert_with(|| (body.clone(), body.clone()));
            seen.0 = body.clone();
        }
        Answer { code, body }
    }

    fn uid(&self, step: &Step, named: Named) -> Option<String> {
        let seen = self.seen.get(&(step.kind, step.name));
        match named {
            Named::None => None,
            Named::Current | Named::Old => Some(seen?.0["metadata"]["uid"].as_str()?.to_owned()),
            Named::Foreign => Some(FOREIGN_UID.to_owned()),
        }
    }

    fn name(&self, step: &Step, body: &mut Value, revision: Named, uid: Named) {
        let seen = self.seen.get(&(step.kind, step.name));
        let revision = match revision {
            Named::None => None,
            Named::Current => seen.map(|seen| seen.0["metadata"]["resourceVersion"].clone()),
            Named::Old => seen.map(|seen| seen.1["metadata"]["resourceVersion"].clone()),
            Named::Foreign => Some(Value::from("1")),
        };
        if let Some(revision) = revision {
            body["metadata"]["resourceVersion"] = revision;
        }
        if let Some(uid) = self.uid(step, uid) {
            body["metadata"]["uid"] = uid.into();
        }
    }

    /// The events of all watches, by kind, when nothing more comes.
    pub async fn events(self) -> Vec<(&'static str, Vec<Value>)> {
        // Every event is on its way. A last write to each kind tells that all before it have come.
        let end = json!({"metadata": {"name": "end"}});
        let mut found = Vec::new();
        for (at, events, task) in &self.watches {
            let kind = &KINDS[*at];
            let mut last = end.clone();
            last["apiVersion"] = kind.api_version.into();
            last["kind"] = kind.kind.into();
            if kind.kind == "Placement" {
                last["spec"] = json!({});
            }
            if kind.kind == "ManagedClustersUpgrade" {
                last["spec"] = json!({"clusterVersion": {"version": "4.15.3"}});
            }
            let (code, body) = self
                .send(
                    Method::POST,
                    &self.collection(kind),
                    "application/json",
                    Some(&last),
                )
                .await;
            assert_eq!(code, 201, "{body}");
            let is_here = |event: &Value| event["object"]["metadata"]["name"] == "end";
            while !events.lock().unwrap().iter().any(is_here) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            task.abort();
            let mut events = events.lock().unwrap().clone();
            events.retain(|event| !is_here(event));
            found.push((kind.kind, events));
        }
        found
    }
}
