//! Whether a cluster may start (`docs/design/rules.md#eligibility`).

use std::sync::Arc;

use rollout::{Eligibility, Reason};

use crate::index::{Availability, ClusterView};
use crate::selection::Member;

/// Products whose clusters are upgraded by their users.
const SELF_MANAGED: [&str; 2] = ["OpenShift", "ARO"];
/// Products that are upgraded by a provider, which would conflict with changes of their ClusterVersion.
const MANAGED: [&str; 6] = [
    "ROSA",
    "ROSA-HCP",
    "OpenShiftDedicated",
    "OSD",
    "ROKS",
    "HyperShift",
];
/// Values that ACM writes before it knows the product.
const UNKNOWN: [&str; 2] = ["auto-detect", "Unknown"];

/// The eligibility of a cluster. `platform`: the spec asks for a platform upgrade, which needs a well-formed
/// cluster ID and a control plane of the cluster's own. `allow_hub`: the controller may upgrade the hub itself.
#[must_use]
pub fn eligibility(cluster: &ClusterView, member: Member, platform: bool, allow_hub: bool) -> Eligibility {
    let blocked = |reason, message: String| Eligibility::Blocked {
        reason,
        message: Arc::from(message),
    };
    if cluster.hub && !(allow_hub && member.explicitly_named) {
        let allow = if allow_hub {
            ""
        } else {
            "start the controller with --allow-hub, and "
        };
        return blocked(
            Reason::LocalCluster,
            format!(
                "The cluster is the hub itself. To upgrade it, {allow}name it in a selector (key metadata.name, name or local-cluster), which requires the permission to upgrade managedclusters/local-cluster."
            ),
        );
    }
    if let Some(product) = cluster
        .product
        .as_deref()
        .filter(|product| !SELF_MANAGED.contains(product) && !UNKNOWN.contains(product))
    {
        if MANAGED.contains(&product) {
            return blocked(
                Reason::ManagedService,
                format!(
                    "The provider of the managed service {product} upgrades this cluster. Remove the cluster from the selection."
                ),
            );
        }
        return blocked(
            Reason::NotOpenShift,
            format!(
                "The cluster's product {product} is not OpenShift. Remove the cluster from the selection, or fix its claim product.open-cluster-management.io or its label vendor."
            ),
        );
    }
    if platform && cluster.hosted {
        return blocked(
            Reason::HostedControlPlane,
            "The control plane of the cluster is hosted on another cluster, which upgrades it (claim controlplanetopology.openshift.io). Remove the cluster from the selection, and upgrade its HostedCluster and NodePools.".to_owned(),
        );
    }
    if let Some(id) = cluster.id.as_ref().filter(|id| platform && !id.is_uuid) {
        return blocked(
            Reason::InvalidClusterID,
            format!(
                "The cluster ID {:?} is not a UUID. Fix the claim id.openshift.io or the label clusterID.",
                id.text
            ),
        );
    }
    if let Some(error) = &cluster.unreadable {
        return Eligibility::Unavailable {
            reason: Reason::UnreadableCluster,
            message: Arc::from(format!("The ManagedCluster cannot be read: {error}")),
        };
    }
    match &cluster.availability {
        Availability::Available => Eligibility::Eligible,
        Availability::Unavailable(text) => Eligibility::Unavailable {
            reason: Reason::ClusterUnavailable,
            message: Arc::clone(text),
        },
    }
}

#[cfg(test)]
mod tests;
