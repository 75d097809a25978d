//! Every bad input that is visible offline is refused with the field and a remedy.

use serde_json::json;

use super::*;

fn linter() -> Linter {
    Linter::new(UnknownFields::Strict, None)
}

fn object(spec: &Value) -> Value {
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "ManagedClustersUpgrade",
        "metadata": {"name": "spring", "namespace": "upgrades"},
        "spec": spec,
    })
}

fn with(key: &str, value: &Value) -> Value {
    json!({"clusterVersion": {"version": "4.12.0"}, key: value})
}

fn strategy(key: &str, value: &Value) -> Value {
    with("upgradeStrategy", &json!({key: value}))
}

fn action(manifests: &Value) -> Value {
    with(
        "preUpgradeAction",
        &json!({"manifestWork": {"workload": {"manifests": manifests}}}),
    )
}

fn found(linter: &Linter, spec: &Value) -> Vec<(String, String)> {
    let problems = linter.check(&object(spec));
    problems
        .into_iter()
        .map(|problem| (problem.field, problem.message))
        .collect()
}

/// The spec has exactly this one problem, and its message contains the words.
fn refused(linter: &Linter, spec: &Value, field: &str, words: &str) {
    let found = found(linter, spec);
    assert_eq!(found.len(), 1, "{spec}: {found:?}");
    assert_eq!(found[0].0, field, "{spec}");
    assert!(found[0].1.contains(words), "{spec}: {found:?}");
}

#[test]
fn a_full_upgrade_is_good() {
    let linter = linter();
    let manifest = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "backup", "namespace": "default"}, "spec": {"anything": 1}});
    let spec = json!({
        "placement": [{"name": "dev-clusters", "namespace": "dev"}],
        "clusterSelector": {
            "clusterSets": ["dev"],
            "matchLabels": {"region": "north"},
            "matchExpressions": [{"key": "name", "operator": "In", "values": ["dev1"]}, {"key": "x", "operator": "Exists"}],
        },
        "clusterVersion": {"channel": "stable-4.12", "version": "4.12.0-rc.1+build", "upstream": "https://graph.example.com/graph", "image": "", "allowDowngrade": true},
        "ocpOperators": {"approveAllUpgrades": false, "include": [{"name": "gitops", "namespace": "openshift-operators"}]},
        "upgradeStrategy": {
            "canaryClusters": {"clusterSelector": {"matchLabels": {"canary": "true"}}},
            "clusterUpgradeTimeout": "1h30m", "maxConcurrency": "25%", "operatorsUpgradeTimeout": "10m",
            "maxFailures": "5%", "minSuccessTime": "0",
        },
        "preUpgradeAction": {"manifestWork": {"workload": {"manifests": [manifest]}, "deleteOption": {"propagationPolicy": "Orphan"}}},
        "paused": true,
    });
    assert_eq!(found(&linter, &spec), []);
    let image = format!("quay.io/x@sha256:{}", "0a".repeat(32));
    assert_eq!(found(&linter, &json!({"clusterVersion": {"image": image}})), []);
    assert_eq!(
        found(&linter, &json!({"ocpOperators": {"approveAllUpgrades": true}})),
        []
    );
}

#[test]
fn times_that_are_no_durations_are_refused() {
    let linter = linter();
    for (key, value) in [
        ("clusterUpgradeTimeout", "2d"),
        ("clusterUpgradeTimeout", "-1h"),
        ("clusterUpgradeTimeout", "0s"),
        ("operatorsUpgradeTimeout", "soon"),
        ("minSuccessTime", "1 day"),
    ] {
        refused(
            &linter,
            &strategy(key, &json!(value)),
            &format!("spec.upgradeStrategy.{key}"),
            "days are not a unit",
        );
    }
    refused(
        &linter,
        &strategy("clusterUpgradeTimeout", &json!(3)),
        "spec.upgradeStrategy.clusterUpgradeTimeout",
        "must be a string (quote it), not 3",
    );
}

#[test]
fn limits_out_of_range_are_refused() {
    let linter = linter();
    for (key, value) in [
        ("maxConcurrency", json!(0)),
        ("maxConcurrency", json!(-3)),
        ("maxConcurrency", json!("0%")),
        ("maxConcurrency", json!("150%")),
        ("maxConcurrency", json!("ten")),
        ("maxFailures", json!(-1)),
        ("maxFailures", json!("101%")),
    ] {
        refused(
            &linter,
            &strategy(key, &value),
            &format!("spec.upgradeStrategy.{key}"),
            "percentage",
        );
    }
    refused(
        &linter,
        &strategy("maxConcurrency", &json!(2_000_000)),
        "spec.upgradeStrategy.maxConcurrency",
        "at most 1000000",
    );
}

#[test]
fn an_upgrade_that_would_do_nothing_is_refused() {
    let linter = linter();
    refused(&linter, &json!({}), "spec", "nothing to do");
    let exclude = json!({"ocpOperators": {"exclude": [{"name": "a", "namespace": "b"}]}});
    refused(&linter, &exclude, "spec", "spec.ocpOperators.include");
}

#[test]
fn a_target_without_or_with_a_bad_version_is_refused() {
    let linter = linter();
    let target = |target: Value| json!({"clusterVersion": target});
    refused(
        &linter,
        &target(json!({"channel": "stable-4.12"})),
        "spec.clusterVersion",
        "version (such as 4.20.0) or image",
    );
    for version in ["v4.12", "v4.12.0", "4.99", "latest"] {
        refused(
            &linter,
            &target(json!({"version": version})),
            "spec.clusterVersion.version",
            "without a leading v",
        );
    }
    refused(
        &linter,
        &target(json!({"version": 4.12})),
        "spec.clusterVersion.version",
        "quote it",
    );
    refused(
        &linter,
        &target(json!({"version": "4.12.0", "upstream": "graph.example.com"})),
        "spec.clusterVersion.upstream",
        "http or https URL",
    );
}

#[test]
fn an_image_that_a_cluster_cannot_verify_is_a_warning() {
    let linter = linter();
    for image in [
        "quay.io/ocp/release:4.12.0-x86_64".to_owned(),
        "quay.io/x@sha256:0".to_owned(),
        format!("quay.io/x@sha256:{}", "G".repeat(64)),
        format!("@sha256:{}", "0".repeat(64)),
    ] {
        let found = linter.check(&object(&json!({"clusterVersion": {"image": image}})));
        assert_eq!(found.len(), 1, "{image}: {found:?}");
        assert_eq!(found[0].field, "spec.clusterVersion.image");
        assert!(found[0].warning, "{image}");
        assert!(found[0].message.contains("oc adm release info"), "{found:?}");
    }
}

#[test]
fn a_setting_without_effect_is_a_warning() {
    let linter = linter();
    let ack = json!([{"key": "ack-4.17-api-removals-in-4.18", "reason": "scanned"}]);
    let spec = json!({
        "clusterVersion": {"channel": "stable-4.20", "version": "4.20.4", "adminAcks": ack},
        "maintenance": {"minimumRemaining": "2h"},
        "preflight": {"ignore": ["Failing"], "unknownRisks": "Accept"},
        "upgradeStrategy": {
            "workerPoolsTimeout": "6h",
            "approvals": [{"name": "half", "when": "50%"}, {"name": "all", "when": "100%"}],
        },
    });
    let found = linter.check(&object(&spec));
    assert!(found.iter().all(|problem| problem.warning), "{found:?}");
    let fields: Vec<&str> = found.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "spec.clusterVersion.adminAcks[0].key",
            "spec.maintenance.minimumRemaining",
            "spec.preflight.ignore",
            "spec.preflight.unknownRisks",
            "spec.upgradeStrategy.approvals[1].when",
            "spec.upgradeStrategy.workerPoolsTimeout",
        ]
    );
    let ack = json!([{"key": "ack-4.19-api-removals-in-4.20", "reason": "scanned"}]);
    let spec = json!({
        "clusterVersion": {"channel": "stable-4.20", "version": "4.20.4", "adminAcks": ack},
        "preflight": {"mode": "Report", "ignore": ["Failing"], "unknownRisks": "Accept"},
        "upgradeStrategy": {"workerPools": "Wait", "workerPoolsTimeout": "6h"},
    });
    assert_eq!(linter.check(&object(&spec)), []);
}

#[test]
fn a_limit_of_pools_that_ends_before_they_are_known_is_a_warning() {
    let linter = linter();
    let warned = |mode: &str, limit: &str| {
        let strategy = json!({"workerPools": mode, "workerPoolsTimeout": limit});
        linter.check(&object(&with("upgradeStrategy", &strategy)))
    };
    for limit in ["1s", "2m", "4m59s"] {
        let found = warned("Wait", limit);
        assert_eq!(found.len(), 1, "{limit}: {found:?}");
        assert!(
            found[0].warning && found[0].message.contains("at least 5m"),
            "{found:?}"
        );
        assert_eq!(found[0].field, "spec.upgradeStrategy.workerPoolsTimeout");
    }
    assert_eq!(warned("Wait", "5m"), []);
    assert!(!warned("Ignore", "2m")[0].message.contains("at least 5m"));
}

#[test]
fn what_the_form_of_the_request_makes_useless_is_a_warning() {
    let linter = linter();
    let image = format!("quay.io/x@sha256:{}", "0a".repeat(32));
    let warned = |target: Value, preflight: Value| -> Vec<String> {
        let found = linter.check(&object(
            &json!({"clusterVersion": target, "preflight": preflight}),
        ));
        assert!(found.iter().all(|problem| problem.warning), "{found:?}");
        found.into_iter().map(|problem| problem.field).collect()
    };
    let back = json!({"version": "4.20.4", "allowDowngrade": true});
    assert_eq!(
        warned(back.clone(), json!({"mode": "Require"})),
        ["spec.clusterVersion.allowDowngrade"]
    );
    assert!(warned(back, json!({"mode": "Report"})).is_empty());
    let by_image = json!({"version": "4.20.4", "image": image, "allowDowngrade": true});
    assert!(
        warned(
            by_image.clone(),
            json!({"mode": "Require", "ignore": ["Failing"]})
        )
        .is_empty()
    );
    let useless =
        json!({"mode": "Require", "unknownRisks": "Accept", "ignore": ["Failing", "CannotRetrieveUpdates"]});
    assert_eq!(
        warned(by_image, useless.clone()),
        ["spec.preflight.ignore[1]", "spec.preflight.unknownRisks"]
    );
    assert!(warned(json!({"version": "4.20.4"}), useless).is_empty());
}

#[test]
fn names_and_labels_that_cannot_exist_are_refused_once() {
    let linter = linter();
    let key = json!({"matchExpressions": [{"key": "gpu type", "operator": "DoesNotExist"}]});
    refused(
        &linter,
        &with("clusterSelector", &key),
        "spec.clusterSelector.matchExpressions[0].key",
        "\"gpu type\" must be a label key",
    );
    refused(
        &linter,
        &with("clusterSelector", &json!({"clusterSets": [""]})),
        "spec.clusterSelector.clusterSets[0]",
        "must not be empty",
    );
    refused(
        &linter,
        &json!({"clusterVersion": {"version": "4.12.0", "channel": "stable 4.12"}}),
        "spec.clusterVersion.channel",
        "without white space",
    );
}

#[test]
fn our_kind_under_another_api_is_an_error_that_names_the_right_one() {
    let ours = "cluster.open-cluster-management.io/v1beta1";
    for (api_version, words) in [
        (
            "clusters.open-cluster-management.io/v1beta1",
            "has no ManagedClustersUpgrade",
        ),
        ("a/b/c", "has no ManagedClustersUpgrade"),
        ("v1beta1", "has no ManagedClustersUpgrade"),
        ("", "must be set"),
        (
            "cluster.open-cluster-management.io/v1",
            "there is no version \"v1\"",
        ),
    ] {
        let mut object = object(&json!({"clusterVersion": {"version": "4.12.0"}}));
        object["apiVersion"] = json!(api_version);
        let mut report = Report::default();
        linter().lint("a.json", &object.to_string(), &mut report);
        assert_eq!(
            (report.checked.len(), report.findings.len()),
            (1, 1),
            "{report:?}"
        );
        let finding = &report.findings[0];
        assert_eq!(
            (finding.field.as_str(), finding.severity),
            ("apiVersion", Severity::Error)
        );
        assert!(finding.message.contains(words), "{finding:?}");
        assert!(finding.message.ends_with(&format!("write {ours}")), "{finding:?}");
    }
}

#[test]
fn operators_without_namespace_or_named_twice_are_refused() {
    let linter = linter();
    let include = |list: Value| json!({"ocpOperators": {"include": list}});
    refused(
        &linter,
        &include(json!([{"name": "a"}])),
        "spec.ocpOperators.include[0].namespace",
        "must be set",
    );
    let empty = found(&linter, &include(json!([{"name": "a", "namespace": ""}])));
    assert_eq!(empty.len(), 1, "{empty:?}");
    let twice = include(json!([{"name": "a", "namespace": "b"}, {"name": "a", "namespace": "b"}]));
    refused(&linter, &twice, "spec.ocpOperators.include[1]", "twice");
}

#[test]
fn selectors_that_cannot_match_are_refused() {
    let linter = linter();
    let expression = |expression: Value| with("clusterSelector", &json!({"matchExpressions": [expression]}));
    let at = "spec.clusterSelector.matchExpressions[0]";
    refused(
        &linter,
        &expression(json!({"key": "a", "operator": "Near", "values": ["b"]})),
        &format!("{at}.operator"),
        "must be one of In, NotIn, Exists, DoesNotExist, not \"Near\"",
    );
    let others = found(
        &linter,
        &json!({
            "clusterVersion": {"version": "v4.12.0"},
            "clusterSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]},
            "upgradeStrategy": {"maxConcurrency": 0},
        }),
    );
    assert_eq!(
        others.len(),
        3,
        "a wrong operator does not hide other mistakes: {others:?}"
    );
    refused(
        &linter,
        &expression(json!({"key": "a", "operator": "In"})),
        &format!("{at}.values"),
        "at least one value",
    );
    refused(
        &linter,
        &expression(json!({"key": "a", "operator": "Exists", "values": ["b"]})),
        &format!("{at}.values"),
        "left out",
    );
    refused(
        &linter,
        &with("upgradeStrategy", &json!({"canaryClusters": {}})),
        "spec.upgradeStrategy.canaryClusters.clusterSelector",
        "must be set",
    );
    refused(
        &linter,
        &with("placement", &json!([{"namespace": "dev"}])),
        "spec.placement[0].name",
        "must be set",
    );
}

#[test]
fn actions_too_large_unnamed_or_duplicated_are_refused() {
    let linter = linter();
    let at = "spec.preUpgradeAction.manifestWork.workload.manifests";
    let named = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    refused(&linter, &action(&json!([])), at, "must not be empty");
    refused(
        &linter,
        &action(&json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}])),
        &format!("{at}[0].metadata.name"),
        "generateName is not supported",
    );
    refused(
        &linter,
        &action(&json!([named, named])),
        &format!("{at}[1]"),
        "appears twice; remove one",
    );
    let mut big = named.clone();
    big["data"] = json!({"x": "y".repeat(api::validate::MAX_MANIFESTS_BYTES)});
    refused(
        &linter,
        &action(&json!([big])),
        at,
        "bytes a ManifestWork may carry",
    );
    refused(
        &linter,
        &action(&json!([{"kind": "ConfigMap", "metadata": {"name": "a"}}])),
        &format!("{at}[0].apiVersion"),
        "must be set",
    );
    refused(
        &linter,
        &action(&json!(["text"])),
        &format!("{at}[0]"),
        "must be an object",
    );
}

#[test]
fn names_that_reports_or_the_hub_cannot_carry_are_refused() {
    let linter = linter();
    let named = |name: String| {
        let mut object = object(&json!({"clusterVersion": {"version": "4.12.0"}}));
        object["metadata"]["name"] = json!(name);
        linter.check(&object)
    };
    assert_eq!(named("x".repeat(63)), []);
    let long = named("x".repeat(64));
    assert_eq!(long.len(), 1, "{long:?}");
    assert_eq!(long[0].field, "metadata.name");
    assert!(long[0].message.contains("63 characters"));
    assert!(named("Spring".to_owned())[0].message.contains("lower-case"));
}

#[test]
fn an_object_without_a_name_is_told_so_once_and_a_name_to_be_made_up_is_good() {
    let linter = linter();
    let of = |metadata: Value| {
        let mut object = object(&json!({"clusterVersion": {"version": "4.12.0"}}));
        object["metadata"] = metadata;
        linter.check(&object)
    };
    for metadata in [Value::Null, json!({}), json!({"namespace": "upgrades"})] {
        assert_eq!(of(metadata), [Problem::error("metadata.name", "must be set")]);
    }
    assert_eq!(of(json!({"generateName": "spring-"})), []);
}

#[test]
fn unknown_fields_are_what_the_user_says_they_are() {
    let spec = json!({"clusterVersion": {"version": "4.12.0"}, "upgradeStrategy": {"maxConcurency": 5}});
    let problems = |unknown| Linter::new(unknown, None).check(&object(&spec));
    let strict = problems(UnknownFields::Strict);
    assert_eq!(strict.len(), 1);
    assert_eq!(strict[0].field, "spec.upgradeStrategy.maxConcurency");
    assert!(!strict[0].warning);
    assert!(problems(UnknownFields::Warn)[0].warning);
    assert_eq!(problems(UnknownFields::Ignore), []);
}

#[test]
fn defaults_apply_before_rules_and_a_status_is_no_matter() {
    let mut with_status = object(&json!({"clusterVersion": {"version": "4.12.0"}, "upgradeStrategy": {}}));
    with_status["status"] = json!({"nonsense": true});
    assert_eq!(linter().check(&with_status), []);
    let nulls =
        json!({"clusterVersion": {"version": "4.12.0"}, "upgradeStrategy": {"clusterUpgradeTimeout": null}});
    assert_eq!(found(&linter(), &nulls), []);
    let no_target = json!({"clusterVersion": null});
    assert_eq!(found(&linter(), &no_target).len(), 1);
}

#[test]
fn several_mistakes_are_all_shown_each_once() {
    let spec = json!({
        "clusterVersion": {"version": "v4.12"},
        "upgradeStrategy": {"clusterUpgradeTimeout": "2d", "maxConcurrency": 0},
    });
    let fields: Vec<String> = found(&linter(), &spec)
        .into_iter()
        .map(|(field, _)| field)
        .collect();
    assert_eq!(
        fields,
        [
            "spec.clusterVersion.version",
            "spec.upgradeStrategy.clusterUpgradeTimeout",
            "spec.upgradeStrategy.maxConcurrency"
        ]
    );
    for spec in [
        json!({"clusterVersion": {"version": "4.20.4", "acceptRisks": [{"name": "X", "reason": "tested"}]}}),
        json!({"clusterVersion": {"version": "4.20.4", "setChannel": true, "channel": "stable-4.20"}}),
    ] {
        assert_eq!(found(&linter(), &spec).len(), 1, "{:?}", found(&linter(), &spec));
    }
}

#[test]
fn every_rule_of_the_crd_can_be_evaluated_offline() {
    let linter = linter();
    let problems = linter.cel_rules(&object(&strategy("maxConcurrency", &json!("25%"))));
    assert_eq!(problems, []);
    let bad = json!({
        "clusterVersion": {"version": "v1", "upstream": "x"},
        "clusterSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
        "ocpOperators": {"include": [{"name": "A", "namespace": "B"}]},
        "upgradeStrategy": {"clusterUpgradeTimeout": "2d", "maxConcurrency": 0, "maxFailures": "x", "minSuccessTime": "x"},
        "preUpgradeAction": {"manifestWork": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "Pod", "metadata": {}}]}}},
    });
    let problems = linter.cel_rules(&object(&bad));
    assert_eq!(problems.len(), 10, "{problems:#?}");
    for problem in problems {
        assert!(!problem.warning, "{problem:?}");
    }
}

#[test]
fn files_are_reported_by_document_and_other_kinds_are_skipped() {
    let text = "\
apiVersion: v1
kind: Namespace
metadata: {name: upgrades}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: ManagedClustersUpgrade
metadata: {name: spring, namespace: upgrades}
spec:
  clusterVersion: {version: v4.12}
  upgradeStrategy: {clusterUpgradeTimeout: 2d, maxConcurency: 5}
---
apiVersion: cluster.open-cluster-management.io/v1alpha1
kind: ManagedClustersUpgrade
metadata: {name: old}
spec: {}
---
a: [
---
apiVersion: v1
kind: List
items:
- apiVersion: cluster.open-cluster-management.io/v1beta1
  kind: ManagedClustersUpgrade
  metadata: {name: autumn}
  spec: {clusterVersion: {version: 4.12.0}}
";
    let mut report = Report::default();
    Linter::new(UnknownFields::Warn, Some("fleet".to_owned())).lint("upgrade.yaml", text, &mut report);
    assert!(!report.is_good());
    insta::assert_snapshot!(format!(
        "{}--\n{}--\n{}",
        output::text(&report),
        output::notes(&report),
        output::names(&report)
    ));
    let value = output::value(&report);
    assert_eq!(value["findings"][0]["file"], "upgrade.yaml");
    assert_eq!(value["findings"][0]["severity"], "error");
    assert_eq!(value["skipped"][0]["kind"], "v1 Namespace");
}
