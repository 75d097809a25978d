//! Patterns: the regular expressions of `from` and `remove_regex`, searched unanchored in `VERSION+ARCH`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

/// A compiled expression with the semantics of the `regex` crate, as upstream has them.
#[derive(Clone)]
pub struct Pattern {
    text: SmolStr,
    /// `None` for `.*`, which is found in everything and is by far the most frequent.
    regex: Option<regex::bytes::Regex>,
}

impl Pattern {
    /// Compiles.
    ///
    /// # Errors
    /// [`regex::Error`] when the text is no expression of the `regex` crate, or compiles to something too large.
    pub fn new(text: &str) -> Result<Self, regex::Error> {
        let regex = match text {
            ".*" => None,
            _ => Some(compile(text)?),
        };
        Ok(Self {
            text: SmolStr::new(text),
            regex,
        })
    }

    /// The text it was compiled from.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True when the expression is found anywhere in `VERSION+ARCH`.
    #[must_use]
    pub fn found_in(&self, version: &str) -> bool {
        self.regex
            .as_ref()
            .is_none_or(|regex| regex.is_match(version.as_bytes()))
    }
}

/// Versions are ASCII. An ASCII expression gives the same answers on them with and without the Unicode tables, and
/// compiles several times faster without.
fn compile(text: &str) -> Result<regex::bytes::Regex, regex::Error> {
    if text.is_ascii()
        && let Ok(regex) = regex::bytes::RegexBuilder::new(text).unicode(false).build()
    {
        return Ok(regex);
    }
    regex::bytes::Regex::new(text)
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_searched_not_matched() {
        for (text, version, found) in [
            ("4[.]14[.][3-8]", "4.14.30+amd64", true),
            ("^4[.]14[.]([3-8])[+].*$", "4.14.30+amd64", false),
            (".*", "4.14.30+amd64", true),
            ("^4[.]13[.].*[+]s390x$", "4.13.1+amd64", false),
            ("", "4.13.1+amd64", true),
            ("(?i)AMD64", "4.13.1+amd64", true),
            (r"^\d+[.]\d+[.]\d+\+\w+$", "4.13.1+amd64", true),
        ] {
            assert_eq!(Pattern::new(text).unwrap().found_in(version), found, "{text}");
        }
    }

    #[test]
    fn the_fast_form_agrees_with_the_unicode_form() {
        for text in [
            "4[.]1",
            "[^4]",
            r"\W",
            r"\bamd",
            r"(?i)S390X",
            "a{2,3}|[[:digit:]]{2}",
            r"\p{L}",
            r"\x{e4}|4",
        ] {
            let slow = regex::Regex::new(text).unwrap();
            let fast = Pattern::new(text).unwrap();
            for version in [
                "4.14.30+amd64",
                "5.0.0-ec.1+s390x",
                "4.1.0+ppc64le",
                "11.0.22-rc.1+multi",
            ] {
                assert_eq!(
                    slow.is_match(version),
                    fast.found_in(version),
                    "{text} in {version}"
                );
            }
        }
    }

    #[test]
    fn what_does_not_compile_is_refused() {
        for text in ["(", "*", "[", "a{1000}{1000}{1000}", r"\1", "(?=a)"] {
            assert!(Pattern::new(text).is_err(), "{text}");
        }
    }
}
