//! Reads the sources again and again and publishes snapshots.
//!
//! A source is read on a schedule, and when a file changes. Sources wait for each other only if they must: blocked edges take
//! effect while a slow registry is still being read. If a source fails, or graph-data is rejected, only a metric and the log
//! change; the last snapshot is still served.

pub mod releases;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use update_graph::metadata::key;
use update_graph::policy::{Chain, Policy};
use update_graph::{Arch, Builder, Graph, GraphData, Problem, Rule, Severity, Version};

use crate::keep::{Change, Reason};
use crate::metrics::{Metrics, Source};
use crate::snapshot::{Press, Snapshot};
use crate::source::fetch::{FetchError, Fingerprint};
use crate::source::graph_data::GraphDataSource;
use crate::source::location::Location;
use crate::state::State;
use releases::{Read, Releases, Taken};

/// Longest time that one reading of graph-data takes: a server that sends a byte now and then must not keep the blocked
/// edges of the next reading away.
const READING_DATA: Duration = Duration::from_mins(10);
/// Longest time that one reading of all releases takes; a cold registry of thousands of images takes a while.
const READING_RELEASES: Duration = Duration::from_hours(2);
/// Longest pause between two signs of life.
const BEAT: Duration = Duration::from_mins(1);
/// Longest pause after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
/// Pause between two reads of a directory that is changing.
const SETTLE: Duration = Duration::from_millis(300);
/// So many looks in a row may find a directory moving before it is read nevertheless.
const RESTLESS: u32 = 100;
/// So many blocked edges are not all gone on purpose.
const MANY_BLOCKS: usize = 10;
/// The error of a source that could be read but lists nothing.
const NOTHING_LISTED: &str =
    "no release is listed or known; check the name of the repository, or the release lists";
/// So many problems of one graph are logged one by one.
const LOGGED: usize = 20;

/// How often sources are read and files are checked for changes.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Between two readings.
    pub refresh: Duration,
    /// Time between two checks of files.
    pub watch: Duration,
}

/// Turns sources into snapshots.
pub struct Refresher {
    releases: Releases,
    /// Whether releases were read, or could not be.
    asked: bool,
    graph_data: Option<GraphDataSource>,
    data: Option<Arc<GraphData>>,
    data_problems: Vec<Problem>,
    listed: Listed,
    chain: Option<Chain>,
    press: Arc<Press>,
    state: Arc<State>,
    timing: Timing,
}

/// Which releases channels list.
#[derive(Debug, Default)]
struct Listed {
    /// Unknown without graph-data.
    unknown: bool,
    everywhere: HashSet<Version>,
    somewhere: HashSet<(Arch, Version)>,
}

impl Listed {
    fn of(data: Option<&GraphData>) -> Self {
        let Some(data) = data else {
            return Self {
                unknown: true,
                ..Self::default()
            };
        };
        let mut listed = Self::default();
        for entry in data.channels.iter().flat_map(|channel| &channel.entries) {
            match &entry.arch {
                None => listed.everywhere.insert(entry.version.clone()),
                Some(arch) => listed.somewhere.insert((arch.clone(), entry.version.clone())),
            };
        }
        listed
    }

    fn holds(&self, arch: &Arch, version: &Version) -> bool {
        self.unknown
            || self.everywhere.contains(version)
            || self.somewhere.contains(&(arch.clone(), version.clone()))
    }
}

/// Detects changes of files. A directory counts as changed when it no longer changes: while it is being written, it may
/// look complete and lack the file that blocks an edge.
struct Watch {
    paths: Vec<PathBuf>,
    known: Option<Fingerprint>,
    last: Option<Fingerprint>,
}

impl Watch {
    fn new(paths: Vec<PathBuf>) -> Self {
        Self {
            paths,
            known: None,
            last: None,
        }
    }

    /// The state now is what is being read.
    fn mark(&mut self) {
        if !self.paths.is_empty() {
            self.known = Some(Fingerprint::of_all(&self.paths));
            self.last = self.known;
        }
    }

    /// Whether nothing has moved since the last look: what is being written is not to be read when its time comes, either.
    fn rests(&mut self) -> bool {
        if !self.paths.iter().any(|path| path.is_dir()) {
            return true;
        }
        let now = Some(Fingerprint::of_all(&self.paths));
        std::mem::replace(&mut self.last, now) == now
    }

    /// Whether it is time to read, and whether something moves.
    fn look(&mut self) -> (bool, bool) {
        if self.paths.is_empty() {
            return (false, false);
        }
        let now = Some(Fingerprint::of_all(&self.paths));
        let moved = std::mem::replace(&mut self.last, now) != now;
        let changed = now != self.known;
        let rests = self.paths.iter().any(|path| path.is_dir());
        (changed && (!moved || !rests), changed && moved && rests)
    }
}

impl Refresher {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(
        releases: Releases,
        graph_data: Option<GraphDataSource>,
        chain: Option<Chain>,
        state: Arc<State>,
        timing: Timing,
    ) -> Self {
        Self {
            releases,
            asked: false,
            listed: Listed::of(None),
            graph_data,
            data: None,
            data_problems: Vec::new(),
            chain,
            press: Arc::new(Press::new(Arc::clone(state.metrics()))),
            state,
            timing,
        }
    }

    fn metrics(&self) -> &Metrics {
        self.state.metrics()
    }

    /// Reads and publishes until `shutdown`, on a separate thread, because requests must not wait for the milliseconds
    /// that reading, merging and saving take.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(self, shutdown: CancellationToken) -> std::io::Result<std::thread::JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name("refresher".to_owned())
            .spawn(move || {
                runtime.block_on(self.run(shutdown));
                runtime.shutdown_background();
            })
    }

    /// Reads and publishes until `shutdown`, here.
    pub async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.forever()).await;
    }

    async fn forever(&mut self) {
        let mut release_watch = Watch::new(self.releases.files());
        let mut data_watch = Watch::new(self.graph_data.iter().filter_map(path_of).collect());
        let mut release_due = Instant::now();
        let mut data_due = Instant::now();
        let mut look = Instant::now() + self.timing.watch;
        let mut restless = 0;
        let mut reading: Option<(Instant, BoxFuture<'static, Result<Read, FetchError>>)> = None;
        loop {
            self.state.beat();
            if self.graph_data.is_some() && data_due <= Instant::now() {
                if data_watch.rests() || restless >= RESTLESS {
                    restless = 0;
                    data_watch.mark();
                    data_due = Instant::now() + self.read_data().await;
                } else {
                    restless += 1;
                    data_due = Instant::now() + SETTLE.min(self.timing.watch);
                }
            }
            if reading.is_none() && release_due <= Instant::now() {
                release_watch.mark();
                let task = tokio::spawn(tokio::time::timeout(READING_RELEASES, self.releases.fetch()));
                let task = async {
                    let too_long = |_| Err(too_long("releases", READING_RELEASES));
                    task.await
                        .map_err(|error| FetchError::new("releases", error))
                        .and_then(|read| read.unwrap_or_else(too_long))
                };
                reading = Some((Instant::now(), Box::pin(task)));
            }
            let wake = if reading.is_some() {
                look
            } else {
                look.min(release_due)
            };
            let wake = if self.graph_data.is_some() {
                wake.min(data_due)
            } else {
                wake
            };
            let read = tokio::select! {
                read = until_read(&mut reading) => Some(read),
                () = tokio::time::sleep_until(wake.min(Instant::now() + BEAT)) => None,
            };
            if let Some((started, read)) = read {
                reading = None;
                release_due = Instant::now() + self.take_releases(started, read).await;
            }
            if look <= Instant::now() {
                let (release_changed, release_moves) = release_watch.look();
                let (data_changed, data_moves) = data_watch.look();
                if release_changed {
                    release_due = Instant::now();
                }
                if data_changed {
                    data_due = Instant::now();
                }
                let moves = release_moves || data_moves;
                look = Instant::now()
                    + if moves {
                        SETTLE.min(self.timing.watch)
                    } else {
                        self.timing.watch
                    };
            }
        }
    }

    /// Reads graph-data; says when to read it again.
    async fn read_data(&mut self) -> Duration {
        let started = Instant::now();
        let outcome = tokio::time::timeout(READING_DATA, self.take_data()).await;
        let outcome = outcome.unwrap_or_else(|_| Err(too_long("graph-data", READING_DATA)));
        let error = outcome.as_ref().err().map(ToString::to_string);
        self.metrics()
            .source_read(Source::GraphData, false, started.elapsed(), error.is_none());
        if let Some(error) = &error {
            tracing::error!(%error, kept = self.data.is_some(), "graph-data cannot be used");
        }
        self.state.source(Source::GraphData, error);
        match outcome {
            Ok(changed) => {
                if changed {
                    self.listed = Listed::of(self.data.as_deref());
                    let listed = &self.listed;
                    let change = self
                        .releases
                        .channels_changed(&|arch, version| listed.holds(arch, version));
                    self.count(&change);
                    self.publish().await;
                }
                self.timing.refresh
            }
            Err(_) => self.timing.refresh.min(AFTER_FAILURE),
        }
    }

    async fn take_data(&mut self) -> Result<bool, FetchError> {
        let Some(source) = &mut self.graph_data else {
            return Ok(false);
        };
        let Some(files) = source.read().await? else {
            return Ok(false);
        };
        let parsed = tokio::task::spawn_blocking(move || GraphData::from_files(files, threads())).await;
        let parsed = parsed.map_err(|error| FetchError::new(source.location(), error))?;
        let (data, problems) = parsed.map_err(|refused| FetchError::new(source.location(), refused))?;
        if let Some(last) = &self.data
            && let Some(lost) = emptied(last, &data)
        {
            let why =
                format!("refused: {lost}; a part of it seems to be missing. A restart takes it as it is");
            return Err(FetchError::new(source.location(), why));
        }
        let lacks = lacks(&data).map_err(|why| FetchError::new(source.location(), why))?;
        for problem in &lacks {
            tracing::warn!(graph_data = %source.location(), %problem, remedy = problem.remedy(), "graph-data seem to lack a part");
        }
        source.accept();
        self.data = Some(Arc::new(data));
        self.data_problems = problems;
        self.data_problems.extend(lacks);
        Ok(true)
    }

    /// Takes in a reading of releases; says when to read again.
    async fn take_releases(&mut self, started: Instant, read: Result<Read, FetchError>) -> Duration {
        let listed = &self.listed;
        self.asked = true;
        let (_, missed) = self.releases.counts();
        let Taken { change, failed } = match read {
            Ok(read) => self
                .releases
                .take(read, &|arch, version| listed.holds(arch, version)),
            Err(error) => Err(error).into(),
        };
        let error = failed.map(|error| error.to_string());
        let upstream = self.releases.are_served();
        self.metrics()
            .source_read(Source::Releases, upstream, started.elapsed(), error.is_none());
        if let Some(error) = &error {
            tracing::error!(%error, "releases cannot be read; what is known of them stays");
        }
        let whole = error.is_none();
        let nothing = (whole && !self.releases.are_known()).then(|| NOTHING_LISTED.to_owned());
        self.state.source(Source::Releases, error.or(nothing));
        for trouble in change.troubles.iter().take(LOGGED) {
            tracing::warn!(name = %trouble.name, why = %trouble.why, "a listed release is of no use");
        }
        let (known, retained) = self.releases.counts();
        if whole {
            self.metrics()
                .listed(known - retained.min(known), retained, change.troubles.len());
        }
        self.count(&change);
        // Which releases were missed or are back is saved even if nothing else changed.
        if change.changed || retained > 0 || missed > 0 {
            self.releases.save();
        }
        // What is remembered from before a restart is better than nothing, even where the source failed.
        if change.changed || self.state.peek().is_none() {
            self.publish().await;
        }
        if !whole {
            return self.timing.refresh.min(AFTER_FAILURE);
        }
        if self.graph_data.is_none() || self.data.is_some() {
            self.metrics().refreshed();
        }
        self.timing.refresh
    }

    fn count(&self, change: &Change) {
        for lost in &change.lost {
            self.metrics().lost(lost.reason);
        }
    }

    /// Builds a snapshot and replaces the one being served, if everything it needs is there.
    async fn publish(&mut self) {
        if self.graph_data.is_some() && self.data.is_none() {
            return;
        }
        if !self.releases.are_known() {
            if !self.asked {
                return;
            }
            tracing::warn!("an empty graph is not served: {NOTHING_LISTED}");
            return;
        }
        let started = Instant::now();
        let builder = self.releases.build(Builder::new().threads(threads()));
        let builder = match &self.data {
            Some(data) => builder.graph_data(Arc::clone(data)),
            None => builder,
        };
        let chain = self.chain.clone();
        let built = tokio::task::spawn_blocking(move || build(builder, chain)).await;
        let (graph, mut problems) = match built {
            Ok(built) => built,
            Err(error) => {
                tracing::error!(%error, "the graph was not built; the last one stays");
                return;
            }
        };
        problems.extend(self.data_problems.iter().cloned());
        self.report(&problems);
        let snapshot = Arc::new(Snapshot::new(graph, Arc::clone(&self.press)));
        if let Some(last) = self.state.snapshot() {
            self.count_policy_losses(&last, &snapshot);
            snapshot.warm(&last).await;
        }
        let counts = snapshot.graph().counts(None);
        self.state.publish(snapshot);
        tracing::info!(
            releases = counts.releases,
            edges = counts.edges,
            conditional = counts.conditional_edges,
            blocked = counts.blocked_edges,
            millis = started.elapsed().as_millis(),
            "a new graph is served"
        );
    }

    /// Releases that are listed and yet gone were taken out by a policy.
    fn count_policy_losses(&self, last: &Snapshot, new: &Snapshot) {
        for arch in last.graph().arches() {
            for release in last.graph().releases(arch) {
                let version = release.version();
                let gone = new.graph().release(arch, version).is_none();
                if gone && self.releases.knows(arch, version) {
                    tracing::warn!(%version, %arch, reason = Reason::Policy.as_str(), "a release leaves the graph");
                    self.metrics().lost(Reason::Policy);
                }
            }
        }
    }

    fn report(&self, problems: &[Problem]) {
        for severity in [Severity::Note, Severity::Warning, Severity::Error] {
            let of_it = problems.iter().filter(|problem| problem.severity() == severity);
            let name = match severity {
                Severity::Note => "note",
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            self.metrics().problems(name, of_it.clone().count());
            if severity == Severity::Error {
                for problem in of_it.take(LOGGED) {
                    tracing::warn!(%problem, remedy = problem.remedy(), "a problem in the data being served");
                }
            }
        }
    }
}

fn too_long(what: &str, limit: Duration) -> FetchError {
    let minutes = limit.as_secs() / 60;
    FetchError::new(what, format!("they could not be read within {minutes} minutes"))
}

async fn until_read(
    reading: &mut Option<(Instant, BoxFuture<'static, Result<Read, FetchError>>)>,
) -> (Instant, Result<Read, FetchError>) {
    match reading {
        Some((started, future)) => (*started, future.await),
        None => std::future::pending().await,
    }
}

/// What a data set lost altogether that the last one had. No single file is wrong in such a set, but a mount or a copy that
/// lacks a directory looks the same, and would open every edge or hide every release.
fn emptied(last: &GraphData, new: &GraphData) -> Option<String> {
    let blocks = last.blocks.len();
    (new.blocks.is_empty() && blocks >= MANY_BLOCKS)
        .then(|| format!("none of {blocks} blocked edges is left"))
}

/// What a data set lacks that is served nevertheless.
///
/// # Errors
/// Why it must not be served: without a channel every answer would be empty.
pub fn lacks(data: &GraphData) -> Result<Vec<Problem>, String> {
    let lacks = data.lacks();
    let fatal = lacks.iter().find(|problem| problem.rule == Rule::ChannelsMissing);
    match fatal {
        Some(fatal) => Err(format!("refused: {fatal}; {}", fatal.remedy())),
        None => Ok(lacks),
    }
}

fn path_of(source: &GraphDataSource) -> Option<PathBuf> {
    match source.location() {
        Location::Path(path) => Some(Path::to_owned(path)),
        Location::Url(_) | Location::Image(_) => None,
    }
}

/// Threads for parsing and building.
#[must_use]
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Builds and applies the policies; without any, releases go that are marked removed.
#[must_use]
pub fn build(builder: Builder, chain: Option<Chain>) -> (Graph, Vec<Problem>) {
    let (graph, mut problems) = builder.build();
    let chain = match chain {
        Some(chain) => chain,
        None if any_marked(&graph) => Chain(vec![Policy::NodeRemove {
            versions: Vec::new(),
            regex: None,
            marked: true,
        }]),
        None => return (graph, problems),
    };
    let (graph, found) = chain.apply(graph);
    problems.extend(found);
    (graph, problems)
}

fn any_marked(graph: &Graph) -> bool {
    graph.arches().any(|arch| {
        graph
            .releases(arch)
            .any(|release| release.metadata().is_true(key::REMOVE))
    })
}

#[cfg(test)]
mod tests;
