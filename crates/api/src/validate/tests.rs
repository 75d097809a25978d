use super::*;
use serde_json::json;

fn found(spec: &Value) -> Vec<String> {
    let spec: ManagedClustersUpgradeSpec = serde_json::from_value(spec.clone()).unwrap();
    validate("mcu", &spec)
        .iter()
        .map(|violation| violation.field.clone())
        .collect()
}

#[test]
fn no_text_makes_a_duration_panic() {
    for text in [
        "1h-3m",
        "-1h",
        "--1h",
        "1h+3m",
        "99999999999999999999999h",
        "1e400h",
        "1.1.1h",
        ".h",
        "h",
        "",
        "+",
        "\u{e9}h",
        "infh",
    ] {
        assert_eq!(parse_duration(text), None, "{text}");
    }
    let long = "999999999999h".repeat(4);
    assert_eq!(parse_duration(&long), None);
    let minutes = |text| parse_duration(text).map(|length| length.num_minutes());
    assert_eq!(minutes("1h30m"), Some(90));
    assert_eq!(minutes("1.5h"), Some(90));
}

#[test]
fn a_spec_with_selection_version_operators_and_strategy_is_valid() {
    let spec = json!({
        "placement": [{"name": "dev-clusters", "namespace": "dev"}],
        "clusterSelector": {"clusterSets": ["dev"], "matchExpressions": [{"key": "name", "operator": "In", "values": ["dev1"]}]},
        "clusterVersion": {"channel": "stable-4.12", "version": "4.12.0", "upstream": "", "image": ""},
        "ocpOperators": {"approveAllUpgrades": false, "include": [{"name": "openshift-gitops-operator", "namespace": "openshift-operators"}]},
        "upgradeStrategy": {"clusterUpgradeTimeout": "2h", "maxConcurrency": 2, "operatorsUpgradeTimeout": "10m"},
    });
    assert_eq!(found(&spec), Vec::<String>::new());
}

#[test]
fn every_broken_rule_names_its_field() {
    let strategy = |key: &str, value: Value| json!({"clusterVersion": {"version": "4.12.0"}, "upgradeStrategy": {key: value}});
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let action = |manifests: Value| json!({"clusterVersion": {"version": "4.12.0"}, "preUpgradeAction": {"manifestWork": {"workload": {"manifests": manifests}}}});
    let big = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y".repeat(MAX_MANIFESTS_BYTES)}});
    for (spec, field) in [
        (json!({}), "spec"),
        (
            json!({"ocpOperators": {"exclude": [{"name": "a", "namespace": "b"}]}}),
            "spec",
        ),
        (
            json!({"clusterVersion": {"channel": "stable-4.12"}}),
            "spec.clusterVersion",
        ),
        (
            json!({"clusterVersion": {"version": "v4.12.0"}}),
            "spec.clusterVersion.version",
        ),
        (
            json!({"clusterVersion": {"version": "4.99"}}),
            "spec.clusterVersion.version",
        ),
        (
            strategy("clusterUpgradeTimeout", json!("2d")),
            "spec.upgradeStrategy.clusterUpgradeTimeout",
        ),
        (
            strategy("operatorsUpgradeTimeout", json!("-1h")),
            "spec.upgradeStrategy.operatorsUpgradeTimeout",
        ),
        (
            strategy("minSuccessTime", json!("soon")),
            "spec.upgradeStrategy.minSuccessTime",
        ),
        (
            strategy("maxConcurrency", json!(0)),
            "spec.upgradeStrategy.maxConcurrency",
        ),
        (
            strategy("maxConcurrency", json!("150%")),
            "spec.upgradeStrategy.maxConcurrency",
        ),
        (
            strategy("maxFailures", json!(-1)),
            "spec.upgradeStrategy.maxFailures",
        ),
        (
            action(json!([])),
            "spec.preUpgradeAction.manifestWork.workload.manifests",
        ),
        (
            action(json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}])),
            "spec.preUpgradeAction.manifestWork.workload.manifests[0].metadata.name",
        ),
        (
            action(json!([manifest, manifest])),
            "spec.preUpgradeAction.manifestWork.workload.manifests[1]",
        ),
        (
            action(json!([big])),
            "spec.preUpgradeAction.manifestWork.workload.manifests",
        ),
        (
            json!({"clusterVersion": {"version": "4.12.0"}, "preUpgradeAction": {"manifestWork": {
                "workload": {"manifests": [manifest]}, "later": "y".repeat(MAX_MANIFESTS_BYTES)}}}),
            "spec.preUpgradeAction.manifestWork",
        ),
        (
            json!({"clusterSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}, "clusterVersion": {"version": "4.12.0"}}),
            "spec.clusterSelector.matchExpressions[0].values",
        ),
        (
            json!({"ocpOperators": {"include": [{"name": "a", "namespace": ""}]}}),
            "spec.ocpOperators.include[0].namespace",
        ),
    ] {
        assert_eq!(found(&spec), [field], "{spec}");
    }
}

#[test]
fn a_time_limit_of_actions_is_optional_and_at_least_a_second() {
    for (limit, violated) in [(json!(null), false), (json!("15m"), false), (json!("0s"), true)] {
        let spec =
            json!({"clusterVersion": {"version": "4.12.0"}, "upgradeStrategy": {"actionTimeout": limit}});
        let expected: &[&str] = if violated {
            &["spec.upgradeStrategy.actionTimeout"]
        } else {
            &[]
        };
        assert_eq!(found(&spec), expected, "{spec}");
    }
}

#[test]
fn channel_upstream_and_image_are_printable_ascii_of_bounded_length() {
    let (e_acute, long) = ("\u{e9}".repeat(600), "a".repeat(2050));
    for (field, good, start) in [
        ("channel", "stable-4.12", "stable"),
        ("upstream", "https://updates.example.com/graph", "https://a/"),
        ("image", "registry.example.com/ocp/release@sha256:0", "r/i"),
    ] {
        let spec = |text: &str| json!({"clusterVersion": {"version": "4.12.0", field: text}});
        assert_eq!(found(&spec(good)), Vec::<String>::new());
        assert_eq!(found(&spec("")), Vec::<String>::new());
        for tail in [
            "\u{1b}[2J",
            "\u{7f}",
            "\u{9b}2J",
            "\u{202e}",
            "\u{a0}",
            " ",
            "\n",
            &e_acute,
            &long,
        ] {
            let spec = serde_json::from_value(spec(&format!("{start}{tail}"))).unwrap();
            let violations = validate("mcu", &spec);
            let [one] = violations.as_slice() else {
                panic!("{field} {tail:?}: {violations:?}");
            };
            assert_eq!(one.field, format!("spec.clusterVersion.{field}"));
            assert!(one.message.contains("printable ASCII"), "{one}");
            assert!(!one.message.chars().any(crate::text::is_steering), "{one:?}");
        }
    }
    for upstream in ["updates", "https://", "ftp://a"] {
        let spec = json!({"clusterVersion": {"version": "4.12.0", "upstream": upstream}});
        assert_eq!(found(&spec), ["spec.clusterVersion.upstream"]);
    }
}

#[test]
fn names_and_labels_that_cannot_exist_are_refused_wherever_a_spec_has_them() {
    let with = |key: &str, value: Value| json!({"clusterVersion": {"version": "4.12.0"}, key: value});
    let canaries = json!({"canaryClusters": {"clusterSelector": {"matchLabels": {"a b": "c"}}}});
    for (spec, field) in [
        (
            json!({"clusterVersion": {"channel": "stable-4.12\n", "version": "4.12.0"}}),
            "spec.clusterVersion.channel",
        ),
        (
            with("placement", json!([{"name": "Dev"}])),
            "spec.placement[0].name",
        ),
        (
            with("clusterSelector", json!({"clusterSets": ["Dev"]})),
            "spec.clusterSelector.clusterSets[0]",
        ),
        (
            with("upgradeStrategy", canaries),
            "spec.upgradeStrategy.canaryClusters.clusterSelector.matchLabels.a b",
        ),
    ] {
        assert_eq!(found(&spec), [field], "{spec}");
    }
}

#[test]
fn a_name_that_a_label_cannot_carry_is_refused() {
    let spec = serde_json::from_value(json!({"clusterVersion": {"version": "4.12.0"}})).unwrap();
    assert_eq!(validate(&"x".repeat(63), &spec), []);
    assert_eq!(validate(&"x".repeat(64), &spec)[0].field, "metadata.name");
}
