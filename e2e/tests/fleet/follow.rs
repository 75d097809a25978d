//! The ClusterVersion of a cluster as it changes: waiting for a state of it, and the way it took there.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::Utc;
use e2e::dump::conditions;
use futures::StreamExt as _;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource as _};
use serde_json::Value;
use tokio::sync::watch;

/// Changes that are remembered.
const MAX_CHANGES: usize = 60;
/// Pause before another try while the API server is away.
const RETRY: Duration = Duration::from_millis(500);

/// The API of ClusterVersion.
pub fn api(client: Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterVersion");
    Api::all_with(client, &ApiResource::from_gvk(&kind))
}

/// See the module.
pub struct Follow {
    now: watch::Sender<Arc<Value>>,
    changes: Mutex<VecDeque<String>>,
}

impl Follow {
    /// Follows it on the runtime it is called from.
    pub fn start(client: &Client) -> Arc<Self> {
        let follow = Arc::new(Self {
            now: watch::Sender::default(),
            changes: Mutex::default(),
        });
        tokio::spawn(Arc::clone(&follow).run(api(client.clone())));
        follow
    }

    async fn run(self: Arc<Self>, api: Api<DynamicObject>) {
        let mut events = watcher::watcher(api, watcher::Config::default()).boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => {
                    let deleted = object.meta().deletion_timestamp.is_some();
                    let value = serde_json::to_value(object).unwrap_or_default();
                    self.set(if deleted { Value::Null } else { value });
                }
                Ok(Event::Delete(_)) => self.set(Value::Null),
                Ok(Event::Init | Event::InitDone) => {}
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    fn set(&self, version: Value) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let line = brief(&version);
        if changes.back().is_none_or(|last| !last.ends_with(&line)) {
            if changes.len() == MAX_CHANGES {
                changes.pop_front();
            }
            changes.push_back(format!("{} {line}", Utc::now().format("%H:%M:%S%.3f")));
        }
        drop(changes);
        self.now.send_replace(Arc::new(version));
    }

    /// Waits until it is as it should be; nothing when it is not in time.
    pub async fn until(&self, timeout: Duration, holds: impl Fn(&Value) -> bool) -> Option<Arc<Value>> {
        let mut now = self.now.subscribe();
        let waiting = now.wait_for(|version| holds(version));
        let found = tokio::time::timeout(timeout, waiting).await.ok()?.ok()?;
        Some(Arc::clone(&found))
    }

    /// How it is, without the lists of updates, and how it came to that.
    pub fn told(&self) -> String {
        let mut version = Value::clone(&self.now.borrow());
        for list in ["availableUpdates", "conditionalUpdates"] {
            if let Some(updates) = version["status"][list].as_array() {
                version["status"][list] = format!("{} updates", updates.len()).into();
            }
        }
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let changes: Vec<&str> = changes.iter().map(String::as_str).collect();
        format!(
            "spec {}\nstatus {:#}\nchanges:\n{}",
            version["spec"],
            version["status"],
            changes.join("\n")
        )
    }
}

/// One line: the request, what runs, and the conditions.
fn brief(version: &Value) -> String {
    if version.is_null() {
        return "there is none".to_owned();
    }
    let entry = &version["status"]["history"][0];
    format!(
        "generation {} wants {} is {} {} {}",
        version["metadata"]["generation"],
        version["spec"]["desiredUpdate"],
        entry["version"],
        entry["state"],
        conditions(&version["status"])
    )
}
