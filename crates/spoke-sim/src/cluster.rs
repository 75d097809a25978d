//! One simulated cluster: its objects, its controllers, its faults, and the records of its agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::catalog::Catalog;
use crate::fault::Faults;
use crate::fields::{self, Time};
use crate::platform::cvo::{self, Installation};
use crate::platform::{Controller, ControllerContext, Pace, Platform, pools};
use crate::seeded_rng::SeededRng;
use crate::store::{ApiError, ObjectKey, Store};

/// One simulated cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Name of the ManagedCluster.
    pub name: Arc<str>,
    /// The kinds it serves.
    pub catalog: Catalog,
    /// Its objects.
    pub store: Store,
    /// Its faults.
    pub faults: Faults,
    /// The agent's `AppliedManifestWorks`, by work name.
    pub applied: BTreeMap<Arc<str>, AppliedWork>,
    /// When the hub requested the latest apply. It is cleared when the controllers have seen the apply.
    pub asked: Option<Time>,
    platform: Platform,
    rng: SeededRng,
}

/// The agent's record of a work on the cluster (`AppliedManifestWork`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppliedWork {
    /// Its uid, which the owner references of objects contain.
    pub uid: String,
    /// `status.appliedResources` with their uids.
    pub resources: Vec<(ObjectKey, String)>,
    /// What strategy Update last PUT: hash of the manifest and revision of the object.
    pub puts: Vec<(ObjectKey, u64, u64)>,
}

impl Cluster {
    /// A new cluster. With `installation` it has a ClusterVersion, without it is not OpenShift.
    #[must_use]
    pub fn new(name: &str, installation: Option<&Installation>, rng: SeededRng, now: Time) -> Self {
        let mut store = Store::new(rng.of("store"));
        if let Some(installation) = installation {
            // This cannot fail, because the key is free and the object is complete.
            let _ = store.create(
                &cvo::key(),
                &cvo::new_cluster_version(installation, now),
                "cluster-bootstrap",
                now,
            );
            if !installation.updates.is_empty() {
                cvo::create_maps(&mut store, now);
            }
        }
        let mut cluster = Self {
            name: name.into(),
            catalog: Catalog::new(installation.is_some()),
            store,
            faults: Faults::default(),
            applied: BTreeMap::new(),
            asked: None,
            platform: Platform::offering(installation.map_or(&[], |installation| &installation.updates)),
            rng,
        };
        let offering = installation.filter(|installation| !installation.updates.is_empty());
        let pools = offering.map(|installation| pools::objects(&installation.version));
        for object in pools.into_iter().flatten() {
            // This cannot fail, because the object is complete and its kind is served.
            let _ = cluster.place("machine-config-operator", &object, now);
        }
        cluster
    }

    /// Lets the cluster's controllers act. Returns when they next need to.
    pub fn advance(&mut self, pace: &Pace, now: Time) -> Option<Time> {
        let asked = self.asked.take().unwrap_or(now);
        let mut context = ControllerContext {
            store: &mut self.store,
            faults: &self.faults,
            pace,
            rng: self.rng,
            asked,
        };
        self.platform.advance(&mut context, now)
    }

    /// The random numbers of this cluster.
    #[must_use]
    pub fn rng(&self) -> SeededRng {
        self.rng
    }

    /// Changes an object as a user of the cluster would (GET, change, PUT), for example by `oc adm upgrade`.
    ///
    /// # Errors
    /// The object does not exist or the change is invalid.
    pub fn edit(
        &mut self,
        key: &ObjectKey,
        manager: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Value, ApiError> {
        let mut object = self.store.get(key).ok_or_else(|| ApiError::not_found(key))?;
        change(&mut object);
        self.store.replace(key, &object, manager)
    }

    /// Creates or replaces an object with its status. A `CustomResourceDefinition` is served from then on.
    ///
    /// # Errors
    /// The kind is not served, or the object is invalid.
    pub fn place(&mut self, manager: &str, object: &Value, now: Time) -> Result<Value, ApiError> {
        let (api_version, kind) = (
            fields::text(object, &["apiVersion"]),
            fields::text(object, &["kind"]),
        );
        let served = self
            .catalog
            .find(api_version, kind)
            .ok_or_else(|| ApiError::NoSuchKind(kind.to_owned()))?;
        let namespace = fields::text(object, &["metadata", "namespace"]);
        let name = fields::text(object, &["metadata", "name"]);
        let key = ObjectKey::new(served.group, served.plural, namespace, name);
        if self.store.revision_of(&key).is_some() {
            self.store.replace(&key, object, manager)?;
        } else {
            let mut new = object.clone();
            fields::object_at(&mut new, &[]).remove("status");
            self.store.create(&key, &new, manager, now)?;
        }
        if let Some(status) = object.get("status") {
            self.store.amend(&key, |live| {
                fields::object_at(live, &[]).insert("status".into(), status.clone());
            });
        }
        let placed = self.store.get(&key).unwrap_or_default();
        if key.resource == "customresourcedefinitions" {
            self.catalog.define(&placed);
        }
        Ok(placed)
    }

    /// Whether RBAC currently denies the agent access to an object.
    #[must_use]
    pub fn forbids(&self, key: &ObjectKey) -> bool {
        if key.resource != "clusterversions" || key.group != "config.openshift.io" {
            return false;
        }
        self.faults
            .forbidden()
            .is_some_and(|always| always || !self.is_granted())
    }

    /// Whether there is a binding `admin-ocm`, or a `ClusterRole` that is aggregated to the agent.
    fn is_granted(&self) -> bool {
        let rbac = "rbac.authorization.k8s.io";
        self.store
            .revision_of(&ObjectKey::new(rbac, "clusterrolebindings", "", "admin-ocm"))
            .is_some()
            || self.store.keys_of(rbac, "clusterroles").any(|key| {
                let label = "open-cluster-management.io/aggregate-to-work";
                let role = self.store.get(key).unwrap_or_default();
                fields::text(&role, &["metadata", "labels", label]) == "true"
            })
    }
}
