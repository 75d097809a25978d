//! Helm installs, updates and uninstalls the chart on a real API server, and the controller works with the account that it gets.
//!
//! There is no kubelet, so the Deployment has no pods; the controller runs beside the hub with the account's rights.

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::ControllerProcess;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use testenv::hub::wait_until;
use testenv::{Controllers, Hub};

use crate::helm::{Helm, chart};

/// Not the one of the base, so that everything that names it is tried.
const NAMESPACE: &str = "fleet-upgrades";
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);
const UPGRADES: &str = "managedclustersupgrades.cluster.open-cluster-management.io";
const REPORTS: &str = "managedclustersupgradereports.cluster.open-cluster-management.io";
const APPROVALS: &str = "managedclustersupgradeapprovals.cluster.open-cluster-management.io";

/// A hub, and Helm for it.
struct TestBed {
    hub: Hub,
    helm: Helm,
}

impl TestBed {
    async fn start() -> Result<Self> {
        let hub = Hub::builder()
            .ocm_crds()
            .controller_manager(Controllers::collectors())
            .start()
            .await?;
        let helm = Helm::new(Some(&hub.kubeconfig_path())).await?;
        Ok(Self { hub, helm })
    }

    /// `helm COMMAND mcu CHART` with some values; returns what Helm prints.
    async fn helm(&self, command: &str, values: &[&str]) -> Result<String> {
        let chart = chart();
        let mut arguments = vec![command, "mcu", chart.to_str().unwrap_or_default()];
        arguments.extend(["--namespace", NAMESPACE, "--create-namespace"]);
        for value in values {
            arguments.extend(["--set", value]);
        }
        self.helm.run(&arguments).await
    }

    async fn deployment(&self) -> Result<Deployment> {
        let deployments: Api<Deployment> = Api::namespaced(self.hub.client().clone(), NAMESPACE);
        Ok(deployments.get("mcu-controller").await?)
    }

    /// Arguments of the controller's container.
    async fn arguments(&self) -> Result<Vec<String>> {
        let pod = self
            .deployment()
            .await?
            .spec
            .context("a spec")?
            .template
            .spec
            .context("a pod")?;
        pod.containers[0].args.clone().context("arguments")
    }

    async fn uid_of_crd(&self) -> Result<Option<String>> {
        let crds = any(
            self.hub.client(),
            ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        );
        Ok(crds.get_opt(UPGRADES).await?.and_then(|crd| crd.uid()))
    }
}

fn any(client: &Client, (group, version, kind): (&str, &str, &str)) -> Api<DynamicObject> {
    Api::all_with(
        client.clone(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)),
    )
}

fn upgrades(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(
        "cluster.open-cluster-management.io",
        "v1beta1",
        "ManagedClustersUpgrade",
    );
    Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind))
}

/// An upgrade of no cluster, paused.
async fn create_upgrade(client: &Client, name: &str) -> Result<()> {
    let upgrade: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
        "metadata": {"name": name},
        "spec": {"paused": true, "clusterVersion": {"version": "4.20.4"}},
    }))?;
    upgrades(client).create(&PostParams::default(), &upgrade).await?;
    Ok(())
}

#[tokio::test]
async fn helm_installs_updates_and_uninstalls_and_upgrades_outlive_it() -> Result<()> {
    let bed = TestBed::start().await?;
    let client = bed.hub.client().clone();
    let notes = bed
        .helm("install", &["image.repository=registry.example.com/mcu"])
        .await?;
    let check = format!("kubectl mcu check --controller-namespace={NAMESPACE}");
    assert!(notes.trim_end().ends_with(&check), "{notes}");
    assert!(notes.contains("registry.example.com/mcu:0.1.0"), "{notes}");
    testenv::apply::wait_established(&client, &[UPGRADES]).await?;
    let crd = bed.uid_of_crd().await?;
    assert!(crd.is_some());
    create_upgrade(&client, "kept").await?;

    bed.helm("upgrade", &["spokeRBAC=none", "replicaCount=3"]).await?;
    assert!(bed.arguments().await?.contains(&"--spoke-rbac=none".to_owned()));
    assert_eq!(
        bed.deployment().await?.spec.and_then(|spec| spec.replicas),
        Some(3)
    );
    assert_eq!(bed.uid_of_crd().await?, crd, "the CRD was not replaced");

    bed.helm
        .run(&["rollback", "mcu", "1", "--namespace", NAMESPACE])
        .await?;
    assert!(
        bed.arguments()
            .await?
            .contains(&"--spoke-rbac=aggregate".to_owned())
    );

    bed.helm
        .run(&["uninstall", "mcu", "--namespace", NAMESPACE])
        .await?;
    let policies = any(
        &client,
        ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy"),
    );
    assert!(policies.get_opt("managedclustersupgrade-works").await?.is_none());
    let roles = any(&client, ("rbac.authorization.k8s.io", "v1", "ClusterRole"));
    assert!(roles.get_opt("mcu-controller").await?.is_none());
    assert_eq!(bed.uid_of_crd().await?, crd, "the CRDs are kept");
    assert!(
        upgrades(&client).get_opt("kept").await?.is_some(),
        "and with them the upgrades"
    );

    bed.helm("install", &["crds.keep=false"]).await?;
    assert_eq!(bed.uid_of_crd().await?, crd, "the CRDs are taken over");
    bed.helm
        .run(&["uninstall", "mcu", "--namespace", NAMESPACE])
        .await?;
    wait_until("the CRDs are gone", WAIT_TIMEOUT, || async {
        Ok(bed.uid_of_crd().await?.is_none())
    })
    .await
}

#[tokio::test]
async fn a_release_whose_crds_are_not_kept_cannot_be_updated_to_none() -> Result<()> {
    let bed = TestBed::start().await?;
    let client = bed.hub.client().clone();
    bed.helm("install", &["crds.keep=false"]).await?;
    testenv::apply::wait_established(&client, &[UPGRADES, REPORTS, APPROVALS]).await?;
    let crd = bed.uid_of_crd().await?;
    create_upgrade(&client, "kept").await?;
    let refused_for = async |name: &str| -> Result<()> {
        let values = ["crds.enabled=false", "crds.keep=false"];
        let refused = bed.helm("upgrade", &values).await.err();
        let message = refused.context("Helm would delete the CRDs")?.to_string();
        for part in [
            &format!("would delete the CRD {name}"),
            "records would be lost",
            "crds.keep=true",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        Ok(())
    };
    for crd in [UPGRADES, REPORTS] {
        refused_for(crd).await?;
        bed.hub
            .kubectl(&["annotate", "crd", crd, "helm.sh/resource-policy=keep"])
            .await?;
    }
    refused_for(APPROVALS).await?;

    bed.helm("upgrade", &["crds.keep=true"]).await?;
    bed.helm("upgrade", &["crds.enabled=false"]).await?;
    bed.helm("upgrade", &["crds.enabled=true"]).await?;
    bed.helm("upgrade", &["crds.enabled=false"]).await?;
    let marks = ["meta.helm.sh/release-name-", "helm.sh/resource-policy-"];
    bed.hub
        .kubectl(&[&["annotate", "crd", UPGRADES, REPORTS][..], &marks].concat())
        .await?;
    // They are not this release's now, so it deletes nothing.
    bed.helm("upgrade", &["crds.enabled=false", "replicaCount=3"])
        .await?;
    assert_eq!(bed.uid_of_crd().await?, crd, "the CRD was never replaced");
    assert!(upgrades(&client).get_opt("kept").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn helm_takes_over_what_kubectl_has_applied_and_crds_that_another_release_has_kept() -> Result<()> {
    let bed = TestBed::start().await?;
    let client = bed.hub.client().clone();
    let base = repository::root().join("deploy");
    let base = base.to_str().context("a path in UTF-8")?;
    bed.hub.kubectl(&["apply", "-k", base]).await?;
    testenv::apply::wait_established(&client, &[UPGRADES]).await?;
    let crd = bed.uid_of_crd().await?;
    create_upgrade(&client, "kept").await?;
    let chart = chart();
    let chart = chart.to_str().context("a path in UTF-8")?;
    let place = ["--namespace", "mcu-system"];
    let take_over = ["--take-ownership", "--force-conflicts"];
    let install = async |name: &str, flags: &[&str]| {
        bed.helm
            .run(
                &[
                    &["install", name, chart][..],
                    &place,
                    flags,
                    &["--set", "spokeRBAC=none"],
                ]
                .concat(),
            )
            .await
    };
    let uninstall = async |name: &str| bed.helm.run(&[&["uninstall", name][..], &place].concat()).await;
    assert!(
        install("mcu", &[]).await.is_err(),
        "kubectl's objects are not Helm's"
    );
    install("mcu", &take_over).await?;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "mcu-system");
    let deployment = deployments.get("mcu-controller").await?;
    let pod = deployment
        .spec
        .context("a spec")?
        .template
        .spec
        .context("a pod")?;
    let arguments = pod.containers[0].args.clone().unwrap_or_default();
    assert!(
        arguments.contains(&"--spoke-rbac=none".to_owned()),
        "{arguments:?}"
    );

    uninstall("mcu").await?;
    assert!(deployments.get_opt("mcu-controller").await?.is_none());
    assert!(
        install("fleet", &[]).await.is_err(),
        "the CRDs name the release mcu"
    );
    install("fleet", &take_over).await?;
    uninstall("fleet").await?;
    assert_eq!(bed.uid_of_crd().await?, crd, "the CRDs were never replaced");
    assert!(upgrades(&client).get_opt("kept").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn with_the_account_of_the_chart_a_controller_is_ready_and_without_the_policies_it_is_not() -> Result<()>
{
    let bed = TestBed::start().await?;
    bed.helm("install", &[]).await?;
    testenv::apply::wait_established(bed.hub.client(), &[UPGRADES]).await?;
    let account = bed
        .hub
        .service_account_kubeconfig(NAMESPACE, "mcu-controller")
        .await?;
    let flags = [
        "--leader-elect=true",
        "--lease-namespace=fleet-upgrades",
        "--require-admission-policies",
    ];
    let controller = ControllerProcess::start(bed.hub.dir(), "controller", &account, &flags).await?;
    controller.ready().await?;
    let (_, text) = controller.get("/readyz?verbose").await?;
    assert!(text.contains("[+]policies ok"), "{text}");
    create_upgrade(bed.hub.client(), "seen").await?;
    wait_until("the controller writes a status", WAIT_TIMEOUT, || async {
        let upgrade = upgrades(bed.hub.client()).get("seen").await?;
        Ok(upgrade.data["status"]["observedGeneration"].as_i64() == Some(1))
    })
    .await?;
    controller.kill().await?;

    let policy = "validatingadmissionpolicy/managedclustersupgrade-works";
    bed.hub.kubectl(&["delete", policy]).await?;
    let without = ControllerProcess::start(bed.hub.dir(), "without", &account, &flags).await?;
    wait_until("it names the missing policy", WAIT_TIMEOUT, || async {
        let answer = without.get("/readyz").await;
        Ok(answer.is_ok_and(|(_, text)| text.contains("missing: managedclustersupgrade-works")))
    })
    .await?;
    assert_eq!(without.get("/readyz").await?.0, 503);
    Ok(())
}
