//! Writes the statuses and objects of which a controller is the only writer.
//!
//! The writer remembers what it wrote. Therefore an informer that lags is not mistaken for a change by someone else, and a
//! schema that drops a field does not cause endless writes. Nothing is written during a blackout.

use std::collections::HashMap;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::fields;

/// Field manager of all applied objects.
pub const MANAGER: &str = "spoke-sim";
/// How often a write with a conflict is tried again at once.
const MAX_CONFLICTS: usize = 8;
/// Timeout of a write. The client would wait for minutes, and it is better to try again with current state.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(15);

/// Whether the API server cannot be reached by anybody.
pub type Blackout = watch::Receiver<bool>;

/// The writer of one controller.
pub struct StatusWriter {
    client: Client,
    blackout: Blackout,
    written: HashMap<String, Written>,
}

struct Written {
    revision: u128,
    asked: Value,
    stored: Value,
}

/// A write that did not happen.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A fault makes the API server unavailable.
    #[error("the API server is away")]
    Blackout,
    /// The API server did not respond in time.
    #[error("no answer in time")]
    Timeout,
    /// The API server refused the write or could not be reached.
    #[error(transparent)]
    Refused(#[from] kube::Error),
    /// All attempts had conflicts.
    #[error("lost every race for the object")]
    Raced,
}

impl StatusWriter {
    /// A writer that has not written anything yet.
    #[must_use]
    pub fn new(client: Client, blackout: Blackout) -> Self {
        Self {
            client,
            blackout,
            written: HashMap::new(),
        }
    }

    /// Whether there is a blackout.
    #[must_use]
    pub fn is_dark(&self) -> bool {
        *self.blackout.borrow()
    }

    /// The client, for reads.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn api(&self, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        if namespace.is_empty() {
            Api::all_with(self.client.clone(), resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, resource)
        }
    }

    /// The status of an object, or the last written one if the informer lags behind it.
    #[must_use]
    pub fn status<'a>(&'a self, resource: &ApiResource, seen: &'a Value) -> &'a Value {
        match self.written.get(&key(resource, seen)) {
            Some(written) if revision(seen) <= written.revision => &written.asked,
            _ => &seen["status"],
        }
    }

    /// Writes a status unless the object already has it. `seen`: the object from the informer. Returns whether something was
    /// written.
    ///
    /// # Errors
    /// The write failed. It is safe to repeat it.
    pub async fn put_status(
        &mut self,
        resource: &ApiResource,
        seen: &Value,
        status: &Value,
    ) -> Result<bool, WriteError> {
        let key = key(resource, seen);
        if let Some(written) = self.written.get(&key) {
            let foreign = revision(seen) > written.revision && seen["status"] != written.stored;
            if !foreign && written.asked == *status {
                return Ok(false);
            }
        } else if seen["status"] == *status {
            return Ok(false);
        }
        let api = self.api(resource, fields::text(seen, &["metadata", "namespace"]));
        let name = fields::text(seen, &["metadata", "name"]).to_owned();
        let write = async {
            for _ in 0..MAX_CONFLICTS {
                let mut live = api.get(&name).await?;
                live.data["status"] = status.clone();
                match api.replace_status(&name, &PostParams::default(), &live).await {
                    Err(kube::Error::Api(refusal)) if refusal.code == 409 => {}
                    result => return Ok(result?),
                }
            }
            Err(WriteError::Raced)
        };
        let stored = self.bounded(write).await?;
        let stored = serde_json::to_value(&stored).unwrap_or_default();
        let written = Written {
            revision: revision(&stored),
            asked: status.clone(),
            stored: stored["status"].clone(),
        };
        self.written.insert(key, written);
        Ok(true)
    }

    /// Creates an object unless it exists. Returns whether it was created.
    ///
    /// # Errors
    /// The write failed.
    pub async fn create(&self, resource: &ApiResource, object: &Value) -> Result<bool, WriteError> {
        let api = self.api(resource, fields::text(object, &["metadata", "namespace"]));
        let object: DynamicObject =
            serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
        let write = async {
            match api.create(&PostParams::default(), &object).await {
                Ok(_) => Ok(true),
                Err(kube::Error::Api(refusal)) if refusal.reason == "AlreadyExists" => Ok(false),
                Err(error) => Err(error.into()),
            }
        };
        self.bounded(write).await
    }

    /// Changes parts of an object by a merge patch.
    ///
    /// # Errors
    /// The write failed.
    pub async fn merge(
        &self,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<(), WriteError> {
        let api = self.api(resource, namespace);
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(patch);
        let write = async { Ok(api.patch(name, &params, &patch).await.map(drop)?) };
        self.bounded(write).await
    }

    /// Writes a whole object by server-side apply, and creates it if it is missing.
    ///
    /// # Errors
    /// The write failed.
    pub async fn apply(&self, resource: &ApiResource, object: &Value) -> Result<(), WriteError> {
        let api = self.api(resource, fields::text(object, &["metadata", "namespace"]));
        let name = fields::text(object, &["metadata", "name"]);
        let params = PatchParams::apply(MANAGER).force();
        let write = async { Ok(api.patch(name, &params, &Patch::Apply(object)).await.map(drop)?) };
        self.bounded(write).await
    }

    /// Deletes an object. It is not an error if the object does not exist.
    ///
    /// # Errors
    /// The write failed.
    pub async fn delete(
        &self,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
    ) -> Result<(), WriteError> {
        let api = self.api(resource, namespace);
        let write = async {
            match api.delete(name, &DeleteParams::default()).await {
                Err(kube::Error::Api(refusal)) if refusal.code == 404 => Ok(()),
                result => Ok(result.map(drop)?),
            }
        };
        self.bounded(write).await
    }

    async fn bounded<T>(&self, write: impl Future<Output = Result<T, WriteError>>) -> Result<T, WriteError> {
        if self.is_dark() {
            return Err(WriteError::Blackout);
        }
        tokio::time::timeout(TIMEOUT, write)
            .await
            .unwrap_or(Err(WriteError::Timeout))
    }
}

fn key(resource: &ApiResource, object: &Value) -> String {
    // By uid, because an object that was deleted and created again has a new status.
    json!([resource.plural, object["metadata"]["uid"]]).to_string()
}

/// The resource version as a number. Since Kubernetes 1.35, resource versions of one API server are ordered.
fn revision(object: &Value) -> u128 {
    fields::text(object, &["metadata", "resourceVersion"])
        .parse()
        .unwrap_or(0)
}
