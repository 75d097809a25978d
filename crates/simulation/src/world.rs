//! The hub of a run with its clusters, their agents and the upgrades.

use std::time::Duration;

use anyhow::Result;
use kube::Client;
use serde_json::{Value, json};
use spoke_sim::{Agents, Pace, Scenario};

use crate::admin::{Admin, CLUSTERS, bindings_of, decisions_of, managed_cluster};
use crate::names::{HUB, NAMESPACE, OUTSIDER, PLACEMENT, RIVAL, SET, STRANGERS, TEAM};
use crate::options::{Options, Preflight};
use crate::time::VirtualClock;

/// A set that is not bound.
const OTHER_SET: &str = "others";
/// The version that all clusters run at first, and the one if the update has a gate.
const INSTALLED: &str = "4.14.9";
const INSTALLED_BEFORE_GATE: &str = "4.13.9";
/// The gate of the update.
pub const GATE: &str = "ack-4.13-kube-1.27-api-removals-in-4.14";
/// The risks of updates.
pub const RISKS: [&str; 2] = ["SlowDisk", "SlowNetwork"];
/// The channel of the upgrade.
pub const CHANNEL: &str = "stable-4.14";

/// The version that all clusters run at first.
#[must_use]
pub const fn installed(options: &Options) -> &'static str {
    if options.gates {
        INSTALLED_BEFORE_GATE
    } else {
        INSTALLED
    }
}

/// The name of a cluster.
#[must_use]
pub fn cluster(number: u64) -> String {
    format!("c{number:02}")
}

/// The names of all clusters of the fleet.
#[must_use]
pub fn fleet(options: &Options) -> Vec<String> {
    (0..options.clusters).map(cluster).collect()
}

/// Makes the fleet: namespaces, sets, bindings, Placement and clusters.
///
/// # Errors
/// The hub refuses an object.
pub async fn make_fleet(admin: &Admin, options: &Options) -> Result<()> {
    for name in [NAMESPACE, TEAM, STRANGERS] {
        make_namespace(admin, name).await?;
    }
    for set in [SET, OTHER_SET] {
        let object = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSet", "metadata": {"name": set},
        });
        admin
            .create(&format!("{CLUSTERS}/v1beta2/managedclustersets"), &object)
            .await?;
    }
    make_binding(admin).await?;
    for name in fleet(options) {
        make_namespace(admin, &name).await?;
        make_cluster(admin, &name, SET, installed(options)).await?;
    }
    make_namespace(admin, OUTSIDER).await?;
    make_cluster(admin, OUTSIDER, OTHER_SET, INSTALLED).await?;
    if options.placement {
        make_placement(admin, options).await?;
    }
    Ok(())
}

/// Binds the set of the fleet in the namespace of the upgrades.
///
/// # Errors
/// The hub refuses it.
pub async fn make_binding(admin: &Admin) -> Result<()> {
    let binding = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
        "metadata": {"name": SET, "namespace": TEAM}, "spec": {"clusterSet": SET},
        "status": {"conditions": [condition("Bound", true)]},
    });
    admin.create_with_status(&bindings_of(TEAM), &binding).await
}

/// Creates a namespace.
///
/// # Errors
/// The hub refuses it.
pub async fn make_namespace(admin: &Admin, name: &str) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    admin.create("/api/v1/namespaces", &object).await?;
    Ok(())
}

/// Creates a cluster of a set, which runs a version.
///
/// # Errors
/// The hub refuses it.
pub async fn make_cluster(admin: &Admin, name: &str, set: &str, version: &str) -> Result<()> {
    let number: u64 = name.trim_start_matches(['c', 'x']).parse().unwrap_or_default();
    let id = id(number);
    let conditions = [
        condition("HubAcceptedManagedCluster", true),
        condition("ManagedClusterJoined", true),
        condition("ManagedClusterConditionAvailable", true),
    ];
    let object = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": name, "labels": {"name": name, "cluster.open-cluster-management.io/clusterset": set}},
        "spec": {"hubAcceptsClient": true},
        "status": {"clusterClaims": claims(&id, version), "conditions": conditions},
    });
    admin
        .create_with_status(&format!("{CLUSTERS}/v1/managedclusters"), &object)
        .await
}

/// Makes the hub a cluster of the fleet's set.
///
/// # Errors
/// The hub refuses it.
pub async fn make_hub(admin: &Admin) -> Result<()> {
    make_namespace(admin, HUB).await?;
    make_cluster(admin, HUB, SET, INSTALLED).await?;
    let change = json!({
        "metadata": {"labels": {"local-cluster": "true"}},
        "status": {"clusterClaims": claims(&id(999), INSTALLED)},
    });
    let path = managed_cluster(HUB);
    admin.patch(&path, &change).await?;
    admin.patch(&format!("{path}/status"), &change).await?;
    Ok(())
}

/// The ID of the cluster with this number.
#[must_use]
pub fn id(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// The claims of a cluster.
#[must_use]
pub fn claims(id: &str, version: &str) -> Value {
    json!([
        {"name": "id.openshift.io", "value": id},
        {"name": "product.open-cluster-management.io", "value": "OpenShift"},
        {"name": "version.openshift.io", "value": version},
    ])
}

async fn make_placement(admin: &Admin, options: &Options) -> Result<()> {
    let placement = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
        "metadata": {"name": PLACEMENT, "namespace": TEAM}, "spec": {},
    });
    let made = admin
        .create(
            &format!("{CLUSTERS}/v1beta1/namespaces/{TEAM}/placements"),
            &placement,
        )
        .await?;
    let owner = json!([{
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement", "name": PLACEMENT,
        "uid": made.pointer("/metadata/uid"), "controller": true, "blockOwnerDeletion": true,
    }]);
    let mut decision = decision(&format!("{PLACEMENT}-decision-1"), &fleet(options));
    decision["metadata"]["ownerReferences"] = owner;
    admin.create_with_status(&decisions_of(TEAM), &decision).await
}

/// A decision of the Placement, without an owner.
#[must_use]
pub fn decision(name: &str, clusters: &[String]) -> Value {
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "PlacementDecision",
        "metadata": {
            "name": name, "namespace": TEAM,
            "labels": {"cluster.open-cluster-management.io/placement": PLACEMENT},
        },
        "status": {"decisions": decided(clusters)},
    })
}

/// The decisions of a status.
#[must_use]
pub fn decided(clusters: &[String]) -> Value {
    clusters
        .iter()
        .map(|name| json!({"clusterName": name, "reason": ""}))
        .collect()
}

/// A condition.
#[must_use]
pub fn condition(name: &str, is_true: bool) -> Value {
    json!({
        "type": name, "status": if is_true { "True" } else { "Unknown" }, "reason": "Told", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// The clusters that the upgrade of this name selects: all, or the second half for the second upgrade.
#[must_use]
pub fn wanted(options: &Options, name: &str) -> Vec<String> {
    let mut all = fleet(options);
    let from = if name == RIVAL { all.len() / 2 } else { 0 };
    all.split_off(from)
}

fn selector(names: &[String]) -> Value {
    json!({"matchExpressions": [{"key": "name", "operator": "In", "values": names}]})
}

/// An action with one Job.
#[must_use]
pub fn action(job: &str) -> Value {
    let manifest = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job, "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/tool:1"}]}}},
    });
    json!({"manifestWork": {"workload": {"manifests": [manifest]}}})
}

/// An action with one Job that runs this image.
#[must_use]
pub fn action_of(job: &str, image: &str) -> Value {
    let mut action = action(job);
    let path = "/manifestWork/workload/manifests/0/spec/template/spec/containers/0/image";
    if let Some(found) = action.pointer_mut(path) {
        *found = image.into();
    }
    action
}

/// An action whose manifest is nested so deeply that its upgrade is one JSON document that a plain parser reads, but a list with
/// it is none.
fn deep_action() -> Value {
    // A plain parser reads 127 levels, and the value begins at the eighth level of its upgrade.
    let value = (0..120).fold(json!("deep"), |inner, _| json!({"a": inner}));
    let manifest = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "deep", "namespace": "default"}, "data": value,
    });
    json!({"manifestWork": {"workload": {"manifests": [manifest]}}})
}

/// An upgrade of another tenant, whose action is nested deeply.
#[must_use]
pub fn deep_upgrade() -> Value {
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "ManagedClustersUpgrade",
        "metadata": {"name": "deep", "namespace": STRANGERS},
        "spec": {
            "clusterSelector": selector(&["nobody".to_owned()]),
            "clusterVersion": {"channel": "stable-4.14", "version": "4.14.12"},
            "preUpgradeAction": deep_action(),
        },
    })
}

/// The clusters that an upgrade selects by name, with or without the hub. Null if it selects by a Placement only.
#[must_use]
pub fn selector_of(options: &Options, name: &str, with_hub: bool) -> Value {
    let plain = upgrade(options, name);
    let mut found = plain
        .pointer("/spec/clusterSelector")
        .cloned()
        .unwrap_or_default();
    if !with_hub {
        return found;
    }
    if found.is_null() {
        return selector(&[HUB.to_owned()]);
    }
    let values = found.pointer_mut("/matchExpressions/0/values");
    if let Some(values) = values.and_then(Value::as_array_mut) {
        values.push(HUB.into());
    }
    found
}

/// The upgrade of this name.
#[must_use]
pub fn upgrade(options: &Options, name: &str) -> Value {
    let all = fleet(options);
    let mut strategy = json!({
        "maxConcurrency": options.max_concurrency,
        "clusterUpgradeTimeout": format!("{}s", options.timeout_seconds),
    });
    let mut spec = json!({"clusterVersion": {"channel": CHANNEL, "version": "4.14.12"}});
    if name == RIVAL {
        spec["clusterSelector"] = selector(&wanted(options, name));
        spec["clusterVersion"]["version"] = format!("4.14.{}", options.rival_version).into();
        spec["clusterVersion"]["channel"] = "fast-4.14".into();
    } else {
        if options.placement {
            spec["placement"] = json!([{"name": PLACEMENT}]);
        } else {
            spec["clusterSelector"] = selector(&all);
        }
        let canaries = usize::try_from(options.canaries).unwrap_or_default();
        if canaries > 0 {
            let canaries = selector(all.get(..canaries).unwrap_or_default());
            strategy["canaryClusters"] = json!({"clusterSelector": canaries});
        }
        if let Some(seconds) = options.operators_timeout_seconds {
            strategy["operatorsUpgradeTimeout"] = format!("{seconds}s").into();
        }
        if let Some(seconds) = options.action_timeout_seconds {
            strategy["actionTimeout"] = format!("{seconds}s").into();
        }
        if options.soak_seconds > 0 {
            strategy["minSuccessTime"] = format!("{}s", options.soak_seconds).into();
        }
        if let Some(failures) = options.max_failures {
            strategy["maxFailures"] = failures.into();
        }
        if options.actions {
            spec["preUpgradeAction"] = action("backup");
            spec["postUpgradeAction"] = action("check");
        }
        if options.operators {
            spec["ocpOperators"] = json!({"approveAllUpgrades": true});
        }
        ask(options, &mut spec, &mut strategy);
        control(options, &mut spec, &mut strategy);
    }
    spec["upgradeStrategy"] = strategy;
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "ManagedClustersUpgrade",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": spec,
    })
}

/// Adds windows and checkpoints.
fn control(options: &Options, spec: &mut Value, strategy: &mut Value) {
    if options.window_minutes > 0 {
        spec["maintenance"] = maintenance(options, options.window_minutes, options.window_seconds);
    }
    let Some(clusters) = options.approve_at else {
        return;
    };
    let mut checkpoints = vec![json!({"name": "clusters", "when": clusters})];
    if options.approve_canaries {
        checkpoints.insert(0, json!({"name": "canaries", "when": "CanariesComplete"}));
    }
    strategy["approvals"] = Value::from(checkpoints);
}

/// A window that opens every few minutes, in a zone that is half an hour off in every other seed.
#[must_use]
pub fn maintenance(options: &Options, minutes: u64, seconds: u64) -> Value {
    let zone = ["UTC", "Asia/Kolkata"][usize::from(options.seed % 2 == 1)];
    let mut maintenance = json!({
        "timeZone": zone,
        "windows": [{"name": "often", "schedule": format!("*/{minutes} * * * *"), "duration": format!("{seconds}s")}],
    });
    if options.remaining_seconds > 0 {
        maintenance["minimumRemaining"] = format!("{}s", options.remaining_seconds).into();
    }
    maintenance
}

/// Adds what clusters are asked.
fn ask(options: &Options, spec: &mut Value, strategy: &mut Value) {
    if options.worker_pools {
        strategy["workerPools"] = "Wait".into();
        strategy["workerPoolsTimeout"] = format!("{}s", options.pools_timeout_seconds).into();
    }
    let Some(mode) = options.preflight else { return };
    let mode = match mode {
        Preflight::Report => "Report",
        Preflight::Require => "Require",
    };
    spec["preflight"] = json!({"mode": mode, "timeout": format!("{}s", options.preflight_seconds)});
    if options.ignore_failing {
        spec["preflight"]["ignore"] = json!(["Failing"]);
    }
    if options.set_channel {
        spec["preflight"]["setChannel"] = true.into();
    }
    if options.accept_risks {
        spec["clusterVersion"]["acceptRisks"] = accepted();
    }
    if options.acknowledge {
        spec["clusterVersion"]["adminAcks"] = acknowledged();
    }
}

/// All risks, as a spec accepts them.
#[must_use]
pub fn accepted() -> Value {
    RISKS
        .iter()
        .map(|name| json!({"name": name, "reason": "tried before"}))
        .collect()
}

/// The gate, as a spec acknowledges it.
#[must_use]
pub fn acknowledged() -> Value {
    json!([{"key": GATE, "reason": "nobody uses these interfaces"}])
}

/// Starts the agents of all clusters.
///
/// # Errors
/// They cannot be started.
pub async fn start_agents(client: Client, options: &Options, clock: VirtualClock) -> Result<Agents> {
    let channel = match (options.set_channel, options.gates) {
        (true, _) => "fast-4.14",
        (false, true) => CHANNEL,
        (false, false) => "",
    };
    let agents = Agents::builder(client)
        .clock(move || clock.wall())
        .pace(Pace {
            machines: Duration::from_secs(options.pools_seconds),
            ..Pace::exact(options.update())
        })
        .seed(options.seed)
        .scenario(Scenario {
            version: installed(options).to_owned(),
            channel: channel.to_owned(),
            ..Scenario::default()
        })
        .start()
        .await?;
    Ok(agents)
}
