//! A hub with the product installed and simulated clusters, for the demo and the bench.
//!
//! It installs `deploy/`, and starts controller and agents as processes of the hub. The controller has the account that
//! `deploy/` ships and no further rights; the agents are a user with a role that is written here.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use repository::{CONTROLLER, Programs, SPOKE_SIM};
use testenv::hub::wait_until;
use testenv::process::tail;
use testenv::{Hub, HubBuilder, ProcessSpec, apply};

use crate::program::{free_address, get};
use crate::test_hub::deploy_dir;

/// User name of the controller, as the API server and its audit log know it.
pub const CONTROLLER_USER: &str = "system:serviceaccount:mcu-system:mcu-controller";
/// User name of the simulated agents.
pub const AGENTS_USER: &str = "spoke-agents";

const CONTROLLER_NAMESPACE: &str = "mcu-system";
const CONTROLLER_ACCOUNT: &str = "mcu-controller";
const READY_TIMEOUT: Duration = Duration::from_mins(1);
const LOG_LINES: usize = 15;

/// What work agents may do on the hub, all clusters' together.
const AGENTS_ROLE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: spoke-agents}
rules:
- {apiGroups: [work.open-cluster-management.io], resources: [manifestworks], verbs: [get, list, watch, update, patch]}
- {apiGroups: [work.open-cluster-management.io], resources: [manifestworks/status], verbs: [update, patch]}
- {apiGroups: [cluster.open-cluster-management.io], resources: [managedclusters], verbs: [get, list, watch]}
- {apiGroups: [cluster.open-cluster-management.io], resources: [managedclusters/status], verbs: [update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: spoke-agents}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: spoke-agents}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: spoke-agents}
";

/// Adds the agents' user to a hub that is about to be started.
#[must_use]
pub fn with_agents(hub: HubBuilder) -> HubBuilder {
    hub.user(AGENTS_USER, &[])
}

/// Installs `deploy/` as its README says, and the role of the agents.
///
/// # Errors
/// The API server refuses something; the message names it.
pub async fn deploy(hub: &Hub) -> Result<()> {
    hub.kubectl(&["apply", "-k", &deploy_dir().display().to_string()])
        .await?;
    let crds: Vec<String> = api::schema::crds()
        .into_iter()
        .filter_map(|crd| crd.metadata.name)
        .collect();
    let names: Vec<&str> = crds.iter().map(String::as_str).collect();
    apply::wait_established(hub.client(), &names).await?;
    apply::apply_yaml(hub.client(), AGENTS_ROLE).await
}

/// Starts the controller with further flags under a process name, and waits until it is ready; returns its process id.
///
/// # Errors
/// It is not ready within a minute; the message ends with its log.
pub async fn controller(hub: &Hub, programs: &Programs, name: &str, flags: &[&str]) -> Result<u32> {
    let kubeconfig = hub.dir().join("controller.kubeconfig");
    hub.service_account_kubeconfig(CONTROLLER_NAMESPACE, CONTROLLER_ACCOUNT)
        .await?
        .write(&kubeconfig)?;
    let address = free_address()?;
    let spec = ProcessSpec::new(name, &programs.path(CONTROLLER))
        .args(["--leader-elect=true".to_owned(), format!("--listen={address}")])
        .args(flags.iter().copied())
        .env("KUBECONFIG", &kubeconfig)
        .env("POD_NAMESPACE", CONTROLLER_NAMESPACE);
    let pid = hub.spawn(&spec)?;
    ready(hub, name, &address, "/readyz").await?;
    Ok(pid)
}

/// Starts the agents of all clusters with further flags, and waits until they watch.
///
/// # Errors
/// As [`controller`].
pub async fn agents(hub: &Hub, programs: &Programs, flags: &[String]) -> Result<()> {
    let kubeconfig = hub
        .kubeconfig_for_user(AGENTS_USER)
        .context("the hub was started without the agents' user")?
        .write(&hub.dir().join("agents.kubeconfig"))?;
    let address = free_address()?;
    let spec = ProcessSpec::new(SPOKE_SIM, &programs.path(SPOKE_SIM))
        .args(["agents".to_owned(), "--all".to_owned()])
        .args([
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--listen={address}"),
        ])
        .args(flags);
    hub.spawn(&spec)?;
    ready(hub, SPOKE_SIM, &address, "/healthz").await
}

async fn ready(hub: &Hub, name: &str, address: &str, path: &str) -> Result<()> {
    let what = format!("{name} answers 200 on {path}");
    let outcome = wait_until(&what, READY_TIMEOUT, || async {
        Ok(get(address, path).await.is_ok_and(|(status, _)| status == 200))
    })
    .await;
    let Err(error) = outcome else { return Ok(()) };
    let log = hub.dir().join(format!("{name}.log"));
    bail!("{error:#}; the end of its log:\n{}", tail(&log, LOG_LINES))
}

/// The upgrades of a namespace.
pub fn upgrades(hub: &Hub, namespace: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(api::GROUP, api::VERSION, "ManagedClustersUpgrade");
    Api::namespaced_with(hub.client().clone(), namespace, &ApiResource::from_gvk(&gvk))
}

/// Creates an upgrade.
///
/// # Errors
/// The hub rejects it.
pub async fn create_upgrade(
    hub: &Hub,
    namespace: &str,
    name: &str,
    spec: &serde_json::Value,
) -> Result<DynamicObject> {
    let object = serde_json::from_value(upgrade(namespace, name, spec))?;
    upgrades(hub, namespace)
        .create(&PostParams::default(), &object)
        .await
        .context("the upgrade is refused")
}

/// A `ManagedClustersUpgrade` as JSON to be created.
#[must_use]
pub fn upgrade(namespace: &str, name: &str, spec: &serde_json::Value) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
        "kind": "ManagedClustersUpgrade",
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_of_the_agents_is_yaml_and_names_their_user() {
        let objects = apply::parse_yaml(AGENTS_ROLE).unwrap();
        assert_eq!(objects.len(), 2);
        assert_eq!(objects[1]["subjects"][0]["name"], AGENTS_USER);
    }

    #[tokio::test]
    async fn a_port_nobody_listens_on_does_not_answer() {
        assert!(get(&free_address().unwrap(), "/readyz").await.is_err());
    }
}
