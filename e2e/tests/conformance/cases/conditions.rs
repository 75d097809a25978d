//! Condition rules: CEL and well-known, their errors, and what the work makes of those of its manifests.

use serde_json::{Value, json};

use super::Step::{Place, Touch, Work};
use super::{Case, config, map, named, strategy, told, widget, work};

/// A rule of CEL expressions.
fn cel(condition: &str, expressions: &[&str], message: &Value) -> Value {
    let mut rule = json!({"type": "CEL", "condition": condition, "celExpressions": expressions});
    for (field, text) in message.as_object().into_iter().flatten() {
        rule[field] = text.clone();
    }
    rule
}

/// Reads a widget with these rules.
fn ruled(name: &str, rules: &[Value]) -> Value {
    let mut config = strategy(name, &json!({"type": "ReadOnly"}));
    config["conditionRules"] = json!(rules);
    config
}

fn reading(name: &'static str, status: &Value, rules: &[Value]) -> Case {
    Case::new(name, vec![Work(work(&[named(name)], &[ruled(name, rules)]))]).on(vec![told(name, status)])
}

/// See the module.
pub fn all() -> Vec<Case> {
    vec![
        plain(),
        errors(),
        target_available(),
        libraries(),
        followed(),
        aggregated(),
        complete_freezes(),
        rules_change(),
        well_known_of_no_kind(),
        written_and_ruled(),
    ]
}

/// True, false, several expressions, and a message that is computed.
fn plain() -> Case {
    reading(
        "cel-true-and-false",
        &json!({"ready": true, "count": 3, "list": ["a", "b"]}),
        &[
            cel(
                "Ready",
                &["object.status.ready"],
                &json!({"message": "it is ready"}),
            ),
            cel(
                "Counted",
                &["object.status.count > 1", "object.status.count > 5"],
                &json!({"message": "counted"}),
            ),
            cel(
                "Listed",
                &["object.status.list.exists(x, x == 'b')"],
                &json!({"messageExpression": "result ? 'has ' + object.status.list[1] : 'none'"}),
            ),
            cel("Plain", &["true"], &json!({})),
        ],
    )
}

/// What goes wrong in an expression is False, with what went wrong as the message.
fn errors() -> Case {
    reading(
        "cel-errors",
        &json!({"count": 3}),
        &[
            cel(
                "Missing",
                &["object.status.absent == 1"],
                &json!({"message": "m"}),
            ),
            cel("NotBoolean", &["object.status.count"], &json!({})),
            cel(
                "Guarded",
                &["has(object.status.absent) && object.status.absent == 1"],
                &json!({"message": "guarded"}),
            ),
            cel(
                "Shown",
                &["true"],
                &json!({"message": "fallback", "messageExpression": "object.status.absent"}),
            ),
        ],
    )
}

/// The rule evaluates on the spoke a list that is too large for a feedback value.
fn target_available() -> Case {
    reading(
        "cel-target-available",
        &json!({"availableUpdates": [{"version": "4.12.0"}, {"version": "4.12.1"}]}),
        &[
            cel(
                "Offered",
                &[
                    "has(object.status.availableUpdates) && object.status.availableUpdates.exists(u, u.version == '4.12.1')",
                ],
                &json!({"messageExpression": "object.status.availableUpdates.map(u, u.version).join(', ')"}),
            ),
            cel(
                "NotOffered",
                &["object.status.availableUpdates.exists(u, u.version == '4.13.0')"],
                &json!({"message": "not offered"}),
            ),
        ],
    )
}

/// The libraries of Kubernetes.
fn libraries() -> Case {
    reading(
        "cel-libraries",
        &json!({"version": "4.12.3", "cpu": "1500m", "url": "https://example.com:8443/x", "names": ["c", "a", "b"], "conditions": [{"type": "Ready", "status": "True"}]}),
        &[
            cel(
                "Newer",
                &["semver(object.status.version).compareTo(semver('4.12.0')) > 0"],
                &json!({}),
            ),
            cel(
                "Quantity",
                &["quantity(object.status.cpu).isGreaterThan(quantity('1'))"],
                &json!({}),
            ),
            cel(
                "Url",
                &["url(object.status.url).getHost() == 'example.com:8443'"],
                &json!({}),
            ),
            cel(
                "Regex",
                &["object.status.version.find('[0-9]+$') == '3'"],
                &json!({}),
            ),
            cel(
                "Text",
                &["object.status.version.split('.').size() == 3"],
                &json!({}),
            ),
            cel("Sorted", &["!object.status.names.isSorted()"], &json!({})),
            cel("Conditions", &["hasConditions(object.status)"], &json!({})),
        ],
    )
}

/// A condition follows its object.
fn followed() -> Case {
    let name = "cel-follows";
    let rules = [cel(
        "Done",
        &["object.status.state == 'Completed'"],
        &json!({"messageExpression": "'state ' + object.status.state"}),
    )];
    Case::new(
        name,
        vec![
            Work(work(&[named(name)], &[ruled(name, &rules)])),
            Place(told(name, &json!({"state": "Completed"}))),
            Place(told(name, &json!({"other": 1}))),
        ],
    )
    .on(vec![told(name, &json!({"state": "Partial"}))])
}

/// Progressing is any, the others are all.
fn aggregated() -> Case {
    let rules = |progressing: &str, degraded: &str, custom: &str| {
        [
            cel("Progressing", &[progressing], &json!({"message": "p"})),
            cel("Degraded", &[degraded], &json!({"message": "d"})),
            cel("Custom", &[custom], &json!({"message": "c"})),
        ]
    };
    let spec = work(
        &[
            named("aggregated-a"),
            named("aggregated-b"),
            named("aggregated-absent"),
        ],
        &[
            ruled("aggregated-a", &rules("true", "false", "true")),
            ruled("aggregated-b", &rules("false", "true", "object.status.absent")),
            ruled("aggregated-absent", &rules("true", "true", "true")),
        ],
    );
    Case::new("conditions-of-several-manifests", vec![Work(spec), Touch]).on(vec![
        told("aggregated-a", &json!({"x": 1})),
        told("aggregated-b", &json!({"x": 1})),
    ])
}

/// A work that is Complete stays as it is, whatever it requests later.
fn complete_freezes() -> Case {
    let of = |value: &str| {
        let rule = cel(
            "Complete",
            &["object.data.done == 'yes'"],
            &json!({"message": "done"}),
        );
        let config = config("", "configmaps", "freezes", "conditionRules", &json!([rule]));
        work(&[map("freezes", &json!({"done": value}))], &[config])
    };
    Case::new(
        "complete-freezes-the-work",
        vec![Work(of("no")), Work(of("yes")), Work(of("later")), Touch],
    )
}

/// A rule that goes takes its condition with it.
fn rules_change() -> Case {
    let name = "cel-rules-change";
    let of = |rules: &[Value]| work(&[named(name)], &[ruled(name, rules)]);
    let rule = |condition: &str| cel(condition, &["true"], &json!({"message": "m"}));
    Case::new(
        name,
        vec![
            Work(of(&[rule("First"), rule("Second")])),
            Work(of(&[rule("Second"), rule("Third")])),
            Work(of(&[])),
        ],
    )
    .on(vec![told(name, &json!({"x": 1}))])
}

/// Only Jobs and Pods have well-known conditions.
fn well_known_of_no_kind() -> Case {
    let name = "well-known-condition-of-no-kind";
    let rule = json!({"type": "WellKnownConditions", "condition": "Complete"});
    Case::new(name, vec![Work(work(&[named(name)], &[ruled(name, &[rule])]))])
        .on(vec![told(name, &json!({"x": 1}))])
}

/// Rules of what the work itself writes.
fn written_and_ruled() -> Case {
    let rule = cel(
        "Big",
        &["object.spec.size > 2"],
        &json!({"messageExpression": "'size is ' + string(object.spec.size)"}),
    );
    let config = config(
        "example.com",
        "widgets",
        "written-ruled",
        "conditionRules",
        &json!([rule]),
    );
    let of = |size: i64| {
        work(
            &[widget("written-ruled", &json!({"size": size}))],
            std::slice::from_ref(&config),
        )
    };
    Case::new("condition-of-a-written-object", vec![Work(of(1)), Work(of(3))])
}
