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

/// Requests that are too large, too deep or ambiguous, and reads that cannot begin where they are to. Texts are compared where they
/// are the server's own.
pub async fn limits(client: &Client) -> Vec<Value> {
    const LISTS: [&str; 10] = [
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=Exact&resourceVersion=0",
        "resourceVersionMatch=Newest&resourceVersion=1",
        "resourceVersionMatch=NotOlderThan&resourceVersion=1&continue=x",
        "sendInitialEvents=true",
        "watch=true&resourceVersionMatch=NotOlderThan",
        "watch=true&sendInitialEvents=true",
        "watch=true&sendInitialEvents=true&resourceVersionMatch=Exact",
        "limit=18446744073709551615",
        "timeoutSeconds=18446744073709551615",
    ];
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    const WORKS: &str = "/apis/work.open-cluster-management.io/v1/namespaces/default/manifestworks";
    const JSON: &str = "application/json";
    let side = Side::new(client.clone(), 0);
    let mut found = Vec::new();
    for query in LISTS {
        let answer = side
            .send(Method::GET, &format!("{UPGRADES}?{query}"), "", None)
            .await;
        let is_text_compared = answer.code == 422;
        let message = is_text_compared.then(|| answer.body["message"].clone());
        found.push(json!([
            answer.code,
            answer.body["reason"],
            answer.body["details"],
            message
        ]));
    }
    let map = |name: &str, size: usize, annotation: usize| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "annotations": {"Example.com/a": "x".repeat(annotation)}},
            "data": {"a": "x".repeat(size)},
        })
        .to_string()
    };
    let work = |levels: usize| {
        let (open, close) = ("{\"a\":[".repeat(levels / 2), "]}".repeat(levels / 2));
        format!(
            "{{\"apiVersion\":\"work.open-cluster-management.io/v1\",\"kind\":\"ManifestWork\",\"metadata\":{{\"name\":\"deep\"}},\
             \"spec\":{{\"workload\":{{\"manifests\":[{{\"apiVersion\":\"v1\",\"kind\":\"X\",\"data\":{open}1{close}}}]}}}}}}"
        )
    };
    let cluster = |seconds: u64| {
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": "limits"}, "spec": {"leaseDurationSeconds": seconds},
        })
        .to_string()
    };
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "limits"},
        "spec": {"leaseDurationSeconds": 3_000_000_000_u64},
    });
    let twice = |namespace: &str| {
        format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"twice\",\"name\":\"twice\"{namespace}}},\
             \"data\":{{\"a\":\"1\",\"a\":\"2\"}}}}"
        )
    };
    let works = &format!("{WORKS}?dryRun=All");
    let clusters = "/apis/cluster.open-cluster-management.io/v1/managedclusters?dryRun=All";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases?dryRun=All";
    let large = |size: usize| {
        let data = "x".repeat(size);
        json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "large"},
            "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "X", "data": data}]}},
        })
        .to_string()
    };
    let tried = format!("{MAPS}?dryRun=All");
    let strict = format!("{MAPS}?dryRun=All&fieldValidation=Strict");
    for (path, body) in [
        (MAPS, map("large", 3 * 1024 * 1024, 0)),
        (WORKS, large(1_700_000)),
        (tried.as_str(), map("large", 1_200_000, 0)),
        (&tried, map("noted", 1, 256 * 1024 - 13)),
        (&tried, map("noted", 1, 256 * 1024 - 12)),
        (works.as_str(), work(100)),
        (works.as_str(), work(1_000)),
        (works.as_str(), work(10_000)),
        (clusters, cluster(2_147_483_647)),
        (clusters, cluster(2_147_483_648)),
        (clusters, cluster(18_446_744_073_709_551_615)),
        (leases, lease.to_string()),
        (&strict, twice("")),
        (&tried, twice("")),
    ] {
        let answer = side
            .send_bytes(JSON, Method::POST, path, JSON, body.into_bytes())
            .await;
        let status = (answer.body["kind"] == "Status").then_some(&answer.body);
        let is_text_compared = matches!(answer.code, 413 | 422 | 500);
        let message = status
            .filter(|_| is_text_compared)
            .map(|status| &status["message"]);
        let reason = status.map(|status| &status["reason"]);
        found.push(json!([path, answer.code, reason, message, answer.warnings]));
    }
    for name in ["default", "kube-system", "kube-public"] {
        let path = format!("/api/v1/namespaces/{name}");
        let answer = side.send(Method::DELETE, &path, "", None).await;
        found.push(json!([answer.code, answer.body]));
    }
    for (path, selector) in [
        (
            "/api/v1/events",
            "involvedObject.name=nobody,reason=x,type!=Normal,source=x",
        ),
        (
            "/apis/events.k8s.io/v1/events",
            "regarding.name=nobody,reportingController=x",
        ),
        ("/apis/events.k8s.io/v1/events", "involvedObject.name=nobody"),
        ("/api/v1/events", "regarding.name=nobody"),
        (
            "/api/v1/namespaces",
            "status.phase=Terminating,metadata.name=nobody",
        ),
        ("/api/v1/namespaces", "metadata.namespace=x"),
        ("/api/v1/secrets", "type=nothing"),
        (MAPS, "type=nothing"),
    ] {
        let selector: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        let answer = side
            .send(Method::GET, &format!("{path}?fieldSelector={selector}"), "", None)
            .await;
        found.push(json!([path, selector, answer.code, answer.body["items"]]));
    }
    found
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
                    let release = json!({"metadata": {"finalizers": null}});
                    side.send(
                        Method::PATCH,
                        &path,
                        "application/merge-patch+json",
                        Some(&release),
                    )
                    .await;
                }
            }
        }
        if side.send(Method::GET, &path, "", None).await.code == 404 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let gone = side
        .send(Method::POST, &maps, "application/json", Some(&other))
        .await;
    found.push(json!([gone.code, gone.body]));
    found
}

/// The first difference of two lists of values.
pub fn difference(simulated: &[Value], real: &[Value]) -> Option<String> {
    let both = simulated.iter().zip(real);
    both.into_iter().find(|(one, two)| one != two).map(|(one, two)| {
        format!(
            "  simulated: {}\n  real:      {}",
            compare::difference(one, two),
            compare::difference(two, one)
        )
    })
}
