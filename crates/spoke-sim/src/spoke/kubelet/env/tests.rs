use std::collections::BTreeMap;

use serde_json::json;

use super::{Sources, command, expand, variables, wanted};

fn sources() -> Sources {
    let data = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    };
    Sources(BTreeMap::from([
        (
            ("configmaps", "settings".to_owned()),
            data(&[("LEVEL", "3"), ("mode", "fast")]),
        ),
        (("secrets", "keys".to_owned()), data(&[("token", "abc")])),
    ]))
}

#[test]
fn variables_come_from_all_their_sources_in_order() {
    let pod = json!({"metadata": {"name": "p-1", "namespace": "ns", "labels": {"app.io/x": "y"}}});
    let container = json!({
        "envFrom": [{"prefix": "S_", "configMapRef": {"name": "settings"}},
                    {"secretRef": {"name": "none", "optional": true}}],
        "env": [
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app.io/x']"}}},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
            {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}},
            {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "x", "optional": true}}},
            {"name": "BOTH", "value": "$(POD)-$(MODE)-$(LATER)-$$(POD)"},
            {"name": "S_LEVEL", "value": "4"},
        ],
    });
    let found = variables(&pod, &container, &sources()).unwrap();
    let found: Vec<_> = found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let expected = [
        ("S_mode", "fast"),
        ("POD", "p-1"),
        ("APP", "y"),
        ("TOKEN", "abc"),
        ("MODE", "fast"),
        ("BOTH", "p-1-fast-$(LATER)-$(POD)"),
        ("S_LEVEL", "4"),
    ];
    assert_eq!(found, expected);
    assert_eq!(wanted(&container).len(), 5);
}

#[test]
fn what_is_missing_is_told_in_the_kubelets_words() {
    let container =
        json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "gone", "key": "x"}}}]});
    assert_eq!(
        variables(&json!({}), &container, &sources()).unwrap_err(),
        "configmap \"gone\" not found"
    );
    let container =
        json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "x"}}}]});
    let error = variables(&json!({}), &container, &sources()).unwrap_err();
    assert_eq!(error, "couldn't find key x in secrets keys");
}

#[test]
fn commands_are_expanded_and_images_have_their_own() {
    let known = [("N".to_owned(), "5".to_owned())];
    let container = json!({"command": ["sleep"], "args": ["$(N)", "$N", "$(M)"]});
    assert_eq!(command(&container, &known).unwrap(), ["sleep", "5", "$N", "$(M)"]);
    assert_eq!(command(&json!({"args": ["x"]}), &known), None);
    assert_eq!(expand("a$(", &known), "a$(");
}
