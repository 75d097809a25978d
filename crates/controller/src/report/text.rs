//! Prepares texts that clusters report for writing: limits their length and makes them valid YAML.

use std::fmt::Write as _;

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

/// True for a character that JSON allows unescaped but YAML does not.
#[must_use]
pub const fn is_not_yaml(char: char) -> bool {
    matches!(
        char,
        '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    )
}

/// Removes the characters for which the API server would reject the whole status, because it parses the
/// status as YAML.
#[must_use]
pub fn plain(text: &str) -> String {
    let plain = |char| if is_not_yaml(char) { ' ' } else { char };
    text.chars().map(plain).collect()
}

/// The beginning of a text that takes at most `most` bytes as JSON. A character may take six bytes there.
#[must_use]
pub fn cut(text: &str, most: usize) -> &str {
    let mut taken = 0;
    for (at, char) in text.char_indices() {
        taken += match char {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            _ => char.len_utf8(),
        };
        if taken > most {
            return &text[..at];
        }
    }
    text
}
