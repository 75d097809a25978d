//! Sets of the fields of an object or a configuration, and merging and removing by them. This is the subset of
//! structured-merge-diff that server-side apply needs.

use serde_json::{Map, Value};

use super::schema::{ListKind, Schema};

/// Separates the steps of a path. Steps are `f:<field>`, `k:<key object>` and `v:<scalar>` as in `managedFields`.
const STEP: char = '\u{1}';

/// A set of field paths, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(Vec<Box<str>>);

impl FieldSet {
    /// The leaves of an object, without type, identity, status and metadata that the server sets.
    #[must_use]
    pub fn of(object: &Value, schema: Schema) -> Self {
        let mut paths = Vec::new();
        let Some(map) = object.as_object() else {
            return Self::default();
        };
        for (field, value) in map {
            match field.as_str() {
                "apiVersion" | "kind" | "status" => {}
                "metadata" => {
                    for (field, value) in value.as_object().into_iter().flatten() {
                        if matches!(field.as_str(), "labels" | "annotations" | "finalizers") {
                            let path = format!("f:metadata{STEP}f:{field}");
                            leaves(value, field, &path, schema, &mut paths);
                        }
                    }
                }
                _ => leaves(value, field, &format!("f:{field}"), schema, &mut paths),
            }
        }
        paths.sort_unstable();
        paths.dedup();
        Self(paths)
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The paths in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// Whether the path itself or anything below it is in the set.
    #[must_use]
    pub fn holds(&self, path: &str) -> bool {
        let at = self.0.partition_point(|have| have.as_ref() < path);
        self.0[at..]
            .iter()
            .take_while(|have| have.starts_with(path))
            .any(|have| have.len() == path.len() || have[path.len()..].starts_with(STEP))
    }

    /// Paths in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.filter(|path| other.has(path))
    }

    /// Paths of `self` that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.filter(|path| !other.has(path))
    }

    /// Paths in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut paths: Vec<_> = self.0.iter().chain(&other.0).cloned().collect();
        paths.sort_unstable();
        paths.dedup();
        Self(paths)
    }

    /// The paths of this set whose value in `wanted` differs from `live` or is absent there. An empty map matches any existing
    /// map.
    #[must_use]
    pub fn differing(&self, wanted: &Value, live: &Value) -> Self {
        self.filter(|path| {
            let (wanted, live) = (find(wanted, path), find(live, path));
            let is_item = path
                .rsplit(STEP)
                .next()
                .is_some_and(|step| step.starts_with("k:"));
            match (wanted, live) {
                (Some(Value::Object(wanted)), Some(Value::Object(_))) if wanted.is_empty() => false,
                (wanted, live) if is_item => wanted.is_some() != live.is_some(),
                (wanted, live) => wanted != live,
            }
        })
    }

    /// The paths as the API server prints them: `.spec.containers[name="web"].image`.
    #[must_use]
    pub fn readable(&self) -> Vec<String> {
        self.0
            .iter()
            .map(|path| path.split(STEP).map(readable_step).collect())
            .collect()
    }

    /// Whether the path itself is in the set.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.0.binary_search_by(|have| have.as_ref().cmp(path)).is_ok()
    }

    fn filter(&self, keep: impl Fn(&str) -> bool) -> Self {
        Self(self.0.iter().filter(|path| keep(path)).cloned().collect())
    }
}

fn readable_step(step: &str) -> String {
    match step.split_at(2) {
        ("k:", key) => {
            let keys: Map<String, Value> = serde_json::from_str(key).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        ("v:", value) => format!("[={value}]"),
        (_, field) => format!(".{field}"),
    }
}

fn leaves(value: &Value, field: &str, path: &str, schema: Schema, out: &mut Vec<Box<str>>) {
    match value {
        Value::Object(map) if !map.is_empty() && !schema.is_atomic_map(field) => {
            for (key, value) in map {
                leaves(value, key, &format!("{path}{STEP}f:{key}"), schema, out);
            }
        }
        Value::Array(items) if !items.is_empty() => match schema.list(field, items) {
            ListKind::Atomic => out.push(path.into()),
            ListKind::Set => out.extend(
                items
                    .iter()
                    .map(|item| format!("{path}{STEP}v:{item}").into_boxed_str()),
            ),
            ListKind::Keyed(keys) => {
                for item in items {
                    let path = format!("{path}{STEP}k:{}", item_key(item, keys));
                    out.push(path.as_str().into());
                    for (key, value) in item.as_object().into_iter().flatten() {
                        leaves(value, key, &format!("{path}{STEP}f:{key}"), schema, out);
                    }
                }
            }
        },
        _ => out.push(path.into()),
    }
}

/// The key object of a list item. `protocol` defaults to TCP, as in all keyed lists that have it.
fn item_key(item: &Value, keys: &[&str]) -> Value {
    let default = |key: &str| {
        if key == "protocol" {
            Value::from("TCP")
        } else {
            Value::Null
        }
    };
    keys.iter()
        .map(|key| {
            (
                (*key).to_owned(),
                item.get(*key).cloned().unwrap_or_else(|| default(key)),
            )
        })
        .collect::<Map<_, _>>()
        .into()
}

fn has_key(item: &Value, key: &Map<String, Value>) -> bool {
    key.iter().all(|(name, value)| match item.get(name) {
        Some(have) => have == value,
        None => name == "protocol" && value == "TCP",
    })
}

fn position(items: &[Value], step: &str) -> Option<usize> {
    match step.split_at(2) {
        ("k:", key) => {
            let key: Map<String, Value> = serde_json::from_str(key).ok()?;
            items.iter().position(|item| has_key(item, &key))
        }
        ("v:", value) => items.iter().position(|item| *item == value),
        _ => None,
    }
}

fn find<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split(STEP)
        .try_fold(object, |current, step| match step.strip_prefix("f:") {
            Some(field) => current.get(field),
            None => current
                .as_array()
                .and_then(|items| position(items, step).map(|at| &items[at])),
        })
}

/// Removes the value at a path, and containers that become empty, up to one in `keep`.
pub(super) fn remove(object: &mut Value, path: &str, keep: impl Fn(&str) -> bool) {
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
    path.split(STEP)
        .filter(|step| !step.is_empty())
        .try_fold(object, |current, step| match step.strip_prefix("f:") {
            Some(field) => current.get_mut(field),
            None => current
                .as_array_mut()
                .and_then(|items| position(items, step).map(|at| &mut items[at])),
        })
}

/// Merges an applied configuration into a live object: scalars, atomic maps and atomic lists are replaced,
/// granular maps and keyed lists merged.
pub fn merge(live: &mut Value, config: &Value, schema: Schema) {
    merge_field(live, config, "", schema);
}

fn merge_field(live: &mut Value, config: &Value, field: &str, schema: Schema) {
    match (live, config) {
        (Value::Object(live), Value::Object(config)) if !schema.is_atomic_map(field) => {
            for (key, value) in config {
                match live.get_mut(key) {
                    Some(have) => merge_field(have, value, key, schema),
                    None => {
                        live.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(live), Value::Array(config)) if !config.is_empty() => {
            match schema.list(field, config) {
                ListKind::Atomic => live.clone_from(config),
                ListKind::Set => {
                    for item in config {
                        if !live.contains(item) {
                            live.push(item.clone());
                        }
                    }
                }
                ListKind::Keyed(keys) => {
                    for item in config {
                        let step = format!("k:{}", item_key(item, keys));
                        match position(live, &step) {
                            Some(at) => merge_field(&mut live[at], item, "", schema),
                            None => live.push(item.clone()),
                        }
                    }
                }
            }
        }
        (live, config) => *live = config.clone(),
    }
}
