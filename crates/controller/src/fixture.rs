//! Objects as the hub would show them, and parts of the hall, for unit tests.

use std::sync::Arc;
use std::time::Instant;

use api::names::{FINALIZER, Step};
use api::views::{ManagedCluster, ManifestWork, Upgrade};
use chrono::TimeDelta;
use rollout::{ClusterState, Plan, Record};
use serde_json::{Value, json};

use crate::desk::Desk;
use crate::hall::{Hall, Settings};
use crate::index::{Change, Index};
use crate::lease;
use crate::observe::Desks;
use crate::policy;
use crate::telemetry::health::Readiness;
use crate::telemetry::metrics::Metrics;
use crate::works::WorkFlags;

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

    /// Its desk, the spec checked and the selection made without borders.
    pub(crate) fn desk(&self, index: &Index) -> Desk {
        let view = Arc::new(self.view());
        let mut desk = Desk::new(Arc::clone(&view)).unwrap();
        let brief = policy::brief(&view, &WorkFlags::default(), TimeDelta::seconds(30));
        desk.take_spec(brief, false);
        crate::observe::refresh_selection(&mut desk, index, false);
        desk
    }
}

/// Gives a desk the record of a cluster.
pub(crate) fn note(desk: &mut Desk, cluster: &str, record: impl Into<Record>) {
    let plan = Plan {
        clusters: vec![ClusterState {
            name: Arc::from(cluster),
            record: Arc::new(record.into()),
            urgent: false,
            starting: false,
        }],
        ..Plan::default()
    };
    let policy = rollout::testing::policy().build();
    desk.rows.take(&plan, &policy, Instant::now(), |_| (false, false));
}

pub(crate) fn desks(all: impl IntoIterator<Item = Desk>) -> Desks {
    all.into_iter()
        .map(|desk| (Arc::clone(&desk.uid), desk))
        .collect()
}

/// An index with these clusters, accepted and available.
pub(crate) fn index(clusters: &[&str]) -> Index {
    let mut index = Index::default();
    for name in clusters {
        index.cluster(&Change::Applied(cluster(name)));
    }
    index
}

pub(crate) fn cluster(name: &str) -> ManagedCluster {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"hubAcceptsClient": true}})).unwrap()
}

/// A work of the first attempt at revision `r1`.
pub(crate) fn work(cluster: &str, step: Step, upgrade: &str, version: u64) -> ManifestWork {
    serde_json::from_value(json!({
        "metadata": {
            "name": step.work_name(cluster), "namespace": cluster, "uid": format!("{cluster}-{step}-{upgrade}"),
            "resourceVersion": version.to_string(), "generation": 1,
            "labels": {
                "cluster.open-cluster-management.io/managedclustersupgrade-uid": upgrade,
                "cluster.open-cluster-management.io/upgrade-step": step.as_str(),
            },
            "annotations": {
                "cluster.open-cluster-management.io/managedclustersupgrade-owner": format!("ns/{upgrade}"),
                "cluster.open-cluster-management.io/upgrade-revision": "r1",
                "cluster.open-cluster-management.io/upgrade-started-at": "2026-05-28T10:00:00.000Z",
            },
        },
    }))
    .unwrap()
}

/// An operators work whose Job is complete.
pub(crate) fn finished(cluster: &str, upgrade: &str, version: u64) -> ManifestWork {
    let mut work = work(cluster, Step::Operators, upgrade, version);
    work.status = serde_json::from_value(json!({
        "conditions": [{"type": "Applied", "status": "True", "observedGeneration": 1}],
        "resourceStatus": {"manifests": [{
            "resourceMeta": {"ordinal": 4, "group": "batch", "kind": "Job", "resource": "jobs",
                "name": "installplan-approver", "namespace": "installplan-approver"},
            "statusFeedback": {"values": [
                {"name": "succeeded", "fieldValue": {"type": "Integer", "integer": 1}},
                {"name": "jobComplete", "fieldValue": {"type": "String", "string": "True"}},
            ]},
        }]},
    }))
    .unwrap();
    work
}

pub(crate) fn settings() -> Settings {
    Settings {
        works: WorkFlags::default(),
        operators_grace: TimeDelta::seconds(30),
        require_bindings: false,
        allow_hub: false,
        namespaces: Vec::new(),
    }
}

/// A hall that leads, knows these clusters, and has seen all lists.
pub(crate) fn hall(clusters: &[&str]) -> Hall {
    let hall = Hall::new(
        settings(),
        lease::Handle::always().fence(),
        Arc::new(Metrics::new()),
        &Readiness::new(),
    );
    hall.with(|state| {
        state.owns_records = true;
        for name in clusters {
            state.index.cluster(&Change::Applied(cluster(name)));
        }
    });
    hall
}

/// Puts the records of a desk on the hub.
pub(crate) fn write(desk: &mut Desk) {
    let later = Instant::now() + std::time::Duration::from_mins(1);
    for due in desk.rows.due(later) {
        desk.rows.wrote(due, Some(1), later);
    }
}
