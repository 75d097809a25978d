//! Standard error for the log.
//!
//! Log lines quote texts from objects, graph-data and registries. Every line is escaped here, so that no
//! quoted text can control the terminal of the reader, or look like another line.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use update_graph::text::is_steering;

/// The text with each control character as a JSON escape, such as `\u001b`. Inside a JSON string it
/// represents the same character as before.
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

/// Writes each event as one escaped line to standard error.
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
}
