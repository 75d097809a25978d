//! The agents against a real hub API server.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use spoke_sim::scenario::Selector;
use spoke_sim::{Agents, Builder, Scenario};
use testenv::{FleetSpec, Hub};

const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

struct World {
    hub: Hub,
}

impl World {
    async fn new(clusters: usize) -> Self {
        let hub = Hub::builder().ocm_crds().start().await.unwrap();
        let names: Vec<String> = (1..=clusters).map(|n| format!("spoke-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        testenv::fleet::create(hub.client(), &FleetSpec::named(&names))
            .await
            .unwrap();
        Self { hub }
    }

    fn client(&self) -> Client {
        self.hub.client().clone()
    }

    async fn agents(&self, set: impl FnOnce(Builder) -> Builder) -> Agents {
        let agents = set(Agents::builder(self.client()).agent_seconds(1.0))
            .start()
            .await
            .unwrap();
        tokio::time::timeout(WAIT_TIMEOUT, agents.ready()).await.unwrap();
        agents
    }

    fn works(&self, cluster: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client(), cluster, &works())
    }

    async fn create(&self, cluster: &str, name: &str, spec: Value) {
        create(&self.works(cluster), cluster, name, spec).await;
    }

    /// Waits until the work's values by name satisfy a condition; returns the work.
    async fn until(
        &self,
        cluster: &str,
        name: &str,
        what: &str,
        holds: impl Fn(&DynamicObject) -> bool,
    ) -> DynamicObject {
        let api = self.works(cluster);
        let mut last = None;
        let wait = async {
            loop {
                last = api.get_opt(name).await.unwrap();
                if let Some(work) = last.as_ref().filter(|work| holds(work)) {
                    return work.clone();
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let found = tokio::time::timeout(WAIT_TIMEOUT, wait).await;
        found.unwrap_or_else(|_| panic!("{cluster}/{name} never: {what}; it is {last:#?}"))
    }

    async fn annotate(&self, cluster: &str, fault: Option<&str>) {
        let kind = GroupVersionKind::gvk("cluster.open-cluster-management.io", "v1", "ManagedCluster");
        let api: Api<DynamicObject> = Api::all_with(self.client(), &ApiResource::from_gvk(&kind));
        let patch = json!({"metadata": {"annotations": {"spoke-sim.mcu/fault": fault}}});
        api.patch(cluster, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }
}

fn works() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(
        "work.open-cluster-management.io",
        "v1",
        "ManifestWork",
    ))
}

async fn create(api: &Api<DynamicObject>, cluster: &str, name: &str, spec: Value) {
    let mut work = DynamicObject::new(name, &works()).within(cluster);
    work.data = json!({"spec": spec});
    api.create(&PostParams::default(), &work).await.unwrap();
}

fn values(work: &DynamicObject) -> BTreeMap<String, Value> {
    let manifests = work.data["status"]["resourceStatus"]["manifests"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let values = manifests.iter().flat_map(|m| {
        m["statusFeedback"]["values"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    });
    values
        .filter_map(|value| {
            let field = value["fieldValue"].as_object()?;
            let typed = field.iter().find(|(key, _)| *key != "type")?.1.clone();
            Some((value["name"].as_str()?.to_owned(), typed))
        })
        .collect()
}

fn is(work: &DynamicObject, version: &str, state: &str) -> bool {
    let values = values(work);
    values.get("version") == Some(&version.into()) && values.get("state") == Some(&state.into())
}

fn condition<'a>(work: &'a DynamicObject, kind: &str) -> &'a Value {
    let conditions = work.data["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .find(|c| c["type"] == kind)
        .unwrap_or(&Value::Null)
}

fn platform_work(version: &str) -> Value {
    json!({
        "deleteOption": {"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [
            {"group": "config.openshift.io", "resource": "clusterversions", "name": "version", "namespace": ""}]}},
        "manifestConfigs": [{
            "resourceIdentifier":
                {"group": "config.openshift.io", "resource": "clusterversions", "name": "version", "namespace": ""},
            "updateStrategy":
                {"type": "ServerSideApply", "serverSideApply": {"force": true, "fieldManager": "work-agent-mcu"}},
            "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [
                {"name": "version", "path": ".status.history[0].version"},
                {"name": "state", "path": ".status.history[0].state"},
                {"name": "failing", "path": ".status.conditions[?(@.type==\"Failing\")].status"},
                {"name": "failingMessage", "path": ".status.conditions[?(@.type==\"Failing\")].message"},
                {"name": "accepted", "path": ".status.conditions[?(@.type==\"ReleaseAccepted\")].reason"},
                {"name": "generation", "path": ".metadata.generation"},
            ]}],
        }],
        "workload": {"manifests": [
            {"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
             "spec": {"channel": "stable-4.12",
                      "desiredUpdate": {"force": false, "image": "", "version": version}}},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
             "metadata": {"name": "admin-ocm"},
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}},
        ]},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_work_is_taken_up_reported_on_and_let_go() {
    let world = World::new(2).await;
    let cluster = "spoke-1";
    let agents = world.agents(|b| b.clusters([cluster])).await;
    assert_eq!(agents.clusters(), [cluster]);
    world.create(cluster, "up", platform_work("4.12.0")).await;
    world.create("spoke-2", "up", platform_work("4.12.0")).await;
    let work = world
        .until(cluster, "up", "shows Partial", |work| {
            is(work, "4.12.0", "Partial")
        })
        .await;
    assert_eq!(
        work.finalizers(),
        ["cluster.open-cluster-management.io/manifest-work-cleanup"]
    );
    assert_eq!(condition(&work, "Applied")["status"], "True");
    assert_eq!(condition(&work, "Applied")["observedGeneration"], 1);
    assert_eq!(condition(&work, "Available")["status"], "True");
    let work = world
        .until(cluster, "up", "shows Completed", |work| {
            is(work, "4.12.0", "Completed")
        })
        .await;
    let manifests = work.data["status"]["resourceStatus"]["manifests"]
        .as_array()
        .unwrap();
    assert_eq!(manifests[0]["resourceMeta"]["resource"], "clusterversions");
    assert_eq!(manifests[1]["resourceMeta"]["kind"], "ClusterRoleBinding");

    world
        .works(cluster)
        .delete("up", &DeleteParams::default())
        .await
        .unwrap();
    let gone = async {
        while world.works(cluster).get_opt("up").await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, gone)
        .await
        .expect("the finalizer goes");
    assert_eq!(
        agents.cluster_version(cluster).unwrap()["spec"]["desiredUpdate"]["version"],
        "4.12.0"
    );
    assert!(
        agents
            .object(
                cluster,
                "clusterrolebindings.rbac.authorization.k8s.io",
                "",
                "admin-ocm"
            )
            .is_none()
    );
    let untouched = world.works("spoke-2").get("up").await.unwrap();
    assert!(untouched.finalizers().is_empty() && untouched.data.get("status").is_none());
    let stats = agents.stats();
    assert_eq!(
        (stats.holds, stats.releases, stats.conflicts, stats.failures),
        (1, 1, 0, 0),
        "{stats:?}"
    );
    assert!(
        stats.statuses <= 4,
        "applied and old, loading, Partial, Completed: {stats:?}"
    );
    agents.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_spec_is_applied_and_observed_with_its_generation() {
    let world = World::new(1).await;
    let agents = world.agents(|b| b).await;
    let cluster = &agents.clusters()[0];
    world.create(cluster, "up", platform_work("4.12.0")).await;
    world
        .until(cluster, "up", "shows Completed", |work| {
            is(work, "4.12.0", "Completed")
        })
        .await;
    let patch = json!({"spec": platform_work("4.12.5")});
    world
        .works(cluster)
        .patch("up", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    let work = world
        .until(cluster, "up", "shows the next", |work| {
            is(work, "4.12.5", "Completed")
        })
        .await;
    assert_eq!(
        condition(&work, "Applied")["observedGeneration"],
        work.metadata.generation.unwrap()
    );
    agents.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_set_by_annotation_bites_and_its_removal_fixes_the_cluster() {
    let world = World::new(2).await;
    let scenario = Scenario::default().with(Selector::index(&[1]), spoke_sim::Fault::Offline);
    let agents = world.agents(|b| b.scenario(scenario)).await;
    let [broken, offline] = &agents.clusters()[..] else {
        panic!("two clusters")
    };
    world
        .annotate(broken, Some("failing=Cluster operator etcd is not available"))
        .await;
    world.until_fault(&agents, broken, true).await;
    world.create(broken, "up", platform_work("4.12.0")).await;
    world.create(offline, "up", platform_work("4.12.0")).await;
    let work = world
        .until(broken, "up", "fails", |work| {
            values(work).get("failing") == Some(&"True".into())
        })
        .await;
    assert_eq!(
        values(&work)["failingMessage"],
        "Cluster operator etcd is not available"
    );
    assert!(is(&work, "4.12.0", "Partial"));
    world.annotate(broken, None).await;
    world
        .until(broken, "up", "completes", |work| is(work, "4.12.0", "Completed"))
        .await;
    let silent = world.works(offline).get("up").await.unwrap();
    assert!(silent.finalizers().is_empty() && silent.data.get("status").is_none());
    assert!(agents.clear_fault(offline));
    world
        .until(offline, "up", "completes", |work| is(work, "4.12.0", "Completed"))
        .await;
    agents.stop().await;
}

impl World {
    async fn until_fault(&self, agents: &Agents, cluster: &str, faulty: bool) {
        let wait = async {
            while agents
                .faults(cluster)
                .is_none_or(|faults| faults.is_empty() == faulty)
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, wait)
            .await
            .expect("the annotation is seen");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_a_spoke_admin_shows_and_silent_agents_do_nothing() {
    let world = World::new(1).await;
    let silent = world.agents(|b| b.agent_seconds(0.0)).await;
    let cluster = "spoke-1";
    world.create(cluster, "look", json!({
        "manifestConfigs": [{
            "resourceIdentifier": {"group": "config.openshift.io", "resource": "clusterversions", "name": "version"},
            "updateStrategy": {"type": "ReadOnly"},
            "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [
                {"name": "version", "path": ".status.history[0].version"},
                {"name": "state", "path": ".status.history[0].state"}]}]}],
        "workload": {"manifests": [{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
            "metadata": {"name": "version"}}]},
    })).await;
    silent.stop().await;
    assert!(
        world
            .works(cluster)
            .get("look")
            .await
            .unwrap()
            .finalizers()
            .is_empty()
    );
    let agents = world.agents(|b| b).await;
    world
        .until(cluster, "look", "is read", |work| is(work, "4.11.9", "Completed"))
        .await;
    let version = ("clusterversions.config.openshift.io", "", "version");
    agents
        .edit_object(cluster, version, "oc", |object| {
            object["spec"]["desiredUpdate"] = json!({"version": "4.11.20"});
        })
        .unwrap();
    world
        .until(cluster, "look", "shows it", |work| {
            is(work, "4.11.20", "Completed")
        })
        .await;
    agents.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hub_sees_an_agent_go_and_come_back() {
    let world = World::new(1).await;
    let agents = world.agents(|b| b.heartbeat(true)).await;
    let available = async |status: &str| {
        let kind = GroupVersionKind::gvk("cluster.open-cluster-management.io", "v1", "ManagedCluster");
        let api: Api<DynamicObject> = Api::all_with(world.client(), &ApiResource::from_gvk(&kind));
        let wait = async {
            loop {
                let cluster = api.get("spoke-1").await.unwrap();
                if condition(&cluster, "ManagedClusterConditionAvailable")["status"] == status {
                    return cluster;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, wait)
            .await
            .expect("availability is shown")
    };
    assert!(agents.set_fault("spoke-1", spoke_sim::Fault::Offline));
    let cluster = available("Unknown").await;
    assert!(
        condition(&cluster, "HubAcceptedManagedCluster").is_object(),
        "other conditions stay"
    );
    assert!(agents.clear_fault("spoke-1"));
    available("True").await;
    agents.stop().await;
}
