use serde_json::Map;

use super::*;
use crate::paint::Paint;
use crate::render::fixtures::{complete, running};

#[test]
fn values_of_others_steer_no_terminal_and_stay_what_they_are() {
    let hostile = json!({"version": "\u{1b}[2J\u{9b}2J\u{202e}4.16\u{2028}\u{e0041}"});
    let text = to_json(&hostile);
    assert!(!text.chars().any(|c| is_steering(c) && c != '\n'), "{text:?}");
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), hostile);
}

#[test]
fn yaml_of_others_reaches_a_pipe_and_a_terminal_as_the_values_that_it_holds() {
    let texts = [
        "\u{202e}4.16",
        "a\u{9b}2J: b",
        "\u{1b}[32mComplete\u{1b}[0m",
        "\u{7f}\u{85}\u{2028}\u{2066} \"quoted\" \\u202e \\",
        "lines\n  of\u{200f}\n\ttext\n",
        "q0q0q and \u{202e}",
        "q0q0q",
        "tab\tand\nline\n",
        "\u{feff}\u{1f680}\u{202d}",
        "edge\u{200b}-1\u{2060}",
        "edge\u{e0041}\u{fe0f}",
    ];
    let long = format!("{}\u{202e}{}", "word ".repeat(40), "word ".repeat(40));
    let by_key: Map<String, Value> = texts
        .iter()
        .map(|text| ((*text).to_owned(), json!([text])))
        .collect();
    let hostile = json!({"texts": texts, "long": long, "byKey": by_key, "count": 1, "none": null});
    let yaml = to_yaml(&hostile);
    assert!(
        !yaml.chars().any(|c| is_steering(c) && !matches!(c, '\n' | '\t')),
        "{yaml:?}"
    );
    for paint in [Paint::Ansi, Paint::Never] {
        let printed = paint.clean(&yaml);
        assert_eq!(
            serde_saphyr::from_str::<Value>(&printed).unwrap(),
            hostile,
            "{printed}"
        );
    }
}

#[test]
fn machines_get_the_object_itself_without_managed_fields() {
    let upgrade_ = running();
    let text = upgrade(Some(Output::Json), &upgrade_).unwrap();
    let back: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(back["status"]["progress"], "12/24");
    assert_eq!(back["metadata"].get("managedFields"), None);
    let yaml = upgrade(Some(Output::Yaml), &upgrade_).unwrap();
    let back_again: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(back_again, back);
    assert_eq!(upgrade(Some(Output::Wide), &upgrade_), None);
    assert_eq!(
        upgrade(Some(Output::Name), &upgrade_).unwrap(),
        "managedclustersupgrade.cluster.open-cluster-management.io/spring\n"
    );
}

#[test]
fn several_objects_are_a_list() {
    let text = upgrades(Some(Output::Json), &[running(), complete()]).unwrap();
    let back: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(back["kind"], "List");
    assert_eq!(back["items"].as_array().unwrap().len(), 2);
}
