//! Whether the hub enforces the admission policies that `deploy/` ships, for those users who may read them.

use std::time::Duration;

use api::admission::{BINDING_KIND, POLICIES, POLICY_GROUP, POLICY_KIND, POLICY_VERSION, describe, judge};
use futures::future::try_join_all;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};

/// An answer is not waited for longer: what was asked for stands on the screen already.
const PATIENCE: Duration = Duration::from_secs(5);

/// The warning, one line. A user who may not read the policies is told nothing, nor is anybody when the hub does not answer.
pub async fn warning(client: &Client) -> Option<String> {
    let found = tokio::time::timeout(PATIENCE, async {
        // Whoever may not read the first one is asked for no other.
        let first = read(client, POLICY_KIND, POLICIES[0]).await?;
        let others = POLICIES[1..].iter().map(|name| read(client, POLICY_KIND, name));
        let bindings = POLICIES.iter().map(|name| read(client, BINDING_KIND, name));
        let (others, bindings) = tokio::try_join!(try_join_all(others), try_join_all(bindings))?;
        let exist = std::iter::once(first).chain(others);
        let judged = POLICIES.into_iter().zip(exist).zip(bindings);
        let found = judged.map(|((name, policy), binding)| {
            let binding = binding.as_ref().map(|binding| &binding.data);
            (name, judge(name, policy.is_some(), binding))
        });
        Ok::<_, kube::Error>(found.collect::<Vec<_>>())
    });
    let text = describe(&found.await.ok()?.ok()?)?;
    Some(format!(
        "Warning: admission policies of the hub are not enforced, so that others may write what the controller believes: {text}\n"
    ))
}

async fn read(client: &Client, kind: &str, name: &str) -> kube::Result<Option<DynamicObject>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(POLICY_GROUP, POLICY_VERSION, kind));
    Api::<DynamicObject>::all_with(client.clone(), &resource)
        .get_opt(name)
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    /// A hub that enforces all policies but `without`, or lets nobody read them; and how often it was asked.
    async fn warned(without: Option<&'static str>, forbidden: bool) -> (Option<String>, usize) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            counted.fetch_add(1, Ordering::SeqCst);
            let name = request
                .uri()
                .path()
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned();
            let failed = |code: u16, reason: &str| {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no",
                    "reason": reason, "code": code});
                (code, status)
            };
            let (code, body) = if forbidden {
                failed(403, "Forbidden")
            } else if without == Some(name.as_str()) {
                failed(404, "NotFound")
            } else {
                let spec = json!({"policyName": name, "validationActions": ["Deny"]});
                (200, json!({"metadata": {"name": name}, "spec": spec}))
            };
            let body = Body::from(body.to_string().into_bytes());
            let answer = Response::builder().status(code).body(body);
            async move { answer }
        });
        let warning = warning(&Client::new(service, "default")).await;
        (warning, asked.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn a_policy_that_is_missing_is_named_with_the_remedy() {
        let (warning, _) = warned(Some("managedclustersupgrade-works"), false).await;
        let text = warning.expect("a warning");
        assert!(
            text.contains("missing: managedclustersupgrade-works; apply deploy/"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1);
    }

    #[tokio::test]
    async fn nothing_is_said_where_all_is_well_or_the_user_may_not_know() {
        assert_eq!(warned(None, false).await, (None, 8));
        assert_eq!(
            warned(None, true).await,
            (None, 1),
            "asked once, then left in peace"
        );
    }
}
