//! A reverse proxy in front of the hub's API server that injects faults.
//!
//! It accepts plain HTTP, connects to the hub by TLS, and logs every request with its time. The test decides what happens to a
//! request ([`Verdict`]). The proxy passes the caller's credentials on and has none itself, so RBAC applies to the
//! controller as usual.

mod body;
mod forward;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use http::Method;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::{Client, Config};
use serde_json::json;
use testenv::HubKubeconfig;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::test_hub::TestHub;

/// What the proxy does with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Pass it on, and the answer back.
    Pass,
    /// Pass it on after a while.
    Delay(Duration),
    /// Answer with this code; the API server never sees it.
    Answer(u16),
    /// Never pass it on; the connection closes.
    Drop,
    /// Pass it on; the answer is lost and the connection closes.
    LoseAnswer,
    /// Pass it on, answer nothing, and hold every later request: the moment to kill the caller.
    FreezeAfter,
    /// Hold it and every later request.
    FreezeBefore,
    /// The connection closes; the API server receives the request when the test says so ([`Proxy::deliver`]).
    Postpone,
}

/// A request as the proxy saw it.
#[derive(Debug, Clone)]
pub struct Request {
    /// Position among all requests, from 1.
    pub number: usize,
    /// Position among the writes, from 1; 0 for a read.
    pub write: usize,
    /// HTTP method.
    pub method: Method,
    /// Path without the query.
    pub path: String,
    /// Query; empty if there is none.
    pub query: String,
    /// When it arrived.
    pub at: Instant,
    /// Code of the API server's answer, or the proxy's own.
    pub code: Option<u16>,
}

impl Request {
    /// True for everything but a read.
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.write > 0
    }

    /// True for a watch.
    #[must_use]
    pub fn is_watch(&self) -> bool {
        self.query
            .split('&')
            .any(|part| part == "watch=true" || part == "watch=1")
    }

    /// True when it concerns this resource, such as `manifestworks`.
    #[must_use]
    pub fn about(&self, resource: &str) -> bool {
        self.path.split('/').any(|part| part == resource)
    }
}

type Judge = dyn FnMut(&Request) -> Verdict + Send;

/// See the module. Connections stay open until the process ends or the proxy is frozen and dropped.
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
    accepting: tokio::task::JoinHandle<()>,
}

pub(crate) struct State {
    upstream: Client,
    log: Mutex<Vec<Request>>,
    judge: Mutex<Box<Judge>>,
    frozen: watch::Sender<bool>,
    pub(crate) cuts: watch::Sender<u64>,
    postponed: Mutex<Vec<(http::request::Parts, Bytes)>>,
}

impl Proxy {
    /// Starts to listen; everything passes until [`Proxy::judge`] says otherwise.
    ///
    /// # Errors
    /// No port, or the hub's address does not parse.
    pub async fn start(test_hub: &TestHub) -> Result<Self> {
        let admin: &HubKubeconfig = test_hub.hub().kubeconfig();
        let mut config: Config = admin.config().await?;
        config.auth_info = kube::config::AuthInfo::default();
        config.read_timeout = None;
        let state = Arc::new(State {
            upstream: Client::try_from(config)?,
            log: Mutex::default(),
            judge: Mutex::new(Box::new(|_| Verdict::Pass)),
            frozen: watch::Sender::new(false),
            cuts: watch::Sender::new(0),
            postponed: Mutex::default(),
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

    /// Decides what happens to each request from now on.
    pub fn judge(&self, judge: impl FnMut(&Request) -> Verdict + Send + 'static) {
        *lock(&self.state.judge) = Box::new(judge);
    }

    /// Every request so far.
    #[must_use]
    pub fn log(&self) -> Vec<Request> {
        lock(&self.state.log).clone()
    }

    /// Writes so far.
    #[must_use]
    pub fn writes(&self) -> Vec<Request> {
        self.log().into_iter().filter(Request::is_write).collect()
    }

    /// Passes on every request that was postponed, and returns the codes of the API server's answers.
    ///
    /// # Errors
    /// The API server cannot be reached.
    pub async fn deliver(&self) -> Result<Vec<u16>> {
        let postponed = std::mem::take(&mut *lock(&self.state.postponed));
        let mut codes = Vec::new();
        for (parts, body) in postponed {
            codes.push(forward::pass(&self.state, parts, body).await?.status().as_u16());
        }
        Ok(codes)
    }

    /// Ends every watch that is open.
    pub fn cut_watches(&self) {
        self.state.cuts.send_modify(|count| *count += 1);
    }

    /// Waits until a request has frozen the proxy; false after `timeout`.
    pub async fn frozen(&self, timeout: Duration) -> bool {
        let mut frozen = self.state.frozen.subscribe();
        tokio::time::timeout(timeout, frozen.wait_for(|frozen| *frozen))
            .await
            .is_ok()
    }

    /// Lets requests through again; held ones stay held, since their caller is dead.
    pub fn thaw(&self) {
        self.state.frozen.send_replace(false);
    }

    /// Writes a kubeconfig that leads here, with the controller's token.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn kubeconfig(&self, test_hub: &TestHub, path: &Path) -> Result<PathBuf> {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "hub",
            "clusters": [{"name": "hub", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "controller", "user": {"token": test_hub.identity().token()}}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "controller"}}],
        });
        std::fs::write(path, config.to_string())?;
        Ok(path.to_path_buf())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Notes a request and decides about it.
    fn admit(&self, method: &Method, path: &str, query: &str) -> (Request, Verdict) {
        let mut log = lock(&self.log);
        // A review of the caller's identity is a POST that stores nothing.
        let asks = path.ends_with("/selfsubjectreviews");
        let is_write = !asks && !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        let writes = log.iter().filter(|request| request.is_write()).count();
        let request = Request {
            number: log.len() + 1,
            write: if is_write { writes + 1 } else { 0 },
            method: method.clone(),
            path: path.to_owned(),
            query: query.to_owned(),
            at: Instant::now(),
            code: None,
        };
        let verdict = if *self.frozen.borrow() {
            Verdict::FreezeBefore
        } else {
            let verdict = (lock(&self.judge))(&request);
            // Nothing slips through between the verdict and the freeze: the log is locked.
            if matches!(verdict, Verdict::FreezeBefore) {
                self.frozen.send_replace(true);
            }
            verdict
        };
        log.push(request.clone());
        (request, verdict)
    }

    fn postpone(&self, parts: http::request::Parts, body: Bytes) {
        lock(&self.postponed).push((parts, body));
    }

    fn note(&self, request: &Request, code: u16) {
        if let Some(entry) = lock(&self.log).get_mut(request.number - 1) {
            entry.code = Some(code);
        }
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = service_fn(move |request| forward::serve(Arc::clone(&state), request));
            // A caller that is killed breaks its connections, which is expected.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
