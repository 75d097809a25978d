//! How the rules read fields of objects.

use std::time::Duration;

use api::names::probe_name;
use hub_sim::{At as _, Object};
use serde_json::Value;

/// Major, minor and patch.
pub(super) type Version = (u64, u64, u64);

/// Reads `4.14.12`.
pub(super) fn version(text: &str) -> Option<Version> {
    let mut parts = text.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?))
}

/// A text of a JSON value.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.at(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A label of an object.
pub(super) fn label<'a>(object: &'a Object, name: &str) -> &'a str {
    let found = object.labels.iter().find(|(key, _)| &**key == name);
    found.map_or("", |(_, value)| value)
}

/// Reads `90s`, `3m` or `3h`.
pub(super) fn duration(text: &str) -> Duration {
    let number = |unit: &str| {
        text.strip_suffix(unit)
            .and_then(|number| number.parse::<u64>().ok())
    };
    match (number("s"), number("m"), number("h")) {
        (Some(seconds), _, _) => Duration::from_secs(seconds),
        (_, Some(minutes), _) => Duration::from_mins(minutes),
        (_, _, Some(hours)) => Duration::from_hours(hours),
        _ => Duration::ZERO,
    }
}

/// Whether a work has the name of a probe.
pub(super) fn is_probe(cluster: &str, name: &str) -> bool {
    name == probe_name(cluster)
}
