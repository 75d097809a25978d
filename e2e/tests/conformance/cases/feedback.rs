//! Every trap of feedback: absent, null, of another type, out of bounds, several, and of no kind at all.

use serde_json::{Value, json};

use super::Step::{Place, Remove, Touch, Work};
use super::{Case, map, named, read_paths, read_rules, told, widget, work};

/// A case that reads one widget of the same name as the case.
fn reading(name: &'static str, status: &Value, paths: &[(&str, &str)]) -> Case {
    let spec = work(&[named(name)], &[read_paths(name, paths)]);
    Case::new(name, vec![Work(spec)]).on(vec![told(name, status)])
}

/// See the module.
pub fn all() -> Vec<Case> {
    let mut cases = paths();
    cases.extend([
        values_follow(),
        object_lost(),
        well_known_workloads(),
        well_known_unknown_kind(),
        of_another_version(),
        first_match_of_configs(),
        rules_that_change(),
    ]);
    cases
}

fn paths() -> Vec<Case> {
    [values(), wrong(), filters(), syntax()].concat()
}

/// Scalars, and paths that do not exist.
fn values() -> Vec<Case> {
    vec![
        reading(
            "feedback-scalars",
            &json!({"text": "x", "empty": "", "number": 5, "negative": -3, "yes": true, "no": false}),
            &[
                ("text", ".status.text"),
                ("empty", ".status.empty"),
                ("number", ".status.number"),
                ("negative", ".status.negative"),
                ("yes", ".status.yes"),
                ("no", ".status.no"),
                ("generation", ".metadata.generation"),
                ("kind", ".kind"),
            ],
        ),
        reading(
            "feedback-missing",
            &json!({"none": null, "deep": {}}),
            &[
                ("absent", ".status.absent"),
                ("deeper", ".status.deep.er.still"),
                ("none", ".status.none"),
                ("under", ".status.none.x"),
            ],
        ),
        reading(
            "feedback-empty-history",
            &json!({"history": []}),
            &[
                ("generation", ".metadata.generation"),
                ("version", ".status.history[0].version"),
                ("state", ".status.history[0].state"),
            ],
        ),
        reading(
            "feedback-short-history",
            &json!({"history": [{"version": "4.12.0"}]}),
            &[
                ("h0", ".status.history[0].version"),
                ("h1", ".status.history[1].version"),
                ("last", ".status.history[-1:].version"),
                ("minus2", ".status.history[-2].version"),
            ],
        ),
    ]
}

/// Other types, null, and paths that are none.
fn wrong() -> Vec<Case> {
    vec![
        reading(
            "feedback-wrong-types",
            &json!({"float": 1.5, "list": [1, 2], "object": {"a": 1}, "good": "x"}),
            &[
                ("float", ".status.float"),
                ("list", ".status.list"),
                ("object", ".status.object"),
                ("good", ".status.good"),
            ],
        ),
        reading(
            "feedback-null-list",
            &json!({"availableUpdates": null, "good": 1}),
            &[
                (
                    "image",
                    ".status.availableUpdates[?(@.version==\"4.12.0\")].image",
                ),
                ("first", ".status.availableUpdates[0].version"),
                ("good", ".status.good"),
            ],
        ),
        reading(
            "feedback-bad-paths",
            &json!({"a": 1}),
            &[
                ("open", ".status.a["),
                ("regex", ".status.items[?(@.s=~\"a\")].n"),
                ("and", ".status.items[?(@.n==1 && @.s==\"a\")].n"),
                ("good", ".status.a"),
            ],
        ),
    ]
}

/// Filters on conditions and on nested lists.
fn filters() -> Vec<Case> {
    let conditions = json!([
        {"type": "Upgradeable", "status": "False", "reason": "R", "message": "a \"quoted\" text\nof two lines"},
        {"type": "Available", "status": "True"},
    ]);
    vec![
        reading(
            "feedback-filters",
            &json!({"conditions": conditions, "updates": [{"release": {"version": "1"}, "conditions": [{"type": "R", "status": "True"}]}, {"release": {"version": "2"}, "conditions": [{"type": "R", "status": "False"}]}]}),
            &[
                ("status", ".status.conditions[?(@.type==\"Upgradeable\")].status"),
                ("message", ".status.conditions[?(@.type=='Upgradeable')].message"),
                ("none", ".status.conditions[?(@.type==\"Other\")].status"),
                (
                    "chained",
                    ".status.updates[?(@.release.version==\"2\")].conditions[?(@.type==\"R\")].status",
                ),
                ("several", ".status.conditions[*].type"),
                ("existing", ".status.conditions[?(@.message)].reason"),
            ],
        ),
        reading(
            "feedback-comparisons",
            &json!({"items": [{"n": 1, "s": "a"}, {"n": 5, "s": "b"}, {"n": 9, "s": "c"}]}),
            &[
                ("more", ".status.items[?(@.n>1)].s"),
                ("least", ".status.items[?(@.n<=1)].s"),
                ("not", ".status.items[?(@.s!=\"a\")].n"),
                ("mixed", ".status.items[?(@.n==\"1\")].s"),
                ("slice", ".status.items[1:3].s"),
                ("step", ".status.items[0:3:2].n"),
            ],
        ),
    ]
}

/// Keys with dots, unions and descent.
fn syntax() -> Vec<Case> {
    vec![
        reading(
            "feedback-dotted-keys",
            &json!({"ack-4.12-kube": "true", "plain": "p"}),
            &[
                ("escaped", ".status.ack-4\\.12-kube"),
                ("bracket", ".status['ack-4\\.12-kube']"),
                ("unescaped", ".status.ack-4.12-kube"),
                ("double", ".status[\"plain\"]"),
                ("single", ".status['plain']"),
            ],
        ),
        reading(
            "feedback-union-and-descent",
            &json!({"a": {"x": 1}, "b": {"x": 2}, "list": ["p", "q", "r"]}),
            &[
                ("union", ".status.list[0,2]"),
                ("descent", ".status.a..x"),
                ("whole", ".status.list[*]"),
            ],
        ),
    ]
}

/// Values follow the object, with the transition time of their condition.
fn values_follow() -> Case {
    let spec = work(
        &[named("feedback-follows")],
        &[read_paths(
            "feedback-follows",
            &[("state", ".status.state"), ("extra", ".status.extra")],
        )],
    );
    Case::new(
        "feedback-follows",
        vec![
            Work(spec),
            Place(told("feedback-follows", &json!({"state": "Partial", "extra": 1}))),
            Place(told("feedback-follows", &json!({"state": "Completed"}))),
        ],
    )
    .on(vec![told("feedback-follows", &json!({"state": "None"}))])
}

/// Of an object that is gone the old values stay.
fn object_lost() -> Case {
    let spec = work(
        &[named("feedback-lost")],
        &[read_paths("feedback-lost", &[("state", ".status.state")])],
    );
    let object = told("feedback-lost", &json!({"state": "Partial"}));
    Case::new(
        "feedback-lost",
        vec![Work(spec), Remove(object.clone()), Touch, Place(object.clone())],
    )
    .on(vec![object])
}

/// Deployment, `DaemonSet` and Job, running and failed.
fn well_known_workloads() -> Case {
    let time = "2026-01-02T03:04:05Z";
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "x", "image": "x"}]}});
    let labelled =
        json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}});
    let selector = json!({"matchLabels": {"app": "x"}});
    let meta = |name: &str| json!({"name": name, "namespace": "conf"});
    let condition = |kind: &str, reason: &str| json!({"type": kind, "status": "True", "reason": reason, "message": "m", "lastTransitionTime": time, "lastProbeTime": time});
    let before = vec![
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("known"), "spec": {"replicas": 3, "selector": selector, "template": labelled},
            "status": {"replicas": 3, "readyReplicas": 2, "availableReplicas": 1, "observedGeneration": 1}}),
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta("known"), "spec": {"selector": selector, "template": labelled},
            "status": {"numberReady": 2, "desiredNumberScheduled": 3, "numberAvailable": 1, "currentNumberScheduled": 3, "numberMisscheduled": 0}}),
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta("known-done"), "spec": {"template": pod},
            "status": {"succeeded": 1, "startTime": time, "completionTime": time, "conditions": [condition("SuccessCriteriaMet", "CompletionsReached"), condition("Complete", "CompletionsReached")]}}),
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta("known-failed"), "spec": {"template": pod},
            "status": {"failed": 1, "startTime": time, "conditions": [condition("FailureTarget", "BackoffLimitExceeded"), condition("Failed", "BackoffLimitExceeded")]}}),
    ];
    let read = |group: &str, resource: &str, name: &str| {
        json!({
            "resourceIdentifier": {"group": group, "resource": resource, "namespace": "conf", "name": name},
            "updateStrategy": {"type": "ReadOnly"}, "feedbackRules": [{"type": "WellKnownStatus"}],
            "conditionRules": if resource == "jobs" { json!([{"type": "WellKnownConditions", "condition": format!("Well-{name}")}]) } else { json!([]) },
        })
    };
    let only_named = |object: &Value| json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": object["metadata"]});
    let spec = work(
        &before.iter().map(only_named).collect::<Vec<_>>(),
        &[
            read("apps", "deployments", "known"),
            read("apps", "daemonsets", "known"),
            read("batch", "jobs", "known-done"),
            read("batch", "jobs", "known-failed"),
        ],
    );
    Case::new("well-known-status", vec![Work(spec)]).on(before)
}

/// No other kind has a well-known status.
fn well_known_unknown_kind() -> Case {
    let rules = json!([
        {"type": "WellKnownStatus"},
        {"type": "JSONPaths", "jsonPaths": [{"name": "size", "path": ".spec.size"}]},
    ]);
    let name = "well-known-of-no-kind";
    Case::new(
        name,
        vec![Work(work(&[named(name)], &[read_rules(name, &rules)]))],
    )
    .on(vec![widget(name, &json!({"size": 4}))])
}

/// A path may be for one version only.
fn of_another_version() -> Case {
    let rules = json!([{"type": "JSONPaths", "jsonPaths": [
        {"name": "old", "version": "v1beta1", "path": ".spec.size"},
        {"name": "same", "version": "v1", "path": ".spec.size"},
    ]}]);
    let name = "feedback-of-another-version";
    Case::new(
        name,
        vec![Work(work(&[named(name)], &[read_rules(name, &rules)]))],
    )
    .on(vec![widget(name, &json!({"size": 4}))])
}

/// Of several configurations the first that matches wins, for each field on its own.
fn first_match_of_configs() -> Case {
    let of = |name: &str, namespace: &str, path: &str| {
        json!({
            "resourceIdentifier": {"group": "", "resource": "configmaps", "namespace": namespace, "name": name},
            "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "v", "path": path}]}],
        })
    };
    let mut create = of("match-*", "*", ".data.b");
    create["updateStrategy"] = json!({"type": "CreateOnly"});
    let mut late = of("match-a", "conf", ".data.c");
    late["updateStrategy"] = json!({"type": "ReadOnly"});
    let data = json!({"a": "A", "b": "B", "c": "C"});
    let spec = work(
        &[map("match-a", &data), map("match-b", &data), map("other", &data)],
        &[of("match-a", "*", ".data.a"), create, late],
    );
    Case::new("first-matching-configuration", vec![Work(spec)])
}

/// Rules that go take their values with them.
fn rules_that_change() -> Case {
    let name = "feedback-rules-change";
    let of = |paths: &[(&str, &str)]| work(&[named(name)], &[read_paths(name, paths)]);
    Case::new(
        name,
        vec![
            Work(of(&[("a", ".spec.a"), ("b", ".spec.b")])),
            Work(of(&[("b", ".spec.b"), ("c", ".spec.c")])),
            Work(work(
                &[named(name)],
                &[super::strategy(name, &json!({"type": "ReadOnly"}))],
            )),
        ],
    )
    .on(vec![widget(name, &json!({"a": 1, "b": 2, "c": 3}))])
}
