//! What happens to clusters.

use anyhow::Result;
use serde_json::{Value, json};
use spoke_sim::Fault as Agent;

use super::{People, Undo};
use crate::admin::{decisions_of, managed_cluster};
use crate::fault::Fault;
use crate::names::{PLACEMENT, SET, TEAM};
use crate::world::{claims, condition, decided, fleet, id, make_cluster, make_namespace};

impl People {
    pub(super) async fn disturb(&mut self, name: &str, second: u64) -> Result<()> {
        if self.strikes(Fault::Agent, name, second) {
            let fault = self.some_fault(name, second);
            self.agents.set_faults(name, fault);
            let end = second + self.number("agent", name, second, 20, 200);
            self.later(end, Undo::Calm(name.to_owned()));
        }
        if self.strikes(Fault::DeleteWork, name, second)
            && let Some(path) = self.some_work("delete", name, second)
        {
            self.admin.delete(&path).await?;
        }
        if self.strikes(Fault::Tamper, name, second) {
            self.tamper(name, second).await?;
        }
        if self.strikes(Fault::Nonsense, name, second) {
            self.nonsense(name, second).await?;
        }
        if self.strikes(Fault::Squat, name, second) {
            self.squat(name, second).await?;
        }
        if self.strikes(Fault::FalseEnd, name, second) {
            self.report_end(name).await?;
        }
        if self.strikes(Fault::HoldWork, name, second) {
            self.hold_work(name, second).await?;
        }
        let is_attached = self.object("cluster.open-cluster-management.io", "managedclusters", name);
        if is_attached.is_none_or(|cluster| cluster.is_deleting) {
            return Ok(());
        }
        if self.strikes(Fault::Relabel, name, second) {
            self.label(name, "elsewhere").await?;
            let end = second + self.number("relabel", name, second, 2, 60);
            self.later(end, Undo::Rename(name.to_owned()));
        }
        if self.strikes(Fault::Leave, name, second) {
            self.label(name, "elsewhere").await?;
            self.later(u64::MAX, Undo::Rename(name.to_owned()));
        }
        if self.strikes(Fault::Away, name, second) {
            self.available(name, false).await?;
            let end = second + self.number("away", name, second, 2, 60);
            self.later(end, Undo::Return(name.to_owned()));
        }
        if self.strikes(Fault::FalseClaim, name, second) {
            self.claim_falsely(name, second).await?;
        }
        if self.options.placement && self.strikes(Fault::Undecide, name, second) {
            self.decide(Some(name)).await?;
            let end = second + self.number("undecide", name, second, 1, 20);
            self.later(end, Undo::Decide);
        }
        if self.strikes(Fault::Detach, name, second) {
            self.admin.delete(&managed_cluster(name)).await?;
            self.admin.delete(&format!("/api/v1/namespaces/{name}")).await?;
            let end = second + self.number("detach", name, second, 5, 60);
            self.later(end, Undo::Attach(name.to_owned()));
        }
        Ok(())
    }

    fn some_fault(&self, name: &str, second: u64) -> Agent {
        let choice = self.network.choice("agent fault", name, second).between(0, 6);
        match choice {
            0 => Agent::Slow(5.0),
            1 => Agent::Stuck(85.0),
            2 => Agent::Failing("a machine does not start".to_owned()),
            3 => Agent::JobFails("the backup failed".to_owned()),
            4 => Agent::Offline,
            5 => Agent::Forbidden { always: false },
            _ => Agent::Unoffered,
        }
    }

    fn is_there(&self, name: &str) -> bool {
        let found = self.object("cluster.open-cluster-management.io", "managedclusters", name);
        found.is_some_and(|cluster| !cluster.is_deleting)
    }

    pub(super) async fn label(&self, name: &str, label: &str) -> Result<()> {
        if self.is_there(name) {
            let change = json!({"metadata": {"labels": {"name": label}}});
            self.admin.patch_if_there(&managed_cluster(name), &change).await?;
        }
        Ok(())
    }

    pub(super) async fn available(&self, name: &str, is_available: bool) -> Result<()> {
        if self.is_there(name) {
            let conditions = [
                condition("HubAcceptedManagedCluster", true),
                condition("ManagedClusterJoined", true),
                condition("ManagedClusterConditionAvailable", is_available),
            ];
            let change = json!({"status": {"conditions": conditions}});
            self.admin
                .patch_if_there(&format!("{}/status", managed_cluster(name)), &change)
                .await?;
        }
        Ok(())
    }

    /// Decides on the whole fleet, but for one cluster.
    pub(super) async fn decide(&self, without: Option<&str>) -> Result<()> {
        let mut names = fleet(&self.options);
        names.retain(|name| Some(name.as_str()) != without);
        let path = format!("{}/{PLACEMENT}-decision-1/status", decisions_of(TEAM));
        self.admin
            .patch_if_there(&path, &json!({"status": {"decisions": decided(&names)}}))
            .await?;
        Ok(())
    }

    /// Brings a cluster back whose namespace is gone.
    pub(super) async fn attach(&mut self, name: &str, second: u64) -> Result<()> {
        if self.object("", "namespaces", name).is_some() || self.is_there(name) {
            self.later(second + 5, Undo::Attach(name.to_owned()));
            return Ok(());
        }
        let runs = self.version(name).unwrap_or_else(|| "4.14.9".to_owned());
        make_namespace(&self.admin, name).await?;
        make_cluster(&self.admin, name, SET, &runs).await
    }

    /// The version that a cluster has reached, by its own account.
    #[must_use]
    pub fn version(&self, name: &str) -> Option<String> {
        let version = self.agents.cluster_version(name)?;
        let history = version.pointer("/status/history")?.as_array()?;
        let done = |entry: &&Value| entry.get("state").and_then(Value::as_str) == Some("Completed");
        Some(history.iter().find(done)?.get("version")?.as_str()?.to_owned())
    }

    /// Plays the klusterlets: the claims of clusters tell their versions.
    ///
    /// # Errors
    /// The hub refuses it.
    pub async fn claim(&self) -> Result<()> {
        for (number, name) in (0_u64..).zip(fleet(&self.options)) {
            let Some(cluster) = self.object("cluster.open-cluster-management.io", "managedclusters", &name)
            else {
                continue;
            };
            let Some(version) = self.version(&name).filter(|_| !cluster.is_deleting) else {
                continue;
            };
            if !cluster.text().contains(&format!("\"{version}\"")) {
                let change = json!({"status": {"clusterClaims": claims(&id(number), &version)}});
                self.admin
                    .patch_if_there(&format!("{}/status", managed_cluster(&name)), &change)
                    .await?;
            }
        }
        Ok(())
    }
}
