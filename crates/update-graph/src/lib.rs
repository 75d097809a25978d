//! The update graph: which OpenShift release can be updated to which, under which risks, in which channels. The crate turns
//! bytes into values and has no client, no clock and no file access.

mod builder;
mod graph;
pub mod graph_data;
pub mod lint;
pub mod metadata;
mod pattern;
pub mod policy;
mod problem;
pub mod query;
mod release;
mod risk;
pub mod text;
mod unpack;
pub mod v1;
mod version;

pub use builder::Builder;
pub use graph::{Blocked, Counts, Graph, ReleaseRef, View};
pub use graph_data::{GraphData, Refused};
pub use metadata::{Metadata, MetadataError, ReleaseMetadata};
pub use pattern::Pattern;
pub use problem::{Problem, Rule, Severity};
pub use release::{ExtraEdge, Release, ReleaseList, ReleaseListError, release_list};
pub use risk::{MatchingRule, PromQl, Risk};
pub use version::{Arch, Version, VersionError};
