//! Texts that others wrote (clusters, authors, servers). They must not control the terminal of the reader.

use std::borrow::Cow;
use std::fmt::Write as _;

/// True for a character that controls a terminal or editor instead of being shown: control characters (C0, DEL, C1),
/// marks that change the direction of text, separators that break lines, and characters that are not visible, such as the
/// zero-width space, by which two different texts look the same.
///
/// `update_graph::text::is_steering` is the same rule for the texts of update graphs. Neither crate depends on the other,
/// so a test of `kubectl-mcu`, which knows both, compares the two.
#[must_use]
pub const fn is_steering(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// True for a character that JSON allows unescaped but YAML does not. The API server parses a server-side apply as YAML.
#[must_use]
pub const fn is_not_yaml(char: char) -> bool {
    matches!(
        char,
        '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    )
}

/// The bytes as hexadecimal digits, two for each.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
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

    #[test]
    fn characters_that_are_not_visible_become_spaces() {
        let invisible = ('\u{200b}'..='\u{200f}')
            .chain('\u{2060}'..='\u{2064}')
            .chain('\u{fe00}'..='\u{fe0f}')
            .chain('\u{e0000}'..='\u{e01ef}')
            .chain(['\u{ad}', '\u{180e}', '\u{feff}', '\u{fff9}']);
        for c in invisible {
            assert_eq!(visible(&format!("edge{c}-1")), "edge -1", "{c:?}");
        }
    }
}
