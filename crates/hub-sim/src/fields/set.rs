//! Sets of the fields of an object or a configuration: the subset of structured-merge-diff that server-side apply needs.

use serde_json::{Map, Value};

use crate::schema::{ListKind, Typing};

/// Separates the steps of a path. Steps are `f:<field>`, `k:<key object>` and `v:<scalar>` as in `managedFields`.
pub(super) const STEP: char = '\u{1}';

/// A set of field paths, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(Vec<Box<str>>);

impl FieldSet {
    /// The fields of an object or configuration that can have owners: all but type, identity and metadata that the server sets.
    #[must_use]
    pub fn of(object: &Value, typing: Typing<'_>) -> Self {
        Self::of_fields(object, typing, |field| !matches!(field, "apiVersion" | "kind"))
    }

    /// The same, of the top-level fields for which `take` is true.
    #[must_use]
    pub fn of_fields(object: &Value, typing: Typing<'_>, take: impl Fn(&str) -> bool) -> Self {
        let mut paths = Vec::new();
        for (field, value) in object
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(field, _)| take(field))
        {
            let typing = typing.field(field);
            if field == "metadata" {
                for (field, value) in value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(field, _)| is_owned(field))
                {
                    leaves(
                        value,
                        &format!("f:metadata{STEP}f:{field}"),
                        typing.field(field),
                        &mut paths,
                    );
                }
            } else {
                leaves(value, &format!("f:{field}"), typing, &mut paths);
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
        self.iter()
            .map(|path| path.split(STEP).map(readable_step).collect())
            .collect()
    }

    /// The paths as `fieldsV1` of `managedFields`.
    #[must_use]
    pub fn to_fields_v1(&self) -> Value {
        let mut root = Map::new();
        for path in self.iter() {
            let mut at = &mut root;
            let mut steps = path.split(STEP).peekable();
            while let Some(step) = steps.next() {
                let child = at
                    .entry(step.to_owned())
                    .or_insert_with(|| Value::Object(Map::new()));
                let Value::Object(map) = child else { break };
                // An item of a list is itself a member of the set, which is written as a dot.
                if steps.peek().is_none() && step.starts_with("k:") {
                    map.insert(".".to_owned(), Value::Object(Map::new()));
                }
                at = map;
            }
        }
        Value::Object(root)
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

/// Metadata that clients own; the server sets the rest.
fn is_owned(field: &str) -> bool {
    matches!(field, "labels" | "annotations" | "finalizers" | "ownerReferences")
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

fn leaves(value: &Value, path: &str, typing: Typing<'_>, out: &mut Vec<Box<str>>) {
    match value {
        Value::Object(map) if !map.is_empty() && !typing.is_atomic_map() => {
            for (key, value) in map {
                leaves(value, &format!("{path}{STEP}f:{key}"), typing.field(key), out);
            }
        }
        // An empty list of items that are merged has no field that could have an owner.
        Value::Array(items) => match typing.list(items) {
            ListKind::Atomic => out.push(path.into()),
            ListKind::Set => {
                out.extend(
                    items
                        .iter()
                        .map(|item| format!("{path}{STEP}v:{item}").into_boxed_str()),
                );
            }
            ListKind::Keyed(keys) => {
                let typing = typing.item();
                for item in items {
                    let path = format!("{path}{STEP}k:{}", item_key(item, keys, typing));
                    out.push(path.as_str().into());
                    for (key, value) in item.as_object().into_iter().flatten() {
                        leaves(value, &format!("{path}{STEP}f:{key}"), typing.field(key), out);
                    }
                }
            }
        },
        _ => out.push(path.into()),
    }
}

/// The key object of a list item. A key that is absent has the default of the schema.
pub(super) fn item_key(item: &Value, keys: &[String], typing: Typing<'_>) -> Value {
    let value = |key: &str| item.get(key).or_else(|| typing.default_of(key)).cloned();
    let pairs = keys.iter().filter_map(|key| Some((key.clone(), value(key)?)));
    pairs.collect::<Map<_, _>>().into()
}

fn has_key(item: &Value, key: &Map<String, Value>) -> bool {
    key.iter()
        .all(|(name, value)| item.get(name).is_none_or(|have| have == value))
}

/// Where the item of a step is in a list.
pub(super) fn position(items: &[Value], step: &str) -> Option<usize> {
    match step.split_at(2) {
        ("k:", key) => {
            let key: Map<String, Value> = serde_json::from_str(key).ok()?;
            items.iter().position(|item| has_key(item, &key))
        }
        ("v:", value) => items
            .iter()
            .position(|item| *item == value || item.to_string() == value),
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
