//! Installs the cluster: namespaces, machines, pools, operators, Subscriptions and the ClusterVersion.
//!
//! Only missing objects are created, so that a restart changes nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use clusterversion::Era;
use cvo_model::era::Behavior as _;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::cvo::inputs::{admin_acks, admin_gates};
use super::kinds;
use super::rollout::machines::{new_node, rendered};
use super::rollout::operators::{manifest, new_status};
use super::setup::{Setup, Subscription};
use super::status_writer::{StatusWriter, WriteError};
use crate::fields::{self, Cond, Time, timestamp};
use crate::run_levels::OPERATORS;
use crate::seeded_rng::SeededRng;

/// How long to wait for the API server and its CRDs.
const SERVED_TIMEOUT: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(250);

/// The cluster cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// An object could not be written.
    #[error("{kind} {name}")]
    Write {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// Why.
        source: WriteError,
    },
    /// An object could not be read.
    #[error("{kind} {name}")]
    Read {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// Why.
        source: kube::Error,
    },
    /// Its CRD is missing.
    #[error("{0} is not served: its CRD is missing")]
    NotServed(String),
}

/// The installed cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// When the ClusterVersion was created. This is the origin of the simulated clock.
    pub at: Time,
    /// Whether OLM's kinds are served.
    pub has_olm: bool,
    /// Whether the schema of ClusterVersion has `acceptRisks`.
    pub knows_accept_risks: bool,
}

/// Installs what is missing.
///
/// # Errors
/// The API server refuses an object, or a CRD is still missing after a minute.
pub async fn install(writer: &mut StatusWriter, setup: &Setup, seed: u64) -> Result<Installed, InstallError> {
    for resource in [
        kinds::cluster_version(),
        kinds::cluster_operator(),
        kinds::feature_gate(),
        kinds::machine_config_pool(),
    ] {
        wait_served(writer, &resource).await?;
    }
    let has_olm = is_served(writer, &kinds::subscription()).await;
    if is_missing(writer, &kinds::cluster_version(), "version").await? {
        clear(writer).await?;
    }
    namespaces(writer, setup).await?;
    let now = Utc::now();
    let roles = |pool: &str| match (pool, setup.workers) {
        ("master", 0) => vec!["control-plane", "master", "worker"],
        ("master", _) => vec!["control-plane", "master"],
        _ => vec!["worker"],
    };
    for (pool, count) in [("master", setup.masters), ("worker", setup.workers)] {
        for n in 0..count {
            let object = new_node(&format!("{pool}-{n}"), pool, &roles(pool), &setup.version);
            make(writer, &kinds::node(), &object, Some(node_status())).await?;
        }
        make(
            writer,
            &kinds::machine_config_pool(),
            &new_pool(pool, &setup.version),
            None,
        )
        .await?;
    }
    for row in &OPERATORS {
        let status = new_status(&setup.version, now);
        make(
            writer,
            &kinds::cluster_operator(),
            &manifest(row.name),
            Some(status),
        )
        .await?;
    }
    if has_olm {
        for subscription in &setup.subscriptions {
            subscribe(writer, setup, subscription, now).await?;
        }
    }
    for object in [admin_gates(&setup.admin_gates), admin_acks()] {
        create(writer, &kinds::config_map(), &object).await?;
    }
    let knows_accept_risks = knows_accept_risks(writer).await?;
    let era = setup.fixed_era().unwrap_or_else(|| Era::of(&setup.version));
    let is_enabled = knows_accept_risks && era.knows_accept_risks();
    let (gate, status) = feature_gate(&setup.version, is_enabled);
    make(writer, &kinds::feature_gate(), &gate, Some(status)).await?;
    let (object, status) = cluster_version(setup, seed, now);
    make(writer, &kinds::cluster_version(), &object, Some(status)).await?;
    let version = read(writer, &kinds::cluster_version(), "", "version").await?;
    let at =
        fields::parse_timestamp(fields::text(&version, &["metadata", "creationTimestamp"])).unwrap_or(now);
    Ok(Installed {
        at,
        has_olm,
        knows_accept_risks,
    })
}

async fn is_missing(writer: &StatusWriter, resource: &ApiResource, name: &str) -> Result<bool, InstallError> {
    match read(writer, resource, "", name).await {
        Ok(_) => Ok(false),
        Err(InstallError::Read {
            source: kube::Error::Api(refusal),
            ..
        }) if refusal.code == 404 => Ok(true),
        Err(error) => Err(error),
    }
}

/// The feature gates of the installed version. Those of later versions are not told.
fn feature_gate(version: &str, is_enabled: bool) -> (Value, Value) {
    let gate = json!([{ "name": "ClusterUpdateAcceptRisks" }]);
    let (enabled, disabled) = if is_enabled {
        (gate, json!([]))
    } else {
        (json!([]), gate)
    };
    let object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"}, "spec": {},
    });
    let of_version = json!({ "version": version, "enabled": enabled, "disabled": disabled });
    (object, json!({ "featureGates": [of_version] }))
}

/// Deletes what an earlier cluster left on this API server. A new cluster would mistake its machines for its own.
async fn clear(writer: &StatusWriter) -> Result<(), InstallError> {
    for resource in [
        kinds::cluster_operator(),
        kinds::feature_gate(),
        kinds::machine_config_pool(),
        kinds::node(),
    ] {
        let api: Api<DynamicObject> = Api::all_with(writer.client().clone(), &resource);
        let list = api
            .list(&kube::api::ListParams::default())
            .await
            .map_err(|source| InstallError::Read {
                kind: resource.kind.clone(),
                name: String::new(),
                source,
            })?;
        for object in list {
            let name = object.metadata.name.unwrap_or_default();
            let deleted = writer.delete(&resource, "", &name).await;
            deleted.map_err(|source| write_error(&resource, &name, source))?;
        }
    }
    Ok(())
}

async fn namespaces(writer: &StatusWriter, setup: &Setup) -> Result<(), InstallError> {
    let mut names: BTreeSet<&str> = BTreeSet::from([
        "openshift-config",
        "openshift-config-managed",
        "openshift-cluster-version",
        "openshift-operators",
    ]);
    names.extend(
        setup
            .subscriptions
            .iter()
            .map(|subscription| subscription.namespace.as_str()),
    );
    for name in names {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(writer, &kinds::namespace(), &object).await?;
    }
    Ok(())
}

/// Creates an object, and sets its first status if it has none.
async fn make(
    writer: &mut StatusWriter,
    resource: &ApiResource,
    object: &Value,
    status: Option<Value>,
) -> Result<(), InstallError> {
    create(writer, resource, object).await?;
    let Some(status) = status else { return Ok(()) };
    let of = |field| fields::text(object, &["metadata", field]);
    let seen = read(writer, resource, of("namespace"), of("name")).await?;
    let blank = match &seen["status"] {
        Value::Object(parts) => !parts.contains_key("conditions") && !parts.contains_key("installedCSV"),
        _ => true,
    };
    if blank {
        let written = writer.put_status(resource, &seen, &status).await;
        written.map_err(|source| write_error(resource, of("name"), source))?;
    }
    Ok(())
}

async fn create(writer: &StatusWriter, resource: &ApiResource, object: &Value) -> Result<(), InstallError> {
    let name = fields::text(object, &["metadata", "name"]);
    writer
        .create(resource, object)
        .await
        .map(drop)
        .map_err(|source| write_error(resource, name, source))
}

fn write_error(resource: &ApiResource, name: &str, source: WriteError) -> InstallError {
    InstallError::Write {
        kind: resource.kind.clone(),
        name: name.to_owned(),
        source,
    }
}

async fn read(
    writer: &StatusWriter,
    resource: &ApiResource,
    namespace: &str,
    name: &str,
) -> Result<Value, InstallError> {
    let api: Api<DynamicObject> = if namespace.is_empty() {
        Api::all_with(writer.client().clone(), resource)
    } else {
        Api::namespaced_with(writer.client().clone(), namespace, resource)
    };
    let object = api.get(name).await.map_err(|source| InstallError::Read {
        kind: resource.kind.clone(),
        name: name.to_owned(),
        source,
    })?;
    Ok(serde_json::to_value(object).unwrap_or_default())
}

async fn is_served(writer: &StatusWriter, resource: &ApiResource) -> bool {
    let api: Api<DynamicObject> = Api::all_with(writer.client().clone(), resource);
    api.list(&kube::api::ListParams::default().limit(1)).await.is_ok()
}

async fn wait_served(writer: &StatusWriter, resource: &ApiResource) -> Result<(), InstallError> {
    let wait = async {
        while !is_served(writer, resource).await {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(SERVED_TIMEOUT, wait)
        .await
        .map_err(|_| InstallError::NotServed(resource.kind.clone()))
}

async fn knows_accept_risks(writer: &StatusWriter) -> Result<bool, InstallError> {
    let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let crd = read(writer, &resource, "", "clusterversions.config.openshift.io").await?;
    let path = [
        "schema",
        "openAPIV3Schema",
        "properties",
        "spec",
        "properties",
        "desiredUpdate",
        "properties",
        "acceptRisks",
    ];
    let versions = fields::list(&crd, &["spec", "versions"]);
    Ok(versions
        .iter()
        .any(|version| fields::get(version, &path).is_some()))
}

fn node_status() -> Value {
    json!({
        "capacity": {"cpu": "8", "memory": "32Gi", "pods": "250"},
        "allocatable": {"cpu": "8", "memory": "30Gi", "pods": "250"},
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
        "conditions": [],
    })
}

fn new_pool(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": name, "labels": {format!("pools.operator.machineconfiguration.openshift.io/{name}"): ""}},
        "spec": {
            "configuration": {"name": rendered(name, version)},
            "machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": name}},
            "nodeSelector": {"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}},
            "paused": false,
        },
    })
}

async fn subscribe(
    writer: &mut StatusWriter,
    setup: &Setup,
    wanted: &Subscription,
    now: Time,
) -> Result<(), InstallError> {
    let package = if wanted.package.is_empty() {
        &wanted.name
    } else {
        &wanted.package
    };
    let mut object = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": wanted.name, "namespace": wanted.namespace},
        "spec": {"name": package, "source": "redhat-operators", "sourceNamespace": "openshift-marketplace",
                 "installPlanApproval": wanted.approval},
    });
    if !wanted.channel.is_empty() {
        object["spec"]["channel"] = wanted.channel.clone().into();
    }
    let installed = setup
        .packages
        .iter()
        .find(|found| found.name == *package)
        .and_then(|found| found.versions.first());
    let status = installed.map(|version| {
        json!({"state": "AtLatestKnown", "installedCSV": version, "currentCSV": version, "lastUpdated": timestamp(now)})
    });
    if let Some(version) = installed {
        let version = super::olm::service_version(&wanted.namespace, version, "");
        create(writer, &kinds::service_version(), &version).await?;
    }
    make(writer, &kinds::subscription(), &object, status).await
}

/// The ClusterVersion of a cluster that was installed some time ago, and its status.
#[must_use]
pub fn cluster_version(setup: &Setup, seed: u64, now: Time) -> (Value, Value) {
    let id = if setup.cluster_id.is_empty() {
        SeededRng::new(seed).of("clusterID").uuid()
    } else {
        setup.cluster_id.clone()
    };
    let mut spec = json!({"clusterID": id});
    for (key, value) in [
        ("channel", setup.installed_channel()),
        ("upstream", setup.upstream.clone()),
    ] {
        if !value.is_empty() {
            spec[key] = value.into();
        }
    }
    let (version, image) = (&setup.version, setup.installed_image());
    let done = now - TimeDelta::hours(1);
    let mut object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "metadata": {"name": "version"}, "spec": spec,
        "status": {
            "desired": {"version": version, "image": image},
            "history": [{
                "state": "Completed", "startedTime": timestamp(done - TimeDelta::minutes(24)),
                "completionTime": timestamp(done), "version": version, "image": image, "verified": false,
            }],
            "observedGeneration": 1, "versionHash": "", "availableUpdates": null, "conditions": [],
        },
    });
    let (applied, settled) = (
        format!("Done applying {version}"),
        format!("Cluster version is {version}"),
    );
    let loaded = format!(
        "Payload loaded version=\"{version}\" image=\"{image}\" architecture=\"{}\"",
        setup.architecture
    );
    for (kind, status, reason, message) in [
        (
            "ImplicitlyEnabledCapabilities",
            "False",
            "AsExpected",
            "Capabilities match configured spec",
        ),
        ("ReleaseAccepted", "True", "PayloadLoaded", loaded.as_str()),
        ("Available", "True", "", applied.as_str()),
        ("Failing", "False", "", ""),
        ("Progressing", "False", "", settled.as_str()),
    ] {
        let cond = Cond {
            kind,
            status,
            reason,
            message,
        };
        fields::set_condition(&mut object, cond, done);
    }
    let status = object["status"].take();
    fields::object_at(&mut object, &[]).remove("status");
    (object, status)
}
