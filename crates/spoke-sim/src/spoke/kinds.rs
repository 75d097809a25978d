//! The kinds that the controllers of a simulated cluster read and write.

use kube::core::{ApiResource, GroupVersionKind};

/// `config.openshift.io/v1` ClusterVersion.
#[must_use]
pub fn cluster_version() -> ApiResource {
    resource("config.openshift.io", "v1", "ClusterVersion", "clusterversions")
}

/// `config.openshift.io/v1` `ClusterOperator`.
#[must_use]
pub fn cluster_operator() -> ApiResource {
    resource("config.openshift.io", "v1", "ClusterOperator", "clusteroperators")
}

/// `config.openshift.io/v1` `FeatureGate`.
#[must_use]
pub fn feature_gate() -> ApiResource {
    resource("config.openshift.io", "v1", "FeatureGate", "featuregates")
}

/// `machineconfiguration.openshift.io/v1` `MachineConfigPool`.
#[must_use]
pub fn machine_config_pool() -> ApiResource {
    resource(
        "machineconfiguration.openshift.io",
        "v1",
        "MachineConfigPool",
        "machineconfigpools",
    )
}

/// `operators.coreos.com/v1alpha1` Subscription.
#[must_use]
pub fn subscription() -> ApiResource {
    resource(
        "operators.coreos.com",
        "v1alpha1",
        "Subscription",
        "subscriptions",
    )
}

/// `operators.coreos.com/v1alpha1` InstallPlan.
#[must_use]
pub fn install_plan() -> ApiResource {
    resource("operators.coreos.com", "v1alpha1", "InstallPlan", "installplans")
}

/// `operators.coreos.com/v1alpha1` `ClusterServiceVersion`.
#[must_use]
pub fn service_version() -> ApiResource {
    resource(
        "operators.coreos.com",
        "v1alpha1",
        "ClusterServiceVersion",
        "clusterserviceversions",
    )
}

/// Core `ConfigMap`.
#[must_use]
pub fn config_map() -> ApiResource {
    resource("", "v1", "ConfigMap", "configmaps")
}

/// Core `Namespace`.
#[must_use]
pub fn namespace() -> ApiResource {
    resource("", "v1", "Namespace", "namespaces")
}

/// Core `Node`.
#[must_use]
pub fn node() -> ApiResource {
    resource("", "v1", "Node", "nodes")
}

/// Core `Pod`.
#[must_use]
pub fn pod() -> ApiResource {
    resource("", "v1", "Pod", "pods")
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}
