//! The bundle for the Operator Lifecycle Manager (OLM) in `deploy/bundle`, and `deploy/olm-admission.yaml` beside it.
//!
//! OLM installs neither `ValidatingAdmissionPolicies` nor `FlowSchemas` from a bundle, so an administrator applies them from that file;
//! the controller is not ready before. OLM makes the account, its roles and bindings from the `ClusterServiceVersion`.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::base::{Base, Files, HEADER, objects};

/// The bundle's directory, relative to the repository's root.
pub const DIRECTORY: &str = "deploy/bundle";
/// What OLM does not install, to be applied beside the bundle.
pub const BESIDE: &str = "deploy/olm-admission.yaml";

const NAMESPACE: &str = "mcu-system";
const CONTROLLER: &str = "mcu-controller";
const CHANNEL: &str = "alpha";
/// An upgrade that OpenShift's console offers as a start.
const EXAMPLE: &str = "examples/small-fleet/upgrade.yaml";

const DESCRIPTION: &str = "\
Upgrades fleets of OpenShift clusters from an Open Cluster Management hub, canaries first, and says for every cluster where it stands,
why it waits, and who must do what to move it.

The controller is not ready before its admission policies are on the hub. OLM does not install them: create namespace `mcu-system`, apply
the file `olm-admission.yaml` of the same release, and install into that namespace, whose account the policies name.
";

/// Where an object of the base goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Into the `ClusterServiceVersion`, or OLM makes it from there.
    ClusterServiceVersion,
    /// A manifest of the bundle.
    Manifest,
    /// The file beside the bundle.
    Beside,
    /// Nowhere: the namespace is the user's choice.
    Nowhere,
}

/// Where an object of the base goes.
///
/// # Errors
/// Its kind is new here.
pub fn place(object: &Value) -> Result<Place> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let is_the_controllers = object["metadata"]["name"] == CONTROLLER;
    Ok(match kind {
        "Namespace" => Place::Nowhere,
        "ServiceAccount" | "Deployment" | "ClusterRoleBinding" | "Role" | "RoleBinding" => {
            Place::ClusterServiceVersion
        }
        "ClusterRole" if is_the_controllers => Place::ClusterServiceVersion,
        "ClusterRole" | "CustomResourceDefinition" | "PodDisruptionBudget" | "Service" => Place::Manifest,
        // OLM knows NetworkPolicies only from later releases on than those that the bundle is for.
        "ValidatingAdmissionPolicy"
        | "ValidatingAdmissionPolicyBinding"
        | "FlowSchema"
        | "PriorityLevelConfiguration"
        | "NetworkPolicy" => Place::Beside,
        _ => bail!("the bundle has no place for a {kind}"),
    })
}

/// The generated files: the bundle and the file beside it.
///
/// # Errors
/// The base lacks something that the bundle needs, or has an object that the bundle has no place for.
pub fn render(root: &Path, base: &Base) -> Result<Files> {
    let objects = base.objects()?;
    let version = format!("{DIRECTORY}/manifests/mcu.clusterserviceversion.yaml");
    let example =
        std::fs::read_to_string(root.join(EXAMPLE)).with_context(|| format!("cannot read {EXAMPLE}"))?;
    let mut files = Files::from([
        (
            version.into(),
            yaml(&cluster_service_version(base, &objects, &example)?)?,
        ),
        (
            format!("{DIRECTORY}/metadata/annotations.yaml").into(),
            annotations(),
        ),
        (format!("{DIRECTORY}/Containerfile").into(), containerfile()),
    ]);
    let mut beside = HEADER.to_owned();
    for object in &objects {
        match place(object)? {
            Place::Manifest => {
                let (kind, name) = (lower(&object["kind"]), lower(&object["metadata"]["name"]));
                files.insert(
                    format!("{DIRECTORY}/manifests/{name}.{kind}.yaml").into(),
                    yaml(object)?,
                );
            }
            Place::Beside => {
                beside += "---\n";
                beside += &serde_saphyr::to_string(object)?;
            }
            Place::ClusterServiceVersion | Place::Nowhere => {}
        }
    }
    files.insert(BESIDE.into(), beside);
    Ok(files)
}

fn lower(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_lowercase()
}

fn yaml(value: &Value) -> Result<String> {
    let text = serde_saphyr::to_string(value)?;
    Ok(format!("{HEADER}{}\n", text.trim_end()))
}

fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> Result<&'a Value> {
    let mut found = objects
        .iter()
        .filter(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found
        .next()
        .with_context(|| format!("the base has no {kind} {name}"))
}

fn cluster_service_version(base: &Base, all: &[Value], example: &str) -> Result<Value> {
    let version = env!("CARGO_PKG_VERSION");
    let deployment = find(all, "Deployment", CONTROLLER)?;
    let role = find(all, "ClusterRole", CONTROLLER)?;
    let election = find(all, "Role", "mcu-controller-leader-election")?;
    let examples = objects(example)?
        .into_iter()
        .filter(|one| one["kind"] == "ManagedClustersUpgrade");
    let examples: Value = examples.take(1).chain([approval()]).collect();
    Ok(json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("mcu.v{version}"),
            "annotations": {
                "alm-examples": examples.to_string(),
                "capabilities": "Seamless Upgrades",
                "categories": "Integration & Delivery",
                "containerImage": base.image,
                "operatorframework.io/suggested-namespace": NAMESPACE,
                // Only the controller writes reports.
                "operators.operatorframework.io/internal-objects":
                    json!(["managedclustersupgradereports.cluster.open-cluster-management.io"]).to_string(),
            },
        },
        "spec": {
            "displayName": "MCU: fleet upgrades for OpenShift",
            "description": DESCRIPTION,
            "version": version,
            "maturity": CHANNEL,
            "minKubeVersion": "1.30.0",
            "keywords": ["openshift", "open-cluster-management", "upgrade", "fleet"],
            "provider": {"name": "The MCU maintainers"},
            "installModes": [
                {"type": "OwnNamespace", "supported": false},
                {"type": "SingleNamespace", "supported": false},
                {"type": "MultiNamespace", "supported": false},
                {"type": "AllNamespaces", "supported": true},
            ],
            "customresourcedefinitions": {"owned": owned(all)?},
            "install": {
                "strategy": "deployment",
                "spec": {
                    "clusterPermissions": [{"serviceAccountName": CONTROLLER, "rules": role["rules"]}],
                    "permissions": [{"serviceAccountName": CONTROLLER, "rules": election["rules"]}],
                    "deployments": [{
                        "name": CONTROLLER,
                        "label": deployment["metadata"]["labels"],
                        "spec": deployment["spec"],
                    }],
                },
            },
            "relatedImages": [{"name": CONTROLLER, "image": base.image}],
        },
    }))
}

/// An approval, which the examples of upgrades have none of.
fn approval() -> Value {
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "ManagedClustersUpgradeApproval",
        "metadata": {"name": "spring-after-canaries"},
        "spec": {
            "upgrade": "spring",
            "checkpoint": "after-canaries",
            "planHash": "as .status.approvals of the upgrade says it",
            "approver": "your user name",
            "message": "CHG0042",
        },
    })
}

/// What the `ClusterServiceVersion` says of each CRD.
fn owned(objects: &[Value]) -> Result<Vec<Value>> {
    let crds = objects
        .iter()
        .filter(|object| object["kind"] == "CustomResourceDefinition");
    let describe = |crd: &Value| {
        let spec = &crd["spec"];
        let version = spec["versions"].get(0).context("a CRD without a version")?;
        Ok(json!({
            "name": crd["metadata"]["name"],
            "kind": spec["names"]["kind"],
            "version": version["name"],
            "displayName": spec["names"]["kind"],
            "description": version["schema"]["openAPIV3Schema"]["description"],
        }))
    };
    crds.map(describe).collect()
}

/// What the bundle says about itself. OLM reads it from `annotations.yaml`, and catalogs from the image's labels.
fn properties() -> [(String, &'static str); 7] {
    let key = |name: &str| format!("operators.operatorframework.io.bundle.{name}.v1");
    [
        (key("mediatype"), "registry+v1"),
        (key("manifests"), "manifests/"),
        (key("metadata"), "metadata/"),
        (key("package"), "mcu"),
        (key("channels"), CHANNEL),
        (key("channel.default"), CHANNEL),
        ("com.redhat.openshift.versions".to_owned(), "v4.17"),
    ]
}

fn annotations() -> String {
    let lines = properties().map(|(key, value)| format!("  {key}: {value}\n"));
    format!("{HEADER}annotations:\n{}", lines.concat())
}

fn containerfile() -> String {
    let labels = properties().map(|(key, value)| format!("LABEL {key}={value}\n"));
    format!(
        "{HEADER}#
#   podman build -f deploy/bundle/Containerfile -t REGISTRY/mcu-bundle:TAG deploy/bundle
FROM scratch
{}COPY manifests /manifests/
COPY metadata /metadata/
",
        labels.concat()
    )
}
