use std::collections::BTreeSet;

use api::names::ANNOTATION_LEADER_VERSION;
use serde_json::{Value, json};

use super::facts::{Before, CREATED, Installed, OCM};
use super::*;
use crate::args::Output;
use crate::failure::Failure;
use crate::paint::Paint;
use crate::render::check::render;
use crate::render::fixtures::now;

fn good_hub() -> Before {
    let served = OCM.map(|(_, plurals)| Ok(plurals.iter().map(|plural| (*plural).to_owned()).collect()));
    Before {
        version: Ok("v1.31.2+k3s1".to_owned()),
        ocm: served.into(),
        manager: Ok(Some(
            json!({"spec": {"workImagePullSpec": "quay.io/ocm/work:v1.2.1"}}),
        )),
        may_create: CREATED.map(|_| Ok(true)).into(),
    }
}

fn deployment(args: &[&str], ready: i64) -> Value {
    let image = "registry.example.com/mcu-controller:0.1.0";
    json!({
        "metadata": {},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [
            {"name": "mcu-controller", "image": image, "args": args},
        ]}}},
        "status": {"readyReplicas": ready},
    })
}

pub(super) fn good_installation() -> Installed {
    let condition = |kind: &str, status: &str| json!([{"type": kind, "status": status, "lastTransitionTime": "2026-03-01T11:00:00Z"}]);
    let kinds: BTreeSet<String> = facts::OUR_KINDS.map(str::to_owned).into();
    Installed {
        is_simulated: false,
        kinds: Ok(kinds),
        definitions: Ok(Vec::new()),
        policies: Err("forbidden".into()),
        deployment: Ok(Some(deployment(
            &["--spoke-rbac=aggregate", "--approver-image=a@sha256:00"],
            2,
        ))),
        lease: Ok(Some(json!({"spec": {
            "holderIdentity": "mcu-controller-1", "renewTime": "2026-03-01T11:59:55.000000Z", "leaseDurationSeconds": 15,
        }}))),
        bindings: Ok(vec![
            json!({"metadata": {"name": "prod"}, "status": {"conditions": condition("Bound", "True")}}),
        ]),
        clusters: Ok(vec![available("edge-1")]),
        leases: Ok(vec![heartbeat("edge-1", "2026-03-01T11:59:30.000000Z")]),
        reports: Ok(vec![
            json!({"rows": [{"cluster": "edge-1", "reason": "Progressing"}]}),
        ]),
    }
}

fn available(name: &str) -> Value {
    json!({"metadata": {"name": name}, "status": {"conditions": [
        {"type": "ManagedClusterConditionAvailable", "status": "True", "lastTransitionTime": "2026-03-01T11:00:00Z"},
    ]}})
}

fn heartbeat(cluster: &str, time: &str) -> Value {
    json!({"metadata": {"name": "managed-cluster-lease", "namespace": cluster}, "spec": {"renewTime": time}})
}

fn judged(facts: &Installed) -> Vec<Check> {
    installed(facts, "upgrades", "mcu-system", now())
}

/// The messages of the checks that did not end well.
fn findings(checks: &[Check]) -> Vec<&str> {
    let bad = checks.iter().filter(|check| check.level != Level::Ok);
    bad.map(|check| check.message.as_str()).collect()
}

#[test]
fn a_good_hub_passes_every_check_before_the_installation() {
    let checks = before(&good_hub());
    assert_eq!(worst(&checks), Level::Ok);
    insta::assert_snapshot!(render(&checks, None, Paint::Never));
}

#[test]
fn a_hub_that_is_too_old_without_ocm_and_without_rights_fails() {
    let mut hub = good_hub();
    hub.version = Ok("v1.29.4".to_owned());
    hub.ocm[3] = Ok(BTreeSet::new());
    hub.may_create[0] = Ok(false);
    let checks = before(&hub);
    assert_eq!(worst(&checks), Level::Failed);
    insta::assert_snapshot!(render(&checks, None, Paint::Never));
    let read: Value = serde_json::from_str(&render(&checks, Some(Output::Json), Paint::Never)).unwrap();
    assert_eq!(read["result"], "failed");
    assert_eq!(read["checks"][0]["category"], "kubernetes");
}

#[test]
fn a_version_of_open_cluster_management_outside_the_supported_range_is_warned_about() {
    for (version, level) in [
        ("v0.16.0", Level::Warning),
        ("v1.0.0", Level::Ok),
        ("v1.2.1", Level::Ok),
        ("v1.30.0-rc.1", Level::Ok),
        ("v2.0.0", Level::Warning),
        ("latest", Level::Ok),
    ] {
        let mut hub = good_hub();
        let image = format!("quay.io/ocm/work:{version}");
        hub.manager = Ok(Some(json!({"spec": {"workImagePullSpec": image}})));
        let checks = before(&hub);
        assert_eq!(worst(&checks), level, "{version}");
        let expected =
            format!("Open Cluster Management has version {version}; supported are 1.0 and later, before 2.0");
        assert_eq!(findings(&checks).contains(&expected.as_str()), level != Level::Ok);
    }
}

#[test]
fn the_supported_range_is_that_of_the_support_matrix() {
    let page = include_str!("../../../../docs/guide/support-matrix.md");
    assert!(
        page.contains(&before::supported_ocm()),
        "{}",
        before::supported_ocm()
    );
    let pinned = include_str!("../../../../e2e/hub-tools/ocm/go.mod");
    let pinned = pinned
        .lines()
        .find_map(|line| line.strip_prefix("require open-cluster-management.io/ocm "));
    let mut hub = good_hub();
    let image = format!("quay.io/ocm/work:{}", pinned.unwrap());
    hub.manager = Ok(Some(json!({"spec": {"workImagePullSpec": image}})));
    assert_eq!(worst(&before(&hub)), Level::Ok, "the tested version is supported");
}

#[test]
fn a_simulated_hub_is_said_to_be_one_and_what_it_cannot_have_is_no_failure() {
    let mut hub = good_hub();
    hub.version = Ok("v1.35.0+hub-sim".to_owned());
    hub.manager = Ok(None);
    let mut facts = good_installation();
    facts.is_simulated = hub.is_simulated();
    facts.policies = Ok((Vec::new(), Vec::new()));
    facts.deployment = Err("the server doesn't have a resource type \"deployments\"".into());
    let checks = [before(&hub), judged(&facts)].concat();
    assert_eq!(findings(&checks), [""; 0]);
    let told: Vec<&str> = checks
        .iter()
        .map(|check| check.message.as_str())
        .filter(|message| message.contains("simulated hub"))
        .collect();
    assert_eq!(
        told,
        [
            "This is a simulated hub (v1.35.0+hub-sim)",
            "Your rights are not checked, because a simulated hub lets everybody do everything",
            "Admission policies are not checked, because a simulated hub enforces none",
            "The controller's Deployment is not checked, because a simulated hub runs none",
        ]
    );
    facts.lease = Ok(None);
    assert_eq!(
        worst(&judged(&facts)),
        Level::Failed,
        "a controller that runs leads there, too"
    );
}

#[test]
fn a_hub_that_does_not_answer_fails_once() {
    let mut hub = good_hub();
    hub.version = Err("connection refused".into());
    let checks = before(&hub);
    assert_eq!(findings(&checks), ["The hub does not answer: connection refused"]);
}

#[test]
fn a_good_installation_has_only_what_may_not_be_read_as_a_warning() {
    let checks = judged(&good_installation());
    assert_eq!(
        findings(&checks),
        ["The admission policies cannot be read: forbidden"]
    );
    insta::assert_snapshot!(render(&checks, None, Paint::Never));
}

#[test]
fn policies_that_are_not_bound_fail() {
    let mut facts = good_installation();
    facts.policies = Ok((Vec::new(), Vec::new()));
    let checks = judged(&facts);
    assert_eq!(worst(&checks), Level::Failed);
    assert!(findings(&checks)[0].contains("missing"), "{checks:?}");
}

#[test]
fn remedies_name_the_command_of_each_way_to_install() {
    let mut facts = good_installation();
    facts.kinds = Ok(BTreeSet::new());
    facts.policies = Ok((Vec::new(), Vec::new()));
    let checks = judged(&facts);
    let remedy = |message: &str| {
        let check = checks.iter().find(|check| check.message.starts_with(message));
        check.unwrap().remedy.as_str()
    };
    let crds = remedy("The hub does not serve managedclustersupgrades");
    assert!(
        crds.contains("helm upgrade") && crds.contains("kubectl apply -k crds"),
        "{crds}"
    );
    let policies = remedy("The hub does not enforce all admission policies");
    assert!(
        policies.contains("helm upgrade") && policies.contains("kubectl apply -k deploy"),
        "{policies}"
    );
}

#[test]
fn a_controller_that_does_not_lead_or_is_not_ready_fails() {
    let mut facts = good_installation();
    facts.policies = Err("".into());
    for (lease, expected) in [
        (json!({}), "No controller leads (Lease mcu-system/mcu-controller)"),
        (
            json!({"spec": {"holderIdentity": "a", "renewTime": "2026-03-01T11:58:00.000000Z", "leaseDurationSeconds": 15}}),
            "a led, but has not renewed the Lease for 2m",
        ),
    ] {
        facts.lease = Ok(Some(lease));
        let checks = judged(&facts);
        assert_eq!(worst(&checks), Level::Failed);
        assert!(findings(&checks).contains(&expected), "{:?}", findings(&checks));
    }
    facts.deployment = Ok(Some(deployment(&[], 0)));
    assert!(findings(&judged(&facts)).contains(&"0 of 2 replicas of the controller are ready"));
    facts.deployment = Ok(None);
    assert!(findings(&judged(&facts)).contains(&"Namespace mcu-system has no Deployment mcu-controller"));
}

#[test]
fn rights_of_agents_and_the_image_of_the_approver_are_warned_about() {
    let mut facts = good_installation();
    facts.deployment = Ok(Some(deployment(
        &["--agent-service-account=agents/work", "--approver-image=a:latest"],
        2,
    )));
    let checks = judged(&facts);
    let found = findings(&checks);
    assert!(
        found[1].starts_with("Work agents (agents/work) are cluster administrators"),
        "{found:?}"
    );
    assert_eq!(
        found[2],
        "The image that approves operators has no digest: a:latest"
    );
    assert_eq!(worst(&checks), Level::Warning);
}

#[test]
fn namespaces_without_sets_and_silent_agents_are_warned_about() {
    let mut facts = good_installation();
    facts.bindings = Ok(Vec::new());
    let silent = |name: String| {
        json!({"metadata": {"name": name}, "status": {"conditions": [
            {"type": "ManagedClusterConditionAvailable", "status": "Unknown", "lastTransitionTime": "2026-03-01T09:00:00Z"},
        ]}})
    };
    facts.clusters = Ok((0..7).map(|number| silent(format!("edge-{number}"))).collect());
    let checks = judged(&facts);
    let found = findings(&checks);
    assert!(
        found[1].starts_with("Namespace upgrades binds no ManagedClusterSet"),
        "{found:?}"
    );
    assert!(found[2].contains("edge-0 (for 3h), edge-1"), "{found:?}");
    assert!(found[2].ends_with("and 2 more"), "{found:?}");
}

#[test]
fn agents_that_are_silent_without_the_hubs_notice_are_warned_about() {
    let mut facts = good_installation();
    let mut slow = available("edge-3");
    slow["spec"] = json!({"leaseDurationSeconds": 600});
    facts.clusters = Ok(vec![
        available("edge-1"),
        available("edge-2"),
        slow,
        available("edge-4"),
    ]);
    let late = "2026-03-01T11:40:00.000000Z";
    facts.leases = Ok(vec![
        heartbeat("edge-1", "2026-03-01T11:59:30.000000Z"),
        heartbeat("edge-2", late),
        heartbeat("edge-3", late),
    ]);
    let checks = judged(&facts);
    assert_eq!(
        findings(&checks)[1..],
        ["Clusters that the hub takes for available although their agents are silent: edge-2 (for 20m)"]
    );
    facts.leases = Err("forbidden".into());
    let checks = judged(&facts);
    assert_eq!(
        findings(&checks)[1..],
        ["The Leases of the agents cannot be read: forbidden"]
    );
}

#[test]
fn an_agent_of_another_account_than_the_one_that_is_granted_rights_by_name_is_warned_about() {
    let mut facts = good_installation();
    let annotated = |name: &str, annotations: Value| {
        let mut cluster = available(name);
        cluster["metadata"]["annotations"] = annotations;
        cluster
    };
    let mode = "import.open-cluster-management.io/klusterlet-deploy-mode";
    let namespace = "import.open-cluster-management.io/klusterlet-namespace";
    facts.clusters = Ok(vec![
        available("edge-1"),
        annotated("edge-2", json!({mode: "Hosted"})),
        annotated("edge-3", json!({namespace: "agents"})),
        annotated("edge-4", json!({mode: "Default"})),
        annotated("edge-5", json!({namespace: "open-cluster-management-agent"})),
    ]);
    assert_eq!(
        findings(&judged(&facts)).len(),
        1,
        "aggregated rights need no account"
    );
    facts.deployment = Ok(Some(deployment(
        &["--spoke-rbac=admin-ocm", "--approver-image=a@sha256:00"],
        2,
    )));
    let checks = judged(&facts);
    let found = findings(&checks);
    assert_eq!(
        found[2],
        "The agents of 2 of 5 clusters run under another service account than open-cluster-management-agent/klusterlet-work-sa: \
         edge-2 (open-cluster-management-edge-2/klusterlet-edge-2-work-sa), edge-3 (agents/klusterlet-work-sa)"
    );
}

#[test]
fn agents_that_cannot_apply_a_work_are_warned_about_and_without_rows_nothing_is_said_of_them() {
    let mut facts = good_installation();
    let row = |cluster: &str, reason: &str| json!({"cluster": cluster, "reason": reason});
    facts.reports = Ok(vec![
        json!({"rows": [row("edge-2", "NotApplied"), row("edge-1", "NotAvailable")]}),
        json!({"rows": [row("edge-1", "NotApplied"), row("edge-2", "NotApplied")]}),
    ]);
    let checks = judged(&facts);
    assert_eq!(
        findings(&checks)[1..],
        ["Agents cannot apply a work of an upgrade in namespace upgrades on: edge-1, edge-2"]
    );
    facts.reports = Ok(Vec::new());
    let checks = judged(&facts);
    assert!(
        checks
            .iter()
            .all(|check| !check.message.contains("a work of an upgrade")
                && !check.message.contains("a work of the upgrades")),
        "{checks:?}"
    );
}

#[test]
fn the_version_of_the_controller_is_that_of_the_tag_and_a_label_that_says_something_else_is_no_proof() {
    let of = |image: &str, label: Option<&str>| {
        let mut deployment = deployment(&[], 2);
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        if let Some(label) = label {
            deployment["metadata"]["labels"] = json!({"app.kubernetes.io/version": label});
        }
        version_of(&deployment)
    };
    for (image, label, expected) in [
        ("mcu-controller:0.3.0", Some("0.3.0"), "0.3.0"),
        ("mcu-controller:v0.3.0", Some("0.3.0"), "0.3.0"),
        ("registry.example.com:5000/mcu-controller:0.4.0", None, "0.4.0"),
    ] {
        assert_eq!(of(image, label).as_deref(), Ok(expected), "{image} {label:?}");
    }
    let by_digest = "registry.example.com:5000/mcu-controller@sha256:00";
    for (image, label) in [
        (by_digest, Some("0.3.0")),
        (by_digest, None),
        ("mcu-controller:0.3.0@sha256:00", Some("0.3.0")),
        ("mcu-controller:latest", Some("0.3.0")),
        ("mcu-controller:v0.4.0", Some("0.3.0")),
        ("mcu-controller", Some("0.3.0")),
        ("registry.example.com:5000/mcu-controller", None),
    ] {
        let why = of(image, label).unwrap_err();
        assert!(why.starts_with(&format!("image {image}")), "{why}");
        assert_eq!(
            why.contains("0.3.0"),
            label.is_some() || image.contains("0.3.0"),
            "{why}"
        );
    }
}

#[test]
fn a_controller_whose_version_is_not_known_is_a_warning() {
    let mut facts = good_installation();
    let flags = ["--spoke-rbac=aggregate", "--approver-image=a@sha256:00"];
    for label in ["0.1.0", "9.0.0"] {
        let mut deployment = deployment(&flags, 2);
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!("mcu-controller@sha256:00");
        deployment["metadata"]["labels"] = json!({"app.kubernetes.io/version": label});
        facts.deployment = Ok(Some(deployment));
        let checks = judged(&facts);
        let expected = "The version of the controller is not known: image mcu-controller@sha256:00";
        assert!(findings(&checks)[1].starts_with(expected), "{checks:?}");
    }
}

#[test]
fn the_version_of_an_image_by_digest_is_the_one_that_the_leader_has_written_on_its_lease() {
    let mut facts = good_installation();
    let mut deployment = deployment(&["--spoke-rbac=aggregate", "--approver-image=a@sha256:00"], 2);
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!("mcu-controller@sha256:00");
    facts.deployment = Ok(Some(deployment));
    let mut written = |version: &str, holder: &str| {
        let lease = facts.lease.as_mut().unwrap().as_mut().unwrap();
        lease["metadata"]["annotations"] = json!({ANNOTATION_LEADER_VERSION: version});
        lease["spec"]["holderIdentity"] = json!(holder);
        findings(&judged(&facts)).join("\n")
    };
    let unknown = "The version of the controller is not known";
    assert!(!written(env!("CARGO_PKG_VERSION"), "a").contains(unknown));
    assert!(written("9.0.0", "a").contains("Versions differ"));
    assert!(written("9.0.0", "").contains(unknown), "nobody leads");
    assert!(written("latest", "a").contains(unknown));
    assert!(written("9.0.0 is installed", "a").contains(unknown));
    assert!(written(&format!("9.0.{}", "0".repeat(64)), "a").contains(unknown));
}

#[test]
fn versions_may_be_one_minor_version_apart() {
    assert_eq!(skew("0.4.0", "0.3.9"), None);
    assert_eq!(skew("0.4.0", "0.5.0-rc.1"), None);
    assert!(skew("0.4.0", "0.6.0").is_some());
    assert!(skew("0.4.0", "1.4.0").is_some());
    assert_eq!(skew("0.4.0", "latest"), None);
    assert_eq!(minor_of("v1.31.2+k3s1"), Some((1, 31)));
    assert_eq!(minor_of("1.30+"), Some((1, 30)));
}

#[test]
fn a_server_that_does_not_serve_a_kind_gets_the_remedy_for_that_and_not_another_user() {
    let mut facts = good_installation();
    let remedy = "install Open Cluster Management, or use the kubeconfig of a hub";
    facts.clusters = Err(Failure::NoResourceType {
        plural: "managedclusters",
        remedy: Some(remedy),
    }
    .into());
    facts.bindings = Err(Failure::NoResourceType {
        plural: "managedclustersetbindings",
        remedy: None,
    }
    .into());
    let checks = judged(&facts);
    let of = |part: &str| checks.iter().find(|check| check.message.contains(part)).unwrap();
    let clusters = of("The ManagedClusters");
    assert_eq!(
        clusters.message,
        "The ManagedClusters cannot be read: the server doesn't have a resource type \"managedclusters\""
    );
    assert_eq!(
        clusters.remedy,
        "Install Open Cluster Management, or use the kubeconfig of a hub."
    );
    assert_eq!(
        of("ManagedClusterSetBindings").remedy,
        "Use the kubeconfig of a hub."
    );
    let checks = judged(&good_installation());
    let policies = checks
        .iter()
        .find(|check| check.message.contains("forbidden"))
        .unwrap();
    assert_eq!(policies.remedy, "Run this as a user who may read it.");
}

#[test]
fn a_command_has_the_account_of_agents_only_if_that_is_a_plain_name() {
    let remedy = |account: &str| {
        let mut facts = good_installation();
        let flag = format!("--agent-service-account={account}");
        facts.deployment = Ok(Some(deployment(&[flag.as_str()], 2)));
        let checks = judged(&facts);
        let found = checks
            .iter()
            .find(|check| check.remedy.starts_with("The hub knows neither"));
        found.unwrap().remedy.clone()
    };
    assert!(remedy("agents/work").ends_with("--as=system:serviceaccount:agents:work"));
    for account in ["agents/$(id)", "a b/c", "agents", "a/b/c", "a/b;id"] {
        assert!(!remedy(account).contains("oc auth"), "{account}");
    }
}
