//! Merging an applied configuration into an object.

use serde_json::{Map, Value};

use super::walk::item_step;
use crate::schema::{ListKind, Shape, Typing};

/// Merges an applied configuration into a live object: scalars, atomic maps and atomic lists are replaced, other maps and keyed
/// lists are merged.
pub(super) fn merge(live: &Value, config: &Value, typing: Typing<'_>) -> Value {
    match (live, config) {
        // A null says nothing about a map or list whose content is merged.
        (Value::Object(map), Value::Null) if !map.is_empty() && matches!(typing.shape(live), Shape::Map) => {
            live.clone()
        }
        (Value::Array(list), Value::Null)
            if !list.is_empty() && matches!(typing.shape(live), Shape::List(_)) =>
        {
            live.clone()
        }
        (Value::Object(live), Value::Object(map)) if matches!(typing.shape(config), Shape::Map) => {
            let both = |name: &String, have: &Value| match map.get(name) {
                Some(value) => merge(have, value, typing.field(name)),
                None => have.clone(),
            };
            let kept = live.iter().map(|(name, have)| (name.clone(), both(name, have)));
            let mut merged: Map<String, Value> = kept.collect();
            let added = map.iter().filter(|(name, _)| !live.contains_key(*name));
            merged.extend(added.map(|(name, value)| (name.clone(), value.clone())));
            Value::Object(merged)
        }
        (Value::Array(live), Value::Array(items)) => match typing.shape(config) {
            Shape::List(kind) if !(live.is_empty() && items.is_empty()) => {
                merge_lists(live, items, kind, typing).into()
            }
            _ => config.clone(),
        },
        _ => config.clone(),
    }
}

/// Merges lists item by item. Items of both are in the order of the configuration; those of the live list alone stay between
/// them where they were.
fn merge_lists(live: &[Value], config: &[Value], kind: &ListKind, typing: Typing<'_>) -> Vec<Value> {
    let step = |item: &Value| item_step(item, kind, typing).unwrap_or_default();
    let live: Vec<(String, &Value)> = live.iter().map(|item| (step(item), item)).collect();
    let config: Vec<(String, &Value)> = config.iter().map(|item| (step(item), item)).collect();
    let in_live = |step: &str| live.iter().find(|(have, _)| have == step).map(|(_, item)| *item);
    let in_config = |step: &str| config.iter().any(|(have, _)| have == step);
    let both = |item: &Value, step: &str| {
        in_live(step).map_or_else(|| item.clone(), |have| merge(have, item, typing.item()))
    };
    let mut shared = config
        .iter()
        .map(|(step, _)| step)
        .filter(|step| in_live(step).is_some());
    let mut next_shared = shared.next();
    let mut taken: Vec<&str> = Vec::new();
    let mut out = Vec::new();
    let (mut left, mut right) = (0, 0);
    while left < live.len() || right < config.len() {
        if let (Some((step, _)), Some((other, item))) = (live.get(left), config.get(right)) {
            if step == other {
                taken.push(other);
                out.push(both(item, other));
                (left, right) = (left + 1, right + 1);
                next_shared = shared.next();
                continue;
            }
            if in_config(step) && next_shared.is_some_and(|next| next != step) {
                // It comes later, in the order of the configuration.
                left += 1;
                continue;
            }
        }
        if let Some((step, item)) = live.get(left) {
            if !in_config(step) {
                out.push((*item).clone());
                left += 1;
                continue;
            }
            if taken.contains(&step.as_str()) {
                left += 1;
            }
        }
        if let Some((step, item)) = config.get(right) {
            taken.push(step);
            out.push(both(item, step));
            right += 1;
            if next_shared == Some(step) {
                next_shared = shared.next();
            }
        }
    }
    out
}
