use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use futures::channel::mpsc;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};

use super::*;
use crate::lease::{Handle, Timing};

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// An API server for one Lease, with the rules on which the election relies: creations conflict, replaces are
/// guarded by `resourceVersion`, and watches start from a version. The hub tests run the same election on a
/// real API server.
#[derive(Clone, Default)]
struct Hub(Arc<Mutex<HubState>>);

#[derive(Default)]
struct HubState {
    lease: Option<Value>,
    version: u64,
    watches: Vec<mpsc::UnboundedSender<Result<Frame<Bytes>, Infallible>>>,
    log: Vec<(&'static str, u16)>,
    fault: Option<Fault>,
    watch_forbidden: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// No request gets a response.
    Down,
    /// Writes are neither executed nor get a response.
    HangWrites,
    /// The next request is executed but gets no response.
    LoseAnswer,
}

impl Hub {
    fn client(&self) -> kube::Client {
        let hub = self.clone();
        kube::Client::new(
            tower::service_fn(move |request| hub.clone().serve(request)),
            "default",
        )
    }

    fn state(&self) -> std::sync::MutexGuard<'_, HubState> {
        self.0.lock().unwrap()
    }

    fn count(&self, verb: &str, code: u16) -> usize {
        self.state()
            .log
            .iter()
            .filter(|entry| **entry == (verb, code))
            .count()
    }

    fn spec(&self, field: &str) -> Value {
        self.state()
            .lease
            .as_ref()
            .map_or(Value::Null, |lease| lease["spec"][field].clone())
    }

    async fn serve(self, request: Request<kube::client::Body>) -> Result<Answer, Infallible> {
        if self.state().fault == Some(Fault::Down) {
            std::future::pending::<()>().await;
        }
        let watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let method = request.method().clone();
        if method == Method::PUT && self.state().fault == Some(Fault::HangWrites) {
            std::future::pending::<()>().await;
        }
        let body = request.into_body().collect().await.unwrap().to_bytes();
        if watch {
            return Ok(self.watch());
        }
        let (verb, code, answer) = self.state().serve(&method, &body);
        self.state().log.push((verb, code));
        if self
            .state()
            .fault
            .take_if(|fault| *fault == Fault::LoseAnswer)
            .is_some()
        {
            std::future::pending::<()>().await;
        }
        Ok(reply(code, &answer))
    }

    fn watch(&self) -> Answer {
        let mut state = self.state();
        if state.watch_forbidden {
            state.log.push(("watch", 403));
            return reply(403, &refusal(403, "Forbidden"));
        }
        let (sender, receiver) = mpsc::unbounded();
        state.watches.push(sender);
        state.log.push(("watch", 200));
        Response::new(StreamBody::new(receiver).boxed_unsync())
    }
}

impl HubState {
    fn serve(&mut self, method: &Method, body: &[u8]) -> (&'static str, u16, Value) {
        if *method == Method::GET {
            return match &self.lease {
                Some(lease) => ("get", 200, lease.clone()),
                None => ("get", 404, refusal(404, "NotFound")),
            };
        }
        let mut lease: Value = serde_json::from_slice(body).unwrap();
        if *method == Method::POST {
            if self.lease.is_some() {
                return ("create", 409, refusal(409, "AlreadyExists"));
            }
            self.store(&mut lease, "ADDED");
            return ("create", 201, lease);
        }
        let guard = lease["metadata"]["resourceVersion"].clone();
        match &self.lease {
            None => ("update", 404, refusal(404, "NotFound")),
            Some(old) if old["metadata"]["resourceVersion"] != guard => {
                ("update", 409, refusal(409, "Conflict"))
            }
            Some(_) => {
                self.store(&mut lease, "MODIFIED");
                ("update", 200, lease)
            }
        }
    }

    fn store(&mut self, lease: &mut Value, event: &str) {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(lease.clone());
        let line = format!("{}\n", json!({"type": event, "object": lease}));
        self.watches.retain(|watch| {
            watch
                .unbounded_send(Ok(Frame::data(Bytes::from(line.clone()))))
                .is_ok()
        });
    }
}

fn reply(code: u16, body: &Value) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

fn refusal(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason})
}

struct Replica {
    handle: Handle,
    task: tokio::task::JoinHandle<()>,
    stop: CancellationToken,
}

fn start(hub: &Hub, identity: &str) -> Replica {
    let stop = CancellationToken::new();
    let config = Config {
        namespace: "mcu-system".to_owned(),
        name: "mcu-controller".to_owned(),
        identity: identity.to_owned(),
        timing: Timing::of(Duration::from_secs(15)).unwrap(),
    };
    let (handle, task) = crate::lease::run(
        hub.client(),
        config,
        &crate::sources::Sources::system(),
        stop.clone(),
    );
    Replica { handle, task, stop }
}

async fn following(replica: &Replica, holder: &str) {
    replica
        .handle
        .subscribe()
        .wait_for(|role| matches!(role, Leadership::Follower { holder: Some(name) } if name == holder))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_leader_looks_once_creates_once_and_then_only_renews() {
    let hub = Hub::default();
    let replica = start(&hub, "a");
    let term = replica.handle.lead().await;
    tokio::time::sleep(Duration::from_secs(601)).await;
    assert!(replica.handle.is_leader() && !term.ended().is_cancelled());
    assert_eq!(hub.count("get", 404), 1, "the first look");
    assert_eq!(hub.count("create", 201), 1);
    let lease = hub.state().lease.clone().unwrap();
    let version = &lease["metadata"]["annotations"][ANNOTATION_LEADER_VERSION];
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    assert_eq!(
        hub.state().log.len(),
        2 + 120,
        "one renewal every 5 s and nothing else"
    );
}

#[tokio::test(start_paused = true)]
async fn a_follower_watches_and_makes_no_other_request() {
    let hub = Hub::default();
    let first = start(&hub, "a");
    first.handle.lead().await;
    let second = start(&hub, "b");
    following(&second, "a").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!((hub.count("get", 200), hub.count("watch", 200)), (1, 1));
    assert!(!second.handle.is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_over_at_once_and_counts_one_transition() {
    let hub = Hub::default();
    let first = start(&hub, "a");
    let term = first.handle.lead().await;
    let second = start(&hub, "b");
    following(&second, "a").await;
    let asked = Instant::now();
    first.stop.cancel();
    first.task.await.unwrap();
    assert!(term.ended().is_cancelled() && !first.handle.is_leader());
    second.handle.lead().await;
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    assert_eq!(hub.spec("holderIdentity"), "b");
    assert_eq!(hub.spec("leaseTransitions"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_follower_without_a_watch_polls_and_still_takes_over_within_a_retry_period() {
    let hub = Hub::default();
    hub.state().watch_forbidden = true;
    let first = start(&hub, "a");
    first.handle.lead().await;
    let second = start(&hub, "b");
    following(&second, "a").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let reads = hub.count("get", 200);
    assert!((20..=32).contains(&reads), "{reads}");
    first.stop.cancel();
    let asked = Instant::now();
    second.handle.lead().await;
    assert!(asked.elapsed() < Duration::from_millis(2500));
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_succeeded_when_its_lease_has_run_out_and_not_before() {
    let hub = Hub::default();
    let first = start(&hub, "a");
    first.handle.lead().await;
    let second = start(&hub, "b");
    following(&second, "a").await;
    first.task.abort();
    let died = Instant::now();
    second.handle.lead().await;
    let gap = died.elapsed();
    assert!(
        gap > Duration::from_secs(9) && gap <= Duration::from_secs(16),
        "{gap:?}"
    );
    assert_eq!(hub.count("update", 409), 0);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_reach_the_server_gives_up_at_the_deadline_and_leads_again_after() {
    let hub = Hub::default();
    let replica = start(&hub, "a");
    let term = replica.handle.lead().await;
    let valid_until = replica.handle.fence().valid_until().unwrap();
    hub.state().fault = Some(Fault::Down);
    term.ended().cancelled().await;
    assert!(!replica.handle.is_leader());
    assert!(
        Instant::now() <= valid_until + Duration::from_millis(10),
        "not later than the fence"
    );
    hub.state().fault = None;
    let again = replica.handle.lead().await;
    assert!(!again.ended().is_cancelled() && again.since > term.since);
    assert_eq!(hub.spec("leaseTransitions"), 0, "nobody else held it meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answer_is_lost_does_not_end_the_term() {
    let hub = Hub::default();
    let replica = start(&hub, "a");
    let term = replica.handle.lead().await;
    hub.state().fault = Some(Fault::LoseAnswer);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(replica.handle.is_leader() && !term.ended().is_cancelled());
    assert_eq!(hub.count("update", 409), 0, "it looked before it wrote again");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_taken_ends_its_term_without_touching_the_successors_claim() {
    let hub = Hub::default();
    let replica = start(&hub, "a");
    let term = replica.handle.lead().await;
    {
        let mut state = hub.state();
        let mut lease = state.lease.clone().unwrap();
        lease["spec"]["holderIdentity"] = json!("b");
        state.store(&mut lease, "MODIFIED");
    }
    term.ended().cancelled().await;
    assert_eq!(hub.count("update", 409), 1);
    following(&replica, "b").await;
    replica.stop.cancel();
    replica.task.await.unwrap();
    assert_eq!(hub.spec("holderIdentity"), "b");
}

#[tokio::test(start_paused = true)]
async fn of_candidates_that_start_together_one_leads() {
    let hub = Hub::default();
    let replicas = [start(&hub, "a"), start(&hub, "b"), start(&hub, "c")];
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        replicas
            .iter()
            .filter(|replica| replica.handle.is_leader())
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_in_the_middle_of_a_renewal_ends_within_its_budget() {
    let hub = Hub::default();
    let replica = start(&hub, "a");
    replica.handle.lead().await;
    hub.state().fault = Some(Fault::HangWrites);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let asked = Instant::now();
    replica.stop.cancel();
    replica.task.await.unwrap();
    assert!(asked.elapsed() <= RELEASE_BUDGET);
}
