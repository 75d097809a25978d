//! kubectl's JSONPath dialect, as the work agent evaluates it: `{<path>}` with missing keys allowed.
//!
//! This module evaluates paths; `jsonpath/parse.rs` parses them. Errors have the texts of client-go, because they appear in
//! `StatusFeedbackSynced`. Maps are walked in the order of their keys, while client-go's order is random.

mod parse;
mod syntax;

use serde_json::Value;

use self::syntax::{End, Node, Slice};

/// A compiled path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Node>);

impl JsonPath {
    /// Compiles a path written without braces.
    ///
    /// # Errors
    /// The error text of client-go.
    pub fn parse(path: &str) -> Result<Self, String> {
        parse::parse(path).map(Self)
    }

    /// All matches in order. An absent key or a null in the path gives no match.
    ///
    /// # Errors
    /// The error text of client-go: an index out of bounds, a filter on something other than a list, an impossible comparison.
    pub fn find<'a>(&'a self, data: &'a Value) -> Result<Vec<&'a Value>, String> {
        walk(&self.0, vec![data])
    }
}

fn walk<'a>(nodes: &'a [Node], start: Vec<&'a Value>) -> Result<Vec<&'a Value>, String> {
    nodes.iter().try_fold(start, |current, node| step(node, &current))
}

fn step<'a>(node: &'a Node, input: &[&'a Value]) -> Result<Vec<&'a Value>, String> {
    let mut out = Vec::new();
    match node {
        Node::Field(name) => out.extend(input.iter().filter_map(|value| value.as_object()?.get(name))),
        Node::Wildcard => input.iter().for_each(|value| out.extend(children(value))),
        Node::Recursive => recurse(input, &mut out),
        Node::Slice(slice) => {
            for value in input.iter().filter(|value| !value.is_null()) {
                let items = value
                    .as_array()
                    .ok_or_else(|| format!("{} is not array or slice", go_type(value)))?;
                cut(*slice, items, &mut out)?;
            }
        }
        Node::Union(parts) => {
            for part in parts {
                out.extend(walk(part, input.to_vec())?);
            }
        }
        Node::Exists(left) => {
            for item in filterable(input)? {
                // client-go returns the input with an error and then only checks its length.
                if walk(left, vec![item]).map_or(true, |found| !found.is_empty()) {
                    out.push(item);
                }
            }
        }
        Node::Compare {
            left,
            operator,
            right,
        } => {
            for item in filterable(input)? {
                if let Some(left) = single(&walk(left, vec![item])?)?
                    && let Some(right) = single(&walk(right, vec![item])?)?
                    && compare(left, operator, right)?
                {
                    out.push(item);
                }
            }
        }
        Node::Literal(value) => out.extend(input.iter().map(|_| value)),
        Node::Identifier(name) => return Err(format!("unrecognized identifier {name}")),
    }
    Ok(out)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(map) => map.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

fn recurse<'a>(input: &[&'a Value], out: &mut Vec<&'a Value>) {
    for value in input {
        let below = children(value);
        let has_parts = !below.is_empty() || value.as_str().is_some_and(|text| !text.is_empty());
        if has_parts {
            out.push(value);
            recurse(&below, out);
        }
    }
}

fn cut<'a>(slice: Slice, items: &'a [Value], out: &mut Vec<&'a Value>) -> Result<(), String> {
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let wrap = |index: i64| if index < 0 { index + length } else { index };
    let start = wrap(slice.start.unwrap_or(0));
    let end = match slice.end {
        End::Open => length,
        End::At(end) => wrap(end),
        // One past a negative start counted from the end; -1 ends at the end.
        End::Single => match slice.start.unwrap_or(0) + 1 {
            0 => length,
            end => wrap(end),
        },
    };
    if start == end {
        return Ok(());
    }
    let out_of_bounds = |index: i64| {
        Err(format!(
            "array index out of bounds: index {index}, length {length}"
        ))
    };
    if start >= length || start < 0 {
        return out_of_bounds(start);
    }
    if end > length || end < 0 {
        return out_of_bounds(end - 1);
    }
    if start > end {
        return Err(format!(
            "starting index {start} is greater than ending index {end}"
        ));
    }
    let step = slice.step.unwrap_or(1);
    if step <= 0 {
        return Err("step must be > 0".to_owned());
    }
    let (start, end) = (
        usize::try_from(start).unwrap_or(0),
        usize::try_from(end).unwrap_or(0),
    );
    out.extend(
        items[start..end]
            .iter()
            .step_by(usize::try_from(step).unwrap_or(1)),
    );
    Ok(())
}

fn filterable<'a>(input: &[&'a Value]) -> Result<Vec<&'a Value>, String> {
    let mut items = Vec::new();
    for value in input {
        match value.as_array() {
            Some(list) => items.extend(list),
            None => {
                return Err(format!(
                    "{} is not array or slice and cannot be filtered",
                    go_text(value)
                ));
            }
        }
    }
    Ok(items)
}

fn single<'a>(found: &[&'a Value]) -> Result<Option<&'a Value>, String> {
    match found {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => Err("can only compare one element at a time".to_owned()),
    }
}

fn compare(left: &Value, operator: &str, right: &Value) -> Result<bool, String> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let incompatible = || Err("incompatible types for comparison".to_owned());
    let ordering = match (left, right) {
        (Value::Null | Value::Array(_) | Value::Object(_), _)
        | (_, Value::Null | Value::Array(_) | Value::Object(_)) => {
            return Err("invalid type for comparison".to_owned());
        }
        (Value::Bool(a), Value::Bool(b)) if matches!(operator, "==" | "!=") => Some(a.cmp(b)),
        (Value::Bool(_), Value::Bool(_)) => return Err("invalid type for comparison".to_owned()),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            (None, None) => a.as_f64().partial_cmp(&b.as_f64()),
            _ => return incompatible(),
        },
        _ => return incompatible(),
    };
    Ok(match operator {
        "==" => ordering == Some(Equal),
        "!=" => ordering != Some(Equal),
        "<" => ordering == Some(Less),
        ">" => ordering == Some(Greater),
        "<=" => matches!(ordering, Some(Less | Equal)),
        ">=" => matches!(ordering, Some(Greater | Equal)),
        other => return Err(format!("unrecognized filter operator {other}")),
    })
}

/// The Go type of an unstructured value.
#[must_use]
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Go's `%v` of an unstructured value.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let entries: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{key}:{}", go_text(value)))
                .collect();
            format!("map[{}]", entries.join(" "))
        }
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests;
