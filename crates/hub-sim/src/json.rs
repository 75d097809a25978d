//! Reads and writes JSON that is nested deeply, as kube-apiserver does to a depth of 10,000.
//!
//! Everything in this crate walks through values by recursion, which a deep value would let overflow the stack. So what lies
//! deeper than [`SHALLOW`] levels is read as one text with a mark, and written as it came. Schemas are never that deep.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

use crate::schema::Path;

/// Deeper JSON is refused.
const DEEPEST: usize = 10_000;
/// What is deeper is not read but kept.
const SHALLOW: usize = 100;
/// The first letter of what is kept, a letter for private use.
const MARK: &str = "\u{f8ff}";
/// The first byte of the mark.
const MARK_BYTE: u8 = 0xef;

/// Why a text is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It is no JSON.
    Malformed,
    /// It is too deep, whatever it is.
    TooDeep,
}

/// Finds what lies below a value.
pub trait At {
    /// What is at a path such as `/metadata/name` or `/spec/items/0`: as [`Value::pointer`], but for names with `~`, and much faster.
    fn at(&self, path: &str) -> Option<&Value>;
}

impl At for Value {
    fn at(&self, path: &str) -> Option<&Value> {
        let mut names = path.split('/').skip(1);
        names.try_fold(self, |value, name| match value {
            Self::Object(fields) => fields.get(name),
            Self::Array(items) => items.get(name.parse::<usize>().ok()?),
            _ => None,
        })
    }
}

/// Reads JSON. `duplicates` receives the path of each field that is there twice; the last one counts.
pub(crate) fn parse(json: &[u8], duplicates: &mut Vec<String>) -> Result<Value, Unreadable> {
    if let Some(value) = read(json, duplicates) {
        return Ok(value);
    }
    let kept = keep(json)?.ok_or(Unreadable::Malformed)?;
    duplicates.clear();
    read(&kept, duplicates).ok_or(Unreadable::TooDeep)
}

/// Reads what this module has written.
pub(crate) fn stored(json: &str) -> Value {
    let value = serde_json::from_str(json);
    value.unwrap_or_else(|_| parse(json.as_bytes(), &mut Vec::new()).unwrap_or_default())
}

fn read(json: &[u8], duplicates: &mut Vec<String>) -> Option<Value> {
    let mut from = serde_json::Deserializer::from_slice(json);
    let reader = Reader {
        path: &Path::Root,
        duplicates,
    };
    let value = reader.deserialize(&mut from).ok()?;
    from.end().is_ok().then_some(value)
}

/// Makes a text of each subtree that is too deep to be read. `None` if there is none.
fn keep(json: &[u8]) -> Result<Option<Vec<u8>>, Unreadable> {
    let (mut out, mut kept) = (Vec::with_capacity(json.len()), Vec::new());
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_text, mut is_escaped) = (false, false);
    for &byte in json {
        let was_in_text = in_text;
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => depth += 1,
            _ => {}
        }
        deepest = deepest.max(depth);
        if deepest > DEEPEST {
            return Err(Unreadable::TooDeep);
        }
        if depth <= SHALLOW {
            out.push(byte);
        } else {
            // What a watch sends is one line.
            let is_space = !was_in_text && byte.is_ascii_whitespace();
            kept.push(if is_space { b' ' } else { byte });
        }
        if matches!(byte, b'}' | b']') && !was_in_text {
            depth = depth.saturating_sub(1);
            if depth == SHALLOW && !kept.is_empty() {
                let text = String::from_utf8(std::mem::take(&mut kept)).map_err(|_| Unreadable::Malformed)?;
                if !is_tree(&text) {
                    return Err(Unreadable::TooDeep);
                }
                out.extend(Value::from(format!("{MARK}{text}")).to_string().into_bytes());
            }
        }
    }
    Ok((deepest > SHALLOW).then_some(out))
}

/// Whether a text is a map or a list. This does not recurse.
fn is_tree(json: &str) -> bool {
    json.starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(json).is_ok()
}

/// Makes subtrees of their texts again, in what was appended to a text after `start`.
pub(crate) fn restore(text: &mut Vec<u8>, start: usize) {
    let appended = text.get(start..).unwrap_or_default();
    if !appended.contains(&MARK_BYTE) {
        return;
    }
    let Ok(appended) = std::str::from_utf8(appended) else {
        return;
    };
    let opening = format!("\"{MARK}");
    let (mut out, mut rest) = (String::with_capacity(appended.len()), appended);
    while let Some((before, found)) = rest.find(&opening).map(|at| rest.split_at(at)) {
        out.push_str(before);
        let mut texts = serde_json::Deserializer::from_str(found).into_iter::<String>();
        let kept = texts.next().and_then(Result::ok);
        // A text that is not closed ends nothing.
        let end = texts.byte_offset().max(opening.len());
        let (quoted, after) = found.split_at_checked(end).unwrap_or((found, ""));
        let tree = kept.as_deref().and_then(|kept| kept.strip_prefix(MARK));
        // The name of a field is a text, whatever it is.
        let tree = tree.filter(|tree| !after.starts_with(':') && is_tree(tree));
        out.push_str(tree.unwrap_or(quoted));
        rest = after;
    }
    out.push_str(rest);
    text.truncate(start);
    text.extend(out.into_bytes());
}

/// A value as JSON.
pub(crate) fn text_of(value: &Value) -> String {
    let mut text = value.to_string().into_bytes();
    restore(&mut text, 0);
    String::from_utf8(text).unwrap_or_default()
}

/// Reads a value and notes the fields that are there twice.
struct Reader<'a> {
    path: &'a Path<'a>,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let reader = Reader {
                path: &Path::Item(self.path, items.len()),
                duplicates: &mut *self.duplicates,
            };
            match from.next_element_seed(reader)? {
                Some(item) => items.push(item),
                None => return Ok(items.into()),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = from.next_key::<String>()? {
            let path = Path::Field(self.path, &name);
            let value = from.next_value_seed(Reader {
                path: &path,
                duplicates: &mut *self.duplicates,
            })?;
            match fields.entry(name) {
                Entry::Vacant(field) => {
                    field.insert(value);
                }
                Entry::Occupied(mut field) => {
                    let path = Path::Field(self.path, field.key());
                    self.duplicates.push(path.to_string());
                    field.insert(value);
                }
            }
        }
        Ok(fields.into())
    }
}

#[cfg(test)]
mod tests;
