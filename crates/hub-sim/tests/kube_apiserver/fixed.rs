//! Requests that are too slow, or too much for the whole server, to be drawn at random.

use std::time::Duration;

use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::compare;
use crate::side::Side;

const UPGRADES: &str =
    "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/default/managedclustersupgrades";

/// The garbage collector learns of new kinds now and then. Waits until it knows ours.
pub async fn wait_for_garbage_collector(client: &Client) {
    let side = Side::new(client.clone(), 0);
    let upgrade = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
        "metadata": {"name": "first"}, "spec": {"clusterVersion": {"version": "4.15.3"}},
    });
    let created = side
        .send(Method::POST, UPGRADES, "application/json", Some(&upgrade))
        .await;
    assert_eq!(created.code, 201, "{}", created.body);
    let path = format!("{UPGRADES}/first");
    let policy = json!({"propagationPolicy": "Foreground"});
    side.send(Method::DELETE, &path, "application/json", Some(&policy))
        .await;
    side.wait_for_garbage_collector(&path).await;
}

/// Revisions that do not exist yet, and revisions that are forgotten. Numbers in texts differ.
pub async fn revisions(client: &Client) -> Vec<Value> {
    let side = Side::new(client.clone(), 0);
    let list = side
        .send(
            Method::GET,
            &format!("{UPGRADES}?resourceVersion=9000000000000"),
            "",
            None,
        )
        .await;
    let watch = Request::get(format!(
        "{UPGRADES}?watch=true&resourceVersion=1&timeoutSeconds=5"
    ))
    .body(Vec::new())
    .unwrap();
    let mut lines = client.request_stream(watch).await.unwrap().lines();
    let event = lines
        .try_next()
        .await
        .unwrap()
        .unwrap_or_else(|| "null".to_owned());
    let event: Value = serde_json::from_str(&event).unwrap();
    let end = lines.try_next().await.unwrap();
    let token = side
        .send(
            Method::GET,
            &format!("{UPGRADES}?limit=1&continue=nonsense"),
            "",
            None,
        )
        .await;
    let selector = side
        .send(
            Method::GET,
            &format!("{UPGRADES}?fieldSelector=spec.paused%3Dtrue"),
            "",
            None,
        )
        .await;
    let kind = side
        .send(
            Method::GET,
            "/apis/cluster.open-cluster-management.io/v1/nonsense",
            "",
            None,
        )
        .await;
    let answers = [list, token, selector, kind];
    let codes: Vec<Value> = answers
        .iter()
        .map(|answer| json!([answer.code, answer.body["reason"], answer.body["details"]]))
        .collect();
    vec![
        codes.into(),
        json!([
            event["type"],
            event["object"]["code"],
            event["object"]["reason"],
            end
        ]),
    ]
}

/// What becomes of owners and their dependents: owners `o…` that are deleted in the foreground, dependents `d…` that have another
/// owner, do not block or are held, and owners of unknown kinds.
pub async fn owners(client: &Client) -> Vec<Value> {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let side = Side::new(client.clone(), 0);
    let create = async |name: &str, owners: Value, finalizers: Value| {
        let metadata = json!({"name": name, "ownerReferences": owners, "finalizers": finalizers});
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        let created = side
            .send(Method::POST, MAPS, "application/json", Some(&body))
            .await;
        assert_eq!(created.code, 201, "{}", created.body);
        let uid = &created.body["metadata"]["uid"];
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": true})
    };
    let mut owners = Vec::new();
    for name in ["o1", "o2", "o3", "o4"] {
        owners.push(create(name, json!([]), json!([])).await);
    }
    create("d1", json!([owners[0], owners[1]]), json!([])).await;
    owners[2]["blockOwnerDeletion"] = false.into();
    create("d3", json!([owners[2]]), json!(["example.com/hold"])).await;
    let middle = create("d4", json!([owners[3]]), json!([])).await;
    create("d5", json!([middle]), json!(["example.com/hold"])).await;
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Unknown", "name": "x", "uid": "x"});
    create("d6", json!([unknown]), json!([])).await;
    let policy = json!({"propagationPolicy": "Foreground"});
    for name in ["o1", "o3", "o4"] {
        side.send(
            Method::DELETE,
            &format!("{MAPS}/{name}"),
            "application/json",
            Some(&policy),
        )
        .await;
    }
    let mut found = Vec::new();
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_secs(3)).await;
        for name in ["o1", "o2", "o3", "o4", "d1", "d3", "d4", "d5", "d6"] {
            let object = side.send(Method::GET, &format!("{MAPS}/{name}"), "", None).await;
            let metadata = &object.body["metadata"];
            let owners = metadata["ownerReferences"].as_array().map(Vec::len);
            found.push(json!([name, object.code, metadata["finalizers"], owners]));
        }
        // What was held is released, and with it the owners that waited.
        for name in ["d3", "d5"] {
            release(&side, &format!("{MAPS}/{name}")).await;
        }
    }
    found
}

/// Takes all finalizers from an object.
async fn release(side: &Side, path: &str) {
    let released = json!({"metadata": {"finalizers": null}});
    side.send(
        Method::PATCH,
        path,
        "application/merge-patch+json",
        Some(&released),
    )
    .await;
}

/// The end of a namespace whose content is held: nothing can be created in it, and it goes with the last finalizer.
pub async fn end_of_namespace(side: &mut Side) -> Vec<Value> {
    let namespace = side.namespace().to_owned();
    let path = format!("/api/v1/namespaces/{namespace}");
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]},
    });
    let maps = format!("{path}/configmaps");
    let mut found = Vec::new();
    let created = side
        .send(Method::POST, &maps, "application/json", Some(&held))
        .await;
    let deleted = side.send(Method::DELETE, &path, "", None).await;
    let mut other = held.clone();
    other["metadata"] = json!({"name": "other"});
    let refused = side
        .send(Method::POST, &maps, "application/json", Some(&other))
        .await;
    for mut answer in [created, deleted, refused] {
        side.normalize(&mut answer);
        found.push(json!([answer.code, answer.body]));
    }
    // Whatever else sequences left is released, too.
    loop {
        for kind in &crate::objects::KINDS {
            if !kind.namespaced {
                continue;
            }
            let collection = side.collection(kind);
            let list = side.send(Method::GET, &collection, "", None).await;
            for item in list.body["items"].as_array().into_iter().flatten() {
                let path = format!("{collection}/{}", item["metadata"]["name"].as_str().unwrap());
                if item["metadata"]["deletionTimestamp"].is_string() {
                    release(side, &path).await;
                }
            }
        }
        if side.send(Method::GET, &path, "", None).await.code == 404 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The admission of a real server learns from a watch that the namespace is gone.
    let gone = loop {
        let gone = side
            .send(Method::POST, &maps, "application/json", Some(&other))
            .await;
        if gone.body["details"]["causes"][0]["reason"] != "NamespaceTerminating" {
            break gone;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    found.push(json!([gone.code, gone.body]));
    found
}

/// The differences of two lists of values.
pub fn difference(simulated: &[Value], real: &[Value]) -> Option<String> {
    let both = simulated.iter().zip(real).filter(|(one, two)| one != two);
    let found: Vec<String> = both
        .map(|(one, two)| {
            format!(
                "  simulated: {}\n  real:      {}",
                compare::difference(one, two),
                compare::difference(two, one)
            )
        })
        .collect();
    (!found.is_empty()).then(|| found.join("\n"))
}
