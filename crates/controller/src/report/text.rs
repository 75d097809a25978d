//! Prepares texts that clusters report for writing: limits their length and makes them valid YAML.

use std::fmt::Write as _;

use api::text::{cut, is_not_yaml};

/// Longest message in a list of a status, in bytes.
const MAX_NOTE_BYTES: usize = 256;

/// Converts JSON to JSON that is also valid YAML, because the API server parses a server-side apply as YAML.
/// Characters that YAML does not allow are escaped; they can occur only in strings.
#[must_use]
pub fn for_yaml(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for char in json.chars() {
        if is_not_yaml(char) {
            let _ = write!(text, "\\u{:04x}", u32::from(char));
        } else {
            text.push(char);
        }
    }
    text
}

/// A message as the lists of a status show it.
#[must_use]
pub fn note(message: &str) -> String {
    plain(cut(message, MAX_NOTE_BYTES))
}

/// Removes the characters for which the API server would reject the whole status, because it parses the
/// status as YAML.
#[must_use]
pub fn plain(text: &str) -> String {
    let plain = |char| if is_not_yaml(char) { ' ' } else { char };
    text.chars().map(plain).collect()
}
