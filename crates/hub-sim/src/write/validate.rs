//! Validation of an object before it is stored: metadata, schema, then CEL rules.
//!
//! The server checks metadata of a changed object several times: for all kinds, and again for each kind. Every check adds its
//! causes, so a bad label is reported as often.

use serde_json::Value;

use super::metadata::{LABEL, SUBDOMAIN, common_causes, matches, metadata_causes};
use super::{built_in, text};
use crate::error::ApiError;
use crate::json::At as _;
use crate::kind::Kind;
use crate::schema::{Cause, CauseKind};

/// Checks an object that is created.
pub(super) fn new_object(kind: &Kind, name: &str, object: &Value) -> Result<(), ApiError> {
    let mut causes = name_causes(kind, object);
    causes.extend(metadata_causes(object, &common_causes(object)));
    if kind.is_custom {
        causes.extend(kind.schema.check(object));
    } else {
        causes.extend(built_in::causes(kind, object, None));
    }
    add_rules(kind, object, None, &mut causes);
    refuse(kind, name, &causes)
}

/// Checks an object that is changed.
pub(super) fn changed_object(
    kind: &Kind,
    name: &str,
    object: &Value,
    live: &Value,
    subresource: &str,
) -> Result<(), ApiError> {
    let common = common_causes(object);
    let mut causes = metadata_causes(object, &common);
    if kind.is_custom && subresource.is_empty() {
        let other = type_causes(kind, object);
        if !other.is_empty() {
            causes.extend(other);
            let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
            return Err(ApiError::invalid_type(version, kind, name, &causes));
        }
    }
    // Once for all kinds, once for each.
    let found = change_causes(object, live, common);
    causes.extend(found.iter().cloned());
    causes.extend(found);
    if !kind.is_custom {
        causes.extend(built_in::causes(kind, object, Some(live)));
    } else if subresource == "status" {
        if let (Some(schema), Some(status)) = (kind.schema.field("status"), object.get("status")) {
            let found = schema.check(status);
            causes.extend(found.into_iter().map(|cause| cause.below("status")));
        }
    } else {
        causes.extend(kind.schema.check(object));
    }
    add_rules(kind, object, Some(live), &mut causes);
    refuse(kind, name, &causes)
}

/// How the type of an object differs from its kind.
pub(super) fn type_causes(kind: &Kind, object: &Value) -> Vec<Cause> {
    let version = kind.api_version();
    let fields = [("kind", kind.kind.as_str()), ("apiVersion", version.as_str())];
    let given = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let others = fields
        .into_iter()
        .filter(|(field, wanted)| given(field) != *wanted);
    others
        .map(|(field, wanted)| {
            let why = format!("Invalid value: {:?}: must be {wanted}", given(field));
            Cause::new(field, CauseKind::Invalid, why)
        })
        .collect()
}

fn refuse(kind: &Kind, name: &str, causes: &[Cause]) -> Result<(), ApiError> {
    if causes.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid(kind, name, causes))
    }
}

fn add_rules(kind: &Kind, object: &Value, live: Option<&Value>, causes: &mut Vec<Cause>) {
    if !kind.schema.has_rules {
        return;
    }
    if causes.iter().any(Cause::hides_rules) {
        causes.push(Cause::new(
            "<nil>",
            CauseKind::Invalid,
            "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing \
             errors to complete validation",
        ));
    } else {
        causes.extend(kind.schema.check_rules(object, live));
    }
}

fn name_causes(kind: &Kind, object: &Value) -> Vec<Cause> {
    let name = text(object, "/metadata/name");
    let invalid = |field: &str, value: &str, why: String| {
        Cause::new(
            field,
            CauseKind::Invalid,
            format!("Invalid value: {}: {why}", Value::from(value)),
        )
    };
    let mut causes = Vec::new();
    let problem = |value: &str| -> Option<String> {
        let (pattern, most, text) = if kind.is_namespace() {
            (
                LABEL,
                63,
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is ",
            )
        } else {
            (
                SUBDOMAIN,
                253,
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is ",
            )
        };
        if value.len() > most {
            return Some(format!("must be no more than {most} bytes"));
        }
        (!matches(pattern, value)).then(|| format!("{text}'{pattern}')"))
    };
    let prefix = text(object, "/metadata/generateName");
    if let Some(why) = Some(prefix)
        .filter(|prefix| !prefix.is_empty())
        .and_then(|prefix| problem(prefix.trim_end_matches('-')))
    {
        causes.push(invalid("metadata.generateName", prefix, why));
    }
    if name.is_empty() {
        let why = "Required value: name or generateName is required";
        causes.push(Cause::new("metadata.name", CauseKind::Required, why));
    } else if let Some(why) = problem(name) {
        causes.push(invalid("metadata.name", name, why));
    }
    causes
}

/// What a change may not do.
fn change_causes(object: &Value, live: &Value, common: Vec<Cause>) -> Vec<Cause> {
    let mut causes: Vec<Cause> = finalizer_causes(live, object).into_iter().collect();
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let (have, given) = (field_of_metadata(live, field), field_of_metadata(object, field));
        if have != given {
            let shown = given.cloned().unwrap_or_default();
            let text = format!("Invalid value: {shown}: field is immutable");
            causes.push(Cause::new(&format!("metadata.{field}"), CauseKind::Invalid, text));
        }
    }
    causes.extend(common);
    causes
}

fn field_of_metadata<'v>(object: &'v Value, field: &str) -> Option<&'v Value> {
    object.get("metadata")?.get(field)
}

/// Finalizers cannot be added to an object that is being deleted.
fn finalizer_causes(live: &Value, next: &Value) -> Option<Cause> {
    if text(live, "/metadata/deletionTimestamp").is_empty() {
        return None;
    }
    let added = added_finalizers(live, next);
    (!added.is_empty()).then(|| {
        let list: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
        let message = format!(
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            list.join(", ")
        );
        Cause::new("metadata.finalizers", CauseKind::Forbidden, message)
    })
}

fn added_finalizers(live: &Value, next: &Value) -> Vec<String> {
    let of = |object: &Value| -> Vec<String> {
        let list = object.at("/metadata/finalizers").and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(|item| Some(item.as_str()?.to_owned()))
            .collect()
    };
    let had = of(live);
    let mut added: Vec<String> = of(next).into_iter().filter(|name| !had.contains(name)).collect();
    added.sort_unstable();
    added.dedup();
    added
}

/// Warnings about names of new finalizers that others might use, too.
pub(super) fn finalizer_warnings(kind: &Kind, object: &Value, live: Option<&Value>) -> Vec<String> {
    if !kind.is_custom {
        return Vec::new();
    }
    let nothing = Value::Null;
    let is_unusual = |name: &String| {
        !name.contains('/') && !["orphan", "foregroundDeletion", "kubernetes"].contains(&name.as_str())
    };
    let added = added_finalizers(live.unwrap_or(&nothing), object);
    added
        .iter()
        .filter(|name| is_unusual(name))
        .map(|name| {
            let path = if name.contains('.') { " including a path (/)" } else { "" };
            format!(
                "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with \
                 other finalizer writers"
            )
        })
        .collect()
}
