//! Reads the protobuf in which kubectl sends objects of the kinds that Kubernetes itself defines. Answers are always JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::error::ApiError;

/// What every such body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// The type of a field, as it is in JSON.
#[derive(Clone, Copy)]
enum Of {
    Text,
    Texts,
    Base64,
    Bool,
    Int,
    Time,
    TextMap,
    Base64Map,
    Message(Fields),
    Messages(Fields),
}

/// The fields of a message: number, name and type. Others are skipped.
type Fields = &'static [(u64, &'static str, Of)];

const OWNER: Fields = &[
    (1, "kind", Of::Text),
    (3, "name", Of::Text),
    (4, "uid", Of::Text),
    (5, "apiVersion", Of::Text),
    (6, "controller", Of::Bool),
    (7, "blockOwnerDeletion", Of::Bool),
];

const METADATA: Fields = &[
    (1, "name", Of::Text),
    (2, "generateName", Of::Text),
    (3, "namespace", Of::Text),
    (5, "uid", Of::Text),
    (6, "resourceVersion", Of::Text),
    (8, "creationTimestamp", Of::Time),
    (9, "deletionTimestamp", Of::Time),
    (11, "labels", Of::TextMap),
    (12, "annotations", Of::TextMap),
    (13, "ownerReferences", Of::Messages(OWNER)),
    (14, "finalizers", Of::Texts),
];

/// What a user asks to do.
const ACCESS: Fields = &[
    (
        1,
        "resourceAttributes",
        Of::Message(&[
            (1, "namespace", Of::Text),
            (2, "verb", Of::Text),
            (3, "group", Of::Text),
            (4, "version", Of::Text),
            (5, "resource", Of::Text),
            (6, "subresource", Of::Text),
            (7, "name", Of::Text),
        ]),
    ),
    (
        2,
        "nonResourceAttributes",
        Of::Message(&[(1, "path", Of::Text), (2, "verb", Of::Text)]),
    ),
];

const UNKNOWN: Fields = &[
    (
        1,
        "type",
        Of::Message(&[(1, "apiVersion", Of::Text), (2, "kind", Of::Text)]),
    ),
    (2, "raw", Of::Base64),
];

fn fields_of(kind: &str) -> Option<Fields> {
    Some(match kind {
        "Namespace" | "SelfSubjectReview" | "SelfSubjectRulesReview" => {
            &[(1, "metadata", Of::Message(METADATA))]
        }
        "ConfigMap" => &[
            (1, "metadata", Of::Message(METADATA)),
            (2, "data", Of::TextMap),
            (3, "binaryData", Of::Base64Map),
            (4, "immutable", Of::Bool),
        ],
        "Secret" => &[
            (1, "metadata", Of::Message(METADATA)),
            (2, "data", Of::Base64Map),
            (3, "type", Of::Text),
            (4, "stringData", Of::TextMap),
            (5, "immutable", Of::Bool),
        ],
        "ServiceAccount" => &[
            (1, "metadata", Of::Message(METADATA)),
            (2, "secrets", Of::Messages(&[(3, "name", Of::Text)])),
            (3, "imagePullSecrets", Of::Messages(&[(1, "name", Of::Text)])),
            (4, "automountServiceAccountToken", Of::Bool),
        ],
        "SelfSubjectAccessReview" => &[
            (1, "metadata", Of::Message(METADATA)),
            (2, "spec", Of::Message(ACCESS)),
        ],
        "DeleteOptions" => &[
            (1, "gracePeriodSeconds", Of::Int),
            (
                2,
                "preconditions",
                Of::Message(&[(1, "uid", Of::Text), (2, "resourceVersion", Of::Text)]),
            ),
            (4, "propagationPolicy", Of::Text),
            (5, "dryRun", Of::Texts),
        ],
        _ => return None,
    })
}

/// Whether a body is such protobuf.
pub(super) fn is_protobuf(body: &[u8]) -> bool {
    body.starts_with(MAGIC)
}

/// Reads a body.
pub(super) fn parse(body: &[u8]) -> Result<Value, ApiError> {
    let malformed = || ApiError::bad_request("the body is malformed protobuf");
    let envelope = body
        .strip_prefix(MAGIC)
        .and_then(|body| message(body, UNKNOWN))
        .ok_or_else(malformed)?;
    let text = |pointer: &str| {
        envelope
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (version, kind) = (text("/type/apiVersion"), text("/type/kind"));
    let fields = fields_of(kind).ok_or_else(|| {
        ApiError::unsupported_media_type(format!("objects of kind {kind} are only read as JSON"))
    })?;
    let raw = STANDARD.decode(text("/raw")).map_err(|_| malformed())?;
    let mut object = message(&raw, fields).ok_or_else(malformed)?;
    object["apiVersion"] = version.into();
    object["kind"] = kind.into();
    Ok(object)
}

fn message(bytes: &[u8], fields: Fields) -> Option<Value> {
    let mut object = Map::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (number, wire) = next(&mut rest)?;
        let Some((_, name, of)) = fields.iter().find(|(have, _, _)| *have == number) else {
            continue;
        };
        let field = object.entry(*name);
        match (of, wire) {
            (Of::Bool, Wire::Number(number)) => {
                field.or_insert(Value::Null);
                object[*name] = (number != 0).into();
            }
            (Of::Int, Wire::Number(number)) => {
                field.or_insert(Value::Null);
                object[*name] = i64::from_ne_bytes(number.to_ne_bytes()).into();
            }
            (Of::TextMap | Of::Base64Map, Wire::Bytes(entry)) => {
                let value = if matches!(of, Of::TextMap) {
                    Of::Text
                } else {
                    Of::Base64
                };
                let pair: Fields = if matches!(value, Of::Text) {
                    &[(1, "key", Of::Text), (2, "value", Of::Text)]
                } else {
                    &[(1, "key", Of::Text), (2, "value", Of::Base64)]
                };
                let entry = message(entry, pair)?;
                let key = entry
                    .get("key")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned();
                let map = field.or_insert_with(|| Value::Object(Map::new()));
                map[key] = entry.get("value").cloned().unwrap_or_else(|| "".into());
            }
            (Of::Texts, Wire::Bytes(text)) => {
                push(field.or_insert_with(|| Value::Array(Vec::new())), string(text)?);
            }
            (Of::Messages(fields), Wire::Bytes(bytes)) => {
                push(
                    field.or_insert_with(|| Value::Array(Vec::new())),
                    message(bytes, fields)?,
                );
            }
            (of, Wire::Bytes(bytes)) => {
                let value = single(*of, bytes)?;
                object.insert((*name).to_owned(), value);
            }
            (_, Wire::Number(_)) => return None,
        }
    }
    Some(Value::Object(object))
}

fn single(of: Of, bytes: &[u8]) -> Option<Value> {
    match of {
        Of::Text => string(bytes),
        Of::Base64 => Some(STANDARD.encode(bytes).into()),
        Of::Time => {
            let time = message(bytes, &[(1, "seconds", Of::Int)])?;
            let at = time
                .get("seconds")
                .and_then(Value::as_i64)
                .and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0));
            Some(at.map_or(Value::Null, |at| {
                at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true).into()
            }))
        }
        Of::Message(fields) => message(bytes, fields),
        _ => None,
    }
}

fn string(bytes: &[u8]) -> Option<Value> {
    std::str::from_utf8(bytes).ok().map(Value::from)
}

fn push(list: &mut Value, item: Value) {
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}

enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The next field of a message: its number and value.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(u64, Wire<'a>)> {
    let tag = varint(rest)?;
    let wire = match tag & 7 {
        0 => Wire::Number(varint(rest)?),
        1 => Wire::Bytes(take(rest, 8)?),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            Wire::Bytes(take(rest, length)?)
        }
        5 => Wire::Bytes(take(rest, 4)?),
        _ => return None,
    };
    Some((tag >> 3, wire))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, left) = rest.split_first()?;
        *rest = left;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
