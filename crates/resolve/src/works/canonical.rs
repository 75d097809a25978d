//! Hashes of JSON that do not depend on the order of keys. The hashed form has sorted keys and no white
//! space.

use std::io::{self, Write};

use api::text::hex;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Number of bytes of SHA-256 that are kept. 64 bits are enough to distinguish the few revisions of one
/// object.
const KEPT: usize = 8;

/// First 16 hex digits of the SHA-256 of the value's canonical form.
pub(super) fn hash(value: &Value) -> String {
    let mut hasher = Sha256::new();
    // Writing to a hasher cannot fail.
    let _ = write_sorted(value, &mut hasher);
    hex(&hasher.finalize()[..KEPT])
}

/// Writes the value with sorted keys, whatever order `serde_json` keeps in this build. It does not copy the
/// value, because an action may be large.
fn write_sorted(value: &Value, out: &mut impl Write) -> io::Result<()> {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let mut before = "{";
            for (key, value) in entries {
                out.write_all(before.as_bytes())?;
                scalar(key, out)?;
                out.write_all(b":")?;
                write_sorted(value, out)?;
                before = ",";
            }
            out.write_all(if map.is_empty() { b"{}" } else { b"}" })
        }
        Value::Array(items) => {
            let mut before = "[";
            for item in items {
                out.write_all(before.as_bytes())?;
                write_sorted(item, out)?;
                before = ",";
            }
            out.write_all(if items.is_empty() { b"[]" } else { b"]" })
        }
        other => scalar(other, out),
    }
}

fn scalar(value: &(impl Serialize + ?Sized), out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::other)
}

/// The value with sorted keys.
#[cfg(test)]
pub(super) fn sorted(value: &Value) -> Value {
    let mut text = Vec::new();
    write_sorted(value, &mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
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
        let text = r#"{"a":[],"b":{},"c":[{},[1,"\"x"],-0.5],"d":null,"e":{"f":true}}"#;
        assert_eq!(sorted(&serde_json::from_str(text).unwrap()).to_string(), text);
        // If this hash changed, every running upgrade would start a new revision.
        assert_eq!(of(r#"{"b":1,"a":"x"}"#), "cdab067e9f3beb32");
    }
}
