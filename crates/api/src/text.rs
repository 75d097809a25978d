//! Texts that others wrote (clusters, authors, servers). They must not control the terminal of the reader.

use std::borrow::Cow;

/// True for a character that controls a terminal or editor instead of being shown: control characters (C0, DEL, C1),
/// marks that change the direction of text, and separators that break lines.
///
/// `update_graph::text::is_steering` is the same rule for the texts of update graphs. Neither crate depends on the other,
/// so a test of `kubectl-mcu`, which knows both, compares the two.
#[must_use]
pub const fn is_steering(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{2028}' | '\u{2029}')
}

/// True for a character that JSON allows unescaped but YAML does not. The API server parses a server-side apply as YAML.
#[must_use]
pub const fn is_not_yaml(char: char) -> bool {
    matches!(
        char,
        '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    )
}

/// The text with each character that [`is_steering`] names, including line breaks and tabs, replaced by a space.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_steering) {
        Cow::Owned(
            text.chars()
                .map(|c| if is_steering(c) { ' ' } else { c })
                .collect(),
        )
    } else {
        Cow::Borrowed(text)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        assert_eq!(visible("4.16.9"), "4.16.9");
        assert_eq!(visible("\u{1b}]0;x\u{7}\u{1b}[2J"), " ]0;x  [2J");
        assert_eq!(visible("a\nb\tc\u{9b}d\u{7f}"), "a b c d ");
        assert_eq!(visible("\u{202e}evil\u{2066}\u{200f}\u{2028}"), " evil   ");
        assert_eq!(visible("Größe 東京 🚀"), "Größe 東京 🚀");
    }
}
