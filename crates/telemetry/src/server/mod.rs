//! An HTTP/1.1 server whose clients may be slow or hostile.
//!
//! `axum::serve` limits neither the number of connections nor their duration, so connections are accepted
//! here. One periodic task checks all connections that wait for their client (for the head of a request, for
//! the next request, or for room to write), so a request needs no timer. If the limit of connections is
//! reached, the one that has waited longest for its client is closed. So slow clients cannot keep others out.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tower::Service;

/// A client that takes fewer bytes than this while a write waits for it counts as one that takes nothing.
const MIN_PROGRESS: u64 = 16 * 1024;
/// A connection that has waited for its client for less than this is not closed for another one.
const GRACE: Duration = Duration::from_secs(1);

/// The limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest number of served connections.
    pub connections: usize,
    /// Largest number of further connections that wait in the kernel.
    pub backlog: u32,
    /// Time limit for the head of a request from its first byte on, and for the first request from the
    /// connection on.
    pub header_timeout: Duration,
    /// Time limit between a response and the next request.
    pub idle_timeout: Duration,
    /// Time in which a client must take 16 KiB of a response, or the rest of it.
    pub write_timeout: Duration,
    /// Largest head of a request, in bytes; must be at least 8 KiB.
    pub head: usize,
    /// Time limit at shutdown for requests that are being processed.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            backlog: 1024,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(1),
            write_timeout: Duration::from_secs(15),
            head: 16 * 1024,
            drain: Duration::from_secs(5),
        }
    }
}

/// Why the server closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// No request arrived in time.
    Idle,
    /// The head of a request did not arrive in time.
    SlowHead,
    /// A response was not taken in time.
    SlowReader,
    /// The limit of connections was reached, and this one had waited longest for its client.
    MadeRoom,
}

impl Closed {
    const ALL: [Self; 4] = [Self::Idle, Self::SlowHead, Self::SlowReader, Self::MadeRoom];

    fn label(self) -> [(&'static str, &'static str); 1] {
        let reason = match self {
            Self::Idle => "idle",
            Self::SlowHead => "slow_head",
            Self::SlowReader => "slow_reader",
            Self::MadeRoom => "made_room",
        };
        [("reason", reason)]
    }
}

/// The series of a server. The owner may register them under its own names. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServerMetrics {
    /// Open connections.
    pub open: Gauge,
    /// Connections that the server closed, by `reason`.
    pub closed: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Default for ServerMetrics {
    fn default() -> Self {
        let closed = Family::default();
        for reason in Closed::ALL {
            // A series starts at zero, so that its rate is known from the first scrape.
            drop(closed.get_or_create(&reason.label()));
        }
        Self {
            open: Gauge::default(),
            closed,
        }
    }
}

impl ServerMetrics {
    fn closed(&self, reason: Closed) {
        self.closed.get_or_create(&reason.label()).inc();
    }
}

/// Serves until `shutdown`, then finishes requests that are being processed, for at most [`Limits::drain`].
/// Handlers may extract the client's address by [`ConnectInfo`].
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    metrics: ServerMetrics,
    shutdown: CancellationToken,
) {
    let connections = Arc::new(Connections::new(limits, metrics));
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut tasks = JoinSet::new();
    // The task ends with this function, even if the function is aborted.
    let mut sweeper = JoinSet::new();
    sweeper.spawn(Arc::clone(&connections).sweep());
    loop {
        while tasks.try_join_next().is_some() {}
        let accepted = shutdown
            .run_until_cancelled(accept(&listener, &places, &connections))
            .await;
        let Some((accepted, place)) = accepted else { break };
        let (activity, end) = (Arc::new(Activity::new(connections.epoch)), shutdown.clone());
        let (router, tracked, id) = (router.clone(), Arc::clone(&activity), connections.next_id());
        let guard = Guard {
            connections: Arc::clone(&connections),
            id,
        };
        let task = async move {
            connection(accepted, router, tracked, limits, end).await;
            drop((guard, place));
        };
        connections.insert(id, activity, || tasks.spawn(task));
    }
    drop(listener);
    let all_ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.drain, all_ended).await.is_err() {
        tracing::warn!("connections were still busy at shutdown and are closed");
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    connections: &Connections,
) -> ((TcpStream, SocketAddr), tokio::sync::OwnedSemaphorePermit) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // The process may be out of file descriptors. A pause lets connections end, which frees some.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        loop {
            if let Ok(place) = Arc::clone(places).try_acquire_owned() {
                return ((stream, peer), place);
            }
            connections.make_room();
            let place = Arc::clone(places).acquire_owned();
            if let Ok(Ok(place)) = tokio::time::timeout(Duration::from_millis(50), place).await {
                return ((stream, peer), place);
            }
        }
    }
}

async fn connection(
    (stream, peer): (TcpStream, SocketAddr),
    router: Router,
    activity: Arc<Activity>,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let io = TokioIo::new(TrackedStream {
        stream,
        activity: Arc::clone(&activity),
    });
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        activity.busy();
        request.extensions_mut().insert(ConnectInfo(peer));
        router.clone().call(request)
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(limits.head.max(8192))
        .serve_connection(io, service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "connection ended");
    }
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionPhase {
    /// For the server.
    Busy = 0,
    /// For the first byte of a request.
    Idle = 1,
    /// For the rest of a request's head.
    Head = 2,
    /// For room to write.
    Writing = 3,
}

/// What a connection waits for and since when, in one word: the phase in the two lowest bits, milliseconds
/// above.
#[derive(Debug)]
struct Activity {
    epoch: Instant,
    word: AtomicU64,
    /// Bytes that were written since the connection waits for room.
    written: AtomicU64,
}

impl Activity {
    fn new(epoch: Instant) -> Self {
        let activity = Self {
            epoch,
            word: AtomicU64::new(0),
            written: AtomicU64::new(0),
        };
        activity.set(ConnectionPhase::Head);
        activity
    }

    fn set(&self, phase: ConnectionPhase) {
        let millis = u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX >> 2);
        self.word.store(millis << 2 | phase as u64, Ordering::Relaxed);
    }

    fn busy(&self) {
        self.word.store(ConnectionPhase::Busy as u64, Ordering::Relaxed);
    }

    fn phase(&self) -> ConnectionPhase {
        match self.word.load(Ordering::Relaxed) & 3 {
            0 => ConnectionPhase::Busy,
            1 => ConnectionPhase::Idle,
            2 => ConnectionPhase::Head,
            _ => ConnectionPhase::Writing,
        }
    }

    /// The phase and its duration, if the connection waits for the client.
    fn waiting(&self) -> Option<(ConnectionPhase, Duration)> {
        let millis = self.word.load(Ordering::Relaxed) >> 2;
        match self.phase() {
            ConnectionPhase::Busy => None,
            phase => Some((
                phase,
                self.epoch.elapsed().saturating_sub(Duration::from_millis(millis)),
            )),
        }
    }

    fn read(&self, result: &Poll<io::Result<()>>, bytes: usize) {
        match (result, self.phase()) {
            (Poll::Pending, ConnectionPhase::Busy) => self.set(ConnectionPhase::Idle),
            (Poll::Ready(_), ConnectionPhase::Idle) if bytes > 0 => self.set(ConnectionPhase::Head),
            _ => {}
        }
    }

    fn wrote(&self, result: &Poll<io::Result<usize>>, offered: usize) {
        match result {
            Poll::Pending if self.phase() != ConnectionPhase::Writing => {
                self.written.store(0, Ordering::Relaxed);
                self.set(ConnectionPhase::Writing);
            }
            Poll::Ready(Ok(taken)) if self.phase() == ConnectionPhase::Writing => {
                let written = self.written.fetch_add(*taken as u64, Ordering::Relaxed) + *taken as u64;
                if *taken == offered || written >= MIN_PROGRESS {
                    self.busy();
                }
            }
            _ => {}
        }
    }
}

/// A stream that records what it waits for.
struct TrackedStream {
    stream: TcpStream,
    activity: Arc<Activity>,
}

impl AsyncRead for TrackedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let result = Pin::new(&mut this.stream).poll_read(cx, buf);
        this.activity.read(&result, buf.filled().len() - before);
        result
    }
}

impl AsyncWrite for TrackedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.activity.wrote(&result, bytes.len());
        result
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.activity
            .wrote(&result, parts.iter().map(|part| part.len()).sum());
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// All connections, for the periodic check and for making room.
struct Connections {
    epoch: Instant,
    limits: Limits,
    metrics: ServerMetrics,
    ids: AtomicU64,
    entries: Mutex<BTreeMap<u64, (Arc<Activity>, AbortHandle)>>,
}

/// Removes a connection when its task ends, however it ends.
struct Guard {
    connections: Arc<Connections>,
    id: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.connections.lock().remove(&self.id);
        self.connections.metrics.open.dec();
    }
}

impl Connections {
    fn new(limits: Limits, metrics: ServerMetrics) -> Self {
        Self {
            epoch: Instant::now(),
            limits,
            metrics,
            ids: AtomicU64::new(0),
            entries: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, (Arc<Activity>, AbortHandle)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Starts the task of a connection and adds the connection. This order is safe even if the task ends at
    /// once, because its guard waits for the lock.
    fn insert(&self, id: u64, activity: Arc<Activity>, start: impl FnOnce() -> AbortHandle) {
        let mut entries = self.lock();
        entries.insert(id, (activity, start()));
        self.metrics.open.inc();
    }

    /// Closes connections whose time limit has passed. Never returns.
    async fn sweep(self: Arc<Self>) {
        let limits = self.limits;
        let shortest = limits
            .header_timeout
            .min(limits.idle_timeout)
            .min(limits.write_timeout);
        let pause = (shortest / 4).clamp(Duration::from_millis(20), Duration::from_secs(1));
        loop {
            tokio::time::sleep(pause).await;
            for (activity, abort) in self.lock().values() {
                let Some((phase, waited)) = activity.waiting() else {
                    continue;
                };
                let (limit, reason) = match phase {
                    ConnectionPhase::Head => (limits.header_timeout, Closed::SlowHead),
                    ConnectionPhase::Writing => (limits.write_timeout, Closed::SlowReader),
                    ConnectionPhase::Idle | ConnectionPhase::Busy => (limits.idle_timeout, Closed::Idle),
                };
                if waited > limit {
                    abort.abort();
                    self.metrics.closed(reason);
                }
            }
        }
    }

    /// Closes the connection that has waited longest for its client.
    fn make_room(&self) {
        let grace = GRACE.min(self.limits.header_timeout / 4);
        let entries = self.lock();
        let longest = entries
            .values()
            .filter(|(_, abort)| !abort.is_finished())
            .filter_map(|(activity, abort)| Some((activity.waiting()?.1, abort)))
            .max_by_key(|(waited, _)| *waited);
        if let Some((waited, abort)) = longest
            && waited >= grace
        {
            abort.abort();
            self.metrics.closed(Closed::MadeRoom);
        }
    }
}
