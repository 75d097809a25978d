//! Colour: only where a human looks at a terminal, and never where `NO_COLOR` is set.

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
            (_, Tone::Good) => "32",
            (_, Tone::Warn) => "33",
            (_, Tone::Bad) => "31",
            (_, Tone::Bold) => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
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
}
