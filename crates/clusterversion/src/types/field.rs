//! Turns a JSON object into a struct and back without losing anything.
//!
//! A known field with a value is read into the struct. Fields that are unknown, null or blank stay in `other` as they were, and
//! are written back unless the struct has a value for them. For example, `force: false`, `version: ""` and
//! `completionTime: null` survive, and a struct without such fields does not write them.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value};

/// A point in time.
pub type Time = DateTime<Utc>;

/// A value of a field.
pub(crate) trait Field: Default + PartialEq {
    /// Reads a value. The error says what was expected.
    fn read(value: &Value) -> Result<Self, String>;
    /// Writes the value.
    fn write(&self) -> Value;
}

/// Takes a field out of an object. A blank field stays there.
pub(crate) fn take<T: Field>(map: &mut Map<String, Value>, key: &str) -> Result<T, String> {
    let Some(value) = map.get(key).filter(|value| !value.is_null()) else {
        return Ok(T::default());
    };
    let read = T::read(value).map_err(|why| {
        if why.starts_with(['[', '.']) {
            format!(".{key}{why}")
        } else {
            format!(".{key}: {why}")
        }
    })?;
    if read != T::default() {
        map.remove(key);
    }
    Ok(read)
}

/// Inserts a field into an object unless it is blank.
pub(crate) fn put<T: Field>(map: &mut Map<String, Value>, key: &str, value: &T) {
    if *value != T::default() {
        map.insert(key.to_owned(), value.write());
    }
}

/// A time in whole seconds, as Kubernetes writes times.
#[must_use]
pub fn timestamp(at: Time) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn expected<T>(what: &str, value: &Value) -> Result<T, String> {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Err(format!("expected {what}, found {kind}"))
}

impl Field for String {
    fn read(value: &Value) -> Result<Self, String> {
        value
            .as_str()
            .map_or_else(|| expected("a string", value), |text| Ok(text.to_owned()))
    }

    fn write(&self) -> Value {
        Value::String(self.clone())
    }
}

impl Field for bool {
    fn read(value: &Value) -> Result<Self, String> {
        value.as_bool().map_or_else(|| expected("a boolean", value), Ok)
    }

    fn write(&self) -> Value {
        Value::Bool(*self)
    }
}

impl Field for i64 {
    fn read(value: &Value) -> Result<Self, String> {
        value.as_i64().map_or_else(|| expected("an integer", value), Ok)
    }

    fn write(&self) -> Value {
        Value::from(*self)
    }
}

/// A time that may be absent.
impl Field for Option<Time> {
    fn read(value: &Value) -> Result<Self, String> {
        let text = String::read(value)?;
        DateTime::parse_from_rfc3339(&text)
            .map(|at| Some(at.with_timezone(&Utc)))
            .map_err(|error| format!("{text:?} is not a time: {error}"))
    }

    fn write(&self) -> Value {
        self.map_or(Value::Null, |at| Value::String(timestamp(at)))
    }
}

impl<T: Field> Field for Vec<T> {
    fn read(value: &Value) -> Result<Self, String> {
        let Some(items) = value.as_array() else {
            return expected("a list", value);
        };
        items
            .iter()
            .enumerate()
            .map(|(at, item)| {
                T::read(item).map_err(|why| {
                    if why.starts_with(['[', '.']) {
                        format!("[{at}]{why}")
                    } else {
                        format!("[{at}]: {why}")
                    }
                })
            })
            .collect()
    }

    fn write(&self) -> Value {
        Value::Array(self.iter().map(Field::write).collect())
    }
}

/// Reads an object's map.
pub(crate) fn read_map(value: &Value) -> Result<Map<String, Value>, String> {
    value
        .as_object()
        .map_or_else(|| expected("an object", value), |map| Ok(map.clone()))
}

/// Defines a struct of known fields and the rest of its JSON object.
macro_rules! object {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$doc:meta])* pub $field:ident: $type:ty = $key:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
            /// All other fields: unknown, null or blank ones. They are written back as they were.
            pub other: serde_json::Map<String, serde_json::Value>,
        }

        impl $crate::types::field::Field for $name {
            fn read(value: &serde_json::Value) -> Result<Self, String> {
                let mut other = $crate::types::field::read_map(value)?;
                Ok(Self {
                    $($field: $crate::types::field::take(&mut other, $key)?,)*
                    other,
                })
            }

            fn write(&self) -> serde_json::Value {
                let mut map = self.other.clone();
                $($crate::types::field::put(&mut map, $key, &self.$field);)*
                serde_json::Value::Object(map)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(&$crate::types::field::Field::write(self), serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = <serde_json::Value as serde::Deserialize>::deserialize(deserializer)?;
                $crate::types::field::Field::read(&value).map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use object;

/// Makes an object optional. This is a macro because a blanket implementation would also cover `Option<Time>`.
macro_rules! optional {
    ($($name:ty),*) => {$(
        impl $crate::types::field::Field for Option<$name> {
            fn read(value: &serde_json::Value) -> Result<Self, String> {
                <$name as $crate::types::field::Field>::read(value).map(Some)
            }

            fn write(&self) -> serde_json::Value {
                self.as_ref()
                    .map_or(serde_json::Value::Null, $crate::types::field::Field::write)
            }
        }
    )*};
}
pub(crate) use optional;

#[cfg(test)]
mod tests;
