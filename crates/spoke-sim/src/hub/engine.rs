//! The main loop: it processes watch events and timers, and starts writes.

use std::collections::HashSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::agents_state::Shared;
use super::view::{ClusterView, WorkView};
use super::work_state::Write;
use super::write;

/// Capacity of the queue between a watch and the loop.
const BACKLOG: usize = 1024;

/// Runs the agents until they are stopped.
pub(super) async fn run(client: Client, shared: Arc<Shared>) {
    let (selector, concurrency) = {
        let clusters = shared.clusters.lock();
        (
            clusters.options.work_selector.clone(),
            clusters.options.concurrency.max(1),
        )
    };
    let mut tasks = JoinSet::new();
    let mut clusters = watch::<ClusterView>(&mut tasks, Api::all(client.clone()), watcher::Config::default());
    let mut engine = Engine {
        client: client.clone(),
        shared: Arc::clone(&shared),
        writes: JoinSet::new(),
        concurrency,
        listed: HashSet::new(),
        relisting: Vec::new(),
    };
    // Clusters come first, because their labels and order decide which faults they get.
    while let Some(event) = tokio::select! {
        biased;
        event = clusters.recv() => event,
        () = shared.stop.cancelled() => return,
    } {
        if engine.cluster(event) {
            break;
        }
    }
    let config = watcher::Config::default();
    let config = if selector.is_empty() {
        config
    } else {
        config.labels(&selector)
    };
    let mut works = watch::<WorkView>(&mut tasks, Api::all(client), config);
    engine.serve(&mut clusters, &mut works).await;
}

/// Runs a watch in a separate task, so that parsing does not delay the loop.
fn watch<K>(
    tasks: &mut JoinSet<()>,
    api: Api<K>,
    config: watcher::Config,
) -> mpsc::Receiver<Result<Event<K>, watcher::Error>>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static,
{
    let (sender, receiver) = mpsc::channel(BACKLOG);
    tasks.spawn(async move {
        let mut stream = std::pin::pin!(watcher(api, config).default_backoff());
        while let Some(event) = stream.next().await {
            if sender.send(event).await.is_err() {
                return;
            }
        }
    });
    receiver
}

struct Engine {
    client: Client,
    shared: Arc<Shared>,
    writes: JoinSet<(Write, Result<WorkView, u16>)>,
    concurrency: usize,
    /// Works of the list that is being read.
    listed: HashSet<(String, String)>,
    /// Clusters of the list that is being read.
    relisting: Vec<ClusterView>,
}

type Receiver<K> = mpsc::Receiver<Result<Event<K>, watcher::Error>>;

impl Engine {
    async fn serve(&mut self, clusters: &mut Receiver<ClusterView>, works: &mut Receiver<WorkView>) {
        loop {
            self.dispatch();
            let next = self.shared.clusters.lock().next();
            let timer = async {
                match next {
                    Some(at) => {
                        tokio::time::sleep((at - self.shared.now()).to_std().unwrap_or_default()).await;
                    }
                    None => pending().await,
                }
            };
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => break,
                Some(event) = works.recv() => self.work(event),
                Some(event) = clusters.recv() => { self.cluster(event); }
                Some(done) = self.writes.join_next() => self.written(done),
                () = self.shared.notify.notified() => {}
                () = timer => self.shared.clusters.lock().run_due(shared.now()),
            }
        }
        // Running writes are finished.
        while let Some(done) = self.writes.join_next().await {
            self.written(done);
        }
    }

    /// Starts as many writes as the concurrency allows.
    fn dispatch(&mut self) {
        while self.writes.len() < self.concurrency {
            let Some(write) = self.shared.clusters.lock().next_write() else {
                break;
            };
            let client = self.client.clone();
            self.writes.spawn(async move {
                let result = write::execute(&client, &write).await;
                (write, result)
            });
        }
        while let Some((cluster, available)) = self.shared.clusters.lock().next_signal() {
            let (client, now) = (self.client.clone(), self.shared.now());
            tokio::spawn(async move {
                if let Err(error) = write::signal(&client, &cluster, available, now).await {
                    tracing::warn!(%cluster, %error, "the availability of a ManagedCluster could not be set");
                }
            });
        }
    }

    fn written(&mut self, done: Result<(Write, Result<WorkView, u16>), tokio::task::JoinError>) {
        if let Ok((write, result)) = done {
            self.shared
                .clusters
                .lock()
                .written(&write, result, self.shared.now());
        }
    }

    /// Returns whether the first list is complete or failed.
    fn cluster(&mut self, event: Result<Event<ClusterView>, watcher::Error>) -> bool {
        let now = self.shared.now();
        let mut clusters = self.shared.clusters.lock();
        match event {
            Ok(Event::Init) => self.relisting.clear(),
            Ok(Event::InitApply(view)) => self.relisting.push(view),
            Ok(Event::InitDone) => {
                self.relisting
                    .sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
                for view in self.relisting.drain(..) {
                    clusters.observe_cluster(&view, now);
                }
                return true;
            }
            Ok(Event::Apply(view)) => clusters.observe_cluster(&view, now),
            Ok(Event::Delete(view)) => {
                clusters.forget_cluster(view.metadata.name.as_deref().unwrap_or_default());
            }
            Err(error) => {
                tracing::warn!(%error, "watching ManagedClusters failed");
                return true;
            }
        }
        false
    }

    fn work(&mut self, event: Result<Event<WorkView>, watcher::Error>) {
        let id = |view: &WorkView| {
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            (part(&view.metadata.namespace), part(&view.metadata.name))
        };
        let now = self.shared.now();
        let mut clusters = self.shared.clusters.lock();
        match event {
            Ok(Event::Init) => self.listed.clear(),
            Ok(Event::InitApply(view)) => {
                self.listed.insert(id(&view));
                clusters.observe_work(&view, now);
            }
            Ok(Event::InitDone) => {
                let listed = std::mem::take(&mut self.listed);
                clusters.retain_works(|ns, name| listed.contains(&(ns.to_owned(), name.to_owned())), now);
                drop(clusters);
                self.shared.listed.store(true, Ordering::Release);
                self.shared.listed_notify.notify_waiters();
            }
            Ok(Event::Apply(view)) => clusters.observe_work(&view, now),
            Ok(Event::Delete(view)) => {
                let (namespace, name) = id(&view);
                clusters.forget_work(&namespace, &name, now);
            }
            Err(error) => tracing::warn!(%error, "watching ManifestWorks failed"),
        }
    }
}
