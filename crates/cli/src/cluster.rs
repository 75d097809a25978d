//! One cluster, by its own kubeconfig: its ClusterVersion and the two `ConfigMaps` of gates and acknowledgments.
//!
//! Owns what `updates` reads of a cluster and the one thing it writes, `spec.desiredUpdate`. Judging is the business of
//! `clusterversion`.

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

/// A cluster.
#[derive(Clone)]
pub struct Cluster {
    connection: Connection,
}

impl Cluster {
    /// Connects as kubectl would; see [`Connection::open`].
    ///
    /// # Errors
    /// When no cluster is configured or its configuration is wrong.
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
    /// When the cluster has none, refuses, or gives one that cannot be read.
    pub async fn version(&self) -> Result<ClusterVersion, Failure> {
        let object = self.connection.bound(self.versions().get(NAME), PLURAL).await;
        read(object.map_err(|failure| explained(failure, "get"))?)
    }

    /// `ConfigMaps` of gates and acknowledgments, as far as they can be read.
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

    /// Merges a patch into the ClusterVersion, if it is still the one that was judged.
    ///
    /// # Errors
    /// When the cluster refuses, or the object has changed meanwhile.
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

/// The one ClusterVersion of a text.
///
/// # Errors
/// When the text cannot be read or holds none, or several.
pub fn read_text(text: &str) -> Result<ClusterVersion, Failure> {
    let mut objects = read_documents(text).map_err(|error| Failure::Other(error.to_string()))?;
    match (objects.len(), objects.pop()) {
        (1, Some(object)) => Ok(object),
        (count, _) => Err(Failure::Other(format!(
            "expected one ClusterVersion, found {count}; give the file of one cluster"
        ))),
    }
}

/// A failure to read or write the ClusterVersion, with what would mend it.
fn explained(failure: Failure, verb: &str) -> Failure {
    const ANOTHER: &str = "--context or --kubeconfig name another";
    match failure {
        Failure::NoResourceType { .. } => Failure::Other(format!(
            "the cluster has no ClusterVersions, it is not OpenShift; {ANOTHER}"
        )),
        Failure::Server { reason, message } => {
            let remedy = match reason.as_str() {
                "NotFound" => format!("the cluster was not installed as OpenShift clusters are; {ANOTHER}"),
                "Forbidden" | "Unauthorized" => {
                    format!("it takes a user who may {verb} ClusterVersion {NAME}; {ANOTHER}")
                }
                "Conflict" => "it has changed meanwhile; look at it again".to_owned(),
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
                "expected one ClusterVersion, found 2; give the file of one cluster",
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
        assert!(failure.contains("it is not OpenShift"), "{failure}");
        assert!(told("NotFound").contains("--context or --kubeconfig"));
        assert!(told("Forbidden").contains("may get ClusterVersion version"));
        assert!(told("Conflict").contains("look at it again"));
        assert_eq!(told("Invalid"), "Error from server (Invalid): no");
    }
}
