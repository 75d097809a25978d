//! The text of a part of a document, whatever its shape and depth.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The name under which `serde_json` hands out text in place of values. Should it ever change, the text is made anew from
/// the value, which costs nothing but the depth.
const TOKEN: &str = "$serde_json::private::RawValue";

/// Takes a part of a document as its text. Other than [`RawValue`] itself it can also be read from what serde has buffered
/// (a watch event whose object comes before its type, for example).
pub(crate) fn raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<RawValue>, D::Error> {
    deserializer.deserialize_newtype_struct(TOKEN, RawVisitor)
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Box<RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Box::<RawValue>::deserialize(MapAccessDeserializer::new(map))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, buffered: D) -> Result<Self::Value, D::Error> {
        let value = Value::deserialize(buffered)?;
        serde_json::value::to_raw_value(&value).map_err(D::Error::custom)
    }
}
