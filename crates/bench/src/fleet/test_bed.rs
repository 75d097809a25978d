//! A hub with the product installed and a fleet, as the benches need it, and what they read of processes and objects.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use e2e::audit::{AuditLog, Request, measures};
use e2e::testbed::{self, AGENTS_USER, CONTROLLER_USER};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::json;
use testenv::process::tail;
use testenv::{Controllers, FleetSpec, Hub, fleet, hub::wait_until};

use super::{FleetArgs, NAMESPACE, SET};

/// How long a controller that has nothing to do may take to become quiet.
const SETTLE_TIMEOUT: Duration = Duration::from_mins(1);
/// A controller is quiet if it has sent no request for this long.
const QUIET: Duration = Duration::from_secs(4);
/// Longest time until the API server has its caches.
const CACHE_TIMEOUT: Duration = Duration::from_secs(30);

/// A line of progress.
pub fn note(line: &str) {
    eprintln!("bench: {line}");
}

/// A hub with the product installed and a fleet, and its audit log.
pub struct TestBed {
    pub hub: Hub,
    pub log: AuditLog,
}

impl TestBed {
    /// Starts and fills a hub.
    pub async fn prepare(args: &FleetArgs) -> Result<Self> {
        let builder = Hub::builder()
            .controller_manager(Controllers::collectors())
            .ocm_crds()
            .audit();
        let hub = testbed::with_agents(builder).start().await?;
        testbed::deploy(&hub).await?;
        note(&format!("creating {} clusters", args.clusters));
        let fleet = FleetSpec::numbered("spoke", args.clusters)
            .in_set(SET)
            .bound_in(NAMESPACE);
        fleet::create(hub.client(), &fleet).await?;
        // A fleet is there long before its upgrade. The API server would keep the events of its making in memory, and look
        // through them whenever it collects its garbage.
        hub.restart_apiserver().await?;
        warm(&hub).await?;
        let path = hub.audit_log().context("the hub has no audit log")?;
        let mut log = AuditLog::new(path, &[CONTROLLER_USER, AGENTS_USER]);
        log.skip()?;
        Ok(Self { hub, log })
    }

    /// A client of the controller's account.
    pub async fn controller_client(&self) -> Result<Client> {
        let account = self
            .hub
            .service_account_kubeconfig("mcu-system", "mcu-controller")
            .await?;
        account.client().await
    }

    pub fn upgrades(&self) -> Api<DynamicObject> {
        testbed::upgrades(&self.hub, NAMESPACE)
    }

    /// Creates the upgrade.
    pub async fn create(&self, args: &FleetArgs, name: &str) -> Result<DynamicObject> {
        testbed::create_upgrade(&self.hub, NAMESPACE, name, &args.spec()).await
    }

    /// Resumes a paused upgrade.
    pub async fn resume(&self, name: &str) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"paused": false}}));
        let patched = self.upgrades().patch(name, &PatchParams::default(), &patch).await;
        patched.map(drop).context("the upgrade cannot be resumed")
    }

    /// Reads the upgrade; `None` when it is gone.
    pub async fn read(&self, name: &str) -> Result<Option<DynamicObject>> {
        Ok(self.upgrades().get_opt(name).await?)
    }

    /// Deletes the upgrade; the controller removes its works.
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.upgrades()
            .delete(name, &kube::api::DeleteParams::default())
            .await?;
        Ok(())
    }

    /// The end of a process's log, for errors.
    pub fn log_of(&self, process: &str) -> String {
        tail(&self.hub.dir().join(format!("{process}.log")), 15)
    }

    /// Stops the hub; its audit log is kept if that was requested.
    pub async fn close(self, args: &FleetArgs) -> Result<()> {
        if let (Some(keep), Some(log)) = (&args.keep_audit, self.hub.audit_log()) {
            std::fs::copy(log, keep).with_context(|| format!("cannot write {}", keep.display()))?;
        }
        self.hub.stop().await
    }

    /// Waits until the controller has been quiet for a while; returns its requests until then.
    pub async fn settle(&mut self) -> Result<Vec<Request>> {
        let mut all = Vec::new();
        let (started, mut last) = (Instant::now(), Instant::now());
        while last.elapsed() < QUIET {
            if started.elapsed() > SETTLE_TIMEOUT {
                note("the controller does not become quiet");
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            let new = self.log.read()?;
            if measures::beyond_lease(&new) > 0 {
                last = Instant::now();
            }
            all.extend(new);
        }
        Ok(all)
    }

    /// Watches a controller that has nothing to do; requests beyond Lease and watches, per minute.
    pub async fn idle(&mut self, seconds: u32) -> Result<f64> {
        if seconds == 0 {
            return Ok(0.0);
        }
        note(&format!("watching {seconds} s of idleness"));
        self.log.read()?;
        tokio::time::sleep(Duration::from_secs(seconds.into())).await;
        let requests = self.log.read()?;
        for count in measures::counts(&requests)
            .iter()
            .filter(|count| count.resource != "leases")
        {
            note(&format!("idle: {count:?}"));
        }
        Ok(measures::float(measures::beyond_lease(&requests)) * 60.0 / f64::from(seconds))
    }
}

/// Waits until the API server serves what the controller watches from its cache, as any hub does that has not just been
/// born: until then it answers 429 or 410, and a watch is tried again a second or two later.
pub async fn warm(hub: &Hub) -> Result<()> {
    let kinds = [
        (api::GROUP, api::VERSION, "ManagedClustersUpgrade"),
        (api::GROUP, api::VERSION, "ManagedClustersUpgradeReport"),
        (api::GROUP, "v1beta1", "Placement"),
        (api::GROUP, "v1beta1", "PlacementDecision"),
        (api::GROUP, "v1beta2", "ManagedClusterSet"),
        (api::GROUP, "v1beta2", "ManagedClusterSetBinding"),
        (api::GROUP, "v1", "ManagedCluster"),
        ("work.open-cluster-management.io", "v1", "ManifestWork"),
    ];
    for (group, version, kind) in kinds {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let objects = Api::<DynamicObject>::all_with(hub.client().clone(), &resource);
        // From the cache, whatever its age: refused while there is none.
        let cached = kube::api::ListParams::default().match_any().limit(1);
        let what = format!("{} are served from the cache", resource.plural);
        wait_until(&what, CACHE_TIMEOUT, || async {
            Ok(objects.list(&cached).await.is_ok())
        })
        .await?;
    }
    Ok(())
}

/// Peak resident memory of a process in MiB; zero where there is no `/proc`.
pub fn peak_rss_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = status.lines().find_map(|line| {
        line.strip_prefix("VmHWM:")?
            .split_whitespace()
            .next()?
            .parse::<f64>()
            .ok()
    });
    kib.unwrap_or_default() / 1024.0
}

/// Size of an object's status as compact JSON.
pub fn status_bytes(object: &DynamicObject) -> usize {
    object
        .data
        .get("status")
        .map_or(0, |status| status.to_string().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_peak() {
        if std::path::Path::new("/proc/self/status").exists() {
            assert!(peak_rss_mib(std::process::id()) > 1.0);
        }
    }
}
