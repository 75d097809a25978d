//! Decoding that never stops a watch. A subtree that does not have the expected shape is kept as an error text.
//!
//! One unreadable object makes one cluster Unknown, and the other objects of its list are still read
//! (`docs/design/rules.md#one-object-alone`). API servers accept JSON that is nested ten thousand levels deep, while
//! the JSON parsers used here read [`MAX_DEPTH`] levels. So a subtree is first captured as text, which works at any
//! depth, and then parsed separately.

use std::fmt;

use serde::de::{self, DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Number of nested lists and objects that the parser reads.
pub const MAX_DEPTH: usize = 127;
/// Number of levels that [`shallow`] reads. It is less than [`MAX_DEPTH`] because the document around the value adds
/// levels.
const SHOWN_DEPTH: usize = 100;
/// Longest error text, in bytes. The parser's text may quote the wrong value, however long that is.
const MAX_ERROR_BYTES: usize = 256;

/// A value that was decoded, was absent, or could not be decoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Lenient<T> {
    /// The key was missing or null.
    #[default]
    Absent,
    /// The value was decoded.
    Good(T),
    /// The subtree exists but has another shape; the text says what is wrong.
    Broken(String),
}

impl<T> Lenient<T> {
    /// The decoded value, if there is one.
    pub const fn good(&self) -> Option<&T> {
        match self {
            Lenient::Good(value) => Some(value),
            Lenient::Absent | Lenient::Broken(_) => None,
        }
    }

    /// The decoded value, if there is one.
    pub fn into_good(self) -> Option<T> {
        match self {
            Lenient::Good(value) => Some(value),
            Lenient::Absent | Lenient::Broken(_) => None,
        }
    }

    /// The error text of a broken subtree.
    pub fn error(&self) -> Option<&str> {
        match self {
            Lenient::Broken(error) => Some(error),
            Lenient::Absent | Lenient::Good(_) => None,
        }
    }
}

impl<T: DeserializeOwned> Lenient<T> {
    /// Reads a JSON text.
    #[must_use]
    pub fn read(text: &str) -> Lenient<T> {
        match serde_json::from_str::<Option<T>>(text) {
            Ok(value) => value.map_or(Lenient::Absent, Lenient::Good),
            Err(error) => Lenient::Broken(explain(&error)),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        capture(deserializer).map(|text| Lenient::read(text.get()))
    }
}

/// What is wrong with a JSON text, in a text of limited length, with the remedy where it is not obvious.
#[must_use]
pub fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if text.starts_with("recursion limit exceeded") {
        return format!(
            "is nested deeper than {MAX_DEPTH} levels; nest it less, or store the deep part as text in a string"
        );
    }
    // The position is one in the subtree, which only the parser sees as a text, so it does not help a reader.
    let mut text = text
        .rfind(" at line ")
        .map_or(text.as_str(), |at| &text[..at])
        .to_owned();
    if text.len() > MAX_ERROR_BYTES {
        let end = (0..=MAX_ERROR_BYTES).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push('\u{2026}');
    }
    text
}

/// Captures a subtree as its text, whatever its depth and shape.
///
/// # Errors
/// When the text is not JSON.
pub fn capture<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<RawValue>, D::Error> {
    Box::<RawValue>::deserialize(Bridge(deserializer))
}

/// A deserializer that supports raw values even where it is not `serde_json`'s. For example, serde buffers a tagged
/// enum whose tag does not come first; the raw text is then made from a `Value`.
struct Bridge<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Bridge<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_newtype_struct(name, Bridged { name, visitor })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq
        tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Bridged<V> {
    name: &'static str,
    visitor: V,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Bridged<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(map)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        Value::deserialize(deserializer)?
            .deserialize_newtype_struct(self.name, self.visitor)
            .map_err(de::Error::custom)
    }
}

/// The size of a JSON text, measured without building anything from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes of the text.
    pub bytes: usize,
    /// Number of lists, objects and values in them. Keys do not count.
    pub values: usize,
}

/// Measures a JSON text that is known to be valid.
#[must_use]
pub fn measure(text: &str) -> Size {
    let (mut values, mut in_string, mut escaped, mut opened) = (1, false, false, false);
    for byte in text.bytes() {
        if in_string {
            (in_string, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
            continue;
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => continue,
            // The first byte after an opening bracket begins its first child, and a comma announces the next child.
            b']' | b'}' => {}
            _ if opened => values += 1,
            _ => {}
        }
        values += usize::from(byte == b',');
        opened = matches!(byte, b'[' | b'{');
        in_string = byte == b'"';
    }
    Size {
        bytes: text.len(),
        values,
    }
}

/// Reads a JSON value of any depth. A list or object below a hundred levels is replaced by a text that says so.
///
/// # Errors
/// When the text is not JSON.
pub fn shallow<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    Shallow(SHOWN_DEPTH).deserialize(deserializer)
}

/// Reads this many more levels.
#[derive(Clone, Copy)]
struct Shallow(usize);

impl Shallow {
    fn left_out() -> Value {
        Value::String(format!("<nested deeper than {SHOWN_DEPTH} levels, not shown>"))
    }
}

impl<'de> DeserializeSeed<'de> for Shallow {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Shallow {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let Some(left) = self.0.checked_sub(1) else {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Shallow::left_out());
        };
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Shallow(left))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let Some(left) = self.0.checked_sub(1) else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Shallow::left_out());
        };
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            fields.insert(key, map.next_value_seed(Shallow(left))?);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests;
