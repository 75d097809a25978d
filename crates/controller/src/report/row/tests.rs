use observe::record::to_record;
use proptest::prelude::*;
use rollout::{Attempt, Outcome, Phase, Stage};
use serde_json::{Value, json};

use super::*;
use crate::report::text::for_yaml;

/// The schema of the rows of a report.
fn schema() -> Value {
    let crd = serde_json::to_value(&api::schema::crds()[1]).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["rows"]["items"].clone()
}

/// The rules of a schema that a value violates; supports the features that the schema of rows uses.
fn broken(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    if let Some(text) = value.as_str() {
        if schema["type"] != "string" {
            found.push(format!("{path}: not a {}", schema["type"]));
        }
        let most = schema["maxLength"].as_u64();
        if most.is_some_and(|most| text.chars().count() as u64 > most) {
            found.push(format!("{path}: too long"));
        }
        if schema["format"] == "date-time" && !is_date_time(text) {
            found.push(format!("{path}: {text} is no date-time"));
        }
        if schema["pattern"] == "^[A-Z][A-Za-z0-9]*$"
            && !text.starts_with(|char: char| char.is_ascii_uppercase())
        {
            found.push(format!("{path}: no word"));
        }
    }
    if let Some(fields) = value.as_object() {
        for required in schema["required"].as_array().into_iter().flatten() {
            if !fields.contains_key(required.as_str().unwrap()) {
                found.push(format!("{path}: {required} is missing"));
            }
        }
        for (name, field) in fields {
            let inner = &schema["properties"][name];
            assert!(!inner.is_null(), "{name} is not in the schema");
            broken(inner, field, &format!("{path}.{name}"), found);
        }
    }
    if let Some(items) = value.as_array() {
        if schema["maxItems"]
            .as_u64()
            .is_some_and(|most| items.len() as u64 > most)
        {
            found.push(format!("{path}: too many"));
        }
        for item in items {
            broken(&schema["items"], item, path, found);
        }
    }
}

fn is_date_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && &text[17..19] < "60"
        && api::time::parse_rfc3339(text).is_some()
}

fn times() -> impl Strategy<Value = DateTime<Utc>> {
    prop_oneof![
        (-80_000_000_000_000_i64..80_000_000_000_000).prop_filter_map("out of range", |seconds| {
            DateTime::from_timestamp(seconds / 10, 0)
        }),
        Just(DateTime::from_timestamp(59, 1_500_000_000).unwrap()),
        Just(DateTime::<Utc>::MAX_UTC),
        Just(DateTime::<Utc>::MIN_UTC),
    ]
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,2000}",
        "[\\x00-\\x1f\"\\\\\u{7f}-\u{9f}]{0,2000}",
        "[a-f0-9]{16}"
    ]
}

proptest! {
    #[test]
    fn every_record_gives_a_row_that_the_schema_accepts(
        (revision, retry, message) in (texts(), texts(), texts()),
        (version, target, reason) in (texts(), texts(), texts()),
        (since, started) in (times(), times()),
    ) {
        let stage = StepRecord {
            started,
            applied: Some(started),
            finished: Some(since),
            outcome: Some(Outcome::Failed),
        };
        let record = Record {
            attempt: Attempt { revision: Arc::from(revision), retry: Arc::from(retry) },
            phase: Phase::Failed,
            reason: Reason::Other,
            other_reason: Some(Arc::from(reason)),
            refused_step: None,
            message: Arc::from(message),
            since,
            stages: [Some(stage); 5],
            from_version: Arc::from(version),
            unreadable: false,
        };
        let record = Arc::new(record);
        let row = Row {
            record: Arc::clone(&record),
            written: None,
            slot_in_doubt: false,
            stored: None,
            stored_target: Arc::from(""),
            original: None,
            canary: true,
            left: true,
            target: Arc::from(target),
            attempts: Some(3),
            shard: 0,
        };
        let made = to_row(&"c".repeat(300), &row, &record);
        let mut found = Vec::new();
        broken(&schema(), &serde_json::to_value(&made).unwrap(), "row", &mut found);
        prop_assert_eq!(found, Vec::<String>::new());
        // YAML, as which the API server parses it, also allows every character of it.
        let text = for_yaml(&serde_json::to_string(&made).unwrap());
        let odd = text.chars().find(|char| !matches!(char, '\n' | '\r' | '\t' | ' '..='~' | '\u{a0}'..='\u{2027}'
            | '\u{202a}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..));
        prop_assert_eq!(odd, None);
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!(made));
    }
}

#[test]
fn the_reason_of_a_newer_release_is_carried_as_text() {
    let row: ReportRow = serde_json::from_value(json!({
        "cluster": "c1", "phase": "Failed", "reason": "EtcdQuorumLost", "message": "m",
        "since": "2026-03-01T10:00:00Z", "revision": "r1", "attempts": 2,
    }))
    .unwrap();
    let record = Arc::new(to_record(&row));
    assert_eq!(record.reason, Reason::Other);
    assert_eq!(record.reason_text(), "EtcdQuorumLost");
    let holder = Row {
        record: Arc::clone(&record),
        written: None,
        slot_in_doubt: false,
        stored: None,
        stored_target: Arc::from(""),
        original: None,
        canary: false,
        left: false,
        target: Arc::from(""),
        attempts: Some(2),
        shard: 0,
    };
    assert_eq!(to_row("c1", &holder, &record), row);
    assert!(Stage::ALL.iter().all(|stage| record.stage(*stage).is_none()));
}
