//! People, tenants, agents that were taken over, and the hub's other controllers: what they do to a rollout, and how they set it
//! right again.

mod edits;
mod fleet;
mod forgery;

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use hub_sim::{Hub, Object};
use serde_json::{Value, json};
use spoke_sim::Agents;

use crate::admin::{Admin, reports_of, upgrades_of, works_of};
use crate::fault::Fault;
use crate::names::{OUTSIDER, RIVAL, TEAM, UPGRADE};
use crate::network::Network;
use crate::options::Options;
use crate::world::fleet;

/// What is to be done later.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Undo {
    Unpause(&'static str),
    Respell(&'static str),
    Recreate(&'static str),
    Delete(String),
    Rename(String),
    Attach(String),
    Return(String),
    Decide,
    Calm(String),
}

/// Everybody but the controller and the agents. Times are in seconds since faults began.
pub struct People {
    admin: Admin,
    hub: Hub,
    network: Network,
    agents: Arc<Agents>,
    options: Arc<Options>,
    pending: Vec<(u64, Undo)>,
    /// Works whose metadata or status somebody changed.
    tampered: BTreeSet<String>,
    retries: u64,
}

impl People {
    /// People of a run.
    #[must_use]
    pub fn new(admin: Admin, hub: &Hub, network: &Network, agents: Arc<Agents>) -> Self {
        Self {
            admin,
            hub: hub.clone(),
            options: Arc::clone(&network.ground.options),
            network: network.clone(),
            agents,
            pending: Vec::new(),
            tampered: BTreeSet::new(),
            retries: 0,
        }
    }

    /// Does what is due.
    ///
    /// # Errors
    /// The hub refuses what it should not: a defect of the simulation.
    pub async fn act(&mut self, second: u64) -> Result<()> {
        let due = |(at, _): &(u64, Undo)| *at <= second;
        let (due, later) = std::mem::take(&mut self.pending).into_iter().partition(due);
        self.pending = later;
        for (_, undo) in due {
            self.undo(second, undo).await?;
        }
        if !second.is_multiple_of(10) {
            return Ok(());
        }
        for name in self.upgrades() {
            self.edit(name, second).await?;
        }
        self.forge(second).await?;
        for name in fleet(&self.options) {
            self.disturb(&name, second).await?;
        }
        Ok(())
    }

    /// Sets everything right. Returns whether all of it was possible; what was not is to be tried again.
    ///
    /// # Errors
    /// The hub refuses what it should not.
    pub async fn repair(&mut self) -> Result<bool> {
        for (_, undo) in std::mem::take(&mut self.pending) {
            self.undo(u64::MAX / 2, undo).await?;
        }
        for name in fleet(&self.options) {
            self.agents.set_faults(&name, spoke_sim::Faults::default());
        }
        for path in std::mem::take(&mut self.tampered) {
            // It may be gone already.
            let _ = self.admin.delete(&path).await;
        }
        if self.options.settle_seconds == 0 {
            for name in self.upgrades() {
                self.settle(name).await?;
            }
        }
        Ok(self.pending.is_empty())
    }

    /// Restores upgrades and reports from a backup that was just made: they get other UIDs and have no statuses. Works are not in
    /// a backup.
    ///
    /// # Errors
    /// The hub refuses what it should not.
    pub async fn restore(&mut self) -> Result<()> {
        let upgrades: Vec<Arc<Value>> = self
            .upgrades()
            .into_iter()
            .filter_map(|name| self.upgrade(name))
            .collect();
        let reports: Vec<Arc<Value>> = self.hub.read(|state| {
            let reports = state.objects_of(
                "cluster.open-cluster-management.io",
                "managedclustersupgradereports",
            );
            let reports = reports.into_iter().flat_map(|reports| reports.in_namespace(TEAM));
            reports.map(|report| report.value()).collect()
        });
        let mut clusters = fleet(&self.options);
        clusters.push(OUTSIDER.to_owned());
        for cluster in clusters {
            for work in self.works(&cluster) {
                self.erase(&format!("{}/{work}", works_of(&cluster))).await;
            }
        }
        for (collection, objects) in [(upgrades_of(TEAM), &upgrades), (reports_of(TEAM), &reports)] {
            for object in objects {
                let name = object
                    .pointer("/metadata/name")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                self.erase(&format!("{collection}/{name}")).await;
            }
            for object in objects {
                let mut restored = Value::clone(object);
                let meta = restored.get_mut("metadata").and_then(Value::as_object_mut);
                if let Some(meta) = meta {
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
                self.admin.create(&collection, &restored).await?;
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

    async fn undo(&mut self, second: u64, undo: Undo) -> Result<()> {
        match undo {
            Undo::Unpause(name) => self.pause(name, false).await?,
            Undo::Respell(name) => self.spell(name, true).await?,
            Undo::Recreate(name) => self.recreate(name, second).await?,
            Undo::Delete(path) => {
                // The garbage collector may have been here.
                let _ = self.admin.delete(&path).await;
            }
            Undo::Rename(name) => self.label(&name, &name).await?,
            Undo::Attach(name) => self.attach(&name, second).await?,
            Undo::Return(name) => self.available(&name, true).await?,
            Undo::Decide => self.decide(None).await?,
            Undo::Calm(name) => {
                self.agents.set_faults(&name, spoke_sim::Faults::default());
            }
        }
        Ok(())
    }

    fn strikes(&self, fault: Fault, name: &str, second: u64) -> bool {
        let strikes = self.network.strikes(fault, name, second);
        if strikes {
            self.network.note(&format!("{} {name}", fault.as_str()));
        }
        strikes
    }

    /// A number that belongs to an occasion.
    fn number(&self, what: &str, name: &str, second: u64, least: u64, most: u64) -> u64 {
        self.network.choice(what, name, second).between(least, most)
    }

    fn later(&mut self, second: u64, undo: Undo) {
        if !self.pending.iter().any(|(_, known)| *known == undo) {
            self.pending.push((second, undo));
        }
    }

    /// The upgrades that exist.
    fn upgrades(&self) -> Vec<&'static str> {
        [UPGRADE, RIVAL]
            .into_iter()
            .filter(|name| self.upgrade(name).is_some())
            .collect()
    }

    fn upgrade(&self, name: &str) -> Option<Arc<Value>> {
        upgrade(&self.hub, name)
    }

    fn object(&self, group: &str, plural: &str, key: &str) -> Option<Arc<Object>> {
        self.hub
            .read(|state| state.objects_of(group, plural)?.get(key).cloned())
    }

    /// The names of a cluster's works.
    fn works(&self, cluster: &str) -> Vec<String> {
        self.hub.read(|state| {
            let works = state.objects_of("work.open-cluster-management.io", "manifestworks");
            let works = works.into_iter().flat_map(|works| works.in_namespace(cluster));
            works
                .filter(|work| !work.is_deleting)
                .map(|work| work.name().to_owned())
                .collect()
        })
    }

    /// One of the works of a cluster, by its path.
    fn some_work(&self, what: &str, cluster: &str, second: u64) -> Option<String> {
        let names = self.works(cluster);
        let names: Vec<&String> = names.iter().collect();
        let name = self.network.choice(what, cluster, second).pick(&names)?;
        Some(format!("{}/{name}", works_of(cluster)))
    }
}

/// An upgrade as it is on the hub.
#[must_use]
pub fn upgrade(hub: &Hub, name: &str) -> Option<Arc<Value>> {
    let key = format!("{TEAM}/{name}");
    let found = hub.read(|state| {
        let upgrades = state.objects_of("cluster.open-cluster-management.io", "managedclustersupgrades")?;
        upgrades.get(&key).cloned()
    });
    found.map(|object| object.value())
}
