//! Why clusters failed or wait, in groups of clusters with the same reason and phase. The status has the first of these groups,
//! and the plugin shows all of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use api::mcu::CauseGroup;
use api::report::Phase;

use crate::remedy::{self, Names};
use crate::urgency::Urgency;

/// A cluster that failed or waits, by its record or its row.
#[derive(Clone, Copy, Debug)]
pub struct ClusterCause<'a> {
    /// Its name.
    pub cluster: &'a str,
    /// Its phase.
    pub phase: Phase,
    /// Its reason, which may be one of a newer release.
    pub reason: &'a str,
    /// Its message.
    pub message: &'a str,
}

/// The groups of these clusters, which are sorted by name: first those that need a human, and among these the largest first. The
/// texts are those of the clusters, so they may be long and contain any character.
#[must_use]
pub fn groups<'a>(
    clusters: impl IntoIterator<Item = (Urgency, ClusterCause<'a>)>,
    names: Names<'_>,
) -> Vec<CauseGroup> {
    let mut found: BTreeMap<(Phase, &str), (Urgency, i64, ClusterCause<'_>)> = BTreeMap::new();
    for (urgency, cause) in clusters {
        let key = (cause.phase, cause.reason);
        let (_, number, _) = found.entry(key).or_insert((urgency, 0, cause));
        *number += 1;
    }
    let mut groups: Vec<(Urgency, i64, ClusterCause<'_>)> = found.into_values().collect();
    groups.sort_by_key(|(urgency, number, _)| (*urgency, Reverse(*number)));
    let group = |(_, clusters, first): (Urgency, i64, ClusterCause<'_>)| {
        let names = Names {
            cluster: first.cluster,
            ..names
        };
        CauseGroup {
            reason: first.reason.to_owned(),
            phase: first.phase,
            clusters,
            example: first.cluster.to_owned(),
            message: first.message.to_owned(),
            remedy: remedy::for_cluster(first.reason, first.phase, names),
        }
    };
    groups.into_iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_urgent_group_comes_first_then_the_largest_and_each_has_its_first_cluster_as_example() {
        let cause = |urgency, cluster, phase, reason| {
            let cause = ClusterCause {
                cluster,
                phase,
                reason,
                message: cluster,
            };
            (urgency, cause)
        };
        let clusters = [
            cause(Urgency::Queued, "a", Phase::Pending, "WaitingForSlot"),
            cause(Urgency::Queued, "b", Phase::Pending, "WaitingForSlot"),
            cause(Urgency::Blocked, "c", Phase::Blocked, "NotOpenShift"),
            cause(Urgency::Failed, "d", Phase::Failed, "OfANewerRelease"),
            cause(Urgency::Failed, "e", Phase::Failed, "JobFailed"),
            cause(Urgency::Failed, "f", Phase::Failed, "JobFailed"),
        ];
        let names = Names {
            namespace: "upgrades",
            name: "spring",
            cluster: "",
        };
        let groups = groups(clusters, names);
        let told: Vec<(&str, i64, &str)> = groups
            .iter()
            .map(|group| (group.reason.as_str(), group.clusters, group.example.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                ("JobFailed", 2, "e"),
                ("OfANewerRelease", 1, "d"),
                ("NotOpenShift", 1, "c"),
                ("WaitingForSlot", 2, "a"),
            ]
        );
        assert_eq!(groups[0].message, "e");
        assert!(groups[1].remedy.contains("kubectl mcu retry spring -n upgrades"));
    }
}
