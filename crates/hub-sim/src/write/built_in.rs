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
