//! Strategic merge patches, which only kinds of Kubernetes take: as RFC 7396, but some lists are merged by a key or as sets, and
//! directives (`$patch`, `$retainKeys`, `$deleteFromPrimitiveList`, `$setElementOrder`) say what else is to be done.

use serde_json::{Map, Value};

const PATCH: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// How the items of a list are told apart.
#[derive(Clone, Copy)]
enum Merge {
    /// The list is one value.
    Replace,
    /// By their values.
    Set,
    /// By this field.
    Key(&'static str),
}

impl Merge {
    /// The lists of the kinds that the hub serves, by the names of the field and of the field above.
    fn of(above: &str, field: &str) -> Self {
        match (above, field) {
            ("metadata", "finalizers") => Self::Set,
            ("metadata", "ownerReferences") => Self::Key("uid"),
            ("", "secrets" | "imagePullSecrets") => Self::Key("name"),
            ("status", "conditions") => Self::Key("type"),
            _ => Self::Replace,
        }
    }

    fn is_same(self, one: &Value, two: &Value) -> bool {
        match self {
            Self::Key(key) => one.get(key).is_some() && one.get(key) == two.get(key),
            _ => one == two,
        }
    }
}

/// Applies a patch. `field` is the name of the field that is patched; empty for the object.
pub(super) fn merge(target: &mut Value, patch: &Value, field: &str) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    match patch.get(PATCH).and_then(Value::as_str) {
        Some("replace") => {
            let kept = patch.iter().filter(|(name, _)| *name != PATCH);
            *target = Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect());
            return;
        }
        Some("delete") => {
            *target = Value::Object(Map::new());
            return;
        }
        _ => {}
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(map) = target.as_object_mut() else { return };
    if let Some(kept) = patch.get(RETAIN).and_then(Value::as_array) {
        map.retain(|name, _| kept.iter().any(|kept| kept == name));
    }
    for (name, value) in patch {
        if name.starts_with('$') {
            continue;
        }
        if value.is_null() {
            map.remove(name);
        } else if let Some(items) = value.as_array() {
            let order = patch.get(&format!("{ORDER}{name}")).and_then(Value::as_array);
            let have = map
                .get(name)
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            map.insert(
                name.clone(),
                list(&have, items, order, Merge::of(field, name)).into(),
            );
        } else {
            // A directive about what does not exist says nothing.
            if map.contains_key(name) || value.get(PATCH).is_none() {
                merge(map.entry(name.clone()).or_insert(Value::Null), value, name);
            }
        }
    }
    directives(map, patch, field);
}

/// What directives say about lists that the patch does not name.
fn directives(map: &mut Map<String, Value>, patch: &Map<String, Value>, field: &str) {
    for (directive, value) in patch {
        let Some(items) = value.as_array() else { continue };
        if let Some(name) = directive.strip_prefix(DELETE)
            && let Some(have) = map.get_mut(name).and_then(Value::as_array_mut)
        {
            have.retain(|item| !items.contains(item));
        }
        if let Some(name) = directive.strip_prefix(ORDER)
            && !patch.contains_key(name)
            && let Some(have) = map.get(name).and_then(Value::as_array).cloned()
        {
            map.insert(
                name.to_owned(),
                list(&have, &[], Some(items), Merge::of(field, name)).into(),
            );
        }
    }
}

/// Merges a list. Items of the patch come in its order, and before those that only the object has unless these stood before.
fn list(have: &[Value], patch: &[Value], order: Option<&Vec<Value>>, how: Merge) -> Vec<Value> {
    if matches!(how, Merge::Replace) {
        return patch.to_vec();
    }
    let mut merged = have.to_vec();
    for item in patch {
        let found = merged.iter_mut().find(|one| how.is_same(one, item));
        let is_gone = item.get(PATCH).and_then(Value::as_str) == Some("delete");
        match found {
            Some(_) if is_gone => merged.retain(|one| !how.is_same(one, item)),
            Some(one) if item.is_object() => merge(one, item, ""),
            Some(_) => {}
            None if is_gone => {}
            None => merged.push(item.clone()),
        }
    }
    let order = order.map_or(patch, Vec::as_slice);
    let place = |list: &[Value], item: &Value| list.iter().position(|one| how.is_same(one, item));
    let (mut patched, others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(order, item).is_some());
    patched.sort_by_key(|item| place(order, item));
    let (mut patched, mut others) = (patched.into_iter().peekable(), others.into_iter().peekable());
    let mut sorted = Vec::new();
    while let (Some(one), Some(other)) = (patched.peek(), others.peek()) {
        let is_before = match (place(have, other), place(have, one)) {
            (Some(other), Some(one)) => other < one,
            _ => false,
        };
        sorted.extend(if is_before { others.next() } else { patched.next() });
    }
    sorted.extend(patched);
    sorted.extend(others);
    sorted
}
