//! Backups of upgrades and reports, as Velero makes them: without UIDs, statuses and works.

use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};

use super::{People, Undo};
use crate::admin::{reports_of, upgrades_of, works_of};
use crate::fault::Fault;
use crate::names::{OUTSIDER, TEAM, UPGRADE};
use crate::world::fleet;

/// Upgrades and reports as they were.
#[derive(Clone, Default)]
pub(super) struct Backup {
    upgrades: Vec<Arc<Value>>,
    reports: Vec<Arc<Value>>,
}

fn name_of(object: &Value) -> &str {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    name.unwrap_or_default()
}

/// What a restore creates of an object.
fn restored(object: &Value) -> Value {
    let mut restored = object.clone();
    if let Some(meta) = restored.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "deletionTimestamp",
        ] {
            meta.remove(field);
        }
    }
    if let Some(restored) = restored.as_object_mut() {
        restored.remove("status");
    }
    restored
}

impl People {
    fn backup(&self) -> Backup {
        let upgrades = self.upgrades().into_iter();
        let reports = self.hub.read(|state| {
            let group = "cluster.open-cluster-management.io";
            let reports = state.objects_of(group, "managedclustersupgradereports");
            let reports = reports.into_iter().flat_map(|reports| reports.in_namespace(TEAM));
            reports.map(|report| report.value()).collect()
        });
        Backup {
            upgrades: upgrades.filter_map(|name| self.upgrade(name)).collect(),
            reports,
        }
    }

    /// Makes a backup, if one may be needed.
    pub fn back_up(&mut self) {
        if self.network.may_strike(Fault::RestoreOld) {
            let backup = self.backup();
            // An upgrade that is being deleted is not worth keeping.
            let is_whole = |upgrade: &Arc<Value>| upgrade.pointer("/metadata/deletionTimestamp").is_none();
            let is_there = |upgrade: &Arc<Value>| name_of(upgrade) == UPGRADE && is_whole(upgrade);
            if backup.upgrades.iter().any(is_there) {
                self.backups.push(backup);
            }
        }
    }

    /// Restores upgrades and reports from a backup: they get other UIDs and have no statuses. Works are not in a backup. `old`:
    /// when that happens, if the backup is one of those that were made before.
    ///
    /// # Errors
    /// The hub refuses what it should not.
    pub async fn restore(&mut self, old: Option<u64>) -> Result<()> {
        let present = self.backup();
        let earlier: Vec<&Backup> = self.backups.iter().collect();
        let chosen = old.and_then(|second| self.network.choice("backup", "hub", second).pick(&earlier));
        let backup = chosen.cloned().unwrap_or_else(|| present.clone());
        let mut clusters = fleet(&self.options);
        clusters.push(OUTSIDER.to_owned());
        for cluster in clusters {
            for work in self.works(&cluster) {
                self.erase(&format!("{}/{work}", works_of(&cluster))).await;
            }
        }
        for (collection, present, objects) in [
            (upgrades_of(TEAM), &present.upgrades, &backup.upgrades),
            (reports_of(TEAM), &present.reports, &backup.reports),
        ] {
            for object in present {
                self.erase(&format!("{collection}/{}", name_of(object))).await;
            }
            for object in objects {
                self.admin.create(&collection, &restored(object)).await?;
            }
        }
        if let Some(second) = old {
            self.omit_idle();
            // What was wrong at that time is wrong again, until its author notices.
            for name in self.upgrades() {
                for undo in [Undo::Unpause(name), Undo::Respell(name), Undo::OmitHub(name)] {
                    self.later(second + 30, undo);
                }
            }
        }
        Ok(())
    }

    /// Deletes an object at once, whatever holds it.
    async fn erase(&self, path: &str) {
        let _ = self
            .admin
            .patch(path, &json!({"metadata": {"finalizers": null}}))
            .await;
        let _ = self.admin.delete(path).await;
    }
}
