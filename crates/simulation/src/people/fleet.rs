//! What happens to clusters.

use std::time::Duration;

use anyhow::Result;
use chrono::TimeDelta;
use serde_json::{Value, json};
use spoke_sim::Fault as Agent;
use spoke_sim::fault::{Lie, for_ever};

use super::{People, Undo};
use crate::admin::{bindings_of, decisions_of, managed_cluster};
use crate::fault::Fault;
use crate::names::{PLACEMENT, SET, TEAM};
use crate::world::{claims, condition, decided, fleet, id, installed, make_cluster, make_namespace};

impl People {
    pub(super) async fn disturb(&mut self, name: &str, second: u64) -> Result<()> {
        if self.strikes(Fault::Agent, name, second) {
            let fault = self.some_fault(name, second);
            self.agents.set_faults(name, fault);
            let end = second + self.number("agent", name, second, 20, 200);
            self.later(end, Undo::Calm(name.to_owned()));
        }
        if self.strikes(Fault::AgentOdd, name, second) {
            let fault = self.odd_fault(name, second);
            self.agents.set_faults(name, fault);
            let end = second + self.number("agent-odd", name, second, 20, 200);
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
        if self.options.asks() {
            self.disturb_probe(name, second).await?;
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
        if self.strikes(Fault::DetachHalf, name, second) {
            self.detach_half(name, second).await?;
        }
        Ok(())
    }

    /// Deletes a cluster or its namespace, and leaves the other one.
    async fn detach_half(&mut self, name: &str, second: u64) -> Result<()> {
        let path = if self.network.choice("half", name, second).happens(500) {
            format!("/api/v1/namespaces/{name}")
        } else {
            managed_cluster(name)
        };
        self.admin.delete(&path).await?;
        let end = second + self.number("detach-half", name, second, 5, 60);
        self.later(end, Undo::Rejoin(name.to_owned()));
        Ok(())
    }

    /// Unbinds the set of the fleet: until it is bound again, no upgrade of the team may select its clusters.
    pub(super) async fn unbind(&mut self, second: u64) -> Result<()> {
        if self.strikes(Fault::Unbind, TEAM, second) {
            self.admin.delete(&format!("{}/{SET}", bindings_of(TEAM))).await?;
            let end = second + self.number("unbind", TEAM, second, 5, 300);
            self.later(end, Undo::Bind);
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

    /// One of the faults that [`People::some_fault`] does not choose. Those that only a whole simulated cluster has, such as an API
    /// server that is away, mean nothing to agents.
    fn odd_fault(&self, name: &str, second: u64) -> Agent {
        let seconds = |what: &str| Duration::from_secs(self.number(what, name, second, 5, 120));
        let lasts = || TimeDelta::from_std(seconds("held up for")).unwrap_or_default();
        let flaps = |available| Agent::Flapping {
            period: seconds("period"),
            available,
        };
        match self.number("odd fault", name, second, 0, 13) {
            0 => Agent::Lying(Lie::Stale),
            1 => Agent::Lying(Lie::Early),
            2 => flaps(false),
            3 => flaps(true),
            4 => Agent::Refusing {
                reason: "AdminAckRequired".to_owned(),
                message: "an administrator must agree".to_owned(),
            },
            5 => Agent::Unverified("the signature is missing".to_owned()),
            6 => Agent::UpdateServiceOutage(None),
            7 => Agent::NotInChannel,
            8 => Agent::Risk {
                name: "Rare".to_owned(),
                message: "machines may not start".to_owned(),
            },
            9 => Agent::SlowOperator("network".to_owned(), lasts()),
            10 => Agent::Degraded("etcd".to_owned(), lasts()),
            11 => Agent::Unavailable("kube-apiserver".to_owned(), lasts()),
            12 => Agent::DrainStuck("master".to_owned(), for_ever()),
            _ => Agent::Forbidden { always: true },
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
        // Whoever brought its other half back has done so already.
        if self.is_idle(&Undo::Rejoin(name.to_owned())) {
            return Ok(());
        }
        if self.object("", "namespaces", name).is_some() || self.is_there(name) {
            self.later(second + 5, Undo::Attach(name.to_owned()));
            return Ok(());
        }
        let runs = self
            .version(name)
            .unwrap_or_else(|| installed(&self.options).to_owned());
        make_namespace(&self.admin, name).await?;
        make_cluster(&self.admin, name, SET, &runs).await
    }

    /// Brings back what is gone of a cluster: it, its namespace, or both.
    pub(super) async fn rejoin(&mut self, name: &str, second: u64) -> Result<()> {
        let cluster = self.object("cluster.open-cluster-management.io", "managedclusters", name);
        let namespace = self.object("", "namespaces", name);
        let mut halves = [&cluster, &namespace].into_iter().flatten();
        if halves.any(|half| half.is_deleting) {
            self.later(second + 5, Undo::Rejoin(name.to_owned()));
            return Ok(());
        }
        if namespace.is_none() {
            make_namespace(&self.admin, name).await?;
        }
        if cluster.is_none() {
            let runs = self
                .version(name)
                .unwrap_or_else(|| installed(&self.options).to_owned());
            make_cluster(&self.admin, name, SET, &runs).await?;
        }
        Ok(())
    }

    /// The version that a cluster has reached, by its own account.
    #[must_use]
    pub fn version(&self, name: &str) -> Option<String> {
        let version = self.agents.cluster_version(name)?;
        let history = version.pointer("/status/history")?.as_array()?;
        let done = |entry: &&Value| entry.get("state").and_then(Value::as_str) == Some("Completed");
        Some(history.iter().find(done)?.get("version")?.as_str()?.to_owned())
    }

    /// Plays the klusterlets: the claims of clusters tell their versions. Returns whether one of them told another version before.
    ///
    /// # Errors
    /// The hub refuses it.
    pub async fn claim(&self) -> Result<bool> {
        let mut is_news = false;
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
                is_news = true;
            }
        }
        Ok(is_news)
    }
}
