//! Sources of releases, graphs and graph-data: registries, files, URLs and images.
//!
//! Every source gives a complete answer or an error, never a part that looks complete. [`keep`](crate::keep) and
//! [`refresh`](crate::refresh) decide how answers are used.

pub mod archive;
pub mod fetch;
pub mod graph_data;
pub mod location;
pub mod registry;
pub mod retry;
pub mod tls;

use update_graph::{ExtraEdge, Release};

/// A release with the name under which its source lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Tag in a registry; `VERSION+ARCH` in a file.
    pub name: String,
    /// The release.
    pub release: Release,
}

/// Something that is listed and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Name under which it is listed.
    pub name: String,
    /// Why.
    pub why: String,
}

/// Everything a source lists. The list of names is always whole.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// What was read.
    pub releases: Vec<Listed>,
    /// Edges declared outside of the releases.
    pub extra: Vec<ExtraEdge>,
    /// What is listed and cannot be read now.
    pub unreadable: Vec<Trouble>,
}

/// An error with its causes, outermost first.
#[must_use]
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Many libraries repeat the cause in the message.
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
