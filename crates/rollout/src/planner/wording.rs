//! The messages of records: their length, and the format of durations.

use chrono::TimeDelta;

/// Why a cluster that the spec leaves out is not left out yet.
pub(crate) const LEAVING_OUT: &str =
    "The cluster is left out of the upgrade once it is certain that nothing of it is under way";

/// Why a cluster waits while one of its works is to be read.
pub(crate) const UNREAD: &str = "The step's ManifestWork was created before the cluster was registered anew. The controller reads whether it is still there.";

/// Why a cluster whose turn it is does not start yet, or is not asked for its update.
pub(crate) const ASKED_AGAIN: &str =
    "The cluster is asked again just before its update, because it must be asked for the update by its image";

/// Cuts a text to at most 256 bytes, on a character boundary.
pub(crate) fn cut(text: &str) -> &str {
    start_of(text, 256)
}

/// The beginning of a text, cut on a character boundary.
pub(crate) fn start_of(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let end = (0..=most)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    &text[..end]
}

/// A duration in Go's format, in whole seconds: `3h`, `21m50s`.
#[must_use]
pub fn duration(length: TimeDelta) -> String {
    let seconds = length.num_seconds();
    let parts = [
        (seconds / 3600, 'h'),
        (seconds / 60 % 60, 'm'),
        (seconds % 60, 's'),
    ];
    let mut text = String::new();
    for (number, unit) in parts {
        if number > 0 {
            text.push_str(&number.to_string());
            text.push(unit);
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}
