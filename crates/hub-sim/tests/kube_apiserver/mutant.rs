//! A simulated hub with one fault: between the client and the hub, requests, answers or events are changed, or the hub has other
//! definitions. The comparison must notice every one of them.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{Method, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, BodyStream, Full, StreamBody};
use hub_sim::{Body, Hub, Service};
use serde_json::{Value, json};

use crate::mutation::Mutation;

/// A hub behind a fault.
#[derive(Clone)]
pub struct Mutant {
    hub: Hub,
    inner: Service,
    mutation: Mutation,
    /// The last state that was answered of each object, by uid.
    seen: Arc<Mutex<HashMap<String, Value>>>,
}

impl Mutant {
    pub fn new(hub: &Hub, mutation: Mutation) -> Self {
        Self {
            hub: hub.clone(),
            inner: Service::new(hub, "admin"),
            mutation,
            seen: Arc::default(),
        }
    }

    async fn handle(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let (path, query) = (parts.uri.path().to_owned(), parts.uri.query().unwrap_or_default());
        let query = self
            .mutation
            .query(query, self.hub.read(hub_sim::State::revision));
        let changed = self.mutation.request(&parts.method, body.clone());
        let bytes = if changed == body {
            bytes
        } else {
            Bytes::from(changed.to_string())
        };
        parts.uri = format!("{path}?{query}").parse().unwrap();
        if self.mutation == Mutation::AcceptIsIgnored {
            parts.headers.remove("accept");
        }
        if self.mutation == Mutation::FinalizersAreIgnored && parts.method == Method::DELETE {
            self.release(&path).await;
        }
        let method = parts.method.clone();
        let response = self
            .inner
            .handle(Request::from_parts(parts, Full::new(bytes)))
            .await;
        if query.contains("watch=true") {
            return self.watch(response, query.contains("labelSelector=t"));
        }
        let (mut parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        if self.mutation == Mutation::WarningsAreDropped {
            parts.headers.remove("warning");
        }
        let text = match serde_json::from_slice(&bytes) {
            Ok(answer) if method != Method::GET => Bytes::from(self.answer(&path, answer).to_string()),
            _ => bytes,
        };
        Response::from_parts(parts, Full::new(text).boxed())
    }

    /// Removes the finalizers of an object.
    async fn release(&self, path: &str) {
        let release = json!({"metadata": {"finalizers": null}}).to_string();
        let request = Request::patch(path)
            .header("content-type", "application/merge-patch+json")
            .body(Full::new(Bytes::from(release)))
            .unwrap();
        self.inner.handle(request).await;
    }

    /// The answer to a write.
    fn answer(&self, path: &str, mut answer: Value) -> Value {
        let Some(uid) = answer["metadata"]["uid"].as_str().map(str::to_owned) else {
            return answer;
        };
        let mut seen = self.seen.lock().unwrap();
        let before = seen.insert(uid, answer.clone()).unwrap_or_default();
        let meta = &mut answer["metadata"];
        match self.mutation {
            Mutation::NothingBumpsRevision
                if meta["resourceVersion"] == before["metadata"]["resourceVersion"] =>
            {
                meta["resourceVersion"] =
                    format!("9{}", meta["resourceVersion"].as_str().unwrap_or_default()).into();
            }
            Mutation::ManagersAreKept => {
                if let (Some(had), Some(have)) = (
                    before["metadata"]["managedFields"].as_array(),
                    meta["managedFields"].as_array_mut(),
                ) {
                    let is_gone = |old: &&Value| !have.iter().any(|new| new["manager"] == old["manager"]);
                    let gone: Vec<Value> = had.iter().filter(is_gone).cloned().collect();
                    have.extend(gone);
                }
            }
            Mutation::StatusCounts if path.ends_with("/status") && meta["generation"].is_i64() => {
                meta["generation"] = (meta["generation"].as_i64().unwrap() + 1).into();
            }
            _ => {}
        }
        answer
    }

    fn watch(&self, response: Response<Body>, is_selective: bool) -> Response<Body> {
        let mutation = self.mutation;
        let mut held: Option<String> = None;
        let (parts, body) = response.into_parts();
        let frames = BodyStream::new(body).map(move |frame| {
            let frame = frame.unwrap_or_else(|never: Infallible| match never {});
            let bytes = frame.into_data().unwrap_or_default();
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            let lines: String = text
                .lines()
                .map(|line| mutation.event(line, is_selective, &mut held))
                .collect();
            Ok(http_body::Frame::data(Bytes::from(lines)))
        });
        Response::from_parts(parts, BoxBody::new(StreamBody::new(frames)))
    }
}

impl tower_service::Service<Request<kube::client::Body>> for Mutant {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let mutant = self.clone();
        Box::pin(async move { Ok(mutant.handle(request).await) })
    }
}

/// A continue token that means the present state instead of that of the first page.
pub fn token_of_now(token: &str, revision: u64) -> String {
    let bytes = URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
    let Ok(mut token) = serde_json::from_slice::<Value>(&bytes) else {
        return token.to_owned();
    };
    token["rv"] = revision.into();
    URL_SAFE_NO_PAD.encode(token.to_string())
}
