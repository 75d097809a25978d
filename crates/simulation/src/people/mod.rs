//! People, tenants, agents that were taken over, and the hub's other controllers: what they do to a rollout, and how they set it
//! right again.

mod backup;
mod control;
mod edits;
mod fleet;
mod forgery;
mod sites;

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use hub_sim::{Hub, Object};
use serde_json::Value;
use spoke_sim::Agents;

use self::backup::Backup;
pub use self::control::FALSE_PLANS;
use self::sites::Sites;
use crate::admin::{Admin, works_of};
use crate::fault::Fault;
use crate::names::{RIVAL, SET, TEAM, UPGRADE};
use crate::network::Network;
use crate::options::Options;
use crate::world::{fleet, make_binding};

/// What is to be done later.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Undo {
    Unpause(&'static str),
    Respell(&'static str),
    Recreate(&'static str),
    Delete(String),
    Rename(String),
    Attach(String),
    Rejoin(String),
    Return(String),
    Decide,
    Bind,
    Calm(String),
    OmitHub(&'static str),
    TakeUp(&'static str),
    Window(&'static str),
    Claim,
    LetGo(String),
    Offer(String),
    Steady(String),
    Resume(String),
}

/// Everybody but the controller and the agents. Times are in seconds since faults began.
pub struct People {
    admin: Admin,
    hub: Hub,
    network: Network,
    agents: Arc<Agents>,
    options: Arc<Options>,
    pending: Vec<(u64, Undo)>,
    /// What was done later, and when.
    undone: Vec<(u64, Undo)>,
    /// Works whose metadata or status somebody changed.
    tampered: BTreeSet<String>,
    /// Clusters whose agents have claimed older versions than they run. A cluster that says so is taken back by any upgrade that
    /// asks for an older version than it runs, and it can only harm itself.
    liars: BTreeSet<String>,
    retries: u64,
    approvals: u64,
    /// The second upgrade was deleted for good.
    is_withdrawn: bool,
    /// What was backed up so far.
    backups: Vec<Backup>,
    /// What upgrades have asked for of clusters, and which did so.
    shapes: BTreeSet<String>,
    /// What clusters say to the update.
    sites: Sites,
}

impl People {
    /// People of a run.
    #[must_use]
    pub fn new(admin: Admin, hub: &Hub, network: &Network, agents: Arc<Agents>) -> Self {
        let mut people = Self {
            admin,
            hub: hub.clone(),
            options: Arc::clone(&network.ground.options),
            network: network.clone(),
            agents,
            pending: Vec::new(),
            undone: Vec::new(),
            tampered: BTreeSet::new(),
            liars: BTreeSet::new(),
            retries: 0,
            approvals: 0,
            is_withdrawn: false,
            backups: Vec::new(),
            shapes: BTreeSet::new(),
            sites: Sites::default(),
        };
        people.first_offers();
        people
    }

    /// Whether somebody has deleted the second upgrade for good.
    #[must_use]
    pub const fn has_withdrawn(&self) -> bool {
        self.is_withdrawn
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
            if self.network.may_strike(Fault::Rewind) {
                self.undone.push((second, undo.clone()));
            }
            self.undo(second, undo).await?;
        }
        if !second.is_multiple_of(10) {
            return Ok(());
        }
        for name in self.upgrades() {
            self.edit(name, second).await?;
            self.control(name, second).await?;
        }
        self.forge(second).await?;
        self.unbind(second).await?;
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
        // A backup may have brought it back.
        for name in self.upgrades() {
            if self.has_left_out(name) {
                self.leave_out(name, None).await?;
            }
            self.set_windows(name).await?;
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

    /// The hub went back to what it was at `since`: what was set right after that is to be set right again, and what exists again
    /// is not to be created.
    pub fn rewound(&mut self, since: u64, second: u64) {
        let again = std::mem::take(&mut self.undone);
        for (_, undo) in again.into_iter().filter(|(at, _)| *at >= since) {
            self.later(second + 5, undo);
        }
        self.omit_idle();
    }

    /// Forgets what is to be done later and is done already.
    fn omit_idle(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.pending = pending
            .into_iter()
            .filter(|(_, undo)| !self.is_idle(undo))
            .collect();
    }

    fn is_idle(&self, undo: &Undo) -> bool {
        let is_there = |group: &str, plural: &str, key: &str| {
            let found = self.object(group, plural, key);
            found.is_some_and(|object| !object.is_deleting)
        };
        let is_whole = |plural: &str, key: &str| is_there("cluster.open-cluster-management.io", plural, key);
        match undo {
            Undo::Recreate(name) => is_whole("managedclustersupgrades", &format!("{TEAM}/{name}")),
            Undo::Attach(name) => is_whole("managedclusters", name),
            Undo::Rejoin(name) => is_whole("managedclusters", name) && is_there("", "namespaces", name),
            Undo::Bind => is_whole("managedclustersetbindings", &format!("{TEAM}/{SET}")),
            _ => false,
        }
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
            Undo::Rejoin(name) => self.rejoin(&name, second).await?,
            Undo::Return(name) => self.available(&name, true).await?,
            Undo::Decide => self.decide(None).await?,
            Undo::Bind if self.is_idle(&Undo::Bind) => {}
            Undo::Bind => make_binding(&self.admin).await?,
            Undo::Claim => {
                self.claim().await?;
            }
            Undo::LetGo(path) => self.let_go(&path).await?,
            Undo::OmitHub(name) => self.select_hub(name, false).await?,
            Undo::TakeUp(name) => self.leave_out(name, None).await?,
            Undo::Window(name) => self.set_windows(name).await?,
            Undo::Calm(name) => {
                self.agents.set_faults(&name, spoke_sim::Faults::default());
            }
            site @ (Undo::Offer(_) | Undo::Steady(_) | Undo::Resume(_)) => self.undo_site(&site),
        }
        Ok(())
    }

    fn strikes(&self, fault: Fault, name: &str, second: u64) -> bool {
        let strikes = self.network.strikes(fault, name, second);
        if strikes {
            self.network.tell(&format!("{} {name}", fault.as_str()));
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
