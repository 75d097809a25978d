use super::*;

fn job(name: &str) -> Value {
    json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name, "namespace": "ns" } })
}

fn config(name: &str, namespace: &str, rest: &Value) -> Value {
    let mut config = json!({
        "resourceIdentifier": { "group": "batch", "resource": "jobs", "name": name, "namespace": namespace },
    });
    for (key, value) in rest.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

fn rendered(manifests: &Value, configs: Option<Value>) -> (Value, Vec<ActionCheck<'static>>) {
    let mut work = json!({ "workload": { "manifests": manifests } });
    if let Some(configs) = configs {
        work["manifestConfigs"] = configs;
    }
    let action: UpgradeAction = serde_json::from_value(json!({ "manifestWork": work })).unwrap();
    let template = template(&action);
    let SpecTemplate::Whole(text) = template.spec else {
        panic!("an action has one text for all clusters");
    };
    let checks: &'static str = Box::leak(template.annotations[0].1.clone().into_boxed_str());
    (
        serde_json::from_str(&text).unwrap(),
        serde_json::from_str(checks).unwrap(),
    )
}

fn added(manifests: &Value, configs: Option<Value>) -> usize {
    let before = configs.as_ref().and_then(Value::as_array).map_or(0, Vec::len);
    let (spec, _) = rendered(manifests, configs);
    spec["manifestConfigs"].as_array().map_or(0, Vec::len) - before
}

fn needs(manifests: &Value, configs: Value) -> Vec<Vec<Need>> {
    let (_, checks) = rendered(manifests, Some(configs));
    checks.into_iter().map(|check| check.needs).collect()
}

#[test]
fn each_job_without_a_config_of_its_own_gets_one() {
    let jobs = json!([job("a"), job("b")]);
    assert_eq!(added(&jobs, None), 2);
    assert_eq!(added(&jobs, Some(json!([config("a", "ns", &json!({}))]))), 1);
    assert_eq!(added(&jobs, Some(json!([config("a", "other", &json!({}))]))), 2);
    assert_eq!(added(&jobs, Some(json!([config("*", "*", &json!({}))]))), 0);
    assert_eq!(added(&jobs, Some(json!([config("a*", "n*", &json!({}))]))), 1);
    assert_eq!(added(&jobs, Some(Value::Null)), 2);
}

#[test]
fn only_batch_v1_jobs_get_a_config() {
    let others = json!([
        { "apiVersion": "batch/v1beta1", "kind": "Job", "metadata": { "name": "a" } },
        { "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": { "name": "a" } },
        { "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "a" } },
    ]);
    let (spec, checks) = rendered(&others, None);
    assert_eq!(spec.get("manifestConfigs"), None);
    assert!(checks.is_empty());
}

#[test]
fn configs_that_are_no_list_are_left_for_the_api_server_to_refuse() {
    let (spec, _) = rendered(&json!([job("a")]), Some(json!("none")));
    assert_eq!(spec["manifestConfigs"], "none");
}

#[test]
fn added_feedback_is_no_part_of_the_hash_and_the_users_config_is() {
    let hash = |work: Value| {
        let action: UpgradeAction = serde_json::from_value(json!({ "manifestWork": work })).unwrap();
        template(&action).hash
    };
    let plain = hash(json!({ "workload": { "manifests": [job("a")] } }));
    let same = hash(json!({ "workload": { "manifests": [job("a")] }, "manifestConfigs": [] }));
    let with = hash(json!({
        "workload": { "manifests": [job("a")] },
        "manifestConfigs": [config("a", "ns", &json!({}))],
    }));
    assert_ne!(plain, with);
    assert_ne!(same, with);
}

#[test]
fn success_checks_are_those_that_the_applying_configs_declare() {
    let jobs = json!([job("a")]);
    let feedback = |names: &[&str]| {
        let paths: Vec<_> = names
            .iter()
            .map(|name| json!({ "name": name, "path": ".x" }))
            .collect();
        json!({ "feedbackRules": [{ "type": "JSONPaths", "jsonPaths": paths }] })
    };
    let cases = [
        (json!([]), vec![vec![Need::JobComplete, Need::Succeeded]]),
        (
            json!([config(
                "a",
                "ns",
                &json!({ "feedbackRules": [{ "type": "WellKnownStatus" }] })
            )]),
            vec![vec![Need::JobComplete, Need::Succeeded]],
        ),
        (
            json!([config("a", "ns", &feedback(&["succeeded", "failed"]))]),
            vec![vec![Need::Succeeded]],
        ),
        (
            json!([config("a", "ns", &feedback(&["JobComplete", "active"]))]),
            vec![vec![Need::JobComplete]],
        ),
        (json!([config("a", "ns", &feedback(&["startTime"]))]), vec![]),
        (json!([config("a", "ns", &json!({}))]), vec![]),
        // For each kind of rule, the first config that has any counts.
        (
            json!([
                config(
                    "a",
                    "*",
                    &json!({ "conditionRules": [{ "condition": "Complete", "type": "WellKnownConditions" }] })
                ),
                config("*", "*", &feedback(&["succeeded"])),
                config("*", "*", &feedback(&["jobComplete"])),
            ]),
            vec![vec![Need::Succeeded, Need::CompleteRule]],
        ),
    ];
    for (configs, expected) in cases {
        assert_eq!(needs(&jobs, configs.clone()), expected, "{configs}");
    }
}

#[test]
fn a_complete_rule_counts_for_any_kind_and_its_guessed_plural() {
    let manifests = json!([
        { "apiVersion": "velero.io/v1", "kind": "Backup", "metadata": { "name": "b", "namespace": "ns" } },
        { "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": { "name": "p", "namespace": "ns" } },
        { "apiVersion": "config.openshift.io/v1", "kind": "Ingress", "metadata": { "name": "cluster" } },
    ]);
    let rule = |group: &str, resource: &str| {
        json!({
            "resourceIdentifier": { "group": group, "resource": resource, "name": "*", "namespace": "*" },
            "conditionRules": [{ "condition": "Complete", "type": "CEL" }],
        })
    };
    let configs = json!([
        rule("velero.io", "backups"),
        rule("networking.k8s.io", "networkpolicies"),
        rule("config.openshift.io", "ingresses"),
    ]);
    let (_, checks) = rendered(&manifests, Some(configs));
    let subjects: Vec<_> = checks.iter().map(ActionCheck::subject).collect();
    assert_eq!(subjects, ["Backup ns/b", "NetworkPolicy ns/p", "Ingress cluster"]);
    assert!(checks.iter().all(|check| check.needs == [Need::CompleteRule]));
}

#[test]
fn a_star_stands_for_any_run_of_characters() {
    for (pattern, text, matches) in [
        ("*", "", true),
        ("*", "a", true),
        ("", "", true),
        ("", "a", false),
        ("a", "a", true),
        ("a", "ab", false),
        ("a*", "ab", true),
        ("*b", "ab", true),
        ("a*c*e", "abcde", true),
        ("a*c*e", "abde", false),
        ("a*a", "a", false),
        ("*x*", "ab", false),
    ] {
        assert_eq!(glob(pattern, text), matches, "{pattern} {text}");
    }
}
