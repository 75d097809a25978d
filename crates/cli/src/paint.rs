//! Colours. They are used only on a terminal, and never if `NO_COLOR` is set.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use api::text::is_steering;

/// The code that ends a colour, then green, yellow, red and bold.
const CODES: [&str; 5] = ["\u{1b}[0m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[31m", "\u{1b}[1m"];

/// A placeholder for a colour code. The digit that follows it is the index of the code in [`CODES`]; [`Paint::clean`] replaces
/// both. The placeholder is random for each process, so that texts from elsewhere cannot contain it. It is never printed.
static MARK: LazyLock<String> =
    LazyLock::new(|| format!("\u{1b}{:016x}", RandomState::new().hash_one(CODES)));

/// The meaning of a piece of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// No special meaning.
    #[default]
    Plain,
    /// A good state.
    Good,
    /// A state that somebody should check.
    Warn,
    /// An error.
    Bad,
    /// A heading.
    Bold,
}

/// Whether to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paint {
    /// Plain text.
    #[default]
    Never,
    /// ANSI colours.
    Ansi,
}

impl Paint {
    /// Uses colours on a terminal, unless `NO_COLOR` has a value or the terminal is `dumb`.
    #[must_use]
    pub fn choose(terminal: bool, no_color: Option<&str>, term: Option<&str>) -> Paint {
        let refused = no_color.is_some_and(|value| !value.is_empty()) || term == Some("dumb");
        if terminal && !refused {
            Paint::Ansi
        } else {
            Paint::Never
        }
    }

    /// The text in a tone. Pass the result to [`Paint::clean`] before it is printed.
    #[must_use]
    pub fn tone(self, tone: Tone, text: &str) -> String {
        let code = match (self, tone) {
            (Paint::Never, _) | (_, Tone::Plain) => return text.to_owned(),
            (_, Tone::Good) => 1,
            (_, Tone::Warn) => 2,
            (_, Tone::Bad) => 3,
            (_, Tone::Bold) => 4,
        };
        let mark = MARK.as_str();
        format!("{mark}{code}{text}{mark}0")
    }

    /// Makes a text safe to print: removes every character that could control the terminal, except line breaks, tabs and the
    /// colours from [`Paint::tone`]. All output passes through here, because it may contain texts from clusters and users.
    #[must_use]
    pub fn clean(self, text: &str) -> Cow<'_, str> {
        let harmless = |c: char| !is_steering(c) || matches!(c, '\n' | '\t');
        if text.chars().all(harmless) {
            return Cow::Borrowed(text);
        }
        let mut clean = String::with_capacity(text.len());
        for (index, part) in text.split(MARK.as_str()).enumerate() {
            let code = CODES
                .iter()
                .zip('0'..)
                .find(|(_, digit)| part.starts_with(*digit));
            let part = match code {
                Some((code, _)) if index > 0 => {
                    if self == Paint::Ansi {
                        clean.push_str(code);
                    }
                    &part[1..]
                }
                _ => part,
            };
            clean.extend(part.chars().map(|c| if harmless(c) { c } else { ' ' }));
        }
        Cow::Owned(clean)
    }
}

#[cfg(test)]
mod tests;
