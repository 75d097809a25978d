//! Checks whether the hub enforces the admission policies from `deploy/`, if the user may read them.

use std::time::Duration;

use api::admission::{
    BINDING_KIND, POLICY_GROUP, POLICY_KIND, POLICY_LABEL, POLICY_VERSION, describe, evaluate_all,
};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client};

use crate::hub::any::is_simulated;

/// Time limit for the check. It is short because the output of the command is already on the screen.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The warning as one line, or a note that the hub is simulated. `None` if all policies are enforced, if the user may not read
/// them, or if the hub does not respond. Policies have no namespace, so only users with permissions on the whole hub get it.
pub async fn warning(client: &Client) -> Option<String> {
    let found = tokio::time::timeout(TIMEOUT, async {
        // A user who may not read the policies causes no second request.
        let policies = list(client, POLICY_KIND).await?;
        let bindings = list(client, BINDING_KIND).await?;
        let Some(text) = describe(&evaluate_all(&policies, &bindings, None)) else {
            return Ok(None);
        };
        let version = client.apiserver_version().await?.git_version;
        Ok::<_, kube::Error>(Some(if is_simulated(&version) {
            "Note: this is a simulated hub, which enforces no admission policies.\n".to_owned()
        } else {
            format!(
                "Warning: the hub does not enforce all admission policies, so other users may be able to forge what the controller trusts: {text}\n"
            )
        }))
    });
    found.await.ok()?.ok()?
}

async fn list(client: &Client, kind: &str) -> kube::Result<Vec<DynamicObject>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(POLICY_GROUP, POLICY_VERSION, kind));
    let all = Api::<DynamicObject>::all_with(client.clone(), &resource);
    Ok(all.list(&ListParams::default().labels(POLICY_LABEL)).await?.items)
}

#[cfg(test)]
mod tests;
