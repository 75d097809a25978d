//! What an attacker can do who has taken over an agent or a namespace.

use anyhow::Result;
use api::names::{
    ANNOTATION_OWNER, ANNOTATION_REVISION, ANNOTATION_SOAK_STARTED_AT, ANNOTATION_STARTED_AT,
    ANNOTATION_STEP_HASH, ANNOTATION_TARGET_VERSION, LABEL_MCU, LABEL_MCU_UID, LABEL_STEP, Step,
};
use serde_json::{Value, json};

use super::{People, Undo};
use crate::admin::{decisions_of, is_conflict, managed_cluster, reports_of, upgrades_of, works_of};
use crate::fault::Fault;
use crate::names::{OUTSIDER, STRANGERS, TEAM, UPGRADE};
use crate::world::{claims, decision, deep_upgrade, fleet, id};

/// What keeps a work from going.
const HOLD: &str = "example.com/hold";

/// A work that does nothing.
fn empty_work(name: &str, cluster: &str) -> Value {
    json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": name, "namespace": cluster}, "spec": {"workload": {"manifests": []}},
    })
}

/// A work of the upgrade with this UID for a cluster that is not selected.
fn forged_work(uid: &str) -> Value {
    let mut work = empty_work(&Step::Platform.work_name(OUTSIDER), OUTSIDER);
    work["metadata"]["labels"] = json!({LABEL_MCU_UID: uid, LABEL_STEP: Step::Platform.as_str()});
    work["metadata"]["annotations"] = json!({
        ANNOTATION_OWNER: format!("{TEAM}/{UPGRADE}"), ANNOTATION_REVISION: "0123456789abcdef",
        ANNOTATION_STEP_HASH: "0123456789abcdef", ANNOTATION_STARTED_AT: "2026-01-01T00:00:00.000Z",
    });
    work
}

/// A version that is older than what any cluster runs.
const OLDEST: &str = "4.14.1";

impl People {
    /// The platform work of the first cluster that has one, copied for a cluster that is not selected.
    fn copied_work(&self) -> Option<Value> {
        let find = |cluster: &String| {
            let key = format!("{cluster}/{}", Step::Platform.work_name(cluster));
            let work = self.object("work.open-cluster-management.io", "manifestworks", &key)?;
            Some((cluster.clone(), work))
        };
        let (cluster, work) = fleet(&self.options).iter().find_map(find)?;
        let text = work.text().replace(&cluster, OUTSIDER);
        let mut copy: Value = serde_json::from_str(&text).ok()?;
        let meta = copy.get_mut("metadata")?.as_object_mut()?;
        meta.retain(|field, _| matches!(field.as_str(), "name" | "namespace" | "labels" | "annotations"));
        copy.as_object_mut()?.remove("status");
        Some(copy)
    }

    /// Annotations and labels that the agent of a cluster may write.
    pub(super) async fn tamper(&mut self, cluster: &str, second: u64) -> Result<()> {
        let Some(path) = self.some_work("tamper", cluster, second) else {
            return Ok(());
        };
        let metadata = match self.number("tamper with", cluster, second, 0, 6) {
            0 => json!({"annotations": {ANNOTATION_REVISION: "f".repeat(300)}}),
            1 => json!({"annotations": {ANNOTATION_STARTED_AT: "2099-01-01T00:00:00.000Z"}}),
            2 => json!({"annotations": {ANNOTATION_SOAK_STARTED_AT: "2025-01-01T00:00:00.000Z"}}),
            3 => json!({"annotations": {ANNOTATION_STEP_HASH: "x"}}),
            4 => json!({"annotations": {ANNOTATION_OWNER: "strangers/other"}}),
            5 => json!({"labels": {LABEL_MCU_UID: null}}),
            _ => {
                json!({"annotations": {ANNOTATION_STARTED_AT: null, ANNOTATION_REVISION: "0123456789abcdef"}})
            }
        };
        self.admin
            .patch_if_there(&path, &json!({"metadata": metadata}))
            .await?;
        self.tampered.insert(path);
        Ok(())
    }

    /// A status that makes no sense.
    pub(super) async fn nonsense(&mut self, cluster: &str, second: u64) -> Result<()> {
        let Some(path) = self.some_work("nonsense", cluster, second) else {
            return Ok(());
        };
        let values = json!([{"name": "state", "fieldValue": {"type": "Integer", "integer": -1}}]);
        let meta = json!({
            "group": "config.openshift.io", "version": "v1", "kind": "ClusterVersion", "resource": "clusterversions",
            "name": "version", "namespace": "", "ordinal": 0,
        });
        let manifests =
            json!([{"resourceMeta": meta, "statusFeedback": {"values": values}, "conditions": []}]);
        let change = json!({"status": {"resourceStatus": {"manifests": manifests}}});
        self.admin
            .patch_if_there(&format!("{path}/status"), &change)
            .await?;
        self.tampered.insert(path);
        Ok(())
    }

    /// The agent of a cluster reports the end of its update, whatever the cluster does.
    pub(super) async fn report_end(&self, cluster: &str) -> Result<()> {
        let name = Step::Platform.work_name(cluster);
        let group = "work.open-cluster-management.io";
        let Some(work) = self.object(group, "manifestworks", &format!("{cluster}/{name}")) else {
            return Ok(());
        };
        let work = work.value();
        let notes = work.pointer("/metadata/annotations");
        let target = notes
            .and_then(|notes| notes.get(ANNOTATION_TARGET_VERSION))
            .cloned();
        let mut manifests = work.pointer("/status/resourceStatus/manifests").cloned();
        let lists = manifests.as_mut().and_then(Value::as_array_mut);
        let values = lists
            .into_iter()
            .flatten()
            .filter_map(|manifest| manifest.pointer_mut("/statusFeedback/values")?.as_array_mut());
        for value in values.flatten() {
            match value.get("name").and_then(Value::as_str) {
                Some("state") => value["fieldValue"]["string"] = "Completed".into(),
                Some("version") => value["fieldValue"]["string"] = target.clone().unwrap_or_default(),
                _ => {}
            }
        }
        // It has reported nothing yet.
        let Some(manifests) = manifests else { return Ok(()) };
        let change = json!({"status": {"resourceStatus": {"manifests": manifests}}});
        self.admin
            .patch_if_there(&format!("{}/{name}/status", works_of(cluster)), &change)
            .await
    }

    /// A cluster claims another version than it runs.
    pub(super) async fn claim_falsely(&mut self, cluster: &str, second: u64) -> Result<()> {
        let version = self
            .network
            .choice("false claim", cluster, second)
            .pick(&[OLDEST, "4.14.12", "4.14.15", "nonsense"]);
        if version == Some(OLDEST) {
            self.liars.insert(cluster.to_owned());
        }
        let number = cluster.trim_start_matches('c').parse().unwrap_or_default();
        let claims = claims(&id(number), version.unwrap_or_default());
        let path = format!("{}/status", managed_cluster(cluster));
        self.admin
            .patch_if_there(&path, &json!({"status": {"clusterClaims": claims}}))
            .await?;
        let end = second + self.number("false claim", cluster, second, 5, 200);
        self.later(end, Undo::Claim);
        Ok(())
    }

    /// Whether the agent of a cluster has claimed an older version than the cluster runs.
    #[must_use]
    pub fn has_lied(&self, cluster: &str) -> bool {
        self.liars.contains(cluster)
    }

    /// The agent of a cluster keeps one of its works from going.
    pub(super) async fn hold_work(&mut self, cluster: &str, second: u64) -> Result<()> {
        let Some(path) = self.some_work("hold", cluster, second) else {
            return Ok(());
        };
        let hold = |finalizers: &mut Vec<String>| {
            finalizers.retain(|one| one != HOLD);
            finalizers.push(HOLD.to_owned());
        };
        // It may be on its way out by now.
        if self.set_finalizers(&path, hold).await.is_err() {
            return Ok(());
        }
        let end = second + self.number("hold", cluster, second, 10, 200);
        self.later(end, Undo::LetGo(path));
        Ok(())
    }

    pub(super) async fn let_go(&self, path: &str) -> Result<()> {
        self.set_finalizers(path, |finalizers| finalizers.retain(|one| one != HOLD))
            .await
    }

    /// Lets all works go that agents still keep from going when faults have ended. Returns whether there were any. After the storage
    /// of the hub has gone back, another agent of the cluster may write the finalizers that it knows from before: if the hub gives
    /// the work the version that this agent had read, nothing refuses that.
    ///
    /// # Errors
    /// The hub refuses it.
    pub async fn let_all_go(&self) -> Result<bool> {
        let kept: Vec<String> = self.hub.read(|state| {
            let works = state.objects_of("work.open-cluster-management.io", "manifestworks");
            let works = works.into_iter().flat_map(hub_sim::Collection::objects);
            let kept = works.filter(|work| work.text().contains(HOLD));
            kept.map(|work| work.key.to_string()).collect()
        });
        for key in &kept {
            let (cluster, name) = key.split_once('/').unwrap_or_default();
            self.let_go(&format!("{}/{name}", works_of(cluster))).await?;
        }
        Ok(!kept.is_empty())
    }

    /// Changes the finalizers of the work at a path, if it is there. Agents may change them at the same time.
    async fn set_finalizers(&self, path: &str, change: impl Fn(&mut Vec<String>)) -> Result<()> {
        let mut parts = path.rsplit('/');
        let (name, cluster) = (parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default());
        let group = "work.open-cluster-management.io";
        let mut attempts = 0;
        while let Some(work) = self.object(group, "manifestworks", &format!("{cluster}/{name}")) {
            let work = work.value();
            let metadata = &work["metadata"];
            let found = serde_json::from_value(metadata["finalizers"].clone());
            let mut finalizers: Vec<String> = found.unwrap_or_default();
            change(&mut finalizers);
            let version = &metadata["resourceVersion"];
            let metadata = json!({"finalizers": finalizers, "resourceVersion": version});
            let done = self
                .admin
                .patch_if_there(path, &json!({"metadata": metadata}))
                .await;
            attempts += 1;
            match done {
                Err(error) if attempts < 10 && is_conflict(&error) => {}
                done => return done,
            }
        }
        Ok(())
    }

    /// A work of somebody else under a name of ours.
    pub(super) async fn squat(&mut self, cluster: &str, second: u64) -> Result<()> {
        let steps = Step::ALL.map(|step| step.work_name(cluster));
        let steps: Vec<&String> = steps.iter().collect();
        let Some(name) = self.network.choice("squat on", cluster, second).pick(&steps) else {
            return Ok(());
        };
        // The name may be taken, or the namespace may be on its way out.
        if self
            .admin
            .create(&works_of(cluster), &empty_work(name, cluster))
            .await
            .is_ok()
        {
            let end = second + self.number("squat", cluster, second, 5, 90);
            self.later(end, Undo::Delete(format!("{}/{name}", works_of(cluster))));
        }
        Ok(())
    }

    pub(super) async fn forge(&mut self, second: u64) -> Result<()> {
        if self.strikes(Fault::DeepUpgrade, STRANGERS, second) {
            // It may be there already. The tenant does not take it back.
            let _ = self.admin.create(&upgrades_of(STRANGERS), &deep_upgrade()).await;
        }
        let uid = self.upgrade(UPGRADE).and_then(|upgrade| {
            upgrade
                .pointer("/metadata/uid")
                .and_then(Value::as_str)
                .map(ToOwned::to_owned)
        });
        let Some(uid) = uid else { return Ok(()) };
        if self.strikes(Fault::ForgeWork, OUTSIDER, second) {
            let work = self.copied_work().unwrap_or_else(|| forged_work(&uid));
            let name = Step::Platform.work_name(OUTSIDER);
            self.put(&works_of(OUTSIDER), &name, &work, second).await;
        }
        if self.strikes(Fault::ForgeReport, STRANGERS, second) {
            let rows = fleet(&self.options).into_iter().map(|name| {
                json!({"cluster": name, "phase": "Complete", "since": "2026-01-01T00:00:00Z", "revision": "0123456789abcdef"})
            });
            // Of two rows of a cluster, the one in the later report counts.
            let name = format!("{UPGRADE}-report-2");
            let report = json!({
                "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgradeReport",
                "metadata": {
                    // With an owner in another namespace, the garbage collector would delete it at once.
                    "name": name, "namespace": STRANGERS, "labels": {LABEL_MCU: UPGRADE, LABEL_MCU_UID: uid},
                },
                "rows": rows.collect::<Vec<_>>(),
            });
            self.put(&reports_of(STRANGERS), &name, &report, second).await;
        }
        if self.options.placement && self.strikes(Fault::ForgeDecision, TEAM, second) {
            let name = "forged-decision-1";
            let object = decision(name, &[OUTSIDER.to_owned()]);
            if self
                .admin
                .create_with_status(&decisions_of(TEAM), &object)
                .await
                .is_ok()
            {
                self.later(
                    second + 60,
                    Undo::Delete(format!("{}/{name}", decisions_of(TEAM))),
                );
            }
        }
        Ok(())
    }

    /// Creates an object that is deleted a minute later. It may be there already.
    async fn put(&mut self, collection: &str, name: &str, object: &Value, second: u64) {
        if self.admin.create(collection, object).await.is_ok() {
            self.later(second + 60, Undo::Delete(format!("{collection}/{name}")));
        }
    }
}
