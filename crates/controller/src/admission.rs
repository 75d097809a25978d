//! Whether the hub enforces the admission policies that `deploy/` ships. The controller works without them, but then believes
//! what others may write; so it says so: on `/readyz`, in the log once per change, and by a metric.
//!
//! An idle controller asks the hub nothing: the policies are read at the start, at the begin of a term, and when somebody
//! asks for readiness and what is known is old.

use std::time::Duration;

use api::admission::{
    BINDING_KIND, Enforcement, POLICIES, POLICY_GROUP, POLICY_KIND, POLICY_VERSION, describe, judge, lacking,
};
use futures::future::join_all;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Error};
use tokio::time::Instant;

use crate::lease;
use crate::telemetry::health::Readiness;
use crate::telemetry::metrics::Metrics;

/// Name of the finding on `/readyz`.
const FINDING: &str = "policies";
/// After this time what is known is old.
const OLD: Duration = Duration::from_mins(10);
/// The same where a policy could not be read.
const OLD_UNREADABLE: Duration = Duration::from_mins(1);
/// The begin of a term asks again only after this time: the first one begins right after the start.
const RECENT: Duration = Duration::from_mins(1);
/// Longest time of one reading.
const PATIENCE: Duration = Duration::from_secs(10);

/// Follows the policies for as long as the process lives.
pub async fn follow(client: &Client, readiness: &Readiness, metrics: &Metrics, leadership: &lease::Handle) {
    let mut terms = leadership.subscribe();
    let mut electing = true;
    let mut told = None;
    loop {
        terms.mark_unchanged();
        let found = read_all(client).await;
        let read_at = Instant::now();
        let text = describe(&found);
        metrics.set_policies_missing(lacking(&found));
        readiness.warn(FINDING, text.as_deref());
        if text != told {
            if let Some(text) = &text {
                tracing::warn!(
                    policies = text,
                    "admission policies are not enforced: others may write what the controller believes"
                );
            } else {
                tracing::info!("all admission policies are enforced");
            }
            told = text;
        }
        let unreadable = found
            .iter()
            .any(|(_, enforcement)| matches!(enforcement, Enforcement::Unreadable(_)));
        let old = if unreadable { OLD_UNREADABLE } else { OLD };
        loop {
            tokio::select! {
                changed = terms.changed(), if electing => {
                    electing = changed.is_ok();
                    let leads = terms.borrow_and_update().term().is_some();
                    if electing && leads && read_at.elapsed() >= RECENT {
                        break;
                    }
                }
                () = readiness.asked() => if read_at.elapsed() >= old {
                    break;
                }
            }
        }
    }
}

/// Reads all policies and their bindings.
async fn read_all(client: &Client) -> Vec<(&'static str, Enforcement)> {
    let reads = POLICIES.map(|name| async move {
        let (policy, binding) =
            tokio::join!(read(client, POLICY_KIND, name), read(client, BINDING_KIND, name));
        let enforcement = match (policy, binding) {
            (Err(cause), _) | (Ok(Some(_)), Err(cause)) => Enforcement::Unreadable(cause),
            (Ok(policy), binding) => {
                let binding = binding.ok().flatten();
                judge(
                    name,
                    policy.is_some(),
                    binding.as_ref().map(|binding| &binding.data),
                )
            }
        };
        (name, enforcement)
    });
    join_all(reads).await
}

async fn read(client: &Client, kind: &str, name: &str) -> Result<Option<DynamicObject>, String> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(POLICY_GROUP, POLICY_VERSION, kind));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    match tokio::time::timeout(PATIENCE, api.get_opt(name)).await {
        Ok(Ok(object)) => Ok(object),
        Ok(Err(Error::Api(status))) => Err(format!("{} ({})", status.message, status.code)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
