//! What the values of the chart do.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::helm::{Helm, identity};

fn identities(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(identity).collect()
}

fn deployment(objects: &[Value]) -> Result<&Value> {
    objects
        .iter()
        .find(|object| object["kind"] == "Deployment")
        .context("a Deployment")
}

#[tokio::test]
async fn each_switch_adds_or_removes_its_objects_and_no_other() -> Result<()> {
    let helm = Helm::new(None).await?;
    let usual = identities(&helm.render("mcu-system", &[]).await?);
    let crds = [
        "CustomResourceDefinition managedclustersupgradereports.cluster.open-cluster-management.io",
        "CustomResourceDefinition managedclustersupgrades.cluster.open-cluster-management.io",
    ];
    let executor = [
        "ValidatingAdmissionPolicy managedclustersupgrade-nil-executor",
        "ValidatingAdmissionPolicyBinding managedclustersupgrade-nil-executor",
    ];
    let flow = [
        "FlowSchema mcu-controller",
        "FlowSchema mcu-controller-lease",
        "PriorityLevelConfiguration mcu-controller",
    ];
    let budget = ["PodDisruptionBudget mcu-controller"];
    let changes: [(&str, &[&str]); 8] = [
        ("crds.enabled=false", &crds),
        ("flowControl.enabled=false", &flow),
        ("networkPolicy.enabled=false", &["NetworkPolicy mcu-controller"]),
        ("podDisruptionBudget.enabled=false", &budget),
        // The only replica must be free to go, otherwise its node cannot be drained.
        ("replicaCount=1", &budget),
        ("replicaCount=3", &[]),
        ("strictExecutor.enabled=true", &executor),
        ("serviceMonitor.enabled=true", &["ServiceMonitor mcu-controller"]),
    ];
    for (value, names) in changes {
        let found = identities(&helm.render("mcu-system", &[value]).await?);
        let found: Vec<String> = usual.symmetric_difference(&found).cloned().collect();
        assert_eq!(found, names, "{value}");
    }
    Ok(())
}

#[tokio::test]
async fn alerts_and_dashboards_are_the_files_of_deploy() -> Result<()> {
    let helm = Helm::new(None).await?;
    let values = [
        "prometheusRule.enabled=true",
        "dashboards.enabled=true",
        "dashboards.openshiftConsole=true",
    ];
    let rendered = helm.render("mcu-system", &values).await?;
    let of = |kind: &str| rendered.iter().filter(|object| object["kind"] == kind).count();
    let files = |directory: &str| {
        let entries = std::fs::read_dir(crate::helm::chart().join(directory));
        entries.map_or(0, Iterator::count)
    };
    assert_eq!(of("PrometheusRule"), files("alerts"));
    assert_eq!(of("ConfigMap"), files("dashboards"));
    for rule in rendered
        .iter()
        .filter(|object| object["kind"] == "PrometheusRule")
    {
        assert!(rule["spec"]["groups"].is_array(), "{}", identity(rule));
    }
    Ok(())
}

#[tokio::test]
async fn runbooks_begin_with_the_address_that_is_set() -> Result<()> {
    let helm = Helm::new(None).await?;
    let enabled = "prometheusRule.enabled=true";
    let page = "docs/guide/troubleshooting.md#";
    let address = "prometheusRule.runbookBaseURL=https://git.example.com/mcu/blob/main";
    let with_slash = format!("{address}/");
    let link = format!("https://git.example.com/mcu/blob/main/{page}");
    let cases: [(&[&str], &str); 3] = [
        (&[enabled], page),
        (&[enabled, address], &link),
        (&[enabled, &with_slash], &link),
    ];
    for (values, start) in cases {
        let rendered = helm.render("mcu-system", values).await?;
        let mut alerts = 0;
        for group in rendered
            .iter()
            .filter_map(|object| object["spec"]["groups"].as_array())
            .flatten()
        {
            for rule in group["rules"].as_array().context("rules")? {
                let runbook = rule["annotations"]["runbook_url"].as_str().unwrap_or_default();
                assert!(runbook.starts_with(start), "{}: {runbook}", rule["alert"]);
                alerts += 1;
            }
        }
        assert!(alerts > 10, "{alerts} alerts");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_set_for_the_pods_is_in_the_deployment() -> Result<()> {
    let values = [
        "image.repository=registry.example.com/fleet/mcu-controller",
        "image.tag=1.2.3",
        "imagePullSecrets[0].name=pull",
        "replicaCount=3",
        "spokeRBAC=none",
        "approverImage=registry.example.com/cli:1",
        "extraArgs[0]=--log-format=json",
        "priorityClassName=system-cluster-critical",
        "tolerations[0].operator=Exists",
        "nodeSelector.role=infra",
        "resources.limits.memory=1Gi",
        "affinity.nodeAffinity.x=y",
        "topologySpreadConstraints[0].maxSkew=2",
    ];
    let helm = Helm::new(None).await?;
    let rendered = helm.render("mcu-system", &values).await?;
    let spec = &deployment(&rendered)?["spec"];
    let pod = &spec["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(spec["replicas"], 3);
    assert_eq!(
        container["image"],
        "registry.example.com/fleet/mcu-controller:1.2.3"
    );
    assert_eq!(
        container["args"],
        json!([
            "--leader-elect=true",
            "--listen=:8080",
            "--spoke-rbac=none",
            "--approver-image=registry.example.com/cli:1",
            "--log-format=json",
        ])
    );
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "pull"}]));
    assert_eq!(pod["priorityClassName"], "system-cluster-critical");
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(
        pod["nodeSelector"],
        json!({"kubernetes.io/os": "linux", "role": "infra"})
    );
    assert_eq!(container["resources"]["limits"], json!({"memory": "1Gi"}));
    assert_eq!(pod["affinity"], json!({"nodeAffinity": {"x": "y"}}));
    assert_eq!(pod["topologySpreadConstraints"], json!([{"maxSkew": 2}]));

    let digest = format!("sha256:{}", "0".repeat(64));
    let by_digest = helm
        .render("mcu-system", &[&format!("image.digest={digest}")])
        .await?;
    let image = &deployment(&by_digest)?["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(*image, format!("mcu-controller@{digest}"));
    Ok(())
}

#[tokio::test]
async fn a_text_with_the_marks_of_yaml_stays_one_text() -> Result<()> {
    let text = "a: 'b' # c";
    let names = [
        "image.repository",
        "image.tag",
        "approverImage",
        "priorityClassName",
    ];
    let values = names.map(|name| format!("{name}={text}"));
    let values = values.each_ref().map(String::as_str);
    let rendered = Helm::new(None).await?.render("mcu-system", &values).await?;
    let pod = &deployment(&rendered)?["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["image"], format!("{text}:{text}"));
    assert_eq!(pod["priorityClassName"], text);
    let arguments = container["args"].to_string();
    assert!(
        arguments.contains(&format!("\"--approver-image={text}\"")),
        "{arguments}"
    );
    Ok(())
}

#[tokio::test]
async fn a_value_that_is_unknown_or_makes_no_sense_is_refused_by_name() -> Result<()> {
    let helm = Helm::new(None).await?;
    for (value, name) in [
        ("spokeRBAC=cluster-admin", "/spokeRBAC"),
        ("image.digest=sha256:12", "/image/digest"),
        ("replicaCount=0", "/replicaCount"),
        ("extraArgs[0]=log-format", "/extraArgs/0"),
        ("serviceMonitor.intervall=1m", "intervall"),
        (
            "prometheusRule.runbookBaseURL=git.example.com/mcu",
            "/prometheusRule/runbookBaseURL",
        ),
        ("podDisruptionBudgett.enabled=true", "podDisruptionBudgett"),
    ] {
        let refused = helm.render("mcu-system", &[value]).await.err();
        let message = refused
            .with_context(|| format!("{value} is accepted"))?
            .to_string();
        assert!(message.contains(name), "{value}: {message}");
    }
    Ok(())
}
