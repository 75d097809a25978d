//! Structured logs on standard error, as text or JSON, with a level that can be changed while running.
//!
//! Owns the subscriber and its filter. Refuses filters it does not fully understand: a mistyped level must not silence
//! or flood the log. Never lets objects of the hub into the log: an action may hold a Secret, and who reads logs need not
//! be allowed to read it.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::SetGlobalDefaultError;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

/// Form of the log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
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
    /// The filter in force.
    #[must_use]
    pub fn current(&self) -> String {
        self.handle.with_current(ToString::to_string).unwrap_or_default()
    }

    /// Replaces the filter, for example by `info` or `controller=debug,info`.
    ///
    /// # Errors
    /// [`BadFilter`] names the part that is not understood; the filter in force stays.
    pub fn set(&self, text: &str) -> Result<(), BadFilter> {
        let filter = parse(text)?;
        self.handle
            .reload(filter)
            .map_err(|error| BadFilter(error.to_string()))
    }
}

/// Reads a filter: parts separated by commas, each `LEVEL` or `TARGET=LEVEL`.
///
/// Stricter than `tracing`, for which any word is a target at level trace.
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
                "{level:?} in {part:?} is no level; use off, error, warn, info, debug or trace"
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

/// False for what may repeat an object. When an answer cannot be decoded, the client prints its whole text as a warning, at
/// lower levels also that of refusals and statuses; what went wrong comes back as an error, too, without the text.
fn holds_no_object(metadata: &Metadata<'_>) -> bool {
    metadata.target() != "kube_client::client" || *metadata.level() == Level::ERROR
}

/// Builds the subscriber without installing it.
fn subscriber<W>(
    format: Format,
    filter: EnvFilter,
    writer: W,
) -> (impl tracing::Subscriber + Send + Sync, LogControl)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer()
        .with_writer(writer)
        .with_ansi(std::io::stderr().is_terminal());
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
/// When one is installed already.
pub fn install(format: Format, filter: EnvFilter) -> Result<LogControl, SetGlobalDefaultError> {
    let (subscriber, control) = subscriber(format, filter, std::io::stderr);
    tracing::subscriber::set_global_default(subscriber)?;
    Ok(control)
}

/// A control whose subscriber is installed for the current thread only.
#[cfg(test)]
pub(crate) fn for_this_thread(filter: &str) -> (LogControl, tracing::subscriber::DefaultGuard) {
    let (subscriber, control) = subscriber(Format::Text, parse(filter).unwrap(), std::io::stderr);
    (control, tracing::subscriber::set_default(subscriber))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;

    #[test]
    fn a_filter_is_replaced_while_running_and_read_back() {
        let (control, _guard) = for_this_thread("info");
        assert_eq!(control.current(), "info");
        assert!(!tracing::enabled!(target: "controller::plan", tracing::Level::DEBUG));
        control.set("controller=debug,warn").unwrap();
        assert!(tracing::enabled!(target: "controller::plan", tracing::Level::DEBUG));
        assert!(!tracing::enabled!(target: "kube", tracing::Level::INFO));
    }

    /// A client whose every answer is this text.
    fn client(answer: &'static str) -> kube::Client {
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(
                answer.as_bytes().to_vec(),
            )))
        });
        kube::Client::new(service, "default")
    }

    #[tokio::test]
    async fn an_answer_that_cannot_be_decoded_is_never_printed_at_whatever_level() {
        let (mut log, path) = tempfile::NamedTempFile::new().unwrap().into_parts();
        let writer = std::sync::Mutex::new(log.try_clone().unwrap());
        let (subscriber, control) = subscriber(Format::Json, parse("info").unwrap(), writer);
        let _guard = tracing::subscriber::set_default(subscriber);
        for filter in [
            "info",
            "trace",
            "warn,kube_client=trace",
            "kube_client::client=trace",
            "kube_client::client=warn,trace",
        ] {
            control.set(filter).unwrap();
            tracing::error!("said with {filter}");
            let works: kube::Api<api::views::ManifestWork> =
                kube::Api::all(client(r#"{"kind": "Status", "items": "TOPSECRET"}"#));
            assert!(works.list(&kube::api::ListParams::default()).await.is_err());
            assert!(works.get("x").await.is_err());
            assert!(
                works
                    .delete("x", &kube::api::DeleteParams::default())
                    .await
                    .is_ok()
            );
        }
        let mut text = String::new();
        log.rewind().unwrap();
        log.read_to_string(&mut text).unwrap();
        assert!(text.contains("said with trace"), "{text}");
        assert!(!text.contains("TOPSECRET"), "{text}");
        path.close().unwrap();
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
        ] {
            let refused = control.set(text).unwrap_err().to_string();
            assert!(refused.contains(named), "{text:?}: {refused}");
        }
        assert_eq!(control.current(), "info");
    }
}
