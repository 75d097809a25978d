//! What the conformance test cannot reach: the limited history, compaction, pages over changes, seeds, selectors and faults of
//! managers, through the same service.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bodies;
mod reads;

use std::collections::BTreeMap;
use std::convert::Infallible;

use futures::StreamExt as _;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hub_sim::{FieldSet, Hub, Managers, Options, Service};
use proptest::prelude::*;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

struct Client {
    hub: Hub,
    service: Service,
}

impl Client {
    fn new(history: usize, seed: u64) -> Self {
        let hub = Hub::new(Options {
            seed,
            history,
            ..Options::default()
        });
        let service = Service::new(&hub, "tester");
        Self { hub, service }
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let (code, text) = self.send_text(method, path, &body).await;
        (code, serde_json::from_str(&text).unwrap_or_default())
    }

    async fn send_text(&self, method: Method, path: &str, body: &str) -> (u16, String) {
        let media_type = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media_type);
        let response = self
            .service
            .handle(request.body(Full::<bytes::Bytes>::from(body.to_owned())).unwrap())
            .await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(bytes.to_vec()).unwrap())
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send(Method::GET, path, &Value::Null).await
    }

    async fn put(&self, name: &str, value: u32) {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value.to_string()}});
        let (code, _) = self.send(Method::PUT, &format!("{MAPS}/{name}"), &object).await;
        if code == 404 {
            self.send(Method::POST, MAPS, &object).await;
        }
    }

    async fn delete(&self, name: &str) {
        self.send(Method::DELETE, &format!("{MAPS}/{name}"), &Value::Null)
            .await;
    }

    /// The first lines of a watch.
    async fn watch(&self, query: &str, lines: usize) -> Vec<Value> {
        self.watch_while(query, |found| found.len() < lines).await
    }

    /// The lines of a watch until the object with a name.
    async fn watch_until(&self, query: &str, name: &str) -> Vec<Value> {
        let is_end = |line: &Value| line["object"]["metadata"]["name"] == name;
        self.watch_while(query, |found| !found.iter().any(is_end)).await
    }

    async fn watch_while(&self, query: &str, goes_on: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let request = Request::get(format!("{MAPS}?watch=true&{query}"))
            .body(Full::<bytes::Bytes>::default())
            .unwrap();
        let mut body = self.service.handle(request).await.into_body().into_data_stream();
        let mut found = Vec::new();
        while goes_on(&found) {
            let Some(bytes) = body.next().await else { break };
            let bytes: bytes::Bytes = bytes.unwrap_or_else(|never: Infallible| match never {});
            for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                found.push(serde_json::from_slice(line).unwrap());
            }
        }
        found
    }
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

fn content(list: &Value) -> BTreeMap<String, String> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let name = item["metadata"]["name"].as_str().unwrap().to_owned();
            (name, item["data"]["value"].as_str().unwrap().to_owned())
        })
        .collect()
}

#[tokio::test]
async fn a_watch_that_is_too_late_for_the_history_is_told_to_list_again() {
    let client = Client::new(3, 0);
    client.put("a", 0).await;
    let (_, list) = client.get(MAPS).await;
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    for value in 1..=3 {
        client.put("a", value).await;
    }
    let events = client.watch(&format!("resourceVersion={revision}"), 3).await;
    let values: Vec<&Value> = events
        .iter()
        .map(|event| &event["object"]["data"]["value"])
        .collect();
    assert_eq!(values, ["1", "2", "3"]);
    client.put("a", 4).await;
    let events = client.watch(&format!("resourceVersion={revision}"), 2).await;
    assert_eq!(events.len(), 1, "the watch ends after the error: {events:?}");
    assert_eq!(
        (&events[0]["type"], &events[0]["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(events[0]["object"]["reason"], "Expired");
}

#[tokio::test]
async fn compaction_ends_pages_and_watches_of_older_revisions() {
    let client = Client::new(1000, 0);
    for name in ["a", "b", "c"] {
        client.put(name, 0).await;
    }
    let (_, first) = client.get(&format!("{MAPS}?limit=2")).await;
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    client.put("c", 1).await;
    let (code, rest) = client.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!(
        (code, content(&rest)["c"].as_str()),
        (200, "0"),
        "pages show one state"
    );
    client.hub.compact(client.hub.read(hub_sim::State::revision));
    let (code, gone) = client.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!((code, &gone["reason"]), (410, &json!("Expired")));
    let (code, _) = client.get(MAPS).await;
    assert_eq!(code, 200);
    let events = client.watch("resourceVersion=2", 1).await;
    assert_eq!(events[0]["object"]["code"], 410);
}

#[tokio::test]
async fn a_restored_hub_has_the_objects_and_the_revision_of_its_snapshot_and_tells_of_what_follows() {
    let client = Client::new(1000, 0);
    client.put("a", 0).await;
    let snapshot = client.hub.snapshot();
    let before = client.hub.read(hub_sim::State::revision);
    client.put("a", 1).await;
    client.put("b", 1).await;
    let (_, first) = client.get(&format!("{MAPS}?limit=1")).await;
    client.hub.restore(snapshot);
    // The rest of the list is of a time that does not exist any more.
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (code, _) = client.get(&format!("{MAPS}?limit=1&continue={token}")).await;
    assert_eq!(code, 500);
    let (_, list) = client.get(MAPS).await;
    assert_eq!(list["metadata"]["resourceVersion"], before.to_string());
    assert_eq!(content(&list), BTreeMap::from([("a".to_owned(), "0".to_owned())]));
    client.put("c", 2).await;
    let events = client.watch(&format!("resourceVersion={before}"), 1).await;
    assert_eq!(events[0]["object"]["metadata"]["name"], "c");
}

#[tokio::test]
async fn a_revision_that_does_not_exist_yet_is_a_timeout() {
    let client = Client::new(10, 0);
    for query in ["resourceVersion=1000000", "watch=true&resourceVersion=1000000"] {
        let (code, status) = client.get(&format!("{MAPS}?{query}")).await;
        assert_eq!((code, &status["reason"]), (504, &json!("Timeout")));
        assert_eq!(
            status["details"]["causes"][0]["reason"],
            "ResourceVersionTooLarge"
        );
    }
}

#[tokio::test]
async fn the_same_seed_gives_the_same_uids_and_names() {
    let mut found = Vec::new();
    for seed in [7, 7, 8] {
        let client = Client::new(10, seed);
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-"}});
        let (code, object) = client.send(Method::POST, MAPS, &body).await;
        assert_eq!(code, 201);
        found.push((
            object["metadata"]["name"].clone(),
            object["metadata"]["uid"].clone(),
        ));
    }
    assert_eq!(found[0], found[1]);
    assert_ne!(found[0], found[2]);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_in_virtual_time() {
    let client = Client::new(10, 0);
    client.put("a", 0).await;
    let events = client
        .watch(
            "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            4,
        )
        .await;
    let kinds: Vec<&Value> = events.iter().map(|event| &event["type"]).collect();
    assert_eq!(kinds, ["ADDED", "BOOKMARK", "BOOKMARK", "BOOKMARK"]);
    assert_eq!(
        events[1]["object"]["metadata"]["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
    let started = tokio::time::Instant::now();
    assert_eq!(
        client.watch("resourceVersion=1&timeoutSeconds=90", 9).await.len(),
        1
    );
    assert_eq!(started.elapsed().as_secs(), 90, "a watch ends with its time-out");
}

#[tokio::test]
async fn selectors_select() {
    let client = Client::new(100, 0);
    for (name, labels) in [
        ("a", json!({"x": "1"})),
        ("b", json!({"x": "2", "y": "1"})),
        ("c", json!({})),
    ] {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}});
        client.send(Method::POST, MAPS, &object).await;
    }
    for (selector, wanted) in [
        ("x", "a b"),
        ("!x", "c"),
        ("x=1", "a"),
        ("x==1", "a"),
        ("x!=1", "b c"),
        ("x in (1, 2),y", "b"),
        ("x notin (2)", "a c"),
        ("y,x=2", "b"),
    ] {
        let selector: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        let (_, list) = client.get(&format!("{MAPS}?labelSelector={selector}")).await;
        assert_eq!(names(&list).join(" "), wanted, "{selector}");
    }
    let (_, list) = client
        .get(&format!(
            "{MAPS}?fieldSelector=metadata.name%21%3Db,metadata.namespace%3Ddefault"
        ))
        .await;
    assert_eq!(names(&list), ["a", "c"]);
    assert_eq!(
        client.get(&format!("{MAPS}?fieldSelector=data.x%3D1")).await.0,
        400
    );
    assert_eq!(
        client.get(&format!("{MAPS}?labelSelector=x%20in%201")).await.0,
        400
    );
}

/// A change of a random history: put a value, or delete.
fn changes() -> impl Strategy<Value = Vec<(u8, Option<u8>)>> {
    prop::collection::vec((0..6_u8, prop::option::weighted(0.7, 0..9_u8)), 0..25)
}

async fn play(client: &Client, changes: &[(u8, Option<u8>)]) {
    for (name, value) in changes {
        let name = format!("m{name}");
        match value {
            Some(value) => client.put(&name, u32::from(*value)).await,
            None => client.delete(&name).await,
        }
    }
}

proptest! {
    #[test]
    fn pages_show_the_state_at_the_first_page(before in changes(), between in prop::collection::vec(changes(), 0..4), limit in 1..4_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Client::new(10_000, 0);
            play(&client, &before).await;
            let (_, whole) = client.get(MAPS).await;
            let mut pages = BTreeMap::new();
            let mut between = between.into_iter();
            let mut token = String::new();
            loop {
                let (code, page) = client.get(&format!("{MAPS}?limit={limit}&continue={token}")).await;
                assert_eq!(code, 200);
                assert!(names(&page).len() <= limit);
                pages.extend(content(&page));
                token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
                if token.is_empty() {
                    break;
                }
                play(&client, &between.next().unwrap_or_default()).await;
            }
            assert_eq!(pages, content(&whole));
        });
    }

    #[test]
    fn a_watch_leads_from_a_list_to_the_next(before in changes(), after in changes()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Client::new(10_000, 0);
            play(&client, &before).await;
            let (_, list) = client.get(MAPS).await;
            let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
            play(&client, &after).await;
            client.put("zz", 1).await;
            let mut state = content(&list);
            let mut last = 0;
            for event in client.watch_until(&format!("resourceVersion={revision}"), "zz").await {
                    let object = &event["object"];
                    let at: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                    assert!(at > last, "events are in the order of revisions");
                    last = at;
                    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                    let value = object["data"]["value"].as_str().unwrap().to_owned();
                    let had = match event["type"].as_str().unwrap() {
                        "DELETED" => state.remove(&name).is_some(),
                        "ADDED" => state.insert(name, value).is_none(),
                        _ => state.insert(name, value).is_some(),
                    };
                    assert!(had, "{event}");
                }
            assert_eq!(state, content(&client.get(MAPS).await.1));
        });
    }

    #[test]
    fn managed_fields_are_read_as_they_are_written(fields in prop::collection::vec("[a-c](/[a-c]){0,2}", 0..8)) {
        let mut tree = json!({});
        for field in &fields {
            let mut at = &mut tree;
            for step in field.split('/') {
                at = &mut at[format!("f:{step}")];
                if at.is_null() {
                    *at = json!({});
                }
            }
        }
        let set = FieldSet::from_fields_v1(&tree).unwrap();
        prop_assert_eq!(FieldSet::from_fields_v1(&set.to_fields_v1()).unwrap(), set.clone());
        let entry = json!([{
            "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": set.to_fields_v1(), "manager": "m", "operation": "Update",
            "subresource": "status", "time": "2026-01-01T00:00:00Z",
        }]);
        let managers = Managers::from_json(entry.as_array().unwrap()).unwrap();
        prop_assert_eq!(managers.to_json(), entry);
    }
}

#[test]
fn malformed_managed_fields_are_refused() {
    for (field, value) in [
        ("operation", json!("Guess")),
        ("apiVersion", json!("")),
        ("fieldsType", json!("FieldsV2")),
        ("fieldsV1", json!({"x": {}})),
        ("fieldsV1", json!({"k:no json": {}})),
    ] {
        let mut entry = json!({"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}, "manager": "m", "operation": "Apply"});
        entry[field] = value;
        assert!(Managers::from_json(&[entry.clone()]).is_err(), "{entry}");
    }
}
