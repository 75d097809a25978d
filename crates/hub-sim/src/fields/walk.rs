//! Walks through objects by the merge rules of their schema: which fields an object has, what differs between two objects, and
//! what is left of one when fields are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::set::{FieldSet, STEP, STEP_TEXT};
use crate::schema::{ListKind, Shape, Typing};

/// What differs between two objects. Maps and items that exist on one side only are members, too.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

impl Comparison {
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// What is new or has another value.
    pub fn changed(&self) -> FieldSet {
        self.added.union(&self.modified)
    }

    pub fn filter(&self, keep: impl Fn(&str) -> bool) -> Self {
        Self {
            added: self.added.filter(&keep),
            modified: self.modified.filter(&keep),
            removed: self.removed.filter(&keep),
        }
    }
}

/// Compares two objects.
pub(super) fn compare(before: &Value, after: &Value, typing: Typing<'_>) -> Comparison {
    let mut walk = CompareWalk::default();
    walk.at(Some(before), Some(after), typing, "");
    let [added, modified, removed] = [walk.added, walk.modified, walk.removed].map(FieldSet::from_iter);
    Comparison {
        added,
        modified,
        removed,
    }
}

#[derive(Default)]
struct CompareWalk {
    added: Vec<Arc<str>>,
    modified: Vec<Arc<str>>,
    removed: Vec<Arc<str>>,
}

impl CompareWalk {
    fn at(&mut self, before: Option<&Value>, after: Option<&Value>, typing: Typing<'_>, path: &str) {
        if before.is_none() || before != after {
            self.differing(before, after, typing, path);
        }
    }

    /// The same for values that differ.
    fn differing(&mut self, before: Option<&Value>, after: Option<&Value>, typing: Typing<'_>, path: &str) {
        let both_empty = before.is_none_or(is_empty) && after.is_none_or(is_empty);
        let shaping = after.filter(|value| !value.is_null()).or(before);
        let shape = shaping.map_or(Shape::Leaf, |value| typing.shape(value));
        match shape {
            Shape::Map if !both_empty => {
                for name in names(before, after) {
                    let (one, two) = (
                        before.and_then(|map| map.get(name)),
                        after.and_then(|map| map.get(name)),
                    );
                    if one != two {
                        self.differing(one, two, typing.field(name), &step(path, "f:", name));
                    }
                }
            }
            Shape::List(kind) if !both_empty => {
                let (one, two) = (items(before, kind, typing), items(after, kind, typing));
                let keys: BTreeSet<&String> = one.iter().chain(&two).map(|(key, _)| key).collect();
                for key in keys {
                    self.at(
                        find(&one, key),
                        find(&two, key),
                        typing.item(),
                        &step(path, "", key),
                    );
                }
            }
            _ => {
                if before.is_some() && after.is_some() {
                    self.modified.push(path.into());
                    return;
                }
            }
        }
        if path.is_empty() {
            return;
        }
        match (before, after) {
            (None, _) => self.added.push(path.into()),
            (_, None) => self.removed.push(path.into()),
            _ => {}
        }
    }
}

fn find<'v>(items: &[(String, &'v Value)], key: &str) -> Option<&'v Value> {
    let found = items.iter().find(|(have, _)| have == key);
    found.map(|(_, item)| *item)
}

/// The fields that an object has, as an applied configuration owns them.
pub(super) fn fields_of(object: &Value, typing: Typing<'_>) -> FieldSet {
    let mut paths = Vec::new();
    collect(object, typing, "", &mut paths);
    paths.into_iter().collect()
}

fn collect(value: &Value, typing: Typing<'_>, path: &str, out: &mut Vec<Arc<str>>) {
    match typing.shape(value) {
        Shape::Map => {
            for (name, value) in value.as_object().into_iter().flatten() {
                let path = step(path, "f:", name);
                collect(value, typing.field(name), &path, out);
                let is_empty_map = value.as_object().is_some_and(Map::is_empty);
                if value.is_null() || is_empty_map || !typing.declares(name) {
                    out.push(path.into());
                }
            }
        }
        Shape::List(kind) => {
            for (key, item) in items(Some(value), kind, typing) {
                let path = step(path, "", &key);
                collect(item, typing.item(), &path, out);
                out.push(path.into());
            }
        }
        Shape::Leaf => out.push(path.into()),
    }
}

/// Makes members of all declared fields above the members of a set.
pub(super) fn with_named_parents(set: &FieldSet, typing: Typing<'_>) -> FieldSet {
    let mut paths: Vec<Arc<str>> = set.iter().map(Arc::from).collect();
    let mut last = "";
    for path in set.iter() {
        let (mut at, mut from) = (typing, 0);
        for part in path.split(STEP) {
            let end = from + part.len();
            if let Some(name) = part.strip_prefix("f:") {
                // What is above the path before is there already.
                let above = &path[..end];
                let is_known = last
                    .strip_prefix(above)
                    .is_some_and(|rest| rest.starts_with(STEP));
                if end < path.len() && !is_known && at.declares(name) {
                    paths.push(above.into());
                }
                at = at.field(name);
            } else {
                at = at.item();
            }
            from = end + STEP.len_utf8();
        }
        last = path;
    }
    paths.into_iter().collect()
}

/// The object without the fields in a set. What is emptied by that becomes `null`.
pub(super) fn without(object: &Value, set: &FieldSet, typing: Typing<'_>) -> Value {
    without_at(object, set, typing, "")
}

fn without_at(value: &Value, set: &FieldSet, typing: Typing<'_>, path: &str) -> Value {
    let next = |value: &Value, typing: Typing<'_>, path: String| -> Option<Value> {
        if set.has(&path) {
            None
        } else if set.has_below(&path) {
            Some(without_at(value, set, typing, &path))
        } else {
            Some(value.clone())
        }
    };
    match (typing.shape(value), value) {
        (Shape::Map, Value::Object(map)) => {
            let kept = map.iter().filter_map(|(name, value)| {
                let value = next(value, typing.field(name), step(path, "f:", name))?;
                Some((name.clone(), value))
            });
            let kept: Map<String, Value> = kept.collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Object(kept)
            }
        }
        (Shape::List(kind), Value::Array(items)) => {
            let kept = items
                .iter()
                .filter_map(|item| match item_step(item, kind, typing) {
                    Some(key) => next(item, typing.item(), step(path, "", &key)),
                    None => Some(item.clone()),
                });
            let kept: Vec<Value> = kept.collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Array(kept)
            }
        }
        // Atomic maps and lists are removed as a whole or not at all.
        (_, Value::Object(_) | Value::Array(_)) => Value::Null,
        (_, scalar) => scalar.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The names of the fields of both, each once. Their order does not matter.
fn names<'a>(one: Option<&'a Value>, two: Option<&'a Value>) -> impl Iterator<Item = &'a String> {
    let [one, two] = [one, two].map(|value| value.and_then(Value::as_object));
    let in_one = move |name: &&String| one.is_some_and(|map| map.contains_key(*name));
    let only_in_two = two
        .into_iter()
        .flat_map(Map::keys)
        .filter(move |name| !in_one(name));
    one.into_iter().flat_map(Map::keys).chain(only_in_two)
}

/// The items of a list with their steps, each step once.
pub(super) fn items<'v>(
    list: Option<&'v Value>,
    kind: &ListKind,
    typing: Typing<'_>,
) -> Vec<(String, &'v Value)> {
    let mut found: Vec<(String, &Value)> = Vec::new();
    for item in list.and_then(Value::as_array).into_iter().flatten() {
        if let Some(step) = item_step(item, kind, typing)
            && !found.iter().any(|(have, _)| *have == step)
        {
            found.push((step, item));
        }
    }
    found
}

/// The step to an item of a list. A key that is absent has the default of the schema.
pub(super) fn item_step(item: &Value, kind: &ListKind, typing: Typing<'_>) -> Option<String> {
    match kind {
        ListKind::Atomic => None,
        ListKind::Set => Some(format!("v:{item}")),
        ListKind::Keyed(keys) => {
            let typing = typing.item();
            let value = |key: &str| item.get(key).or_else(|| typing.default_of(key));
            let pairs = keys.iter().filter_map(|key| Some((key, value(key)?)));
            let pairs: BTreeMap<&String, &Value> = pairs.collect();
            let json = serde_json::to_string(&pairs).ok()?;
            (!pairs.is_empty()).then(|| ["k:", &json].concat())
        }
    }
}

fn step(path: &str, kind: &str, name: &str) -> String {
    if path.is_empty() {
        [kind, name].concat()
    } else {
        [path, STEP_TEXT, kind, name].concat()
    }
}
