use super::*;
use crate::index::Pool;

fn evaluate(labels: &str, claims: &str, member: Member, allow_hub: bool) -> Option<Reason> {
    judge(labels, claims, member, true, allow_hub)
}

fn judge(labels: &str, claims: &str, member: Member, platform: bool, allow_hub: bool) -> Option<Reason> {
    let text = format!(
        r#"{{"metadata":{{"name":"c1","labels":{labels}}},"spec":{{"hubAcceptsClient":true}},"status":{{"clusterClaims":{claims},"conditions":[{{"type":"ManagedClusterConditionAvailable","status":"True"}}]}}}}"#
    );
    let view = ClusterView::new(&serde_json::from_str(&text).unwrap(), &mut Pool::default()).unwrap();
    match eligibility(&view, member, platform, allow_hub) {
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
fn the_platform_of_a_cluster_with_a_hosted_control_plane_is_left_to_its_host() {
    let claims =
        |topology: &str| format!(r#"[{{"name":"controlplanetopology.openshift.io","value":"{topology}"}}]"#);
    let judge = |topology: &str, platform| judge("{}", &claims(topology), Member::default(), platform, false);
    assert_eq!(judge("External", true), Some(Reason::HostedControlPlane));
    assert_eq!(judge("External", false), None, "its operators are its own");
    assert_eq!(judge("HighlyAvailable", true), None);
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

#[test]
fn a_cluster_whose_agent_has_not_reported_yet_waits() {
    for status in [
        "{}",
        r#"{"conditions":[{"type":"HubAcceptedManagedCluster","status":"True"}]}"#,
    ] {
        let text =
            format!(r#"{{"metadata":{{"name":"c1"}},"spec":{{"hubAcceptsClient":true}},"status":{status}}}"#);
        let view = ClusterView::new(&serde_json::from_str(&text).unwrap(), &mut Pool::default()).unwrap();
        let Eligibility::Unavailable { message, .. } = eligibility(&view, Member::default(), true, false)
        else {
            panic!("{status}");
        };
        assert!(message.contains("has not joined the hub yet"), "{message}");
    }
}
