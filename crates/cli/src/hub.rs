//! Talking to the hub: upgrades and their reports. It renders nothing.

use api::names::LABEL_MCU_UID;
use api::{ManagedClustersUpgrade, ManagedClustersUpgradeReport};
use futures::{Stream, StreamExt};
use kube::api::{ApiResource, GroupVersionKind, ListParams, Patch, PatchParams, Request};
use kube::core::ObjectList;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde_json::Value;

use crate::args::Common;
use crate::connection::{Connection, Peer};
use crate::failure::Failure;
use crate::object::Object;
use crate::orphans::Name;
use crate::policies;
use crate::rows::{self, Rows};
use crate::upgrade::{self, Upgrade};

/// Field manager of the plugin's writes.
pub const FIELD_MANAGER: &str = "kubectl-mcu";
/// Seconds after which the hub ends a watch, which is then renewed.
pub const RENEWAL: u32 = 45;

/// Objects per page where all are listed.
const PAGE: u32 = 500;

/// A hub, seen from one namespace.
#[derive(Clone)]
pub struct Hub {
    connection: Connection,
}

impl Hub {
    /// Connects as kubectl would; see [`Connection::open`].
    ///
    /// # Errors
    /// When no hub is configured or its configuration is wrong. The hub itself is not contacted.
    pub async fn connect(common: &Common) -> Result<Hub, Failure> {
        let connection = Connection::open(common, Peer::Hub).await?;
        Ok(Hub { connection })
    }

    /// The namespace of `-n`, or the context's.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.connection.namespace
    }

    fn upgrades(&self) -> Api<Object> {
        let resource = ApiResource::erase::<ManagedClustersUpgrade>(&());
        Api::namespaced_with(self.connection.client().clone(), self.namespace(), &resource)
    }

    /// One MCU.
    ///
    /// # Errors
    /// When there is none of this name, or the hub refuses.
    pub async fn upgrade(&self, name: &str) -> Result<Upgrade, Failure> {
        let object = self
            .connection
            .bound(self.upgrades().get(name), upgrade::PLURAL)
            .await?;
        Ok(Upgrade::read(object.into_value()))
    }

    /// All MCUs of the namespace, or of all namespaces, by namespace and name.
    ///
    /// # Errors
    /// When the hub refuses.
    pub async fn list(&self, all_namespaces: bool) -> Result<Vec<Upgrade>, Failure> {
        let resource = ApiResource::erase::<ManagedClustersUpgrade>(&());
        let api: Api<Object> = if all_namespaces {
            Api::all_with(self.connection.client().clone(), &resource)
        } else {
            self.upgrades()
        };
        let list = self
            .connection
            .bound(api.list(&ListParams::default()), upgrade::PLURAL)
            .await?;
        let mut upgrades: Vec<Upgrade> = list
            .items
            .into_iter()
            .map(|object| Upgrade::read(object.into_value()))
            .collect();
        upgrades.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        Ok(upgrades)
    }

    /// The warning that admission policies are not enforced, if this user may read them and they are not.
    pub async fn policy_warning(&self) -> Option<String> {
        policies::warning(self.connection.client()).await
    }

    /// The metadata of all ManifestWorks that carry the UID of an upgrade, of all clusters.
    ///
    /// # Errors
    /// When the hub refuses.
    pub async fn works(&self) -> Result<Vec<Value>, Failure> {
        let kind = GroupVersionKind::gvk("work.open-cluster-management.io", "v1", "ManifestWork");
        let params = ListParams::default().labels(LABEL_MCU_UID);
        self.metadata(&ApiResource::from_gvk(&kind), params, "manifestworks")
            .await
    }

    /// UIDs and names of all upgrades of all namespaces.
    ///
    /// # Errors
    /// When the hub refuses.
    pub async fn upgrade_names(&self) -> Result<Vec<Name>, Failure> {
        let resource = ApiResource::erase::<ManagedClustersUpgrade>(&());
        let all = self
            .metadata(&resource, ListParams::default(), upgrade::PLURAL)
            .await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = |meta: Value| Name {
            uid: text(&meta["uid"]),
            key: format!("{}/{}", text(&meta["namespace"]), text(&meta["name"])),
        };
        Ok(all.into_iter().map(name).collect())
    }

    /// The metadata of all objects of a kind, page by page.
    async fn metadata(
        &self,
        resource: &ApiResource,
        mut params: ListParams,
        plural: &'static str,
    ) -> Result<Vec<Value>, Failure> {
        let client = self.connection.client();
        let requests = Request::new(Object::url_path(resource, None));
        params.limit = Some(PAGE);
        let mut all = Vec::new();
        loop {
            let page = async {
                let request = requests
                    .list_metadata(&params)
                    .map_err(kube::Error::BuildRequest)?;
                client.request::<ObjectList<Object>>(request).await
            };
            let page = self.connection.bound(page, plural).await?;
            for object in page.items {
                let mut metadata = object.into_value()["metadata"].take();
                if let Some(fields) = metadata.as_object_mut() {
                    fields.remove("managedFields");
                }
                all.push(metadata);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(all),
            }
        }
    }

    /// The report rows of an MCU.
    ///
    /// # Errors
    /// When the hub refuses.
    pub async fn rows(&self, upgrade: &Upgrade) -> Result<Rows, Failure> {
        let resource = ApiResource::erase::<ManagedClustersUpgradeReport>(&());
        let api: Api<Object> =
            Api::namespaced_with(self.connection.client().clone(), self.namespace(), &resource);
        let params = ListParams::default().labels(&rows::selector(&upgrade.name));
        let list = self.connection.bound(api.list(&params), rows::PLURAL).await?;
        let shards: Vec<Value> = list.items.into_iter().map(Object::into_value).collect();
        Ok(Rows::merge(&shards, &upgrade.uid))
    }

    /// Merges a JSON patch into an MCU and returns what the hub stored.
    ///
    /// # Errors
    /// When there is none of this name, or the hub refuses.
    pub async fn patch(&self, name: &str, patch: &Value) -> Result<Upgrade, Failure> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let api = self.upgrades();
        let object = self
            .connection
            .bound(api.patch(name, &params, &Patch::Merge(patch)), upgrade::PLURAL)
            .await?;
        Ok(Upgrade::read(object.into_value()))
    }

    /// Every state of an MCU from now on; `None` once it is gone. Lost connections are made again, with back-off.
    pub fn follow(&self, name: &str) -> impl Stream<Item = Result<Option<Upgrade>, String>> + Send + use<> {
        let config = watcher::Config::default()
            .fields(&format!("metadata.name={name}"))
            .timeout(RENEWAL);
        watcher(self.upgrades(), config)
            .default_backoff()
            .scan(false, |listed, event| {
                let next = match event {
                    Ok(watcher::Event::Init) => {
                        *listed = false;
                        None
                    }
                    Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                        *listed = true;
                        Some(Ok(Some(Upgrade::read(object.into_value()))))
                    }
                    Ok(watcher::Event::InitDone) => (!*listed).then_some(Ok(None)),
                    Ok(watcher::Event::Delete(_)) => Some(Ok(None)),
                    Err(error) => Some(Err(error.to_string())),
                };
                std::future::ready(Some(next))
            })
            .filter_map(std::future::ready)
    }
}
