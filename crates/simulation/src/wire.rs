//! The network between one client and the hub: latency, and the faults of the way and of the API server.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream;
use http::header::RETRY_AFTER;
use http::{HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::json;
use tokio::sync::oneshot;

use crate::choice::Choices;
use crate::fault::{Fault, Faults, Occasion};
use crate::options::Options;
use crate::time::VirtualClock;
use crate::trace::Trace;

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// What all wires of a run share.
#[derive(Clone, Debug)]
pub struct Network {
    options: Arc<Options>,
    faults: Arc<Faults>,
    choices: Choices,
    clock: VirtualClock,
    trace: Trace,
    /// Whether faults happen.
    chaos: Arc<AtomicBool>,
    /// How often each kind of request was sent.
    counts: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Network {
    /// A network in which faults happen until [`Network::repair`].
    #[must_use]
    pub fn new(options: &Arc<Options>, faults: &Faults, clock: VirtualClock, trace: &Trace) -> Self {
        Self {
            options: Arc::clone(options),
            faults: Arc::new(faults.clone()),
            choices: Choices::new(options.seed),
            clock,
            trace: trace.clone(),
            chaos: Arc::new(AtomicBool::new(true)),
            counts: Arc::default(),
        }
    }

    /// Ends all faults.
    pub fn repair(&self) {
        self.chaos.store(false, Ordering::Relaxed);
    }

    /// Whether a fault happens on this occasion.
    #[must_use]
    pub fn strikes(&self, fault: Fault, name: &str, count: u64) -> bool {
        let occasion = || Occasion {
            fault,
            name: name.to_owned(),
            count,
        };
        let happens = self.chaos.load(Ordering::Relaxed)
            && match &*self.faults {
                Faults::ByRate => {
                    let rate = self.options.rate(fault);
                    let name = format!("{} {name}", fault.as_str());
                    rate > 0 && self.choices.of(&name, count).happens(rate)
                }
                Faults::Only(faults) => !faults.is_empty() && faults.contains(&occasion()),
            };
        if happens {
            self.trace.add_fault(occasion());
        }
        happens
    }

    fn next(&self, name: &str) -> u64 {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(name.to_owned()).or_default();
        *count += 1;
        *count
    }

    fn latency(&self, name: &str, count: u64) -> Duration {
        let most = self.options.max_latency_millis * 1000;
        Duration::from_micros(self.choices.of(name, count).between(50, most.max(50)))
    }
}

/// The way of one client to the hub.
#[derive(Clone, Debug)]
pub struct Wire {
    network: Network,
    hub: hub_sim::Service,
    /// The client, in names of choices and in the trace.
    client: Arc<str>,
    /// Whether faults happen to this client.
    is_reliable: bool,
}

impl Wire {
    /// The way of a client that faults happen to.
    #[must_use]
    pub fn new(network: &Network, hub: hub_sim::Service, client: &str) -> Self {
        Self {
            network: network.clone(),
            hub,
            client: Arc::from(client),
            is_reliable: false,
        }
    }

    /// The same without faults, but with latency.
    #[must_use]
    pub fn reliable(self) -> Self {
        Self {
            is_reliable: true,
            ..self
        }
    }

    async fn send(self, request: Request<kube::client::Body>) -> Result<Response<Body>, std::io::Error> {
        let (network, clock) = (self.network.clone(), self.network.clock);
        let path = request.uri().path().to_owned();
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let verb = if is_watch {
            "WATCH"
        } else {
            request.method().as_str()
        };
        let name = format!("{} {verb} {path}", self.client);
        let count = network.next(&name);
        network.trace.count_request();
        let strikes = |fault| !self.is_reliable && network.strikes(fault, &name, count);
        let (there, back) = (
            network.latency(&format!("there {name}"), count),
            network.latency(&format!("back {name}"), count),
        );
        tokio::time::sleep(there).await;
        if strikes(Fault::Lost) {
            network.trace.add(clock.seconds(), &format!("{name} lost"));
            return Err(reset());
        }
        for (fault, code) in [
            (Fault::TooManyRequests, 429),
            (Fault::InternalError, 500),
            (Fault::Unavailable, 503),
        ] {
            if strikes(fault) {
                network
                    .trace
                    .add(clock.seconds(), &format!("{name} refused with {code}"));
                tokio::time::sleep(back).await;
                return Ok(refusal(code));
            }
        }
        let is_late = !is_watch && strikes(Fault::Late);
        let (sender, answer) = oneshot::channel();
        // The hub carries a request out whatever becomes of its sender.
        let (hub, network2, name2) = (self.hub.clone(), network.clone(), name.clone());
        tokio::spawn(async move {
            if is_late {
                let late = network2
                    .choices
                    .of(&format!("late {name2}"), count)
                    .between(5, 55);
                tokio::time::sleep(Duration::from_secs(late)).await;
            }
            let response = hub.handle(request).await;
            let line = format!(
                "{name2} {}{}",
                response.status().as_u16(),
                if is_late { " late" } else { "" }
            );
            network2.trace.add(clock.seconds(), &line);
            // The sender may have gone.
            let _ = sender.send(response);
        });
        let response = answer.await.map_err(|_| reset())?;
        if !is_watch && strikes(Fault::AnswerLost) {
            network.trace.add(clock.seconds(), &format!("{name} answer lost"));
            return Err(reset());
        }
        tokio::time::sleep(back).await;
        Ok(if is_watch {
            self.watch(response, &name, count)
        } else {
            response.map(plain)
        })
    }

    /// The events of a watch, each with a latency, until a fault ends or silences it.
    fn watch(self, response: Response<hub_sim::Body>, name: &str, count: u64) -> Response<Body> {
        let (network, name) = (self.network.clone(), format!("{name} #{count}"));
        let is_reliable = self.is_reliable;
        response.map(|body| {
            let frames = body.into_data_stream().boxed();
            let state = (frames, 0_u64, network, name);
            let events = stream::unfold(state, move |(mut frames, at, network, name)| async move {
                let event = frames.next().await?;
                let at = at + 1;
                if !is_reliable && network.strikes(Fault::WatchSilent, &name, at) {
                    network
                        .trace
                        .add(network.clock.seconds(), &format!("{name} is silent"));
                    std::future::pending::<()>().await;
                }
                if !is_reliable && network.strikes(Fault::WatchCut, &name, at) {
                    network.trace.add(network.clock.seconds(), &format!("{name} cut"));
                    return None;
                }
                tokio::time::sleep(network.latency(&name, at)).await;
                let frame = event.map(Frame::data).map_err(|never| match never {});
                Some((frame, (frames, at, network, name)))
            });
            UnsyncBoxBody::new(StreamBody::new(events))
        })
    }
}

fn plain(body: hub_sim::Body) -> Body {
    body.map_err(|never| match never {}).boxed_unsync()
}

fn reset() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset by peer")
}

fn refusal(code: u16) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "message": "the simulated hub refuses this request", "reason": if code == 429 { "TooManyRequests" } else { "InternalError" },
    });
    let body = Full::new(Bytes::from(status.to_string()))
        .map_err(|never| match never {})
        .boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    if code == 429 {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

impl tower_service::Service<Request<kube::client::Body>> for Wire {
    type Response = Response<Body>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, std::io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}
