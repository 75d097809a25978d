//! Merging an applied configuration into an object, and removing fields that nobody owns any more.

use serde_json::Value;

use super::set::{STEP, item_key, position};
use crate::schema::{ListKind, Typing};

/// Merges an applied configuration into a live object: scalars, atomic maps and atomic lists are replaced, other maps and keyed
/// lists are merged.
pub fn merge(live: &mut Value, config: &Value, typing: Typing<'_>) {
    match (live, config) {
        (Value::Object(live), Value::Object(config)) if !typing.is_atomic_map() => {
            for (key, value) in config {
                match live.get_mut(key) {
                    Some(have) => merge(have, value, typing.field(key)),
                    None => {
                        live.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(live), Value::Array(config)) => match typing.list(config) {
            ListKind::Atomic => live.clone_from(config),
            ListKind::Set => {
                for item in config {
                    if !live.contains(item) {
                        live.push(item.clone());
                    }
                }
            }
            ListKind::Keyed(keys) => {
                let typing = typing.item();
                for item in config {
                    let step = format!("k:{}", item_key(item, keys, typing));
                    match position(live, &step) {
                        Some(at) => merge(&mut live[at], item, typing),
                        None => live.push(item.clone()),
                    }
                }
            }
        },
        (live, config) => *live = config.clone(),
    }
}

/// Removes the value at a path, and containers that become empty, up to one in `keep`.
pub fn remove(object: &mut Value, path: &str, keep: impl Fn(&str) -> bool) {
    let mut path = path;
    loop {
        let (parent, step) = path.rsplit_once(STEP).unwrap_or(("", path));
        let Some(container) = find_mut(object, parent) else {
            return;
        };
        let is_empty = match container {
            Value::Object(map) => {
                map.remove(step.strip_prefix("f:").unwrap_or(step));
                map.is_empty()
            }
            Value::Array(items) => {
                if let Some(at) = position(items, step) {
                    items.remove(at);
                }
                items.is_empty()
            }
            _ => return,
        };
        if !is_empty || parent.is_empty() || keep(parent) {
            return;
        }
        path = parent;
    }
}

fn find_mut<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut steps = path.split(STEP).filter(|step| !step.is_empty());
    steps.try_fold(object, |current, step| match step.strip_prefix("f:") {
        Some(field) => current.get_mut(field),
        None => {
            let items = current.as_array_mut()?;
            position(items, step).map(|at| &mut items[at])
        }
    })
}
