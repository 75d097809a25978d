//! What `kubectl apply -k deploy/update-service` leaves on a cluster.

use anyhow::{Context as _, Result};
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::installed::{Installed, any, deploy_dir, installed, pods_are_restricted};

const NAMESPACE: &str = "mcu-update-service";

/// The lines of the first apply.
static APPLIED: OnceCell<Vec<String>> = OnceCell::const_new();

async fn apply(installed: &Installed) -> Result<Vec<String>> {
    let dir = deploy_dir().join("update-service");
    let output = installed
        .kubectl(&["apply", "-k", &dir.to_string_lossy()])
        .await?;
    Ok(output.lines().map(str::to_owned).collect())
}

/// The shared hub with the update service's manifests on it.
async fn with_service() -> Result<&'static Installed> {
    let installed = installed().await?;
    APPLIED.get_or_try_init(|| apply(installed)).await?;
    Ok(installed)
}

#[tokio::test]
async fn a_second_apply_changes_nothing() -> Result<()> {
    let lines = apply(with_service().await?).await?;
    assert!(lines.len() >= 7, "{lines:?}");
    let touched: Vec<&String> = lines
        .iter()
        .filter(|line| !line.ends_with(" unchanged"))
        .collect();
    // kubectl replaces the selector of a PodDisruptionBudget as a whole, each time, by the same.
    assert_eq!(touched, ["poddisruptionbudget.policy/update-service configured"]);
    Ok(())
}

#[tokio::test]
async fn the_pod_meets_the_restricted_standard_that_its_namespace_enforces() -> Result<()> {
    let loosen = |container: &mut Value| container["securityContext"]["capabilities"] = json!({});
    pods_are_restricted(with_service().await?, NAMESPACE, "update-service", loosen).await
}

#[tokio::test]
async fn the_configuration_that_the_pod_mounts_exists_and_names_what_it_serves() -> Result<()> {
    let admin = with_service().await?.admin().await?;
    let deployment = any(&admin, "apps/v1", "Deployment", Some(NAMESPACE))
        .get("update-service")
        .await?;
    let volumes = deployment.data["spec"]["template"]["spec"]["volumes"]
        .as_array()
        .context("volumes")?;
    let name = volumes
        .iter()
        .find(|volume| volume["name"] == "config")
        .and_then(|volume| volume["configMap"]["name"].as_str())
        .context("a volume of a ConfigMap")?;
    assert_ne!(name, "update-service", "its name has the hash of what it holds");
    let map = any(&admin, "v1", "ConfigMap", Some(NAMESPACE)).get(name).await?;
    let config = map.data["data"]["config.toml"].as_str().context("config.toml")?;
    assert!(config.contains("graph_data = "), "{config}");
    Ok(())
}

#[tokio::test]
async fn service_policy_and_budget_select_the_pods() -> Result<()> {
    let admin = with_service().await?.admin().await?;
    let deployment = any(&admin, "apps/v1", "Deployment", Some(NAMESPACE))
        .get("update-service")
        .await?;
    let labels = &deployment.data["spec"]["template"]["metadata"]["labels"];
    let name = "update-service";
    let service = any(&admin, "v1", "Service", Some(NAMESPACE)).get(name).await?;
    assert_eq!(service.data["spec"]["selector"], *labels);
    let policy = any(&admin, "networking.k8s.io/v1", "NetworkPolicy", Some(NAMESPACE))
        .get(name)
        .await?;
    assert_eq!(policy.data["spec"]["podSelector"]["matchLabels"], *labels);
    let budget = any(&admin, "policy/v1", "PodDisruptionBudget", Some(NAMESPACE))
        .get(name)
        .await?;
    assert_eq!(budget.data["spec"]["selector"]["matchLabels"], *labels);
    let roles = any(&admin, "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", None);
    let bound = roles.list(&ListParams::default()).await?;
    let has_rights = bound
        .iter()
        .any(|binding| binding.data["subjects"].to_string().contains(NAMESPACE));
    assert!(!has_rights, "it asks the API server nothing and may nothing");
    Ok(())
}
