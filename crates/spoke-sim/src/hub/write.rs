//! Sends one write to the hub.

use std::time::Duration;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Error};
use serde_json::{Value, json};

use super::view::WorkView;
use super::work_state::{Write, WriteKind};
use crate::fields::{self, Cond, Time, set_condition};

/// The client would retry for minutes. It is better to run again with current state.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Sends a write. Returns the resulting object or the HTTP status of the refusal (0 without a response).
pub(super) async fn execute(client: &Client, write: &Write) -> Result<WorkView, u16> {
    let api: Api<WorkView> = Api::namespaced(client.clone(), &write.cluster);
    let (params, patch) = (PatchParams::default(), Patch::Merge(&write.body));
    let result = tokio::time::timeout(TIMEOUT, async {
        match write.kind {
            WriteKind::Status => api.patch_status(&write.work, &params, &patch).await,
            WriteKind::Hold | WriteKind::Release => api.patch(&write.work, &params, &patch).await,
        }
    });
    match result.await {
        Ok(Ok(view)) => Ok(view),
        Ok(Err(Error::Api(status))) => {
            tracing::debug!(cluster = %write.cluster, work = %write.work, kind = ?write.kind, code = status.code,
                message = %status.message, "the hub refused a write");
            Err(status.code)
        }
        Ok(Err(error)) => {
            tracing::debug!(cluster = %write.cluster, work = %write.work, %error, "a write failed");
            Err(0)
        }
        Err(_) => Err(0),
    }
}

/// Sets on a ManagedCluster whether its agent is available, as the registration controllers would.
pub(super) async fn signal(client: &Client, cluster: &str, available: bool, now: Time) -> Result<(), Error> {
    let kind = GroupVersionKind::gvk("cluster.open-cluster-management.io", "v1", "ManagedCluster");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let live = api.get(cluster).await?;
    let mut object = json!({"status": {"conditions": []}});
    if let Some(conditions) =
        fields::get(&live.data, &["status", "conditions"]).filter(|value| value.is_array())
    {
        object["status"]["conditions"] = conditions.clone();
    }
    let kind = "ManagedClusterConditionAvailable";
    let cond = if available {
        Cond {
            kind,
            status: "True",
            reason: "ManagedClusterAvailable",
            message: "Managed cluster is available",
        }
    } else {
        let message = "Registration agent stopped updating its lease.";
        Cond {
            kind,
            status: "Unknown",
            reason: "ManagedClusterLeaseUpdateStopped",
            message,
        }
    };
    if set_condition(&mut object, cond, now) {
        let patch: Patch<&Value> = Patch::Merge(&object);
        api.patch_status(cluster, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}
