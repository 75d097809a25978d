//! What all pages share: the watches, and what they may do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::{Value, json};

use super::feed::{self, Upgrades, Watched};
use super::fleet::Fleet;
use super::message;
use crate::hub::Hub;
use crate::upgrade::Upgrade;

/// What all pages share.
pub struct Dashboard {
    hub: Hub,
    /// The upgrades.
    pub upgrades: Watched<Upgrades>,
    /// The fleets that pages show, by the UID of their upgrade. The watch of a fleet ends with the last page that shows it.
    fleets: Mutex<BTreeMap<String, Weak<Watched<Fleet>>>>,
    allow_actions: bool,
    all_namespaces: bool,
    scope: String,
}

impl Dashboard {
    /// Begins to watch the upgrades of the hub's namespace, or of all namespaces.
    #[must_use]
    pub fn new(hub: Hub, all_namespaces: bool, allow_actions: bool) -> Dashboard {
        let scope = if all_namespaces {
            "all namespaces".to_owned()
        } else {
            format!("namespace {}", hub.namespace())
        };
        Dashboard {
            upgrades: feed::upgrades(&hub, all_namespaces),
            hub,
            fleets: Mutex::default(),
            allow_actions,
            all_namespaces,
            scope,
        }
    }

    /// The fleet of an upgrade. It is watched as long as somebody keeps it.
    #[must_use]
    pub fn fleet(&self, upgrade: &Upgrade) -> Arc<Watched<Fleet>> {
        let mut fleets = self.fleets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = fleets.get(&upgrade.uid).and_then(Weak::upgrade) {
            return known;
        }
        fleets.retain(|_, fleet| fleet.strong_count() > 0);
        let fleet = Arc::new(feed::fleet(&self.hub, upgrade));
        fleets.insert(upgrade.uid.clone(), Arc::downgrade(&fleet));
        fleet
    }

    /// The hub.
    #[must_use]
    pub const fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Whether pages may change upgrades.
    #[must_use]
    pub const fn allow_actions(&self) -> bool {
        self.allow_actions
    }

    /// Whether pages show the upgrades of a namespace.
    #[must_use]
    pub fn shows(&self, namespace: &str) -> bool {
        self.all_namespaces || namespace == self.hub.namespace()
    }

    /// The first message to a page.
    #[must_use]
    pub fn hello(&self) -> Value {
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "scope": message::text(&self.scope, 512),
            "allowActions": self.allow_actions,
        })
    }
}
