//! A plain HTTP proxy in front of the registry that answers badly on purpose, and remembers every request.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use http::{Method, Request, Response, StatusCode, Uri, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is passed on.
    Pass,
    /// It is passed on after a while.
    Delay(Duration),
    /// The registry never sees it.
    Answer(u16),
    /// Its answer ends in the middle.
    CutOff,
}

/// A request and what became of it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: Method,
    pub path: String,
    /// The status that was sent.
    pub status: u16,
    pub verdict: Verdict,
}

impl Seen {
    /// The digest of the blob whose bytes were sent whole.
    pub fn fetched_blob(&self) -> Option<&str> {
        let whole = self.method == Method::GET && self.status == 200 && self.verdict != Verdict::CutOff;
        let (_, digest) = self.path.split_once("/blobs/")?;
        whole.then_some(digest)
    }
}

type Judge = dyn FnMut(&Method, &str) -> Verdict + Send;
type Body = BoxBody<Bytes, anyhow::Error>;

/// See the module. Dropping it closes its port.
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
    accepting: tokio::task::JoinHandle<()>,
}

struct State {
    upstream: String,
    client: Client<HttpConnector, Full<Bytes>>,
    judge: Mutex<Box<Judge>>,
    log: Mutex<Vec<Seen>>,
}

impl Proxy {
    /// Listens in front of a registry; everything passes until [`Proxy::judge`] says otherwise.
    pub async fn start(upstream: &str) -> Result<Self> {
        let state = Arc::new(State {
            upstream: upstream.to_owned(),
            client: Client::builder(TokioExecutor::new()).build_http(),
            judge: Mutex::new(Box::new(|_, _| Verdict::Pass)),
            log: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(accept(listener, Arc::clone(&state)));
        Ok(Self {
            address,
            state,
            accepting,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Decides what happens to each request from now on, by method and path.
    pub fn judge(&self, judge: impl FnMut(&Method, &str) -> Verdict + Send + 'static) {
        *lock(&self.state.judge) = Box::new(judge);
    }

    /// Takes the requests so far.
    pub fn take_log(&self) -> Vec<Seen> {
        std::mem::take(&mut *lock(&self.state.log))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = service_fn(move |request| serve(Arc::clone(&state), request));
            // A connection that breaks is the test's purpose.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn serve(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Body>> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let verdict = lock(&state.judge)(&method, &path);
    let answer = match verdict {
        Verdict::Answer(code) => Response::builder().status(code).body(Bytes::new())?,
        Verdict::Delay(time) => {
            tokio::time::sleep(time).await;
            pass(&state, request).await?
        }
        Verdict::Pass | Verdict::CutOff => pass(&state, request).await?,
    };
    lock(&state.log).push(Seen {
        method,
        path,
        status: answer.status().as_u16(),
        verdict,
    });
    Ok(
        if verdict == Verdict::CutOff && answer.status() == StatusCode::OK {
            answer.map(|bytes| first_half(&bytes))
        } else {
            answer.map(|bytes| Full::new(bytes).map_err(|never| match never {}).boxed())
        },
    )
}

async fn pass(state: &State, request: Request<Incoming>) -> Result<Response<Bytes>> {
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let target = parts
        .uri
        .path_and_query()
        .map_or("/", http::uri::PathAndQuery::as_str);
    parts.uri = format!("http://{}{target}", state.upstream).parse::<Uri>()?;
    // The host stays: the registry makes absolute locations of it, and they must lead here.
    parts.headers.remove(header::CONNECTION);
    parts.extensions = http::Extensions::new();
    let answer = state
        .client
        .request(Request::from_parts(parts, Full::new(body)))
        .await?;
    let (mut parts, body) = answer.into_parts();
    parts.headers.remove(header::CONNECTION);
    parts.headers.remove(header::TRANSFER_ENCODING);
    Ok(Response::from_parts(parts, body.collect().await?.to_bytes()))
}

/// The first half of a body under the length of the whole, then an error: the connection breaks.
fn first_half(bytes: &Bytes) -> Body {
    let half = bytes.slice(..bytes.len() / 2);
    let frames = futures::stream::iter([
        Ok(hyper::body::Frame::data(half)),
        Err(anyhow::anyhow!("cut off")),
    ]);
    BodyExt::boxed(http_body_util::StreamBody::new(frames))
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
