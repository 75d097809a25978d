use std::collections::BTreeSet;

use repository::root;
use serde_json::Value;

use super::*;
use crate::base::objects;
use crate::bundle::{Place, place};

/// Kind, namespace and name.
fn identity(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!(
        "{} {} {}",
        object["kind"], metadata["namespace"], metadata["name"]
    )
}

fn identities<'a>(objects: impl IntoIterator<Item = &'a Value>) -> BTreeSet<String> {
    objects.into_iter().map(identity).collect()
}

/// The objects of the generated files whose path begins so.
fn generated(files: &Files, prefix: &str) -> Vec<Value> {
    let texts = files.iter().filter(|(path, _)| path.starts_with(prefix));
    texts.flat_map(|(_, text)| objects(text).unwrap()).collect()
}

#[test]
fn the_generated_manifests_in_the_repository_are_those_of_the_base() {
    check(root()).unwrap();
}

#[test]
fn the_one_file_has_the_objects_of_the_base_and_nothing_else() {
    let base = Base::read(root()).unwrap();
    let files = render(root()).unwrap();
    assert_eq!(generated(&files, install::PATH), base.objects().unwrap());
}

#[test]
fn the_version_of_the_base_is_that_of_the_workspace() {
    let base = Base::read(root()).unwrap();
    assert_eq!(
        base.image,
        format!("mcu-controller:{}", env!("CARGO_PKG_VERSION"))
    );
    let objects = base.objects().unwrap();
    let labelled: Vec<&Value> = objects
        .iter()
        .filter(|object| object["kind"] == "Deployment")
        .map(|deployment| &deployment["metadata"]["labels"]["app.kubernetes.io/version"])
        .collect();
    assert_eq!(labelled, [env!("CARGO_PKG_VERSION")]);
}

#[test]
fn every_object_is_in_the_bundle_or_beside_it() {
    let base = Base::read(root()).unwrap().objects().unwrap();
    let files = render(root()).unwrap();
    let of = |wanted: Place| identities(base.iter().filter(|object| place(object).unwrap() == wanted));
    let beside = generated(&files, bundle::BESIDE);
    assert_eq!(identities(&beside), of(Place::Beside));
    let manifests = generated(&files, "deploy/bundle/manifests");
    let (versions, manifests): (Vec<Value>, Vec<Value>) = manifests
        .into_iter()
        .partition(|object| object["kind"] == "ClusterServiceVersion");
    assert_eq!(identities(&manifests), of(Place::Manifest));
    for object in beside.iter().chain(&manifests) {
        assert!(base.contains(object), "changed: {}", identity(object));
    }

    let [version] = versions.as_slice() else {
        panic!("{} ClusterServiceVersions", versions.len());
    };
    let install = &version["spec"]["install"]["spec"];
    let spec_of = |kind: &str, name: &str| {
        let mut found = base
            .iter()
            .filter(|one| one["kind"] == kind && one["metadata"]["name"] == name);
        found.next().unwrap().clone()
    };
    let deployment = spec_of("Deployment", "mcu-controller");
    assert_eq!(install["deployments"][0]["spec"], deployment["spec"]);
    assert_eq!(
        install["deployments"][0]["label"],
        deployment["metadata"]["labels"]
    );
    assert_eq!(
        install["clusterPermissions"][0]["rules"],
        spec_of("ClusterRole", "mcu-controller")["rules"]
    );
    assert_eq!(
        install["permissions"][0]["rules"],
        spec_of("Role", "mcu-controller-leader-election")["rules"]
    );
    // One of each, so that nothing of these kinds is lost.
    assert_eq!(of(Place::ClusterServiceVersion).len(), 6);
}

/// Catalogs read the labels of the bundle's image, OLM its annotations.
#[test]
fn the_image_of_the_bundle_has_a_label_for_each_annotation() {
    let files = render(root()).unwrap();
    let text = |name: &str| &files[Path::new(bundle::DIRECTORY).join(name).as_path()];
    let annotations = objects(text("metadata/annotations.yaml")).unwrap();
    let annotations = annotations[0]["annotations"].as_object().unwrap().clone();
    assert!(annotations.contains_key("com.redhat.openshift.versions"));
    let recipe = text("Containerfile").lines();
    let labels: Vec<&str> = recipe.filter_map(|line| line.strip_prefix("LABEL ")).collect();
    assert_eq!(labels.len(), annotations.len());
    for (key, value) in annotations {
        let label = format!("{key}={}", value.as_str().unwrap());
        assert!(labels.contains(&label.as_str()), "{label}");
    }
}

#[test]
fn an_edit_a_missing_file_and_a_file_of_earlier_are_drift_and_writing_ends_it() {
    let clone = tempfile::tempdir().unwrap();
    copy(root(), clone.path(), &["deploy", "crds", "examples"]);
    write(clone.path()).unwrap();
    check(clone.path()).unwrap();

    let chart = clone.path().join(chart::DIRECTORY);
    std::fs::write(chart.join("templates/old.yaml"), format!("{HEADER}a: b\n")).unwrap();
    std::fs::write(chart.join("templates/by-hand.yaml"), "a: b\n").unwrap();
    std::fs::write(chart.join("templates/controller.yaml"), "a: b\n").unwrap();
    std::fs::remove_file(clone.path().join(install::PATH)).unwrap();
    let message = check(clone.path()).unwrap_err().to_string();
    for part in [
        "templates/old.yaml is not generated",
        "templates/controller.yaml differs",
        "deploy/install.yaml is missing",
        "run cargo xtask manifests",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains("by-hand"), "{message}");

    write(clone.path()).unwrap();
    check(clone.path()).unwrap();
    assert!(chart.join("templates/by-hand.yaml").is_file());
}

#[test]
fn a_base_that_an_edit_does_not_fit_is_refused() {
    let clone = tempfile::tempdir().unwrap();
    copy(root(), clone.path(), &["deploy", "crds", "examples"]);
    let path = clone.path().join("deploy/controller.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("replicas: 2", "replicas: 3")).unwrap();
    let message = format!("{:#}", render(clone.path()).unwrap_err());
    assert!(
        message.contains("controller.yaml: a template's edit finds its text 0 times"),
        "{message}"
    );
}

/// An update to `crds.enabled=false` is refused for each of them.
#[test]
fn the_chart_guards_every_crd_of_the_base() {
    let files = render(root()).unwrap();
    let names = &files[Path::new("deploy/chart/templates/_crds.tpl")];
    let mut crds = 0;
    for object in Base::read(root()).unwrap().objects().unwrap() {
        if object["kind"] == "CustomResourceDefinition" {
            assert!(names.contains(&object["metadata"]["name"].to_string()), "{names}");
            crds += 1;
        }
    }
    assert!(crds >= 3, "{crds}");
    let checks = std::fs::read_to_string(root().join("deploy/chart/templates/_checks.tpl")).unwrap();
    assert!(checks.contains("range $name := include \"mcu.crds\" . | fromJsonArray"));
}

/// A value that is null is taken away before the schema sees it, also where the default is not nothing.
#[test]
fn the_schema_requires_every_value_of_a_group_that_has_a_default() {
    let chart = root().join(chart::DIRECTORY);
    let read = |name: &str| std::fs::read_to_string(chart.join(name)).unwrap();
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let mut checked = 0;
    for (group, group_schema) in schema["properties"].as_object().unwrap() {
        let group_schema = match group_schema["$ref"].as_str() {
            Some("#/definitions/switch") => &schema["definitions"]["switch"],
            _ => group_schema,
        };
        if !group_schema["properties"].is_object() {
            continue;
        }
        let required = group_schema["required"].as_array().unwrap();
        for (name, default) in values[group].as_object().unwrap() {
            if default.is_boolean()
                || default.is_number()
                || default.as_str().is_some_and(|text| !text.is_empty())
            {
                assert!(required.contains(&Value::from(name.as_str())), "{group}.{name}");
                checked += 1;
            }
        }
    }
    assert!(checked >= 15, "{checked}");
}

#[test]
fn the_rules_without_helm_are_the_files_of_alerts() {
    let rules = objects(&render(root()).unwrap()[Path::new(rules::PATH)]).unwrap();
    let names: Vec<&Value> = rules.iter().map(|rule| &rule["metadata"]["name"]).collect();
    assert_eq!(names, ["mcu-mcu", "mcu-update-service"]);
    for rule in &rules {
        let name = rule["metadata"]["name"].as_str().unwrap();
        let file = format!("deploy/alerts/{}.rules.yaml", name.strip_prefix("mcu-").unwrap());
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        assert_eq!([rule["spec"].clone()], objects(&text).unwrap().as_slice());
    }
}

/// Helm itself renders the chart in `e2e/tests/install`.
#[test]
fn the_chart_finds_the_path_of_every_runbook_to_put_an_address_before_it() {
    let chart = root().join(chart::DIRECTORY);
    let read = |path: &str| std::fs::read_to_string(chart.join(path)).unwrap();
    assert!(read("templates/prometheus-rules.yaml").contains(r#"replace "runbook_url: docs/""#));
    let mut alerts = 0;
    for path in below(&chart.join("alerts")).unwrap() {
        let text = std::fs::read_to_string(path).unwrap();
        let runbooks = text.matches("\n          runbook_url: docs/").count();
        assert_eq!(text.matches("- alert: ").count(), runbooks);
        alerts += runbooks;
    }
    assert!(alerts > 0);
}

/// The text of a page from one heading or sentence to the next.
fn part(page: &str, from: &str, to: &str) -> String {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let (_, rest) = text
        .split_once(from)
        .unwrap_or_else(|| panic!("{page}: no {from}"));
    let (part, _) = rest
        .split_once(to)
        .unwrap_or_else(|| panic!("{page}: no {to} after {from}"));
    part.to_owned()
}

#[test]
fn the_guide_to_updates_applies_every_right_and_policy_of_the_base_and_waits_for_every_crd() {
    let commands = part("docs/guide/upgrade-the-controller.md", "## In short", "# 3.");
    let base = Base::read(root()).unwrap();
    let first = ["controller-rbac.yaml", "user-roles.yaml"];
    let files = base.files.iter().filter(|file| !file.is_crd);
    let files =
        files.filter(|file| file.name.starts_with("admission-") || first.contains(&file.name.as_str()));
    let found: BTreeSet<&str> = commands
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("deploy/"))
        .collect();
    assert_eq!(found, files.map(|file| file.name.as_str()).collect());
    let waits: BTreeSet<&str> = commands
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("crd/"))
        .collect();
    let objects = base.objects().unwrap();
    let crds = objects
        .iter()
        .filter(|one| one["kind"] == "CustomResourceDefinition");
    assert_eq!(
        waits,
        crds.map(|one| one["metadata"]["name"].as_str().unwrap())
            .collect()
    );
}

#[test]
fn the_guide_to_installing_lists_every_object_of_the_base() {
    let table = part("docs/guide/install.md", "| installed | for |", "\n\n");
    let base = Base::read(root()).unwrap().objects().unwrap();
    for object in &base {
        let kind = object["kind"].as_str().unwrap();
        let name = match kind {
            // The table says more shortly that a policy is bound, and what the account may do.
            "ValidatingAdmissionPolicyBinding"
            | "ClusterRoleBinding"
            | "Role"
            | "RoleBinding"
            | "ServiceAccount"
            | "PodDisruptionBudget" => continue,
            "CustomResourceDefinition" => &object["spec"]["names"]["plural"],
            _ => &object["metadata"]["name"],
        };
        let name = format!("`{}`", name.as_str().unwrap());
        assert!(table.contains(&name), "{kind} {name}");
    }
    let policies = part(
        "docs/guide/install.md",
        "### The admission policies",
        "If you must change",
    );
    for policy in base
        .iter()
        .filter(|one| one["kind"] == "ValidatingAdmissionPolicy")
    {
        let name = format!("`{}`", policy["metadata"]["name"].as_str().unwrap());
        assert!(policies.contains(&name), "{name}");
    }
}

fn copy(from: &Path, to: &Path, directories: &[&str]) {
    for directory in directories {
        for path in below(&from.join(directory)).unwrap() {
            let target = to.join(path.strip_prefix(from).unwrap());
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            std::fs::copy(&path, &target).unwrap();
        }
    }
}
