use kube::core::{ObjectList, WatchEvent};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::views::{ManagedCluster, ManifestWork, PlacementDecision, Report, Upgrade};

#[derive(Deserialize)]
struct Holder {
    #[serde(default)]
    count: Lenient<u32>,
}

fn count(text: &str) -> Lenient<u32> {
    serde_json::from_str::<Holder>(text).unwrap().count
}

#[test]
fn a_subtree_of_another_shape_is_kept_as_its_error() {
    assert_eq!(count(r#"{"count": 3}"#), Lenient::Good(3));
    assert_eq!(count(r#"{"count": null}"#), Lenient::Absent);
    assert_eq!(count("{}"), Lenient::Absent);
    assert!(
        count(r#"{"count": "three"}"#)
            .error()
            .unwrap()
            .contains("invalid type")
    );
}

/// This many levels of objects and lists in turn.
fn nested(levels: usize) -> String {
    let (open, close) = ([r#"{"a":"#, "["], ["}", "]"]);
    let mut text: String = (0..levels).map(|level| open[level % 2]).collect();
    text.push('1');
    text.extend((0..levels).rev().map(|level| close[level % 2]));
    text
}

#[test]
fn what_is_nested_too_deeply_is_kept_as_its_error_with_the_remedy() {
    let at = |levels| Lenient::<Value>::read(&nested(levels));
    assert!(at(MAX_DEPTH).good().is_some());
    for levels in [MAX_DEPTH + 1, 5_000, 10_000] {
        let broken = at(levels);
        let error = broken.error().unwrap();
        assert!(
            error.contains("nested deeper than 127 levels; nest it less"),
            "{error}"
        );
    }
    let ignored = format!(r#"{{"count": 3, "other": {}}}"#, nested(10_000));
    assert_eq!(count(&ignored), Lenient::Good(3));
}

#[test]
fn an_error_does_not_repeat_a_long_value() {
    let text = format!(r#"{{"count": "{}"}}"#, "\u{e9}".repeat(500_000));
    let broken = count(&text);
    assert!(broken.error().unwrap().len() < 300);
}

#[test]
fn a_value_and_a_buffer_are_read_like_a_text() {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Buffered {
        Held(Holder),
    }
    let holder: Holder = serde_json::from_value(json!({"count": 3})).unwrap();
    assert_eq!(holder.count, Lenient::Good(3));
    for (text, good) in [(r#"{"count": 3}"#, true), (r#"{"count": [3]}"#, false)] {
        let Buffered::Held(holder) = serde_json::from_str(text).unwrap();
        assert_eq!(holder.count.good().is_some(), good, "{text}");
    }
}

#[test]
fn an_event_is_read_at_any_depth_and_in_any_order_of_its_keys() {
    let deep = nested(5_000);
    let object = |part: &str| {
        let spec =
            format!(r#"{{"preUpgradeAction":{{"manifestWork":{{"workload":{{"manifests":[{part}]}}}}}}}}"#);
        format!(
            r#"{{"metadata":{{"name":"a","managedFields":[{deep}]}},"spec":{spec},"status":{{"state":{deep}}}}}"#
        )
    };
    let event = format!(r#"{{"type":"ADDED","object":{}}}"#, object(&deep));
    let WatchEvent::Added(upgrade) = serde_json::from_str::<WatchEvent<Upgrade>>(&event).unwrap() else {
        panic!("another event");
    };
    assert_eq!(upgrade.metadata.name.as_deref(), Some("a"));
    assert!(upgrade.spec.error().unwrap().contains("nested deeper"));
    assert!(upgrade.status.error().is_some());
    let event = r#"{"object":{"metadata":{"name":"a"},"spec":{"paused":true},"status":7},"type":"ADDED"}"#;
    let WatchEvent::Added(upgrade) = serde_json::from_str::<WatchEvent<Upgrade>>(event).unwrap() else {
        panic!("another event");
    };
    assert!(upgrade.spec.good().is_some() && upgrade.status.error().is_some());
}

#[test]
fn a_size_counts_lists_objects_and_their_content() {
    for (text, values) in [
        ("1", 1),
        ("[]", 1),
        ("{ }", 1),
        ("[1, 2,3]", 4),
        (r#"{"a": [], "b": {"c": ","}}"#, 4),
        (r#"["\"],[", "\\"]"#, 3),
        ("[[[]]]", 3),
    ] {
        assert_eq!(
            measure(text),
            Size {
                bytes: text.len(),
                values
            },
            "{text}"
        );
    }
}

#[test]
fn a_shallow_value_says_what_it_leaves_out() {
    let read = |text: &str| shallow(&mut serde_json::Deserializer::from_str(text)).unwrap();
    let plain = json!({"a": [1, -2, 0.5, true, null, "x"], "b": {"c": {}}});
    assert_eq!(read(&plain.to_string()), plain);
    let text = read(&nested(10_000)).to_string();
    assert!(
        text.contains("<nested deeper than 100 levels, not shown>"),
        "{text}"
    );
}

/// JSON of any shape, at any depth that an API server accepts.
fn anything() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i64>().prop_map(|value| value.to_string()),
        ".*".prop_map(|text| Value::from(text).to_string()),
        (0..10_000_usize).prop_map(nested),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let key = prop_oneof![
            Just("conditions".to_owned()),
            Just("clusterSelector".to_owned()),
            Just("preUpgradeAction".to_owned()),
            Just("decisions".to_owned()),
            Just("resourceStatus".to_owned()),
            "[a-z]{1,8}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::btree_map(key, inner, 0..4).prop_map(|fields| {
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(key, value)| format!(r#""{key}":{value}"#))
                    .collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

/// Reads a list whose second object contains `odd`, and returns the names of all objects.
fn names<K>(part: &str, odd: &str) -> Vec<String>
where
    K: Clone + DeserializeOwned + kube::Resource,
{
    let object = |name: &str, odd: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","resourceVersion":"1","managedFields":[{odd}]}},"{part}":{odd},"other":{odd}}}"#
        )
    };
    let items = [object("a", "null"), object("b", odd), object("c", "null")].join(",");
    let text = format!(r#"{{"apiVersion":"v1","kind":"List","metadata":{{}},"items":[{items}]}}"#);
    let list: ObjectList<K> = serde_json::from_str(&text).unwrap();
    list.items
        .iter()
        .map(|object| object.meta().name.clone().unwrap())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_object_makes_another_one_of_its_list_unreadable(odd in anything()) {
        for part in ["spec", "status", "rows"] {
            prop_assert_eq!(names::<Upgrade>(part, &odd), ["a", "b", "c"]);
            prop_assert_eq!(names::<Report>(part, &odd), ["a", "b", "c"]);
            prop_assert_eq!(names::<ManifestWork>(part, &odd), ["a", "b", "c"]);
            prop_assert_eq!(names::<ManagedCluster>(part, &odd), ["a", "b", "c"]);
            prop_assert_eq!(names::<PlacementDecision>(part, &odd), ["a", "b", "c"]);
        }
    }

    #[test]
    fn a_shallow_value_is_read_from_anything(odd in anything()) {
        let read = shallow(&mut serde_json::Deserializer::from_str(&odd));
        prop_assert!(read.is_ok());
    }
}
