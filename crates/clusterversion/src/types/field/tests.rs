use serde_json::json;

use super::*;

object! {
    /// A thing.
    pub struct Thing {
        /// Name.
        pub name: String = "name",
        /// Flag.
        pub flag: bool = "flag",
        /// When.
        pub at: Option<Time> = "at",
        /// Parts.
        pub parts: Vec<Part> = "parts",
    }
}

object! {
    /// A part.
    pub struct Part {
        /// Size.
        pub size: i64 = "size",
    }
}

#[test]
fn blanks_nulls_and_unknown_fields_survive() {
    for value in [
        json!({}),
        json!({"name": "", "flag": false, "at": null, "parts": null}),
        json!({"name": "a", "flag": true, "at": "2023-11-03T14:43:52Z", "parts": [{"size": 1, "colour": "blue"}, {}]}),
        json!({"parts": [], "name": null, "more": {"x": [1, null]}}),
    ] {
        let thing: Thing = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&thing).unwrap(), value);
    }
}

#[test]
fn a_value_that_is_set_takes_the_place_of_a_blank_and_gives_it_back() {
    let mut thing: Thing = serde_json::from_value(json!({"at": null, "name": "a"})).unwrap();
    thing.at = Some(Time::UNIX_EPOCH);
    thing.name.clear();
    assert_eq!(
        serde_json::to_value(&thing).unwrap(),
        json!({"at": "1970-01-01T00:00:00Z"})
    );
    thing.at = None;
    assert_eq!(serde_json::to_value(&thing).unwrap(), json!({"at": null}));
}

#[test]
fn an_error_names_the_path() {
    let error = serde_json::from_value::<Thing>(json!({"parts": [{}, {"size": "big"}]})).unwrap_err();
    assert_eq!(
        error.to_string(),
        ".parts[1].size: expected an integer, found a string"
    );
}
