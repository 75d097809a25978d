//! What must be equal: everything but identities, times and the numbers of revisions, of which the order must be equal.

use std::collections::HashMap;

use serde_json::Value;

/// An answer of a server.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
}

/// The first difference of two answers, simulated and real.
pub fn answers(simulated: &Answer, real: &Answer) -> Option<String> {
    let (one, two) = (normal(&simulated.body), normal(&real.body));
    if simulated.code == real.code && one == two {
        return None;
    }
    Some(format!(
        "  simulated: {} {}\n  real:      {} {}",
        simulated.code,
        difference(&one, &two),
        real.code,
        difference(&two, &one)
    ))
}

/// The first difference of the events of watches.
pub fn events(simulated: &[(&str, Vec<Value>)], real: &[(&str, Vec<Value>)]) -> Option<String> {
    for ((kind, one), (_, two)) in simulated.iter().zip(real) {
        let one: Vec<Value> = one.iter().map(normal).collect();
        let two: Vec<Value> = two.iter().map(normal).collect();
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
                show(&one, &two).join("\n             "),
                show(&two, &one).join("\n             ")
            ));
        }
    }
    None
}

/// Only the parts of a value that another one lacks or has otherwise.
fn difference(value: &Value, other: &Value) -> Value {
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

/// A body without identities, times and numbers of revisions.
fn normal(body: &Value) -> Value {
    let mut body = body.clone();
    let mut uids = HashMap::new();
    clean(&mut body, &mut uids);
    body
}

fn clean(value: &mut Value, uids: &mut HashMap<String, usize>) {
    match value {
        Value::Object(map) => {
            for field in [
                "resourceVersion",
                "creationTimestamp",
                "deletionTimestamp",
                "time",
                "continue",
            ] {
                if let Some(value) = map.get_mut(field).filter(|value| value.is_string()) {
                    *value = "…".into();
                }
            }
            if let Some(Value::String(uid)) = map.get_mut("uid") {
                let next = uids.len();
                *uid = format!("uid {}", uids.entry(uid.clone()).or_insert(next));
            }
            if let Some(Value::Array(fields)) = map.get_mut("managedFields") {
                fields.sort_by_key(|entry| {
                    format!(
                        "{}{}{}",
                        entry["manager"], entry["operation"], entry["subresource"]
                    )
                });
            }
            if let Some(fields) = map.get_mut("fieldsV1") {
                drop_dots(fields);
            }
            map.remove("remainingItemCount");
            map.values_mut().for_each(|value| clean(value, uids));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| clean(item, uids)),
        Value::String(text) => *text = without_identities(text),
        _ => {}
    }
}

/// Maps that were added are members of the set of an update, which says nothing about conflicts.
fn drop_dots(fields: &mut Value) {
    if let Value::Object(map) = fields {
        map.remove(".");
        map.values_mut().for_each(drop_dots);
    }
}

/// Replaces uids in a text.
fn without_identities(text: &str) -> String {
    let is_uid = |word: &str| word.len() == 36 && word.matches('-').count() == 4;
    let words = text.split_inclusive([' ', ',', '"']);
    words
        .map(|word| {
            let core = word.trim_end_matches([' ', ',', '"']);
            if is_uid(core) {
                word.replace(core, "uid")
            } else {
                word.to_owned()
            }
        })
        .collect()
}
