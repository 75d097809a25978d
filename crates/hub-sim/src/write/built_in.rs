//! Checks of the kinds that Kubernetes itself defines.

use serde_json::Value;

use super::{metadata, text};
use crate::json::At as _;
use crate::kind::Kind;
use crate::schema::{Cause, CauseKind};

/// Causes that kinds of Kubernetes have of their own.
pub(super) fn causes(kind: &Kind, object: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if kind.group.is_empty() {
        causes.extend(core_finalizer_causes(object));
    }
    // Their own check of a change includes the check of a new object.
    if live.is_some() && kind.group.is_empty() {
        causes.extend(metadata::metadata_causes(
            object,
            &metadata::common_causes(object),
        ));
        causes.extend(core_finalizer_causes(object));
    }
    if kind.kind == "Event" && live.is_none() {
        causes.extend(event_causes(object));
    }
    if matches!(kind.kind.as_str(), "ConfigMap" | "Secret") {
        causes.extend(data_cause(kind, object));
        causes.extend(key_causes(object));
        causes.extend(live.into_iter().flat_map(|live| fixed_causes(kind, object, live)));
    }
    if kind.kind == "Lease" {
        for field in ["leaseDurationSeconds", "leaseTransitions"] {
            let least = i64::from(field == "leaseDurationSeconds");
            let spec = object.get("spec");
            let value = spec.and_then(|spec| spec.get(field)).and_then(Value::as_i64);
            if let Some(value) = value.filter(|value| *value < least) {
                let rule = if least == 1 {
                    "must be greater than 0"
                } else {
                    "must be greater than or equal to 0"
                };
                let text = format!("Invalid value: {value}: {rule}");
                causes.push(Cause::new(&format!("spec.{field}"), CauseKind::Invalid, text));
            }
        }
    }
    causes
}

/// What config maps and secrets hold is limited.
fn data_cause(kind: &Kind, object: &Value) -> Option<Cause> {
    const MOST: usize = 1024 * 1024;
    let texts = |field: &str| object.get(field).and_then(Value::as_object).into_iter().flatten();
    let size = |(_, text): (&String, &Value)| text.as_str().unwrap_or_default().len();
    let (plain, encoded) = if kind.kind == "Secret" {
        ("stringData", "data")
    } else {
        ("data", "binaryData")
    };
    // Three bytes are four letters.
    let total = texts(plain).map(size).sum::<usize>() + texts(encoded).map(size).sum::<usize>() / 4 * 3;
    let field = if kind.kind == "Secret" { "data" } else { "[]" };
    let text = format!("Too long: may not be more than {MOST} bytes");
    (total > MOST).then(|| Cause::new(field, CauseKind::TooLong, text))
}

/// The keys of config maps and secrets are names of files, and each is there once.
fn key_causes(object: &Value) -> Vec<Cause> {
    let entries = |field: &str| object.get(field).and_then(Value::as_object);
    let binary = entries("binaryData");
    let mut causes = Vec::new();
    for field in ["data", "binaryData"] {
        for key in entries(field).into_iter().flatten().map(|(key, _)| key) {
            let is_twice = field == "data" && binary.is_some_and(|binary| binary.contains_key(key));
            let twice = is_twice.then_some("duplicate of key present in binaryData");
            for why in key_problem(key).into_iter().chain(twice) {
                let text = format!("Invalid value: {}: {why}", Value::from(key.as_str()));
                causes.push(Cause::new(&format!("{field}[{key}]"), CauseKind::Invalid, text));
            }
        }
    }
    causes
}

fn key_problem(key: &str) -> Option<&'static str> {
    const LETTERS: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                           'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_' | b'.');
    match key {
        "." => Some("must not be '.'"),
        ".." => Some("must not be '..'"),
        key if key.len() > 253 => Some("must be no more than 253 bytes"),
        key if key.is_empty() || !key.bytes().all(is_letter) => Some(LETTERS),
        key if key.starts_with("..") => Some("must not start with '..'"),
        _ => None,
    }
}

/// What cannot be changed: the type of a secret, and the content of what says that it is immutable.
fn fixed_causes(kind: &Kind, object: &Value, live: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if kind.kind == "Secret" && object.get("type") != live.get("type") {
        let shown = object.get("type").unwrap_or(&Value::Null);
        let text = format!("Invalid value: {shown}: field is immutable");
        causes.push(Cause::new("type", CauseKind::Invalid, text));
    }
    let is_fixed = |object: &Value| object.get("immutable") == Some(&Value::Bool(true));
    if is_fixed(live) {
        let fields = ["data", "binaryData"];
        let changed = fields
            .into_iter()
            .filter(|field| object.get(field) != live.get(field));
        let freed = (!is_fixed(object)).then_some("immutable");
        let why = "Forbidden: field is immutable when `immutable` is set";
        let cause = |field: &str| Cause::new(field, CauseKind::Forbidden, why);
        causes.extend(freed.into_iter().chain(changed).map(cause));
    }
    causes
}

/// Finalizers of the core group must have a domain.
fn core_finalizer_causes(object: &Value) -> Vec<Cause> {
    const WHY: &str = "name is neither a standard finalizer name nor is it fully qualified";
    let finalizers = object.at("/metadata/finalizers").and_then(Value::as_array);
    let names = finalizers
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .enumerate();
    let is_odd =
        |name: &str| !name.contains('/') && !["orphan", "foregroundDeletion", "kubernetes"].contains(&name);
    names
        .filter(|(_, name)| is_odd(name))
        .map(|(at, name)| {
            let text = format!("Invalid value: {}: {WHY}", Value::from(name));
            Cause::new(&format!("metadata.finalizers[{at}]"), CauseKind::Invalid, text)
        })
        .collect()
}

/// What a new event must have.
fn event_causes(event: &Value) -> Vec<Cause> {
    let required = |field: &str| Cause::new(field, CauseKind::Required, "Required value");
    let invalid =
        |field: &str, text: &str| Cause::new(field, CauseKind::Invalid, format!("Invalid value: {text}"));
    let mut causes = Vec::new();
    let namespace = text(event, "/regarding/namespace");
    if namespace.is_empty() && !matches!(text(event, "/metadata/namespace"), "default" | "kube-system") {
        causes.push(invalid(
            "involvedObject.namespace",
            "\"\": does not match event.namespace",
        ));
    }
    let controller = text(event, "/reportingController");
    if controller.is_empty() {
        causes.push(required("reportingController"));
        causes.push(invalid(
            "reportingController",
            "\"\": name part must be non-empty",
        ));
    }
    if let Some(why) = metadata::qualified_name_problem(controller) {
        causes.push(invalid(
            "reportingController",
            &format!("{}: {why}", Value::from(controller)),
        ));
    }
    for (field, most) in [
        ("reportingInstance", 128),
        ("action", 128),
        ("reason", 128),
        ("note", 1024),
    ] {
        let length = text(event, &format!("/{field}")).len();
        if length == 0 && field != "note" {
            causes.push(required(field));
        }
        if length > most {
            let field = if field == "note" { "message" } else { field };
            causes.push(invalid(
                field,
                &format!("\"\": can have at most {most} characters"),
            ));
        }
    }
    if let Some(series) = event.get("series").filter(|series| series.is_object()) {
        if series.get("count").and_then(Value::as_i64).unwrap_or_default() < 2 {
            causes.push(invalid("series.count", "\"\": should be at least 2"));
        }
        if text(series, "/lastObservedTime").is_empty() {
            causes.push(required("series.lastObservedTime"));
        }
    }
    if text(event, "/eventTime").is_empty() {
        causes.push(required("eventTime"));
    }
    let kind = text(event, "/type");
    if !matches!(kind, "Normal" | "Warning") {
        causes.push(invalid("type", &format!("\"\": has invalid value: {kind}")));
    }
    causes
}
