//! What lint knows of a ManifestWork is what OCM's own CRD says, at the release that the hub tools pin.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

use kubectl_mcu::lint::work::{OCM, spec_schema};
use serde_json::Value;

/// Leaves of a schema what decides: no descriptions, no messages, required fields in one order.
fn tidy(schema: &mut Value) {
    let Some(node) = schema.as_object_mut() else {
        return;
    };
    node.remove("description");
    if let Some(Value::Array(required)) = node.get_mut("required") {
        required.sort_by_key(ToString::to_string);
    }
    let rules = node.get_mut("x-kubernetes-validations");
    for rule in rules.and_then(Value::as_array_mut).into_iter().flatten() {
        rule.as_object_mut().unwrap().remove("message");
    }
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        properties.values_mut().for_each(tidy);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = node.get_mut(key) {
            tidy(child);
        }
    }
}

#[tokio::test]
async fn the_schema_of_an_actions_work_is_that_of_the_pinned_ocm() {
    let crds = testenv::crds::ocm_hub_crds().await.unwrap();
    let works = crds
        .iter()
        .find(|crd| crd["metadata"]["name"] == "manifestworks.work.open-cluster-management.io")
        .unwrap();
    let versions = works["spec"]["versions"].as_array().unwrap();
    assert_eq!(versions.len(), 1);
    let mut pinned = versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone();
    assert!(
        pinned["properties"]
            .as_object_mut()
            .unwrap()
            .remove("workload")
            .is_some(),
        "the workload is left to our own rules"
    );
    let mut ours = spec_schema();
    tidy(&mut pinned);
    tidy(&mut ours);
    let text = |schema: &Value| serde_json::to_string_pretty(schema).unwrap();
    assert!(
        ours == pinned,
        "crates/cli/src/lint/work.rs differs from OCM's CRD; ours:\n{}\npinned:\n{}",
        text(&ours),
        text(&pinned)
    );
}

#[test]
fn the_release_that_warnings_name_is_the_pinned_one() {
    let pins = testenv::assets::hub_tools().join("crds/go.mod");
    let text = std::fs::read_to_string(pins).unwrap();
    assert!(
        text.contains(&format!("open-cluster-management.io/api v{OCM}.")),
        "OCM {OCM} is not pinned; name the pinned release in crates/cli/src/lint/work.rs:\n{text}"
    );
}
