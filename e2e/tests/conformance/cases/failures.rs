//! What cannot be applied, and how the agent says so.

use serde_json::{Value, json};

use super::Step::{Delete, Place, Touch, Work};
use super::{Case, definition, map, widget, work};

/// See the module; the agent may write ClusterVersion.
pub fn all() -> Vec<Case> {
    vec![
        unknown_kind(),
        kind_that_comes(),
        namespace_that_comes(),
        refused_by_the_schema(),
        one_of_several(),
        nothing_in_it(),
        immutable_job(),
    ]
}

/// Works that touch ClusterVersion without a right to.
pub fn without_permission() -> Vec<Case> {
    let identifier = json!({"group": "config.openshift.io", "resource": "clusterversions", "namespace": "", "name": "version"});
    let version = |spec: &Value| json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"}, "spec": spec});
    let config = |strategy: &Value| {
        json!({
            "resourceIdentifier": identifier, "updateStrategy": strategy,
            "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "state", "path": ".status.history[0].state"}]}],
        })
    };
    let apply = json!({"type": "ServerSideApply", "serverSideApply": {"force": true, "fieldManager": "work-agent-mcu"}});
    let wanted =
        version(&json!({"clusterID": "94e170c1-7a3c-4ae1-a85d-8bd904ad783f", "channel": "stable-4.11"}));
    let keep = json!({"propagationPolicy": "Orphan"});
    let kept = |mut spec: Value| {
        spec["deleteOption"] = keep.clone();
        spec
    };
    let read = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"}});
    vec![
        Case::new(
            "forbidden-apply",
            vec![
                Work(kept(work(
                    &[wanted.clone(), map("beside", &json!({"a": "1"}))],
                    &[config(&apply)],
                ))),
                Delete,
            ],
        ),
        Case::new(
            "forbidden-update",
            vec![
                Work(kept(work(&[wanted], &[config(&json!({"type": "Update"}))]))),
                Delete,
            ],
        ),
        Case::new(
            "forbidden-read",
            vec![
                Work(work(&[read], &[config(&json!({"type": "ReadOnly"}))])),
                Delete,
            ],
        ),
    ]
}

fn unknown_kind() -> Case {
    let object = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g", "namespace": "conf"}});
    Case::new(
        "kind-that-is-not-served",
        vec![Work(work(&[object], &[])), Delete],
    )
}

/// A kind and an object of it in one work.
fn kind_that_comes() -> Case {
    let object = json!({"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {"name": "g", "namespace": "conf"}, "spec": {"a": 1}});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "conf:gizmos", "labels": {"open-cluster-management.io/aggregate-to-work": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": ["gizmos"], "verbs": ["*"]}],
    });
    Case::new(
        "kind-that-comes-with-the-work",
        vec![
            Work(work(&[definition("gizmos", "Gizmo"), role, object], &[])),
            Touch,
            Touch,
        ],
    )
}

fn namespace_that_comes() -> Case {
    let mut object = map("late", &json!({"a": "1"}));
    object["metadata"]["namespace"] = json!("conf-late");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "conf-late"}});
    Case::new(
        "namespace-that-comes-later",
        vec![Work(work(&[object], &[])), Place(namespace), Touch],
    )
}

/// The schema of ClusterVersion wants a clusterID; by server-side apply an existing object keeps its own.
fn refused_by_the_schema() -> Case {
    let version = |spec: &Value| json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"}, "spec": spec});
    let identifier = json!({"group": "config.openshift.io", "resource": "clusterversions", "namespace": "", "name": "version"});
    let config = |strategy: &Value| json!({"resourceIdentifier": identifier, "updateStrategy": strategy});
    let with = |spec: Value, strategy: Value| {
        let mut spec = work(&[version(&spec)], &[config(&strategy)]);
        spec["deleteOption"] = json!({"propagationPolicy": "Orphan"});
        spec
    };
    Case::new(
        "refused-by-the-schema",
        vec![
            Work(with(json!({"channel": "x"}), json!({"type": "Update"}))),
            Work(with(
                json!({"desiredUpdate": {"architecture": "Multi", "image": "q", "version": "4.12.0"}}),
                json!({"type": "ServerSideApply", "serverSideApply": {"force": true, "fieldManager": "work-agent-conf"}}),
            )),
            Delete,
        ],
    )
}

/// One manifest that fails leaves the others alone.
fn one_of_several() -> Case {
    let mut lost = map("several-lost", &json!({}));
    lost["metadata"]["namespace"] = json!("conf-never");
    Case::new(
        "one-of-several-fails",
        vec![
            Work(work(
                &[
                    map("several-a", &json!({"a": "1"})),
                    lost,
                    widget("several-b", &json!({"b": 1})),
                ],
                &[],
            )),
            Work(work(
                &[
                    map("several-a", &json!({"a": "1"})),
                    widget("several-b", &json!({"b": 1})),
                ],
                &[],
            )),
        ],
    )
}

fn nothing_in_it() -> Case {
    Case::new(
        "work-that-becomes-another",
        vec![
            Work(work(&[map("becomes-a", &json!({}))], &[])),
            Work(work(
                &[map("becomes-b", &json!({})), map("becomes-a", &json!({}))],
                &[],
            )),
        ],
    )
}

/// A Job cannot be replaced once its template is set.
fn immutable_job() -> Case {
    let of = |image: &str| {
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "immutable", "namespace": "conf"},
            "spec": {
                "manualSelector": true, "selector": {"matchLabels": {"job-name": "immutable"}},
                "template": {
                    "metadata": {"labels": {"job-name": "immutable"}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "x", "image": image}]},
                },
            },
        })
    };
    Case::new("job-created-once", vec![Work(work(&[of("x")], &[])), Delete])
}
