//! How far a cluster is on its way to a target.
//!
//! Versions, images and generations are compared by the rule of fresh feedback (`docs/design/rules.md#fresh-feedback`).
//! Nothing is guessed: missing or contradictory values are [`Progress::NotYet`], which is neither success nor another version.

use crate::feedback::{Feedback, Target};

/// How far a cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Unknown: values are missing, stale, or contradict each other.
    NotYet,
    /// The newest history entry of the cluster is another release.
    Other {
        /// Its version.
        version: &'a str,
    },
    /// The target is being applied.
    Partial,
    /// The target is applied.
    Completed,
}

/// Compares feedback with the target.
///
/// `current`: whether the values were reported for the current generation of the ManifestWork. Absent `desiredVersion`,
/// generations and `image` never count as stale, but contradicting ones do. Images are compared only if the target names one.
#[must_use]
pub fn progress<'a>(feedback: &Feedback<'a>, target: &Target<'_>, current: bool) -> Progress<'a> {
    if !current || behind(feedback) || target.is_empty() {
        return Progress::NotYet;
    }
    let version = feedback.version.filter(|version| !version.is_empty());
    let desired = feedback.desired_version.filter(|version| !version.is_empty());
    match entry(feedback, target, version) {
        ReleaseMatch::Same if contradicts(desired, target) => Progress::NotYet,
        ReleaseMatch::Same => match feedback.state {
            // The version is empty only until the payload is loaded, long before the update ends.
            Some("Completed") if version.is_some() || target.version.is_empty() => Progress::Completed,
            Some("Partial") => Progress::Partial,
            _ => Progress::NotYet,
        },
        ReleaseMatch::Unknown => Progress::NotYet,
        ReleaseMatch::Different => match version {
            // The CVO writes `desired` and history together, so a difference means that one of them is stale.
            Some(version) if desired.is_none_or(|desired| desired == version) => Progress::Other { version },
            _ => Progress::NotYet,
        },
    }
}

/// Whether the cluster, which is at another release than the target, is not asked for any release. The cluster-version operator must
/// have acted on a spec without a request, so both generations are needed.
#[must_use]
pub fn is_unasked(feedback: &Feedback<'_>, target: &Target<'_>, current: bool) -> bool {
    let is_absent = |text: Option<&str>| text.unwrap_or_default().is_empty();
    matches!(progress(feedback, target, current), Progress::Other { .. })
        && feedback.generation.is_some()
        && feedback.observed_generation.is_some()
        && is_absent(feedback.requested_version)
        && is_absent(feedback.requested_image)
}

/// Whether the newest history entry is the target.
#[must_use]
pub(crate) fn started(feedback: &Feedback<'_>, target: &Target<'_>) -> bool {
    let version = feedback.version.filter(|version| !version.is_empty());
    entry(feedback, target, version) == ReleaseMatch::Same
}

/// How the newest history entry compares with the target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReleaseMatch {
    Same,
    Different,
    Unknown,
}

fn entry(feedback: &Feedback<'_>, target: &Target<'_>, version: Option<&str>) -> ReleaseMatch {
    let by_image = match (target.image, feedback.image) {
        ("", _) | (_, None | Some("")) => ReleaseMatch::Unknown,
        (wanted, Some(seen)) if wanted == seen => ReleaseMatch::Same,
        _ => ReleaseMatch::Different,
    };
    let by_version = match (target.version, version) {
        ("", _) | (_, None) => ReleaseMatch::Unknown,
        (wanted, Some(seen)) if wanted == seen => ReleaseMatch::Same,
        _ => ReleaseMatch::Different,
    };
    match (by_version, by_image) {
        (ReleaseMatch::Different, _) | (_, ReleaseMatch::Different) => ReleaseMatch::Different,
        (ReleaseMatch::Same, _) | (_, ReleaseMatch::Same) => ReleaseMatch::Same,
        (ReleaseMatch::Unknown, ReleaseMatch::Unknown) => ReleaseMatch::Unknown,
    }
}

fn behind(feedback: &Feedback<'_>) -> bool {
    matches!((feedback.observed_generation, feedback.generation), (Some(seen), Some(now)) if seen < now)
}

fn contradicts(desired: Option<&str>, target: &Target<'_>) -> bool {
    !target.version.is_empty() && desired.is_some_and(|desired| desired != target.version)
}

#[cfg(test)]
mod tests;
