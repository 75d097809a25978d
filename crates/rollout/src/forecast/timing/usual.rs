//! Usual times: what counts where nothing was measured.

use chrono::TimeDelta;

use crate::forecast::{ClusterClass, Kind, Samples};
use crate::model::Step;

/// The usual times of a kind.
pub(super) fn usual(kind: Kind) -> Samples {
    with(minutes(kind))
}

/// Median and 90th percentile, in minutes. For an unknown class they span both.
const fn minutes((step, _, class): Kind) -> (i64, i64) {
    match (step, class) {
        (Step::Platform, ClusterClass::SingleNode) => (65, 90),
        (Step::Platform, ClusterClass::MultiNode) => (75, 130),
        (Step::Platform, ClusterClass::Unknown) => (70, 130),
        (Step::Operators, _) => (10, 12),
        (Step::PreAction | Step::PostAction, _) => (5, 6),
    }
}

/// Samples with this median and 90th percentile, in minutes.
fn with((median, slow): (i64, i64)) -> Samples {
    let seconds = |share: i64| match share {
        0..=5 => 60 * (median * 3 / 4) + (60 * median - 60 * (median * 3 / 4)) * share / 5,
        6..=9 => 60 * median + 60 * (slow - median) * (share - 5) / 4,
        _ => 60 * slow + 30 * (slow - median),
    };
    Samples::from_sorted((0..=10).map(|share| TimeDelta::seconds(seconds(share))).collect())
}

#[cfg(test)]
mod tests;
