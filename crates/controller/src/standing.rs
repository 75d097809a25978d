//! Whether a cluster may start (`docs/design/rules.md#eligibility`).

use std::sync::Arc;

use rollout::{Reason, Standing};

use crate::index::{Availability, ClusterView};
use crate::selection::Member;

/// Products whose clusters are upgraded by their users.
const SELF_MANAGED: [&str; 2] = ["OpenShift", "ARO"];
/// Products that a provider upgrades; touching their ClusterVersion would fight with it.
const MANAGED: [&str; 6] = [
    "ROSA",
    "ROSA-HCP",
    "OpenShiftDedicated",
    "OSD",
    "ROKS",
    "HyperShift",
];
/// What ACM writes before it knows better.
const UNKNOWN: [&str; 2] = ["auto-detect", "Unknown"];

/// Judges a cluster. `platform`: a platform upgrade is asked for, which needs a well-formed cluster ID; `allow_hub`: the
/// controller may upgrade the hub itself.
#[must_use]
pub fn standing(cluster: &ClusterView, member: Member, platform: bool, allow_hub: bool) -> Standing {
    let blocked = |reason, message: String| Standing::Blocked {
        reason,
        message: Arc::from(message),
    };
    if cluster.hub && !(allow_hub && member.named) {
        let allow = if allow_hub {
            ""
        } else {
            "the controller must be started with --allow-hub, and "
        };
        return blocked(
            Reason::LocalCluster,
            format!(
                "the cluster is the hub itself; to upgrade it, {allow}a selector must name it (key metadata.name, name or local-cluster), which takes the right to upgrade managedclusters.cluster.open-cluster-management.io/local-cluster"
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
                format!("{product} is upgraded by its provider; take the cluster out of the selection"),
            );
        }
        return blocked(
            Reason::NotOpenShift,
            format!(
                "product {product} is not OpenShift; take the cluster out of the selection, or correct its claim product.open-cluster-management.io or label vendor"
            ),
        );
    }
    if let Some(id) = cluster.id.as_ref().filter(|id| platform && !id.is_uuid) {
        return blocked(
            Reason::InvalidClusterID,
            format!(
                "cluster ID {:?} is not a UUID; correct the claim id.openshift.io or the label clusterID",
                id.text
            ),
        );
    }
    if let Some(error) = &cluster.unreadable {
        return Standing::Unavailable {
            reason: Reason::UnreadableCluster,
            message: Arc::from(format!("the ManagedCluster cannot be read: {error}")),
        };
    }
    match &cluster.availability {
        Availability::Available => Standing::Eligible,
        Availability::Unavailable(text) => Standing::Unavailable {
            reason: Reason::ClusterUnavailable,
            message: Arc::clone(text),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Pool;

    fn judge(labels: &str, claims: &str, member: Member, allow_hub: bool) -> Option<Reason> {
        let text = format!(
            r#"{{"metadata":{{"name":"c1","labels":{labels}}},"spec":{{"hubAcceptsClient":true}},"status":{{"clusterClaims":{claims},"conditions":[]}}}}"#
        );
        let view = ClusterView::new(&serde_json::from_str(&text).unwrap(), &mut Pool::default()).unwrap();
        match standing(&view, member, true, allow_hub) {
            Standing::Eligible => None,
            Standing::Unavailable { reason, .. } | Standing::Blocked { reason, .. } => Some(reason),
        }
    }

    #[test]
    fn products_ids_and_the_hub_are_judged_by_claim_before_label() {
        let member = Member::default();
        let named = Member {
            named: true,
            ..member
        };
        let claim = |name: &str, value: &str| format!(r#"[{{"name":"{name}","value":"{value}"}}]"#);
        let product = |value: &str| claim("product.open-cluster-management.io", value);
        for (labels, claims, member, expected) in [
            ("{}", "[]".to_owned(), member, None),
            ("{}", product("OpenShift"), member, None),
            ("{}", product("ARO"), member, None),
            ("{}", product("ROSA"), member, Some(Reason::ManagedService)),
            ("{}", product("EKS"), member, Some(Reason::NotOpenShift)),
            (r#"{"vendor":"EKS"}"#, product("OpenShift"), member, None),
            (
                r#"{"vendor":"EKS"}"#,
                "[]".to_owned(),
                member,
                Some(Reason::NotOpenShift),
            ),
            (r#"{"vendor":"auto-detect"}"#, "[]".to_owned(), member, None),
            (
                r#"{"local-cluster":"true"}"#,
                "[]".to_owned(),
                member,
                Some(Reason::LocalCluster),
            ),
            (
                r#"{"clusterID":"not-a-uuid"}"#,
                "[]".to_owned(),
                member,
                Some(Reason::InvalidClusterID),
            ),
            (
                r#"{"clusterID":"not-a-uuid"}"#,
                claim("id.openshift.io", "94e170c1-7a3c-4ae1-a85d-8bd904ad783f"),
                member,
                None,
            ),
        ] {
            assert_eq!(
                judge(labels, &claims, member, true),
                expected,
                "{labels} {claims}"
            );
        }
        let hub = r#"{"local-cluster":"true"}"#;
        assert_eq!(judge(hub, "[]", named, true), None);
    }

    #[test]
    fn the_hub_is_upgraded_only_where_the_controller_may_and_a_selector_names_it() {
        let named = Member {
            named: true,
            ..Member::default()
        };
        for (labels, hub) in [
            (r#"{"local-cluster":"true"}"#, true),
            (r#"{"local-cluster":"yes"}"#, true),
            (r#"{"local-cluster":"false"}"#, false),
            ("{}", false),
        ] {
            let blocked = hub.then_some(Reason::LocalCluster);
            assert_eq!(judge(labels, "[]", named, false), blocked, "{labels}");
            assert_eq!(judge(labels, "[]", Member::default(), true), blocked, "{labels}");
            assert_eq!(judge(labels, "[]", named, true), None, "{labels}");
        }
        let text = r#"{"metadata":{"name":"local-cluster"},"spec":{"hubAcceptsClient":true}}"#;
        let view = ClusterView::new(&serde_json::from_str(text).unwrap(), &mut Pool::default()).unwrap();
        let Standing::Blocked { message, .. } = standing(&view, named, true, false) else {
            panic!("by its name alone it is the hub");
        };
        assert!(
            message.contains("--allow-hub") && message.contains("right to upgrade"),
            "{message}"
        );
    }
}
