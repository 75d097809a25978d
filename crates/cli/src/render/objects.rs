//! Output for machines: JSON, YAML and names.

use std::fmt::Write as _;

use api::text::is_steering;
use serde_json::{Value, json};

use crate::args::Output;
use crate::table::lines;
use crate::upgrade::{TYPE_AND_GROUP, Upgrade};

/// Pretty JSON, ended by a newline. JSON lets control characters beyond ASCII and marks of direction stand as they are;
/// they are escaped, so that the value stays what it was and no terminal acts on it.
#[must_use]
pub fn to_json(value: &Value) -> String {
    let mut text = String::new();
    for c in format!("{value:#}\n").chars() {
        if is_steering(c) && c != '\n' {
            let _ = write!(text, "\\u{:04x}", u32::from(c));
        } else {
            text.push(c);
        }
    }
    text
}

/// YAML, ended by a newline.
#[must_use]
pub fn to_yaml(value: &Value) -> String {
    let mut text = serde_saphyr::to_string(value).unwrap_or_else(|error| format!("# {error}\n"));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// A `v1` List.
#[must_use]
pub fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
}

/// One MCU for a machine; `None` when a human-readable form is asked for.
#[must_use]
pub fn upgrade(output: Option<Output>, upgrade: &Upgrade) -> Option<String> {
    match output? {
        Output::Wide => None,
        Output::Json => Some(to_json(&upgrade.object)),
        Output::Yaml => Some(to_yaml(&upgrade.object)),
        Output::Name => Some(format!("{TYPE_AND_GROUP}/{}\n", upgrade.name)),
    }
}

/// Several MCUs for a machine; `None` when a human-readable form is asked for.
#[must_use]
pub fn upgrades(output: Option<Output>, upgrades: &[Upgrade]) -> Option<String> {
    let objects = || {
        upgrades
            .iter()
            .map(|upgrade| upgrade.object.clone())
            .collect::<Vec<_>>()
    };
    match output? {
        Output::Wide => None,
        Output::Json => Some(to_json(&list(&objects()))),
        Output::Yaml => Some(to_yaml(&list(&objects()))),
        Output::Name => Some(lines(
            upgrades
                .iter()
                .map(|upgrade| format!("{TYPE_AND_GROUP}/{}", upgrade.name)),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixtures::{complete, running};

    #[test]
    fn values_of_others_steer_no_terminal_and_stay_what_they_are() {
        let hostile = json!({"version": "\u{1b}[2J\u{9b}2J\u{202e}4.16\u{2028}"});
        let text = to_json(&hostile);
        assert!(!text.chars().any(|c| is_steering(c) && c != '\n'), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), hostile);
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
}
