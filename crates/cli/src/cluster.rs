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
use crate::failure::Failure;
use crate::hub::{FIELD_MANAGER, Hub};

const PLURAL: &str = "clusterversions";
const NAME: &str = "version";

/// A cluster.
#[derive(Clone)]
pub struct Cluster {
    hub: Hub,
}

impl Cluster {
    /// Connects as kubectl would; see [`Hub::connect`].
    ///
    /// # Errors
    /// When no cluster is configured or its configuration is wrong.
    pub async fn connect(common: &Common) -> Result<Cluster, Failure> {
        let hub = Hub::connect(common).await?;
        Ok(Cluster { hub })
    }

    fn versions(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterVersion");
        Api::all_with(
            self.hub.client().clone(),
            &ApiResource::from_gvk_with_plural(&kind, PLURAL),
        )
    }

    /// The ClusterVersion.
    ///
    /// # Errors
    /// When the cluster has none, refuses, or gives one that cannot be read.
    pub async fn version(&self) -> Result<ClusterVersion, Failure> {
        let object = self.hub.bound(self.versions().get(NAME), PLURAL).await;
        read(object.map_err(not_openshift)?)
    }

    /// `ConfigMaps` of gates and acknowledgments, as far as they can be read.
    pub async fn gates_and_acks(&self) -> (ConfigMap, ConfigMap) {
        futures::join!(self.config_map(gates::GATES), self.config_map(gates::ACKS))
    }

    async fn config_map(&self, (namespace, name): (&str, &str)) -> ConfigMap {
        let api: Api<Object> = Api::namespaced(self.hub.client().clone(), namespace);
        match self.hub.bound(api.get_opt(name), "configmaps").await {
            Ok(Some(object)) => ConfigMap::Found(object.data.unwrap_or_default()),
            Ok(None) => ConfigMap::Missing,
            Err(failure) => ConfigMap::Unreadable(failure.to_string()),
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
        self.hub
            .bound(request, PLURAL)
            .await
            .map(drop)
            .map_err(not_openshift)
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

fn not_openshift(failure: Failure) -> Failure {
    match failure {
        Failure::NoResourceType(_) => Failure::Other(
            "the cluster has no ClusterVersions, it is not OpenShift; --context or --kubeconfig name another"
                .to_owned(),
        ),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_the_version_of_one_cluster() {
        assert!(read_text("kind: ClusterVersion\n").is_ok());
        for (text, expected) in [
            ("kind: Pod\n", "expected a ClusterVersion, found \"Pod\""),
            ("kind: List\nitems: []\n", "expected one ClusterVersion, found 0"),
        ] {
            let error = read_text(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_cluster_that_is_not_openshift_is_told_as_such() {
        let failure = not_openshift(Failure::NoResourceType(PLURAL));
        assert!(failure.to_string().contains("it is not OpenShift"), "{failure}");
    }
}
