//! What the program says: standard output, standard error and the log.
//!
//! Owns the one way out. Data, registries and other services are quoted in findings, errors and log lines, so everything
//! passes here and nothing that steers a terminal is left; it stands there as an escape.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use update_graph::text::is_steering;

/// The text with each steering character as an escape of JSON, such as `\u001b`. Inside a JSON string it stands for the
/// same character as before.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_steering) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if is_steering(c) {
            let _ = write!(clean, "\\u{:04x}", u32::from(c));
        } else {
            clean.push(c);
        }
    }
    Cow::Owned(clean)
}

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

/// Standard error for the log: each write is an event, and an event is a line.
#[derive(Clone, Copy, Debug)]
pub struct Log;

impl Log {
    fn line(event: &[u8]) -> String {
        let text = String::from_utf8_lossy(event);
        format!("{}\n", escaped(text.strip_suffix('\n').unwrap_or(&text)))
    }
}

impl Write for Log {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        io::stderr().lock().write_all(Self::line(event).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "\u{1b}]0;x\u{7}\u{7f}\u{9b}2J\u{202e}\u{2028}\tend";

    #[test]
    fn a_log_line_neither_steers_a_terminal_nor_forges_another_line() {
        let line = Log::line(format!("WARN {HOSTILE}\nERROR forged\n").as_bytes());
        let expected =
            r"WARN \u001b]0;x\u0007\u007f\u009b2J\u202e\u2028\u0009end\u000aERROR forged".to_owned() + "\n";
        assert_eq!(line, expected);
        assert_eq!(Log::line("{\"a\": \"b\"}\n".as_bytes()), "{\"a\": \"b\"}\n");
    }

    #[test]
    fn an_escape_stands_for_the_same_character_in_json() {
        let json = serde_json::to_string(HOSTILE).unwrap();
        let out = lines(&json);
        assert!(!out.chars().any(is_steering), "{out:?}");
        assert_eq!(serde_json::from_str::<String>(&out).unwrap(), HOSTILE);
    }
}
