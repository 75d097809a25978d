//! Whether the hub enforces the admission policies that `deploy/` ships. The controller works without them, but then believes
//! what others may write; so it says so: on `/readyz`, in the log once per change, and by a metric.
//!
//! They are read at the start, at the begin of a term, and when somebody asks for readiness and what is known is old: by one
//! list of policies and one of bindings. A controller that nobody asks does not ask the hub.

use std::time::Duration;

use api::admission::{
    BINDING_KIND, Enforcement, POLICIES, POLICY_GROUP, POLICY_KIND, POLICY_LABEL, POLICY_VERSION, describe,
    judge_all, lacking,
};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::{Api, Client, Error};
use tokio::time::Instant;

use crate::lease;
use crate::telemetry::health::Readiness;
use crate::telemetry::metrics::Metrics;

/// Name of the finding on `/readyz`.
const FINDING: &str = "policies";
/// After this time what is known is old. Who removes a policy is to see it on `/readyz` within a minute.
const OLD: Duration = Duration::from_secs(30);
/// Longest time of one reading.
const PATIENCE: Duration = Duration::from_secs(10);

/// Follows the policies for as long as the process lives.
pub async fn follow(client: &Client, readiness: &Readiness, metrics: &Metrics, leadership: &lease::Handle) {
    let mut terms = leadership.subscribe();
    let mut electing = true;
    let mut account = None;
    let mut told = None;
    loop {
        terms.mark_unchanged();
        let found = read_all(client, &mut account).await;
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
        loop {
            tokio::select! {
                changed = terms.changed(), if electing => {
                    electing = changed.is_ok();
                    let leads = terms.borrow_and_update().term().is_some();
                    if electing && leads && read_at.elapsed() >= OLD {
                        break;
                    }
                }
                () = readiness.asked() => if read_at.elapsed() >= OLD {
                    break;
                }
            }
        }
    }
}

/// Reads all policies and their bindings, and once, when there is any, whose account this controller has.
async fn read_all(client: &Client, account: &mut Option<String>) -> Vec<(&'static str, Enforcement)> {
    let read = async {
        let (policies, bindings) = tokio::try_join!(list(client, POLICY_KIND), list(client, BINDING_KIND))?;
        if account.is_none() && !policies.is_empty() {
            *account = own_account(client).await;
        }
        Ok(judge_all(&policies, &bindings, account.as_deref()))
    };
    let cause = match tokio::time::timeout(PATIENCE, read).await {
        Ok(Ok(found)) => return found,
        Ok(Err(Error::Api(status))) => format!("{} ({})", status.message, status.code),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
    };
    POLICIES
        .map(|name| (name, Enforcement::Unreadable(cause.clone())))
        .to_vec()
}

async fn list(client: &Client, kind: &str) -> kube::Result<Vec<DynamicObject>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(POLICY_GROUP, POLICY_VERSION, kind));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    Ok(api.list(&ListParams::default().labels(POLICY_LABEL)).await?.items)
}

/// The user name that the hub knows this process by, if it says so.
async fn own_account(client: &Client) -> Option<String> {
    let reviews = Api::<SelfSubjectReview>::all(client.clone());
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    review.ok()?.status?.user_info?.username
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
