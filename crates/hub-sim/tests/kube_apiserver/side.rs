//! One of the two servers: plays requests, remembers what it saw, and watches.

use std::collections::{BTreeSet, HashMap};

use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::compare::{Answer, Names, normalize_event};
use crate::objects::{KINDS, Kind};
use crate::steps::{Named, Op, Step};
use crate::watches::{END, Watches};

const FOREIGN_UID: &str = "00000000-0000-4000-8000-000000000000";

/// A server, and what a client knows of it.
pub struct Side {
    client: Client,
    namespace: String,
    suffix: String,
    /// The last and the first state that was seen of each object.
    seen: HashMap<(usize, &'static str), (Value, Value)>,
    names: Names,
    /// Whether an object was given an owner.
    pub has_owned: bool,
}

impl Side {
    /// A client that knows nothing.
    pub fn new(client: Client, seed: u64) -> Self {
        Self {
            client,
            namespace: format!("s{seed}"),
            suffix: format!("s{seed}"),
            seen: HashMap::new(),
            names: Names::default(),
            has_owned: false,
        }
    }

    /// A client that made the namespace of a sequence.
    pub async fn start(client: Client, seed: u64) -> Self {
        let side = Self::new(client, seed);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": side.namespace}});
        side.send(Method::POST, "/api/v1/namespaces", "application/json", Some(&namespace)).await;
        side
    }

    pub fn normalize(&mut self, answer: &mut Answer) {
        answer.normalize(&mut self.names);
    }

    pub fn collection(&self, kind: &Kind) -> String {
        let root = if kind.api_version.contains('/') { "apis" } else { "api" };
        let namespace = if kind.namespaced { format!("namespaces/{}/", self.namespace) } else { String::new() };
        format!("/{root}/{}/{namespace}{}", kind.api_version, kind.plural)
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub async fn send(&self, method: Method, path: &str, media_type: &str, body: Option<&Value>) -> Answer {
        self.send_accepting("application/json", method, path, media_type, body).await
    }

    pub async fn send_accepting(&self, accept: &str, method: Method, path: &str, media_type: &str, body: Option<&Value>) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("accept", accept);
        if !media_type.is_empty() {
            request = request.header("content-type", media_type);
        }
        let bytes = body.map(|body| serde_json::to_vec(body).unwrap()).unwrap_or_default();
        let request = request.body(Body::from(bytes)).unwrap();
        let answer = self.client.send(request).await.unwrap();
        let code = answer.status().as_u16();
        let warnings = answer.headers().get_all("warning").iter();
        let warnings = warnings.map(|text| text.to_str().unwrap().to_owned()).collect();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        Answer {
            code,
            body: serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes))),
            warnings,
        }
    }

    /// Plays a request.
    pub async fn play(&mut self, step: &Step) -> Answer {
        let kind = &KINDS[step.kind];
        let name = if kind.namespaced { step.name.to_owned() } else { format!("{}-{}", step.name, self.suffix) };
        let collection = self.collection(kind);
        let object = format!("{collection}/{name}");
        // Clusters of other sequences are in the same collection.
        let scope = if kind.namespaced { String::new() } else { format!("&fieldSelector=metadata.name%3D{name}") };
        let mut query = format!("fieldValidation={}", step.validation);
        let status_of = |status: bool| if status { format!("{object}/status") } else { object.clone() };
        let typed = |body: &Value| {
            let mut body = body.clone();
            body["apiVersion"] = kind.api_version.into();
            body["kind"] = kind.kind.into();
            body["metadata"]["name"] = name.as_str().into();
            body
        };
        let mut answer = match &step.op {
            Op::Create { body, dry_run, generate_name } => {
                if *dry_run || *generate_name {
                    query.push_str("&dryRun=All");
                }
                let mut body = typed(body);
                if *generate_name {
                    body["metadata"].as_object_mut().unwrap().remove("name");
                    body["metadata"]["generateName"] = "generated-".into();
                }
                self.add_owner(step, &mut body);
                let path = format!("{collection}?{query}&fieldManager=creator");
                self.send(Method::POST, &path, "application/json", Some(&body)).await
            }
            Op::Pages { limit } => self.pages(&collection, &object, *limit, &name).await,
            Op::Metadata { list } => self.metadata(if *list && kind.namespaced { &collection } else { &object }, *list && kind.namespaced).await,
            Op::WatchList { labels } => self.watch_list(&collection, labels, &scope).await,
            Op::DeleteAll { labels } => {
                let path = format!("{collection}?labelSelector={labels}{scope}");
                self.send(Method::DELETE, &path, "", None).await
            }
            Op::Managers { reset } => self.change_managers(&object, *reset).await,
            Op::Event { body } => self.event(body).await,
            Op::Get => self.send(Method::GET, &object, "", None).await,
            Op::List { labels, limit, fields } => {
                let labels: String = form_urlencoded::byte_serialize(labels.as_bytes()).collect();
                let fields: String = form_urlencoded::byte_serialize(fields.as_bytes()).collect();
                let scope = if kind.namespaced { format!("&fieldSelector={fields}") } else { scope };
                let path = format!("{collection}?labelSelector={labels}&limit={limit}{scope}");
                self.send(Method::GET, &path, "", None).await
            }
            Op::Put { body, revision, uid, status } => {
                let mut body = typed(body);
                self.name(step, &mut body, *revision, *uid);
                self.add_owner(step, &mut body);
                let path = format!("{}?{query}&fieldManager=updater", status_of(*status));
                self.send(Method::PUT, &path, "application/json", Some(&body)).await
            }
            Op::Merge { body, revision, uid, status } => {
                let mut body = body.clone();
                self.name(step, &mut body, *revision, *uid);
                let path = format!("{}?{query}&fieldManager=patcher", status_of(*status));
                self.send(Method::PATCH, &path, "application/merge-patch+json", Some(&body)).await
            }
            Op::Json { body } => {
                let path = format!("{object}?{query}&fieldManager=patcher");
                self.send(Method::PATCH, &path, "application/json-patch+json", Some(body)).await
            }
            Op::Apply { body, manager, force, uid, status } => {
                let mut body = typed(body);
                self.name(step, &mut body, Named::None, *uid);
                let path = format!("{}?{query}&fieldManager={manager}&force={force}", status_of(*status));
                self.send(Method::PATCH, &path, "application/apply-patch+yaml", Some(&body)).await
            }
            Op::Delete { uid, policy } => {
                let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
                if let Some(uid) = self.uid(step, *uid) {
                    options["preconditions"] = json!({"uid": uid});
                }
                if !policy.is_empty() {
                    options["propagationPolicy"] = (*policy).into();
                }
                self.send(Method::DELETE, &object, "application/json", Some(&options)).await
            }
        };
        if matches!(step.op, Op::Delete { .. } | Op::DeleteAll { .. }) {
            self.wait_for_garbage_collector(&object).await;
        }
        if self.has_owned {
            self.wait_for_owned().await;
        }
        let body = &answer.body;
        if body["kind"] == kind.kind && answer.code < 300 {
            let seen = self.seen.entry((step.kind, step.name)).or_insert_with(|| (body.clone(), body.clone()));
            seen.0 = body.clone();
        }
        answer.normalize(&mut self.names);
        answer
    }

    pub fn uid(&self, step: &Step, named: Named) -> Option<String> {
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

    /// What the watches of some kinds showed of this sequence.
    pub async fn events(&mut self, watches: &Watches, kinds: &BTreeSet<usize>) -> Vec<(String, Vec<Value>)> {
        // Every event is on its way. A last write to each kind tells that all before it have come.
        let mut found = Vec::new();
        for at in kinds {
            let kind = &KINDS[*at];
            let name = if kind.namespaced { END.to_owned() } else { format!("{END}-{}", self.suffix) };
            let mut last = json!({
                "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, "labels": {"team": "a"}},
            });
            if kind.kind == "Placement" {
                last["spec"] = json!({});
            }
            if kind.kind == "ManagedClustersUpgrade" {
                last["spec"] = json!({"clusterVersion": {"version": "4.15.3"}});
            }
            let ended = self.send(Method::POST, &self.collection(kind), "application/json", Some(&last)).await;
            assert_eq!(ended.code, 201, "{}", ended.body);
            for (title, mut events) in watches.of(*at, &self.suffix).await {
                events.iter_mut().for_each(|event| normalize_event(event, &mut self.names));
                found.push((title, events));
            }
        }
        found
    }
}
