use serde_json::{Value, json};

use super::JsonPath;

fn version() -> Value {
    json!({
        "metadata": {"name": "version", "generation": 3, "labels": {"a.b/c": "dotted"}},
        "spec": {"channel": "", "ratio": 1.5},
        "status": {
            "availableUpdates": null,
            "history": [
                {"state": "Partial", "version": "4.12.0", "completionTime": null, "verified": true},
                {"state": "Completed", "version": "4.11.9"},
                {"state": "Completed", "version": "4.10.1"},
            ],
            "empty": [],
            "conditions": [
                {"type": "Available", "status": "True"},
                {"type": "Progressing", "status": "True", "message": "Working towards 4.12.0"},
            ],
            "conditionalUpdates": [
                {"release": {"version": "4.12.1"}, "conditions": [{"type": "Recommended", "status": "False"}],
                 "risks": [{"name": "A"}, {"name": "B"}]},
            ],
        },
    })
}

fn eval(path: &str) -> Result<Vec<Value>, String> {
    let object = version();
    let path = JsonPath::parse(path)?;
    path.find(&object)
        .map(|found| found.into_iter().cloned().collect())
}

#[test]
fn paths_find_what_kubectl_finds() {
    let cases: &[(&str, Value)] = &[
        (".metadata.generation", json!([3])),
        (".spec.channel", json!([""])),
        (".spec.missing.deeper", json!([])),
        (".status.history[0].version", json!(["4.12.0"])),
        ("status.history", json!("unrecognized identifier status")),
        (".status.history[-1:].version", json!(["4.10.1"])),
        (".status.history[-1].version", json!(["4.10.1"])),
        (".status.history[-2].version", json!(["4.11.9"])),
        (".status.history[0:2].version", json!(["4.12.0", "4.11.9"])),
        (".status.history[::2].version", json!(["4.12.0", "4.10.1"])),
        (
            ".status.history[*].version",
            json!(["4.12.0", "4.11.9", "4.10.1"]),
        ),
        (".status.history[0,2].version", json!(["4.12.0", "4.10.1"])),
        (".status.history[0].completionTime", json!([null])),
        (
            ".status.history[?(@.state==\"Completed\")].version",
            json!(["4.11.9", "4.10.1"]),
        ),
        (
            ".status.history[?(@.state=='Completed')].version",
            json!(["4.11.9", "4.10.1"]),
        ),
        (".status.history[?(@.verified==true)].version", json!(["4.12.0"])),
        (".status.history[?(@.verified)].version", json!(["4.12.0"])),
        (
            ".status.conditions[?(@.type==\"Progressing\")].message",
            json!(["Working towards 4.12.0"]),
        ),
        (".status.conditions[?(@.type==\"Upgradeable\")].status", json!([])),
        (
            ".status.conditionalUpdates[?(@.release.version==\"4.12.1\")].conditions[?(@.type==\"Recommended\")].status",
            json!(["False"]),
        ),
        (".status.conditionalUpdates[0].risks[*].name", json!(["A", "B"])),
        (".status.missing[?(@.version==\"x\")].image", json!([])),
        (".status.availableUpdates[0].version", json!([])),
        (".metadata.labels.a\\.b/c", json!(["dotted"])),
        (".metadata.labels['a\\.b/c']", json!(["dotted"])),
        (".metadata.labels.a.b/c", json!([])),
        ("..version", json!(["4.12.1", "4.12.0", "4.11.9", "4.10.1"])),
        ("$.metadata.name", json!(["version"])),
        ("@.metadata.name", json!(["version"])),
        (
            ".status.conditions[?(@.type!=\"Available\")].type",
            json!(["Progressing"]),
        ),
    ];
    for (path, expected) in cases {
        let found = eval(path).map_or_else(Value::from, Value::from);
        assert_eq!(&found, expected, "{path}");
    }
}

#[test]
fn errors_carry_the_texts_of_client_go() {
    let cases = [
        (
            ".status.empty[0].version",
            "array index out of bounds: index 0, length 0",
        ),
        (
            ".status.history[3].version",
            "array index out of bounds: index 3, length 3",
        ),
        (
            ".status.availableUpdates[?(@.version==\"x\")].image",
            "<nil> is not array or slice and cannot be filtered",
        ),
        (".spec[0]", "map[string]interface {} is not array or slice"),
        (".metadata.labels[\"a\"]", "invalid array index \"a\""),
        (
            ".status.history[?(@.state==\"Completed\" && @.version==\"4.11.9\")].version",
            "unrecognized character in action: U+0026 '&'",
        ),
        (
            ".status.history[?(@.version=~\"4\")]",
            "unrecognized character in action: U+007E '~'",
        ),
        (
            ".status.history[?(@.completionTime==null)]",
            "unrecognized identifier null",
        ),
        (
            ".status.history[?(@.version==4)]",
            "incompatible types for comparison",
        ),
        (
            ".status.history[?(@.state==\"Completed\")",
            "unclosed array expect ]",
        ),
        (".status.history[0", "unterminated array"),
        (".a....b", "invalid multiple recursive descent"),
    ];
    for (path, expected) in cases {
        match eval(path) {
            Err(message) => assert_eq!(message, expected, "{path}"),
            Ok(found) => assert_eq!(path, expected, "found {found:?}"),
        }
    }
}
