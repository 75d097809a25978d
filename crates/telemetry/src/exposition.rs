//! The metrics endpoint: `OpenMetrics` 1.0 for scrapers that accept it, otherwise the classic text format
//! 0.0.4.

use std::fmt;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

/// Content type of [`openmetrics`].
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Content type of [`classic`].
pub const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The response to a scrape, in the format that its `Accept` header asks for.
#[must_use]
pub fn answer(headers: &HeaderMap, registry: &Registry) -> Response {
    let accepts_openmetrics = headers.get_all(header::ACCEPT).iter().any(|value| {
        value
            .to_str()
            .is_ok_and(|value| value.contains("application/openmetrics-text"))
    });
    let (content_type, text) = if accepts_openmetrics {
        (OPENMETRICS, openmetrics(registry))
    } else {
        (CLASSIC, classic(registry))
    };
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, content_type)], text).into_response(),
        Err(fmt::Error) => (StatusCode::INTERNAL_SERVER_ERROR, "a value cannot be encoded\n").into_response(),
    }
}

/// Encodes every series as `OpenMetrics` text.
///
/// # Errors
/// Returns [`fmt::Error`] if a value cannot be encoded.
pub fn openmetrics(registry: &Registry) -> Result<String, fmt::Error> {
    let mut out = String::with_capacity(32 * 1024);
    text::encode(&mut out, registry)?;
    Ok(out)
}

/// Encodes every series in the classic text format. In this format the `TYPE` line of a counter contains the
/// name of its sample (for example `x_total`, not `x`), an info is a gauge, and there is no end marker.
///
/// # Errors
/// Returns [`fmt::Error`] if a value cannot be encoded.
pub fn classic(registry: &Registry) -> Result<String, fmt::Error> {
    let openmetrics = openmetrics(registry)?;
    let mut out = String::with_capacity(openmetrics.len());
    let mut help: Option<(&str, &str)> = None;
    for line in openmetrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                other => ("", other),
            };
            if let Some((_, text)) = help.take() {
                out.extend(["# HELP ", name, suffix, " ", text, "\n"]);
            }
            out.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            out.extend([line, "\n"]);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::info::Info;

    use super::*;

    #[test]
    fn the_classic_format_names_counters_by_their_samples_and_has_no_info() {
        let mut registry = Registry::default();
        registry.register("requests", "Requests", Counter::<u64>::default());
        registry.register("build", "The running version", Info::new([("version", "1")]));
        let expected = "# HELP requests_total Requests.\n# TYPE requests_total counter\nrequests_total 0\n\
            # HELP build_info The running version.\n# TYPE build_info gauge\nbuild_info{version=\"1\"} 1\n";
        assert_eq!(classic(&registry).unwrap(), expected);
        assert!(openmetrics(&registry).unwrap().ends_with("# EOF\n"));
    }
}
