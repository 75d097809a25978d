//! What authors do with their upgrades.

use anyhow::Result;
use api::names::{ANNOTATION_RESUME_RESTORED, ANNOTATION_RETRY_FAILED};
use serde_json::{Value, json};

use super::{People, Undo};
use crate::admin::{reports_of, upgrades_of};
use crate::fault::Fault;
use crate::names::{HUB, RIVAL, TEAM, UPGRADE};
use crate::world::{action, action_of, cluster, fleet, make_hub, selector_of, upgrade};

/// The manifests of an action.
const MANIFESTS: &str = "/manifestWork/workload/manifests";
/// The Job of a pre-action that is there only to be misspelled.
const TYPO: &str = "typo";

fn path(name: &str) -> String {
    format!("{}/{name}", upgrades_of(TEAM))
}

/// The patch version of 4.14 that an upgrade asks for.
fn asked(upgrade: &Value) -> u64 {
    let version = upgrade
        .pointer("/spec/clusterVersion/version")
        .and_then(Value::as_str);
    let patch = version.and_then(|version| version.rsplit('.').next()?.parse().ok());
    patch.unwrap_or_default()
}

/// What an upgrade with this spec asks for of clusters.
fn shape(upgrade: &Value, spec: &Value) -> String {
    let fields = [
        "clusterVersion",
        "ocpOperators",
        "preUpgradeAction",
        "postUpgradeAction",
    ];
    let uid = upgrade.pointer("/metadata/uid").unwrap_or(&Value::Null);
    let asked = fields.map(|field| spec.get(field).unwrap_or(&Value::Null));
    format!("{uid} {}", asked.map(Value::to_string).join(" "))
}

/// Whether the pre-action of a spec names a manifest twice.
fn is_misspelled(spec: &Value) -> bool {
    let action = spec.get("preUpgradeAction");
    let manifests = action.and_then(|action| action.pointer(MANIFESTS)?.as_array());
    manifests.is_some_and(|manifests| manifests.len() > 1)
}

impl People {
    pub(super) async fn edit(&mut self, name: &'static str, second: u64) -> Result<()> {
        if self.strikes(Fault::Pause, name, second) {
            self.pause(name, true).await?;
            let end = second + self.number("pause", name, second, 10, 90);
            self.later(end, Undo::Unpause(name));
        }
        if self.strikes(Fault::Resize, name, second) {
            let size = self.number("size", name, second, 1, 3);
            let change = json!({"spec": {"upgradeStrategy": {"maxConcurrency": size}}});
            self.admin.patch_if_there(&path(name), &change).await?;
        }
        if self.strikes(Fault::Retarget, name, second) {
            self.retarget(name, second).await?;
        }
        if self.strikes(Fault::Reshape, name, second) {
            self.reshape(name, second).await?;
        }
        if self.strikes(Fault::Retry, name, second) {
            self.retry(name).await?;
        }
        if self.strikes(Fault::LeaveOut, name, second) {
            let chosen = cluster(self.number("left-out", name, second, 0, self.options.clusters - 1));
            let list = ["skip", "abort"][usize::from(self.number("list", name, second, 0, 1) == 1)];
            self.leave_out(name, Some((list, &chosen))).await?;
            let end = second + self.number("leave-out", name, second, 10, 120);
            self.later(end, Undo::TakeUp(name));
        }
        if self.strikes(Fault::Misspell, name, second) {
            self.spell(name, false).await?;
            let end = second + self.number("misspell", name, second, 10, 60);
            self.later(end, Undo::Respell(name));
        }
        if self.strikes(Fault::EditRow, name, second) {
            self.edit_row(name, second).await?;
        }
        if self.strikes(Fault::DeleteReport, name, second) {
            // There may be none yet.
            let _ = self
                .admin
                .delete(&format!("{}/{name}-report-1", reports_of(TEAM)))
                .await;
        }
        if self.strikes(Fault::NameHub, name, second) {
            self.select_hub(name, true).await?;
            let end = second + self.number("name-hub", name, second, 10, 90);
            self.later(end, Undo::OmitHub(name));
        }
        if name == RIVAL && self.strikes(Fault::Withdraw, name, second) {
            self.is_withdrawn = true;
            self.admin.delete(&path(name)).await?;
            return Ok(());
        }
        if self.strikes(Fault::Remove, name, second) {
            self.admin.delete(&path(name)).await?;
            let end = second + self.number("remove", name, second, 5, 60);
            self.later(end, Undo::Recreate(name));
        }
        Ok(())
    }

    pub(super) async fn pause(&self, name: &str, is_paused: bool) -> Result<()> {
        if self.upgrade(name).is_some() {
            let change = json!({"spec": {"paused": is_paused}});
            self.admin.patch_if_there(&path(name), &change).await?;
        }
        Ok(())
    }

    /// True when an upgrade skips or aborts a cluster.
    pub(super) fn has_left_out(&self, name: &str) -> bool {
        let upgrade = self.upgrade(name);
        let strategy = upgrade
            .as_ref()
            .and_then(|upgrade| upgrade.pointer("/spec/upgradeStrategy"));
        let lists = ["skip", "abort"].map(|list| strategy.and_then(|strategy| strategy[list].as_array()));
        lists.into_iter().flatten().any(|list| !list.is_empty())
    }

    /// Leaves one cluster out, by its name in one of the lists, or none any more.
    pub(super) async fn leave_out(&self, name: &str, chosen: Option<(&str, &str)>) -> Result<()> {
        if self.upgrade(name).is_some() {
            let mut lists = json!({"skip": [], "abort": []});
            if let Some((list, cluster)) = chosen {
                lists[list] =
                    json!([{"cluster": cluster, "reason": "Wrong site", "acknowledgeCanary": true}]);
            }
            let change = json!({"spec": {"upgradeStrategy": lists}});
            self.admin.patch_if_there(&path(name), &change).await?;
        }
        Ok(())
    }

    /// Names the hub in the selector, or takes that back. The hub is a cluster from the first time on.
    pub(super) async fn select_hub(&self, name: &str, is_named: bool) -> Result<()> {
        let group = "cluster.open-cluster-management.io";
        if is_named && self.object(group, "managedclusters", HUB).is_none() {
            make_hub(&self.admin).await?;
        }
        if self.upgrade(name).is_some() {
            let selector = selector_of(&self.options, name, is_named);
            let change = json!({"spec": {"clusterSelector": selector}});
            self.admin.patch_if_there(&path(name), &change).await?;
        }
        Ok(())
    }

    /// Asks for a newer version.
    async fn retarget(&self, name: &str, second: u64) -> Result<()> {
        let Some(upgrade) = self.upgrade(name) else {
            return Ok(());
        };
        let next = asked(&upgrade).max(self.number("target", name, second, 12, 15));
        let change = json!({"spec": {"clusterVersion": {"version": format!("4.14.{next}")}}});
        self.admin.patch_if_there(&path(name), &change).await?;
        Ok(())
    }

    /// Adds operators or an action, replaces them or takes them away. No upgrade asks for the same a second time, because rules tell
    /// attempts apart by their revisions: whoever takes an edit back replaces the post-action, too. Whose spec is misspelled sets
    /// that right first.
    async fn reshape(&mut self, name: &str, second: u64) -> Result<()> {
        let Some(upgrade) = self.upgrade(name) else {
            return Ok(());
        };
        let spec = upgrade.get("spec").unwrap_or(&Value::Null);
        if is_misspelled(spec) {
            return Ok(());
        }
        let action = |job: &str| action_of(&format!("{job}-{name}"), &format!("registry/tool:{second}"));
        let (field, asked) = match self.number("shape", name, second, 1, 4) {
            1 => ("preUpgradeAction", action("backup")),
            2 => ("postUpgradeAction", action("check")),
            _ => ("ocpOperators", json!({"approveAllUpgrades": true})),
        };
        let is_replaced = field != "ocpOperators" && self.number("replace", name, second, 0, 1) == 1;
        let asked = if spec.get(field).is_some() && !is_replaced {
            Value::Null
        } else {
            asked
        };
        let mut next = spec.clone();
        let mut change = json!({field: asked});
        next[field] = asked;
        self.shapes.insert(shape(&upgrade, spec));
        if !self.shapes.insert(shape(&upgrade, &next)) {
            change["postUpgradeAction"] = action("check");
            next["postUpgradeAction"] = action("check");
            self.shapes.insert(shape(&upgrade, &next));
        }
        self.admin
            .patch_if_there(&path(name), &json!({"spec": change}))
            .await?;
        Ok(())
    }

    /// Queues failed clusters again: now and then by an entry of the spec, for the first cluster or for one reason.
    pub(super) async fn retry(&mut self, name: &str) -> Result<()> {
        self.retries += 1;
        let token = format!("again-{}", self.retries);
        let change = if self.retries.is_multiple_of(3) {
            let mut entry = json!({"id": token});
            if self.retries.is_multiple_of(2) {
                entry["clusters"] = json!([cluster(0)]);
            } else {
                entry["reasons"] = json!(["ClusterUpgradeTimeout", "JobFailed"]);
            }
            let known = self
                .upgrade(name)
                .and_then(|upgrade| upgrade.pointer("/spec/upgradeStrategy/retry").cloned());
            let mut list = known
                .and_then(|known| known.as_array().cloned())
                .unwrap_or_default();
            list.push(entry);
            // As people do who keep the last ones only.
            let from = list.len().saturating_sub(4);
            json!({"spec": {"upgradeStrategy": {"retry": list[from..]}}})
        } else {
            json!({"metadata": {"annotations": {ANNOTATION_RETRY_FAILED: token}}})
        };
        self.admin.patch_if_there(&path(name), &change).await?;
        Ok(())
    }

    /// Writes a spec whose pre-action names a manifest twice, or takes that back. Otherwise the pre-action stays as it is.
    pub(super) async fn spell(&self, name: &str, is_right: bool) -> Result<()> {
        let Some(upgrade) = self.upgrade(name) else {
            return Ok(());
        };
        let present = upgrade.pointer("/spec/preUpgradeAction").cloned();
        let mut spelled = present.unwrap_or_else(|| action(TYPO));
        let mut is_typo = false;
        if let Some(manifests) = spelled.pointer_mut(MANIFESTS).and_then(Value::as_array_mut) {
            manifests.truncate(1);
            is_typo = manifests
                .iter()
                .any(|one| one.pointer("/metadata/name").and_then(Value::as_str) == Some(TYPO));
            if !is_right {
                manifests.extend_from_within(..);
            }
        }
        if is_right && is_typo {
            spelled = Value::Null;
        }
        let change = json!({"spec": {"preUpgradeAction": spelled}});
        self.admin.patch_if_there(&path(name), &change).await?;
        Ok(())
    }

    /// Writes another phase into a row.
    async fn edit_row(&self, name: &str, second: u64) -> Result<()> {
        let report = format!("{name}-report-1");
        let group = "cluster.open-cluster-management.io";
        let Some(object) = self.object(
            group,
            "managedclustersupgradereports",
            &format!("{TEAM}/{report}"),
        ) else {
            return Ok(());
        };
        let mut rows = object.value().get("rows").cloned().unwrap_or_default();
        let phase = self
            .network
            .choice("phase", name, second)
            .pick(&["Complete", "Pending", "Failed", "Partial"]);
        let last = rows.as_array().map_or(0, Vec::len).saturating_sub(1);
        if let Some(row) = rows.get_mut(last) {
            row["phase"] = phase.unwrap_or_default().into();
            self.admin
                .patch_if_there(&format!("{}/{report}", reports_of(TEAM)), &json!({"rows": rows}))
                .await?;
        }
        Ok(())
    }

    /// Creates an upgrade that was deleted, once it is gone.
    pub(super) async fn recreate(&mut self, name: &'static str, second: u64) -> Result<()> {
        if name == RIVAL && self.is_withdrawn {
            return Ok(());
        }
        if let Some(upgrade) = self.upgrade(name) {
            // A restore may have brought it back.
            if upgrade.pointer("/metadata/deletionTimestamp").is_some() {
                self.later(second + 5, Undo::Recreate(name));
            }
            return Ok(());
        }
        self.admin
            .create(&upgrades_of(TEAM), &upgrade(&self.options, name))
            .await?;
        Ok(())
    }

    /// What an author does with an upgrade that waits for a human.
    ///
    /// # Errors
    /// The hub refuses it.
    pub async fn settle(&mut self, name: &'static str) -> Result<()> {
        let Some(upgrade) = self.upgrade(name) else {
            return Ok(());
        };
        let uid = upgrade
            .pointer("/metadata/uid")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let conditions = upgrade.pointer("/status/conditions").and_then(Value::as_array);
        let reason_of = |condition: &&Value| {
            condition.get("type").and_then(Value::as_str) == Some("Stalled")
                && condition.get("status").and_then(Value::as_str) == Some("True")
        };
        let stalled = conditions.into_iter().flatten().find(reason_of);
        match stalled.and_then(|condition| condition.get("reason")?.as_str()) {
            Some("Restored") => {
                let change = json!({"metadata": {"annotations": {ANNOTATION_RESUME_RESTORED: uid}}});
                self.admin.patch_if_there(&path(name), &change).await?;
            }
            Some("ClustersFailed" | "CanaryFailed" | "MaxFailuresExceeded") => self.retry(name).await?,
            _ => {}
        }
        self.mend_hub(name, &upgrade).await?;
        if self.options.asks() {
            self.settle_asked(name, &upgrade).await?;
        }
        let waiting = upgrade
            .pointer("/status/waitingClusters")
            .and_then(Value::as_array);
        let asks_too_little = waiting.into_iter().flatten().any(|one| {
            let reason = one.get("reason").and_then(Value::as_str).unwrap_or_default();
            matches!(reason, "NewerThanTarget" | "ReleaseNotAccepted" | "InvalidUpdate")
        });
        // Who is told which upgrade is stuck looks at that one.
        let is_stuck = |name: &&str| {
            let told = format!("{TEAM}/{name} holds this cluster and is stuck on it");
            waiting.into_iter().flatten().any(|one| {
                one.get("message")
                    .and_then(Value::as_str)
                    .is_some_and(|message| message.contains(&told))
            })
        };
        if let Some(other) = [UPGRADE, RIVAL].into_iter().find(is_stuck) {
            self.retry(other).await?;
        }
        // The message may name a version that the cluster does not run any more.
        let told = waiting.into_iter().flatten().filter_map(|one| {
            let version = one.get("message")?.as_str()?.strip_prefix("The cluster runs ")?;
            version.split(',').next()?.rsplit('.').next()?.parse::<u64>().ok()
        });
        let next = told.max().unwrap_or_default().max(self.newest());
        if asks_too_little && asked(&upgrade) < next {
            let change = json!({"spec": {"clusterVersion": {"version": format!("4.14.{next}")}}});
            self.admin.patch_if_there(&path(name), &change).await?;
        }
        Ok(())
    }

    /// Sets right what somebody has written into the row of the hub. If that says Failed, the hub counts as failed also when it
    /// is not selected any more, and a retry concerns only clusters that are selected. So it is selected again, until it has been
    /// retried: then it waits for its start, and is dropped with its row.
    async fn mend_hub(&self, name: &str, upgrade: &Value) -> Result<()> {
        let failed = upgrade
            .pointer("/status/failedClusters")
            .and_then(Value::as_array);
        let mut failed = failed.into_iter().flatten();
        let has_failed = failed.any(|one| one.get("name").and_then(Value::as_str) == Some(HUB));
        let selector = upgrade.pointer("/spec/clusterSelector").map(Value::to_string);
        let is_selected = selector.is_some_and(|selector| selector.contains(HUB));
        if has_failed != is_selected {
            self.select_hub(name, has_failed).await?;
        }
        Ok(())
    }

    /// The newest patch version that a cluster runs.
    fn newest(&self) -> u64 {
        let versions = fleet(&self.options)
            .into_iter()
            .filter_map(|name| self.version(&name));
        let patches = versions.filter_map(|version| version.rsplit('.').next()?.parse().ok());
        patches.max().unwrap_or_default()
    }
}
