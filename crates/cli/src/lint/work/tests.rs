use super::*;
use crate::args::UnknownFields;
use crate::lint::{Linter, Report, output};

const AT: &str = "spec.preUpgradeAction.manifestWork";

fn upgrade(action: &str, mut work: Value) -> Value {
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    work["workload"] = json!({"manifests": [manifest]});
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "ManagedClustersUpgrade",
        "metadata": {"name": "spring", "namespace": "upgrades"},
        "spec": {"clusterVersion": {"version": "4.12.0"}, action: {"manifestWork": work}},
    })
}

fn check(unknown: UnknownFields, object: &Value) -> Vec<Problem> {
    Linter::new(unknown, None).check(object)
}

/// The pre-action has exactly this one problem, a warning that says what a hub does.
fn refused(work: &Value, field: &str, message: &str) {
    let found = check(UnknownFields::Strict, &upgrade("preUpgradeAction", work.clone()));
    let message = format!("{message}; a hub with OCM {OCM} rejects the ManifestWork");
    assert_eq!(
        found,
        [Problem::warning(format!("{AT}.{field}"), message)],
        "{work}"
    );
}

fn config(key: &str, value: &Value) -> Value {
    let identifier = json!({"group": "batch", "resource": "jobs", "name": "backup"});
    json!({"manifestConfigs": [{"resourceIdentifier": identifier, key: value}]})
}

#[test]
fn all_that_ocm_knows_is_good_and_defaults_need_not_be_written() {
    let identifier = json!({"group": "", "resource": "configmaps", "name": "a", "namespace": "default"});
    let work = json!({
        "deleteOption": {
            "propagationPolicy": "SelectivelyOrphan",
            "selectivelyOrphans": {"orphaningRules": [identifier]},
            "ttlSecondsAfterFinished": 3600,
        },
        "executor": {"subject": {"type": "ServiceAccount", "serviceAccount": {"name": "backup", "namespace": "default"}}},
        "manifestConfigs": [{
            "resourceIdentifier": identifier,
            "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "a", "path": ".a", "version": "v1"}]}],
            "feedbackScrapeType": "Watch",
            "updateStrategy": {"serverSideApply": {
                "force": true, "fieldManager": "work-agent-a", "ignoreFields": [{"jsonPaths": [".a"], "jsonPointers": ["/a"]}],
            }},
            "conditionRules": [{"type": "CEL", "condition": "Complete", "celExpressions": ["true"], "message": "m", "messageExpression": "''"}],
        }, {"resourceIdentifier": identifier, "updateStrategy": null}],
    });
    assert_eq!(
        check(UnknownFields::Strict, &upgrade("preUpgradeAction", work.clone())),
        []
    );
    assert_eq!(
        check(UnknownFields::Strict, &upgrade("postUpgradeAction", work)),
        []
    );
}

#[test]
fn words_that_ocm_does_not_know_are_told_with_those_it_knows() {
    refused(
        &json!({"deleteOption": {"propagationPolicy": "Bogus"}}),
        "deleteOption.propagationPolicy",
        "must be one of Foreground, Orphan, SelectivelyOrphan, not \"Bogus\"",
    );
    refused(
        &config("updateStrategy", &json!({"type": "Nope"})),
        "manifestConfigs[0].updateStrategy.type",
        "must be one of Update, CreateOnly, ServerSideApply, ReadOnly, not \"Nope\"",
    );
    refused(
        &json!({"executor": {"subject": {"type": "X"}}}),
        "executor.subject.type",
        "must be one of ServiceAccount, not \"X\"",
    );
}

#[test]
fn missing_fields_and_wrong_types_are_told() {
    refused(
        &json!({"manifestConfigs": [{"feedbackScrapeType": "Poll"}]}),
        "manifestConfigs[0].resourceIdentifier",
        "must be set",
    );
    refused(
        &json!({"manifestConfigs": {}}),
        "manifestConfigs",
        "must be a list, not an object",
    );
    refused(
        &json!({"deleteOption": {"ttlSecondsAfterFinished": "1h"}}),
        "deleteOption.ttlSecondsAfterFinished",
        "must be a whole number, not \"1h\"",
    );
    refused(
        &config(
            "conditionRules",
            &json!([{"type": "CEL", "condition": "A"}, {"type": "CEL", "condition": "A"}]),
        ),
        "manifestConfigs[0].conditionRules[1]",
        "condition \"A\" appears twice; remove one",
    );
}

#[test]
fn rules_beyond_types_are_told_those_of_the_webhook_too() {
    refused(
        &config(
            "updateStrategy",
            &json!({"type": "ServerSideApply", "serverSideApply": {"fieldManager": "me"}}),
        ),
        "manifestConfigs[0].updateStrategy.serverSideApply.fieldManager",
        "must match ^work-agent",
    );
    refused(
        &config("conditionRules", &json!([{"type": "CEL", "condition": ""}])),
        "manifestConfigs[0].conditionRules[0]",
        "condition must not be empty for type CEL",
    );
    refused(
        &json!({"executor": {"subject": {"type": "ServiceAccount"}}}),
        "executor.subject",
        "serviceAccount must be set for type ServiceAccount",
    );
}

#[test]
fn a_field_that_the_hub_drops_is_a_warning_unless_unknown_fields_are_ignored() {
    let misspelt = json!({"deleteOptions": {"propagationPolicy": "Orphan"}, "manifestConfigs": []});
    let object = upgrade("postUpgradeAction", misspelt);
    for unknown in [UnknownFields::Strict, UnknownFields::Warn] {
        let found = check(unknown, &object);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            found[0].field,
            "spec.postUpgradeAction.manifestWork.deleteOptions"
        );
        assert!(found[0].warning);
        assert!(
            found[0]
                .message
                .contains("has no such field, so the hub drops it")
        );
    }
    assert_eq!(check(UnknownFields::Ignore, &object), []);
}

#[test]
fn the_workload_is_left_to_our_own_rules() {
    let mut object = upgrade("preUpgradeAction", json!({}));
    object["spec"]["preUpgradeAction"]["manifestWork"]["workload"] = json!({"manifests": [], "manifest": []});
    let found = check(UnknownFields::Strict, &object);
    let fields: Vec<&str> = found.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            format!("{AT}.workload.manifest"),
            format!("{AT}.workload.manifests")
        ]
    );
    assert!(found.iter().all(|problem| !problem.warning));
}

#[test]
fn a_secret_in_an_action_is_a_warning_wherever_it_stands() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"token": "t"}});
    let policy = json!({
        "apiVersion": "policy.open-cluster-management.io/v1", "kind": "ConfigurationPolicy", "metadata": {"name": "p"},
        "spec": {"object-templates": [{"objectDefinition": {"apiVersion": "v1", "kind": "Secret", "data": {"token": "dA=="}}}]},
    });
    let harmless = [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "empty"}, "type": "kubernetes.io/service-account-token"}),
        json!({"apiVersion": "example.com/v1", "kind": "Store", "metadata": {"name": "x"},
            "spec": {"ref": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}}),
    ];
    for action in ["preUpgradeAction", "postUpgradeAction"] {
        let mut object = upgrade(action, json!({}));
        let manifests = json!([harmless[0], secret, harmless[1], policy]);
        object["spec"][action]["manifestWork"]["workload"]["manifests"] = manifests;
        for unknown in [UnknownFields::Strict, UnknownFields::Ignore] {
            let found = check(unknown, &object);
            let fields: Vec<&str> = found.iter().map(|problem| problem.field.as_str()).collect();
            assert_eq!(
                fields,
                [1, 3].map(|index| format!("spec.{action}.manifestWork.workload.manifests[{index}]"))
            );
            assert!(found.iter().all(|problem| problem.warning), "{found:?}");
        }
    }
}

#[test]
fn the_warning_of_a_secret_says_who_reads_it_and_what_to_do() {
    let mut object = upgrade("preUpgradeAction", json!({}));
    object["spec"]["preUpgradeAction"]["manifestWork"]["workload"]["manifests"] = json!([
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"token": "dA=="}}
    ]);
    insta::assert_snapshot!(
        check(UnknownFields::Strict, &object)[0].message,
        @"contains a Secret, which everybody who may view ManagedClustersUpgrades or ManifestWorks can read; use a Secret that is on the cluster already, or one that an operator fetches from an external store"
    );
}

#[test]
fn a_secret_is_found_below_more_levels_than_a_stack_has() {
    let mut deep = json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "Yg=="}});
    for _ in 0..100_000 {
        deep = Value::Array(vec![deep]);
    }
    let mut work = json!({"workload": {"manifests": [null]}});
    work["workload"]["manifests"][0] = deep;
    assert_eq!(secrets(&work, AT).len(), 1);
    // Dropping a value this deep by recursion would overflow the stack.
    std::mem::forget(work);
}

#[test]
fn what_the_hub_refuses_of_a_work_does_not_fail_a_file() {
    let object = upgrade(
        "preUpgradeAction",
        json!({"deleteOption": {"propagationPolicy": "Bogus"}}),
    );
    let mut report = Report::default();
    Linter::new(UnknownFields::Strict, None).lint("a.json", &object.to_string(), &mut report);
    assert!(report.is_good());
    let value = output::value(&report);
    assert_eq!(value["findings"][0]["severity"], "warning");
    assert_eq!(
        value["findings"][0]["field"],
        format!("{AT}.deleteOption.propagationPolicy")
    );
}
