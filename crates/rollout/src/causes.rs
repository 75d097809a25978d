//! Why clusters failed or wait, in groups of clusters with the same reason and phase. The status has the first of these groups,
//! and the plugin shows all of them. What the preflight has found is told once for each gate, risk or pool.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use api::mcu::CauseGroup;
use api::report::Phase;

use crate::model::Reason;
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
    let mut found: BTreeMap<(Phase, &str, &str), (Urgency, i64, ClusterCause<'_>)> = BTreeMap::new();
    for (urgency, cause) in clusters {
        let told = if names_its_cause(cause.reason) {
            first_cause(cause.message)
        } else {
            ""
        };
        let key = (cause.phase, cause.reason, told);
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

/// True when the message of a cluster names the gate, risk, pool or channel that blocks it, in the words that each cluster with the same
/// cause has.
#[must_use]
pub fn names_its_cause(reason: &str) -> bool {
    matches!(
        Reason::parse(reason),
        Some(
            Reason::AdminAckRequired
                | Reason::RiskNotAccepted
                | Reason::RiskUnknown
                | Reason::NotOffered
                | Reason::ChannelDiffers
                | Reason::PoolPaused
                | Reason::PoolDegraded
                | Reason::PreflightUnknown
        )
    )
}

/// What the message of a preflight begins with: the name of a risk, gate or condition before its text, or a whole sentence. What follows
/// may differ from cluster to cluster.
fn first_cause(message: &str) -> &str {
    let first = message.split("; ").next().unwrap_or_default();
    first.split(": ").next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
