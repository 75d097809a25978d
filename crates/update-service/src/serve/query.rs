//! The query string of a request.
//!
//! It decodes the string and checks `channel` and `arch`. Unknown parameters are ignored: clients always send `version` and
//! `id`, and others may send more.

use std::borrow::Cow;

use super::error::ApiError;

/// What a parameter may hold, as the protocol's messages cite it.
pub const CHANNEL_RULE: &str = r"^[0-9a-z\-\.]+$";
/// See [`CHANNEL_RULE`].
pub const ARCH_RULE: &str = "^[0-9a-z]+$";

/// The decoded pairs of a query string.
#[derive(Clone, Debug, Default)]
pub struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Reads `key=value&key=value`, percent-encoded or not.
    #[must_use]
    pub fn parse(text: Option<&'a str>) -> Self {
        let text = text.unwrap_or_default().as_bytes();
        Self {
            pairs: form_urlencoded::parse(text).collect(),
        }
    }

    /// A parameter's value; the last one counts if it is given several times.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| &**value)
    }

    /// All values of a parameter, each possibly a list with commas.
    pub fn list<'b>(&'b self, key: &'b str) -> impl Iterator<Item = &'b str> {
        self.pairs
            .iter()
            .filter(move |(name, _)| name == key)
            .flat_map(|(_, value)| value.split(','))
            .filter(|value| !value.is_empty())
    }

    /// Rejects a request without any of these parameters, which are sorted.
    ///
    /// # Errors
    /// [`ApiError::MissingParams`].
    pub fn demand(&self, mandatory: &[String]) -> Result<(), ApiError> {
        let missing: Vec<String> = mandatory
            .iter()
            .filter(|key| self.get(key).is_none())
            .cloned()
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(ApiError::MissingParams(missing))
        }
    }

    /// A parameter that must be there.
    ///
    /// # Errors
    /// [`ApiError::MissingParams`].
    pub fn required(&self, key: &str) -> Result<&str, ApiError> {
        self.get(key)
            .ok_or_else(|| ApiError::MissingParams(vec![key.to_owned()]))
    }

    /// The channel.
    ///
    /// # Errors
    /// [`ApiError::InvalidParams`] when it breaks [`CHANNEL_RULE`], `MissingParams` without one.
    pub fn channel(&self) -> Result<&str, ApiError> {
        let legal = |c: u8| c.is_ascii_digit() || c.is_ascii_lowercase() || c == b'-' || c == b'.';
        check("channel", self.required("channel")?, legal, CHANNEL_RULE)
    }

    /// The architecture, `default` without one.
    ///
    /// # Errors
    /// [`ApiError::InvalidParams`] when it breaks [`ARCH_RULE`].
    pub fn arch<'b>(&'b self, default: &'b str) -> Result<&'b str, ApiError> {
        let legal = |c: u8| c.is_ascii_digit() || c.is_ascii_lowercase();
        check("arch", self.get("arch").unwrap_or(default), legal, ARCH_RULE)
    }
}

fn check<'a>(key: &str, value: &'a str, legal: impl Fn(u8) -> bool, rule: &str) -> Result<&'a str, ApiError> {
    if !value.is_empty() && value.bytes().all(legal) {
        return Ok(value);
    }
    Err(ApiError::InvalidParams(format!(
        "{key} '{value}' does not match regex '{rule}'"
    )))
}

#[cfg(test)]
mod tests;
