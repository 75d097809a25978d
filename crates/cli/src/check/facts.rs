//! What `check` reads of a hub. Whoever may not read a part still gets the other checks.

use std::collections::BTreeSet;

use api::admission::{BINDING_KIND, POLICY_GROUP, POLICY_KIND, POLICY_LABEL, POLICY_VERSION};
use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use serde_json::Value;

use crate::failure::Failure;
use crate::hub::Hub;
use crate::hub::any::{Kind, MANAGED_CLUSTER, is_simulated};
use crate::{approval, rows, upgrade};

/// Name of the controller's Deployment and of its Lease.
pub const CONTROLLER: &str = "mcu-controller";
/// Name of the Lease that the agent of a cluster renews.
const AGENT_LEASE: &str = "managed-cluster-lease";

/// A fact, or why it cannot be read.
pub type Fact<T> = Result<T, Unread>;

/// Why a fact cannot be read, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// What the hub says.
    pub why: String,
    /// What to do.
    pub remedy: String,
}

impl From<Failure> for Unread {
    fn from(failure: Failure) -> Unread {
        match failure {
            Failure::NoResourceType { plural, remedy } => {
                let remedy = remedy.unwrap_or("use the kubeconfig of a hub");
                let (first, rest) = remedy.split_at(1);
                Unread {
                    why: Failure::NoResourceType { plural, remedy: None }.sentence(),
                    remedy: format!("{}{rest}.", first.to_uppercase()),
                }
            }
            failure => failure.sentence().as_str().into(),
        }
    }
}

impl From<&str> for Unread {
    fn from(why: &str) -> Unread {
        Unread {
            why: why.to_owned(),
            remedy: "Run this as a user who may read it.".to_owned(),
        }
    }
}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

/// A Deployment.
pub const DEPLOYMENT: Kind = Kind {
    group: "apps",
    version: "v1",
    kind: "Deployment",
    plural: "deployments",
};
/// A Lease.
pub const LEASE: Kind = Kind {
    group: "coordination.k8s.io",
    version: "v1",
    kind: "Lease",
    plural: "leases",
};
const DEFINITION: Kind = Kind {
    group: "apiextensions.k8s.io",
    version: "v1",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
};
const CLUSTER_MANAGER: Kind = Kind {
    group: "operator.open-cluster-management.io",
    version: "v1",
    kind: "ClusterManager",
    plural: "clustermanagers",
};
/// The permission of a namespace to use a `ManagedClusterSet`.
pub const BINDING: Kind = Kind {
    group: "cluster.open-cluster-management.io",
    version: "v1beta2",
    kind: "ManagedClusterSetBinding",
    plural: "managedclustersetbindings",
};

/// The kinds of OCM that the controller needs, by group and version.
pub const OCM: [(&str, &[&str]); 4] = [
    ("cluster.open-cluster-management.io/v1", &["managedclusters"]),
    (
        "cluster.open-cluster-management.io/v1beta1",
        &["placements", "placementdecisions"],
    ),
    (
        "cluster.open-cluster-management.io/v1beta2",
        &["managedclustersets", "managedclustersetbindings"],
    ),
    ("work.open-cluster-management.io/v1", &["manifestworks"]),
];

/// What an installation creates: group, plural.
pub const CREATED: [(&str, &str); 7] = [
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
    ),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
];

/// What is read before an installation.
#[derive(Debug)]
pub struct Before {
    /// Version of the API server, such as `v1.31.2`.
    pub version: Fact<String>,
    /// For each group of [`OCM`], what the hub serves of it.
    pub ocm: Vec<Fact<BTreeSet<String>>>,
    /// The `ClusterManager`, if the hub has one.
    pub manager: Fact<Option<Value>>,
    /// For each kind of [`CREATED`], whether the caller may create it.
    pub may_create: Vec<Fact<bool>>,
}

/// What is read of an installation, besides [`Before`].
#[derive(Debug)]
pub struct Installed {
    /// True when the hub is a simulated one, which has neither admission policies nor Deployments.
    pub is_simulated: bool,
    /// Our kinds that the hub serves.
    pub kinds: Fact<BTreeSet<String>>,
    /// The CRDs of our kinds.
    pub definitions: Fact<Vec<Value>>,
    /// The admission policies, and their bindings.
    pub policies: Fact<(Vec<DynamicObject>, Vec<DynamicObject>)>,
    /// The Deployment of the controller.
    pub deployment: Fact<Option<Value>>,
    /// The Lease of the controller.
    pub lease: Fact<Option<Value>>,
    /// The `ManagedClusterSetBindings` of the namespace.
    pub bindings: Fact<Vec<Value>>,
    /// All ManagedClusters.
    pub clusters: Fact<Vec<Value>>,
    /// The Leases that the agents of clusters renew, each in its cluster's namespace.
    pub leases: Fact<Vec<Value>>,
    /// The reports of the namespace.
    pub reports: Fact<Vec<Value>>,
}

impl Before {
    /// Reads the facts. With `rights`, it asks for the rights of the caller, too.
    pub async fn read(hub: &Hub, rights: bool) -> Before {
        let version = fact(hub.version().await).map(|info| info.git_version);
        let ocm = join_all(OCM.map(|(group, _)| async move { fact(hub.served(group).await) })).await;
        let manager = fact(
            hub.object(CLUSTER_MANAGER, None, "cluster-manager")
                .await
                .or_else(not_served),
        );
        let may_create = if rights {
            join_all(CREATED.map(|(group, plural)| may_create(hub, group, plural))).await
        } else {
            Vec::new()
        };
        Before {
            version,
            ocm,
            manager,
            may_create,
        }
    }

    /// True when the hub is a simulated one.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.version.as_deref().is_ok_and(is_simulated)
    }
}

impl Installed {
    /// Reads the facts of the controller in a namespace. `before` are those of the same hub.
    pub async fn read(hub: &Hub, before: &Before, controller_namespace: &str) -> Installed {
        let namespace = Some(controller_namespace);
        let group = format!("{}/{}", api::GROUP, api::VERSION);
        let (kinds, definitions, policies, deployment, lease, bindings, clusters, leases, reports) = futures::join!(
            hub.served(&group),
            definitions(hub),
            policies(hub),
            hub.object(DEPLOYMENT, namespace, CONTROLLER),
            hub.object(LEASE, namespace, CONTROLLER),
            hub.objects(BINDING, Some(hub.namespace())),
            hub.objects(MANAGED_CLUSTER, None),
            hub.objects_named(LEASE, AGENT_LEASE),
            hub.reports(false),
        );
        Installed {
            is_simulated: before.is_simulated(),
            kinds: fact(kinds),
            definitions: fact(definitions),
            policies: fact(policies),
            deployment: fact(deployment),
            lease: fact(lease),
            bindings: fact(bindings),
            clusters: fact(clusters),
            leases: fact(leases),
            reports: fact(reports),
        }
    }
}

fn fact<T>(result: Result<T, Failure>) -> Fact<T> {
    result.map_err(Unread::from)
}

/// A hub that does not serve a kind has no object of it.
fn not_served(failure: Failure) -> Result<Option<Value>, Failure> {
    match failure {
        Failure::NoResourceType { .. } => Ok(None),
        other => Err(other),
    }
}

/// Plurals of our kinds.
pub(super) const OUR_KINDS: [&str; 3] = [upgrade::PLURAL, rows::PLURAL, approval::PLURAL];

/// The CRDs of our kinds that exist.
async fn definitions(hub: &Hub) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    for plural in OUR_KINDS {
        let name = format!("{plural}.{}", api::GROUP);
        found.extend(hub.object(DEFINITION, None, &name).await?);
    }
    Ok(found)
}

async fn policies(hub: &Hub) -> Result<(Vec<DynamicObject>, Vec<DynamicObject>), Failure> {
    let list = async |kind: &str, plural: &'static str| {
        let kind = GroupVersionKind::gvk(POLICY_GROUP, POLICY_VERSION, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        let all = Api::<DynamicObject>::all_with(hub.connection().client().clone(), &resource);
        let params = ListParams::default().labels(POLICY_LABEL);
        let list = hub.connection().bound(all.list(&params), plural).await?;
        Ok::<_, Failure>(list.items)
    };
    Ok((
        list(POLICY_KIND, "validatingadmissionpolicies").await?,
        list(BINDING_KIND, "validatingadmissionpolicybindings").await?,
    ))
}

async fn may_create(hub: &Hub, group: &str, plural: &str) -> Fact<bool> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(group.to_owned()),
                resource: Some(plural.to_owned()),
                verb: Some("create".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(hub.connection().client().clone());
    let params = PostParams::default();
    let request = api.create(&params, &review);
    let answer = fact(hub.connection().bound(request, "selfsubjectaccessreviews").await)?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
