//! The target in the status, which `kubectl get mcu` shows.

use super::*;

/// The target after an upgrade with this spec was reconciled.
fn target_of(spec: Value) -> Option<String> {
    let mut hub = hub(&["c1"]);
    hub.add_upgrade(&Given {
        spec,
        ..upgrade("u1", &[])
    });
    hub.settle();
    hub.context
        .with(|state| state.upgrades["u1"].status.previous().target)
}

#[tokio::test]
async fn the_target_is_the_version_or_without_one_the_image_and_absent_if_only_operators_are_upgraded() {
    let image = format!("registry.example.com/release@sha256:{}", "0".repeat(64));
    let to = |cluster_version: Value| {
        let mut spec = crate::fixture::spec(&["c1"]);
        spec["clusterVersion"] = cluster_version;
        spec
    };
    let both = json!({"version": "4.12.0", "image": image});
    assert_eq!(target_of(to(both)).as_deref(), Some("4.12.0"));
    assert_eq!(target_of(to(json!({"image": image}))), Some(image));
    assert_eq!(target_of(operators(&["c1"])), None);
    let invalid = to(json!({"version": "v4"}));
    assert_eq!(target_of(invalid), None, "no spec was valid yet");
}
