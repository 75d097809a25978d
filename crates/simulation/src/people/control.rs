//! What authors and approvers do: maintenance windows are edited, and plans approved.

use anyhow::Result;
use serde_json::{Value, json};

use super::{People, Undo};
use crate::admin::{approvals_of, upgrades_of};
use crate::fault::Fault;
use crate::names::{TEAM, UPGRADE};
use crate::time::begin;
use crate::world::{maintenance, upgrade};

/// Hashes of plans that do not exist.
pub const FALSE_PLANS: [&str; 2] = ["0000", "ffff-0000"];

/// The checkpoints of an upgrade that wait, and the plan of each.
fn waiting(upgrade: &Value) -> Vec<(String, String)> {
    let listed = upgrade.pointer("/status/approvals").and_then(Value::as_array);
    let text = |one: &Value, field: &str| {
        let found = one.get(field).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let waits = |one: &&Value| one.get("state").and_then(Value::as_str) == Some("Waiting");
    let listed = listed.into_iter().flatten().filter(waits);
    listed
        .map(|one| (text(one, "name"), text(one, "planHash")))
        .collect()
}

impl People {
    /// What happens to windows and approvals while faults do.
    pub(super) async fn control(&mut self, name: &'static str, second: u64) -> Result<()> {
        if name != UPGRADE || !self.options.is_controlled() {
            return Ok(());
        }
        if self.options.window_minutes > 0 && self.strikes(Fault::Rewindow, name, second) {
            self.rewindow(name, second).await?;
            let end = second + self.number("rewindow", name, second, 10, 200);
            self.later(end, Undo::Window(name));
        }
        if self.options.approve_at.is_none() {
            return Ok(());
        }
        if self.strikes(Fault::Disapprove, name, second) {
            self.disapprove(second).await?;
        }
        if self.strikes(Fault::FalseApproval, name, second) {
            let hash = FALSE_PLANS[usize::from(self.number("false hash", name, second, 0, 1) == 1)];
            self.approve("clusters", hash).await?;
        }
        if self.number("approve", name, second, 0, 2) == 0 {
            self.approve_waiting(name).await?;
        }
        Ok(())
    }

    /// Approves whatever waits for that.
    ///
    /// # Errors
    /// The hub refuses it.
    pub async fn approve_all(&mut self) -> Result<()> {
        if self.options.approve_at.is_some() {
            self.approve_waiting(UPGRADE).await?;
        }
        Ok(())
    }

    async fn approve_waiting(&mut self, name: &str) -> Result<()> {
        let Some(upgrade) = self.upgrade(name) else {
            return Ok(());
        };
        for (checkpoint, hash) in waiting(&upgrade) {
            self.approve(&checkpoint, &hash).await?;
        }
        Ok(())
    }

    async fn approve(&mut self, checkpoint: &str, hash: &str) -> Result<()> {
        self.approvals += 1;
        let mut approval = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgradeApproval",
            "metadata": {"name": format!("approval-{}", self.approvals), "namespace": TEAM},
            "spec": {"upgrade": UPGRADE, "checkpoint": checkpoint, "planHash": hash, "approver": "anna"},
        });
        if self.options.approval_seconds > 0 {
            let end = self.network.ground.clock.elapsed().as_secs() + self.options.approval_seconds;
            let end = begin() + chrono::TimeDelta::seconds(i64::try_from(end)?);
            approval["spec"]["expires"] = api::time::to_rfc3339(end).into();
        }
        self.admin.create(&approvals_of(TEAM), &approval).await?;
        Ok(())
    }

    /// Deletes one of the approvals.
    async fn disapprove(&self, second: u64) -> Result<()> {
        let number = self.number("disapproved", UPGRADE, second, 0, self.approvals);
        // It may be gone, or lost with the storage of the hub.
        let _ = self
            .admin
            .delete(&format!("{}/approval-{number}", approvals_of(TEAM)))
            .await;
        Ok(())
    }

    async fn rewindow(&self, name: &str, second: u64) -> Result<()> {
        let windows = match self.number("windows", name, second, 0, 3) {
            0 => Value::Null,
            1 => maintenance(&self.options, 5, 60 + self.options.remaining_seconds),
            2 => maintenance(&self.options, 15, 600),
            _ => {
                let instant = |second: u64| {
                    let at = begin() + chrono::TimeDelta::seconds(i64::try_from(second)?);
                    anyhow::Ok(at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true))
                };
                let mut windows = maintenance(
                    &self.options,
                    self.options.window_minutes,
                    self.options.window_seconds,
                );
                windows["exclusions"] = json!([{
                    "name": "freeze", "start": instant(second)?, "end": instant(second + 240)?,
                }]);
                windows
            }
        };
        let change = json!({"spec": {"maintenance": windows}});
        self.admin
            .patch_if_there(&format!("{}/{name}", upgrades_of(TEAM)), &change)
            .await?;
        Ok(())
    }

    /// Gives an upgrade the windows that it had at first, if it has others.
    pub(super) async fn set_windows(&self, name: &str) -> Result<()> {
        let windows = |upgrade: &Value| upgrade.pointer("/spec/maintenance").cloned().unwrap_or_default();
        let first = windows(&upgrade(&self.options, name));
        let known = self.upgrade(name).filter(|known| windows(known) != first);
        if known.is_some() {
            // What a merge patch does not name stays.
            for change in [
                json!({"spec": {"maintenance": null}}),
                json!({"spec": {"maintenance": first}}),
            ] {
                self.admin
                    .patch_if_there(&format!("{}/{name}", upgrades_of(TEAM)), &change)
                    .await?;
            }
        }
        Ok(())
    }
}
