//! Whether a cluster may start (`docs/design/rules.md#eligibility`).

use std::sync::Arc;

use rollout::{Eligibility, Reason};

use crate::observe::index::{Availability, ClusterView};
use crate::observe::selection::Member;

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
/// cluster ID. `allow_hub`: the controller may upgrade the hub itself.
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
            "the controller must be started with --allow-hub, and "
        };
        return blocked(
            Reason::LocalCluster,
            format!(
                "the cluster is the hub itself; to upgrade it, {allow}a selector must name it (key metadata.name, name or local-cluster), which requires the permission to upgrade managedclusters.cluster.open-cluster-management.io/local-cluster"
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
                format!("{product} is upgraded by its provider; remove the cluster from the selection"),
            );
        }
        return blocked(
            Reason::NotOpenShift,
            format!(
                "product {product} is not OpenShift; remove the cluster from the selection, or fix its claim product.open-cluster-management.io or label vendor"
            ),
        );
    }
    if let Some(id) = cluster.id.as_ref().filter(|id| platform && !id.is_uuid) {
        return blocked(
            Reason::InvalidClusterID,
            format!(
                "cluster ID {:?} is not a UUID; fix the claim id.openshift.io or the label clusterID",
                id.text
            ),
        );
    }
    if let Some(error) = &cluster.unreadable {
        return Eligibility::Unavailable {
            reason: Reason::UnreadableCluster,
            message: Arc::from(format!("the ManagedCluster cannot be read: {error}")),
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
mod tests {
    use super::*;
    use crate::observe::index::Pool;

    fn evaluate(labels: &str, claims: &str, member: Member, allow_hub: bool) -> Option<Reason> {
        let text = format!(
            r#"{{"metadata":{{"name":"c1","labels":{labels}}},"spec":{{"hubAcceptsClient":true}},"status":{{"clusterClaims":{claims},"conditions":[]}}}}"#
        );
        let view = ClusterView::new(&serde_json::from_str(&text).unwrap(), &mut Pool::default()).unwrap();
        match eligibility(&view, member, true, allow_hub) {
            Eligibility::Eligible => None,
            Eligibility::Unavailable { reason, .. } | Eligibility::Blocked { reason, .. } => Some(reason),
        }
    }

    #[test]
    fn products_ids_and_the_hub_are_judged_by_claim_before_label() {
        let member = Member::default();
        let named = Member {
            explicitly_named: true,
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
                evaluate(labels, &claims, member, true),
                expected,
                "{labels} {claims}"
            );
        }
        let hub = r#"{"local-cluster":"true"}"#;
        assert_eq!(evaluate(hub, "[]", named, true), None);
    }

    #[test]
    fn the_hub_is_upgraded_only_where_the_controller_may_and_a_selector_names_it() {
        let named = Member {
            explicitly_named: true,
            ..Member::default()
        };
        for (labels, hub) in [
            (r#"{"local-cluster":"true"}"#, true),
            (r#"{"local-cluster":"yes"}"#, true),
            (r#"{"local-cluster":"false"}"#, false),
            ("{}", false),
        ] {
            let blocked = hub.then_some(Reason::LocalCluster);
            assert_eq!(evaluate(labels, "[]", named, false), blocked, "{labels}");
            assert_eq!(
                evaluate(labels, "[]", Member::default(), true),
                blocked,
                "{labels}"
            );
            assert_eq!(evaluate(labels, "[]", named, true), None, "{labels}");
        }
        let text = r#"{"metadata":{"name":"local-cluster"},"spec":{"hubAcceptsClient":true}}"#;
        let view = ClusterView::new(&serde_json::from_str(text).unwrap(), &mut Pool::default()).unwrap();
        let Eligibility::Blocked { message, .. } = eligibility(&view, named, true, false) else {
            panic!("by its name alone it is the hub");
        };
        assert!(
            message.contains("--allow-hub") && message.contains("permission to upgrade"),
            "{message}"
        );
    }
}
