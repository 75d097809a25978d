//! The served state, until the next snapshot replaces it: a graph and the bodies made from it.
//!
//! A body depends only on channel and architecture. It is made on its first request, once, off the serving threads, plain and
//! gzipped. The most requested bodies are made for the next snapshot before it is published. Equal bodies, within a snapshot
//! and across two, share their memory. The graph limits the size of this cache, not the requests: all unknown channels and
//! architectures have the one empty body.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;
use sha2::{Digest, Sha256};
use smol_str::SmolStr;
use tokio::sync::Semaphore;
use update_graph::{Arch, Graph, Version};

use crate::metrics::Metrics;
use crate::serve::accept::Encoding;
use crate::serve::etag;

/// Most answers to clients that only want what their version can reach that are kept, per snapshot.
const MAX_SLIM: usize = 4096;
/// Number of the most requested bodies that are made before a snapshot is published.
const WARM: usize = 16;

/// Bytes to send, with their validator.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The bytes.
    pub bytes: Bytes,
    /// Strong `ETag`.
    pub etag: HeaderValue,
}

impl Variant {
    /// With the `ETag` of the bytes.
    #[must_use]
    pub fn of(bytes: Vec<u8>) -> Self {
        let hash = Sha256::digest(&bytes).into();
        Self::hashed(bytes, &hash)
    }

    fn hashed(bytes: Vec<u8>, hash: &[u8; 32]) -> Self {
        let etag = etag::from_hash(hash);
        // A vector that grew has room to spare, which would be kept as long as the body.
        let bytes = Bytes::from(bytes.into_boxed_slice());
        Self { bytes, etag }
    }
}

/// One body in both encodings.
#[derive(Debug)]
pub struct Body {
    identity: Variant,
    gzip: OnceLock<Variant>,
}

impl Body {
    /// Of these bytes.
    #[must_use]
    pub fn of(bytes: Vec<u8>) -> Self {
        let hash = Sha256::digest(&bytes).into();
        Self::new(bytes, &hash)
    }

    fn new(bytes: Vec<u8>, hash: &[u8; 32]) -> Self {
        Self {
            identity: Variant::hashed(bytes, hash),
            gzip: OnceLock::new(),
        }
    }

    fn ready(&self, encoding: Encoding) -> Option<&Variant> {
        match encoding {
            Encoding::Identity => Some(&self.identity),
            Encoding::Gzip => self.gzip.get(),
        }
    }

    /// The variant, made now if need be; takes milliseconds then.
    #[must_use]
    pub fn make(&self, encoding: Encoding) -> &Variant {
        match encoding {
            Encoding::Identity => &self.identity,
            Encoding::Gzip => self.gzip.get_or_init(|| Variant::of(gzip(&self.identity.bytes))),
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 6 + 64), Compression::default());
    // Writing to memory does not fail.
    let written = encoder.write_all(bytes);
    match (written, encoder.finish()) {
        (Ok(()), Ok(packed)) => packed,
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "a body cannot be packed");
            Vec::new()
        }
    }
}

/// A place for a body.
#[derive(Debug, Default)]
struct Cell {
    body: OnceLock<Arc<Body>>,
    /// Requests since the snapshot was published.
    asked: AtomicU32,
    /// Held by the one who makes the body; the others wait here, not on a thread.
    making: tokio::sync::Mutex<()>,
}

/// What a body is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// A channel for an architecture.
    Channel(SmolStr, Arch),
    /// Everything.
    Whole,
}

/// Makes bodies: a bounded number at a time, equal ones once.
#[derive(Debug)]
pub struct Press {
    places: Arc<Semaphore>,
    known: Mutex<HashMap<[u8; 32], Weak<Body>>>,
    metrics: Arc<Metrics>,
}

impl Press {
    /// As many bodies at a time as the machine has processors.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        let places = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            places: Arc::new(Semaphore::new(places)),
            known: Mutex::default(),
            metrics,
        }
    }

    /// The body with these bytes, an existing one if there is one.
    fn print(&self, bytes: Vec<u8>) -> Arc<Body> {
        let hash: [u8; 32] = Sha256::digest(&bytes).into();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(body) = known.get(&hash).and_then(Weak::upgrade) {
            return body;
        }
        known.retain(|_, body| body.strong_count() > 0);
        let body = Arc::new(Body::new(bytes, &hash));
        known.insert(hash, Arc::downgrade(&body));
        body
    }
}

/// A body cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body was not made; the service is going down")]
pub struct NotMade;

/// A graph with its bodies.
#[derive(Debug)]
pub struct Snapshot {
    graph: Arc<Graph>,
    made: SystemTime,
    press: Arc<Press>,
    channels: HashMap<SmolStr, Vec<(Arch, Arc<Cell>)>>,
    whole: Arc<Cell>,
    empty: Arc<Cell>,
    slim: Mutex<HashMap<(SmolStr, Arch, Version), Arc<Body>>>,
}

impl Snapshot {
    /// Without any body yet.
    #[must_use]
    pub fn new(graph: Graph, press: Arc<Press>) -> Self {
        let arches: Vec<Arch> = graph.arches().cloned().collect();
        let cells = || arches.iter().map(|arch| (arch.clone(), Arc::default())).collect();
        let channels = graph
            .channels()
            .map(|name| (SmolStr::new(name), cells()))
            .collect();
        Self {
            channels,
            graph: Arc::new(graph),
            made: SystemTime::now(),
            press,
            whole: Arc::default(),
            empty: Arc::default(),
            slim: Mutex::default(),
        }
    }

    /// The graph.
    #[must_use]
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// When it was made.
    #[must_use]
    pub fn made(&self) -> SystemTime {
        self.made
    }

    fn cell(&self, channel: &str, arch: &str) -> Option<&Arc<Cell>> {
        let cells = self.channels.get(channel)?;
        cells
            .iter()
            .find(|(known, _)| known.as_str() == arch)
            .map(|(_, cell)| cell)
    }

    /// The body of a channel for an architecture; the empty graph if either is unknown.
    ///
    /// # Errors
    /// [`NotMade`] while the process ends.
    pub async fn body(&self, channel: &str, arch: &str, encoding: Encoding) -> Result<Variant, NotMade> {
        let cell = self.cell(channel, arch).unwrap_or(&self.empty);
        cell.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(variant) = cell.body.get().and_then(|body| body.ready(encoding)) {
            return Ok(variant.clone());
        }
        let (name, arch) = if Arc::ptr_eq(cell, &self.empty) {
            // Nobody lists what was requested, so the answer is the empty graph.
            (SmolStr::default(), Arch::amd64())
        } else {
            let arch = Arch::parse(arch).map_err(|_| NotMade)?;
            (SmolStr::new(channel), arch)
        };
        self.fill(cell, Key::Channel(name, arch), encoding).await
    }

    /// The body of the whole graph.
    ///
    /// # Errors
    /// [`NotMade`] while the process ends.
    pub async fn whole(&self, encoding: Encoding) -> Result<Variant, NotMade> {
        self.whole.asked.fetch_add(1, Ordering::Relaxed);
        match self.whole.body.get().and_then(|body| body.ready(encoding)) {
            Some(variant) => Ok(variant.clone()),
            None => self.fill(&self.whole, Key::Whole, encoding).await,
        }
    }

    async fn fill(&self, cell: &Arc<Cell>, key: Key, encoding: Encoding) -> Result<Variant, NotMade> {
        let _making = cell.making.lock().await;
        if let Some(variant) = cell.body.get().and_then(|body| body.ready(encoding)) {
            return Ok(variant.clone());
        }
        let (graph, press, cell) = (Arc::clone(&self.graph), Arc::clone(&self.press), Arc::clone(cell));
        self.off_thread(move || {
            let body = cell.body.get_or_init(|| {
                press.print(match &key {
                    Key::Channel(channel, arch) => graph.body(channel, arch),
                    Key::Whole => graph.whole(),
                })
            });
            body.make(encoding).clone()
        })
        .await
    }

    /// The body with the releases that `version` can reach in a channel. Made for each version; kept while there is room.
    ///
    /// # Errors
    /// [`NotMade`] while the process ends.
    pub async fn slim(
        &self,
        channel: &str,
        arch: &str,
        version: &Version,
        encoding: Encoding,
    ) -> Result<Variant, NotMade> {
        if self.cell(channel, arch).is_none() {
            return self.body(channel, arch, encoding).await;
        }
        let arch = Arch::parse(arch).map_err(|_| NotMade)?;
        let key = (SmolStr::new(channel), arch, version.clone());
        let known = self.lock_slim().get(&key).cloned();
        if let Some(variant) = known.as_ref().and_then(|body| body.ready(encoding)) {
            return Ok(variant.clone());
        }
        let (graph, press) = (Arc::clone(&self.graph), Arc::clone(&self.press));
        let (body, variant) = self
            .off_thread(move || {
                let (channel, arch, version) = &key;
                let body = known.unwrap_or_else(|| {
                    press.print(graph.view(Some(channel), arch).reachable_from(version).body())
                });
                let variant = body.make(encoding).clone();
                ((key, body), variant)
            })
            .await?;
        let mut slim = self.lock_slim();
        if slim.len() < MAX_SLIM {
            slim.insert(body.0, body.1);
        }
        Ok(variant)
    }

    fn lock_slim(&self) -> std::sync::MutexGuard<'_, HashMap<(SmolStr, Arch, Version), Arc<Body>>> {
        self.slim.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a task of some milliseconds off the serving threads, a bounded number at a time.
    async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotMade> {
        let place = Arc::clone(&self.press.places)
            .acquire_owned()
            .await
            .map_err(|_| NotMade)?;
        let metrics = Arc::clone(&self.press.metrics);
        tokio::task::spawn_blocking(move || {
            let started = Instant::now();
            let result = work();
            metrics.body_made(started.elapsed());
            drop(place);
            result
        })
        .await
        .map_err(|_| NotMade)
    }

    /// Makes the most requested bodies of `last`, in the encodings in which they were made there.
    pub async fn warm(&self, last: &Self) {
        let mut asked: Vec<(u32, &SmolStr, &Arch, &Arc<Cell>)> = last
            .channels
            .iter()
            .flat_map(|(name, cells)| cells.iter().map(move |(arch, cell)| (name, arch, cell)))
            .map(|(name, arch, cell)| (cell.asked.load(Ordering::Relaxed), name, arch, cell))
            .filter(|(asked, ..)| *asked > 0)
            .collect();
        asked.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2))));
        for (_, name, arch, old) in asked.into_iter().take(WARM) {
            let Some(cell) = self.cell(name, arch.as_str()) else {
                continue;
            };
            let packed = old.body.get().is_some_and(|body| body.gzip.get().is_some());
            let encoding = if packed {
                Encoding::Gzip
            } else {
                Encoding::Identity
            };
            if self
                .fill(cell, Key::Channel(name.clone(), arch.clone()), encoding)
                .await
                .is_err()
            {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
