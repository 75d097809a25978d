//! Versions as the operator compares them: by semver without build; what is no version compares with nothing.

use update_graph::Version;

use crate::types::{ConditionalUpdate, Release};

/// How far an update leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// Back, or nowhere.
    None,
    /// Within the minor version.
    Patch,
    /// To a later minor version.
    Minor,
    /// To a later major version.
    Major,
}

/// Reads a version.
pub(crate) fn parse(text: &str) -> Option<Version> {
    Version::parse(text).ok()
}

/// How far an update leads.
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

/// Whether Upgradeable=False would stand against an update: it leads to another minor or major version, or that
/// cannot be ruled out.
#[must_use]
pub fn is_gated(from: &str, to: &str) -> bool {
    match (parse(from), parse(to)) {
        (Some(from), Some(to)) => matches!(hop(&from, &to), Hop::Minor | Hop::Major),
        _ => true,
    }
}

/// Sorts releases as status lists them: newest first.
pub fn sort_releases(releases: &mut [Release]) {
    sort_descending(releases, |release| release.version.as_str());
}

/// Sorts updates with risks as status lists them: newest first.
pub fn sort_conditional(updates: &mut [ConditionalUpdate]) {
    sort_descending(updates, |update| update.release.version.as_str());
}

/// Sorts by version, newest first; what is no version comes last.
fn sort_descending<T>(items: &mut [T], version_of: impl Fn(&T) -> &str) {
    items.sort_by_key(|item| std::cmp::Reverse(parse(version_of(item))));
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
        assert!(is_gated("4.14.1", "nightly"));
    }
}
