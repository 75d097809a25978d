//! One of the two servers: plays requests, remembers what it saw, and watches.

use std::collections::HashMap;

use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::compare::{Answer, Names};
use crate::objects::{KINDS, Kind};
use crate::steps::{Named, Op, Step};

const FOREIGN_UID: &str = "00000000-0000-4000-8000-000000000000";

/// A server, and what a client knows of it.
pub struct Side {
    client: Client,
    namespace: String,
    pub suffix: String,
    /// The last and the first state that was seen of each object.
    seen: HashMap<(usize, &'static str), (Value, Value)>,
    pub names: Names,
    /// Whether an object was given an owner.
    pub has_owned: bool,
    /// The revision at which the sequence began.
    pub began: String,
}

/// What a request is about.
pub struct Target {
    pub kind: &'static Kind,
    pub name: String,
    pub collection: String,
    /// The path of the object.
    pub object: String,
    /// What keeps a list of a kind without namespaces to the objects of this side.
    pub scope: String,
    query: String,
}

impl Target {
    /// The path of the object or of its status.
    fn path(&self, status: bool) -> String {
        let part = if status { "/status" } else { "" };
        format!("{}{part}", self.object)
    }

    /// A body with the kind and name of the object.
    pub fn typed(&self, body: &Value) -> Value {
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
            began: String::new(),
        }
    }

    /// A client that made the namespace of a sequence.
    pub async fn start(client: Client, seed: u64) -> Self {
        let mut side = Self::new(client, seed);
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": side.namespace}});
        let made = side
            .send(
                Method::POST,
                "/api/v1/namespaces",
                "application/json",
                Some(&namespace),
            )
            .await;
        text(&made.body["metadata"]["resourceVersion"]).clone_into(&mut side.began);
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
        let bytes = body
            .map(|body| serde_json::to_vec(body).unwrap())
            .unwrap_or_default();
        self.send_bytes(accept, method, path, media_type, bytes).await
    }

    pub async fn send_bytes(
        &self,
        accept: &str,
        method: Method,
        path: &str,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("accept", accept);
        if !media_type.is_empty() {
            request = request.header("content-type", media_type);
        }
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
        if body["kind"] == target.kind.kind && answer.code < 300 && !step.dry_run {
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
            Op::Create { .. }
            | Op::Put { .. }
            | Op::Merge { .. }
            | Op::Json { .. }
            | Op::Withdraw { .. }
            | Op::Apply { .. } => self.write(step, target).await,
            Op::Pages { limit } => self.pages(collection, object, *limit, &target.name).await,
            Op::Metadata { list } => {
                let is_list = *list && kind.namespaced;
                let path = if is_list { collection } else { object };
                self.metadata(path, is_list).await
            }
            Op::Table { list } => {
                let path = if *list && kind.namespaced {
                    collection
                } else {
                    object
                };
                self.table(path).await
            }
            Op::ListAt { how, limit } => self.list_at(step, target, how, *limit).await,
            Op::WatchList { labels } => self.watch_list(collection, labels, &target.scope).await,
            Op::DeleteAll { labels } => {
                let path = format!("{collection}?labelSelector={labels}{}", target.scope);
                self.send(Method::DELETE, &path, "", None).await
            }
            Op::Managers { reset } => self.change_managers(object, *reset).await,
            Op::Event { body, in_core } => self.event(body, *in_core).await,
            Op::Namespace { body, media_type } => {
                let path = format!("/api/v1/namespaces/{}?fieldManager=labeller", self.namespace);
                self.send(Method::PATCH, &path, media_type, Some(body)).await
            }
            Op::Get { status } => {
                self.send(Method::GET, &target.path(*status && kind.has_status), "", None)
                    .await
            }
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
            Op::Delete {
                uid,
                revision,
                policy,
            } => self.delete(step, target, (*uid, *revision), policy).await,
            Op::Odd { number } => self.odd(*number, target).await,
        }
    }

    async fn delete(&self, step: &Step, target: &Target, named: (Named, Named), policy: &str) -> Answer {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(uid) = self.uid(step, named.0) {
            options["preconditions"]["uid"] = uid.into();
        }
        if let Some(revision) = self.revision(step, named.1) {
            options["preconditions"]["resourceVersion"] = revision;
        }
        if !policy.is_empty() {
            options["propagationPolicy"] = policy.into();
        }
        if step.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        self.send_accepting(
            accept(step),
            Method::DELETE,
            &target.object,
            "application/json",
            Some(&options),
        )
        .await
    }

    /// A request that creates or changes an object. Any other is none of its kind.
    async fn write(&mut self, step: &Step, target: &Target) -> Answer {
        let dry_run = if step.dry_run { "&dryRun=All" } else { "" };
        let query = format!("{}{dry_run}", target.query);
        let (method, path, media_type, body) = match &step.op {
            Op::Create { body, generate_name } => {
                let mut body = target.typed(body);
                if *generate_name {
                    body["metadata"].as_object_mut().unwrap().remove("name");
                    body["metadata"]["generateName"] = "generated-".into();
                }
                self.add_owner(step, &mut body);
                let path = format!("{}?{query}&fieldManager=creator", target.collection);
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
                is_strategic,
            } => {
                let mut body = body.clone();
                self.name(step, &mut body, *revision, *uid);
                let path = format!("{}?{query}&fieldManager=patcher", target.path(*status));
                let media_type = if *is_strategic {
                    "application/strategic-merge-patch+json"
                } else {
                    "application/merge-patch+json"
                };
                (Method::PATCH, path, media_type, body)
            }
            Op::Json { body, status } => {
                let path = format!("{}?{query}&fieldManager=patcher", target.path(*status));
                (Method::PATCH, path, "application/json-patch+json", body.clone())
            }
            Op::Withdraw { revision, uid } => {
                let path = format!("{}?{query}&fieldManager=patcher", target.path(false));
                let body = self.withdrawal(step, *revision, *uid);
                (Method::PATCH, path, "application/json-patch+json", body)
            }
            Op::Apply {
                body,
                manager,
                force,
                revision,
                uid,
                status,
            } => {
                let mut body = target.typed(body);
                self.name(step, &mut body, *revision, *uid);
                let path = target.path(*status);
                let path = format!("{path}?{query}&fieldManager={manager}&force={force}");
                (Method::PATCH, path, "application/apply-patch+yaml", body)
            }
            other => panic!("{other:?} does not write"),
        };
        self.send_accepting(accept(step), method, &path, media_type, Some(&body))
            .await
    }

    /// The patch that takes the request out of a work.
    fn withdrawal(&self, step: &Step, revision: Named, uid: Named) -> Value {
        let mut patch = Vec::new();
        if let Some(uid) = self.uid(step, uid) {
            patch.push(json!({"op": "replace", "path": "/metadata/uid", "value": uid}));
        }
        if let Some(revision) = self.revision(step, revision) {
            patch.push(json!({"op": "replace", "path": "/metadata/resourceVersion", "value": revision}));
        }
        let manifest = "/spec/workload/manifests/0";
        patch.extend([
            json!({"op": "test", "path": format!("{manifest}/kind"), "value": "ClusterVersion"}),
            json!({"op": "remove", "path": format!("{manifest}/spec/desiredUpdate")}),
            json!({"op": "add", "path": "/metadata/annotations/example.com~1withdrawn", "value": "true"}),
        ]);
        Value::from(patch)
    }

    pub fn uid(&self, step: &Step, named: Named) -> Option<String> {
        let seen = self.seen.get(&(step.kind, step.name));
        match named {
            Named::None => None,
            Named::Current | Named::Old => Some(seen?.0["metadata"]["uid"].as_str()?.to_owned()),
            Named::Foreign => Some(FOREIGN_UID.to_owned()),
        }
    }

    pub fn revision(&self, step: &Step, named: Named) -> Option<Value> {
        let seen = self.seen.get(&(step.kind, step.name));
        match named {
            Named::None => None,
            Named::Current => seen.map(|seen| seen.0["metadata"]["resourceVersion"].clone()),
            Named::Old => seen.map(|seen| seen.1["metadata"]["resourceVersion"].clone()),
            Named::Foreign => Some(Value::from("1")),
        }
    }

    fn name(&self, step: &Step, body: &mut Value, revision: Named, uid: Named) {
        if let Some(revision) = self.revision(step, revision) {
            body["metadata"]["resourceVersion"] = revision;
        }
        if let Some(uid) = self.uid(step, uid) {
            body["metadata"]["uid"] = uid.into();
        }
    }
}

/// The form in which a write is answered.
fn accept(step: &Step) -> &'static str {
    if step.metadata_only {
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    } else {
        "application/json"
    }
}

/// The text of a value; empty if it is none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
