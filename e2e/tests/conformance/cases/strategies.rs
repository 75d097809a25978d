//! Every update strategy: what it writes, what it leaves, and what a change of the work makes of it.

use serde_json::{Value, json};

use super::Step::{Delete, Place, Remove, Touch, Work};
use super::{Case, map, named, strategy, told, widget, work};

/// Server-side apply with more settings.
fn apply(settings: &Value) -> Value {
    json!({"type": "ServerSideApply", "serverSideApply": settings})
}

/// See the module.
pub fn all() -> Vec<Case> {
    let mut cases = vec![update(), update_custom(), update_heals()];
    cases.extend([create_only_absent(), create_only_present()]);
    cases.extend([
        apply_beside_others(),
        apply_conflict(),
        apply_forced(),
        apply_drops_fields(),
    ]);
    cases.extend([ignore_present(), ignore_change(), read_only(), platform_work()]);
    cases
}

/// The default replaces the whole object but keeps what metadata others added.
fn update() -> Case {
    let mut before = map("update", &json!({"kept": "no", "a": "0"}));
    before["metadata"]["labels"] = json!({"own": "yes"});
    before["metadata"]["annotations"] = json!({"note": "mine"});
    before["metadata"]["finalizers"] = json!(["example.com/held"]);
    let mut first = map("update", &json!({"a": "1"}));
    first["metadata"]["labels"] = json!({"team": "x"});
    let mut free = map("update", &json!({"a": "2", "b": "3"}));
    free["metadata"]["labels"] = json!({"team": "y"});
    Case::new(
        "update-replaces",
        vec![Work(work(&[first], &[])), Work(work(&[free], &[]))],
    )
    .on(vec![before])
}

/// Fields of a custom resource that the manifest leaves out are wiped.
fn update_custom() -> Case {
    let before = widget(
        "update-custom",
        &json!({"size": 1, "upstream": "https://x", "deep": {"a": 1, "b": 2}}),
    );
    Case::new(
        "update-wipes-custom-fields",
        vec![
            Work(work(
                &[widget("update-custom", &json!({"size": 1, "deep": {"a": 1}}))],
                &[],
            )),
            Work(work(
                &[widget("update-custom", &json!({"size": 2, "list": [1, 2]}))],
                &[],
            )),
        ],
    )
    .on(vec![before])
}

/// The next sync of the work reverts what others change or delete.
fn update_heals() -> Case {
    let wanted = widget("update-heals", &json!({"size": 1}));
    let mut changed = wanted.clone();
    changed["spec"] = json!({"size": 9, "more": true});
    Case::new(
        "update-heals",
        vec![
            Work(work(std::slice::from_ref(&wanted), &[])),
            Remove(wanted),
            Touch,
        ],
    )
    .on(vec![changed])
}

fn create_only_absent() -> Case {
    let configs = [strategy("create-absent", &json!({"type": "CreateOnly"}))];
    let of = |size: i64| work(&[widget("create-absent", &json!({"size": size}))], &configs);
    Case::new(
        "create-only-creates-and-leaves",
        vec![Work(of(1)), Work(of(2)), Delete],
    )
}

fn create_only_present() -> Case {
    let configs = [strategy("create-present", &json!({"type": "CreateOnly"}))];
    let mut wanted = widget("create-present", &json!({"size": 2}));
    wanted["metadata"]["labels"] = json!({"new": "label"});
    Case::new(
        "create-only-takes-what-is-there",
        vec![Work(work(&[wanted], &configs)), Delete],
    )
    .on(vec![widget("create-present", &json!({"size": 1, "own": true}))])
}

fn apply_beside_others() -> Case {
    let configs = [strategy("apply-beside", &apply(&json!({"force": false})))];
    let mut wanted = widget("apply-beside", &json!({"mine": {"a": 1}, "list": ["x"]}));
    wanted["metadata"]["labels"] = json!({"team": "x"});
    Case::new(
        "apply-leaves-fields-of-others",
        vec![Work(work(&[wanted], &configs))],
    )
    .on(vec![widget(
        "apply-beside",
        &json!({"own": {"b": 2}, "mine": {"c": 3}}),
    )])
}

fn apply_conflict() -> Case {
    let configs = [strategy("apply-conflict", &apply(&json!({"force": false})))];
    let of = |spec: Value| work(&[widget("apply-conflict", &spec)], &configs);
    Case::new(
        "apply-conflict-is-not-forced",
        vec![
            Work(of(json!({"size": 2}))),
            Work(of(json!({"size": 2, "color": "red"}))),
            Work(of(json!({"size": 1}))),
        ],
    )
    .on(vec![widget(
        "apply-conflict",
        &json!({"size": 1, "color": "blue"}),
    )])
}

fn apply_forced() -> Case {
    let configs = [strategy(
        "apply-forced",
        &apply(&json!({"force": true, "fieldManager": "work-agent-mcu"})),
    )];
    let of = |spec: Value| work(&[widget("apply-forced", &spec)], &configs);
    Case::new(
        "apply-by-force-takes-over",
        vec![
            Work(of(
                json!({"size": 2, "update": {"version": "4.12.0", "image": "", "force": false}}),
            )),
            Place(widget(
                "apply-forced",
                &json!({"size": 7, "update": {"version": "4.11.0", "image": "q", "force": true}}),
            )),
            Touch,
        ],
    )
    .on(vec![widget(
        "apply-forced",
        &json!({"size": 1, "own": 1, "update": {"version": "4.11.9", "image": "quay.io/x", "force": true}}),
    )])
}

fn apply_drops_fields() -> Case {
    let configs = [strategy("apply-drops", &apply(&json!({"force": true})))];
    let of = |spec: Value| work(&[widget("apply-drops", &spec)], &configs);
    Case::new(
        "apply-drops-what-it-no-longer-names",
        vec![
            Work(of(json!({"a": 1, "deep": {"b": 2, "c": 3}, "list": [1]}))),
            Work(of(json!({"a": 1, "deep": {"b": 2}}))),
            Work(of(json!({"a": 1}))),
        ],
    )
    .on(vec![widget("apply-drops", &json!({"own": true}))])
}

fn ignore_present() -> Case {
    let ignore = json!({"force": true, "ignoreFields": [{"condition": "OnSpokePresent", "jsonPaths": [".spec.size"]}]});
    let configs = [
        strategy("ignore-present", &apply(&ignore)),
        strategy("ignore-absent", &apply(&ignore)),
    ];
    let of = |size: i64| {
        let spec = json!({"size": size, "color": format!("c{size}")});
        work(
            &[widget("ignore-present", &spec), widget("ignore-absent", &spec)],
            &configs,
        )
    };
    Case::new("ignored-where-present", vec![Work(of(2)), Work(of(3))])
        .on(vec![widget("ignore-present", &json!({"size": 1}))])
}

fn ignore_change() -> Case {
    let ignore =
        json!({"force": true, "ignoreFields": [{"condition": "OnSpokeChange", "jsonPaths": [".spec.size"]}]});
    let configs = [strategy("ignore-change", &apply(&ignore))];
    let of = |size: i64| {
        work(
            &[widget("ignore-change", &json!({"size": size, "color": "red"}))],
            &configs,
        )
    };
    Case::new(
        "ignored-when-changed-on-the-spoke",
        vec![Work(of(1)), Touch, Work(of(3))],
    )
}

fn read_only() -> Case {
    let config = |name: &str| {
        let mut config = strategy(name, &json!({"type": "ReadOnly"}));
        config["feedbackRules"] =
            json!([{"type": "JSONPaths", "jsonPaths": [{"name": "ready", "path": ".status.ready"}]}]);
        config
    };
    let configs = [config("read-present"), config("read-absent")];
    Case::new(
        "read-only-writes-and-owns-nothing",
        vec![
            Work(work(&[named("read-present"), named("read-absent")], &configs)),
            Place(told("read-absent", &json!({"ready": true}))),
            Delete,
        ],
    )
    .on(vec![told("read-present", &json!({"ready": false}))])
}

/// The platform work of an upgrade, with all that it feeds back.
fn platform_work() -> Case {
    let condition = |name: &str, field: &str| format!(".status.conditions[?(@.type==\"{name}\")].{field}");
    let mut paths = vec![
        ("version".to_owned(), ".status.history[0].version".to_owned()),
        ("state".to_owned(), ".status.history[0].state".to_owned()),
        ("verified".to_owned(), ".status.history[0].verified".to_owned()),
        ("message".to_owned(), condition("Progressing", "message")),
        ("image".to_owned(), ".status.history[0].image".to_owned()),
        ("desiredVersion".to_owned(), ".status.desired.version".to_owned()),
        ("generation".to_owned(), ".metadata.generation".to_owned()),
        (
            "observedGeneration".to_owned(),
            ".status.observedGeneration".to_owned(),
        ),
    ];
    for (name, kind) in [
        ("failing", "Failing"),
        ("invalid", "Invalid"),
        ("upgradeable", "Upgradeable"),
    ] {
        paths.push((name.to_owned(), condition(kind, "status")));
        paths.push((format!("{name}Reason"), condition(kind, "reason")));
        paths.push((format!("{name}Message"), condition(kind, "message")));
    }
    let paths: Vec<Value> = paths
        .iter()
        .map(|(name, path)| json!({"name": name, "path": path}))
        .collect();
    let spec = |version: &str| {
        json!({
            "deleteOption": {"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [
                {"group": "config.openshift.io", "resource": "clusterversions", "name": "version", "namespace": ""},
                {"group": "", "resource": "ClusterVersion.config.openshift.io", "name": "version", "namespace": ""},
            ]}},
            "manifestConfigs": [{
                "resourceIdentifier": {"group": "config.openshift.io", "resource": "clusterversions", "name": "version", "namespace": ""},
                "updateStrategy": apply(&json!({"force": true, "fieldManager": "work-agent-mcu"})),
                "feedbackRules": [{"type": "JSONPaths", "jsonPaths": paths}],
            }],
            "workload": {"manifests": [
                {
                    "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
                    "spec": {
                        "clusterID": "94e170c1-7a3c-4ae1-a85d-8bd904ad783f", "channel": "stable-4.12",
                        "desiredUpdate": {"force": false, "image": "", "version": version},
                    },
                },
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                    "metadata": {"name": "admin-ocm-conf", "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                    "subjects": [{"kind": "ServiceAccount", "name": "klusterlet-work-sa", "namespace": "open-cluster-management-agent"}],
                },
            ]},
        })
    };
    Case::new(
        "platform-work",
        vec![Work(spec("4.12.0")), Work(spec("4.12.1")), Delete],
    )
}
