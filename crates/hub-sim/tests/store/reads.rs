//! What lists, watches and reads begin with, and what they select.

use http::{Method, Request};
use hub_sim::{Service, State};
use serde_json::{Value, json};

use super::{Client, MAPS, content, names};

fn revision_of(client: &Client) -> u64 {
    client.hub.read(State::revision)
}

/// The same hub through an API server whose cache is behind.
fn behind(client: &Client, revisions: u64) -> Client {
    Client {
        hub: client.hub.clone(),
        service: Service::new(&client.hub, "tester").behind(revisions),
    }
}

fn value_in(list: &Value) -> Option<String> {
    content(list).get("a").cloned()
}

#[tokio::test]
async fn a_cache_that_is_behind_shows_old_objects_to_those_who_take_any() {
    let fresh = Client::new(1000, 0);
    for value in 0..5 {
        fresh.put("a", value).await;
    }
    let now = revision_of(&fresh);
    let stale = behind(&fresh, 2);
    for (query, wanted) in [
        (String::new(), "4"),
        ("?limit=10".to_owned(), "4"),
        ("?resourceVersion=0".to_owned(), "2"),
        ("?resourceVersion=0&limit=10".to_owned(), "2"),
        (format!("?resourceVersion={}", now - 3), "2"),
        (format!("?resourceVersion={}", now - 1), "3"),
        (format!("?resourceVersion={now}"), "4"),
        (
            format!("?resourceVersion={}&resourceVersionMatch=Exact", now - 4),
            "0",
        ),
        (format!("?resourceVersion={}&limit=10", now - 4), "0"),
    ] {
        let (code, list) = stale.get(&format!("{MAPS}{query}")).await;
        assert_eq!((code, value_in(&list).as_deref()), (200, Some(wanted)), "{query}");
        let (code, map) = stale.get(&format!("{MAPS}/a{query}")).await;
        if !query.contains("limit") && !query.contains("Exact") {
            assert_eq!((code, &map["data"]["value"]), (200, &json!(wanted)), "{query}");
        }
    }
    let (_, list) = stale.get(&format!("{MAPS}?resourceVersion=0")).await;
    assert_eq!(list["metadata"]["resourceVersion"], (now - 2).to_string());
    let (_, list) = fresh.get(&format!("{MAPS}?resourceVersion=0")).await;
    assert_eq!(value_in(&list).as_deref(), Some("4"));
}

#[tokio::test]
async fn a_watch_of_a_cache_that_is_behind_begins_with_old_objects_and_catches_up() {
    let fresh = Client::new(1000, 0);
    for value in 0..4 {
        fresh.put("a", value).await;
    }
    let stale = behind(&fresh, 2);
    for (query, wanted) in [
        ("resourceVersion=0", vec!["1", "2", "3"]),
        (
            "resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
            vec!["2", "3"],
        ),
        ("allowWatchBookmarks=true", vec!["3"]),
    ] {
        let events = stale.watch(query, wanted.len()).await;
        let values: Vec<&Value> = events
            .iter()
            .map(|event| &event["object"]["data"]["value"])
            .collect();
        assert_eq!(values, wanted, "{query}");
    }
}

#[tokio::test]
async fn a_cache_is_never_older_than_what_is_remembered() {
    let client = Client::new(2, 0);
    for value in 0..9 {
        client.put("a", value).await;
    }
    let (code, list) = behind(&client, 1000)
        .get(&format!("{MAPS}?resourceVersion=0"))
        .await;
    assert_eq!((code, value_in(&list).as_deref()), (200, Some("6")));
}

#[tokio::test]
async fn what_a_read_cannot_begin_with_is_refused() {
    let client = Client::new(10, 0);
    client.put("a", 1).await;
    for (query, said) in [
        (
            "resourceVersionMatch=Exact",
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless \
             resourceVersion is provided",
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        (
            "resourceVersionMatch=Newest&resourceVersion=1",
            "Unsupported value: \"Newest\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
        ),
        (
            "sendInitialEvents=true",
            "sendInitialEvents is forbidden for list",
        ),
        (
            "watch=true&resourceVersionMatch=NotOlderThan",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (
            "watch=true&sendInitialEvents=true",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "watch=true&sendInitialEvents=true&resourceVersionMatch=Exact",
            "Unsupported value: \"Exact\": supported values: \"NotOlderThan\"",
        ),
    ] {
        let (code, status) = client.get(&format!("{MAPS}?{query}")).await;
        assert_eq!((code, &status["reason"]), (422, &json!("Invalid")), "{query}");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains(said), "{query}: {message}");
    }
}

#[tokio::test]
async fn events_namespaces_and_secrets_are_selected_by_their_fields() {
    let client = Client::new(100, 0);
    for (name, object, reason) in [("e1", "c1", "Started"), ("e2", "c2", "Failed")] {
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name},
            "regarding": {"kind": "ManagedCluster", "name": object, "namespace": "default"},
            "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": reason, "action": "A", "note": "n",
            "reportingController": "example.com/c", "reportingInstance": "c-1",
        });
        let path = "/apis/events.k8s.io/v1/namespaces/default/events";
        let (code, answer) = client.send(Method::POST, path, &event).await;
        assert_eq!(code, 201, "{answer}");
    }
    for (path, selector, wanted) in [
        ("/api/v1/events", "involvedObject.name=c1,type=Normal", "e1"),
        (
            "/api/v1/events",
            "involvedObject.kind=ManagedCluster,reason!=Started",
            "e2",
        ),
        (
            "/api/v1/namespaces/default/events",
            "source=example.com/c",
            "e1 e2",
        ),
        ("/apis/events.k8s.io/v1/events", "regarding.name=c2", "e2"),
        ("/apis/events.k8s.io/v1/events", "reportingController=other", ""),
        ("/api/v1/namespaces", "status.phase=Terminating", ""),
        (
            "/api/v1/namespaces",
            "status.phase=Active,metadata.name=default",
            "default",
        ),
    ] {
        let selector: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        let (code, list) = client.get(&format!("{path}?fieldSelector={selector}")).await;
        assert_eq!(
            (code, names(&list).join(" ")),
            (200, wanted.to_owned()),
            "{selector}"
        );
    }
    for (path, selector) in [
        ("/apis/events.k8s.io/v1/events", "involvedObject.name"),
        ("/api/v1/events", "regarding.name"),
        ("/api/v1/namespaces", "metadata.namespace"),
        (MAPS, "type"),
    ] {
        let (code, _) = client.get(&format!("{path}?fieldSelector={selector}%3Dx")).await;
        assert_eq!(code, 400, "{selector}");
    }
}

#[tokio::test]
async fn the_namespaces_of_the_server_cannot_be_deleted() {
    let client = Client::new(10, 0);
    for name in ["default", "kube-system", "kube-public"] {
        let path = format!("/api/v1/namespaces/{name}");
        let (code, status) = client.send(Method::DELETE, &path, &Value::Null).await;
        assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
        assert_eq!(client.get(&path).await.1["status"]["phase"], "Active");
    }
}

#[tokio::test]
async fn a_watch_that_is_not_read_holds_little_and_sends_everything() {
    use futures::StreamExt as _;
    use http_body_util::{BodyExt as _, Full};

    let client = Client::new(10_000, 0);
    let request = Request::get(format!(
        "{MAPS}?watch=true&resourceVersion={}",
        revision_of(&client)
    ))
    .body(Full::<bytes::Bytes>::default())
    .unwrap();
    let watch = client.service.handle(request).await;
    let large = "x".repeat(10_000);
    for number in 0..200 {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{number}")}, "data": {"a": large},
        });
        client.send(Method::POST, MAPS, &map).await;
    }
    let mut body = watch.into_body().into_data_stream();
    let mut lines = 0;
    while lines < 200 {
        let batch = body.next().await.unwrap().unwrap();
        assert!(batch.len() < 300_000, "{} bytes at once", batch.len());
        lines += batch.split(|byte| *byte == b'\n').count() - 1;
    }
    assert_eq!(lines, 200);
}
