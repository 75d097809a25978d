//! The update graph of our own: which updates are served in a channel that a cluster does not evaluate
//! (`docs/design/preflight.md#an-update-graph-of-our-own`).
//!
//! It is read from an update service or a file while upgrades need it. A controller without one, or one that cannot read it, says of such
//! clusters that nothing is known.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use observe::preflight::UpdatesTo;
use tokio::sync::Notify;
use update_client::Service;
use update_graph::query::updates_to;
use update_graph::v1::Served;
use update_graph::{Arch, Builder, Graph, Version};

use crate::clock;

pub mod follow;

/// How often a channel is read again.
const INTERVAL: Duration = Duration::from_mins(5);
/// The wait after a reading that failed.
const RETRY: Duration = Duration::from_secs(30);
/// How long a channel counts after it was read last. Clusters themselves read every few minutes.
const MAX_AGE: Duration = Duration::from_hours(1);
/// Time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Most channels that are read. Authors of upgrades name them, and each costs a request every few minutes.
const MAX_CHANNELS: usize = 64;

/// The update graph that the command line names, if any. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Graphs(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    source: GraphSource,
    arch: Arch,
    known: Mutex<KnownUpdates>,
    /// An upgrade needs what was never asked for.
    news: Notify,
}

#[derive(Debug)]
enum GraphSource {
    Service(Service),
    /// A file with a served graph of all channels.
    File(PathBuf),
}

/// A channel and a version.
type Wanted = (String, String);

#[derive(Debug, Default)]
struct KnownUpdates {
    wanted: BTreeSet<Wanted>,
    channels: BTreeMap<String, Channel>,
    updates: BTreeMap<Wanted, Arc<UpdatesTo>>,
}

#[derive(Debug)]
struct Channel {
    /// The graph that was read last, and when.
    graph: Option<(Arc<Graph>, Instant)>,
    /// When to read it again.
    next: Instant,
}

impl Graphs {
    /// The graph that `--update-graph` names: the address of an update service, or a file with a served graph. `ca`: certificates in PEM.
    ///
    /// # Errors
    /// If a file cannot be read, is no graph, or an address is none.
    pub fn new(named: &str, arch: Arch, ca: &[u8]) -> anyhow::Result<Self> {
        let source = if named.contains("://") {
            let agent = concat!("mcu-controller/", env!("CARGO_PKG_VERSION"));
            GraphSource::Service(Service::new(named, agent, ca, Some(TIMEOUT))?)
        } else {
            let path = PathBuf::from(named);
            let body = std::fs::read(&path).with_context(|| path.display().to_string())?;
            parse(&body, &arch).with_context(|| path.display().to_string())?;
            GraphSource::File(path)
        };
        Ok(Self(Some(Arc::new(Shared {
            source,
            arch,
            known: Mutex::default(),
            news: Notify::new(),
        }))))
    }

    /// True when the command line names one.
    #[must_use]
    pub const fn is_named(&self) -> bool {
        self.0.is_some()
    }

    /// The updates to a version that are served in a channel; `None` if that is not known.
    #[must_use]
    pub fn updates_to(&self, channel: &str, version: &str) -> Option<Arc<UpdatesTo>> {
        let shared = self.0.as_ref()?;
        let wanted = (channel.to_owned(), version.to_owned());
        let known = shared.known();
        if !known.wanted.contains(&wanted) {
            shared.news.notify_one();
        }
        // Nothing is read between two terms, and not before the requests that are due earlier have ended.
        let (_, read) = known.channels.get(shared.key(channel))?.graph.as_ref()?;
        let counts = clock::since(*read) <= MAX_AGE;
        known.updates.get(&wanted).filter(|_| counts).cloned()
    }
}

fn parse(body: &[u8], arch: &Arch) -> anyhow::Result<Graph> {
    // The error quotes its cause, which would follow once more.
    let served = Served::parse(body, arch).map_err(anyhow::Error::msg)?;
    Ok(Builder::new().served(served).build().0)
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, KnownUpdates> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channel as it is read: a file has them all.
    fn key<'a>(&self, channel: &'a str) -> &'a str {
        match self.source {
            GraphSource::Service(_) => channel,
            GraphSource::File(_) => "",
        }
    }

    /// Reads what is due, of the first [`MAX_CHANNELS`] channels. True if what is known of the wanted updates has changed.
    async fn refresh(&self, wanted: Vec<Wanted>) -> bool {
        let mut keys = BTreeSet::new();
        for (channel, _) in &wanted {
            if keys.len() < MAX_CHANNELS {
                keys.insert(self.key(channel).to_owned());
            }
        }
        let due: Vec<String> = {
            let mut known = self.known();
            known.wanted = wanted.into_iter().collect();
            known.channels.retain(|channel, _| keys.contains(channel));
            let is_due = |channel: &&String| {
                let known = known.channels.get(*channel);
                known.is_none_or(|known| known.next <= clock::now())
            };
            keys.iter().filter(is_due).cloned().collect()
        };
        let mut has_changed = false;
        for channel in due {
            let read = self.read(&channel).await;
            if let Err(error) = &read {
                tracing::warn!(
                    channel,
                    error = format!("{error:#}"),
                    "the update graph cannot be read"
                );
            }
            has_changed |= self.known().note(channel, read.ok());
        }
        let mut known = self.known();
        let updates = self.derive(&known);
        has_changed |= updates != known.updates;
        known.updates = updates;
        has_changed
    }

    async fn read(&self, channel: &str) -> anyhow::Result<Graph> {
        let body = match &self.source {
            GraphSource::Service(service) => service.graph(channel, &self.arch).await?,
            GraphSource::File(path) => tokio::fs::read(path)
                .await
                .with_context(|| path.display().to_string())?,
        };
        let arch = self.arch.clone();
        // A large graph takes a noticeable time.
        tokio::task::spawn_blocking(move || parse(&body, &arch)).await?
    }

    /// The wanted updates, of channels that were read within the last hour. What is equal to what was known stays the same object.
    fn derive(&self, known: &KnownUpdates) -> BTreeMap<Wanted, Arc<UpdatesTo>> {
        let one = |wanted: &Wanted| {
            let (channel, version) = wanted;
            let (graph, read) = known.channels.get(self.key(channel))?.graph.as_ref()?;
            if clock::since(*read) > MAX_AGE {
                return None;
            }
            let version: Version = version.parse().ok()?;
            let updates = updates_to(graph, channel, &self.arch, &version);
            let before = known.updates.get(wanted).filter(|before| ***before == updates);
            Some((
                wanted.clone(),
                before.map_or_else(|| Arc::new(updates), Arc::clone),
            ))
        };
        known.wanted.iter().filter_map(one).collect()
    }

    fn next(&self) -> Option<Instant> {
        self.known().channels.values().map(|channel| channel.next).min()
    }

    /// How many of the wanted updates are not known.
    fn missing(&self) -> usize {
        let known = self.known();
        known.wanted.len() - known.updates.len()
    }
}

impl KnownUpdates {
    /// Records a reading of a channel; `None` if it failed. Then the graph that was read before stays. True if a graph replaces one that
    /// did not count any more: plans have gone without it, even if both say the same.
    fn note(&mut self, channel: String, read: Option<Graph>) -> bool {
        let now = clock::now();
        let next = now + if read.is_some() { INTERVAL } else { RETRY };
        let known = self
            .channels
            .entry(channel)
            .or_insert(Channel { graph: None, next });
        known.next = next;
        let Some(graph) = read else { return false };
        let before = known.graph.replace((Arc::new(graph), now));
        before.is_some_and(|(_, read)| now.duration_since(read) > MAX_AGE)
    }
}

#[cfg(test)]
mod tests;
