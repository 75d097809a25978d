//! The two watches of the dashboard: one of the upgrades, for as long as it runs, and one of the reports of each upgrade that a
//! page shows. All pages share them, so the hub is watched once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::ManagedClustersUpgrade;
use futures::{Stream, StreamExt};
use kube::api::{ApiResource, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::fleet::Fleet;
use super::report::Report;
use crate::failure::Failure;
use crate::hub::answers::Answers;
use crate::hub::{Hub, RENEWAL};
use crate::object::Object;
use crate::rows;
use crate::upgrade::{self, Upgrade};

/// Objects in a page of a list. An upgrade may have a megabyte, and a report of 250 rows about 200 KB.
const UPGRADES_PER_PAGE: u32 = 20;
const REPORTS_PER_PAGE: u32 = 10;

/// Namespace and name of an upgrade.
pub type Key = (String, String);

/// A value that a task keeps up to date. The task ends when the value is dropped.
#[derive(Debug)]
pub struct Watched<T> {
    shared: Arc<Shared<T>>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared<T> {
    value: Mutex<T>,
    /// Why the hub cannot be watched; empty if it can.
    trouble: watch::Sender<String>,
    changes: watch::Sender<u64>,
}

impl<T> Drop for Watched<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T> Watched<T> {
    /// The value.
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.shared.lock())
    }

    /// Tells of every change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Why the hub cannot be watched; empty if it can.
    #[must_use]
    pub fn trouble(&self) -> String {
        self.shared.trouble.borrow().clone()
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The upgrades that the dashboard shows.
#[derive(Debug, Default)]
pub struct Upgrades {
    all: BTreeMap<Key, Upgrade>,
    /// Those of a list that has begun and has not ended.
    listed: Option<BTreeMap<Key, Upgrade>>,
    /// True once all were listed.
    pub is_complete: bool,
}

impl Upgrades {
    /// The upgrade of this namespace and name.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Upgrade> {
        self.all.get(key)
    }

    /// All of them, ordered by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Upgrade> {
        self.all.values()
    }

    fn handle(&mut self, event: watcher::Event<Object>) {
        let read = |object: Object| {
            let upgrade = without_bulk(Upgrade::read(object.into_value()));
            ((upgrade.namespace.clone(), upgrade.name.clone()), upgrade)
        };
        match event {
            watcher::Event::Init => self.listed = Some(BTreeMap::new()),
            watcher::Event::InitApply(object) => {
                self.listed.get_or_insert_default().extend([read(object)]);
            }
            watcher::Event::InitDone => {
                self.all = self.listed.take().unwrap_or_default();
                self.is_complete = true;
            }
            watcher::Event::Apply(object) => self.all.extend([read(object)]),
            watcher::Event::Delete(object) => {
                self.all.remove(&read(object).0);
            }
        }
    }
}

/// Keeps only what the dashboard reads of the spec, because its actions may have a megabyte: the version, the clusters that are left
/// out, the retries, and how many clusters may fail.
fn without_bulk(mut upgrade: Upgrade) -> Upgrade {
    let object = std::mem::take(&mut upgrade.object);
    let kept = |pointer: &str| object.pointer(pointer).cloned().unwrap_or(Value::Null);
    upgrade.object = json!({"spec": {
        "clusterVersion": kept("/spec/clusterVersion"),
        "upgradeStrategy": {
            "skip": kept("/spec/upgradeStrategy/skip"),
            "abort": kept("/spec/upgradeStrategy/abort"),
            "retry": kept("/spec/upgradeStrategy/retry"),
            "maxFailures": kept("/spec/upgradeStrategy/maxFailures"),
        },
    }});
    upgrade
}

/// Asks for one upgrade, so that a missing right or definition is known before anything is watched.
///
/// # Errors
/// The hub rejects the request.
pub async fn probe(hub: &Hub, all_namespaces: bool) -> Result<(), Failure> {
    let params = ListParams::default().limit(1);
    let api = api_of_upgrades(hub, hub.connection().client().clone(), all_namespaces);
    let list = hub.connection().bound(api.list(&params), upgrade::PLURAL);
    list.await.map(drop)
}

/// Watches the upgrades of the hub's namespace, or of all namespaces.
#[must_use]
pub fn upgrades(hub: &Hub, all_namespaces: bool) -> Watched<Upgrades> {
    let config = watcher::Config::default()
        .page_size(UPGRADES_PER_PAGE)
        .timeout(RENEWAL);
    let (client, answers) = Answers::of(hub.connection().client());
    follow(
        watcher(api_of_upgrades(hub, client, all_namespaces), config),
        Upgrades::handle,
        answers,
    )
}

fn api_of_upgrades(hub: &Hub, client: Client, all_namespaces: bool) -> Api<Object> {
    let resource = ApiResource::erase::<ManagedClustersUpgrade>(&());
    if all_namespaces {
        Api::all_with(client, &resource)
    } else {
        Api::namespaced_with(client, hub.namespace(), &resource)
    }
}

/// Watches the reports of an upgrade.
#[must_use]
pub fn fleet(hub: &Hub, upgrade: &Upgrade) -> Watched<Fleet> {
    let (client, answers) = Answers::of(hub.connection().client());
    let api: Api<Report> = Api::namespaced(client, &upgrade.namespace);
    let config = watcher::Config::default()
        .labels(&rows::selector(&upgrade.name))
        .page_size(REPORTS_PER_PAGE)
        .timeout(RENEWAL);
    let uid = upgrade.uid.clone();
    follow(
        watcher(api, config),
        move |fleet: &mut Fleet, event| match event {
            watcher::Event::Init => fleet.begin_list(),
            watcher::Event::InitApply(report) | watcher::Event::Apply(report)
                if !report.is_owned_by(&uid) => {}
            watcher::Event::InitApply(report) | watcher::Event::Apply(report) => {
                let name = report.name().to_owned();
                fleet.apply(&name, report.rows);
            }
            watcher::Event::InitDone => fleet.end_list(),
            watcher::Event::Delete(report) => fleet.remove(report.name()),
        },
        answers,
    )
}

/// Applies every event of a watch to a value. A lost connection is restored, with backoff; the answers tell when it is.
fn follow<T, K, S, H>(events: S, mut handle: H, mut answers: Answers) -> Watched<T>
where
    T: Default + Send + 'static,
    K: Send,
    S: Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
    H: FnMut(&mut T, watcher::Event<K>) + Send + 'static,
{
    let shared = Arc::new(Shared {
        value: Mutex::new(T::default()),
        trouble: watch::Sender::default(),
        changes: watch::Sender::default(),
    });
    let target = Arc::clone(&shared);
    let task = tokio::spawn(async move {
        let mut events = std::pin::pin!(events.default_backoff());
        let mut is_in_trouble = false;
        loop {
            let trouble = tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => {
                        handle(&mut target.lock(), event);
                        String::new()
                    }
                    Some(Err(error)) => {
                        answers.forget();
                        error.to_string()
                    }
                    None => break,
                },
                // The watch is restored, also if nothing has changed.
                () = answers.next(), if is_in_trouble => String::new(),
            };
            is_in_trouble = !trouble.is_empty();
            target.trouble.send_replace(trouble);
            target.changes.send_modify(|change| *change += 1);
        }
    });
    Watched { shared, task }
}

#[cfg(test)]
mod tests;
