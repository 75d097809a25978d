//! The bare client: sends exactly the bytes that the controller sends, and does nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail};
use api::ManagedClustersUpgrade;
use api::names::{ANNOTATION_STARTED_AT, FIELD_MANAGER, Step};
use chrono::Utc;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use resolve::works::{ClusterFacts, Stamp, Templates, WorkFlags, WorkRequest};
use serde_json::Value;
use testenv::{FleetSpec, Hub, fleet};

/// Connections, one request at a time on each.
pub(super) const CONNECTIONS: usize = 32;
/// Connections for removing what was created; that is not measured.
const REMOVERS: usize = 64;

/// The platform works of an upgrade, rendered.
pub struct Works {
    bodies: Vec<(String, Vec<u8>)>,
}

impl Works {
    /// Renders the works of all clusters of the fleet with the controller's own templates.
    pub fn of(upgrade: &DynamicObject, clusters: usize) -> Result<Self> {
        let typed: ManagedClustersUpgrade = serde_json::from_value(serde_json::to_value(upgrade)?)?;
        let templates = Templates::new(&typed.spec, &WorkFlags::default());
        let owner = format!("{}/{}", typed.namespace().unwrap_or_default(), typed.name_any());
        let stamp = Stamp {
            mcu_uid: &typed.uid().unwrap_or_default(),
            owner: &owner,
            revision: templates.revision(),
            retry: "",
            started_at: Utc::now(),
        };
        let render = |name: &str| {
            let id = fleet::cluster_id(name);
            let facts = ClusterFacts {
                name,
                uid: "",
                cluster_id: Some(&id),
                request: &WorkRequest::AsPlanned,
            };
            templates.body(Step::Platform, &facts, &stamp)
        };
        let bodies = FleetSpec::numbered("spoke", clusters)
            .clusters
            .into_iter()
            .map(|cluster| {
                let body = render(&cluster.name).context("the upgrade has no platform step")?;
                Ok((cluster.name, body))
            })
            .collect::<Result<_>>()?;
        Ok(Self { bodies })
    }

    /// Only the first of them. The names of clusters depend on how many there are.
    pub fn first(mut self, count: usize) -> Self {
        self.bodies.truncate(count);
        self
    }

    /// Sends all of them.
    pub async fn create(&self, client: &Client) -> Result<()> {
        let bodies: Arc<[(String, Vec<u8>)]> = self.bodies.clone().into();
        let next = Arc::new(AtomicUsize::new(0));
        let mut senders = tokio::task::JoinSet::new();
        for _ in 0..CONNECTIONS {
            let (client, bodies, next) = (client.clone(), Arc::clone(&bodies), Arc::clone(&next));
            senders.spawn(async move {
                while let Some((cluster, body)) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let path = format!(
                        "/apis/work.open-cluster-management.io/v1/namespaces/{cluster}/manifestworks?fieldManager={FIELD_MANAGER}"
                    );
                    let request = http::Request::post(path)
                        .header(http::header::CONTENT_TYPE, "application/json")
                        .body(body.clone())?;
                    client.request_text(request).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(sender) = senders.join_next().await {
            sender??;
        }
        Ok(())
    }

    /// Removes all of them.
    pub async fn delete(&self, client: &Client) -> Result<()> {
        use futures::{StreamExt as _, TryStreamExt as _, stream};
        stream::iter(&self.bodies)
            .map(|(cluster, _)| async move {
                let name = Step::Platform.work_name(cluster);
                works(client, cluster)
                    .delete(&name, &DeleteParams::default())
                    .await
                    .map(drop)
                    .with_context(|| name.clone())
            })
            .buffer_unordered(REMOVERS)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(())
    }

    /// Makes sure that the controller's works on the hub are those that the bare client sends, but for the clock.
    pub(super) async fn compare(&self, hub: &Hub) -> Result<()> {
        for (cluster, body) in [self.bodies.first(), self.bodies.last()].into_iter().flatten() {
            let live = works(hub.client(), cluster)
                .get(&Step::Platform.work_name(cluster))
                .await?;
            let ours: Value = serde_json::from_slice(body)?;
            if let Some(difference) = difference(&ours, &live)? {
                bail!(
                    "the bare client would send another work than the controller for {cluster}: {difference}"
                );
            }
        }
        Ok(())
    }
}

/// The first part in which a body and a created object differ. The API server adds defaults, so the object may have
/// more than the body.
fn difference(body: &Value, live: &DynamicObject) -> Result<Option<String>> {
    let live = serde_json::to_value(live)?;
    for part in ["labels", "annotations"] {
        let clocked = |value: &Value| {
            let mut map = value["metadata"][part].as_object().cloned().unwrap_or_default();
            map.remove(ANNOTATION_STARTED_AT);
            map
        };
        if clocked(body) != clocked(&live) {
            return Ok(Some(format!("metadata.{part}")));
        }
    }
    Ok((!contains(&live["spec"], &body["spec"])).then(|| "spec".to_owned()))
}

/// Whether a value has everything of another, lists being of equal length.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|found| contains(found, value))),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| contains(whole, part))
        }
        (whole, part) => whole == part,
    }
}

fn works(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("work.open-cluster-management.io", "v1", "ManifestWork");
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&gvk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn upgrade() -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
            "metadata": {"namespace": "bench", "name": "a", "uid": "u-1"},
            "spec": {"clusterVersion": {"version": "4.12.0"}},
        }))
        .unwrap()
    }

    #[test]
    fn every_cluster_has_a_work_of_its_own_with_owner_and_cluster_id() {
        let works = Works::of(&upgrade(), 3).unwrap();
        assert_eq!(works.bodies.len(), 3);
        let (cluster, body) = &works.bodies[1];
        let body: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(body["metadata"]["namespace"], *cluster);
        let id = &body["spec"]["workload"]["manifests"][0]["spec"]["clusterID"];
        assert_eq!(*id, fleet::cluster_id(cluster));
    }

    #[test]
    fn defaults_of_the_server_are_no_difference_and_anything_else_is() {
        let works = Works::of(&upgrade(), 1).unwrap();
        let body: Value = serde_json::from_slice(&works.bodies[0].1).unwrap();
        let mut live = body.clone();
        live["spec"]["added"] = json!("by the server");
        live["metadata"]["annotations"][ANNOTATION_STARTED_AT] = json!("later");
        let as_object = |value: &Value| serde_json::from_value::<DynamicObject>(value.clone()).unwrap();
        assert_eq!(difference(&body, &as_object(&live)).unwrap(), None);
        live["spec"]["deleteOption"] = json!({});
        assert_eq!(
            difference(&body, &as_object(&live)).unwrap().as_deref(),
            Some("spec")
        );
        live["metadata"]["labels"]["x"] = json!("y");
        assert_eq!(
            difference(&body, &as_object(&live)).unwrap().as_deref(),
            Some("metadata.labels")
        );
    }
}
