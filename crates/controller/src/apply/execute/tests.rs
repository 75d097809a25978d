use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use chrono::TimeDelta;
use http::Response;
use http_body_util::BodyExt;
use kube::client::Body;
use observe::index::WorkRequest;
use resolve::spec::{self, ResolvedSpec};
use resolve::works::WorkFlags;
use rollout::Attempt;
use serde_json::Value;
use tower::service_fn;

use super::*;
use crate::fixture;

/// A request that the hub received.
#[derive(Clone, Debug)]
struct Asked {
    method: String,
    uri: String,
    content: String,
    body: Value,
}

/// A response of the hub.
enum Answer {
    Said(u16, Value),
    HungUp,
}

/// A hub that returns prepared responses in order.
#[derive(Clone)]
struct Hub {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Hub {
    fn new(answers: Vec<Answer>) -> Hub {
        Hub {
            answers: Arc::new(Mutex::new(answers.into())),
            asked: Arc::default(),
        }
    }

    fn client(&self) -> Client {
        let hub = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let hub = hub.clone();
            async move { hub.answer(request).await }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        let content = parts.headers.get(header::CONTENT_TYPE);
        self.asked.lock().unwrap().push(Asked {
            method: parts.method.to_string(),
            uri: parts.uri.to_string(),
            content: content.map_or("", |value| value.to_str().unwrap()).to_owned(),
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        });
        let answer = self.answers.lock().unwrap().pop_front();
        match answer.expect("the hub was asked more than the test expects") {
            Answer::Said(code, body) => Ok(Response::builder()
                .status(code)
                .body(Body::from(serde_json::to_vec(&body).unwrap()))
                .unwrap()),
            Answer::HungUp => Err(std::io::Error::other("the connection was closed")),
        }
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    fn calls(&self) -> Vec<String> {
        self.asked().iter().map(|asked| asked.method.clone()).collect()
    }
}

const UID: &str = "mcu-1";

fn spec() -> Arc<ResolvedSpec> {
    let upgrade = fixture::upgrade(UID, &["c1"]).view();
    Arc::new(spec::resolve_spec(&upgrade, &WorkFlags::default(), TimeDelta::seconds(30)).unwrap())
}

fn params() -> WorkParams {
    WorkParams {
        spec: spec(),
        violations: None,
        owner: Arc::from("ns/mcu"),
        cluster_uid: Arc::from(""),
        cluster_id: None,
        request: WorkRequest::AsPlanned,
        attempt: Attempt {
            revision: Arc::from("r1"),
            retry: Arc::from(""),
        },
        started: rollout::testing::at(0),
        starts: false,
        until: None,
        approvals: Arc::default(),
    }
}

fn job(write: Write) -> WriteJob {
    WriteJob {
        upgrade: Arc::from(UID),
        write,
    }
}

fn create() -> WriteJob {
    job(Write::Create {
        cluster: Arc::from("c1"),
        step: Step::Platform,
        params: params(),
        slot_released_at: None,
    })
}

fn delete() -> WriteJob {
    job(Write::Delete {
        cluster: Arc::from("c1"),
        step: Step::Platform,
        uid: Arc::from("w1"),
        version: None,
        halt: false,
    })
}

fn status(code: u16, reason: &str, message: &str, details: &Value) -> Answer {
    Answer::Said(
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
            "message": message, "details": details}),
    )
}

fn exists() -> Answer {
    status(
        409,
        "AlreadyExists",
        "manifestworks \"c1-cluster-upgrade\" already exists",
        &json!({}),
    )
}

fn not_found() -> Answer {
    status(
        404,
        "NotFound",
        "manifestworks \"c1-cluster-upgrade\" not found",
        &json!({"kind": "manifestworks"}),
    )
}

fn work(owner: Option<&str>, terminating: bool) -> Answer {
    annotated_work(owner, "ns/mcu", terminating)
}

/// A work with the UID label and the owner's annotation.
fn annotated_work(owner: Option<&str>, key: &str, terminating: bool) -> Answer {
    let labels = owner.map_or_else(|| json!({}), |owner| json!({LABEL_MCU_UID: owner}));
    Answer::Said(
        200,
        json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"name": "c1-cluster-upgrade", "namespace": "c1", "uid": "w1", "resourceVersion": "5", "labels": labels,
                "annotations": {ANNOTATION_OWNER: key}, "deletionTimestamp": terminating.then_some("2026-05-28T20:00:00Z")},
        }),
    )
}

async fn run(job: &WriteJob, answers: Vec<Answer>) -> (WriteResult, Hub) {
    let hub = Hub::new(answers);
    let outcome = execute(&hub.client(), job).await;
    (outcome, hub)
}

fn failure(outcome: &WriteResult) -> &str {
    match outcome {
        WriteResult::Failed(error) => &error.message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_work_is_created_by_one_post_with_owner_step_and_clock() {
    let (outcome, hub) = run(&create(), vec![work(Some(UID), false)]).await;
    assert!(matches!(outcome, WriteResult::Work(work) if work.metadata.uid.as_deref() == Some("w1")));
    let asked = hub.asked().remove(0);
    assert_eq!(asked.method, "POST");
    assert!(
        asked
            .uri
            .contains("/namespaces/c1/manifestworks?fieldManager=mcu-controller"),
        "{}",
        asked.uri
    );
    let metadata = &asked.body["metadata"];
    assert_eq!(metadata["name"], "c1-cluster-upgrade");
    assert_eq!(metadata["labels"][LABEL_MCU_UID], UID);
    assert_eq!(
        metadata["annotations"]["cluster.open-cluster-management.io/managedclustersupgrade-owner"],
        "ns/mcu"
    );
    assert_eq!(hub.calls(), ["POST"]);
}

#[tokio::test]
async fn a_work_that_an_earlier_write_had_created_is_adopted() {
    let (outcome, hub) = run(&create(), vec![exists(), work(Some(UID), false)]).await;
    assert!(matches!(outcome, WriteResult::Work(_)));
    assert_eq!(hub.calls(), ["POST", "GET"]);
}

#[tokio::test]
async fn our_own_work_that_is_being_deleted_is_told_as_it_is() {
    let (outcome, _) = run(&create(), vec![exists(), work(Some(UID), true)]).await;
    assert!(matches!(outcome, WriteResult::Work(work) if work.metadata.deletion_timestamp.is_some()));
}

#[tokio::test]
async fn the_work_of_another_upgrade_is_told_as_a_rivals() {
    let (outcome, _) = run(&create(), vec![exists(), work(Some("mcu-2"), false)]).await;
    assert!(matches!(outcome, WriteResult::Rival(_)));
}

#[tokio::test]
async fn a_foreign_work_is_left_alone() {
    let (outcome, hub) = run(&create(), vec![exists(), work(None, false)]).await;
    assert!(matches!(outcome, WriteResult::Foreign));
    assert_eq!(hub.calls(), ["POST", "GET"], "read once, never written");
    let (outcome, _) = run(&create(), vec![exists(), work(None, true)]).await;
    assert!(matches!(outcome, WriteResult::ForeignTerminating));
}

#[tokio::test]
async fn a_work_with_our_uid_and_another_owner_is_a_foreign_one() {
    for key in ["ns/other", ""] {
        let (outcome, _) = run(&create(), vec![exists(), annotated_work(Some(UID), key, false)]).await;
        assert!(matches!(outcome, WriteResult::Foreign), "{key}");
    }
}

#[tokio::test]
async fn a_work_that_goes_between_the_refusal_and_the_look_is_gone() {
    let (outcome, _) = run(&create(), vec![exists(), not_found()]).await;
    assert!(matches!(outcome, WriteResult::Gone));
}

#[tokio::test]
async fn a_lost_answer_is_a_failure_and_the_next_try_adopts() {
    let hub = Hub::new(vec![Answer::HungUp, exists(), work(Some(UID), false)]);
    let client = hub.client();
    let job = create();
    assert!(failure(&execute(&client, &job).await).contains("connection"));
    assert!(matches!(execute(&client, &job).await, WriteResult::Work(_)));
}

#[tokio::test]
async fn a_terminating_namespace_and_a_missing_one_are_told_apart() {
    let terminating = status(
        403,
        "Forbidden",
        "unable to create new content in namespace c1 because it is being terminated",
        &json!({"kind": "manifestworks", "causes": [{"reason": "NamespaceTerminating", "message": "…", "field": "metadata.namespace"}]}),
    );
    let (outcome, _) = run(&create(), vec![terminating]).await;
    assert!(matches!(outcome, WriteResult::NamespaceTerminating));
    let missing = status(
        404,
        "NotFound",
        "namespaces \"c1\" not found",
        &json!({"kind": "namespaces", "name": "c1"}),
    );
    let (outcome, _) = run(&create(), vec![missing]).await;
    assert!(matches!(outcome, WriteResult::NamespaceMissing));
}

#[tokio::test]
async fn a_refusal_is_told_with_its_message_and_code() {
    let forbidden = status(
        403,
        "Forbidden",
        "manifestworks is forbidden: exceeded quota",
        &json!({}),
    );
    let (outcome, _) = run(&create(), vec![forbidden]).await;
    assert!(matches!(
        outcome,
        WriteResult::Failed(WriteError {
            kind: WriteErrorKind::Forbidden,
            ..
        })
    ));
    assert_eq!(
        failure(&outcome),
        "manifestworks is forbidden: exceeded quota (403)"
    );
}

#[tokio::test]
async fn a_new_work_that_the_hub_finds_invalid_is_refused_and_an_invalid_patch_a_failure() {
    let of_schema = "ManifestWork.work.open-cluster-management.io \"c1-cluster-upgrade\" is invalid: spec.executor: Required value";
    let invalid = || status(422, "Invalid", of_schema, &json!({}));
    let webhook = status(400, "BadRequest", "this executor is not allowed", &json!({}));
    for (answer, words) in [
        (invalid(), "spec.executor: Required value"),
        (webhook, "this executor is not allowed"),
    ] {
        let (outcome, _) = run(&create(), vec![answer]).await;
        let WriteResult::Refused(text) = &outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(text, words);
    }
    let (outcome, _) = run(&delete(), vec![invalid()]).await;
    assert!(matches!(
        outcome,
        WriteResult::Failed(WriteError {
            kind: WriteErrorKind::Invalid,
            ..
        })
    ));
}

#[tokio::test]
async fn a_step_that_the_spec_does_not_ask_for_is_never_sent() {
    let write = Write::Create {
        cluster: Arc::from("c1"),
        step: Step::Operators,
        params: params(),
        slot_released_at: None,
    };
    let (outcome, hub) = run(&job(write), vec![]).await;
    assert!(failure(&outcome).contains("operators-upgrade"));
    assert!(hub.asked().is_empty());
}

#[tokio::test]
async fn a_deletion_names_the_object_it_means() {
    let (outcome, hub) = run(&delete(), vec![work(Some(UID), true)]).await;
    assert!(matches!(outcome, WriteResult::DeletionAccepted { .. }));
    let asked = hub.asked().remove(0);
    assert_eq!(asked.method, "DELETE");
    assert!(
        asked
            .uri
            .contains("/namespaces/c1/manifestworks/c1-cluster-upgrade")
    );
    assert_eq!(asked.body["preconditions"]["uid"], "w1");
    assert_eq!(asked.body["propagationPolicy"], "Background");
}

#[tokio::test]
async fn deleting_what_is_gone_is_done() {
    let (outcome, hub) = run(&delete(), vec![not_found()]).await;
    assert!(matches!(outcome, WriteResult::Gone));
    assert_eq!(hub.calls(), ["DELETE"]);
}

#[tokio::test]
async fn a_successor_under_the_name_is_not_deleted_but_looked_at() {
    let mismatch = || {
        status(
            409,
            "Conflict",
            "the UID in the precondition does not match",
            &json!({}),
        )
    };
    let successor = Answer::Said(
        200,
        json!({"metadata": {"name": "c1-cluster-upgrade", "namespace": "c1", "uid": "w2", "labels": {LABEL_MCU_UID: "mcu-2"}}}),
    );
    let (outcome, hub) = run(&delete(), vec![mismatch(), successor]).await;
    assert!(matches!(outcome, WriteResult::Work(_)));
    assert_eq!(hub.calls(), ["DELETE", "GET"]);
    let (outcome, _) = run(&delete(), vec![mismatch(), not_found()]).await;
    assert!(matches!(outcome, WriteResult::Gone));
}

#[tokio::test]
async fn a_work_that_changed_meanwhile_is_not_deleted_but_looked_at() {
    let delete = || {
        job(Write::Delete {
            cluster: Arc::from("c1"),
            step: Step::Platform,
            uid: Arc::from("w1"),
            version: Some(7),
            halt: false,
        })
    };
    let conflict = || {
        status(
            409,
            "Conflict",
            "the resourceVersion in the precondition does not match",
            &json!({}),
        )
    };
    let found = |version: &str, terminating: bool| {
        let mut meta =
            json!({"name": "c1-cluster-upgrade", "namespace": "c1", "uid": "w1", "resourceVersion": version});
        if terminating {
            meta["deletionTimestamp"] = json!("2026-03-01T10:00:00Z");
        }
        Answer::Said(200, json!({"metadata": meta}))
    };
    let (outcome, hub) = run(&delete(), vec![conflict(), found("8", false)]).await;
    assert!(matches!(outcome, WriteResult::Work(_)), "{outcome:?}");
    assert_eq!(
        hub.asked()[0].body["preconditions"],
        json!({"uid": "w1", "resourceVersion": "7"})
    );
    let (outcome, _) = run(&delete(), vec![conflict(), found("8", true)]).await;
    assert!(
        matches!(outcome, WriteResult::DeletionAccepted { .. }),
        "{outcome:?}"
    );
    let (outcome, _) = run(&delete(), vec![conflict(), found("7", false)]).await;
    assert!(matches!(outcome, WriteResult::Failed(_)), "{outcome:?}");
}

#[tokio::test]
async fn an_update_in_place_is_a_forced_apply_for_the_object_it_means() {
    let write = || Write::Update {
        cluster: Arc::from("c1"),
        params: params(),
        uid: Arc::from("w1"),
        version: 4,
    };
    let (outcome, hub) = run(&job(write()), vec![work(Some(UID), false)]).await;
    assert!(matches!(outcome, WriteResult::Work(_)));
    let asked = hub.asked().remove(0);
    assert_eq!(asked.method, "PATCH");
    assert_eq!(asked.content, "application/apply-patch+yaml");
    assert!(asked.uri.ends_with("?fieldManager=mcu-controller&force=true"));
    assert_eq!(asked.body["metadata"]["uid"], "w1");
    assert_eq!(asked.body["metadata"]["resourceVersion"], "4");
    let gone = status(409, "Conflict", "uid mismatch", &json!({}));
    let (outcome, _) = run(&job(write()), vec![gone, not_found()]).await;
    assert!(matches!(outcome, WriteResult::Gone), "{outcome:?}");
}

#[tokio::test]
async fn a_work_that_changed_meanwhile_is_not_changed_in_place_but_looked_at() {
    let write = |uid: &str, version| Write::Update {
        cluster: Arc::from("c1"),
        params: params(),
        uid: Arc::from(uid),
        version,
    };
    let conflict = || status(409, "Conflict", "the object has been modified", &json!({}));
    // The hub has the object `w1` at version 5.
    for (uid, version) in [("w1", 4), ("w0", 5)] {
        let answers = vec![conflict(), work(Some(UID), false)];
        let (outcome, hub) = run(&job(write(uid, version)), answers).await;
        assert!(matches!(outcome, WriteResult::WorkChanged(_)), "{outcome:?}");
        assert_eq!(hub.calls(), ["PATCH", "GET"]);
    }
    let (outcome, _) = run(&job(write("w1", 5)), vec![conflict(), work(Some(UID), false)]).await;
    assert_eq!(failure(&outcome), "the object has been modified (409)");
}

#[tokio::test]
async fn the_note_of_a_soak_on_a_work_that_is_gone_says_so() {
    let write = || Write::MarkSoak {
        cluster: Arc::from("c1"),
        step: Step::Platform,
        uid: Arc::from("w1"),
        patch: json!({"metadata": {"uid": "w1", "annotations": {"a": "b"}}}),
    };
    let (outcome, hub) = run(&job(write()), vec![work(Some(UID), false)]).await;
    assert!(matches!(outcome, WriteResult::Work(_)));
    assert_eq!(hub.asked()[0].content, "application/merge-patch+json");
    let (outcome, _) = run(&job(write()), vec![not_found()]).await;
    assert!(matches!(outcome, WriteResult::Gone));
}

#[tokio::test]
async fn a_status_is_applied_to_the_object_it_means() {
    let write = || Write::Status {
        namespace: Arc::from("ns"),
        name: Arc::from("mcu"),
        version: "5".to_owned(),
        status: Box::default(),
    };
    let answer = json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
        "metadata": {"name": "mcu", "namespace": "ns", "uid": UID, "resourceVersion": "6"}});
    let (outcome, hub) = run(&job(write()), vec![Answer::Said(200, answer.clone())]).await;
    assert!(matches!(outcome, WriteResult::Upgrade(_)));
    let asked = hub.asked().remove(0);
    assert!(asked.uri.contains("/managedclustersupgrades/mcu/status?"));
    assert_eq!(asked.body["metadata"]["uid"], UID);
    assert_eq!(asked.body["metadata"]["resourceVersion"], "5");
    let conflict = status(409, "Conflict", "the object has been modified", &json!({}));
    let (outcome, hub) = run(&job(write()), vec![conflict, Answer::Said(200, answer)]).await;
    assert!(
        matches!(outcome, WriteResult::UpgradeChanged(Some(_))),
        "{outcome:?}"
    );
    assert_eq!(hub.calls(), ["PATCH", "GET"]);
}

#[tokio::test]
async fn finalizers_are_replaced_only_as_they_were_read() {
    let write = Write::Finalizers {
        namespace: Arc::from("ns"),
        name: Arc::from("mcu"),
        version: "6".to_owned(),
        finalizers: vec!["a".to_owned()],
        recorded_uid: Some(Arc::from("life")),
    };
    let conflict = status(409, "Conflict", "the object has been modified", &json!({}));
    let (outcome, hub) = run(&job(write), vec![conflict]).await;
    assert!(failure(&outcome).contains("modified"));
    let metadata = &hub.asked()[0].body["metadata"];
    assert_eq!(metadata["resourceVersion"], "6");
    assert_eq!(metadata["uid"], UID);
    assert_eq!(metadata["finalizers"], json!(["a"]));
    assert_eq!(metadata["annotations"], json!({ANNOTATION_UPGRADE_UID: "life"}));
}

#[tokio::test]
async fn annotations_are_changed_on_the_object_they_were_meant_for() {
    let patch = json!({"metadata": {"uid": UID, "annotations": {"a": "b"}}});
    let write = Write::Annotate {
        namespace: Arc::from("ns"),
        name: Arc::from("mcu"),
        patch: patch.clone(),
    };
    let conflict = status(
        409,
        "Conflict",
        "the UID in the precondition does not match",
        &json!({}),
    );
    let (outcome, hub) = run(&job(write), vec![conflict]).await;
    assert!(failure(&outcome).contains("UID"));
    let asked = hub.asked().remove(0);
    assert!(asked.uri.contains("/managedclustersupgrades/mcu?"));
    assert_eq!(asked.body, patch);
}

#[tokio::test]
async fn a_deletion_refused_for_another_reason_than_the_uid_is_a_failure_like_any_other() {
    let refused = || status(409, "Conflict", "the webhook is busy", &json!({}));
    let (outcome, _) = run(&delete(), vec![refused(), work(Some(UID), false)]).await;
    assert!(
        matches!(&outcome, WriteResult::Failed(error) if *error == WriteError::new(WriteErrorKind::Conflict, "the webhook is busy (409)"))
    );
    let (outcome, _) = run(&delete(), vec![refused(), work(Some(UID), true)]).await;
    assert!(matches!(outcome, WriteResult::DeletionAccepted { .. }));
}

#[tokio::test]
async fn a_read_says_what_is_under_the_name() {
    let read = || {
        job(Write::Read {
            cluster: Arc::from("c1"),
            step: Step::Platform,
            owner: Arc::from("ns/mcu"),
            uid: None,
            asked: rollout::testing::at(0),
        })
    };
    let (outcome, hub) = run(&read(), vec![work(Some(UID), false)]).await;
    assert!(matches!(outcome, WriteResult::Work(_)));
    assert_eq!(hub.calls(), ["GET"]);
    assert!(
        !hub.asked()[0].uri.contains("resourceVersion"),
        "no cache may answer"
    );
    let (outcome, _) = run(&read(), vec![not_found()]).await;
    assert!(matches!(outcome, WriteResult::Gone));
    let (outcome, _) = run(&read(), vec![work(None, false)]).await;
    assert!(matches!(outcome, WriteResult::Foreign));
}

mod answers;
mod reports;
