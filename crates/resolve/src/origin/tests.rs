use api::time::to_rfc3339;
use serde_json::{Value, json};

use super::*;

const GOOD: &str =
    r#"{"upgrade":"ns/u1","revision":"0123456789abcdef","time":"2026-05-28T10:00:00.000Z","clusters":3}"#;

#[test]
fn a_completion_reads_back() {
    let (upgrade, completed) = read(GOOD).unwrap();
    assert_eq!(upgrade, "ns/u1");
    assert_eq!(completed.revision, "0123456789abcdef");
    assert_eq!(to_rfc3339(completed.time), "2026-05-28T10:00:00.000Z");
    assert_eq!((completed.clusters, completed.carried), (3, None));
}

#[test]
fn what_a_later_release_adds_to_a_completion_does_no_harm() {
    let mut note: Value = serde_json::from_str(GOOD).unwrap();
    note["more"] = json!({"a": [1]});
    assert!(read(&note.to_string()).is_ok());
}

#[test]
fn a_completion_that_is_malformed_says_what_is_wrong() {
    let long = format!("{GOOD}{}", " ".repeat(MAX_ANNOTATION_BYTES));
    for (text, wrong) in [
        ("", "form"),
        ("[]", "form"),
        (long.as_str(), "longer than 1024 bytes"),
        (&GOOD.replace("0123456789abcdef", "0123456789ABCDEF"), "revision"),
        (&GOOD.replace("0123456789abcdef", "0123"), "revision"),
        (&GOOD.replace("2026-05-28T10:00:00.000Z", "yesterday"), "time"),
        (&GOOD.replace(":3}", ":0}"), "clusters"),
        (&GOOD.replace(":3}", ":1000001}"), "clusters"),
        (&GOOD.replace(":3}", ":-1}"), "form"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(wrong), "{text}: {error}");
    }
}
