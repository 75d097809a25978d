//! Texts from others: authors of graph-data, registries, servers. They must not be able to control the terminal of their
//! reader.

/// True for a character that a terminal or an editor acts on rather than shows: control characters (C0, DEL, C1), the
/// marks that change the direction of text, the separators that break lines, and characters that are not visible, such as
/// the zero-width space, by which two different texts look the same.
///
/// Crate `api` has the same rule for the texts of clusters; neither crate depends on the other, and a test of
/// `kubectl-mcu`, which knows both, compares the two.
#[must_use]
pub const fn is_steering(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}
