//! Tables for `kubectl get`.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::kind::{Column, Kind};
use crate::object::Object;

/// The columns of a kind; those without any of its own show the age.
pub(super) fn columns(kind: &Kind) -> Vec<Column> {
    if !kind.columns.is_empty() {
        return kind.columns.clone();
    }
    vec![Column {
        name: "Age".to_owned(),
        of: if kind.is_custom { "date" } else { "string" }.to_owned(),
        path: ".metadata.creationTimestamp".to_owned(),
        priority: 0,
        is_native: !kind.is_custom,
    }]
}

/// A table of objects.
pub(super) fn table(
    columns: &[Column],
    objects: &[&Object],
    metadata: &Value,
    managed_fields: bool,
    now: DateTime<Utc>,
) -> Value {
    let name = json!({"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0});
    let definitions = columns.iter().map(|column| {
        json!({"name": column.name, "type": column.of, "format": "", "description": "", "priority": column.priority})
    });
    let definitions: Vec<Value> = std::iter::once(name).chain(definitions).collect();
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| row(columns, object, managed_fields, now))
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

fn row(columns: &[Column], object: &Object, managed_fields: bool, now: DateTime<Utc>) -> Value {
    let value = if managed_fields {
        Arc::new(object.full_value())
    } else {
        object.value()
    };
    let cells = columns.iter().map(|column| cell(column, &value, now));
    let cells: Vec<Value> = std::iter::once(Value::from(object.name())).chain(cells).collect();
    let partial = json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": value.get("metadata"),
    });
    json!({"cells": cells, "object": partial})
}

fn cell(column: &Column, object: &Value, now: DateTime<Utc>) -> Value {
    let native = column.is_native.then_some(column.name.as_str());
    let is_time = column.of == "date" || matches!(native, Some("Age" | "Last Seen"));
    if native == Some("Data") {
        let parts = ["data", "binaryData"]
            .into_iter()
            .filter_map(|part| object.get(part)?.as_object());
        return parts.map(serde_json::Map::len).sum::<usize>().into();
    }
    let Some(found) = find(object, &column.path) else {
        return if is_time {
            "<unknown>".into()
        } else if native.is_some() {
            "".into()
        } else {
            Value::Null
        };
    };
    if is_time {
        let at = found
            .as_str()
            .and_then(|text| DateTime::parse_from_rfc3339(text).ok());
        return at.map_or_else(
            || "<invalid>".into(),
            |at| age(now, at.with_timezone(&Utc)).into(),
        );
    }
    found.clone()
}

/// The first value at a path such as `.status.conditions[?(@.type=="Ready")].status`, the only form of filter that printer columns
/// use.
fn find<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut at = object;
    let mut rest = path.trim_start_matches('.');
    while !rest.is_empty() {
        let (field, after) = rest.split_at(end_of_name(rest));
        if !field.is_empty() {
            at = at.get(field.replace("\\.", ".").as_str())?;
        }
        rest = after.trim_start_matches('.');
        if let Some(inside) = after.strip_prefix('[') {
            let (filter, after) = inside.split_once(']')?;
            at = item(at.as_array()?, filter)?;
            rest = after.trim_start_matches('.');
        }
    }
    Some(at)
}

/// Where the name at the beginning of a path ends. A dot after a backslash is part of it, as in `labels.example\.com/team`.
fn end_of_name(path: &str) -> usize {
    let mut before = ' ';
    for (at, c) in path.char_indices() {
        if c == '[' || (c == '.' && before != '\\') {
            return at;
        }
        before = c;
    }
    path.len()
}

fn item<'a>(items: &'a [Value], filter: &str) -> Option<&'a Value> {
    if let Ok(number) = filter.parse::<usize>() {
        return items.get(number);
    }
    if filter == "*" {
        return items.first();
    }
    let inner = filter.strip_prefix("?(@.")?.strip_suffix(')')?;
    let (field, wanted) = inner.split_once("==")?;
    let wanted = wanted.trim().trim_matches(['"', '\'']);
    items
        .iter()
        .find(|item| item.get(field.trim()).and_then(Value::as_str) == Some(wanted))
}

/// The age as kubectl writes it: `45s`, `12m`, `3h`, `5d`.
fn age(now: DateTime<Utc>, at: DateTime<Utc>) -> String {
    let seconds = (now - at).num_seconds().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 if seconds % 60 > 0 => format!("{minutes}m{}s", seconds % 60),
        120..10_800 => format!("{minutes}m"),
        10_800..172_800 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_finds_fields_labels_and_conditions() {
        let object = json!({
            "metadata": {"labels": {"example.com/team": "a"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        for (path, found) in [
            (".metadata.labels.example\\.com/team", Some("a")),
            (".status.conditions[?(@.type==\"Ready\")].status", Some("True")),
            (".status.conditions[0].status", Some("True")),
            (".status.conditions[*].status", Some("True")),
            (".spec.clients[*].url", None),
            (".metadata.labels.example.com/team", None),
        ] {
            assert_eq!(find(&object, path).and_then(Value::as_str), found, "{path}");
        }
    }
}
