//! Queries of a graph: next releases, updates to a release, paths, explanations, stranded releases, differences.

mod diff;
mod explain;
mod next;
mod path;
mod path_query;
mod search;
mod stranded;
mod unreachable;
mod updates_to;

use serde::Serialize;

pub use diff::{Change, Diff, EdgeChange, EdgeState, ReleaseChange, ReleaseId, diff};
pub use explain::{Cause, CauseKind, ExplainQuery, Explanation, Verdict, explain};
pub use next::{Next, NextQuery, next};
pub use path::{Hop, Path, Paths, path};
pub use path_query::{PathQuery, Target, TargetError};
pub use stranded::{Exits, Stranded, stranded};
pub use unreachable::{Obstacle, ObstacleKind, Unreachable};
pub use updates_to::{UpdatesTo, updates_to};

use crate::graph::Graph;
use crate::risk::Risk;
use crate::version::{Arch, Version};

/// A question about something the graph does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// No release of this architecture.
    #[error("no release for {0} is known")]
    UnknownArch(Arch),
    /// No such release.
    #[error("release {version} for {arch} is not known")]
    UnknownRelease {
        /// The requested version.
        version: Version,
        /// The requested architecture.
        arch: Arch,
    },
}

/// A risk as an answer shows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RiskNote {
    /// Its name, by which it is accepted.
    pub name: String,
    /// Where to read more.
    pub url: String,
    /// What happens to whom.
    pub message: String,
    /// Whether every cluster is exposed.
    pub always: bool,
}

impl From<&Risk> for RiskNote {
    fn from(risk: &Risk) -> Self {
        Self {
            name: risk.name.to_string(),
            url: risk.url.clone(),
            message: risk.message.clone(),
            always: risk.is_always(),
        }
    }
}

/// The position of the first requested channel that matches, each given as a name (`eus-4.16`) or as the part before the
/// first `-` (`stable`). If none is requested, every channel matches.
pub(crate) fn preference(wanted: &[String], channel: &str) -> Option<usize> {
    if wanted.is_empty() {
        return Some(0);
    }
    let family = channel.split_once('-').map_or(channel, |(family, _)| family);
    wanted.iter().position(|w| w == channel || w == family)
}

fn mask_of(graph: &Graph, wanted: &[String]) -> Vec<u64> {
    graph.channels.mask(|name| preference(wanted, name).is_some())
}

fn node_in(graph: &Graph, arch: &Arch, version: &Version) -> Result<u32, QueryError> {
    let table = graph
        .table(arch)
        .ok_or_else(|| QueryError::UnknownArch(arch.clone()))?;
    let unknown = || QueryError::UnknownRelease {
        version: version.clone(),
        arch: arch.clone(),
    };
    graph.node_of(table, version).ok_or_else(unknown)
}
