//! The interface for programs: starts agents, reads and changes their clusters, sets and clears faults.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Client;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::agents_state::{Locked, Shared};
use super::clusters::{Clusters, Stats};
use super::engine;
use super::options::{Clock, Filter, Options};
use super::serve;
use crate::fault::{Fault, Faults};
use crate::feedback::RawJson;
use crate::fields::Time;
use crate::platform::Pace;
use crate::scenario::Scenario;
use crate::store::{ApiError, ObjectKey};

/// The agents cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address of the metrics cannot be bound.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
}

/// Starts [`Agents`]. See [`Options`] for the meaning of the settings.
pub struct Builder {
    client: Client,
    options: Options,
    listen: Option<SocketAddr>,
}

impl Builder {
    /// Simulates only clusters whose name matches one of the patterns (`*` matches any characters).
    #[must_use]
    pub fn clusters(mut self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.options.clusters = Filter::new(patterns);
        self
    }

    /// The number of seconds from the creation of a work to its final feedback, with one Partial half-way. With zero the agents do
    /// nothing.
    #[must_use]
    pub fn agent_seconds(mut self, seconds: f64) -> Self {
        self.options.silent = seconds <= 0.0;
        self.options.pace = Pace::exact(Duration::from_secs_f64(seconds.max(0.0)));
        self
    }

    /// Real durations times `scale`, where an update really takes `update`.
    #[must_use]
    pub fn time_scale(mut self, scale: f64, update: Duration) -> Self {
        self.options.pace = Pace::scaled(scale, update);
        self
    }

    /// How long things take.
    #[must_use]
    pub fn pace(mut self, pace: Pace) -> Self {
        self.options.pace = pace;
        self
    }

    /// Faults and installed versions.
    #[must_use]
    pub fn scenario(mut self, scenario: Scenario) -> Self {
        self.options.scenario = scenario;
        self
    }

    /// Replaces the wall clock, for simulations.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        self.options.clock = Clock(Arc::new(clock));
        self
    }

    /// Seed of all random numbers.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// Interval of polled feedback, times 1 to 1.9. Zero, the default, reports changes at once.
    #[must_use]
    pub fn status_sync_interval(mut self, interval: Duration) -> Self {
        self.options.status_sync_interval = interval;
        self
    }

    /// Only works that match this label selector.
    #[must_use]
    pub fn work_selector(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.options.work_selector);
        self
    }

    /// Turns the agents' feature gate `RawFeedbackJsonString` on.
    #[must_use]
    pub fn raw_json(mut self, max_length: usize) -> Self {
        self.options.raw_json = Some(RawJson { max_length });
        self
    }

    /// Maximum number of concurrent writes to the hub (48).
    #[must_use]
    pub fn concurrency(mut self, writes: usize) -> Self {
        self.options.concurrency = writes;
        self
    }

    /// Stops the clusters' controllers, to test the agents alone.
    #[must_use]
    pub fn still(mut self) -> Self {
        self.options.still = true;
        self
    }

    /// Sets Available=Unknown on ManagedClusters while their agent is away, and True afterwards.
    #[must_use]
    pub fn heartbeat(mut self, on: bool) -> Self {
        self.options.heartbeat = on;
        self
    }

    /// Serves `/metrics` and `/healthz` at this address.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// Starts the agents.
    ///
    /// # Errors
    /// The metrics address cannot be bound.
    pub async fn start(self) -> Result<Agents, StartError> {
        let mut options = self.options;
        let mut jobs = options.scenario.job_rules();
        jobs.append(&mut options.pace.jobs);
        options.pace.jobs = jobs;
        let silent = options.silent;
        let shared = Arc::new(Shared {
            clock: options.clock.clone(),
            clusters: Locked(Mutex::new(Clusters::new(options))),
            notify: Notify::new(),
            stop: CancellationToken::new(),
            listed: AtomicBool::new(silent),
            listed_notify: Notify::new(),
        });
        let mut tasks = Vec::new();
        if let Some(address) = self.listen {
            let listener = tokio::net::TcpListener::bind(address)
                .await
                .map_err(|source| StartError::Listen { address, source })?;
            tasks.push(tokio::spawn(serve::run(listener, Arc::clone(&shared))));
        }
        if !silent {
            tasks.push(tokio::spawn(engine::run(self.client, Arc::clone(&shared))));
        }
        Ok(Agents { shared, tasks })
    }
}

/// The running agents. Dropping stops them without waiting, [`Agents::stop`] waits.
pub struct Agents {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

impl Agents {
    /// Settings for agents that use this client. A rustls provider must be installed before the client is created.
    #[must_use]
    pub fn builder(client: Client) -> Builder {
        Builder {
            client,
            options: Options::default(),
            listen: None,
        }
    }

    /// Waits until all existing works were seen.
    pub async fn ready(&self) {
        loop {
            let rung = self.shared.listed_notify.notified();
            if self.shared.listed.load(Ordering::Acquire) {
                return;
            }
            rung.await;
        }
    }

    /// Replaces the faults of a cluster by one. Returns false if the cluster is not simulated.
    #[must_use]
    pub fn set_fault(&self, cluster: &str, fault: Fault) -> bool {
        self.set_faults(cluster, fault)
    }

    /// Replaces the faults of a cluster. Returns false if the cluster is not simulated.
    pub fn set_faults(&self, cluster: &str, faults: impl Into<Faults>) -> bool {
        let played = self
            .shared
            .clusters
            .lock()
            .set_faults(cluster, faults.into(), self.shared.now());
        self.shared.notify.notify_one();
        played
    }

    /// Removes all faults of a cluster. Returns false if the cluster is not simulated.
    #[must_use]
    pub fn clear_fault(&self, cluster: &str) -> bool {
        self.set_faults(cluster, Faults::default())
    }

    /// Takes whatever the hub delivers next for the present state of a work, even if it has an older resourceVersion: the
    /// storage of the hub went back.
    pub fn forget_versions(&self) {
        self.shared.clusters.lock().forget_versions();
    }

    /// The faults of a cluster.
    #[must_use]
    pub fn faults(&self, cluster: &str) -> Option<Faults> {
        self.shared
            .clusters
            .lock()
            .cluster(cluster)
            .map(|cluster| cluster.faults.clone())
    }

    /// Names of the simulated clusters, sorted.
    #[must_use]
    pub fn clusters(&self) -> Vec<String> {
        self.shared.clusters.lock().names()
    }

    /// An object of a simulated cluster. `resource` is `plural.group`, for example `jobs.batch` or `namespaces`;
    /// `namespace` is empty for cluster-scoped objects.
    #[must_use]
    pub fn object(&self, cluster: &str, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = ObjectKey::parse(resource, namespace, name);
        self.shared.clusters.lock().cluster(cluster)?.store.get(&key)
    }

    /// The number of writes to the objects of a simulated cluster. While it stays, nothing in the cluster changes.
    #[must_use]
    pub fn revision(&self, cluster: &str) -> Option<u64> {
        let clusters = self.shared.clusters.lock();
        Some(clusters.cluster(cluster)?.store.revision())
    }

    /// The ClusterVersion of a simulated cluster.
    #[must_use]
    pub fn cluster_version(&self, cluster: &str) -> Option<Value> {
        self.object(cluster, "clusterversions.config.openshift.io", "", "version")
    }

    /// Changes an object as a user of the simulated cluster with this field manager, for example `oc` for `oc adm upgrade`.
    /// Returns the changed object.
    ///
    /// # Errors
    /// The cluster is not simulated, or its API server refuses the change.
    pub fn edit_object(
        &self,
        cluster: &str,
        (resource, namespace, name): (&str, &str, &str),
        manager: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Value, ApiError> {
        let key = ObjectKey::parse(resource, namespace, name);
        let mut clusters = self.shared.clusters.lock();
        let found = clusters
            .cluster_mut(cluster)
            .ok_or_else(|| ApiError::not_found(&key))?;
        let object = found.edit(&key, manager, change)?;
        clusters.touch(cluster, self.shared.now());
        drop(clusters);
        self.shared.notify.notify_one();
        Ok(object)
    }

    /// Creates or replaces an object of a simulated cluster together with its status, as a user and the cluster's controllers
    /// together would.
    ///
    /// # Errors
    /// The cluster is not simulated or does not serve the kind, or its API server refuses the object.
    pub fn place(&self, cluster: &str, manager: &str, object: &Value) -> Result<Value, ApiError> {
        let mut clusters = self.shared.clusters.lock();
        let found = clusters
            .cluster_mut(cluster)
            .ok_or_else(|| ApiError::NotFound(format!("cluster \"{cluster}\" is not simulated")))?;
        let placed = found.place(manager, object, self.shared.now())?;
        clusters.touch(cluster, self.shared.now());
        drop(clusters);
        self.shared.notify.notify_one();
        Ok(placed)
    }

    /// Deletes an object of a simulated cluster. Returns false if it does not exist.
    #[must_use]
    pub fn delete_object(&self, cluster: &str, resource: &str, namespace: &str, name: &str) -> bool {
        let key = ObjectKey::parse(resource, namespace, name);
        let mut clusters = self.shared.clusters.lock();
        let Some(found) = clusters.cluster_mut(cluster) else {
            return false;
        };
        let existed = found.store.revision_of(&key).is_some();
        found.store.delete(&key, self.shared.now());
        clusters.touch(cluster, self.shared.now());
        drop(clusters);
        self.shared.notify.notify_one();
        existed
    }

    /// Counters since the start.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.clusters.lock().stats
    }

    /// Stops the agents and waits for running writes.
    pub async fn stop(mut self) {
        self.shared.stop.cancel();
        for task in std::mem::take(&mut self.tasks) {
            // A task that panicked has nothing left to finish.
            let _ = task.await;
        }
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}
