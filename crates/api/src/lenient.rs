//! Decoding that never stops a watch: a subtree that does not have the expected shape is kept as its error.
//!
//! One unreadable object must make one cluster Unknown, not end the list it came with (`design/house.md`).

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// A value that was decoded, was absent, or could not be decoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Lenient<T> {
    /// The key was missing or null.
    #[default]
    Absent,
    /// Decoded.
    Good(T),
    /// The subtree exists but has another shape; the text says what was wrong.
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

    /// What was wrong with the subtree, if anything.
    pub fn error(&self) -> Option<&str> {
        match self {
            Lenient::Broken(error) => Some(error),
            Lenient::Absent | Lenient::Good(_) => None,
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        if value.is_null() {
            return Ok(Lenient::Absent);
        }
        Ok(T::deserialize(value).map_or_else(|error| Lenient::Broken(error.to_string()), Lenient::Good))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Holder {
        #[serde(default)]
        count: Lenient<u32>,
    }

    fn count(text: &str) -> Lenient<u32> {
        serde_json::from_str::<Holder>(text).unwrap().count
    }

    #[test]
    fn a_subtree_of_another_shape_is_kept_as_its_error() {
        assert_eq!(count(r#"{"count": 3}"#), Lenient::Good(3));
        assert_eq!(count(r#"{"count": null}"#), Lenient::Absent);
        assert_eq!(count("{}"), Lenient::Absent);
        assert!(
            count(r#"{"count": "three"}"#)
                .error()
                .unwrap()
                .contains("invalid type")
        );
    }
}
