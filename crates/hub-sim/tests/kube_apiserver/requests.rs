//! Requests that are more than one request, and what must be waited for after them.

use std::time::Duration;

use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use http::{Method, Request};
use serde_json::{Value, json};

use crate::compare::Answer;
use crate::objects::KINDS;
use crate::side::{Side, Target, text};
use crate::steps::{Named, Step};

/// The upgrade that owns the config map `c`.
const OWNER: (usize, &str) = (1, "a");
/// The config map that has owners: only one object, so that the order of events is determined.
const OWNED: (usize, &str) = (5, "c");

impl Side {
    /// All pages of a list. Between the first and the second, an object gets a label, which the pages must not show.
    pub async fn pages(&mut self, collection: &str, object: &str, limit: u64, name: &str) -> Answer {
        let mut pages = Vec::new();
        let mut token = String::new();
        loop {
            let page = self
                .send(
                    Method::GET,
                    &format!("{collection}?limit={limit}&continue={token}"),
                    "",
                    None,
                )
                .await;
            let next = page.body["metadata"]["continue"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            // Clusters of other sequences come and go.
            if !collection.contains("/namespaces/") {
                break;
            }
            let code = page.code;
            pages.push(page.body);
            if code != 200 || next.is_empty() {
                break;
            }
            if token.is_empty() {
                let change = json!({"metadata": {"labels": {"paged": name}}});
                let path = format!("{object}?fieldManager=pager");
                self.send(
                    Method::PATCH,
                    &path,
                    "application/merge-patch+json",
                    Some(&change),
                )
                .await;
            }
            token = next;
        }
        Answer {
            code: 200,
            body: pages.into(),
            warnings: Vec::new(),
        }
    }

    /// An object or a list as `PartialObjectMetadata`.
    pub async fn metadata(&self, path: &str, list: bool) -> Answer {
        let form = if list {
            "PartialObjectMetadataList"
        } else {
            "PartialObjectMetadata"
        };
        let accept = format!("application/json;as={form};g=meta.k8s.io;v=v1");
        self.send_accepting(&accept, Method::GET, path, "", None).await
    }

    /// What a watch shows of the objects that exist, until the bookmark that ends them.
    pub async fn watch_list(&self, collection: &str, labels: &str, scope: &str) -> Answer {
        let path = format!(
            "{collection}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan\
             &labelSelector={labels}&timeoutSeconds=60{scope}"
        );
        let request = Request::get(path).body(Vec::new()).unwrap();
        let mut lines = self.client().request_stream(request).await.unwrap().lines();
        let mut events = Vec::new();
        while let Some(line) = lines.try_next().await.unwrap() {
            let mut event: Value = serde_json::from_str(&line).unwrap();
            let is_end = event["type"] == "BOOKMARK";
            if is_end {
                event["object"]["metadata"]["resourceVersion"] = Value::Null;
            }
            events.push(event);
            if is_end {
                break;
            }
        }
        Answer {
            code: 200,
            body: events.into(),
            warnings: Vec::new(),
        }
    }

    /// Forgets the managers of an object, or makes one of updates one of applies, as kubectl does for objects that it applied
    /// before there was server-side apply.
    pub async fn change_managers(&self, object: &str, reset: bool) -> Answer {
        let found = self.send(Method::GET, object, "", None).await;
        let mut managers = found.body["metadata"]["managedFields"].clone();
        if reset || !managers.is_array() {
            // An empty list asks for the same, but not of custom kinds.
            let is_empty = object.rsplit('/').next().unwrap().starts_with('b');
            managers = if is_empty { json!([]) } else { json!([{}]) };
        }
        for manager in managers
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .filter(|manager| manager["manager"] == "creator")
        {
            manager["manager"] = "one".into();
            manager["operation"] = "Apply".into();
        }
        let change = json!([
            {"op": "replace", "path": "/metadata/managedFields", "value": managers},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": found.body["metadata"]["resourceVersion"]},
        ]);
        let path = format!("{object}?fieldManager=migrator");
        self.send(Method::PATCH, &path, "application/json-patch+json", Some(&change))
            .await
    }

    /// Records an event, reads it in the form of the other group, and counts it again.
    pub async fn event(&self, body: &Value, in_core: bool) -> Answer {
        let namespace = self.namespace();
        let mut body = body.clone();
        let core = format!("/api/v1/namespaces/{namespace}/events");
        let new = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        body["kind"] = "Event".into();
        let name = if in_core { "event-of-core" } else { "event" };
        body["metadata"] = json!({"name": name, "namespace": namespace});
        body["regarding"]["namespace"] = namespace.into();
        let (path, other, count) = if in_core {
            body["apiVersion"] = "v1".into();
            let names = [
                ("regarding", "involvedObject"),
                ("note", "message"),
                ("reportingController", "reportingComponent"),
            ];
            for (name, core) in names {
                if let Some(value) = body.as_object_mut().unwrap().remove(name) {
                    body[core] = value;
                }
            }
            (
                core,
                new,
                json!({"count": 2, "lastTimestamp": "2026-01-01T00:00:01Z"}),
            )
        } else {
            body["apiVersion"] = "events.k8s.io/v1".into();
            (
                new,
                core,
                json!({"series": {"count": 3, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}),
            )
        };
        let created = self
            .send(Method::POST, &path, "application/json", Some(&body))
            .await;
        let read = self.send(Method::GET, &format!("{other}/{name}"), "", None).await;
        let counted = self
            .send(
                Method::PATCH,
                &format!("{path}/{name}?fieldManager=recorder"),
                "application/strategic-merge-patch+json",
                Some(&count),
            )
            .await;
        let mut body = json!([created.body, read.code, read.body, counted.code, counted.body]);
        if in_core {
            // The managers know the group that was written; the simulated hub knows one only.
            for at in [0, 2, 4] {
                if let Some(meta) = body[at]["metadata"].as_object_mut() {
                    meta.remove("managedFields");
                }
            }
        }
        Answer { body, ..created }
    }

    /// An object or a list as rows. Ages differ, and what the server says about columns.
    pub async fn table(&self, path: &str) -> Answer {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        let mut answer = self.send_accepting(accept, Method::GET, path, "", None).await;
        let columns = answer.body["columnDefinitions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let is_age = |at: usize| columns.get(at).is_some_and(|column| column["name"] == "Age");
        for column in answer.body["columnDefinitions"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            column["description"] = Value::Null;
        }
        for row in answer.body["rows"].as_array_mut().into_iter().flatten() {
            for (at, cell) in row["cells"].as_array_mut().into_iter().flatten().enumerate() {
                if is_age(at) {
                    *cell = "…".into();
                }
            }
        }
        answer
    }

    /// A list that need not be the newest. The server has just shown the newest, so its cache is no older.
    pub async fn list_at(&self, step: &Step, target: &Target, how: &str, limit: u64) -> Answer {
        let list = format!("{}?limit={limit}{}", target.collection, target.scope);
        let newest = self.send(Method::GET, &list, "", None).await;
        let revision = match how {
            "cached" => "resourceVersion=0".to_owned(),
            how => {
                let old = self.revision(step, Named::Old);
                let old = old.as_ref().map_or("", text);
                let old = if old.is_empty() { &self.began } else { old };
                format!("resourceVersion={old}&resourceVersionMatch={how}")
            }
        };
        let listed = self
            .send(Method::GET, &format!("{list}&{revision}"), "", None)
            .await;
        Answer {
            body: json!([newest.body, listed.body]),
            ..listed
        }
    }

    /// Some objects have an owner.
    pub fn add_owner(&mut self, step: &Step, body: &mut Value) {
        if (step.kind, step.name) != OWNED {
            return;
        }
        let owner = Step {
            kind: OWNER.0,
            name: OWNER.1,
            ..step.clone()
        };
        if let Some(uid) = self.uid(&owner, Named::Current) {
            let kind = &KINDS[OWNER.0];
            self.has_owned = true;
            body["metadata"]["ownerReferences"] = json!([{
                "apiVersion": kind.api_version, "kind": kind.kind, "name": OWNER.1, "uid": uid,
                "blockOwnerDeletion": step.validation != "Warn",
            }]);
        }
    }

    /// The garbage collector removes its finalizers when it has done what they ask for.
    pub async fn wait_for_garbage_collector(&self, object: &str) {
        loop {
            let found = self.send(Method::GET, object, "", None).await;
            let finalizers = found.body["metadata"]["finalizers"].as_array();
            let is_waiting = finalizers.is_some_and(|list| {
                list.iter()
                    .any(|name| name == "orphan" || name == "foregroundDeletion")
            });
            if !is_waiting || self.is_blocked(&found.body).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Whether an owner waits for an object that is held.
    async fn is_blocked(&self, owner: &Value) -> bool {
        let dependent = self.owned().await;
        let references = dependent["metadata"]["ownerReferences"].as_array();
        let blocks = |reference: &Value| {
            reference["uid"] == owner["metadata"]["uid"] && reference["blockOwnerDeletion"] == true
        };
        references.is_some_and(|list| list.iter().any(blocks))
            && dependent["metadata"]["deletionTimestamp"].is_string()
    }

    async fn owned(&self) -> Value {
        let path = format!("{}/{}", self.collection(&KINDS[OWNED.0]), OWNED.1);
        self.send(Method::GET, &path, "", None).await.body
    }

    /// An object whose owner is gone is deleted, and one that is gone frees its owner.
    pub async fn wait_for_owned(&self) {
        let owner = format!("{}/{}", self.collection(&KINDS[OWNER.0]), OWNER.1);
        loop {
            let dependent = self.owned().await;
            let reference = dependent["metadata"]["ownerReferences"][0]["uid"].clone();
            let is_deleting = dependent["metadata"]["deletionTimestamp"].is_string();
            let found = self.send(Method::GET, &owner, "", None).await;
            if reference.is_null() || is_deleting || found.body["metadata"]["uid"] == reference {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.wait_for_garbage_collector(&owner).await;
    }
}
