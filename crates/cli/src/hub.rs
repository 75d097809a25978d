//! Requests to the hub for upgrades, reports and works. This module renders nothing.

pub mod answers;
pub mod any;

use answers::Answers;
use api::names::{LABEL_MCU_UID, LABEL_STEP, PROBE};
use api::views::ManifestWork;
use api::{ManagedClustersUpgrade, ManagedClustersUpgradeApproval, ManagedClustersUpgradeReport};
use futures::{Stream, StreamExt};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{ApiResource, GroupVersionKind, ListParams, Patch, PatchParams, PostParams, Request};
use kube::core::ObjectList;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use resolve::lists::{ListKind, ListedPage};
use serde_json::Value;

use crate::approval;
use crate::args::Common;
use crate::connection::{Connection, Peer};
use crate::failure::Failure;
use crate::object::Object;
use crate::orphans::Name;
use crate::policies;
use crate::rows::{self, Rows};
use crate::upgrade::{self, Upgrade};

/// Field manager for the writes of the plugin.
pub const FIELD_MANAGER: &str = "kubectl-mcu";
/// Seconds after which the hub ends a watch. The client then starts a new one.
pub const RENEWAL: u32 = 45;

/// Maximum number of objects in a page of a list.
const PAGE: u32 = 500;

/// A connection to the hub, with the namespace of the upgrades.
#[derive(Clone)]
pub struct Hub {
    connection: Connection,
}

impl Hub {
    /// Connects as kubectl does; see [`Connection::open`].
    ///
    /// # Errors
    /// No hub is configured, or its configuration is invalid. This function does not contact the hub.
    pub async fn connect(common: &Common) -> Result<Hub, Failure> {
        let connection = Connection::open(common, Peer::Hub).await?;
        Ok(Hub { connection })
    }

    /// The namespace of `-n`, or the context's.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.connection.namespace
    }

    /// The same hub with another namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Hub {
        let mut hub = self.clone();
        namespace.clone_into(&mut hub.connection.namespace);
        hub
    }

    /// The connection.
    #[must_use]
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }

    fn upgrades(&self) -> Api<Object> {
        self.upgrades_by(self.connection.client().clone())
    }

    fn upgrades_by(&self, client: Client) -> Api<Object> {
        let resource = ApiResource::erase::<ManagedClustersUpgrade>(&());
        Api::namespaced_with(client, self.namespace(), &resource)
    }

    /// The upgrade of this name.
    ///
    /// # Errors
    /// No upgrade has this name, or the hub rejects the request.
    pub async fn upgrade(&self, name: &str) -> Result<Upgrade, Failure> {
        let object = self
            .connection
            .bound(self.upgrades().get(name), upgrade::PLURAL)
            .await?;
        Ok(Upgrade::read(object.into_value()))
    }

    /// All upgrades of the namespace or of all namespaces, ordered by namespace and name.
    ///
    /// # Errors
    /// The hub rejects the request.
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

    /// The name of the user as the hub knows it.
    ///
    /// # Errors
    /// The hub rejects the request, or tells no name.
    pub async fn user_name(&self) -> Result<String, Failure> {
        let reviews = Api::<SelfSubjectReview>::all(self.connection.client().clone());
        let (params, review) = (PostParams::default(), SelfSubjectReview::default());
        let review = self
            .connection
            .bound(reviews.create(&params, &review), "selfsubjectreviews")
            .await?;
        let name = review.status.and_then(|status| status.user_info?.username);
        name.ok_or_else(|| Failure::Other("the hub does not tell your user name".to_owned()))
    }

    /// Stores an approval and returns it as the hub stored it.
    ///
    /// # Errors
    /// The hub rejects the request.
    pub async fn approve(&self, approval: &ManagedClustersUpgradeApproval) -> Result<Value, Failure> {
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let client = self.connection.client().clone();
        let api = Api::<ManagedClustersUpgradeApproval>::namespaced(client, self.namespace());
        let stored = self
            .connection
            .bound(api.create(&params, approval), approval::PLURAL)
            .await?;
        let mut stored = serde_json::to_value(stored).unwrap_or(Value::Null);
        if let Some(metadata) = stored["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        Ok(stored)
    }

    /// The warning that admission policies are not enforced, if this user may read them and they are not.
    pub async fn policy_warning(&self) -> Option<String> {
        policies::warning(self.connection.client()).await
    }

    /// The metadata of all ManifestWorks that carry the UID of an upgrade, of all clusters.
    ///
    /// # Errors
    /// The hub rejects the request.
    pub async fn works(&self) -> Result<Vec<Value>, Failure> {
        let kind = GroupVersionKind::gvk("work.open-cluster-management.io", "v1", "ManifestWork");
        let params = ListParams::default().labels(LABEL_MCU_UID);
        self.metadata(&ApiResource::from_gvk(&kind), params, "manifestworks")
            .await
    }

    /// The probes of the upgrade with this UID, of all clusters. One that cannot be read is left out.
    ///
    /// # Errors
    /// The hub rejects the request.
    pub async fn probes(&self, uid: &str) -> Result<Vec<ManifestWork>, Failure> {
        let kind = ListKind::Works;
        let client = self.connection.client();
        let labels = format!("{LABEL_STEP}={PROBE},{LABEL_MCU_UID}={uid}");
        let mut params = ListParams::default().labels(&labels).limit(PAGE);
        let mut probes = Vec::new();
        loop {
            let page = async {
                let request = Request::new(kind.path())
                    .list(&params)
                    .map_err(kube::Error::BuildRequest)?;
                client.request_text(request).await
            };
            let text = self.connection.bound(page, kind.plural()).await?;
            let page = ListedPage::read(&text).map_err(Failure::Other)?;
            probes.extend(page.items().filter_map(|item| serde_json::from_str(item).ok()));
            match page.token() {
                Some(token) => params.continue_token = Some(token.to_owned()),
                None => return Ok(probes),
            }
        }
    }

    /// UIDs and names of all upgrades of all namespaces.
    ///
    /// # Errors
    /// The hub rejects the request.
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

    /// A page of the list of all objects of a kind, as JSON. `token` continues a list.
    ///
    /// # Errors
    /// The hub rejects the request.
    pub async fn list_page(&self, kind: ListKind, token: Option<&str>) -> Result<String, Failure> {
        let params = ListParams {
            label_selector: kind.label().map(str::to_owned),
            limit: Some(PAGE),
            continue_token: token.map(str::to_owned),
            ..ListParams::default()
        };
        let client = self.connection.client();
        let page = async {
            let request = Request::new(kind.path())
                .list(&params)
                .map_err(kube::Error::BuildRequest)?;
            client.request_text(request).await
        };
        self.connection.bound(page, kind.plural()).await
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

    /// The report rows of an upgrade.
    ///
    /// # Errors
    /// The hub rejects the request.
    pub async fn rows(&self, upgrade: &Upgrade) -> Result<Rows, Failure> {
        let resource = ApiResource::erase::<ManagedClustersUpgradeReport>(&());
        let api: Api<Object> =
            Api::namespaced_with(self.connection.client().clone(), self.namespace(), &resource);
        let params = ListParams::default().labels(&rows::selector(&upgrade.name));
        let list = self.connection.bound(api.list(&params), rows::PLURAL).await?;
        let shards: Vec<Value> = list.items.into_iter().map(Object::into_value).collect();
        Ok(Rows::merge(&shards, &upgrade.uid))
    }

    /// Applies a merge patch to an upgrade and returns the object that the hub stored.
    ///
    /// # Errors
    /// No upgrade has this name, or the hub rejects the request.
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

    /// Every state of an upgrade from now on, and `None` when it is deleted. A lost connection is restored, with backoff; the answers
    /// tell when it is.
    pub fn follow(
        &self,
        name: &str,
    ) -> (
        impl Stream<Item = Result<Option<Upgrade>, String>> + Send + use<>,
        Answers,
    ) {
        let config = watcher::Config::default()
            .fields(&format!("metadata.name={name}"))
            .timeout(RENEWAL);
        let (client, answers) = Answers::of(self.connection.client());
        let states = watcher(self.upgrades_by(client), config)
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
            .filter_map(std::future::ready);
        (states, answers)
    }
}
