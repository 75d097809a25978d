//! What the values of the chart do.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use package::base::objects;
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
        "CustomResourceDefinition managedclustersupgradeapprovals.cluster.open-cluster-management.io",
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
async fn monitoring_without_helm_is_what_the_chart_makes() -> Result<()> {
    let helm = Helm::new(None).await?;
    let usual = identities(&helm.render("mcu-system", &[]).await?);
    let values = [
        "serviceMonitor.enabled=true",
        "serviceMonitor.openshiftPlatform=true",
        "prometheusRule.enabled=true",
    ];
    let mut rendered = helm.render("mcu-system", &values).await?;
    rendered.retain(|object| !usual.contains(&identity(object)));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(repository::root().join("deploy/monitoring"))? {
        files.extend(objects(&std::fs::read_to_string(entry?.path())?)?);
    }
    for objects in [&mut rendered, &mut files] {
        objects.sort_by_key(identity);
    }
    assert_eq!(rendered, files);

    // The account is that of OpenShift, wherever the controller is.
    let rendered = helm.render("fleet-upgrades", &values).await?;
    let binding = rendered
        .iter()
        .find(|object| identity(object) == "RoleBinding mcu-controller-openshift-monitoring")
        .context("a RoleBinding")?;
    assert_eq!(binding["metadata"]["namespace"], "fleet-upgrades");
    assert_eq!(
        binding["subjects"],
        json!([{"kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": "openshift-monitoring"}])
    );
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
        "extraVolumes[0].name=ca",
        "extraVolumes[0].configMap.name=authorities",
        "extraVolumeMounts[0].name=ca",
        "extraVolumeMounts[0].mountPath=/etc/ca",
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
    assert_eq!(
        pod["volumes"],
        json!([{"name": "ca", "configMap": {"name": "authorities"}}])
    );
    assert_eq!(
        container["volumeMounts"],
        json!([{"name": "ca", "mountPath": "/etc/ca"}])
    );

    let digest = format!("sha256:{}", "0".repeat(64));
    let by_digest = helm
        .render("mcu-system", &[&format!("image.digest={digest}")])
        .await?;
    let image = &deployment(&by_digest)?["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(*image, format!("mcu-controller@{digest}"));
    Ok(())
}

/// The chart knows only its own version, so it may not say that an image has it that the values name.
#[tokio::test]
async fn notes_and_label_claim_a_version_only_of_an_image_that_the_values_name_by_it() -> Result<()> {
    let helm = Helm::new(None).await?;
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("sha256:{}", "0".repeat(64));
    let digest = format!("image.digest={name}");
    let own_tag = format!("image.tag={version}");
    let too_long = format!("image.tag={}", "a".repeat(64));
    let by_digest = format!("mcu-controller@{name}");
    let by_version = format!("mcu-controller:{version}");
    let cases: [(&[&str], bool, Option<&str>, &str); 7] = [
        (&[], true, Some(version), &by_version),
        (&[&own_tag], true, Some(version), &by_version),
        (&["image.tag=9.9.9"], false, Some("9.9.9"), "mcu-controller:9.9.9"),
        // No label can have these values.
        (&["image.tag=9.9-"], false, None, "mcu-controller:9.9-"),
        (&[&too_long], false, None, "mcu-controller:aaa"),
        (&[&digest], false, None, &by_digest),
        (&[&digest, "image.tag=9.9.9"], false, Some("9.9.9"), &by_digest),
    ];
    for (values, claims, label, image) in cases {
        let rendered = helm.render("mcu-system", values).await?;
        let found = &deployment(&rendered)?["metadata"]["labels"]["app.kubernetes.io/version"];
        assert_eq!(found.as_str(), label, "{values:?}");
        let notes = helm.notes(values).await?;
        let claim = format!("MCU {version} is installed in namespace mcu-system, with the image");
        assert_eq!(notes.starts_with(&claim), claims, "{values:?}: {notes}");
        assert!(notes.contains(image), "{values:?}: {notes}");
        assert_eq!(
            notes.contains("cannot tell which version of MCU that is"),
            !claims,
            "{values:?}: {notes}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn the_notes_say_to_delete_upgrades_before_a_release_whose_crds_are_not_kept() -> Result<()> {
    let helm = Helm::new(None).await?;
    let first =
        "kubectl delete managedclustersupgrades -A --all\n  helm uninstall mcu --namespace mcu-system";
    assert!(helm.notes(&["crds.keep=false"]).await?.contains(first));
    assert!(!helm.notes(&[]).await?.contains(first));
    Ok(())
}

#[tokio::test]
async fn a_text_with_the_marks_of_yaml_stays_one_text() -> Result<()> {
    let text = "a: 'b' # c";
    let values = ["priorityClassName=", "extraArgs[0]=--user-agent="].map(|name| format!("{name}{text}"));
    let values = values.each_ref().map(String::as_str);
    let rendered = Helm::new(None).await?.render("mcu-system", &values).await?;
    let pod = &deployment(&rendered)?["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(pod["priorityClassName"], text);
    let arguments = container["args"].to_string();
    assert!(
        arguments.contains(&format!("\"--user-agent={text}\"")),
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
        ("approverImage=two words", "/approverImage"),
        ("approverImage=cli@sha256:12", "/approverImage"),
        (
            "approverImage=https://registry.example.com/cli:1",
            "/approverImage",
        ),
        // Without a ServiceMonitor nothing is scraped.
        ("serviceMonitor.openshiftPlatform=true", "/serviceMonitor/enabled"),
        ("extraArgs[0]=log-format", "/extraArgs/0"),
        // One text of two words would be one argument, which the controller does not know.
        ("extraArgs[0]=--listen :9090", "/extraArgs/0"),
        ("extraArgs[0]=--Log-Format=json", "/extraArgs/0"),
        ("extraVolumes[0]=ca", "/extraVolumes/0"),
        ("serviceMonitor.intervall=1m", "intervall"),
        (
            "prometheusRule.runbookBaseURL=git.example.com/mcu",
            "/prometheusRule/runbookBaseURL",
        ),
        ("podDisruptionBudgett.enabled=true", "podDisruptionBudgett"),
        (
            "networkPolicy.monitoringNamespaces={}",
            "/networkPolicy/monitoringNamespaces",
        ),
        (
            "extraArgs[0]=--leader-elect=false",
            "extraArgs must not contain --leader-elect",
        ),
        (
            "extraArgs[0]=--listen=:9090",
            "extraArgs must not contain --listen",
        ),
        (
            "extraArgs[0]=--lease-name=mcu",
            "allows only the Lease mcu-controller",
        ),
        (
            "extraArgs[0]=--lease-namespace=kube-system",
            "in the namespace of the release",
        ),
        (
            "extraArgs[0]=--spoke-rbac=none",
            "set the value spokeRBAC instead",
        ),
        (
            "extraArgs[0]=--approver-image=a",
            "set the value approverImage instead",
        ),
    ] {
        refused(&helm, &[value], name).await?;
    }
    Ok(())
}

/// Fails unless the chart refuses the values with a message that contains this text.
async fn refused(helm: &Helm, values: &[&str], text: &str) -> Result<()> {
    let refused = helm.render("mcu-system", values).await.err();
    let message = refused
        .with_context(|| format!("{values:?} is accepted"))?
        .to_string();
    assert!(message.contains(text), "{values:?}: {message}");
    Ok(())
}

#[tokio::test]
async fn an_image_is_named_by_a_repository_alone_and_by_a_tag_alone() -> Result<()> {
    let helm = Helm::new(None).await?;
    for repository in [
        "https://registry.example.com/mcu",
        "registry.example.com/mcu:1.2.3",
        "registry.example.com/mcu@sha256:12",
        "registry.example.com:5000",
        "registry.example.com/mcu/",
        "a: 'b' # c",
        "",
    ] {
        refused(
            &helm,
            &[&format!("image.repository={repository}")],
            "/image/repository",
        )
        .await?;
    }
    for tag in ["a: 'b' # c", "a b", ":1", "1@sha256"] {
        refused(&helm, &[&format!("image.tag={tag}")], "/image/tag").await?;
    }
    for repository in [
        "mcu",
        "localhost:5000/mcu",
        "Registry.example.com/fleet/mcu__controller-0.x",
    ] {
        let value = format!("image.repository={repository}");
        let rendered = helm
            .render("mcu-system", &[&value, "image.tag=v1_2.3-rc.1"])
            .await?;
        let image = &deployment(&rendered)?["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(*image, format!("{repository}:v1_2.3-rc.1"));
    }
    Ok(())
}

#[tokio::test]
async fn a_budget_that_no_drain_could_keep_is_refused() -> Result<()> {
    let helm = Helm::new(None).await?;
    let budget = |least: &str| format!("podDisruptionBudget.minAvailable={least}");
    for (replicas, least) in [("2", "2"), ("2", "3"), ("2", "100%"), ("2", "51%"), ("3", "67%")] {
        let replicas = format!("replicaCount={replicas}");
        refused(
            &helm,
            &[&replicas, &budget(least)],
            "podDisruptionBudget.minAvailable",
        )
        .await?;
    }
    for (replicas, least) in [("2", "0"), ("2", "50%"), ("3", "2"), ("3", "66%"), ("1", "1")] {
        let replicas = format!("replicaCount={replicas}");
        helm.render("mcu-system", &[&replicas, &budget(least)]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_value_that_is_taken_away_is_named() -> Result<()> {
    let helm = Helm::new(None).await?;
    for name in [
        "image",
        "replicaCount",
        "crds",
        "spokeRBAC",
        "podDisruptionBudget",
        "networkPolicy",
        "flowControl",
        "strictExecutor",
        "serviceMonitor",
        "prometheusRule",
        "dashboards",
    ] {
        refused(
            &helm,
            &[&format!("{name}=null")],
            &format!("missing property '{name}'"),
        )
        .await?;
    }
    for (group, name) in [
        ("image", "repository"),
        ("image", "pullPolicy"),
        // Without it, the CRDs would be deleted with the release.
        ("crds", "keep"),
        ("crds", "enabled"),
        ("podDisruptionBudget", "enabled"),
        ("networkPolicy", "enabled"),
        ("flowControl", "enabled"),
        ("strictExecutor", "enabled"),
        ("serviceMonitor", "enabled"),
        ("serviceMonitor", "interval"),
        ("prometheusRule", "enabled"),
        ("dashboards", "openshiftConsole"),
    ] {
        refused(
            &helm,
            &[&format!("{group}.{name}=null")],
            &format!("missing property '{name}'"),
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_notes_say_that_no_registry_has_the_default_image() -> Result<()> {
    let helm = Helm::new(None).await?;
    let said = "No registry has this image";
    assert!(helm.notes(&[]).await?.contains(said));
    let named = ["image.repository=registry.example.com/fleet/mcu-controller"];
    assert!(!helm.notes(&named).await?.contains(said));
    Ok(())
}
