//! A ManifestWork as the agent sees it.

use crate::work::WorkSpec;

/// A ManifestWork as the agent sees it.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// `metadata.name`
    pub name: &'a str,
    /// `metadata.generation`
    pub generation: i64,
    /// `spec`
    pub spec: &'a WorkSpec,
}
