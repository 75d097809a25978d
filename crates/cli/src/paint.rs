//! Colour: only where a human looks at a terminal, and never where `NO_COLOR` is set.

use std::borrow::Cow;

use api::text::is_steering;

/// The end of a colour, and the colours: green, yellow, red, bold.
const CODES: [&str; 5] = ["\u{1b}[0m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[31m", "\u{1b}[1m"];

/// What a piece of text means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// It is as it should be.
    Good,
    /// Somebody should look.
    Warn,
    /// It is broken.
    Bad,
    /// A heading.
    Bold,
}

/// Whether to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paint {
    /// Plain text.
    #[default]
    Never,
    /// ANSI colours.
    Ansi,
}

impl Paint {
    /// Colours on a terminal, unless `NO_COLOR` has a value or the terminal is `dumb`.
    #[must_use]
    pub fn choose(terminal: bool, no_color: Option<&str>, term: Option<&str>) -> Paint {
        let refused = no_color.is_some_and(|value| !value.is_empty()) || term == Some("dumb");
        if terminal && !refused {
            Paint::Ansi
        } else {
            Paint::Never
        }
    }

    /// The text in its tone.
    #[must_use]
    pub fn tone(self, tone: Tone, text: &str) -> String {
        let code = match (self, tone) {
            (Paint::Never, _) | (_, Tone::Plain) => return text.to_owned(),
            (_, Tone::Good) => CODES[1],
            (_, Tone::Warn) => CODES[2],
            (_, Tone::Bad) => CODES[3],
            (_, Tone::Bold) => CODES[4],
        };
        format!("{code}{text}{}", CODES[0])
    }

    /// What may go to a terminal: the text without anything that would steer it, but for line breaks, tabs and the
    /// colours of this module where they are wanted. Everything that is printed passes here, whoever wrote it.
    #[must_use]
    pub fn clean(self, text: &str) -> Cow<'_, str> {
        let harmless = |c: char| !is_steering(c) || matches!(c, '\n' | '\t');
        if text.chars().all(harmless) {
            return Cow::Borrowed(text);
        }
        let mut clean = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let colour = CODES
                .iter()
                .find(|code| self == Paint::Ansi && rest.starts_with(*code));
            let taken = colour.map_or(next.len_utf8(), |code| code.len());
            match colour {
                Some(code) => clean.push_str(code),
                None => clean.push(if harmless(next) { next } else { ' ' }),
            }
            rest = &rest[taken..];
        }
        Cow::Owned(clean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_needs_a_terminal_and_no_refusal() {
        assert_eq!(Paint::choose(true, None, Some("xterm")), Paint::Ansi);
        assert_eq!(Paint::choose(true, Some(""), None), Paint::Ansi);
        assert_eq!(Paint::choose(true, Some("1"), None), Paint::Never);
        assert_eq!(Paint::choose(true, None, Some("dumb")), Paint::Never);
        assert_eq!(Paint::choose(false, None, Some("xterm")), Paint::Never);
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        assert_eq!(Paint::Ansi.tone(Tone::Plain, "x"), "x");
        assert_eq!(Paint::Never.tone(Tone::Bad, "x"), "x");
        assert_eq!(Paint::Ansi.tone(Tone::Bad, "x"), "\u{1b}[31mx\u{1b}[0m");
    }

    #[test]
    fn nothing_but_our_own_colours_steers_a_terminal() {
        let toned = format!("a\tb\n{}", Paint::Ansi.tone(Tone::Bad, "x"));
        assert_eq!(Paint::Ansi.clean(&toned), toned);
        assert_eq!(Paint::Never.clean(&toned), "a\tb\n [31mx [0m");
        let hostile = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}2J\u{202e}4.16\r\u{2028}";
        for paint in [Paint::Ansi, Paint::Never] {
            let clean = paint.clean(hostile);
            assert_eq!(clean, " ]0;owned  [2J 2J 4.16  ");
        }
    }
}
