//! Writes the program's output to standard output, and errors to standard error. [`telemetry::terminal`] writes the log.
//!
//! Findings, errors and log lines quote data, registries and other services. So all output passes through this file, which
//! escapes characters that control a terminal.

use std::borrow::Cow;
use std::io::{self, Write};

use telemetry::terminal::escaped;

/// What goes out for a text of several lines.
#[must_use]
pub fn lines(text: &str) -> String {
    let lines: Vec<Cow<'_, str>> = text.split('\n').map(escaped).collect();
    lines.join("\n")
}

/// Writes lines to standard output. A reader that has seen enough, such as head, is no failure.
pub fn print(text: &str) {
    let _ = io::stdout().lock().write_all(lines(text).as_bytes());
}

/// Writes an error to standard error; its further lines are indented, so that none looks like another error.
pub fn complain(error: &str) {
    let text = lines(&format!("error: {}", error.replace('\n', "\n    ")));
    let _ = writeln!(io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use update_graph::text::is_steering;

    use super::*;

    const HOSTILE: &str = "\u{1b}]0;x\u{7}\u{7f}\u{9b}2J\u{202e}\u{2028}\tend";

    #[test]
    fn an_escape_stands_for_the_same_character_in_json() {
        let json = serde_json::to_string(HOSTILE).unwrap();
        let out = lines(&json);
        assert!(!out.chars().any(is_steering), "{out:?}");
        assert_eq!(serde_json::from_str::<String>(&out).unwrap(), HOSTILE);
    }
}
