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

/// What a request is about.
struct Target {
    kind: &'static Kind,
    name: String,
    collection: String,
    /// The path of the object.
    object: String,
    /// What keeps a list of a kind without namespaces to the objects of this side.
    scope: String,
    query: String,
}

impl Target {
    /// The path of the object or of its status.
    fn path(&self, status: bool) -> String {
        let part = if status { "/status" } else { "" };
        format!("{}{part}", self.object)
    }

    /// A body with the kind and name of the object.
    fn typed(&self, body: &Value) -> Value {
        let mut body = body.clone();
        body["apiVersion"] = self.kind.api_version.into();
        body["kind"] = self.kind.kind.into();
        body["metadata"]["name"] = self.name.as_str().into();
        body
    }
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
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": side.namespace}});
        side.send(
            Method::POST,
            "/api/v1/namespaces",
            "application/json",
            Some(&namespace),
        )
        .await;
        side
    }

    pub fn normalize(&mut self, answer: &mut Answer) {
        answer.normalize(&mut self.names);
    }

    pub fn collection(&self, kind: &Kind) -> String {
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

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub async fn send(&self, method: Method, path: &str, media_type: &str, body: Option<&Value>) -> Answer {
        self.send_accepting("application/json", method, path, media_type, body)
            .await
    }

    pub async fn send_accepting(
        &self,
        accept: &str,
        method: Method,
        path: &str,
        media_type: &str,
        body: Option<&Value>,
    ) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("accept", accept);
        if !media_type.is_empty() {
            request = request.header("content-type", media_type);
        }
        let bytes = body
            .map(|body| serde_json::to_vec(body).unwrap())
            .unwrap_or_default();
        let request = request.body(Body::from(bytes)).unwrap();
        let answer = self.client.send(request).await.unwrap();
        let code = answer.status().as_u16();
        let warnings = answer.headers().get_all("warning").iter();
        let warnings = warnings.map(|text| text.to_str().unwrap().to_owned()).collect();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        Answer {
            code,
            body: serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes))),
            warnings,
        }
    }

    /// Plays a request.
    pub async fn play(&mut self, step: &Step) -> Answer {
        let target = self.target(step);
        let mut answer = self.request(step, &target).await;
        if matches!(step.op, Op::Delete { .. } | Op::DeleteAll { .. }) {
            self.wait_for_garbage_collector(&target.object).await;
        }
        if self.has_owned {
            self.wait_for_owned().await;
        }
        let body = &answer.body;
        if body["kind"] == target.kind.kind && answer.code < 300 {
            let seen = self
                .seen
                .entry((step.kind, step.name))
                .or_insert_with(|| (body.clone(), body.clone()));
            seen.0 = body.clone();
        }
        answer.normalize(&mut self.names);
        answer
    }

    fn target(&self, step: &Step) -> Target {
        let kind = &KINDS[step.kind];
        let name = if kind.namespaced {
            step.name.to_owned()
        } else {
            format!("{}-{}", step.name, self.suffix)
        };
        let collection = self.collection(kind);
        Target {
            kind,
            object: format!("{collection}/{name}"),
            collection,
            // Clusters of other sequences are in the same collection.
            scope: if kind.namespaced {
                String::new()
            } else {
                format!("&fieldSelector=metadata.name%3D{name}")
            },
            name,
            query: format!("fieldValidation={}", step.validation),
        }
    }

    async fn request(&mut self, step: &Step, target: &Target) -> Answer {
        let (kind, collection, object) = (target.kind, &target.collection, &target.object);
        match &step.op {
            Op::Create { .. } | Op::Put { .. } | Op::Merge { .. } | Op::Json { .. } | Op::Apply { .. } => {
                self.write(step, target).await
            }
            Op::Pages { limit } => self.pages(collection, object, *limit, &target.name).await,
            Op::Metadata { list } => {
                let is_list = *list && kind.namespaced;
                let path = if is_list { collection } else { object };
                self.metadata(path, is_list).await
            }
            Op::WatchList { labels } => self.watch_list(collection, labels, &target.scope).await,
            Op::DeleteAll { labels } => {
                let path = format!("{collection}?labelSelector={labels}{}", target.scope);
                self.send(Method::DELETE, &path, "", None).await
            }
            Op::Managers { reset } => self.change_managers(object, *reset).await,
            Op::Event { body } => self.event(body).await,
            Op::Get => self.send(Method::GET, object, "", None).await,
            Op::List {
                labels,
                limit,
                fields,
            } => {
                let labels: String = form_urlencoded::byte_serialize(labels.as_bytes()).collect();
                let fields: String = form_urlencoded::byte_serialize(fields.as_bytes()).collect();
                let scope = if kind.namespaced {
                    format!("&fieldSelector={fields}")
                } else {
                    target.scope.clone()
                };
                let path = format!("{collection}?labelSelector={labels}&limit={limit}{scope}");
                self.send(Method::GET, &path, "", None).await
            }
            Op::Delete { uid, policy } => {
                let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
                if let Some(uid) = self.uid(step, *uid) {
                    options["preconditions"] = json!({"uid": uid});
                }
                if !policy.is_empty() {
                    options["propagationPolicy"] = (*policy).into();
                }
                self.send(Method::DELETE, object, "application/json", Some(&options))
                    .await
            }
        }
    }

    /// A request that creates or changes an object. Any other is none of its kind.
    async fn write(&mut self, step: &Step, target: &Target) -> Answer {
        let (query, object) = (&target.query, &target.object);
        let (method, path, media_type, body) = match &step.op {
            Op::Create {
                body,
                dry_run,
                generate_name,
            } => {
                let mut body = target.typed(body);
                if *generate_name {
                    body["metadata"].as_object_mut().unwrap().remove("name");
                    body["metadata"]["generateName"] = "generated-".into();
                }
                self.add_owner(step, &mut body);
                let dry_run = if *dry_run || *generate_name {
                    "&dryRun=All"
                } else {
                    ""
                };
                let path = format!("{}?{query}{dry_run}&fieldManager=creator", target.collection);
                (Method::POST, path, "application/json", body)
            }
            Op::Put {
                body,
                revision,
                uid,
                status,
            } => {
                let mut body = target.typed(body);
                self.name(step, &mut body, *revision, *uid);
                self.add_owner(step, &mut body);
                let path = format!("{}?{query}&fieldManager=updater", target.path(*status));
                (Method::PUT, path, "application/json", body)
            }
            Op::Merge {
                body,
                revision,
                uid,
                status,
            } => {
                let mut body = body.clone();
                self.name(step, &mut body, *revision, *uid);
                let path = format!("{}?{query}&fieldManager=patcher", target.path(*status));
                (Method::PATCH, path, "application/merge-patch+json", body)
            }
            Op::Json { body } => {
                let path = format!("{object}?{query}&fieldManager=patcher");
                (Method::PATCH, path, "application/json-patch+json", body.clone())
            }
            Op::Apply {
                body,
                manager,
                force,
                uid,
                status,
            } => {
                let mut body = target.typed(body);
                self.name(step, &mut body, Named::None, *uid);
                let path = target.path(*status);
                let path = format!("{path}?{query}&fieldManager={manager}&force={force}");
                (Method::PATCH, path, "application/apply-patch+yaml", body)
            }
            other => panic!("{other:?} does not write"),
        };
        self.send(method, &path, media_type, Some(&body)).await
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
            let name = if kind.namespaced {
                END.to_owned()
            } else {
                format!("{END}-{}", self.suffix)
            };
            let mut last = json!({
                "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, "labels": {"team": "a"}},
            });
            if kind.kind == "Placement" {
                last["spec"] = json!({});
            }
            if kind.kind == "ManagedClustersUpgrade" {
                last["spec"] = json!({"clusterVersion": {"version": "4.15.3"}});
            }
            let ended = self
                .send(
                    Method::POST,
                    &self.collection(kind),
                    "application/json",
                    Some(&last),
                )
                .await;
            assert_eq!(ended.code, 201, "{}", ended.body);
            for (title, mut events) in watches.of(*at, &self.suffix).await {
                for event in &mut events {
                    normalize_event(event, &mut self.names);
                }
                found.push((title, events));
            }
        }
        found
    }
}
