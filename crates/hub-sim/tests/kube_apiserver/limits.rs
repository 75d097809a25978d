//! Requests that are too large, too deep or ambiguous, reads that cannot begin where they are to, options and types that are refused, and
//! what can be selected by. Texts are compared where they are the server's own.

use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::side::Side;

const JSON: &str = "application/json";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAPS_TRIED: &str = "/api/v1/namespaces/default/configmaps?dryRun=All";
const MAPS_STRICT: &str = "/api/v1/namespaces/default/configmaps?dryRun=All&fieldValidation=Strict";
const WORKS: &str = "/apis/work.open-cluster-management.io/v1/namespaces/default/manifestworks";
const WORKS_TRIED: &str =
    "/apis/work.open-cluster-management.io/v1/namespaces/default/manifestworks?dryRun=All";
const CLUSTERS: &str = "/apis/cluster.open-cluster-management.io/v1/managedclusters";
const CLUSTERS_TRIED: &str = "/apis/cluster.open-cluster-management.io/v1/managedclusters?dryRun=All";
const LEASES_TRIED: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases?dryRun=All";

/// All answers.
pub async fn limits(client: &Client) -> Vec<Value> {
    let side = Side::new(client.clone(), 0);
    let mut found = reads(&side).await;
    found.extend(writes(&side).await);
    found.extend(selections(&side).await);
    found.extend(options(&side).await);
    found.extend(types(&side).await);
    for name in ["default", "kube-system", "kube-public"] {
        let path = format!("/api/v1/namespaces/{name}");
        let answer = side.send(Method::DELETE, &path, "", None).await;
        found.push(json!([answer.code, answer.body]));
    }
    found
}

async fn reads(side: &Side) -> Vec<Value> {
    let mut found = Vec::new();
    for query in [
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
    ] {
        let answer = side.send(Method::GET, &format!("{MAPS}?{query}"), "", None).await;
        let body = &answer.body;
        let message = (answer.code == 422).then_some(&body["message"]);
        found.push(json!([
            query,
            answer.code,
            body["reason"],
            body["details"],
            message
        ]));
    }
    found
}

async fn writes(side: &Side) -> Vec<Value> {
    let mut found = Vec::new();
    for (path, body) in [
        (MAPS, map(3 * 1024 * 1024, 0)),
        (MAPS_TRIED, map(1_048_576, 0)),
        (MAPS_TRIED, map(1_048_577, 0)),
        (WORKS, large_work(1_700_000)),
        (WORKS, large_work(2_500_000)),
        (WORKS_TRIED, large_work(1_200_000)),
        (MAPS_TRIED, map(1, 256 * 1024 - 13)),
        (MAPS_TRIED, map(1, 256 * 1024 - 12)),
        (WORKS_TRIED, work(100)),
        (WORKS_TRIED, work(1_000)),
        (WORKS_TRIED, work(10_000)),
        (CLUSTERS_TRIED, cluster(2_147_483_647)),
        (CLUSTERS_TRIED, cluster(2_147_483_648)),
        (CLUSTERS_TRIED, cluster(u64::MAX)),
        (LEASES_TRIED, lease(3_000_000_000)),
        (MAPS_STRICT, twice()),
        (MAPS_TRIED, twice()),
        (MAPS_TRIED, owned(&["one", "two", "three"], true)),
        (MAPS_TRIED, owned(&["one", "two", "one", "one", "two"], false)),
    ] {
        let length = body.len();
        let answer = side
            .send_bytes(JSON, Method::POST, path, JSON, body.into_bytes())
            .await;
        let status = (answer.body["kind"] == "Status").then_some(&answer.body);
        let is_text_compared = matches!(answer.code, 413 | 422 | 500);
        // How large the message to etcd is depends on its encoding.
        let message = status
            .filter(|_| is_text_compared)
            .and_then(|status| status["message"].as_str()?.split(" (").next());
        let reason = status.map(|status| &status["reason"]);
        found.push(json!([
            path,
            length,
            answer.code,
            reason,
            message,
            answer.warnings
        ]));
    }
    found
}

/// Options that are refused, and deletions of what is no object. Nothing of it changes anything.
async fn options(side: &Side) -> Vec<Value> {
    const MERGE: &str = "application/merge-patch+json";
    const APPLY: &str = "application/apply-patch+yaml";
    let longest = "x".repeat(128);
    let too_long = format!("fieldManager={longest}x");
    let (object, work) = (format!("{MAPS}/nothing"), format!("{WORKS}/nothing"));
    let all_wrong = format!("{too_long}&dryRun=x&fieldValidation=x&force=true");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "options"}});
    let mut found = Vec::new();
    for (method, path, media_type, body) in [
        (Method::DELETE, format!("{object}?dryRun=Nothing"), "", None),
        (Method::DELETE, format!("{object}?dryRun="), "", None),
        (
            Method::DELETE,
            format!("{object}?dryRun=Nothing"),
            JSON,
            Some(json!({"dryRun": ["All"]})),
        ),
        (
            Method::DELETE,
            object.clone(),
            JSON,
            Some(json!({"dryRun": ["All", "x"], "propagationPolicy": "Nothing"})),
        ),
        (
            Method::DELETE,
            format!("{MAPS}?dryRun=Nothing&labelSelector=no%3Done"),
            "",
            None,
        ),
        (Method::DELETE, format!("{work}/status"), "", None),
        (Method::POST, format!("{work}/status"), JSON, Some(json!({}))),
        (
            Method::DELETE,
            "/api/v1/namespaces/nothing/status".to_owned(),
            "",
            None,
        ),
        (
            Method::POST,
            format!("{MAPS_TRIED}&fieldManager={longest}"),
            JSON,
            Some(map.clone()),
        ),
        (
            Method::POST,
            format!("{MAPS_TRIED}&{too_long}"),
            JSON,
            Some(map.clone()),
        ),
        (Method::POST, format!("{MAPS}?{all_wrong}"), JSON, Some(map)),
        (
            Method::PATCH,
            format!("{work}?{all_wrong}"),
            MERGE,
            Some(json!({})),
        ),
        (
            Method::PATCH,
            format!("{object}?{too_long}"),
            APPLY,
            Some(json!({})),
        ),
    ] {
        let answer = side.send(method.clone(), &path, media_type, body.as_ref()).await;
        let (reason, details) = (&answer.body["reason"], &answer.body["details"]);
        let message = &answer.body["message"];
        found.push(json!([
            method.as_str(),
            path,
            answer.code,
            reason,
            details,
            message
        ]));
    }
    found
}

/// Patches that change what kind of object it is.
async fn types(side: &Side) -> Vec<Value> {
    const MERGE: &str = "application/merge-patch+json";
    const STRATEGIC: &str = "application/strategic-merge-patch+json";
    const PATCH: &str = "application/json-patch+json";
    let (map, work) = (format!("{MAPS}/limits"), format!("{WORKS}/limits"));
    let status = format!("{work}/status");
    for (path, body) in [(MAPS, self::map(1, 0)), (WORKS, large_work(1))] {
        let body = body.into_bytes();
        let created = side.send_bytes(JSON, Method::POST, path, JSON, body).await;
        assert_eq!(created.code, 201, "{}", created.body);
    }
    let other = json!([{"op": "replace", "path": "/kind", "value": "Other"}]);
    let mut found = Vec::new();
    for (path, media_type, patch) in [
        (&work, MERGE, json!({"kind": "Other"})),
        (&work, MERGE, json!({"apiVersion": "example.com/v9"})),
        (&work, MERGE, json!({"apiVersion": "v9", "kind": "Other"})),
        (&work, MERGE, json!({"kind": "Other", "spec": {"workload": "x"}})),
        (&work, MERGE, json!({"kind": null})),
        (&work, MERGE, json!({"apiVersion": null})),
        (&work, PATCH, other.clone()),
        (&status, MERGE, json!({"kind": "Other"})),
        (&map, MERGE, json!({"kind": "Other"})),
        (&map, MERGE, json!({"apiVersion": "v9"})),
        (&map, MERGE, json!({"kind": null})),
        (&map, PATCH, other),
        (&map, STRATEGIC, json!({"kind": "Other"})),
    ] {
        let answer = side.send(Method::PATCH, path, media_type, Some(&patch)).await;
        let (kind, reason) = (&answer.body["kind"], &answer.body["reason"]);
        // The texts that show the object end with why it is refused.
        let message = answer.body["message"].as_str().unwrap_or_default();
        let message = message.rsplit("}\": ").next().unwrap_or_default();
        let message = message.split(" in '{").next();
        found.push(json!([path, patch, answer.code, kind, reason, message]));
    }
    for path in [map, work] {
        side.send(Method::DELETE, &path, "", None).await;
    }
    found
}

async fn selections(side: &Side) -> Vec<Value> {
    let mut found = Vec::new();
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
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "metadata.namespace=x",
        ),
        (CLUSTERS, "metadata.namespace=x"),
        (CLUSTERS, "metadata.namespace!=x"),
        (WORKS, "metadata.namespace=x"),
    ] {
        let fields: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        let path = format!("{path}?fieldSelector={fields}");
        let answer = side.send(Method::GET, &path, "", None).await;
        found.push(json!([path, answer.code, answer.body["items"]]));
    }
    found.extend(label_selections(side).await);
    found
}

/// Names of namespaces that labels select, or that the selector is refused. Texts differ.
async fn label_selections(side: &Side) -> Vec<Value> {
    for name in ["selected-5", "selected-7"] {
        let (_, number) = name.split_at("selected-".len());
        let metadata = json!({"name": name, "labels": {"size": number, "selected": "yes"}});
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        side.send(Method::POST, "/api/v1/namespaces", JSON, Some(&body))
            .await;
    }
    let mut found = Vec::new();
    for selector in [
        "size>5",
        "size<7",
        "size > 4,size<6",
        "selected>5",
        "size>x",
        "size>",
        "size>-5",
        "! size,selected",
        "!!size",
        "selected\tin\t(yes)",
        "selected in (yes,)",
        "selected in ()",
        "selected in (yes no)",
        "selected in (!)",
        "selected in",
        "selected in yes",
        "selected=yes no",
        "selected=yes=no",
        "!selected=yes",
        "=yes",
        "selected=-yes",
        "selected=(yes)",
        "a/b/c=1",
        "-a",
        ",",
        "!",
        ",selected",
        "selected,",
        "selected,,size",
        " ",
        "in in (in)",
        "selected,!in",
        "notin!=in,selected",
    ] {
        let labels: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        let path = format!("/api/v1/namespaces?labelSelector={labels}");
        let answer = side.send(Method::GET, &path, "", None).await;
        let items = answer.body["items"].as_array();
        let names = items.into_iter().flatten().map(|item| &item["metadata"]["name"]);
        let names: Vec<&Value> = names
            .filter(|name| name.as_str().unwrap().starts_with("selected-"))
            .collect();
        found.push(json!([selector, answer.code, names]));
    }
    found
}

fn map(size: usize, annotation: usize) -> String {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "limits", "annotations": {"Example.com/a": "x".repeat(annotation)}},
        "data": {"a": "x".repeat(size)},
    })
    .to_string()
}

fn large_work(size: usize) -> String {
    let manifest =
        json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "data": "x".repeat(size)});
    json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "limits"},
        "spec": {"workload": {"manifests": [manifest]}},
    })
    .to_string()
}

/// A work whose manifest is nested so many levels deep.
fn work(levels: usize) -> String {
    let (open, close) = ("{\"a\":[".repeat(levels / 2), "]}".repeat(levels / 2));
    let manifest = format!("{{\"apiVersion\":\"v1\",\"kind\":\"X\",\"data\":{open}1{close}}}");
    format!(
        "{{\"apiVersion\":\"work.open-cluster-management.io/v1\",\"kind\":\"ManifestWork\",\"metadata\":{{\"name\":\"limits\"}},\
         \"spec\":{{\"workload\":{{\"manifests\":[{manifest}]}}}}}}"
    )
}

fn cluster(seconds: u64) -> String {
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": "limits"}, "spec": {"leaseDurationSeconds": seconds},
    })
    .to_string()
}

fn lease(seconds: u64) -> String {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "limits"},
        "spec": {"leaseDurationSeconds": seconds},
    })
    .to_string()
}

/// A map with owners, some of which may be equal, or all its controllers.
fn owned(uids: &[&str], are_controllers: bool) -> String {
    let owner = |uid: &&str| {
        json!({
            "apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": uid, "controller": are_controllers,
        })
    };
    let owners: Vec<Value> = uids.iter().map(owner).collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits", "ownerReferences": owners},
    })
    .to_string()
}

/// A map with fields that are there twice.
fn twice() -> String {
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"twice\",\"name\":\"limits\"},\"data\":{\"a\":\"1\",\
     \"a\":\"2\"}}"
        .to_owned()
}
