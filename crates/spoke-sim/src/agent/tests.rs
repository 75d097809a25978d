#![allow(clippy::needless_pass_by_value)] // `json!` makes values to give away

use std::time::Duration;

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::{Settings, Work, finalize, reconcile};
use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::fields::{self, Time, from_unix};
use crate::platform::Pace;
use crate::platform::cvo::Installation;
use crate::seeded_rng::SeededRng;
use crate::store::ObjectKey;
use crate::work::status::{FieldValue, Status, WorkStatus};
use crate::work::{Interner, WorkSpec};

const ID: &str = "94e170c1-7a3c-4ae1-a85d-8bd904ad783f";

/// A cluster, one work and a clock.
struct Bench {
    cluster: Cluster,
    status: WorkStatus,
    spec: WorkSpec,
    generation: i64,
    pace: Pace,
    now: Time,
}

impl Bench {
    fn new(spec: &Value) -> Self {
        let birth = Installation {
            cluster_id: ID.into(),
            version: "4.11.9".into(),
            channel: "stable-4.11".into(),
            updates: Vec::new(),
        };
        let now = from_unix(1_800_000_000);
        Self {
            cluster: Cluster::new("spoke1", Some(&birth), SeededRng::new(1), now),
            status: WorkStatus::default(),
            spec: parse(spec),
            generation: 1,
            pace: Pace::exact(Duration::from_secs(10)),
            now,
        }
    }

    /// Lets time pass and reconciles.
    fn pass(&mut self, seconds: i64) -> super::Applied {
        self.now += TimeDelta::seconds(seconds);
        self.cluster.advance(&self.pace, self.now);
        let work = Work {
            name: "w",
            generation: self.generation,
            spec: &self.spec,
        };
        let result = reconcile(
            work,
            &mut self.cluster,
            &mut self.status,
            Settings::default(),
            self.now,
        );
        self.cluster.advance(&self.pace, self.now);
        result
    }

    fn edit(&mut self, spec: &Value) {
        self.spec = parse(spec);
        self.generation += 1;
    }

    fn value(&self, name: &str) -> Option<String> {
        let mut values = self
            .status
            .resource_status
            .manifests
            .iter()
            .flat_map(|m| &m.status_feedback.values);
        values
            .find(|value| &*value.name == name)
            .map(|value| match &value.field_value {
                FieldValue::Integer { integer } => integer.to_string(),
                FieldValue::String { string } => string.to_string(),
                FieldValue::Boolean { boolean } => boolean.to_string(),
                FieldValue::JsonRaw { json_raw } => json_raw.to_string(),
            })
    }

    fn manifest(&self, ordinal: usize, condition: &str) -> Option<(Status, String, String)> {
        let conditions = &self.status.resource_status.manifests[ordinal].conditions;
        let found = conditions.iter().find(|c| c.kind == condition)?;
        Some((found.status, found.reason.to_string(), found.message.to_string()))
    }

    fn work(&self, condition: &str) -> Option<(Status, i64)> {
        let found = self.status.conditions.iter().find(|c| c.kind == condition)?;
        Some((found.status, found.observed_generation))
    }

    fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.cluster
            .store
            .get(&ObjectKey::parse(resource, namespace, name))
    }

    fn version(&self) -> Value {
        self.object("clusterversions.config.openshift.io", "", "version")
            .unwrap()
    }
}

fn parse(spec: &Value) -> WorkSpec {
    WorkSpec::parse(&spec.to_string(), &mut Interner::default()).unwrap()
}

fn platform_work(strategy: Value, orphan_resource: &str) -> Value {
    json!({
        "deleteOption": {"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [
            {"group": "config.openshift.io", "resource": orphan_resource, "name": "version", "namespace": ""}]}},
        "manifestConfigs": [{
            "resourceIdentifier":
                {"group": "config.openshift.io", "resource": "clusterversions", "name": "version", "namespace": ""},
            "updateStrategy": strategy,
            "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [
                {"name": "version", "path": ".status.history[0].version"},
                {"name": "state", "path": ".status.history[0].state"},
                {"name": "message", "path": ".status.conditions[?(@.type==\"Progressing\")].message"},
                {"name": "failing", "path": ".status.conditions[?(@.type==\"Failing\")].status"},
                {"name": "invalid", "path": ".status.conditions[?(@.type==\"Invalid\")].status"},
                {"name": "upgradeable", "path": ".status.conditions[?(@.type==\"Upgradeable\")].status"},
                {"name": "releaseAcceptedReason", "path": ".status.conditions[?(@.type==\"ReleaseAccepted\")].reason"},
                {"name": "generation", "path": ".metadata.generation"},
                {"name": "observedGeneration", "path": ".status.observedGeneration"},
            ]}],
        }],
        "workload": {"manifests": [
            {"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
             "spec": {"clusterID": ID, "channel": "stable-4.12",
                      "desiredUpdate": {"force": false, "image": "", "version": "4.12.0"}}},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
             "metadata": {"name": "admin-ocm"},
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}},
        ]},
    })
}

fn server_side() -> Value {
    json!({"type": "ServerSideApply", "serverSideApply": {"force": true, "fieldManager": "work-agent-mcu"}})
}

fn simple(manifests: Value) -> Value {
    json!({"workload": {"manifests": manifests}})
}

fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data})
}

#[test]
fn an_update_shows_in_feedback_from_the_old_version_over_partial_to_completed() {
    let mut bench = Bench::new(&platform_work(server_side(), "clusterversions"));
    bench.pass(0);
    assert_eq!(
        (bench.value("version"), bench.value("state")),
        (Some("4.11.9".into()), Some("Completed".into()))
    );
    assert_eq!(bench.value("generation"), Some("2".into()));
    assert_eq!(bench.value("observedGeneration"), Some("1".into()));
    assert_eq!(bench.work("Applied"), Some((Status::True, 1)));
    assert_eq!(bench.work("Available"), Some((Status::True, 1)));
    bench.pass(5);
    assert_eq!(
        (bench.value("version"), bench.value("state")),
        (Some("4.12.0".into()), Some("Partial".into()))
    );
    assert_eq!(bench.value("observedGeneration"), Some("2".into()));
    assert_eq!(
        bench.value("message"),
        Some("Working towards 4.12.0: 430 of 859 done (50% complete)".into())
    );
    bench.pass(4);
    assert_eq!(bench.value("state"), Some("Partial".into()));
    bench.pass(1);
    assert_eq!(
        (bench.value("version"), bench.value("state")),
        (Some("4.12.0".into()), Some("Completed".into()))
    );
    assert_eq!(bench.value("message"), Some("Cluster version is 4.12.0".into()));
    assert!(
        !bench.pass(60).changed,
        "a settled cluster gives nothing to report"
    );
}

#[test]
fn deleting_the_work_keeps_an_orphaned_cluster_version_and_removes_the_binding() {
    let mut bench = Bench::new(&platform_work(server_side(), "clusterversions"));
    bench.pass(0);
    assert!(bench.version()["metadata"].get("ownerReferences").is_none());
    assert!(
        bench
            .object("clusterrolebindings.rbac.authorization.k8s.io", "", "admin-ocm")
            .is_some()
    );
    assert!(finalize("w", &mut bench.cluster, bench.now));
    assert_eq!(bench.version()["spec"]["desiredUpdate"]["version"], "4.12.0");
    assert!(
        bench
            .object("clusterrolebindings.rbac.authorization.k8s.io", "", "admin-ocm")
            .is_none()
    );
}

#[test]
fn a_rule_with_the_kind_instead_of_the_plural_loses_the_cluster_version() {
    let mut bench = Bench::new(&platform_work(
        server_side(),
        "ClusterVersion.config.openshift.io",
    ));
    bench.pass(0);
    assert_eq!(
        bench.version()["metadata"]["ownerReferences"][0]["kind"],
        "AppliedManifestWork"
    );
    assert!(finalize("w", &mut bench.cluster, bench.now));
    assert!(
        bench
            .object("clusterversions.config.openshift.io", "", "version")
            .is_none()
    );
    // nothing recreates it, and nothing can be read of it
    assert!(bench.cluster.advance(&bench.pace, bench.now).is_none());
}

#[test]
fn the_update_strategy_wipes_fields_the_manifest_leaves_out() {
    let mut bench = Bench::new(&platform_work(json!({"type": "Update"}), "clusterversions"));
    let key = ObjectKey::parse("clusterversions.config.openshift.io", "", "version");
    bench
        .cluster
        .edit(&key, "oc", |object| {
            object["spec"]["upstream"] = "https://graph".into();
        })
        .unwrap();
    bench.pass(0);
    assert_eq!(bench.version()["spec"].get("upstream"), None);
    let mut bench = Bench::new(&platform_work(server_side(), "clusterversions"));
    bench
        .cluster
        .edit(&key, "oc", |object| {
            object["spec"]["upstream"] = "https://graph".into();
        })
        .unwrap();
    bench.pass(0);
    assert_eq!(bench.version()["spec"]["upstream"], "https://graph");
}

#[test]
fn re_applying_undoes_what_a_spoke_admin_cleared() {
    let mut bench = Bench::new(&platform_work(server_side(), "clusterversions"));
    bench.pass(0);
    let key = ObjectKey::parse("clusterversions.config.openshift.io", "", "version");
    let clear = |object: &mut Value| {
        fields::object_at(object, &["spec"]).remove("desiredUpdate");
    };
    bench.cluster.edit(&key, "oc", clear).unwrap();
    bench.cluster.advance(&bench.pace, bench.now);
    assert_eq!(
        fields::condition_status(&bench.version(), "ReleaseAccepted"),
        Some("True"),
        "cancelled"
    );
    bench.pass(1);
    assert_eq!(bench.version()["spec"]["desiredUpdate"]["version"], "4.12.0");
}

#[test]
fn create_only_creates_and_then_leaves_alone() {
    let strategy = json!([{"resourceIdentifier": {"group": "", "resource": "configmaps", "name": "*", "namespace": "*"},
        "updateStrategy": {"type": "CreateOnly"}}]);
    let mut spec = simple(json!([config_map("m", json!({"a": "1"}))]));
    spec["manifestConfigs"] = strategy.clone();
    let mut bench = Bench::new(&spec);
    bench.pass(0);
    let mut spec = simple(json!([config_map("m", json!({"a": "2"}))]));
    spec["manifestConfigs"] = strategy;
    bench.edit(&spec);
    bench.pass(1);
    assert_eq!(
        bench.object("configmaps", "default", "m").unwrap()["data"]["a"],
        "1"
    );
    assert_eq!(bench.work("Applied"), Some((Status::True, 2)));
}

#[test]
fn read_only_reads_feedback_and_never_owns() {
    let mut spec = simple(
        json!([{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "metadata": {"name": "version"}}]),
    );
    spec["manifestConfigs"] = json!([{
        "resourceIdentifier": {"group": "config.openshift.io", "resource": "clusterversions", "name": "version"},
        "updateStrategy": {"type": "ReadOnly"},
        "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "v", "path": ".status.desired.version"}]}]}]);
    let mut bench = Bench::new(&spec);
    bench.pass(0);
    assert_eq!(bench.value("v"), Some("4.11.9".into()));
    assert!(finalize("w", &mut bench.cluster, bench.now));
    assert_eq!(bench.version()["spec"]["channel"], "stable-4.11");
}

#[test]
fn an_apply_conflict_is_reported_and_not_retried() {
    let strategy = json!({"type": "ServerSideApply", "serverSideApply": {"fieldManager": "work-agent"}});
    let mut bench = Bench::new(&platform_work(strategy, "clusterversions"));
    let result = bench.pass(0);
    assert!(!result.retry);
    let (status, reason, message) = bench.manifest(0, "Applied").unwrap();
    assert_eq!(
        (status, reason.as_str()),
        (Status::False, "AppliedManifestFailed")
    );
    assert!(
        message.starts_with("Failed to apply manifest: Apply failed with 1 conflict: "),
        "{message}"
    );
    assert_eq!(bench.work("Applied"), Some((Status::False, 1)));
    assert_eq!(bench.manifest(1, "Applied").unwrap().0, Status::True);
}

#[test]
fn an_unknown_kind_fails_with_the_words_of_the_server() {
    let mut bench = Bench::new(&simple(
        json!([{"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}}]),
    ));
    assert!(bench.pass(0).retry);
    assert_eq!(
        bench.manifest(0, "Applied").unwrap().2,
        "Failed to apply manifest: the server doesn't have a resource type \"Foo\""
    );
    assert_eq!(
        bench.manifest(0, "Available").unwrap().1,
        "IncompleteResourceMeta"
    );
    assert_eq!(bench.work("Available"), Some((Status::Unknown, 1)));
}

#[test]
fn an_applied_definition_makes_its_kind_known() {
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.x.io"}, "spec": {"group": "x.io", "scope": "Cluster",
            "names": {"kind": "Foo", "plural": "foos"}, "versions": [{"name": "v1", "served": true}]}});
    let foo = json!({"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}});
    let mut bench = Bench::new(&simple(json!([crd, foo])));
    assert!(!bench.pass(0).retry);
    assert!(bench.object("foos.x.io", "", "f").is_some());
}

#[test]
fn forbidden_goes_away_with_the_binding_of_the_same_work() {
    let mut bench = Bench::new(&platform_work(server_side(), "clusterversions"));
    bench.cluster.faults = Fault::Forbidden { always: false }.into();
    assert!(bench.pass(0).retry);
    assert_eq!(
        bench.manifest(0, "Applied").unwrap().2,
        "Failed to apply manifest: clusterversions.config.openshift.io \"version\" is forbidden: User \
         \"system:serviceaccount:open-cluster-management-agent:klusterlet-work-sa\" cannot patch resource \
         \"clusterversions\" in API group \"config.openshift.io\" at the cluster scope"
    );
    assert!(!bench.pass(1).retry);
    assert_eq!(bench.work("Applied"), Some((Status::True, 1)));
    bench.cluster.faults = Fault::Forbidden { always: true }.into();
    bench.pass(1);
    assert_eq!(
        bench.manifest(0, "Available").unwrap().1,
        "FetchingResourceFailed"
    );
    assert_eq!(bench.value("version"), Some("4.11.9".into()), "old values stay");
}

#[test]
fn manifests_that_are_no_longer_named_are_deleted() {
    let mut bench = Bench::new(&simple(json!([
        config_map("a", json!({})),
        config_map("b", json!({}))
    ])));
    bench.pass(0);
    bench.edit(&simple(json!([config_map("b", json!({}))])));
    bench.pass(1);
    assert!(bench.object("configmaps", "default", "a").is_none());
    assert!(bench.object("configmaps", "default", "b").is_some());
    assert_eq!(bench.status.resource_status.manifests.len(), 1);
    assert_eq!(bench.status.resource_status.manifests[0].resource_meta.ordinal, 0);
}

#[test]
fn an_object_of_two_works_stays_with_the_other() {
    let mut bench = Bench::new(&simple(json!([config_map("a", json!({}))])));
    bench.pass(0);
    let other = Work {
        name: "other",
        generation: 1,
        spec: &bench.spec,
    };
    reconcile(
        other,
        &mut bench.cluster,
        &mut WorkStatus::default(),
        Settings::default(),
        bench.now,
    );
    assert!(finalize("w", &mut bench.cluster, bench.now));
    assert!(bench.object("configmaps", "default", "a").is_some());
    assert!(finalize("other", &mut bench.cluster, bench.now));
    assert!(bench.object("configmaps", "default", "a").is_none());
}

#[test]
fn a_work_whose_objects_have_finalizers_waits_for_them() {
    let mut map = config_map("a", json!({}));
    map["metadata"]["finalizers"] = json!(["x/y"]);
    let mut bench = Bench::new(&simple(json!([map])));
    bench.pass(0);
    assert!(!finalize("w", &mut bench.cluster, bench.now));
    let key = ObjectKey::parse("configmaps", "default", "a");
    bench
        .cluster
        .store
        .amend(&key, |object| object["metadata"]["finalizers"] = json!([]));
    assert!(finalize("w", &mut bench.cluster, bench.now));
}

#[test]
fn a_namespace_and_its_job_come_and_go_together() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "team"},
        "spec": {"template": {"spec": {"restartPolicy": "Never"}}}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    let mut spec = simple(json!([namespace, job]));
    spec["manifestConfigs"] = json!([{
        "resourceIdentifier": {"group": "batch", "resource": "jobs", "name": "j", "namespace": "team"},
        "feedbackRules": [{"type": "WellKnownStatus"}]}]);
    let mut bench = Bench::new(&spec);
    bench.pass(0);
    assert_eq!(bench.value("JobComplete"), None);
    bench
        .cluster
        .advance(&bench.pace, bench.now + TimeDelta::seconds(10));
    let work = Work {
        name: "w",
        generation: 1,
        spec: &bench.spec,
    };
    super::observe(
        work,
        &bench.cluster,
        &mut bench.status,
        Settings::default(),
        bench.now,
    );
    assert_eq!(bench.value("JobComplete"), Some("True".into()));
    assert_eq!(bench.value("JobSucceeded"), Some("1".into()));
    assert!(finalize("w", &mut bench.cluster, bench.now));
    assert!(bench.object("jobs.batch", "team", "j").is_none());
}

#[test]
fn a_complete_condition_freezes_the_work() {
    let rules = json!([{"resourceIdentifier": {"group": "", "resource": "configmaps", "name": "m", "namespace": "default"},
        "conditionRules": [{"condition": "Complete", "type": "CEL", "celExpressions": ["object.data.done == 'yes'"]}]}]);
    let mut spec = simple(json!([config_map("m", json!({"done": "no"}))]));
    spec["manifestConfigs"] = rules.clone();
    let mut bench = Bench::new(&spec);
    bench.pass(0);
    assert_eq!(bench.work("Complete"), Some((Status::False, 1)));
    let mut done = simple(json!([config_map("m", json!({"done": "yes"}))]));
    done["manifestConfigs"] = rules;
    bench.edit(&done);
    bench.pass(1);
    assert_eq!(bench.work("Complete"), Some((Status::True, 2)));
    bench.edit(&spec);
    bench.pass(1);
    assert_eq!(
        bench.object("configmaps", "default", "m").unwrap()["data"]["done"],
        "yes"
    );
    assert_eq!(
        bench.work("Applied"),
        Some((Status::True, 2)),
        "later generations are not applied"
    );
}

#[test]
fn ignored_fields_are_applied_once_per_manifest() {
    let strategy = json!({"type": "ServerSideApply", "serverSideApply": {"force": true, "ignoreFields": [
        {"condition": "OnSpokeChange", "jsonPaths": [".spec.desiredUpdate"]}]}});
    let mut bench = Bench::new(&platform_work(strategy, "clusterversions"));
    bench.pass(0);
    let key = ObjectKey::parse("clusterversions.config.openshift.io", "", "version");
    bench
        .cluster
        .edit(&key, "oc", |object| {
            object["spec"]["desiredUpdate"]["version"] = "4.11.20".into();
        })
        .unwrap();
    bench.pass(1);
    assert_eq!(
        bench.version()["spec"]["desiredUpdate"]["version"],
        "4.11.20",
        "the spoke's change stays"
    );
}

#[test]
fn labels_and_annotations_are_merged_by_update() {
    let mut map = config_map("m", json!({}));
    map["metadata"]["labels"] = json!({"ours": "1"});
    let mut bench = Bench::new(&simple(json!([map])));
    bench.pass(0);
    let key = ObjectKey::parse("configmaps", "default", "m");
    bench
        .cluster
        .edit(&key, "oc", |object| {
            object["metadata"]["labels"]["theirs"] = "2".into();
        })
        .unwrap();
    bench.pass(1);
    let labels = bench.object("configmaps", "default", "m").unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels, json!({"ours": "1", "theirs": "2"}));
}
