//! One cluster, through its own kubeconfig: its ClusterVersion and the two `ConfigMaps` of gates and acknowledgments.
//!
//! This module reads what `updates` needs, and writes `spec.desiredUpdate` only. The crate `clusterversion` decides what the
//! objects mean.

use clusterversion::ClusterVersion;
use clusterversion::gates::{self, ConfigMap};
use clusterversion::types::read_documents;
use k8s_openapi::api::core::v1::ConfigMap as Object;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::Value;

use crate::args::Common;
use crate::connection::{Connection, Peer};
use crate::failure::Failure;
use crate::hub::FIELD_MANAGER;

const PLURAL: &str = "clusterversions";
const NAME: &str = "version";

/// A connection to a cluster.
#[derive(Clone)]
pub struct Cluster {
    connection: Connection,
}

impl Cluster {
    /// Connects as kubectl does; see [`Connection::open`].
    ///
    /// # Errors
    /// No cluster is configured, or its configuration is invalid.
    pub async fn connect(common: &Common) -> Result<Cluster, Failure> {
        let connection = Connection::open(common, Peer::Cluster).await?;
        Ok(Cluster { connection })
    }

    fn versions(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterVersion");
        Api::all_with(
            self.connection.client().clone(),
            &ApiResource::from_gvk_with_plural(&kind, PLURAL),
        )
    }

    /// The ClusterVersion.
    ///
    /// # Errors
    /// The cluster has no ClusterVersion, rejects the request, or returns an object that cannot be read.
    pub async fn version(&self) -> Result<ClusterVersion, Failure> {
        let object = self.connection.bound(self.versions().get(NAME), PLURAL).await;
        read(object.map_err(|failure| explained(failure, "get"))?)
    }

    /// The `ConfigMaps` of gates and of acknowledgments. One that the user may not read is `Unreadable`.
    pub async fn gates_and_acks(&self) -> (ConfigMap, ConfigMap) {
        futures::join!(self.config_map(gates::GATES), self.config_map(gates::ACKS))
    }

    async fn config_map(&self, (namespace, name): (&str, &str)) -> ConfigMap {
        let api: Api<Object> = Api::namespaced(self.connection.client().clone(), namespace);
        match self.connection.bound(api.get_opt(name), "configmaps").await {
            Ok(Some(object)) => ConfigMap::Found(object.data.unwrap_or_default()),
            Ok(None) => ConfigMap::Missing,
            Err(failure) => ConfigMap::Unreadable(failure.sentence()),
        }
    }

    /// Merges a patch into the ClusterVersion, if the object has not changed since it was checked.
    ///
    /// # Errors
    /// The cluster rejects the request, or the object has changed in the meantime.
    pub async fn request(&self, judged: &ClusterVersion, mut patch: Value) -> Result<(), Failure> {
        if let Some(revision) = judged.metadata.other.get("resourceVersion") {
            patch["metadata"]["resourceVersion"] = revision.clone();
        }
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let api = self.versions();
        let patch = Patch::Merge(&patch);
        let request = api.patch(NAME, &params, &patch);
        self.connection
            .bound(request, PLURAL)
            .await
            .map(drop)
            .map_err(|failure| explained(failure, "patch"))
    }
}

fn read(object: DynamicObject) -> Result<ClusterVersion, Failure> {
    let unreadable = |error: serde_json::Error| Failure::Other(format!("ClusterVersion version: {error}"));
    let value = serde_json::to_value(object).map_err(unreadable)?;
    serde_json::from_value(value).map_err(unreadable)
}

/// Reads a text that contains exactly one ClusterVersion.
///
/// # Errors
/// The text cannot be read, or contains no ClusterVersion or several.
pub fn read_text(text: &str) -> Result<ClusterVersion, Failure> {
    let mut objects = read_documents(text).map_err(|error| Failure::Other(error.to_string()))?;
    match (objects.len(), objects.pop()) {
        (1, Some(object)) => Ok(object),
        (count, _) => Err(Failure::Other(format!(
            "expected one ClusterVersion, found {count}; give a file with the ClusterVersion of one cluster"
        ))),
    }
}

/// Adds the remedy to a failure to read or write the ClusterVersion.
fn explained(failure: Failure, verb: &str) -> Failure {
    const ANOTHER: &str = "choose another one with --context or --kubeconfig";
    match failure {
        Failure::NoResourceType { .. } => Failure::Other(format!(
            "the server is not an OpenShift cluster, because it has no ClusterVersions; {ANOTHER}"
        )),
        Failure::Server { reason, message } => {
            let remedy = match reason.as_str() {
                "NotFound" => format!(
                    "the cluster is not a complete OpenShift cluster, because its ClusterVersion is missing; {ANOTHER}"
                ),
                "Forbidden" | "Unauthorized" => {
                    format!("this needs a user who may {verb} ClusterVersion {NAME}; {ANOTHER}")
                }
                "Conflict" => "the ClusterVersion has changed in the meantime; check it again".to_owned(),
                _ => return Failure::Server { reason, message },
            };
            Failure::Server {
                reason,
                message: format!("{message}; {remedy}"),
            }
        }
        Failure::Unreachable(cause) => Failure::Unreachable(format!("{cause}; {ANOTHER}")),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_the_version_of_one_cluster() {
        assert!(read_text("kind: ClusterVersion\n").is_ok());
        assert!(
            read_text("kind: ClusterVersion\n---\n").is_ok(),
            "nothing follows"
        );
        for (text, expected) in [
            ("kind: Pod\n", "expected a ClusterVersion, found \"Pod\""),
            ("kind: List\nitems: []\n", "expected one ClusterVersion, found 0"),
            (
                "kind: ClusterVersion\n---\nkind: ClusterVersion\n",
                "expected one ClusterVersion, found 2; give a file with the ClusterVersion of one cluster",
            ),
        ] {
            let error = read_text(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn every_refusal_of_a_cluster_comes_with_a_remedy() {
        let told = |reason: &str| {
            let failure = Failure::Server {
                reason: reason.to_owned(),
                message: "no".to_owned(),
            };
            explained(failure, "get").to_string()
        };
        let failure = explained(
            Failure::NoResourceType {
                plural: PLURAL,
                remedy: None,
            },
            "get",
        )
        .to_string();
        assert!(failure.contains("is not an OpenShift cluster"), "{failure}");
        assert!(told("NotFound").contains("--context or --kubeconfig"));
        assert!(told("Forbidden").contains("may get ClusterVersion version"));
        assert!(told("Conflict").contains("check it again"));
        assert_eq!(told("Invalid"), "Error from server (Invalid): no");
    }
}
