use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

/// Policies and bindings of `deploy/`.
fn shipped() -> Vec<Value> {
    let files = [
        include_str!("../../../../deploy/admission-policy.yaml"),
        include_str!("../../../../deploy/admission-works.yaml"),
        include_str!("../../../../deploy/admission-reports.yaml"),
        include_str!("../../../../deploy/admission-approvals.yaml"),
        include_str!("../../../../deploy/admission-hub.yaml"),
    ];
    let documents = files.iter().flat_map(|file| file.split("\n---\n"));
    documents
        .map(|text| serde_saphyr::from_str(text).unwrap())
        .collect()
}

/// A hub of this version that enforces all policies but `without`, or lets nobody read them; and how often it was asked.
async fn warned(
    version: &'static str,
    without: Option<&'static str>,
    forbidden: bool,
) -> (Option<String>, usize) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        counted.fetch_add(1, Ordering::SeqCst);
        let (code, body) = if forbidden {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no",
                "reason": "Forbidden", "code": 403});
            (403, status)
        } else if request.uri().path() == "/version" {
            let rest = [
                "gitCommit",
                "gitTreeState",
                "buildDate",
                "goVersion",
                "compiler",
                "platform",
            ];
            let mut info = json!({"major": "1", "minor": "35", "gitVersion": version});
            for field in rest {
                info[field] = json!("");
            }
            (200, info)
        } else {
            let bindings = request.uri().path().ends_with("policybindings");
            let listed = |object: &Value| {
                bindings == (object["kind"] == BINDING_KIND)
                    && (bindings || without.is_none_or(|name| object["metadata"]["name"] != name))
            };
            let items: Vec<Value> = shipped().into_iter().filter(listed).collect();
            (
                200,
                json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}),
            )
        };
        let body = Body::from(body.to_string().into_bytes());
        let answer = Response::builder().status(code).body(body);
        async move { answer }
    });
    let warning = warning(&Client::new(service, "default")).await;
    (warning, asked.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_policy_that_is_missing_is_named_with_the_remedy() {
    let (warning, _) = warned("v1.35.4", Some("managedclustersupgrade-works"), false).await;
    let text = warning.expect("a warning");
    assert!(
        text.contains("missing: managedclustersupgrade-works; apply deploy/"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1);
}

#[tokio::test]
async fn nothing_is_said_where_all_is_well_or_the_user_may_not_know() {
    assert_eq!(warned("v1.35.4", None, false).await, (None, 2));
    assert_eq!(
        warned("v1.35.4", None, true).await,
        (None, 1),
        "asked once, then left in peace"
    );
}

#[tokio::test]
async fn a_simulated_hub_is_said_to_be_one() {
    let (note, _) = warned("v1.35.0+hub-sim", Some("managedclustersupgrade-works"), false).await;
    assert_eq!(
        note.as_deref(),
        Some("Note: this is a simulated hub, which enforces no admission policies.\n")
    );
}
