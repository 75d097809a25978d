//! A hub in memory for unit tests, with paged lists, watches, writes, and the faults of real hubs.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Bytes;
use futures::channel::mpsc::{self, UnboundedSender};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;
/// Plural, namespace, name.
type Id = (String, String, String);

/// A fault of the requests for a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// They get no response.
    Hang,
    /// They cannot connect.
    Down,
    /// They get this status code, with Retry-After.
    Refuse(u16, u64),
    /// Lists get the response of the time at which they arrive, so many seconds later.
    Late(u64),
}

/// An API server.
#[derive(Clone, Default)]
pub(crate) struct Hub(Arc<Mutex<State>>);

#[derive(Default)]
pub(crate) struct State {
    version: u64,
    objects: BTreeMap<Id, Value>,
    /// Texts that replace an object in lists.
    raw: Vec<(String, String)>,
    /// Version, plural, event.
    history: Vec<(u64, String, Value)>,
    watches: Vec<Watch>,
    faults: BTreeMap<String, Fault>,
    /// How many of the next continue tokens are rejected as expired.
    pub(crate) expire_pages: usize,
    /// Watches from before this version get the error that it is too old.
    pub(crate) compacted: u64,
    /// Watches never end.
    pub(crate) endless: bool,
    /// Method and plural of each request; reads of collections are `LIST` and `WATCH`.
    log: Vec<(String, String)>,
}

struct Watch {
    plural: String,
    label: Option<String>,
    /// The watch is open but delivers nothing any more.
    frozen: bool,
    sender: UnboundedSender<Result<Frame<Bytes>, io::Error>>,
}

impl Hub {
    pub(crate) fn client(&self) -> kube::Client {
        let hub = self.clone();
        kube::Client::new(
            tower::service_fn(move |request| hub.clone().serve(request)),
            "default",
        )
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Creates or replaces an object, and notifies the watches.
    pub(crate) fn put(&self, plural: &str, mut object: Value) -> Value {
        let mut state = self.state();
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let id = (plural.to_owned(), text("namespace"), text("name"));
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}-{}", id.1, id.2));
        }
        state.store(&id, object)
    }

    pub(crate) fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let id = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        self.state().objects.get(&id).cloned()
    }

    /// Changes an object.
    pub(crate) fn edit(&self, plural: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(plural, namespace, name).unwrap();
        change(&mut object);
        self.put(plural, object);
    }

    pub(crate) fn delete(&self, plural: &str, namespace: &str, name: &str) {
        let id = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        self.state().remove(&id);
    }

    /// Names of all objects of a kind.
    pub(crate) fn names(&self, plural: &str) -> Vec<String> {
        let state = self.state();
        let found = state.objects.keys().filter(|id| id.0 == plural);
        found.map(|id| id.2.clone()).collect()
    }

    /// Adds a text to the lists of a kind in place of an object.
    pub(crate) fn put_raw(&self, plural: &str, text: String) {
        self.state().raw.push((plural.to_owned(), text));
    }

    /// Sets the fault of a kind; `*` means all kinds, and `GET kind` only reads of single objects.
    pub(crate) fn fault(&self, plural: &str, fault: Option<Fault>) {
        let mut state = self.state();
        match fault {
            Some(fault) => state.faults.insert(plural.to_owned(), fault),
            None => state.faults.remove(plural),
        };
    }

    /// Interrupts all watches.
    pub(crate) fn cut(&self) {
        for watch in std::mem::take(&mut self.state().watches) {
            drop(
                watch
                    .sender
                    .unbounded_send(Err(io::Error::other("connection reset"))),
            );
        }
    }

    /// The watches of a kind stay open but deliver nothing any more, not even their end.
    pub(crate) fn freeze(&self, plural: &str) {
        let mut state = self.state();
        for watch in state.watches.iter_mut().filter(|watch| watch.plural == plural) {
            watch.frozen = true;
        }
    }

    /// Sends a line to the watches of a kind.
    pub(crate) fn send_line(&self, plural: &str, line: &str) {
        for watch in self.state().watches.iter().filter(|watch| watch.plural == plural) {
            let frame = Frame::data(Bytes::from(format!("{line}\n")));
            drop(watch.sender.unbounded_send(Ok(frame)));
        }
    }

    /// Replaces the storage by one with the same objects and lower versions.
    pub(crate) fn go_back(&self, version: u64) {
        let mut state = self.state();
        state.version = version;
        state.history.clear();
        for (number, object) in (1_u64..).zip(state.objects.values_mut()) {
            object["metadata"]["resourceVersion"] = json!(number.to_string());
        }
    }

    /// Changes what the replaced storage has of an object, and not its version.
    pub(crate) fn restore(&self, plural: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let id = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        change(self.state().objects.get_mut(&id).unwrap());
    }

    /// Number of requests for a kind.
    pub(crate) fn count(&self, method: &str, plural: &str) -> usize {
        let state = self.state();
        let same = |entry: &&(String, String)| entry.0 == method && (plural == "*" || entry.1 == plural);
        state.log.iter().filter(same).count()
    }

    async fn serve(self, request: Request<kube::client::Body>) -> Result<Answer, io::Error> {
        let path: VecDeque<String> = request
            .uri()
            .path()
            .split('/')
            .skip(4)
            .map(str::to_owned)
            .collect();
        let (namespace, rest) = match path.front().map(String::as_str) {
            Some("namespaces") => (path[1].clone(), path.range(2..).cloned().collect::<Vec<_>>()),
            _ => (String::new(), path.into_iter().collect()),
        };
        let plural = rest[0].clone();
        let query: BTreeMap<String, String> = request
            .uri()
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.replace("%2F", "/")))
            .collect();
        let watches = query.get("watch").is_some_and(|value| value == "true");
        let method = request.method().clone();
        let verb = match (&method, rest.len()) {
            _ if watches => "WATCH",
            (&Method::GET, 1) => "LIST",
            _ => method.as_str(),
        };
        self.state().log.push((verb.to_owned(), plural.clone()));
        let fault = {
            let state = self.state();
            state
                .faults
                .get(&plural)
                .or_else(|| state.faults.get(&format!("{verb} {plural}")))
                .or_else(|| state.faults.get("*"))
                .copied()
        };
        match fault {
            Some(Fault::Hang) => std::future::pending::<()>().await,
            Some(Fault::Down) => return Err(io::Error::other("connection refused")),
            Some(Fault::Refuse(code, wait)) => {
                let mut answer = refusal(code);
                answer.headers_mut().insert("retry-after", wait.into());
                return Ok(answer);
            }
            Some(Fault::Late(_)) | None => {}
        }
        let body = request
            .into_body()
            .collect()
            .await
            .map_err(io::Error::other)?
            .to_bytes();
        if watches {
            return Ok(self.watch(&plural, &query));
        }
        let id = (plural, namespace, rest.get(1).cloned().unwrap_or_default());
        if verb == "LIST" {
            let answer = self.state().list(&id.0, &query);
            if let Some(Fault::Late(seconds)) = fault {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
            }
            return Ok(answer);
        }
        let object = serde_json::from_slice(&body).unwrap_or_default();
        let status = rest.get(2).is_some_and(|part| part == "status");
        Ok(self.state().write(&method, id, object, status))
    }

    fn watch(&self, plural: &str, query: &BTreeMap<String, String>) -> Answer {
        let (sender, receiver) = mpsc::unbounded();
        let from: u64 = query["resourceVersion"].parse().unwrap();
        let label = query.get("labelSelector").cloned();
        let mut state = self.state();
        if from < state.compacted {
            let expired =
                json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}});
            drop(sender.unbounded_send(Ok(line(&expired))));
            return Response::new(StreamBody::new(receiver).boxed_unsync());
        }
        for (version, of, event) in &state.history {
            if *version > from && of == plural && labelled(&event["object"], label.as_deref()) {
                drop(sender.unbounded_send(Ok(line(event))));
            }
        }
        state.watches.push(Watch {
            plural: plural.to_owned(),
            label,
            frozen: false,
            sender: sender.clone(),
        });
        if !state.endless {
            let (hub, seconds) = (self.clone(), query["timeoutSeconds"].parse().unwrap());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                let mut state = hub.state();
                state
                    .watches
                    .retain(|watch| watch.frozen || !watch.sender.same_receiver(&sender));
            });
        }
        Response::new(StreamBody::new(receiver).boxed_unsync())
    }
}

impl State {
    fn store(&mut self, id: &Id, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let known = self.objects.insert(id.clone(), object.clone());
        self.notify(&id.0, if known.is_some() { "MODIFIED" } else { "ADDED" }, &object);
        object
    }

    fn remove(&mut self, id: &Id) -> Option<Value> {
        let mut object = self.objects.remove(id)?;
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.notify(&id.0, "DELETED", &object);
        Some(object)
    }

    fn notify(&mut self, plural: &str, kind: &str, object: &Value) {
        let event = json!({"type": kind, "object": object});
        self.history
            .push((self.version, plural.to_owned(), event.clone()));
        for watch in &self.watches {
            if watch.plural == plural && !watch.frozen && labelled(object, watch.label.as_deref()) {
                drop(watch.sender.unbounded_send(Ok(line(&event))));
            }
        }
    }

    fn list(&mut self, plural: &str, query: &BTreeMap<String, String>) -> Answer {
        let label = query.get("labelSelector").map(String::as_str);
        let number = |key: &str| query.get(key).and_then(|text| text.parse::<usize>().ok());
        let (first, limit) = (
            number("continue").unwrap_or(0),
            number("limit").unwrap_or(usize::MAX),
        );
        if first > 0 && self.expire_pages > 0 {
            self.expire_pages -= 1;
            return refusal(410);
        }
        let objects = self
            .objects
            .iter()
            .filter(|(id, object)| id.0 == plural && labelled(object, label));
        let mut items: Vec<String> = objects.map(|(_, object)| object.to_string()).collect();
        items.extend(
            self.raw
                .iter()
                .filter(|raw| raw.0 == plural)
                .map(|raw| raw.1.clone()),
        );
        let last = items.len().min(first.saturating_add(limit));
        let token = (last < items.len()).then(|| last.to_string());
        let metadata = json!({"resourceVersion": self.version.to_string(), "continue": token});
        let items = items[first..last].join(",");
        text(
            200,
            format!(r#"{{"kind":"List","metadata":{metadata},"items":[{items}]}}"#),
        )
    }

    fn write(&mut self, method: &Method, mut id: Id, mut object: Value, status: bool) -> Answer {
        let given = |object: &Value, field: &str| object["metadata"][field].as_str().map(str::to_owned);
        if *method == Method::POST {
            id.2 = given(&object, "name").unwrap_or_default();
        }
        let known = self.objects.get(&id).cloned();
        match (method.as_str(), known) {
            ("GET", Some(known)) => text(200, known.to_string()),
            ("DELETE", Some(_)) => {
                self.remove(&id);
                text(200, json!({"kind": "Status", "status": "Success"}).to_string())
            }
            ("PATCH", Some(mut known)) => {
                if !status {
                    object.as_object_mut().unwrap().remove("status");
                }
                if object == known {
                    return text(200, known.to_string());
                }
                merge(&mut known, object);
                text(200, self.store(&id, known).to_string())
            }
            ("PUT", Some(known)) if given(&known, "resourceVersion") == given(&object, "resourceVersion") => {
                text(200, self.store(&id, object).to_string())
            }
            ("PUT" | "POST", Some(_)) => refusal(409),
            ("POST" | "PATCH", None) => {
                object["metadata"]["uid"] = json!(format!("uid-{}-{}", id.1, id.2));
                object["metadata"]["namespace"] = json!(id.1);
                text(201, self.store(&id, object).to_string())
            }
            _ => refusal(404),
        }
    }
}

fn labelled(object: &Value, label: Option<&str>) -> bool {
    label.is_none_or(|label| !object["metadata"]["labels"][label].is_null())
}

fn merge(into: &mut Value, patch: Value) {
    let Value::Object(fields) = patch else {
        *into = patch;
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in fields {
        merge(&mut into[&key], value);
    }
}

fn line(event: &Value) -> Frame<Bytes> {
    Frame::data(Bytes::from(format!("{event}\n")))
}

fn text(code: u16, body: String) -> Answer {
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = code.try_into().unwrap();
    answer
}

fn refusal(code: u16) -> Answer {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        _ => "Other",
    };
    let status =
        json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason});
    text(code, status.to_string())
}
