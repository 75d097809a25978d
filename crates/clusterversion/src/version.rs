//! Versions as the cluster-version operator compares them: by semver, ignoring build metadata.

use update_graph::Version;

use crate::types::Release;

/// How far an update goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// To the same or an earlier version.
    None,
    /// To a later patch version.
    Patch,
    /// To a later minor version.
    Minor,
    /// To a later major version.
    Major,
}

/// Parses a version. `None` if the text is not one.
#[must_use]
pub fn parse(text: &str) -> Option<Version> {
    Version::parse(text).ok()
}

/// How far an update goes.
#[must_use]
pub fn hop(from: &Version, to: &Version) -> Hop {
    if from.major() < to.major() {
        Hop::Major
    } else if from.major() == to.major() && from.minor() < to.minor() {
        Hop::Minor
    } else if from < to {
        Hop::Patch
    } else {
        Hop::None
    }
}

/// Sorts releases as the status lists them: newest first. Those without a valid version come last.
pub fn sort_releases(releases: &mut [Release]) {
    releases.sort_by_key(|release| std::cmp::Reverse(parse(&release.version)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_is_named_by_the_first_number_that_grows() {
        for (from, to, expected) in [
            ("4.14.1", "4.14.2", Hop::Patch),
            ("4.14.0-rc.1", "4.14.0", Hop::Patch),
            ("4.14.1", "4.15.0", Hop::Minor),
            ("4.22.1", "5.0.0", Hop::Major),
            ("5.1.0", "4.22.1", Hop::None),
            ("4.14.1", "4.14.1", Hop::None),
            ("4.15.1", "4.14.9", Hop::None),
        ] {
            assert_eq!(
                hop(&parse(from).unwrap(), &parse(to).unwrap()),
                expected,
                "{from} {to}"
            );
        }
    }
}
