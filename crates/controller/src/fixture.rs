//! Objects as the hub would return them, and a context, for unit tests.

use std::sync::Arc;
use std::time::Instant;

use api::names::FINALIZER;
use api::views::{Report, Upgrade};
use chrono::TimeDelta;
use observe::index::{Change, Index};
pub(crate) use observe::testing::{cluster, finished, index, work};
use resolve::spec;
use resolve::works::WorkFlags;
use rollout::{ClusterState, Plan, Record};
use serde_json::{Value, json};

use crate::graphs::Graphs;
use crate::health::Readiness;
use crate::lease;
use crate::metrics::Metrics;
use crate::report::shard::StoredReport;
use crate::state::context::Context;
use crate::state::settings::Settings;
use crate::state::upgrade::UpgradeEntry;
use crate::state::upgrade::Upgrades;

/// A spec that selects `clusters` by name and asks for a platform upgrade only.
pub(crate) fn spec(clusters: &[&str]) -> Value {
    json!({
        "clusterSelector": {"matchExpressions": [{"key": "name", "operator": "In", "values": clusters}]},
        "clusterVersion": {"channel": "stable-4.12", "version": "4.12.0"},
    })
}

/// An upgrade in namespace `ns`.
pub(crate) struct Given {
    pub(crate) uid: &'static str,
    pub(crate) name: &'static str,
    pub(crate) version: u64,
    pub(crate) created: &'static str,
    pub(crate) spec: Value,
    pub(crate) deleting: bool,
    pub(crate) finalizer: bool,
    pub(crate) retry: Option<String>,
    pub(crate) status: Value,
}

pub(crate) fn upgrade(uid: &'static str, clusters: &[&str]) -> Given {
    Given {
        uid,
        name: uid,
        version: 1,
        created: "2026-05-28T10:00:00Z",
        spec: spec(clusters),
        deleting: false,
        finalizer: true,
        retry: None,
        status: Value::Null,
    }
}

impl Given {
    pub(crate) fn view(&self) -> Upgrade {
        let finalizers: Vec<&str> = self.finalizer.then_some(FINALIZER).into_iter().collect();
        serde_json::from_value(json!({
            "metadata": {
                "name": self.name, "namespace": "ns", "uid": self.uid,
                "resourceVersion": self.version.to_string(), "generation": 1,
                "creationTimestamp": self.created, "finalizers": finalizers,
                "deletionTimestamp": self.deleting.then_some("2026-05-28T20:00:00Z"),
                "annotations": {"cluster.open-cluster-management.io/retry-failed": self.retry.clone().unwrap_or_default()},
            },
            "spec": self.spec,
            "status": self.status,
        }))
        .unwrap()
    }

    /// Its entry, with the spec validated and the selection computed without set bindings.
    pub(crate) fn entry(&self, index: &Index) -> UpgradeEntry {
        let object = Arc::new(self.view());
        let mut entry = UpgradeEntry::new(Arc::clone(&object)).unwrap();
        let spec = spec::resolve_spec(&object, &WorkFlags::default(), TimeDelta::seconds(30));
        entry.set_spec(spec, false);
        entry.refresh_selection(index, false);
        entry
    }
}

/// A cluster of a plan, whose row need not be written at once.
pub(crate) fn state(name: &str, record: impl Into<Record>) -> ClusterState {
    ClusterState {
        name: Arc::from(name),
        record: Arc::new(record.into()),
        urgent: false,
        starting: false,
    }
}

/// A report as the hub holds it.
pub(crate) fn report(name: &str, version: u64, rows: &Value) -> Report {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns", "resourceVersion": version.to_string()},
        "rows": rows,
    }))
    .unwrap()
}

/// Adds the record of a cluster to an entry.
pub(crate) fn note(entry: &mut UpgradeEntry, cluster: &str, record: impl Into<Record>) {
    let plan = Plan {
        clusters: vec![state(cluster, record)],
        ..Plan::default()
    };
    let policy = rollout::testing::policy().build();
    entry
        .rows
        .commit(&plan, &policy, Instant::now(), |_| (false, false));
}

pub(crate) fn upgrades(all: impl IntoIterator<Item = UpgradeEntry>) -> Upgrades {
    all.into_iter()
        .map(|entry| (Arc::clone(&entry.uid), entry))
        .collect()
}

pub(crate) fn settings() -> Settings {
    Settings {
        works: WorkFlags::default(),
        operators_grace: TimeDelta::seconds(30),
        require_bindings: false,
        allow_hub: false,
        agents_can_read: true,
        preflight_rate: 50,
        graphs: Graphs::default(),
        namespaces: Vec::new(),
    }
}

/// The context of a leader that knows these clusters and has received all lists.
pub(crate) fn context(clusters: &[&str]) -> Context {
    let context = Context::new(
        settings(),
        lease::Handle::always().fence(),
        Arc::new(Metrics::new()),
        &Readiness::new(),
        &crate::sources::Sources::system(),
    );
    context.with(|state| {
        state.owns_records = true;
        for name in clusters {
            state.index.cluster(&Change::Applied(cluster(name)));
        }
    });
    context
}

/// Marks the records of an entry as written on the hub.
pub(crate) fn write(entry: &mut UpgradeEntry) {
    let later = Instant::now() + std::time::Duration::from_mins(1);
    for due in entry.rows.due(later) {
        entry.rows.wrote(due, Some(stored(1)), later);
    }
}

/// The result of writing a report.
pub(crate) fn stored(version: u64) -> StoredReport {
    let uid = Arc::from("report-uid");
    StoredReport { uid, version }
}
