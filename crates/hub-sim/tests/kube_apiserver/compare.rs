//! What must be equal: everything but identities, times and the numbers of revisions.
//!
//! Identities and revisions are replaced by the order in which a client saw them, so it must be the same object and the same
//! revision on both sides. Not compared, because the real server does not determine it:
//!
//! - the order of `managedFields`, which depends on the second of a write;
//! - the order of causes, and of the texts that are made of them: the server walks through Go maps;
//! - which of several errors of types a server-side apply reports first, for the same reason; the code is compared;
//! - the JSON of an object that a refused patch made, which has identities and times inside of a text.
//!
//! Members `.` of `fieldsV1` are compared.

use std::collections::HashMap;

use serde_json::Value;

/// An answer of a server.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
    pub warnings: Vec<String>,
}

/// Names for identities and revisions, in the order in which a client saw them.
#[derive(Debug, Default)]
pub struct Names {
    uids: HashMap<String, usize>,
    revisions: HashMap<String, usize>,
}

impl Names {
    fn uid(&mut self, uid: &str) -> String {
        let next = self.uids.len();
        format!("uid {}", self.uids.entry(uid.to_owned()).or_insert(next))
    }

    fn revision(&mut self, revision: &str) -> String {
        let next = self.revisions.len();
        format!(
            "revision {}",
            self.revisions.entry(revision.to_owned()).or_insert(next)
        )
    }
}

impl Answer {
    /// The answer without what differs between any two servers.
    pub fn normalize(&mut self, names: &mut Names) {
        clean(&mut self.body, names);
        self.warnings.sort_unstable();
    }
}

/// An event without what differs between any two servers.
pub fn normalize_event(event: &mut Value, names: &mut Names) {
    clean(event, names);
}

/// The first difference of two answers, simulated and real.
pub fn answers(simulated: &Answer, real: &Answer) -> Option<String> {
    if simulated.code == real.code && simulated.body == real.body && simulated.warnings == real.warnings {
        return None;
    }
    Some(format!(
        "  simulated: {} {} {:?}\n  real:      {} {} {:?}",
        simulated.code,
        difference(&simulated.body, &real.body),
        simulated.warnings,
        real.code,
        difference(&real.body, &simulated.body),
        real.warnings
    ))
}

/// The first difference of the events of watches.
pub fn events(simulated: &[(String, Vec<Value>)], real: &[(String, Vec<Value>)]) -> Option<String> {
    for ((kind, one), (_, two)) in simulated.iter().zip(real) {
        if one != two {
            let show = |events: &[Value], others: &[Value]| -> Vec<String> {
                let other = |at: usize| others.get(at).cloned().unwrap_or_default();
                events
                    .iter()
                    .enumerate()
                    .map(|(at, event)| format!("{} {}", event["type"], difference(event, &other(at))))
                    .collect()
            };
            return Some(format!(
                "  {kind}\n  simulated: {}\n  real:      {}",
                show(one, two).join("\n             "),
                show(two, one).join("\n             ")
            ));
        }
    }
    None
}

/// Only the parts of a value that another one lacks or has otherwise.
pub fn difference(value: &Value, other: &Value) -> Value {
    match (value, other) {
        (Value::Object(value), Value::Object(other)) => {
            let differing = value
                .iter()
                .filter(|(name, value)| other.get(*name) != Some(*value));
            differing
                .map(|(name, value)| {
                    (
                        name.clone(),
                        difference(value, other.get(name).unwrap_or(&Value::Null)),
                    )
                })
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        (value, _) => value.clone(),
    }
}

fn clean(value: &mut Value, names: &mut Names) {
    match value {
        Value::Object(map) => {
            for field in ["creationTimestamp", "deletionTimestamp", "time"] {
                if let Some(value) = map.get_mut(field).filter(|value| value.is_string()) {
                    *value = "…".into();
                }
            }
            // A list has the revision of the whole server.
            let is_list = map.contains_key("items") || map.get("kind") == Some(&Value::from("Table"));
            if let Some(Value::String(revision)) = map.get_mut("resourceVersion") {
                *revision = names.revision(revision);
            }
            if is_list && let Some(Value::Object(meta)) = map.get_mut("metadata") {
                for field in ["resourceVersion", "continue"] {
                    if let Some(Value::String(text)) = meta.get_mut(field).filter(|text| *text != "") {
                        "…".clone_into(text);
                    }
                }
            }
            if let Some(Value::String(name)) = map
                .get_mut("name")
                .filter(|name| name.as_str().is_some_and(|name| name.starts_with("generated-")))
            {
                "generated-…".clone_into(name);
            }
            if let Some(Value::String(uid)) = map.get_mut("uid") {
                *uid = names.uid(uid);
            }
            if let Some(Value::Array(fields)) = map.get_mut("managedFields") {
                fields.sort_by_key(|entry| {
                    format!(
                        "{}{}{}",
                        entry["manager"], entry["operation"], entry["subresource"]
                    )
                });
            }
            if map.get("kind") == Some(&Value::from("Status")) {
                clean_status(map);
            }
            // Owners are keys of field sets.
            *map = std::mem::take(map)
                .into_iter()
                .map(|(name, value)| (without_identities(&name), value))
                .collect();
            for (name, value) in map.iter_mut() {
                if !(is_list && name == "metadata") {
                    clean(value, names);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| clean(item, names)),
        Value::String(text) => *text = without_identities(text),
        _ => {}
    }
}

/// Sorts causes and drops from the text what is made of them.
fn clean_status(status: &mut serde_json::Map<String, Value>) {
    const PATCHED: &str = "patch: Invalid value: \"";
    const TYPED: &str = "failed to create typed patch object (";
    let causes = status
        .get_mut("details")
        .and_then(|details| details.get_mut("causes"))
        .and_then(Value::as_array_mut);
    let mut texts = Vec::new();
    if let Some(causes) = causes {
        causes.sort_by_key(Value::to_string);
        texts = causes
            .iter()
            .filter_map(|cause| Some(cause["message"].as_str()?.to_owned()))
            .collect();
        for cause in causes.iter_mut().filter(|cause| cause["field"] == "patch") {
            cause["message"] = without_object(cause["message"].as_str().unwrap_or_default()).into();
        }
    }
    let Some(Value::String(message)) = status.get_mut("message") else {
        return;
    };
    if message.contains("ResourceVersion in the precondition (") {
        *message = message
            .chars()
            .filter(|letter| !letter.is_ascii_digit())
            .collect();
    } else if message.contains(PATCHED) {
        *message = without_object(message);
    } else if texts.len() > 1 && texts.iter().all(|text| message.contains(text.as_str())) {
        let end = message.find(" is invalid").unwrap_or(message.len());
        message.truncate(end);
    } else if message.starts_with(TYPED) {
        let end = message.find("): ").unwrap_or(message.len());
        message.truncate(end);
    }
}

/// A text without the quoted object in it.
fn without_object(text: &str) -> String {
    match (text.find("\"{"), text.rfind("}\"")) {
        (Some(from), Some(to)) if from < to => format!("{}…{}", &text[..from], &text[to + 2..]),
        _ => text.to_owned(),
    }
}

/// Replaces uids in a text, and the place of the keys of the real server in its store.
fn without_identities(text: &str) -> String {
    let text = &text.replace("Key: /hub/", "Key: /registry/");
    let is_uid = |word: &str| word.len() == 36 && word.matches('-').count() == 4;
    let words = text.split_inclusive([' ', ',', '"', ')', '(', '.', '\\']);
    words
        .map(|word| {
            let core = word.trim_end_matches([' ', ',', '"', ')', '(', '.', '\\']);
            if core.starts_with("generated-") {
                return word.replace(core, "generated-…");
            }
            if is_uid(core) {
                word.replace(core, "uid")
            } else {
                word.to_owned()
            }
        })
        .collect()
}
