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

fn copy(from: &Path, to: &Path, directories: &[&str]) {
    for directory in directories {
        for path in below(&from.join(directory)).unwrap() {
            let target = to.join(path.strip_prefix(from).unwrap());
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            std::fs::copy(&path, &target).unwrap();
        }
    }
}
