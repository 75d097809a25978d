//! What a query for a path asks: from which release, where to, and which edges may be used.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::version::{Arch, Version};

/// Where a path should end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// At this release.
    Version(Version),
    /// At the newest release of a minor version that can be reached.
    Minor {
        /// The first number.
        major: u64,
        /// The second number.
        minor: u64,
    },
}

/// A text that is no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a version such as 4.16.3 nor a minor version such as 4.16")]
pub struct TargetError(String);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if let Ok(version) = Version::parse(text) {
            return Ok(Self::Version(version));
        }
        // With a patch number it must be a version in every other respect too.
        let patched = Version::parse(&format!("{text}.0"))
            .ok()
            .filter(|v| !v.is_pre_release() && !text.contains('+'));
        match patched {
            Some(version) => Ok(Self::Minor {
                major: version.major(),
                minor: version.minor(),
            }),
            None => Err(TargetError(text.chars().take(80).collect())),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => fmt::Display::fmt(version, f),
            Self::Minor { major, minor } => write!(f, "{major}.{minor}"),
        }
    }
}

/// The request for a path from one release to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathQuery {
    /// The architecture.
    pub arch: Arch,
    /// The release the cluster runs.
    pub from: Version,
    /// Where it should get to.
    pub to: Target,
    /// True when edges with risks may be used, whatever the risks.
    pub conditional: bool,
    /// Risks that are accepted, by name: an edge all of whose risks are accepted may be used.
    pub accepted: BTreeSet<String>,
    /// True when a path may lead through candidates and hotfixes. Its ends may be such in any case.
    pub pre_releases: bool,
    /// Channels by name or by the part before the first `-`, in the order of preference; empty means all, in the order
    /// stable, eus, fast, candidate, others.
    pub channels: Vec<String>,
    /// The channel the cluster is in: a path stays in it as long as it can.
    pub channel: Option<String>,
    /// How many paths are requested, the best included; at least one is returned.
    pub limit: usize,
}

impl PathQuery {
    /// A query for one path over unconditional edges in any channel.
    #[must_use]
    pub fn new(arch: Arch, from: Version, to: Target) -> Self {
        Self {
            arch,
            from,
            to,
            conditional: false,
            accepted: BTreeSet::new(),
            pre_releases: false,
            channels: Vec::new(),
            channel: None,
            limit: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_version_or_a_minor_version() {
        assert_eq!("4.16".parse(), Ok(Target::Minor { major: 4, minor: 16 }));
        assert_eq!("4.16.3".parse(), Ok(Target::Version("4.16.3".parse().unwrap())));
        assert_eq!(
            "4.16.0-rc.1".parse(),
            Ok(Target::Version("4.16.0-rc.1".parse().unwrap()))
        );
        for text in ["4", "", "4.16-rc", "4.x", "latest", "4.16+a"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
