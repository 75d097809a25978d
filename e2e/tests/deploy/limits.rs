//! What bounds tenants, neighbours and storms: object counts, the network, and the priority of the controller's requests.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use serde_json::json;
use testenv::hub::wait_until;

use crate::actors::{namespace, owner_of};
use crate::installed::{WAIT_TIMEOUT, any, deploy_dir, installed, spec_with, upgrade, upgrades};

const FLOW: &str = "flowcontrol.apiserver.k8s.io/v1";

/// `FlowSchema` and priority level that the API server gave a GET of this path, by name.
async fn served(client: &Client, path: &str) -> Result<(String, String)> {
    let admin = installed().await?.admin().await?;
    let request = http::Request::get(path).body(Body::empty())?;
    let response = client.send(request).await?;
    let mut names = Vec::new();
    for (header, kind) in [
        ("x-kubernetes-pf-flowschema-uid", "FlowSchema"),
        ("x-kubernetes-pf-prioritylevel-uid", "PriorityLevelConfiguration"),
    ] {
        let uid = response
            .headers()
            .get(header)
            .context(header)?
            .to_str()?
            .to_owned();
        let all = any(&admin, FLOW, kind, None).list(&ListParams::default()).await?;
        let found = all
            .into_iter()
            .find(|object| object.metadata.uid.as_ref() == Some(&uid));
        names.push(found.and_then(|object| object.metadata.name).context(uid)?);
    }
    let level = names.pop().unwrap_or_default();
    Ok((names.pop().unwrap_or_default(), level))
}

#[tokio::test]
async fn the_lease_has_another_priority_level_than_the_controllers_other_requests() -> Result<()> {
    let controller = installed().await?.controller.client().await?;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/mcu-system/leases/mcu-controller";
    let works = "/apis/work.open-cluster-management.io/v1/manifestworks?limit=1";
    let expected = [
        (lease, "mcu-controller-lease", "leader-election"),
        (works, "mcu-controller", "mcu-controller"),
        ("/version", "mcu-controller", "mcu-controller"),
    ];
    for (path, schema, level) in expected {
        wait_until(
            &format!("{path} is served by {schema}"),
            WAIT_TIMEOUT,
            async || Ok(served(&controller, path).await? == (schema.to_owned(), level.to_owned())),
        )
        .await?;
    }
    // Another account of the hub is served as before.
    let other = installed()
        .await?
        .hub
        .client_as(
            "system:serviceaccount:team-a:x",
            &["system:serviceaccounts", "system:authenticated"],
        )
        .await?;
    assert_eq!(served(&other, "/version").await?.0, "service-accounts");
    Ok(())
}

#[tokio::test]
async fn a_quota_bounds_how_many_upgrades_a_tenant_keeps() -> Result<()> {
    namespace("bounded").await?;
    let admin = installed().await?.admin().await?;
    let text = std::fs::read_to_string(deploy_dir().join("examples/tenant-quota.yaml"))?;
    let mut quota: ResourceQuota = serde_json::from_value(testenv::apply::parse_yaml(&text)?.remove(0))?;
    let key = "count/managedclustersupgrades.cluster.open-cluster-management.io";
    let hard = quota
        .spec
        .as_mut()
        .and_then(|spec| spec.hard.as_mut())
        .context("hard")?;
    assert_eq!(hard.keys().collect::<Vec<_>>(), [key]);
    hard.insert(
        key.to_owned(),
        k8s_openapi::apimachinery::pkg::api::resource::Quantity("1".to_owned()),
    );
    let quotas: Api<ResourceQuota> = Api::namespaced(admin, "bounded");
    quotas.create(&PostParams::default(), &quota).await?;
    // In place of the quota controller, which this hub does not run.
    let status = json!({"status": {"hard": {key: "1"}, "used": {key: "0"}}});
    quotas
        .patch_status(
            "managedclustersupgrades",
            &PatchParams::default(),
            &Patch::Merge(status),
        )
        .await?;
    let owner = upgrades(&owner_of("bounded").await?, "bounded");
    // The API server's own view of the quota lags a moment behind.
    let mut refused = None;
    for number in 0..50 {
        let created = owner
            .create(
                &PostParams::default(),
                &upgrade(&format!("u{number}"), &spec_with(json!({}))),
            )
            .await;
        if let Err(error) = created {
            refused = Some((number, error.to_string()));
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    let (number, message) = refused.context("the quota is not enforced")?;
    assert!(
        number >= 1 && message.contains("exceeded quota: managedclustersupgrades"),
        "{number}: {message}"
    );
    Ok(())
}

#[tokio::test]
async fn the_controllers_port_is_open_to_monitoring_alone() -> Result<()> {
    let admin = installed().await?.admin().await?;
    let policy = any(
        &admin,
        "networking.k8s.io/v1",
        "NetworkPolicy",
        Some("mcu-system"),
    )
    .get("mcu-controller")
    .await?;
    let spec = &policy.data["spec"];
    assert_eq!(spec["policyTypes"], json!(["Ingress"]));
    let deployment = any(&admin, "apps/v1", "Deployment", Some("mcu-system"))
        .get("mcu-controller")
        .await?;
    let template = &deployment.data["spec"]["template"];
    assert_eq!(spec["podSelector"]["matchLabels"], template["metadata"]["labels"]);
    let rules = spec["ingress"].as_array().context("rules")?;
    assert_eq!(rules.len(), 1);
    assert_eq!(
        rules[0]["ports"][0]["port"],
        template["spec"]["containers"][0]["ports"][0]["containerPort"]
    );
    let from = rules[0]["from"].as_array().context("from")?;
    assert!(
        !from.is_empty()
            && from
                .iter()
                .all(|peer| peer["namespaceSelector"]["matchExpressions"][0]["operator"] == "In")
    );
    Ok(())
}
