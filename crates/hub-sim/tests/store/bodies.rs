//! Bodies that are deep, large, or ambiguous.

use http::Method;
use serde_json::{Value, json};

use super::{Client, MAPS};

const WORKS: &str = "/apis/work.open-cluster-management.io/v1/namespaces/default/manifestworks";
const CLUSTERS: &str = "/apis/cluster.open-cluster-management.io/v1/managedclusters";

/// A work whose manifest is nested so many levels deep.
fn deep_work(levels: usize) -> String {
    let (open, close) = ("{\"a\":[".repeat(levels / 2), "]}".repeat(levels / 2));
    let manifest = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"m\"}},\"data\":{open}1{close}}}"
    );
    format!(
        "{{\"apiVersion\":\"work.open-cluster-management.io/v1\",\"kind\":\"ManifestWork\",\"metadata\":{{\"name\":\"w\"}},\
         \"spec\":{{\"workload\":{{\"manifests\":[{manifest}]}}}}}}"
    )
}

#[tokio::test]
async fn an_object_that_is_nested_deeply_is_stored_and_comes_back() {
    for levels in [200, 2_000, 9_900] {
        let client = Client::new(10, 0);
        let sent = deep_work(levels);
        let (code, text) = client.send_text(Method::POST, WORKS, &sent).await;
        assert_eq!(code, 201, "{levels}");
        let tree = &sent[sent.find("\"data\":").unwrap()..sent.len() - 5];
        assert!(text.contains(tree), "{levels}");
        let patch = json!({"metadata": {"labels": {"x": "1"}}}).to_string();
        let (code, text) = client
            .send_text(Method::PATCH, &format!("{WORKS}/w"), &patch)
            .await;
        assert!(code == 200 && text.contains(tree), "{levels}");
        let (code, list) = client.send_text(Method::GET, WORKS, "").await;
        assert!(code == 200 && list.contains(tree), "{levels}");
    }
    let client = Client::new(10, 0);
    let (code, _) = client.send_text(Method::POST, WORKS, &deep_work(10_000)).await;
    assert_eq!(code, 400);
    let yaml = format!("{{a: {}1{}}}", "[".repeat(50_000), "]".repeat(50_000));
    let (code, _) = client.send_text(Method::POST, WORKS, &yaml).await;
    assert_eq!(code, 400);
}

#[tokio::test]
async fn fields_that_are_there_twice_are_refused_if_validation_is_strict() {
    let client = Client::new(10, 0);
    let twice = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1", "a": "2"}}"#;
    let (code, text) = client
        .send_text(Method::POST, &format!("{MAPS}?fieldValidation=Strict"), twice)
        .await;
    assert_eq!(code, 400);
    assert!(
        text.contains(r#"strict decoding error: duplicate field \"data.a\""#),
        "{text}"
    );
    let (code, _) = client.send_text(Method::POST, MAPS, twice).await;
    assert_eq!(code, 201);
    let (_, map) = client.get(&format!("{MAPS}/m")).await;
    assert_eq!(map["data"]["a"], "2");
    let patch = r#"{"data": {"b": "1", "b": "2"}}"#;
    let strict = format!("{MAPS}/m?fieldValidation=Strict");
    let (code, _) = client.send_text(Method::PATCH, &strict, patch).await;
    assert_eq!(code, 422);
}

#[tokio::test]
async fn whole_numbers_that_are_too_large_are_refused() {
    let client = Client::new(10, 0);
    for (seconds, wanted) in [
        (json!(60), 201),
        (json!(3_000_000_000_u64), 201),
        (json!(u64::MAX), 422),
    ] {
        let cluster = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": {"generateName": "c"},
            "spec": {"leaseDurationSeconds": seconds, "hubAcceptsClient": true},
        });
        let (code, answer) = client.send(Method::POST, CLUSTERS, &cluster).await;
        assert_eq!(code, wanted, "{answer}");
    }
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"leaseDurationSeconds": 3_000_000_000_u64},
    });
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    assert_eq!(client.send(Method::POST, path, &lease).await.0, 400);
}

fn map_of(size: usize) -> String {
    let data = "x".repeat(size);
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": data}})
        .to_string()
}

fn work_of(size: usize) -> String {
    let manifest =
        json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "data": "x".repeat(size)});
    json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w"},
        "spec": {"workload": {"manifests": [manifest]}},
    })
    .to_string()
}

#[tokio::test]
async fn bodies_and_objects_that_are_too_large_are_refused() {
    let client = Client::new(10, 0);
    for (path, body, code, said) in [
        (
            MAPS,
            map_of(3 * 1024 * 1024),
            413,
            "Request entity too large: limit is 3145728",
        ),
        (MAPS, map_of(1_048_577), 422, "may not be more than 1048576 bytes"),
        (MAPS, map_of(1_048_576), 201, "ConfigMap"),
        (
            WORKS,
            work_of(2_200_000),
            500,
            "trying to send message larger than max",
        ),
        (WORKS, work_of(1_600_000), 500, "etcdserver: request is too large"),
        (WORKS, work_of(1_200_000), 201, "ManifestWork"),
    ] {
        let (found, text) = client.send_text(Method::POST, path, &body).await;
        assert!(
            found == code && text.contains(said),
            "{path} {}: {found}",
            body.len()
        );
    }
    let manifest =
        json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "data": "x".repeat(1_600_000)});
    let patch = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"workload": {"manifests": [manifest]}}});
    let (code, _) = client.send(Method::PATCH, &format!("{WORKS}/w"), &patch).await;
    assert_eq!(code, 500, "what a patch makes is too large");
    let (_, work) = client.get(&format!("{WORKS}/w")).await;
    assert!(work["metadata"]["labels"].is_null());
}

#[tokio::test]
async fn annotations_are_checked_by_name_and_size() {
    let client = Client::new(10, 0);
    for (name, size, wanted) in [
        ("Example.COM/a", 262_131, 201),
        ("Example.COM/b", 262_132, 422),
        ("no/two/slashes", 1, 422),
    ] {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"generateName": "m", "annotations": {name: "x".repeat(size)}},
        });
        let (code, status) = client.send(Method::POST, MAPS, &map).await;
        assert_eq!(code, wanted, "{name}");
        if code == 422 {
            assert_eq!(status["details"]["causes"][0]["field"], "metadata.annotations");
        }
    }
}

#[tokio::test]
async fn a_json_patch_has_at_most_ten_thousand_operations() {
    let client = Client::new(10, 0);
    client.put("a", 1).await;
    let operation = json!({"op": "add", "path": "/data/x", "value": "1"});
    for (count, wanted) in [(10_000, 200), (10_001, 413)] {
        let patch = vec![operation.clone(); count];
        let request = http::Request::patch(format!("{MAPS}/a"))
            .header("content-type", "application/json-patch+json")
            .body(http_body_util::Full::<bytes::Bytes>::from(
                Value::from(patch).to_string(),
            ))
            .unwrap();
        let code = client.service.handle(request).await.status().as_u16();
        assert_eq!(code, wanted);
    }
}

#[tokio::test]
async fn a_review_that_is_no_object_is_refused() {
    let client = Client::new(10, 0);
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(client.send(Method::POST, path, &json!([])).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn numbers_without_sense_in_a_query_do_no_harm() {
    let client = Client::new(10, 0);
    client.put("a", 1).await;
    for number in ["0", "1", "9223372036854775807"] {
        for name in ["limit", "timeoutSeconds"] {
            let (code, list) = client.get(&format!("{MAPS}?{name}={number}")).await;
            assert_eq!((code, list["items"].as_array().map(Vec::len)), (200, Some(1)));
            let events = client.watch(&format!("{name}={number}"), 1).await;
            assert_eq!(events[0]["type"], "ADDED", "{name}={number}");
        }
    }
    for number in ["18446744073709551615", "99999999999999999999999", "x"] {
        for name in ["limit", "timeoutSeconds"] {
            assert_eq!(client.get(&format!("{MAPS}?{name}={number}")).await.0, 400);
            let watch = format!("{MAPS}?watch=true&{name}={number}");
            assert_eq!(client.get(&watch).await.0, 400);
        }
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "it measures time")]
async fn a_long_list_of_plain_values_is_checked_in_time() {
    let client = Client::new(10, 0);
    let expression = json!({"key": "a", "operator": "In", "values": vec!["a"; 300_000]});
    let selector = json!({"labelSelector": {"matchExpressions": [expression]}});
    let placement = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement", "metadata": {"name": "p"},
        "spec": {"predicates": [{"requiredClusterSelector": selector}]},
    });
    let path = "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/default/placements";
    let started = std::time::Instant::now();
    assert_eq!(client.send(Method::POST, path, &placement).await.0, 201);
    assert!(started.elapsed().as_secs() < 10);
}

#[tokio::test]
async fn an_object_has_the_default_of_its_status_from_its_creation_on_and_no_client_owns_it() {
    let client = Client::new(10, 0);
    for crd in api::schema::crds() {
        client.hub.add_crd(&json!(crd)).unwrap();
    }
    let upgrades =
        "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/default/managedclustersupgrades";
    let object = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
        "metadata": {"name": "up"}, "spec": {"clusterVersion": {"version": "4.14.1"}},
        "status": {"state": "Complete"},
    });
    let (code, created) = client.send(Method::POST, upgrades, &object).await;
    assert_eq!(code, 201, "{created}");
    let (_, read) = client.get(&format!("{upgrades}/up")).await;
    for object in [created, read] {
        assert_eq!(object["status"], json!({"observedGeneration": -1}));
        let managers = object["metadata"]["managedFields"].to_string();
        assert!(!managers.contains("f:status"), "{managers}");
    }
}
