//! Hashes of JSON that do not depend on the order of keys.
//!
//! Owns the form that is hashed: keys sorted, no white space. Refuses anything but JSON values.

use std::fmt::Write;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Bytes of SHA-256 that are kept: 64 bits tell the few revisions of one object apart.
const KEPT: usize = 8;

/// First 16 hex digits of the SHA-256 of the value's canonical form.
pub(super) fn hash(value: &Value) -> String {
    let digest = Sha256::digest(sorted(value).to_string().as_bytes());
    let mut text = String::with_capacity(2 * KEPT);
    for byte in digest.iter().take(KEPT) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The value with all keys in order, whatever order this build of `serde_json` keeps.
pub(super) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let sorted: Map<_, _> = entries
                .into_iter()
                .map(|(key, value)| (key.clone(), sorted(value)))
                .collect();
            Value::Object(sorted)
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        hash(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn a_hash_is_sixteen_hex_digits_and_ignores_the_order_of_keys() {
        assert_eq!(
            of(r#"{"a":1,"b":{"d":2,"c":3}}"#),
            of(r#"{"b":{"c":3,"d":2},"a":1}"#)
        );
        assert_ne!(of(r#"{"a":[1,2]}"#), of(r#"{"a":[2,1]}"#));
        // A change of this constant would send every running upgrade through a new revision.
        assert_eq!(of(r#"{"b":1,"a":"x"}"#), "cdab067e9f3beb32");
    }
}
