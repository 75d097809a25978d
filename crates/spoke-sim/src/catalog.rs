//! The kinds that a simulated cluster serves, with their plural resource and scope.
//!
//! The built-in table is that of an OpenShift cluster with OLM, and `CustomResourceDefinition`s that are applied later add to
//! it. Schemas are not kept: kinds differ here only by name and scope.

use std::borrow::Cow;

use serde_json::Value;

use crate::fields;

/// A short text, static if possible.
pub type Text = Cow<'static, str>;

/// One served resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceType {
    /// API group, empty for the core group.
    pub group: Text,
    /// Kind, e.g. `ClusterVersion`.
    pub kind: Text,
    /// Plural resource, e.g. `clusterversions`.
    pub plural: Text,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
}

/// (group, served versions separated by spaces, kind, plural, namespaced)
type Row = (&'static str, &'static str, &'static str, &'static str, bool);

const KUBERNETES: &[Row] = &[
    ("", "v1", "ConfigMap", "configmaps", true),
    ("", "v1", "Endpoints", "endpoints", true),
    ("", "v1", "Event", "events", true),
    ("", "v1", "LimitRange", "limitranges", true),
    ("", "v1", "Namespace", "namespaces", false),
    ("", "v1", "Node", "nodes", false),
    ("", "v1", "PersistentVolume", "persistentvolumes", false),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true),
    ("", "v1", "Pod", "pods", true),
    ("", "v1", "ReplicationController", "replicationcontrollers", true),
    ("", "v1", "ResourceQuota", "resourcequotas", true),
    ("", "v1", "Secret", "secrets", true),
    ("", "v1", "Service", "services", true),
    ("", "v1", "ServiceAccount", "serviceaccounts", true),
    (
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        false,
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
    ),
    ("apiregistration.k8s.io", "v1", "APIService", "apiservices", false),
    ("apps", "v1", "ControllerRevision", "controllerrevisions", true),
    ("apps", "v1", "DaemonSet", "daemonsets", true),
    ("apps", "v1", "Deployment", "deployments", true),
    ("apps", "v1", "ReplicaSet", "replicasets", true),
    ("apps", "v1", "StatefulSet", "statefulsets", true),
    (
        "autoscaling",
        "v1 v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        true,
    ),
    ("batch", "v1", "CronJob", "cronjobs", true),
    ("batch", "v1", "Job", "jobs", true),
    ("coordination.k8s.io", "v1", "Lease", "leases", true),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true),
    ("networking.k8s.io", "v1", "Ingress", "ingresses", true),
    (
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        true,
    ),
    (
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        true,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRole",
        "clusterroles",
        false,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        false,
    ),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", true),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "RoleBinding",
        "rolebindings",
        true,
    ),
    (
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
        false,
    ),
    ("storage.k8s.io", "v1", "StorageClass", "storageclasses", false),
    (
        "work.open-cluster-management.io",
        "v1",
        "AppliedManifestWork",
        "appliedmanifestworks",
        false,
    ),
    (
        "cluster.open-cluster-management.io",
        "v1alpha1",
        "ClusterClaim",
        "clusterclaims",
        false,
    ),
];

const OPENSHIFT: &[Row] = &[
    (
        "config.openshift.io",
        "v1",
        "ClusterOperator",
        "clusteroperators",
        false,
    ),
    (
        "config.openshift.io",
        "v1",
        "ClusterVersion",
        "clusterversions",
        false,
    ),
    (
        "config.openshift.io",
        "v1",
        "Infrastructure",
        "infrastructures",
        false,
    ),
    ("config.openshift.io", "v1", "Proxy", "proxies", false),
    (
        "console.openshift.io",
        "v1",
        "ConsoleNotification",
        "consolenotifications",
        false,
    ),
    ("image.openshift.io", "v1", "ImageStream", "imagestreams", true),
    (
        "machineconfiguration.openshift.io",
        "v1",
        "MachineConfig",
        "machineconfigs",
        false,
    ),
    (
        "machineconfiguration.openshift.io",
        "v1",
        "MachineConfigPool",
        "machineconfigpools",
        false,
    ),
    (
        "monitoring.coreos.com",
        "v1",
        "PrometheusRule",
        "prometheusrules",
        true,
    ),
    (
        "monitoring.coreos.com",
        "v1",
        "ServiceMonitor",
        "servicemonitors",
        true,
    ),
    ("oauth.openshift.io", "v1", "OAuthClient", "oauthclients", false),
    (
        "operators.coreos.com",
        "v1alpha1",
        "CatalogSource",
        "catalogsources",
        true,
    ),
    (
        "operators.coreos.com",
        "v1alpha1",
        "ClusterServiceVersion",
        "clusterserviceversions",
        true,
    ),
    (
        "operators.coreos.com",
        "v1alpha1",
        "InstallPlan",
        "installplans",
        true,
    ),
    (
        "operators.coreos.com",
        "v1 v1alpha2",
        "OperatorGroup",
        "operatorgroups",
        true,
    ),
    (
        "operators.coreos.com",
        "v1alpha1",
        "Subscription",
        "subscriptions",
        true,
    ),
    ("project.openshift.io", "v1", "Project", "projects", false),
    ("route.openshift.io", "v1", "Route", "routes", true),
    (
        "security.openshift.io",
        "v1",
        "SecurityContextConstraints",
        "securitycontextconstraints",
        false,
    ),
];

/// The kinds one cluster serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    openshift: bool,
    custom: Vec<(ResourceType, Vec<String>)>,
}

impl Catalog {
    /// The built-in kinds, with those of OpenShift and OLM when `openshift`.
    #[must_use]
    pub fn new(openshift: bool) -> Self {
        Self {
            openshift,
            custom: Vec::new(),
        }
    }

    /// The REST mapping of an apiVersion and kind, if the cluster serves it.
    #[must_use]
    pub fn find(&self, api_version: &str, kind: &str) -> Option<ResourceType> {
        let (group, version) = split_api_version(api_version);
        let rows = KUBERNETES
            .iter()
            .chain(OPENSHIFT.iter().take_while(|_| self.openshift));
        let built_in = rows
            .filter(|row| row.0 == group && row.2 == kind)
            .find(|row| row.1.split(' ').any(|served| served == version))
            .map(|row| ResourceType {
                group: Cow::Borrowed(row.0),
                kind: Cow::Borrowed(row.2),
                plural: Cow::Borrowed(row.3),
                namespaced: row.4,
            });
        built_in.or_else(|| {
            self.custom
                .iter()
                .find(|(t, versions)| {
                    t.group == group && t.kind == kind && versions.iter().any(|v| v == version)
                })
                .map(|(t, _)| t.clone())
        })
    }

    /// Serves the kind that a `CustomResourceDefinition` defines. Other objects are ignored.
    pub fn define(&mut self, definition: &Value) {
        let kind = fields::text(definition, &["spec", "names", "kind"]);
        let plural = fields::text(definition, &["spec", "names", "plural"]);
        let group = fields::text(definition, &["spec", "group"]);
        if kind.is_empty() || plural.is_empty() || group.is_empty() {
            return;
        }
        let versions = fields::list(definition, &["spec", "versions"])
            .iter()
            .filter(|version| version.get("served").and_then(Value::as_bool).unwrap_or(false))
            .map(|version| fields::text(version, &["name"]).to_owned())
            .collect();
        self.withdraw(group, plural);
        self.custom.push((
            ResourceType {
                group: Cow::Owned(group.to_owned()),
                kind: Cow::Owned(kind.to_owned()),
                plural: Cow::Owned(plural.to_owned()),
                namespaced: fields::text(definition, &["spec", "scope"]) == "Namespaced",
            },
            versions,
        ));
    }

    /// Stops serving a custom resource.
    pub fn withdraw(&mut self, group: &str, plural: &str) {
        self.custom
            .retain(|(t, _)| t.group != group || t.plural != plural);
    }
}

/// Splits `group/version` (or `version`) into group and version.
#[must_use]
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Catalog;

    #[test]
    fn kinds_are_found_by_group_version_and_kind() {
        let catalog = Catalog::new(true);
        let found = catalog.find("config.openshift.io/v1", "ClusterVersion").unwrap();
        assert_eq!(
            (found.plural.as_ref(), found.namespaced),
            ("clusterversions", false)
        );
        assert!(catalog.find("config.openshift.io/v2", "ClusterVersion").is_none());
        assert!(catalog.find("v1", "ClusterVersion").is_none());
        assert!(catalog.find("v1", "Namespace").is_some());
    }

    #[test]
    fn a_plain_cluster_has_no_openshift_kinds() {
        assert!(
            Catalog::new(false)
                .find("config.openshift.io/v1", "ClusterVersion")
                .is_none()
        );
        assert!(Catalog::new(false).find("batch/v1", "Job").is_some());
    }

    #[test]
    fn a_definition_adds_its_served_versions() {
        let mut catalog = Catalog::new(false);
        catalog.define(&json!({"spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true}, {"name": "v0", "served": false}],
        }}));
        assert!(
            catalog
                .find("example.com/v1", "Widget")
                .is_some_and(|t| t.namespaced)
        );
        assert!(catalog.find("example.com/v0", "Widget").is_none());
        catalog.withdraw("example.com", "widgets");
        assert!(catalog.find("example.com/v1", "Widget").is_none());
    }
}
