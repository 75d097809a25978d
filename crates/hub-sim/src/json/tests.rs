use serde_json::json;

use super::*;

fn nested(levels: usize) -> String {
    let open = ["{\"a\":", "[1, "];
    let close = ["}", "]"];
    let (mut text, mut end) = (String::new(), String::new());
    for level in 0..levels {
        text.push_str(open[level % 2]);
        end.insert_str(0, close[level % 2]);
    }
    format!("{text}\"x \\\" {{ \u{f8ff}\"{end}")
}

#[test]
fn what_is_nested_deeply_is_written_as_it_came() {
    for levels in [1, 99, 100, 101, 127, 128, 200, 9_999, 10_000] {
        let json = nested(levels);
        let value = parse(json.as_bytes(), &mut Vec::new()).unwrap();
        assert_eq!(
            text_of(&value).replace(' ', ""),
            json.replace(' ', ""),
            "{levels} levels"
        );
        let again = stored(&text_of(&value));
        assert_eq!(again, value, "{levels} levels");
    }
    let too_deep = parse(nested(10_001).as_bytes(), &mut Vec::new());
    assert_eq!(too_deep, Err(Unreadable::TooDeep));
}

#[test]
fn what_is_malformed_deep_within_is_refused() {
    for (good, bad) in [("1,", "1 2,"), ("\"a\":", "\"a\""), ("x", "\n")] {
        let json = nested(200).replace(good, bad);
        assert!(parse(json.as_bytes(), &mut Vec::new()).is_err(), "{bad}");
    }
    let open = "[".repeat(300);
    assert!(parse(open.as_bytes(), &mut Vec::new()).is_err());
}

#[test]
fn texts_that_begin_with_the_mark_leave_json_valid() {
    for text in ["", "{}", "{\"", "[1]", "\"", "\\", "{\"a\": \"\u{f8ff}[]\"}"] {
        let value =
            json!({format!("\u{f8ff}{text}"): format!("\u{f8ff}{text}"), "b": format!("\"\u{f8ff}{text}\"")});
        let written = text_of(&value);
        assert!(serde_json::from_str::<Value>(&written).is_ok(), "{written}");
    }
}

#[test]
fn fields_that_are_there_twice_are_found_and_the_last_counts() {
    let mut duplicates = Vec::new();
    let value = parse(
        br#"{"a": [{"b": 1, "b": 2}], "a": [{"c": {"d": 1, "d": 2, "d": 3}}]}"#,
        &mut duplicates,
    );
    assert_eq!(value, Ok(json!({"a": [{"c": {"d": 3}}]})));
    assert_eq!(duplicates, ["a[0].b", "a[0].c.d", "a[0].c.d", "a"]);
}
