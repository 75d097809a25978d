//! Structured logs on standard error, as text or JSON.
//!
//! Owns the subscriber and the grammar of its filter. Refuses filters it does not fully understand: a mistyped level
//! must not silence or flood the log.

use clap::ValueEnum;
use serde::Deserialize;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::SetGlobalDefaultError;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::output;

/// Form of the log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One line per entry, for people.
    #[default]
    Text,
    /// One JSON object per line, for collectors.
    Json,
}

/// The filter cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadFilter(String);

/// Reads a filter: parts separated by commas, each `LEVEL` or `TARGET=LEVEL`. An empty one, as from an empty
/// `RUST_LOG`, is `info`.
///
/// # Errors
/// [`BadFilter`] names the part that is not understood.
pub fn parse(text: &str) -> Result<EnvFilter, BadFilter> {
    let text = if text.trim().is_empty() {
        "info"
    } else {
        text.trim()
    };
    for part in text.split(',') {
        let (target, level) = part
            .split_once('=')
            .map_or((None, part), |(target, level)| (Some(target), level));
        if level.parse::<LevelFilter>().is_err() || level.parse::<usize>().is_ok() || level.is_empty() {
            return Err(BadFilter(format!(
                "{level:?} in {part:?} is no level; use off, error, warn, info, debug or trace"
            )));
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || "_-:".contains(c);
        if target.is_some_and(|name| name.is_empty() || !name.chars().all(legal)) {
            return Err(BadFilter(format!(
                "{part:?} has no usable target; use for example update_service=debug"
            )));
        }
    }
    EnvFilter::try_new(text).map_err(|error| BadFilter(error.to_string()))
}

/// Installs the subscriber for the process.
///
/// # Errors
/// When one is installed already.
pub fn install(format: Format, filter: EnvFilter) -> Result<(), SetGlobalDefaultError> {
    let lines = fmt::layer()
        .with_writer(|| output::Log)
        // Colours would be indistinguishable from those that a text brings along.
        .with_ansi(false);
    let lines = match format {
        Format::Text => lines.boxed(),
        Format::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(filter).with(lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_refused_by_name() {
        for (text, named) in [
            ("chatty", "\"chatty\""),
            ("update_service=loud", "\"loud\""),
            ("update_service=", "\"\""),
            ("=debug", "no usable target"),
            ("info,,debug", "\"\""),
            ("3", "\"3\""),
        ] {
            let refused = parse(text).unwrap_err().to_string();
            assert!(refused.contains(named), "{text:?}: {refused}");
        }
        assert_eq!(parse(" ").unwrap().to_string(), "info");
    }
}
