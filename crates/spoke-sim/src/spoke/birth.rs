//! The cluster as it is installed: namespaces, machines, pools, operators, Subscriptions, the ClusterVersion.
//!
//! Everything is created unless it exists, so that a restart changes nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::cvo::inputs::{admin_acks, admin_gates};
use super::desk::{Desk, WriteError};
use super::kinds;
use super::rollout::machines::{newborn as node, rendered};
use super::rollout::operators::{manifest, newborn as operator};
use super::rollout::table::OPERATORS;
use super::setup::{Setup, Subscription};
use crate::dice::Dice;
use crate::fields::{self, Cond, Time, timestamp};

/// How long the API server and its CRDs may take to be there.
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(250);

/// The cluster cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum BirthError {
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

/// What was found or made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Born {
    /// When the ClusterVersion was created: the origin of the simulated clock.
    pub at: Time,
    /// Whether OLM's kinds are served.
    pub has_olm: bool,
    /// Whether the ClusterVersion's schema knows `acceptRisks`.
    pub knows_accept_risks: bool,
}

/// Installs what is missing.
///
/// # Errors
/// The API server does not take it, or a CRD is not there within a minute.
pub async fn install(desk: &mut Desk, setup: &Setup, seed: u64) -> Result<Born, BirthError> {
    for resource in [
        kinds::cluster_version(),
        kinds::cluster_operator(),
        kinds::machine_config_pool(),
    ] {
        wait_served(desk, &resource).await?;
    }
    let has_olm = is_served(desk, &kinds::subscription()).await;
    if is_missing(desk, &kinds::cluster_version(), "version").await? {
        clear(desk).await?;
    }
    namespaces(desk, setup).await?;
    let now = Utc::now();
    let roles = |pool: &str| match (pool, setup.workers) {
        ("master", 0) => vec!["control-plane", "master", "worker"],
        ("master", _) => vec!["control-plane", "master"],
        _ => vec!["worker"],
    };
    for (pool, count) in [("master", setup.masters), ("worker", setup.workers)] {
        for n in 0..count {
            let object = node(&format!("{pool}-{n}"), pool, &roles(pool), &setup.version);
            make(desk, &kinds::node(), &object, Some(node_status())).await?;
        }
        make(
            desk,
            &kinds::machine_config_pool(),
            &new_pool(pool, &setup.version),
            None,
        )
        .await?;
    }
    for row in &OPERATORS {
        let status = operator(&setup.version, now);
        make(
            desk,
            &kinds::cluster_operator(),
            &manifest(row.name),
            Some(status),
        )
        .await?;
    }
    if has_olm {
        for subscription in &setup.subscriptions {
            subscribe(desk, setup, subscription, now).await?;
        }
    }
    for object in [admin_gates(&setup.admin_gates), admin_acks()] {
        create(desk, &kinds::config_map(), &object).await?;
    }
    let (object, status) = cluster_version(setup, seed, now);
    make(desk, &kinds::cluster_version(), &object, Some(status)).await?;
    let version = read(desk, &kinds::cluster_version(), "", "version").await?;
    let at =
        fields::parse_timestamp(fields::text(&version, &["metadata", "creationTimestamp"])).unwrap_or(now);
    Ok(Born {
        at,
        has_olm,
        knows_accept_risks: knows_accept_risks(desk).await?,
    })
}

async fn is_missing(desk: &Desk, resource: &ApiResource, name: &str) -> Result<bool, BirthError> {
    match read(desk, resource, "", name).await {
        Ok(_) => Ok(false),
        Err(BirthError::Read {
            source: kube::Error::Api(refusal),
            ..
        }) if refusal.code == 404 => Ok(true),
        Err(error) => Err(error),
    }
}

/// Removes what an earlier cluster left on this API server: a new one would take its machines for its own.
async fn clear(desk: &Desk) -> Result<(), BirthError> {
    for resource in [
        kinds::cluster_operator(),
        kinds::machine_config_pool(),
        kinds::node(),
    ] {
        let api: Api<DynamicObject> = Api::all_with(desk.client().clone(), &resource);
        let list = api
            .list(&kube::api::ListParams::default())
            .await
            .map_err(|source| BirthError::Read {
                kind: resource.kind.clone(),
                name: String::new(),
                source,
            })?;
        for object in list {
            let name = object.metadata.name.unwrap_or_default();
            let deleted = desk.delete(&resource, "", &name).await;
            deleted.map_err(|source| write_error(&resource, &name, source))?;
        }
    }
    Ok(())
}

async fn namespaces(desk: &Desk, setup: &Setup) -> Result<(), BirthError> {
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
        create(desk, &kinds::namespace(), &object).await?;
    }
    Ok(())
}

/// Creates an object and gives it its first status if it has none.
async fn make(
    desk: &mut Desk,
    resource: &ApiResource,
    object: &Value,
    status: Option<Value>,
) -> Result<(), BirthError> {
    create(desk, resource, object).await?;
    let Some(status) = status else { return Ok(()) };
    let of = |field| fields::text(object, &["metadata", field]);
    let seen = read(desk, resource, of("namespace"), of("name")).await?;
    let blank = match &seen["status"] {
        Value::Object(parts) => !parts.contains_key("conditions") && !parts.contains_key("installedCSV"),
        _ => true,
    };
    if blank {
        let written = desk.put_status(resource, &seen, &status).await;
        written.map_err(|source| write_error(resource, of("name"), source))?;
    }
    Ok(())
}

async fn create(desk: &Desk, resource: &ApiResource, object: &Value) -> Result<(), BirthError> {
    let name = fields::text(object, &["metadata", "name"]);
    desk.create(resource, object)
        .await
        .map(drop)
        .map_err(|source| write_error(resource, name, source))
}

fn write_error(resource: &ApiResource, name: &str, source: WriteError) -> BirthError {
    BirthError::Write {
        kind: resource.kind.clone(),
        name: name.to_owned(),
        source,
    }
}

async fn read(desk: &Desk, resource: &ApiResource, namespace: &str, name: &str) -> Result<Value, BirthError> {
    let api: Api<DynamicObject> = if namespace.is_empty() {
        Api::all_with(desk.client().clone(), resource)
    } else {
        Api::namespaced_with(desk.client().clone(), namespace, resource)
    };
    let object = api.get(name).await.map_err(|source| BirthError::Read {
        kind: resource.kind.clone(),
        name: name.to_owned(),
        source,
    })?;
    Ok(serde_json::to_value(object).unwrap_or_default())
}

async fn is_served(desk: &Desk, resource: &ApiResource) -> bool {
    let api: Api<DynamicObject> = Api::all_with(desk.client().clone(), resource);
    api.list(&kube::api::ListParams::default().limit(1)).await.is_ok()
}

async fn wait_served(desk: &Desk, resource: &ApiResource) -> Result<(), BirthError> {
    let wait = async {
        while !is_served(desk, resource).await {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait)
        .await
        .map_err(|_| BirthError::NotServed(resource.kind.clone()))
}

async fn knows_accept_risks(desk: &Desk) -> Result<bool, BirthError> {
    let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let crd = read(desk, &resource, "", "clusterversions.config.openshift.io").await?;
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
    desk: &mut Desk,
    setup: &Setup,
    wanted: &Subscription,
    now: Time,
) -> Result<(), BirthError> {
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
        create(desk, &kinds::service_version(), &version).await?;
    }
    make(desk, &kinds::subscription(), &object, status).await
}

/// The ClusterVersion of a cluster that was installed a while ago, and its status.
#[must_use]
pub fn cluster_version(setup: &Setup, seed: u64, now: Time) -> (Value, Value) {
    let id = if setup.cluster_id.is_empty() {
        Dice::new(seed).of("clusterID").uuid()
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
