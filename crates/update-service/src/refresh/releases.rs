//! Releases as they are known: read from their source, kept by the rule, given to the builder.
//!
//! Reading is apart from taking in, so that a slow source holds up nothing but itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use update_graph::v1::Served;
use update_graph::{Arch, Builder, Version, release_list};

use crate::config::{ReleaseSource, Sources};
use crate::keep::graph::GraphKeeper;
use crate::keep::{Change, Keeper};
use crate::source::fetch::{self, FetchError, Fetched, Fetcher, Fingerprint};
use crate::source::location::Location;
use crate::source::registry::Registry;
use crate::source::{Listed, Listing};

/// The error of a source that lists nothing, while releases of it are known.
const NOTHING_LEFT: &str = "nothing is listed any more, which is taken for a mistake; what is known stays";

/// Which releases channels list.
pub type InChannel<'a> = &'a (dyn Fn(&Arch, &Version) -> bool + Sync);

/// Releases from one source.
#[derive(Debug)]
pub enum Releases {
    /// From release list files.
    Lists {
        /// The files.
        paths: Vec<PathBuf>,
        /// Architecture where none is said.
        arch: Arch,
        /// Their state when they were read last.
        seen: Option<Fingerprint>,
        /// What is known.
        keeper: Box<Keeper>,
    },
    /// From a registry.
    Registry {
        /// The repository.
        registry: Arc<Registry>,
        /// What is known.
        keeper: Box<Keeper>,
    },
    /// From served graphs.
    Graphs(Vec<Upstream>),
}

/// One served graph.
#[derive(Debug)]
pub struct Upstream {
    location: Location,
    fetcher: Fetcher,
    arch: Arch,
    mark: Option<Mark>,
    keeper: GraphKeeper,
    served: Option<Served>,
}

/// What a source said.
#[derive(Debug)]
pub enum Read {
    /// The same as the last time.
    Again,
    /// Everything it lists; files with their state.
    Listing(Listing, Option<Fingerprint>),
    /// What the services answered, in the order in which they are named. Each is by itself: one that fails does not keep
    /// the blocked edges of another from taking effect.
    Answers(Vec<Result<Answer, FetchError>>),
}

/// What taking in a reading led to.
#[derive(Debug, Default)]
pub struct Taken {
    /// What changed, also where a part failed.
    pub change: Change,
    /// What failed, the first of several.
    pub failed: Option<FetchError>,
}

impl Taken {
    /// What changed, where nothing failed.
    ///
    /// # Errors
    /// What failed.
    pub fn whole(self) -> Result<Change, FetchError> {
        self.failed.map_or(Ok(self.change), Err)
    }
}

impl From<Result<Change, FetchError>> for Taken {
    fn from(taken: Result<Change, FetchError>) -> Self {
        match taken {
            Ok(change) => Self { change, failed: None },
            Err(error) => Self {
                change: Change::default(),
                failed: Some(error),
            },
        }
    }
}

/// What one service, or a file in its place, said.
#[derive(Debug)]
pub enum Answer {
    /// The same as the last time.
    Again,
    /// A graph, with what names its content.
    Graph(Vec<u8>, Mark),
}

/// What names content: a file's state or an `ETag`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// State of a file.
    Print(Fingerprint),
    /// `ETag` of an answer, where it had one.
    ETag(Option<String>),
}

impl Releases {
    /// Ready to read.
    #[must_use]
    pub fn new(sources: &Sources, fetcher: &Fetcher, registry: Option<Registry>) -> Option<Self> {
        let arch = &sources.default_arch;
        let state = |name: &str| sources.state_dir.as_ref().map(|directory| directory.join(name));
        Some(match (&sources.releases, registry) {
            (ReleaseSource::Lists(paths), _) => {
                let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                Self::Lists {
                    paths: paths.clone(),
                    arch: arch.clone(),
                    seen: None,
                    keeper: Box::new(keeper(&format!("lists {}", names.join(" ")), state("releases"))),
                }
            }
            (ReleaseSource::Registry(name), Some(registry)) => Self::Registry {
                registry: Arc::new(registry),
                keeper: Box::new(keeper(&format!("registry {name}"), state("releases"))),
            },
            (ReleaseSource::Registry(_), None) => return None,
            (ReleaseSource::Graphs(locations), _) => Self::Graphs(
                locations
                    .iter()
                    .enumerate()
                    .map(|(number, location)| {
                        let file = state(&format!("graph-{number}"));
                        Upstream::new(location, fetcher.clone(), arch, file.as_deref())
                    })
                    .collect(),
            ),
        })
    }

    /// Files whose change is worth a reading.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::Lists { paths, .. } => paths.clone(),
            Self::Registry { .. } => Vec::new(),
            Self::Graphs(upstreams) => upstreams
                .iter()
                .filter_map(|upstream| match &upstream.location {
                    Location::Path(path) => Some(path.clone()),
                    Location::Url(_) | Location::Image(_) => None,
                })
                .collect(),
        }
    }

    /// Whether these are graphs of another service.
    #[must_use]
    pub fn are_served(&self) -> bool {
        matches!(self, Self::Graphs(_))
    }

    /// Reads the source.
    ///
    /// # Errors
    /// When it cannot be read in full.
    pub fn fetch(&self) -> BoxFuture<'static, Result<Read, FetchError>> {
        match self {
            Self::Lists {
                paths, arch, seen, ..
            } => {
                let (paths, arch, seen) = (paths.clone(), arch.clone(), *seen);
                Box::pin(async move {
                    tokio::task::spawn_blocking(move || {
                        let now = Fingerprint::of_all(&paths);
                        if seen == Some(now) {
                            return Ok(Read::Again);
                        }
                        Ok(Read::Listing(read_lists(&paths, &arch)?, Some(now)))
                    })
                    .await
                    .map_err(|error| FetchError::new("release lists", error))?
                })
            }
            Self::Registry { registry, .. } => {
                let registry = Arc::clone(registry);
                Box::pin(async move {
                    let listing = registry.list().await;
                    let listing = listing.map_err(|error| FetchError::new("registry", error))?;
                    Ok(Read::Listing(listing, None))
                })
            }
            Self::Graphs(upstreams) => {
                let answers: Vec<_> = upstreams.iter().map(Upstream::fetch).collect();
                Box::pin(async move { Ok(Read::Answers(futures::future::join_all(answers).await)) })
            }
        }
    }

    /// Takes in what was read. What an answer is about that failed or makes no sense is as it was.
    pub fn take(&mut self, read: Read, in_channel: InChannel<'_>) -> Taken {
        if let Read::Listing(listing, _) = &read
            && listing.releases.is_empty()
            && listing.unreadable.is_empty()
            && self.are_known()
        {
            return Taken::from(Err(FetchError::new("releases", NOTHING_LEFT)));
        }
        let change = match (self, read) {
            (Self::Lists { keeper, .. } | Self::Registry { keeper, .. }, Read::Again) => {
                keeper.again(in_channel)
            }
            (Self::Lists { keeper, seen, .. }, Read::Listing(listing, now)) => {
                *seen = now;
                keeper.take(listing, in_channel)
            }
            (Self::Registry { keeper, .. }, Read::Listing(listing, _)) => keeper.take(listing, in_channel),
            (Self::Graphs(upstreams), Read::Answers(answers)) => {
                let mut all = Taken::default();
                for (upstream, answer) in upstreams.iter_mut().zip(answers) {
                    match answer.and_then(|answer| upstream.take(answer)) {
                        Ok(change) => {
                            all.change.changed |= change.changed;
                            all.change.lost.extend(change.lost);
                        }
                        Err(error) => all.failed = all.failed.or(Some(error)),
                    }
                }
                return all;
            }
            (Self::Graphs(_), _) | (_, Read::Answers(_)) => Change::default(),
        };
        Taken { change, failed: None }
    }

    /// Channels changed.
    pub fn channels_changed(&mut self, in_channel: InChannel<'_>) -> Change {
        match self {
            Self::Lists { keeper, .. } | Self::Registry { keeper, .. } => keeper.channels_changed(in_channel),
            Self::Graphs(_) => Change::default(),
        }
    }

    /// Whether there is something to serve, read now or before a restart. Nothing at all is no graph: an empty answer, or
    /// an empty repository, is a mistake somewhere.
    #[must_use]
    pub fn are_known(&self) -> bool {
        match self {
            Self::Lists { keeper, .. } | Self::Registry { keeper, .. } => keeper.releases().next().is_some(),
            Self::Graphs(upstreams) => upstreams
                .iter()
                .all(|upstream| upstream.served.is_some() && upstream.keeper.known() > 0),
        }
    }

    /// Releases that are known, and those of them that are not listed now.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        match self {
            Self::Lists { keeper, .. } | Self::Registry { keeper, .. } => {
                (keeper.releases().count(), keeper.retained())
            }
            Self::Graphs(upstreams) => (
                upstreams.iter().map(|upstream| upstream.keeper.known()).sum(),
                upstreams.iter().map(|upstream| upstream.keeper.retained()).sum(),
            ),
        }
    }

    /// Whether a keeper knows a release. For served graphs no single releases are kept.
    #[must_use]
    pub fn knows(&self, arch: &Arch, version: &Version) -> bool {
        match self {
            Self::Lists { keeper, .. } | Self::Registry { keeper, .. } => keeper.holds(arch, version),
            Self::Graphs(_) => false,
        }
    }

    /// Gives everything that is known to a builder.
    #[must_use]
    pub fn build(&self, builder: Builder) -> Builder {
        match self {
            Self::Lists { keeper, .. } | Self::Registry { keeper, .. } => builder
                .releases(keeper.releases().cloned())
                .extra_edges(keeper.extra().iter().cloned()),
            Self::Graphs(upstreams) => upstreams
                .iter()
                .filter_map(|upstream| upstream.served.clone())
                .fold(builder, Builder::served),
        }
    }

    /// Writes what must survive a restart.
    pub fn save(&self) {
        match self {
            Self::Lists { keeper, .. } | Self::Registry { keeper, .. } => keeper.save(),
            Self::Graphs(upstreams) => upstreams.iter().for_each(|upstream| upstream.keeper.save()),
        }
    }
}

fn keeper(source: &str, file: Option<PathBuf>) -> Keeper {
    file.map_or_else(
        || Keeper::in_memory(source),
        |file| Keeper::on_disk(source, &file),
    )
}

/// All lists as one.
///
/// # Errors
/// When any of them cannot be read: together they are one listing.
pub fn read_lists(paths: &[PathBuf], arch: &Arch) -> Result<Listing, FetchError> {
    let mut listing = Listing::default();
    for path in paths {
        let bytes = fetch::file(path)?;
        let list =
            release_list::parse(&bytes, arch).map_err(|error| FetchError::new(path.display(), error))?;
        listing.extra.extend(list.extra);
        listing
            .releases
            .extend(list.releases.into_iter().map(|release| Listed {
                name: release.version.with_arch(&release.arch),
                release,
            }));
    }
    Ok(listing)
}

impl Upstream {
    fn new(location: &Location, fetcher: Fetcher, default_arch: &Arch, file: Option<&Path>) -> Self {
        let arch = asked_arch(location).unwrap_or_else(|| default_arch.clone());
        let source = format!("graph {location}");
        let keeper = match file {
            Some(file) => GraphKeeper::on_disk(&source, arch.clone(), file),
            None => GraphKeeper::in_memory(&source, arch.clone()),
        };
        let remembered = keeper.remembered();
        let served = remembered.and_then(|body| Served::parse(&body, &arch).ok());
        Self {
            location: location.clone(),
            fetcher,
            arch,
            mark: None,
            keeper,
            served,
        }
    }

    fn fetch(&self) -> BoxFuture<'static, Result<Answer, FetchError>> {
        let (location, fetcher, mark) = (self.location.clone(), self.fetcher.clone(), self.mark.clone());
        Box::pin(async move {
            match &location {
                Location::Path(path) => {
                    let now = Mark::Print(Fingerprint::of_all(std::slice::from_ref(path)));
                    if mark.as_ref() == Some(&now) {
                        return Ok(Answer::Again);
                    }
                    Ok(Answer::Graph(fetch::file(path)?, now))
                }
                Location::Url(url) => {
                    let etag = match &mark {
                        Some(Mark::ETag(etag)) => etag.as_deref(),
                        _ => None,
                    };
                    Ok(match fetcher.get(url, "application/json", etag).await? {
                        Fetched::Unchanged => Answer::Again,
                        Fetched::New(bytes, etag) => Answer::Graph(bytes, Mark::ETag(etag)),
                    })
                }
                Location::Image(_) => Err(FetchError::new(&location, "a graph is not an image")),
            }
        })
    }

    fn error(&self, why: &dyn std::fmt::Display) -> FetchError {
        FetchError::new(&self.location, why)
    }

    /// Whole or not at all: an answer must be a graph before it counts as one that lacks something.
    fn take(&mut self, answer: Answer) -> Result<Change, FetchError> {
        let (kept, change) = match answer {
            Answer::Again => match self.keeper.again().map_err(|error| self.error(&error))? {
                None => return Ok(Change::default()),
                Some(kept) => kept,
            },
            Answer::Graph(bytes, mark) => {
                let plain = fetch::gunzip(bytes).map_err(|error| self.error(&error))?;
                Served::parse(&plain, &self.arch).map_err(|error| self.error(&error))?;
                let kept = self.keeper.take(&plain).map_err(|error| self.error(&error))?;
                self.mark = Some(mark);
                kept
            }
        };
        self.served = Some(Served::parse(&kept, &self.arch).map_err(|error| self.error(&error))?);
        Ok(change)
    }
}

/// The architecture for which a filtered graph was requested.
fn asked_arch(location: &Location) -> Option<Arch> {
    let Location::Url(url) = location else { return None };
    let arch = url.query_pairs().find(|(key, _)| key == "arch")?.1;
    Arch::parse(&arch).ok()
}
