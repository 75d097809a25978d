//! Connections: how many, how long, and what becomes of slow ones.
//!
//! Owns accepting, the limits and the drain at the end. A connection that waits for its client (for a request's head,
//! for the next request, or for room to write) is timed by one sweep over all connections, so that a request costs no
//! timer. Where every place is taken, the connection that has waited longest for its client makes room: clients that
//! are slow, on purpose or not, cannot keep the others out. Refuses to look into requests.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::metrics::{Closed, Metrics};

/// A client that takes less than this while a write waits for it, in bytes, is no faster than one that takes nothing.
const PROGRESS: u64 = 16 * 1024;
/// A connection that has waited for its client for less than this does not make room for another.
const GRACE: Duration = Duration::from_secs(1);

/// What connections may do.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections served at a time.
    pub connections: usize,
    /// Connections that wait in the kernel beyond them.
    pub backlog: u32,
    /// Time for a request's head, from its first byte on, and for the first request from the connection on.
    pub header_timeout: Duration,
    /// Time between an answer and the next request.
    pub idle_timeout: Duration,
    /// Time in which a client must take 16 KiB of an answer, or what is left of it.
    pub write_timeout: Duration,
    /// Largest head of a request, in bytes; at least 8 KiB.
    pub head: usize,
    /// Time for requests in work once the end has come.
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

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// The answer to one request.
    fn handle(&self, request: Request<Incoming>) -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

/// Binds with the backlog of `limits`.
///
/// # Errors
/// When the address cannot be bound.
pub fn bind(address: SocketAddr, limits: &Limits) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(limits.backlog)
}

/// Serves until `shutdown`, then finishes requests in work for at most [`Limits::drain`].
pub async fn serve<H: Handler>(
    listener: TcpListener,
    handler: Arc<H>,
    limits: Limits,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
) {
    let table = Arc::new(Table::new(limits, metrics));
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut tasks = JoinSet::new();
    let sweeper = tokio::spawn(Arc::clone(&table).sweep());
    loop {
        while tasks.try_join_next().is_some() {}
        let accepted = shutdown
            .run_until_cancelled(accept(&listener, &places, &table))
            .await;
        let Some((stream, place)) = accepted else { break };
        let (vitals, end) = (Arc::new(Vitals::new(table.epoch)), shutdown.clone());
        let (handler, watched, id) = (Arc::clone(&handler), Arc::clone(&vitals), table.next_id());
        let guard = Guard {
            table: Arc::clone(&table),
            id,
        };
        let task = async move {
            connection(stream, handler, watched, limits, end).await;
            drop((guard, place));
        };
        table.insert(id, vitals, || tasks.spawn(task));
    }
    drop(listener);
    let all_ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.drain, all_ended).await.is_err() {
        tracing::warn!("connections were still busy at the end and are cut");
    }
    sweeper.abort();
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    table: &Table,
) -> (TcpStream, tokio::sync::OwnedSemaphorePermit) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors or the like: pausing lets the connections that hold them end.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        loop {
            if let Ok(place) = Arc::clone(places).try_acquire_owned() {
                return (stream, place);
            }
            table.make_room();
            let place = Arc::clone(places).acquire_owned();
            if let Ok(Ok(place)) = tokio::time::timeout(Duration::from_millis(50), place).await {
                return (stream, place);
            }
        }
    }
}

async fn connection<H: Handler>(
    stream: TcpStream,
    handler: Arc<H>,
    vitals: Arc<Vitals>,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let io = TokioIo::new(Watched {
        stream,
        vitals: Arc::clone(&vitals),
    });
    let service = hyper::service::service_fn(move |request| {
        vitals.busy();
        let handler = Arc::clone(&handler);
        async move { Ok::<_, Infallible>(handler.handle(request).await) }
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
        tracing::debug!(%error, "connection ended");
    }
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// For us.
    Busy = 0,
    /// For the first byte of a request.
    Idle = 1,
    /// For the rest of a request's head.
    Head = 2,
    /// For room to write.
    Writing = 3,
}

/// What a connection waits for and since when, in one word: the phase in the two lowest bits, milliseconds above.
#[derive(Debug)]
struct Vitals {
    epoch: Instant,
    word: AtomicU64,
    /// Bytes written since the connection waits for room.
    written: AtomicU64,
}

impl Vitals {
    fn new(epoch: Instant) -> Self {
        let vitals = Self {
            epoch,
            word: AtomicU64::new(0),
            written: AtomicU64::new(0),
        };
        vitals.set(Phase::Head);
        vitals
    }

    fn set(&self, phase: Phase) {
        let millis = u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX >> 2);
        self.word.store(millis << 2 | phase as u64, Ordering::Relaxed);
    }

    fn busy(&self) {
        self.word.store(Phase::Busy as u64, Ordering::Relaxed);
    }

    fn phase(&self) -> Phase {
        match self.word.load(Ordering::Relaxed) & 3 {
            0 => Phase::Busy,
            1 => Phase::Idle,
            2 => Phase::Head,
            _ => Phase::Writing,
        }
    }

    /// The phase and for how long, if it is the client's turn.
    fn waiting(&self) -> Option<(Phase, Duration)> {
        let millis = self.word.load(Ordering::Relaxed) >> 2;
        match self.phase() {
            Phase::Busy => None,
            phase => Some((
                phase,
                self.epoch.elapsed().saturating_sub(Duration::from_millis(millis)),
            )),
        }
    }

    fn read(&self, result: &Poll<io::Result<()>>, bytes: usize) {
        match (result, self.phase()) {
            (Poll::Pending, Phase::Busy) => self.set(Phase::Idle),
            (Poll::Ready(_), Phase::Idle) if bytes > 0 => self.set(Phase::Head),
            _ => {}
        }
    }

    fn wrote(&self, result: &Poll<io::Result<usize>>, offered: usize) {
        match result {
            Poll::Pending if self.phase() != Phase::Writing => {
                self.written.store(0, Ordering::Relaxed);
                self.set(Phase::Writing);
            }
            Poll::Ready(Ok(taken)) if self.phase() == Phase::Writing => {
                let written = self.written.fetch_add(*taken as u64, Ordering::Relaxed) + *taken as u64;
                if *taken == offered || written >= PROGRESS {
                    self.busy();
                }
            }
            _ => {}
        }
    }
}

/// A stream that notes what it waits for.
struct Watched {
    stream: TcpStream,
    vitals: Arc<Vitals>,
}

impl AsyncRead for Watched {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let result = Pin::new(&mut this.stream).poll_read(cx, buf);
        this.vitals.read(&result, buf.filled().len() - before);
        result
    }
}

impl AsyncWrite for Watched {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.vitals.wrote(&result, bytes.len());
        result
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.vitals
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

/// All connections, for the sweep and for making room.
struct Table {
    epoch: Instant,
    limits: Limits,
    metrics: Arc<Metrics>,
    ids: AtomicU64,
    entries: Mutex<HashMap<u64, (Arc<Vitals>, AbortHandle)>>,
}

/// Takes a connection out of the table when its task ends, however it ends.
struct Guard {
    table: Arc<Table>,
    id: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut entries = self.table.lock();
        entries.remove(&self.id);
        self.table.metrics.set_connections(entries.len());
    }
}

impl Table {
    fn new(limits: Limits, metrics: Arc<Metrics>) -> Self {
        Self {
            epoch: Instant::now(),
            limits,
            metrics,
            ids: AtomicU64::new(0),
            entries: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, (Arc<Vitals>, AbortHandle)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Starts a connection's task and enters it, in this order even if it ends at once: its guard waits for the lock.
    fn insert(&self, id: u64, vitals: Arc<Vitals>, start: impl FnOnce() -> AbortHandle) {
        let mut entries = self.lock();
        entries.insert(id, (vitals, start()));
        self.metrics.set_connections(entries.len());
    }

    /// Ends connections whose time has run out, for ever.
    async fn sweep(self: Arc<Self>) {
        let limits = self.limits;
        let shortest = limits
            .header_timeout
            .min(limits.idle_timeout)
            .min(limits.write_timeout);
        let pause = (shortest / 4).clamp(Duration::from_millis(20), Duration::from_secs(1));
        loop {
            tokio::time::sleep(pause).await;
            for (vitals, abort) in self.lock().values() {
                let Some((phase, waited)) = vitals.waiting() else {
                    continue;
                };
                let (limit, reason) = match phase {
                    Phase::Head => (limits.header_timeout, Closed::SlowHead),
                    Phase::Writing => (limits.write_timeout, Closed::SlowReader),
                    Phase::Idle | Phase::Busy => (limits.idle_timeout, Closed::Idle),
                };
                if waited > limit {
                    abort.abort();
                    self.metrics.connection_closed(reason);
                }
            }
        }
    }

    /// Ends the connection that has waited longest for its client.
    fn make_room(&self) {
        let grace = GRACE.min(self.limits.header_timeout / 4);
        let entries = self.lock();
        let longest = entries
            .values()
            .filter(|(_, abort)| !abort.is_finished())
            .filter_map(|(vitals, abort)| Some((vitals.waiting()?.1, abort)))
            .max_by_key(|(waited, _)| *waited);
        if let Some((waited, abort)) = longest
            && waited >= grace
        {
            abort.abort();
            self.metrics.connection_closed(Closed::MadeRoom);
        }
    }
}
