use super::*;

fn found(schema: &Value, value: &Value) -> Vec<String> {
    check(schema, value)
        .into_iter()
        .map(|problem| format!("{}: {}", problem.field, problem.message))
        .collect()
}

#[test]
fn types_bounds_and_lists_are_checked() {
    let schema = json!({"type": "object", "required": ["a"], "properties": {
        "a": {"type": "integer", "minimum": 1.0, "maximum": 3.0},
        "b": {"type": "string", "minLength": 2, "maxLength": 3},
        "c": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "d": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "boolean"}},
        "e": {"x-kubernetes-int-or-string": true},
    }});
    assert_eq!(
        found(
            &schema,
            &json!({"a": 1, "b": "xy", "c": ["p", "q"], "d": {"k": true}, "e": "5%"})
        ),
        Vec::<String>::new()
    );
    assert_eq!(
        found(
            &schema,
            &json!({"b": "x", "c": ["p", "p"], "d": {"k": 1}, "e": 1.5})
        ),
        [
            "a: must be set",
            "b: must have at least 2 characters, not 1",
            "c[1]: \"p\" appears twice; remove one",
            "d.k: must be true or false, not 1",
            "e: must be a whole number or a string such as \"25%\", not 1.5",
        ]
    );
    assert_eq!(
        found(
            &schema,
            &json!({"a": 4, "b": "wxyz", "d": {"k": true, "l": true}})
        ),
        [
            "a: must be at most 3, not 4",
            "b: must have at most 3 characters, not 4",
            "d: must have at most 1 entries, not 2",
        ]
    );
}

#[test]
fn pruning_removes_unknown_fields_and_nulls_that_are_not_allowed() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string"},
        "b": {"type": "string", "nullable": true},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"shut": {"type": "object"}}},
    }});
    let mut value = json!({"a": null, "b": null, "x": 1, "open": {"y": 2, "shut": {"z": 3}}});
    let mut unknown = Vec::new();
    prune(&schema, &mut value, "", &mut unknown);
    assert_eq!(value, json!({"b": null, "open": {"y": 2, "shut": {}}}));
    unknown.sort();
    assert_eq!(unknown, ["open.shut.z", "x"]);
}

#[test]
fn patterns_become_rules() {
    let mut schema = json!({"items": {"type": "string", "pattern": "^a\\d$"}});
    adapt(&mut schema);
    assert_eq!(
        schema["items"]["x-kubernetes-validations"][0]["rule"],
        "self.matches('^a\\\\d$')"
    );
}

#[test]
fn names_follow_the_rules_of_the_api_server() {
    let names = |name: &str| check_metadata(&json!({"metadata": {"name": name}})).len();
    assert_eq!(
        (
            names("spring-4.12"),
            names("Spring"),
            names("-a"),
            names("a..b"),
            names("")
        ),
        (0, 1, 1, 1, 1)
    );
    assert_eq!(
        check_metadata(&json!({"metadata": {"generateName": "spring-"}})),
        []
    );
}
