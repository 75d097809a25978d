//! Keeps the claims of the simulated clusters current, as the agents of an OCM hub do.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use api::names::CLAIM_VERSION;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};
use spoke_sim::Agents;

use super::fleet::CLUSTER_GROUP;

/// Time between two looks at the clusters, which run in this process.
const PERIOD: Duration = Duration::from_millis(500);

/// Claims for each cluster the version that it last completed. Owns the agents, which stop when they are dropped.
pub(super) async fn keep_current(client: Client, agents: Agents) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(CLUSTER_GROUP, "v1", "ManagedCluster"));
    let clusters: Api<DynamicObject> = Api::all_with(client, &resource);
    let mut claimed: BTreeMap<String, String> = BTreeMap::new();
    loop {
        for name in agents.clusters() {
            let Some(version) = agents.cluster_version(&name).as_ref().and_then(completed) else {
                continue;
            };
            if claimed.get(&name) == Some(&version) {
                continue;
            }
            match claim(&clusters, &name, &version).await {
                Ok(()) => {
                    claimed.insert(name, version);
                }
                // The cluster may have been deleted. If it is there, the next look tries again.
                Err(error) => tracing::debug!(cluster = name, "claim: {error:#}"),
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// The version that a cluster last completed.
fn completed(cluster_version: &Value) -> Option<String> {
    let history = cluster_version["status"]["history"].as_array()?;
    let last = history.iter().find(|entry| entry["state"] == "Completed")?;
    last["version"].as_str().map(str::to_owned)
}

async fn claim(clusters: &Api<DynamicObject>, name: &str, version: &str) -> Result<()> {
    let mut claims = clusters.get(name).await?.data["status"]["clusterClaims"].take();
    let known = claims.as_array_mut().into_iter().flatten();
    for claim in known.filter(|claim| claim["name"] == CLAIM_VERSION) {
        claim["value"] = version.into();
    }
    let status = json!({"status": {"clusterClaims": claims}});
    clusters
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use spoke_sim::Pace;

    use super::*;
    use crate::fleet::Fleet;
    use crate::simulated::SimulatedHub;

    /// The version that a cluster claims.
    async fn claimed(client: &Client, name: &str) -> Option<String> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(CLUSTER_GROUP, "v1", "ManagedCluster"));
        let clusters: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let claims = clusters.get(name).await.unwrap().data["status"]["clusterClaims"].take();
        let found = claims
            .as_array()?
            .iter()
            .find(|claim| claim["name"] == CLAIM_VERSION)?;
        found["value"].as_str().map(str::to_owned)
    }

    #[tokio::test]
    async fn a_cluster_claims_the_version_that_it_was_upgraded_to() {
        let hub = SimulatedHub::start().await.unwrap();
        let fleet = Fleet {
            sets: vec![("set".to_owned(), vec!["a".to_owned(), "b".to_owned()])],
            namespace: "default".to_owned(),
            placement: "fleet".to_owned(),
            version: "4.19.20".to_owned(),
        };
        fleet.create(hub.client()).await.unwrap();
        let pace = Pace::scaled(0.01, Duration::from_secs(1));
        let agents = Agents::builder(hub.client().clone())
            .pace(pace)
            .start()
            .await
            .unwrap();
        agents.ready().await;
        let version = ("clusterversions.config.openshift.io", "", "version");
        agents
            .edit_object("a", version, "oc", |object| {
                object["spec"]["channel"] = "stable-4.20".into();
                object["spec"]["desiredUpdate"] =
                    json!({"version": "4.20.4", "image": "quay.io/release@sha256:1", "force": true});
            })
            .unwrap();
        let follows = async {
            while claimed(hub.client(), "a").await.as_deref() != Some("4.20.4") {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = keep_current(hub.client().clone(), agents) => {}
            ended = tokio::time::timeout(Duration::from_mins(1), follows) => ended.unwrap(),
        }
        assert_eq!(claimed(hub.client(), "b").await.as_deref(), Some("4.19.20"));
    }
}
