//! The admission policy of works: the controller writes them, agents write status and finalizers, and other works are not
//! affected.

use anyhow::{Context as _, Result};
use api::names::{
    ANNOTATION_ATTEMPT, ANNOTATION_OWNER, ANNOTATION_REVISION, ANNOTATION_SOAK_STARTED_AT,
    ANNOTATION_STARTED_AT, FIELD_MANAGER, LABEL_MCU_UID, LABEL_STEP, Step,
};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};
use testenv::hub::wait_until;

use crate::actors::{agent, cluster, denied, manifest_works, owner_of, work};
use crate::installed::{CONTROLLER, WAIT_TIMEOUT, installed};

const STEPS: [Step; 4] = [Step::PreAction, Step::Platform, Step::Operators, Step::PostAction];

/// A work as the controller writes it.
fn ours(cluster: &str, step: Step) -> Value {
    let mut work = work(&step.work_name(cluster));
    work["metadata"]["labels"] = json!({LABEL_MCU_UID: "4a8f", LABEL_STEP: step.as_str()});
    work["metadata"]["annotations"] = json!({
        ANNOTATION_OWNER: "upgrades/spring", ANNOTATION_REVISION: "0123456789abcdef",
        ANNOTATION_STARTED_AT: "2026-01-01T00:00:00.000Z",
    });
    work
}

async fn create(client: &Client, cluster: &str, work: &Value) -> Result<DynamicObject, String> {
    let object = serde_json::from_value(work.clone()).map_err(|error| error.to_string())?;
    let created = manifest_works(client, cluster)
        .create(&PostParams::default(), &object)
        .await;
    created.map_err(|error| error.to_string())
}

async fn patch(client: &Client, cluster: &str, name: &str, change: Value) -> Result<(), String> {
    let done = manifest_works(client, cluster)
        .patch(name, &PatchParams::default(), &Patch::Merge(change))
        .await;
    done.map(drop).map_err(|error| error.to_string())
}

/// A cluster with a platform work of an upgrade, written by the controller's account.
async fn with_work(name: &str) -> Result<String> {
    cluster(name).await?;
    let controller = installed().await?.controller.client().await?;
    let created = create(&controller, name, &ours(name, Step::Platform)).await;
    created.map_err(anyhow::Error::msg)?;
    Ok(Step::Platform.work_name(name))
}

#[tokio::test]
async fn the_controller_writes_works_in_each_way_it_has() -> Result<()> {
    let name = with_work("written").await?;
    let controller = installed().await?.controller.client().await?;
    let works = manifest_works(&controller, "written");
    for step in [Step::PreAction, Step::Operators, Step::PostAction] {
        create(&controller, "written", &ours("written", step))
            .await
            .map_err(anyhow::Error::msg)?;
    }
    let mut changed = ours("written", Step::Platform);
    changed["metadata"]["annotations"][ANNOTATION_REVISION] = json!("fedcba9876543210");
    changed["metadata"]["labels"][LABEL_MCU_UID] = json!("b7c1");
    changed["spec"]["workload"]["manifests"][0]["data"] = json!({"a": "b"});
    works
        .patch(
            &name,
            &PatchParams::apply(FIELD_MANAGER).force(),
            &Patch::Apply(&changed),
        )
        .await?;
    let soak = json!({"metadata": {"annotations": {ANNOTATION_SOAK_STARTED_AT: "2026-01-01T01:00:00.000Z"}}});
    let marked = works
        .patch(&name, &PatchParams::default(), &Patch::Merge(soak))
        .await?;
    assert_eq!(marked.metadata.labels.unwrap_or_default()[LABEL_MCU_UID], "b7c1");
    let only_this = DeleteParams {
        preconditions: Some(Preconditions {
            uid: marked.metadata.uid,
            resource_version: None,
        }),
        ..DeleteParams::background()
    };
    works.delete(&name, &only_this).await?;
    Ok(())
}

#[tokio::test]
async fn an_agent_writes_status_and_finalizers_of_a_work() -> Result<()> {
    let name = with_work("honest").await?;
    let works = manifest_works(&agent("honest").await?, "honest");
    let condition = json!({"type": "Applied", "status": "True", "reason": "Done", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"conditions": [condition]}});
    works
        .patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    let finalizer = "cluster.open-cluster-management.io/manifest-work-cleanup";
    let hold = json!({"metadata": {"finalizers": [finalizer]}});
    works
        .patch(&name, &PatchParams::default(), &Patch::Merge(hold))
        .await?;
    // By update, as older agents do it.
    let mut whole = works.get(&name).await?;
    whole.data["status"]["conditions"][0]["reason"] = json!("Again");
    let mut whole = works
        .replace_status(&name, &PostParams::default(), &whole)
        .await?;
    assert_eq!(whole.data["status"]["conditions"][0]["reason"], "Again");
    whole.metadata.finalizers = None;
    let released = works.replace(&name, &PostParams::default(), &whole).await?;
    assert_eq!(released.metadata.finalizers, None);
    Ok(())
}

#[tokio::test]
async fn an_agent_changes_no_label_or_annotation_of_ours() -> Result<()> {
    let name = with_work("compromised").await?;
    let client = agent("compromised").await?;
    let only = "is for the controller of ManagedClustersUpgrades alone to write, not for \
                system:open-cluster-management:compromised:agent1";
    let mut wrong = Vec::new();
    for (change, phrases) in [
        (
            json!({"annotations": {ANNOTATION_REVISION: "f".repeat(300)}}),
            ["metadata.annotations", ANNOTATION_REVISION],
        ),
        (
            json!({"annotations": {ANNOTATION_STARTED_AT: "2099-01-01T00:00:00Z"}}),
            ["metadata.annotations", ANNOTATION_STARTED_AT],
        ),
        (
            json!({"annotations": {ANNOTATION_ATTEMPT: "again"}}),
            ["metadata.annotations", ANNOTATION_ATTEMPT],
        ),
        (
            json!({"annotations": {ANNOTATION_OWNER: null}}),
            ["metadata.annotations", ANNOTATION_OWNER],
        ),
        (
            json!({"annotations": null}),
            ["metadata.annotations", "leave it as it is"],
        ),
        (
            json!({"labels": {LABEL_MCU_UID: "another"}}),
            ["metadata.labels", LABEL_MCU_UID],
        ),
        (
            json!({"labels": {LABEL_MCU_UID: null}}),
            ["metadata.labels", LABEL_MCU_UID],
        ),
        (
            json!({"labels": {LABEL_STEP: "operators-upgrade"}}),
            ["metadata.labels", LABEL_STEP],
        ),
    ] {
        let message = patch(&client, "compromised", &name, json!({"metadata": change}))
            .await
            .err()
            .unwrap_or_default();
        wrong.extend(
            phrases
                .iter()
                .chain(&[only])
                .filter(|phrase| !message.contains(**phrase))
                .map(|phrase| format!("{change}: no {phrase:?} in: {message}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[tokio::test]
async fn an_agent_changes_neither_spec_nor_owners_of_a_work_and_does_not_delete_it() -> Result<()> {
    let name = with_work("changing").await?;
    let client = agent("changing").await?;
    let only = "is for the controller of ManagedClustersUpgrades alone to write, not for \
                system:open-cluster-management:changing:agent1";
    let of = "the work of ManagedClustersUpgrade upgrades/spring";
    let manifests = json!({"spec": {"workload": {"manifests": []}}});
    denied(
        patch(&client, "changing", &name, manifests).await,
        &["spec: ", of, only, "change the upgrade, or delete the work"],
    );
    // An owner that does not exist would have the work collected.
    let gone = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "c0ffee"});
    let owned = json!({"metadata": {"ownerReferences": [gone]}});
    denied(
        patch(&client, "changing", &name, owned).await,
        &["metadata.ownerReferences", of, only],
    );
    let noted = json!({"metadata": {"annotations": {"example.com/note": "x"}}});
    denied(
        patch(&client, "changing", &name, noted).await,
        &[
            "metadata: labels and annotations",
            of,
            "write its status and its finalizers",
        ],
    );
    let deleted = manifest_works(&client, "changing")
        .delete(&name, &DeleteParams::default())
        .await;
    let message = deleted.err().context("agents may not delete")?.to_string();
    assert!(
        message.contains("cannot delete resource \"manifestworks\""),
        "{message}"
    );
    Ok(())
}

#[tokio::test]
async fn an_agent_draws_no_other_work_of_its_cluster_into_an_upgrade() -> Result<()> {
    cluster("drawing").await?;
    let admin = installed().await?.admin().await?;
    create(&admin, "drawing", &work("addon-search"))
        .await
        .map_err(anyhow::Error::msg)?;
    let client = agent("drawing").await?;
    let label = json!({"metadata": {"labels": {LABEL_MCU_UID: "4a8f"}}});
    denied(
        patch(&client, "drawing", "addon-search", label).await,
        &["metadata.labels", LABEL_MCU_UID],
    );
    let annotation = json!({"metadata": {"annotations": {ANNOTATION_OWNER: "upgrades/spring"}}});
    denied(
        patch(&client, "drawing", "addon-search", annotation).await,
        &["metadata.annotations", ANNOTATION_OWNER],
    );
    let mut applied = work("addon-search");
    applied["metadata"]["labels"] = json!({LABEL_STEP: "cluster-upgrade"});
    let params = PatchParams::apply("agent").force();
    let answer = manifest_works(&client, "drawing")
        .patch("addon-search", &params, &Patch::Apply(&applied))
        .await;
    denied(
        answer.map_err(|error| error.to_string()),
        &["metadata.labels", LABEL_STEP],
    );
    Ok(())
}

/// Policies have a budget of computing, and a request that exceeds it is denied.
#[tokio::test]
async fn a_work_of_the_greatest_size_is_within_the_policys_budget() -> Result<()> {
    cluster("large").await?;
    let name = Step::Platform.work_name("large");
    let mut work = ours("large", Step::Platform);
    for number in 0..2_000 {
        work["metadata"]["annotations"][format!("example.com/{number}")] = json!("x".repeat(100));
        work["metadata"]["labels"][format!("example.com/{number}")] = json!("x".repeat(60));
    }
    let data = json!({"a": "x".repeat(450 * 1024)});
    work["spec"]["workload"]["manifests"][0]["data"] = data;
    let controller = installed().await?.controller.client().await?;
    create(&controller, "large", &work)
        .await
        .map_err(anyhow::Error::msg)?;
    let client = agent("large").await?;
    let hold =
        json!({"metadata": {"finalizers": ["cluster.open-cluster-management.io/manifest-work-cleanup"]}});
    patch(&client, "large", &name, hold)
        .await
        .map_err(anyhow::Error::msg)?;
    let change = json!({"metadata": {"annotations": {ANNOTATION_OWNER: "x/y"}}});
    denied(
        patch(&client, "large", &name, change).await,
        &["metadata.annotations", ANNOTATION_OWNER],
    );
    Ok(())
}

#[tokio::test]
async fn nobody_else_creates_a_work_with_a_name_or_a_mark_of_an_upgrade() -> Result<()> {
    cluster("forged").await?;
    let installed = installed().await?;
    let controller = installed.controller.client().await?;
    let elsewhere = installed
        .hub
        .client_as("system:serviceaccount:other:mcu-controller", &["system:masters"])
        .await?;
    for client in [owner_of("forged").await?, installed.admin().await?, elsewhere] {
        for step in STEPS {
            let name = step.work_name("forged");
            denied(
                create(&client, "forged", &work(&name)).await,
                &[
                    &format!("metadata.name: {name}"),
                    "of cluster forged, choose another one",
                ],
            );
            denied(
                create(&client, "forged", &ours("forged", step)).await,
                &["metadata.labels: ", "take it out"],
            );
        }
        let mut labelled = work("harmless");
        labelled["metadata"]["labels"] = json!({LABEL_MCU_UID: "4a8f"});
        denied(
            create(&client, "forged", &labelled).await,
            &["metadata.labels", LABEL_MCU_UID, "take it out"],
        );
        let mut annotated = work("harmless");
        annotated["metadata"]["annotations"] = json!({ANNOTATION_STARTED_AT: "2099-01-01T00:00:00Z"});
        denied(
            create(&client, "forged", &annotated).await,
            &["metadata.annotations", ANNOTATION_STARTED_AT, "take it out"],
        );
    }
    create(&controller, "forged", &ours("forged", Step::PreAction))
        .await
        .map_err(anyhow::Error::msg)?;
    Ok(())
}

#[tokio::test]
async fn works_that_are_no_upgrades_are_not_restricted() -> Result<()> {
    cluster("elsewhere").await?;
    let owner = owner_of("elsewhere").await?;
    // The name of a step, but of another cluster.
    for name in ["addon-search", "other-cluster-upgrade", "cluster-upgrade"] {
        let mut theirs = work(name);
        theirs["metadata"]["labels"] =
            json!({"app": "theirs", "cluster.open-cluster-management.io/other": "x"});
        create(&owner, "elsewhere", &theirs)
            .await
            .map_err(anyhow::Error::msg)?;
    }
    let agent = agent("elsewhere").await?;
    for client in [&owner, &agent] {
        let change = json!({"metadata": {"labels": {"app": "changed"}, "annotations": {"note": "x"}},
            "spec": {"deleteOption": {"propagationPolicy": "Orphan"}}});
        patch(client, "elsewhere", "addon-search", change)
            .await
            .map_err(anyhow::Error::msg)?;
        let back = json!({"metadata": {"labels": {"app": null}, "annotations": null}, "spec": {"deleteOption": null}});
        patch(client, "elsewhere", "addon-search", back)
            .await
            .map_err(anyhow::Error::msg)?;
    }
    manifest_works(&owner, "elsewhere")
        .delete("addon-search", &DeleteParams::default())
        .await?;
    Ok(())
}

#[tokio::test]
async fn an_administrator_deletes_and_touches_a_work_but_changes_it_only_as_the_controller() -> Result<()> {
    let name = with_work("byhand").await?;
    let installed = installed().await?;
    let admin = installed.admin().await?;
    // A new label makes the agent process the work again.
    let touch = json!({"metadata": {"labels": {"example.com/touched": "1"}}});
    patch(&admin, "byhand", &name, touch)
        .await
        .map_err(anyhow::Error::msg)?;
    let start = json!({"metadata": {"annotations": {ANNOTATION_STARTED_AT: "2026-02-01T00:00:00Z"}}});
    denied(
        patch(&admin, "byhand", &name, start.clone()).await,
        &["metadata.annotations", ANNOTATION_STARTED_AT, "not for admin"],
    );
    let as_controller = installed
        .hub
        .client_as(CONTROLLER, &["system:serviceaccounts"])
        .await?;
    patch(&as_controller, "byhand", &name, start)
        .await
        .map_err(anyhow::Error::msg)?;
    manifest_works(&admin, "byhand")
        .delete(&name, &DeleteParams::default())
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_namespace_with_works_of_an_upgrade_can_be_deleted() -> Result<()> {
    with_work("doomed").await?;
    let admin = installed().await?.admin().await?;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(admin);
    namespaces.delete("doomed", &DeleteParams::default()).await?;
    wait_until("the namespace is gone", WAIT_TIMEOUT, async || {
        Ok(namespaces.get_opt("doomed").await?.is_none())
    })
    .await
}
