//! The shipped manifests with a running controller: what an editor of PlacementDecisions forges starts nothing, and a
//! reader writes nothing.

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::ControllerProcess;
use kube::Client;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use serde_json::{Value, json};
use testenv::hub::wait_until;
use testenv::placement::{PLACEMENT_LABEL, PlacementSpec};
use testenv::{ClusterSpec, FleetSpec, fleet, placement};

use crate::actors::manifest_works;
use crate::installed::{WAIT_TIMEOUT, any, installed, spec_with, upgrade, upgrades};

const CLUSTER: &str = "cluster.open-cluster-management.io";
/// Long enough for the controller to start a cluster that it takes for selected.
const START: Duration = Duration::from_secs(5);

/// A namespace with a bound set, a Placement in it, an upgrade by that Placement, and a controller for it alone.
struct TestBed {
    admin: Client,
    namespace: &'static str,
    /// Of the bound set.
    inside: String,
    /// Of another set.
    outside: String,
    controller: ControllerProcess,
}

impl TestBed {
    /// `rules` are the rights of `user` in the namespace, in addition to the cluster role `role`.
    async fn prepare(namespace: &'static str, user: &str, rules: &Value, role: &str) -> Result<Self> {
        let installed = installed().await?;
        let admin = installed.admin().await?;
        let (inside, outside) = (format!("{namespace}-inside"), format!("{namespace}-outside"));
        let objects = [json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})]
            .into_iter()
            .chain(grants(namespace, user, rules, role))
            .collect::<Vec<_>>();
        testenv::apply::apply_objects(&admin, &objects).await?;
        let clusters = vec![
            ClusterSpec::new(&inside).in_set(&inside),
            ClusterSpec::new(&outside).in_set(&outside),
        ];
        let bindings = vec![(namespace.to_owned(), inside.clone())];
        fleet::create(&admin, &FleetSpec { clusters, bindings }).await?;
        placement::write(&admin, namespace, "p", &PlacementSpec::default()).await?;
        let spec = spec_with(json!({"placement": [{"name": "p"}]}));
        upgrades(&admin, namespace)
            .create(&PostParams::default(), &upgrade("u", &spec))
            .await?;
        let watched = format!("--watch-namespace={namespace}");
        let controller = ControllerProcess::start(
            installed.hub.dir(),
            namespace,
            &installed.controller,
            &["--leader-elect=false", &watched],
        )
        .await?;
        controller.ready().await?;
        Ok(Self {
            admin,
            namespace,
            inside,
            outside,
            controller,
        })
    }

    /// UID of the Placement.
    async fn placement(&self) -> Result<String> {
        let api = any(
            &self.admin,
            "cluster.open-cluster-management.io/v1beta1",
            "Placement",
            Some(self.namespace),
        );
        api.get("p").await?.metadata.uid.context("a UID")
    }

    /// Waits until the controller says this of the selection.
    async fn told(&self, phrase: &str) -> Result<()> {
        let api = upgrades(&self.admin, self.namespace);
        wait_until(phrase, WAIT_TIMEOUT, || async {
            let upgrade = api.get("u").await?;
            let conditions = upgrade.data["status"]["conditions"].as_array().cloned();
            let mut selected = conditions
                .into_iter()
                .flatten()
                .filter(|one| one["type"] == "Selected");
            Ok(selected.any(|one| one["message"].as_str().is_some_and(|text| text.contains(phrase))))
        })
        .await
    }

    /// Names of the works of both clusters.
    async fn works(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for cluster in [&self.inside, &self.outside] {
            let works = manifest_works(&self.admin, cluster)
                .list(&ListParams::default())
                .await?;
            names.extend(works.items.into_iter().filter_map(|work| work.metadata.name));
        }
        Ok(names)
    }

    async fn nothing_starts(&self) -> Result<()> {
        tokio::time::sleep(START).await;
        assert_eq!(self.works().await?, [""; 0]);
        Ok(())
    }

    /// The work of the cluster that may be selected appears, and no other.
    async fn starts(&self) -> Result<()> {
        let expected = [format!("{}-cluster-upgrade", self.inside)];
        wait_until("the cluster starts", WAIT_TIMEOUT, || async {
            Ok(self.works().await? == expected)
        })
        .await
    }
}

fn grants(namespace: &str, user: &str, rules: &Value, role: &str) -> [Value; 3] {
    let binding = |name: &str, kind: &str, role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        })
    };
    [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "own", "namespace": namespace}, "rules": rules,
        }),
        binding("own", "Role", "own"),
        binding("shipped", "ClusterRole", role),
    ]
}

/// Writes a decision on a cluster, as this user.
async fn decide(client: &Client, namespace: &str, name: &str, metadata: Value, cluster: &str) -> Result<()> {
    let api = any(
        client,
        "cluster.open-cluster-management.io/v1beta1",
        "PlacementDecision",
        Some(namespace),
    );
    let mut decision: DynamicObject = serde_json::from_value(json!({
        "apiVersion": format!("{CLUSTER}/v1beta1"), "kind": "PlacementDecision", "metadata": metadata,
    }))?;
    decision.metadata.name = Some(name.to_owned());
    api.create(&PostParams::default(), &decision).await?;
    let status = json!({"status": {"decisions": [{"clusterName": cluster, "reason": ""}]}});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}

fn owned_by(kind: &str, name: &str, uid: &str) -> Value {
    json!([{"apiVersion": format!("{CLUSTER}/v1beta1"), "kind": kind, "name": name, "uid": uid}])
}

/// Everything that somebody could write to have a cluster upgraded: path of the collection, name in it.
fn writable(bed: &TestBed) -> Vec<(String, String)> {
    let (namespace, cluster) = (bed.namespace, &bed.inside);
    let of = |group: &str, namespace: &str, plural: &str, name: &str| {
        let path = if namespace.is_empty() {
            format!("/apis/{group}/{plural}")
        } else {
            format!("/apis/{group}/namespaces/{namespace}/{plural}")
        };
        (path, name.to_owned())
    };
    let (beta, sets) = (format!("{CLUSTER}/v1beta1"), format!("{CLUSTER}/v1beta2"));
    let (admission, rbac) = ("admissionregistration.k8s.io/v1", "rbac.authorization.k8s.io/v1");
    let policy = "managedclustersupgrade-works";
    vec![
        of(&beta, namespace, "managedclustersupgrades", "u"),
        of(&beta, namespace, "managedclustersupgradereports", "u-report-1"),
        of(&beta, namespace, "placements", "p"),
        of(&beta, namespace, "placementdecisions", "good"),
        of(&sets, namespace, "managedclustersetbindings", cluster),
        of(&sets, "", "managedclustersets", cluster),
        of(&format!("{CLUSTER}/v1"), "", "managedclusters", cluster),
        of(
            "work.open-cluster-management.io/v1",
            cluster,
            "manifestworks",
            &format!("{cluster}-cluster-upgrade"),
        ),
        of(admission, "", "validatingadmissionpolicies", policy),
        of(admission, "", "validatingadmissionpolicybindings", policy),
        of(rbac, "", "clusterrolebindings", "mcu-controller"),
        of(rbac, namespace, "rolebindings", "shipped"),
        of(rbac, namespace, "roles", "own"),
        of("coordination.k8s.io/v1", "mcu-system", "leases", "mcu-controller"),
        of("apps/v1", "mcu-system", "deployments", "mcu-controller"),
    ]
}

/// Tries to create, replace, change and delete it, and to write its status; returns what was not refused for lack of a right.
async fn tried(client: &Client, (path, name): &(String, String)) -> Result<Vec<String>> {
    let object = format!("{path}/{name}");
    let mut passed = Vec::new();
    for (method, path) in [
        ("POST", path),
        ("DELETE", path),
        ("PUT", &object),
        ("PATCH", &object),
        ("PATCH", &format!("{object}/status")),
        ("PUT", &format!("{object}/status")),
        ("DELETE", &object),
    ] {
        let kind = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(Body::from(b"{}".to_vec()))?;
        let code = client.send(request).await?.status();
        if code != http::StatusCode::FORBIDDEN {
            passed.push(format!("{method} {path}: {code}"));
        }
    }
    Ok(passed)
}

#[tokio::test]
async fn nothing_starts_by_a_forged_decision_beside_a_running_controller() -> Result<()> {
    let rules = json!([{"apiGroups": [CLUSTER], "resources": ["placementdecisions", "placementdecisions/status"],
        "verbs": ["*"]}]);
    let bed = TestBed::prepare("forged", "dora", &rules, "view").await?;
    let hub = &installed().await?.hub;
    let dora = hub.client_as("dora", &["system:authenticated"]).await?;
    let uid = bed.placement().await?;
    let label = json!({PLACEMENT_LABEL: "p"});
    let (namespace, inside, outside) = (bed.namespace, &bed.inside, &bed.outside);
    bed.told("Placement forged/p selects no cluster").await?;

    // The label alone, and owners that are not this Placement.
    let own = upgrades(&bed.admin, namespace).get("u").await?;
    let other = owned_by(
        "ManagedClustersUpgrade",
        "u",
        &own.metadata.uid.unwrap_or_default(),
    );
    decide(&dora, namespace, "label", json!({"labels": label}), inside).await?;
    decide(
        &dora,
        namespace,
        "other",
        json!({"labels": label, "ownerReferences": other}),
        inside,
    )
    .await?;
    bed.told("ignores PlacementDecisions of Placement forged/p (2), because they have no ownerReference")
        .await?;
    // The owner without the label: the controller does not see it.
    let owned = owned_by("Placement", "p", &uid);
    decide(
        &dora,
        namespace,
        "unlabelled",
        json!({"ownerReferences": owned}),
        inside,
    )
    .await?;
    // As OCM writes it, on a cluster of a set that is not bound here.
    let as_ocm = json!({"labels": label, "ownerReferences": owned});
    decide(&dora, namespace, "outside", as_ocm.clone(), outside).await?;
    bed.told("ignores clusters that Placement forged/p selects (1, such as forged-outside)")
        .await?;
    bed.nothing_starts().await?;

    // What the editor may do otherwise: nothing.
    let others = writable(&bed);
    let mut passed = Vec::new();
    for object in others
        .iter()
        .filter(|(path, _)| !path.ends_with("/placementdecisions"))
    {
        passed.extend(tried(&dora, object).await?);
    }
    assert!(passed.is_empty(), "{passed:#?}");

    // The controller does work: the same decision on a cluster within the sets starts that one.
    decide(&dora, namespace, "good", as_ocm, inside).await?;
    bed.starts().await
}

#[tokio::test]
async fn a_reader_writes_nothing_beside_a_running_controller() -> Result<()> {
    let bed = TestBed::prepare("read", "rita", &json!([]), "view").await?;
    let as_ocm = json!({"labels": {PLACEMENT_LABEL: "p"},
        "ownerReferences": owned_by("Placement", "p", &bed.placement().await?)});
    decide(&bed.admin, bed.namespace, "good", as_ocm, &bed.inside).await?;
    bed.starts().await?;

    let hub = &installed().await?.hub;
    let rita = hub.client_as("rita", &["system:authenticated"]).await?;
    let read = upgrades(&rita, bed.namespace);
    wait_until("the viewer's role is aggregated", WAIT_TIMEOUT, || async {
        Ok(read.get("u").await.is_ok())
    })
    .await?;
    let mut passed = Vec::new();
    for object in writable(&bed) {
        passed.extend(tried(&rita, &object).await?);
    }
    assert!(passed.is_empty(), "{passed:#?}");
    tokio::time::sleep(START).await;
    bed.starts().await?;
    assert_eq!(read.get("u").await?.data["spec"]["paused"], Value::Null);
    Ok(())
}

#[tokio::test]
async fn a_running_controller_finds_the_shipped_policies_enforced_for_its_account() -> Result<()> {
    let bed = TestBed::prepare("enforced", "nobody", &json!([]), "view").await?;
    wait_until("the policies are read", WAIT_TIMEOUT, || async {
        Ok(bed
            .controller
            .get("/readyz?verbose")
            .await?
            .1
            .contains("policies"))
    })
    .await?;
    let (_, text) = bed.controller.get("/readyz?verbose").await?;
    assert!(text.contains("[+]policies ok"), "{text}");
    Ok(())
}
