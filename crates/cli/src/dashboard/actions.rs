//! Pause, resume and retry, for pages of a dashboard that runs with `--allow-actions`.
//!
//! Each sends the patch of the command of its name, with the UID of the upgrade that the page showed, so an upgrade that was
//! deleted and created again is left alone.

use api::time::to_rfc3339;
use chrono::Utc;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::command::change;
use crate::failure::Failure;
use crate::hub::Hub;

/// What a page may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Start no more clusters.
    Pause,
    /// Start clusters again, also after a restore.
    Resume,
    /// Retry the clusters that failed.
    Retry,
}

/// An action on an upgrade.
#[derive(Clone, Debug, Deserialize)]
pub struct Request {
    /// The action.
    pub action: Action,
    /// Namespace of the upgrade.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The UID that the page showed.
    pub uid: String,
}

/// Performs an action with the rights of the caller.
///
/// # Errors
/// A name is not one, the upgrade is not the one that the page showed, or the hub rejects the request.
pub async fn perform(hub: &Hub, request: &Request) -> Result<(), Failure> {
    for name in [&request.namespace, &request.name] {
        if !api::validate::is_subdomain(name) {
            return Err(Failure::Other("this is not the name of an object".to_owned()));
        }
    }
    let hub = hub.in_namespace(&request.namespace);
    let before = hub.upgrade(&request.name).await?;
    if before.uid != request.uid {
        return Err(Failure::Other(
            "the upgrade was deleted and created again; look at it before you change it".to_owned(),
        ));
    }
    let mut patch = match request.action {
        Action::Pause => change::pause_patch(true),
        Action::Resume if before.restored => change::resume_restored_patch(&before),
        Action::Resume => change::pause_patch(false),
        Action::Retry => change::retry_patch(&change::retry_token(&before.retry, &to_rfc3339(Utc::now()))),
    };
    only_for(&mut patch, &request.uid);
    hub.patch(&request.name, &patch).await.map(drop)
}

/// Makes the hub reject the patch for an object with another UID.
fn only_for(patch: &mut Value, uid: &str) {
    patch["metadata"]["uid"] = json!(uid);
}
