//! Structured logs on standard error, as text or JSON, with a filter that can be changed at runtime.
//!
//! A filter with an unknown part is rejected, because a mistyped level must not silence or flood the log.
//! Objects of the hub are never logged: an action may contain a Secret that readers of the log may not see.
//! The log has no colors, because [`terminal`](crate::terminal) escapes all control characters.

use clap::ValueEnum;
use serde::Deserialize;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::SetGlobalDefaultError;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

pub use tracing_subscriber::EnvFilter;

use crate::terminal;

/// Format of the log lines.
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

/// Reads and changes the filter of the running process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogControl {
    handle: reload::Handle<EnvFilter, Registry>,
}

impl LogControl {
    /// The current filter.
    #[must_use]
    pub fn current(&self) -> String {
        self.handle.with_current(ToString::to_string).unwrap_or_default()
    }

    /// Replaces the filter, for example by `info` or `controller=debug,info`.
    ///
    /// # Errors
    /// [`BadFilter`] names the part that is not understood; the current filter stays.
    pub fn set(&self, text: &str) -> Result<(), BadFilter> {
        let filter = parse(text)?;
        self.handle
            .reload(filter)
            .map_err(|error| BadFilter(error.to_string()))
    }
}

/// The filter of a flag or variable. An empty one, for example from an empty `RUST_LOG`, means `info`.
#[must_use]
pub fn or_default(text: &str) -> &str {
    match text.trim() {
        "" => "info",
        filter => filter,
    }
}

/// Parses a filter: parts separated by commas, each `LEVEL` or `TARGET=LEVEL`.
///
/// This is stricter than `tracing`, which accepts any word as a target at level trace.
///
/// # Errors
/// [`BadFilter`] names the part that is not understood.
pub fn parse(text: &str) -> Result<EnvFilter, BadFilter> {
    let text = text.trim();
    if text.is_empty() {
        return Err(BadFilter(
            "the filter is empty; use for example info or controller=debug,info".to_owned(),
        ));
    }
    for part in text.split(',') {
        let (target, level) = part
            .split_once('=')
            .map_or((None, part), |(target, level)| (Some(target), level));
        if level.is_empty() || level.parse::<LevelFilter>().is_err() || level.parse::<usize>().is_ok() {
            return Err(BadFilter(format!(
                "{level:?} in {part:?} is not a level; use off, error, warn, info, debug or trace"
            )));
        }
        let named = |name: &str| {
            !name.is_empty()
                && name
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || "_-:".contains(letter))
        };
        if target.is_some_and(|name| !named(name)) {
            return Err(BadFilter(format!(
                "{part:?} has no usable target; use for example controller=debug"
            )));
        }
    }
    EnvFilter::try_new(text).map_err(|error| BadFilter(error.to_string()))
}

/// False for log entries that may contain an object. If a response cannot be decoded, the client logs its
/// whole text as a warning; at lower levels it also logs rejections and statuses. The error is returned as
/// well, without the text.
fn holds_no_object(metadata: &Metadata<'_>) -> bool {
    metadata.target() != "kube_client::client" || *metadata.level() == Level::ERROR
}

/// Creates the subscriber without installing it. Its lines go to `writer`.
pub fn subscriber<W>(
    format: Format,
    filter: EnvFilter,
    writer: W,
) -> (impl tracing::Subscriber + Send + Sync, LogControl)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer().with_writer(writer).with_ansi(false);
    let lines = match format {
        Format::Text => lines.boxed(),
        Format::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    (
        tracing_subscriber::registry()
            .with(filter)
            .with(filter_fn(holds_no_object))
            .with(lines),
        LogControl { handle },
    )
}

/// Installs the subscriber for the process.
///
/// # Errors
/// Returns an error if a subscriber is already installed.
pub fn install(format: Format, filter: EnvFilter) -> Result<LogControl, SetGlobalDefaultError> {
    let (subscriber, control) = subscriber(format, filter, || terminal::Log);
    tracing::subscriber::set_global_default(subscriber)?;
    Ok(control)
}

#[cfg(test)]
mod tests {
    use tracing::subscriber::DefaultGuard;

    use super::*;

    fn for_this_thread(filter: &str) -> (LogControl, DefaultGuard) {
        let (subscriber, control) = subscriber(Format::Text, parse(filter).unwrap(), std::io::sink);
        (control, tracing::subscriber::set_default(subscriber))
    }

    #[test]
    fn a_filter_is_replaced_while_running_and_read_back() {
        let (control, _guard) = for_this_thread("info");
        assert_eq!(control.current(), "info");
        assert!(!tracing::enabled!(target: "controller::plan", tracing::Level::DEBUG));
        control.set("controller=debug,warn").unwrap();
        assert!(tracing::enabled!(target: "controller::plan", tracing::Level::DEBUG));
        assert!(!tracing::enabled!(target: "kube", tracing::Level::INFO));
    }

    #[test]
    fn garbage_is_refused_by_name_and_changes_nothing() {
        let (control, _guard) = for_this_thread("info");
        for (text, named) in [
            ("", "empty"),
            ("chatty", "\"chatty\""),
            ("controller=loud", "\"loud\""),
            ("controller=", "\"\""),
            ("=debug", "no usable target"),
            ("info,,debug", "\"\""),
            ("a b=info", "no usable target"),
            ("3", "\"3\""),
            ("update_service=loud", "\"loud\""),
        ] {
            let refused = control.set(text).unwrap_err().to_string();
            assert!(refused.contains(named), "{text:?}: {refused}");
        }
        assert_eq!(control.current(), "info");
        assert_eq!((or_default(" "), or_default(" debug ")), ("info", "debug"));
    }
}
