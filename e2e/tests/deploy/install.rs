//! What `kubectl apply -k deploy` leaves on a hub.

use anyhow::{Context as _, Result};
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::installed::{
    Installed, crds, deploy_dir, installed, pods_are_restricted, spec_with, type_checked, upgrade, upgrades,
};

const OURS: [&str; 3] = [
    "managedclustersupgradereports.cluster.open-cluster-management.io",
    "managedclustersupgradeapprovals.cluster.open-cluster-management.io",
    "managedclustersupgrades.cluster.open-cluster-management.io",
];

#[tokio::test]
async fn our_crds_are_established_and_those_of_ocm_untouched() -> Result<()> {
    let installed = installed().await?;
    let admin = installed.admin().await?;
    testenv::apply::wait_established(&admin, &OURS).await?;
    let now = crds(&admin).await?;
    assert!(installed.before.len() >= 7, "{:?}", installed.before.keys());
    for (name, version) in &installed.before {
        assert_eq!(now.get(name), Some(version), "{name}");
    }
    assert_eq!(now.len(), installed.before.len() + OURS.len(), "{:?}", now.keys());
    Ok(())
}

#[tokio::test]
async fn a_second_apply_changes_nothing() -> Result<()> {
    let installed = installed().await?;
    let before = manifests(installed).await?;
    assert!(before.len() >= 15, "{}", before.len());
    let lines = installed.apply_deploy().await?;
    let touched: Vec<&String> = lines
        .iter()
        .filter(|line| !line.ends_with(" unchanged"))
        .collect();
    // kubectl replaces the selector of a PodDisruptionBudget as a whole, each time, by the same.
    assert_eq!(touched, ["poddisruptionbudget.policy/mcu-controller configured"]);
    assert_eq!(manifests(installed).await?, before);
    Ok(())
}

/// The objects of deploy/ as stored, without what controllers write.
async fn manifests(installed: &Installed) -> Result<Vec<Value>> {
    let deploy = deploy_dir();
    let output = installed
        .kubectl(&["get", "-k", &deploy.to_string_lossy(), "-o", "json"])
        .await?;
    let mut list: Value = serde_json::from_str(&output)?;
    let mut items = list["items"]
        .as_array_mut()
        .map(std::mem::take)
        .context("a list")?;
    for item in &mut items {
        item["status"] = Value::Null;
        for field in ["managedFields", "resourceVersion"] {
            item["metadata"][field] = Value::Null;
        }
    }
    Ok(items)
}

/// The overlay of docs/guide/install.md that has this in it.
fn overlay_of_the_guide(phrase: &str) -> Result<String> {
    let guide = std::fs::read_to_string(deploy_dir().join("../docs/guide/install.md"))?;
    let mut blocks = guide
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```"));
    let block = blocks
        .find(|(block, _)| block.contains(phrase))
        .context("no such overlay")?;
    Ok(block.0.to_owned())
}

#[tokio::test]
async fn the_guides_overlay_for_another_namespace_names_the_old_one_nowhere() -> Result<()> {
    let directory = tempfile::tempdir()?;
    // kustomize takes relative paths alone.
    let up = "../".repeat(directory.path().canonicalize()?.components().count() - 1);
    let deploy = deploy_dir().canonicalize()?;
    let relative = format!("{up}{}", deploy.to_string_lossy().trim_start_matches('/'));
    let overlay = overlay_of_the_guide("namespace: fleet-upgrades")?.replace("../deploy", &relative);
    std::fs::write(directory.path().join("kustomization.yaml"), overlay)?;
    let rendered = installed()
        .await?
        .kubectl(&["kustomize", &directory.path().to_string_lossy()])
        .await?;
    let left: Vec<&str> = rendered
        .lines()
        .filter(|line| line.contains("mcu-system"))
        .collect();
    assert!(left.is_empty(), "{left:#?}");
    let account = "'system:serviceaccount:fleet-upgrades:mcu-controller'";
    assert_eq!(rendered.matches(account).count(), 2, "in both policies");
    // Namespaces are not there for what follows them in a dry run.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet-upgrades"}});
    testenv::apply::apply_objects(&installed().await?.admin().await?, &[namespace]).await?;
    installed()
        .await?
        .kubectl(&[
            "apply",
            "--dry-run=server",
            "-k",
            &directory.path().to_string_lossy(),
        ])
        .await?;
    Ok(())
}

#[tokio::test]
async fn the_policies_pass_the_api_servers_type_check_without_a_warning() -> Result<()> {
    type_checked(&[
        "managedclustersupgrade-references",
        "managedclustersupgrade-works",
        "managedclustersupgrade-reports",
        "managedclustersupgrade-hub",
    ])
    .await
}

#[tokio::test]
async fn kubectl_explain_describes_every_field_a_user_writes_or_reads() -> Result<()> {
    let installed = installed().await?;
    for path in [
        "mcu",
        "mcu.spec",
        "mcu.spec.placement",
        "mcu.spec.clusterSelector",
        "mcu.spec.clusterSelector.matchExpressions",
        "mcu.spec.clusterVersion",
        "mcu.spec.ocpOperators",
        "mcu.spec.ocpOperators.include",
        "mcu.spec.upgradeStrategy",
        "mcu.spec.upgradeStrategy.canaryClusters",
        "mcu.spec.preUpgradeAction.manifestWork.workload",
        "mcu.status",
        "mcu.status.clustersSummery",
        "mcu.status.failedClusters",
        "mcur",
        "mcur.rows",
        "mcur.rows.steps",
        "mcua.spec",
    ] {
        let text = installed.kubectl(&["explain", path]).await?;
        assert!(!text.contains("<no description>"), "{path}:\n{text}");
    }
    let strategy = installed
        .kubectl(&["explain", "mcu.spec.upgradeStrategy"])
        .await?;
    let words = strategy.split_whitespace().collect::<Vec<_>>().join(" ");
    for phrase in [
        "Canaries, concurrency, failure budget, soak and timeouts.",
        "canaryClusters <Object> Clusters that are upgraded first;",
        "a percentage of all selected clusters, rounded up; 10 by default.",
        "such as 90m; 3h by default.",
        "such as 1h; 20m by default.",
        "If unset, there is no limit.",
    ] {
        assert!(words.contains(phrase), "{phrase}:\n{strategy}");
    }
    Ok(())
}

#[tokio::test]
async fn kubectl_get_shows_where_an_upgrade_stands() -> Result<()> {
    let installed = installed().await?;
    let admin = installed.admin().await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "columns"}});
    testenv::apply::apply_objects(&admin, &[namespace]).await?;
    let upgrades = upgrades(&admin, "columns");
    upgrades
        .create(&PostParams::default(), &upgrade("fleet", &spec_with(json!({}))))
        .await?;
    let mut object = upgrades.get("fleet").await?;
    // Tools that follow kstatus take an object without conditions for a finished one, unless its status is of another generation.
    assert_eq!(object.data["status"], json!({"observedGeneration": -1}));
    let counts =
        json!({"total": 4, "initialized": 3, "partialUpgrade": 1, "complete": 1, "failed": 1, "pending": 1});
    object.data["status"] = json!({
        "target": "4.12.0", "state": "Upgrading", "progress": "1/4", "clustersSummery": counts, "slots": "2/10", "canaries": "1/2",
        "conditions": [{"type": "Ready", "status": "False", "reason": "UpgradeRunning", "message": "on its way",
            "lastTransitionTime": "2026-03-01T10:00:00Z"}],
    });
    upgrades
        .replace_status("fleet", &PostParams::default(), &object)
        .await?;

    let narrow = installed.kubectl(&["get", "mcu", "-n", "columns"]).await?;
    let header = "NAME TARGET STATE DONE FAILED REASON AGE";
    assert_eq!(words(narrow.lines().next()), header);
    let row = words(narrow.lines().nth(1));
    assert!(
        row.starts_with("fleet 4.12.0 Upgrading 1/4 1 UpgradeRunning "),
        "{row}"
    );

    let wide = installed
        .kubectl(&["get", "mcu", "-n", "columns", "-o", "wide"])
        .await?;
    let header = words(wide.lines().next());
    assert!(header.ends_with(" AGE SLOTS CANARIES MESSAGE"), "{wide}");
    assert!(
        words(wide.lines().nth(1)).ends_with(" 2/10 1/2 on its way"),
        "{wide}"
    );
    for category in ["ocm", "open-cluster-management"] {
        let names = installed
            .kubectl(&["get", category, "-n", "columns", "-o", "name"])
            .await?;
        assert!(
            names.contains("managedclustersupgrade.cluster.open-cluster-management.io/fleet"),
            "{names}"
        );
    }
    Ok(())
}

fn words(line: Option<&str>) -> String {
    line.unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[tokio::test]
async fn the_controllers_pod_meets_the_restricted_standard_that_its_namespace_enforces() -> Result<()> {
    let loosen =
        |container: &mut Value| container["securityContext"]["allowPrivilegeEscalation"] = json!(true);
    pods_are_restricted(installed().await?, "mcu-system", "mcu-controller", loosen).await
}
