//! All ways to install give the same objects, apart from what is said here.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use package::base::objects;
use repository::root;
use serde_json::{Value, json};
use testenv::Tool;
use tokio::process::Command;

use crate::helm::{Helm, identity, output, tool};

/// What kustomize makes of `deploy/`, which is what all others are compared with.
async fn kustomized() -> Result<BTreeMap<String, Value>> {
    let mut kubectl = Command::new(tool(Tool::Kubectl).await?);
    let (rendered, _) = output(kubectl.arg("kustomize").arg(root().join("deploy"))).await?;
    by_identity(objects(&rendered)?)
}

/// Objects by kind and name, in the spelling of kustomize.
fn by_identity(objects: Vec<Value>) -> Result<BTreeMap<String, Value>> {
    let count = objects.len();
    let map: BTreeMap<String, Value> = objects
        .into_iter()
        .map(|object| (identity(&object), spelled(object)))
        .collect();
    ensure!(map.len() == count, "two objects have the same kind and name");
    Ok(map)
}

/// The same value; kustomize writes 1000000.0 as 1000000.
fn spelled(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, spelled(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(spelled).collect(),
        Value::Number(number) if number.is_f64() => {
            let text = number.to_string();
            let whole = text
                .strip_suffix(".0")
                .and_then(|whole| whole.parse::<i64>().ok());
            whole.map_or(Value::Number(number), Value::from)
        }
        other => other,
    }
}

#[track_caller]
fn assert_same(found: &BTreeMap<String, Value>, expected: &BTreeMap<String, Value>) {
    let names = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(expected));
    for (name, object) in found {
        assert_eq!(object, &expected[name], "{name}");
    }
}

#[tokio::test]
async fn install_yaml_has_the_objects_of_kustomize() -> Result<()> {
    let expected = kustomized().await?;
    assert!(expected.len() >= 20, "{}", expected.len());
    let text = std::fs::read_to_string(root().join(package::install::PATH))?;
    assert_same(&by_identity(objects(&text)?)?, &expected);
    Ok(())
}

#[tokio::test]
async fn the_chart_has_the_objects_of_kustomize_but_for_the_namespace_and_the_mark_that_keeps_the_crds()
-> Result<()> {
    let mut expected = kustomized().await?;
    // `helm install --create-namespace` makes it.
    expected.remove("Namespace mcu-system");
    for crd in expected
        .values_mut()
        .filter(|object| object["kind"] == "CustomResourceDefinition")
    {
        crd["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    }
    let rendered = Helm::new(None).await?.render("mcu-system", &[]).await?;
    assert_same(&by_identity(rendered)?, &expected);
    Ok(())
}

#[tokio::test]
async fn in_another_namespace_the_chart_names_the_usual_one_nowhere() -> Result<()> {
    let rendered = Helm::new(None).await?.render("fleet-upgrades", &[]).await?;
    for object in &rendered {
        assert!(!object.to_string().contains("mcu-system"), "{}", identity(object));
    }
    let policy = rendered
        .iter()
        .find(|object| identity(object) == "ValidatingAdmissionPolicy managedclustersupgrade-works");
    let exempt = policy
        .map(|policy| policy["spec"]["matchConditions"].to_string())
        .unwrap_or_default();
    assert!(
        exempt.contains("system:serviceaccount:fleet-upgrades:mcu-controller"),
        "{exempt}"
    );
    Ok(())
}

#[tokio::test]
async fn bundle_and_the_file_beside_it_have_the_objects_of_kustomize_as_they_are() -> Result<()> {
    let expected = kustomized().await?;
    let manifests = root().join(package::bundle::DIRECTORY).join("manifests");
    let mut texts = vec![std::fs::read_to_string(root().join(package::bundle::BESIDE))?];
    for entry in std::fs::read_dir(manifests)? {
        texts.push(std::fs::read_to_string(entry?.path())?);
    }
    let mut found = 0;
    for object in objects(&texts.join("\n---\n"))? {
        if object["kind"] == "ClusterServiceVersion" {
            let deployment = &object["spec"]["install"]["spec"]["deployments"][0];
            let ours = &expected["Deployment mcu-controller"];
            assert_eq!(deployment["spec"], ours["spec"]);
            assert_eq!(deployment["label"], ours["metadata"]["labels"]);
        } else {
            let name = identity(&object);
            assert_eq!(Some(&spelled(object)), expected.get(&name), "{name}");
            found += 1;
        }
    }
    // Without what the ClusterServiceVersion stands for (the account, its roles and bindings, the Deployment) and the namespace.
    assert_eq!(found, expected.len() - 7);
    Ok(())
}
