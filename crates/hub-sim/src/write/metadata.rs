//! Checks of metadata that all kinds share: labels, owners, finalizers, and the form of names.

use serde_json::Value;

use super::text;
use crate::json::At as _;
use crate::schema::{Cause, CauseKind};

pub(super) const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
pub(super) const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// The bytes of all annotations of an object together.
const MOST_ANNOTATIONS: usize = 256 * 1024;

/// Whether the whole text matches a pattern, which is one of the constants of this file. Every write asks this of every label.
pub(super) fn matches(pattern: &'static str, text: &str) -> bool {
    let is_small = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    match pattern {
        LABEL => is_bounded(text, is_small, |letter| is_small(letter) || letter == b'-'),
        SUBDOMAIN => text
            .split('.')
            .all(|part| is_bounded(part, is_small, |letter| is_small(letter) || letter == b'-')),
        _ => is_bounded(
            text,
            |letter| letter.is_ascii_alphanumeric(),
            |letter| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_' | b'.'),
        ),
    }
}

/// Whether the first and the last letter are of one class, and all between them of another.
fn is_bounded(text: &str, at_ends: impl Fn(u8) -> bool, within: impl Fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => at_ends(*only),
        [first, between @ .., last] => {
            at_ends(*first) && at_ends(*last) && between.iter().all(|letter| within(*letter))
        }
    }
}

/// What is wrong with labels, annotations, owners and finalizers. `common`: what [`common_causes`] has found.
pub(super) fn metadata_causes(object: &Value, common: &[Cause]) -> Vec<Cause> {
    let mut causes = common.to_vec();
    let finalizers = object.at("/metadata/finalizers").and_then(Value::as_array);
    for finalizer in finalizers.into_iter().flatten().filter_map(Value::as_str) {
        causes.extend(qualified_name_problem(finalizer).map(|why| {
            let text = format!("Invalid value: {}: {why}", Value::from(finalizer));
            Cause::new("metadata.finalizers", CauseKind::Invalid, text)
        }));
    }
    causes
}

/// What is wrong with labels, annotations and owners.
pub(super) fn common_causes(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let labels = object.at("/metadata/labels").and_then(Value::as_object);
    for (name, value) in labels.into_iter().flatten() {
        if let Some(why) = qualified_name_problem(name) {
            let text = format!("Invalid value: {}: {why}", Value::from(name.as_str()));
            causes.push(Cause::new("metadata.labels", CauseKind::Invalid, text));
        }
        let value = value.as_str().unwrap_or_default();
        if let Some(why) = label_value_problem(value) {
            let text = format!("Invalid value: {}: {why}", Value::from(value));
            causes.push(Cause::new("metadata.labels", CauseKind::Invalid, text));
        }
    }
    causes.extend(annotation_causes(object));
    let owners = object.at("/metadata/ownerReferences").and_then(Value::as_array);
    causes.extend(owners.into_iter().flat_map(|owners| controller_causes(owners)));
    for owner in owners.into_iter().flatten() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            let value = owner.get(field).and_then(Value::as_str);
            if value.is_none_or(str::is_empty) {
                let at = format!("metadata.ownerReferences.{field}");
                let why = if field == "apiVersion" { "version" } else { field };
                let text = format!("Invalid value: \"\": {why} must not be empty");
                causes.push(Cause::new(&at, CauseKind::Invalid, text));
            }
        }
    }
    causes
}

/// Only one owner can be the controller.
fn controller_causes(owners: &[Value]) -> Vec<Cause> {
    let mut controllers = owners
        .iter()
        .filter(|owner| owner.get("controller") == Some(&Value::Bool(true)));
    let Some(first) = controllers.next() else {
        return Vec::new();
    };
    let all: Vec<String> = owners.iter().map(shown_owner).collect();
    let name = |owner: &Value| format!("{}/{}", text(owner, "/kind"), text(owner, "/name"));
    let cause = |other: &Value| {
        let text = format!(
            "Invalid value: [{}]: Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
            all.join(","),
            name(first),
            name(other)
        );
        Cause::new("metadata.ownerReferences", CauseKind::Invalid, text)
    };
    controllers.map(cause).collect()
}

/// An owner as the server prints it.
fn shown_owner(owner: &Value) -> String {
    const FIELDS: [&str; 6] = [
        "apiVersion",
        "kind",
        "name",
        "uid",
        "controller",
        "blockOwnerDeletion",
    ];
    let fields = FIELDS
        .into_iter()
        .filter_map(|field| Some(format!("\"{field}\":{}", owner.get(field)?)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// What is wrong with annotations: their names, whose case does not matter, and the size of all together.
fn annotation_causes(object: &Value) -> Vec<Cause> {
    let annotations = object.at("/metadata/annotations").and_then(Value::as_object);
    let (mut causes, mut size) = (Vec::new(), 0);
    for (name, value) in annotations.into_iter().flatten() {
        size += name.len() + value.as_str().unwrap_or_default().len();
        if let Some(why) = qualified_name_problem(&name.to_ascii_lowercase()) {
            let text = format!("Invalid value: {}: {why}", Value::from(name.as_str()));
            causes.push(Cause::new("metadata.annotations", CauseKind::Invalid, text));
        }
    }
    if size > MOST_ANNOTATIONS {
        let text = format!("Too long: may not be more than {MOST_ANNOTATIONS} bytes");
        causes.push(Cause::new("metadata.annotations", CauseKind::TooLong, text));
    }
    causes
}

/// What is wrong with the value of a label; `None` if nothing is.
pub(crate) fn label_value_problem(value: &str) -> Option<&'static str> {
    const WHY: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
                       and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
                       validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    let is_right = value.is_empty() || (value.len() <= 63 && matches(NAME, value));
    (!is_right).then_some(WHY)
}

/// What is wrong with a name that may have a domain before a slash; `None` if nothing is.
pub(crate) fn qualified_name_problem(name: &str) -> Option<String> {
    let (prefix, own) = name
        .rsplit_once('/')
        .map_or((None, name), |(prefix, own)| (Some(prefix), own));
    if prefix.is_some_and(|prefix| !matches(SUBDOMAIN, prefix)) || own.len() > 63 || !matches(NAME, own) {
        return Some(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
             character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
                .to_owned(),
        );
    }
    None
}
