#![allow(clippy::needless_pass_by_value)] // `json!` makes values to give away

mod preflight;

use serde_json::{Value, json};

use super::{ConditionRule, aggregate, evaluate};
use crate::fields::from_unix;
use crate::work::status::{Condition, ManifestStatus, Status};

fn rule(json: Value) -> ConditionRule {
    serde_json::from_value(json).unwrap()
}

fn verdict(object: &Value, json: Value) -> Option<(Status, String, String)> {
    let mut conditions = Vec::new();
    evaluate(&mut conditions, object, &[rule(json)], 1, from_unix(0));
    conditions
        .pop()
        .map(|c: Condition| (c.status, c.reason.to_string(), c.message.to_string()))
}

fn cel(expression: &str) -> Value {
    json!({"condition": "Ready", "type": "CEL", "celExpressions": [expression]})
}

fn version() -> Value {
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "metadata": {"name": "version", "generation": 2},
        "spec": {"channel": "stable-4.12"},
        "status": {
            "availableUpdates": [{"version": "4.12.0"}, {"version": "4.12.3"}],
            "history": [{"version": "4.11.9", "state": "Completed"}],
            "conditions": [{"type": "Available", "status": "True"}],
        },
    })
}

#[test]
fn expressions_see_the_object_and_the_libraries() {
    let cases = [
        ("object.status.history[0].version == '4.11.9'", true),
        (
            "has(object.status.availableUpdates) && object.status.availableUpdates.exists(u, u.version == '4.12.0')",
            true,
        ),
        (
            "object.status.availableUpdates.exists(u, u.version == '4.13.0')",
            false,
        ),
        ("hasConditions(object.status)", true),
        ("hasConditions(object.spec)", false),
        (
            "hasConditions(object.status) && object.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')",
            true,
        ),
        ("semver('4.12.3').isGreaterThan(semver('4.12.0'))", true),
        ("quantity('1Gi').isGreaterThan(quantity('1Mi'))", true),
        ("'stable-4.12'.startsWith('stable')", true),
        ("object.spec.channel.find('[0-9.]+') == '4.12'", true),
        ("[3, 1, 2].max() == 3", true),
        ("url('https://example.com/x').getHost() == 'example.com'", true),
        (
            "isIP('10.0.0.1') && cidr('10.0.0.0/8').containsIP('10.0.0.1')",
            true,
        ),
        ("object.metadata.generation == 2", true),
        ("object.?spec.?channel.orValue('none') == 'stable-4.12'", true),
        ("object.?status.?nothing.orValue('none') == 'none'", true),
        ("object.?spec.?upstream.orValue('none') == 'none'", true),
    ];
    for (expression, expected) in cases {
        let (status, reason, message) = verdict(&version(), cel(expression)).unwrap();
        assert_eq!(reason, "ConditionRuleEvaluated", "{expression}: {message}");
        assert_eq!(status, Status::from(expected), "{expression}");
    }
}

#[test]
fn errors_give_false_with_the_reason_of_an_expression_error() {
    for expression in [
        "object.status.missing.deeper == 'x'",
        "object.status.history[5].version == ''",
        "1 +",
        "'text'",
    ] {
        let (status, reason, message) = verdict(&version(), cel(expression)).unwrap();
        assert_eq!(
            (status, reason.as_str()),
            (Status::False, "ConditionRuleExpressionError"),
            "{expression}"
        );
        assert!(!message.is_empty());
    }
}

#[test]
fn expressions_of_one_rule_are_anded() {
    let both = |a: &str, b: &str| json!({"condition": "C", "type": "CEL", "celExpressions": [a, b]});
    assert_eq!(verdict(&version(), both("true", "true")).unwrap().0, Status::True);
    assert_eq!(
        verdict(&version(), both("true", "false")).unwrap().0,
        Status::False
    );
    // the first false ends it: the second is never evaluated
    assert_eq!(
        verdict(&version(), both("false", "1 +")).unwrap().1,
        "ConditionRuleEvaluated"
    );
}

#[test]
fn a_message_comes_from_the_expression_then_the_text_then_the_default() {
    let message = |json: Value| verdict(&version(), json).unwrap().2;
    let mut spec = cel("true");
    assert_eq!(message(spec.clone()), "Manifest is Ready");
    assert_eq!(message(cel("false")), "Manifest is not Ready");
    spec["message"] = "fixed".into();
    assert_eq!(message(spec.clone()), "fixed");
    spec["messageExpression"] = "result ? 'at ' + object.status.history[0].version : 'no'".into();
    assert_eq!(message(spec.clone()), "at 4.11.9");
    spec["messageExpression"] = "''".into();
    assert_eq!(message(spec), "fixed");
}

#[test]
fn the_well_known_rule_is_true_for_a_failed_job_too() {
    let well_known = json!({"condition": "Complete", "type": "WellKnownConditions"});
    let job = |kind: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job",
            "status": {"conditions": [{"type": kind, "status": "True"}]}})
    };
    assert_eq!(
        verdict(&job("Failed"), well_known.clone()).unwrap().0,
        Status::True
    );
    assert_eq!(
        verdict(&job("Complete"), well_known.clone()).unwrap().2,
        "Job is finished"
    );
    assert_eq!(
        verdict(&job("Suspended"), well_known.clone()).unwrap().0,
        Status::False
    );
    let fresh = json!({"apiVersion": "batch/v1", "kind": "Job", "status": {}});
    assert_eq!(
        verdict(&fresh, well_known.clone()).unwrap().2,
        "Job is not finished"
    );
    assert!(
        verdict(&version(), well_known).is_none(),
        "no such rule for the kind"
    );
}

#[test]
fn an_unknown_rule_type_gives_unknown() {
    let (status, reason, message) = verdict(&version(), json!({"condition": "X", "type": "Lua"})).unwrap();
    assert_eq!(
        (status, reason.as_str()),
        (Status::Unknown, "ConditionRuleInvalid")
    );
    assert_eq!(message, "unrecognized condition rule type Lua");
}

#[test]
fn conditions_of_removed_rules_go_with_the_next_generation() {
    let mut conditions = Vec::new();
    evaluate(&mut conditions, &version(), &[rule(cel("true"))], 1, from_unix(0));
    assert_eq!(conditions.len(), 1);
    evaluate(&mut conditions, &version(), &[], 2, from_unix(0));
    assert!(conditions.is_empty());
}

#[test]
fn progressing_is_true_if_any_is_and_others_false_if_any_is() {
    let manifests = |kind: &'static str, statuses: &[Status]| -> Vec<ManifestStatus> {
        let one = |status: &Status| ManifestStatus {
            conditions: vec![Condition::new(
                kind,
                *status,
                "ConditionRuleEvaluated",
                "m",
                1,
                from_unix(0),
            )],
            ..ManifestStatus::default()
        };
        statuses.iter().map(one).collect()
    };
    let sum = |kind: &'static str, statuses: &[Status]| {
        let found = aggregate(1, &manifests(kind, statuses), from_unix(0));
        found.into_iter().find(|c| c.kind == kind).unwrap()
    };
    assert_eq!(
        sum("Progressing", &[Status::False, Status::True, Status::Unknown]).status,
        Status::True
    );
    assert_eq!(
        sum("Progressing", &[Status::False, Status::Unknown]).status,
        Status::Unknown
    );
    assert_eq!(
        sum("Degraded", &[Status::True, Status::False, Status::Unknown]).status,
        Status::False
    );
    assert_eq!(
        sum("Degraded", &[Status::True, Status::Unknown]).status,
        Status::Unknown
    );
    assert_eq!(sum("Degraded", &[Status::True]).status, Status::True);
    assert_eq!(sum("Degraded", &[Status::True]).message, "m");
    assert_eq!(
        sum("Degraded", &[Status::True, Status::True]).message,
        "Aggregated from 2 manifest conditions"
    );
    assert_eq!(
        sum("Degraded", &[Status::True]).reason,
        "ConditionRulesAggregated"
    );
}

#[test]
fn available_counts_missing_and_unknown_objects() {
    let manifest = |status| ManifestStatus {
        conditions: vec![Condition::new("Available", status, "r", "m", 1, from_unix(0))],
        ..ManifestStatus::default()
    };
    let sum = |statuses: &[Status]| {
        let manifests: Vec<_> = statuses.iter().map(|s| manifest(*s)).collect();
        let found = aggregate(1, &manifests, from_unix(0)).remove(0);
        (found.status, found.reason.to_string(), found.message.to_string())
    };
    let expected = |status, reason: &str, message: &str| (status, reason.to_owned(), message.to_owned());
    assert_eq!(
        sum(&[Status::True]),
        expected(Status::True, "ResourcesAvailable", "All resources are available")
    );
    assert_eq!(
        sum(&[Status::True, Status::False]),
        expected(
            Status::False,
            "ResourcesNotAvailable",
            "1 of 2 resources are not available"
        )
    );
    assert_eq!(
        sum(&[Status::Unknown, Status::True]),
        expected(
            Status::Unknown,
            "ResourcesStatusUnknown",
            "1 of 2 resources have unknown status"
        )
    );
    assert_eq!(
        sum(&[]),
        expected(
            Status::Unknown,
            "ResourcesStatusUnknown",
            "cannot get any available resource "
        )
    );
}
