//! Texts from others: authors of graph-data, registries, servers. They must not be able to control the terminal of their
//! reader.

/// True for a character that a terminal or an editor acts on rather than shows: control characters (C0, DEL, C1), the
/// marks that change the direction of text, and the separators that break lines.
///
/// Crate `api` has the same rule for the texts of clusters; neither crate depends on the other, and a test of
/// `kubectl-mcu`, which knows both, compares the two.
#[must_use]
pub const fn is_steering(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{2028}' | '\u{2029}')
}
