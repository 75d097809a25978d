//! Objects of any kind of the hub, as JSON.

use std::collections::BTreeSet;

use api::ManagedClustersUpgradeReport;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use serde_json::Value;

use super::{FIELD_MANAGER, Hub, PAGE};
use crate::failure::Failure;
use crate::object::Object;
use crate::rows;
use crate::upgrade::{self, Upgrade};

/// A kind of objects.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its API group.
    pub group: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Its name.
    pub kind: &'static str,
    /// Its plural in URLs.
    pub plural: &'static str,
}

/// A cluster of the hub.
pub const MANAGED_CLUSTER: Kind = Kind {
    group: "cluster.open-cluster-management.io",
    version: "v1",
    kind: "ManagedCluster",
    plural: "managedclusters",
};

/// True for the version of a simulated hub. It has neither admission policies nor access rules, and runs no Deployments, so
/// whoever looks for them says that the hub is simulated instead.
#[must_use]
pub fn is_simulated(version: &str) -> bool {
    version.ends_with("+hub-sim")
}

impl Kind {
    fn resource(self) -> ApiResource {
        let kind = GroupVersionKind::gvk(self.group, self.version, self.kind);
        ApiResource::from_gvk_with_plural(&kind, self.plural)
    }
}

impl Hub {
    fn any(&self, kind: Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        let client = self.connection.client().clone();
        match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &kind.resource()),
            None => Api::all_with(client, &kind.resource()),
        }
    }

    /// An object; `None` if it does not exist.
    ///
    /// # Errors
    /// The hub rejects the request, or does not serve the kind.
    pub async fn object(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, Failure> {
        let api = self.any(kind, namespace);
        let found = self.connection.bound(api.get_opt(name), kind.plural).await?;
        Ok(found.map(|object| serde_json::to_value(object).unwrap_or_default()))
    }

    /// All objects of a kind in a namespace, or everywhere.
    ///
    /// # Errors
    /// The hub rejects the request, or does not serve the kind.
    pub async fn objects(&self, kind: Kind, namespace: Option<&str>) -> Result<Vec<Value>, Failure> {
        self.pages(kind, namespace, ListParams::default()).await
    }

    /// The objects of a kind that have this name, of all namespaces.
    ///
    /// # Errors
    /// The hub rejects the request, or does not serve the kind.
    pub async fn objects_named(&self, kind: Kind, name: &str) -> Result<Vec<Value>, Failure> {
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        self.pages(kind, None, params).await
    }

    async fn pages(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        mut params: ListParams,
    ) -> Result<Vec<Value>, Failure> {
        let api = self.any(kind, namespace);
        params.limit = Some(PAGE);
        let mut all = Vec::new();
        loop {
            let page = self.connection.bound(api.list(&params), kind.plural).await?;
            let values = page.items.into_iter().map(serde_json::to_value);
            all.extend(values.filter_map(Result::ok));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(all),
            }
        }
    }

    /// The names of the ManagedClusters with these labels.
    ///
    /// # Errors
    /// The selector is invalid, or the hub rejects the request.
    pub async fn clusters_with(&self, selector: &str) -> Result<BTreeSet<String>, Failure> {
        let params = ListParams::default().labels(selector);
        let resource = MANAGED_CLUSTER.resource();
        let all = self.metadata(&resource, params, MANAGED_CLUSTER.plural).await?;
        let names = all.iter().filter_map(|metadata| metadata["name"].as_str());
        Ok(names.map(str::to_owned).collect())
    }

    /// The reports of all upgrades of the namespace, or of all namespaces.
    ///
    /// # Errors
    /// The hub rejects the request.
    pub async fn reports(&self, all_namespaces: bool) -> Result<Vec<Value>, Failure> {
        let resource = ApiResource::erase::<ManagedClustersUpgradeReport>(&());
        let client = self.connection.client().clone();
        let api: Api<Object> = if all_namespaces {
            Api::all_with(client, &resource)
        } else {
            Api::namespaced_with(client, self.namespace(), &resource)
        };
        let mut params = ListParams::default().limit(PAGE);
        let mut all = Vec::new();
        loop {
            let page = self.connection.bound(api.list(&params), rows::PLURAL).await?;
            all.extend(page.items.into_iter().map(Object::into_value));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(all),
            }
        }
    }

    /// Creates an upgrade. In a dry run, the hub checks it and returns what it would store, but stores nothing.
    ///
    /// # Errors
    /// The hub rejects the request, for example because the name is taken.
    pub async fn create(&self, object: &Value, is_dry: bool) -> Result<Upgrade, Failure> {
        let object: DynamicObject =
            serde_json::from_value(object.clone()).map_err(|error| Failure::Other(error.to_string()))?;
        let kind = Kind {
            group: api::GROUP,
            version: api::VERSION,
            kind: "ManagedClustersUpgrade",
            plural: upgrade::PLURAL,
        };
        let params = PostParams {
            dry_run: is_dry,
            field_manager: Some(FIELD_MANAGER.to_owned()),
        };
        let api = self.any(kind, Some(self.namespace()));
        let created = self
            .connection
            .bound(api.create(&params, &object), upgrade::PLURAL)
            .await?;
        Ok(Upgrade::read(serde_json::to_value(created).unwrap_or_default()))
    }

    /// The version of the API server.
    ///
    /// # Errors
    /// The hub cannot be reached.
    pub async fn version(&self) -> Result<Info, Failure> {
        let client = self.connection.client();
        self.connection.bound(client.apiserver_version(), "version").await
    }

    /// The plurals of the kinds that the hub serves in a version of a group; none if it does not serve it.
    ///
    /// # Errors
    /// The hub cannot be reached.
    pub async fn served(&self, group_version: &str) -> Result<BTreeSet<String>, Failure> {
        let client = self.connection.client();
        let request = client.list_api_group_resources(group_version);
        match self.connection.bound(request, "apis").await {
            Ok(list) => Ok(list.resources.into_iter().map(|resource| resource.name).collect()),
            Err(Failure::NoResourceType { .. }) => Ok(BTreeSet::new()),
            Err(Failure::Server { reason, .. }) if reason == "NotFound" => Ok(BTreeSet::new()),
            Err(failure) => Err(failure),
        }
    }
}
