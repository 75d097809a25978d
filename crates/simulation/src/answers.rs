//! Answers that the network gives in place of the hub.

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderValue, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// A body with these bytes.
#[must_use]
pub fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// The body of the hub as it is.
#[must_use]
pub fn plain(body: hub_sim::Body) -> Body {
    body.map_err(|never| match never {}).boxed_unsync()
}

/// The error of a connection that broke.
#[must_use]
pub fn reset() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset by peer")
}

/// A watch that ends at once because its revision has expired.
#[must_use]
pub fn expired() -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 410,
        "message": "the simulated hub does not have this revision", "reason": "Expired",
    });
    let event = json!({"type": "ERROR", "object": status});
    Response::new(whole(Bytes::from(format!("{event}\n"))))
}

/// A refusal with this code.
#[must_use]
pub fn refusal(code: u16) -> Response<Body> {
    refusal_about(code, None)
}

/// A refusal that names a field, if any.
#[must_use]
pub fn refusal_about(code: u16, field: Option<&str>) -> Response<Body> {
    let reason = match code {
        400 => "BadRequest",
        403 => "Forbidden",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        504 => "Timeout",
        _ => "InternalError",
    };
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "message": "the simulated hub refuses this request", "reason": reason,
    });
    if let Some(field) = field {
        status["details"] =
            json!({"causes": [{"field": field, "reason": "FieldValueInvalid", "message": "too long"}]});
    }
    let mut response = Response::new(whole(Bytes::from(status.to_string())));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    if code == 429 {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// An event that says that a watch is alive at a revision.
#[must_use]
pub fn bookmark(revision: &str) -> Bytes {
    let event = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": revision}}});
    Bytes::from(format!("{event}\n"))
}

/// The revision of the last of these events, if they can be read.
#[must_use]
pub fn revision_of(events: &[u8]) -> Option<String> {
    let line = events
        .split(|byte| *byte == b'\n')
        .rfind(|line| !line.is_empty())?;
    let event: Value = serde_json::from_slice(line).ok()?;
    let revision = event.pointer("/object/metadata/resourceVersion")?;
    revision.as_str().map(ToOwned::to_owned)
}
