//! Checks whether the hub enforces the admission policies that `deploy/` ships. The controller works without
//! them, but then it trusts everything that others may write. It therefore reports missing policies on
//! `/readyz`, by a metric, and in the log once per change, and it is not ready without them unless
//! `--require-admission-policies=false` says so: OLM, for one, leaves policies out when it installs a bundle.
//!
//! The policies are read when the process starts, when a term begins, and when someone requests `/readyz` and
//! the last result is too old: one list of policies and one list of bindings. If nobody requests `/readyz`,
//! the hub is not asked.

use std::time::Duration;

use api::admission::{
    BINDING_KIND, Enforcement, POLICIES, POLICY_GROUP, POLICY_KIND, POLICY_LABEL, POLICY_VERSION, describe,
    evaluate_all, lacking,
};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::{Api, Client, Error};
use tokio::time::Instant;

use crate::health::Readiness;
use crate::lease;
use crate::metrics::Metrics;

/// Name of the finding on `/readyz`.
const FINDING: &str = "policies";
/// Age at which a result is too old. If someone removes a policy, `/readyz` must show it within a minute.
const MAX_AGE: Duration = Duration::from_secs(30);
/// Longest time that one read may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks the policies until the process ends. `required`: the process is not ready while the hub does not enforce
/// them.
pub async fn follow(
    client: &Client,
    readiness: &Readiness,
    metrics: &Metrics,
    leadership: &lease::Handle,
    required: bool,
) {
    let mut terms = leadership.subscribe();
    let mut electing = true;
    let mut account = None;
    let mut last_text = None;
    if required {
        readiness.fail(FINDING, "not read yet");
    }
    loop {
        terms.see();
        let found = read_all(client, &mut account).await;
        let read_at = Instant::now();
        let text = describe(&found);
        metrics.set_policies_missing(lacking(&found));
        match &text {
            Some(text) if required && found.iter().any(|(_, enforcement)| enforcement.is_open()) => {
                readiness.fail(FINDING, text);
            }
            _ => readiness.warn(FINDING, text.as_deref()),
        }
        if text != last_text {
            if let Some(text) = &text {
                tracing::warn!(
                    policies = text,
                    "admission policies are not enforced, so others may write objects that the controller trusts"
                );
            } else {
                tracing::info!("all admission policies are enforced");
            }
            last_text = text;
        }
        loop {
            tokio::select! {
                biased;
                changed = terms.changed(), if electing => {
                    electing = changed.is_ok();
                    let leads = terms.see().term().is_some();
                    if electing && leads && read_at.elapsed() >= MAX_AGE {
                        break;
                    }
                }
                () = readiness.asked() => if read_at.elapsed() >= MAX_AGE {
                    break;
                }
            }
        }
    }
}

/// Reads all policies and their bindings. If there are any, also reads the account of this controller, once.
async fn read_all(client: &Client, account: &mut Option<String>) -> Vec<(&'static str, Enforcement)> {
    let read = async {
        let (policies, bindings) = tokio::try_join!(list(client, POLICY_KIND), list(client, BINDING_KIND))?;
        if account.is_none() && !policies.is_empty() {
            *account = own_account(client).await;
        }
        Ok(evaluate_all(&policies, &bindings, account.as_deref()))
    };
    let cause = match tokio::time::timeout(READ_TIMEOUT, read).await {
        Ok(Ok(found)) => return found,
        Ok(Err(Error::Api(status))) => format!("{} ({})", status.message, status.code),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no response within {} s", READ_TIMEOUT.as_secs()),
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

/// The user name under which the hub knows this process, if the hub returns it.
async fn own_account(client: &Client) -> Option<String> {
    let reviews = Api::<SelfSubjectReview>::all(client.clone());
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    review.ok()?.status?.user_info?.username
}

#[cfg(test)]
mod tests;
