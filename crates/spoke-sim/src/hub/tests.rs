//! The clusters with a hub that stores what is written, and a clock that the test controls.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::clusters::Clusters;
use super::options::{Filter, Options};
use super::view::{ClusterView, WorkView};
use super::work_state::{Write, WriteKind};
use crate::fault::Fault;
use crate::fields::{self, Time, from_unix};
use crate::platform::Pace;
use crate::work::FINALIZER;

/// Works as the API server keeps them.
struct Bench {
    clusters: Clusters,
    works: BTreeMap<(String, String), Value>,
    revision: u64,
    now: Time,
    writes: Vec<WriteKind>,
}

impl Bench {
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options {
            pace: Pace::exact(Duration::from_secs(10)),
            ..Options::default()
        };
        change(&mut options);
        Self {
            clusters: Clusters::new(options),
            works: BTreeMap::new(),
            revision: 0,
            now: from_unix(1_800_000_000),
            writes: Vec::new(),
        }
    }

    fn cluster(&mut self, name: &str, annotation: Option<&str>) {
        let annotations = annotation.map(|fault| json!({"spoke-sim.mcu/fault": fault}));
        let view = json!({"metadata": {"name": name, "annotations": annotations}});
        let view: ClusterView = serde_json::from_value(view).unwrap();
        self.clusters.observe_cluster(&view, self.now);
    }

    fn create(&mut self, cluster: &str, name: &str, spec: &Value) {
        let uid = format!("uid-{}", self.revision);
        let work = json!({"metadata": {"name": name, "namespace": cluster, "uid": uid, "generation": 1}, "spec": spec});
        self.works.insert((cluster.into(), name.into()), work);
        self.change(cluster, name, |_| {});
    }

    /// Changes a work on the hub and delivers the watch event.
    fn change(&mut self, cluster: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let view = self.store(cluster, name, change);
        self.clusters.observe_work(&view, self.now);
    }

    fn store(&mut self, cluster: &str, name: &str, change: impl FnOnce(&mut Value)) -> WorkView {
        self.revision += 1;
        let work = self.works.get_mut(&(cluster.into(), name.into())).unwrap();
        change(work);
        work["metadata"]["resourceVersion"] = self.revision.to_string().into();
        serde_json::from_str(&work.to_string()).unwrap()
    }

    fn work(&self, cluster: &str, name: &str) -> &Value {
        &self.works[&(cluster.to_owned(), name.to_owned())]
    }

    /// Carries out one write as the API server would.
    fn carry_out(&mut self, write: &Write) {
        let body: Value = serde_json::from_str(write.body.get()).unwrap();
        let key = (write.cluster.to_string(), write.work.to_string());
        let Some(live) = self.works.get(&key) else {
            return self.clusters.written(write, Err(404), self.now);
        };
        assert_eq!(body["metadata"]["uid"], live["metadata"]["uid"]);
        let version = &body["metadata"]["resourceVersion"];
        if !version.is_null() && *version != live["metadata"]["resourceVersion"] {
            return self.clusters.written(write, Err(409), self.now);
        }
        self.writes.push(write.kind);
        let view = self.store(&write.cluster, &write.work, |work| {
            if let Some(status) = body.get("status") {
                work["status"] = status.clone();
            }
            if let Some(finalizers) = fields::get(&body, &["metadata", "finalizers"]) {
                work["metadata"]["finalizers"] = finalizers.clone();
            }
        });
        self.clusters.written(write, Ok(view), self.now);
        if write.kind == WriteKind::Release {
            self.works.remove(&key);
            self.clusters.forget_work(&write.cluster, &write.work, self.now);
        }
    }

    fn drain(&mut self) {
        while let Some(write) = self.clusters.next_write() {
            self.carry_out(&write);
        }
    }

    /// Advances the clock from timer to timer.
    fn pass(&mut self, seconds: i64) {
        let end = self.now + TimeDelta::seconds(seconds);
        self.drain();
        while let Some(next) = self.clusters.next().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.clusters.run_due(self.now);
            self.drain();
        }
        self.now = end;
    }

    fn writes(&mut self) -> Vec<WriteKind> {
        std::mem::take(&mut self.writes)
    }

    fn feedback(&self, cluster: &str, name: &str) -> String {
        let manifest = &self.work(cluster, name)["status"]["resourceStatus"]["manifests"][0];
        let values = fields::list(manifest, &["statusFeedback", "values"]);
        values
            .iter()
            .map(|v| fields::text(v, &["fieldValue", "string"]))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

fn update(version: &str) -> Value {
    json!({
        "deleteOption": {"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [
            {"group": "config.openshift.io", "resource": "clusterversions", "name": "version"}]}},
        "manifestConfigs": [{
            "resourceIdentifier": {"group": "config.openshift.io", "resource": "clusterversions", "name": "version"},
            "updateStrategy": {"type": "ServerSideApply", "serverSideApply": {"force": true}},
            "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [
                {"name": "v", "path": ".status.history[0].version"},
                {"name": "s", "path": ".status.history[0].state"}]}]}],
        "workload": {"manifests": [{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
            "metadata": {"name": "version"}, "spec": {"desiredUpdate": {"version": version}}}]},
    })
}

fn config_map(finalizers: &[&str]) -> Value {
    json!({"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "m", "namespace": "default", "finalizers": finalizers}}]}})
}

use WriteKind::{Hold, Release, Status};

#[test]
fn an_update_costs_a_finalizer_and_three_status_writes() {
    let mut bench = Bench::new(|_| {});
    bench.cluster("c", None);
    bench.create("c", "w", &update("4.12.0"));
    bench.pass(0);
    assert_eq!(bench.work("c", "w")["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(bench.feedback("c", "w"), "4.11.9 Completed");
    bench.pass(5);
    assert_eq!(bench.feedback("c", "w"), "4.12.0 Partial");
    bench.pass(4);
    assert_eq!(bench.feedback("c", "w"), "4.12.0 Partial");
    bench.pass(1);
    assert_eq!(bench.feedback("c", "w"), "4.12.0 Completed");
    assert_eq!(bench.writes(), [Hold, Status, Status, Status]);
    bench.pass(3600);
    assert_eq!(
        bench.writes(),
        [],
        "re-applying changes nothing and writes nothing"
    );
}

#[test]
fn a_status_that_a_late_patch_has_overwritten_is_written_again_once() {
    let mut bench = Bench::new(|_| {});
    bench.create("c", "w", &update("4.12.0"));
    bench.pass(5);
    let partial = bench.work("c", "w")["status"].clone();
    bench.pass(5);
    bench.writes();
    bench.change("c", "w", |work| work["status"] = partial);
    bench.pass(0);
    assert_eq!(bench.feedback("c", "w"), "4.12.0 Completed");
    bench.pass(3600);
    assert_eq!(bench.writes(), [Status]);
}

/// The work is forgotten with its deletion, and comes back when the storage of the hub goes back.
#[test]
fn a_status_that_a_late_patch_has_overwritten_is_written_again_by_an_agent_that_never_wrote_it() {
    let mut bench = Bench::new(|_| {});
    bench.create("c", "w", &update("4.12.0"));
    bench.pass(5);
    let partial = bench.work("c", "w")["status"].clone();
    bench.pass(5);
    bench.clusters.forget_work("c", "w", bench.now);
    bench.change("c", "w", |_| {});
    bench.pass(0);
    bench.change("c", "w", |work| work["status"] = partial);
    bench.pass(0);
    assert_eq!(bench.feedback("c", "w"), "4.12.0 Completed");
}

#[test]
fn a_status_that_is_overwritten_before_the_response_arrives_is_written_again() {
    let mut bench = Bench::new(|_| {});
    bench.create("c", "w", &update("4.12.0"));
    bench.pass(5);
    let partial = bench.work("c", "w")["status"].clone();
    bench.now += TimeDelta::seconds(5);
    bench.clusters.run_due(bench.now);
    let write = bench.clusters.next_write().unwrap();
    let body: Value = serde_json::from_str(write.body.get()).unwrap();
    let response = bench.store("c", "w", |work| work["status"] = body["status"].clone());
    bench.change("c", "w", |work| work["status"] = partial);
    bench.clusters.written(&write, Ok(response), bench.now);
    bench.pass(0);
    assert_eq!(bench.feedback("c", "w"), "4.12.0 Completed");
}

/// The storage of the hub goes back to before the deletion of a work while its agent lets go of it.
#[test]
fn a_status_that_is_overwritten_before_a_refusal_arrives_is_written_again() {
    let mut bench = Bench::new(|_| {});
    bench.create("c", "w", &update("4.12.0"));
    bench.pass(5);
    let partial = bench.work("c", "w").clone();
    bench.pass(5);
    bench.change("c", "w", |work| {
        work["metadata"]["deletionTimestamp"] = json!("2027-01-01T00:00:00Z");
    });
    let release = bench.clusters.next_write().unwrap();
    assert_eq!(release.kind, Release);
    bench.clusters.forget_versions();
    bench.change("c", "w", |work| *work = partial);
    bench.carry_out(&release);
    bench.pass(1);
    assert_eq!(bench.feedback("c", "w"), "4.12.0 Completed");
}

#[test]
fn a_slow_hub_does_not_stretch_the_update() {
    let mut bench = Bench::new(|_| {});
    bench.create("c", "w", &update("4.12.0"));
    let hold = bench.clusters.next_write().unwrap();
    bench.now += TimeDelta::seconds(3);
    bench.carry_out(&hold);
    bench.pass(7);
    assert_eq!(bench.feedback("c", "w"), "4.12.0 Completed");
}

#[test]
fn nothing_is_applied_before_the_finalizer_is_there() {
    let mut bench = Bench::new(|_| {});
    bench.create("c", "w", &config_map(&[]));
    let hold = bench.clusters.next_write().unwrap();
    assert_eq!(hold.kind, Hold);
    assert!(bench.clusters.next_write().is_none(), "one write at a time");
    assert_eq!(bench.clusters.stats.applies, 0);
    bench.carry_out(&hold);
    assert_eq!(bench.clusters.stats.applies, 1);
}

#[test]
fn what_changes_during_a_write_follows_it() {
    let mut bench = Bench::new(|_| {});
    bench.create("c", "w", &update("4.12.0"));
    let hold = bench.clusters.next_write().unwrap();
    bench.carry_out(&hold);
    let first = bench.clusters.next_write().unwrap();
    assert_eq!(first.kind, Status);
    bench.now += TimeDelta::seconds(5);
    bench.clusters.run_due(bench.now);
    assert!(
        bench.clusters.next_write().is_none(),
        "the first is still under way"
    );
    bench.carry_out(&first);
    bench.drain();
    assert_eq!(bench.feedback("c", "w"), "4.12.0 Partial");
    assert_eq!(bench.writes(), [Hold, Status, Status]);
}

#[test]
fn a_conflict_is_tried_again_with_what_the_watch_tells() {
    let mut bench = Bench::new(|_| {});
    bench.create("c", "w", &config_map(&[]));
    let hold = bench.clusters.next_write().unwrap();
    bench.store("c", "w", |work| {
        work["metadata"]["finalizers"] = json!(["other/f"]);
    });
    bench.carry_out(&hold);
    assert_eq!(bench.clusters.stats.conflicts, 1);
    bench.change("c", "w", |_| {});
    bench.pass(1);
    assert_eq!(
        bench.work("c", "w")["metadata"]["finalizers"],
        json!(["other/f", FINALIZER])
    );
}

#[test]
fn news_older_than_the_last_write_is_ignored() {
    let mut bench = Bench::new(|_| {});
    bench.create("c", "w", &config_map(&[]));
    let stale: WorkView = serde_json::from_str(&bench.work("c", "w").to_string()).unwrap();
    bench.pass(0);
    bench.writes();
    bench.clusters.observe_work(&stale, bench.now);
    bench.pass(1);
    assert_eq!(bench.writes(), [], "the finalizer is not added twice");
}

#[test]
fn a_changed_label_applies_again_at_once() {
    let mut bench = Bench::new(|_| {});
    bench.create(
        "c",
        "w",
        &json!({"workload": {"manifests": [
        {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}}]}}),
    );
    bench.pass(30);
    let applies = bench.clusters.stats.applies;
    assert!((5..20).contains(&applies), "backed off: {applies}");
    bench.change("c", "w", |work| work["metadata"]["labels"] = json!({"poke": "1"}));
    assert_eq!(bench.clusters.stats.applies, applies + 1);
}

#[test]
fn a_deleted_work_lets_go_when_its_objects_are_gone() {
    let mut bench = Bench::new(|_| {});
    bench.create("c", "w", &config_map(&["x/y"]));
    bench.pass(0);
    bench.writes();
    bench.change("c", "w", |work| {
        work["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    });
    bench.pass(20);
    assert_eq!(bench.writes(), [Status]);
    assert!(
        bench
            .work("c", "w")
            .to_string()
            .contains("ManifestWork is being deleted")
    );
    let key = crate::store::ObjectKey::parse("configmaps", "default", "m");
    bench
        .clusters
        .cluster_mut("c")
        .unwrap()
        .store
        .amend(&key, |map| map["metadata"]["finalizers"] = json!([]));
    bench.pass(5);
    assert_eq!(bench.writes(), [Release]);
    assert!(bench.works.is_empty());
}

#[test]
fn a_work_created_anew_starts_from_nothing() {
    let mut bench = Bench::new(|_| {});
    bench.create("c", "w", &config_map(&[]));
    bench.pass(0);
    bench.writes();
    bench.works.clear();
    bench.create("c", "w", &config_map(&[]));
    bench.pass(0);
    assert_eq!(bench.writes(), [Hold, Status]);
    assert_eq!(bench.clusters.stats.works, 1);
}

#[test]
fn a_late_answer_does_not_touch_a_work_created_anew() {
    let mut bench = Bench::new(|_| {});
    bench.create("c", "w", &config_map(&[]));
    let hold = bench.clusters.next_write().unwrap();
    let answer = bench.store("c", "w", |work| {
        work["metadata"]["finalizers"] = json!([FINALIZER]);
    });
    bench.works.clear();
    bench.create("c", "w", &config_map(&[]));
    bench.clusters.written(&hold, Ok(answer), bench.now);
    assert_eq!(bench.clusters.stats.works, 1);
    assert_eq!(
        bench.clusters.stats.applies, 0,
        "the new one has no finalizer yet"
    );
    bench.pass(0);
    assert_eq!(bench.writes(), [Hold, Status]);
}

#[test]
fn a_restart_does_not_write_a_status_that_still_holds() {
    let mut bench = Bench::new(|_| {});
    bench.create("c", "w", &config_map(&[]));
    bench.pass(0);
    bench.clusters = Clusters::new(Options::default());
    bench.writes();
    bench.change("c", "w", |_| {});
    bench.pass(1);
    assert_eq!(bench.writes(), []);
    let key = crate::store::ObjectKey::parse("configmaps", "default", "m");
    assert!(bench.clusters.cluster("c").unwrap().store.get(&key).is_some());
}

#[test]
fn works_missing_from_a_full_list_are_cleaned_up() {
    let mut bench = Bench::new(|_| {});
    bench.create("c", "kept", &json!({"workload": {"manifests": []}}));
    bench.create("c", "lost", &config_map(&[]));
    bench.pass(0);
    bench.clusters.retain_works(|_, name| name == "kept", bench.now);
    let key = crate::store::ObjectKey::parse("configmaps", "default", "m");
    assert!(bench.clusters.cluster("c").unwrap().store.get(&key).is_none());
    assert_eq!(bench.clusters.stats.works, 1);
}

#[test]
fn an_offline_agent_writes_nothing_and_catches_up() {
    let mut bench = Bench::new(|o| o.heartbeat = true);
    bench.cluster("c", Some("offline"));
    bench.create("c", "w", &update("4.12.0"));
    bench.pass(60);
    assert_eq!(bench.writes(), []);
    assert_eq!(bench.clusters.next_signal().map(|s| s.1), Some(false));
    bench.cluster("c", None);
    bench.pass(0);
    assert_eq!(bench.clusters.next_signal().map(|s| s.1), Some(true));
    assert_eq!(bench.writes(), [Hold, Status]);
    bench.cluster("c", Some("offline"));
    bench.pass(60);
    assert_eq!(bench.writes(), [], "the cluster goes on, its agent does not tell");
    bench.cluster("c", Some("none"));
    bench.pass(0);
    assert_eq!(bench.feedback("c", "w"), "4.12.0 Completed");
}

#[test]
fn a_flapping_agent_is_away_every_other_period() {
    let mut bench = Bench::new(|_| {});
    bench.cluster("c", Some("flapping=4s"));
    bench.pass(4);
    bench.create("c", "w", &config_map(&[]));
    bench.pass(3);
    assert_eq!(bench.writes(), []);
    bench.pass(1);
    assert_eq!(bench.writes(), [Hold, Status]);
}

#[test]
fn flapping_reads_turn_available_unknown_and_back() {
    let mut bench = Bench::new(|_| {});
    bench.cluster("c", Some("flapping=10s,available"));
    bench.create("c", "w", &config_map(&[]));
    let available = |bench: &Bench| {
        let conditions = fields::list(bench.work("c", "w"), &["status", "conditions"]);
        let found = conditions.iter().find(|c| c["type"] == "Available").unwrap();
        fields::text(found, &["status"]).to_owned()
    };
    bench.pass(1);
    assert_eq!(available(&bench), "True");
    bench.pass(10);
    assert_eq!(available(&bench), "Unknown");
    bench.pass(10);
    assert_eq!(available(&bench), "True");
}

#[test]
fn an_agent_that_stops_flapping_while_it_cannot_read_reports_what_it_missed() {
    let mut bench = Bench::new(|_| {});
    bench.cluster("c", Some("flapping=8s,available"));
    bench.create("c", "w", &update("4.12.0"));
    bench.pass(12);
    assert_eq!(bench.feedback("c", "w"), "4.12.0 Partial");
    bench.cluster("c", Some("none"));
    bench.pass(0);
    assert_eq!(bench.feedback("c", "w"), "4.12.0 Completed");
}

#[test]
fn a_stale_liar_never_reports_the_update() {
    let mut bench = Bench::new(|_| {});
    bench.cluster("c", None);
    bench
        .clusters
        .set_faults("c", "lying".parse().unwrap(), bench.now);
    bench.create("c", "w", &update("4.12.0"));
    bench.pass(100);
    assert_eq!(bench.feedback("c", "w"), "4.11.9 Completed");
    bench
        .clusters
        .set_faults("c", crate::Faults::default(), bench.now);
    bench.pass(0);
    assert_eq!(bench.feedback("c", "w"), "4.12.0 Completed");
}

#[test]
fn polled_feedback_is_late_and_watched_feedback_is_not() {
    let mut bench = Bench::new(|o| o.status_sync_interval = Duration::from_mins(1));
    bench.create("c", "w", &update("4.12.0"));
    bench.pass(0);
    assert_eq!(
        bench.feedback("c", "w"),
        "4.11.9 Completed",
        "the first report is immediate"
    );
    bench.pass(300);
    assert_eq!(bench.feedback("c", "w"), "4.12.0 Completed");
    assert!(bench.writes().len() <= 4);

    let mut bench = Bench::new(|o| o.status_sync_interval = Duration::from_mins(1));
    let mut spec = update("4.12.0");
    spec["manifestConfigs"][0]["feedbackScrapeType"] = "Watch".into();
    bench.create("c", "w", &spec);
    bench.pass(10);
    assert_eq!(bench.feedback("c", "w"), "4.12.0 Completed");
}

#[test]
fn clusters_outside_the_filter_are_left_alone() {
    let mut bench = Bench::new(|o| o.clusters = Filter::new(["a-*"]));
    bench.cluster("b-1", None);
    bench.create("b-1", "w", &config_map(&[]));
    bench.create("a-1", "w", &config_map(&[]));
    bench.pass(0);
    assert_eq!(bench.clusters.names(), ["a-1"]);
    assert_eq!(bench.writes(), [Hold, Status]);
}

#[test]
fn a_cluster_is_installed_with_what_its_claims_say() {
    let mut bench = Bench::new(|_| {});
    let view = json!({"metadata": {"name": "c"}, "status": {"clusterClaims": [
        {"name": "id.openshift.io", "value": "94e170c1-7a3c-4ae1-a85d-8bd904ad783f"},
        {"name": "version.openshift.io", "value": "4.14.3"}]}});
    bench
        .clusters
        .observe_cluster(&serde_json::from_value(view).unwrap(), bench.now);
    let key = crate::platform::cvo::key();
    let version = bench.clusters.cluster("c").unwrap().store.get(&key).unwrap();
    assert_eq!(
        version["spec"]["clusterID"],
        "94e170c1-7a3c-4ae1-a85d-8bd904ad783f"
    );
    assert_eq!(version["spec"]["channel"], "stable-4.14");
    assert_eq!(version["status"]["history"][0]["version"], "4.14.3");
}

#[test]
fn a_cluster_whose_claim_is_no_version_is_installed_with_what_the_scenario_says() {
    let mut bench = Bench::new(|o| o.scenario.version = "4.14.9".to_owned());
    let claims = json!([{"name": "version.openshift.io", "value": "nonsense"}]);
    let view = json!({"metadata": {"name": "c"}, "status": {"clusterClaims": claims}});
    bench
        .clusters
        .observe_cluster(&serde_json::from_value(view).unwrap(), bench.now);
    let key = crate::platform::cvo::key();
    let version = bench.clusters.cluster("c").unwrap().store.get(&key).unwrap();
    assert_eq!(version["status"]["history"][0]["version"], "4.14.9");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed: u64| {
        let mut bench = Bench::new(|o| {
            o.seed = seed;
            o.pace = Pace::scaled(0.01, Duration::from_hours(1));
            o.status_sync_interval = Duration::from_secs(1);
        });
        for n in 0..5 {
            bench.create(&format!("c-{n}"), "w", &update("4.12.0"));
        }
        bench.pass(120);
        (bench.works, bench.writes.len())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}

#[test]
fn faults_given_as_values_and_as_text_are_the_same() {
    assert_eq!(crate::Faults::from(Fault::Offline), "offline".parse().unwrap());
}

mod old_agents;
